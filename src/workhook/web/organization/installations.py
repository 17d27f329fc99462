"""The apps installed on an organization: their permissions and projects, suspending and uninstalling."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import quote

from workhook.core.errors import Invalid
from workhook.http.calls import Response
from workhook.identity.apps import installer, queries
from workhook.identity.apps.actions import find_named_installation
from workhook.identity.apps.schemas import Installation
from workhook.identity.context import Write
from workhook.identity.oauth.grants import covers, wanted
from workhook.identity.queries import find_account_by_id, find_repositories
from workhook.identity.schemas import Organization
from workhook.storage.pages import Page
from workhook.web.frame.flash import Undo
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.paging import numbered_page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.web.organization.apps import in_words
from workhook.web.organization.settings import owned, settings_address, settings_page
from workhook.web.signin.installing import LISTED_MAX, PATH, RepositoryChoice, chosen_repositories, read_choice

T = TypeVar("T")

places = Places("installations")

PER_PAGE = 50
PART = "installations"
REPOSITORIES, PERMISSIONS = "repositories", "permissions"  # the forms on the page of an installation


@places.get("/{owner}/settings/installations")
async def show_list(visit: Visit, form: PageForm = UNSENT) -> Response:
    place = await owned(visit)
    number, page = numbered_page(visit, PER_PAGE)
    found, total = await queries.list_installations_on(visit.database, place.account.id, page)
    return settings_page(
        visit,
        place,
        "organization/installations.html",
        form,
        installations=found,
        asks_for_more=asks_for_more,
        in_words=in_words,
        number=number,
        more=number * PER_PAGE < total,
    )


@places.post("/{owner}/settings/installations", action="installation.create")
@form_page(show_list)
async def begin(visit: Visit) -> Response:
    """Redirect to the installation page of the named app."""
    place = await owned(visit)
    typed = visit.fields.get("app", "").strip()
    name = typed.rstrip("/").removesuffix("/installations/new").rpartition("/")[2]
    app = await queries.find_slug(visit.database, name)
    if app is not None and not app.is_oauth:
        for each in await queries.list_owned(visit.database, visit.actor.user.id, app):
            if each.account.id == place.account.id:
                path = PATH.format(slug=quote(app.slug, safe=""))
                return visit.done(f"{path}?target_id={each.account.id}")
    raise Invalid(gettext("No app with this name can be installed here."))


async def _found(visit: Visit, *return_to: str) -> tuple[Organization, Installation]:
    place = await owned(visit, *return_to)
    number = visit.call.path_integer("installation_id")
    return place, await find_named_installation(visit.call, visit.database, number)


async def _sent_to(visit: Visit) -> tuple[Organization, Installation]:
    """Return the installation like `_found`, for a form on its page."""
    return await _found(visit, PART, visit.path("installation_id"))


def asks_for_more(installation: Installation) -> bool:
    """Return whether the app requests more permissions than it was granted."""
    app = installation.app
    granted = frozenset(f"{name}:{level}" for name, level in installation.permissions.items())
    return not covers(app, granted, wanted(app, frozenset()))


@places.get("/{owner}/settings/installations/{installation_id}")
async def show(visit: Visit, form: PageForm = UNSENT) -> Response:
    """Show the permissions and projects of an installed app."""
    place, found = await _found(visit)
    chosen = found.repository_ids
    choice = RepositoryChoice("all") if chosen is None else RepositoryChoice("selected", chosen)
    if form.section == REPOSITORIES:
        choice = read_choice(visit.fields)
    reader = visit.database
    listed, total = await queries.list_repositories(reader, place.account, None, visit.actor.user.id, Page(LISTED_MAX))
    if not form.is_refused:  # the chosen ones that the page does not list
        ids = (chosen or frozenset()) - {each.id for each in listed}
        there = await find_repositories(reader, found.account, ids=ids, user_id=found.app.bot_id or 0) if ids else []
        others = [each for each in there if each.role is not None]
        choice = choice._replace(others=" ".join(each.name for each in others))
    return settings_page(
        visit,
        place,
        "organization/installation.html",
        form,
        installation=found,
        address=_address(place, found),
        developer=await find_account_by_id(reader, found.app.account_id),
        granted=in_words(found.permissions),
        asked=in_words(found.app.permissions) if asks_for_more(found) else [],
        asked_key=_asked_key(found),
        repositories=listed,
        more=total > len(listed),
        choice=choice,
    )


def _asked_key(found: Installation) -> str:
    """Return the requested permissions. The form repeats them, so only those shown on the page are granted."""
    return " ".join(sorted(wanted(found.app, frozenset())))


def _address(place: Organization, found: Installation, *more: str) -> str:
    return settings_address(place.account, PART, str(found.id), *more)


@places.post("/{owner}/settings/installations/{installation_id}/repositories", action="installation.update")
@form_page(show, section=REPOSITORIES)
async def choose_repositories(visit: Visit) -> Response:
    """Select the projects of an installed app."""
    place, found = await _sent_to(visit)
    choice = read_choice(visit.fields)

    async def change(write: Write, locked: Installation) -> None:
        ids = await chosen_repositories(write.tx, place.account, choice)
        await installer.edit_installation(write.tx, write.actor, locked, repository_ids=ids)

    await _change(visit, change)
    return visit.done(_address(place, found), gettext("Project access saved."))


async def _change(visit: Visit, step: Callable[[Write, Installation], Awaitable[T]]) -> T:
    """Run `step` in one transaction with the current installation."""

    async def once(write: Write) -> T:
        number = write.call.path_integer("installation_id")
        return await step(write, await find_named_installation(write.call, write.tx, number))

    return await visit.change(once)


@places.post("/{owner}/settings/installations/{installation_id}/permissions", action="installation.update")
@form_page(show, section=PERMISSIONS)
async def allow(visit: Visit) -> Response:
    """Grant an installed app its requested permissions."""
    place, found = await _sent_to(visit)

    async def change(write: Write, locked: Installation) -> None:
        if visit.fields.get("asked") != _asked_key(locked):
            raise Invalid(gettext("The requested permissions have changed. Please review them again."))
        await installer.edit_installation(write.tx, write.actor, locked, permissions=locked.app.permissions)

    await _change(visit, change)
    return visit.done(_address(place, found), gettext("Permissions approved."))


@places.post("/{owner}/settings/installations/{installation_id}/suspended", action="installation.suspend")
async def suspend(visit: Visit) -> Response:
    """Suspend or unsuspend an installed app."""
    place, found = await _sent_to(visit)
    suspended = visit.fields.get("suspended") == "1"

    step = installer.suspend if suspended else installer.unsuspend
    await _change(visit, lambda write, locked: step(write.tx, write.actor, locked))
    text = gettext("%(app)s suspended.") if suspended else gettext("%(app)s unsuspended.")
    undo = Undo(_address(place, found, "suspended"), {"suspended": "0" if suspended else "1"})
    return visit.done(_address(place, found), text % {"app": found.app.name}, undo=undo)


@places.get("/{owner}/settings/installations/{installation_id}/uninstall")
async def ask_to_uninstall(visit: Visit) -> Response:
    place, found = await _found(visit)
    address = _address(place, found)
    return settings_page(visit, place, "organization/uninstall.html", installation=found, address=address)


@places.post("/{owner}/settings/installations/{installation_id}/uninstall", action="installation.delete")
async def uninstall(visit: Visit) -> Response:
    """Uninstall an app and, if requested, remove the webhooks it created."""
    place, found = await _found(visit)
    remove = "remove_webhooks" in visit.fields

    webhooks = await _change(
        visit, lambda write, locked: installer.uninstall(write.tx, write.actor, locked, remove_webhooks=remove)
    )
    message = gettext("%(app)s uninstalled.", app=found.app.name)
    if webhooks and not remove:
        kept = ngettext("%(num)d webhook it created was kept.", "%(num)d webhooks it created were kept.", len(webhooks))
        message += f" {kept}"
    return visit.done(settings_address(place.account, PART), message)
