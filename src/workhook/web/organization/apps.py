"""The pages of an organization's apps. Most exist for OAuth apps and for apps.

    places = AppPlaces("apps")

    @places.shown("")
    async def listed(visit: Visit, site: AppSite) -> Response:
        \"\"\"List the apps.\"\"\"

The addresses begin with `/{owner}/settings/oauth-apps` and `/{owner}/settings/apps`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import Invalid
from workhook.http.calls import Response
from workhook.http.endpoints import Retry
from workhook.identity.apps import actions, queries
from workhook.identity.apps import app_schemas as s
from workhook.identity.apps.actions import find_named_app
from workhook.identity.apps.schemas import App, AppSecret
from workhook.identity.context import Write
from workhook.identity.schemas import Organization
from workhook.storage.database import UniqueViolation
from workhook.storage.pages import Page
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.paging import numbered_page
from workhook.web.frame.places import Places, Visit, for_site
from workhook.web.frame.texts import gettext
from workhook.web.organization import forms
from workhook.web.organization.settings import owned, settings_address, settings_page

SitePage = Callable[[Visit, "AppSite"], Awaitable[Response]]
_PARTS = {"oauth": ("oauth-apps", "client_id"), "app": ("apps", "slug")}
NEW = {"oauth": "new-oauth-app", "app": "new-app"}
"""The pages that create an app. They are next to the list because an app could be called `new`."""


class AppSite(NamedTuple):
    """Apps of one kind (oauth or app) and their organization."""

    kind: str
    organization: Organization

    @property
    def is_oauth(self) -> bool:
        return self.kind == "oauth"

    @property
    def base(self) -> str:
        """Return the address of the list."""
        return settings_address(self.organization.account, _PARTS[self.kind][0])

    @property
    def new_address(self) -> str:
        return settings_address(self.organization.account, NEW[self.kind])

    def address(self, app: App) -> str:
        return f"{self.base}/{app.client_id if app.is_oauth else app.slug}"


class AppPlaces(Places):
    """Places that exist for both kinds of apps and receive their `AppSite`."""

    def shown(self, path: str = "", *, new: bool = False) -> Callable[[SitePage], SitePage]:
        """Declare a page. Its path is relative to the list; `/*` matches an app. `new`: relative to `NEW` instead."""
        return self._both("GET", path, new)

    def sent(
        self, path: str = "", *, action: str, new: bool = False, makes: bool = False
    ) -> Callable[[SitePage], SitePage]:
        """Declare a form. For `makes`, see `Places.route`. `action` is its audit log action without the object."""
        return self._both("POST", path, new, action, makes=makes)

    def _both(
        self, method: str, path: str, new: bool, action: str = "", *, makes: bool = False
    ) -> Callable[[SitePage], SitePage]:
        def declare(function: SitePage) -> SitePage:
            for kind, (part, parameter) in _PARTS.items():
                below = NEW[kind] if new else part + path.replace("*", f"{{{parameter}}}")
                called = f"{'oauth_app' if kind == 'oauth' else 'app'}.{action}" if action else ""
                place = for_site(function, kind, partial(_find_site, kind=kind))
                self.route(method, f"/{{owner}}/settings/{below}", makes=makes, action=called)(place)
            return function

        return declare


async def _find_site(visit: Visit, *, kind: str) -> AppSite:
    part, parameter = _PARTS[kind]
    name: Any = visit.call.request.path_params.get(parameter)
    back = () if visit.call.operation.method == "GET" or name is None else (part, str(name))
    return AppSite(kind, await owned(visit, *back))


# --- pages -----------------------------------------------------------------------------------------------------------

places = AppPlaces("apps")

PER_PAGE = 50
INSTALLATIONS_MAX = 100
APP = "app"  # the form of the app itself on its page
NAME_TAKEN = Retry(UniqueViolation)


class MadeSecrets(HiddenRepr, msgspec.Struct, frozen=True):
    """Secrets shown only once. `pem`: a private key."""

    client_secret: str = ""
    pem: str = ""
    file_name: str = ""


@places.shown()
async def show_list(visit: Visit, site: AppSite) -> Response:
    """List the apps of an organization."""
    number, page = numbered_page(visit, PER_PAGE)
    found, total = await queries.list_apps(visit.database, site.organization.account.id, site.kind, page)
    return settings_page(
        visit,
        site.organization,
        "organization/apps.html",
        site=site,
        apps=found,
        number=number,
        more=number * PER_PAGE < total,
    )


@places.shown(new=True)
async def show_new(visit: Visit, site: AppSite) -> Response:
    """Show the form for a new app."""
    return await _new_page(visit, UNSENT, site)


async def _new_page(visit: Visit, sent: PageForm, site: AppSite) -> Response:
    form = forms.form_again(sent) if sent.is_refused else forms.AppForm()
    return settings_page(
        visit,
        site.organization,
        "organization/app_new.html",
        form,
        site=site,
        permissions=forms.permissions(),
        faults=form.problems,
    )


@places.sent(new=True, makes=True, action="create")
@form_page(_new_page, forms.FIELDS)
async def create(visit: Visit, site: AppSite) -> Response:
    """Create an app. Only this page shows its secret and private key."""
    wanted = forms.create_of(visit, site.kind)
    key = await actions.create_key(wanted.public_key) if isinstance(wanted, s.AppCreate) else None

    async def make(write: Write) -> tuple[App, str, str]:
        place = site.organization.account
        if key is not None and isinstance(wanted, s.AppCreate):
            return await actions.create_app(write.tx, write.actor, place, wanted, key=key)
        return *await actions.create_oauth_app(write.tx, write.actor, place, wanted), ""

    app, secret, pem = await visit.change(make, retry=NAME_TAKEN)
    return _made_page(visit, site, app, MadeSecrets(secret, pem, f"{app.slug}.pem"), created=True)


def _made_page(visit: Visit, site: AppSite, app: App, secrets: MadeSecrets, *, created: bool = False) -> Response:
    return settings_page(
        visit,
        site.organization,
        "organization/secrets.html",
        status=201,
        has_secret=True,
        site=site,
        app=app,
        secrets=secrets,
        created=created,
    )


@places.shown("/*")
async def show(visit: Visit, site: AppSite) -> Response:
    """Show an app with its details, secrets, keys, and installations."""
    return await _app_page(visit, UNSENT, site)


async def _app_page(visit: Visit, sent: PageForm, site: AppSite) -> Response:
    app = await find_named_app(visit.call, visit.database)
    form = forms.form_again(sent) if sent.section == APP else forms.form_of(app)
    page = Page(INSTALLATIONS_MAX)
    installed, total = ([], 0) if app.is_oauth else await queries.list_installations_of(visit.database, app.id, page)
    return settings_page(
        visit,
        site.organization,
        "organization/app.html",
        form,
        status=sent.status,
        site=site,
        app=app,
        address=site.address(app),
        permissions=forms.permissions(),
        sent=sent,
        own_key=forms.shown_key(sent.value("public_key")),
        faults=form.problems if sent.section == APP else sent.reasons,
        secrets=await queries.list_secrets(visit.database, app.id),
        secrets_max=actions.SECRETS_MAX,
        keys=await queries.list_keys(visit.database, app.id),
        keys_max=actions.KEYS_MAX,
        installations=installed,
        installations_total=total,
        install_address=f"{visit.call.public_base}/apps/{app.slug}/installations/new",
    )


@places.sent("/*", action="update")
@form_page(_app_page, forms.FIELDS, section=APP)
async def update(visit: Visit, site: AppSite) -> Response:
    """Change the details and permissions of an app."""

    async def change(write: Write) -> App:
        return await actions.edit_app(write.tx, write.actor, await find_named_app(write.call, write.tx), edit)

    edit = forms.edit_of(visit, site.kind)
    changed = await visit.change(change, retry=NAME_TAKEN)
    return visit.done(site.address(changed), gettext("App saved."))


@places.sent("/*/secrets", makes=True, action="create_secret")
@form_page(_app_page, section="secrets")
async def add_secret(visit: Visit, site: AppSite) -> Response:
    """Create another client secret. Only this page shows it."""

    async def add(write: Write) -> tuple[AppSecret, str]:
        return await actions.add_secret(write.tx, write.actor, await find_named_app(write.call, write.tx))

    app = await find_named_app(visit.call, visit.database)
    _, secret = await visit.change(add)
    return _made_page(visit, site, app, MadeSecrets(secret))


@places.sent("/*/secrets/{secret_id}/delete", action="delete_secret")
async def delete_secret(visit: Visit, site: AppSite) -> Response:
    """Delete a client secret."""
    app = await find_named_app(visit.call, visit.database)
    secret_id = visit.call.path_integer("secret_id")
    await visit.change(lambda write: actions.remove_secret(write.tx, write.actor, app, secret_id))
    return visit.done(f"{site.address(app)}#secrets", gettext("Client secret deleted."))


@places.sent("/*/revoke-tokens", action="revoke_tokens")
async def revoke_tokens(visit: Visit, site: AppSite) -> Response:
    """Revoke every token of an app."""
    app = await find_named_app(visit.call, visit.database)
    await visit.change(lambda write: actions.revoke_tokens(write.tx, write.actor, app))
    return visit.done(site.address(app), gettext("All tokens of the app revoked."))


@places.shown("/*/delete")
async def ask_to_delete(visit: Visit, site: AppSite) -> Response:
    """Ask for the name of an app before it is deleted."""
    return await _delete_page(visit, UNSENT, site)


async def _delete_page(visit: Visit, form: PageForm, site: AppSite) -> Response:
    app = await find_named_app(visit.call, visit.database)
    address = site.address(app)
    return settings_page(
        visit, site.organization, "organization/app_delete.html", form, site=site, app=app, address=address
    )


@places.sent("/*/delete", action="delete")
@form_page(_delete_page)
async def delete(visit: Visit, site: AppSite) -> Response:
    """Delete an app if its name was typed."""
    app = await find_named_app(visit.call, visit.database)
    if visit.fields.get("name", "").strip() != app.name:
        raise Invalid(gettext("That isn’t the app’s name. Nothing was deleted."))
    await visit.change(lambda write: actions.delete_app(write.tx, write.actor, app))
    return visit.done(site.base, gettext("“%(name)s” was deleted.") % {"name": app.name})


async def _app_of_key(visit: Visit) -> tuple[AppSite, App]:
    organization = await owned(visit, "apps", visit.path("slug"))
    return AppSite("app", organization), await find_named_app(visit.call, visit.database)


async def _keys_again(visit: Visit, form: PageForm) -> Response:
    site, _ = await _app_of_key(visit)
    return await _app_page(visit, form, site)


@places.post("/{owner}/settings/apps/{slug}/keys", makes=True, action="app.create_key")
@form_page(_keys_again, section="keys")
async def add_key(visit: Visit) -> Response:
    """Add a key to an app. If the key is generated, only this page shows its private half."""
    site, app = await _app_of_key(visit)
    wanted = visit.form(s.AppKeyCreate, "public_key")
    key = await actions.create_key(wanted.public_key)
    made = await visit.change(lambda write: actions.add_key(write.tx, write.actor, app, key))
    if key.private_key is None:
        return visit.done(f"{site.address(app)}#keys", gettext("Key added."))
    file_name = f"{app.slug}-{made.id}.pem"
    return _made_page(visit, site, app, MadeSecrets(pem=key.private_key, file_name=file_name))


@places.post("/{owner}/settings/apps/{slug}/keys/{key_id}/delete", action="app.delete_key")
@form_page(_keys_again, section="keys")
async def delete_key(visit: Visit) -> Response:
    """Delete a key of an app."""
    site, app = await _app_of_key(visit)
    key_id = visit.call.path_integer("key_id")
    await visit.change(lambda write: actions.remove_key(write.tx, write.actor, app, key_id))
    return visit.done(f"{site.address(app)}#keys", gettext("Key deleted."))
