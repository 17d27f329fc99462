"""Asks for every list that the API offers, with each of its parameters by itself, and measures the answers.

The server is one of its own, as others run it: `workhook serve` in another process.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import statistics
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from workhook.asgi import described
from workhook.cli.error_messages import CliError
from workhook.cli.filling import books, rows
from workhook.cli.filling.plan import ORGANIZATIONS, OWNER, SELDOM, RowCounts
from workhook.core import json
from workhook.core.clock import DAY_MS, HOUR_MS, to_millis_text
from workhook.core.errors import Malformed
from workhook.http.operations import WEBHOOK_API, WORK_API, Operation, Query

NEXT = "the next page"
"""As the value of a parameter: what the `Link` header of the answer without it gave."""

NOT_ASKED = {
    "follow_project": "a stream, which does not end",
    "get_file_content": "a signed link, which leads to one file",
    "app_installations_list": "of an app, which has to sign what it asks",
    "installation_repositories_list": "of an installation, which has a token of its own",
    "user_installations_list": "of a token that an app got",
    "user_installation_repositories_list": "of a token that an app got",
}

_CURSORS = {"cursor", "after", "before"}
_PAGING = _CURSORS | {"per_page", "page"}
_ALONG = {"q": rows.COMMON_WORD}  # where it is required
_NARROWED = {("report_timesheets", "group_by", "task"): "from"}  # all of it would have too many rows, and is refused


class Question(NamedTuple):
    """A GET of `path` with `query`. `follows`: the parameter that gets what `NEXT` says."""

    operation: str
    path: str
    query: Mapping[str, str]
    follows: str | None = None

    @property
    def asked(self) -> str:
        """The parameters, as people read them."""
        parameters = [f"{name}={value}" for name, value in self.query.items()]
        return " ".join([*parameters, f"{self.follows}=({NEXT})"] if self.follows else parameters)


def lists() -> list[Operation]:
    """Every GET of the API that takes parameters."""
    return [
        each
        for each in described()
        if each.method == "GET" and each.query and each.area in (WORK_API, WEBHOOK_API) and each.name not in NOT_ASKED
    ]


class Samples:
    """Values for parameters and paths, of what `filling` made."""

    def __init__(self, counts: RowCounts, first_hook: int) -> None:
        old, late = counts.start_ms + counts.span_ms // 100, counts.start_ms + counts.span_ms - HOUR_MS
        moments = [to_millis_text(each) for each in (counts.start_ms, old, late)]
        people = [SELDOM, "person3"]
        words = [rows.COMMON_WORD, rows.USUAL_WORDS[0], rows.SELDOM_WORD]
        project_id = counts.text_id("prj", 0)
        self.late = moments[-1]
        self._first_hook, self._organization_hook = first_hook, first_hook + counts.repositories
        self._by_name: dict[str, Sequence[str]] = {
            "per_page": ["100"], "page": ["2"], "event": [rows.SELDOM_NAME, "task"],
            "action": [rows.SELDOM_ACTION, "updated"], "since": moments, "until": moments, "from": moments,
            "to": moments, "deadline_before": moments, "deadline_after": moments, "actor": people, "user": people,
            "assignee": people, "label": [rows.SELDOM_LABEL, rows.LABELS[0]], "q": words,
            "guid": [counts.guid(3), counts.guid(4), counts.guid(counts.dispatches)], "project_id": [project_id],
            "task_id": [counts.task_id(1)], "parent_id": [counts.task_id(1)],
            "folder": [counts.text_id("fld", 1)], "organization": [ORGANIZATIONS[0]],
            "timezone": ["Europe/Berlin"], "phrase": self._phrases(late),
        }  # fmt: skip
        self._invoice_id = counts.text_id("inv", books.BOOKED)
        self._ids = {
            "projects": project_id, "columns": counts.text_id("col", 0), "tasks": counts.task_id(1),
            "files": counts.text_id("fil", 1),
        }  # fmt: skip

    def _phrases(self, late_ms: int) -> list[str]:
        day = to_millis_text(late_ms - late_ms % DAY_MS)[:10]
        actions = [rows.SELDOM_AUDITED, rows.SELDOM_AUDITED.partition(".")[0], rows.AUDITED[0], "task"]
        repositories = [f"{ORGANIZATIONS[0]}/project{each}" for each in (0, 9)]
        return [
            *(f"action:{each}" for each in actions), "delete", f"actor:{SELDOM}", "actor:person3",
            *(f"repo:{each}" for each in repositories), f"created:{day}", f"created:<{day}",
        ]  # fmt: skip

    def values(self, query: Query) -> Sequence[str]:
        """Each that the document lists, or some that find much and some that find little."""
        if listed := query.schema.get("enum"):
            return [str(each) for each in listed]
        if query.schema.get("type") == "boolean":
            return ["true", "false"]
        return self._by_name[query.name]

    def path(self, operation: Operation) -> str:
        """Of the first organization, and of what has the most rows there."""
        of_organization = operation.path.startswith("/orgs/")
        fixed = {
            "org": ORGANIZATIONS[0], "login": ORGANIZATIONS[0], "owner": ORGANIZATIONS[0], "repo": "project0",
            "username": OWNER, "hook_id": str(self._organization_hook if of_organization else self._first_hook),
            "file_id": self._ids["files"], "invoice_id": self._invoice_id,
        }  # fmt: skip
        things = operation.path.split("/")[1]
        known = {**fixed, **({"id": self._ids[things]} if things in self._ids else {})}
        return operation.area.prefixes[0] + operation.path.format_map(known)


def questions(samples: Samples) -> Iterator[Question]:
    """Each list as it is, by its pages, with each value of each parameter, and each order with each filter."""
    for operation in lists():
        path = samples.path(operation)
        along = {each.name: _ALONG[each.name] for each in operation.query if each.required}
        yield Question(operation.name, path, along)
        # Without it a list of the work API has up to a thousand rows, which would hide what finding them takes.
        paged = {**along, "per_page": "100"} if any(each.name == "per_page" for each in operation.query) else along
        for query in operation.query:
            if query.name in _CURSORS:
                yield Question(operation.name, path, {**along, "per_page": "30"}, query.name)
                continue
            for value in samples.values(query):
                if along.get(query.name) != value:
                    # A second page has to be there.
                    given = {**(along if query.name == "page" else paged), query.name: value}
                    if narrowing := _NARROWED.get((operation.name, query.name, value)):
                        given[narrowing] = samples.late
                    yield Question(operation.name, path, given)
        for pair in _pairs(operation, samples):
            yield Question(operation.name, path, {**paged, **pair})


def _pairs(operation: Operation, samples: Samples) -> Iterator[Mapping[str, str]]:
    """Each order with what each filter finds least of."""
    for order in operation.query:
        if order.name not in ("sort", "order"):
            continue
        for value, query in product(samples.values(order), operation.query):
            if query.name not in _PAGING | {order.name}:
                yield {order.name: value, query.name: samples.values(query)[0]}


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
        # With less than a hundred, the greatest.
        p99 = max(taken) if len(taken) < 100 else statistics.quantiles(taken, n=100)[-1]
        return Measured(question, status, len(taken), statistics.median(taken), p99, _rows(body))

    def _following(self, question: Question) -> dict[str, str] | None:
        """What the next page is asked for by. Its cursor is also one to go back from."""
        _, _, link, _ = self.get(question.path, question.query)
        found = _NEXT.search(link)
        if found is None or question.follows is None:
            return None
        given = parse_qs(urlsplit(found[1]).query)
        cursor = next((given[name][0] for name in ("cursor", "after") if name in given), None)
        return None if cursor is None else {question.follows: cursor}


def _rows(body: bytes) -> int:
    """Of a list, or of the first list of an object."""
    try:
        answer: Any = json.decode_untrusted(body)
    except Malformed:
        return 0
    if isinstance(answer, dict):
        answer = next((each for each in answer.values() if isinstance(each, list)), [answer])
    return len(answer)


def measure_all(
    url: str, token: str, questions: Sequence[Question], times: int, progress: Callable[[str, int, int], None]
) -> list[Measured]:
    found: list[Measured] = []
    with closing(Asker(url, token)) as asker:
        for done, question in enumerate(questions, 1):
            measured = asker.measure(question, times)
            found += [measured] if measured is not None else []
            progress("questions", done, len(questions))
    return found


START_S = 120.0
STOP_S = 30.0
_READY = "workhook: listening on "
_LAST_LINES = 5


@asynccontextmanager
async def serving(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[str]:
    """The address at which it listens. Raises `CliError` with its last words if it does not start."""
    values = {
        **settings, "data": str(folder), "api_rate_limit": "0", "retention_days": "3650", "audit_retention_days": "0",
        "log_level": "error",
    }  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workhook", "serve", "--port", "0", "--no-worker",
        env={**kept, **{f"WORKHOOK_{name.upper()}": value for name, value in values.items()}},
        stdout=PIPE, stderr=STDOUT, cwd=folder,
    )  # fmt: skip
    output: list[str] = []
    try:
        async with asyncio.timeout(START_S):
            url = await _address(process, output)
        reading = asyncio.create_task(_read_on(process), name="bench-server-output")
        try:
            yield url
        finally:
            reading.cancel()
    except TimeoutError:
        raise CliError(f"the server did not start within {START_S:.0f} s: {_last(output)}", "See its log.") from None
    finally:
        await _stop(process)


async def _address(process: Process, output: list[str]) -> str:
    assert process.stdout is not None
    async for line in process.stdout:
        output.append(line.decode(errors="replace").rstrip())
        if output[-1].startswith(_READY):
            return output[-1].removeprefix(_READY)
    raise CliError(f"the server ended: {_last(output)}", "Mend what it says, and run the command again.")


def _last(output: list[str]) -> str:
    return " / ".join(output[-_LAST_LINES:]) or "it said nothing"


async def _read_on(process: Process) -> None:
    """So that it never waits for somebody to read what it says."""
    assert process.stdout is not None
    while await process.stdout.read(65_536):
        pass


async def _stop(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
