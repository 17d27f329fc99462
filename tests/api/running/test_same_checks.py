"""`workhook doctor` and the `/readyz` of servers and workers agree about the disk and the file store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.cli_kit import Cli
from tests.harness.disks import disk_of
from tests.harness.server import Server
from tests.harness.waiting import until

SIZE_MB = 30  # size of a disk that is nearly full
COMMANDS = [("serve", "--port", "0"), ("worker", "--listen", "127.0.0.1:0")]


def ready(server: Server) -> dict[str, str]:
    answer = httpx.get(f"{server.url}/readyz", timeout=30)
    checks: dict[str, str] = answer.json()["checks"]
    assert answer.status_code == (200 if set(checks.values()) == {"ok"} else 503)
    return checks


def doctor(data: Path) -> dict[str, bool]:
    done = Cli(data, {}).run("doctor", "--json")
    return {each["name"]: each["ok"] for each in json.loads(done.stdout)["checks"]}


@pytest.fixture(params=COMMANDS, ids=["serve", "worker"])
def start(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Server]]:
    started = []

    def begin(data: Path) -> Server:
        started.append(Server(data, {}, command=request.param))
        return started[-1].start()

    yield begin
    for each in started:
        each.close()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    with disk_of(SIZE_MB) as folder:
        yield folder


def test_a_nearly_full_disk_is_reported(small_disk: Path, start: Callable[[Path], Server]) -> None:
    data = small_disk / "data"
    server = start(data)
    until(lambda: ready(server).get("delivering", "ok") == "ok")
    checks = ready(server)
    assert " MiB free, less than " in checks["disk"]
    assert {name for name, verdict in checks.items() if verdict != "ok"} == {"disk"}
    assert doctor(data)["disk"] is False


def test_an_unwritable_file_store_is_reported(tmp_path: Path, start: Callable[[Path], Server]) -> None:
    """A file takes the place of the folder, because folder permissions do not restrict root."""
    data = tmp_path / "data"
    server = start(data)
    until(lambda: set(ready(server).values()) == {"ok"})
    assert doctor(data)["files"] is True
    assert not (data / "files").exists(), "asking makes nothing"
    (data / "files").write_text("not a folder")
    until(lambda: ready(server)["files"] != "ok")
    assert doctor(data)["files"] is False
    (data / "files").unlink()
    until(lambda: ready(server)["files"] == "ok")
    assert doctor(data)["files"] is True
    assert [each.name for each in data.iterdir() if "probe" in each.name] == []


def test_a_removed_database_file_is_reported(tmp_path: Path, start: Callable[[Path], Server]) -> None:
    """Otherwise the process would keep writing to the file it has open, and lose everything when it stops."""
    data = tmp_path / "data"
    server = start(data)
    until(lambda: set(ready(server).values()) == {"ok"})
    (data / "workhook.db").rename(tmp_path / "elsewhere.db")
    until(lambda: ready(server)["database"] != "ok")
    (data / "workhook.db").write_bytes(b"")
    assert ready(server)["database"] != "ok"
    (tmp_path / "elsewhere.db").rename(data / "workhook.db")
    until(lambda: ready(server)["database"] == "ok")
