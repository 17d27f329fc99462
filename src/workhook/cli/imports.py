"""`workhook import`."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from workhook.cli import queries
from workhook.cli.common import Context, base_address, command, get_organization, get_user, new_app
from workhook.cli.error_messages import CliError, Misuse
from workhook.cli.options import Argument, Flag, Option, assignment
from workhook.cli.output import Progress, show_progress
from workhook.core.text import counted
from workhook.identity import queries as identity_queries
from workhook.work.portability.imports import apply, json_file, people, sources
from workhook.work.portability.imports import plan as planned

if TYPE_CHECKING:
    from workhook.identity.schemas import Account, Actor
    from workhook.storage import Database, Reader
    from workhook.work.portability.imports.plan import ImportPlan
    from workhook.work.portability.imports.sources import Source

app = new_app("Import boards, projects, and tables.")

FILE_MAX_BYTES = 1 << 30
WARNINGS_SHOWN = 20
TABLE_FIELDS = (
    "title", "description", "column", "assignee", "due", "labels", "estimate", "priority", "completed", "created",
    "parent", "blocked_by", "id",
)  # fmt: skip
"""The names in `words.FIELDS`, which is not imported just to show help."""
_HOW: Mapping[Source, str] = {
    "trello": "In Trello, open the board's menu and choose Print, export, and share, then Export as JSON. Nothing "
    "was imported.",
    "asana": "In Asana, open the menu next to the project's name and choose Export, then JSON. Nothing was imported.",
    "github": "Export with `gh issue list` and `gh project item-list`, as JSON. Nothing was imported.",
    "csv": "Fix the table, or save it again. Nothing was imported.",
}


def _mapped(text: str) -> tuple[str, str]:
    field, sign, header = (each.strip() for each in text.partition("="))
    if not sign or field not in TABLE_FIELDS:
        raise click.BadParameter(f"{text!r} is not of the form FIELD=NAME with one of {', '.join(TABLE_FIELDS)}.")
    return field, header


@dataclass(frozen=True)
class ImportTarget:
    organization: Annotated[str, Option("LOGIN", "Organization to create the projects in.")]
    member: Annotated[
        tuple[tuple[str, str], ...],
        Option(
            "NAME=LOGIN",
            "Map a person in the file to a login. Repeatable.",
            parse=assignment("NAME=LOGIN"),
        ),
    ] = ()
    done: Annotated[
        tuple[str, ...],
        Option("LIST", "A list whose tasks count as finished, like Done. Repeatable."),
    ] = ()
    as_login: Annotated[
        str | None, Option("LOGIN", "User to import as. Default: the organization's first owner.", flag="--as")
    ] = None
    dry_run: Annotated[bool, Flag("Only show what would be created and what would be lost.")] = False


Title = Annotated[str | None, Option("TITLE", "Title of the project; a later import finds the project by it.")]


@command(app, "trello")
async def trello(
    context: Context,
    *,
    files: Annotated[tuple[Path, ...], Argument("FILE", "Board exports as JSON.")],
    target: ImportTarget,
) -> None:
    """Create a project from each Trello board, with columns, tasks, labels, checklists, comments, and assignees.

    Importing a board again adds what is new in the export and changes nothing else, so the same command completes an
    interrupted import.
    """
    await _import(context, "trello", files, target)


@command(app, "asana")
async def asana(
    context: Context,
    *,
    files: Annotated[tuple[Path, ...], Argument("FILE", "Project exports as JSON.")],
    target: ImportTarget,
) -> None:
    """Create a project from each Asana project, with its sections, tasks, subtasks, dependencies, tags, and fields.

    Importing a project again adds what is new in the export and changes nothing else. Asana has no user names, so
    people are matched by name or with `--member`.
    """
    await _import(context, "asana", files, target)


@command(app, "github")
async def github(
    context: Context,
    *,
    files: Annotated[
        tuple[Path, ...],
        Argument("FILE", "JSON output of `gh issue list` and `gh project item-list`."),
    ],
    target: ImportTarget,
    title: Title = None,
) -> None:
    """Create one project from issues and project items on GitHub, with labels, comments, milestones, and assignees.

    The columns are Open and Closed or, for project items, the values of the Status field. The title of the project is
    `--title`, or else the name of the repository. To add new items later, import new files under the same title.
    """
    await _import(context, "github", files, target, title or "")


@command(app, "csv")
async def csv(
    context: Context,
    *,
    files: Annotated[tuple[Path, ...], Argument("FILE", "CSV files in UTF-8 with the field names in the first line.")],
    target: ImportTarget,
    title: Title = None,
    mapping: Annotated[
        tuple[tuple[str, str], ...],
        Option(
            "FIELD=NAME",
            f"Name of a field in the table. Fields: {', '.join(TABLE_FIELDS)}. An empty NAME ignores the field. "
            "Repeatable.",
            flag="--map",
            parse=_mapped,
        ),
    ] = (),
) -> None:
    """Create a project from each table. Each row becomes a task in the board column that the row names.

    The title of the project is `--title`, or else the name of the file. Importing a table again under the same title
    adds its new rows. Rows are identified by ID, or else by title.
    """
    if title is not None and len(files) > 1:
        raise Misuse("--title names one project, but each file becomes a project.", "Import the files one by one.")
    await _import(context, "csv", files, target, title or "", dict(mapping))


async def _import(
    context: Context,
    source: Source,
    files: Sequence[Path],
    target: ImportTarget,
    title: str = "",
    mapping: Mapping[str, str] | None = None,
) -> None:
    with show_progress() as progress:
        read = [sources.SourceFile(str(file), _read(file, progress, source)) for file in files]
        choices = planned.Choices(title=title, done=target.done, mapping=mapping or {})
        try:
            plans = sources.plans_of(source, read, choices)  # all are checked before anything is written
        except json_file.InvalidFile as problem:
            faults = "\n  ".join(["this cannot be imported:", *problem.faults])
            raise CliError(faults, _HOW[source]) from None
        async with context.services() as services:
            made = await import_boards(services.database, plans, target, base_address(context.settings), progress)
    names = [str(file) for file in files] if len(plans) == len(files) else [", ".join(map(str, files))]
    shown = [_to_json(name, each, target.dry_run) for name, each in zip(names, made, strict=True)]
    context.print_result(shown[0] if len(shown) == 1 else shown, "\n".join(_sentence(each) for each in shown))
    if not context.as_json:
        _warn(shown, made)


async def import_boards(
    database: Database, plans: Sequence[ImportPlan], target: ImportTarget, base: str, progress: Progress
) -> list[apply.Imported]:
    """Import boards one after another. `base`: prefix of links in events. Raises `CliError`."""
    place = await get_organization(database, target.organization)
    actor = await _actor(database, place, target.as_login)
    members = await _people(database, place, dict(target.member))
    made = []
    for plan in plans:
        task_import = apply.Import(plan, place, actor, members, base)
        importing = (
            apply.preview(database, task_import)
            if target.dry_run
            else apply.import_plan(database, task_import, progress)
        )
        made.append(await importing)
    return made


def _read(file: Path, progress: Progress, source: Source) -> bytes:
    try:
        with file.open("rb") as opened:
            size = file.stat().st_size if stat.S_ISREG(file.stat().st_mode) else 0
            data = bytearray()
            while block := opened.read(1 << 20):
                data += block
                progress(f"{file.name}: bytes read", len(data), max(size, len(data) + 1))
                if len(data) > FILE_MAX_BYTES:
                    raise CliError(f"{file} has more than {FILE_MAX_BYTES >> 30} GiB.", _HOW[source])
            progress(f"{file.name}: bytes read", len(data), len(data))
            return bytes(data)
    except OSError as error:
        raise CliError(
            f"{file} cannot be read: {error.strerror}.", "Nothing was imported. Name the file of an export."
        ) from error


async def _actor(reader: Reader, place: Account, login: str | None) -> Actor:
    user = await get_user(reader, login) if login else await queries.an_owner(reader, place)
    if user is None:
        raise CliError(f"{place.login} has no owner.", "Add one with `workhook member add --role owner`.")
    if login and await identity_queries.find_member_role(reader, place.id, user.id) is None:
        raise CliError(f"{user.login} is not in {place.login}.", "Add the user with `workhook member add`.")
    return queries.acting(user)


async def _people(reader: Reader, place: Account, named: dict[str, str]) -> people.People:
    addresses = await people.addresses_of(reader, place.id)
    try:
        return people.People(await people.members_of(reader, place.id), named, addresses)
    except KeyError as error:
        raise Misuse(
            f"--member: {error.args[0]} is not in {place.login}.", "Add the user with `workhook member add`."
        ) from error


def _to_json(file: str, imported: apply.Imported, dry_run: bool) -> dict[str, Any]:
    import msgspec

    from workhook.core.disclosure import public_form

    return {"file": file, **msgspec.to_builtins(imported, enc_hook=public_form), "dry_run": dry_run}


def _sentence(shown: dict[str, Any]) -> str:
    created, skipped = shown["created"], shown["skipped"]
    made = ", ".join(counted(created[f"{each}s"], each) for each in ("column", "task", "comment", "label"))
    items = ", ".join(
        counted(skipped[f"{each}s"], each) for each in ("column", "task", "comment") if skipped[f"{each}s"]
    )
    line = f"{shown['repository'] or shown['title']}: {'would create' if shown['dry_run'] else 'created'} {made}"
    lines = [f"{line}; unchanged: {items}" if items else line]
    if shown["dry_run"]:
        lines += [f"  field {each['name']}: {_became(each)}" for each in shown["fields"]]
        finished = [each["title"] for each in shown["columns"] if each["finished"]]
        lines.append(f"  columns whose tasks are finished: {planned.name_some(finished) if finished else 'none'}")
    return "\n".join(lines)


def _became(field: Mapping[str, Any]) -> str:
    others = {"field": "a field of the task", "nothing": "nothing, because no line has a value"}
    kept = f" (kept as text: {', '.join(field['kept'])})" if field["kept"] else ""
    becomes = str(field["becomes"])
    return others.get(becomes, becomes.replace("_", " ")) + kept


def _warn(shown: Sequence[Mapping[str, Any]], made: Sequence[apply.Imported]) -> None:
    for each, imported in zip(shown, made, strict=True):
        for lost in imported.lost:
            click.echo(f"workhook: {each['title']}: not imported: {planned.describe_loss(lost)}", err=True)
        warnings = each["warnings"]
        for warning in warnings[:WARNINGS_SHOWN]:
            click.echo(f"workhook: {each['title']}: {warning}", err=True)
        if len(warnings) > WARNINGS_SHOWN:
            click.echo(f"workhook: and {len(warnings) - WARNINGS_SHOWN:,} more; --json has them all", err=True)
