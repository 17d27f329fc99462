"""A backup of an installation: a folder with the database, the files it references, and a manifest.

manifest.json   describes the backup; written last, so a backup without it is incomplete
SHA256SUMS      SHA-256 of the database and of each file, in the format of `sha256sum -c`
workhook.db     the database at one moment, as a SQLite file even for PostgreSQL
files/          the content of each file, laid out as in a data folder
secret.key      only if requested
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import sqlalchemy as sa

from workhook.core.clock import now_ms, to_millis_text
from workhook.core.errors import Unavailable
from workhook.core.vault import KEY_FILE
from workhook.storage import migrate, row_stream
from workhook.storage.blobs import FOLDER, NAME, BlobMissing, Blobs, FolderBlobs, sync
from workhook.storage.copying import CopySource
from workhook.storage.migrate import HEAD
from workhook.storage.row_stream import CopyRefused, Progress, Sum

PAGES_A_STEP = 512
PAGES, ROWS = "pages of the database copied", "rows of the database copied"
FORMAT = 1
MANIFEST, SUMS, DATABASE = "manifest.json", "SHA256SUMS", "workhook.db"
AT_ONCE = 8
FILES, CHECKED = "files copied", "files of the backup checked"
_HASH_BYTES = 1 << 20

T = TypeVar("T")

_FILES = "SELECT blob, size, sha256 FROM files UNION ALL SELECT blob, size, sha256 FROM billing_logos ORDER BY blob"
# The triggers of the search fill tables that exist only on SQLite. Rows that the others would write are copied.
_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, 7) <> 'search_'"


# --- the database, at one moment --------------------------------------------------------------------------------------
# SQLite's online backup and a transaction of PostgreSQL block no writers. Both sides are compared.


def _other_schema(found: str | None) -> CopyRefused:
    problem = f"another version of Workhook has migrated the database to schema {found}."
    return CopyRefused(problem, "Use that version.")


class StoredFile(NamedTuple):
    """A file that the database references. `blob` is its name in the store, `size` is in bytes."""

    blob: str
    size: int
    sha256: str


class DatabaseSource:
    """The database to take a snapshot of: a SQLite file, or PostgreSQL by URL."""

    def __init__(self, path: Path | None, url: str | None, tables: Sequence[sa.Table]) -> None:
        self._path, self._url, self._tables = path, url, tables

    @property
    def kind(self) -> str:
        return "postgresql" if self._path is None else "sqlite"

    async def files(self) -> list[StoredFile]:
        """Return the files that the database currently references. Raises the drivers' errors."""
        if self._path is not None:
            return await asyncio.to_thread(files_of, self._path)
        connection = await row_stream.connect(self._url or "")
        try:
            return [StoredFile(*row) for row in await connection.fetch(_FILES)]
        finally:
            await connection.close(timeout=row_stream.CONNECT_TIMEOUT_S)

    async def take(self, target: Path, progress: Progress) -> None:
        """Write the snapshot to `target`, a new private file, durably. Raises `CopyRefused` and the drivers' errors."""
        if self._path is not None:
            await _copy_privately(self._path, target, progress)
            if (found := await asyncio.to_thread(migrate.sqlite_revision, target)) != HEAD:
                raise _other_schema(found)
        else:
            await _copy_postgresql(self._url or "", target, self._tables, progress)
        await asyncio.to_thread(sync, target, target.parent)


def files_of(path: Path) -> list[StoredFile]:
    with row_stream.open_connection(path) as connection:
        return [StoredFile(*row) for row in connection.execute(_FILES)]


def count_rows(path: Path, tables: Sequence[sa.Table]) -> dict[str, int]:
    with row_stream.open_connection(path) as connection:
        return {each.name: row_stream.count_in_file(connection, each) for each in tables}


