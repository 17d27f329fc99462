"""The real cost of a statement, which is executed and measured by the database.

The planner's estimate is not enough, because it ignores index entries that are read in vain. On PostgreSQL, `EXPLAIN
ANALYZE` reports the rows of each scan, including those discarded, and the pages. The plan is the one for tables
`LARGER` times as large, according to their statistics. On SQLite the steps of the virtual machine are counted.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import asyncpg
from sqlalchemy.sql.expression import Executable

from workhook.storage import dialects
from workhook.storage.sqlite import connect
from workhook.storage.statements import Compiler, Params

LARGER = 1000
"""The factor by which statistics exceed the inserted rows: ten million for ten thousand."""

STEPS_A_ROW = 10
"""Steps of SQLite's virtual machine that count as one row, so that the same limit applies to both databases."""


class Verdict(NamedTuple):
    """The cost of a statement. `work` is roughly in rows; `plan` shows where it was spent."""

    work: int
    plan: str


class Judge(Protocol):
    def after_filling(self) -> None:
        """Collect statistics like those of a database in long use."""

    def judge(self, statement: Executable, params: Params) -> list[Verdict]:
        """Return a verdict for each way in which the database may plan the statement."""

    def close(self) -> None: ...


class SqliteJudge:
    """Judges statements with and without statistics, because a new file has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._compile = Compiler(dialects.SQLITE, dialects.sqlite_value)
        self._with = self._without = connect(path, readonly=True)

    def after_filling(self) -> None:
        self._without.execute("SELECT 1 FROM sqlite_schema").fetchall()  # loads the schema without statistics
        with connect(self._path, readonly=False) as writing:
            writing.execute("ANALYZE")
        writing.close()
        self._with = connect(self._path, readonly=True)

    def judge(self, statement: Executable, params: Params) -> list[Verdict]:
        known = self._compile(statement)
        arguments = known.arguments(params)
        return [_sqlite_verdict(each, known.sql, arguments) for each in (self._without, self._with)]

    def close(self) -> None:
        self._with.close()
        self._without.close()


def _sqlite_verdict(connection: sqlite3.Connection, sql: str, arguments: list[Any]) -> Verdict:
    beats = 0

    def beat() -> int:
        nonlocal beats
        beats += 1
        return 0

    connection.set_progress_handler(beat, STEPS_A_ROW)
    connection.execute(sql, arguments).fetchall()
    connection.set_progress_handler(None, 0)
    plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments).fetchall()
    return Verdict(beats, "\n".join(row["detail"] for row in plan))


_PLANT = """UPDATE pg_class SET reltuples = reltuples * $1
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i') AND reltuples > 100"""


_QUOTED = (
    "SELECT array_agg(quote_nullable(given) ORDER BY place) FROM unnest($1::text[]) WITH ORDINALITY _ (given, place)"
)


class PostgresJudge:
    """Judges statements with a plan for these parameters and with a generic plan."""

    def __init__(self, url: str) -> None:
        self._compile = Compiler(dialects.postgresql())
        self._runner = asyncio.Runner()
        self._connection = self._runner.run(asyncpg.connect(url, statement_cache_size=0))

    def after_filling(self) -> None:
        self._runner.run(self._plant())

    async def _plant(self) -> None:
        # As autovacuum would, which then has nothing to do and leaves the planted statistics unchanged.
        await self._connection.execute("VACUUM ANALYZE")
        # The planner uses the rows per page and the actual number of pages.
        await self._connection.execute(_PLANT, float(LARGER))

    def judge(self, statement: Executable, params: Params) -> list[Verdict]:
        return self._runner.run(self._judge(statement, params))

    async def _judge(self, statement: Executable, params: Params) -> list[Verdict]:
        known = self._compile(statement)
        arguments = known.arguments(params)
        connection = self._connection
        given = await connection.fetchval(_QUOTED, [_text(each) for each in arguments]) or []
        await connection.execute(f"PREPARE judged AS {known.sql}")
        asked = f"EXECUTE judged ({', '.join(given)})" if given else "EXECUTE judged"
        found = []
        for mode in ("force_custom_plan", "force_generic_plan"):
            await connection.execute(f"SET plan_cache_mode = {mode}")
            async with connection.transaction():  # writes are rolled back
                explained = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {asked}")
                await connection.execute("ROLLBACK; BEGIN")
            plan = json.loads(explained)[0]["Plan"]
            found.append(Verdict(round(_rows_read(plan)) + _pages(plan), f"{mode}\n" + "\n".join(_lines(plan))))
        await connection.execute("DEALLOCATE judged")
        return found

    def close(self) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, list | tuple):
        return "{" + ",".join(json.dumps(_text(each)) for each in value) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)


_DISCARDED = ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")


def _rows_read(node: dict[str, Any]) -> float:
    """Return the rows that scans read, whether they were kept or discarded."""
    scans = "Scan" in node["Node Type"] and node["Node Type"] != "Subquery Scan"
    rows = (node["Actual Rows"] if scans else 0) + sum(node.get(each, 0) for each in _DISCARDED)
    below = sum(map(_rows_read, node.get("Plans", ())))
    return float(rows * node["Actual Loops"] + below)


def _pages(node: dict[str, Any]) -> int:
    return int(node.get("Shared Hit Blocks", 0) + node.get("Shared Read Blocks", 0))


def _lines(node: dict[str, Any], depth: int = 0) -> list[str]:
    what = [node["Node Type"], node.get("Index Name") or node.get("Relation Name") or node.get("CTE Name") or ""]
    rows = f"rows={node['Actual Rows']:g} in each of {node['Actual Loops']:g} (guess {node['Plan Rows']})"
    thrown = [f"{each}: {node[each]:g}" for each in _DISCARDED if node.get(each)]
    condition = [
        f"{name}: {node[name]}" for name in ("Index Cond", "Recheck Cond", "Filter", "Sort Key") if name in node
    ]
    line = "  " * depth + " ".join([*what, rows, *thrown, f"pages={_pages(node)}", *condition])[:400]
    return [line, *(each for below in node.get("Plans", ()) for each in _lines(below, depth + 1))]
