"""Queries for the activity of a project, for access to its stream, and for the events of individual records.

No index leads from a record to its events. A page of the history of a task therefore reads a bounded number of the
project's newest events and returns where it stopped. Events older than the task are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import MINUTE_MS, now_ms, to_millis_text
from workhook.events import order
from workhook.events.payloads import to_show
from workhook.events.tables import events
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed
from workhook.http.parameters import Moment
from workhook.identity.authenticator import actor_of
from workhook.identity.queries import find_account
from workhook.identity.tables import accounts, projects, sessions, tokens
from workhook.identity.tokens.issue import KINDS
from workhook.identity.tokens.lookup import find_actors, may_reach
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of
from workhook.storage.index_ranges import HIGHEST, ColumnValue, TimeIndex, index_range
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect
from workhook.work.board.tasks.schemas import Task
from workhook.work.discussion.markdown import Names, names_in_markdown, names_in_markup, prepare_names
from workhook.work.kernel.access import Access, find_access, is_insider
from workhook.work.kernel.list_statements import select_first_per_group
from workhook.work.kernel.people import ADDRESS_HIDDEN, PersonShape, membership_of, person_columns, person_of_row
from workhook.work.kernel.schemas import if_set

FOLLOWING = ("work", "read")  # the permission required of a confined token
PAGE_BYTES = 4 * 1024 * 1024  # the limit for payloads in one response, which always includes at least one event

moments = TimeIndex(events, "created_at", slack_ms=5 * MINUTE_MS)  # longer than any transaction takes


def _select_events(dialect: str, filters: frozenset[str]) -> sa.Select[Any]:
    if "actor_id" in filters:
        return _of_actor(dialect, filters)
    row = events.alias("stretch")
    alike: list[ColumnValue] = [(row.c.repository_id, bigint_param("repository_id"))]
    if "event" in filters:
        alike += [(row.c.name, sa.bindparam("event", type_=sa.Text())), (row.c.listed, sa.true())]
    found = index_range(dialect, alike, row.c.id, newest_first=True, high="before").where(
        row.c.listed, *_since(row, filters)
    )
    first = found.add_columns(row.c.size).subquery("first")
    return sa.select(first.c.id, first.c.size)


def _of_actor(dialect: str, filters: frozenset[str]) -> sa.Select[Any]:
    """Return the first few events of each name, as the index orders them."""
    names = _names(filters).subquery("each_name")

    def fits(row: sa.FromClause) -> list[sa.ColumnElement[bool]]:
        by_actor = [row.c.repository_id == bigint_param("repository_id"), row.c.actor_id == bigint_param("actor_id")]
        within = [
            row.c.id > bigint_param("low"),
            row.c.id < bigint_param("before"),
            row.c.listed,
            *_since(row, filters),
        ]
        return [*by_actor, row.c.name == names.c.name, *within]

    return select_first_per_group(dialect, events, "id", names, fits, lambda row: [row.c.id.desc()], ["id", "size"])


def _since(row: sa.FromClause, filters: frozenset[str]) -> list[sa.ColumnElement[bool]]:
    return [row.c.created_at >= bigint_param("since")] if "since" in filters else []


def _names(filters: frozenset[str]) -> sa.Select[Any]:
    """Return the names of the actor's events, each with one index lookup."""
    if "event" in filters:
        return sa.select(sa.bindparam("event", type_=sa.Text()).label("name"))

    def next_name(alias: str, after: sa.ColumnElement[Any] | None) -> sa.ColumnElement[Any]:
        row = events.alias(alias)
        found = sa.select(sa.func.min(row.c.name)).where(
            row.c.repository_id == bigint_param("repository_id"),
            row.c.actor_id == bigint_param("actor_id"),
            row.c.listed,
        )
        return (found if after is None else found.where(row.c.name > after)).scalar_subquery()

    walk = sa.select(next_name("first_name", None).label("name")).cte("walk", recursive=True)
    later = sa.select(next_name("later_name", walk.c.name).correlate(walk)).where(walk.c.name.is_not(None))
    walk = walk.union_all(later)
    return sa.select(walk.c.name).where(walk.c.name.is_not(None))


@cache
def _pages(filters: frozenset[str]) -> PerDialect:
    def make(dialect: str) -> sa.Select[Any]:
        page = order.page(_select_events(dialect, filters), newest_first=True)
        with_actor = page.join(accounts, accounts.c.id == events.c.actor_id, isouter=True)
        return with_actor.add_columns(*person_columns(membership_of(bigint_param("repository_id"))))

    return PerDialect.made_by(make)


async def find_activity(
    reader: Reader,
    repository_id: int,
    *,
    before: int,
    limit: int,
    event: str | None = None,
    actor: str | None = None,
    since: int | None = None,
) -> Sequence[Row]:
    """Return up to `limit` rows, newest first. Rows beyond the size limit for payloads have no payload."""
    actor_id = None
    if actor is not None:
        found = await find_account(reader, actor)
        if found is None:
            return []
        actor_id = found.id
    wanted = {"event": event, "actor_id": actor_id, "since": since}
    filters = {name: value for name, value in wanted.items() if value is not None}
    params = {**filters, "repository_id": repository_id, "before": before, "limit": limit, "bytes_max": PAGE_BYTES}
    params["low"] = 0
    if since is not None:
        params["low"] = (await moments.bounds(reader, since=since)).low
    return await reader.fetch_all(_pages(frozenset(filters)), params)


