"""The apps of an organization, at `/{owner}/settings/oauth-apps` and `/{owner}/settings/apps`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from workhook.core.errors import Invalid
from workhook.http.calls import Response
from workhook.http.endpoints import Retry
from workhook.identity.apps import actions, queries
from workhook.identity.apps import app_schemas as s
from workhook.identity.apps.actions import find_named_app
from workhook.identity.apps.schemas import LEVELS, App, AppSecret
from workhook.identity.context import Write
from workhook.identity.policy import PERMISSIONS
from workhook.identity.schemas import Organization
from workhook.storage.database import UniqueViolation
from workhook.storage.pages import Page
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.paging import numbered_page
from workhook.web.frame.places import Places, Visit, for_site
from workhook.web.frame.texts import gettext, text
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
        return settings_address(self.organization.account, _PARTS[self.kind][0])

    @property
    def new_address(self) -> str:
        return settings_address(self.organization.account, NEW[self.kind])

    def address(self, app: App) -> str:
        return f"{self.base}/{app.client_id if app.is_oauth else app.slug}"

    def page(self, visit: Visit, template: str, form: PageForm = UNSENT, **context: Any) -> Response:
        return settings_page(visit, self.organization, template, form, site=self, **context)


class AppPlaces(Places):
    """Places that exist for both kinds of apps and receive their `AppSite`."""

    def route(  # type: ignore[override]
        self,
        method: str,
        path: str,
        *,
        new: bool = False,
        kinds: Sequence[str] = tuple(_PARTS),
        action: str = "",
        **facts: Any,
    ) -> Callable[[SitePage], SitePage]:
        """Declare a page or form for the kinds of apps in `kinds`.

        `path` is relative to the list of apps, and its `*` matches an app; `new` declares the page `NEW` instead.
        `action` is the action in the audit log without its object, such as `create` for `app.create`.
        """

        def declare(function: SitePage) -> SitePage:
            for kind in kinds:
                part, parameter = _PARTS[kind]
                below = NEW[kind] if new else part + path.replace("*", f"{{{parameter}}}")
                called = f"{'oauth_app' if kind == 'oauth' else 'app'}.{action}" if action else ""
                route = super(AppPlaces, self).route(method, f"/{{owner}}/settings/{below}", action=called, **facts)
                route(for_site(function, kind, partial(_find_site, kind=kind)))
            return function

        return declare


async def _find_site(visit: Visit, *, kind: str) -> AppSite:
    part, parameter = _PARTS[kind]
    name: Any = visit.call.request.path_params.get(parameter)
    back = () if visit.call.operation.method == "GET" or name is None else (part, str(name))
    return AppSite(kind, await owned(visit, *back))


# --- the form of an app -----------------------------------------------------------------------------------------------

PERMISSION = "permission."
"""The prefix of a permission's field."""
_TEXTS = ("name", "description", "homepage_url", "callback_urls", "public_key")
FIELDS = frozenset({*_TEXTS, "permissions", "public"})
_LABELS = {
    "repository_hooks": (text("Project webhooks"), text("including their deliveries")),
    "organization_hooks": (text("Organization webhooks"), text("including all events and the audit log")),
    "work": (text("Work"), text("projects, tasks, files, time, and billing")),
}
_LEVELS = {"": text("no access"), "read": text("read"), "write": text("read and write")}


class AppForm(PageForm):
    device_flow: bool = False
    public: bool = False
    permissions: Mapping[str, str] = {}


def form_of(app: App) -> AppForm:
    values = {"name": app.name, "description": app.description or "", "homepage_url": app.homepage_url or ""}
    values["callback_urls"] = "\n".join(app.callback_urls)
    return AppForm(values, device_flow=app.device_flow, public=app.public, permissions=app.permissions)


def form_again(sent: PageForm) -> AppForm:
    fields = sent.values
    values = {name: fields.get(name, "") for name in _TEXTS}
    values["public_key"] = shown_key(values["public_key"])
    return AppForm(
        values,
        sent.faults,
        sent.problems,
        status=sent.status,
        device_flow="device_flow" in fields,
        public="public" in fields,
        permissions=_permissions(fields),
    )


def shown_key(typed: str) -> str:
    """Return the typed key, or an empty text for a private one."""
    return "" if "PRIVATE KEY" in typed else typed


