"""Publishes the pushes in the spool in order. One process at a time sends.

A push that arrives meanwhile is not lost: a mark (a file) records it, and a pipe only cuts a pause short. A new process
sets the mark, then tries the lock, and, if it is taken, wakes the holder through the pipe. The holder removes the mark
before it reads the spool, and checks for a new mark after unlocking.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import select
import socket
import threading
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from workhook.git_push import git, payload, spool
from workhook.git_push.spool import Config, ConfigError, HookFolder, NoServer, load_config, server_url

RETRY_PAUSES_S = (2.0, 5.0, 13.0, 30.0, 60.0)
"""Pauses of the detached sender, just under two minutes in total. After that, the next push retries."""

NICENESS = 10


class SendReport(NamedTuple):
    """One run: ref updates `sent` and `rejected`, files set aside as `corrupt`, and pushes still `pending`.

    `busy`: another sender is running and will check the spool again. `stopped`: why something is left, as text.
    """

    sent: int
    rejected: int
    corrupt: int
    pending: int
    busy: bool
    stopped: str | None


class _Stop(Exception):
    """Sending stopped; the remaining pushes are kept in order. `retry`: a retry may succeed soon."""

    def __init__(self, reason: str, *, retry: bool) -> None:
        super().__init__(reason)
        self.reason, self.retry = reason, retry


def send_pending(git_dir: Path, *, pauses_s: Sequence[float] = ()) -> SendReport:
    """Publish all pending pushes. While the server is unreachable, retry after each of `pauses_s`.

    Network, server and repository errors are returned in the report and written to `workhook/log`. Raises `OSError` if
    the `workhook` folder itself is unusable.
    """
    return _Sender(HookFolder(git_dir), tuple(pauses_s)).run()


def run_detached(git_dir: Path) -> None:
    """Run `send_pending` for the hook: with retries, at low priority, and with all errors logged."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    try:
        send_pending(git_dir, pauses_s=RETRY_PAUSES_S)
    except Exception as error:  # noqa: BLE001 (the log is the only output of this process)
        HookFolder(git_dir).log.error(f"the sender ended early: {type(error).__name__}: {error}")


