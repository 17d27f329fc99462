"""`/{owner}/people`: who is in an organization, and who is invited. Owners invite, change roles and remove."""

from __future__ import annotations

from urllib.parse import quote

from workhook.core.errors import Fault, Invalid, NotFound, existing
from workhook.http.calls import Answer
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
from workhook.web.frame.forms import PageForm, form_page
from workhook.web.frame.names import called
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.people.links import MadeLink, link_of, link_page, renewed_link
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
async def people(visit: Visit) -> Answer:
    """Show who is in an organization, and to its owners who is invited."""
    return await _page(visit, PageForm())


async def _page(visit: Visit, form: PageForm) -> Answer:
    place = await visit.organization("organization.read")
    number = visit.call.query_integer("page", 1, low=1, high=10_000)
    page = Page(PER_PAGE, (number - 1) * PER_PAGE)
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
        status=form.status,
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
        form=form,
        faults=form.reasons,
    )


@places.post("/{owner}/people", makes=True, action="member.add")
@form_page(_page)
async def invite(visit: Visit) -> Answer:
    """Invite somebody to an organization, by login or by e-mail address."""
    place = await visit.organization("organization.people")
    visit.require_recent(_address(visit))
    said, link = await visit.change(lambda write: _invite_with_link(visit, write, place))
    return visit.done(_address(visit), said) if link is None else link_page(visit, place.account, link, _address(visit))


async def _invite_with_link(visit: Visit, write: Write, place: Organization) -> tuple[str, MadeLink | None]:
    """What there is to say of it, and a link if the form asks for one and an invitation was made."""
    said, made = await _invite(visit, write, place)
    if made is None:
        return said, None
    return said, await link_of(visit, write, made)


async def _invite(visit: Visit, write: Write, place: Organization) -> tuple[str, Invitation | None]:
    """What there is to say of it, and the invitation if one was made. Raises `Invalid`."""
    who, role = visit.fields.get("who", "").strip(), _API_ROLES.get(visit.fields.get("role", ""), "member")
    if "@" in who:
        body = visit.form(
            api.OrganizationInvitationBody, email=who, role="admin" if role == "admin" else "direct_member"
        )
        made = await api.invite(write, body)
        if is_mailed(made):
            return gettext("%(address)s is invited. A link is sent there by e-mail.") % {"address": who}, made
        said = gettext(
            "%(address)s is invited. No e-mail was sent: make a link and send it, unless they have an account here and "
            "find the invitation on their start page."
        )
        return said % {"address": who}, made
    if await find_member(write.tx, place.account.id, who) is not None:
        raise fault(
            "who", gettext("%(login)s is in %(place)s already.") % {"login": who, "place": called(place.account)}
        )
    try:
        person = (await api.find_user(write, who)).account
        login = person.login
        membership = await api.organization_memberships_set(write, login, visit.form(api.MembershipBody, role=role))
    except NotFound:
        raise fault("who", gettext("There is nobody with the login “%(login)s”.") % {"login": who}) from None
    if membership.state != "pending":
        return gettext("%(login)s is a member now.") % {"login": called(person)}, None
    pending = await invitations.find_pending(write.tx, place.account, person, write.actor.user)
    return gettext("%(login)s is invited.") % {"login": login}, pending


@places.post("/{owner}/people/{login}/role", action="member.update")
@form_page(_page, section="role")
async def change_role(visit: Visit) -> Answer:
    """Make a member an owner, or the other way round."""
    place = await visit.organization("organization.people")
    visit.require_recent(_address(visit))
    role = visit.fields.get("role", "")
    if role not in _API_ROLES:
        raise NotFound()

    async def change(write: Write) -> InOrganization:
        member = await _member(write, place, visit.path("login"))
        body = visit.form(api.MembershipBody, role=_API_ROLES[role])
        await api.organization_memberships_set(write, member.account.login, body)
        return member

    before = await visit.change(change)
    text = gettext("%(login)s is an owner now.") if role == "owner" else gettext("%(login)s is no owner any more.")
    undo = None
    if before.account.id != visit.actor.user.id:  # who gave up the role cannot take it back
        undo = Undo(f"{_address(visit)}/{before.account.login}/role", {"role": before.role})
    return visit.done(_address(visit), text % {"login": called(before.account)}, undo=undo)


@places.get("/{owner}/people/{login}/remove")
async def ask_to_remove(visit: Visit) -> Answer:
    """Ask whether to remove somebody from an organization, or to leave it."""
    return await _remove_page(visit, PageForm())


async def _remove_page(visit: Visit, form: PageForm) -> Answer:
    place = await visit.organization("organization.leave")
    member = await find_member(visit.database, place.account.id, visit.path("login"))
    if member is None or (place.role != "owner" and member.account.id != visit.actor.user.id):
        raise NotFound()
    visit.require_recent()
    return visit.page("people/remove.html", status=form.status, place=place, member=member, faults=form.reasons)


@places.post("/{owner}/people/{login}/remove", action="member.remove")
@form_page(_remove_page)
async def remove(visit: Visit) -> Answer:
    """Remove somebody from an organization, or leave it."""
    place = await visit.organization("organization.leave")
    login = visit.path("login")
    member = existing(await find_member(visit.database, place.account.id, login))
    visit.require_recent(f"{_address(visit)}/{member.account.login}/remove")
    await visit.change(lambda write: api.organization_members_remove(write, login))
    if key_of(login) == key_of(visit.actor.user.login):
        return visit.done("/", gettext("You left %(place)s.") % {"place": called(place.account)})
    return visit.done(_address(visit), gettext("%(login)s was removed.") % {"login": called(member.account)})


@places.post("/{owner}/people/invitations/{invitation_id}/link", action="invitation.link")
async def renew_link(visit: Visit) -> Answer:
    """Make a new link to an invitation, in place of the old one."""
    place = await visit.organization("organization.people")
    visit.require_recent(_address(visit))
    invitation_id = visit.call.path_integer("invitation_id")

    async def renew(write: Write) -> MadeLink:
        found = await invitations.get(write.tx, place.account, invitation_id, write.actor.user)
        return await renewed_link(write, found)

    return link_page(visit, place.account, await visit.change(renew), _address(visit))


@places.post("/{owner}/people/invitations/{invitation_id}/cancel", action="invitation.delete")
async def cancel(visit: Visit) -> Answer:
    """Take back an invitation to an organization."""
    place = await visit.organization("organization.people")
    visit.require_recent(_address(visit))
    invitation_id = visit.call.path_integer("invitation_id")

    async def end(write: Write) -> Invitation:
        found = await invitations.get(write.tx, place.account, invitation_id, write.actor.user)
        await api.organization_invitations_cancel(write, invitation_id)
        return found

    ended = await visit.change(end)
    who = ended.invitee.login if ended.invitee else ended.email or ""
    undo = Undo(_address(visit), {"who": who, "role": ended.role})
    return visit.done(_address(visit), gettext("The invitation of %(who)s was taken back.") % {"who": who}, undo=undo)


async def _member(write: Write, place: Organization, login: str) -> InOrganization:
    """Raises `NotFound`."""
    return existing(await find_member(write.tx, place.account.id, login))


def _address(visit: Visit) -> str:
    return f"/{quote(visit.path('owner'), safe='')}/people"


def fault(name: str, message: str) -> Invalid:
    """One thing that is wrong with a field of the form."""
    return Invalid(faults=[Fault(field=name, message=message)])
