"""Stores the contents of files, in a folder or in an S3 bucket.

An upload is first a draft in the data folder, so the store never has partial content. `Incoming.keep` moves the
complete draft to the store in one step, durably. Blobs are immutable.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import structlog

from workhook.core.errors import Problem, Unavailable
from workhook.core.ids import new_id
from workhook.storage import metrics

T = TypeVar("T")

FOLDER = "files"  # in the data folder
WRITE_BYTES = 32 * 1024  # bytes of one upload that are buffered in memory before a write
THREADS = 4
BATCH = 500
RETRY_AFTER_S = 30

NAME = re.compile(r"blb_[0-9a-z]{26}")
_DRAFTS = "incoming"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

log = structlog.get_logger(__name__)


class BlobMissing(Problem):
    """The database references a blob that the store does not have. The client gets a server error."""

    def __init__(self, name: str) -> None:
        super().__init__("The content of this file is missing.", code="content_missing")
        self.name = name


class Incoming:
    """An upload in progress. It is discarded unless `keep` is called."""

    def __init__(self, blobs: Blobs, name: str) -> None:
        self.name = name
        self._blobs = blobs
        self._draft = UploadDraft(blobs.drafts / self.name)
        self._waiting = bytearray()

    @property
    def size(self) -> int:
        """Return the size in bytes. Like `sha256`, it is final once the blob is kept."""
        return self._draft.size

    @property
    def sha256(self) -> str:
        return self._draft.digest.hexdigest()

    async def write(self, data: bytes) -> None:
        """Append data. Raises `Unavailable` if the disk is full."""
        if not self._waiting and len(data) >= WRITE_BYTES:
            await self._blobs.run(partial(self._draft.write, data))
            return
        self._waiting += data
        if len(self._waiting) >= WRITE_BYTES:
            await self._flush()

    async def keep(self) -> None:
        """Move the upload to the store under `name`, durably. Raises `Unavailable`."""
        await self._flush()
        await self._blobs.keep(self._draft, self.name)

    async def _flush(self) -> None:
        data, self._waiting = bytes(self._waiting), bytearray()
        await self._blobs.run(partial(self._draft.write, data))

    async def __aenter__(self) -> Incoming:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.shield(self._blobs.run(self._draft.discard))


class UploadDraft:
    """The file of an upload, locked for one thread at a time. A canceled upload does not wait for its last write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digest = hashlib.sha256()
        self.size = 0
        self._descriptor: int | None = None
        self._over = False
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        with self._lock:
            if self._over:
                raise ValueError("the upload is over")
            if self._descriptor is None:
                _make_folder(self.path.parent)
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self.digest.update(data)
            self.size += len(data)

    def move_to(self, target: Path) -> None:
        with self._lock:
            assert self._descriptor is not None, "written, if only nothing"
            os.utime(self._descriptor)  # the file's age counts from now
            os.fsync(self._descriptor)
            _make_folder(target.parent)
            self.path.rename(target)
            sync(target.parent)

    def discard(self) -> None:
        with self._lock:
            self._over = True
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
                self.path.unlink(missing_ok=True)