async def _copy_privately(source: Path, target: Path, progress: Progress) -> None:
    """Copy a SQLite file to a new private one, as of one moment. Raises `sqlite3.Error` and `FileExistsError`."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    await _in_thread(lambda stop: _copy_file(source, target, progress, stop))


class _Stopped(Exception):
    """The caller no longer waits for the copy."""


def _copy_file(source: Path, target: Path, progress: Progress, stop: threading.Event) -> None:
    def step(status: int, remaining: int, total: int) -> None:
        if stop.is_set():
            raise _Stopped
        progress(PAGES, total - remaining, total)

    with row_stream.open_connection(source) as ours, closing(sqlite3.connect(target, isolation_level=None)) as theirs:
        theirs.execute("PRAGMA synchronous=OFF")  # the whole file is synced at the end
        # An open read transaction pins this moment. Otherwise each write of another process would restart the copy.
        ours.execute("BEGIN")
        ours.execute("SELECT 1 FROM sqlite_master").fetchone()
        ours.backup(theirs, pages=PAGES_A_STEP, progress=step)
        ours.execute("COMMIT")
        # The copy is marked as using a write-ahead log, but must be a single self-contained file.
        theirs.execute("PRAGMA journal_mode=DELETE")


def set_revision(path: Path, revision: str) -> None:
    """Set the schema revision of a SQLite file and sync it. With `migrate.RESTORING`, no version opens the file."""
    with row_stream.open_connection(path, writable=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    sync(path, path.parent)


# PostgreSQL:


async def _copy_postgresql(url: str, target: Path, tables: Sequence[sa.Table], progress: Progress) -> None:
    await asyncio.to_thread(migrate.migrate_sqlite, target, lambda: None)  # the caller has imported the tables
    connection = await row_stream.connect(url)
    try:
        with row_stream.open_connection(target, writable=True) as writer:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                sums = await _copy_rows(connection, writer, tables, progress)
            await _copy_numbers(connection, writer, tables)
            writer.execute("PRAGMA journal_mode=DELETE")
    finally:
        await connection.close(timeout=row_stream.CONNECT_TIMEOUT_S)
    wrong = await asyncio.to_thread(_differing, target, tables, sums)
    if wrong:
        problem = f"the rows of the copy differ from the database: {', '.join(wrong)}."
        raise CopyRefused(problem, "Rerun the command with another folder.")


async def _copy_rows(
    connection: Any, writer: sqlite3.Connection, tables: Sequence[sa.Table], progress: Progress
) -> dict[str, Sum]:
    """Copy the rows and return their sums by table. Raises `CopyRefused`."""
    if (found := await migrate.postgresql_revision(connection)) != HEAD:
        raise _other_schema(found)
    counts = [await connection.fetchval(f'SELECT count(*) FROM "{each.name}"') for each in tables]  # noqa: S608  # ours
    total, done, sums = sum(counts), 0, dict[str, Sum]()
    # No rollback is needed, because a failed copy is discarded.
    writer.execute("PRAGMA journal_mode=OFF")
    writer.execute("PRAGMA synchronous=OFF")
    triggers = writer.execute(_TRIGGERS).fetchall()
    for name, _ in triggers:
        writer.execute(f'DROP TRIGGER "{name}"')
    for table in tables:
        read = Sum()
        async for rows in row_stream.read_postgresql(connection, table, row_stream.ROWS_A_PART // 10):
            read = read.plus(rows)
            _insert(writer, table, rows)
            done += len(rows)
            progress(ROWS, done, total)
        sums[table.name] = read
    for _, text in triggers:
        writer.execute(text)
    return sums


def _insert(writer: sqlite3.Connection, table: sa.Table, rows: Sequence[Sequence[Any]]) -> None:
    places = ", ".join("?" * len(table.columns))
    writer.execute("BEGIN")
    writer.executemany(f'INSERT INTO "{table.name}" ({row_stream.columns_of(table)}) VALUES ({places})', rows)  # noqa: S608  # ours
    writer.execute("COMMIT")


async def _copy_numbers(connection: Any, writer: sqlite3.Connection, tables: Sequence[sa.Table]) -> None:
    """Copy the sequences, so that no ID is reused. They only grow, so they are read last."""
    for table in tables:
        if not table.dialect_options["sqlite"]["autoincrement"]:
            continue
        if (sequence := await row_stream.sequence_of(connection, table)) is None:
            continue
        row = await connection.fetchrow(f"SELECT last_value, is_called FROM {sequence}")  # noqa: S608  # PostgreSQL's
        if row["is_called"]:
            writer.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
            writer.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, row["last_value"]))


def _differing(target: Path, tables: Sequence[sa.Table], sums: dict[str, Sum]) -> list[str]:
    source = CopySource.open(target)
    try:
        return [each.name for each in tables if source.sum(each)[0] != sums[each.name]]
    finally:
        source.close()


# --- files, and the backup as a whole ---------------------------------------------------------------------------------


class BlobCopy:
    """A copy of blobs, hard-linking those that an earlier backup already has (`linked` counts them).

    `missing` are blobs that the store lacks or has only partially. `damaged` are blobs whose SHA-256 differs from the
    database's; they are copied unchanged.
    """

    def __init__(
        self,
        source: Blobs,
        target: Blobs,
        progress: Progress,
        earlier: EarlierBackup | None = None,
    ) -> None:
        self._source, self._target, self._progress, self._earlier = source, target, progress, earlier
        self.linked = 0
        self.sums: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.missing: set[str] = set()
        self.damaged: set[str] = set()
        self._done = 0

    async def copy(self, files: Collection[StoredFile]) -> None:
        """Copy files. Raises `CopyRefused`, and `OSError` if the disk is full."""
        self._done = 0
        waiting = iter(files)
        tasks = [asyncio.create_task(self._work(waiting, len(files))) for _ in range(min(AT_ONCE, len(files)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def keep_only(self, names: Collection[str]) -> None:
        """Delete copied blobs with other names from the target. Raises `CopyRefused`."""
        others = sorted(self.sums.keys() - names)
        try:
            await self._target.delete(others)
        except Unavailable as error:
            raise _trouble("written", error) from error
        for each in others:
            del self.sums[each], self.sizes[each]
        self.missing &= set(names)
        self.damaged &= set(names)

    async def _work(self, waiting: Iterator[StoredFile], total: int) -> None:
        for file in waiting:
            try:
                await self._copy_one(file)
            except BlobMissing:
                self.missing.add(file.blob)
            else:
                self.missing.discard(file.blob)
            self._done += 1
            self._progress(FILES, self._done, total)

    async def _copy_one(self, file: StoredFile) -> None:
        if self._earlier is not None and await self._earlier.share_file(file, self._target):
            self.sums[file.blob], self.sizes[file.blob] = file.sha256, file.size
            self.linked += 1
            return
        try:
            async with self._target.incoming(file.blob) as incoming:
                async for piece in self._read(file):
                    await incoming.write(piece)
                await incoming.keep()
        except Unavailable as error:
            if error.code == "storage_full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise _trouble("written", error) from error
        self.sums[file.blob], self.sizes[file.blob] = incoming.sha256, incoming.size
        if incoming.sha256 != file.sha256:
            self.damaged.add(file.blob)

    async def _read(self, file: StoredFile) -> AsyncIterator[bytes]:
        try:
            async for piece in await self._source.read(file.blob, 0, file.size):
                yield piece
        except Unavailable as error:
            raise _trouble("read", error) from error


def _trouble(done: str, error: Unavailable) -> CopyRefused:
    reason = str(error.__cause__ or error).partition("\n")[0].rstrip(".")
    remedy = "Check --files-url (WORKHOOK_FILES_URL) and --data (WORKHOOK_DATA), and the permissions of this user."
    return CopyRefused(f"the files cannot be {done}: {reason}.", remedy)


class CopiedDatabase(msgspec.Struct, frozen=True):
    """The database in a backup. `copied_from` is `sqlite` or `postgresql`, and `rows` counts rows by table."""

    copied_from: str
    bytes: int
    sha256: str
    rows: dict[str, int]


class CopiedFiles(msgspec.Struct, frozen=True):
    """The files in a backup. For `missing` and `damaged`, see `BlobCopy`."""

    count: int
    bytes: int
    missing: list[str]
    damaged: list[str]


class EarlierBackup:
    """A complete backup next to the new one, which shares its unchanged files through hard links.

    Either backup can be deleted. A file is hashed before it is shared, so damage does not spread.
    """

    def __init__(self, folder: Path, sums: dict[str, str]) -> None:
        self._folder, self._sums = folder, sums

    @classmethod
    def newest_beside(cls, folder: Path) -> EarlierBackup | None:
        """Return the newest complete and readable backup in the same folder, or None."""
        found = list[tuple[str, Path, Manifest]]()
        try:
            beside = [each for each in folder.parent.iterdir() if each != folder]
        except OSError:
            return None
        for each in beside:
            try:
                if not (each / MANIFEST).is_file():
                    continue
                manifest = read_manifest(each)
            except (CopyRefused, OSError):
                continue
            found.append((manifest.created_at, each, manifest))
        for _, each, manifest in sorted(found, key=lambda one: one[0], reverse=True):
            try:
                return cls(each, _read_sums(each, manifest))
            except (CopyRefused, OSError):
                continue
        return None

    async def share_file(self, file: StoredFile, target: Blobs) -> bool:
        """Hard-link this backup's copy of a file into the target.

        Returns False if the copy is missing or damaged, or if linking is impossible.
        """
        if self._sums.get(file.blob) != file.sha256 or not isinstance(target, FolderBlobs):
            return False
        path = self._folder / _path(file.blob)
        if not await _in_thread(lambda stop: _is_whole(path, file, stop)):
            return False
        return await target.share(path, file.blob)


def _is_whole(path: Path, file: StoredFile, stop: threading.Event) -> bool:
    try:
        return path.stat().st_size == file.size and _hash(path, stop) == file.sha256
    except OSError:
        return False


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a backup. `workhook` is the version that created it.

    `created_at` is when copying the database began, and `sums_sha256` is the SHA-256 of the file with all sums.
    """

    format: int
    workhook: str
    schema: str
    created_at: str
    database: CopiedDatabase
    files: CopiedFiles
    key: bool
    sums_sha256: str


