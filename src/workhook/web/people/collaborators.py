"""The collaborators and clients of a project. Admins add and remove them and change their roles."""

from __future__ import annotations

from urllib.parse import quote

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.core.errors import Conflict, Invalid, NotFound, require_found
from workhook.http.calls import Response
from workhook.identity import invitations, members
from workhook.identity.context import Write
from workhook.identity.invitations import CLIENT
from workhook.identity.queries import find_account, key_of
from workhook.web.frame.flash import Undo
from workhook.web.frame.forms import form_page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.people.links import MadeLink, link_of, link_page, make_new_link, withdraw
from workhook.web.project import administered, settings_address, show_settings
from workhook.work.kernel.access import Access, require_not_archived
from workhook.work.kernel.tables import Client
from workhook.work.people.clients import ClientCreate, delete_client, lock_client, restore_client
from workhook.work.people.invitations import repository as api
from workhook.work.people.invitations.organization import find_user
from workhook.work.people.membership import invite, is_collaborator, is_mailed

places = Places("collaborators")

SECTION, CLIENTS = "people", "clients"
_PERMISSIONS = {"read": "pull", "write": "push", "admin": "admin"}


@places.post("/{owner}/{project}/settings/people", makes=True, action="member.add")
@form_page(show_settings, section=SECTION)
async def add(visit: Visit) -> Response:
    access = await administered(visit, recently=True)
    body = _body(visit)
    text, link = await visit.change(lambda write: _add_with_link(visit, write, access, body))
    back = settings_address(visit, SECTION)
    return visit.done(back, text) if link is None else link_page(visit, access.repository, link, back)


async def _add_with_link(
    visit: Visit, write: Write, access: Access, body: api.CollaboratorBody
) -> tuple[str, MadeLink | None]:
    """Return the message, and a link if the form requests one and an invitation was created."""
    who = visit.fields.get("who", "").strip()
    if "@" in who:
        role = api.ROLES[body.permission]
        address = visit.form(ClientCreate, email=who)
        made = await invite(write, access.repository, role, email=address.email, field="who")
        message = gettext("%(address)s invited. The invitation appears on their home page.")
        if is_mailed(made):
            message = gettext("%(address)s invited. A link is on its way by e-mail.")
        return message % {"address": who}, await link_of(visit, write, made)
    text = await _add(write, access, who, body)
    person = (await find_user(write, who)).account
    pending = await invitations.find_pending(write.tx, access.repository, person, write.actor.user)
    return text, await link_of(visit, write, pending) if pending is not None else None


async def _add(write: Write, access: Access, who: str, body: api.CollaboratorBody) -> str:
    """Add a user and return the message. Raises `Invalid`."""
    try:
        login = (await find_user(write, who)).account.login
        answer = await api.repository_collaborators_set(write, login, body)
    except NotFound:  # the same for unknown logins and for strangers whom the visitor may not invite
        message = gettext("No user has the login “%(login)s”.", login=who)
        raise Invalid.at("who", message) from None
    if answer.status == 201:
        return gettext("%(login)s invited.", login=login)
    return await _said(write, access, login, gettext("%(login)s added to the project."))


async def _said(write: Write, access: Access, login: str, text: str) -> str:
    """Return the message about a role in the project, which owners of the organization cannot have."""
    member = await members.find_member(write.tx, access.repository.owner.id, login)
    if member is not None and member.role == "owner":
        text = gettext("%(login)s is an owner of the organization and already has full access.")
    return text % {"login": login}


@places.post("/{owner}/{project}/settings/people/{login}/role", action="member.update")
async def change_role(visit: Visit) -> Response:
    access = await administered(visit, recently=True)
    login, body = visit.path("login"), _body(visit)

    async def change(write: Write) -> str:
        account = await find_account(write.tx, login)
        if account is None or not await is_collaborator(write.tx, access.repository, account):
            raise NotFound()
        await api.repository_collaborators_set(write, account.login, body)
        return await _said(write, access, account.login, gettext("The role of %(login)s was changed."))

    text = await visit.change(change)
    if _is_own(visit) and body.permission != "admin":
        return visit.done("/", text)
    return visit.done(settings_address(visit, SECTION), text)


@places.get("/{owner}/{project}/settings/people/{login}/remove")
async def ask_to_remove(visit: Visit) -> Response:
    access = await administered(visit)
    found = await members.find_somebody(visit.database, visit.actor, access.repository, visit.path("login"))
    if found is None or not await is_collaborator(visit.database, access.repository, found.account):
        raise NotFound()
    visit.require_recent()
    return visit.page("project/remove.html", person=found.account)


