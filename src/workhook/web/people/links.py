"""`/invitations/links/{token}`: what a link to an invitation leads to.

Whoever has not signed in signs in, or makes an account and is in with the same button. Whoever has signed in accepts or
declines. Only a button uses the link up: programs that look at links in advance do not press it. Every link that is not
good has the same answer, and an address from which many come has to wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workhook.core.clock import now_ms
from workhook.core.disclosure import Secretive
from workhook.core.errors import Conflict, Fault, Forbidden, Invalid, NotFound, Unavailable
from workhook.http import parameters
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity import rate
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
from workhook.web.frame import flash
from workhook.web.frame.names import called
from workhook.web.frame.places import Places, Visit, visit_of
from workhook.web.frame.refusals import in_words
from workhook.web.frame.render import page
from workhook.web.frame.sessions import as_actor, form_key, read_form, record, redirect, signed_in, start_with_key
from workhook.web.frame.texts import gettext, language, text
from workhook.work.people.invitations import links
from workhook.work.people.invitations.links import NewAccount
from workhook.work.people.membership import add_link, is_mailed, send_link


class MadeLink(Secretive, msgspec.Struct, frozen=True):
    """`who`: the login or the address that is invited. `is_sent`: the link goes there by mail."""

    who: str
    role: str
    is_bound: bool
    is_sent: bool
    link: SecretLink


async def link_of(visit: Visit, write: Write, invitation: Invitation) -> MadeLink | None:
    """To an invitation that was made in this transaction; it is sent by mail if it can be. None: the form does not ask
    to see it."""
    if "link" not in visit.fields:
        await send_link(write, invitation, language())
        return None
    return _made(invitation, await add_link(write, invitation, language()))


async def renewed_link(write: Write, invitation: Invitation) -> MadeLink:
    """In place of an earlier one."""
    return _made(invitation, await links.renew_link(write, invitation, language()))


def _made(invitation: Invitation, link: SecretLink) -> MadeLink:
    who = invitation.invitee.login if invitation.invitee else invitation.email or ""
    return MadeLink(who, invitation.role, invitation.invitee is not None, is_mailed(invitation), link)


def link_page(visit: Visit, place: Account | Repository, made: MadeLink, back: str) -> Answer:
    """This page alone shows the link. `back`: where one goes on."""
    base = visit.call.base_for_others.removesuffix(visit.call.prefix)
    return visit.page(
        "people/link_made.html", has_secret=True, place=place, made=made, link=base + made.link.path, back=back
    )


_TRIES = 3
_TYPED_MAX_CHARS = 255

routes = Routes(PAGES, "pages", etag=False)
places = Places("invitation_links")


class AccountForm(msgspec.Struct):
    """What was typed, and what is wrong with it, by the fields."""

    login: str = ""
    name: str = ""
    email: str = ""
    faults: dict[str, str] = {}


@routes.get("/invitations/links/{token}", action="member.add")
async def page_invitation(call: Call) -> Answer:
    """Show what a link invites to."""
    session = await signed_in(call)
    invitation = await _find(call, session.user if session else None)
    if session is None:
        return _for_strangers(call, invitation, AccountForm(email=_mailed_address(invitation)))
    visit = visit_of(call, session)
    await visit.load_frame()
    return await _for_visitor(visit, invitation)


async def _find(call: Call, viewer: Account | None) -> Invitation:
    """Raises `NotFound`, the same for every link that is not good, and `TooManyRequests`."""
    await throttle.refuse_links(call.database, call.address)
    try:
        return await links.find(call.database, call.path("token"), viewer)
    except NotFound:
        await throttle.count_link(call.database, call.address)
        raise


def _for_strangers(call: Call, invitation: Invitation, form: AccountForm) -> Answer:
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


async def _for_visitor(visit: Visit, invitation: Invitation, fault: str = "") -> Answer:
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


def _mailed_address(invitation: Invitation) -> str:
    """To which its link was sent; empty where it is handed on by hand. Who invited has the link as well, so that it
    shows nobody's address to be theirs."""
    return invitation.email or "" if is_mailed(invitation) else ""


