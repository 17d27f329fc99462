"""Events of individual records: the history of a task, texts that mention it, and the last editor of a record.

No index leads from a record to its events. A page therefore reads a bounded number of the project's newest events and
returns where it stopped. Events older than the task are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from workhook.events import order
from workhook.events.tables import events
from workhook.identity.tables import accounts
from workhook.storage import Reader, Row
from workhook.storage.index_ranges import HIGHEST, ColumnValue, index_range
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks.schemas import Task
from workhook.work.discussion.markdown import Names, names_in_markdown, names_in_markup, prepare_names
from workhook.work.history.activity.queries import PAGE_BYTES, moments
from workhook.work.kernel.access import Access
from workhook.work.kernel.people import ADDRESS_HIDDEN, PersonShape, person_columns, person_of_row

SCAN_MAX = 1_000
"""The number of events that a page reads with their payloads."""

_NAMES = ("task", "task_comment", "file_comment", "file_comment_reply")
_ZERO = sa.literal_column("0", sa.BigInteger)


def _looked_at(dialect: str) -> sa.Subquery:
    ranges = []
    for name in _NAMES:
        row = events.alias(f"about_{name}")
        alike: list[ColumnValue] = [
            (row.c.repository_id, bigint_param("repository_id")),
            (row.c.name, sa.literal_column(f"'{name}'", sa.Text())),
            (row.c.listed, sa.true()),
        ]
        found = index_range(dialect, alike, row.c.id, newest_first=True, high="before").limit(bigint_param("looks_at"))
        each = found.subquery(f"of_{name}")
        ranges.append(sa.select(each.c.id))
    either = sa.union_all(*ranges).subquery("either")
    return sa.select(either.c.id).order_by(either.c.id.desc()).limit(bigint_param("looks_at")).subquery("looked_at")


def _reach(dialect: str) -> sa.Select[Any]:
    """Count the events that a page reads, and find the lowest of their IDs."""
    looked_at = _looked_at(dialect)
    return sa.select(
        sa.func.count().label("count"), sa.func.coalesce(sa.func.min(looked_at.c.id), _ZERO).label("lowest")
    ).select_from(looked_at)


def _about_task(dialect: str) -> sa.Select[Any]:
    """Select the events that contain the task's ID, or its number as texts mention it."""
    looked_at = _looked_at(dialect)
    row = events.alias("candidate")
    needles = [sa.bindparam(name, type_=sa.LargeBinary()) for name in ("needle", "reference")]
    find = sa.func.instr if dialect == "sqlite" else sa.func.pg_catalog.position
    found = (
        sa.select(row.c.id, row.c.size)
        .join_from(looked_at, row, row.c.id == looked_at.c.id)
        .where(sa.or_(*(find(row.c.payload, each) > _ZERO for each in needles)))
    )
    page = order.page(found, newest_first=True).join(accounts, accounts.c.id == events.c.actor_id, isouter=True)
    return page.add_columns(*person_columns(ADDRESS_HIDDEN))


_REACH = PerDialect.made_by(_reach)
_ABOUT_TASK = PerDialect.made_by(_about_task)

_TEXT_ACTIONS = ("created", "edited", "moved", "completed", "reopened")
_TEXTS: Mapping[str, tuple[str, Callable[[str], Names]]] = {
    "task": ("description", names_in_markdown),
    "task_comment": ("text", names_in_markdown),
    "file_comment": ("text", names_in_markdown),
    "file_comment_reply": ("body", names_in_markup),
}
"""The text field of the record and the parser of its mentions, by event name."""


def mentions_task(event: str, payload: Any, number: int) -> bool:
    """Return whether the event added a mention of the task with this number. The event must not be a published one."""
    if event not in _TEXTS:
        return False
    names_in = _TEXTS[event][1]
    after, before = (f"#{number}" in text and number in names_in(text).numbers for text in _texts_of(event, payload))
    return after and not before


