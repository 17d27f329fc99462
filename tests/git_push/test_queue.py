"""The queue of pushes and its sender: servers that are down, hang or refuse, and senders that die."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from pathlib import Path

import pytest

from tests.git_push.kit import BOUND_S, Json, Receiver, Site, eventually, git
from workhook.git_push import payload as payload_module
from workhook.git_push import sender, spool
from workhook.git_push.payload import bare, request_body
from workhook.git_push.sender import SendReport, send_pending
from workhook.git_push.spool import ConfigError, HookFolder, NoServer, load_config, server_url

ZERO = "0" * 40


def refs(receiver: Receiver) -> list[str]:
    return [request.payload["ref"] for request in receiver.requests]


@pytest.fixture
def no_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let senders in this process wait for a hanging server as long as the test takes."""
    monkeypatch.setattr(sender, "TIMEOUT_S", BOUND_S)


def queue(site: Site, *names: str) -> None:
    """Record a push for each name without starting a sender."""
    folder = HookFolder(site.bare)
    head = git(site.bare, "rev-parse", "main")
    for name in names:
        stem = spool.new_name(folder)
        change = spool.RefUpdate(f"{stem}.0", ZERO, head, f"refs/heads/{name}")
        spool.write(folder, stem, spool.Push(0, "octo", None, (), (change,), ((head, "refs/heads/main"),)))


def test_a_sent_push_leaves_no_files(site: Site, receiver: Receiver) -> None:
    site.commit("one")
    assert site.push("main") == ""
    receiver.payloads(1)
    eventually(lambda: not list((site.root / "spool").iterdir()))


def test_pushes_wait_while_the_server_is_down_and_are_sent_in_order(site: Site, receiver: Receiver) -> None:
    port = receiver.port
    receiver.stop()
    shas = []
    for name in ("one", "two", "three"):
        shas.append(site.commit(name))
        assert site.push("main") == ""
    assert len(site.waiting()) == 3

    back = Receiver(port)
    try:
        shas.append(site.commit("four"))
        site.push("main")
        payloads = back.payloads(4)
        assert [payload["after"] for payload in payloads] == shas
        assert [[commit["id"] for commit in payload["commits"]] for payload in payloads] == [[sha] for sha in shas]
        eventually(lambda: not site.waiting())
    finally:
        back.close()


def test_a_queued_push_is_described_as_of_its_time(site: Site, receiver: Receiver) -> None:
    """A later push that builds on a new branch must not make the branch's commits appear old."""
    port = receiver.port
    receiver.stop()
    one = site.commit("one")
    site.push("main:refs/heads/a")
    two = site.commit("two")
    site.push("main:refs/heads/b", ":a")

    back = Receiver(port)
    try:
        site.push("main:refs/heads/c")
        found = {(payload["ref"], payload["deleted"]): payload for payload in back.payloads(4)}
        assert [commit["id"] for commit in found["refs/heads/a", False]["commits"]] == [one]
        assert [commit["id"] for commit in found["refs/heads/b", False]["commits"]] == [two]
        assert found["refs/heads/c", False]["commits"] == []
    finally:
        back.close()


def test_the_detached_sender_retries(site: Site, receiver: Receiver) -> None:
    receiver.statuses = {0: 503}
    site.commit("one")
    site.push("main")
    eventually(lambda: len(receiver.requests) == 2 and not site.waiting())
    assert len({request.body["id"] for request in receiver.requests}) == 1


def test_a_new_push_ends_the_senders_pause(ready: Site, receiver: Receiver) -> None:
    queue(ready, "a")
    receiver.status = 503
    paused = threading.Thread(target=send_pending, args=(ready.bare,), kwargs={"pauses_s": (3600.0,)})
    paused.start()
    eventually(lambda: "stopped" in (ready.root / "log").read_text())
    receiver.status = 202
    ready.push("main:b")
    paused.join(60)
    assert not paused.is_alive()
    assert refs(receiver) == ["refs/heads/a", "refs/heads/a", "refs/heads/b"]


def test_the_sender_gives_up_after_its_last_pause(ready: Site, receiver: Receiver) -> None:
    queue(ready, "a")
    receiver.status = 503
    assert send_pending(ready.bare, pauses_s=(0.01, 0.01)).pending == 1
    assert len(receiver.requests) == 3


