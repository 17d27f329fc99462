"""The baseline of A2: the reads and writes that a POST of a task needs, with the server's driver, in one transaction.

The column is locked, and the task, its event and an audit log entry are inserted. `python -m bench.inserts WHERE COUNT
WORKERS` prints the time taken as JSON. WHERE is the URL of a PostgreSQL database or the path of a SQLite file, with
existing projects, to which columns are added.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg
import sqlalchemy as sa
import uvloop

from bench.client import closed_loop
from workhook.core import json as plain_json
from workhook.core.clock import now_ms
from workhook.core.ids import new_id
from workhook.events.tables import events
from workhook.identity.tables import audit_log, projects
from workhook.storage import dialects
from workhook.storage.metadata import insert_into
from workhook.storage.sqlite import connect
from workhook.storage.statements import Compiler, Statement
from workhook.work.board.tasks.column_order import STEP
from workhook.work.board.tasks.schemas import columns, task_buckets, tasks

CONNECTIONS = 10  # as many as the server has
WARM_UP = 200
COLUMNS = 32  # as many as the server's clients write to

_places = sa.select(projects.c.repository_id, projects.c.account_id).order_by(projects.c.repository_id)
_bucket = sa.select(columns.c.id, task_buckets.c.id.label("bucket_id"))
_bucket = _bucket.join_from(columns, task_buckets, task_buckets.c.column_id == columns.c.id)
_bucket = _bucket.where(columns.c.id == sa.bindparam("column_id")).with_for_update(of=columns)
_column = insert_into(
    columns, "id", "repository_id", "title", "position", "finished", "start_timer", "created_at", "updated_at"
)
_task = insert_into(
    tasks, "id", "repository_id", "number", "column_id", "bucket_id", "rank", "title", "description", "priority",
    "fields", "sections", "labels", "user_id", "created_at", "updated_at",
).returning(tasks.c.id)  # fmt: skip
_event = insert_into(
    events, "account_id", "repository_id", "name", "action", "payload", "size", "created_at", "actor_id", "listed"
).returning(events.c.id)
_entry = insert_into(
    audit_log, "at", "account_id", "repository_id", "actor_id", "action", "request_id", "times", "target", "address",
    "detail",
)  # fmt: skip

_numbers = itertools.count(time.time_ns() // 1000)  # of tasks: higher than those of earlier runs
_BODY = "x" * 200
_PAYLOAD = plain_json.encode({"action": "created", "task": {"title": "Task", "description": _BODY}, "note": "x" * 2000})


class Texts:
    """The compiled statements, in order."""

    def __init__(self, compile_: Compiler) -> None:
        self.places, self.column, self.bucket = map(compile_, (_places, _column, _bucket))
        self.writes = tuple(map(compile_, (_task, _event, _entry)))


def _new_column(repository_id: int) -> dict[str, Any]:
    now = now_ms()
    return {
        "id": new_id("col"), "repository_id": repository_id, "title": "To do", "position": 0, "finished": False,
        "start_timer": False, "created_at": now, "updated_at": now,
    }  # fmt: skip


def _values(number: int, column: Mapping[str, Any], bucket_id: int) -> dict[str, Any]:
    now, task_id = now_ms(), new_id("tsk")
    return {
        "id": task_id, "repository_id": column["repository_id"], "number": next(_numbers), "column_id": column["id"],
        "bucket_id": bucket_id, "rank": number * STEP, "title": f"Task {number}", "description": _BODY,
        "priority": "high", "fields": "{}", "sections": "[]", "labels": '["one","two"]', "user_id": 1,
        "created_at": now, "updated_at": now, "account_id": 2, "name": "task", "payload": _PAYLOAD,
        "size": len(_PAYLOAD), "actor_id": 1, "listed": True, "at": now, "request_id": task_id, "times": 1,
        "target": f"task/{task_id}", "address": "127.0.0.1", "detail": '{"events":{"task.created":1}}',
    }  # fmt: skip


def _given(statement: Statement, values: Mapping[str, Any], action: str) -> list[Any]:
    return statement.arguments({**values, "action": action})


_ACTIONS = ("", "created", "task.create")


async def on_postgresql(url: str, count: int, workers: int) -> tuple[float, float]:
    """Return seconds, and CPU seconds of this process."""
    texts = Texts(Compiler(dialects.postgresql()))
    pool = await asyncpg.create_pool(
        **dialects.connect_options(url), min_size=CONNECTIONS, max_size=CONNECTIONS, statement_cache_size=512
    )
    repositories = [row["repository_id"] for row in await pool.fetch(texts.places.sql)]
    made = [_new_column(repositories[number % len(repositories)]) for number in range(COLUMNS)]
    for column in made:
        await pool.execute(texts.column.sql, *texts.column.arguments(column))

    async def send(number: int) -> None:
        column = made[number % COLUMNS]
        async with pool.acquire() as connection, connection.transaction():
            row = await connection.fetchrow(texts.bucket.sql, *texts.bucket.arguments({"column_id": column["id"]}))
            assert row is not None
            values = _values(number, column, row["bucket_id"])
            for statement, action in zip(texts.writes, _ACTIONS, strict=True):
                await connection.fetchrow(statement.sql, *_given(statement, values, action))

    await closed_loop(send, WARM_UP, workers)
    started, cpu = time.perf_counter(), time.process_time()
    await closed_loop(send, count, workers)
    found = time.perf_counter() - started, time.process_time() - cpu
    await pool.close()
    return found


def on_sqlite(path: Path, count: int) -> tuple[float, float]:
    """Return the same for SQLite, which has a single writer however many wait."""
    texts = Texts(Compiler(dialects.SQLITE, dialects.sqlite_value))
    connection = connect(path, readonly=False)
    repositories = [row["repository_id"] for row in connection.execute(texts.places.sql)]
    made = [_new_column(repositories[number % len(repositories)]) for number in range(COLUMNS)]
    for column in made:
        connection.execute(texts.column.sql, texts.column.arguments(column))

    def send(number: int) -> None:
        column = made[number % COLUMNS]
        connection.execute("BEGIN IMMEDIATE")
        row = connection.execute(texts.bucket.sql, texts.bucket.arguments({"column_id": column["id"]})).fetchone()
        values = _values(number, column, row["bucket_id"])
        for statement, action in zip(texts.writes, _ACTIONS, strict=True):
            connection.execute(statement.sql, _given(statement, values, action)).fetchall()
        connection.execute("COMMIT")

    for number in range(WARM_UP):
        send(number)
    started, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        send(number)
    found = time.perf_counter() - started, time.process_time() - cpu
    connection.close()
    return found


def main() -> None:
    where, count, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if where.startswith("postgresql"):
        seconds, cpu_s = uvloop.run(on_postgresql(where, count, workers))
    else:
        seconds, cpu_s = on_sqlite(Path(where), count)
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "count": count}), flush=True)


if __name__ == "__main__":
    main()