def create_of(visit: Visit, kind: str) -> s.OauthAppCreate:
    """Read a new OAuth app, or a new app as `AppCreate`. Raises `Invalid`."""
    values = _values(visit.fields, kind)
    if kind == "oauth":
        return visit.form(s.OauthAppCreate, **values)
    return visit.form(s.AppCreate, "public_key", **values)


def edit_of(visit: Visit, kind: str) -> s.OauthAppEdit:
    """Read the edit of an app: an `AppEdit`, or its base class for an OAuth app. Raises `Invalid`."""
    return visit.form(s.OauthAppEdit if kind == "oauth" else s.AppEdit, **_values(visit.fields, kind))


def _values(fields: Mapping[str, str], kind: str) -> dict[str, object]:
    values: dict[str, object] = {
        "name": fields.get("name", "").strip(),
        "description": fields.get("description", "").replace("\r\n", "\n").strip() or None,
        "homepage_url": fields.get("homepage_url", "").strip() or None,
        "callback_urls": [line for each in fields.get("callback_urls", "").splitlines() if (line := each.strip())],
        "device_flow": "device_flow" in fields,
    }
    if kind == "app":
        values |= {"permissions": _permissions(fields), "public": "public" in fields}
    return values


def _permissions(fields: Mapping[str, str]) -> dict[str, str]:
    given = {name: fields.get(PERMISSION + name, "") for name in PERMISSIONS}
    return {name: level for name, level in given.items() if level}


def permissions() -> tuple[list[tuple[str, ...]], list[tuple[str, str]]]:
    """Return the name, label and hint of each permission, and the value and label of each level."""
    named = [(name, *map(gettext, _LABELS[name])) for name in PERMISSIONS]
    return named, [(level, gettext(_LEVELS[level])) for level in ("", *LEVELS)]


def in_words(granted: Mapping[str, str]) -> list[str]:
    """Return a phrase for each granted permission."""
    return [
        f"{gettext(_LABELS[name][0])}: {gettext(_LEVELS[granted[name]])}"
        for name in PERMISSIONS
        if granted.get(name) in LEVELS
    ]


places = AppPlaces("apps")

PER_PAGE = 50
INSTALLATIONS_MAX = 100
APP = "app"  # the form of the app itself on its page
NAME_TAKEN = Retry(UniqueViolation)


@places.get("")
async def show_list(visit: Visit, site: AppSite) -> Response:
    number, page = numbered_page(visit, PER_PAGE)
    found, total = await queries.list_apps(visit.database, site.organization.account.id, site.kind, page)
    more = number * PER_PAGE < total
    return site.page(visit, "organization/apps.html", apps=found, number=number, more=more)


@places.get("", new=True)
async def show_new(visit: Visit, site: AppSite, sent: PageForm = UNSENT) -> Response:
    form = form_again(sent) if sent.is_refused else AppForm()
    return site.page(visit, "organization/app_new.html", form, permissions=permissions(), faults=form.problems)


@places.post("", new=True, makes=True, action="create")
@form_page(show_new, FIELDS)
async def create(visit: Visit, site: AppSite) -> Response:
    """Create an app. Only this page shows its secret and private key."""
    wanted = create_of(visit, site.kind)
    key = await actions.create_key(wanted.public_key) if isinstance(wanted, s.AppCreate) else None

    async def make(write: Write) -> tuple[App, str, str]:
        return await actions.create_app(write.tx, write.actor, site.organization.account, wanted, key=key)

    app, secret, pem = await visit.change(make, retry=NAME_TAKEN)
    return _made_page(visit, site, app, secret=secret, pem=pem, file_name=f"{app.slug}.pem", created=True)


def _made_page(visit: Visit, site: AppSite, app: App, **made: object) -> Response:
    """Show the new secret of an app, its new private key (`pem`), or both. They are not shown again."""
    values: dict[str, Any] = {"secret": "", "pem": "", "file_name": "", "created": False, **made}
    return site.page(visit, "organization/secrets.html", status=201, has_secret=True, app=app, **values)


@places.get("/*")
async def show(visit: Visit, site: AppSite, sent: PageForm = UNSENT) -> Response:
    """Show an app with its details, secrets, keys, and installations."""
    app = await find_named_app(visit.call, visit.database)
    form = form_again(sent) if sent.section == APP else form_of(app)
    page = Page(INSTALLATIONS_MAX)
    installed, total = ([], 0) if app.is_oauth else await queries.list_installations_of(visit.database, app.id, page)
    return site.page(
        visit,
        "organization/app.html",
        form,
        status=sent.status,
        app=app,
        address=site.address(app),
        permissions=permissions(),
        sent=sent,
        own_key=shown_key(sent.value("public_key")),
        faults=form.problems if sent.section == APP else sent.reasons,
        secrets=await queries.list_secrets(visit.database, app.id),
        secrets_max=actions.SECRETS_MAX,
        keys=await queries.list_keys(visit.database, app.id),
        keys_max=actions.KEYS_MAX,
        installations=installed,
        installations_total=total,
        install_address=f"{visit.call.public_base}/apps/{app.slug}/installations/new",
    )


