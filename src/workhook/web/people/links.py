"""`/invitations/links/{token}`: the page of a link to an invitation.

Visitors without a session sign in, or create an account and join with the same button. Others accept or decline. Only
the button uses up the link, because some programs open links in advance. All invalid links get the same response, and
clients that try many are throttled.
"""

from __future__ import annotations

import asyncio

import msgspec

from workhook.core.clock import now_ms
from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable, require_found
from workhook.http import parameters
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity import invitations, rate
from workhook.identity.authenticator import Caller
from workhook.identity.context import Write
from workhook.identity.invitations import PATH, Invitation
from workhook.identity.mail import recipients
from workhook.identity.mail.links import queue_confirmation
from workhook.identity.schemas import Account, Repository
from workhook.identity.signin import passwords, throttle
from workhook.identity.tokens.one_time import SecretLink
from workhook.storage import Transaction
from workhook.storage.database import UniqueViolation
from workhook.storage.pages import Page
from workhook.web.frame import flash
from workhook.web.frame.forms import PageForm
from workhook.web.frame.names import called
from workhook.web.frame.places import Places, Visit, visit_of
from workhook.web.frame.refusals import in_words
from workhook.web.frame.render import page
from workhook.web.frame.sessions import as_actor, form_key, read_form, record, redirect, signed_in, start_session
from workhook.web.frame.texts import gettext, language, text
from workhook.work.people.invitations import links, organization, repository
from workhook.work.people.invitations.links import NewAccount
from workhook.work.people.invitations.organization import end_invitation
from workhook.work.people.membership import add_link, is_mailed, send_link


class MadeLink(HiddenRepr, msgspec.Struct, frozen=True):
    """A new link. `who` is the invited login or address.

    `is_bound`: only that account can use it. `is_sent`: it is e-mailed. `is_renewed`: it replaces an earlier link.
    """

    who: str
    is_bound: bool
    is_sent: bool
    is_renewed: bool
    link: SecretLink


async def link_of(visit: Visit, write: Write, invitation: Invitation) -> MadeLink | None:
    """Return a new link to an invitation if the form requests it. Otherwise, e-mail one if possible and return None."""
    if "link" not in visit.fields:
        await send_link(write, invitation, language())
        return None
    return _made(invitation, await add_link(write, invitation, language()), is_renewed=False)


async def make_new_link(visit: Visit, place: Account | Repository, back: str) -> Response:
    """Replace the link of the invitation in the path and show the new one."""
    number = visit.call.path_integer("invitation_id")

    async def renew(write: Write) -> MadeLink:
        found = await invitations.get(write.tx, place, number, write.actor.user)
        return _made(found, await links.renew_link(write, found, language()), is_renewed=found.has_link)

    return link_page(visit, place, await visit.change(renew), back)


async def withdraw(visit: Visit, place: Account | Repository) -> tuple[Invitation, str, str]:
    """Delete the invitation in the path. Returns it, the invited login or address, and the message."""
    number = visit.call.path_integer("invitation_id")

    async def end(write: Write) -> Invitation:
        found = await invitations.get(write.tx, place, number, write.actor.user)
        if not await end_invitation(write, found):
            raise NotFound()
        return found

    ended = await visit.change(end)
    who = ended.invitee.login if ended.invitee else ended.email or ""
    return ended, who, gettext("Invitation for %(who)s revoked.", who=who)


def _made(invitation: Invitation, link: SecretLink, *, is_renewed: bool) -> MadeLink:
    who = invitation.invitee.login if invitation.invitee else invitation.email or ""
    return MadeLink(who, invitation.invitee is not None, is_mailed(invitation), is_renewed, link)


def link_page(visit: Visit, place: Account | Repository, made: MadeLink, back: str) -> Response:
    """Show the link once. `back`: the next page."""
    base = visit.call.public_base.removesuffix(visit.call.prefix)
    return visit.page(
        "people/link_made.html", has_secret=True, place=place, made=made, link=base + made.link.path, back=back
    )


