"""Area B over HTTP: every operation for repositories and, the same, for organizations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from workhook.core.clock import DAY_MS, now_ms
from workhook.core.errors import Fault, Invalid, NotFound
from workhook.hooks import actions, app_hooks, deliveries, publishing, queries, redelivery
from workhook.hooks.config_keys import fault, parse_config
from workhook.hooks.parsing import parse_hook, refuse_types, wrong_type
from workhook.hooks.records import (
    Hook,
    HookOwner,
    app_hook_shape,
    config_shape,
    hook_shape,
    last_response_of,
    viewer_of,
)
from workhook.hooks.schemas import Accepted, HookShape, Queued
from workhook.http.calls import Answer, Call
from workhook.http.paging import link, page_link, page_of, per_page_of
from workhook.identity import audit
from workhook.identity.guard import actor_of, caller_of
from workhook.storage import Reader, Row, Transaction

LAST_RESPONSE_MS = 30 * DAY_MS
CLIENT_PAYLOAD_KEYS = 10


def owner_of(call: Call) -> HookOwner:
    """What the path names, as the caller sees it; the guard has found and checked it."""
    caller, viewer = caller_of(call), viewer_of(actor_of(call))
    if caller.repository:
        return HookOwner(caller.repository.owner, caller.repository, viewer)
    assert caller.organization is not None, "the operation's rule names a repository or an organization"
    return HookOwner(caller.organization.account, viewer=viewer)


async def _hook_of(call: Call, reader: Reader, owner: HookOwner) -> Hook:
    hook = await queries.find_hook(reader, owner, call.path_integer("hook_id"))
    if hook is None:
        raise NotFound()
    return hook


async def _audit(tx: Transaction, call: Call, owner: HookOwner, action: str, target: str, **detail: object) -> None:
    account_id, repository_id = owner.account.id, owner.repository_id
    await audit.record(
        tx, actor_of(call), action, target, account_id=account_id, repository_id=repository_id, detail=detail
    )


async def _shapes(call: Call, owner: HookOwner, hooks: Sequence[Hook]) -> list[HookShape]:
    newest: dict[int, Row] = {}
    if owner.repository is not None and hooks:
        since = now_ms() - LAST_RESPONSE_MS
        newest = await queries.newest_deliveries(call.database, [hook.id for hook in hooks], since)
    return [hook_shape(hook, owner, call.base, last_response_of(newest.get(hook.id))) for hook in hooks]


async def _shape(call: Call, owner: HookOwner, hook: Hook) -> HookShape:
    return (await _shapes(call, owner, [hook]))[0]


async def list_hooks(call: Call) -> Answer:
    owner = owner_of(call)
    page, per_page = page_of(call)
    hooks, total = await queries.list_hooks(call.database, owner, limit=per_page, offset=(page - 1) * per_page)
    shapes = await _shapes(call, owner, hooks)
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def create_hook(call: Call) -> Answer:
    owner, services = owner_of(call), call.services
    change = parse_hook(await call.json_object(), owner.target, services.check_url, creating=True)
    hook = await services.database.in_transaction(
        partial(
            actions.create_hook,
            actor=actor_of(call),
            owner=owner,
            change=change,
            vault=services.vault,
            limit=services.settings.hooks_per_event,
            base=call.base_for_others,
        )
    )
    shape = hook_shape(hook, owner, call.base)
    return Answer(shape, status=201, headers={"Location": shape.url})


async def get_hook(call: Call) -> Answer:
    owner = owner_of(call)
    return Answer(await _shape(call, owner, await _hook_of(call, call.database, owner)))


async def update_hook(call: Call) -> Answer:
    owner, services = owner_of(call), call.services
    hook_id = call.path_integer("hook_id")
    change = parse_hook(await call.json_object(), owner.target, services.check_url, creating=False)
    hook = await services.database.in_transaction(
        partial(
            actions.update_hook,
            actor=actor_of(call),
            owner=owner,
            hook_id=hook_id,
            change=change,
            vault=services.vault,
            limit=services.settings.hooks_per_event,
        )
    )
    return Answer(await _shape(call, owner, hook))


async def delete_hook(call: Call) -> Answer:
    actor, owner, hook_id = actor_of(call), owner_of(call), call.path_integer("hook_id")
    await call.database.in_transaction(lambda tx: actions.delete_hook(tx, actor, owner, hook_id))
    return Answer(status=204)


async def get_config(call: Call) -> Answer:
    return Answer(config_shape(await _hook_of(call, call.database, owner_of(call))))


async def update_config(call: Call) -> Answer:
    owner, services = owner_of(call), call.services
    hook_id = call.path_integer("hook_id")
    faults: list[Fault] = []
    change = parse_config(await call.json_object(), services.check_url, faults)
    if faults:
        raise Invalid(faults=faults)
    hook = await services.database.in_transaction(
        partial(
            actions.update_config,
            actor=actor_of(call),
            owner=owner,
            hook_id=hook_id,
            config=change,
            vault=services.vault,
            limit=services.settings.hooks_per_event,
        )
    )
    return Answer(config_shape(hook))


async def ping(call: Call) -> Answer:
    owner = owner_of(call)

    async def step(tx: Transaction) -> None:
        hook = await _hook_of(call, tx, owner)
        await deliveries.count_manual(tx, hook.id)
        await actions.send_ping(tx, actor_of(call), owner, hook, call.base_for_others)
        await _audit(tx, call, owner, "hook.ping", f"hook/{hook.id}")

    await call.database.in_transaction(step)
    return Answer(status=204)


async def test(call: Call) -> Answer:
    owner = owner_of(call)

    async def step(tx: Transaction) -> None:
        hook = await _hook_of(call, tx, owner)
        await deliveries.count_manual(tx, hook.id)
        await deliveries.send_test(tx, owner, hook)
        await _audit(tx, call, owner, "hook.test", f"hook/{hook.id}")

    await call.database.in_transaction(step)
    return Answer(status=204)


async def list_app_hooks(call: Call) -> Answer:
    owner = owner_of(call)
    page, per_page = page_of(call)
    found, total = await app_hooks.list_app_hooks(
        call.database, actor_of(call), owner.account, limit=per_page, offset=(page - 1) * per_page
    )
    of_repositories = [each.hook.id for each in found if each.owner.repository]
    newest: dict[int, Row] = {}
    if of_repositories:
        newest = await queries.newest_deliveries(call.database, of_repositories, now_ms() - LAST_RESPONSE_MS)
    shapes = []
    for each in found:
        shape = hook_shape(each.hook, each.owner, call.base, last_response_of(newest.get(each.hook.id)))
        shapes.append(app_hook_shape(shape, each.client_id, each.name, each.owner))
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def delete_app_hook(call: Call) -> Answer:
    actor, owner, hook_id = actor_of(call), owner_of(call), call.path_integer("hook_id")
    await call.database.in_transaction(lambda tx: app_hooks.delete_app_hook(tx, actor, owner.account, hook_id))
    return Answer(status=204)


async def list_deliveries(call: Call) -> Answer:
    hook = await _hook_of(call, call.database, owner_of(call))
    per_page = per_page_of(call)
    cursor = deliveries.parse_cursor(call.query_text("cursor"))
    filters = deliveries.parse_query(call.query)
    page = await deliveries.list_deliveries(call.database, hook.id, filters, cursor=cursor, per_page=per_page)
    relations = {
        rel: {"cursor": found}
        for rel, found in (("next", page.next_cursor), ("prev", page.prev_cursor))
        if found is not None
    }
    return Answer(page.items, headers={"Link": link(call, relations)} if relations else {})


async def get_delivery(call: Call) -> Answer:
    hook = await _hook_of(call, call.database, owner_of(call))
    return Answer(await deliveries.find_delivery(call.database, hook.id, call.path_integer("delivery_id")))


async def redeliver(call: Call) -> Answer:
    owner = owner_of(call)

    async def step(tx: Transaction) -> None:
        hook = await _hook_of(call, tx, owner)
        delivery_id = call.path_integer("delivery_id")
        await deliveries.redeliver(tx, hook.id, delivery_id)
        await _audit(tx, call, owner, "delivery.redeliver", f"delivery/{delivery_id}", hook_id=hook.id)

    await call.database.in_transaction(step)
    return Answer(Accepted(), status=202)


async def redeliver_many(call: Call) -> Answer:
    owner = owner_of(call)
    filters = deliveries.parse_selection(await call.json_object())
    chosen = msgspec.structs.asdict(filters)
    asked = {name: value for name, value in chosen.items() if value is not None}

    async def step(tx: Transaction) -> redelivery.Redelivery:
        hook = await _hook_of(call, tx, owner)
        await deliveries.count_manual(tx, hook.id)
        job_id = await redelivery.ask(tx, hook.id, filters)
        await _audit(tx, call, owner, "delivery.redeliver_many", f"hook/{hook.id}", **asked)
        return await redelivery.find(tx, hook.id, job_id)

    job = await call.database.in_transaction(step)
    job = await redelivery.begin(call.database, job)
    shape = redelivery.shape_of(job, f"{call.base}{owner.path}/hooks/{job.hook_id}")
    return Answer(Queued(shape.queued, shape), status=202)


async def get_redelivery(call: Call) -> Answer:
    owner = owner_of(call)
    hook = await _hook_of(call, call.database, owner)
    job = await redelivery.find(call.database, hook.id, call.path_integer("redelivery_id"))
    return Answer(redelivery.shape_of(job, f"{call.base}{owner.path}/hooks/{hook.id}"))


def _role_of(call: Call) -> str | None:
    caller = caller_of(call)
    if caller.repository:
        return caller.repository.role
    return caller.organization.role if caller.organization else None


async def publish(call: Call) -> Answer:
    owner = owner_of(call)
    body = await call.json_object(publishing.BODY_MAX)
    publication = publishing.parse_publication(body)
    publishing.check_publisher(publication, _role_of(call))
    published = await publishing.publish(
        call.database, owner, publication, actor=actor_of(call), base=call.base_for_others
    )
    return Answer(published, status=202)


async def dispatch(call: Call) -> Answer:
    owner = owner_of(call)
    body = await call.json_object()
    kind, client_payload = body.get("event_type"), body.get("client_payload", {})
    complaints = []
    if "event_type" in body and not isinstance(kind, str):
        complaints.append(wrong_type("event_type", kind, "a string"))
    if not isinstance(client_payload, dict):
        complaints.append(wrong_type("client_payload", client_payload, "an object"))
    refuse_types(complaints)
    if not isinstance(kind, str) or not 1 <= len(kind) <= 100 or "\0" in kind:
        raise Invalid(faults=[fault("event_type must have 1 to 100 characters", field="event_type")])
    if len(client_payload) > CLIENT_PAYLOAD_KEYS:
        message = f"client_payload must have at most {CLIENT_PAYLOAD_KEYS} properties"
        raise Invalid(faults=[fault(message, field="client_payload")])
    # A webhook that an app made gets its installation there (`delivery.sign.with_installation`).
    payload = {"action": kind, "branch": "main", "client_payload": client_payload, "installation": None}
    publication = publishing.Publication("repository_dispatch", payload, kind)
    await publishing.publish(call.database, owner, publication, actor=actor_of(call), base=call.base_for_others)
    return Answer(status=204)
