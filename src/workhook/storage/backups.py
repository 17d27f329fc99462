"""A backup of a studio: a folder with the database, the files that it names, and a manifest.

manifest.json   what the backup is; written last, so that a backup without it is not whole
SHA256SUMS      the SHA-256 of the database and of each file, as `sha256sum -c` reads it
workhook.db     the database as it was at one moment, also of PostgreSQL
files/          the content of each file, as in a data folder
secret.key      only if it was asked for
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from workhook.core.clock import now_ms, to_millis_text
from workhook.core.errors import Unavailable
from workhook.core.vault import KEY_FILE
from workhook.storage.blobs import FOLDER, NAME, BlobMissing, Blobs, FolderBlobs
from workhook.storage.migrate import HEAD, known_revisions
from workhook.storage.row_stream import CopyRefused
from workhook.storage.snapshots import DatabaseSource, StoredFile, copy_file, count_rows, files_of, make_private, sync

FORMAT = 1
MANIFEST, SUMS, DATABASE = "manifest.json", "SHA256SUMS", "workhook.db"
AT_ONCE = 8
FILES, CHECKED = "files copied", "files of the backup checked"
_HASH_BYTES = 1 << 20

T = TypeVar("T")

Progress = Callable[[str, int, int], None]


class BlobCopy:
    """What was copied so far. `linked`: how many contents of `earlier` are shared instead.

    `sums`: the SHA-256 of each copied blob, in hexadecimal, by its name; `size`: bytes of all of them. `missing`: blobs
    that the database names and the store has not, or not whole. `damaged`: blobs with another content than the database
    says; they are copied as they are.
    """

    def __init__(
        self,
        source: Blobs,
        target: Blobs,
        progress: Callable[[str, int, int], None],
        earlier: EarlierBackup | None = None,
    ) -> None:
        self._source, self._target, self._progress, self._earlier = source, target, progress, earlier
        self.linked = 0
        self.sums: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.missing: set[str] = set()
        self.damaged: set[str] = set()
        self._done = 0

    @property
    def size(self) -> int:
        return sum(self.sizes.values())

    async def copy(self, files: Collection[StoredFile]) -> None:
        """Raises `CopyRefused`, and `OSError` where there is no room."""
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
        """Delete from the target what was copied and has another name. Raises `CopyRefused`."""
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
        if self._earlier is not None and await self._earlier.give(file, self._target):
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
    remedy = "Check --files-url (WORKHOOK_FILES_URL) and --data (WORKHOOK_DATA), and what this user may do there."
    return CopyRefused(f"the files cannot be {done}: {reason}.", remedy)


class CopiedDatabase(msgspec.Struct, frozen=True):
    """`copied_from`: `sqlite` or `postgresql`; `rows`: by table."""

    copied_from: str
    bytes: int
    sha256: str
    rows: dict[str, int]


class CopiedFiles(msgspec.Struct, frozen=True):
    """`missing`: blobs that the database names and the store had not; `damaged`: those with another content than the
    database says."""

    count: int
    bytes: int
    missing: list[str]
    damaged: list[str]


class EarlierBackup:
    """A whole backup beside the new one, whose unchanged files the new one shares by links of the file system.

    Each backup stays whole by itself: deleting one deletes its names of the files. A file is hashed before it is
    shared, so that damage is not passed on.
    """

    def __init__(self, folder: Path, sums: dict[str, str]) -> None:
        self._folder, self._sums = folder, sums

    @classmethod
    def newest_beside(cls, folder: Path) -> EarlierBackup | None:
        """Return the newest whole backup in the same folder, or None without one that can be read."""
        found = list[tuple[str, Path, Manifest]]()
        for each in folder.parent.iterdir() if folder.parent.is_dir() else ():
            if each != folder and (each / MANIFEST).is_file():
                try:
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

    async def give(self, file: StoredFile, target: Blobs) -> bool:
        """Share the content with the target. Return False without one of this SHA-256 and size."""
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
    """`workhook`: the version that made it; `created_at`: when the copy of the database began; `sums_sha256`: of the
    file SHA256SUMS."""

    format: int
    workhook: str
    schema: str
    created_at: str
    database: CopiedDatabase
    files: CopiedFiles
    key: bool
    sums_sha256: str


class Made(NamedTuple):
    """A new backup. `linked`: how many of its files it shares with the one before."""

    manifest: Manifest
    linked: int


async def make_backup(
    folder: Path,
    source: DatabaseSource,
    blobs: Blobs,
    tables: Sequence[Any],
    version: str,
    read_keys: Callable[[], Sequence[bytes]] | None,
    progress: Progress,
    *,
    copy_all: bool = False,
) -> Made:
    """Write a backup into `folder`, which has to be empty or not there. `read_keys`: the keys to put into it.
    `copy_all`: share no files with an earlier backup.

    Files are copied first, then the database, then the files that came meanwhile. So what the database names is there,
    even if it was deleted for good right after, and the database is from the end of the backup.

    Raises `CopyRefused`, `OSError`, and what the drivers raise.
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
        # A rotation meanwhile may have dropped the older key, and what the copy holds is sealed with either.
        newest = list(read_keys())
        _write(folder / KEY_FILE, b"".join(key + b"\n" for key in dict.fromkeys([*newest, *keys])))
    made = await _finish(folder, source.kind, copy, tables, version, created_at, read_keys is not None)
    return Made(made, copy.linked)


