"""An export as a folder, as `workhook organization export` makes it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from workhook.identity.schemas import Account
from workhook.storage import Database
from workhook.storage.blobs import BlobMissing, Blobs
from workhook.work.portability.moving.exporting import CONTENTS, ExportedBytes, contents_of, manifest_of, write_lines
from workhook.work.portability.moving.manifest import FILES, MANIFEST, ExportManifest, StoredBytes

Progress = Callable[[str, int, int], None]

BYTES = "files copied"


async def export_to_folder(
    database: Database, blobs: Blobs, account: Account, server: str, folder: Path, progress: Progress
) -> ExportManifest:
    """`folder` is there and empty, for its owner alone to read. Raises `Unavailable`, `OSError`.

    The manifest is written last: what is interrupted is no export.
    """
    written = await write_lines(database, account, folder, progress)
    (folder / FILES).mkdir(mode=0o700)
    count = size = 0
    missing, total = [], sum(written.lines[f"{each}.jsonl"].lines for each in ("files", "billing_logos"))
    for done, content in enumerate(contents_of(folder), 1):
        if await _copy(blobs, content, folder / FILES / content.id):
            count, size = count + 1, size + content.size
        else:
            missing.append(content.id)
        progress(BYTES, done, total)
    (folder / CONTENTS).unlink()
    stored = StoredBytes(count, size, missing)
    made = manifest_of(account, server, written, stored)
    await asyncio.to_thread(_write_durably, folder / MANIFEST, made)
    return msgspec.json.decode(made, type=ExportManifest)


async def _copy(blobs: Blobs, content: ExportedBytes, path: Path) -> bool:
    """Whether the store had it, whole."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        try:
            async for piece in await blobs.read(content.blob, 0, content.size):
                await asyncio.to_thread(file.write, piece)
        except BlobMissing:
            await asyncio.to_thread(path.unlink)
            return False
    return True


def _write_durably(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
