"""Triggers that create a column's first bucket, maintain bucket sizes and count revisions (see `schemas`).

SQLite has a single writer, so no transaction waits while another changes the order, and revisions remain unused.
"""

# ruff: noqa: S608  # the statements are made of names in this file

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workhook.storage.schema import trigger_function


def order_triggers(dialect: str) -> Iterable[str]:
    return _sqlite() if dialect == "sqlite" else _postgresql()


def _sqlite() -> Iterator[str]:
    more = "UPDATE task_buckets SET size = size + 1 WHERE id = new.bucket_id;"
    less = "UPDATE task_buckets SET size = size - 1 WHERE id = old.bucket_id;"
    first = "INSERT INTO task_buckets (id, column_id, rank, size) VALUES (random() >> 2 & ~(3 << 62), new.id, 0, 0);"
    yield f"CREATE TRIGGER task_order_first AFTER INSERT ON columns BEGIN {first} END"
    yield f"CREATE TRIGGER task_order_insert AFTER INSERT ON tasks BEGIN {more} END"
    yield f"CREATE TRIGGER task_order_delete AFTER DELETE ON tasks BEGIN {less} END"
    yield (
        "CREATE TRIGGER task_order_update AFTER UPDATE OF bucket_id ON tasks "
        f"WHEN old.bucket_id IS NOT new.bucket_id BEGIN {less} {more} END"
    )


def _postgresql() -> Iterator[str]:
    yield from trigger_function(
        "task_order_first",
        "AFTER INSERT ON columns FOR EACH ROW",
        # The column's ID is random; take 62 bits of its hash.
        """INSERT INTO {schema}task_buckets (id, column_id, rank, size)
        VALUES (hashtextextended(new.id, 0) & ~(3::bigint << 62), new.id, 0, 0);""",
    )
    # A statement that inserts or deletes thousands of tasks updates each bucket and column once.
    yield from trigger_function(
        "task_order_insert", "AFTER INSERT ON tasks REFERENCING NEW TABLE AS touched FOR EACH STATEMENT", _many("+")
    )
    yield from trigger_function(
        "task_order_delete", "AFTER DELETE ON tasks REFERENCING OLD TABLE AS touched FOR EACH STATEMENT", _many("-")
    )
    other = "old.bucket_id IS DISTINCT FROM new.bucket_id"
    yield from trigger_function(
        "task_order_update",
        f"AFTER UPDATE OF bucket_id, rank ON tasks FOR EACH ROW WHEN ({other} OR old.rank IS DISTINCT FROM new.rank)",
        f"""IF {other} THEN
        UPDATE {{schema}}task_buckets SET size = size - 1 WHERE id = old.bucket_id;
        UPDATE {{schema}}task_buckets SET size = size + 1 WHERE id = new.bucket_id;
        END IF;
        UPDATE {{schema}}columns SET revision = revision + 1 WHERE id IN (old.column_id, new.column_id);""",
    )


def _many(sign: str) -> str:
    return f"""UPDATE {{schema}}task_buckets AS bucket SET size = bucket.size {sign} counted.size
        FROM (SELECT bucket_id, count(*) AS size FROM touched GROUP BY bucket_id) AS counted
        WHERE bucket.id = counted.bucket_id;
        UPDATE {{schema}}columns SET revision = revision + 1 WHERE id IN
        (SELECT column_id FROM touched WHERE bucket_id IS NOT NULL);"""
