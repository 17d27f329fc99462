"""Webhooks by the hundred thousand, generated inside the database."""

from __future__ import annotations

import sqlalchemy as sa

from bench import world
from bench.databases import Place
from bench.filling import sql
from workhook.core import json
from workhook.core.clock import now_ms
from workhook.hooks.tables import hooks, lanes
from workhook.http.calls import Services
from workhook.storage.metadata import bigint_param

_insert_hooks = sql.rows(
    hooks,
    {
        "account_id": bigint_param("account_id"),
        "active": sa.true(),
        "events": sql.text('["push"]'),
        "config": sa.bindparam("config", type_=sa.Text()),
        "version": sql.whole(1),
        "created_at": bigint_param("now"),
        "updated_at": bigint_param("now"),
    },
)
_free = sa.select(hooks.c.id, sql.whole(0), sql.whole(0))
_free = _free.where(~sa.exists().where(lanes.c.hook_id == hooks.c.id))
_insert_lanes = sa.insert(lanes).from_select(
    ["hook_id", "manual_minute", "manual_count"], _free, include_defaults=False
)


def make_webhooks(place: Place, url: str, count: int) -> None:
    """Create webhooks in an organization of a new world, which also has one webhook in a repository."""
    world.make_world(place, url, repositories=1)
    config = json.encode({"url": url, "content_type": "json"}).decode()

    async def run(services: Services) -> None:
        params = {"account_id": 2, "now": now_ms(), "first": 1, "last": count, "config": config}
        await services.database.write(_insert_hooks, [params])
        await services.database.write(_insert_lanes, [{}])

    world.with_services(place, run)
    world.settle(place)
