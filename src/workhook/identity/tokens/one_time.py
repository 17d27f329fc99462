"""Single-use secrets: authorization codes, device codes and refresh tokens. Links only use `store`.

Only their digests are stored, with the time of use, because a code that is used twice was stolen.
"""

from __future__ import annotations

from functools import cache

import msgspec
import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.core.disclosure import HiddenRepr
from workhook.identity.tables import authorization_codes, device_codes, refresh_tokens
from workhook.identity.tokens.issue import digest_of
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import bigint_param, insert_into

_OF_APPS = (authorization_codes, device_codes, refresh_tokens)
_find = {table: sa.select(table).where(table.c.digest == sa.bindparam("digest")) for table in _OF_APPS}
_use = {
    table: sa.update(table)
    .where(table.c.digest == sa.bindparam("digest"), table.c.used_at.is_(None))
    .values(used_at=bigint_param("now"))
    for table in _OF_APPS
}


class SecretLink(HiddenRepr, msgspec.Struct, frozen=True):
    """A link with a secret in its `path`, which is shown only once. `expires_at` is in milliseconds since the epoch."""

    path: str
    expires_at: int


_insert = cache(insert_into)


async def store(tx: Transaction, table: sa.Table, secret: str, good_ms: int, **values: object) -> int:
    """Store the digest of a new secret with these values. Returns its expiry in milliseconds since the epoch."""
    now = now_ms()
    row = {**values, "digest": digest_of(secret), "created_at": now, "expires_at": now + good_ms}
    await tx.execute(_insert(table, *row), row)
    return now + good_ms


async def find(reader: Reader, table: sa.Table, app_id: int, secret: str) -> Row | None:
    """Return a secret of the app, even if it has expired or was used."""
    row = await reader.fetch_one(_find[table], {"digest": digest_of(secret)})
    return row if row is not None and row["app_id"] == app_id else None


async def use(tx: Transaction, table: sa.Table, secret: str) -> bool:
    """Use up a secret. Returns whether it was unused. Only one of two concurrent uses succeeds."""
    return await tx.execute(_use[table], {"digest": digest_of(secret), "now": now_ms()}) > 0
