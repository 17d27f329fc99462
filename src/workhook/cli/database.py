"""`workhook migrate` and `workhook database`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from workhook import bootstrap
from workhook.cli.common import Context, command, every_table, new_app
from workhook.cli.error_messages import CliError, Misuse, explain
from workhook.cli.options import Argument
from workhook.cli.output import complain, show_progress
from workhook.core import config, log
from workhook.core.text import counted

if TYPE_CHECKING:
    from workhook.storage.copying import Copied

app = new_app("Copy databases.")

_FILE = Argument("SQLITE", "The database file, such as data/workhook.db.")


@command(None, "migrate")
async def migrate(context: Context) -> None:
    """Migrate the database to the newest schema. Safe while an older version is running."""
    from workhook.storage import migrate as migrations

    log.configure(context.settings.log_level, context.settings.log_format)  # progress is logged at the info level
    settings = context.settings
    done = await migrations.migrate(settings.sqlite_path, settings.migration_url, bootstrap.import_tables)
    data = {"migrated": done, "schema": migrations.HEAD}
    context.print_result(data, f"{'migrated to' if done else 'nothing to do: already at'} schema {migrations.HEAD}")


@command(app, "copy", settings=())
async def copy(
    context: Context,
    *,
    file: Annotated[str, _FILE],
    url: Annotated[
        str,
        Argument(
            "POSTGRES_URL",
            "postgresql://USER@HOST/NAME, an empty database. The password can be in PGPASSWORD or ~/.pgpass.",
        ),
    ],
) -> None:
    """Copy a SQLite database to PostgreSQL, with every row and its ID.

    Stop the server and every worker first: a file in use is rejected. Once the copy has begun, no server starts with
    the file, so no write is lost. Finally, both sides are read and compared. You can interrupt the copy at any time and
    run it again to continue.

    Secrets remain encrypted with the same key, and files stay where they are: keep secret.key and the files of the data
    folder, or the bucket.
    """
    from workhook.storage.copying import copy as copy_database

    tables = every_table()
    log.configure("warning")
    path = _path(file)
    try:
        config.postgresql_url(url)
    except ValueError:  # the error would reveal the password
        remedy = "In the username and the password, write %2F for /, %40 for @, and %3A for a colon."
        raise Misuse("the PostgreSQL URL must have the form postgresql://USER@HOST/NAME.", remedy) from None
    with _in_words(context, path, url), _interruptible(path), show_progress() as progress:
        done = await copy_database(path, url, tables, progress)
    context.print_result(_to_json(path, done), _sentences(path, done))


@command(app, "release", settings=())
async def release(context: Context, *, file: Annotated[str, _FILE]) -> None:
    """Let servers use a copied file again, even if the copy is incomplete.

    From then on, the file and the copy are independent databases.
    """
    from workhook.storage.copying import CopySource

    path = _path(file)
    with _in_words(context, path, None):
        source = CopySource.open(path)
        try:
            mark = source.release()
        finally:
            source.close()
    where = mark.place if mark else None
    sentence = f"nothing to do: {path} was not copied, and servers can use it"
    if mark is not None:
        sentence = f"servers can use {path} again; the copy at {mark.place} is now an independent database"
    context.print_result({"released": mark is not None, "from": str(path), "to": where}, sentence)


def _path(file: str) -> Path:
    """Return the path of the file. Raises `Misuse` for a server URL, which may contain a password."""
    if "://" in file and not file.startswith("sqlite:///"):
        raise Misuse("SQLITE must be a file, not a URL.", "Name a database file, such as data/workhook.db.")
    path = Path(file.removeprefix("sqlite:///"))
    return path / "workhook.db" if path.is_dir() else path


@contextmanager
def _interruptible(path: Path) -> Iterator[None]:
    """If the copy is interrupted, report what is kept and how to continue."""
    from workhook.storage.migrate import refusal_reason, sqlite_revision

    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt):
        advice = refusal_reason(sqlite_revision(path), path, None)
        untouched = "interrupted: nothing was copied, and the file is unchanged."
        complain([untouched] if advice is None else ["interrupted.", advice])
        raise


@contextmanager
def _in_words(context: Context, path: Path, url: str | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        is_files = url is None or type(error).__module__.partition(".")[0] == "sqlite3"
        named = (f"sqlite:///{path}", "the file") if is_files else (url, "the URL")
        lines = explain(error, replace(context.settings, database_url=named[0]), named[1])
        if lines is None:
            raise
        raise CliError(lines[0], "\n".join(lines[1:])) from error


def _to_json(path: Path, done: Copied) -> dict[str, object]:
    from workhook.storage.migrate import HEAD

    return {
        "from": str(path),
        "to": done.place,
        "schema": HEAD,
        "resumed": done.resumed,
        "rows": done.rows,
        "tables": {name: {"rows": each.rows, "checksum": each.text()} for name, each in sorted(done.tables.items())},
    }


def _sentences(path: Path, done: Copied) -> str:
    copied = f"{counted(done.rows, 'row')} of {counted(len(done.tables), 'table')}"
    return (
        f"copied {copied} to {done.place}; both sides match\n"
        "Now set WORKHOOK_DATABASE_URL and start the server. Keep secret.key (or WORKHOOK_SECRET_KEY): secrets are\n"
        "encrypted with it as before. Files stay where they are. Servers no longer start with the SQLite file;\n"
        f"keep {path} until you have a backup of PostgreSQL."
    )
