"""The order of events, and up to which number it is complete.

An event has its number before it is committed. On PostgreSQL transactions commit in any order, so a reader that has
seen event 11 cannot know whether 10 was rolled back, belongs to somebody else, or will be there in a moment; a
reader that remembers only "I have everything up to 11" would miss it for ever.

So a transaction says that it is about to number an event of a repository, with an advisory lock that it shares with
everybody else and holds until its commit is visible (`number_in`). A reader asks for the newest event that it sees and,
later in the same statement, who holds such locks (`commit_snapshot`). Whoever had a lower number then is among these or
has ended: when all of them have ended, a read finds every event up to that newest one that there will ever be.

Only what appends events to the same repository is waited for. The oldest transaction of the server
(`pg_snapshot_xmin`), the usual measure, would let every long transaction of every database hold everything back, and a
transaction id that is stored with the events means nothing in a database that was restored from a dump.

SQLite has one writer at a time: all that is seen is complete.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.events.tables import events
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of, json_rows
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect

LOCK_CLASS = 0x77686576  # of the advisory locks; the repository is the other half of their key
_KEY_MASK = 0x7FFFFFFF  # which has 32 bits

PAGE_ROWS = 200
PAGE_BYTES = 256 * 1024

_next_number: sa.ColumnElement[int] = sa.literal_column("nextval('events_id_seq')", sa.BigInteger())


def number_in(repository_id: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """The number of an event of the repository, for the INSERT on PostgreSQL."""
    lock = sa.func.pg_advisory_xact_lock_shared(
        LOCK_CLASS, sa.cast(repository_id.op("&")(sa.cast(_KEY_MASK, sa.BigInteger)), sa.Integer)
    )
    # CASE asks its condition first: the lock is there before the number is. An event of no repository needs none.
    return sa.case((lock.is_(None), _next_number), else_=_next_number)


last_given = sa.func.coalesce(
    sa.select(sa.literal_column("seq"))
    .select_from(sa.text("sqlite_sequence"))
    .where(sa.literal_column("name") == events.name)
    .scalar_subquery(),
    0,
)
"""The highest number so far, on SQLite."""

_newest = sa.func.coalesce(sa.select(sa.func.max(events.c.id)).scalar_subquery(), 0).label("newest")
_database: sa.Select[Any] = sa.select(sa.literal_column("oid")).select_from(
    sa.text("pg_database WHERE datname = current_database()")
)
_locks = sa.table("pg_locks", *(sa.column(name) for name in ("objid", "virtualtransaction")))
_appending = (
    sa.select(json_rows(sa.cast(_locks.c.objid, sa.BigInteger), _locks.c.virtualtransaction))
    .where(
        sa.text(f"locktype = 'advisory' AND granted AND classid = {LOCK_CLASS} AND objsubid = 2"),
        sa.literal_column("database") == _database.scalar_subquery(),
    )
    .scalar_subquery()
)
_snapshot = PerDialect(
    sqlite=sa.select(_newest, sa.literal_column("'[]'").label("appending")),
    postgresql=sa.select(_newest, _appending.label("appending")),
)


class CommitSnapshot(msgspec.Struct, frozen=True):
    """`newest` is the highest visible number; `appending` are the transactions that may still commit lower ones, by the
    key of their repository."""

    newest: int
    appending: Mapping[int, frozenset[str]]

    def appending_to(self, repository_id: int) -> frozenset[str]:
        return self.appending.get(repository_id & _KEY_MASK, frozenset())


async def commit_snapshot(reader: Reader) -> CommitSnapshot:
    row = await reader.fetch_row(_snapshot)
    appending: dict[int, set[str]] = defaultdict(set)
    for key, transaction in json.decode(row["appending"]):
        appending[key].add(transaction)
    return CommitSnapshot(row["newest"], {key: frozenset(found) for key, found in appending.items()})


def page(found: sa.Select[Any], *, newest_first: bool = False) -> sa.Select[Any]:
    """Select the first `limit` of the `found` events (their `id` and `size`) that together have less than `bytes_max`;
    the payloads of the one after them and of the rest are null."""
    by_id = events.c.id.desc() if newest_first else events.c.id
    number = found.selected_columns[0]
    some = found.order_by(number.desc() if newest_first else number).limit(big("limit")).subquery("some")
    order = some.c.id.desc() if newest_first else some.c.id
    before = (sa.func.sum(some.c.size).over(order_by=order) - some.c.size).label("bytes_before")
    sized = sa.select(some.c.id, before).subquery("sized")
    return (
        sa.select(
            *(events.c[name] for name in ("id", "repository_id", "name", "action", "created_at", "published")),
            sa.case((sized.c.bytes_before < big("bytes_max"), events.c.payload)).label("payload"),
        )
        .join_from(sized, events, events.c.id == sized.c.id)
        .order_by(by_id)
    )


_between = page(
    sa.select(events.c.id, events.c.size).where(
        any_of(events.c.repository_id, "repository_ids"),
        events.c.id > big("after"),
        events.c.id <= big("upto"),
        events.c.listed,
    )
)


async def between(reader: Reader, repository_ids: Sequence[int], after: int, upto: int) -> tuple[Sequence[Row], bool]:
    """Return listed events of these repositories in (`after`, `upto`], oldest first, and whether that is all."""
    params = {"repository_ids": list(repository_ids), "after": after, "upto": upto}
    rows = await reader.fetch_all(_between, {**params, "limit": PAGE_ROWS, "bytes_max": PAGE_BYTES})
    whole = [row for row in rows if row["payload"] is not None]
    return whole, len(whole) == len(rows) < PAGE_ROWS


_happened = sa.select(
    sa.exists().where(
        events.c.repository_id == big("repository_id"),
        events.c.id > big("after"),
        events.c.id <= big("upto"),
        events.c.listed,
    )
)


async def happened(reader: Reader, repository_id: int, after: int, upto: int) -> bool:
    """Tell whether anything is listed of the repository in (`after`, `upto`]."""
    row = await reader.fetch_one(_happened, {"repository_id": repository_id, "after": after, "upto": upto})
    assert row is not None, "it has one row"
    return bool(row[0])
