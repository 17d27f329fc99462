"""The SQLite file that a copy is made from: nobody else has it open, and nobody opens it again as a server's.

A `Sum` over the rows of a table does not depend on their order, nor on which database they are read from.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import msgspec
import sqlalchemy as sa

from workhook.storage.migrate import HEAD, MOVED, release_command

_BYTES = 16
_MODULUS = 1 << (8 * _BYTES)
_INT4, _INT8 = 1 << 31, 1 << 63

encode_row = msgspec.msgpack.Encoder().encode
"""One text for the same values, and another for others."""


class Unfit(ValueError):
    """A value that the other database has no room for; the text says why."""


class Sum(NamedTuple):
    """`checksum`: the sum of the hashes of all rows, so that rows that are twice there count twice."""

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
"""What a value has to be, and what is wrong with it otherwise."""


def converter(table: sa.Table) -> Callable[[Sequence[Any]], list[Any]]:
    """Makes a row of SQLite's what PostgreSQL's driver takes and gives, in the order of the table's columns.

    It raises `Unfit`. SQLite keeps whatever it is given, whatever the column's type says.
    """
    columns = [(each.name, _checks(each.type), isinstance(each.type, sa.Boolean)) for each in table.columns]

    def convert(row: Sequence[Any]) -> list[Any]:
        made = []
        for (name, checks, is_flag), value in zip(columns, row, strict=True):
            for fits, wrong in checks:
                if value is not None and not fits(value):
                    raise Unfit(f"{name} {wrong}")
            made.append(bool(value) if is_flag and value is not None else value)
        return made

    return convert


def _checks(kind: sa.types.TypeEngine[Any]) -> list[Check]:
    if isinstance(kind, sa.Boolean):
        return [(lambda value: value in (0, 1), "is neither true nor false")]
    if isinstance(kind, sa.Integer):
        bound = _INT8 if isinstance(kind, sa.BigInteger) else _INT4
        return [(lambda value: isinstance(value, int) and -bound <= value < bound, "is no whole number that fits")]
    if isinstance(kind, sa.LargeBinary):
        return [(lambda value: isinstance(value, bytes), "is not made of bytes")]
    if isinstance(kind, sa.Text):
        nul = "has the character NUL in it, which PostgreSQL does not take"
        return [(lambda value: isinstance(value, str), "is not text"), (lambda value: "\0" not in value, nul)]
    raise TypeError(f"there is no way to copy {kind!r}")


WAIT_S = 2.0  # for a command that looks at the file at this moment
ROWS_A_PART, BYTES_A_PART = 2000, 8 << 20
_STOP = "Stop the server, every worker and every other command that uses the file. Nothing was changed."


class CopyRefused(Exception):
    """What is wrong, and what to do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


class Mark(NamedTuple):
    """Says that the file was copied, or is being: which copy, where to, and whether it was whole."""

    copy_id: str
    place: str
    done: bool


class Part(NamedTuple):
    """Rows that follow each other, and the primary key of the last: the next part begins after it."""

    rows: list[list[Any]]
    last: list[Any]


