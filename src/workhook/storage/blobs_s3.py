"""Files in an S3 bucket, at Amazon or a compatible service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import obstore
import structlog
from obstore.exceptions import BaseError
from obstore.store import S3Store

from workhook.storage.blobs import BATCH, NAME, BlobMissing, Blobs, UploadDraft, checked, first_line, unavailable

log = structlog.get_logger(__name__)


class S3Blobs(Blobs):
    """One object per blob. The usual `AWS_…` variables set the bucket's address and credentials.

    Objects smaller than `PART_BYTES` take one request. Larger ones are sent in parts, a few of them at a time.
    """

    PART_BYTES = 5 * 1024 * 1024  # no store accepts smaller parts
    AT_ONCE = 2  # concurrent uploads, and concurrent parts of each

    piece_bytes = 1024 * 1024

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self._url = url
        self._turn = asyncio.Semaphore(self.AT_ONCE)

    @cached_property
    def _store(self) -> S3Store:
        return S3Store.from_url(
            self._url,
            # The endpoint's scheme decides whether the connection is encrypted.
            client_options={"allow_http": True, "connect_timeout": "5s", "timeout": "60s"},
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=30)},
        )

    async def check(self) -> None:
        """Check that the bucket exists and is accessible, by listing it."""
        with _speaking_s3():
            await anext(obstore.list(self._store, chunk_size=1), None)

    async def exists(self, name: str) -> bool:
        try:
            with _speaking_s3(missing_passes=True):
                await obstore.head_async(self._store, checked(name))
        except FileNotFoundError:
            return False
        return True

    async def keep(self, draft: UploadDraft, name: str) -> None:
        async with self._turn:
            with _speaking_s3():
                await obstore.put_async(
                    self._store, name, draft.path, chunk_size=self.PART_BYTES, max_concurrency=self.AT_ONCE
                )

    async def read_range(self, name: str, start: int, length: int) -> bytes:
        try:
            with _speaking_s3(missing_passes=True):
                return bytes(await obstore.get_range_async(self._store, checked(name), start=start, length=length))
        except FileNotFoundError as error:
            log.error("blob_missing", blob=name, error=first_line(error))
            raise BlobMissing(name) from None

    async def remove(self, names: Sequence[str]) -> None:
        with _speaking_s3():
            await obstore.delete_async(self._store, list(names))

    async def older_than(self, before: int) -> AsyncIterator[Sequence[str]]:
        pages = obstore.list(self._store, chunk_size=BATCH)
        while True:
            with _speaking_s3():
                page = await anext(pages, None)
            if page is None:
                return
            found = [each["path"] for each in page if each["last_modified"].timestamp() * 1000 < before]
            yield [name for name in found if NAME.fullmatch(name)]


@contextmanager
def _speaking_s3(*, missing_passes: bool = False) -> Iterator[None]:
    """Raise the store's errors as `Unavailable`. With `missing_passes`, `FileNotFoundError` is raised unchanged."""
    try:
        yield
    except (BaseError, OSError) as error:
        if missing_passes and isinstance(error, FileNotFoundError):
            raise
        raise unavailable(error) from error
