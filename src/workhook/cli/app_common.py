"""What `workhook app` and `workhook oauth-app` share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from workhook.cli import options
from workhook.cli.common import Context, cell, command, format_time
from workhook.cli.error_messages import CliError
from workhook.cli.options import Argument, Flag, Group, Option

if TYPE_CHECKING:
    from workhook.identity.apps.manage_schemas import AppEdit
    from workhook.identity.apps.schemas import App, AppSecret
    from workhook.identity.schemas import Account
    from workhook.storage import Reader

OrganizationOption = Annotated[str, Option("LOGIN", "The organization.")]
AppArgument = Annotated[str, Argument("APP", "Its slug or client id.")]
IdArgument = Annotated[int, Argument("ID", "The command `show` lists them.", parse=options.row_id)]
CallbackOption = Annotated[
    tuple[str, ...],
    Option("URL", "Where users are sent back to: https, or http on this machine. May be given several times."),
]
HomepageOption = Annotated[str | None, Option("URL", "The app's own page.")]
DeviceFlowOption = Annotated[bool, Flag("Users may authorise it on another device.")]
DescriptionOption = Annotated[str | None, Option("TEXT", "What it is for.")]


def permission_list(given: str) -> str:
    """Permissions with their levels, separated by commas, as for tokens; or none."""
    return options.permission_list(given) if given.strip(", ") else ""


def permissions_of(text: str) -> dict[str, Any]:
    """The permissions in a text that `permission_list` has accepted."""
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    return {name.strip(): level.strip() for name, _, level in parts}


def permissions_text(permissions: Any) -> str:
    return ", ".join(f"{name}:{level}" for name, level in sorted(permissions.items())) or "none"


async def find_app(reader: Reader, name: str, *, oauth: bool) -> App:
    """By slug or client id. Raises `CliError`."""
    from workhook.identity.apps import queries

    # In this order: a slug, made of whatever name, can be somebody else's client id in lower case.
    app = await queries.find_client(reader, name) or await queries.find_slug(reader, name)
    kind, command = ("OAuth app", "oauth-app") if oauth else ("app", "app")
    if app is None:
        raise CliError(f"there is no {kind} {name}.", f"`workhook {command} list --organization LOGIN` shows them.")
    if app.is_oauth != oauth:
        other = ("an app", "workhook app") if oauth else ("an OAuth app", "workhook oauth-app")
        raise CliError(f"{name} is {other[0]}.", f"Use `{other[1]}`.")
    return app


async def owner_of(reader: Reader, app: App) -> Account:
    from workhook.identity import queries

    owner = await queries.find_account_by_id(reader, app.account_id)
    assert owner is not None, "an app goes with its organization"
    return owner


def app_json(app: App, owner: Account) -> dict[str, object]:
    """The app for `--json`, without secrets."""
    data: dict[str, object] = {
        "id": app.id,
        "slug": app.slug,
        "name": app.name,
        "client_id": app.client_id,
        "organization": owner.login,
        "description": app.description,
        "homepage_url": app.homepage_url,
        "callback_urls": list(app.callback_urls),
        "device_flow": app.device_flow,
        "created_at": format_time(app.created_at),
        "updated_at": format_time(app.updated_at),
    }
    if not app.is_oauth:
        data |= {"public": app.public, "permissions": dict(app.permissions)}
    return data


def secret_json(secret: AppSecret) -> dict[str, object]:
    times = {name: format_time(getattr(secret, name)) for name in ("created_at", "last_used_at")}
    return {"id": secret.id, "last_eight": secret.last_eight, **times}


def to_lines(data: dict[str, object]) -> str:
    """Lines for people: a name and a value each."""
    width = max(map(len, data))
    return "\n".join(f"{name.replace('_', ' '):<{width}}  {_worded(value)}" for name, value in data.items())


def _worded(value: object) -> str:
    if isinstance(value, dict):
        return permissions_text(value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "; ".join(" ".join(str(part) for part in each.values() if part is not None) for each in value)
    return str(cell(value)) or "-"


@contextmanager
def key_file(path: Path | None) -> Iterator[Path | None]:
    """A new, empty file that only its owner reads. It goes again if what follows fails: no file, no key."""
    if path is None:
        yield None
        return
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise CliError(f"{path} is there already.", "Give --key-file another name: no key is overwritten.") from None
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_key(path: Path | None, pem: str) -> None:
    """Before the commit: a key that is good is never lost."""
    if path is None:
        return
    with path.open("w", encoding="ascii") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())


def change_of(
    name: str | None,
    callback_urls: Sequence[str],
    *,
    homepage_url: str | None,
    description: str | None,
    device_flow: bool | None,
    public: bool | None = None,
    permissions: str | None = None,
) -> AppEdit:
    """The change that the options ask for: None was not given, an empty text clears."""
    from workhook.identity.apps.manage_schemas import AppEdit

    given: dict[str, Any] = {"name": name, "device_flow": device_flow, "public": public}
    given["callback_urls"] = tuple(callback_urls) or None
    given["permissions"] = None if permissions is None else permissions_of(permissions)
    change: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    cleared = {"homepage_url": homepage_url, "description": description}
    change |= {key: value or None for key, value in cleared.items() if value is not None}
    return AppEdit(**change)


def add_shared_commands(group: Group, *, oauth: bool, deletes: str) -> None:
    """The commands that both kinds of app have. `deletes`: what deleting one ends."""

    @command(group, "delete", help_text=deletes)
    async def delete(context: Context, *, name: AppArgument) -> None:
        from workhook.identity.apps import actions

        async with context.transaction() as tx:
            found = await find_app(tx, name, oauth=oauth)
            await actions.delete_app(tx, None, found)
        context.answer({"slug": found.slug, "client_id": found.client_id, "deleted": True}, f"deleted {found.slug}")

    @command(group, "new-secret")
    async def new_secret(context: Context, *, name: AppArgument) -> None:
        """Make another client secret: two at most. This is the only time that it is shown."""
        from workhook.identity.apps import actions

        async with context.transaction() as tx:
            found = await find_app(tx, name, oauth=oauth)
            made, secret = await actions.add_secret(tx, None, found)
        context.answer({"client_id": found.client_id, **secret_json(made), "client_secret": secret}, secret)

    @command(group, "delete-secret")
    async def delete_secret(context: Context, *, name: AppArgument, secret_id: IdArgument) -> None:
        """Delete a client secret: from now on no process takes it."""
        from workhook.identity.apps import actions

        async with context.transaction() as tx:
            found = await find_app(tx, name, oauth=oauth)
            with no_such("secret", secret_id, found):
                await actions.remove_secret(tx, None, found, secret_id)
        context.answer({"id": secret_id, "deleted": True}, f"deleted the secret {secret_id}")


@contextmanager
def no_such(noun: str, number: int, app: App) -> Iterator[None]:
    """Says which app has no secret or key of this id. Raises `CliError`."""
    from workhook.core.errors import NotFound

    try:
        yield
    except NotFound:
        shown_by = f"`workhook {'oauth-app' if app.is_oauth else 'app'} show {app.slug}` shows their ids."
        raise CliError(f"{app.slug} has no {noun} {number}.", shown_by) from None