def test_a_push_returns_while_the_server_hangs(site: Site, receiver: Receiver) -> None:
    receiver.hang_from = 0
    site.commit("one")
    site.push("main")
    eventually(lambda: len(receiver.requests) == 1)
    site.push("main:two")  # a sender is running and waits for the server
    assert len(site.waiting()) == 2
    assert receiver.hang_from == 0
    receiver.release()
    eventually(lambda: not site.waiting())
    # If this took more than the timeout of 10 s, the sender has repeated its request.
    assert list(dict.fromkeys(refs(receiver))) == ["refs/heads/main", "refs/heads/two"]


def test_the_next_sender_continues_after_a_kill_between_updates(ready: Site, receiver: Receiver) -> None:
    receiver.hang_from = 2
    names = [f"b{number}" for number in range(5)]
    ready.push(*(f"main:{name}" for name in names))
    eventually(lambda: len(receiver.requests) == 3)
    ready.kill_sender()
    assert len(ready.waiting()) == 1
    receiver.release()

    assert send_pending(ready.bare) == SendReport(3, 0, 0, 0, busy=False, stopped=None)
    assert refs(receiver) == [f"refs/heads/{name}" for name in ["b0", "b1", "b2", "b2", "b3", "b4"]]
    assert receiver.requests[2].body == receiver.requests[3].body  # the server recognizes it


@pytest.mark.parametrize("status", [500, 503, 408, 429, 401, 403, 404, 200, 204, 301])
def test_a_response_without_acceptance_keeps_the_push(ready: Site, receiver: Receiver, status: int) -> None:
    queue(ready, "a", "b")
    receiver.status = status
    report = send_pending(ready.bare)
    assert (report.sent, report.pending) == (0, 2)
    assert str(status) in (report.stopped or "")
    assert refs(receiver) == ["refs/heads/a"]
    assert str(status) in (ready.root / "log").read_text()

    receiver.status = 202
    assert send_pending(ready.bare).sent == 2
    assert refs(receiver) == [f"refs/heads/{name}" for name in "aab"]


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_refused_update_is_set_aside_with_the_response(ready: Site, receiver: Receiver, status: int) -> None:
    queue(ready, "a", "b")
    receiver.statuses = {0: status}
    report = send_pending(ready.bare)
    assert (report.sent, report.rejected, report.pending) == (1, 1, 0)
    [kept] = (ready.root / "rejected").glob("*.json")
    assert f"answered {status}" in kept.with_suffix(".answer").read_text()

    kept.rename(ready.root / "spool" / kept.name)  # how an administrator requeues it
    assert send_pending(ready.bare).sent == 1
    assert refs(receiver) == [f"refs/heads/{name}" for name in "aba"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"version": 2}',
        b'{"version": 1, "updates": [{"id": "1", "before": "--all", "after": "HEAD", "ref": "x"}]}',
        b"[" * 100_000,
    ],
)
def test_a_corrupt_file_does_not_block_the_others(ready: Site, receiver: Receiver, content: bytes) -> None:
    bad = ready.root / "spool" / "0-bad.json"
    bad.write_bytes(content)
    queue(ready, "a")
    report = send_pending(ready.bare)
    assert (report.sent, report.corrupt, report.pending) == (1, 1, 0)
    assert (ready.root / "corrupt" / bad.name).read_bytes() == content


def test_an_update_with_an_invalid_object_id_is_corrupt(ready: Site) -> None:
    queue(ready, "a")
    [path] = ready.waiting()
    raw = json.loads(path.read_text())
    raw["updates"][0]["after"] = "--all"
    path.write_text(json.dumps(raw))
    assert send_pending(ready.bare).corrupt == 1


def test_a_folder_in_the_spool_is_set_aside(ready: Site) -> None:
    (ready.root / "spool" / "0.json").mkdir()
    queue(ready, "a")
    assert send_pending(ready.bare)[:3] == (1, 0, 1)


def test_leftover_files_are_deleted(ready: Site) -> None:
    orphan, old, fresh = (ready.root / "spool" / name for name in ("gone.sent", ".1.json.1.tmp", ".2.json.1.tmp"))
    for path in (orphan, old, fresh):
        path.touch()
    os.utime(old, (0, 0))
    send_pending(ready.bare)
    assert [path.exists() for path in (orphan, old, fresh)] == [False, False, True]


