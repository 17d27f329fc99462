"""Pipelines BEGIN with a transaction's first statement and COMMIT with its last, and sets the plan cache mode.

asyncpg waits for each response before it sends the next message, so a short transaction spends half its time waiting.
PostgreSQL accepts any number of messages up to a Sync. This module writes messages of the extended protocol without a
Sync to the driver's transport, before or after the driver's own message. The driver skips their responses while it
waits for its own. After an error PostgreSQL skips everything up to the Sync, so nothing is committed.

The module relies on three private parts of asyncpg: the transport and the protocol of a connection, and the names of
prepared statements. `tests/storage/test_pipeline.py` checks these assumptions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import asyncpg
import structlog

from workhook.core.errors import Unavailable

log = structlog.get_logger(__name__)

_PARSE, _BIND, _EXECUTE = b"P", b"B", b"E"
_INT8, _INT4, _INT2, _FLOAT8, _LENGTH = (struct.Struct(form) for form in ("!iq", "!ii", "!ih", "!id", "!i"))
_BINARY = struct.pack("!hhh", 1, 1, 0)[:4]  # one format code for all values: binary
_KNOWN_MAX = 8192

Encode = Callable[[Any], bytes]


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + _LENGTH.pack(len(body) + 4) + body


def _parsed(sql: bytes) -> bytes:
    """Return Parse and Bind of an unnamed statement."""
    return _message(_PARSE, b"\0" + sql + b"\0\0\0") + _message(_BIND, b"\0\0" + b"\0\0" * 3)


_EXECUTED = _message(_EXECUTE, b"\0" + b"\0\0\0\0")
BEGIN = _parsed(b"BEGIN") + _EXECUTED
# Otherwise, while statistics lag behind, a plan for a nearly empty table would read all of a large one.
_PLANNED = {
    True: _parsed(b"SET plan_cache_mode TO force_generic_plan") + _EXECUTED
    + _parsed(b"SET enable_seqscan TO off") + _EXECUTED,
    False: _parsed(b"SET plan_cache_mode TO auto") + _EXECUTED + _parsed(b"SET enable_seqscan TO on") + _EXECUTED,
}  # fmt: skip
_COMMIT = _parsed(b"COMMIT")  # executed by the driver


# --- values, encoded as asyncpg would encode them ---------------------------------------------------------------------


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(value)
    data = value.encode()
    return _LENGTH.pack(len(data)) + data


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(value)
    return _LENGTH.pack(len(value)) + value


def _boolean(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise TypeError(value)
    return b"\0\0\0\1\1" if value else b"\0\0\0\1\0"


def _number(form: struct.Struct) -> Encode:
    size = form.size - _LENGTH.size
    return lambda value: form.pack(size, value)


def _array(oid: int, encode: Encode) -> Encode:
    def encoded(values: Any) -> bytes:
        if not isinstance(values, list | tuple):
            raise TypeError(values)
        nulls = any(value is None for value in values)
        head = struct.pack("!iiI", int(bool(values)), int(nulls), oid)
        if values:
            head += struct.pack("!ii", len(values), 1)
        data = head + b"".join([_NULL if value is None else encode(value) for value in values])
        return _LENGTH.pack(len(data)) + data

    return encoded


_NULL = _LENGTH.pack(-1)
# By type OID: smallint, integer, bigint, text, varchar, bytea, boolean, double precision.
_SCALARS: dict[int, Encode] = {
    21: _number(_INT2), 23: _number(_INT4), 20: _number(_INT8), 25: _text, 1043: _text, 17: _bytes, 16: _boolean,
    701: _number(_FLOAT8),
}  # fmt: skip
_ARRAYS = {1005: 21, 1007: 23, 1016: 20, 1009: 25, 1015: 1043, 1001: 17, 1000: 16, 1022: 701}
_ENCODERS: dict[int, Encode] = {**_SCALARS, **{oid: _array(each, _SCALARS[each]) for oid, each in _ARRAYS.items()}}
# By the driver's name of the prepared statement, which is unique in a process, because the same SQL may have other
# types when it is prepared again. None means that it uses an unsupported type.
_encoders: dict[str, Sequence[Encode] | None] = {}


def _encoders_of(state: Any) -> Sequence[Encode] | None:
    name: str = state.name
    if name not in _encoders:
        if len(_encoders) >= _KNOWN_MAX:
            _encoders.clear()
        kinds = [each.oid for each in state._get_parameters()]
        answered = [each.type.oid for each in state._get_attributes()]
        known = all(oid in _ENCODERS for oid in kinds) and all(oid in _SCALARS for oid in answered)
        _encoders[name] = [_ENCODERS[oid] for oid in kinds] if known else None
    return _encoders[name]


def _bound(state: Any, arguments: Sequence[Any]) -> bytes | None:
    """Return the Bind message, or None if the driver must write the message or report an invalid argument."""
    encoders = _encoders_of(state)
    if encoders is None or len(encoders) != len(arguments):
        return None
    try:
        values = [_NULL if value is None else encode(value) for encode, value in zip(encoders, arguments, strict=True)]
    except (TypeError, ValueError, struct.error):
        return None
    count = struct.pack("!h", len(values))
    return _message(_BIND, b"\0" + state.name.encode() + b"\0" + _BINARY + count + b"".join(values) + _BINARY)


# --- statements -------------------------------------------------------------------------------------------------------


class _Mode(NamedTuple):
    """The plan cache mode of a connection, and the statement that set it."""

    planned_once: bool
    set_with: Any


_modes: WeakKeyDictionary[Any, _Mode | None] = WeakKeyDictionary()  # by connection; None: unknown


def _mode_of(real: Any) -> bool | None:
    if real not in _modes:
        return False
    # Unknown after a closed statement: if a migration changed its columns, it was closed and retried on its own.
    mode = _modes[real]
    return None if mode is None or mode.set_with.closed else mode.planned_once


async def _prepared(real: Any, sql: str) -> Any:
    """Return the prepared statement, which stays valid until the event loop continues."""
    state = await real._get_statement(sql, None)
    while state.closed:  # another connection has just found that the tables have changed
        state = await real._get_statement(sql, None)
    return state


async def prepare(connection: Any, sql: str, *, begin: bool = False, planned_once: bool | None = False) -> None:
    """Prepare the connection for the next statement, without a round trip.

    `begin` starts a transaction with it. For `planned_once`, see `Statement`.
    """
    real = _real(connection)
    if not real._stmt_cache_enabled:  # the driver would prepare the statement in between
        if begin:
            await connection.execute("BEGIN")
        return
    if begin or (planned_once is not None and planned_once is not _mode_of(real)):
        _write_before(real, await _prepared(real, sql), begin=begin, planned_once=planned_once)


def _write_before(real: Any, state: Any, *, begin: bool, planned_once: bool | None) -> None:
    before = BEGIN if begin else b""
    if planned_once is not None and planned_once is not _mode_of(real):
        before = _PLANNED[planned_once] + before
        _modes[real] = _Mode(planned_once, state)
    if before:
        real._transport.write(before)


def forget(connection: Any) -> None:
    """Forget the plan cache mode after an error, because a rollback also undoes the setting."""
    real = getattr(connection, "_con", connection)
    if real is not None:
        _modes[real] = None


def _real(connection: Any) -> Any:
    """Return the connection behind a pool's proxy. Raises `asyncpg.InterfaceError` if it is lost."""
    real = getattr(connection, "_con", connection)
    if real is None or real.is_closed():
        raise asyncpg.InterfaceError("the connection is closed")
    return real