@places.post("/*", action="update")
@form_page(show, FIELDS, section=APP)
async def update(visit: Visit, site: AppSite) -> Response:
    """Change the details and permissions of an app."""

    async def change(write: Write) -> App:
        return await actions.edit_app(write.tx, write.actor, await find_named_app(write.call, write.tx), edit)

    edit = edit_of(visit, site.kind)
    changed = await visit.change(change, retry=NAME_TAKEN)
    return visit.done(site.address(changed), gettext("App saved."))


@places.post("/*/secrets", makes=True, action="create_secret")
@form_page(show, section="secrets")
async def add_secret(visit: Visit, site: AppSite) -> Response:
    """Create another client secret. Only this page shows it."""

    async def add(write: Write) -> tuple[AppSecret, str]:
        return await actions.add_secret(write.tx, write.actor, await find_named_app(write.call, write.tx))

    app = await find_named_app(visit.call, visit.database)
    _, secret = await visit.change(add)
    return _made_page(visit, site, app, secret=secret)


@places.post("/*/secrets/{secret_id}/delete", action="delete_secret")
async def delete_secret(visit: Visit, site: AppSite) -> Response:
    app = await find_named_app(visit.call, visit.database)
    secret_id = visit.call.path_integer("secret_id")
    await visit.change(lambda write: actions.remove_secret(write.tx, write.actor, app, secret_id))
    return visit.done(f"{site.address(app)}#secrets", gettext("Client secret deleted."))


@places.post("/*/revoke-tokens", action="revoke_tokens")
async def revoke_tokens(visit: Visit, site: AppSite) -> Response:
    app = await find_named_app(visit.call, visit.database)
    await visit.change(lambda write: actions.revoke_tokens(write.tx, write.actor, app))
    return visit.done(site.address(app), gettext("All of the app’s tokens were revoked."))


@places.get("/*/delete")
async def ask_to_delete(visit: Visit, site: AppSite, form: PageForm = UNSENT) -> Response:
    """Ask for the name of an app before it is deleted."""
    app = await find_named_app(visit.call, visit.database)
    return site.page(visit, "organization/app_delete.html", form, app=app, address=site.address(app))


@places.post("/*/delete", action="delete")
@form_page(ask_to_delete)
async def delete(visit: Visit, site: AppSite) -> Response:
    """Delete an app if its name was typed."""
    app = await find_named_app(visit.call, visit.database)
    if visit.fields.get("name", "").strip() != app.name:
        raise Invalid(gettext("That isn’t the app’s name. Nothing was deleted."))
    await visit.change(lambda write: actions.delete_app(write.tx, write.actor, app))
    return visit.done(site.base, gettext("“%(name)s” was deleted.", name=app.name))


@places.post("/*/keys", kinds=("app",), makes=True, action="create_key")
@form_page(show, section="keys")
async def add_key(visit: Visit, site: AppSite) -> Response:
    """Add a key to an app. If the key is generated, only this page shows its private half."""
    app = await find_named_app(visit.call, visit.database)
    wanted = visit.form(s.AppKeyCreate, "public_key")
    key = await actions.create_key(wanted.public_key)
    made = await visit.change(lambda write: actions.add_key(write.tx, write.actor, app, key))
    if key.private_key is None:
        return visit.done(f"{site.address(app)}#keys", gettext("Key added."))
    return _made_page(visit, site, app, pem=key.private_key, file_name=f"{app.slug}-{made.id}.pem")


@places.post("/*/keys/{key_id}/delete", kinds=("app",), action="delete_key")
@form_page(show, section="keys")
async def delete_key(visit: Visit, site: AppSite) -> Response:
    app = await find_named_app(visit.call, visit.database)
    key_id = visit.call.path_integer("key_id")
    await visit.change(lambda write: actions.remove_key(write.tx, write.actor, app, key_id))
    return visit.done(f"{site.address(app)}#keys", gettext("Key deleted."))
