"""`workhook organization`, `workhook member` and `workhook collaborator`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from workhook.cli import common
from workhook.cli.common import Context, command, get_organization, get_repository, get_user, new_app
from workhook.cli.error_messages import CliError, Misuse, disk_full_error, explain, is_disk_full, path_remedy
from workhook.cli.options import Argument, Flag, Option, assignment
from workhook.cli.output import complain, confirm_deletion, interrupted, show_progress
from workhook.core.text import counted
from workhook.identity import actions, audit
from workhook.work.people import membership
from workhook.work.portability.transfer import exports, imports, validation

if TYPE_CHECKING:
    from workhook.identity.schemas import Account
    from workhook.storage import Reader

app = new_app("Export, import, and delete organizations.")
members = new_app("Manage members of organizations.")
collaborators = new_app("Manage collaborators: people added to a single repository (project).")

_SETTINGS = ("data", "database_url", "files_url")
_NOTHING = "Nothing was imported."


@command(app, "export", settings=_SETTINGS)
async def export(
    context: Context,
    *,
    folder: Annotated[str, Argument("DIR", "An empty or new folder.")],
    login: Annotated[
        str | None, Option("LOGIN", "The organization. Default: the only one of the server.", flag="--organization")
    ] = None,
) -> None:
    """Export everything in an organization as JSON lines and files.

    The export is a consistent snapshot, and servers can keep running. Only the operating-system user who runs this
    command can read the folder, because it contains everything that the organization's people have written, and the
    addresses of its members. Passwords, tokens, and webhook secrets are not included.

    Use `workhook organization import` to import it on another server.
    """
    common.every_table()
    path = Path(folder)
    async with context.services() as services:
        account = await _which(services.database, login)
        left = f"{path} does not contain a complete export and can be deleted."
        with _in_words(path), interrupted(left), show_progress() as progress:
            _make_private(path)
            base = common.base_address(context.settings)
            made = await exports.export_to_folder(services.database, services.blobs, account, base, path, progress)
        async with services.database.transaction() as tx:
            lines = sum(each.lines for each in made.lines.values())
            detail = {"lines": lines, "files": made.files.count}
            await audit.record(tx, None, "organization.export", account.login, account_id=account.id, detail=detail)
    if made.files.missing:
        complain([f"missing in the file store: {counted(len(made.files.missing), 'file')}.", "See the manifest."])
    data = {
        "export": str(path),
        "organization": account.login,
        "lines": {name.removesuffix(".jsonl"): each.lines for name, each in made.lines.items()},
        "files": made.files.count,
        "files_bytes": made.files.bytes,
        "missing": made.files.missing,
    }
    what = f"{counted(lines, 'line')} and {counted(made.files.count, 'file')}"
    context.print_result(data, f"exported {what} of {account.login} to {path}")


@command(app, "delete", settings=(*_SETTINGS, "base_url"))
async def delete(
    context: Context,
    *,
    login: Annotated[str, Argument("LOGIN", "The organization.")],
    yes: Annotated[bool, Flag("Do not ask for confirmation. Scripts need this.")] = False,
) -> None:
    """Delete an organization and everything in it. This cannot be undone.

    The organization disappears immediately. The command then removes its rows and files in short transactions while
    servers keep running; if it is interrupted, a server continues. Its webhooks are sent an `organization`
    event with the action `deleted`, for up to an hour. People keep their accounts.

    Issued invoices are deleted too. Export the organization first if you must keep them.
    """
    from workhook.core.clock import now_ms
    from workhook.identity.context import Write
    from workhook.work.administration import deletion

    common.every_table()
    async with context.services() as services:
        organization = await get_organization(services.database, login)
        issued = await deletion.count_issued_invoices(services.database, organization)
        invoices = counted(issued, "issued invoice")
        if not yes:
            export = f"workhook organization export DIR --organization {organization.login}"
            them = "it" if issued == 1 else "them"
            kept = [f"{organization.login} has {invoices}.", f"To keep {them}, first run: {export}"]
            confirm_deletion(organization.login, kept if issued else [])
        base = common.base_address(context.settings)
        await services.database.in_transaction(
            lambda tx: deletion.delete_organization(Write(tx, None, base), organization)
        )
        gone = await deletion.purge_one(services, organization.id, now_ms())
    data = {"organization": organization.login, "issued_invoices": issued, "purged": gone}
    rest = "" if gone else "; a server removes the rest within an hour, once its webhooks have been notified"
    context.print_result(data, f"deleted {organization.login} with {invoices}{rest}")


@command(app, "import", settings=(*_SETTINGS, "delivery_allow_networks"))
async def import_(
    context: Context,
    *,
    folder: Annotated[str, Argument("DIR", "Folder of an export. Unpack an archive first.")],
    login: Annotated[
        str | None, Option("LOGIN", "Login of the organization on this server. Default: the exported one.")
    ] = None,
    member: Annotated[
        tuple[tuple[str, str], ...],
        Option(
            "OLD=LOGIN",
            "Map a person in the export to a user on this server. Repeatable.",
            parse=assignment("OLD=LOGIN"),
        ),
    ] = (),
    dry_run: Annotated[bool, Flag("Only check the export and show what would be created.")] = False,
) -> None:
    """Import an organization exported from another server. The content is the same, with new IDs.

    The whole export is validated first. Errors are reported by file, line and field, and nothing is written. The
    organization is created in a single commit, so an interrupted import can be run again. Files it has already stored
    are removed after a day. On SQLite, other changes wait until it ends.

    Use --member to match people, at least for one owner. People without a match get a disabled account, which keeps
    their name, work and memberships but cannot sign in. `workhook user enable` lets them in.

    Webhooks are imported without secrets and inactive. Running timers are paused. The import publishes no events.
    """
    common.every_table()
    path = Path(folder)
    from workhook.delivery.address_policy import AddressPolicy, check_url

    policy = AddressPolicy(context.settings.delivery_allow_networks)
    with _in_words(path), show_progress() as progress:
        try:
            checked = validation.check(path, progress, lambda url: check_url(url, policy))
        except validation.ExportNotUsable as error:
            raise CliError("\n  ".join(["this cannot be imported:", *error.faults]), _NOTHING) from error
    async with context.services() as services:
        matched = await _matched(services.database, checked, dict(member))
        plan = imports.Plan(checked, login or checked.organization.login, matched)
        if faults := await actions.faults_of_login(services.database, plan.login):
            raise CliError(f"{faults[0].message}.", f"Use --login to give the organization another one. {_NOTHING}")
        if dry_run:
            people = await imports.assign_logins(services.database, checked.people.values(), matched)
            made = imports.summary(plan, [each for _, each in people], None, checked.timers)
        else:
            with _in_words(path), _refused(context), show_progress() as progress:
                made = await imports.import_organization(services.database, services.blobs, plan, progress)
    import msgspec

    data = {"import": str(path), **msgspec.to_builtins(made), "dry_run": dry_run}
    context.print_result(data, _sentences(made, dry_run=dry_run))


@contextmanager
def _refused(context: Context) -> Iterator[None]:
    import sqlite3

    import asyncpg

    from workhook.storage.database import UniqueViolation

    try:
        yield
    except validation.ExportNotUsable as error:
        raise CliError(f"the export was changed while it was read: {error.faults[0]}", _NOTHING) from error
    except UniqueViolation as error:
        raise CliError(f"two lines of the export contradict each other: {error}.", _NOTHING) from error
    except (sqlite3.Error, asyncpg.PostgresError) as error:
        if explain(error, context.settings) is not None:
            raise
        raise CliError(f"the database rejects the export: {error}.", _NOTHING) from error


async def _matched(reader: Reader, checked: validation.CheckedExport, named: dict[str, str]) -> dict[str, Account]:
    """Return accounts by their login in the export. Raises `CliError` for unknown people or a missing owner."""
    found: dict[str, Account] = {}
    for old, login in named.items():
        if old not in checked.people:
            known = ", ".join(sorted(checked.people)[:10])
            raise Misuse(f"--member: the export has no person {old}.", f"Its people: {known}. {_NOTHING}")
        user = await common.get_enabled_user(reader, login)
        if double := next((each for each, other in found.items() if other.id == user.id), None):
            raise Misuse(f"--member: {user.login} cannot be both {double} and {old}.", _NOTHING)
        found[old] = user
    if not any(each in found for each in checked.owners):
        owners = ", ".join(sorted(checked.owners)[:10])
        remedy = f"Match one of its owners ({owners}): --member {(checked.owners or ['OLD'])[0]}=LOGIN. {_NOTHING}"
        raise Misuse("the organization would have no owner.", remedy)
    return found


def _sentences(made: imports.ImportedOrganization, *, dry_run: bool) -> str:
    lines = [
        f"{'would import' if dry_run else 'imported'} {made.login}: {counted(made.lines['projects'], 'project')}, "
        f"{counted(made.lines['tasks'], 'task')}, {counted(made.lines['invoices'], 'invoice')}, "
        f"{counted(made.files, 'file')}"
    ]
    if made.newcomers:
        named = ", ".join(each.login for each in made.newcomers[:10])
        more = f" and {len(made.newcomers) - 10:,} more" if len(made.newcomers) > 10 else ""
        lines.append(f"new people, whose accounts are disabled: {named}{more}")
    for number, finding in (
        (made.webhooks_off, "inactive webhooks: {:,}; set a secret for each, then activate it"),
        (made.timers_paused, "paused timers: {:,}"),
        (made.files_missing, "files already missing from the export: {:,}"),
    ):
        if number:
            lines.append(finding.format(number))
    return "\n".join(lines)


async def _which(reader: Reader, login: str | None) -> Account:
    from workhook.cli import queries

    if login is not None:
        return await get_organization(reader, login)
    found = await queries.organizations(reader)
    if not found:
        raise CliError("this server has no organization.", await common.existing_organizations(reader))
    if len(found) > 1:
        named = ", ".join(each.login for each in found[:5])
        raise Misuse(f"this server has several organizations ({named}).", "Choose one with --organization LOGIN.")
    return found[0]


def _make_private(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise CliError(f"{path} is not empty.", "Name an empty or new folder.")


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise disk_full_error(path) from error
        if error.filename is None:
            raise
        raise CliError(f"{Path(error.filename).absolute()}: {error.strerror}.", path_remedy()) from error


# --- members and collaborators ----------------------------------------------------------------------------------------

_Organization = Annotated[str, Option("LOGIN", "The organization.")]
_Repository = Annotated[str, Option("OWNER/NAME", "The repository.")]
_User = Annotated[str, Option("LOGIN", "The user.")]


@command(members, "add")
async def add_member(
    context: Context,
    *,
    organization: _Organization,
    user: _User,
    role: Annotated[Literal["owner", "member"], Option("owner|member", "Role in the organization.")] = "member",
) -> None:
    """Add a user to an organization, or change the user's role."""
    async with context.write() as write:
        place, who = await get_organization(write.tx, organization), await get_user(write.tx, user)
        await membership.set_member(write, place, who, role)
    data = {"organization": place.login, "user": who.login, "role": role}
    context.print_result(data, f"{who.login} is {role} of {place.login}")