def _may_be_new(call: Call, invitation: Invitation) -> bool:
    """Whether somebody without an account can accept: they make one."""
    return call.services.settings.link_create_users and invitation.invitee is None


def _leads_to(invitation: Invitation) -> str:
    return f"/{invitation.repository.full_name if invitation.repository else invitation.account.login}"


# --- an account ------------------------------------------------------------------------------------------------------


@routes.post("/invitations/links/{token}", action="member.add")
async def page_invitation_post(call: Call) -> Answer:
    """Make an account, and come in with it."""
    fields = await read_form(call, None)
    invitation = await _find(call, None)
    if not _may_be_new(call, invitation):
        raise Forbidden(
            text("This invitation is for somebody who has an account here. Sign in first."), code="not_invited"
        )
    login, name, email = (fields.get(each, "")[:_TYPED_MAX_CHARS] for each in ("login", "name", "email"))
    form = AccountForm(login, name, email)
    try:
        wanted = parameters.gather(NewAccount, {}, _given(fields))
        faults = await links.check_new(call.database, wanted, fields.get("password", ""), fields.get("again", ""))
        if faults:
            raise Invalid(faults=faults)
        hashed = await passwords.make_hash(fields["password"])
        headers = await _come_in(call, wanted, hashed)
    except Invalid as problem:
        await throttle.count_link(call.database, call.address)  # it tells which logins there are
        form.faults = _by_field(problem.faults)
        return _for_strangers(call, invitation, form)
    return redirect(_leads_to(invitation), headers)


def _given(fields: dict[str, str]) -> dict[str, object]:
    typed = {name: fields.get(name, "").strip() for name in ("name", "email")}
    return {"login": fields.get("login", "").strip(), **{name: value for name, value in typed.items() if value}}


def _by_field(faults: Sequence[Fault]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for each in faults:
        found.setdefault(each.field or "login", []).append(in_words(each.message or each.code))
    return {name: " ".join(messages) for name, messages in found.items()}


async def _come_in(call: Call, wanted: NewAccount, hashed: str) -> dict[str, str]:
    """The account, its place and its session are one commit: of two that use the link one is left with an account."""

    async def step(tx: Transaction) -> dict[str, str]:
        user = await links.make_account(tx, wanted, hashed)
        call.actor = Caller(as_actor(call, user), rate.UNKNOWN)
        await record(tx, call, user, "user.create", {"how": "invitation"})
        await links.accept(Write.for_call(call, tx), call.path("token"))
        key = await start_with_key(tx, call, user, how="invitation")
        if wanted.email is None or not recipients.sends_mail():
            return key.headers
        await queue_confirmation(tx, user.id, wanted.email, language=language(), now=now_ms())
        said = gettext(
            "We have sent an e-mail to %(address)s, unless it got too many today. "
            "Follow the link in it to get e-mail there, such as your invoices."
        )
        return {**key.headers, **flash.left(call, key.csrf, flash.Note(said % {"address": wanted.email}))}

    for _ in range(_TRIES):
        try:
            return await call.database.in_transaction(step)
        except UniqueViolation:  # the login was taken in this moment, as the next try says
            continue
    raise Unavailable(text("Somebody else is just taking this login. Try again."))


# --- whoever has signed in -------------------------------------------------------------------------------------------


@places.post("/invitations/links/{token}/accept", action="member.add")
async def accept(visit: Visit) -> Answer:
    """Accept the invitation that a link leads to."""
    token = visit.path("token")
    invitation = await _find(visit.call, visit.actor.user)
    try:
        await visit.change(lambda write: links.accept(write, token))
    except Conflict as problem:
        return await _for_visitor(visit, invitation, problem.message)
    place = invitation.repository.title if invitation.repository else called(invitation.account)
    return visit.done(_leads_to(invitation), gettext("You are in %(place)s now.") % {"place": place})


@places.post("/invitations/links/{token}/decline", action="invitation.delete")
async def decline(visit: Visit) -> Answer:
    """Decline the invitation that a link leads to."""
    await _find(visit.call, visit.actor.user)
    await visit.change(lambda write: links.decline(write, visit.path("token")))
    return visit.done("/", gettext("You declined the invitation."))
