"""Which writes cannot be parts of one statement of PostgreSQL.

All parts of a statement see the database as it was before. So a part does not see what another one wrote, and of two
that change one row the second is lost without a word. What triggers write beside is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.sql import visitors
from sqlalchemy.sql.expression import Executable

from workhook.storage.statements import PerDialect


class _Use(NamedTuple):
    """`written`: the table that the statement changes. `read`: those whose rows it looks at, an UPDATE's own too."""

    written: sa.FromClause | None
    read: frozenset[sa.FromClause]
    inserts: bool


_known: WeakKeyDictionary[Executable, _Use] = WeakKeyDictionary()


def find_conflict(deferred: Sequence[Executable], statement: Executable) -> str:
    """Why `statement` cannot be sent together with the deferred writes; the empty string if it can."""
    use = _use_of(statement)
    for each in deferred:
        before = _use_of(each)
        if before.written is None:
            continue
        if before.written in use.read or (before.written is use.written and not (before.inserts and use.inserts)):
            return f"a deferred write changes {before.written}, which this reads or changes too: flush() before it"
    return ""


def _use_of(statement: Executable) -> _Use:
    known = _known.get(statement)
    if known is None:
        known = _known[statement] = _look(
            statement.of("postgresql") if isinstance(statement, PerDialect) else statement
        )
    return known


def _look(statement: Any) -> _Use:  # every Executable here is a ClauseElement
    written = statement.table if isinstance(statement, sa.Insert | sa.Update | sa.Delete) else None
    inserts = isinstance(statement, sa.Insert)
    # An INSERT names its own table without looking at it: what it reads stands in a SELECT.
    looked_at = (
        [each for each in visitors.iterate(statement) if isinstance(each, sa.Select)] if inserts else [statement]
    )
    read = {table for each in looked_at for table in visitors.iterate(each) if isinstance(table, sa.Table)}
    return _Use(written, frozenset[sa.FromClause](read), inserts)
