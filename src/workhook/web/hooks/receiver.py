"""The built-in receiver: the route that accepts requests and the page that shows them."""

from __future__ import annotations

import msgspec

from workhook.core import json
from workhook.core.errors import Conflict, Malformed, require_found
from workhook.core.urls import new_receiver_key
from workhook.hooks import actions, receivers
from workhook.hooks.bodies import HookChange, parse_hook
from workhook.hooks.receivers import Arrival
from workhook.hooks.schemas import HookOwner
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.context import Write
from workhook.storage import Reader
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, text
from workhook.web.hooks.forms import new_secret
from workhook.web.hooks.payloads import body_text, visible
from workhook.web.hooks.site import HookSite
from workhook.work.board.columns import ColumnCreate, add_column, list_board_columns
from workhook.work.board.tasks.actions import create_task
from workhook.work.board.tasks.inputs import TaskCreate
from workhook.work.kernel.access import Access

routes = Routes(PAGES, "pages", etag=False)
places = Places("receiver")

WELCOME = "/welcome/webhook"


class _Body(msgspec.Struct):
    action: str | None = None


@routes.post("/receive/{key}", action="event.receive")
async def page_receive(call: Call) -> Response:
    """Accept a request to a built-in receiver."""
    hook = await receivers.require_receiver(call.database, call.path("key"))
    body = await call.body(receivers.BODY_MAX_BYTES)
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in call.request.scope["headers"]]
    state = await receivers.add_arrival(call.database, call.services.vault, hook, headers, body)
    return Response({"received": True, "signature": state}, headers={"Cache-Control": "no-store"})


@places.get("/{owner}/{project}/webhooks/receiver")
async def arrived(visit: Visit) -> Response:
    site = await _site(visit, "read")
    view = await read_receiver(visit.database, site.owner)
    return visit.page("hooks/receiver.html", site=site, receiver=view)


@places.get("/{owner}/{project}/webhooks/receiver/newest")
async def newest_arrival(visit: Visit) -> Response:
    """Return the mark by which a page notices new requests."""
    site = await _site(visit, "read")
    hook = require_found(await receivers.find_receiver(visit.database, site.owner))
    mark = str(await receivers.find_newest_arrival(visit.database, hook.id))
    return Response(mark.encode(), headers={"Cache-Control": "no-store"}, media_type="text/plain; charset=utf-8")


@places.post("/{owner}/{project}/webhooks/receiver", action="hook.create")
async def create_receiver(visit: Visit) -> Response:
    """Create a receiver and a webhook that sends all events to it, unless they exist."""
    site = await _site(visit, "write")
    key = new_receiver_key()
    change = _change(visit.call, key)

    async def create(write: Write) -> None:
        hook_write = actions.hook_write(visit.call, write.tx)
        await actions.lock_owner(hook_write)  # the form may be submitted twice concurrently
        if await receivers.find_receiver(write.tx, site.owner) is None:
            await receivers.create_receiver(hook_write, change, key)

    await visit.change(create)
    return visit.done(_back(visit, site))


@places.post("/{owner}/{project}/webhooks/receiver/card", makes=True, action="task.create")
async def add_card(visit: Visit) -> Response:
    """Add a card to the project to cause an event."""
    site = await _site(visit, "read")
    access = await visit.access()
    await visit.change(lambda write: _add_card(write, access))
    return visit.done(_back(visit, site))  # the page shows the event itself


async def read_receiver(reader: Reader, owner: HookOwner) -> dict[str, object] | None:
    """Return the project's receiver with its requests and a `mark` that changes with each, or None."""
    hook = await receivers.find_receiver(reader, owner)
    if hook is None:
        return None
    found = await receivers.list_arrivals(reader, hook.id)
    views = []
    for each in found:
        headers = [(visible(name), visible(value)) for name, value in each.headers]
        body = body_text(each.body.decode("utf-8", "replace"))
        views.append({"arrival": each, "headers": headers, "body": body, "action": _action_of(each)})
    return {"hook": hook, "arrived": views, "mark": str(found[0].id if found else 0)}


def _action_of(arrival: Arrival) -> str:
    """Return the event's action, such as `created`; empty if the body has none."""
    try:
        body: _Body = json.decode_untrusted(arrival.body, _Body)
    except Malformed:
        return ""
    return visible(body.action or "")


async def _site(visit: Visit, right: str) -> HookSite:
    await visit.repository(f"repository_hooks.{right}")
    return HookSite(actions.owner_of(visit.call), await visit.access())


def _back(visit: Visit, site: HookSite) -> str:
    """Return the page of the form: the first steps, or the receiver's own."""
    name = site.owner.repository.name if site.owner.repository else ""
    return f"{WELCOME}?project={name}" if visit.fields.get("from") == "welcome" else f"{site.base}/receiver"


def _change(call: Call, key: str) -> HookChange:
    """Return a webhook for all events whose deliveries carry both kinds of signatures."""
    url = call.services.own.receiver_url(key)
    if url is None:
        raise Conflict(text("This server’s address isn’t configured. Set base_url."), code="no_own_address")
    config = {"url": url, "content_type": "json", "header_style": "standard", "secret": new_secret()}
    body = {"name": "web", "config": config, "events": ["*"], "active": True}
    return parse_hook(body, "repository", call.services.check_url, creating=True)


async def _add_card(write: Write, access: Access) -> None:
    columns = await list_board_columns(write.tx, access.repository.id)
    if not columns:
        columns = [await add_column(write, access.repository.project_id, ColumnCreate(title=gettext("To do")))]
    await create_task(write, columns[0].id, TaskCreate(title=gettext("My first card")))
