"""Reads of the audit log, a page at a time, and what is removed of it because of its age."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.identity import audit_stretches
from workhook.identity.audit_phrase import Selection
from workhook.identity.tables import accounts, audit_log, projects, tokens
from workhook.storage import Database, Reader, Row
from workhook.storage.dialects import any_of
from workhook.storage.index_ranges import TimeIndex
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect
from workhook.storage.sweeping import in_order

STREAM_PAGE = 500
PRUNE_BATCH = 1000

_actors, _places, _owners = (accounts.alias(name) for name in ("actors", "places", "owners"))
_entries = (
    sa.select(
        *audit_log.c,
        _actors.c.login.label("actor"),
        _places.c.login.label("place"),
        _owners.c.login.label("owner"),
        projects.c.name.label("repository"),
        tokens.c.kind.label("token_kind"),
    )
    .select_from(audit_log)
    .outerjoin(_actors, _actors.c.id == audit_log.c.actor_id)
    .outerjoin(_places, _places.c.id == audit_log.c.account_id)
    .outerjoin(projects, projects.c.repository_id == audit_log.c.repository_id)
    .outerjoin(_owners, _owners.c.id == projects.c.account_id)
    .outerjoin(tokens, tokens.c.id == audit_log.c.token_id)
)
_text = sa.bindparam("text", type_=sa.Text())
_action, _category = sa.bindparam("action", type_=sa.Text()), sa.bindparam("category", type_=sa.Text())
_beginning = sa.func.substr(audit_log.c.action, 1, sa.func.length(_category))
_CONDITIONS: Mapping[str, sa.ColumnElement[bool]] = {
    "account_id": audit_log.c.account_id == big("account_id"),
    "action": sa.or_(audit_log.c.action == _action, _beginning == _category),
    "text": sa.func.replace(audit_log.c.action, _text, "") != audit_log.c.action,
    "actor": _actors.c.login_key == sa.bindparam("actor"),
    "owner": _owners.c.login_key == sa.bindparam("owner"),
    "repository": sa.func.lower(projects.c.name) == sa.bindparam("repository"),
    "since": audit_log.c.at >= big("since"),
    "until": audit_log.c.at < big("until"),
}
# The oldest are the first, but for a refusal that waited for a moment.
_by_age = (
    sa.select(audit_log.c.id, audit_log.c.at)
    .where(audit_log.c.id > big("after_id"))
    .order_by(audit_log.c.id)
    .limit(big("limit"))
)
_prune = sa.delete(audit_log).where(any_of(audit_log.c.id, "ids"))


moments = TimeIndex(audit_log, "at", slack_ms=5 * MINUTE_MS)  # what is noted of a refusal waits for a minute at most


@cache
def _statement(given: frozenset[str], *, newest_first: bool, beyond: bool) -> sa.Select[Any]:
    """For selections that give the same, whatever the values. `beyond`: those past `cursor` in this order."""
    statement = _entries.where(*(_CONDITIONS[name] for name in sorted(given)))
    number = audit_log.c.id
    if beyond:
        statement = statement.where(number < big("cursor") if newest_first else number > big("cursor"))
    return statement.order_by(number.desc() if newest_first else number).limit(big("limit"))


@cache
def _of_account(given: frozenset[str], newest_first: bool) -> PerDialect:
    return PerDialect(
        sqlite=_found("sqlite", given, newest_first), postgresql=_found("postgresql", given, newest_first)
    )


def _found(dialect: str, given: frozenset[str], newest_first: bool) -> sa.Select[Any]:
    found = audit_stretches.ids(dialect, given, newest_first).subquery("found")
    by_id = [each.desc() if newest_first else each for each in (found.c.id, audit_log.c.id)]
    first = sa.select(found.c.id).order_by(by_id[0]).limit(big("limit"))
    return _entries.where(audit_log.c.id.in_(first)).order_by(by_id[1])


async def read(
    reader: Reader,
    selection: Selection,
    *,
    newest_first: bool = True,
    beyond: int | None = None,
    limit: int,
    patient: bool = False,
) -> Sequence[Row]:
    """At most `limit` entries in this order, past the id `beyond`.

    Raises `storage.slow.QueryTooSlow`, unless `patient`: for a command, which keeps nobody waiting.
    """
    given = _given(selection)
    names, params = frozenset(given), {**_params(given), "limit": limit, "cursor": beyond}
    if "account_id" not in given:
        return await reader.fetch_all(_statement(names, newest_first=newest_first, beyond=beyond is not None), params)
    within = await moments.bounds(reader, since=selection.since, until=selection.until)
    params["low"] = within.low if newest_first else max(within.low, beyond or 0)
    params["high"] = min(within.high, beyond) if newest_first and beyond is not None else within.high
    fetch = reader.fetch_all if selection.bounded or patient else reader.fetch_slow
    return await fetch(_of_account(names, newest_first), params)


async def read_all(
    reader: Reader, selection: Selection, *, newest_first: bool = True, patient: bool = False
) -> AsyncIterator[Sequence[Row]]:
    """Everything that fits, in parts: no more than one of them is held. What comes in meanwhile is left out."""
    if selection.until is None:
        selection = msgspec.structs.replace(selection, until=now_ms() + 1)
    beyond = None
    while True:
        rows = await read(
            reader, selection, newest_first=newest_first, beyond=beyond, limit=STREAM_PAGE, patient=patient
        )
        if rows:
            yield rows
        if len(rows) < STREAM_PAGE:
            return
        beyond = rows[-1]["id"]


async def count(reader: Reader, selection: Selection) -> int:
    """How many fit; for a command."""
    given = _given(selection)
    rows = await reader.fetch_all(_count(frozenset(given)), _params(given))
    return int(rows[0]["number"])


def _given(selection: Selection) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(selection).items() if value is not None}


def _params(given: Mapping[str, Any]) -> dict[str, Any]:
    return {**given, "category": f"{given['action'].rstrip('.')}."} if "action" in given else dict(given)


@cache
def _count(given: frozenset[str]) -> sa.Select[Any]:
    chosen = _entries.where(*(_CONDITIONS[name] for name in sorted(given)))
    return chosen.with_only_columns(sa.func.count().label("number"))


async def prune(database: Database, before: int) -> int:
    """Remove the entries from before `before` (milliseconds). Answers how many."""

    async def following(last: Row | None, limit: int) -> Sequence[Row]:
        rows = await database.fetch_all(_by_age, {"after_id": last["id"] if last else 0, "limit": limit})
        return rows if any(row["at"] < before for row in rows) else []

    async def remove(last: Row | None, rows: Sequence[Row]) -> int:
        ids = [row["id"] for row in rows if row["at"] < before]
        return await database.in_transaction(lambda tx: tx.execute(_prune, {"ids": ids}))

    return await in_order("audit_log", PRUNE_BATCH, following, remove)
