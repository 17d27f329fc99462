"""An export as one tar, which is sent while it is made.

Its lines are written first, into a folder of the data folder: as long as the database's transaction is open, nothing
waits for a client or for the store of files. Then they and the files are sent, piece by piece. The manifest is the last
entry, so that an archive without one was cut.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import structlog

from workhook.core.errors import Conflict, TooManyRequests
from workhook.http.calls import Services
from workhook.http.messages import disposition
from workhook.identity import audit
from workhook.identity.schemas import Account, Actor
from workhook.storage import Transaction
from workhook.storage.blobs import BlobMissing
from workhook.work.portability.moving.exporting import (
    ExportedBytes,
    LinesWritten,
    contents_of,
    manifest_of,
    write_lines,
)
from workhook.work.portability.moving.kinds import KINDS, WITH_BYTES
from workhook.work.portability.moving.manifest import FILES, MANIFEST, PEOPLE_FILE, StoredBytes

MEDIA_TYPE = "application/x-tar"
FOLDER = "exports"  # in the data folder
READ_AT_ONCE = 2  # in one process: each reads the database as fast as it can
RETRY_AFTER_S = 10
LEFT_AFTER_S = 24 * 3600  # a folder that is older is of a process that died
_BLOCK = 256 * 1024
_TAR_BLOCK = 512

log = structlog.get_logger(__name__)

_running: set[int] = set()
_reading: set[int] = set()


class Archive(AsyncIterator[bytes]):
    """The bytes of a tar. Close it, begun or not: until then the organization has no other export in this process."""

    def __init__(
        self, services: Services, account: Account, base: str, folder: Path, written: LinesWritten, request_id: str
    ) -> None:
        self._services, self._account, self._base = services, account, base
        self._folder, self._written, self._request_id = folder, written, request_id
        self._pieces: AsyncGenerator[bytes, None] = self._send()

    async def __anext__(self) -> bytes:
        return await self._pieces.__anext__()

    async def aclose(self) -> None:
        """May be called several times."""
        _running.discard(self._account.id)
        await self._pieces.aclose()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _send(self) -> AsyncGenerator[bytes, None]:
        """What goes wrong here comes too late for an answer: the connection is cut, and the manifest is missing."""
        try:
            for name in [f"{each.name}.jsonl" for each in KINDS] + [PEOPLE_FILE]:
                async for piece in self._lines(name):
                    yield piece
            count, size, missing = 0, 0, []
            for content in contents_of(self._folder):
                found = False
                async for piece in self._content(content):
                    found = True
                    yield piece
                if found:
                    count, size = count + 1, size + content.size
                else:
                    missing.append(content.id)
            made = manifest_of(self._account, self._base, self._written, StoredBytes(count, size, missing))
            yield self._head(MANIFEST, len(made)) + made + _padding(len(made))
            yield b"\0" * (2 * _TAR_BLOCK)
        except Exception:
            log.exception("export_cut", request_id=self._request_id, account_id=self._account.id)
            raise

    async def _lines(self, name: str) -> AsyncIterator[bytes]:
        path = self._folder / name
        size = (await asyncio.to_thread(path.stat)).st_size
        yield self._head(name, size)
        with path.open("rb") as file:
            while block := await asyncio.to_thread(file.read, _BLOCK):
                yield block
        yield _padding(size)

    async def _content(self, content: ExportedBytes) -> AsyncIterator[bytes]:
        """Nothing if the store has lost it."""
        try:
            pieces = await self._services.blobs.read(content.blob, 0, content.size)
        except BlobMissing:
            return
        yield self._head(f"{FILES}/{content.id}", content.size)
        async for piece in pieces:
            yield piece
        yield _padding(content.size)

    def _head(self, name: str, size: int) -> bytes:
        import tarfile  # few servers ever make an export: the others do not keep it in memory

        entry = tarfile.TarInfo(f"{self._account.login}-export/{name}")
        entry.size, entry.mode, entry.mtime = size, 0o600, self._written.exported_at // 1000
        return entry.tobuf(format=tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return b"\0" * (-size % _TAR_BLOCK)


async def make_archive(services: Services, actor: Actor, account: Account, base: str, request_id: str) -> Archive:
    """All lines are read when this returns, and the audit log says so. The caller sees to it that the actor owns the
    organization.

    Raises what `require_room` does.
    """
    require_room(account)
    _running.add(account.id)
    _reading.add(account.id)
    folder = None
    try:
        folder = await asyncio.to_thread(_new_folder, services.settings.data / FOLDER)
        written = await write_lines(services.database, account, folder, lambda *_: None)
        await services.database.in_transaction(lambda tx: _record(tx, actor, account, written))
        return Archive(services, account, base, folder, written, request_id)
    except BaseException:
        _running.discard(account.id)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        _reading.discard(account.id)


def require_room(account: Account) -> None:
    """Raises `Conflict` while another export of the organization runs, `TooManyRequests` while two others are read."""
    if account.id in _running:
        message = f"An export of {account.login} is running already. Wait until it is done, or end it."
        raise Conflict(message, code="export_running")
    if len(_reading) >= READ_AT_ONCE:
        message = "The server makes other exports at this moment. Try again in some seconds."
        raise TooManyRequests(message, code="exports_running", headers={"Retry-After": str(RETRY_AFTER_S)})


async def _record(tx: Transaction, actor: Actor, account: Account, written: LinesWritten) -> None:
    detail = {"lines": sum(each.lines for each in written.lines.values()), "files": _files_of(written)}
    await audit.record(tx, actor, "organization.export", account.login, account_id=account.id, detail=detail)


def _files_of(written: LinesWritten) -> int:
    return sum(written.lines[f"{each}.jsonl"].lines for each in WITH_BYTES)


def _new_folder(parent: Path) -> Path:
    """For the process's user alone. What dead processes have left goes."""
    parent.mkdir(mode=0o700, exist_ok=True)
    before = time.time() - LEFT_AFTER_S
    for each in os.scandir(parent):
        if each.stat(follow_symlinks=False).st_mtime < before:
            shutil.rmtree(each.path, ignore_errors=True)
    return Path(tempfile.mkdtemp(dir=parent))


def headers_of(account: Account, at_ms: int) -> dict[str, str]:
    """A browser saves the answer under that name."""
    day = time.strftime("%Y-%m-%d", time.gmtime(at_ms / 1000))
    return {**disposition(f"{account.login}-{day}.tar"), "Cache-Control": "no-store"}
