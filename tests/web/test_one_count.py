"""Wrong passwords count per user, whichever name was used, and do not reveal whether the user exists."""

from __future__ import annotations

import re
from dataclasses import replace

import httpx
import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.web.browser import PASSWORD, Browser, add_person
from tests.web.pauses import end_pauses, lengthen_pauses
from tests.work.counted import Counted
from workhook.core.clock import now_ms
from workhook.core.errors import TooManyRequests
from workhook.http.calls import Services
from workhook.identity.actions import create_account
from workhook.identity.schemas import Account
from workhook.identity.signin import passwords, throttle
from workhook.identity.tables import sign_in_failures

WRONG = "not the right one"
HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"

_count = sa.select(sign_in_failures.c.failures).where(sign_in_failures.c.key == sa.bindparam("key"))


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend the pauses, so they outlast the test even on a slow machine."""
    monkeypatch.setattr(throttle, "FIRST_PAUSE_MS", throttle.LONGEST_PAUSE_MS)


def problem(page: httpx.Response) -> str:
    """Return the error message of the sign-in page."""
    found = re.search(r'id="problems".*?>(.+?)</', page.text, re.DOTALL)
    assert found is not None, page.text
    return found[1].strip()


async def add_user(services: Services, login: str, email: str) -> Account:
    async with services.database.transaction() as tx:
        user = await create_account(tx, "user", login, name=None, email=email)
    hashed = await passwords.new_hash(PASSWORD, user)
    async with services.database.transaction() as tx:
        await passwords.set_password(tx, user, hashed)
    return user


async def failures(services: Services, *keys: str) -> list[int]:
    rows = [await services.database.fetch_one(_count, {"key": key}) for key in keys]
    return [row["failures"] if row else 0 for row in rows]


async def told(services: Services, typed: str, password: str = WRONG, address: str = HERE) -> str:
    """Return the visible outcome of a sign-in attempt."""
    try:
        checked = await passwords.check_password(services.database, typed, password, address)
    except TooManyRequests as refused:
        return f"{refused.message} {refused.headers}"
    async with services.database.transaction() as tx:
        return "in" if await passwords.complete(tx, checked) else "wrong"


@pytest.mark.usefixtures("long_pauses")
async def test_a_login_and_its_email_address_share_their_attempts(services: Services) -> None:
    await add_user(services, "ada", "Ada@example.com")
    tried = ["ada", "ADA@example.com", "ada", "ada@EXAMPLE.com", " Ada "]
    assert [await told(services, each) for each in tried] == ["wrong"] * throttle.FREE_BY_LOGIN
    for typed in ("ada", "ada@example.com"):
        assert await told(services, typed, PASSWORD) == "wrong", "what comes after five wrong ones is not looked at"
    assert await told(services, "ada@example.com", PASSWORD, ELSEWHERE) == "in"  # other addresses are not locked out


@pytest.mark.usefixtures("long_pauses")
async def test_they_share_the_attempts_across_all_addresses_too(services: Services) -> None:
    await add_user(services, "ada", "ada@example.com")
    names = ("ada", "ada@example.com")
    for number in range(throttle.FREE_EVERYWHERE):
        assert await told(services, names[number % 2], address=f"198.51.100.{number}") == "wrong"
    assert [await told(services, each, PASSWORD) for each in names] == ["wrong", "wrong"]


async def test_the_right_password_resets_the_count(services: Services) -> None:
    user = await add_user(services, "ada", "ada@example.com")
    keys = (*(each.key for each in throttle.limits_of_user(str(user.id), HERE, 0)), throttle.login_key("ada"))
    for typed in ("ada", "ada@example.com", "ada", "ada@example.com"):
        assert await told(services, typed) == "wrong"
    assert await failures(services, *keys) == [4, 4, 2]
    assert await told(services, "ada", PASSWORD) == "in"
    assert await failures(services, *keys) == [0, 0, 0]


@pytest.mark.usefixtures("long_pauses")
async def test_an_unchecked_attempt_does_not_count(services: Services) -> None:
    """Otherwise, one address could use up the attempts of all addresses."""
    user = await add_user(services, "ada", "ada@example.com")
    for typed in ("ada", "ada@example.com") * throttle.FREE_BY_LOGIN:
        assert await told(services, typed) == "wrong"
    counted = await failures(services, *(each.key for each in throttle.limits_of_user(str(user.id), HERE, 0)))
    assert counted == [throttle.FREE_BY_LOGIN] * 2


@pytest.mark.usefixtures("long_pauses")
async def test_an_address_shared_by_several_users_identifies_none(services: Services) -> None:
    for login in ("ada", "bob"):
        await add_user(services, login, "both@example.com")
    assert [await told(services, "both@example.com") for _ in range(5)] == ["wrong"] * 5
    assert "Too many" in await told(services, "Both@Example.com")
    assert [await told(services, each, PASSWORD) for each in ("ada", "bob")] == ["in", "in"]


@pytest.mark.usefixtures("long_pauses")
async def test_responses_do_not_reveal_whether_two_names_belong_to_one_user(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor whether they exist at all: answers, `Retry-After` and the executed statements are identical."""
    started = now_ms()
    monkeypatch.setattr(throttle, "now_ms", lambda: started)  # the answers name the seconds that are left
    counted = Counted(services.database)
    watched: Services = replace(services, database=counted)  # type: ignore[arg-type]  # behaves like a Database

    async def seen(names: tuple[str, str], address: str) -> list[tuple[str, list[str]]]:
        found = []
        for typed in names * (throttle.FREE_BY_LOGIN + 1):
            counted.statements.clear()
            found.append((await told(watched, typed, address=address), list(counted.statements)))
        return found

    await add_user(services, "ada", "ada@example.com")
    await add_user(services, "bob", "bob@example.com")
    one = await seen(("ada", "ada@example.com"), "192.0.2.11")
    two = await seen(("ada", "bob@example.com"), "192.0.2.12")
    none = await seen(("nobody", "nobody@example.com"), "192.0.2.13")
    assert [answer for answer, _ in one].count("wrong") == 2 * throttle.FREE_BY_LOGIN
    assert one == two == none


def test_the_count_applies_in_every_process_and_the_page_reveals_nothing(server: Server, second_server: Server) -> None:
    person = add_person(server)
    with Browser(server) as one, Browser(second_server, **{"X-Forwarded-For": one.address}) as other:

        def tries(browser: Browser, name: str, password: str) -> httpx.Response:
            return browser.fill("/login", login=name, password=password)

        names = [(one, person.login), (other, person.email.upper()), (one, person.login), (other, person.email)]
        wrong = [tries(browser, name, "not the right one") for browser, name in [*names, names[0]]]
        server.run(lengthen_pauses)
        right = [tries(browser, name, PASSWORD) for browser, name in names[1::2]]
        assert [each.status_code for each in wrong + right] == [422] * 7
        assert {problem(each) for each in wrong} == {problem(each) for each in right}
        server.run(end_pauses)
        assert tries(other, person.email, PASSWORD).status_code == 303
