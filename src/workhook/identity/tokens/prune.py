"""What identity leaves behind goes some time later: tokens that are over, codes, sessions, invitations,
counters.

A used refresh token is kept as long as it would have been good: whoever uses it again is a thief, or was robbed.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, HOUR_MS
from workhook.identity.oauth.tables import authorization_codes, device_codes, refresh_tokens
from workhook.identity.signin.tables import sessions, sign_in_failures, sign_in_links
from workhook.identity.tables import invitations, rate_windows, tokens
from workhook.storage import Database
from workhook.storage.metadata import big
from workhook.storage.sweeping import in_batches

TOKENS_KEPT_MS = 90 * DAY_MS
"""After their end: `workhook token list` shows what there was."""
REST_KEPT_MS = DAY_MS
DEVICE_CODES_KEPT_MS = HOUR_MS
"""Not longer: anybody can have them made, and no replay of one ends anything."""
BATCH = 1000


_Over = Callable[[sa.FromClause], sa.ColumnElement[bool]]


def _delete(key: sa.Column[object], over: _Over) -> sa.Delete:
    """At most `limit` rows that are over; another process that does the same takes others."""
    ended = key.table.alias("ended")
    chosen = sa.select(ended.c[key.name]).where(over(ended)).limit(big("limit")).offset(big("offset"))
    return sa.delete(key.table).where(key.in_(chosen.with_for_update(of=ended, skip_locked=True)))


def _expired(before: str = "before") -> _Over:
    return lambda table: table.c.expires_at < big(before)


_DELETES = (
    _delete(tokens.c.id, lambda table: sa.func.coalesce(table.c.revoked_at, table.c.expires_at) < big("tokens_before")),
    _delete(authorization_codes.c.digest, _expired()),
    _delete(device_codes.c.digest, _expired("codes_before")),
    _delete(refresh_tokens.c.id, _expired()),
    _delete(sign_in_links.c.digest, _expired()),
    _delete(sessions.c.id, _expired()),
    _delete(invitations.c.id, _expired()),
    _delete(
        sign_in_failures.c.key,
        lambda table: sa.and_(table.c.since < big("before"), table.c.blocked_until < big("before")),
    ),
    _delete(rate_windows.c.caller, lambda table: table.c.resets_at < big("before")),
)


async def prune(database: Database, now: int) -> int:
    """Delete what is over: tokens 90 days after their end, device codes an hour, the rest a day. Answers how many rows.

    In small transactions; several processes may do this at once. Raises `Unavailable`.
    """
    return sum([await _prune(database, statement, now) for statement in _DELETES])


async def _prune(database: Database, statement: sa.Delete, now: int) -> int:
    params = {
        "tokens_before": now - TOKENS_KEPT_MS,
        "codes_before": now - DEVICE_CODES_KEPT_MS,
        "before": now - REST_KEPT_MS,
    }

    async def some(limit: int, offset: int) -> int:
        these = {**params, "limit": limit, "offset": offset}
        return await database.in_transaction(lambda tx: tx.execute(statement, these))

    return await in_batches(str(statement.table), BATCH, some)
