"""How often a password may be tried: counted in the database by login and by address, so in every process together.

An attempt is counted before it is made and taken back where it succeeds. So attempts that run beside one another, in
whichever process, cannot be more than the limit: the first that reaches it closes the door for the rest.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, MINUTE_MS, SECOND_MS, now_ms
from workhook.core.errors import TooManyRequests
from workhook.identity.addresses import subscriber
from workhook.identity.signin.tables import sign_in_failures
from workhook.storage import Database, Row, Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import big

FREE_BY_LOGIN = 5  # failures before the first pause
FREE_BY_ADDRESS = 30  # many people can share one
FIRST_PAUSE_MS = 5 * SECOND_MS
LONGEST_PAUSE_MS = 15 * MINUTE_MS  # so that nobody can lock another out for good
COUNTED_MS = DAY_MS  # a count starts anew so long after its first failure

_failures = sign_in_failures.c
_is_old = _failures.since <= big("old")
_count = sa.case((_is_old, 1), else_=_failures.failures + 1)
_attempt = (
    upsert(sign_in_failures)
    .values(key=sa.bindparam("key"), failures=1, since=big("now"), blocked_until=sa.literal(0, sa.BigInteger))
    .on_conflict_do_update(
        index_elements=["key"],
        set_={"failures": _count, "since": sa.case((_is_old, big("now")), else_=_failures.since)},
        where=_failures.blocked_until <= big("now"),
    )
    .returning(sign_in_failures.c.failures)
)
_block = (
    sa.update(sign_in_failures).where(_failures.key == sa.bindparam("failures_key")).values(blocked_until=big("until"))
)
_blocked = sa.select(sa.func.max(_failures.blocked_until).label("until")).where(any_of(_failures.key, "keys"))
_clear = sa.delete(sign_in_failures).where(_failures.key == sa.bindparam("failures_key"))
# An attempt that was none after all: the pause goes only where it is still the one that this attempt began.
_take_back = (
    sa.update(sign_in_failures)
    .where(_failures.key == sa.bindparam("failures_key"), _failures.failures > 0)
    .values(
        failures=_failures.failures - 1,
        blocked_until=sa.case((_failures.blocked_until == big("until"), 0), else_=_failures.blocked_until),
    )
)


class Attempt(NamedTuple):
    """One that may be made. `login_until`, `address_until`: the pauses that it began, in ms since the epoch, or 0."""

    login_key: str
    address_key: str
    login_until: int
    address_until: int


def login_key(login: str) -> str:
    """Of what was typed, known or not: an unknown login is treated no differently. A digest, since some people type
    their password there. Whatever finds the same account has the same key: case makes no difference there either."""
    return "login:" + hashlib.sha256(login.strip().casefold().encode()).hexdigest()


def address_key(address: str | None) -> str:
    return f"address:{subscriber(address)}"


def pause_ms(failures: int, free: int) -> int:
    """After so many failures: none, then 5 s, 10 s, 20 s … 15 min."""
    if failures < free:
        return 0
    return min(FIRST_PAUSE_MS << min(failures - free, 20), LONGEST_PAUSE_MS)


async def begin(database: Database, login: str, address: str | None) -> Attempt:
    """Count an attempt as failed, for now. Raises `TooManyRequests`, with `Retry-After`, where it may not be made."""
    keys = (login_key(login), address_key(address))
    now = now_ms()
    _refuse(await database.fetch_one(_blocked, {"keys": list(keys)}), now)  # a flood costs reads only

    async def count(tx: Transaction) -> Attempt:
        # Always in this order: two attempts never wait for each other.
        login_until = await _count_one(tx, keys[0], FREE_BY_LOGIN)
        address_until = await _count_one(tx, keys[1], FREE_BY_ADDRESS)
        return Attempt(*keys, login_until, address_until)

    return await database.in_transaction(count)


async def succeeded(tx: Transaction, attempt: Attempt) -> None:
    """The login's failures are forgotten. The address only gets this attempt back: one that guesses other people's
    passwords cannot clear its count with an account of its own."""
    await tx.execute(_clear, {"failures_key": attempt.login_key})
    await tx.execute(_take_back, {"failures_key": attempt.address_key, "until": attempt.address_until or -1})


async def take_back(tx: Transaction, attempt: Attempt) -> None:
    """It was not made."""
    await tx.execute(_take_back, {"failures_key": attempt.login_key, "until": attempt.login_until or -1})
    await tx.execute(_take_back, {"failures_key": attempt.address_key, "until": attempt.address_until or -1})


async def _count_one(tx: Transaction, key: str, free: int) -> int:
    now = now_ms()
    row = await tx.fetch_one(_attempt, {"key": key, "now": now, "old": now - COUNTED_MS})
    if row is None:
        _refuse(await tx.fetch_one(_blocked, {"keys": [key]}), now)
        raise _too_many(FIRST_PAUSE_MS)  # it ended this very moment
    pause = pause_ms(row["failures"], free)
    if not pause:
        return 0
    await tx.execute(_block, {"failures_key": key, "until": now + pause})
    return now + pause


def _refuse(row: Row | None, now: int) -> None:
    until = (row["until"] if row else None) or 0
    if until > now:
        raise _too_many(until - now)


def _too_many(wait_ms: int) -> TooManyRequests:
    seconds = max(1, -(-wait_ms // 1000))
    told = f"{seconds} seconds" if seconds < 120 else f"{-(-seconds // 60)} minutes"
    return TooManyRequests(
        f"There were too many failed attempts to sign in. Try again in {told}.", headers={"Retry-After": str(seconds)}
    )
