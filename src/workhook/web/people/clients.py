"""The clients of a project."""

from __future__ import annotations

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.core.errors import Conflict, Invalid, NotFound
from workhook.http.calls import Response
from workhook.identity.context import Write
from workhook.identity.invitations import CLIENT
from workhook.web.frame import cookies
from workhook.web.frame.flash import Undo
from workhook.web.frame.forms import form_page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.people.links import MadeLink, link_of, link_page
from workhook.web.project import administered, settings_address, show_settings
from workhook.work.kernel.access import require_not_archived
from workhook.work.kernel.tables import Client
from workhook.work.people.clients import ClientCreate, delete_client, lock_client, restore_client
from workhook.work.people.membership import invite

places = Places("clients")

SECTION = "clients"
UNDO_MS = 10 * MINUTE_MS
_REMOVED = "workhook removed client"
_DIGITS_MAX = 15


@places.post("/{owner}/{project}/settings/clients", action="client.add")
async def put_client_back(visit: Visit) -> Response:
    """Undo the removal of a client within a few minutes. Afterwards they need a new invitation."""
    access = await administered(visit)
    visit.require_recent(settings_address(visit))
    project_id = access.repository.project_id
    login, email, until = (visit.fields.get(name, "") for name in ("username", "email", "until"))
    given = visit.fields.get("removed", "")
    in_time = until.isascii() and until.isdigit() and len(until) <= _DIGITS_MAX and int(until) > now_ms()
    if not in_time or not cookies.is_signed(
        visit.call, _REMOVED, _signed(visit, project_id, login, email, until), given
    ):
        raise NotFound()
    client = await visit.change(lambda write: restore_client(write, project_id, login, email))
    text = gettext("%(login)s is a client of this project again.", login=client.username)
    return visit.done(settings_address(visit, SECTION), text)


def _undo(visit: Visit, project_id: str, removed: Client) -> Undo:
    """Return the undo of a removal, valid for a few minutes in this session.

    It is signed, because only a former client may return without a new invitation.
    """
    until = str(now_ms() + UNDO_MS)
    signature = cookies.sign(visit.call, _REMOVED, _signed(visit, project_id, removed.username, removed.email, until))
    fields = {"email": removed.email, "username": removed.username, "until": until, "removed": signature}
    return Undo(f"{settings_address(visit)}/clients", fields)


def _signed(visit: Visit, *values: str) -> str:
    return "\0".join((str(visit.session.id), *values))


@places.post("/{owner}/{project}/settings/clients/invite", makes=True, action="invitation.create")
@form_page(show_settings, section=SECTION, on=(Invalid, Conflict))
async def invite_client_by_link(visit: Visit) -> Response:
    """Invite a client to a project."""
    access = await administered(visit)
    visit.require_recent(settings_address(visit))
    require_not_archived(access.repository)
    address = visit.form(ClientCreate, email=visit.fields.get("email", ""))

    async def change(write: Write) -> MadeLink | None:
        made = await invite(write, access.repository, CLIENT, email=address.email, field="email")
        return await link_of(visit, write, made)

    made = await visit.change(change)
    back = settings_address(visit, SECTION)
    if made is None:
        return visit.done(back, gettext("%(who)s invited.", who=address.email))
    return link_page(visit, access.repository, made, back)


@places.post("/{owner}/{project}/settings/clients/{client_id}/remove", action="client.remove")
async def remove_client(visit: Visit) -> Response:
    """Remove a client from a project."""
    access = await administered(visit)
    visit.require_recent(settings_address(visit))

    async def end(write: Write) -> Client:
        found, client = await lock_client(write, visit.path("client_id"))
        access.require_same_project(found)
        await delete_client(write, found, client)
        return client

    removed = await visit.change(end)
    undo = _undo(visit, access.repository.project_id, removed)
    text = gettext("%(login)s is no longer a client of this project.", login=removed.username)
    return visit.done(settings_address(visit, SECTION), text, undo=undo)