@command(members, "remove")
async def remove_member(context: Context, *, organization: _Organization, user: _User) -> None:
    """Remove a user from an organization and from its projects."""
    async with context.write() as write:
        place, who = await get_organization(write.tx, organization), await get_user(write.tx, user)
        removed = await membership.remove_member(write, place, who)
    data = {"organization": place.login, "user": who.login, "removed": removed}
    context.print_result(data, f"{who.login} {'is no longer' if removed else 'was not'} in {place.login}")


@command(collaborators, "add")
async def add_collaborator(
    context: Context,
    *,
    repository: _Repository,
    user: _User,
    role: Annotated[Literal["read", "write", "admin"], Option("read|write|admin", "Role in the repository.")],
) -> None:
    """Add a user to a repository, or change the user's role."""
    async with context.write() as write:
        where, who = await get_repository(write.tx, repository), await get_user(write.tx, user)
        await membership.set_collaborator(write, where, who, role)
    data = {"repository": where.full_name, "user": who.login, "role": role}
    context.print_result(data, f"{who.login} has the role {role} in {where.full_name}")


@command(collaborators, "remove")
async def remove_collaborator(context: Context, *, repository: _Repository, user: _User) -> None:
    """Remove a user from a repository. Access through the organization is kept."""
    async with context.write() as write:
        where, who = await get_repository(write.tx, repository), await get_user(write.tx, user)
        removed = await membership.remove_collaborator(write, where, who)
    data = {"repository": where.full_name, "user": who.login, "removed": removed}
    context.print_result(
        data, f"{who.login} {'is no longer' if removed else 'was not'} a collaborator of {where.full_name}"
    )
