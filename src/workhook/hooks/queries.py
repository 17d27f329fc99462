"""Reads of hooks. Every query is confined to the place (organization or repository) it is asked for, and to what its
viewer sees there."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from workhook.hooks.records import HOOK_COLUMNS, Hook, Place, hook_of
from workhook.hooks.tables import deliveries, hooks
from workhook.identity.schemas import Actor
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big

_columns = [hooks.c[name] for name in HOOK_COLUMNS]
_seen = sa.or_(
    sa.bindparam("sees_everything", type_=sa.Boolean()), hooks.c.app_id.is_not_distinct_from(big("viewer_app_id"))
)
_of_repository = sa.select(*_columns).where(hooks.c.repository_id == big("repository_id"), _seen)
_of_organization = sa.select(*_columns).where(
    hooks.c.account_id == big("account_id"), hooks.c.repository_id.is_(None), _seen
)
_page = {
    True: _of_repository.order_by(hooks.c.id).limit(big("limit")).offset(big("offset")),
    False: _of_organization.order_by(hooks.c.id).limit(big("limit")).offset(big("offset")),
}
_all = {True: _of_repository.order_by(hooks.c.id), False: _of_organization.order_by(hooks.c.id)}
_one = {
    True: _of_repository.where(hooks.c.id == big("hook_id")),
    False: _of_organization.where(hooks.c.id == big("hook_id")),
}
_is_there = {
    True: sa.select(hooks.c.id).where(hooks.c.id == big("hook_id"), hooks.c.repository_id == big("repository_id")),
    False: sa.select(hooks.c.id).where(
        hooks.c.id == big("hook_id"), hooks.c.account_id == big("account_id"), hooks.c.repository_id.is_(None)
    ),
}
_locked = {key: statement.with_for_update() for key, statement in _one.items()}
_count = {
    key: sa.select(sa.func.count().label("total")).select_from(statement.subquery())
    for key, statement in {True: _of_repository, False: _of_organization}.items()
}
_some = sa.select(*_columns).where(any_of(hooks.c.id, "hook_ids"))
# One probe of the index for each hook, however many deliveries are kept.
_any_delivery = deliveries.alias("any_delivery")
_newest_id = (
    sa.select(sa.func.max(_any_delivery.c.id))
    .where(_any_delivery.c.hook_id == hooks.c.id)
    .correlate(hooks)
    .scalar_subquery()
)
_newest = sa.select(deliveries.c.hook_id, deliveries.c.status, deliveries.c.status_code).where(
    deliveries.c.id.in_(sa.select(_newest_id).select_from(hooks).where(any_of(hooks.c.id, "hook_ids"))),
    deliveries.c.delivered_at >= big("since"),
)


def _params(place: Place) -> dict[str, object]:
    return {
        "repository_id": place.repository_id,
        "account_id": place.account.id,
        "sees_everything": place.viewer.everything,
        "viewer_app_id": place.viewer.app_id,
    }


async def list_hooks(reader: Reader, place: Place, *, limit: int, offset: int) -> tuple[list[Hook], int]:
    """A page of the hooks that the viewer sees, oldest first, and how many these are in all."""
    of_repository = place.repository is not None
    params = _params(place)
    rows = await reader.fetch_all(_page[of_repository], {**params, "limit": limit, "offset": offset})
    if len(rows) < limit and (rows or offset == 0):
        return [hook_of(row) for row in rows], offset + len(rows)
    total = await reader.fetch_one(_count[of_repository], params)
    return [hook_of(row) for row in rows], total["total"] if total else 0


async def all_hooks(reader: Reader, place: Place) -> list[Hook]:
    return [hook_of(row) for row in await reader.fetch_all(_all[place.repository is not None], _params(place))]


async def find_hook(
    reader: Reader, place: Place, hook_id: int, *, actor: Actor | None = None, for_update: bool = False
) -> Hook | None:
    """A hook is not found under another repository or organization, nor by who does not see it.

    `actor`: who asks for it, if a request does.
    """
    statements = _locked if for_update else _one
    of_repository, params = place.repository is not None, {**_params(place), "hook_id": hook_id}
    row = await reader.fetch_one(statements[of_repository], params)
    # A look at what there is, so that the audit log tells of who asks for what an OAuth app alone sees.
    if row is None and actor is not None and await reader.fetch_one(_is_there[of_repository], params) is not None:
        actor.request.touches(place.account.id, place.repository_id, hidden=True)
    return hook_of(row) if row else None


async def hooks_by_id(reader: Reader, hook_ids: Sequence[int]) -> list[Hook]:
    """For delivery, which serves every place."""
    return [hook_of(row) for row in await reader.fetch_all(_some, {"hook_ids": list(hook_ids)})]


async def newest_deliveries(reader: Reader, hook_ids: Sequence[int], since: int) -> dict[int, Row]:
    """The status and code of each hook's newest delivery, if it is not older than `since` (milliseconds)."""
    rows = await reader.fetch_all(_newest, {"hook_ids": list(hook_ids), "since": since})
    return {row["hook_id"]: row for row in rows}