_TRIES = 3
_TYPED_MAX_CHARS = 255

routes = Routes(PAGES, "pages", etag=False)
places = Places("invitation_links")


@routes.get("/invitations/links/{token}", action="member.add")
async def page_invitation(call: Call) -> Response:
    session = await signed_in(call)
    invitation = await _find(call, session.user if session else None)
    if session is None:
        # The link doesn't prove ownership of the address it was sent to, because the inviter has it as well.
        email = invitation.email or "" if is_mailed(invitation) else ""
        return _for_strangers(call, invitation, PageForm({"email": email}))
    visit = visit_of(call, session)
    await visit.load_frame()
    return await _for_visitor(visit, invitation)


async def _find(call: Call, viewer: Account | None) -> Invitation:
    """Return the invitation. Raises the same `NotFound` for every invalid link, or `TooManyRequests`."""
    await throttle.refuse_links(call.database, call.address)
    try:
        return await links.find(call.database, call.path("token"), viewer)
    except NotFound:
        await throttle.count_link(call.database, call.address)
        raise


def _for_strangers(call: Call, invitation: Invitation, form: PageForm) -> Response:
    key = form_key(call)
    return page(
        "people/link_stranger.html",
        status=422 if form.faults else 200,
        headers=key.headers,
        has_secret=True,
        csrf=key.csrf,
        invitation=invitation,
        address=PATH + call.path("token"),
        form=form,
        faults=list(form.faults),
        may_be_new=_may_be_new(call, invitation),
        oidc=call.services.settings.oidc_issuer is not None,
        has_mail=recipients.sends_mail(),
    )


async def _for_visitor(visit: Visit, invitation: Invitation, fault: str = "") -> Response:
    user = visit.actor.user
    return visit.page(
        "people/link_visitor.html",
        status=409 if fault else 200,
        has_secret=True,
        invitation=invitation,
        address=PATH + visit.path("token"),
        leads_to=_leads_to(invitation),
        is_for_visitor=links.is_for(invitation, user),
        is_in=await links.is_in(visit.database, invitation, user),
        faults=[fault] if fault else [],
    )


def _may_be_new(call: Call, invitation: Invitation) -> bool:
    """Return whether the invitation can be accepted with a new account."""
    return call.services.settings.link_create_users and invitation.invitee is None


def _leads_to(invitation: Invitation) -> str:
    return f"/{invitation.repository.full_name if invitation.repository else invitation.account.login}"


# --- an account ------------------------------------------------------------------------------------------------------


@routes.post("/invitations/links/{token}", action="member.add")
async def page_invitation_post(call: Call) -> Response:
    fields = await read_form(call, None)
    invitation = await _find(call, None)
    if not _may_be_new(call, invitation):
        raise Forbidden(text("This invitation is for an existing user. Sign in to accept it."), code="not_invited")
    form = PageForm({each: fields.get(each, "")[:_TYPED_MAX_CHARS] for each in ("login", "name", "email")})
    try:
        typed = {each: fields.get(each, "").strip() for each in ("name", "email")}
        given = {"login": fields.get("login", "").strip(), **{each: value for each, value in typed.items() if value}}
        wanted = parameters.gather(NewAccount, {}, given)
        faults = await links.check_new(call.database, wanted, fields.get("password", ""), fields.get("again", ""))
        if faults:
            raise Invalid(faults=faults)
        hashed = await passwords.hash_password(fields["password"])
        headers = await _come_in(call, wanted, hashed)
    except Invalid as problem:
        await throttle.count_link(call.database, call.address)  # the response reveals logins
        found: dict[str, list[str]] = {}
        for each in problem.faults:
            found.setdefault(each.field or "login", []).append(in_words(each.message or each.code))
        form.faults = {field: " ".join(messages) for field, messages in found.items()}
        return _for_strangers(call, invitation, form)
    return redirect(_leads_to(invitation), headers)