class _Sender:
    def __init__(self, folder: HookFolder, pauses_s: tuple[float, ...]) -> None:
        self._folder = folder
        self._mark = folder.root / "again"
        self._pipe = folder.root / "knock"
        self._pauses_s = pauses_s
        self._sent = self._rejected = self._corrupt = 0
        self._stopped: str | None = None

    def run(self) -> SendReport:
        """Run until no mark is left. A process that finds the lock taken has set the mark, which the holder checks."""
        while True:
            self._mark.touch(mode=0o600)
            with _lock(self._folder.root / "lock") as held:
                if not held:
                    self._knock()
                    return self._report(busy=True)
                self._until_done()
            if not self._mark.exists():
                return self._report(busy=False)

    def _report(self, *, busy: bool) -> SendReport:
        left = len(spool.names(self._folder))
        return SendReport(self._sent, self._rejected, self._corrupt, left, busy, self._stopped)

    def _until_done(self) -> None:
        pauses_s = list(self._pauses_s)
        spool.sweep(self._folder)
        while True:
            self._mark.unlink(missing_ok=True)
            self._stopped = None
            try:
                self._drain()
                return
            except _Stop as stop:
                self._stopped = stop.reason
                self._folder.log.error(f"stopped; pushes waiting: {len(spool.names(self._folder))}; {stop.reason}")
                if not stop.retry or not pauses_s:
                    return
            if self._pause(pauses_s.pop(0)):
                pauses_s = list(self._pauses_s)

    def _drain(self) -> None:
        try:
            config = load_config(self._folder)
            base_url = server_url(config)
        except ConfigError as error:
            raise _Stop(str(error), retry=isinstance(error, NoServer)) from error
        while waiting := spool.names(self._folder):
            self._send_push(waiting[0], config, base_url)

    def _send_push(self, name: str, config: Config, base_url: str) -> None:
        try:
            entry = spool.read(self._folder, name)
        except spool.CorruptEntry as error:
            target = spool.set_aside(self._folder, name)
            self._corrupt += 1
            self._folder.log.error(f"push {name} cannot be read, moved to {target.parent.name}/: {error}")
            return
        done = spool.sent_ids(self._folder, name)
        left = [update for update in entry.updates if update.id not in done]
        builder = payload.PayloadBuilder(self._folder.git_dir, entry, repository=config.repository, base_url=base_url)
        for update in left:
            body, shrunk = payload.request_body(self._payload(builder, entry, update), update.id)
            if shrunk:
                text = f"{update.id}: exceeds the server's size limit, sent without some files or commits"
                self._folder.log.error(text)
            self._publish(entry, update, config, base_url, body)
            spool.mark_sent(self._folder, name, update.id)
        spool.remove(self._folder, name)
        self._folder.log.info(f"published push {name}; events: {len(left)}")

    def _publish(self, entry: spool.Push, update: spool.RefUpdate, config: Config, base_url: str, body: bytes) -> None:
        answer = post(base_url, config.repository, config.token, body)
        if answer.verdict is Verdict.SENT:
            self._sent += 1
        elif answer.verdict is Verdict.REJECT:
            target = spool.reject(self._folder, entry, update, answer.text)
            self._rejected += 1
            kept_as = f"{target.parent.name}/{target.name}"
            self._folder.log.error(f"{update.id} was rejected, kept as {kept_as}: {answer.text[:500]}")
        else:
            raise _Stop(answer.text[:500], retry=answer.verdict is Verdict.RETRY)

    def _payload(self, builder: payload.PayloadBuilder, entry: spool.Push, update: spool.RefUpdate) -> payload.Payload:
        """Build the payload. If the repository is damaged, use only the recorded push."""
        try:
            return builder.build(update)
        except git.GitMissing as error:
            raise _Stop(str(error), retry=False) from error
        except Exception as error:  # noqa: BLE001 (one strange repository must not hold the queue for ever)
            self._folder.log.error(f"{update.id} was sent without commits: {type(error).__name__}: {error}")
            return payload.bare(update, entry, address=builder.address)

    def _pause(self, pause_s: float) -> bool:
        """Wait until the pause ends or another process sets the mark. Returns whether one has."""
        with self._open_pipe() as readers:
            if not self._mark.exists():
                select.select(readers, [], [], pause_s)
        return self._mark.exists()

    def _knock(self) -> None:
        """Wake the running sender from a pause. If it is not pausing, or there is no pipe, it finds the mark anyway."""
        with contextlib.suppress(OSError):
            target = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(target, b".")
            finally:
                os.close(target)

    @contextlib.contextmanager
    def _open_pipe(self) -> Iterator[list[int]]:
        """Open the pipe in both directions, so that it stays open when a writer ends. Yields [] where that fails."""
        try:
            with contextlib.suppress(FileExistsError):
                os.mkfifo(self._pipe, 0o600)
            target = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            yield []
            return
        try:
            yield [target]
        finally:
            os.close(target)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Acquire the lock, or yield False immediately. The kernel releases it when the process dies."""
    target = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        os.ftruncate(target, 0)
        os.write(target, str(os.getpid()).encode())  # informational; only the lock counts
        yield True
    finally:
        os.close(target)


# --- one request to the server ---------------------------------------------------------------------------------------

TIMEOUT_S = 10.0
SLOWEST_BYTES_PER_S = 250_000
"""Extends the 10 s for large bodies, which would otherwise be retried forever over a slow line."""

ANSWER_BYTES = 65_536


class Verdict(Enum):
    SENT = "sent"
    RETRY = "retry"  # the same request may succeed soon
    KEEP = "keep"  # the URL, token or repository must be fixed first
    REJECT = "reject"  # the server will never accept this request


class PublishAnswer(NamedTuple):
    verdict: Verdict
    text: str


def judge(status: int) -> Verdict:
    if status == 202:
        return Verdict.SENT
    if status in (408, 429) or status >= 500:
        return Verdict.RETRY
    if status in (401, 403, 404) or status < 400:  # other successes and redirects do not come from Workhook
        return Verdict.KEEP
    return Verdict.REJECT


def post(base_url: str, repository: str, token: str, body: bytes) -> PublishAnswer:
    """POST to `{base_url}/repos/{repository}/events`. Never raises for failures of the network or the server."""
    try:
        status, text = _exchange(base_url, f"/repos/{quote(repository)}/events", token, body)
    except (OSError, http.client.HTTPException) as error:
        return PublishAnswer(Verdict.RETRY, f"{base_url} does not answer: {type(error).__name__}: {error}")
    except ValueError as error:
        return PublishAnswer(Verdict.KEEP, f"the address or the token is not usable: {error}")
    return PublishAnswer(judge(status), f"{base_url} answered {status}: {text.decode('utf-8', 'replace')}")


def _exchange(base_url: str, path: str, token: str, body: bytes) -> tuple[int, bytes]:
    parts = urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json",
        "User-Agent": "workhook-git-hook",
    }
    try:
        connection.connect()
        with _cut_after(connection.sock, TIMEOUT_S + len(body) / SLOWEST_BYTES_PER_S):
            # A server that rejects a large body early closes its side, but its response can still be read.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", parts.path.rstrip("/") + path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(ANSWER_BYTES)
    finally:
        connection.close()


@contextlib.contextmanager
def _cut_after(sock: socket.socket, bound_s: float) -> Iterator[None]:
    """Bound the whole exchange, because a socket timeout restarts with every byte of a slowly dripping response."""
    sock.settimeout(bound_s)
    timer = threading.Timer(bound_s, _cut, (sock,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed by its owner at the same moment
        sock.shutdown(socket.SHUT_RDWR)
