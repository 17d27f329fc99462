"""The statements that find the hooks of events that are inserted beside them, and insert a dispatch for each."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.core.ids import new_guid
from workhook.events import order
from workhook.events.catalog import ANY_EVENT
from workhook.events.tables import events
from workhook.hooks.tables import dispatches, hooks
from workhook.storage.metadata import big

GUID_TIME_CHARS = 13  # of a UUID of version 7: 48 bits of milliseconds, with a hyphen among them

_QUOTE = sa.literal_column("""'"'""", sa.Text())
_ANYTHING = sa.literal_column(f"'{ANY_EVENT}'", sa.Text())
_HYPHEN = sa.literal_column("'-'", sa.Text())
_VERSION = sa.literal_column("'-7'", sa.Text())
_NOTHING = sa.literal_column("0", sa.Integer())
_DISPATCHED = ("event_id", "hook_id", "guid", "attempts", "retries", "wanted", "next_attempt_at", "created_at")


def _wants(hook: sa.FromClause, event: sa.FromClause, position: str) -> sa.ColumnElement[bool]:
    """`fan_out.wants` in SQL. `hook.events` is a JSON array of names, in which there are no quotes."""
    find = getattr(sa.func, position)
    quoted = _QUOTE + event.c.name + _QUOTE
    return sa.or_(find(hook.c.events, quoted) > _NOTHING, find(hook.c.events, _QUOTE + _ANYTHING + _QUOTE) > _NOTHING)


def _listens(hook: sa.FromClause, event: sa.FromClause) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Whether it is an active hook of the event's repository, and whether it is one of its organization."""
    of_repository = sa.and_(hook.c.active, hook.c.repository_id == event.c.repository_id)
    of_organization = sa.and_(hook.c.active, hook.c.repository_id.is_(None), hook.c.account_id == event.c.account_id)
    return of_repository, of_organization


def send_on_postgresql(made: sa.FromClause) -> sa.Insert:
    """`made`: the events, with the columns of `outbox.WRITTEN`. The parameters are those of `send_params`."""
    # Each part has its index.
    there, above = hooks.alias("there"), hooks.alias("above")
    found = sa.union_all(
        sa.select(there.c.id).where(_listens(there, made)[0], _wants(there, made, "strpos")),
        sa.select(above.c.id).where(_listens(above, made)[1], _wants(above, made, "strpos")),
    ).lateral("found")
    # A version 7 of a version 4: the time before, and of the random one what follows its own version.
    random = sa.func.substr(sa.cast(sa.func.gen_random_uuid(), sa.Text), 16)
    guid = sa.bindparam("time", type_=sa.Text()) + _VERSION + random
    return sa.insert(dispatches).from_select(
        list(_DISPATCHED),
        sa.select(made.c.id, found.c.id, guid, _NOTHING, _NOTHING, _NOTHING, big("now"), big("now"))
        .select_from(made.join(found, sa.true()))
        .order_by(made.c.id, found.c.id),
    )


last_before_on_sqlite = order.last_given - big("count")
new_on_sqlite = events.c.id > last_before_on_sqlite
"""The events that were inserted last, `count` of them: SQLite has one writer, so they have the highest numbers."""


def _send_on_sqlite() -> sa.Insert:
    random = sa.func.lower(sa.func.hex(sa.func.randomblob(8)))
    variant = sa.func.substr(sa.literal_column("'89ab'"), sa.literal_column("1 + (random() & 3)"), 1)
    guid = (
        sa.bindparam("time", type_=sa.Text())
        + _VERSION
        + sa.func.substr(random, 1, 3)
        + _HYPHEN
        + variant
        + sa.func.substr(random, 4, 3)
        + _HYPHEN
        + sa.func.lower(sa.func.hex(sa.func.randomblob(6)))
    )
    return sa.insert(dispatches).from_select(
        list(_DISPATCHED),
        sa.select(events.c.id, hooks.c.id, guid, _NOTHING, _NOTHING, _NOTHING, big("now"), big("now"))
        .select_from(events.join(hooks, sa.or_(*_listens(hooks, events))))
        .where(new_on_sqlite, _wants(hooks, events, "instr"))
        .order_by(events.c.id, hooks.c.id),
    )


send_on_sqlite = _send_on_sqlite()


def send_params() -> dict[str, object]:
    return {"now": now_ms(), "time": new_guid()[:GUID_TIME_CHARS]}
