"""What no two lines of a kind may have in common, found before the database finds it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import sqlalchemy as sa

from workhook.identity.queries import key_of
from workhook.work.portability.moving.kinds import PROJECTS, LineKind
from workhook.work.portability.moving.lines import fields_of_kind

_OWNERS = frozenset({"account_id", "organization_id"})


class Keys:
    """Those of the lines of one kind so far. Held in memory until the kind ends."""

    def __init__(self, kind: LineKind) -> None:
        self._kind = kind
        self._seen: dict[tuple[object, ...], int] = {}

    def add(self, number: int, line: Any) -> Iterator[str]:
        """What the line `number` has that was there before: `invoice_number: 7 was there before, in line 2`."""
        for names in keys_of(self._kind):
            values = tuple(getattr(line, each) for each in names)
            if None in values:
                continue
            first = self._seen.setdefault((names, *values), number)
            if first != number:
                yield _words(names, values, first)
        if self._kind.name == PROJECTS and line.deleted_at is None:
            first = self._seen.setdefault(("name", key_of(line.name)), number)
            if first != number:
                yield f"name: {line.name} was there before, in line {first}"


def _words(names: tuple[str, ...], values: tuple[object, ...], first: int) -> str:
    if not names:
        return "there can be only one line"
    return f"{', '.join(names)}: {', '.join(map(str, values))} was there before, in line {first}"


@cache
def keys_of(kind: LineKind) -> tuple[tuple[str, ...], ...]:
    """The fields of each key. Without ids, which are looked at as such, and what the import gives."""
    names = {each.column: each.name for each in fields_of_kind(kind)}
    found = []
    for columns in _unique_columns(kind.source):
        rest = columns - _OWNERS
        if rest <= names.keys() and rest != {"id"} and kind.name != "timesheets":  # that is of timers that run
            found.append(tuple(names[each.name] for each in kind.source.columns if each.name in rest))
    return tuple(found)


def _unique_columns(table: sa.Table) -> Iterator[set[str]]:
    yield {each.name for each in table.primary_key.columns}
    for constraint in table.constraints:
        if isinstance(constraint, sa.UniqueConstraint):
            yield {each.name for each in constraint.columns}
    for index in table.indexes:
        if index.unique:
            yield {each.name for each in index.columns}
