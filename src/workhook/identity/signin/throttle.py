"""Limits on sign-in attempts, counted in the database for all processes.

Wrong passwords are counted by login and IP address, so that users cannot be locked out from elsewhere; by IP address;
and by login over all addresses, with a higher limit, against distributed guessing. A browser in which the user has
signed in before has a count of its own, so that others cannot lock the user out there.

Users have two names, login and e-mail address, and unknown names are counted in the same way, so that pauses reveal
nothing. Attempts under either name also count for the user. Beyond that limit, attempts are treated as wrong
(`CountedAttempt.held`), since a refusal would reveal that the two names belong together. Unknown names have such a
count too, so that both cases take the same time.

Invalid links are counted by IP address only. Mail to unconfirmed addresses is counted by that address, using the
database's clock.

Attempts are counted first, and success undoes the count, so that concurrent attempts cannot exceed the limit.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import sqlalchemy as sa

from workhook.core.clock import DAY_MS, MINUTE_MS, SECOND_MS, now_ms
from workhook.core.errors import TooManyRequests, say
from workhook.identity.rate import subscriber
from workhook.identity.tables import sign_in_failures
from workhook.storage import Database, Reader, Row, Transaction
from workhook.storage.dialects import any_of, server_now, upsert
from workhook.storage.metadata import bigint_param

FREE_BY_LOGIN = 5  # failures of a login from one address or in one known browser, before the first pause
FREE_EVERYWHERE = 50  # of a login over all addresses
FREE_BY_ADDRESS = 30  # many people may share one
FIRST_PAUSE_MS = 5 * SECOND_MS
LONGEST_PAUSE_MS = 15 * MINUTE_MS  # so that no one can lock out a user permanently
COUNTED_MS = DAY_MS  # from the first failure of a count to its reset

FREE_ASKED = 3  # requests for links by a name, before the first pause

_SIGN_IN, _LINKS = say("failed sign-in attempts"), say("invalid links")
_ASKED = say("requests for a link")

_failures = sign_in_failures.c
_is_old = _failures.since <= bigint_param("old")
_count = sa.case((_is_old, 1), else_=_failures.failures + 1)
_attempt = (
    upsert(sign_in_failures)
    .values(key=sa.bindparam("key"), failures=1, since=bigint_param("now"), blocked_until=sa.literal(0, sa.BigInteger))
    .on_conflict_do_update(
        index_elements=["key"],
        set_={"failures": _count, "since": sa.case((_is_old, bigint_param("now")), else_=_failures.since)},
        where=_failures.blocked_until <= bigint_param("now"),
    )
    .returning(sign_in_failures.c.failures)
)
_by_key = sa.update(sign_in_failures).where(_failures.key == sa.bindparam("failures_key"))
_block = _by_key.values(blocked_until=bigint_param("until"))
_blocked = sa.select(sa.func.max(_failures.blocked_until).label("until")).where(any_of(_failures.key, "keys"))
_clear = sa.delete(sign_in_failures).where(_failures.key == sa.bindparam("failures_key"))
# The pause is removed only if it is still the one that this attempt started.
_take_back = _by_key.where(_failures.failures > 0).values(
    failures=_failures.failures - 1,
    blocked_until=sa.case((_failures.blocked_until == bigint_param("until"), 0), else_=_failures.blocked_until),
)


# One statement to start a pause, to undo the count, or to do neither, so that all cases take the same time.
_settle = _by_key.values(
    failures=_failures.failures - bigint_param("back"),
    blocked_until=sa.case((bigint_param("until") > 0, bigint_param("until")), else_=_failures.blocked_until),
)

_is_day_over = _failures.since <= server_now() - bigint_param("counted_ms")
_mailed = (
    upsert(sign_in_failures)
    .values(key=sa.bindparam("key"), failures=1, since=server_now(), blocked_until=sa.literal(0, sa.BigInteger))
    .on_conflict_do_update(
        index_elements=["key"],
        set_={
            "failures": sa.case((_is_day_over, 1), else_=_failures.failures + 1),
            "since": sa.case((_is_day_over, server_now()), else_=_failures.since),
        },
        where=sa.or_(_is_day_over, _failures.failures < bigint_param("most")),
    )
    .returning(sign_in_failures.c.failures)
)


class Limit(NamedTuple):
    key: str
    free: int  # failures before the first pause
    cleared: bool  # a success resets the count


class CountedAttempt(NamedTuple):
    """An admitted attempt, with its limits and the ends of the pauses it started (ms since the epoch, or 0)."""

    limits: tuple[Limit, ...]
    untils: tuple[int, ...]
    held: bool = False  # too many attempts under the user's other name, so even the right password is rejected


def login_key(login: str) -> str:
    """Return the same key for all spellings of a name: a digest, because some people enter their password there."""
    return "login:" + _digest(login)


def nobody(login: str) -> str:
    """Return the value of `whose` for an unknown name."""
    return f"?{_digest(login)}"


def _digest(login: str) -> str:
    return hashlib.sha256(login.strip().casefold().encode()).hexdigest()


def pause_ms(failures: int, free: int) -> int:
    """Return the pause after this many failures: 0, then 5 s, 10 s, 20 s … 15 min."""
    if failures < free:
        return 0
    return min(FIRST_PAUSE_MS << min(failures - free, 20), LONGEST_PAUSE_MS)


async def begin(
    database: Database,
    login: str,
    address: str | None,
    *,
    subject: str | None = None,
    device: str | None = None,
    everywhere: int = FREE_EVERYWHERE,
) -> CountedAttempt:
    """Count an attempt as failed for the time being. Raises `TooManyRequests` during a pause.

    `subject` is the ID of the user with this `login`, or `nobody`; None if users have only one name. `device` is the ID
    of a browser in which the user is known. `everywhere` is the number of failures of the login over all addresses
    before the first pause.
    """
    limits = limits_of(login, address, device, everywhere)
    keys = [each.key for each in limits]
    _refuse(await database.fetch_one(_blocked, {"keys": keys}), now_ms())  # a flood only causes reads
    by_user = limits_of_user(subject, address, everywhere) if subject is not None and device is None else ()

    async def count(tx: Transaction) -> CountedAttempt:
        now = now_ms()  # before the other pauses start, so that the user's ends no later
        # Always in this order, so that two attempts cannot deadlock.
        attempt = CountedAttempt(limits, tuple([await _count_one(tx, each.key, each.free) for each in limits]))
        return await _count_for_user(tx, by_user, attempt, now) if by_user else attempt

    return await database.in_transaction(count)


def limits_of(login: str, address: str | None, device: str | None, everywhere: int) -> tuple[Limit, ...]:
    """Return the limits of a name: overall, at the address, and of the address; or of a known browser."""
    if device is not None:
        return (Limit(f"device:{device}", FREE_BY_LOGIN, cleared=True),)
    at = subscriber(address)
    return (
        Limit(login_key(login), everywhere, cleared=True),
        Limit(f"pair:{_digest(login)}:{at}", FREE_BY_LOGIN, cleared=True),
        Limit(f"address:{at}", FREE_BY_ADDRESS, cleared=False),
    )


def limits_of_user(subject: str, address: str | None, everywhere: int) -> tuple[Limit, ...]:
    """Return the limits of a user under any name: overall, and at the address."""
    return (
        Limit(f"user:{subject}", everywhere, cleared=True),
        Limit(f"place:{subject}:{subscriber(address)}", FREE_BY_LOGIN, cleared=True),
    )


async def refuse_links(reader: Reader, address: str | None) -> None:
    """Raise `TooManyRequests` during a pause, even if the link is valid."""
    _refuse(await reader.fetch_one(_blocked, {"keys": [_key_of_links(address)]}), now_ms(), _LINKS)


async def count_link(database: Database, address: str | None) -> None:
    """Count an invalid link, or a form behind one. Raises `TooManyRequests` during a pause."""
    key = _key_of_links(address)
    await database.in_transaction(lambda tx: _count_one(tx, key, FREE_BY_ADDRESS, _LINKS))


async def count_asked(database: Database, login: str, address: str | None) -> None:
    """Count a request for a link by mail. Raises `TooManyRequests` during a pause."""

    async def count(tx: Transaction) -> None:
        await _count_one(tx, f"asked:{_digest(login)}", FREE_ASKED, _ASKED)
        await _count_one(tx, f"asked at:{subscriber(address)}", FREE_BY_ADDRESS, _ASKED)

    await database.in_transaction(count)


async def count_daily(tx: Transaction, key: str, *, most: int) -> bool:
    """Count a message. Returns False if the key has reached `most` within a day of the first message."""
    return await tx.fetch_one(_mailed, {"key": key, "most": most, "counted_ms": COUNTED_MS}) is not None


def _key_of_links(address: str | None) -> str:
    return f"link:{subscriber(address)}"


async def undo_attempt(tx: Transaction, attempt: CountedAttempt, *, succeeded: bool = False) -> None:
    """Undo the count of an attempt that was not made or has `succeeded`, which also resets the login's failures.

    The address only gets this attempt back, so that attackers cannot reset its count with an account of their own.
    """
    for limit, until in zip(attempt.limits, attempt.untils, strict=True):
        statement = _clear if succeeded and limit.cleared else _take_back
        await tx.execute(statement, {"failures_key": limit.key, "until": until or -1})


async def _count_one(tx: Transaction, key: str, free: int, action: str = _SIGN_IN) -> int:
    now = now_ms()
    row = await tx.fetch_one(_attempt, {"key": key, "now": now, "old": now - COUNTED_MS})
    if row is None:
        _refuse(await tx.fetch_one(_blocked, {"keys": [key]}), now, action)
        raise _too_many(FIRST_PAUSE_MS, action)  # it has just ended
    pause = pause_ms(row["failures"], free)
    if not pause:
        return 0
    await tx.execute(_block, {"failures_key": key, "until": now + pause})
    return now + pause


async def _count_for_user(
    tx: Transaction, limits: tuple[Limit, ...], attempt: CountedAttempt, now: int
) -> CountedAttempt:
    """Also count the attempt for its user, or return it as `held`. Both take the same time."""
    rows = [await tx.fetch_one(_attempt, {"key": each.key, "now": now, "old": now - COUNTED_MS}) for each in limits]
    held = None in rows
    untils = []
    for limit, row in zip(limits, rows, strict=True):
        pause = 0 if held or row is None else pause_ms(row["failures"], limit.free)
        untils.append(now + pause if pause else 0)
        back = 1 if held and row is not None else 0
        await tx.execute(_settle, {"failures_key": limit.key, "back": back, "until": untils[-1]})
    if held:
        return attempt._replace(held=True)
    return CountedAttempt((*attempt.limits, *limits), (*attempt.untils, *untils))


def _refuse(row: Row | None, now: int, action: str = _SIGN_IN) -> None:
    until = (row["until"] if row else None) or 0
    if until > now:
        raise _too_many(until - now, action)


def _too_many(wait_ms: int, action: str) -> TooManyRequests:
    seconds = max(1, -(-wait_ms // 1000))
    if seconds == 1:
        wait = say("1 second")
    else:
        wait = say("{} seconds", seconds) if seconds < 120 else say("{} minutes", -(-seconds // 60))
    return TooManyRequests(say("Too many {}. Try again in {}.", action, wait), retry_after_s=seconds)
