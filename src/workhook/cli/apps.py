"""`workhook app` and `workhook oauth-app`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from workhook.cli import options, output
from workhook.cli.common import Context, command, get_organization, new_app
from workhook.cli.error_messages import CliError, Misuse, not_together
from workhook.cli.options import Argument, CommandGroup, Flag, Option
from workhook.cli.output import cell, format_time
from workhook.core import errors
from workhook.identity import queries as identity_queries
from workhook.identity.apps import actions, app_schemas, credentials, installer, queries, schemas

if TYPE_CHECKING:
    from workhook.identity.schemas import Account
    from workhook.storage import Reader, Transaction

app = new_app("Manage apps: programs that act as themselves where they are installed.")
oauth_app = new_app("Manage OAuth apps: programs that act for users who authorize them.")


class AppKind(NamedTuple):
    """One of the two kinds of app: its command group, the group's name, and the noun used in messages."""

    group: CommandGroup
    command: str
    noun: str

    @property
    def is_oauth(self) -> bool:
        return self.group is oauth_app


APP, OAUTH_APP = AppKind(app, "app", "app"), AppKind(oauth_app, "oauth-app", "OAuth app")


def permission_list(text: str) -> dict[str, Any]:
    """Parse permissions with their levels, separated by commas, as for tokens. May be empty."""
    return options.permission_list(text) if text.strip(", ") else {}


OrganizationOption = Annotated[str, Option("LOGIN", "The organization.")]
AppArgument = Annotated[str, Argument("APP", "Slug or client ID of the app.")]
_Id = Annotated[int, Argument("ID", "ID, as shown by the `show` command.", parse=options.row_id)]
_Name = Annotated[str, Option("TEXT", "Name shown to users; unique on the server.")]
_NewName = Annotated[str | None, Option("TEXT", "New name. This also changes the slug.", flag="--name")]
_TEXTS = ("homepage_url", "description", "device_flow")
_Permissions = Annotated[
    dict[str, Any] | None, Option("NAME=LEVEL,…", "For example work=write.", parse=permission_list)
]
_KeyFile = Annotated[
    Path | None, Option("FILE", "New file for the private key, readable only by you. Default: print the key.")
]
_PublicKey = Annotated[
    Path | None, Option("FILE", "File with your own RSA public key (PEM) instead of a generated key.")
]


@dataclass(frozen=True)
class ProfileOptions:
    """The profile of either kind of app, without its name."""

    callback_url: Annotated[
        tuple[str, ...],
        Option("URL", "Callback URL: https, or http on this machine. Repeatable."),
    ] = ()
    homepage_url: Annotated[str | None, Option("URL", "Homepage of the app.")] = None
    description: Annotated[str | None, Option("TEXT", "Description.")] = None


@dataclass(frozen=True)
class NewProfile(ProfileOptions):
    device_flow: Annotated[bool, Flag("Allow users to authorize it on another device.")] = False

    def values(self) -> dict[str, Any]:
        return {"callback_urls": list(self.callback_url), **{name: getattr(self, name) for name in _TEXTS}}


@dataclass(frozen=True)
class ChangedProfile(ProfileOptions):
    """Changes to a profile. None keeps a value; an empty string clears it."""

    device_flow: Annotated[
        bool | None, Flag("Allow users to authorize it on another device.", off="--no-device-flow")
    ] = None

    def change(self, **more: Any) -> app_schemas.AppEdit:
        options = {**more, "device_flow": self.device_flow, "callback_urls": self.callback_url or None}
        change: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        cleared = {"homepage_url": self.homepage_url, "description": self.description}
        change |= {name: text or None for name, text in cleared.items() if text is not None}
        return app_schemas.AppEdit(**change)


async def _read_or_make_key(public_key: Path | None, key_file: Path | None) -> credentials.NewKey:
    """Return the user's own public key, or a new key. Raises `CliError`."""
    if public_key is None:
        return await credentials.new_key()
    if key_file is not None:
        remedy = "Omit --key-file: you already have the private key that belongs to your public key."
        raise Misuse("--key-file and --public-key cannot be combined.", remedy)
    with public_key.open(encoding="ascii", errors="replace") as file:
        text = file.read(credentials.PEM_MAX + 1)
    try:
        return credentials.own_key(text)
    except ValueError as error:
        remedy = "Use another file for --public-key."
        raise CliError(f"{public_key} must contain {error}.", remedy) from None


