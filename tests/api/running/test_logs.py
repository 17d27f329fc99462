"""Log lines of a process about itself and its requests: JSON without secrets, request IDs from proxies, and
addresses."""

from __future__ import annotations

import json
import os
import pty
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.own_process import OwnProcess
from tests.harness.server import Server
from tests.harness.waiting import until

pytestmark = pytest.mark.one_database

SECRET = re.compile(r"whp_\w+|/login/link/\S+")
PROXY = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "work.example.com"}
ID = "4bf92f35-77b3:4da6.a3ce_929d"


def lines(server: Server, event: str) -> list[dict[str, Any]]:
    parsed = [json.loads(line) for line in server.output if line.startswith("{")]
    return [each for each in parsed if each["event"] == event]


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("worker", "--listen", "127.0.0.1:0")])
def test_every_line_is_json_if_configured(tmp_path: Path, command: tuple[str, ...]) -> None:
    server = OwnProcess(tmp_path / "data", {"log_format": "json"}, command=command)
    server.start()
    try:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.stop() == 0
    finally:
        server.close()
    parsed = [json.loads(line) for line in server.output]
    assert all({"event", "level", "timestamp"} <= set(each) for each in parsed)
    assert [each["url"] for each in parsed if "listening on" in each["event"]] == [server.url]
    [stopping] = lines(server, "stopping")
    assert (stopping["delay_s"], stopping["drain_s"]) == (0.0, 30.0)
    assert not SECRET.search(server.log())


@pytest.mark.parametrize(
    "settings", [{"port": "70000"}, {"database_url": "postgresql://127.0.0.1:1/none"}, {"worker_listen": "?"}]
)
def test_a_failed_start_is_logged_as_json(tmp_path: Path, settings: dict[str, str]) -> None:
    given = {f"WORKHOOK_{name.upper()}": value for name, value in settings.items()}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
    environment = {**kept, **given, "WORKHOOK_LOG_FORMAT": "json", "WORKHOOK_DATA": str(tmp_path / "data")}
    done = subprocess.run(
        [sys.executable, "-m", "workhook", "serve"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    [*_, last] = [json.loads(line) for line in done.stderr.splitlines()]
    assert (last["level"], last["event"]) == ("error", "process_failed")
    assert last["error"].startswith(("these settings cannot be used: WORKHOOK_", "PostgreSQL at 127.0.0.1:1: "))


@pytest.mark.parametrize("log_format", ["auto", "text", "json"])
def test_the_first_link_and_token_are_in_a_private_file(new_server: Callable[..., Server], log_format: str) -> None:
    server = new_server(log_format=log_format)
    assert not SECRET.search(server.log())
    path = server.data / "first-sign-in.txt"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(path) in server.log()
    link, token = SECRET.findall(server.first_sign_in())
    with server.client(token) as client:
        assert client.get("/user").json()["login"] == "owner"
        assert client.get(link).status_code == 200


def test_a_terminal_shows_the_first_link_and_token(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "workhook", "serve", "--port", "0", "--data", str(tmp_path / "data")]
    process = subprocess.Popen(command, stdout=follower, stderr=subprocess.DEVNULL)
    os.close(follower)
    try:
        shown = ""
        while "listening on" not in shown:
            shown += os.read(leader, 4096).decode()
    finally:
        process.terminate()
        process.wait(60)
        os.close(leader)
    assert len(SECRET.findall(shown)) == 2
    assert not (tmp_path / "data" / "first-sign-in.txt").exists()


def test_the_request_id_of_a_trusted_proxy_is_kept(new_server: Callable[..., Server]) -> None:
    server = new_server(trust_proxy="true")
    with server.client(None, headers=PROXY) as client:
        for method, path in (("GET", "/healthz"), ("GET", "/user"), ("GET", "/nowhere/at/all"), ("OPTIONS", "/user")):
            assert client.request(method, path, headers={"X-Request-Id": ID}).headers["x-request-id"] == ID
        for bad in ("", "short", "a" * 129, "has space in it", "<script>alert</script>", "ümlaut-ümlaut".encode()):
            answer = client.get("/healthz", headers={b"X-Request-Id": bad if isinstance(bad, bytes) else bad.encode()})
            assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
    until(lambda: len(lines(server, "request_refused")) == 2)
    assert {(each["request_id"], each["address"]) for each in lines(server, "request_refused")} == {(ID, "203.0.113.9")}


def test_without_a_proxy_clients_cannot_choose_the_request_id(server: Server) -> None:
    with server.client(None, headers={**PROXY, "X-Request-Id": ID}) as client:
        assert client.get("/healthz").headers["x-request-id"] != ID


def test_refusals_are_logged_with_the_peers_address(new_server: Callable[..., Server]) -> None:
    server = new_server()
    with server.client(None, headers=PROXY) as client:
        client.get("/user")
    [refused] = until(lambda: lines(server, "request_refused"))
    assert (refused["address"], refused["status"], refused["route"]) == ("127.0.0.1", 401, "/user")
    assert lines(server, "request") == [], "no access log unless it is asked for"


def test_the_access_log_has_a_line_for_each_request(new_server: Callable[..., Server]) -> None:
    server = new_server(access_log="true")
    with server.client(None) as client:
        client.get("/healthz")
        client.options("/user")
        client.get("/login/link/secret")
        client.get("/x/y/z/?q=secret")
    until(lambda: len(lines(server, "request")) >= 4)
    found = lines(server, "request")
    assert [(each["method"], each["route"], each["status"]) for each in found[:2]] == [
        ("GET", "/healthz", 200), ("OPTIONS", "/user", 204),
    ]  # fmt: skip
    assert all(each["address"] == "127.0.0.1" and len(each["request_id"]) == 32 for each in found)
    assert "secret" not in server.log(), "routes, not paths"