class Blobs(ABC):
    """A store of blobs. Opens nothing before its first use."""

    piece_bytes = 256 * 1024  # bytes of one download in memory at a time

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.drafts = folder / _DRAFTS

    def incoming(self, name: str | None = None) -> Incoming:
        """Return a new blob to write: `async with blobs.incoming() as incoming`.

        `name` is set when copying a blob of another store. Raises `ValueError` if it is not a valid blob name.
        """
        return Incoming(self, new_id("blb") if name is None else checked(name))

    async def read(self, name: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """Return the bytes from `start` up to `stop` in pieces. The first piece is read before this returns.

        Raises `BlobMissing` and `Unavailable`, also during iteration.
        """
        first = await self._piece(name, start, stop) if start < stop else b""
        return self._pieces(name, first, start, stop)

    async def _pieces(self, name: str, piece: bytes, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        while piece:
            yield piece
            start += len(piece)
            piece = await self._piece(name, start, stop) if start < stop else b""

    async def _piece(self, name: str, start: int, stop: int) -> bytes:
        wanted = min(self.piece_bytes, stop - start)
        piece = await self.read_range(name, start, wanted)
        if len(piece) != wanted:
            log.error("blob_truncated", blob=name, start=start, expected=wanted, found=len(piece))
            raise BlobMissing(name)
        return piece

    async def delete(self, names: Sequence[str]) -> None:
        """Delete blobs, ignoring missing ones. Raises `Unavailable`."""
        for each in names:
            checked(each)
        if names:
            await self.remove(names)

    async def forget(self, name: str) -> None:
        """Delete a blob after another error. A failure is only logged, because a purge removes orphaned blobs."""
        try:
            await self.delete([name])
        except Unavailable:
            log.warning("blob_not_deleted", blob=name)

    async def delete_old_drafts(self, before: int) -> int:
        """Delete drafts left by dead processes before `before` (milliseconds since the epoch). Returns their number."""
        return await self.run(partial(_delete_old_drafts, self.drafts, before))

    @abstractmethod
    async def check(self) -> None:
        """Raise `Unavailable` if the store cannot be used."""

    @abstractmethod
    async def exists(self, name: str) -> bool:
        """Return whether a blob is stored. Raises `Unavailable`."""

    @abstractmethod
    def older_than(self, before: int) -> AsyncIterator[Sequence[str]]:
        """Yield the names of blobs kept before this time, a few hundred per batch. Raises `Unavailable`."""

    @abstractmethod
    async def keep(self, draft: UploadDraft, name: str) -> None: ...

    @abstractmethod
    async def read_range(self, name: str, start: int, length: int) -> bytes: ...

    @abstractmethod
    async def remove(self, names: Sequence[str]) -> None: ...

    async def run(self, job: Callable[[], T]) -> T:
        """Run a job on a thread of the store. Raises `Unavailable` for disk errors."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, job)
        except OSError as error:
            raise unavailable(error) from error

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(THREADS, thread_name_prefix="files")

    def close(self) -> None:
        if "_threads" in self.__dict__:
            self._threads.shutdown()


class FolderBlobs(Blobs):
    """One file per blob, in folders named after the last two characters of its name, which are random."""

    def _path(self, name: str) -> Path:
        return self.folder / checked(name)[-2:] / name

    async def check(self) -> None:
        await self.run(partial(_try_to_write, self.folder))

    async def exists(self, name: str) -> bool:
        return await self.run(self._path(name).is_file)

    async def keep(self, draft: UploadDraft, name: str) -> None:
        await self.run(partial(draft.move_to, self._path(name)))

    async def share(self, path: Path, name: str) -> bool:
        """Hard-link a file on the same disk into the store. Returns False if that is impossible."""
        return await self.run(partial(_link, path, self._path(name)))

    async def read_range(self, name: str, start: int, length: int) -> bytes:
        found = await self.run(partial(_read, self._path(name), start, length))
        if found is None:
            log.error("blob_missing", blob=name)
            raise BlobMissing(name)
        return found

    async def remove(self, names: Sequence[str]) -> None:
        await self.run(partial(_unlink, [self._path(name) for name in names]))

    async def older_than(self, before: int) -> AsyncIterator[Sequence[str]]:
        old = _old_files(self.folder, before)
        while batch := await self.run(lambda: list(islice(old, BATCH))):
            yield batch


def unavailable(error: Exception) -> Unavailable:
    full = isinstance(error, OSError) and error.errno in _FULL
    code = "storage_full" if full else "storage_unavailable"
    log.error(code, error=first_line(error))
    metrics.BLOB_TROUBLE.labels(code).inc()
    message = "The file store is full." if full else "The file store cannot be used right now."
    return Unavailable(message, code=code, retry_after_s=RETRY_AFTER_S)


def first_line(error: Exception) -> str:
    """Return the first line of the error; the rest is for the library's authors."""
    return str(error).partition("\n")[0][:500]


def checked(name: str) -> str:
    """Return the name if it is safe in a path. Raises `ValueError` otherwise."""
    if not NAME.fullmatch(name):
        raise ValueError(f"not the name of a blob: {name!r}")
    return name


# On the store's threads:


def _link(path: Path, name: Path) -> bool:
    _make_folder(name.parent)
    try:
        os.link(path, name)
    except FileExistsError:
        return True  # contents are immutable
    except OSError:
        return False  # another disk, a file system without links, or too many of them
    sync(name.parent)
    return True


def _make_folder(path: Path) -> None:
    """Create a folder durably; otherwise its files could be lost with it."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        sync(path.parent)


def sync(*paths: Path) -> None:
    for each in paths:
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _try_to_write(folder: Path) -> None:
    """Write and remove a byte, in the folder or in the parent it will be created in."""
    place = folder if os.path.lexists(folder) else folder.parent
    path = place / f".probe-{os.getpid()}-{threading.get_ident()}"
    try:
        path.write_bytes(b"\0")
    finally:
        if path.parent.is_dir():
            path.unlink(missing_ok=True)


def _read(path: Path, start: int, length: int) -> bytes | None:
    try:
        with path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, start)
    except FileNotFoundError:
        return None


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _old_files(folder: Path, before: int) -> Iterator[str]:
    for shard in _entries(folder):
        if shard.name != _DRAFTS and shard.is_dir(follow_symlinks=False):
            for each in _entries(Path(shard.path)):
                if NAME.fullmatch(each.name) and _is_older(each, before):
                    yield each.name


def _delete_old_drafts(folder: Path, before: int) -> int:
    old = [Path(each.path) for each in _entries(folder) if _is_older(each, before)]
    _unlink(old)
    return len(old)


def _entries(folder: Path) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:  # nothing has been uploaded yet
        return []


def _is_older(entry: os.DirEntry[str], before: int) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000 < before
    except FileNotFoundError:  # kept or deleted in the meantime
        return False