@contextmanager
def _new_file(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a key to a new private file, which a later error removes again."""
    if path is None:
        yield lambda pem: None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CliError(
            f"{path} already exists.", "Choose another --key-file: existing keys are never overwritten."
        ) from None

    def write(pem: str) -> None:
        file.write(pem.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())

    try:
        with os.fdopen(descriptor, "wb") as file:
            yield write
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _shown_key(pem: str, key_file: Path | None) -> tuple[dict[str, object], list[str]]:
    if key_file is not None:
        return {"key_file": str(key_file)}, [f"the private key is in {key_file}"]
    return ({"pem": pem}, [pem.strip()]) if pem else ({}, [])


@command(app, "create")
async def create_app(
    context: Context,
    *,
    organization: OrganizationOption,
    name: _Name,
    permissions: _Permissions = None,
    public: Annotated[bool, Flag("Allow other organizations to install it.")] = False,
    key_file: _KeyFile = None,
    public_key: _PublicKey = None,
    profile: NewProfile,
) -> None:
    """Register an app. Its client secret and its private key are shown only once."""
    key = await _read_or_make_key(public_key, key_file)
    with _new_file(key_file) as write_key:
        async with context.transaction() as tx:
            owner = await get_organization(tx, organization)
            made, secret, pem = await actions.create_app(
                tx,
                None,
                owner,
                app_schemas.AppCreate(name=name, permissions=permissions or {}, public=public, **profile.values()),
                key=key,
            )
            write_key(pem)
    key_json, key_lines = _shown_key(pem, key_file)
    data = {**_app_json(made, owner), "client_secret": secret, **key_json}
    lines = to_lines({"id": made.id, "slug": made.slug, "client_id": made.client_id, "client_secret": secret})
    context.print_result(data, "\n".join([lines, *key_lines]))


@command(oauth_app, "create")
async def create_oauth_app(
    context: Context, *, organization: OrganizationOption, name: _Name, profile: NewProfile
) -> None:
    """Register an OAuth app. Its client secret is shown only once."""
    async with context.transaction() as tx:
        owner = await get_organization(tx, organization)
        wanted = app_schemas.OauthAppCreate(name=name, **profile.values())
        made, secret, _ = await actions.create_app(tx, None, owner, wanted)
    data = {**_app_json(made, owner), "client_secret": secret}
    context.print_result(data, to_lines({"client_id": made.client_id, "client_secret": secret}))


@command(app, "list")
async def list_apps(context: Context, *, organization: OrganizationOption) -> None:
    """List the apps of an organization."""
    rows = await _apps_of(context, organization, APP)
    columns = ("id", "slug", "client_id", "name", "permissions", "public", "created_at")
    context.print_rows(rows, columns, none="No apps yet. Create one with `workhook app create`.")


@command(oauth_app, "list")
async def list_oauth_apps(context: Context, *, organization: OrganizationOption) -> None:
    """List the OAuth apps of an organization."""
    columns = ("client_id", "slug", "name", "callback_urls", "device_flow", "created_at")
    context.print_rows(await _apps_of(context, organization, OAUTH_APP), columns, none="No OAuth apps yet.")


async def _apps_of(context: Context, organization: str, kind: AppKind) -> list[dict[str, object]]:
    async with context.services() as services:
        owner = await get_organization(services.database, organization)
        found, _ = await queries.list_apps(services.database, owner.id, "oauth" if kind.is_oauth else "app")
    return [_app_json(each, owner) for each in found]


@command(app, "show")
async def show_app(context: Context, *, name: AppArgument) -> None:
    """Show an app with the metadata of its keys. Secrets and private keys are not stored and cannot be shown."""
    await _show(context, name, APP)


@command(oauth_app, "show")
async def show_oauth_app(context: Context, *, name: AppArgument) -> None:
    """Show an OAuth app with the metadata of its secrets. The secrets themselves are not stored and cannot be shown."""
    await _show(context, name, OAUTH_APP)


async def _show(context: Context, name: str, kind: AppKind) -> None:
    async with context.services() as services:
        found = await find_app(services.database, name, kind)
        data = _app_json(found, await _owner_of(services.database, found))
        data["secrets"] = [_secret_json(each) for each in await queries.list_secrets(services.database, found.id)]
        if not kind.is_oauth:
            data["keys"] = [_key_json(each) for each in await queries.list_keys(services.database, found.id)]
    context.print_result(data, to_lines(data))


@command(app, "edit")
async def edit_app(
    context: Context,
    *,
    name: AppArgument,
    new_name: _NewName = None,
    permissions: _Permissions = None,
    public: Annotated[bool | None, Flag("Whether other organizations can install it.", off="--private")] = None,
    profile: ChangedProfile,
) -> None:
    """Update an app. Omitted options keep their values; an empty string clears a value.

    New permissions take effect once an owner of the organization grants them.
    """
    await _edit(context, name, APP, profile.change(name=new_name, public=public, permissions=permissions))


@command(oauth_app, "edit")
async def edit_oauth_app(
    context: Context, *, name: AppArgument, new_name: _NewName = None, profile: ChangedProfile
) -> None:
    """Update an OAuth app. Omitted options keep their values; an empty string clears a value."""
    await _edit(context, name, OAUTH_APP, profile.change(name=new_name))


async def _edit(context: Context, name: str, kind: AppKind, change: app_schemas.AppEdit) -> None:
    async with context.transaction() as tx:
        found = await actions.edit_app(tx, None, await find_app(tx, name, kind), change)
        data = _app_json(found, await _owner_of(tx, found))
    context.print_result(data, to_lines(data))


def _add_shared_commands(kind: AppKind, *, deletes: str) -> None:
    """Add the commands shared by both kinds of app. `deletes` is the help text of `delete`."""

    @command(kind.group, "delete", help_text=deletes)
    async def delete(context: Context, *, name: AppArgument) -> None:
        async with context.transaction() as tx:
            found = await find_app(tx, name, kind)
            await actions.delete_app(tx, None, found)
        context.print_result(
            {"slug": found.slug, "client_id": found.client_id, "deleted": True}, f"deleted {found.slug}"
        )

    @command(kind.group, "new-secret")
    async def new_secret(context: Context, *, name: AppArgument) -> None:
        """Create another client secret. An app can have at most two. It is shown only once."""
        async with context.transaction() as tx:
            found = await find_app(tx, name, kind)
            made, secret = await actions.add_secret(tx, None, found)
        context.print_result({"client_id": found.client_id, **_secret_json(made), "client_secret": secret}, secret)

    @command(kind.group, "delete-secret")
    async def delete_secret(context: Context, *, name: AppArgument, secret_id: _Id) -> None:
        """Delete a client secret. Every process rejects it from now on."""
        await _delete_part(context, name, kind, "secret", secret_id, actions.remove_secret)


_add_shared_commands(APP, deletes="Delete an app with its installations and its tokens.")
_add_shared_commands(
    OAUTH_APP,
    deletes="Delete an OAuth app with its tokens, its users' grants, and the webhooks it created.",
)


@command(app, "new-key")
async def new_key(
    context: Context, *, name: AppArgument, key_file: _KeyFile = None, public_key: _PublicKey = None
) -> None:
    """Add a signing key to an app. The private key is shown only once."""
    key = await _read_or_make_key(public_key, key_file)
    pem = key.private_key or ""
    with _new_file(key_file) as write_key:
        async with context.transaction() as tx:
            found = await find_app(tx, name, APP)
            made = await actions.add_key(tx, None, found, key)
            write_key(pem)
    key_json, key_lines = _shown_key(pem, key_file)
    data = {"slug": found.slug, **_key_json(made), **key_json}
    context.print_result(data, "\n".join([f"{made.id}  {made.fingerprint}", *key_lines]))


@command(app, "delete-key")
async def delete_key(context: Context, *, name: AppArgument, key_id: _Id) -> None:
    """Delete a key. Tokens signed with it are rejected from now on. The last key cannot be deleted."""
    await _delete_part(context, name, APP, "key", key_id, actions.remove_key)


async def _delete_part(
    context: Context, name: str, kind: AppKind, noun: str, number: int, remove: Callable[..., Awaitable[None]]
) -> None:
    async with context.transaction() as tx:
        found = await find_app(tx, name, kind)
        try:
            await remove(tx, None, found, number)
        except errors.NotFound:
            remedy = f"`workhook {kind.command} show {found.slug}` shows their IDs."
            raise CliError(f"{found.slug} has no {noun} {number}.", remedy) from None
    context.print_result({"id": number, "deleted": True}, f"deleted the {noun} {number}")


# --- installations ----------------------------------------------------------------------------------------------------


@command(app, "install")
async def install(
    context: Context,
    *,
    name: AppArgument,
    organization: OrganizationOption,
    permissions: Annotated[
        dict[str, Any] | None,
        Option(
            "NAME=LEVEL,…",
            "Permissions to grant, among those the app requests. Default at the first installation: all.",
            parse=permission_list,
        ),
    ] = None,
    repository: Annotated[
        tuple[str, ...],
        Option(
            "NAME",
            "A repository the app can access. Default at the first installation: all. Repeatable.",
        ),
    ] = (),
    all_permissions: Annotated[bool, Flag("Grant all permissions the app requests now.")] = False,
    all_repositories: Annotated[bool, Flag("Grant access to all repositories, present and future.")] = False,
) -> None:
    """Install an app on an organization, or update an installation. Omitted options keep their values."""
    not_together({"--permissions": permissions is not None, "--all-permissions": all_permissions})
    not_together({"--repository": bool(repository), "--all-repositories": all_repositories})
    async with context.transaction() as tx:
        place = await get_organization(tx, organization)
        found = await find_app(tx, name, APP)
        if not found.public and found.account_id != place.id:
            remedy = f"To allow other organizations to install it, run `workhook app edit {found.slug} --public`."
            raise CliError(f"{found.slug} is private to its own organization.", remedy)
        wanted: dict[str, Any] = {
            "permissions": dict(found.permissions) if permissions is None else permissions,
            "repository_ids": await _find_repository_ids(tx, place, repository),
        }
        before = await queries.find_installation_on(tx, found.id, place.id)
        if before is None:
            after = await installer.install(tx, None, found, place, **wanted)
        else:
            if permissions is None and not all_permissions:
                del wanted["permissions"]
            if not repository and not all_repositories:
                del wanted["repository_ids"]
            after = await installer.edit_installation(tx, None, before, **wanted)
    data, lines = _installation_json(after), []
    if before is not None and _installation_json(before) == data:
        lines.append(f"{after.app.slug} was already installed there; nothing has changed.")
        lines.append("Use --all-permissions or --all-repositories to grant more.")
    context.print_result({**data, "changed": not lines}, "\n".join([to_lines(data), *lines]))


async def _find_repository_ids(tx: Transaction, place: Account, names: Sequence[str]) -> list[int] | None:
    """Return the IDs of the repositories, or None without names. Raises `CliError` listing all unknown names."""
    if not names:
        return None
    found = await identity_queries.find_repositories(tx, place, names=names)
    known = {identity_queries.key_of(each.name): each.id for each in found}
    if unknown := [each for each in names if identity_queries.key_of(each) not in known]:
        listed = ", ".join(unknown)
        remedy = "Use names of repositories, without the organization's login."
        raise CliError(f"{place.login} has no repository {listed}.", remedy)
    return list(known.values())


@command(app, "uninstall")
async def uninstall(
    context: Context,
    *,
    name: AppArgument,
    organization: OrganizationOption,
    remove_webhooks: Annotated[
        bool, Flag("Also delete the webhooks the app created. Default: keep them active.")
    ] = False,
) -> None:
    """Uninstall an app from an organization. Its tokens are revoked; its webhooks then belong to the organization."""
    async with context.transaction() as tx:
        place = await get_organization(tx, organization)
        found = await find_app(tx, name, APP)
        installation = await queries.find_installation_on(tx, found.id, place.id)
        made = (
            await installer.uninstall(tx, None, installation, remove_webhooks=remove_webhooks) if installation else []
        )
    removed = installation is not None
    data: dict[str, object] = {"app": found.slug, "organization": place.login, "removed": removed}
    lines = [f"{found.slug} {'is no longer' if removed else 'was not'} installed on {place.login}"]
    if made and remove_webhooks:
        lines.append("webhooks deleted with it:")
    elif made:
        lines.append("its webhooks remain active; owners can send DELETE to these URLs to remove them:")
    told_apart = ([], made) if remove_webhooks else (made, [])
    data |= {"webhooks_left": told_apart[0], "webhooks_removed": told_apart[1]}
    context.print_result(data, "\n".join([*lines, *made]))


@command(app, "installations")
async def installations(context: Context, *, organization: OrganizationOption) -> None:
    """List the apps installed on an organization."""
    async with context.services() as services:
        place = await get_organization(services.database, organization)
        found, _ = await queries.list_installations_on(services.database, place.id)
    columns = ("id", "app", "permissions", "repository_selection", "suspended_at", "created_at")
    rows = [_installation_json(each) for each in found]
    context.print_rows(rows, columns, none="No apps are installed there. Install one with `workhook app install`.")


def _installation_json(installation: schemas.Installation) -> dict[str, object]:
    chosen = installation.repository_ids
    return {
        "id": installation.id,
        "app": installation.app.slug,
        "app_id": installation.app.id,
        "organization": installation.account.login,
        "permissions": dict(installation.permissions),
        "repository_selection": installation.repository_selection,
        "repository_ids": None if chosen is None else sorted(chosen),
        "suspended_at": format_time(installation.suspended_at),
        "created_at": format_time(installation.created_at),
    }


# --- shared helpers ---------------------------------------------------------------------------------------------------


async def find_app(reader: Reader, name: str, kind: AppKind) -> schemas.App:
    # In this order, because a slug can be derived from a name that equals another app's client ID.
    app = await queries.find_client(reader, name) or await queries.find_slug(reader, name)
    if app is None:
        remedy = f"`workhook {kind.command} list --organization LOGIN` shows them."
        raise CliError(f"{kind.noun} {name} does not exist.", remedy)
    if app.is_oauth != kind.is_oauth:
        other = APP if kind.is_oauth else OAUTH_APP
        raise CliError(f"{name} is an {other.noun}.", f"Use `workhook {other.command}`.")
    return app


async def _owner_of(reader: Reader, app: schemas.App) -> Account:
    owner = await identity_queries.find_account_by_id(reader, app.account_id)
    assert owner is not None, "an app goes with its organization"
    return owner


def _app_json(app: schemas.App, owner: Account) -> dict[str, object]:
    data: dict[str, object] = {name: getattr(app, name) for name in ("id", "slug", "name", "client_id")}
    data |= {"organization": owner.login, "description": app.description, "homepage_url": app.homepage_url}
    data |= {"callback_urls": list(app.callback_urls), "device_flow": app.device_flow}
    data |= {"created_at": format_time(app.created_at), "updated_at": format_time(app.updated_at)}
    if not app.is_oauth:
        data |= {"public": app.public, "permissions": dict(app.permissions)}
    return data


def _secret_json(secret: schemas.AppSecret) -> dict[str, object]:
    times = {name: format_time(getattr(secret, name)) for name in ("created_at", "last_used_at")}
    return {"id": secret.id, "last_eight": secret.last_eight, **times}


def _key_json(key: schemas.AppKey) -> dict[str, object]:
    return {"id": key.id, "fingerprint": key.fingerprint, "created_at": format_time(key.created_at)}


def to_lines(data: dict[str, object]) -> str:
    return output.to_lines(data, _as_text)


def _as_text(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "; ".join(" ".join(str(part) for part in each.values() if part is not None) for each in value)
    return str(cell(value)) or "-"
