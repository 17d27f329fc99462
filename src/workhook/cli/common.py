"""Shared parts of all commands: settings as options, services, output, the schema, and error messages.

@command(app, "add")
async def add(context: Context, *, login: Annotated[str, Option("LOGIN", "…")]) -> None:
    async with context.services() as services: …
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from workhook import bootstrap
from workhook.cli import error_messages
from workhook.cli.error_messages import FAILED, MISUSED, CliError, Misuse, explain
from workhook.cli.options import Command, CommandGroup, click_parameters, grouped, path_completion
from workhook.cli.output import complain, print_json, print_table
from workhook.core import log
from workhook.core.config import Settings, SettingsError, flag_of, load
from workhook.identity import context as identity_context
from workhook.identity import queries

if TYPE_CHECKING:
    import sqlalchemy
    from asyncpg import Connection

    from workhook.http.calls import Services
    from workhook.identity.schemas import Account, Repository
    from workhook.storage import Reader, Transaction

COMMON_SETTINGS = ("data", "database_url")

_METAVARS = {"data": "DIR", "database_url": "URL", "delivery_allow_networks": "CIDR",
              "worker_listen": "HOST:PORT"}  # fmt: skip

T = TypeVar("T")
Body = Callable[..., Awaitable[int | None]]


def new_app(help_text: str) -> CommandGroup:
    return CommandGroup(help=help_text, no_args_is_help=True)


@dataclass(frozen=True)
class Context:
    settings: Settings
    as_json: bool

    @asynccontextmanager
    async def services(self, *, make: bool = False) -> AsyncIterator[Services]:
        """Open the migrated database and other services. `make` creates missing data instead of raising `CliError`."""
        log.configure("warning" if self.settings.log_level == "info" else self.settings.log_level)
        if not make:
            if self.settings.database_url is None and not self.settings.data.is_dir():
                raise error_messages.missing_data_error(self.settings)
            if await revision(self.settings) is None:
                raise error_messages.missing_data_error(self.settings)
            if not self.settings.secret_key and not self.settings.data.is_dir():
                raise error_messages.missing_key_error(self.settings)
        opened: AbstractAsyncContextManager[Services] = bootstrap.open_services(self.settings)
        async with opened as services:
            yield services

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self.services() as services, services.database.transaction() as tx:
            yield tx

    @asynccontextmanager
    async def write(self) -> AsyncIterator[identity_context.Write]:
        """Begin a change made by the operator, without a token."""
        async with self.transaction() as tx:
            yield identity_context.Write(tx, None, base_address(self.settings))

    def print_result(self, data: object, sentence: str) -> None:
        if self.as_json:
            print_json(data)
        else:
            click.echo(sentence)

    def print_rows(
        self,
        rows: Sequence[Mapping[str, object]],
        columns: Iterable[str],
        *,
        none: str,
        narrow: Sequence[Mapping[str, object]] = (),
    ) -> None:
        """Print a list: an array for scripts; for people, a table of some columns, or the sentence `none`.

        `narrow`: the same rows with fewer columns, for a narrow terminal.
        """
        if self.as_json:
            print_json(rows)
        elif rows:
            print_table(rows, list(columns), narrow)
        else:
            click.echo(none)


CONNECT_TIMEOUT_S = 5.0


async def revision(settings: Settings) -> str | None:
    """Return the schema revision, or None without one. Raises the drivers' errors and `TimeoutError`."""
    from workhook.storage.migrate import postgresql_revision, sqlite_revision

    return await _look(settings, sqlite_revision, postgresql_revision)


async def first_value(settings: Settings, query: str) -> Any:
    """Return the first value that a query finds, or None. Raises the errors of `revision`."""

    def in_file(path: Path) -> Any:
        import sqlite3

        with closing(sqlite3.connect(path)) as connection:
            row = connection.execute(query).fetchone()
        return row[0] if row else None

    return await _look(settings, in_file, lambda connection: connection.fetchval(query))


async def _look(settings: Settings, in_file: Callable[[Path], T], in_server: Callable[[Connection], Awaitable[T]]) -> T:
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        if settings.sqlite_path is not None:
            return await asyncio.to_thread(in_file, settings.sqlite_path)
        import asyncpg

        from workhook.storage.dialects import connect_options

        # A pooler in transaction mode keeps named statements of earlier connections, so none are named.
        options = connect_options(settings.database_url or "")
        connection = await asyncpg.connect(**options, statement_cache_size=0)
        try:
            return await in_server(connection)
        finally:
            await connection.close()


def command(
    app: CommandGroup | None,
    name: str,
    *,
    settings: Sequence[str] = COMMON_SETTINGS,
    json: bool = True,
    fast: bool = False,
    help_text: str = "",
) -> Callable[[Body], Command]:
    """Turn an async function into a command of the group. It takes a `Context` and its own options.

    Each name in `settings` becomes an option. `json`: add `--json`. `fast`: run on uvloop. `help_text` replaces the
    function's docstring. The function returns the exit status (None means 0). A user's mistake is reported as one
    sentence on standard error with status 1, or 2 for settings and options.
    """

    def make(body: Body) -> Command:
        own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
        parameters = [option for each in own for option in click_parameters(each)]
        parameters += [*(_setting_option(each) for each in settings), *([_JSON] if json else [])]

        def run(**values: Any) -> None:
            flags = {each: values.pop(each) or None for each in settings}
            as_json = values.pop("as_json", False)
            sys.exit(_run(body, flags, as_json, grouped(own, values), fast))

        made = Command(name, callback=run, params=parameters, help=help_text or inspect.getdoc(body))
        if app is not None:
            app.add_command(made)
        return made

    return make


