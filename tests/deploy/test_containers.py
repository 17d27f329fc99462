"""The container image and the Compose file, as far as they can be tested without a container engine.

`test_packages.py` performs the build steps of the image: it installs a wheel and the locked packages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from scripts.check_repository import repository_files
from tests.harness.server import Server
from workhook.core.config import Settings, load

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("server", "worker")


def instructions() -> list[tuple[str, str]]:
    """Return the instructions as names and arguments, with joined lines and the default build arguments."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    text = text.replace("${REQUIREMENTS}", re.findall(r"^ARG REQUIREMENTS=(\w+)$", text, re.MULTILINE)[0])
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, re.sub(r"\s+", " ", rest)) for name, _, rest in (line.partition(" ") for line in lines)]


STEPS = instructions()
LAST = STEPS[max(number for number, (name, _) in enumerate(STEPS) if name == "FROM") :]


def last_stage(name: str) -> str:
    """Return the arguments of an instruction in the final stage."""
    [found] = [rest for each, rest in LAST if each == name]
    return found


# --- Containerfile ------------------------------------------------------------------------------------------------


def test_the_image_copies_only_files_in_the_build_context() -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    copied = set()
    for name, rest in STEPS:
        if name == "COPY" and "--from" not in rest:
            copied |= set(rest.split()[:-1])
    tracked = {path.relative_to(ROOT).as_posix() for path in repository_files(ROOT)}
    for each in copied:
        assert each.partition("/")[0] in allowed
        assert any(path == each or path.startswith(f"{each}/") for path in tracked), each
    assert allowed == {each.partition("/")[0] for each in copied}


def test_the_build_installs_only_locked_packages() -> None:
    installs = [rest for name, rest in STEPS if name == "RUN" and "pip install" in rest]
    build, run, wheel = installs
    for kind, locked in (("build", build), ("runtime", run)):
        assert f"/pip install --require-hashes --no-deps --only-binary :all: -r requirements/{kind}.txt" in locked
    assert "--no-index --no-deps /wheel/" in wheel
    assert "/opt/build" not in last_stage("COPY"), "what builds it is not in the image"


def test_the_image_runs_as_an_unprivileged_user() -> None:
    user, group = last_stage("USER").split(":")
    assert user.isdigit()
    assert group.isdigit()
    assert int(user) > 0
    [made] = [rest for name, rest in LAST if name == "RUN"]
    assert f"useradd --uid {user}" in made
    assert f"groupadd --gid {group}" in made
    assert "-m 0700 /data" in made
    assert last_stage("VOLUME") == "/data"
    assert last_stage("COPY") == "--from=build /opt/workhook /opt/workhook", "what built it stays behind"
    assert json.loads(last_stage("ENTRYPOINT")) + json.loads(last_stage("CMD")) == ["workhook", "serve"]


def environment() -> dict[str, str]:
    pairs = (each.partition("=") for each in last_stage("ENV").split())
    return {name: value for name, _, value in pairs if name.startswith("WORKHOOK_")}


def test_the_image_sets_only_existing_settings() -> None:
    settings = load({}, environment())
    assert settings.host == "0.0.0.0"
    assert str(settings.data) == last_stage("VOLUME")
    assert last_stage("EXPOSE") == str(Settings().port)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data", {}).start()
    yield server
    server.close()


def test_the_health_checks_query_the_server(served: Server) -> None:
    """The commands of the image and the worker succeed with a running server and fail without."""
    ours = last_stage("HEALTHCHECK").partition("CMD ")[2]
    commands = [json.loads(ours), SERVICES["worker"]["healthcheck"]["test"][1:]]
    ports = []
    for program, *words in commands:
        assert program == "python"
        [port] = re.findall(r"127\.0\.0\.1:(\d+)", words[-1])
        ports.append(port)
        words[-1] = words[-1].replace(f"http://127.0.0.1:{port}", served.url)
        subprocess.run([sys.executable, *words], check=True, timeout=60)
    assert ports == [str(Settings().port), SERVICES["worker"]["command"][-1].partition(":")[2]]
    served.stop()
    for _, *words in commands:
        words[-1] = re.sub(r"http://[^/]*", served.url, words[-1])
        assert subprocess.run([sys.executable, *words], check=False, capture_output=True, timeout=60).returncode != 0


# --- compose.yaml -------------------------------------------------------------------------------------------------