@places.post("/{owner}/{project}/settings/people/{login}/remove", action="member.remove")
async def remove(visit: Visit) -> Response:
    await administered(visit)
    login = visit.path("login")
    visit.require_recent(f"{settings_address(visit)}/people/{quote(login, safe='')}/remove")

    async def end(write: Write) -> None:
        account = require_found(await find_account(write.tx, login))
        await api.repository_collaborators_remove(write, account.login)

    await visit.change(end)
    text = gettext("%(login)s removed.", login=login)
    return visit.done("/" if _is_own(visit) else settings_address(visit, SECTION), text)


@places.post("/{owner}/{project}/settings/invitations/{invitation_id}/cancel", action="invitation.delete")
async def cancel(visit: Visit) -> Response:
    access = await administered(visit, recently=True)
    ended, who, text = await withdraw(visit, access.repository)
    here = settings_address(visit)
    if ended.role == CLIENT:
        section, undo = CLIENTS, Undo(f"{here}/clients/invite", {"email": who})
    else:
        section, undo = SECTION, Undo(f"{here}/people", {"who": who, "role": ended.role})
    return visit.done(settings_address(visit, section), text, undo=undo)


@places.post("/{owner}/{project}/settings/invitations/{invitation_id}/link", action="invitation.link")
async def renew_link(visit: Visit) -> Response:
    access = await administered(visit, recently=True)
    return await make_new_link(visit, access.repository, settings_address(visit))


def _body(visit: Visit) -> api.CollaboratorBody:
    role = visit.fields.get("role", "")
    if role not in _PERMISSIONS:
        raise NotFound()
    return visit.form(api.CollaboratorBody, permission=_PERMISSIONS[role])


def _is_own(visit: Visit) -> bool:
    return key_of(visit.path("login")) == key_of(visit.actor.user.login)


client_places = Places("clients")

UNDO_MS = 10 * MINUTE_MS
_REMOVED = "workhook removed client"
_DIGITS_MAX = 15


@client_places.post("/{owner}/{project}/settings/clients", action="client.add")
async def put_client_back(visit: Visit) -> Response:
    """Undo the removal of a client within a few minutes. Afterwards they need a new invitation."""
    access = await administered(visit, recently=True)
    project_id = access.repository.project_id
    login, email, until = (visit.fields.get(name, "") for name in ("username", "email", "until"))
    given = visit.fields.get("removed", "")
    in_time = until.isascii() and until.isdigit() and len(until) <= _DIGITS_MAX and int(until) > now_ms()
    if not in_time or not visit.call.services.vault.is_signed(
        _REMOVED, _signed(visit, project_id, login, email, until), given
    ):
        raise NotFound()
    client = await visit.change(lambda write: restore_client(write, project_id, login, email))
    text = gettext("%(login)s is a client of this project again.", login=client.username)
    return visit.done(settings_address(visit, CLIENTS), text)


def _undo(visit: Visit, project_id: str, removed: Client) -> Undo:
    """Return the form that undoes a removal. It is signed: only a former client may return without an invitation."""
    until = str(now_ms() + UNDO_MS)
    signed = _signed(visit, project_id, removed.username, removed.email, until)
    signature = visit.call.services.vault.sign(_REMOVED, signed)
    fields = {"email": removed.email, "username": removed.username, "until": until, "removed": signature}
    return Undo(f"{settings_address(visit)}/clients", fields)


def _signed(visit: Visit, *values: str) -> str:
    return "\0".join((str(visit.session.id), *values))


@client_places.post("/{owner}/{project}/settings/clients/invite", makes=True, action="invitation.create")
@form_page(show_settings, section=CLIENTS, on=(Invalid, Conflict))
async def invite_client_by_link(visit: Visit) -> Response:
    access = await administered(visit, recently=True)
    require_not_archived(access.repository)
    address = visit.form(ClientCreate, email=visit.fields.get("email", ""))

    async def change(write: Write) -> MadeLink | None:
        made = await invite(write, access.repository, CLIENT, email=address.email, field="email")
        return await link_of(visit, write, made)

    made = await visit.change(change)
    back = settings_address(visit, CLIENTS)
    if made is None:
        return visit.done(back, gettext("%(who)s invited.", who=address.email))
    return link_page(visit, access.repository, made, back)


@client_places.post("/{owner}/{project}/settings/clients/{client_id}/remove", action="client.remove")
async def remove_client(visit: Visit) -> Response:
    access = await administered(visit, recently=True)

    async def end(write: Write) -> Client:
        found, client = await lock_client(write, visit.path("client_id"))
        access.require_same_project(found)
        await delete_client(write, found, client)
        return client

    removed = await visit.change(end)
    undo = _undo(visit, access.repository.project_id, removed)
    text = gettext("%(login)s is no longer a client of this project.", login=removed.username)
    return visit.done(settings_address(visit, CLIENTS), text, undo=undo)