def test_a_busy_sender_also_sends_pushes_recorded_meanwhile(ready: Site, receiver: Receiver, no_timeout: None) -> None:
    receiver.hang_from = 0
    queue(ready, "a")
    reports: list[SendReport] = []
    first = threading.Thread(target=lambda: reports.append(send_pending(ready.bare)))
    first.start()
    eventually(lambda: len(receiver.requests) == 1)
    queue(ready, "b")
    assert send_pending(ready.bare) == SendReport(0, 0, 0, 2, busy=True, stopped=None)
    receiver.release()
    first.join()
    assert reports == [SendReport(2, 0, 0, 0, busy=False, stopped=None)]
    assert refs(receiver) == ["refs/heads/a", "refs/heads/b"]


def test_a_request_during_a_failing_attempt_is_not_lost(ready: Site, receiver: Receiver, no_timeout: None) -> None:
    """An administrator fixed the token and ran `send` while a sender was still waiting for its 401."""
    receiver.hang_from, receiver.statuses = 0, {0: 401}
    queue(ready, "a")
    reports: list[SendReport] = []
    first = threading.Thread(target=lambda: reports.append(send_pending(ready.bare)))
    first.start()
    eventually(lambda: len(receiver.requests) == 1)
    assert send_pending(ready.bare).busy
    receiver.release()
    first.join()
    assert reports == [SendReport(1, 0, 0, 0, busy=False, stopped=None)]


def test_a_silent_or_dripping_server_times_out(ready: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "TIMEOUT_S", 0.3)
    stop = threading.Event()

    def drip(listener: socket.socket, answer: bytes) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(answer)
            while answer and not stop.wait(0.02):
                connection.sendall(b"x")
            stop.wait(60)

    queue(ready, "a")
    for answer in (b"", b"HTTP"):
        stop.clear()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=drip, args=(listener, answer))
            thread.start()
            ready.install(f"http://127.0.0.1:{listener.getsockname()[1]}")
            report = send_pending(ready.bare)
            stop.set()
            thread.join()
        assert (report.sent, report.pending) == (0, 1)
        assert "does not answer" in (report.stopped or "")


def test_the_order_survives_setting_the_clock_back(ready: Site) -> None:
    folder = HookFolder(ready.bare)
    (ready.root / "spool" / f"{9 * 10**18:020d}-future.json").touch()
    assert spool.new_name(folder) > f"{9 * 10**18:020d}-future"


def test_a_damaged_repository_does_not_block_the_queue(ready: Site, receiver: Receiver) -> None:
    root = ready.rev("HEAD")
    head = ready.commit("two")
    git(ready.bare, "fetch", "-q", str(ready.clone), "main:refs/heads/next")
    git(ready.bare, "update-ref", "-d", "refs/heads/main")
    (ready.bare / "objects" / root[:2] / root[2:]).unlink()
    folder = HookFolder(ready.bare)
    change = spool.RefUpdate("x.0", ZERO, head, "refs/heads/next")
    spool.write(folder, "x", spool.Push(0, "octo", None, (), (change,), ()))
    assert send_pending(ready.bare).sent == 1
    assert (receiver.requests[0].payload["after"], receiver.requests[0].payload["commits"]) == (head, [])
    assert "without commits" in (ready.root / "log").read_text()


