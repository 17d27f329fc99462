"""Writes the lines of an organization into a folder, all of one moment. The bytes of its files follow by themselves:
the store of files is no part of that moment, and nothing of it is read while the database's transaction is open."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec

from workhook import __version__
from workhook.core import json
from workhook.core.clock import now_ms
from workhook.identity.schemas import Account
from workhook.storage import Database, Reader, Row
from workhook.work.portability.moving.kinds import KINDS, WITH_BYTES, LineKind
from workhook.work.portability.moving.lines import ReferenceNames, people_in, write_line
from workhook.work.portability.moving.manifest import (
    FORMAT,
    PEOPLE_FILE,
    VERSION,
    ExportManifest,
    LinesFile,
    MovedPerson,
    StoredBytes,
)
from workhook.work.portability.moving.statements import PAGE_ROWS, pages_of, people_rows, project_numbers

Progress = Callable[[str, int, int], None]

ROWS = "kinds of lines written"
CONTENTS = ".contents"
"""In the folder while it is written: which blob is whose. It is no part of the export."""


class ExportedBytes(msgspec.Struct, frozen=True, array_like=True):
    """The bytes of a file or a logo: its id, the name in the store, how many bytes."""

    id: str
    blob: str
    size: int


class LinesWritten(msgspec.Struct, frozen=True):
    """What `write_lines` has made; `exported_at` is the moment that it is of."""

    lines: dict[str, LinesFile]
    exported_at: int


class _LinesWriter:
    """One file, on threads: a slow disk stops nobody else."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._digest = hashlib.sha256()
        self.lines = 0

    async def add(self, lines: Sequence[bytes]) -> None:
        data = b"".join(lines)
        self.lines += len(lines)
        self._digest.update(data)
        await asyncio.to_thread(self._file.write, data)

    def facts(self) -> LinesFile:
        return LinesFile(self.lines, self._digest.hexdigest())

    async def close(self) -> None:
        await asyncio.to_thread(self._file.close)


async def write_lines(database: Database, account: Account, folder: Path, progress: Progress) -> LinesWritten:
    """Into `folder`, which is there and empty. Raises `Unavailable`, `OSError`."""
    contents = _LinesWriter(folder / CONTENTS)
    try:
        async with database.snapshot() as reader:
            return await _Lines(reader, account, folder, contents, progress).write()
    finally:
        await contents.close()


class _Lines:
    """One export's reading. Held in memory are a page of rows, the people, and the ids of the projects."""

    def __init__(
        self, reader: Reader, account: Account, folder: Path, contents: _LinesWriter, progress: Progress
    ) -> None:
        self._reader, self._account, self._folder = reader, account, folder
        self._contents, self._progress = contents, progress
        self._names = ReferenceNames()
        self._people: dict[int, MovedPerson] = {}

    async def write(self) -> LinesWritten:
        at, total = now_ms(), len(KINDS) + 1
        for row in await self._reader.fetch_all(project_numbers, {"owner": self._account.id}):
            self._names.projects[row["repository_id"]] = row["id"]
        files = {}
        for number, kind in enumerate(KINDS, 1):
            files[f"{kind.name}.jsonl"] = await self._kind(kind)
            self._progress(ROWS, number, total)
        files[PEOPLE_FILE] = await self._write_people()
        self._progress(ROWS, total, total)
        return LinesWritten(files, at)

    async def _kind(self, kind: LineKind) -> LinesFile:
        writer = _LinesWriter(self._folder / f"{kind.name}.jsonl")
        try:
            for owner in sorted(self._names.projects) if kind.of_project else [self._account.id]:
                async for rows in self._pages(kind, owner):
                    await self._know(people_in(kind, rows))
                    await writer.add([write_line(kind, row, self._names) for row in rows])
                    if kind.name in WITH_BYTES:
                        found = [ExportedBytes(row["id"], row["blob"], row["size"]) for row in rows]
                        await self._contents.add([msgspec.json.encode(each) + b"\n" for each in found])
        finally:
            await writer.close()
        return writer.facts()

    async def _pages(self, kind: LineKind, owner: int) -> AsyncIterator[Sequence[Row]]:
        pages = pages_of(kind)
        params: dict[str, object] = {"owner": owner, "limit": PAGE_ROWS}
        rows = await self._reader.fetch_all(pages.first, params)
        while rows:
            if pages.below is None:
                yield rows
            elif found := await self._reader.fetch_all(pages.below, {"ids": [row["id"] for row in rows]}):
                yield found
            if len(rows) < PAGE_ROWS:
                return
            rows = await self._reader.fetch_all(pages.next, {**params, **pages.after(rows[-1])})

    async def _know(self, ids: set[int]) -> None:
        """Look up who these accounts are."""
        new = sorted(ids - self._people.keys())
        if not new:
            return
        for row in await self._reader.fetch_all(people_rows, {"ids": new, "owner": self._account.id}):
            self._people[row["id"]] = MovedPerson(row["login"], row["name"], row["kind"], row["email"])
            self._names.logins[row["id"]] = row["login"]

    async def _write_people(self) -> LinesFile:
        writer = _LinesWriter(self._folder / PEOPLE_FILE)
        try:
            known = [self._people[each] for each in sorted(self._people)]
            await writer.add([json.on_one_line(json.encode(each)) + b"\n" for each in known])
        finally:
            await writer.close()
        return writer.facts()


def contents_of(folder: Path) -> Iterator[ExportedBytes]:
    """The files whose bytes go along, one after the other."""
    decoder = msgspec.json.Decoder(ExportedBytes)
    with (folder / CONTENTS).open("rb") as file:
        for line in file:
            yield decoder.decode(line)


def manifest_of(account: Account, server: str, written: LinesWritten, files: StoredBytes) -> bytes:
    """The bytes of `manifest.json`, for people to read as well."""
    made = ExportManifest(
        format=FORMAT,
        format_version=VERSION,
        workhook=__version__,
        server=server,
        organization=account.login,
        exported_at=written.exported_at,
        lines=written.lines,
        files=files,
    )
    return msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"
