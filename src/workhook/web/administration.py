"""`/settings/administration`: the server's users and organizations, for its administrators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workhook.core.errors import NotFound
from workhook.http.calls import Response
from workhook.identity import audit
from workhook.identity.context import Write
from workhook.identity.mail import recipients
from workhook.identity.mail.links import queue_own_link
from workhook.identity.schemas import Account
from workhook.identity.signin import sessions
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.names import called
from workhook.web.frame.paging import numbered_page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.administration import accounts as actions
from workhook.work.administration.accounts import OrganizationCreate, UserCreate, require_administrator
from workhook.work.kernel.schemas import if_set

places = Places("administration")

HERE = "/settings/administration"
PER_PAGE = 50
LINK_MINUTES = 7 * 24 * 60
_USER_FIELDS = ("login", "email", "name")
_PLACE_FIELDS = ("login", "admin", "profile_name")


@places.get("/settings/administration")
async def show_administration(visit: Visit, form: PageForm = UNSENT) -> Response:
    await require_administrator(visit.database, visit.actor)
    visit.require_recent(HERE)
    if form.is_refused:  # a POST has not loaded the header
        await visit.load_frame()
    number, page = numbered_page(visit, PER_PAGE)
    found, total = await actions.list_users(visit.database, page)
    return visit.page(
        "account/administration.html",
        form=form,
        users=found,
        total=total,
        number=number,
        more=number * PER_PAGE < total,
    )


@places.post("/settings/administration/users", makes=True, action="user.create")
@form_page(show_administration, _USER_FIELDS, section="user")
async def add_user(visit: Visit) -> Response:
    """Add a user and a link to choose a password, which is e-mailed if a mail server is set up."""
    visit.require_recent(HERE)
    vault = visit.call.services.vault

    async def add(write: Write) -> tuple[Account, str]:
        await require_administrator(write.tx, write.actor)
        wanted = visit.form(UserCreate, *_USER_FIELDS)
        made = (await actions.add_user(write, wanted.login, wanted.email, if_set(wanted.name))).account
        link = await sessions.create_link(write.tx, made.id, sessions.SET_PASSWORD, minutes=LINK_MINUTES)
        await audit.record(write.tx, write.actor, "user.link_create", made.login, account_id=made.id)
        if recipients.sends_mail():
            await queue_own_link(
                write.tx, vault, made.id, "password_link", link.path, expires_at=link.expires_at, now=write.now
            )
        return made, link.path

    made, path = await visit.change(add)
    url = f"{visit.call.public_base.removesuffix(visit.call.prefix)}{path}"
    return visit.page(
        "account/administration_link.html", has_secret=True, login=made.login, url=url, back=HERE,
        sent_to=made.email if recipients.sends_mail() else None,
    )  # fmt: skip


@places.post("/settings/administration/organizations", makes=True, action="organization.create")
@form_page(show_administration, _PLACE_FIELDS, section="organization")
async def add_organization(visit: Visit) -> Response:
    visit.require_recent(HERE)

    async def add(write: Write) -> str:
        await require_administrator(write.tx, write.actor)
        wanted = visit.form(OrganizationCreate, *_PLACE_FIELDS)
        name = if_set(wanted.profile_name)
        return called(await actions.add_organization(write, wanted.login, wanted.admin, name))

    name = await visit.change(add)
    return visit.done(HERE, gettext("Organization %(name)s added.", name=name))


@places.post("/settings/administration/users/{login}/disable", action="user.disable")
@form_page(show_administration)
async def disable_user(visit: Visit) -> Response:
    return await _change(visit, actions.disable, gettext("Account %(login)s disabled."))


@places.post("/settings/administration/users/{login}/enable", action="user.enable")
@form_page(show_administration)
async def enable_user(visit: Visit) -> Response:
    return await _change(visit, actions.enable, gettext("Account %(login)s enabled."))


@places.post("/settings/administration/users/{login}/delete", action="user.delete")
@form_page(show_administration)
async def delete_user(visit: Visit) -> Response:
    return await _change(visit, actions.remove_user, gettext("Account %(login)s deleted."))


async def _change(visit: Visit, act: Callable[[Write, str], Awaitable[object]], message: str) -> Response:
    visit.require_recent(HERE)
    login = visit.path("login")

    async def change(write: Write) -> None:
        await require_administrator(write.tx, write.actor)
        await act(write, login)

    if login == visit.actor.user.login:  # the visitor could not undo it
        raise NotFound()
    await visit.change(change)
    return visit.done(HERE, message % {"login": login})