async def _come_in(call: Call, wanted: NewAccount, hashed: str) -> dict[str, str]:
    """Create the account, its membership, and its session in one commit. Of two concurrent uses, one fails entirely."""

    async def step(tx: Transaction) -> dict[str, str]:
        user = await links.create_account_from_link(tx, wanted, hashed)
        call.actor = Caller(as_actor(call, user), rate.UNKNOWN)
        await record(tx, call, user, "user.create", {"how": "invitation"})
        await links.accept(Write.for_call(call, tx), call.path("token"))
        key = await start_session(tx, call, user, how="invitation")
        if wanted.email is None or not recipients.sends_mail():
            return key.headers
        await queue_confirmation(tx, user.id, wanted.email, language=language(), now=now_ms())
        message = gettext(
            "We’ve sent a link to %(address)s. Open it to receive e-mail such as invoices. If nothing arrives, request "
            "a new link in your settings tomorrow."
        )
        return {**key.headers, **flash.left(call, key.csrf, flash.Note(message % {"address": wanted.email}))}

    for _ in range(_TRIES):
        try:
            return await call.database.in_transaction(step)
        except UniqueViolation:  # a concurrent request took the login, which the next try reports
            continue
    raise Unavailable(text("Someone is registering this login right now. Try again."))


# --- signed-in visitors ----------------------------------------------------------------------------------------------


@places.post("/invitations/links/{token}/accept", action="member.add")
async def accept(visit: Visit) -> Response:
    token = visit.path("token")
    invitation = await _find(visit.call, visit.actor.user)
    try:
        await visit.change(lambda write: links.accept(write, token))
    except Conflict as problem:
        return await _for_visitor(visit, invitation, problem.message)
    place = invitation.repository.title if invitation.repository else called(invitation.account)
    return visit.done(_leads_to(invitation), gettext("Welcome to %(place)s.", place=place))


@places.post("/invitations/links/{token}/decline", action="invitation.delete")
async def decline(visit: Visit) -> Response:
    await _find(visit.call, visit.actor.user)
    await visit.change(lambda write: links.decline(write, visit.path("token")))
    return visit.done("/", gettext("Invitation declined."))


own_places = Places("invitations")

SHOWN_MAX = 20


async def find_invitations(visit: Visit) -> list[Invitation]:
    """Return the oldest twenty invitations to organizations, and then to projects."""
    reader, user, page = visit.database, visit.actor.user, Page(SHOWN_MAX)
    found = await asyncio.gather(
        invitations.list_for(reader, user, Account, page), invitations.list_for(reader, user, Repository, page)
    )
    return [each for some, _ in found for each in some]


@own_places.post("/invitations/organizations/{org}/accept", action="member.add")
async def accept_organization(visit: Visit) -> Response:
    body = organization.AcceptBody(state="active")
    joined = await visit.change(lambda write: organization.user_memberships_accept(write, visit.path("org"), body))
    login = joined.organization.login
    return visit.done(f"/{login}", gettext("Welcome to %(organization)s.", organization=login))


@own_places.post("/invitations/organizations/{org}/decline", action="invitation.delete")
async def decline_organization(visit: Visit) -> Response:
    await visit.change(lambda write: organization.decline(write, visit.path("org")))
    return visit.done("/", gettext("Invitation declined."))


@own_places.post("/invitations/projects/{invitation_id}/accept", action="member.add")
async def accept_project(visit: Visit) -> Response:
    invitation_id = visit.call.path_integer("invitation_id")

    async def accept(write: Write) -> Invitation:
        found = require_found(await invitations.find_to_repository(write.tx, write.actor.user, invitation_id))
        await repository.join(write, found)
        return found

    joined = (await visit.change(accept)).repository
    assert joined is not None, "it is to a project"
    return visit.done(f"/{joined.full_name}", gettext("You’ve joined the project."))


@own_places.post("/invitations/projects/{invitation_id}/decline", action="invitation.delete")
async def decline_project(visit: Visit) -> Response:
    invitation_id = visit.call.path_integer("invitation_id")
    await visit.change(lambda write: repository.user_repository_invitations_decline(write, invitation_id))
    return visit.done("/", gettext("Invitation declined."))
