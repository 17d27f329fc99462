"""The baseline: a bare aiohttp loop that posts presigned bytes over a number of connections and records nothing.

`python -m bench.bare URL REQUESTS COUNT CONNECTIONS [PER_S]` prints the time taken as JSON. With PER_S, it posts at
that rate, with cold caches and wake-ups, instead of as fast as possible.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from pathlib import Path

import aiohttp
import msgspec
import uvloop
from yarl import URL

WARM_UP = 500


class Request(msgspec.Struct, array_like=True):
    """One presigned delivery."""

    headers: dict[str, str]
    body: bytes


def write_requests(path: Path, requests: list[Request]) -> None:
    path.write_bytes(msgspec.msgpack.encode(requests))


async def post_all(
    url: URL, requests: list[Request], count: int, connections: int, per_s: float | None
) -> tuple[float, float]:
    """Post `count` requests after a warm-up that opens the connections. Returns seconds and CPU seconds."""
    endless = itertools.cycle(requests)

    async def post(session: aiohttp.ClientSession) -> None:
        request = next(endless)
        async with session.post(url, data=request.body, headers=request.headers) as answer:
            await answer.read()
            assert answer.status == 200

    async def worker(session: aiohttp.ClientSession, numbers: itertools.repeat[None]) -> None:
        for _ in numbers:
            await post(session)

    async def pace(session: aiohttp.ClientSession, per_s: float) -> tuple[float, float]:
        started, cpu_started = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as posts:
            for number in range(count):
                await asyncio.sleep(max(0.0, started + number / per_s - time.perf_counter()))
                posts.create_task(post(session))
        return time.perf_counter() - started, time.process_time() - cpu_started

    async def run(total: int) -> tuple[float, float]:
        numbers = itertools.repeat(None, total)  # shared: the next free worker takes the next request
        started, cpu_started = time.perf_counter(), time.process_time()
        await asyncio.gather(*(worker(session, numbers) for _ in range(connections)))
        return time.perf_counter() - started, time.process_time() - cpu_started

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as session:
        await run(WARM_UP)
        return await (run(count) if per_s is None else pace(session, per_s))


def main() -> None:
    url, path, count, connections, *paced = sys.argv[1:]
    per_s = float(paced[0]) if paced else None
    requests = msgspec.msgpack.decode(Path(path).read_bytes(), type=list[Request])
    seconds, cpu_s = uvloop.run(post_all(URL(url), requests, int(count), int(connections), per_s))
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "count": int(count)}), flush=True)


if __name__ == "__main__":
    main()