def _run(body: Body, flags: Mapping[str, Any], as_json: bool, own: Mapping[str, Any], fast: bool) -> int:
    settings: Settings | None = None

    async def run() -> int:
        nonlocal settings
        settings = load(flags)
        return await body(Context(settings, as_json), **own) or 0

    try:
        with asyncio.Runner(loop_factory=_fast_loop() if fast else None) as runner:
            return runner.run(run())
    except SettingsError as error:
        as_log = fast and (flags.get("log_format") or os.environ.get("WORKHOOK_LOG_FORMAT")) == "json"
        if as_log:
            complain([f"these settings cannot be used: {' '.join(error.faults)}"], as_log=True)
        else:
            complain(["these settings cannot be used:", *(f"  {fault}" for fault in error.faults)])
        return MISUSED
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        lines, as_log = explain(error, settings), fast and settings is not None and settings.log_format == "json"
        if lines is None:
            if not as_log:
                raise
            log.failure(exc_info=True)
            return FAILED
        complain(lines, as_log=as_log)
        return error.status if isinstance(error, CliError) else FAILED


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # unavailable on some systems
        return None
    return uvloop.new_event_loop


_JSON = click.Option(["as_json", "--json"], is_flag=True, help="Print one line of JSON.")


def _setting_option(name: str) -> click.Option:
    """Return the option of a setting. `core.config` validates its value along with the others."""
    known = {each.name: each for each in fields(Settings)}[name]
    notes = [f"env: WORKHOOK_{name.upper()}"]
    if known.default not in (None, ()) and not isinstance(known.default, bool):
        notes.append(f"default: {known.default}")
    text = f"{known.metadata['help']} [{'; '.join(notes)}]"
    flags = [name, flag_of(name)]
    if isinstance(known.default, bool):
        return click.Option(flags, is_flag=True, help=text)
    if isinstance(known.default, tuple):
        return click.Option(flags, multiple=True, help=f"{text} Repeatable.", metavar="CIDR")
    metavar = _METAVARS.get(name, "VALUE")
    return click.Option(flags, help=text, metavar=metavar, shell_complete=path_completion(metavar))


def base_address(settings: Settings) -> str:
    """Return the base of links: the public URL, or else that of the running server, or else the default address."""
    import json

    if settings.base_url:
        return settings.base_url
    try:
        server = json.loads((settings.data / "server.json").read_bytes())
        return str(server.get("base_url") or server["url"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"http://{settings.host}:{settings.port}"


async def existing_organizations(reader: Reader) -> str:
    from workhook.cli.queries import organizations

    found = [each.login for each in await organizations(reader)]
    more = ", …" if len(found) > 5 else ""
    return f"This server has: {', '.join(found[:5])}{more}." if found else "Create one with `workhook setup`."


async def _get_account(reader: Reader, login: str, *, kind: str) -> Account:
    account = await queries.find_account(reader, login)
    article = "an" if kind == "organization" else "a"
    if account is None:
        is_user = kind == "user"
        remedy = "Create one with `workhook user add`." if is_user else await existing_organizations(reader)
        raise CliError(f"{kind} {login} does not exist.", remedy)
    if account.kind != kind:
        other = {"user": "a user", "bot": "the bot of an app"}.get(account.kind, "an organization")
        raise CliError(f"{account.login} is {other}, not {article} {kind}.", "Choose another login.")
    return account


get_user = partial(_get_account, kind="user")
get_organization = partial(_get_account, kind="organization")


async def get_enabled_user(reader: Reader, login: str) -> Account:
    """Find a user who may receive a token or a link. Raises `CliError`."""
    user = await get_user(reader, login)
    if await queries.disabled_at(reader, user.id) is not None:
        raise CliError(f"{user.login} is disabled.", f"Enable the user with `workhook user enable {user.login}`.")
    return user


async def get_repository(reader: Reader, full_name: str) -> Repository:
    """Find a repository by `owner/name`. Raises `CliError`."""
    owner, _, name = full_name.partition("/")
    if not owner or not name or "/" in name:
        raise Misuse(f"{full_name} is not the name of a repository.", "Write OWNER/NAME, such as acme/website.")
    repository = await queries.find_repository(reader, owner, name)
    if repository is None:
        raise CliError(
            f"repository {full_name} does not exist.", "Create its project with the API or `workhook setup`."
        )
    return repository


def every_table() -> Sequence[sqlalchemy.Table]:
    """Import every module that declares tables, and return the tables in order of their references."""
    from workhook.storage.metadata import metadata

    bootstrap.import_tables()
    return metadata.sorted_tables