async def create_backup(
    folder: Path,
    source: DatabaseSource,
    blobs: Blobs,
    tables: Sequence[sa.Table],
    version: str,
    read_keys: Callable[[], Sequence[bytes]] | None,
    progress: Progress,
    *,
    copy_all: bool = False,
) -> tuple[Manifest, int]:
    """Write a backup into `folder`, which must be empty or not exist yet.

    `read_keys` returns the keys to include. With `copy_all`, no files are shared with an earlier backup. Files are
    copied first, then the database, then the files added in between, so that every file that the database references is
    included, even if it was deleted right afterwards.

    Returns the manifest and the number of shared files. Raises `CopyRefused`, `OSError` and the drivers' errors.
    """
    _make_folder(folder)
    earlier = None if copy_all else await asyncio.to_thread(EarlierBackup.newest_beside, folder)
    keys = list(read_keys()) if read_keys is not None else []
    store = FolderBlobs(folder / FOLDER)
    try:
        copy = BlobCopy(blobs, store, progress, earlier)
        await copy.copy(await source.files())
        created_at = now_ms()
        await source.take(folder / DATABASE, progress)
        named = {each.blob: each for each in await asyncio.to_thread(files_of, folder / DATABASE)}
        await copy.keep_only(named.keys())
        await copy.copy([each for name, each in named.items() if name not in copy.sums])
    finally:
        store.close()
    if store.drafts.is_dir():
        store.drafts.rmdir()
    if read_keys is not None:
        # A rotation in the meantime may have dropped the older key, and the copy has secrets sealed with either.
        newest = list(read_keys())
        _write(folder / KEY_FILE, b"".join(key + b"\n" for key in dict.fromkeys([*newest, *keys])))
    made = await _finish(folder, source.kind, copy, tables, version, created_at, read_keys is not None)
    return made, copy.linked


