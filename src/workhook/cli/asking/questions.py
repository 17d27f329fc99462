"""What is asked: every list, and each of its parameters by itself, as the operations declare them.

A parameter that is new has its values here, or there is a `KeyError` that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from workhook.asgi import described
from workhook.cli.filling import history, tasks
from workhook.cli.filling.plan import ORGANIZATIONS, OWNER, SELDOM, Plan
from workhook.core.clock import DAY_MS, HOUR_MS, to_millis_text
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
_ALONG = {"q": tasks.COMMON_WORD}  # where it is required
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
        told = [f"{name}={value}" for name, value in self.query.items()]
        return " ".join([*told, f"{self.follows}=({NEXT})"] if self.follows else told)


def lists() -> list[Operation]:
    """Every GET of the API that takes parameters."""
    every = described()
    return [
        each
        for each in every
        if each.method == "GET" and each.query and each.area in (WORK_API, WEBHOOK_API) and each.name not in NOT_ASKED
    ]


class Samples:
    """Values for parameters and paths, of what `filling` made by this plan."""

    def __init__(self, plan: Plan, first_hook: int) -> None:
        old, late = plan.start_ms + plan.span_ms // 100, plan.start_ms + plan.span_ms - HOUR_MS
        moments = [to_millis_text(each) for each in (plan.start_ms, old, late)]
        people = [SELDOM, "person3"]
        words = [tasks.COMMON_WORD, tasks.USUAL_WORDS[0], tasks.SELDOM_WORD]
        project_id = plan.text_id("prj", 0)
        self.late = moments[-1]
        self._first_hook, self._organization_hook = first_hook, first_hook + plan.repositories
        self._by_name: dict[str, Sequence[str]] = {
            "per_page": ["100"], "page": ["2"], "event": [history.SELDOM_NAME, "task"],
            "action": [history.SELDOM_ACTION, "updated"], "since": moments, "until": moments, "from": moments,
            "to": moments, "deadline_before": moments, "deadline_after": moments, "actor": people, "user": people,
            "assignee": people, "label": [tasks.SELDOM_LABEL, tasks.LABELS[0]], "q": words,
            "guid": [plan.guid(3), plan.guid(4), plan.guid(plan.dispatches)], "project_id": [project_id],
            "task_id": [plan.task_id(1)], "folder": [plan.text_id("fld", 1)], "organization": [ORGANIZATIONS[0]],
            "timezone": ["Europe/Berlin"], "phrase": self._phrases(late),
        }  # fmt: skip
        self._ids = {
            "projects": project_id, "columns": plan.text_id("col", 0), "tasks": plan.task_id(1),
            "files": plan.text_id("fil", 1),
        }  # fmt: skip

    def _phrases(self, late_ms: int) -> list[str]:
        day = to_millis_text(late_ms - late_ms % DAY_MS)[:10]
        actions = [history.SELDOM_AUDITED, history.SELDOM_AUDITED.partition(".")[0], history.AUDITED[0], "task"]
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
            "file_id": self._ids["files"],
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
