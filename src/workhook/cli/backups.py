"""`workhook backup` and `workhook restore`."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from workhook import bootstrap
from workhook.cli.common import Context, command, every_table, first_value, revision
from workhook.cli.error_messages import CliError, disk_full_error, is_disk_full, missing_data_error
from workhook.cli.options import Argument, Flag
from workhook.cli.output import Progress, complain, interrupted, show_progress, write_private
from workhook.core import log, vault
from workhook.core.config import Settings
from workhook.core.text import counted

if TYPE_CHECKING:
    from workhook.storage.backups import Manifest


@command(None, "backup", settings=("data", "database_url", "files_url"))
async def backup(
    context: Context,
    *,
    folder: Annotated[str, Argument("DIR", "An empty or new folder.")],
    with_key: Annotated[bool, Flag("Include the secret key in the backup.")] = False,
    copy_all: Annotated[bool, Flag("Copy every file, even those the previous backup already has.")] = False,
) -> None:
    """Back up the database and the files while servers are running.

    A backup is a complete, consistent snapshot, readable only by the user who makes it. Use `workhook restore` to
    restore it to SQLite or PostgreSQL.

    Files contained in the newest backup in the same folder are not copied again: both backups share them on disk.
    Either one can be deleted independently.

    The secret key is not included unless you use --with-key, because anyone who has both can read the secrets of
    webhooks. Keep secret.key elsewhere. A restored database is unusable without it.
    """
    from workhook import __version__  # a checkout runs git
    from workhook.storage.backups import DatabaseSource, create_backup

    tables = every_table()
    log.configure("error")
    settings, path = context.settings, Path(folder)
    await _require_schema(settings)
    source = DatabaseSource(settings.sqlite_path, settings.migration_url, tables)
    blobs = bootstrap.open_blobs(settings.data, settings.files_url)
    read_keys = (lambda: _keys(settings)) if with_key else None
    try:
        left = f"{path} does not contain a complete backup and can be deleted."
        with _on_disks(settings, path), interrupted(left), show_progress(lines=False) as progress:
            made, linked = await create_backup(
                path, source, blobs, tables, __version__, read_keys, progress, copy_all=copy_all
            )
    finally:
        blobs.close()
    _warn(made, "the file store")
    answer = {"backup": str(path), **_to_json(made), "files_linked": linked}
    context.print_result(answer, _sentences(path, made, linked))


async def _require_schema(settings: Settings) -> None:
    from workhook.storage import migrate

    found = await revision(settings)
    if found is None:
        raise missing_data_error(settings)
    if (reason := migrate.refusal_reason(found, settings.sqlite_path, settings.database_url)) is not None:
        raise CliError("servers cannot use this database.", reason)
    if found != migrate.HEAD:
        raise CliError(
            f"the database has schema {found}, and this version of Workhook backs up schema {migrate.HEAD}.",
            "Use the version of Workhook that is running there, or run `workhook migrate` first.",
        )
    if await first_value(settings, "SELECT id FROM accounts LIMIT 1") is None:
        raise CliError(
            "the database contains no accounts, so there is nothing to back up.",
            "Check --database-url (WORKHOOK_DATABASE_URL) and --data (WORKHOOK_DATA).",
        )


def _keys(settings: Settings) -> Sequence[bytes]:
    if settings.secret_key:
        return vault.setting_keys(settings.secret_key)
    return vault.read_keys(settings.data / vault.KEY_FILE)


@contextmanager
def _on_disks(settings: Settings, folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL or is_disk_full(error):
            raise disk_full_error(folder, ", but keep its secret.key" if folder == settings.data else "") from error
        if code == sqlite3.SQLITE_IOERR:  # SQLite does not report which of the two files
            both = f"{settings.sqlite_path or settings.data} and {folder}"
            raise CliError(f"{both}: {error}.", "Check both disks and their free space.") from error
        raise


def _warn(made: Manifest, where: str) -> None:
    for names, finding in ((made.files.missing, "missing"), (made.files.damaged, "with different content")):
        if names:
            complain([f"{finding} in {where}: {counted(len(names), 'file')} of the database.", "See the manifest."])


def _to_json(made: Manifest) -> dict[str, Any]:
    return {
        "schema": made.schema,
        "version": made.workhook,
        "created_at": made.created_at,
        "rows": sum(made.database.rows.values()),
        "database_bytes": made.database.bytes,
        "files": made.files.count,
        "files_bytes": made.files.bytes,
        "missing": made.files.missing,
        "damaged": made.files.damaged,
        "key": made.key,
    }


def _counts(made: Manifest) -> str:
    rows = sum(made.database.rows.values())
    return f"{counted(rows, 'row')} and {counted(made.files.count, 'file')} of {made.created_at}"


def _sentences(folder: Path, made: Manifest, linked: int) -> str:
    if made.key:
        key = (
            f"The secret key is in {folder / vault.KEY_FILE}. Move it elsewhere: anyone who has both can read\n"
            "the secrets of webhooks."
        )
    else:
        key = "The secret key is not in it: keep secret.key (or WORKHOOK_SECRET_KEY) elsewhere. A restore needs it."
    shared = f", {linked:,} of them shared with the previous backup" if linked else ""
    return f"backed up {_counts(made)} to {folder}{shared}\n{key}"


@command(None, "restore", settings=("data", "database_url", "files_url"))
async def restore(
    context: Context, *, folder: Annotated[str, Argument("DIR", "A folder created by `workhook backup`.")]
) -> None:
    """Restore a backup to an empty data folder or database.

    The whole backup is verified first. With --database-url, the database is restored to PostgreSQL, wherever it came
    from. With --files-url, the files are restored to a bucket.

    The data folder may already contain secret.key and workhook.toml. The key is checked. If the backup includes a key
    and the folder has none, the key is restored too.
    """
    from workhook.storage.backups import read_manifest, verify

    log.configure("error")
    settings, path = context.settings, Path(folder)
    with _on_disks(settings, path):
        made = read_manifest(path)
        await _require_empty(settings)
        with show_progress(lines=False) as progress:
            files = await verify(path, made, progress)
    key = _check_key(settings, path)
    left = f"The data in {settings.data} is incomplete. Delete it, but keep secret.key."
    with _on_disks(settings, settings.data), interrupted(left), show_progress(lines=False) as progress:
        rows = await _restore(settings, path, made, files, progress)
        if key == "restored":
            write_private(settings.data / vault.KEY_FILE, (path / vault.KEY_FILE).read_bytes())
    _warn(made, "the backup")
    answer = {"restored": str(path), **_to_json(made), "rows": rows, "key": key}
    sentence = f"restored {_counts(made)} from {path}"
    if key == "missing":
        sentence += f"\nNow put secret.key into {settings.data}: no server starts without it."
    context.print_result(answer, sentence)


async def _require_empty(settings: Settings) -> None:
    data, sqlite_path, may_stay = settings.data, settings.sqlite_path, (vault.KEY_FILE, "workhook.toml")
    present = sorted(each.name for each in data.iterdir() if each.name not in may_stay) if data.is_dir() else []
    if present:
        remedy = "Set --data or WORKHOOK_DATA to another folder. It may contain only secret.key and workhook.toml."
        raise CliError(f"the data folder {data} is not empty: it contains {', '.join(present[:3])}.", remedy)
    if sqlite_path is not None:
        if sqlite_path.exists():
            raise CliError(f"the database {sqlite_path} already exists.", "Set --database-url to another file.")
        return
    from workhook.storage.copying import CopyTarget

    target = await CopyTarget.open(settings.migration_url or "", every_table())
    try:
        if await target.unfinished_token() is not None:
            reason = "the database contains an interrupted copy or restore."
            raise CliError(reason, "Drop it, create it again, and rerun the command.")
    finally:
        await target.close()


def _check_key(settings: Settings, folder: Path) -> str:
    """Return whether the key is `present`, `restored` from the backup or `missing`. Raises `CliError` if wrong."""
    from workhook.storage.backups import DATABASE
    from workhook.storage.row_stream import open_connection

    with open_connection(folder / DATABASE) as connection:
        row = connection.execute("SELECT sealed FROM key_check").fetchone()
    own, theirs = settings.data / vault.KEY_FILE, folder / vault.KEY_FILE
    where, state = ("WORKHOOK_SECRET_KEY", "present") if settings.secret_key else (str(own), "present")
    if not settings.secret_key and not own.exists():
        if not theirs.exists():
            return "missing"
        where, state = str(theirs), "restored"
    try:
        keys = vault.setting_keys(settings.secret_key) if settings.secret_key else vault.read_keys(Path(where))
        vault.Vault(keys).open(bytes(row[0]) if row else None)
    except vault.VaultError:
        reason = f"{where} is not the key that the backup was made with."
        raise CliError(reason, "Nothing was restored. Use the key that belongs to the backup.") from None
    return state


async def _restore(settings: Settings, folder: Path, made: Manifest, files: Sequence[Any], progress: Progress) -> int:
    from workhook.storage.backups import BlobCopy, restore_database, set_revision
    from workhook.storage.blobs import FOLDER, FolderBlobs
    from workhook.storage.migrate import RESTORING

    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (path := settings.sqlite_path) is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.restoring")
        draft.unlink(missing_ok=True)
        await restore_database(folder, draft, progress)
        set_revision(draft, RESTORING)  # incomplete without the files
        draft.rename(path)
    source, target = FolderBlobs(folder / FOLDER), bootstrap.open_blobs(settings.data, settings.files_url)
    try:
        await BlobCopy(source, target, progress).copy(files)
    finally:
        source.close()
        target.close()
    if path is None:
        return await _fill_postgresql(settings, folder, progress)
    set_revision(path, made.schema)
    return sum(made.database.rows.values())


async def _fill_postgresql(settings: Settings, folder: Path, progress: Progress) -> int:
    """Copy from a temporary copy of the backup, because copying changes its source. Returns the number of rows."""
    from workhook.storage.backups import restore_database
    from workhook.storage.copying import copy
    from workhook.storage.migrate import migrate_sqlite

    between = settings.data / "restoring"
    between.mkdir(mode=0o700)
    try:
        await restore_database(folder, between / "workhook.db", progress)
        migrate_sqlite(between / "workhook.db", every_table)
        done = await copy(between / "workhook.db", settings.migration_url or "", every_table(), progress)
    finally:
        shutil.rmtree(between)
    return done.rows