async def _finish(
    folder: Path, kind: str, copy: BlobCopy, tables: Sequence[sa.Table], version: str, created_at: int, with_key: bool
) -> Manifest:
    path = folder / DATABASE
    sha256 = await _in_thread(lambda stop: _hash(path, stop))
    lines = [f"{sha256}  {DATABASE}\n", *(f"{copy.sums[name]}  {_path(name)}\n" for name in sorted(copy.sums))]
    sums = "".join(lines).encode()
    _write(folder / SUMS, sums)
    manifest = Manifest(
        format=FORMAT,
        workhook=version,
        schema=HEAD,
        created_at=to_millis_text(created_at),
        database=CopiedDatabase(kind, path.stat().st_size, sha256, await asyncio.to_thread(count_rows, path, tables)),
        files=CopiedFiles(len(copy.sums), sum(copy.sizes.values()), sorted(copy.missing), sorted(copy.damaged)),
        key=with_key,
        sums_sha256=hashlib.sha256(sums).hexdigest(),
    )
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    _write(folder / MANIFEST, text + b"\n")
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Read a manifest. Raises `CopyRefused` if the backup is incomplete or was made by a newer version."""
    try:
        data = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_dir():
            raise CopyRefused(f"folder {folder} does not exist.", "Name the folder of a backup.") from None
        problem = f"{folder} is not a complete backup: {MANIFEST}, which is written last, is missing."
        raise CopyRefused(problem, "Use another backup: this one was interrupted, or is not a backup.") from None
    try:
        form = msgspec.json.decode(data, type=dict[str, Any]).get("format")
        if isinstance(form, int) and form > FORMAT:
            raise CopyRefused(
                f"the backup in {folder} was created by a newer version of Workhook.", "Restore it with that version."
            )
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CopyRefused(f"{folder / MANIFEST} is damaged: {error}.", "Use another backup.") from None
    if manifest.schema not in migrate.known_revisions():
        raise CopyRefused(
            f"the backup has schema {manifest.schema}, which this version of Workhook ({HEAD}) does not know.",
            f"Install Workhook {manifest.workhook}, which created it, or a newer version.",
        )
    return manifest


async def verify(folder: Path, manifest: Manifest, progress: Progress) -> list[StoredFile]:
    """Check every file of the backup against its SHA-256, and return the files. Raises `CopyRefused`."""
    return await _in_thread(lambda stop: _verify(folder, manifest, progress, stop))


def _verify(folder: Path, manifest: Manifest, progress: Progress, stop: threading.Event) -> list[StoredFile]:
    sums = _read_sums(folder, manifest)
    found = list[StoredFile]()
    for done, (name, sha256) in enumerate(sums.items(), 1):
        path = folder / (DATABASE if name == DATABASE else _path(name))
        try:
            actual, size = _hash(path, stop), path.stat().st_size
        except FileNotFoundError:
            raise _damaged(f"{path} is missing") from None
        if actual != sha256:
            raise _damaged(f"{path} has changed since the backup")
        if name != DATABASE:
            found.append(StoredFile(name, size, sha256))
        progress(CHECKED, done, len(sums))
    return found


def _read_sums(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Return the SHA-256 of the database and of each blob, by name."""
    path = folder / SUMS
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _damaged(f"{path} is missing") from None
    if hashlib.sha256(data).hexdigest() != manifest.sums_sha256:
        raise _damaged(f"{path} has changed since the backup")
    sums = dict[str, str]()
    for line in data.decode().splitlines():
        sha256, _, name = line.partition("  ")
        sums[name.rpartition("/")[2]] = sha256
    wrong = [name for name in sums if name != DATABASE and not NAME.fullmatch(name)]
    if wrong or sums.get(DATABASE) != manifest.database.sha256 or len(sums) != manifest.files.count + 1:
        raise _damaged(f"{path} does not belong to {MANIFEST}")
    return sums


