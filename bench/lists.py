"""`python -m bench lists`: fill a database, then measure every list endpoint of the API with each of its parameters."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
from rich.console import Console
from rich.table import Table

from bench import world
from bench.databases import Place
from bench.figures import percentile_99
from bench.filling import rows
from bench.filling.fill import fill
from bench.filling.plan import ORGANIZATIONS, OWNER, SELDOM, RowCounts
from bench.processes import workhook
from bench.report import write_json
from workhook.asgi import described
from workhook.core.clock import DAY_MS, HOUR_MS, now_ms, to_millis_text
from workhook.http.calls import Services
from workhook.http.operations import WEBHOOK_API, WORK_API, Operation, Query
from workhook.work.time.timesheets import sums

NEXT = "the next page"
"""As a parameter's value: taken from the `Link` header of the response without the parameter."""

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
_ALONG = {"q": rows.COMMON_WORD}  # where the parameter is required
_NARROWED = {("report_timesheets", "group_by", "task"): "from"}  # unlimited, it would be rejected for too many rows


class Question(NamedTuple):
    """A GET of `path` with `query`. `follows` is the parameter that takes the value described by `NEXT`."""

    operation: str
    path: str
    query: Mapping[str, str]
    follows: str | None = None

    @property
    def asked(self) -> str:
        """Return the parameters as readable text."""
        parameters = [f"{name}={value}" for name, value in self.query.items()]
        return " ".join([*parameters, f"{self.follows}=({NEXT})"] if self.follows else parameters)


def list_operations() -> list[Operation]:
    """Return all GET operations of the API that have parameters."""
    return [
        each
        for each in described()
        if each.method == "GET" and each.query and each.area in (WORK_API, WEBHOOK_API) and each.name not in NOT_ASKED
    ]


class Samples:
    """Values for parameters and paths, taken from the rows created by `filling`."""

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
        self._invoice_id = counts.text_id("inv", rows.BOOKED)
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
        """Return all values in the document, or some with many results and some with few."""
        if listed := query.schema.get("enum"):
            return [str(each) for each in listed]
        if query.schema.get("type") == "boolean":
            return ["true", "false"]
        return self._by_name[query.name]

    def path(self, operation: Operation) -> str:
        """Return the path for the first organization and for the resources with the most rows in it."""
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
    """Yield each list alone, by pages, with each value of each parameter, and with each order and filter combined."""
    for operation in list_operations():
        path = samples.path(operation)
        along = {each.name: _ALONG[each.name] for each in operation.query if each.required}
        yield Question(operation.name, path, along)
        # Without `per_page`, a list of the work API has up to a thousand rows, which would hide the cost of finding
        # them.
        paged = {**along, "per_page": "100"} if any(each.name == "per_page" for each in operation.query) else along
        for query in operation.query:
            if query.name in _CURSORS:
                yield Question(operation.name, path, {**along, "per_page": "30"}, query.name)
                continue
            for value in samples.values(query):
                if along.get(query.name) != value:
                    # There must be a second page.
                    given = {**(along if query.name == "page" else paged), query.name: value}
                    if narrowing := _NARROWED.get((operation.name, query.name, value)):
                        given[narrowing] = samples.late
                    yield Question(operation.name, path, given)
        for pair in _pairs(operation, samples):
            yield Question(operation.name, path, {**paged, **pair})


def _pairs(operation: Operation, samples: Samples) -> Iterator[Mapping[str, str]]:
    """Yield each order combined with each filter's most selective value."""
    for order in operation.query:
        if order.name not in ("sort", "order"):
            continue
        for value, query in product(samples.values(order), operation.query):
            if query.name not in _PAGING | {order.name}:
                yield {order.name: value, query.name: samples.values(query)[0]}


SLOW_MS = 100.0
ENOUGH_S = 5.0  # per question: slow requests are sent fewer times
ANSWER_S = 60.0
_KEPT = {"retention_days": "3650", "audit_retention_days": "0"}  # the server deletes no rows


