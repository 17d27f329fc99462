"""The test data: an organization, repositories with one webhook each, and events of 7 KB."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

import asyncpg
import sqlalchemy as sa

from bench.bare import Request, write_requests
from bench.databases import Place as Where
from workhook.bootstrap import open_services
from workhook.core import json as plain_json
from workhook.core.clock import now_ms
from workhook.core.config import load
from workhook.core.ids import new_guid, new_id
from workhook.delivery.sign import Profile, Signer
from workhook.events.payloads import to_stored
from workhook.events.tables import events
from workhook.hooks import actions as hook_actions
from workhook.hooks.bodies import parse_hook
from workhook.hooks.fan_out import insert_dispatches
from workhook.hooks.schemas import HookOwner
from workhook.hooks.tables import deliveries, dispatches
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.policy import SCOPES
from workhook.identity.schemas import Actor
from workhook.identity.tables import projects
from workhook.storage import Database, Transaction
from workhook.storage.metadata import bigint_param, insert_into

T = TypeVar("T")

BODY_BYTES = 7168
SECRET = "a-secret-for-benchmarks"
REPOSITORIES = 8
PRESIGNED = 1000  # distinct requests that the bare loop posts in turn
CHUNK = 1000
HANGING = "/hang"  # in a path: the receiver never responds

_insert_project = insert_into(
    projects, "id", "account_id", "name", "name_key", "title", "private", "archive", "created_at", "updated_at"
)
_insert_event = insert_into(
    events, "account_id", "repository_id", "name", "action", "payload", "size", "created_at"
)  # fmt: skip
_event_ids = sa.select(events.c.id).order_by(events.c.id)
_last_event = sa.select(sa.func.coalesce(sa.func.max(events.c.id), 0))
_last_delivery = sa.select(sa.func.coalesce(sa.func.max(deliveries.c.id), 0))


@dataclass
class World:
    """The test data. `repositories` maps full names to the IDs of their webhooks."""

    token: str
    repositories: dict[str, list[int]]


_WORDS = (
    "board", "column", "limit", "card", "project", "member", "invoice", "draft", "webhook", "delivery", "retry",
    "secret", "header", "payload", "budget", "rate", "timer", "credit", "client", "portal", "search", "filter",
    "cursor", "index", "lock", "commit", "branch", "review", "deploy", "cache", "queue", "worker", "lease", "signal",
)  # fmt: skip


def _commits(seed: int, count: int) -> list[dict[str, object]]:
    """Return commits no more similar than those of a real push, because payloads are stored compressed."""
    random = Random(seed)

    def words(few: int, between: str = " ") -> str:
        return between.join(random.choices(_WORDS, k=few))

    return [
        {
            "id": f"{random.getrandbits(160):040x}",
            "message": f"{words(3).capitalize()}, so that the {words(7)} can differ",
            "timestamp": f"2026-01-{1 + number:02}T{random.randrange(24):02}:{random.randrange(60):02}:00Z",
            "author": {"name": words(2).title(), "email": f"{words(2, '.')}@example.com", "username": words(2, "-")},
            "added": [f"src/{words(2, '/')}.py"],
            "modified": [f"src/{words(2, '/')}.py", f"tests/{words(2, '/')}_{words(1)}.py"],
            "distinct": True,
        }
        for number in range(count)
    ]


_COMMITS = _commits(1, 17)


def body(mark: int) -> bytes:
    """Return a push-like payload of exactly `BODY_BYTES`. The receiver identifies it by `mark`."""
    payload: dict[str, object] = {"mark": mark, "ref": "refs/heads/main", "commits": _COMMITS, "note": ""}
    payload["note"] = "x" * (BODY_BYTES - len(plain_json.encode(payload)))
    data = plain_json.encode(payload)
    assert len(data) == BODY_BYTES, len(data)
    return data


def presign(path: Path) -> None:
    """Write the requests for the bare loop, as the worker would send them."""
    signer = Signer(Profile(hook_id=1, target_id=1, target_type="repository", content_type="json",
                            secret=SECRET.encode()))  # fmt: skip
    requests = []
    for number in range(PRESIGNED):
        prepared = signer.prepare(body(number), guid=new_guid(), event="push", now_ms=now_ms())
        requests.append(Request(prepared.headers, prepared.body))
    write_requests(path, requests)


def with_services(where: Where, work: Callable[[Services], Awaitable[T]]) -> T:
    async def run() -> T:
        values = {**where.settings, "data": str(where.folder), "delivery_allow_networks": "127.0.0.0/8"}
        async with open_services(load(values, {})) as services:
            return await work(services)

    return asyncio.run(run())


def make_world(where: Where, url: str, *, repositories: int = REPOSITORIES, hooks: int = 1, hanging: int = 0) -> World:
    """Create repositories with `hooks` webhooks each that post signed JSON to `url`. Nothing is due to be sent.

    Events of the first `hanging` repositories are sent to receivers that never respond (`bench.receiver`).
    """

    async def make(services: Services) -> World:
        async with services.database.transaction() as tx:
            owner = await actions.create_account(tx, "user", "octo", name="Octo", email="octo@example.com")
            place = await actions.create_account(tx, "organization", "benchers", name="Benchers", email=None)
            await actions.set_member(tx, place, owner, "owner")
            issued = await actions.issue_token(tx, owner, list(SCOPES))
            actor = Actor(owner, issued.id, "classic", frozenset(SCOPES))
            made = {}
            for number in range(repositories):
                name = f"bench{number}"
                await _add_project(tx, place.id, name)
                repository = await queries.find_repository(tx, place.login, name)
                assert repository is not None
                where_hooks = HookOwner(place, repository)
                there = f"{url}{HANGING}/{number}" if number < hanging else f"{url}/{number}"
                made[repository.full_name] = [
                    await _add_hook(tx, services, actor, where_hooks, f"{there}/{each}") for each in range(hooks)
                ]
            await tx.execute(sa.delete(dispatches))  # the pings
            await tx.execute(sa.delete(events))
        return World(issued.token, made)

    return with_services(where, make)


async def _add_project(tx: Transaction, account_id: int, name: str) -> None:
    now = now_ms()
    values = {
        "id": new_id("prj"),
        "account_id": account_id,
        "name": name,
        "name_key": name,
        "title": name,
        "private": False,
        "archive": False,
        "created_at": now,
        "updated_at": now,
    }
    await tx.execute(_insert_project, values)


async def _add_hook(tx: Transaction, services: Services, actor: Actor, place: HookOwner, url: str) -> int:
    config = {"url": url, "content_type": "json", "secret": SECRET}
    change = parse_hook({"config": config, "events": ["push"]}, "repository", services.check_url, creating=True)
    write = hook_actions.HookWrite(tx, actor, place, services.vault, base="http://127.0.0.1:8000")
    hook = await hook_actions.create_hook(write, change)
    return hook.id


def fill(where: Where, world: World, count: int) -> None:
    """Create `count` due dispatches, one per event, for the webhooks in turn.

    Deliveries and dispatches of earlier rounds are deleted; events are kept.
    """
    hook_ids = [hook_id for ids in world.repositories.values() for hook_id in ids]

    async def run(services: Services) -> None:
        database = services.database
        async with database.transaction() as tx:
            await tx.execute(sa.delete(deliveries))
            await tx.execute(sa.delete(dispatches))
        known = [row["id"] for row in await database.fetch_all(_event_ids)]
        await _insert_events(database, len(known), count)
        known = [row["id"] for row in await database.fetch_all(_event_ids)][:count]
        pairs = [(event_id, hook_ids[number % len(hook_ids)]) for number, event_id in enumerate(known)]
        for start in range(0, count, CHUNK):
            async with database.transaction() as tx:
                await insert_dispatches(tx, pairs[start : start + CHUNK])

    with_services(where, run)
    settle(where)


def add(where: Where, world: World, count: int) -> int:
    """Add `count` events with one due dispatch each, for the webhooks in turn, and keep everything else.

    Returns the ID of the last delivery before.
    """
    hook_ids = [hook_id for ids in world.repositories.values() for hook_id in ids]

    async def run(services: Services) -> int:
        database = services.database
        before = await database.fetch_one(_last_event)
        last = await database.fetch_one(_last_delivery)
        assert before is not None
        assert last is not None
        await _insert_events(database, 0, count)
        added = await database.fetch_all(_event_ids.where(events.c.id > bigint_param("after")), {"after": before[0]})
        pairs = [(row["id"], hook_ids[number % len(hook_ids)]) for number, row in enumerate(added)]
        for start in range(0, count, CHUNK):
            async with database.transaction() as tx:
                await insert_dispatches(tx, pairs[start : start + CHUNK])
        return int(last[0])

    return with_services(where, run)


def add_events(where: Where, count: int) -> None:
    """Add `count` events without dispatches."""
    with_services(where, lambda services: _insert_events(services.database, 0, count))


async def _insert_events(database: Database, first: int, end: int) -> None:
    for start in range(first, end, CHUNK):
        async with database.transaction() as tx:
            await tx.execute_many(_insert_event, [_event(mark) for mark in range(start, min(start + CHUNK, end))])


def settle(where: Where) -> None:
    """Bring the database to a defined state; see `_settle`. Nothing to do on SQLite."""
    if where.url is not None:
        asyncio.run(_settle(where.url))


def _event(mark: int) -> dict[str, object]:
    data = body(mark)
    return {
        "account_id": 2,
        "repository_id": 1,
        "name": "push",
        "action": None,
        "payload": to_stored("push", data),
        "size": len(data),
        "created_at": now_ms(),
    }


async def _settle(url: str) -> None:
    """Make every round start alike: dead rows removed, statistics up to date, everything on disk."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