def _damaged(problem: str) -> CopyRefused:
    return CopyRefused(f"the backup is damaged: {problem}.", "Nothing was restored. Use another backup.")


async def restore_database(folder: Path, target: Path, progress: Progress) -> None:
    """Copy the database of a backup to `target`, which must not exist."""
    await _copy_privately(folder / DATABASE, target, progress)


def _path(blob: str) -> str:
    """Return the path of a blob relative to the backup's folder, as `FolderBlobs` lays it out."""
    return f"{FOLDER}/{blob[-2:]}/{blob}"


def _make_folder(folder: Path) -> None:
    """Create the folder. Raises `CopyRefused` if it is not empty."""
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if not folder.is_dir():
            raise CopyRefused(f"{folder} is not a folder.", "Name an empty or new folder.") from None
        if any(folder.iterdir()):
            remedy = "Name an empty or new folder. An interrupted backup can be deleted."
            raise CopyRefused(f"{folder} is not empty.", remedy) from None
        folder.chmod(0o700)


def _write(path: Path, data: bytes) -> None:
    """Write a private file atomically and durably."""
    draft = path.with_name(f".{path.name}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync(path.parent)


async def _in_thread(job: Callable[[threading.Event], T]) -> T:
    """Run a job in a thread. The event tells it to stop because the caller no longer waits."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(job, stop)
    finally:
        stop.set()


def _hash(path: Path, stop: threading.Event) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_HASH_BYTES):
            if stop.is_set():
                raise InterruptedError
            digest.update(data)
    return digest.hexdigest()
