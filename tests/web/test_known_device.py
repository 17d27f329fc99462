"""Wrong passwords of others keep nobody out of a browser in which they have signed in before."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.harness.server import Server
from tests.web.browser import PASSWORD, Browser, Person, add_link, add_person, forms
from tests.web.pauses import lengthen_pauses
from workhook.identity.signin import throttle

pytestmark = pytest.mark.one_database

WRONG = "not the right one"
COOKIE = "workhook_device"
OTHER_PASSWORD = "other words of one's own"


@pytest.fixture
def person(server: Server) -> Person:
    return add_person(server)


@pytest.fixture
def known(server: Server, person: Person) -> Iterator[Browser]:
    """A browser in which the person has signed in, and out again."""
    with Browser(server) as browser:
        assert browser.sign_in(person).status_code == 303
        assert browser.fill("/", "/logout").status_code == 303
        assert not browser.is_signed_in()
        yield browser


def guess(server: Server, person: Person, times: int, addresses: int = 1) -> list[int]:
    """Statuses of wrong passwords from so many addresses in turn; then the pauses go on for long."""
    browsers = [Browser(server) for _ in range(addresses)]
    answers = [browsers[number % addresses].sign_in(person, WRONG).status_code for number in range(times)]
    for each in browsers:
        each.client.close()
    server.run(lengthen_pauses)
    return answers


def test_five_wrong_passwords_lock_nobody_out_elsewhere(server: Server, person: Person) -> None:
    assert guess(server, person, 5) == [422] * 5
    with Browser(server) as new:
        assert new.sign_in(person).status_code == 303


@pytest.mark.whole
def test_a_known_browser_gets_through_while_many_addresses_guess(
    server: Server, second_server: Server, person: Person, known: Browser
) -> None:
    assert guess(server, person, throttle.FREE_EVERYWHERE, addresses=10) == [422] * throttle.FREE_EVERYWHERE
    with Browser(server) as new:
        assert new.sign_in(person).status_code == 429  # all addresses together are bounded
        assert new.fill(add_link(server, person)).status_code == 303  # a link is the way in meanwhile
    assert known.sign_in(person, WRONG).status_code == 422
    assert known.sign_in(person).status_code == 303
    with Browser(second_server) as elsewhere:  # the other process knows this browser too
        elsewhere.client.cookies.set(COOKIE, str(known.client.cookies.get(COOKIE)))
        assert elsewhere.sign_in(person).status_code == 303


def test_a_known_browser_has_no_more_attempts_than_another(server: Server, person: Person, known: Browser) -> None:
    assert [known.sign_in(person, WRONG).status_code for _ in range(5)] == [422] * 5
    server.run(lengthen_pauses)
    assert known.sign_in(person).status_code == 429
    with Browser(server) as new:  # and it hinders no other
        assert new.sign_in(person).status_code == 303


def test_the_cookie_signs_nobody_in_and_is_kept_from_scripts(server: Server, person: Person) -> None:
    with Browser(server) as browser:
        cookies = browser.sign_in(person).headers.get_list("set-cookie")
        [written] = [each for each in cookies if each.startswith(f"{COOKIE}=")]
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(written.split("; "))
        assert re.search(r"Max-Age=3456\d{4}$", written)
        browser.client.cookies.delete("workhook_session")
        assert not browser.is_signed_in()
    with Browser(server, **{"X-Forwarded-Proto": "https"}) as browser:  # the client sends no such cookie by http
        shown = browser.get("/login")
        given = str(shown.headers["set-cookie"]).partition(";")[0]
        fields = {**forms(shown)[0].fields, "login": person.login, "password": PASSWORD}
        cookies = browser.post("/login", fields, Cookie=given).headers.get_list("set-cookie")
        [written] = [each for each in cookies if COOKIE in each]
        assert written.startswith(f"__Host-{COOKIE}=")
        assert "Secure" in written.split("; ")


@pytest.mark.whole
def test_a_new_password_ends_what_is_known_but_not_where_it_was_changed(
    server: Server, person: Person, known: Browser
) -> None:
    with Browser(server) as other:
        other.sign_in(person)
        changed = other.fill("/settings/password", current=PASSWORD, password=OTHER_PASSWORD, again=OTHER_PASSWORD)
        assert changed.status_code == 303
        guess(server, person, throttle.FREE_EVERYWHERE, addresses=10)
        assert known.sign_in(person, OTHER_PASSWORD).status_code == 429
        other.fill("/", "/logout")
        assert other.sign_in(person, OTHER_PASSWORD).status_code == 303


def test_a_cookie_counts_only_for_its_user_and_only_as_it_was_made(
    server: Server, person: Person, known: Browser
) -> None:
    other = add_person(server)
    assert known.sign_in(other).status_code == 303  # several users share a browser
    known.fill("/", "/logout")
    made = str(known.client.cookies.get(COOKIE))
    assert made.count("~") == 1
    guess(server, person, throttle.FREE_EVERYWHERE, addresses=10)
    [own] = [each for each in made.split("~") if each.startswith(f"{person.id}-")]
    [others] = [each for each in made.split("~") if each.startswith(f"{other.id}-")]
    forged = own[:-1] + ("A" if own[-1] != "A" else "B")
    swapped = f"{person.id}-{others.partition('-')[2]}"
    for cookie in (others, swapped, forged, own.partition(".")[0], "", "x" * 1000, f"{own}x"):
        with Browser(server) as browser:
            browser.client.cookies.set(COOKIE, cookie)
            assert browser.sign_in(person).status_code == 429, cookie
    for cookie in (own, made):
        with Browser(server) as browser:
            browser.client.cookies.set(COOKIE, cookie)
            assert browser.sign_in(person).status_code == 303
