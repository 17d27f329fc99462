"""The routes of webhooks, shared by repositories and organizations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workhook.core.clock import DAY_MS, now_ms
from workhook.core.errors import Fault, Invalid
from workhook.events.hook_config import fault, parse_config
from workhook.hooks import actions, bodies, deliveries, health, publishing, queries, redelivery
from workhook.hooks.bodies import check_types, parse_hook
from workhook.hooks.health import HookHealth
from workhook.hooks.schemas import (
    AppHookShape,
    ConfigShape,
    DeliveryDetail,
    DeliveryItem,
    Hook,
    HookApp,
    HookShape,
    PublishedEvent,
    RedeliveryShape,
    StartedRedelivery,
    config_to_response,
    hook_to_response,
    last_response_of,
)
from workhook.http.calls import Call
from workhook.http.endpoints import Created, Listed, Paged, Routes, RoutesPerKind
from workhook.http.lists import ID_CURSOR, PER_PAGE, link, parse_cursor, per_page_of
from workhook.http.operations import WEBHOOK_API, Query
from workhook.identity.authenticator import actor_of, caller_of, retry_on_changed_premise
from workhook.identity.context import Write
from workhook.storage import Reader, Row
from workhook.storage.pages import Page

LAST_RESPONSE_MS = 30 * DAY_MS
CLIENT_PAYLOAD_KEYS = 10

_TIME = {"type": "string", "format": "date-time"}
_DELIVERY_FILTERS = (
    Query("status", "`success`: a 2xx response; `failure`: anything else.", {"enum": ["success", "failure"]}),
    Query("event", "Only this event."),
    Query("action", "Only this action."),
    Query("guid", "Only attempts with this GUID."),
    Query("since", "Delivered at or after this time.", _TIME),
    Query("until", "Delivered at or before this time.", _TIME),
    Query("redelivery", "Only redeliveries, or only first attempts.", {"type": "boolean"}),
)
_DELIVERY_QUERY = (PER_PAGE, Query("cursor", "Cursor from a `Link` header.", ID_CURSOR), *_DELIVERY_FILTERS)

repository = Routes(WEBHOOK_API, "repository webhooks", read="repository_hooks.read", write="repository_hooks.write")
organization = Routes(
    WEBHOOK_API, "organization webhooks", read="organization_hooks.read", write="organization_hooks.write"
)
both = RoutesPerKind(
    (repository, "/repos/{owner}/{repo}", "repository", "repository"),
    (organization, "/orgs/{org}", "organization", "organization"),
)


async def _newest(reader: Reader, hooks: Sequence[Hook]) -> dict[int, Row]:
    """Return each hook's delivery for `last_response`, which only repository webhooks have."""
    hook_ids = [hook.id for hook in hooks if hook.repository_id is not None]
    return await queries.newest_deliveries(reader, hook_ids, now_ms() - LAST_RESPONSE_MS) if hook_ids else {}


async def _shapes(call: Call, hooks: Sequence[Hook]) -> list[HookShape]:
    newest = await _newest(call.database, hooks)
    owner = actions.owner_of(call)
    return [hook_to_response(hook, owner, call.base, last_response_of(newest.get(hook.id))) for hook in hooks]


@both.get("/hooks")
async def hooks_list(call: Call, page: Page) -> Paged[list[HookShape]]:
    """List webhooks of the {called}."""
    hooks, total = await queries.list_hooks(call.database, actions.owner_of(call), page)
    return Paged(await _shapes(call, hooks), total)


@both.post("/hooks", body=bodies.hook_create, body_required=True)
async def hooks_create(call: Call) -> Created[HookShape]:
    """Create a webhook for the {called}."""
    owner = actions.owner_of(call)
    change = parse_hook(await call.json_object(), owner.target, call.services.check_url, creating=True)
    hook = await call.database.in_transaction(lambda tx: actions.create_hook(actions.hook_write(call, tx), change))
    shape = hook_to_response(hook, owner, call.base)
    return Created(shape, shape.url)


@both.get("/hooks/{hook_id}")
async def hooks_get(call: Call, hook_id: int) -> HookShape:
    """Get a webhook."""
    [shape] = await _shapes(call, [await actions.hook_of(call, call.database, hook_id)])
    return shape


