"""A sum over the rows of a table that does not depend on their order, nor on which database they are read from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

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


def converter(table: sa.Table) -> Callable[[Sequence[Any]], list[Any]]:
    """Makes a row of SQLite's what PostgreSQL's driver takes and gives, in the order of the table's columns.

    It raises `Unfit`. SQLite keeps whatever it is given, whatever the column's type says.
    """
    checks = [(each.name, _check(each.type)) for each in table.columns]

    def convert(row: Sequence[Any]) -> list[Any]:
        made = []
        for (name, check), value in zip(checks, row, strict=True):
            try:
                made.append(None if value is None else check(value))
            except Unfit as error:
                raise Unfit(f"{name} {error}") from None
        return made

    return convert


def _check(kind: sa.types.TypeEngine[Any]) -> Callable[[Any], Any]:
    if isinstance(kind, sa.Boolean):
        return _truth
    if isinstance(kind, sa.Integer):
        bound = _INT8 if isinstance(kind, sa.BigInteger) else _INT4
        return lambda value: _of_type(value, int, "no whole number that fits", lambda: -bound <= value < bound)
    if isinstance(kind, sa.LargeBinary):
        return lambda value: _of_type(value, bytes, "not made of bytes")
    if isinstance(kind, sa.Text):
        return _text
    raise TypeError(f"there is no way to copy {kind!r}")


def _of_type(value: Any, kind: type, otherwise: str, fits: Callable[[], bool] = lambda: True) -> Any:
    if not isinstance(value, kind) or not fits():
        raise Unfit(f"is {otherwise}")
    return value


def _truth(value: Any) -> bool:
    if value not in (0, 1):
        raise Unfit("is neither true nor false")
    return bool(value)


def _text(value: Any) -> str:
    if "\0" in (text := _of_type(value, str, "not text")):
        raise Unfit("has the character NUL in it, which PostgreSQL does not take")
    return str(text)
