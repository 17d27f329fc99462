"""`workhook setup`, and the records that a server creates on its first start."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from workhook.cli import queries
from workhook.cli.common import Context, base_address, command, get_enabled_user, get_organization
from workhook.cli.error_messages import CliError, Misuse
from workhook.cli.options import Flag, Option, days, scope_list
from workhook.cli.output import write_private
from workhook.core import errors, log
from workhook.http import parameters
from workhook.identity import actions, administrators, audit, policy
from workhook.identity import context as identity_context
from workhook.identity import queries as identity_queries
from workhook.identity.signin import sessions
from workhook.work.board.projects import actions as projects_actions
from workhook.work.board.projects import schemas

if TYPE_CHECKING:
    from workhook.http.calls import Services
    from workhook.identity.schemas import Account, Repository
    from workhook.storage import Transaction

TOKEN_NOTE = "workhook setup"  # noqa: S105  # identifies its tokens

TOKEN_SCOPES = ("repo", "admin:org", "admin:org_hook", "work")  # everything in an organization, nothing of the server
TOKEN_DAYS = 365

FIRST_START_WAIT_S = 60.0  # for a concurrent one, which may import modules while holding SQLite's lock
LINK_MINUTES = 60  # of the first start
FIRST_TOKEN_NOTE = "first start"  # noqa: S105  # identifies its token
FIRST_TOKEN_DAYS = 1
FIRST_SIGN_IN = "first-sign-in.txt"  # in the data folder, with mode 0600

FIRST_OWNER, FIRST_ORGANIZATION, FIRST_PROJECT = "owner", "workhook", "Getting started"


@dataclass(frozen=True)
class FirstStart:
    """The records created on an empty database. `token` and `link` (a path) are shown only once."""

    login: str
    organization: str
    repository: str
    token: str
    link: str

    def __repr__(self) -> str:
        return f"FirstStart(login={self.login!r})"


class _Made(dict[str, object]):
    """New records by kind: a login, or the ID of a token. A project has its own audit entry."""

    async def record(self, tx: Transaction, place: Account, user: Account) -> None:
        """Add an entry to the audit log, unless nothing was created."""
        if self:
            detail = {"user": user.login, "made": dict(self)}
            await audit.record(tx, None, "organization.setup", place.login, account_id=place.id, detail=detail)


@command(None, "setup")
async def setup(
    context: Context,
    *,
    organization: Annotated[str, Option("LOGIN", "The organization, such as acme.")],
    owner: Annotated[str, Option("LOGIN", "Owner of the organization.")],
    email: Annotated[
        str | None, Option("ADDRESS", "E-mail address of the owner. Required if the user does not exist yet.")
    ] = None,
    project: Annotated[str | None, Option("TITLE", "Title of a first project, such as Website. Default: none.")] = None,
    new_token: Annotated[bool, Flag("Create another token even if one exists.")] = False,
    scopes: Annotated[
        list[str] | None,
        Option("SCOPE,…", f"Scopes of the token. Default: {','.join(TOKEN_SCOPES)}.", parse=scope_list),
    ] = None,
    expires_in: Annotated[
        float | None, Option("DAYS", f"Days until the token expires. Default and maximum: {TOKEN_DAYS}.", parse=days)
    ] = None,
) -> None:
    """Create an organization, its owner, a project, and a token.

    Existing records are kept. The user becomes an owner if they are not one yet. The token is issued and shown only on
    the first run; --new-token issues another. It is valid for a year and may do everything that an owner of the
    organization can: repositories, members, webhooks, the work API. It cannot administer the server. Use --scopes to
    choose other scopes.
    """
    if expires_in is not None and expires_in > TOKEN_DAYS:
        raise Misuse(f"--expires-in {expires_in:g} is more than {TOKEN_DAYS} days.", "Create a new token each year.")

    async def step(tx: Transaction) -> tuple[Account, Account, Repository | None, str | None]:
        await queries.lock_first_start(tx)
        made = _Made()
        place, user = await _accounts(tx, made, organization, owner, email)
        await _make_owner(tx, made, place, user)
        await administrators.appoint_first(tx, user)
        base = base_address(context.settings)
        repository = await _project(tx, place, user, project, base) if project else None
        token = await _token(tx, made, user, scopes or list(TOKEN_SCOPES), expires_in or TOKEN_DAYS, always=new_token)
        await made.record(tx, place, user)
        return place, user, repository, token

    async with context.services(make=True) as services:
        place, user, repository, token = await services.database.in_transaction(step, within_s=FIRST_START_WAIT_S)
    data = {
        "organization": place.login,
        "login": user.login,
        "project_id": repository.project_id if repository else None,
        "repository": repository.full_name if repository else None,
        "token": token,
    }
    lines = [f"{name.replace('_', ' ')}: {value}" for name, value in data.items() if value is not None]
    if token is None:
        lines.append("token: shown only the first time; --new-token issues another")
    context.print_result(data, "\n".join(lines))


async def first_start(services: Services, base: str) -> FirstStart | None:
    """Create an owner, an organization, a project, a token and a sign-in link on an empty database.

    Returns None if any account exists. If several processes start concurrently, or `workhook setup` runs, only one of
    them does it.
    """
    if not await queries.is_empty(services.database):
        return None

    async def step(tx: Transaction) -> FirstStart | None:
        await queries.lock_first_start(tx)
        if not await queries.is_empty(tx):
            return None
        made = _Made()
        # Created without an address: the owner enters and confirms one in the settings.
        user = await actions.create_account(tx, "user", FIRST_OWNER, name=None, email=None)
        made["user"] = user.login
        place = await _organization(tx, made, FIRST_ORGANIZATION)
        await _make_owner(tx, made, place, user)
        await administrators.appoint_first(tx, user)
        repository = await _project(tx, place, user, FIRST_PROJECT, base)
        # It is printed where others may read it later, so it expires within a day.
        issued = await actions.issue_token(
            tx, user, list(policy.SCOPES), note=FIRST_TOKEN_NOTE, expires_in_days=FIRST_TOKEN_DAYS
        )
        made["token_id"] = issued.id
        await made.record(tx, place, user)
        link = await sessions.create_link(tx, user.id, sessions.SIGN_IN, minutes=LINK_MINUTES)
        return FirstStart(user.login, place.login, repository.full_name, issued.token, link.path)

    return await services.database.in_transaction(step, within_s=FIRST_START_WAIT_S)


async def welcome(services: Services, address: str) -> None:
    """Show how to sign in to a new server, on the terminal or else in `FIRST_SIGN_IN`, but never in logs."""
    settings = services.settings
    path = (settings.data / FIRST_SIGN_IN).absolute()
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_mtime < time.time() - FIRST_TOKEN_DAYS * 86_400:
            path.unlink()  # its token has expired
    base = settings.base_url or address
    made = await first_start(services, base)
    if made is None:
        return
    about = (
        f"workhook: first start: {made.login} owns the organization {made.organization} "
        f"and the project {made.repository}"
    )
    secrets = (
        f"workhook: sign-in link for {made.login}, valid once and for an hour: {base}{made.link}\n"
        f"workhook: token of {made.login}, valid for a day and shown only once: {made.token}"
    )
    click.echo(log.start_line(about, settings.log_format))
    if sys.stdout.isatty() and settings.log_format != "json":
        click.echo(secrets)
        return
    path.unlink(missing_ok=True)
    write_private(path, f"{secrets}\n".encode())
    where = f"workhook: {path} has a sign-in link that only this user can read; delete the file after signing in"
    click.echo(log.start_line(where, settings.log_format, path=str(path)))


async def _accounts(
    tx: Transaction, made: _Made, organization: str, owner: str, email: str | None
) -> tuple[Account, Account]:
    """Find or create the organization and its owner. Errors in any of the options are reported together."""
    complaints: list[str] = []
    found: list[Account] = []

    async def take(making: Awaitable[Account], options: dict[str, tuple[str, str | None]]) -> None:
        try:
            found.append(await making)
        except errors.Invalid as error:
            for fault in error.faults:
                option, value = options.get(fault.field or "", ("", None))
                complaints.append(f"{option} {value!r}: {fault.message}.")

    await take(_organization(tx, made, organization), {"login": ("--organization", organization)})
    await take(_owner(tx, made, owner, email), {"login": ("--owner", owner), "email": ("--email", email)})
    if complaints:
        raise Misuse(complaints[0], "\n".join([*complaints[1:], "Use other values."]))
    return found[0], found[1]


async def _organization(tx: Transaction, made: _Made, login: str) -> Account:
    if await identity_queries.find_account(tx, login) is None:
        made["organization"] = login
        return await actions.create_account(tx, "organization", login, name=login, email=None)
    return await get_organization(tx, login)


async def _owner(tx: Transaction, made: _Made, login: str, email: str | None) -> Account:
    if await identity_queries.find_account(tx, login) is not None:
        return await get_enabled_user(tx, login)
    if email is None:
        raise CliError(
            f"user {login} does not exist yet, and a new user needs an e-mail address.", "Add --email ADDRESS."
        )
    made["user"] = login
    return await actions.create_account(tx, "user", login, name=None, email=email)


async def _make_owner(tx: Transaction, made: _Made, organization: Account, user: Account) -> None:
    if await identity_queries.find_member_role(tx, organization.id, user.id) != "owner":
        await actions.set_member(tx, organization, user, "owner")
        made["owner"] = user.login


async def _project(tx: Transaction, place: Account, user: Account, title: str, base: str) -> Repository:
    create = parameters.gather(schemas.ProjectCreate, {}, {"title": title, "organization": place.login})
    repository_id = await queries.project_titled(tx, place, create.title, projects_actions.name_from(create.title))
    if repository_id is not None:
        known = await identity_queries.find_repository_by_id(tx, repository_id, user.id)
        assert known is not None, "it was found in this transaction"
        return known
    write = identity_context.Write(tx, queries.acting(user), base)
    return (await projects_actions.add_project(write, create)).repository


async def _token(
    tx: Transaction, made: _Made, user: Account, scopes: list[str], days_: float, *, always: bool
) -> str | None:
    if not always and await queries.has_token_noted(tx, user, TOKEN_NOTE):
        return None
    issued = await actions.issue_token(tx, user, scopes, note=TOKEN_NOTE, expires_in_days=days_)
    made["token_id"] = issued.id
    return issued.token