@both.patch("/hooks/{hook_id}", body=bodies.hook_update)
async def hooks_update(call: Call, hook_id: int) -> HookShape:
    """Update a webhook."""
    target = actions.owner_of(call).target
    change = parse_hook(await call.json_object(), target, call.services.check_url, creating=False)
    hook = await call.database.in_transaction(
        lambda tx: actions.update_hook(actions.hook_write(call, tx), hook_id, change)
    )
    [shape] = await _shapes(call, [hook])
    return shape


repository.delete(
    "/repos/{owner}/{repo}/hooks/{hook_id}", name="repository_hooks_delete", access="repository_hooks.delete"
)(actions.hooks_delete)
organization.delete("/orgs/{org}/hooks/{hook_id}", name="organization_hooks_delete")(actions.hooks_delete)


@both.get("/hooks/{hook_id}/config")
async def hooks_get_config(call: Call, hook_id: int) -> ConfigShape:
    """Get a webhook's configuration."""
    return config_to_response(await actions.hook_of(call, call.database, hook_id))


@both.patch("/hooks/{hook_id}/config", body=bodies.CONFIG_UPDATE)
async def hooks_update_config(call: Call, hook_id: int) -> ConfigShape:
    """Update a webhook's configuration."""
    faults: list[Fault] = []
    change = parse_config(await call.json_object(), call.services.check_url, faults)
    if faults:
        raise Invalid(faults=faults)
    return config_to_response(
        await call.database.in_transaction(
            lambda tx: actions.update_config(actions.hook_write(call, tx), hook_id, change)
        )
    )


@both.get("/hooks/{hook_id}/health")
async def hooks_get_health(call: Call, hook_id: int) -> HookHealth:
    """Get the health of a webhook.

    Returns the results of its deliveries in the last 24 hours, its backlog and, if it was deactivated, the reason. If
    there are too many deliveries, only the newest 10,000 are counted.
    """
    return await health.hook_health(call.database, await actions.hook_of(call, call.database, hook_id))


both.post("/hooks/{hook_id}/pings", problems=(422,))(actions.hooks_ping)


_TESTS = "/repos/{owner}/{repo}/hooks/{hook_id}/tests"


@repository.post(
    _TESTS.removesuffix("s"), name="repository_hooks_test_old", action="hook.test", problems=(422,), deprecated=True
)
@repository.post(_TESTS, problems=(422,))
async def repository_hooks_test(write: Write, hook_id: int) -> None:
    """Send the latest push to a webhook."""
    hook = await actions.get_hook_counted(write.call, write.tx, hook_id)
    await deliveries.send_test(write.tx, actions.owner_of(write.call), hook)
    actions.audit_of_call(write, "hook.test", f"hook/{hook.id}")


@both.get("/hooks/{hook_id}/deliveries", query=_DELIVERY_QUERY)
async def deliveries_list(call: Call, hook_id: int) -> Listed[list[DeliveryItem]]:
    """List deliveries of a webhook."""
    hook = await actions.hook_of(call, call.database, hook_id)
    per_page = per_page_of(call)
    cursor = parse_cursor(call.query_text("cursor"))
    filters = deliveries.parse_filters({each.name: call.query_text(each.name) for each in _DELIVERY_FILTERS})
    page = await deliveries.list_deliveries(
        call.database, hook.id, filters, cursor=cursor, per_page=per_page, retries=actions.retries_of(call, hook)
    )
    cursors = {"next": page.next_cursor, "prev": page.prev_cursor}
    relations = {rel: {"cursor": found} for rel, found in cursors.items() if found is not None}
    return Listed(page.items, {"Link": link(call, relations)} if relations else {})


@both.get("/hooks/{hook_id}/deliveries/{delivery_id}", problems=(422,))
async def deliveries_get(call: Call, hook_id: int, delivery_id: int) -> DeliveryDetail:
    """Get a delivery."""
    hook = await actions.hook_of(call, call.database, hook_id)
    return await deliveries.find_delivery(call.database, hook.id, delivery_id, retries=actions.retries_of(call, hook))


both.post("/hooks/{hook_id}/deliveries/{delivery_id}/attempts", status=202, problems=(422,))(
    actions.deliveries_redeliver
)


