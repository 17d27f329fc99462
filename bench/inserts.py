"""The yardstick of A2: a bare `INSERT … RETURNING` in its own transaction, through the driver that the server uses.

`python -m bench.inserts WHERE COUNT WORKERS` prints how long it took, as JSON. WHERE is the URL of a PostgreSQL
database, or the path of a SQLite file.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import asyncpg
import uvloop

from bench.client import closed_loop
from workhook.core.ids import new_id
from workhook.storage.sqlite_threads import connect

CONNECTIONS = 10  # as many as the server has
WARM_UP = 200

_TABLE = "CREATE TABLE IF NOT EXISTS bare (id TEXT PRIMARY KEY, place BIGINT, title TEXT, body TEXT, at BIGINT)"
_BODY = "x" * 200


async def on_postgresql(url: str, count: int, workers: int) -> float:
    """Seconds."""
    pool = await asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS)
    await pool.execute(_TABLE)
    insert = "INSERT INTO bare (id, place, title, body, at) VALUES ($1, $2, $3, $4, $5) RETURNING id"

    async def send(number: int) -> None:
        async with pool.acquire() as connection, connection.transaction():
            await connection.fetchrow(insert, new_id("tsk"), 1, f"Task {number}", _BODY, number)

    await closed_loop(send, WARM_UP, workers)
    started = time.perf_counter()
    await closed_loop(send, count, workers)
    seconds = time.perf_counter() - started
    await pool.close()
    return seconds


def on_sqlite(path: Path, count: int) -> float:
    """Seconds. There is one writer, however many wait."""
    connection = connect(path, readonly=False)
    connection.execute(_TABLE)
    insert = "INSERT INTO bare (id, place, title, body, at) VALUES (?, ?, ?, ?, ?) RETURNING id"

    def send(number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(insert, (new_id("tsk"), 1, f"Task {number}", _BODY, number)).fetchall()
        connection.execute("COMMIT")

    for number in range(WARM_UP):
        send(number)
    started = time.perf_counter()
    for number in range(count):
        send(number)
    seconds = time.perf_counter() - started
    connection.close()
    return seconds


def main() -> None:
    where, count, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if where.startswith("postgresql"):
        seconds = uvloop.run(on_postgresql(where, count, workers))
    else:
        seconds = on_sqlite(Path(where), count)
    print(json.dumps({"seconds": seconds, "count": count}), flush=True)


if __name__ == "__main__":
    main()