def test_pushes_wait_if_git_is_missing(ready: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    queue(ready, "a")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        report = send_pending(ready.bare)
    assert (report.sent, report.pending) == (0, 1)
    assert "git cannot be started" in (report.stopped or "")


def test_a_refusal_sent_during_a_large_request_is_read(ready: Site) -> None:
    """If the 413 were not read, the push would be retried forever."""

    def refuse(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    text = ("x" * 70 + "\n") * 100_000
    git(ready.clone, "commit", "-q", "--allow-empty", "-F", "-", stdin=text.encode())
    git(ready.bare, "fetch", "-q", str(ready.clone), "+main:main")
    queue(ready, "large")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        ready.install(f"http://127.0.0.1:{listener.getsockname()[1]}")
        report = send_pending(ready.bare)
        thread.join()
    assert (report.rejected, report.pending) == (1, 0)


# --- Server address ----------------------------------------------------------------------------------------------


def test_the_address_of_the_running_server_is_used(ready: Site, receiver: Receiver) -> None:
    ready.install(None)
    (ready.data_dir / "server.json").write_text(json.dumps({"url": receiver.url + "/", "pid": 1}))
    queue(ready, "a")
    assert send_pending(ready.bare).sent == 1
    assert receiver.requests[0].path == "/repos/acme/website/events"
    assert receiver.requests[0].payload["compare"].startswith(f"{receiver.url}/acme/website/compare/")


def test_the_configured_address_is_used_without_a_running_server(ready: Site) -> None:
    ready.install(None)
    with pytest.raises(NoServer):
        server_url(load_config(HookFolder(ready.bare)))
    queue(ready, "a")
    assert send_pending(ready.bare).pending == 1
    ready.install("https://hooks.example/base/")
    assert server_url(load_config(HookFolder(ready.bare))) == "https://hooks.example/base"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"url": 1}', '{"url": "file:///etc/passwd"}'])
def test_a_damaged_server_file_keeps_the_push(ready: Site, content: str) -> None:
    ready.install(None)
    (ready.data_dir / "server.json").write_text(content)
    queue(ready, "a")
    report = send_pending(ready.bare)
    assert (report.sent, report.pending) == (0, 1)
    assert report.stopped


@pytest.mark.parametrize("content", [None, "", "{}", '{"url": null, "repository": 1, "data_dir": "x", "token": "t"}'])
def test_a_damaged_configuration_keeps_the_push(ready: Site, content: str | None) -> None:
    path = ready.root / "config.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    queue(ready, "a")
    report = send_pending(ready.bare)
    assert (report.sent, report.pending) == (0, 1)
    assert "run the installation again" in (report.stopped or "")
    with pytest.raises(ConfigError):
        load_config(HookFolder(ready.bare))


# --- Size ------------------------------------------------------------------------------------------------------------
# Payloads above the server's size limit: the order of omitting parts.


CHANGE = spool.RefUpdate("1.0", "0" * 40, "1" * 40, "refs/heads/main")
ENTRY = spool.Push(0, "octo", None, (), (CHANGE,), ())


def large(*commit_files: int, message: str = "m") -> payload_module.Payload:
    commits = [
        {"id": f"{at:040x}", "message": message, "added": [f"{number:099d}" for number in range(files)], "removed": []}
        | {"modified": []}
        for at, files in enumerate(commit_files)
    ]
    return bare(CHANGE, ENTRY, address="http://x/a/b") | {"commits": commits, "head_commit": commits[-1]}


def sent(payload: payload_module.Payload, limit_bytes: int) -> Json:
    body, _ = request_body(payload, "1.0", limit_bytes=limit_bytes)
    assert len(body) <= limit_bytes
    decoded = json.loads(body)["payload"]
    assert isinstance(decoded, dict)
    return decoded


def files(commits: list[Json]) -> list[int]:
    return [len(commit["added"]) for commit in commits]


def test_a_payload_within_the_limit_is_unchanged() -> None:
    payload = large(10, 10)
    body, shrunk = request_body(payload, "1.0")
    assert not shrunk
    assert json.loads(body) == {"event": "push", "payload": payload, "id": "1.0"}


def test_the_oldest_commits_lose_their_files_first() -> None:
    found = sent(large(100, 100, 100, 100), 45_000)
    assert files(found["commits"]) == [0, 100, 100, 100]
    assert files([found["head_commit"]]) == [100]


def test_then_the_head_loses_its_files_and_the_oldest_commits_are_omitted() -> None:
    found = sent(large(1, 1, 1, 50, message="m" * 1000), 5_000)
    assert [commit["id"][-1] for commit in found["commits"]] == ["1", "2", "3"]
    assert files([*found["commits"], found["head_commit"]]) == [0, 0, 0, 0]


def test_an_oversized_message_is_truncated() -> None:
    found = sent(large(1, message="ü" * 100_000), 50_000)
    assert found["commits"] == []
    assert found["head_commit"]["message"] == "ü" * 10_000


def test_text_that_json_parsers_reject_is_replaced() -> None:
    body, _ = request_body(bare(CHANGE, ENTRY, address="\ud800"), "1.0")
    assert json.loads(body)["payload"]["compare"].startswith("?/compare")