async def _finish(
    folder: Path, kind: str, copy: BlobCopy, tables: Sequence[Any], version: str, created_at: int, with_key: bool
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
        files=CopiedFiles(len(copy.sums), copy.size, sorted(copy.missing), sorted(copy.damaged)),
        key=with_key,
        sums_sha256=hashlib.sha256(sums).hexdigest(),
    )
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    _write(folder / MANIFEST, text + b"\n")
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Raises `CopyRefused` for a backup that is not whole, or that a newer version made."""
    try:
        data = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_dir():
            raise CopyRefused(f"there is no folder {folder}.", "Give the folder of a backup.") from None
        what = f"{folder} holds no whole backup: it has no {MANIFEST}, which is written last."
        raise CopyRefused(what, "Give another backup. This one was interrupted, or it is none.") from None
    try:
        form = msgspec.json.decode(data, type=dict[str, Any]).get("format")
        if isinstance(form, int) and form > FORMAT:
            raise CopyRefused(f"a newer version of Workhook made the backup in {folder}.", "Restore it with that one.")
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CopyRefused(f"{folder / MANIFEST} is damaged: {error}.", "Give another backup.") from None
    if manifest.schema not in known_revisions():
        raise CopyRefused(
            f"the backup has schema {manifest.schema}, which this version of Workhook ({HEAD}) does not know.",
            f"Install Workhook {manifest.workhook}, which made it, or a newer version.",
        )
    return manifest


async def verify(folder: Path, manifest: Manifest, progress: Progress) -> list[StoredFile]:
    """Compare every file of the backup with its SHA-256. Returns the files that the database names and that are there.

    Raises `CopyRefused`.
    """
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
            raise _damaged(f"{path} is not as it was written")
        if name != DATABASE:
            found.append(StoredFile(name, size, sha256))
        progress(CHECKED, done, len(sums))
    return found


def _read_sums(folder: Path, manifest: Manifest) -> dict[str, str]:
    """The SHA-256 of the database and of each blob, by name."""
    path = folder / SUMS
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _damaged(f"{path} is missing") from None
    if hashlib.sha256(data).hexdigest() != manifest.sums_sha256:
        raise _damaged(f"{path} is not as it was written")
    sums = {name.rpartition("/")[2]: sha256 for sha256, name in _lines(data)}
    wrong = [name for name in sums if name != DATABASE and not NAME.fullmatch(name)]
    if wrong or sums.get(DATABASE) != manifest.database.sha256 or len(sums) != manifest.files.count + 1:
        raise _damaged(f"{path} does not belong to {MANIFEST}")
    return sums


def _lines(data: bytes) -> Iterator[tuple[str, str]]:
    for line in data.decode().splitlines():
        sha256, _, name = line.partition("  ")
        yield sha256, name


def _damaged(what: str) -> CopyRefused:
    return CopyRefused(f"the backup is damaged: {what}.", "Nothing was restored. Give another backup.")


async def restore_database(folder: Path, target: Path, progress: Progress) -> None:
    """Copy the database of a backup to `target`, which is not there yet."""
    make_private(target)
    await copy_file(folder / DATABASE, target, progress)


def _path(blob: str) -> str:
    """Where `FolderBlobs` keeps it, from the folder of the backup."""
    return f"{FOLDER}/{blob[-2:]}/{blob}"


def _make_folder(folder: Path) -> None:
    """Raises `CopyRefused` for one that is not empty."""
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if not folder.is_dir():
            raise CopyRefused(f"{folder} is no folder.", "Give a folder that is empty or not there yet.") from None
        if any(folder.iterdir()):
            remedy = "Give a folder that is empty or not there yet. A backup that was interrupted can be deleted."
            raise CopyRefused(f"{folder} is not empty.", remedy) from None
        folder.chmod(0o700)


def _write(path: Path, data: bytes) -> None:
    """A file that its owner alone may read: all of it or nothing, durably."""
    draft = path.with_name(f".{path.name}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync(path.parent)


async def _in_thread(job: Callable[[threading.Event], T]) -> T:
    """The job looks at the event, which is set when nobody waits for the job any more."""
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
