"""`workhook doctor` is consistent: each problem is reported once, with advice that fixes it, and determines the exit
status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_kit import Cli
from tests.harness.databases import Databases
from workhook.core.vault import new_key


@pytest.fixture
def cli(backend: Databases, tmp_path: Path) -> Cli:
    return Cli(tmp_path / "data", {name: str(value) for name, value in backend.new(tmp_path).items()})


def found(cli: Cli) -> dict[str, Any]:
    """Return the failed checks by name, after comparing the text output, the JSON output and the exit status."""
    done = cli.run("doctor", "--json")
    told = json.loads(done.stdout)
    bad = {each["name"]: each for each in told["checks"] if not each["ok"]}
    assert told["ok"] is (not bad)
    assert done.returncode == (1 if bad else 0)
    text = cli.run("doctor")
    assert text.returncode == done.returncode
    assert {line[5:].partition(":")[0] for line in text.stdout.splitlines() if line.startswith("BAD ")} == set(bad)
    assert all(each["advice"] for each in bad.values())
    return bad


def test_before_the_first_start_only_missing_data_is_reported_and_nothing_is_created(cli: Cli) -> None:
    assert set(found(cli)) <= {"data folder", "database"}
    assert not cli.data.exists()
    cli.data.mkdir()
    assert cli.run("migrate").returncode == 0
    assert found(cli) == {}
    assert not (cli.data / "secret.key").exists()  # the doctor creates no key


@pytest.mark.parametrize("left", ["nothing", "another key", "no key"])
def test_a_wrong_key_is_reported_once(cli: Cli, left: str) -> None:
    cli.setup()
    path = cli.data / "secret.key"
    path.unlink()
    if left != "nothing":
        path.touch(mode=0o600)
        path.write_bytes(new_key() if left == "another key" else b"nonsense")
    bad = found(cli)
    assert set(bad) == {"key"}
    assert "Restore the file" in bad["key"]["advice"]
    assert cli.run("user", "list").returncode == 1  # other commands find it as well


def test_an_unreadable_key_is_reported(cli: Cli) -> None:
    cli.setup()
    path = cli.data / "secret.key"
    path.unlink()
    path.mkdir()  # not even root can read a directory as a file
    assert "Give this user read access to" in found(cli)["key"]["advice"]


def test_an_unreadable_key_explains_a_missing_database(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "data", {})
    (cli.data / "secret.key").mkdir(parents=True)
    bad = found(cli)
    assert bad["database"]["detail"] == "SQLite without a schema"
    assert bad["database"]["advice"] == bad["key"]["advice"]


def test_an_unreachable_postgresql_is_named_once(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "data", {"database_url": "postgresql://nobody@127.0.0.1:1/nowhere"})
    assert found(cli)["database"]["detail"].startswith("PostgreSQL at 127.0.0.1:1: ")


def test_an_unsupported_trace_protocol_is_reported(cli: Cli) -> None:
    cli.setup()
    cli.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:4317"
    assert found(cli) == {}
    cli.environment["OTEL_EXPORTER_OTLP_PROTOCOL"] = "grpc"
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in found(cli)["traces"]["advice"]


def test_a_wrong_key_in_the_settings_is_reported(cli: Cli) -> None:
    cli.environment["WORKHOOK_SECRET_KEY"] = "the-first-secret-key"
    cli.setup()
    assert found(cli) == {}
    cli.environment["WORKHOOK_SECRET_KEY"] = "another-secret-key"
    bad = found(cli)
    assert set(bad) == {"key"}
    assert "WORKHOOK_SECRET_KEY" in bad["key"]["advice"]


def test_an_organization_near_its_quota_is_named(cli: Cli) -> None:
    cli.setup("--project", "Website")
    cli.environment["WORKHOOK_ORGANIZATION_MAX_ROWS"] = "1000"
    assert found(cli) == {}
    cli.environment["WORKHOOK_ORGANIZATION_MAX_ROWS"] = "1"
    bad = found(cli)
    assert set(bad) == {"quotas"}
    assert bad["quotas"]["detail"].startswith("acme ")
    # The other commands of these tests are forked from a process that has already loaded all tables.
    command = [sys.executable, "-m", "workhook", "doctor", "--json"]
    done = subprocess.run(command, env=cli.environment, capture_output=True, text=True)
    told = {each["name"]: each["detail"] for each in json.loads(done.stdout)["checks"]}
    assert told["quotas"] == bad["quotas"]["detail"], done.stderr
    assert "organization_max_rows" in bad["quotas"]["advice"]
