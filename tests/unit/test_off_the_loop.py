"""Work that would block the event loop for more than 50 ms runs in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from workhook.http import system
from workhook.http.calls import Call, Response
from workhook.work.kernel import csv_tables


async def test_csv_tables_are_written_in_a_thread() -> None:
    threads = set[int]()

    def cells() -> Iterator[tuple[str, ...]]:
        for title in ("first", "second"):
            threads.add(threading.get_ident())
            yield (title,)

    assert await csv_tables.write_rows(cells()) == b"first\r\nsecond\r\n"
    assert threading.get_ident() not in threads


async def test_metrics_are_written_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[int]()

    def write() -> bytes:
        threads.add(threading.get_ident())
        return b"workhook_up 1\n"

    monkeypatch.setattr(system, "generate_latest", write)
    [metrics] = [each for each in system.operations([], dict) if each.path == "/metrics"]
    request = SimpleNamespace(client_host="127.0.0.1", headers={"host": "127.0.0.1"})
    services: Any = SimpleNamespace(settings=SimpleNamespace(metrics_token=None))
    answer = await metrics.handler(cast(Call, SimpleNamespace(request=request, services=services)))
    assert isinstance(answer, Response)
    assert answer.body == b"workhook_up 1\n"
    assert threads
    assert threading.get_ident() not in threads
