"""Makes rows of lines, with the ids of this server, and writes them some at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa

from workhook.core import json
from workhook.core.ids import new_id
from workhook.identity.queries import key_of
from workhook.identity.tables import projects
from workhook.storage import Transaction
from workhook.storage.metadata import big, insert_into, metadata
from workhook.work.board.tasks.schemas import columns, task_buckets
from workhook.work.kernel.durations import whole_seconds
from workhook.work.portability.moving.kinds import KINDS, PEOPLE, PROJECTS, LineKind
from workhook.work.portability.moving.lines import Field, fields_of_kind
from workhook.work.portability.moving.new_ids import NewIds, reserve_numbers
from workhook.work.portability.moving.reading import NUMBERED, CheckedExport
from workhook.work.time.timesheets import rules

ROWS_A_STATEMENT = 250
WEBHOOKS = "webhooks"
_LINKED = {"project": PROJECTS, "column": "columns", "task": "tasks", "task_comment": "task_comments"}

# A trigger gives each new column a stretch. The export has all of them.
_forget_buckets = sa.delete(task_buckets).where(
    task_buckets.c.column_id.in_(
        sa.select(columns.c.id)
        .join_from(columns, projects, projects.c.repository_id == columns.c.repository_id)
        .where(projects.c.account_id == big("account_id"))
    )
)


@cache
def _insert_of(kind: LineKind) -> sa.Insert:
    """Of every column but ids that the database gives."""
    without = {"id"} if kind.name == "mentions" else set()
    return insert_into(kind.source, *(each.name for each in kind.source.columns if each.name not in without))


@cache
def _update_of(kind: LineKind) -> sa.Update:
    table, column = kind.source, kind.later or ""
    return sa.update(table).where(table.c.id == sa.bindparam("row_id")).values({column: sa.bindparam("value")})


class ImportRows:
    """Of one import, in one transaction. Call `reserve`, then for each kind in its order `add` for every line and
    `end`. `people`: accounts' ids by logins there; `stored`: names in the store of files by ids there."""

    def __init__(
        self, checked: CheckedExport, account_id: int, people: Mapping[str, int], stored: Mapping[str, str]
    ) -> None:
        self._checked, self._account_id = checked, account_id
        self._people, self._stored = people, stored
        self._numbers: dict[str, list[int]] = {}
        self._waiting: list[dict[str, object]] = []
        self._later: list[dict[str, object]] = []
        self._webhooks = 0
        self.timers_paused = 0

    async def reserve(self, tx: Transaction) -> None:
        """Get the numbers of everything that has one."""
        for kind in KINDS:
            if kind.name in (*NUMBERED, PROJECTS, WEBHOOKS):
                self._numbers[kind.name] = await reserve_numbers(tx, kind.source, self._checked.count(kind.name))

    async def add(self, tx: Transaction, kind: LineKind, line: Any) -> None:
        self._waiting.append(self._row(kind, line))
        if len(self._waiting) >= ROWS_A_STATEMENT:
            await self._flush(tx, kind)

    async def end(self, tx: Transaction, kind: LineKind) -> None:
        await self._flush(tx, kind)
        if self._later:
            await tx.execute_many(_update_of(kind), self._later)
            self._later = []
        if kind.name == "columns":
            await tx.execute(_forget_buckets, {"account_id": self._account_id})
        elif kind.name == WEBHOOKS:
            lanes = insert_into(metadata.tables["lanes"], "hook_id", "manual_minute", "manual_count")
            empty = {"manual_minute": 0, "manual_count": 0}
            await tx.execute_many(lanes, [{"hook_id": each, **empty} for each in self._numbers[WEBHOOKS]])

    async def _flush(self, tx: Transaction, kind: LineKind) -> None:
        if self._waiting:
            await tx.execute_many(_insert_of(kind), self._waiting)
            self._waiting = []

    def _row(self, kind: LineKind, line: Any) -> dict[str, object]:
        row: dict[str, object] = {each.name: None for each in kind.source.columns}
        row |= {each.column: self._value(kind, each, getattr(line, each.name)) for each in fields_of_kind(kind)}
        for owner in ("account_id", "organization_id"):
            if owner in row:
                row[owner] = self._account_id
        if kind.later and row[kind.later] is not None:
            self._later.append({"row_id": row["id"], "value": row[kind.later]})
            row[kind.later] = None
        self._complete(kind, line, row)
        return row

    def _value(self, kind: LineKind, field: Field, value: Any) -> object:
        if value is None:
            return None
        if field.json is not None:
            ids = [self._texts(each) for each in field.json.ids_of]
            return json.encode_text(_renamed(json.decode(json.encode(value)), ids) if ids else value)
        if field.refers is not None:
            return self._refers(field.refers.kind, value)
        if field.is_id:
            return self._named(kind.name, value)
        return value

    def _refers(self, kind: str, value: Any) -> object:
        if kind == PEOPLE:
            return self._people[value]
        return self._number(kind, value) if kind == PROJECTS else self._named(kind, value)

    def _named(self, kind: str, old: Any) -> object:
        """The new id of a line."""
        if kind == "task_buckets":
            return self._checked.buckets[old]
        return self._number(kind, old) if kind in NUMBERED else self._texts(kind).get(old)

    def _number(self, kind: str, old: Any) -> int:
        return self._numbers[kind][self._checked.places[kind][old]]

    def _texts(self, kind: str) -> NewIds:
        return self._checked.texts.setdefault(kind, NewIds())

    def _complete(self, kind: LineKind, line: Any, row: dict[str, object]) -> None:
        """What a line does not have."""
        if kind.name == PROJECTS:
            number, key = self._number(PROJECTS, line.id), key_of(line.name)
            row |= {"repository_id": number, "name_key": f"{key}#{number}" if line.deleted_at is not None else key}
        elif kind.name == "columns":
            row["revision"] = 0
        elif kind.name == "task_buckets":
            row["size"] = 0  # a trigger counts
        elif "blob" in row:
            row["blob"] = self._stored.get(line.id) or new_id("blb")  # of lost bytes: what the store has not
        elif kind.name == WEBHOOKS:
            row |= {"id": self._numbers[WEBHOOKS][self._webhooks], "active": False, "version": 1}
            self._webhooks += 1
        elif kind.name == "timesheets":
            self._count_whole_seconds(line, row)
        elif kind.name == "import_links":
            row["internal_id"] = self._made(line.kind, line.internal_id)

    def _count_whole_seconds(self, line: Any, row: dict[str, object]) -> None:
        """Pause a running timer, too: its owner was not here while it ran."""
        if not line.is_active:
            row["duration_ms"] = whole_seconds(line.duration_ms)
            return
        times = rules.Times(
            start=line.start_time, running_since=line.running_since, counted_ms=line.duration_ms, is_active=True
        )
        paused = rules.paused(times, self._checked.manifest.exported_at)
        row |= {"is_active": False, "running_since": None, "duration_ms": paused.counted_ms}
        self.timers_paused += 1

    def _made(self, kind: str, old: str) -> str:
        """What an import of Trello has made; what is gone is not made again."""
        target = _LINKED.get(kind)
        if target in NUMBERED:
            there = self._checked.places.get(target, {})
            return str(self._number(target, int(old))) if old.isdecimal() and int(old) in there else "0"
        return self._texts(target).get(old) if target else old


def _renamed(value: Any, ids: list[NewIds]) -> Any:
    """The same JSON, where what is an old id is the new one."""
    if isinstance(value, list):
        return [_renamed(each, ids) for each in value]
    if isinstance(value, dict):
        return {name: _renamed(each, ids) for name, each in value.items()}
    if isinstance(value, str):
        return next((each.by_old[value] for each in ids if value in each.by_old), value)
    return value
