"""`workhook audit`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

from workhook.cli.common import Context, command, get_organization, new_app
from workhook.cli.error_messages import CliError, path_remedy
from workhook.cli.options import Argument, Option, positive, time_text
from workhook.cli.output import Progress, show_progress
from workhook.core.clock import parse_rfc3339, to_millis_text
from workhook.core.text import counted, visible_json
from workhook.identity import audit_queries

if TYPE_CHECKING:
    from workhook.storage import Reader

app = new_app("Read the audit log: who did what, from where, and what was denied.")


@dataclass(frozen=True)
class EntryOptions:
    organization: Annotated[
        str | None, Option("LOGIN", "Only entries about this organization. Default: all entries.")
    ] = None
    since: Annotated[
        str | None, Option("TIME", "At or after this time, such as 2026-11-20T09:00:00Z.", parse=time_text)
    ] = None
    until: Annotated[str | None, Option("TIME", "Before this time.", parse=time_text)] = None
    action: Annotated[
        str | None, Option("NAME", "Only this action, such as hook.create; hook matches every hook.… action.")
    ] = None

    async def selection(self, reader: Reader) -> audit_queries.Selection:
        place = await get_organization(reader, self.organization) if self.organization else None
        return audit_queries.Selection(
            account_id=place.id if place else None,
            action=self.action.lower() if self.action else None,
            since=parse_rfc3339(self.since) if self.since else None,
            until=parse_rfc3339(self.until) if self.until else None,
        )


@command(app, "list")
async def list_entries(
    context: Context,
    *,
    chosen: EntryOptions,
    limit: Annotated[int, Option("NUMBER", "Number of entries, newest first.", parse=positive)] = 30,
) -> None:
    """List entries of the audit log, newest first."""
    import msgspec

    async with context.services() as services:
        selection = await chosen.selection(services.database)
        rows = await audit_queries.read(services.database, selection, limit=limit, patient=True)
    found = [{"at": to_millis_text(row["at"]), **msgspec.to_builtins(audit_queries.entry_of(row))} for row in rows]
    columns = ("at", "action", "status", "times", "actor", "actor_ip", "token_id", "org", "repo", "target")
    context.print_rows(found, columns, none="No entries match.")


@command(app, "export")
async def export(
    context: Context,
    *,
    output: Annotated[Path | None, Argument("FILE", "File to write. Default: standard output.")] = None,
    chosen: EntryOptions,
) -> None:
    """Write entries of the audit log as JSON lines, oldest first.

    The file appears once it is complete. Until then, an existing file is left unchanged.
    """
    async with context.services() as services:
        selection = await chosen.selection(services.database)
        if output is None:
            await _write(services.database, selection, sys.stdout.buffer, lambda what, done, total: None)
            return
        with show_progress() as progress, _whole_file(output) as file:
            number = await _write(services.database, selection, file, progress)
    context.print_result({"file": str(output), "entries": number}, f"{output}: {counted(number, 'entry', 'entries')}")


async def _write(reader: Reader, selection: audit_queries.Selection, file: IO[bytes], progress: Progress) -> int:
    total, done = await audit_queries.count(reader, selection), 0
    async for rows in audit_queries.read_all(reader, selection, newest_first=False, patient=True):
        file.writelines(visible_json(audit_queries.line_of(row).decode().rstrip("\n")).encode() + b"\n" for row in rows)
        done += len(rows)
        progress("entries", min(done, total), total)
    file.flush()
    return done


@contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write next to the path, and rename once synced to disk. Raises `CliError`."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        remedy = path_remedy() if isinstance(error, PermissionError) else "Choose another file."
        raise CliError(f"{path.absolute()} cannot be written: {error.strerror}.", remedy) from error
    finally:
        draft.unlink(missing_ok=True)
