"""Calendar feeds: creating, finding and deleting them, and open tasks with a recent or future due date as iCalendar.

The URL of a feed contains a key, and only a hash of the key is stored. Anyone with the URL can read the feed. The
access of the person who created it is checked on every read.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS
from workhook.core.errors import NotFound, TooManyRequests
from workhook.identity.context import Write
from workhook.identity.queries import account_columns
from workhook.identity.rate import Windows
from workhook.identity.schemas import Account, account_of
from workhook.identity.tables import accounts, projects
from workhook.identity.tokens.issue import digest_of
from workhook.storage import Reader
from workhook.storage.metadata import Millis, bigint_param, in_project, insert_into, numbered_table, of_account
from workhook.work.board.tasks.assigned import list_assigned
from workhook.work.board.tasks.schemas import LATER_THAN_ALL, columns, tasks
from workhook.work.kernel.access import Access
from workhook.work.kernel.record_events import record_audit

calendar_feeds = numbered_table(
    "calendar_feeds",
    of_account("user_id", nullable=False),
    # None for the feed of the tasks assigned to the person.
    in_project(nullable=True),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the key in the feed's URL
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_calendar_feeds_user_id", "user_id", "repository_id"),
    sa.Index("ix_calendar_feeds_repository_id", "repository_id"),
)

REQUESTS_MAX = 120
"""Reads of a feed per hour in each process, because a read must not cause writes.

Calendars poll a few times an hour.
"""
_reads = Windows(REQUESTS_MAX)

_KEY_BYTES = 32
_KEY = re.compile(r"[A-Za-z0-9_-]{43}")  # matches `secrets.token_urlsafe(_KEY_BYTES)`

_feed = calendar_feeds.c
_this = (
    _feed.user_id == bigint_param("user_id"),
    _feed.repository_id.is_not_distinct_from(bigint_param("repository_id")),
)
_created_at = sa.select(_feed.created_at).where(*_this)
_insert = insert_into(calendar_feeds, "user_id", "repository_id", "digest", "created_at")
_by_key = (
    sa.select(_feed.id.label("feed_id"), projects.c.id.label("project_id"), *account_columns())
    .join_from(calendar_feeds, accounts, accounts.c.id == _feed.user_id)
    .outerjoin(projects, projects.c.repository_id == _feed.repository_id)
    .where(
        _feed.digest == sa.bindparam("digest", type_=sa.LargeBinary()),
        accounts.c.kind == "user",
        accounts.c.disabled_at.is_(None),
    )
)
_end = sa.delete(calendar_feeds).where(*_this)


async def find_feeds(reader: Reader, user: Account, repository_id: int) -> tuple[int | None, int | None]:
    """Return when the user's feeds of the project and of their assigned tasks were created. None: there is no feed."""
    of_project = await reader.fetch_one(_created_at, {"user_id": user.id, "repository_id": repository_id})
    assigned = await reader.fetch_one(_created_at, {"user_id": user.id, "repository_id": None})
    return of_project["created_at"] if of_project else None, assigned["created_at"] if assigned else None


async def create_feed(write: Write, repository_id: int | None) -> str:
    """Replace the caller's feed of a project (or, for None, of their assigned tasks) and return its key.

    The key cannot be read later.
    """
    await write.tx.execute(_end, {"user_id": write.actor.user.id, "repository_id": repository_id})
    key = secrets.token_urlsafe(_KEY_BYTES)
    values = {"user_id": write.actor.user.id, "repository_id": repository_id, "digest": digest_of(key)}
    await write.tx.execute(_insert, {**values, "created_at": write.now})
    await record_audit(write, write.actor.user, "calendar_feed.create", _target(repository_id))
    return key


async def delete_feed(write: Write, repository_id: int | None) -> bool:
    """Delete the caller's feed. Returns False if it does not exist."""
    if not await write.tx.execute(_end, {"user_id": write.actor.user.id, "repository_id": repository_id}):
        return False
    await record_audit(write, write.actor.user, "calendar_feed.destroy", _target(repository_id))
    return True


async def get_feed(reader: Reader, key: str) -> tuple[Account, str | None]:
    """Return the user and project ID (None: tasks assigned to the user) of the feed with this key.

    Raises `NotFound`, and `TooManyRequests` if it is read too often.
    """
    row = await reader.fetch_one(_by_key, {"digest": digest_of(key)}) if _KEY.fullmatch(key) else None
    if row is None:
        raise NotFound()
    usage, within = _reads.hit(str(row["feed_id"]))
    if not within:
        raise TooManyRequests("The calendar was read too often. Try again later.", retry_after_s=usage.wait_s)
    return account_of(row), row["project_id"]


def _target(repository_id: int | None) -> str:
    return "assigned" if repository_id is None else str(repository_id)


TASKS_MAX = 1_000
SCAN_MAX = 4_000
"""The number of tasks with a due date that are scanned, finished or not."""
BACK_MS = 31 * DAY_MS