@both.post("/hooks/{hook_id}/deliveries/redeliver", status=202, body=bodies.REDELIVER)
async def deliveries_redeliver_many(call: Call, hook_id: int) -> StartedRedelivery:
    """Redeliver deliveries in bulk."""
    job = await actions.redeliver_many(call, hook_id, deliveries.parse_selection(await call.json_object()))
    shape = redelivery.to_response(job, f"{call.base}{actions.owner_of(call).path}/hooks/{job.hook_id}")
    return StartedRedelivery(shape.queued, shape)


@both.get("/hooks/{hook_id}/redeliveries/{redelivery_id}")
async def redeliveries_get(call: Call, hook_id: int, redelivery_id: int) -> RedeliveryShape:
    """Get the progress of a redelivery."""
    hook = await actions.hook_of(call, call.database, hook_id)
    job = await redelivery.find(call.database, hook.id, redelivery_id)
    return redelivery.to_response(job, f"{call.base}{actions.owner_of(call).path}/hooks/{hook.id}")


@both.post("/events", status=202, access="{called}.publish", body=bodies.PUBLISH, body_required=True, relies=True)
async def events_publish(call: Call) -> PublishedEvent:
    """Publish an event for the {called}."""
    publication = publishing.parse_publication(
        await call.json_object(publishing.BODY_MAX, values=publishing.VALUES_MAX)
    )

    async def publish() -> PublishedEvent:
        caller, owner = caller_of(call), actions.owner_of(call)
        place = caller.repository or caller.organization
        publishing.check_publisher(publication, place.role if place else None)
        base = call.public_base
        return await publishing.publish(
            call.database, owner, publication, actor=actor_of(call), base=base, premise=caller.premise
        )

    return await retry_on_changed_premise(call, publish)


@repository.post(
    "/repos/{owner}/{repo}/dispatches",
    access="repository.publish",
    body=bodies.DISPATCH,
    body_required=True,
    action="event.dispatch",
)
async def repository_dispatch(call: Call) -> None:
    """Publish a repository_dispatch event."""
    owner = actions.owner_of(call)
    body = await call.json_object()
    check_types(body, {"event_type": str, "client_payload": dict})
    kind, client_payload = body.get("event_type", ""), body.get("client_payload", {})
    if not 1 <= len(kind) <= 100 or "\0" in kind:
        raise Invalid(faults=[fault("event_type must have 1 to 100 characters", field="event_type")])
    if len(client_payload) > CLIENT_PAYLOAD_KEYS:
        message = f"client_payload must have at most {CLIENT_PAYLOAD_KEYS} properties"
        raise Invalid(faults=[fault(message, field="client_payload")])
    # A webhook created by an app gets its installation there (`delivery.sign.with_installation`).
    payload = {"action": kind, "branch": "main", "client_payload": client_payload, "installation": None}
    publication = publishing.Publication("repository_dispatch", payload, kind)
    await publishing.publish(call.database, owner, publication, actor=actor_of(call), base=call.public_base)


@organization.get("/orgs/{org}/oauth-hooks", name="oauth_hooks_list", access="oauth_hooks.read")
async def list_app_hooks(call: Call, page: Page) -> Paged[list[AppHookShape]]:
    """List webhooks created by OAuth apps.

    Includes webhooks of the organization and its repositories. Outside this list, the organization's webhooks are
    visible only to the app that created them.
    """
    found, total = await queries.list_app_hooks(call.database, actor_of(call), actions.owner_of(call).account, page)
    newest = await _newest(call.database, [each.hook for each in found])
    shapes = []
    for each in found:
        shape = hook_to_response(each.hook, each.owner, call.base, last_response_of(newest.get(each.hook.id)))
        place = each.owner.repository.full_name if each.owner.repository else None
        app = HookApp(each.client_id, each.name)
        shapes.append(AppHookShape(**msgspec.structs.asdict(shape), app=app, repository=place))
    return Paged(shapes, total)


@organization.delete(
    "/orgs/{org}/oauth-hooks/{hook_id}", name="oauth_hooks_delete", access="oauth_hooks.delete", action="hook.delete"
)
async def delete_app_hook(write: Write, hook_id: int) -> None:
    """Delete a webhook created by an OAuth app.

    The webhook can belong to the organization or one of its repositories. Its waiting deliveries are dropped.
    """
    await actions.delete_app_hook(write.tx, write.actor, actions.owner_of(write.call).account, hook_id)


OPERATIONS = (*repository, *organization)
