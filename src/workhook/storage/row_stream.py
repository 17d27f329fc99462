"""Streams of rows, which read tables in parts from either database and compare them after copying.

A `Sum` over the rows of a table is independent of their order and of the database they are read from.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import asyncpg
import msgspec
import sqlalchemy as sa

from workhook.core.errors import OperatorError
from workhook.storage import dialects

CONNECT_TIMEOUT_S = 10.0
ROWS_A_PART, BYTES_A_PART = 2000, 8 << 20
_BYTES = 16
_MODULUS = 1 << (8 * _BYTES)
_INT4, _INT8 = 1 << 31, 1 << 63

Progress = Callable[[str, int, int], None]
"""Receives a description of the work, the amount done and the total."""

encode_row = msgspec.msgpack.Encoder().encode
"""Equal values have equal encodings, and different values different ones."""


class CopyRefused(OperatorError):
    """Rows or files cannot be copied, backed up or restored."""


class IncompatibleValue(ValueError):
    """A value that the other database cannot store. The text gives the reason."""


class Sum(NamedTuple):
    """A row count and a checksum. The checksum adds the hashes of all rows, so duplicate rows count twice."""

    rows: int = 0
    checksum: int = 0

    def plus(self, rows: Iterable[Sequence[Any]]) -> Sum:
        count, total = self
        for row in rows:
            count += 1
            total += int.from_bytes(hashlib.blake2b(encode_row(list(row)), digest_size=_BYTES).digest())
        return Sum(count, total % _MODULUS)

    def text(self) -> str:
        return f"{self.checksum:0{2 * _BYTES}x}"


Check = tuple[Callable[[Any], bool], str]
"""A condition for a value, and the description of a violation."""


def converter(table: sa.Table) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that converts a SQLite row to values for PostgreSQL's driver.

    It raises `IncompatibleValue` for a value of the wrong type, because SQLite stores any type in any column.
    """
    columns = [(each.name, _checks(each.type), isinstance(each.type, sa.Boolean)) for each in table.columns]

    def convert(row: Sequence[Any]) -> list[Any]:
        made = []
        for (name, checks, is_flag), value in zip(columns, row, strict=True):
            for fits, wrong in checks:
                if value is not None and not fits(value):
                    raise IncompatibleValue(f"{name} {wrong}")
            made.append(bool(value) if is_flag and value is not None else value)
        return made

    return convert


def _checks(kind: sa.types.TypeEngine[Any]) -> list[Check]:
    if isinstance(kind, sa.Boolean):
        return [(lambda value: value in (0, 1), "is neither true nor false")]
    if isinstance(kind, sa.Integer):
        bound = _INT8 if isinstance(kind, sa.BigInteger) else _INT4
        return [(lambda value: isinstance(value, int) and -bound <= value < bound, "is not an integer in range")]
    if isinstance(kind, sa.LargeBinary):
        return [(lambda value: isinstance(value, bytes), "is not made of bytes")]
    if isinstance(kind, sa.Text):
        nul = "has the character NUL in it, which PostgreSQL does not take"
        return [(lambda value: isinstance(value, str), "is not text"), (lambda value: "\0" not in value, nul)]
    raise TypeError(f"there is no way to copy {kind!r}")


def columns_of(table: sa.Table) -> str:
    return ", ".join(f'"{each.name}"' for each in table.columns)


def size_of(row: Iterable[Any]) -> int:
    return sum(len(value) for value in row if isinstance(value, (str, bytes)))


# PostgreSQL:


async def connect(url: str) -> Any:
    return await asyncpg.connect(**dialects.connect_options(url), timeout=CONNECT_TIMEOUT_S)


async def read_postgresql(connection: Any, table: sa.Table, rows_a_part: int) -> AsyncIterator[list[Any]]:
    """Read all rows of a table in parts. Must be called within a transaction."""
    cursor = await connection.cursor(f'SELECT {columns_of(table)} FROM "{table.name}"')  # noqa: S608  # our own names
    while rows := await cursor.fetch(rows_a_part):
        yield rows


async def sequence_of(connection: Any, table: sa.Table) -> str | None:
    """Return the sequence that numbers the rows of a table, or None."""
    column = table.primary_key.columns[0].name
    found: str | None = await connection.fetchval(
        "SELECT pg_get_serial_sequence(quote_ident($1), $2)", table.name, column
    )
    return found


# SQLite:


@contextmanager
def open_connection(path: Path, *, writable: bool = False) -> Iterator[sqlite3.Connection]:
    with closing(open_file(path, 30.0)) as connection:
        connection.execute(f"PRAGMA query_only={int(not writable)}")
        yield connection


def open_file(path: Path, timeout_s: float) -> sqlite3.Connection:
    uri = f"file:{quote(str(path))}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=timeout_s, isolation_level=None)


def count_in_file(connection: sqlite3.Connection, table: sa.Table) -> int:
    return int(connection.execute(f'SELECT count(*) FROM "{table.name}"').fetchone()[0])  # noqa: S608  # our own names
