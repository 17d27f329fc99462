"""Publishes events from other systems, such as Git servers, CI, or any client with a token."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.errors import Fault, Forbidden, Invalid, Unavailable, say
from workhook.events import outbox
from workhook.events.catalog import known, publishable, rejection_reason
from workhook.events.tables import event_keys
from workhook.hooks.bodies import check_types
from workhook.hooks.commit import NewEvent, committer_of
from workhook.hooks.fan_out import send_now
from workhook.hooks.schemas import HookOwner, HookViewer, PublishedEvent
from workhook.hooks.tables import dispatches, hooks
from workhook.identity import audit
from workhook.identity.apps.app_schemas import app_repository_to_response
from workhook.identity.queries import Premise, check_premise
from workhook.identity.schemas import Account, Actor, Repository
from workhook.storage import Database, Row, Transaction
from workhook.storage.database import UniqueViolation
from workhook.storage.metadata import bigint_param, insert_into


class PushFollower(NamedTuple):
    """A subscriber to pushes. `concerns` returns whether a payload is relevant.

    `follow` runs before the event is added, with the pusher (None: a command) and the prefix of links in events.
    """

    concerns: Callable[[Mapping[str, Any], Repository], bool]
    follow: Callable[[Transaction, Repository, Mapping[str, Any], Actor | None, str], Awaitable[None]]


push_followers = outbox.Subscribers[PushFollower]()

PUSH = "push"
BODY_MAX = 25 * 1024 * 1024
VALUES_MAX = 1_000_000
KEY_MAX = 128
BUSY_TRIES = 20

_by_scope_and_key = (event_keys.c.scope == sa.bindparam("scope"), event_keys.c.key == sa.bindparam("key"))
_key = sa.select(event_keys.c.digest, event_keys.c.event_id, event_keys.c.created_at).where(*_by_scope_and_key)
_insert_key = insert_into(event_keys, "scope", "key", "digest", "event_id", "created_at")
_dispatched = (
    sa.select(hooks.c.id.label("hook_id"), hooks.c.app_id, hooks.c.repository_id)
    .join_from(dispatches, hooks, hooks.c.id == dispatches.c.hook_id, isouter=True)
    .where(dispatches.c.event_id == bigint_param("event_id"))
)
_forget_key = sa.delete(event_keys).where(*_by_scope_and_key, event_keys.c.created_at < bigint_param("before"))


class Publication(msgspec.Struct, frozen=True):
    """A validated event from a publisher. `id`: the publisher's own ID for the event."""

    event: str
    payload: dict[str, Any]
    action: str | None = None
    id: str | None = None


def parse_publication(body: Mapping[str, Any]) -> Publication:
    """Parse a request body. Raises `Invalid` listing every fault."""
    check_types(body, {"event": str, "payload": dict, "action": str, "id": str}, nullable=("action", "id"))
    faults = [
        Fault(resource="Event", field=name, code="missing_field", message=say("{} is required", name))
        for name in ("event", "payload")
        if name not in body
    ]
    if "event" in body and not known(body["event"]):
        faults.append(_fault("event", rejection_reason(body["event"])))
    key = body.get("id")
    if key is not None and not 1 <= len(key) <= KEY_MAX:
        faults.append(_fault("id", say("id must be 1 to {} characters long", KEY_MAX)))
    if key is not None and "\0" in key:
        faults.append(_fault("id", say("id must not contain NUL")))
    if faults:
        raise Invalid(faults=faults)
    action = body.get("action")
    if action is None and isinstance(body["payload"].get("action"), str):
        action = body["payload"]["action"]
    if action is not None and "\0" in action:
        raise Invalid(faults=[_fault("action", say("action must not contain NUL"))])
    return Publication(body["event"], body["payload"], action, key)


def check_publisher(publication: Publication, role: str | None) -> None:
    """Raise `Forbidden` if only Workhook may publish the event and `role` is neither admin nor owner."""
    if role not in ("admin", "owner") and not publishable(publication.event):
        message = f"Must have admin rights to publish {publication.event} events, which Workhook itself creates."
        raise Forbidden(message, code="missing_role")


def _fault(field: str, message: str) -> Fault:
    return Fault(resource="Event", field=field, code="custom", message=message)


