"""Re-encrypts every secret in the database with the newest key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import sqlalchemy as sa
import structlog

from workhook.cli.output import Progress
from workhook.core.clock import SECOND_MS, now_ms
from workhook.core.vault import Vault, VaultError
from workhook.hooks.tables import hooks
from workhook.identity.tables import mail_messages
from workhook.storage import Database, Row
from workhook.storage.metadata import bigint_param, key_check
from workhook.storage.statements import PerDialect

log = structlog.get_logger(__name__)

SEALED = {hooks: ("secret", "previous_secret", "password"), mail_messages: ("sealed",), key_check: ("sealed",)}
"""The encrypted columns by table. Each table has an `id`. A test compares this with all binary columns."""

BATCH = 200  # rows locked by one transaction at most
TRANSACTIONS_END_MS = 60 * SECOND_MS
_LOOK_S = 0.1

_some = {table.name: sa.or_(*(table.c[each].is_not(None) for each in names)) for table, names in SEALED.items()}
_count = {
    table.name: sa.select(sa.func.count().label("number")).select_from(table).where(_some[table.name])
    for table in SEALED
}
_page = {
    table.name: sa.select(table.c.id, *(table.c[each] for each in names))
    .where(table.c.id > bigint_param("after_id"), _some[table.name])
    .order_by(table.c.id)
    .limit(bigint_param("limit"))
    for table, names in SEALED.items()
}
# Replaces only unchanged values, because values changed meanwhile are already encrypted with the newest key.
_replace = {
    f"{table.name}.{each}": sa.update(table)
    .where(table.c.id == bigint_param("row_id"), table.c[each] == sa.bindparam("before", type_=sa.LargeBinary()))
    .values({each: sa.bindparam("after", type_=sa.LargeBinary())})
    for table, names in SEALED.items()
    for each in names
}
_now = PerDialect(
    sqlite=sa.select(sa.literal(0.0, sa.Float).label("now")),
    postgresql=sa.select(sa.func.date_part("epoch", sa.func.clock_timestamp()).label("now")),
)
_activity = sa.table("pg_stat_activity", *(sa.column(each) for each in ("pid", "datname", "xact_start", "backend_xid")))
# Only transactions that wrote or locked a row, because a long report or a dump seals nothing.
_open_since = (
    sa.select(sa.func.count().label("number"))
    .select_from(_activity)
    .where(
        _activity.c.datname == sa.func.current_database(),
        _activity.c.pid != sa.func.pg_backend_pid(),
        _activity.c.backend_xid.is_not(None),
        sa.func.date_part("epoch", _activity.c.xact_start) <= sa.bindparam("since", type_=sa.Float()),
    )
)


class Reencrypted:
    """The numbers of values encrypted with the newest key, and of those that no key can decrypt."""

    def __init__(self) -> None:
        self.changed = 0
        self.unreadable = 0


async def reencrypt_all(database: Database, vault: Vault, progress: Progress) -> Reencrypted:
    """Re-encrypt everything with the newest key in short transactions while servers keep running."""
    result = Reencrypted()
    totals = {name: (await database.fetch_one(statement)) for name, statement in _count.items()}
    total, done = sum(row["number"] for row in totals.values() if row), 0
    for table, names in SEALED.items():
        after_id = 0
        while rows := await database.fetch_all(_page[table.name], {"after_id": after_id, "limit": BATCH}):
            await _reencrypt_rows(database, vault, table.name, names, rows, result)
            after_id, done = rows[-1]["id"], done + len(rows)
            progress("rows with secrets", min(done, total), max(total, 1))
    return result


async def _reencrypt_rows(
    database: Database, vault: Vault, table: str, names: tuple[str, ...], rows: Sequence[Row], result: Reencrypted
) -> None:
    changes: list[tuple[str, dict[str, object]]] = []
    for row in rows:
        for name in names:
            before = row[name]
            try:
                after = vault.reseal(bytes(before)) if before is not None else None
            except VaultError:
                result.unreadable += 1
                log.warning("secret_unreadable", table=table, column=name, id=row["id"])
                continue
            if after is not None:
                values = {"row_id": row["id"], "before": bytes(before), "after": after}
                changes.append((f"{table}.{name}", values))
    if not changes:
        return
    async with database.transaction() as tx:
        for key, values in changes:
            result.changed += await tx.execute(_replace[key], values)


async def database_time(database: Database) -> float:
    """Return the database's time in seconds since the epoch, or 0 on SQLite, which has one writer at a time."""
    row = await database.fetch_one(_now)
    return float(row["now"]) if row else 0.0


async def wait_for_transactions(database: Database, since: float) -> bool:
    """Wait until no open transaction can still store secrets of an older key. Returns False if one takes too long."""
    if database.name == "sqlite":
        async with database.transaction() as tx:  # waits for any writer, which locks the file until its commit
            await tx.execute(_replace["key_check.sealed"], {"row_id": 0, "before": b"", "after": b""})
        return True
    end = now_ms() + TRANSACTIONS_END_MS
    while (row := await database.fetch_one(_open_since, {"since": since})) and row["number"]:
        if now_ms() > end:
            return False
        await asyncio.sleep(_LOOK_S)
    return True
