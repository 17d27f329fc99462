"""`/{owner}/people`: the members of an organization and its invitations.

Owners invite people, change roles and remove members.
"""

from __future__ import annotations

from urllib.parse import quote

from workhook.core.errors import Invalid, NotFound, require_found
from workhook.http.calls import Response
from workhook.identity import invitations
from workhook.identity.context import Write
from workhook.identity.invitations import Invitation
from workhook.identity.mail.links import find_unsent
from workhook.identity.mail.recipients import Undelivered, find_bounces
from workhook.identity.members import InOrganization, find_member, list_people
from workhook.identity.queries import key_of
from workhook.identity.schemas import Organization
from workhook.storage.pages import Page
from workhook.web.frame.flash import Undo
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.names import called
from workhook.web.frame.paging import numbered_page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.people.links import MadeLink, link_of, link_page, make_new_link, withdraw
from workhook.work.board.projects.listing import list_newest
from workhook.work.board.projects.schemas import Project
from workhook.work.people.invitations import organization as api
from workhook.work.people.membership import is_mailed

places = Places("people")

PER_PAGE = 50
INVITATIONS_MAX = 200
PROJECTS_MAX = 50
_API_ROLES = {"owner": "admin", "member": "member"}


@places.get("/{owner}/people")
async def people(visit: Visit, form: PageForm = UNSENT) -> Response:
    """Show the members of an organization and, to owners, the pending invitations."""
    place = await visit.organization("organization.read")
    number, page = numbered_page(visit, PER_PAGE)
    found, total = await list_people(visit.database, place.account.id, page)
    waiting: list[Invitation] = []
    bounces: dict[int, Undelivered] = {}
    unsent: dict[int, Undelivered] = {}
    projects: list[Project] = []
    if place.role == "owner":
        projects = await list_newest(visit.database, visit.actor, limit=PROJECTS_MAX + 1, account_id=place.account.id)
        waiting, _ = await invitations.list_of(visit.database, place.account, visit.actor.user, Page(INVITATIONS_MAX))
        bounces = await find_bounces(visit.database, [each.account.id for each in found])
        unsent = await find_unsent(visit.database, [each.id for each in waiting])
    return visit.page(
        "people/people.html",
        form=form,
        place=place,
        people=found,
        total=total,
        number=number,
        more=number * PER_PAGE < total,
        waiting=waiting,
        bounces=bounces,
        unsent=unsent,
        projects=[each for each in projects[:PROJECTS_MAX] if not each.archive],
        more_projects=len(projects) > PROJECTS_MAX,
        faults=form.reasons,
    )


@places.post("/{owner}/people", makes=True, action="member.add")
@form_page(people)
async def invite(visit: Visit) -> Response:
    """Invite a person to an organization by login or e-mail address."""
    place = await visit.organization("organization.people")
    visit.require_recent(_address(visit))

    async def change(write: Write) -> tuple[str, MadeLink | None]:
        sentence, made = await _invite(visit, write, place)
        return sentence, None if made is None else await link_of(visit, write, made)

    sentence, link = await visit.change(change)
    back = _address(visit)
    return visit.done(back, sentence) if link is None else link_page(visit, place.account, link, back)


async def _invite(visit: Visit, write: Write, place: Organization) -> tuple[str, Invitation | None]:
    """Return the message, and the invitation if one was created. Raises `Invalid`."""
    who, role = visit.fields.get("who", "").strip(), _API_ROLES.get(visit.fields.get("role", ""), "member")
    if "@" in who:
        body = visit.form(
            api.OrganizationInvitationBody, email=who, role="admin" if role == "admin" else "direct_member"
        )
        made = await api.invite(write, body)
        if is_mailed(made):
            return gettext("%(address)s invited. A link is on its way by e-mail.", address=who), made
        sentence = gettext(
            "%(address)s invited. No e-mail was sent. Existing users see the invitation on their home page; for anyone "
            "else, create a link and send it."
        )
        return sentence % {"address": who}, made
    if await find_member(write.tx, place.account.id, who) is not None:
        message = gettext("%(login)s is already in %(place)s.", login=who, place=called(place.account))
        raise Invalid.at("who", message)
    try:
        person = (await api.find_user(write, who)).account
        login = person.login
        membership = await api.organization_memberships_set(write, login, visit.form(api.MembershipBody, role=role))
    except NotFound:
        message = gettext("No user has the login “%(login)s”.", login=who)
        raise Invalid.at("who", message) from None
    if membership.state != "pending":
        return gettext("%(login)s is now a member.", login=called(person)), None
    pending = await invitations.find_pending(write.tx, place.account, person, write.actor.user)
    return gettext("%(login)s invited.", login=login), pending


@places.post("/{owner}/people/{login}/role", action="member.update")
@form_page(people, section="role")
async def change_role(visit: Visit) -> Response:
    place = await visit.organization("organization.people")
    visit.require_recent(_address(visit))
    role = visit.fields.get("role", "")
    if role not in _API_ROLES:
        raise NotFound()

    async def change(write: Write) -> InOrganization:
        member = require_found(await find_member(write.tx, place.account.id, visit.path("login")))
        body = visit.form(api.MembershipBody, role=_API_ROLES[role])
        await api.organization_memberships_set(write, member.account.login, body)
        return member

    before = await visit.change(change)
    text = gettext("%(login)s is now an owner.") if role == "owner" else gettext("%(login)s is no longer an owner.")
    undo = None
    if before.account.id != visit.actor.user.id:  # visitors cannot restore their own role
        undo = Undo(f"{_address(visit)}/{before.account.login}/role", {"role": before.role})
    return visit.done(_address(visit), text % {"login": called(before.account)}, undo=undo)


@places.get("/{owner}/people/{login}/remove")
async def ask_to_remove(visit: Visit, form: PageForm = UNSENT) -> Response:
    """Ask whether to remove a member from an organization, or to leave it."""
    place = await visit.organization("organization.leave")
    member = await find_member(visit.database, place.account.id, visit.path("login"))
    if member is None or (place.role != "owner" and member.account.id != visit.actor.user.id):
        raise NotFound()
    visit.require_recent()
    return visit.page("people/remove.html", form=form, place=place, member=member, faults=form.reasons)


@places.post("/{owner}/people/{login}/remove", action="member.remove")
@form_page(ask_to_remove)
async def remove(visit: Visit) -> Response:
    place = await visit.organization("organization.leave")
    login = visit.path("login")
    member = require_found(await find_member(visit.database, place.account.id, login))
    visit.require_recent(f"{_address(visit)}/{member.account.login}/remove")
    await visit.change(lambda write: api.organization_members_remove(write, login))
    if key_of(login) == key_of(visit.actor.user.login):
        return visit.done("/", gettext("You’ve left %(place)s.", place=called(place.account)))
    return visit.done(_address(visit), gettext("%(login)s removed.", login=called(member.account)))


@places.post("/{owner}/people/invitations/{invitation_id}/link", action="invitation.link")
async def renew_link(visit: Visit) -> Response:
    place = await visit.organization("organization.people")
    visit.require_recent(_address(visit))
    return await make_new_link(visit, place.account, _address(visit))


@places.post("/{owner}/people/invitations/{invitation_id}/cancel", action="invitation.delete")
async def cancel(visit: Visit) -> Response:
    place = await visit.organization("organization.people")
    visit.require_recent(_address(visit))
    ended, who, text = await withdraw(visit, place.account)
    return visit.done(_address(visit), text, undo=Undo(_address(visit), {"who": who, "role": ended.role}))


def _address(visit: Visit) -> str:
    return f"/{quote(visit.path('owner'), safe='')}/people"
