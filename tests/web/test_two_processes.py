"""Signing in on two processes, behind a proxy with or without HTTPS."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

import httpx
import sqlalchemy as sa

from tests.harness.server import Server
from tests.web.browser import PASSWORD, Browser, add_link, add_person, forms, without_keys
from tests.web.pauses import end_pauses, lengthen_pauses
from workhook.core.clock import now_ms
from workhook.http.calls import Services
from workhook.identity.signin import throttle
from workhook.identity.tables import sign_in_failures

WRONG = "not the right one"
AT_HOME = {"X-Forwarded-For": "198.51.100.77"}

_count = sa.select(sign_in_failures.c.failures).where(sign_in_failures.c.key == sa.bindparam("key"))
_blocked = sa.select(sign_in_failures.c.blocked_until).where(sign_in_failures.c.key == sa.bindparam("key"))


def attempts_within(seconds: float) -> int:
    """Return the number of possible attempts: five, plus one after each pause of 5 s, 10 s, 20 s and so on."""
    found, pause_s, over_s = 5, 5, 5
    while over_s <= seconds:
        found, pause_s = found + 1, 2 * pause_s
        over_s += pause_s
    return found


def test_known_and_unknown_logins_are_paused_after_five_failures(server: Server) -> None:
    person = add_person(server)
    seen = []
    for login in (person.login, f"{person.login}-x"):
        with Browser(server, **AT_HOME) as browser:
            fields = browser.form("/login").fields
            tried, began = [login, login.upper(), f" {login}", *[login] * 4], now_ms()
            answers = [browser.post("/login", {**fields, "login": each, "password": WRONG}) for each in tried[:5]]
            until = server.run(
                partial(_value, _blocked, throttle.limits_of(login, AT_HOME["X-Forwarded-For"], None, 0)[1].key)
            )
            assert began + throttle.FIRST_PAUSE_MS <= until <= now_ms() + throttle.FIRST_PAUSE_MS
            server.run(lengthen_pauses)
            answers += [browser.post("/login", {**fields, "login": each, "password": WRONG}) for each in tried[5:]]
            assert [each.status_code for each in answers] == [422] * 5 + [429] * 2
            assert 1 <= int(answers[-1].headers["retry-after"]) <= 10 * 60
            text = without_keys(answers[-1].text).replace(login, "")
            text, times = re.subn(r"\b\d+ (seconds|minutes)", "", text)
            assert (times, "Too many failed sign-in attempts" in text) == (1, True)
            seen.append(text)
    assert seen[0] == seen[1]
    with Browser(server, **AT_HOME) as browser:
        assert browser.sign_in(person).status_code == 429  # even with the right password
        assert browser.fill(add_link(server, person)).status_code == 303  # but a link still works
        browser.client.cookies.clear()
        server.run(end_pauses)
        assert browser.sign_in(person, WRONG).status_code == 422
        server.run(lengthen_pauses)
        assert browser.sign_in(person).status_code == 429
        server.run(end_pauses)
        assert browser.sign_in(person).status_code == 303
        assert counted(server, throttle.login_key(person.login)) == 0
        browser.client.cookies.clear()
        assert [browser.sign_in(person, WRONG).status_code for _ in range(5)] == [422] * 5


def counted(server: Server, key: str) -> int:
    found: int = server.run(partial(_value, _count, key))
    return found


async def _value(statement: sa.Select[tuple[int]], key: str, services: Services) -> int:
    """Return a stored value for the throttle key."""
    row = await services.database.fetch_one(statement, {"key": key})
    return row[0] if row else 0


def test_concurrent_guesses_on_two_processes_share_their_attempts(server: Server, second_server: Server) -> None:
    person = add_person(server)
    browsers = [Browser(each, **AT_HOME) for each in (server, second_server)]
    filled = [{**each.form("/login").fields, "login": person.login, "password": WRONG} for each in browsers]

    def guess(number: int) -> httpx.Response:
        return browsers[number % 2].post("/login", filled[number % 2])

    began = time.monotonic()
    with ThreadPoolExecutor(16) as threads:
        answers = [each.status_code for each in threads.map(guess, range(40))]
    assert answers.count(422) + answers.count(429) == 40
    assert 5 <= answers.count(422) <= attempts_within(time.monotonic() - began)
    for each in browsers:
        each.client.close()


def test_every_process_notices_that_a_session_has_ended(server: Server, second_server: Server) -> None:
    person = add_person(server)
    with Browser(server) as here, Browser(second_server) as there:
        here.sign_in(person)
        there.client.cookies.set("workhook_session", str(here.cookie))
        assert there.is_signed_in()
        here.fill("/", "/logout")
        assert not there.is_signed_in()


def test_the_cookie_is_secure_behind_an_https_proxy(server: Server) -> None:
    person = add_person(server)
    proxy = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "work.example.com", "X-Forwarded-For": "198.51.100.7"}
    with Browser(server, **proxy) as browser:
        # The HTTP client here does not send secure cookies over HTTP, so they are added by hand.
        page = browser.get("/login")
        form_cookie = page.headers["set-cookie"].partition(";")[0]
        assert form_cookie.startswith("__Host-workhook_form=")
        fields = {**forms(page)[0].fields, "login": person.login, "password": PASSWORD}
        own = {"Origin": "https://work.example.com", "Cookie": form_cookie}
        assert browser.client.post("/login", data=fields, headers={**own, "Origin": server.url}).status_code == 403
        set_cookie = browser.client.post("/login", data=fields, headers=own).headers["set-cookie"]
        assert set_cookie.startswith("__Host-workhook_session=")
        assert {"Secure", "Path=/", "HttpOnly", "SameSite=Lax"} < set(set_cookie.split("; "))
        assert "Domain" not in set_cookie
        cookie = set_cookie.partition(";")[0]
        home = browser.client.get("/settings", headers={"Cookie": cookie})
        assert home.status_code == 200
        assert "198.51.100.7" in home.text
        # A cookie that plain HTTP could have set is not accepted.
        plain = cookie.removeprefix("__Host-")
        assert browser.client.get("/", headers={"Cookie": plain}).status_code == 303


def test_the_cookie_is_secure_with_a_public_https_address(new_server: Callable[..., Server]) -> None:
    """Even without `trust_proxy`, because a request to that host name was made over HTTPS."""
    server = new_server(base_url="https://work.example.com")
    for host, safe in (("work.example.com", True), ("WORK.example.com", True), (urlsplit(server.url).netloc, False)):
        with Browser(server, Host=host) as browser:
            cookie = browser.get("/login").headers["set-cookie"]
        assert (cookie.startswith("__Host-"), "Secure" in cookie.split("; ")) == (safe, safe), host
