"""`workhook import`."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from workhook.cli import queries
from workhook.cli.common import Context, base_address, command, find_organization, find_user, new_app
from workhook.cli.error_messages import CliError, Misuse
from workhook.cli.options import Argument, Flag, Option
from workhook.cli.progress import Progress, show_progress
from workhook.identity import queries as identity_queries
from workhook.work.imports import apply, mapping
from workhook.work.imports import plan as imports_plan
from workhook.work.imports import trello as imports_trello

if TYPE_CHECKING:
    from workhook.identity.schemas import Account, Actor
    from workhook.storage import Database, Reader

app = new_app("Boards of other systems.")

FILE_MAX_BYTES = 1 << 30
WARNINGS_SHOWN = 20
_HOW = "In Trello: the menu of the board, Print, export and share, Export as JSON. Nothing was imported."


def _pair(given: str) -> str:
    name, sign, login = given.rpartition("=")
    if not sign or not name.strip() or not login.strip():
        raise click.BadParameter(f"{given!r} is not of the form TRELLO=LOGIN.")
    return given


@command(app, "trello")
async def trello(
    context: Context,
    *,
    files: Annotated[tuple[Path, ...], Argument("FILE", "Exports of boards, as JSON.")],
    organization: Annotated[str, Option("LOGIN", "Organization in which the projects are made.")],
    member: Annotated[
        tuple[str, ...],
        Option(
            "TRELLO=LOGIN",
            "Login of a member of the board whose user name differs. May be given several times.",
            parse=_pair,
        ),
    ] = (),
    done: Annotated[
        tuple[str, ...],
        Option("LIST", "A list whose cards are finished, like those of Done. May be given several times."),
    ] = (),
    as_login: Annotated[
        str | None, Option("LOGIN", "User who imports. Default: the organization's first owner.", flag="--as")
    ] = None,
    dry_run: Annotated[bool, Flag("Only say what would be made.")] = False,
) -> None:
    """Make a project of each Trello board: columns, tasks, labels, checklists, comments and who is assigned.

    A board that was imported before gets what is new in its export, and nothing else changes. So the same command
    completes an import that was interrupted.
    """
    with show_progress() as progress:
        plans = _plans(files, done, progress)
        async with context.services() as services:
            wanted = Wanted(organization, member, as_login, dry_run, base_address(context.settings))
            made = await import_boards(services.database, [plan for _, plan in plans], wanted, progress)
    shown = [_to_json(file, each, dry_run) for (file, _), each in zip(plans, made, strict=True)]
    context.answer(shown[0] if len(shown) == 1 else shown, "\n".join(_sentence(each) for each in shown))
    if not context.as_json:
        _warn(shown)


@dataclass(frozen=True)
class Wanted:
    """Where boards go, and who brings them; `base` is what links in events start with."""

    organization: str
    member: Sequence[str] = ()
    as_login: str | None = None
    dry_run: bool = False
    base: str = ""


async def import_boards(
    database: Database, plans: Sequence[imports_plan.ImportPlan], wanted: Wanted, progress: Progress
) -> list[apply.Imported]:
    """One after the other. Raises `CliError`."""
    place = await find_organization(database, wanted.organization)
    actor = await _actor(database, place, wanted.as_login)
    people = await _people(database, place, wanted.member)
    made = []
    for plan in plans:
        this = apply.Import(plan, place, actor, people, wanted.base)
        importing = apply.preview(database, this) if wanted.dry_run else apply.import_plan(database, this, progress)
        made.append(await importing)
    return made


def _plans(
    files: Sequence[Path], done: Sequence[str], progress: Progress
) -> list[tuple[Path, imports_plan.ImportPlan]]:
    """Every file is looked through before anything is written. Raises `CliError` that says what is wrong with any."""
    plans, wrong = [], []
    for file in files:
        try:
            plans.append((file, mapping.plan_of(imports_trello.read_export(_read(file, progress)), done=done)))
        except imports_trello.NotUsable as error:
            wrong += [f"{file}: {fault}" for fault in error.faults]
    if wrong:
        raise CliError("\n  ".join(["this cannot be imported:", *wrong]), _HOW)
    return plans


def _read(file: Path, progress: Progress) -> bytes:
    try:
        with file.open("rb") as source:
            size = file.stat().st_size if stat.S_ISREG(file.stat().st_mode) else 0
            data = bytearray()
            while block := source.read(1 << 20):
                data += block
                progress(f"{file.name}: bytes read", len(data), max(size, len(data) + 1))
                if len(data) > FILE_MAX_BYTES:
                    raise CliError(f"{file} has more than {FILE_MAX_BYTES >> 30} GiB.", _HOW)
            progress(f"{file.name}: bytes read", len(data), len(data))
            return bytes(data)
    except OSError as error:
        raise CliError(
            f"{file} cannot be read: {error.strerror}.", "Give the path of an export. Nothing was imported."
        ) from error


async def _actor(reader: Reader, place: Account, login: str | None) -> Actor:
    user = await find_user(reader, login) if login else await queries.an_owner(reader, place)
    if user is None:
        raise CliError(f"{place.login} has no owner.", "Add one with `workhook member add --role owner`.")
    if login and await identity_queries.find_member_role(reader, place.id, user.id) is None:
        raise CliError(f"{user.login} is not in {place.login}.", "Add them with `workhook member add`.")
    return queries.acting(user)


async def _people(reader: Reader, place: Account, pairs: Sequence[str]) -> imports_plan.People:
    named = {name: login.strip() for name, _, login in (each.rpartition("=") for each in pairs)}
    try:
        return imports_plan.People(await imports_plan.members_of(reader, place.id), named)
    except KeyError as error:
        raise Misuse(
            f"--member: {error.args[0]} is not in {place.login}.", "Add them with `workhook member add`."
        ) from error


def _to_json(file: Path, imported: apply.Imported, dry_run: bool) -> dict[str, Any]:
    import msgspec

    return {"file": str(file), **msgspec.to_builtins(imported), "dry_run": dry_run}


def _sentence(shown: dict[str, Any]) -> str:
    def number(count: int, what: str) -> str:
        return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"

    created, skipped = shown["created"], shown["skipped"]
    made = ", ".join(number(created[f"{each}s"], each) for each in ("column", "task", "comment", "label"))
    there = ", ".join(
        number(skipped[f"{each}s"], each) for each in ("column", "task", "comment") if skipped[f"{each}s"]
    )
    line = f"{shown['repository'] or shown['title']}: {'would make' if shown['dry_run'] else 'made'} {made}"
    return f"{line}; left as they are: {there}" if there else line


def _warn(shown: list[dict[str, Any]]) -> None:
    for each in shown:
        warnings = each["warnings"]
        for warning in warnings[:WARNINGS_SHOWN]:
            click.echo(f"workhook: {each['title']}: {warning}", err=True)
        if len(warnings) > WARNINGS_SHOWN:
            click.echo(f"workhook: and {len(warnings) - WARNINGS_SHOWN:,} more; --json has them all", err=True)
