"""Wrong passwords entered by others never lock users out of a browser in which they have signed in before."""

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
    """Provide a browser in which the person has signed in and out."""
    with Browser(server) as browser:
        assert browser.sign_in(person).status_code == 303
        assert browser.fill("/", "/logout").status_code == 303
        assert not browser.is_signed_in()
        yield browser


def guess(server: Server, person: Person, times: int, addresses: int = 1) -> list[int]:
    """Try wrong passwords from several addresses in turn, then extend the pauses. Return the statuses."""
    browsers = [Browser(server) for _ in range(addresses)]
    answers = [browsers[number % addresses].sign_in(person, WRONG).status_code for number in range(times)]
    for each in browsers:
        each.client.close()
    server.run(lengthen_pauses)
    return answers


def test_five_wrong_passwords_do_not_lock_out_other_addresses(server: Server, person: Person) -> None:
    assert guess(server, person, 5) == [422] * 5
    with Browser(server) as new:
        assert new.sign_in(person).status_code == 303


@pytest.mark.whole
def test_a_known_browser_can_sign_in_while_many_addresses_guess(
    server: Server, second_server: Server, person: Person, known: Browser
) -> None:
    assert guess(server, person, throttle.FREE_EVERYWHERE, addresses=10) == [422] * throttle.FREE_EVERYWHERE
    with Browser(server) as new:
        assert new.sign_in(person).status_code == 429  # there is a limit for all addresses together
        assert new.fill(add_link(server, person)).status_code == 303  # but a link still works
    assert known.sign_in(person, WRONG).status_code == 422
    assert known.sign_in(person).status_code == 303
    with Browser(second_server) as elsewhere:  # the second process recognizes this browser too
        elsewhere.client.cookies.set(COOKIE, str(known.client.cookies.get(COOKIE)))
        assert elsewhere.sign_in(person).status_code == 303


def test_a_known_browser_has_the_usual_number_of_attempts(server: Server, person: Person, known: Browser) -> None:
    assert [known.sign_in(person, WRONG).status_code for _ in range(5)] == [422] * 5
    server.run(lengthen_pauses)
    assert known.sign_in(person).status_code == 429
    with Browser(server) as new:  # other browsers are unaffected
        assert new.sign_in(person).status_code == 303


def test_the_cookie_does_not_sign_in_and_is_hidden_from_scripts(server: Server, person: Person) -> None:
    with Browser(server) as browser:
        cookies = browser.sign_in(person).headers.get_list("set-cookie")
        [written] = [each for each in cookies if each.startswith(f"{COOKIE}=")]
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(written.split("; "))
        assert re.search(r"Max-Age=3456\d{4}$", written)
        browser.client.cookies.delete("workhook_session")
        assert not browser.is_signed_in()
    # The client does not send secure cookies over HTTP.
    with Browser(server, **{"X-Forwarded-Proto": "https"}) as browser:
        shown = browser.get("/login")
        given = str(shown.headers["set-cookie"]).partition(";")[0]
        fields = {**forms(shown)[0].fields, "login": person.login, "password": PASSWORD}
        cookies = browser.post("/login", fields, Cookie=given).headers.get_list("set-cookie")
        [written] = [each for each in cookies if COOKIE in each]
        assert written.startswith(f"__Host-{COOKIE}=")
        assert "Secure" in written.split("; ")


@pytest.mark.whole
def test_a_new_password_forgets_all_known_browsers_except_the_one_used(
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


def test_a_cookie_is_valid_only_unchanged_and_for_its_user(server: Server, person: Person, known: Browser) -> None:
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