async def prepare_mentions(event: str, payload: Any, number: int) -> None:
    for text in _texts_of(event, payload) if event in _TEXTS else ():
        if f"#{number}" in text:
            await prepare_names(text)


def _texts_of(event: str, payload: Any) -> tuple[str, str]:
    """Return the text after and before the event, both empty unless the event changed it."""
    name = _TEXTS[event][0]
    if not isinstance(payload, dict) or payload.get("action") not in _TEXT_ACTIONS:
        return "", ""
    change = (payload.get("changes") or {}).get(name)
    if payload["action"] != "created" and change is None:
        return "", ""
    return payload[event].get(name) or "", (change["from"] if change else None) or ""


async def read_task_history(
    reader: Reader, access: Access, task: Task, *, before: int | None, limit: int, looks_at: int = SCAN_MAX
) -> tuple[Sequence[Row], int | None]:
    """Return a page of the events that mention the task, newest first, and the ID below which the next page starts.

    Raises `NotFound` for clients.
    """
    access.require_not_client()
    params: dict[str, object] = {
        "repository_id": access.repository.id,
        "before": HIGHEST if before is None else before,
        "low": (await moments.bounds(reader, since=task.created_at)).low,
        "looks_at": looks_at,
    }
    reach = await reader.fetch_row(_REACH, params)
    needles = {"needle": f'"id":"{task.id}"'.encode(), "reference": f"#{task.number}".encode()}
    more = {**needles, "limit": limit + 1, "bytes_max": PAGE_BYTES}
    found = await reader.fetch_all(_ABOUT_TASK, {**params, **more})
    whole = [row for row in found[:limit] if row["payload"] is not None]
    if len(whole) < len(found):
        return whole, whole[-1]["id"]
    return whole, reach["lowest"] if reach["count"] == looks_at else None


EDITS_LOOKED_AT = 500
"""The number of newest events of a kind searched for last edits."""

Noun = Literal["task_comment", "file_comment", "file_comment_reply", "timesheet"]

_HEAD_BYTES = 120  # enough of a payload for the action and the ID of the record
_ID = re.compile(rb'^\{"action":"edited","[a-z_]+":\{"id":(?:"([a-z0-9_]+)"|(\d+))[,}]')


class LastEdit(msgspec.Struct, frozen=True):
    """The time and author of a record's last change. `by` is None for Workhook itself."""

    by: PersonShape | None
    at: int


def _edits(dialect: str) -> sa.Select[Any]:
    row = events.alias("of_kind")
    alike: list[ColumnValue] = [
        (row.c.repository_id, bigint_param("repository_id")),
        (row.c.name, sa.bindparam("name", type_=sa.Text())),
        (row.c.listed, sa.true()),
    ]
    newest = index_range(dialect, alike, row.c.id, newest_first=True).subquery("newest")
    head = sa.func.substr(events.c.payload, sa.literal_column("1"), sa.literal_column(str(_HEAD_BYTES)))
    return (
        sa.select(events.c.id, events.c.created_at, head.label("head"), *person_columns(ADDRESS_HIDDEN))
        .join_from(newest, events, events.c.id == newest.c.id)
        .outerjoin(accounts, accounts.c.id == events.c.actor_id)
        .where(events.c.action == sa.literal_column("'edited'", sa.Text()), sa.not_(events.c.published))
        .order_by(events.c.id.desc())
    )


_EDITS = PerDialect.made_by(_edits)


async def find_last_edits(reader: Reader, repository_id: int, noun: Noun) -> Mapping[str, LastEdit]:
    """Return the last edits, keyed by the IDs of the records as text."""
    params = {"repository_id": repository_id, "name": noun, "low": 0, "high": HIGHEST, "limit": EDITS_LOOKED_AT}
    found: dict[str, LastEdit] = {}
    for row in await reader.fetch_all(_EDITS, params):
        if (about := _ID.match(bytes(row["head"]))) is not None:
            person = person_of_row(row) if row["user_id"] is not None else None
            found.setdefault((about[1] or about[2]).decode(), LastEdit(person, row["created_at"]))
    return found
