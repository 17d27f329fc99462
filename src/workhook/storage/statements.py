"""Compiles each SQLAlchemy Core statement once per dialect, into SQL text and the order of its parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql import visitors
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import Executable

# int, str, bytes, float, bool, None, or a list of ints or strings (see `dialects.any_of`). The drivers reject the rest.
Value = object
Params = Mapping[str, Value]


class PerDialect(Executable):
    def __init__(self, *, sqlite: Executable, postgresql: Executable) -> None:
        self.of: Callable[[str], Executable] = {"sqlite": sqlite, "postgresql": postgresql}.__getitem__

    @classmethod
    def made_by(cls, write: Callable[[str], Executable]) -> Self:
        """Create a statement lazily: `write` gets the database's name on first use. A process uses one database."""
        made = cls.__new__(cls)
        made.of = cache(write)
        return made


E = TypeVar("E", bound=Executable)

HOT: list[Executable] = []
"""Frequent statements; see `hot`."""


def hot(statement: E) -> E:
    """Mark a statement that takes about as long to plan as to run. PostgreSQL plans it once per connection.

    All values share one plan. `tests/work/test_plans_once.py`, which must list the statement, compares this plan with
    the best one for some values.
    """
    HOT.append(statement)
    return statement


_LISTS = (list, tuple, set, frozenset)
_INSERT = re.compile(r"(INSERT INTO \S+ \([^()]+\)) VALUES \(([^()]+)\)(?: RETURNING \S+)?")
_NUMBERED = re.compile(r"\$\d+::[A-Z ]+")
_NUMBER = re.compile(r"\$(\d+)")


class Statement:
    """SQL text in one dialect. `arguments` puts named parameters into the driver's order."""

    __slots__ = ("_adapt", "_fixed", "_names", "_plain_insert", "planned_once", "sql")

    planned_once: bool | None  # None: the statement needs no planning

    def __init__(self, compiled: SQLCompiler, adapt: Callable[[Value], Any] | None) -> None:
        self.sql = str(compiled)
        self._names: tuple[str, ...] = tuple(compiled.positiontup or ())
        self._fixed = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
        self._adapt = adapt
        self._plain_insert = _INSERT.fullmatch(self.sql)
        self.planned_once = None if self._plain_insert else False

    def insert_rows(self, count: int) -> str | None:
        """Return an `INSERT … VALUES` with positional parameters for `count` rows, or None if this is not one."""
        if self._plain_insert is None:
            return None
        head, row = self._plain_insert.groups()
        return f"{head} VALUES {', '.join([f'({row})'] * count)}"

    def insert_columns(self) -> str | None:
        """Return an INSERT of any number of rows with one array parameter per column, or None if this is not one."""
        if self._plain_insert is None:
            return None
        head, row = self._plain_insert.groups()
        arrays = [f"{each}[]" for each in _NUMBERED.findall(row)]
        if len(arrays) != len(self._names):
            return None
        return f"{head} SELECT * FROM unnest({', '.join(arrays)})"  # noqa: S608  # the compiler's own text

    def columns(self, rows: Sequence[Params]) -> list[list[Any]]:
        return [list(column) for column in zip(*map(self.arguments, rows), strict=True)]

    def arguments(self, params: Params | None) -> list[Any]:
        """Return the arguments in the driver's order. Raises `KeyError` if one is missing."""
        values = params or {}
        if self._fixed:
            values = {**self._fixed, **values}
        if self._adapt is None:
            return [values[name] for name in self._names]
        adapt = self._adapt
        return [adapt(value) if value.__class__ in _LISTS else value for value in map(values.__getitem__, self._names)]


@lru_cache(512)
def joined(parts: tuple[tuple[str, str, int], ...], last: str) -> str:
    """Return one PostgreSQL statement that runs `parts` (name, SQL, parameter count) and returns the rows of `last`.

    Its parameters are those of all parts, in order, followed by those of `last`, which must not begin with WITH.
    """
    written, before = [], 0
    for name, sql, count in parts:
        written.append(f"{name} AS ({_renumbered(sql, before)})")
        before += count
    return f"WITH {', '.join(written)} {_renumbered(last, before)}"


def _renumbered(sql: str, before: int) -> str:
    return _NUMBER.sub(lambda found: f"${int(found[1]) + before}", sql) if before else sql


class Compiler:
    """A compiler that compiles each statement object once per process, however many databases are opened.

    Statements built for a request (list filters) are compiled each time.
    """

    inspect: ClassVar[Callable[[str], None] | None] = None
    """Called with the SQL of every compiled statement, for tests (`scripts/statement_rules.py`)."""

    _compiled: ClassVar[dict[tuple[object, object], WeakKeyDictionary[Executable, Statement]]] = {}

    def __init__(self, dialect: Dialect, adapt: Callable[[Value], Any] | None = None) -> None:
        self._dialect = dialect
        self._adapt = adapt
        self._known = Compiler._compiled.setdefault((dialect, adapt), WeakKeyDictionary())

    def __call__(self, statement: Executable) -> Statement:
        known = self._known.get(statement)
        if known is None:
            written = statement.of(self._dialect.name) if isinstance(statement, PerDialect) else statement
            compiled = written.compile(dialect=self._dialect)  # type: ignore[attr-defined]  # every Executable here is a ClauseElement
            known = Statement(compiled, self._adapt)
            if any(each is statement for each in HOT):
                known.planned_once = True
            if Compiler.inspect is not None:
                Compiler.inspect(known.sql)
            self._known[statement] = known
        return known


# --- conflicts between writes in one PostgreSQL statement -------------------------------------------------------------
# All parts of a statement see the database as it was before. A part does not see the writes of another one, and if two
# of them change the same row, the second change is silently lost. Writes by triggers are not considered here.


class _Use(NamedTuple):
    """The tables that a statement uses. `written` is the changed table.

    `read` are the tables whose rows it reads, including the target of an UPDATE.
    """

    written: sa.FromClause | None
    read: frozenset[sa.FromClause]
    inserts: bool


_uses: WeakKeyDictionary[Executable, _Use] = WeakKeyDictionary()


def find_conflict(deferred: Sequence[Executable], statement: Executable) -> str:
    """Return why `statement` cannot be sent with the deferred writes, or an empty string if it can."""
    use = _use_of(statement)
    for each in deferred:
        before = _use_of(each)
        if before.written is None:
            continue
        if before.written in use.read or (before.written is use.written and not (before.inserts and use.inserts)):
            return f"a deferred write changes {before.written}, which this reads or changes too: flush() before it"
    return ""


def _use_of(statement: Executable) -> _Use:
    known = _uses.get(statement)
    if known is None:
        parsed: Any = statement.of("postgresql") if isinstance(statement, PerDialect) else statement
        written = parsed.table if isinstance(parsed, sa.Insert | sa.Update | sa.Delete) else None
        inserts = isinstance(parsed, sa.Insert)
        # An INSERT names its own table without reading it. It reads only the tables of its SELECT.
        looked_at = [each for each in visitors.iterate(parsed) if isinstance(each, sa.Select)] if inserts else [parsed]
        read = {table for each in looked_at for table in visitors.iterate(each) if isinstance(table, sa.Table)}
        known = _uses[statement] = _Use(written, frozenset[sa.FromClause](read), inserts)
    return known