class DueTask(msgspec.Struct, frozen=True):
    """A task in a calendar. `project` and `column` are titles, and `place` is the project's full name."""

    id: str
    title: str
    deadline: int
    updated_at: int
    project: str
    column: str
    place: str


# The expression of the index on due dates.
_due = sa.func.coalesce(tasks.c.deadline, sa.literal_column(str(LATER_THAN_ALL), sa.BigInteger))
_first = (
    sa.select(tasks.c.id, _due.label("due"))
    .where(
        tasks.c.repository_id == bigint_param("repository_id"),
        tasks.c.deleted_at.is_(None),
        _due >= bigint_param("since"),
        _due < sa.literal_column(str(LATER_THAN_ALL), sa.BigInteger),
    )
    .order_by(_due, tasks.c.id)
    .limit(bigint_param("looks_at"))
    .subquery("first_due")
)
_of_project = (
    sa.select(
        *(tasks.c[name] for name in ("id", "title", "deadline", "updated_at")), columns.c.title.label("column_title")
    )
    .select_from(_first.join(tasks, tasks.c.id == _first.c.id).join(columns, columns.c.id == tasks.c.column_id))
    .where(tasks.c.completed_at.is_(None))
    .order_by(_first.c.due, tasks.c.id)
    .limit(bigint_param("limit"))
)


async def list_project_due(reader: Reader, access: Access, now: int) -> list[DueTask]:
    params = {
        "repository_id": access.repository.id,
        "since": _since(now),
        "limit": TASKS_MAX,
        "looks_at": SCAN_MAX,
    }
    return [
        DueTask(
            row["id"],
            row["title"],
            row["deadline"],
            row["updated_at"],
            access.repository.title,
            row["column_title"],
            access.repository.full_name,
        )
        for row in await reader.fetch_all(_of_project, params)
    ]


async def list_own_due(reader: Reader, user: Account, now: int) -> list[DueTask]:
    """Return due tasks assigned to the user in visible projects that are not archived."""
    found = await list_assigned(reader, user, TASKS_MAX, due_since=_since(now))
    return [
        DueTask(
            task.id,
            task.title,
            task.deadline,
            task.updated_at,
            task.repository.title,
            task.column,
            task.repository.full_name,
        )
        for task in found
        if task.deadline is not None
    ]


def _since(now: int) -> int:
    return (now - BACK_MS) // DAY_MS * DAY_MS


# --- iCalendar (RFC 5545) ---------------------------------------------------------------------------------------------

MEDIA_TYPE = "text/calendar; charset=utf-8"
LINE_BYTES = 75
REFRESH = "PT1H"
"""The refresh interval suggested to clients."""

_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"})


def calendar_bytes(name: str, tasks: Iterable[DueTask], *, base: str) -> bytes:
    """Return a calendar with one event per task. `base` is prepended to the paths of pages."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Workhook//Workhook//EN", "CALSCALE:GREGORIAN"]
    lines += [f"NAME:{escape_text(name)}", f"X-WR-CALNAME:{escape_text(name)}"]
    lines += [f"REFRESH-INTERVAL;VALUE=DURATION:{REFRESH}", f"X-PUBLISHED-TTL:{REFRESH}"]
    for task in tasks:
        lines += _event(task, base)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line)).encode()


def _event(task: DueTask, base: str) -> Iterator[str]:
    """Yield the lines of an event. Without METHOD, DTSTAMP is the time of the last change (3.8.7.2)."""
    yield "BEGIN:VEVENT"
    yield f"UID:{task.id}@workhook"
    yield f"DTSTAMP:{_moment(task.updated_at)}"
    yield f"LAST-MODIFIED:{_moment(task.updated_at)}"
    if task.deadline % DAY_MS == 0:  # a due date without a time becomes an all-day event
        yield f"DTSTART;VALUE=DATE:{_at(task.deadline):%Y%m%d}"
    else:
        yield f"DTSTART:{_moment(task.deadline)}"
    yield f"SUMMARY:{escape_text(task.title)}"
    yield f"DESCRIPTION:{escape_text(f'{task.project} · {task.column}')}"
    yield f"URL:{base}/{quote(task.place)}/tasks/{quote(task.id)}"
    yield "TRANSP:TRANSPARENT"  # due dates do not mark the person as busy
    yield "END:VEVENT"


def _moment(at_ms: int) -> str:
    return f"{_at(at_ms):%Y%m%dT%H%M%SZ}"


def _at(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def escape_text(text: str) -> str:
    """Escape a TEXT value (3.3.11), and remove control characters."""
    return _CONTROLS.sub("", _LINE_BREAK.sub("\n", text)).translate(_ESCAPES)


def _folded(line: str) -> Iterator[str]:
    """Split a line between characters into parts of at most `LINE_BYTES`.

    Continuation parts begin with a space (3.1).
    """
    part, size = "", 0
    for each in line:
        length = len(each.encode())
        if size + length > LINE_BYTES:
            yield part
            part, size = " ", 1
        part += each
        size += length
    yield part
