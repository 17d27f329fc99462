"""`workhook app`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from workhook.cli import app_common
from workhook.cli.app_common import (
    AppArgument,
    CallbackOption,
    DescriptionOption,
    HomepageOption,
    IdArgument,
    OrganizationOption,
    app_json,
    find_app,
    no_such,
    owner_of,
    permissions_of,
    permissions_text,
    secret_json,
    to_lines,
)
from workhook.cli.common import Context, command, find_organization, format_time, new_app
from workhook.cli.error_messages import CliError, Misuse, not_together
from workhook.cli.options import Flag, Option

if TYPE_CHECKING:
    from workhook.identity.apps.credentials import NewKey
    from workhook.identity.apps.schemas import App, AppKey, Installation
    from workhook.identity.schemas import Account
    from workhook.storage import Transaction

app = new_app("Apps: programs that act for themselves where they are installed.")

_Permissions = Annotated[str | None, Option("NAME:LEVEL,…", "Such as work:write.", parse=app_common.permission_list)]
_KeyFile = Annotated[Path | None, Option("FILE", "Where the private key goes, for its owner alone. Else it is shown.")]
_PublicKey = Annotated[Path | None, Option("FILE", "PEM of your own RSA public key, instead of a new key.")]


@command(app, "create")
async def create(
    context: Context,
    *,
    organization: OrganizationOption,
    name: Annotated[str, Option("TEXT", "What users see. Unlike any other app's.")],
    permissions: _Permissions = None,
    public: Annotated[bool, Flag("Other organizations may install it.")] = False,
    key_file: _KeyFile = None,
    public_key: _PublicKey = None,
    callback_url: CallbackOption = (),
    homepage_url: HomepageOption = None,
    description: DescriptionOption = None,
    device_flow: Annotated[bool, Flag("Users may authorise it on another device.")] = False,
) -> None:
    """Register an app. This is the only time that its client secret and its private key are shown."""
    from workhook.identity.apps import actions
    from workhook.identity.apps.manage_schemas import AppCreate

    key = await _key(public_key, key_file)
    with app_common.key_file(key_file) as kept:
        async with context.transaction() as tx:
            owner = await find_organization(tx, organization)
            made, secret, pem = await actions.create_app(
                tx,
                None,
                owner,
                AppCreate(
                    name=name,
                    permissions=permissions_of(permissions or ""),
                    callback_urls=list(callback_url),
                    homepage_url=homepage_url,
                    description=description,
                    device_flow=device_flow,
                    public=public,
                ),
                key=key,
            )
            app_common.write_key(kept, pem)
    data = {**app_json(made, owner), "client_secret": secret, **_new_key_json(pem, key_file)}
    lines = to_lines({"id": made.id, "slug": made.slug, "client_id": made.client_id, "client_secret": secret})
    context.answer(data, "\n".join([lines, *_key_lines(pem, key_file)]))


async def _key(public_key: Path | None, key_file: Path | None) -> NewKey:
    from workhook.identity.apps.credentials import PEM_MAX, new_key, own_key

    if public_key is None:
        return await new_key()
    if key_file is not None:
        raise Misuse("--key-file and --public-key exclude each other.", "Your own private key stays where it is.")
    with public_key.open(encoding="ascii", errors="replace") as file:
        text = file.read(PEM_MAX + 1)
    try:
        return own_key(text)
    except ValueError as error:
        raise CliError(
            f"{public_key} does not hold what it must: {error}.", "Give --public-key another file."
        ) from None


def _new_key_json(pem: str, key_file: Path | None) -> dict[str, object]:
    if key_file is not None:
        return {"key_file": str(key_file)}
    return {"pem": pem} if pem else {}


def _key_lines(pem: str, key_file: Path | None) -> list[str]:
    if key_file is not None:
        return [f"the private key is in {key_file}"]
    return [pem.strip()] if pem else []


@command(app, "list")
async def list_apps(context: Context, *, organization: OrganizationOption) -> None:
    """List the apps of an organization."""
    from workhook.identity.apps import queries

    async with context.services() as services:
        owner = await find_organization(services.database, organization)
        found, _ = await queries.list_apps(services.database, owner.id, "app")
    rows = [app_json(each, owner) for each in found]
    if not context.as_json:
        rows = [{**row, "permissions": permissions_text(row["permissions"])} for row in rows]
    columns = ("id", "slug", "client_id", "name", "permissions", "public", "created_at")
    context.answer_rows(rows, columns, none="There is no app yet: workhook app create")


@command(app, "show")
async def show(context: Context, *, name: AppArgument) -> None:
    """Show an app with what is known of its secrets and keys."""
    from workhook.identity.apps import queries

    async with context.services() as services:
        found = await find_app(services.database, name, oauth=False)
        owner = await owner_of(services.database, found)
        secrets = [secret_json(each) for each in await queries.list_secrets(services.database, found.id)]
        keys = [_key_json(each) for each in await queries.list_keys(services.database, found.id)]
    data = {**app_json(found, owner), "secrets": secrets, "keys": keys}
    context.answer(data, to_lines(data))


def _key_json(key: AppKey) -> dict[str, object]:
    return {"id": key.id, "fingerprint": key.fingerprint, "created_at": format_time(key.created_at)}


@command(app, "edit")
async def edit(
    context: Context,
    *,
    name: AppArgument,
    new_name: Annotated[str | None, Option("TEXT", "Another name; also its slug.", flag="--name")] = None,
    permissions: _Permissions = None,
    public: Annotated[bool | None, Flag("Whether other organizations may install it.", off="--private")] = None,
    callback_url: CallbackOption = (),
    homepage_url: HomepageOption = None,
    description: DescriptionOption = None,
    device_flow: Annotated[
        bool | None, Flag("Users may authorise it on another device.", off="--no-device-flow")
    ] = None,
) -> None:
    """Change an app. What is not given stays; an empty text clears. What it asks for besides has to be granted."""
    from workhook.identity.apps import actions

    change = app_common.change_of(
        new_name,
        callback_url,
        homepage_url=homepage_url,
        description=description,
        device_flow=device_flow,
        public=public,
        permissions=permissions,
    )
    async with context.transaction() as tx:
        found = await actions.edit_app(tx, None, await find_app(tx, name, oauth=False), change)
        owner = await owner_of(tx, found)
    data = app_json(found, owner)
    context.answer(data, to_lines(data))


app_common.add_shared_commands(app, oauth=False, deletes="Delete an app with its installations and its tokens.")


@command(app, "new-key")
async def new_key(
    context: Context, *, name: AppArgument, key_file: _KeyFile = None, public_key: _PublicKey = None
) -> None:
    """Add a key that the app signs with. This is the only time that the private half is shown."""
    from workhook.identity.apps import actions

    key = await _key(public_key, key_file)
    pem = key.private_key or ""
    with app_common.key_file(key_file) as kept:
        async with context.transaction() as tx:
            found = await find_app(tx, name, oauth=False)
            made = await actions.add_key(tx, None, found, key)
            app_common.write_key(kept, pem)
    data = {"slug": found.slug, **_key_json(made), **_new_key_json(pem, key_file)}
    context.answer(data, "\n".join([f"{made.id}  {made.fingerprint}", *_key_lines(pem, key_file)]))


@command(app, "delete-key")
async def delete_key(context: Context, *, name: AppArgument, key_id: IdArgument) -> None:
    """Delete a key: what is signed with it is good no more. The last one stays."""
    from workhook.identity.apps import actions

    async with context.transaction() as tx:
        found = await find_app(tx, name, oauth=False)
        with no_such("key", key_id, found):
            await actions.remove_key(tx, None, found, key_id)
    context.answer({"id": key_id, "deleted": True}, f"deleted the key {key_id}")


@command(app, "install")
async def install(
    context: Context,
    *,
    name: AppArgument,
    organization: OrganizationOption,
    permissions: Annotated[
        str | None,
        Option(
            "NAME:LEVEL,…",
            "At most what it asks for, and all of that when it is installed without this.",
            parse=app_common.permission_list,
        ),
    ] = None,
    repository: Annotated[
        tuple[str, ...],
        Option("NAME", "A repository it may see; without this it sees all. May be given several times."),
    ] = (),
    all_permissions: Annotated[bool, Flag("All that it asks for now, where it has fewer.")] = False,
    all_repositories: Annotated[bool, Flag("All repositories and those to come, where it has some.")] = False,
) -> None:
    """Install an app on an organization, or change what it has there: what is not given stays."""
    not_together({"--permissions": permissions is not None, "--all-permissions": all_permissions})
    not_together({"--repository": bool(repository), "--all-repositories": all_repositories})
    async with context.transaction() as tx:
        place = await find_organization(tx, organization)
        found = await find_app(tx, name, oauth=False)
        if not found.public and found.account_id != place.id:
            remedy = f"If it may: `workhook app edit {found.slug} --public`."
            raise CliError(f"{found.slug} is not for other organizations than its own.", remedy)
        granted = dict(found.permissions) if permissions is None else permissions_of(permissions)
        chosen = await _chosen(tx, place, repository)
        keep = (permissions is None and not all_permissions, chosen is None and not all_repositories)
        before, after = await _install(tx, found, place, granted, chosen, keep=keep)
    _answer_installed(context, before, after)


async def _install(
    tx: Transaction,
    found: App,
    place: Account,
    granted: dict[str, str],
    chosen: list[int] | None,
    *,
    keep: tuple[bool, bool],
) -> tuple[Installation | None, Installation]:
    """What was there, and what is there now. `keep`: whether its permissions and repositories stay, if it was."""
    from msgspec import UNSET

    from workhook.identity.apps import installing, queries

    before = await queries.find_installation_on(tx, found.id, place.id)
    if before is None:
        return None, await installing.install(tx, None, found, place, permissions=granted, repository_ids=chosen)
    permissions, repository_ids = UNSET if keep[0] else granted, UNSET if keep[1] else chosen
    after = await installing.edit_installation(tx, None, before, permissions=permissions, repository_ids=repository_ids)
    return before, after


async def _chosen(tx: Transaction, place: Account, names: Sequence[str]) -> list[int] | None:
    """The ids of these repositories of the organization; None for no names. Raises `CliError` with all unknown ones."""
    from workhook.identity.apps import queries

    if not names:
        return None
    known = await queries.own_repository_names(tx, place.id, [each.lower() for each in names])
    if unknown := [each for each in names if each.lower() not in known]:
        listed = ", ".join(unknown)
        raise CliError(f"{place.login} has no repository {listed}.", "Name its projects, without the organization.")
    return list(known.values())


def _answer_installed(context: Context, before: Installation | None, after: Installation) -> None:
    data, lines = _installation_json(after), []
    if before is not None and _installation_json(before) == data:
        lines.append(f"{after.app.slug} was installed there already, and nothing has changed.")
        lines.append("--all-permissions and --all-repositories give it more.")
    context.answer({**data, "changed": not lines}, "\n".join([to_lines(data), *lines]))


@command(app, "uninstall")
async def uninstall(
    context: Context,
    *,
    name: AppArgument,
    organization: OrganizationOption,
    remove_webhooks: Annotated[bool, Flag("Those that it made go with it; without this they stay and go on.")] = False,
) -> None:
    """Take an app off an organization: its tokens end. Webhooks that it made are the organization's, and stay."""
    from workhook.identity.apps import installing, queries

    async with context.transaction() as tx:
        place = await find_organization(tx, organization)
        found = await find_app(tx, name, oauth=False)
        there = await queries.find_installation_on(tx, found.id, place.id)
        made = await installing.uninstall(tx, None, there, remove_webhooks=remove_webhooks) if there else []
    removed = there is not None
    data: dict[str, object] = {"app": found.slug, "organization": place.login, "removed": removed}
    lines = [f"{found.slug} {'is no longer' if removed else 'was not'} installed on {place.login}"]
    if made and remove_webhooks:
        lines.append("webhooks that went with it:")
    elif made:
        lines.append("webhooks that it made stay and go on; owners remove them with DELETE and these addresses:")
    told_apart = ([], made) if remove_webhooks else (made, [])
    data |= {"webhooks_left": told_apart[0], "webhooks_removed": told_apart[1]}
    context.answer(data, "\n".join([*lines, *made]))


@command(app, "installations")
async def installations(context: Context, *, organization: OrganizationOption) -> None:
    """List what is installed on an organization."""
    from workhook.identity.apps import queries

    async with context.services() as services:
        place = await find_organization(services.database, organization)
        found, _ = await queries.list_installations_on(services.database, place.id)
    rows = [_installation_json(each) for each in found]
    if not context.as_json:
        rows = [{**row, "permissions": permissions_text(row["permissions"])} for row in rows]
    columns = ("id", "app", "permissions", "repository_selection", "suspended_at", "created_at")
    context.answer_rows(rows, columns, none="No app is installed there: workhook app install")


def _installation_json(installation: Installation) -> dict[str, object]:
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
