"""Copies blobs from one store into another, some at once, and notes the SHA-256 of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from typing import Protocol

from workhook.core.errors import Unavailable
from workhook.storage.blobs import BlobMissing, Blobs
from workhook.storage.snapshots import StoredFile

AT_ONCE = 8
FILES = "files copied"


class ReadFailed(Exception):
    """The store that is copied from cannot be used. The cause says why."""


class WriteFailed(Exception):
    """The store that is copied into cannot be used. `full`: it has no room. The cause says why."""

    def __init__(self, *, full: bool) -> None:
        super().__init__("full" if full else "unavailable")
        self.full = full


class EarlierCopy(Protocol):
    """A copy that was made before, from which the target takes contents without another copy."""

    async def give(self, file: StoredFile, target: Blobs) -> bool:
        """Put the content into the target. Return False without one of this SHA-256 and size."""


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
        earlier: EarlierCopy | None = None,
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
        """Raises `ReadFailed` and `WriteFailed`."""
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
        """Delete from the target what was copied and has another name. Raises `WriteFailed`."""
        others = sorted(self.sums.keys() - names)
        try:
            await self._target.delete(others)
        except Unavailable as error:
            raise WriteFailed(full=False) from error
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
            raise WriteFailed(full=error.code == "storage_full") from error
        self.sums[file.blob], self.sizes[file.blob] = incoming.sha256, incoming.size
        if incoming.sha256 != file.sha256:
            self.damaged.add(file.blob)

    async def _read(self, file: StoredFile) -> AsyncIterator[bytes]:
        try:
            async for piece in await self._source.read(file.blob, 0, file.size):
                yield piece
        except Unavailable as error:
            raise ReadFailed from error
