"""The contract of both blob stores: a folder, and a bucket of an S3 server."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import resource
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.s3 import S3, running_s3
from workhook.bootstrap import open_blobs
from workhook.core.clock import DAY_MS, HOUR_MS, now_ms
from workhook.core.errors import Unavailable
from workhook.core.ids import new_id
from workhook.storage.blobs import BlobMissing, Blobs, FolderBlobs
from workhook.storage.blobs_s3 import S3Blobs

MIB = 2**20


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with running_s3() as running:
        yield running


@pytest.fixture(params=("folder", "s3"))
async def blobs(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Blobs]:
    """Yield a store of each kind."""
    url = None
    if request.param == "s3":
        running: S3 = request.getfixturevalue("s3")
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        url = f"{running.url}/{tmp_path.name}"
    opened = open_blobs(tmp_path, url)
    yield opened
    opened.close()


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[FolderBlobs]:
    opened = FolderBlobs(tmp_path / "files")
    yield opened
    opened.close()


async def _store(blobs: Blobs, data: bytes, *, step: int = 100_000) -> str:
    async with blobs.incoming() as incoming:
        for start in range(0, len(data), step):
            await incoming.write(data[start : start + step])
        await incoming.keep()
    assert incoming.size == len(data)
    assert incoming.sha256 == hashlib.sha256(data).hexdigest()
    return incoming.name


async def _read(blobs: Blobs, name: str, start: int, stop: int) -> bytes:
    return b"".join([piece async for piece in await blobs.read(name, start, stop)])


async def _list_old(blobs: Blobs, before: int) -> list[str]:
    return sorted([name async for names in blobs.older_than(before) for name in names])


def _files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.rglob("*") if each.is_file())


@contextmanager
def _limit_file_size(size: int) -> Iterator[None]:
    """Simulate a full disk: the kernel refuses writes beyond `size`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 11 * MIB + 1])
