"""Exports of an organization: its lines, all from one snapshot, then the contents of its files.

The lines are first written to a folder, so that the database transaction never waits for a client or the blob store.
The contents of files are read after the snapshot. The manifest is written last, and an export without one is
incomplete.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

import msgspec
import sqlalchemy as sa
import structlog

from workhook import __version__
from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, NotFound, TooManyRequests, say
from workhook.http.calls import Call, Response, Services
from workhook.http.endpoints import Routes
from workhook.http.messages import disposition
from workhook.http.operations import WORK_API
from workhook.identity import audit, policy
from workhook.identity.authenticator import actor_of
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import accounts, memberships, projects
from workhook.storage import Database, Reader, Row, Transaction
from workhook.storage.blobs import BlobMissing, Blobs
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect
from workhook.work.kernel.access import get_owned_account
from workhook.work.portability.transfer.kinds import KINDS, WITH_BYTES, LineKind
from workhook.work.portability.transfer.lines import (
    FILES,
    FORMAT,
    MANIFEST,
    PEOPLE_FILE,
    VERSION,
    ExportManifest,
    LinesFile,
    MovedPerson,
    StoredBytes,
    people_in,
    write_line,
)

Progress = Callable[[str, int, int], None]

PAGE_ROWS = 200
ROWS, BYTES = "kinds of lines written", "files copied"
CONTENTS = ".contents"
"""A temporary file in the folder that lists the blobs of all files. Not part of the export."""

MEDIA_TYPE = "application/x-tar"
FOLDER = "exports"  # within the data folder
READ_AT_ONCE = 2  # per process, since each export reads the database as fast as it can
RETRY_AFTER_S = 10
LEFT_AFTER_S = 24 * 3600  # older folders belong to processes that died
_BLOCK = 256 * 1024
_TAR_BLOCK = 512

log = structlog.get_logger(__name__)

# Include e-mail addresses only of members, because owners can see those anyway.
people_rows = (
    sa.select(
        accounts.c.id,
        accounts.c.login,
        accounts.c.name,
        accounts.c.kind,
        sa.case((memberships.c.user_id.is_not(None), accounts.c.email)).label("email"),
    )
    .select_from(
        accounts.outerjoin(
            memberships,
            sa.and_(
                memberships.c.user_id == accounts.c.id,
                memberships.c.organization_id == bigint_param("owner"),
                memberships.c.role != "app",
            ),
        )
    )
    .where(any_of(accounts.c.id, "ids"))
    .order_by(accounts.c.id)
)
project_numbers = (
    sa.select(projects.c.repository_id, projects.c.id)
    .where(projects.c.account_id == bigint_param("owner"))
    .order_by(projects.c.repository_id)
)


class KindPages:
    """Statements that read the rows of a kind in pages.

    `first` and `next` take `owner` (the account, or the number of the project) and `limit`. `next` also takes
    `after(row)` of the previous page's last row. If the kind belongs to its owner `through` another table, they read
    the IDs of that table's rows, and `child_rows` reads the kind's rows that refer to these IDs (`ids`).
    """

    def __init__(self, kind: LineKind) -> None:
        table = kind.source
        paged = table if kind.through is None else next(iter(table.c[kind.through].foreign_keys)).column.table
        self.owner = paged.c[kind.owner_column]
        self.key = [each for each in paged.primary_key.columns if each is not self.owner] or [self.owner]
        columns = [*table.columns] if kind.through is None else [paged.c.id]
        self._rows = sa.select(*columns)
        if kind.name == "webhooks":  # except those of apps
            self._rows = self._rows.where(table.c.app_id.is_(None), table.c.installation_id.is_(None))
        elif kind.name == "members":  # except the bots of apps
            self._rows = self._rows.where(table.c.role != "app")
        self.first = PerDialect.made_by(lambda dialect: self._page(dialect, begins=True))
        self.next = PerDialect.made_by(lambda dialect: self._page(dialect, begins=False))
        self.child_rows: sa.Select[Any] | None = None
        if kind.through is not None:
            refers = any_of(table.c[kind.through], "ids")
            self.child_rows = sa.select(table).where(refers).order_by(*table.primary_key.columns)

    def _page(self, dialect: str, *, begins: bool) -> sa.Select[Any]:
        """Select a page.

        On PostgreSQL the order includes the owner, because the planner might otherwise scan the rows of all owners by
        primary key (see `storage.index_ranges`).
        """
        owner, after = bigint_param("owner"), [sa.bindparam(f"after_{each.name}", type_=each.type) for each in self.key]
        order = self.key
        rows = self._rows.where(self.owner == owner)
        if dialect == "postgresql" and self.key != [self.owner]:
            order = [self.owner, *self.key]
            rows = self._rows.where(self.owner >= owner, self.owner <= owner)
        if not begins and order is self.key:
            rows = rows.where(sa.tuple_(*self.key) > sa.tuple_(*after))
        elif not begins:
            rows = rows.where(sa.tuple_(*order) > sa.tuple_(owner, *after))
        return rows.order_by(*order).limit(bigint_param("limit"))

    def after(self, row: Any) -> dict[str, Any]:
        return {f"after_{each.name}": row[each.name] for each in self.key}


_pages_of = cache(KindPages)


class ExportedBytes(msgspec.Struct, frozen=True, array_like=True):
    """A file or logo: its ID, its name in the blob store, and its size."""

    id: str
    blob: str
    size: int


class LinesWritten(msgspec.Struct, frozen=True):
    """The result of `write_lines`, with the time of its snapshot."""

    lines: dict[str, LinesFile]
    exported_at: int

    @property
    def files(self) -> int:
        """Return the number of files, including those missing from the blob store."""
        return sum(self.lines[f"{each}.jsonl"].lines for each in WITH_BYTES)


class _LinesWriter:
    """A file written in threads, so that a slow disk does not block the event loop."""

    def __init__(self, path: Path) -> None:
        self._file = _new_file(path)
        self._digest = hashlib.sha256()
        self.lines = 0

    async def add(self, lines: Sequence[bytes]) -> None:
        data = b"".join(lines)
        self.lines += len(lines)
        self._digest.update(data)
        await asyncio.to_thread(self._file.write, data)

    def facts(self) -> LinesFile:
        return LinesFile(self.lines, self._digest.hexdigest())

    async def __aenter__(self) -> _LinesWriter:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self._file.close)


def _new_file(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


async def write_lines(database: Database, account: Account, folder: Path, progress: Progress) -> LinesWritten:
    """Write all lines into the empty `folder`. Raises `Unavailable` and `OSError`."""
    async with _LinesWriter(folder / CONTENTS) as contents, database.snapshot() as reader:
        return await _Lines(reader, account, folder, contents, progress).write()


class _Lines:
    """The reader of one export. Holds a page of rows, all people, and the IDs of all projects in memory."""

    def __init__(
        self, reader: Reader, account: Account, folder: Path, contents: _LinesWriter, progress: Progress
    ) -> None:
        self._reader, self._account, self._folder = reader, account, folder
        self._contents, self._progress = contents, progress
        self._logins: dict[int, str] = {}
        self._projects: dict[int, str] = {}
        self._people: dict[int, MovedPerson] = {}

    async def write(self) -> LinesWritten:
        at, total = now_ms(), len(KINDS) + 1
        for row in await self._reader.fetch_all(project_numbers, {"owner": self._account.id}):
            self._projects[row["repository_id"]] = row["id"]
        files = {}
        for number, kind in enumerate(KINDS, 1):
            files[f"{kind.name}.jsonl"] = await self._kind(kind)
            self._progress(ROWS, number, total)
        async with _LinesWriter(self._folder / PEOPLE_FILE) as writer:
            known = [self._people[each] for each in sorted(self._people)]
            await writer.add([json.on_one_line(json.encode(each)) + b"\n" for each in known])
        files[PEOPLE_FILE] = writer.facts()
        self._progress(ROWS, total, total)
        return LinesWritten(files, at)

    async def _kind(self, kind: LineKind) -> LinesFile:
        async with _LinesWriter(self._folder / f"{kind.name}.jsonl") as writer:
            for owner in sorted(self._projects) if kind.of_project else [self._account.id]:
                async for rows in self._pages(kind, owner):
                    new = sorted(people_in(kind, rows) - self._people.keys())
                    params = {"ids": new, "owner": self._account.id}
                    for row in await self._reader.fetch_all(people_rows, params) if new else ():
                        self._people[row["id"]] = MovedPerson(row["login"], row["name"], row["kind"], row["email"])
                        self._logins[row["id"]] = row["login"]
                    await writer.add([write_line(kind, row, self._logins, self._projects) for row in rows])
                    if kind.name in WITH_BYTES:
                        found = [ExportedBytes(row["id"], row["blob"], row["size"]) for row in rows]
                        await self._contents.add([msgspec.json.encode(each) + b"\n" for each in found])
        return writer.facts()

    async def _pages(self, kind: LineKind, owner: int) -> AsyncIterator[Sequence[Row]]:
        pages = _pages_of(kind)
        params: dict[str, object] = {"owner": owner, "limit": PAGE_ROWS}
        rows = await self._reader.fetch_all(pages.first, params)
        while rows:
            if pages.child_rows is None:
                yield rows
            elif found := await self._reader.fetch_all(pages.child_rows, {"ids": [row["id"] for row in rows]}):
                yield found
            if len(rows) < PAGE_ROWS:
                return
            rows = await self._reader.fetch_all(pages.next, {**params, **pages.after(rows[-1])})


def contents_of(folder: Path) -> Iterator[ExportedBytes]:
    decoder = msgspec.json.Decoder(ExportedBytes)
    with (folder / CONTENTS).open("rb") as file:
        for line in file:
            yield decoder.decode(line)


def manifest_of(
    folder: Path, account: Account, server: str, written: LinesWritten, missing: list[str]
) -> ExportManifest:
    """Create the manifest. `missing` contains the IDs of files missing from the blob store."""
    lost = set(missing)
    sizes = [each.size for each in contents_of(folder) if each.id not in lost]
    return ExportManifest(
        format=FORMAT,
        format_version=VERSION,
        workhook=__version__,
        server=server,
        organization=account.login,
        exported_at=written.exported_at,
        lines=written.lines,
        files=StoredBytes(len(sizes), sum(sizes), missing),
    )


def _text_of(manifest: ExportManifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


# --- as a tar archive, streamed while it is created -------------------------------------------------------------------

_running: set[int] = set()
_reading: set[int] = set()


class Archive(AsyncIterator[bytes]):
    """The bytes of a tar archive. Until it is closed, this process starts no other export of the organization."""

    def __init__(
        self, services: Services, account: Account, base: str, folder: Path, written: LinesWritten, request_id: str
    ) -> None:
        self._services, self._account, self._base = services, account, base
        self._folder, self._written, self._request_id = folder, written, request_id
        self._pieces: AsyncGenerator[bytes, None] = self._send()

    async def __anext__(self) -> bytes:
        return await self._pieces.__anext__()

    async def aclose(self) -> None:
        _running.discard(self._account.id)
        await self._pieces.aclose()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _send(self) -> AsyncGenerator[bytes, None]:
        """Yield the archive. An error is logged and closes the connection, so that the manifest is missing."""
        try:
            for name in [f"{each.name}.jsonl" for each in KINDS] + [PEOPLE_FILE]:
                async for piece in self._lines(name):
                    yield piece
            missing = []
            for content in contents_of(self._folder):
                try:
                    pieces = await self._services.blobs.read(content.blob, 0, content.size)
                except BlobMissing:
                    missing.append(content.id)
                    continue
                yield self._head(f"{FILES}/{content.id}", content.size)
                async for piece in pieces:
                    yield piece
                yield _padding(content.size)
            facts = (self._folder, self._account, self._base, self._written, missing)
            made = _text_of(await asyncio.to_thread(manifest_of, *facts))
            yield self._head(MANIFEST, len(made)) + made + _padding(len(made))
            yield b"\0" * (2 * _TAR_BLOCK)
        except Exception:
            log.exception("export_interrupted", request_id=self._request_id, account_id=self._account.id)
            raise

    async def _lines(self, name: str) -> AsyncIterator[bytes]:
        path = self._folder / name
        size = (await asyncio.to_thread(path.stat)).st_size
        yield self._head(name, size)
        with path.open("rb") as file:
            while block := await asyncio.to_thread(file.read, _BLOCK):
                yield block
        yield _padding(size)

    def _head(self, name: str, size: int) -> bytes:
        import tarfile  # imported late because few servers ever export

        entry = tarfile.TarInfo(f"{self._account.login}-export/{name}")
        entry.size, entry.mode, entry.mtime = size, 0o600, self._written.exported_at // 1000
        return entry.tobuf(format=tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return b"\0" * (-size % _TAR_BLOCK)


async def create_archive(services: Services, actor: Actor, account: Account, base: str, request_id: str) -> Archive:
    """Write all lines and record the export in the audit log.

    The caller has checked that the actor owns the organization.
    """
    require_export_slot(account)
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


def require_export_slot(account: Account) -> None:
    """Raise `Conflict` during another export of the organization, or `TooManyRequests` while two are being prepared."""
    if account.id in _running:
        message = say("An export of {} is already running. Wait for it to finish, or stop it.", account.login)
        raise Conflict(message, code="export_running")
    if len(_reading) >= READ_AT_ONCE:
        message = say("The server is busy with other exports. Try again in a few seconds.")
        raise TooManyRequests(message, code="exports_running", headers={"Retry-After": str(RETRY_AFTER_S)})


async def _record(tx: Transaction, actor: Actor, account: Account, written: LinesWritten) -> None:
    detail = {"lines": sum(each.lines for each in written.lines.values()), "files": written.files}
    await audit.record(tx, actor, "organization.export", account.login, account_id=account.id, detail=detail)


def _new_folder(parent: Path) -> Path:
    """Create a private folder, and delete those left by dead processes."""
    parent.mkdir(mode=0o700, exist_ok=True)
    before = time.time() - LEFT_AFTER_S
    for each in os.scandir(parent):
        if each.stat(follow_symlinks=False).st_mtime < before:
            shutil.rmtree(each.path, ignore_errors=True)
    return Path(tempfile.mkdtemp(dir=parent))


def headers_of(account: Account) -> dict[str, str]:
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return {**disposition(f"{account.login}-{day}.tar"), "Cache-Control": "no-store"}


# --- as a folder, for `workhook organization export` ------------------------------------------------------------------


async def export_to_folder(
    database: Database, blobs: Blobs, account: Account, server: str, folder: Path, progress: Progress
) -> ExportManifest:
    """Export into the empty `folder`. Raises `Unavailable` and `OSError`."""
    written = await write_lines(database, account, folder, progress)
    (folder / FILES).mkdir(mode=0o700)
    missing = []
    for done, content in enumerate(contents_of(folder), 1):
        if not await _copy(blobs, content, folder / FILES / content.id):
            missing.append(content.id)
        progress(BYTES, done, written.files)
    made = manifest_of(folder, account, server, written, missing)
    (folder / CONTENTS).unlink()
    await asyncio.to_thread(_write_durably, folder / MANIFEST, _text_of(made))
    return made


def _write_durably(path: Path, data: bytes) -> None:
    with _new_file(path) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


async def _copy(blobs: Blobs, content: ExportedBytes, path: Path) -> bool:
    """Copy a file from the blob store. Returns False if it is missing there."""
    with _new_file(path) as file:
        try:
            async for piece in await blobs.read(content.blob, 0, content.size):
                await asyncio.to_thread(file.write, piece)
        except BlobMissing:
            await asyncio.to_thread(path.unlink)
            return False
    return True


# --- `/organizations/{login}/export` ----------------------------------------------------------------------------------

routes = Routes(WORK_API, "Users", read="organization.export", write="organization.export")


@routes.get(
    "/organizations/{login}/export",
    answers={200: {"type": "string", "format": "binary"}},
    problems=(403, 409, 429),
    media_type=MEDIA_TYPE,
    etag=False,
)
async def export_organization(call: Call, login: str) -> Response:
    """Export an organization with all its data.

    Only owners of the organization can call this. The response is a tar archive with one JSON Lines file per kind of
    record, the contents of all files, and `manifest.json` as the last entry. An archive without the manifest is
    incomplete. All records are from the same point in time. Import the archive on another server with
    `workhook organization import`.

    Passwords, tokens, and webhook secrets are not included. The token also needs the scope `work:read`. Each export is
    recorded in the audit log. A second export of the same organization fails with 409 `export_running` until the first
    one ends. While the server is preparing two exports, others fail with 429 `exports_running`.
    """
    actor = actor_of(call)
    account = await get_owned_account(call.database, actor, login, "export it")
    if account.kind != "organization":
        raise NotFound()
    policy.check_token(actor, policy.RULES["work.read"])
    headers = headers_of(account)
    if call.request.method == "HEAD":
        require_export_slot(account)
        return Response(_nothing(), headers=headers, media_type=MEDIA_TYPE)
    archive = await create_archive(call.services, actor, account, call.public_base, call.request_id)
    return Response(archive, headers=headers, media_type=MEDIA_TYPE)


async def _nothing() -> AsyncIterator[bytes]:
    for piece in list[bytes]():
        yield piece