class Measured(NamedTuple):
    """The responses to one question. `returned` is the number of rows in one, and `status` the worst status."""

    question: Question
    status: int
    times: int
    p50_ms: float
    p99_ms: float
    returned: int

    @property
    def note(self) -> str:
        if self.status != 200:
            return f"answered {self.status}"
        return "slow" if self.p99_ms > SLOW_MS else ""

    def as_json(self) -> dict[str, object]:
        return {
            "operation": self.question.operation,
            "query": self.question.asked,
            "status": self.status,
            "times": self.times,
            "p50_ms": round(self.p50_ms, 1),
            "p99_ms": round(self.p99_ms, 1),
            "returned": self.returned,
            "slow": self.p99_ms > SLOW_MS,
        }


def measure(client: httpx.Client, question: Question, times: int) -> Measured | None:
    """Measure a question after one uncounted request that warms the caches.

    Returns None if the list has no next page.
    """
    query = dict(question.query)
    if question.follows is not None:
        following = _following(client, question)
        if following is None:
            return None
        query |= following
    answer = client.get(question.path, params=query)
    status, taken = answer.status_code, list[float]()
    until = time.monotonic() + ENOUGH_S
    while len(taken) < times and (not taken or time.monotonic() < until):
        started = time.monotonic()
        answer = client.get(question.path, params=query)
        taken.append((time.monotonic() - started) * 1000)
        status = max(status, answer.status_code)
    return Measured(question, status, len(taken), statistics.median(taken), percentile_99(taken), _count_rows(answer))


def _following(client: httpx.Client, question: Question) -> dict[str, str] | None:
    """Return the parameter that requests the next page. Its cursor is also valid for going back."""
    link = client.get(question.path, params=dict(question.query)).links.get("next")
    if link is None or question.follows is None:
        return None
    given = parse_qs(urlsplit(link["url"]).query)
    cursor = next((given[name][0] for name in ("cursor", "after") if name in given), None)
    return None if cursor is None else {question.follows: cursor}


def _count_rows(response: httpx.Response) -> int:
    """Return the length of the list, or of the first list in an object."""
    if "json" not in response.headers.get("content-type", ""):
        return 0
    answer: Any = response.json()
    if isinstance(answer, dict):
        answer = next((each for each in answer.values() if isinstance(each, list)), [answer])
    return len(answer)


def measure_all(place: Place, core: int, counts: RowCounts, times: int, say: Callable[[str], None]) -> list[Measured]:
    """Fill the database at `place`, start a server on it, and measure every question."""

    async def write(services: Services) -> tuple[str, int]:
        base = await fill(services.database, counts, lambda what, done, total: say(f"{what}: {done:,} of {total:,}"))
        await sums.add_changes(services, now_ms())  # the chore that would have run by then
        return base.token, base.params["first_hook"]

    token, first_hook = world.with_services(place, write)
    world.settle(place)
    every = list(questions(Samples(counts, first_hook)))
    found = []
    server = workhook("serve", place.folder, {**place.settings, **_KEPT}, core, "--port", "0", "--no-worker")
    try:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=server.wait_for_url(), headers=headers, timeout=ANSWER_S) as client:
            for done, question in enumerate(every, 1):
                say(f"questions: {done:,} of {len(every):,}")
                found.append(measure(client, question, times))
    finally:
        server.stop()
    return [each for each in found if each is not None]


def run(console: Console, place: Place, core: int, deliveries: int, times: int) -> bool:
    """Print a table and write `lists-<date>.json`. Returns whether every response was 200."""
    counts = RowCounts.of(deliveries)
    with console.status("filling") as status:
        found = measure_all(place, core, counts, times, status.update)
    table = Table(title=f"{counts.deliveries:,} deliveries, {place.kind}", title_justify="left")
    for heading in ("operation", "query", "p50 ms", "p99 ms", "rows", "note"):
        table.add_column(heading, overflow="fold")
    for each in found:
        times_ms = (f"{each.p50_ms:.1f}", f"{each.p99_ms:.1f}")
        table.add_row(each.question.operation, each.question.asked, *times_ms, str(each.returned), each.note)
    console.print(table)
    slow = sum(each.p99_ms > SLOW_MS for each in found)
    console.print(f"{slow} of {len(found)} questions took more than {SLOW_MS:.0f} ms")
    answers = [each.as_json() for each in found]
    told = {"rows": counts.deliveries, "database": place.kind, "slow_ms": SLOW_MS, "answers": answers}
    console.print(f"written to {write_json(None, 'lists', told)}")
    return all(each.status == 200 for each in found)
