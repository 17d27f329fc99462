"""Throttling of password attempts across all processes, and the cost of a flood of attempts."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from workhook.core.clock import MINUTE_MS, SECOND_MS
from workhook.core.errors import TooManyRequests, Unavailable
from workhook.http.calls import Services
from workhook.identity.actions import create_account
from workhook.identity.signin import passwords, throttle
from workhook.identity.tables import sign_in_failures
from workhook.storage.metadata import bigint_param

WRONG = "not the right one"

_count = sa.select(sign_in_failures.c.failures).where(sign_in_failures.c.key == sa.bindparam("key"))
_age = sa.update(sign_in_failures).values(since=sign_in_failures.c.since - bigint_param("by"), blocked_until=0)


async def failures(services: Services, key: str) -> int:
    row = await services.database.fetch_one(_count, {"key": key})
    return row["failures"] if row else 0


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend the pauses, so they outlast the test even on a slow machine."""
    monkeypatch.setattr(throttle, "FIRST_PAUSE_MS", throttle.LONGEST_PAUSE_MS)


@pytest.mark.usefixtures("long_pauses")
async def test_attempts_are_limited_per_address(services: Services) -> None:
    async def tries(address: str, numbers: range) -> None:
        for number in numbers:
            await throttle.begin(services.database, f"login-{number}", address)

    await tries("192.0.2.1", range(throttle.FREE_BY_ADDRESS))
    with pytest.raises(TooManyRequests) as refused:
        await tries("192.0.2.1", range(100, 101))
    assert 1 <= int(refused.value.headers["Retry-After"]) <= throttle.LONGEST_PAUSE_MS // SECOND_MS
    assert await failures(services, throttle.login_key("login-100")) == 0
    await tries("192.0.2.2", range(100, 101))

    await tries("2001:db8::1", range(200, 200 + throttle.FREE_BY_ADDRESS - 1))
    await tries("2001:db8::ffff:2", range(300, 301))
    with pytest.raises(TooManyRequests):
        await tries("2001:db8::3", range(301, 302))
    await tries("2001:db8:0:1::1", range(301, 302))


@pytest.mark.usefixtures("long_pauses")
async def test_signing_in_successfully_does_not_reset_the_count_of_the_address(services: Services) -> None:
    address = "192.0.2.1"
    for number in range(throttle.FREE_BY_ADDRESS - 1):
        await throttle.begin(services.database, f"login-{number}", address)
    own = await throttle.begin(services.database, "mine", address)
    async with services.database.transaction() as tx:
        await throttle.undo_attempt(tx, own, succeeded=True)
    assert await failures(services, f"address:{address}") == throttle.FREE_BY_ADDRESS - 1
    await throttle.begin(services.database, "another", address)  # the pause of the successful attempt has ended with it
    with pytest.raises(TooManyRequests):
        await throttle.begin(services.database, "mine", address)


async def test_a_count_restarts_after_a_day(services: Services) -> None:
    for _ in range(throttle.FREE_BY_LOGIN):
        await throttle.begin(services.database, "ada", None)
    async with services.database.transaction() as tx:
        await tx.execute(_age, {"by": throttle.COUNTED_MS + 1})
    await throttle.begin(services.database, "ada", None)
    assert await failures(services, throttle.login_key("ada")) == 1


def test_pauses_double_up_to_a_quarter_of_an_hour() -> None:
    pauses = [throttle.pause_ms(failures, 5) // SECOND_MS for failures in range(16)]
    assert pauses == [0, 0, 0, 0, 0, 5, 10, 20, 40, 80, 160, 320, 640, 900, 900, 900]
    assert throttle.pause_ms(10**9, 5) == 15 * MINUTE_MS


async def test_a_flood_is_refused_and_not_counted(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    flood = [passwords.matches(None, "x" * 12) for _ in range(passwords.WAITING_MAX + 10)]
    answers = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(each, Unavailable) for each in answers) == 10
    assert answers.count(False) == passwords.WAITING_MAX
    assert await passwords.matches(None, "x" * 12) is False  # afterwards there is capacity again
    monkeypatch.setattr(passwords, "WAITING_MAX", 0)
    with pytest.raises(Unavailable) as refused:
        await passwords.check_password(services.database, "ada", WRONG, "192.0.2.1")
    assert refused.value.headers["Retry-After"] == "5"
    assert await failures(services, throttle.login_key("ada")) == 0
    assert await failures(services, "address:192.0.2.1") == 0


async def test_an_unknown_login_takes_as_long_as_a_known_one(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    from argon2 import PasswordHasher

    from workhook.identity.actions import create_account

    parameters: list[str] = []
    real = PasswordHasher.verify

    def verify(self: PasswordHasher, stored: str, password: str) -> bool:
        parameters.append(stored.rpartition("$")[0].rpartition("$")[0])
        return real(self, stored, password)

    async with services.database.transaction() as tx:
        ada = await create_account(tx, "user", "ada", name=None, email="ada@example.com")
        await create_account(tx, "user", "bob", name=None, email="bob@example.com")
        await create_account(tx, "organization", "acme", name=None, email="acme@example.com")
    hashed = await passwords.new_hash("some words of one's own", ada)
    async with services.database.transaction() as tx:
        await passwords.set_password(tx, ada, hashed)
    monkeypatch.setattr(PasswordHasher, "verify", verify)
    for login in ("ada", "ada@example.com", "bob", "acme", "acme@example.com", "nobody", "", "a\0b", "x" * 5000):
        checked = await passwords.check_password(services.database, login, WRONG, None)
        assert not checked.right
    assert len(parameters) == 9
    assert set(parameters) == {"$argon2id$v=19$m=19456,t=2,p=1"}


@pytest.mark.parametrize("like", ["v\u0130ct\u0130m@example.com", "\u212aate@example.com"])
async def test_every_spelling_that_finds_an_account_counts_for_it(services: Services, like: str) -> None:
    """PostgreSQL lowercases U+0130 to `i`. With separate counts, an attacker could try 2^n spellings of a login."""
    async with services.database.transaction() as tx:
        for login, email in (("victim", "Victim@example.com"), ("kate", "Kate@example.com")):
            user = await create_account(tx, "user", login, name=None, email=email)
            await passwords.set_password(tx, user, await passwords.new_hash("some words of one's own", user))
    checked = await passwords.check_password(services.database, like, WRONG, None)
    known = None if checked.user is None else throttle.login_key(checked.user.email or "")
    assert known in (None, throttle.login_key(like))


async def test_a_password_changed_during_the_sign_in_is_refused(services: Services) -> None:
    """Otherwise, a session created with the old password would outlive the change."""
    from workhook.identity.actions import create_account

    first, second = "some words of one's own", "other words of one's own"
    async with services.database.transaction() as tx:
        ada = await create_account(tx, "user", "ada", name=None, email=None)
    for password in (first, second):
        hashed = await passwords.new_hash(password, ada)
        async with services.database.transaction() as tx:
            await passwords.set_password(tx, ada, hashed)
        checked = await passwords.check_password(services.database, "ada", password, None)
        assert checked.right
        if password == first:
            early = checked
    async with services.database.transaction() as tx:
        assert not await passwords.complete(tx, early)
        assert await passwords.complete(tx, checked)
