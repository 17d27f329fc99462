"""The order of events, and the ID below which no event is still in flight.

An event gets its ID before it is committed. PostgreSQL commits transactions in any order, so a reader that has seen
event 11 cannot know whether 10 was rolled back, belongs to another organization or will appear in a moment. A reader
that remembers only "I have everything up to 11" would miss it forever.

Therefore a transaction that is about to assign an ID to an event of a repository takes a shared advisory lock and holds
it until its commit is visible (`number_in`). A reader queries the newest visible event and, later in the same
statement, the holders of such locks (`commit_snapshot`). Every transaction with a lower ID is then among these holders
or has ended. Once all of them have ended, a read finds all events up to the newest one that will ever exist.

Readers wait only for transactions that append events to the same repository. With the usual measure, the server's
oldest transaction (`pg_snapshot_xmin`), any long transaction in any database would hold everything back, and a
transaction ID stored with the events is meaningless in a database restored from a dump.

SQLite has one writer at a time, so everything visible is complete.
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
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect

LOCK_CLASS = 0x77686576  # class of the advisory locks; the repository is the other half of their key
_KEY_MASK = 0x7FFFFFFF  # the other half has 32 bits

PAGE_ROWS = 200
PAGE_BYTES = 256 * 1024

_next_number: sa.ColumnElement[int] = sa.literal_column("nextval('events_id_seq')", sa.BigInteger())


def number_in(repository_id: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return the expression for the ID of an event of the repository, for the INSERT on PostgreSQL."""
    lock = sa.func.pg_advisory_xact_lock_shared(
        LOCK_CLASS, sa.cast(repository_id.op("&")(sa.cast(_KEY_MASK, sa.BigInteger)), sa.Integer)
    )
    # CASE evaluates its condition first, so the lock is taken before the ID. Events without a repository need no lock.
    return sa.case((lock.is_(None), _next_number), else_=_next_number)


last_given = sa.func.coalesce(
    sa.select(sa.literal_column("seq"))
    .select_from(sa.text("sqlite_sequence"))
    .where(sa.literal_column("name") == events.name)
    .scalar_subquery(),
    0,
)
"""The highest ID so far, on SQLite."""

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
    """The state of commits at one moment. `newest` is the highest visible ID.

    `appending` contains the transactions that may still commit lower IDs, by the lock key of their repository.
    """

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
    """Select the first `limit` of the `found` events (`id` and `size`) whose total size is below `bytes_max`.

    The payloads of the next event and of all later ones are null.
    """
    by_id = events.c.id.desc() if newest_first else events.c.id
    number = found.selected_columns[0]
    some = found.order_by(number.desc() if newest_first else number).limit(bigint_param("limit")).subquery("some")
    order = some.c.id.desc() if newest_first else some.c.id
    before = (sa.func.sum(some.c.size).over(order_by=order) - some.c.size).label("bytes_before")
    sized = sa.select(some.c.id, before).subquery("sized")
    return (
        sa.select(
            *(events.c[name] for name in ("id", "repository_id", "name", "action", "created_at", "published")),
            sa.case((sized.c.bytes_before < bigint_param("bytes_max"), events.c.payload)).label("payload"),
        )
        .join_from(sized, events, events.c.id == sized.c.id)
        .order_by(by_id)
    )


_between = page(
    sa.select(events.c.id, events.c.size).where(
        any_of(events.c.repository_id, "repository_ids"),
        events.c.id > bigint_param("after"),
        events.c.id <= bigint_param("upto"),
        events.c.listed,
    )
)


async def list_between(
    reader: Reader, repository_ids: Sequence[int], after: int, upto: int
) -> tuple[Sequence[Row], bool]:
    """Return listed events of these repositories in (`after`, `upto`], oldest first, and whether these are all."""
    params = {"repository_ids": list(repository_ids), "after": after, "upto": upto}
    rows = await reader.fetch_all(_between, {**params, "limit": PAGE_ROWS, "bytes_max": PAGE_BYTES})
    whole = [row for row in rows if row["payload"] is not None]
    return whole, len(whole) == len(rows) < PAGE_ROWS


_happened = sa.select(
    sa.exists().where(
        events.c.repository_id == bigint_param("repository_id"),
        events.c.id > bigint_param("after"),
        events.c.id <= bigint_param("upto"),
        events.c.listed,
    )
)


async def has_events(reader: Reader, repository_id: int, after: int, upto: int) -> bool:
    """Return whether the repository has listed events in (`after`, `upto`]."""
    params = {"repository_id": repository_id, "after": after, "upto": upto}
    return bool((await reader.fetch_row(_happened, params))[0])
