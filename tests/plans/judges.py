"""What a statement really looks at: it is run, and the database counts.

A guess of the planner would not do: it says nothing of what an index leads to in vain. On PostgreSQL `EXPLAIN ANALYZE`
tells the rows that each scan met, those that were thrown away with them, and the pages; the plan is the one for tables
`LARGER` times as large, as their statistics say. On SQLite the machine's steps are counted.
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
"""Statistics say that there are so many times the rows that were filled in: ten million for ten thousand."""

STEPS_A_ROW = 10
"""Of SQLite's machine, for about what a row is: the same bound holds for both databases then."""


class Verdict(NamedTuple):
    """`work` is in rows, about. `plan` tells where it was."""

    work: int
    plan: str


class Judge(Protocol):
    def after_filling(self) -> None:
        """Statistics, as a database has them that is long in use."""

    def judge(self, statement: Executable, params: Params) -> list[Verdict]:
        """One for each way in which the database could plan the statement."""

    def close(self) -> None: ...


class SqliteJudge:
    """With statistics and missing: a file has none at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._compile = Compiler(dialects.SQLITE, dialects.sqlite_value)
        self._with = self._without = connect(path, readonly=True)

    def after_filling(self) -> None:
        self._without.execute("SELECT 1 FROM sqlite_schema").fetchall()  # it knows the schema, and no statistics
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
    """With a plan for these parameters, and with the one for any."""

    def __init__(self, url: str) -> None:
        self._compile = Compiler(dialects.postgresql())
        self._runner = asyncio.Runner()
        self._connection = self._runner.run(asyncpg.connect(url, statement_cache_size=0))

    def after_filling(self) -> None:
        self._runner.run(self._plant())

    async def _plant(self) -> None:
        # As autovacuum would, so that it finds nothing to do and leaves what is planted.
        await self._connection.execute("VACUUM ANALYZE")
        # The planner goes by rows a page, and by how many pages there really are.
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
            async with connection.transaction():  # what writes is taken back
                told = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {asked}")
                await connection.execute("ROLLBACK; BEGIN")
            plan = json.loads(told)[0]["Plan"]
            found.append(Verdict(round(_met(plan)) + _pages(plan), f"{mode}\n" + "\n".join(_lines(plan))))
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


_THROWN_AWAY = ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")


def _met(node: dict[str, Any]) -> float:
    """Rows that scans met, kept or not."""
    scans = "Scan" in node["Node Type"] and node["Node Type"] != "Subquery Scan"
    rows = (node["Actual Rows"] if scans else 0) + sum(node.get(each, 0) for each in _THROWN_AWAY)
    below = sum(map(_met, node.get("Plans", ())))
    return float(rows * node["Actual Loops"] + below)


def _pages(node: dict[str, Any]) -> int:
    return int(node.get("Shared Hit Blocks", 0) + node.get("Shared Read Blocks", 0))


def _lines(node: dict[str, Any], depth: int = 0) -> list[str]:
    what = [node["Node Type"], node.get("Index Name") or node.get("Relation Name") or node.get("CTE Name") or ""]
    rows = f"rows={node['Actual Rows']:g} in each of {node['Actual Loops']:g} (guess {node['Plan Rows']})"
    thrown = [f"{each}: {node[each]:g}" for each in _THROWN_AWAY if node.get(each)]
    condition = [
        f"{name}: {node[name]}" for name in ("Index Cond", "Recheck Cond", "Filter", "Sort Key") if name in node
    ]
    line = "  " * depth + " ".join([*what, rows, *thrown, f"pages={_pages(node)}", *condition])[:400]
    return [line, *(each for below in node.get("Plans", ()) for each in _lines(below, depth + 1))]
