"""One request to the server's publishing endpoint, and what its answer means for the queue."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple
from urllib.parse import quote, urlsplit

TIMEOUT_S = 10.0
SLOWEST_BYTES_PER_S = 250_000
"""A body gets this much more time than the 10 s, or a large push over a slow line would be tried again for ever."""

ANSWER_BYTES = 65_536


class Verdict(Enum):
    SENT = "sent"
    RETRY = "retry"
    """Nothing is wrong with the request; the same can succeed in a moment."""
    KEEP = "keep"
    """Somebody has to mend the address, the token or the repository first."""
    REJECT = "reject"
    """This request will never be taken."""


class Answer(NamedTuple):
    verdict: Verdict
    text: str


def judge(status: int) -> Verdict:
    """Only 202 is a promise of the server. Other successes and redirects come from something that is not Workhook."""
    if status == 202:
        return Verdict.SENT
    if status in (408, 429) or status >= 500:
        return Verdict.RETRY
    if status in (401, 403, 404) or status < 400:
        return Verdict.KEEP
    return Verdict.REJECT


def post(base_url: str, repository: str, token: str, body: bytes) -> Answer:
    """POST `{base_url}/repos/{repository}/events`. Never raises for what the network or the server does."""
    try:
        status, said = _exchange(base_url, f"/repos/{quote(repository)}/events", token, body)
    except (OSError, http.client.HTTPException) as error:
        return Answer(Verdict.RETRY, f"{base_url} does not answer: {type(error).__name__}: {error}")
    except ValueError as error:
        return Answer(Verdict.KEEP, f"the address or the token is not usable: {error}")
    return Answer(judge(status), f"{base_url} answered {status}: {said.decode('utf-8', 'replace')}")


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
            # A server that refuses a large body early closes its side; what it answered before is still there to read.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", parts.path.rstrip("/") + path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(ANSWER_BYTES)
    finally:
        connection.close()


@contextlib.contextmanager
def _cut_after(sock: socket.socket, bound_s: float) -> Iterator[None]:
    """Bound an exchange as a whole: a timeout of the socket begins anew with every byte of an answer that drips."""
    sock.settimeout(bound_s)
    timer = threading.Timer(bound_s, _cut, (sock,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed by its owner in the same moment
        sock.shutdown(socket.SHUT_RDWR)