class CopySource:
    """Open with `CopySource.open(path)`. Raises `CopyRefused` and `sqlite3.Error`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> Self:
        if not path.is_file():
            raise CopyRefused(f"there is no file {path}.", "Give the path of a database, such as data/workhook.db.")
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=WAIT_S, isolation_level=None)
        try:
            _lock(connection, path)
            _require_schema(connection, path)
        except BaseException:
            connection.close()
            raise
        return cls(path, connection)

    def mark(self) -> Mark | None:
        if self._connection.execute("SELECT version_num FROM alembic_version").fetchone()[0] != MOVED:
            return None
        row = self._connection.execute("SELECT schema, token, place, done FROM moved_to").fetchone()
        schema, token, place, done = row
        if schema != HEAD:
            raise CopyRefused(
                f"the copy of {self.path} was begun by another version of Workhook (schema {schema}).",
                f"Go on with that version, or run `{release_command(self.path)}` and begin anew.",
            )
        return Mark(token, place, bool(done))

    def set_mark(self, mark: Mark) -> None:
        """From now on every version of Workhook refuses the file: what it would write there would be lost."""
        self._write(
            ("DROP TABLE IF EXISTS moved_to", ()),
            ("CREATE TABLE moved_to (schema TEXT, token TEXT, place TEXT, done INTEGER)", ()),
            ("INSERT INTO moved_to VALUES (?, ?, ?, ?)", (HEAD, *mark)),
            ("UPDATE alembic_version SET version_num = ?", (MOVED,)),
        )

    def release(self) -> Mark | None:
        """Let servers use the file again. Answers what the mark was, None without one."""
        if (mark := self.mark()) is not None:
            back = "UPDATE alembic_version SET version_num = (SELECT schema FROM moved_to)"
            self._write((back, ()), ("DROP TABLE moved_to", ()))
        return mark

    def _write(self, *steps: tuple[str, Sequence[object]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for sql, arguments in steps:
            self._connection.execute(sql, arguments)
        self._connection.execute("COMMIT")

    def count(self, table: sa.Table) -> int:
        return int(self._connection.execute(f'SELECT count(*) FROM "{table.name}"').fetchone()[0])  # noqa: S608  # ours

    def last_number(self, table: sa.Table) -> int:
        """The greatest id that a row of it ever had, 0 without any."""
        column = table.primary_key.columns[0].name
        query = (
            f'SELECT max(coalesce((SELECT max("{column}") FROM "{table.name}"), 0), '  # noqa: S608  # ours
            "coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0))"
        )
        return int(self._connection.execute(query, (table.name,)).fetchone()[0])

    def parts(self, table: sa.Table, after: Sequence[Any] | None, rows_a_part: int = ROWS_A_PART) -> Iterator[Part]:
        """The rows after this key, in the order of their keys, as PostgreSQL takes them. Raises `CopyRefused` for one
        that it does not take."""
        names = [each.name for each in table.columns]
        keys = [names.index(each.name) for each in table.primary_key.columns]
        rows, size = list[list[Any]](), 0
        for row in self._rows(table, after):
            rows.append(row)
            size += _size(row)
            if len(rows) >= rows_a_part or size >= BYTES_A_PART:
                yield Part(rows, [rows[-1][each] for each in keys])
                rows, size = [], 0
        if rows:
            yield Part(rows, [rows[-1][each] for each in keys])

    def sum(self, table: sa.Table) -> tuple[Sum, int]:
        """And the size of the largest row."""
        total, largest = Sum(), 1
        for part in self.parts(table, None):
            total = total.plus(part.rows)
            largest = max(largest, *map(_size, part.rows))
        return total, largest

    def _rows(self, table: sa.Table, after: Sequence[Any] | None) -> Iterator[list[Any]]:
        listed = ", ".join(f'"{each.name}"' for each in table.columns)
        keys = ", ".join(f'"{each.name}"' for each in table.primary_key.columns)
        where = f"WHERE ({keys}) > ({', '.join('?' * len(after))})" if after else ""
        query = f'SELECT {listed} FROM "{table.name}" {where} ORDER BY {keys}'  # noqa: S608  # names of ours
        convert = converter(table)
        for row in self._connection.execute(query, list(after or ())):
            try:
                yield convert(row)
            except Unfit as error:
                shown = dict(zip((each.name for each in table.columns), row, strict=True))
                key = ", ".join(f"{each.name} {shown[each.name]}" for each in table.primary_key.columns)
                raise CopyRefused(
                    f"{table.name}, {key}: {error}.", "Mend the row with `sqlite3`, and run the command again."
                ) from error

    def close(self) -> None:
        self._connection.close()


def _size(row: list[Any]) -> int:
    return sum(len(value) for value in row if isinstance(value, (str, bytes)))


def _require_schema(connection: sqlite3.Connection, path: Path) -> None:
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone() if there else None
    if row is None:
        raise CopyRefused(
            f"{path} holds no studio of Workhook's.", "Give the database file of a data folder: its workhook.db."
        )
    if row[0] not in (HEAD, MOVED):
        raise CopyRefused(
            f"{path} has schema {row[0]}, and this version of Workhook copies schema {HEAD}.",
            "Run `workhook migrate` on it first, with the version that you will go on with.",
        )


def _lock(connection: sqlite3.Connection, path: Path) -> None:
    """Take an exclusive lock until the end. Every process that has the file open holds a shared lock, even when idle,
    so this fails if there is one."""
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    try:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise CopyRefused(f"{path} is in use.", _STOP) from error
    connection.execute("PRAGMA synchronous=FULL")