async def publish(
    database: Database,
    owner: HookOwner,
    publication: Publication,
    *,
    actor: Actor | None,
    base: str,
    premise: Premise | None = None,
) -> PublishedEvent:
    """Commit the event and its dispatches. Repeating an `id` within 24 hours has no effect and returns the same result.

    Only dispatches to hooks visible to the owner's viewer are counted. Raises `Invalid` if another event was published
    under the `id`, and `ConditionFailed` if the `premise` of the caller's right (None: just checked) no longer holds.
    """
    draft = draft_of(publication, owner, actor, base)
    repository = owner.repository if draft.name == PUSH else None
    followers = [each for each in push_followers if repository and each.concerns(draft.payload, repository)]
    if publication.id is None and not outbox.watchers and not followers:
        return await _publish_gathered(database, draft, actor, owner.viewer, premise)

    async def follow(tx: Transaction) -> None:
        for each in followers:
            if repository is not None:
                await each.follow(tx, repository, draft.payload, actor, base)

    async def step(tx: Transaction) -> PublishedEvent:
        if premise is not None:
            await check_premise(tx, premise)
        return await _publish(tx, owner=owner, publication=publication, draft=draft, follow=follow)

    for _ in range(BUSY_TRIES):
        try:
            return await database.in_transaction(step)
        except UniqueViolation:
            # A concurrent request with this ID was faster; its commit is now visible.
            continue
        except Unavailable as problem:
            if problem.code != "busy":
                raise
    return await database.in_transaction(step)


async def _publish_gathered(
    database: Database, draft: outbox.Draft, actor: Actor | None, viewer: HookViewer, premise: Premise | None
) -> PublishedEvent:
    """Commit the event in a batch with concurrently published ones."""
    entry = None if actor is None else audit.row_of_call(actor, draft)
    committed = await committer_of(database).submit(NewEvent(outbox.row_of(draft), entry, premise))
    seen = sum(viewer.sees(app_id=each.app_id, repository_id=each.hook_repository_id) for each in committed.dispatches)
    return PublishedEvent(str(committed.event_id), seen)


async def _publish(
    tx: Transaction,
    *,
    owner: HookOwner,
    publication: Publication,
    draft: outbox.Draft,
    follow: Callable[[Transaction], Awaitable[None]],
) -> PublishedEvent:
    scope = f"r{owner.repository_id}" if owner.repository else f"o{owner.account.id}"
    key = {"scope": scope, "key": publication.id}
    digest = b""
    if publication.id is not None:
        content = [publication.event, publication.action, publication.payload]
        digest = hashlib.sha256(msgspec.json.encode(content, order="sorted")).digest()
        await tx.execute(_forget_key, {**key, "before": now_ms() - DAY_MS})
        earlier = await tx.fetch_one(_key, key)
        if earlier is not None:
            if bytes(earlier["digest"]) != digest:
                raise Invalid(faults=[_fault("id", "Another event was published with this ID within 24 hours")])
            sent = await tx.fetch_all(_dispatched, {"event_id": earlier["event_id"]})
            return PublishedEvent(publication.id, _count_seen(sent, owner.viewer))
    await follow(tx)
    outbox.add(tx, [draft])  # after the events added by `follow`
    rows = await send_now(tx)
    event_id = rows[-1]["event_id"]
    if publication.id is not None:
        tx.defer(_insert_key, [{**key, "digest": digest, "event_id": event_id, "created_at": now_ms()}])
    sent = [row for row in rows if row["event_id"] == event_id and row["dispatch_id"] is not None]
    return PublishedEvent(publication.id or str(event_id), _count_seen(sent, owner.viewer))


def _count_seen(sent: Sequence[Row], viewer: HookViewer) -> int:
    """Count the dispatches to hooks visible to the viewer, including hooks deleted since."""
    return sum(
        row["hook_id"] is None or viewer.sees(app_id=row["app_id"], repository_id=row["repository_id"]) for row in sent
    )


def draft_of(publication: Publication, owner: HookOwner, actor: Actor | None, base: str) -> outbox.Draft:
    action = {} if publication.action is None else {"action": publication.action}
    around = _around(owner, base, actor.user if actor else None, of_push=publication.event == PUSH)
    missing = {name: value for name, value in {**action, **around}.items() if name not in publication.payload}
    payload = publication.payload | missing
    actor_id, installation_id = (actor.user.id, actor.installation_id) if actor else (None, None)
    return outbox.Draft(
        owner.account.id, owner.repository_id, publication.event, publication.action, payload, actor_id,
        installation_id, published=True,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _around(owner: HookOwner, base: str, sender: Account | None, *, of_push: bool) -> Mapping[str, msgspec.Raw]:
    """Encode the parts that a payload may lack. Cached, because encoding the records took a third of a publish.

    For a push, two times of the repository are in seconds since the epoch, as on GitHub: receivers written in Go reject
    a string there.
    """
    around = owner.context(base, sender)
    if of_push and owner.repository:
        shape = app_repository_to_response(owner.repository, base, permissions=False)
        seconds = owner.repository.created_at // 1000
        around["repository"] = {**msgspec.to_builtins(shape), "created_at": seconds, "pushed_at": seconds}
    return {name: msgspec.Raw(json.encode(value)) for name, value in around.items()}