class Proof(NamedTuple):
    """The ID of a token or session."""

    kind: Literal["token", "session"]
    id: int


def _followers(table: sa.Table, ids: str) -> sa.Select[Any]:
    user = table.c.user_id
    return (
        sa.select(table.c.id, projects.c.account_id)
        .select_from(
            table.join(projects, projects.c.repository_id == bigint_param("repository_id")).join(
                accounts, accounts.c.id == user
            )
        )
        .where(
            any_of(table.c.id, ids),
            accounts.c.disabled_at.is_(None),
            projects.c.deleted_at.is_(None),
            is_insider(user),
        )
    )


_tokens_that_follow = (
    _followers(tokens, "token_ids")
    .add_columns(tokens.c.kind)
    .where(
        tokens.c.revoked_at.is_(None), sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > bigint_param("now"))
    )
)
_sessions_that_follow = _followers(sessions, "session_ids").where(sessions.c.expires_at > bigint_param("now"))
_good_sessions = (
    sa.select(sessions.c.id)
    .join_from(sessions, accounts, accounts.c.id == sessions.c.user_id)
    .where(
        any_of(sessions.c.id, "session_ids"),
        sessions.c.expires_at > bigint_param("now"),
        accounts.c.disabled_at.is_(None),
    )
)


def _ids(proofs: Collection[Proof], kind: str) -> list[int]:
    return sorted(each.id for each in proofs if each.kind == kind)


async def filter_valid_proofs(reader: Reader, proofs: Collection[Proof]) -> set[Proof]:
    """Return the proofs that are still valid, whatever projects they give access to."""
    good: set[Proof] = set()
    if token_ids := _ids(proofs, "token"):
        good |= {Proof("token", each) for each in await find_actors(reader, token_ids)}
    if session_ids := _ids(proofs, "session"):
        rows = await reader.fetch_all(_good_sessions, {"session_ids": session_ids, "now": now_ms()})
        good |= {Proof("session", row["id"]) for row in rows}
    return good


async def filter_followers(reader: Reader, repository_id: int, proofs: Collection[Proof]) -> set[Proof]:
    """Return the valid proofs whose users have access to the project as more than clients."""
    params = {"repository_id": repository_id, "now": now_ms()}
    found: set[Proof] = set()
    if session_ids := _ids(proofs, "session"):
        rows = await reader.fetch_all(_sessions_that_follow, {**params, "session_ids": session_ids})
        found |= {Proof("session", row["id"]) for row in rows}
    if token_ids := _ids(proofs, "token"):
        tokens_there = await reader.fetch_all(_tokens_that_follow, {**params, "token_ids": token_ids})
        confined = {row["id"] for row in tokens_there if KINDS[row["kind"]].confined}
        actors = await find_actors(reader, confined) if confined else {}
        found |= {
            Proof("token", row["id"])
            for row in tokens_there
            if row["id"] not in confined
            or (row["id"] in actors and may_reach(actors[row["id"]], FOLLOWING, row["account_id"], repository_id))
        }
    return found


ID_MAX = 2**53 - 1

Payload = Annotated[
    msgspec.Raw,
    Meta(
        description="Payload of the webhook event.", extra_json_schema={"type": "object", "additionalProperties": True}
    ),
]


class ActivityQuery(lists.ListQuery):
    """Filters of a project's activity. `since` excludes older events."""

    event: Annotated[str, Meta(description="Name of the event.")] | UnsetType = UNSET
    actor: Annotated[str, Meta(description="Username of the actor.")] | UnsetType = UNSET
    since: Moment | UnsetType = UNSET


class ActivityShape(msgspec.Struct):
    """An event in a project.

    `actor` is null if Workhook itself acted. `published` is true if the actor reported the event by publishing it,
    rather than Workhook observing it.
    """

    id: int
    event: str
    action: str | None
    actor: PersonShape | None
    created_at: str
    published: bool
    payload: Payload


class ActivityAnswer(msgspec.Struct):
    activity: list[ActivityShape]
    success: bool = True


async def list_activity(call: Call, project_id: str, query: ActivityQuery) -> Listed[ActivityAnswer]:
    """List the activity of a project, newest first.

    Includes events published by other systems, but not pings and the like. A page is shorter than requested if its
    payloads are very large. Events are kept as long as deliveries. Not available to clients.
    """
    key = lists.after(query, tuple[int])
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_member("see the activity of a project")
    rows = await find_activity(
        call.database,
        access.repository.id,
        before=max(0, min(key[0], ID_MAX)) if key else ID_MAX,
        limit=query.limit + 1,
        event=if_set(query.event, None),
        actor=if_set(query.actor, None),
        since=if_set(query.since, None),
    )
    came = sum(row["payload"] is not None for row in rows)
    if came < min(len(rows), query.limit):  # shorten the page because the payloads are very large
        query = msgspec.structs.replace(query, per_page=came)
    shown, headers = lists.page(call, rows, query, lambda row: (row["id"],))
    return Listed(ActivityAnswer([_activity_shape(row) for row in shown]), headers)


def _activity_shape(row: Row) -> ActivityShape:
    return ActivityShape(
        id=row["id"],
        event=row["name"],
        action=row["action"],
        actor=person_of_row(row) if row["user_id"] is not None else None,
        created_at=to_millis_text(row["created_at"]),
        published=bool(row["published"]),
        payload=msgspec.Raw(to_show(row["payload"])),
    )


# --- the history of a task, texts that mention it, and the last editor of a record ------------------------------------

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
