"""Asks a server one question after the other, and keeps how long the answers took."""

from __future__ import annotations

import http.client
import json
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from workhook.cli.asking.questions import Question

SLOW_MS = 100.0
ENOUGH_S = 5.0  # of one question: what takes long is not asked so often
ANSWER_S = 60.0

_NEXT = re.compile(r'<([^>]+)>; rel="next"')


class Measured(NamedTuple):
    """The answers to one question. `returned`: rows of one; `status`: the worst."""

    question: Question
    status: int
    times: int
    p50_ms: float
    p99_ms: float
    returned: int

    @property
    def slow(self) -> bool:
        return self.p99_ms > SLOW_MS

    def shown(self) -> dict[str, object]:
        return {
            "operation": self.question.operation,
            "query": self.question.asked,
            "status": self.status,
            "times": self.times,
            "p50_ms": round(self.p50_ms, 1),
            "p99_ms": round(self.p99_ms, 1),
            "returned": self.returned,
            "slow": self.slow,
        }


class Asker:
    """One kept connection, one question at a time."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_S)
        self._headers = {"Authorization": f"Bearer {token}"}

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str, query: Mapping[str, str]) -> tuple[float, int, str, bytes]:
        """Milliseconds until the whole answer was read, the status, the `Link` header, the body."""
        target = f"{path}?{urlencode(query)}" if query else path
        started = time.monotonic()
        self._connection.request("GET", target, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        return (time.monotonic() - started) * 1000, answer.status, answer.headers.get("Link", ""), body

    def measure(self, question: Question, times: int) -> Measured | None:
        """Once more than counts, so that nothing is read from the disk. None: there is no next page to ask for."""
        query = dict(question.query)
        if question.follows is not None:
            following = self._following(question)
            if following is None:
                return None
            query |= following
        taken: list[float] = []
        _, status, _, body = self.get(question.path, query)
        until = time.monotonic() + ENOUGH_S
        while len(taken) < times and (not taken or time.monotonic() < until):
            ms, answered, _, body = self.get(question.path, query)
            taken.append(ms)
            status = max(status, answered)
        return Measured(question, status, len(taken), statistics.median(taken), _p99(taken), _rows(body))

    def _following(self, question: Question) -> dict[str, str] | None:
        """What the next page is asked for by. Its cursor is also one to go back from."""
        _, _, link, _ = self.get(question.path, question.query)
        found = _NEXT.search(link)
        if found is None or question.follows is None:
            return None
        given = parse_qs(urlsplit(found[1]).query)
        cursor = next((given[name][0] for name in ("cursor", "after") if name in given), None)
        return None if cursor is None else {question.follows: cursor}


def _p99(taken: Sequence[float]) -> float:
    """With less than a hundred the greatest."""
    return max(taken) if len(taken) < 100 else statistics.quantiles(taken, n=100)[-1]


def _rows(body: bytes) -> int:
    """Of a list, or of the first list of an object."""
    try:
        told: Any = json.loads(body)
    except ValueError:
        return 0
    if isinstance(told, dict):
        told = next((each for each in told.values() if isinstance(each, list)), [told])
    return len(told)


def measure_all(
    url: str, token: str, questions: Sequence[Question], times: int, progress: Callable[[str, int, int], None]
) -> list[Measured]:
    asker = Asker(url, token)
    found: list[Measured] = []
    try:
        for done, question in enumerate(questions, 1):
            measured = asker.measure(question, times)
            found += [measured] if measured is not None else []
            progress("questions", done, len(questions))
    finally:
        asker.close()
    return found
