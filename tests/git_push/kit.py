"""A bare repository with the hook, a clone that pushes to it, and a server whose answers tests can choose."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from workhook.git_push.install import Installed, install

Json = dict[str, Any]

GIT_ENV = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada Löwe",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "2026-03-01T10:00:00+0530",
    "GIT_COMMITTER_NAME": "Carl",
    "GIT_COMMITTER_EMAIL": "carl@example.com",
    "GIT_COMMITTER_DATE": "2026-03-02T11:30:00+0200",
    "USER": "octo",
}

BOUND_S = 120.0


def use_git_environment(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Isolate Git from the settings of the machine and of the user who runs the tests."""
    for name in os.environ:
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    for name in ("REMOTE_USER", "WORKHOOK_PUSHER", "WORKHOOK_PUSHER_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**GIT_ENV, "HOME": str(home)}.items():
        monkeypatch.setenv(name, value)


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until another process has done something, at most `BOUND_S`."""
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        threading.Event().wait(0.01)


class Request(NamedTuple):
    path: str
    authorization: str | None
    body: Json

    @property
    def payload(self) -> Json:
        payload = self.body["payload"]
        assert isinstance(payload, dict)
        return payload


class Receiver:
    """The publishing endpoint on 127.0.0.1.

    Starting with request `hang_from`, it accepts requests without an answer.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.status = 202
        self.statuses: dict[int, int] = {}  # by request number, starting at 0; otherwise `status`
        self.hang_from: int | None = None
        self._released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                number = len(receiver.requests)
                receiver.requests.append(Request(self.path, self.headers["Authorization"], body))
                if receiver.hang_from is not None and number >= receiver.hang_from:
                    receiver._released.wait(BOUND_S)
                answer = json.dumps({"id": "evt_1", "deliveries": 0}).encode()
                try:
                    self.send_response(receiver.statuses.get(number, receiver.status))
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)
                except OSError:
                    self.close_connection = True  # the sender is gone, as some tests intend

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name of the base class)
                """Log nothing."""

        # Reserves the port while the server is stopped.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", port))
        self._port: int = self._reserved.getsockname()[1]
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def release(self) -> None:
        self.hang_from = None
        self._released.set()

    def payloads(self, count: int) -> list[Json]:
        """Return the payloads so far, once there are `count`."""
        eventually(lambda: len(self.requests) >= count)
        assert len(self.requests) == count
        return [request.payload for request in self.requests]

    def stop(self) -> None:
        """Refuse connections."""
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def close(self) -> None:
        self.stop()
        self._reserved.close()


def git(folder: Path, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> str:
    """Return the standard output of a command that must succeed."""
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, env={**os.environ, **(env or {})}, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return os.fsdecode(done.stdout).strip()


class Site:
    """A repository `bare` which receives pushes, and its `clone` in which commits are made."""

    def __init__(self, folder: Path, *, object_format: str = "sha1") -> None:
        self.bare = folder / "website.git"
        self.clone = folder / "clone"
        self.data_dir = folder / "data"
        self.data_dir.mkdir()
        init = ("init", "-q", f"--object-format={object_format}", "--initial-branch=main")
        git(folder, *init, "--bare", str(self.bare))
        git(folder, *init, str(self.clone))
        git(self.clone, "remote", "add", "origin", str(self.bare))
        git(self.bare, "config", "receive.advertisePushOptions", "true")

    @property
    def root(self) -> Path:
        return self.bare / "workhook"

    def install(self, url: str | None, **more: Any) -> Installed:
        values: Json = {"data_dir": self.data_dir, "token": "ghp_secret", "url": url, **more}
        return install(self.bare, "acme/website", **values)

    def commit(self, message: str, files: Mapping[str, str] | None = None) -> str:
        for name, text in (files or {}).items():
            path = self.clone / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git(self.clone, "add", "-A")
        git(self.clone, "commit", "-q", "--allow-empty", "-m", message)
        return self.rev("HEAD")

    def rev(self, name: str) -> str:
        return git(self.clone, "rev-parse", name)

    def push(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Push with real Git and return what the pusher sees on standard error."""
        command = ["git", "-C", str(self.clone), "push", "-q", "origin", *arguments]
        done = subprocess.run(command, capture_output=True, env={**os.environ, **(env or {})}, timeout=BOUND_S)
        said = os.fsdecode(done.stderr)
        assert done.returncode == 0, said
        return said

    def waiting(self) -> list[Path]:
        return sorted(path for path in (self.root / "spool").glob("*.json") if not path.name.startswith("."))

    def sender_is_idle(self) -> bool:
        with open(self.root / "lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return not (self.root / "again").exists()

    def kill_sender(self) -> None:
        """Kill the process that holds the lock, if any, and wait until it is dead."""

        def free() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                # The process may not have written its ID yet, or may be ending.
                if (holder := file.read()) and int(holder) != os.getpid():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(holder), signal.SIGKILL)
                return False
            return True

        with open(self.root / "lock", "a+") as file:
            eventually(free)

    def close(self) -> None:
        """End the sender, so that none outlives its test. A sender that starts later finds no configuration."""
        if self.root.is_dir():
            (self.root / "config.json").unlink(missing_ok=True)
            self.kill_sender()
