"""What things are called on the server that they come to.

Lists are in the order of ids, so new ones sort as the old did: an id keeps its time and gets another random part.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from workhook.core.ids import base32
from workhook.storage import Transaction
from workhook.storage.metadata import big

_HEAD_CHARS, _TAIL_CHARS = 10, 16  # of the 26 characters, those of the time and the random ones
_STEP_BITS = 40

_sequences = sa.table("sqlite_sequence", sa.column("name", sa.Text), sa.column("seq", sa.BigInteger))
_last = sa.select(sa.func.max(_sequences.c.seq).label("last")).where(_sequences.c.name == sa.bindparam("name"))


class NewIds:
    """Of one kind that has texts for ids: `tsk_…`. Held in memory, some 200 bytes for each.

    `chosen`: new ids that follow from others, by the old ones.
    """

    def __init__(self) -> None:
        self.by_old: dict[str, str] = {}
        self.chosen: dict[str, str] = {}
        self._head, self._tail = "", 0

    def add(self, old: str) -> str:
        """Give the next one, in the order of the old ones."""
        prefix, _, rest = old.partition("_")
        head = rest[:_HEAD_CHARS]
        same = head == self._head
        self._tail = self._tail + 1 + secrets.randbits(_STEP_BITS) if same else secrets.randbits(5 * _TAIL_CHARS - 1)
        self._head = head
        new = f"{prefix}_{head}{base32(self._tail, _TAIL_CHARS)}"
        self.by_old[old] = new = self.chosen.get(old, new)
        return new

    def get(self, old: str) -> str:
        """Also of what is gone: it gets an id that nothing has."""
        return self.by_old.get(old) or self.add(old)


async def reserve_numbers(tx: Transaction, table: sa.Table, count: int) -> list[int]:
    """As many new ids of a table that numbers its rows, ascending. Nobody else gets them."""
    if not count:
        return []
    column = next(iter(table.primary_key.columns))
    if tx.dialect == "postgresql":
        sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
        row = sa.func.generate_series(1, big("count")).table_valued("n")
        statement = sa.select(sa.func.nextval(sequence).label("number")).select_from(row)
        return sorted(each["number"] for each in await tx.fetch_all(statement, {"count": count}))
    # The transaction holds the only lock to write: what it reads is the last until it ends.
    used = await tx.fetch_one(sa.select(sa.func.max(column).label("last")))
    given = await tx.fetch_one(_last, {"name": table.name})
    last = max((used and used["last"]) or 0, (given and given["last"]) or 0)
    return list(range(last + 1, last + 1 + count))
