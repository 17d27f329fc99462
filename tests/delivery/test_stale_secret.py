"""A key rotation encrypts every secret again and drops the old key, so a worker may hold an unreadable secret."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from cryptography.fernet import Fernet

from tests.delivery.inside import inside
from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from workhook.core.vault import Vault
from workhook.delivery import metrics
from workhook.hooks import queries
from workhook.hooks.schemas import Hook
from workhook.storage import Reader


async def test_a_secret_encrypted_with_a_dropped_key_is_read_again(
    backend: Databases, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, reads = queries.hooks_by_id, 0

    async def stale_first(reader: Reader, hook_ids: list[int]) -> list[Hook]:
        nonlocal reads
        reads += 1
        found = await real(reader, hook_ids)
        dropped = Vault([Fernet.generate_key()]).seal("s3cret")
        return [msgspec.structs.replace(each, secret=dropped) for each in found] if reads == 1 else found

    troubles = metrics.TROUBLE.labels("secret")._value.get()
    async with inside(backend, tmp_path / "data") as site:
        await site.hooks([receiver.url])
        await site.publish(1)
        monkeypatch.setattr(queries, "hooks_by_id", stale_first)
        async with site.delivering():
            await asyncio.to_thread(receiver.wait_for, 1)
    assert reads > 1
    assert metrics.TROUBLE.labels("secret")._value.get() == troubles