def test_no_secret_has_a_default() -> None:
    """Both secrets are files which the operator must create. Without them nothing starts."""
    for secret in COMPOSE["secrets"].values():
        assert set(secret) == {"file"}
        assert not (ROOT / secret["file"]).exists()
    ignored = subprocess.run(["git", "check-ignore", "-q", "secrets/database_url"], cwd=ROOT, check=False)
    assert ignored.returncode == 0, "no one commits them"
    for service in SERVICES.values():
        for name, value in service["environment"].items():
            if re.search("PASSWORD|KEY|TOKEN|DATABASE_URL", name):
                assert name.endswith("_FILE")
                assert value == f"/run/secrets/{Path(value).name}"
                assert Path(value).name in service["secrets"]
    assert set(COMPOSE["secrets"]) == {each for service in SERVICES.values() for each in service["secrets"]}


@pytest.mark.parametrize("name", OURS)
def test_a_server_refuses_to_start_without_its_secret(name: str, tmp_path: Path) -> None:
    """An empty secret is refused too, so that the server does not fall back to a database of its own."""
    for secret in (tmp_path / "missing", tmp_path / "empty"):
        if secret.name == "empty":
            secret.touch()
        given = {"WORKHOOK_DATABASE_URL_FILE": str(secret), "WORKHOOK_DATA": str(tmp_path / "data")}
        kept = {key: value for key, value in os.environ.items() if not key.startswith("WORKHOOK_")}
        command = [sys.executable, "-m", "workhook", *SERVICES[name]["command"]]
        done = subprocess.run(command, env={**kept, **given}, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode != 0
        assert "WORKHOOK_DATABASE_URL_FILE" in done.stderr


@pytest.mark.parametrize("name", OURS)
def test_services_are_restricted_and_have_valid_settings(name: str, tmp_path: Path) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert service["build"]["dockerfile"] == "Containerfile"
    assert (ROOT / service["build"]["context"]).samefile(ROOT)
    url = tmp_path / "url"
    url.write_text("postgresql://workhook:x@database/workhook\n")
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    files = {"WORKHOOK_DATABASE_URL_FILE": str(url), "WORKHOOK_METRICS_TOKEN_FILE": str(token)}
    assert set(files) <= set(service["environment"])
    given = {**environment(), **service["environment"], **files}
    assert given["WORKHOOK_BASE_URL"].startswith("${WORKHOOK_BASE_URL:?"), "refused where it is not set"
    given["WORKHOOK_BASE_URL"] = "https://work.example.com"
    settings = load({}, given)
    assert settings.database_url == "postgresql://workhook:x@database/workhook"
    assert settings.metrics_token == "0123456789abcdef"
    assert settings.drain_delay_s == 5
    stops_s = int(service["stop_grace_period"].removesuffix("s"))
    assert stops_s > settings.drain_delay_s + settings.drain_s
    assert service["env_file"] == [".env"], "every setting can be there"
    command, _, *flags = service["command"] if name == "worker" else [*service["command"], ""]
    assert command == {"server": "serve", "worker": "worker"}[name]
    if name == "worker":
        assert load({"worker_listen": flags[0]}, given).worker_listen == "0.0.0.0:9100", "its port is published"


def test_only_servers_publish_ports_and_only_on_localhost() -> None:
    """Otherwise anyone could send the headers that `trust_proxy` trusts."""
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {
        "server": ["${PUBLISH:-127.0.0.1:8000}:8000"],
        "worker": ["${PUBLISH_WORKER:-127.0.0.1:9100}:9100"],
    }
    assert SERVICES["database"]["networks"] == ["inside"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}


def test_services_start_in_order() -> None:
    assert SERVICES["server"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert SERVICES["worker"]["depends_on"] == {"server": {"condition": "service_healthy"}}
    named = {each.partition(":")[0] for service in SERVICES.values() for each in service["volumes"]}
    assert named == set(COMPOSE["volumes"]), "nothing that lasts is in a container"


def test_the_documented_container_knows_its_address_and_trusts_its_proxy() -> None:
    guide = (ROOT / "docs" / "operators" / "install.md").read_text(encoding="utf-8").replace("\\\n", " ")
    [run] = [line.split() for line in guide.splitlines() if line.startswith("docker run ")]
    given = dict(after.split("=", 1) for flag, after in pairwise(run) if flag == "--env")
    settings = load({}, given)
    assert (settings.base_url, settings.trust_proxy) == ("https://work.example.com", True)
    stop_s = int(run[run.index("--stop-timeout") + 1])
    assert stop_s > settings.drain_delay_s + settings.drain_s
