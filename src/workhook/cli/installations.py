"""`workhook app install`, `uninstall` and `installations`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from workhook.cli import apps
from workhook.cli.common import Context, command, find_organization
from workhook.cli.error_messages import CliError, not_together
from workhook.cli.options import Flag, Option
from workhook.cli.output import format_time
from workhook.identity.apps import installing, queries

if TYPE_CHECKING:
    from workhook.identity.apps.schemas import App, Installation
    from workhook.identity.schemas import Account
    from workhook.storage import Transaction

app = apps.app  # to which this module adds commands


@command(app, "install")
async def install(
    context: Context,
    *,
    name: apps.AppArgument,
    organization: apps.OrganizationOption,
    permissions: Annotated[
        str | None,
        Option(
            "NAME:LEVEL,…",
            "Permissions to grant, at most those that the app asks for. Default at the first installation: all.",
            parse=apps.permission_list,
        ),
    ] = None,
    repository: Annotated[
        tuple[str, ...],
        Option(
            "NAME",
            "A repository that the app may see. Default at the first installation: all. May be given several times.",
        ),
    ] = (),
    all_permissions: Annotated[bool, Flag("Grant everything that the app asks for now.")] = False,
    all_repositories: Annotated[bool, Flag("Give the app all repositories, present and future.")] = False,
) -> None:
    """Install an app on an organization, or change an installation: options that you leave out stay as they are."""
    not_together({"--permissions": permissions is not None, "--all-permissions": all_permissions})
    not_together({"--repository": bool(repository), "--all-repositories": all_repositories})
    async with context.transaction() as tx:
        place = await find_organization(tx, organization)
        found = await apps.find_app(tx, name, apps.APP)
        if not found.public and found.account_id != place.id:
            remedy = f"If it may: `workhook app edit {found.slug} --public`."
            raise CliError(f"{found.slug} is not for other organizations than its own.", remedy)
        granted = dict(found.permissions) if permissions is None else apps.permissions_of(permissions)
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

    before = await queries.find_installation_on(tx, found.id, place.id)
    if before is None:
        return None, await installing.install(tx, None, found, place, permissions=granted, repository_ids=chosen)
    permissions, repository_ids = UNSET if keep[0] else granted, UNSET if keep[1] else chosen
    after = await installing.edit_installation(tx, None, before, permissions=permissions, repository_ids=repository_ids)
    return before, after


async def _chosen(tx: Transaction, place: Account, names: Sequence[str]) -> list[int] | None:
    """The ids of these repositories of the organization; None for no names. Raises `CliError` with all unknown ones."""
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
    context.answer({**data, "changed": not lines}, "\n".join([apps.to_lines(data), *lines]))


@command(app, "uninstall")
async def uninstall(
    context: Context,
    *,
    name: apps.AppArgument,
    organization: apps.OrganizationOption,
    remove_webhooks: Annotated[
        bool, Flag("Also remove the webhooks that the app made. Default: they stay and go on.")
    ] = False,
) -> None:
    """Uninstall an app from an organization. Its tokens end; webhooks that it made belong to the organization."""
    async with context.transaction() as tx:
        place = await find_organization(tx, organization)
        found = await apps.find_app(tx, name, apps.APP)
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
async def installations(context: Context, *, organization: apps.OrganizationOption) -> None:
    """List the apps that are installed on an organization."""
    async with context.services() as services:
        place = await find_organization(services.database, organization)
        found, _ = await queries.list_installations_on(services.database, place.id)
    rows = [_installation_json(each) for each in found]
    if not context.as_json:
        rows = [{**row, "permissions": apps.permissions_text(row["permissions"])} for row in rows]
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