async def test_a_stored_blob_can_be_read_completely_and_in_part(blobs: Blobs, size: int) -> None:
    data = os.urandom(size)
    name = await _store(blobs, data)
    assert await _read(blobs, name, 0, size) == data
    assert await _read(blobs, name, size // 3, size // 2) == data[size // 3 : size // 2]
    assert await _read(blobs, name, max(0, size - 1), size) == data[-1:]
    assert await blobs.exists(name)


async def test_an_upload_that_is_not_kept_leaves_nothing(blobs: Blobs, tmp_path: Path) -> None:
    async with blobs.incoming() as incoming:
        await incoming.write(os.urandom(MIB))
        assert _files(tmp_path) == [incoming.name]
    with pytest.raises(LookupError):
        async with blobs.incoming() as failing:
            await failing.write(os.urandom(MIB))
            raise LookupError
    assert _files(tmp_path) == []
    assert not await blobs.exists(incoming.name)
    assert await _list_old(blobs, now_ms() + HOUR_MS) == []


async def test_no_draft_remains_after_a_blob_is_kept(blobs: Blobs, tmp_path: Path) -> None:
    name = await _store(blobs, b"hello")
    assert _files(tmp_path) == ([name] if isinstance(blobs, FolderBlobs) else [])


async def test_a_canceled_upload_leaves_nothing(blobs: Blobs, tmp_path: Path) -> None:
    writing = asyncio.Event()

    async def upload() -> None:
        async with blobs.incoming() as incoming:
            while True:
                await incoming.write(bytes(256 * 1024))
                writing.set()

    task = asyncio.create_task(upload())
    await writing.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert _files(tmp_path) == []


async def test_deleting_is_idempotent(blobs: Blobs) -> None:
    first, second, third = [await _store(blobs, text) for text in (b"1", b"2", b"3")]
    for _ in range(2):
        await blobs.delete([first, second])
    await blobs.delete([])
    assert [await blobs.exists(name) for name in (first, second, third)] == [False, False, True]


async def test_a_missing_blob_is_reported_before_the_first_byte(blobs: Blobs) -> None:
    name = await _store(blobs, b"hello")
    await blobs.delete([name])
    with pytest.raises(BlobMissing):
        await blobs.read(name, 0, 5)


async def test_only_old_blobs_are_listed(blobs: Blobs, tmp_path: Path) -> None:
    names = sorted([await _store(blobs, b"x") for _ in range(3)])
    (tmp_path / "files" / "0z").mkdir(parents=True, exist_ok=True)
    (tmp_path / "files" / "0z" / "notes.txt").write_text("not ours")
    assert await _list_old(blobs, now_ms() + HOUR_MS) == names
    assert await _list_old(blobs, now_ms() - HOUR_MS) == []


async def test_old_drafts_are_deleted_and_current_ones_stay(blobs: Blobs, tmp_path: Path) -> None:
    assert await blobs.delete_old_drafts(now_ms()) == 0
    async with blobs.incoming() as incoming:
        await incoming.write(bytes(MIB))
        old = blobs.drafts / "blb_of-a-process-that-died"
        old.write_bytes(b"half")
        long_ago_s = (now_ms() - 2 * DAY_MS) / 1000
        os.utime(old, (long_ago_s, long_ago_s))
        assert await blobs.delete_old_drafts(now_ms() - DAY_MS) == 1
        assert _files(tmp_path) == [incoming.name]
        await incoming.keep()
    assert await _read(blobs, incoming.name, 0, MIB) == bytes(MIB)


@pytest.mark.parametrize("name", ["../../secret.key", "", "blb_", "blb_" + "x" * 25 + "/", "incoming"])
async def test_invalid_names_do_not_reach_the_store(blobs: Blobs, name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a blob"):
        await blobs.read(name, 0, 1)
    with pytest.raises(ValueError, match="not the name of a blob"):
        await blobs.delete([name])


async def test_a_large_file_uses_little_memory(blobs: Blobs) -> None:
    """Measure the memory of Python objects. S3's parts are outside of it and bounded by the store."""
    piece = os.urandom(256 * 1024)
    tracemalloc.start()
    try:
        async with blobs.incoming() as incoming:
            for _ in range(64):
                await incoming.write(piece)
            await incoming.keep()
        async for _ in await blobs.read(incoming.name, 0, incoming.size):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert incoming.size == 16 * MIB
    assert peak < 4 * MIB


async def test_a_full_disk_is_reported_and_leaves_no_partial_files(blobs: Blobs, tmp_path: Path) -> None:
    before = await _store(blobs, b"before")
    with _limit_file_size(MIB), pytest.raises(Unavailable) as refused:
        await _store(blobs, bytes(2 * MIB))
    assert refused.value.code == "storage_full"
    assert int(refused.value.headers["Retry-After"]) > 0
    assert _files(tmp_path) == ([before] if isinstance(blobs, FolderBlobs) else [])
    assert await _read(blobs, await _store(blobs, bytes(2 * MIB)), 0, 2 * MIB) == bytes(2 * MIB)


async def test_reading_a_truncated_file_is_an_error(folder: FolderBlobs) -> None:
    name = await _store(folder, bytes(MIB))
    os.truncate(folder.folder / name[-2:] / name, MIB // 2)
    pieces = await folder.read(name, 0, MIB)
    with pytest.raises(BlobMissing):
        async for _ in pieces:
            pass


async def test_an_unwritable_folder_is_reported(folder: FolderBlobs) -> None:
    folder.folder.write_text("in the way")
    with pytest.raises(Unavailable) as refused:
        await _store(folder, b"hello")
    assert refused.value.code == "storage_unavailable"


async def test_the_check_of_a_usable_store_leaves_no_files(folder: FolderBlobs) -> None:
    await folder.check()
    name = await _store(folder, b"hello")
    await folder.check()
    assert _files(folder.folder.parent) == [name]


async def test_sharing_a_file_reports_whether_it_succeeded(
    folder: FolderBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If sharing is impossible, the caller copies the file."""
    source, first, second = folder.folder.parent / "source", new_id("blb"), new_id("blb")
    source.write_bytes(b"hello")
    assert await folder.share(source, first)
    assert await _read(folder, first, 0, 5) == b"hello"

    def on_another_disk(source: object, target: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", on_another_disk)
    assert not await folder.share(source, second)
    assert not await folder.exists(second)


async def test_a_file_is_synced_before_it_is_renamed(folder: FolderBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure cannot be tested, so check the order: sync the file, rename it, sync its folder."""
    steps: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        steps.append("sync " + Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    def watched_rename(path: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(path, target)

    await _store(folder, b"so that the folders are there")
    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "rename", watched_rename)
    name = await _store(folder, b"hello")
    assert steps[0] == f"sync {name}"
    assert steps[-2:] == ["rename", f"sync {name[-2:]}"]
    assert set(steps[1:-2]) <= {"sync files"}  # if its folder is new


async def test_a_store_that_does_not_answer_is_reported(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**s3.environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}.items():
        monkeypatch.setenv(name, value)
    away = open_blobs(tmp_path, s3.url)
    assert isinstance(away, S3Blobs)
    with pytest.raises(Unavailable) as refused:
        await _store(away, b"hello")
    assert refused.value.code == "storage_unavailable"
    with pytest.raises(Unavailable):
        await away.exists("blb_" + "0" * 26)
    assert _files(tmp_path) == []
    away.close()


async def test_a_missing_bucket_is_reported(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    away = open_blobs(tmp_path, "s3://nobodys")
    with pytest.raises(Unavailable):
        await _store(away, b"hello")
    away.close()


async def test_large_objects_leave_no_parts_behind(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    store = open_blobs(tmp_path, s3.url)
    name = await _store(store, bytes(6 * MIB))
    assert f"acme/uploads/{name}" in s3.object_names()
    assert s3.uploads() == 0
    store.close()