async def fetch_and_commit(
    connection: Any, sql: str, arguments: Sequence[Any], *, planned_once: bool | None = False
) -> Sequence[Any]:
    """Run the last statement of the open transaction, commit, and return its rows. Raises like `commit`."""
    real, bound = _real(connection), None
    if real._stmt_cache_enabled:
        state = await _prepared(real, sql)
        _write_before(real, state, begin=False, planned_once=planned_once)
        bound = _bound(state, arguments)
    if bound is None:
        rows: Sequence[Any] = await connection.fetch(sql, *arguments)
        await commit(connection)
        return rows
    real._transport.write(bound + _EXECUTED + _COMMIT)
    try:
        rows, tag, _ = await real._protocol.execute(state, "", 0, True, None)
    except asyncpg.InvalidCachedStatementError:  # as in the driver, for all connections of the pool
        real._drop_global_statement_cache()
        raise
    _require_commit(tag.decode())
    return rows


async def commit(connection: Any) -> None:
    """Commit. Raises `Unavailable` if nothing was committed because the transaction had failed."""
    _require_commit(await connection.execute("COMMIT"))


def _require_commit(answer: str) -> None:
    if answer != "COMMIT":
        log.error("commit_refused", answer=answer)
        raise Unavailable("The database did not commit the change.", code="database_unavailable")
