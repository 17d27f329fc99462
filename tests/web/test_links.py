"""Links for signing in and for setting a password: valid once, for a limited time, and only with the button."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.server import Server
from tests.web.browser import PASSWORD, Browser, Person, add_link, add_person, forms
from workhook.http.calls import Services
from workhook.identity.queries import find_account
from workhook.identity.signin import sessions


def _press(browser: Browser, path: str, **fields: str) -> tuple[int, str | None]:
    answer = browser.fill(path, **fields)
    return answer.status_code, answer.headers.get("location")


def test_a_link_signs_in_once(server: Server) -> None:
    person = add_person(server, password=None)
    path = add_link(server, person)
    with Browser(server) as browser, Browser(server) as late:
        form = late.form(path)
        assert _press(browser, path) == (303, "/")
        assert person.login in browser.get("/").text
        answer = late.post(path, form.fields)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert late.get(path).status_code == 404
        assert late.cookie is None


def test_viewing_a_link_does_not_use_it_up(server: Server) -> None:
    """Mail scanners, previews and prefetching open links. Some send HEAD requests, or forms not loaded before."""
    person = add_person(server)
    path = add_link(server, person)
    with Browser(server) as scanner:
        for _ in range(3):
            page = scanner.get(path)
            assert page.status_code == 200
            assert scanner.cookie is None
            assert scanner.client.head(path).status_code == 200
            assert scanner.client.options(path).status_code == 204
        assert scanner.post(path, {}).status_code == 415
        assert scanner.post(path, {"csrf": ""}).status_code == 403
        assert forms(page)[0].buttons == ["Sign in"]
        assert page.headers["referrer-policy"] == "no-referrer"
    with Browser(server) as browser:
        assert _press(browser, path) == (303, "/")


def test_concurrent_uses_of_a_link_sign_in_once(server: Server) -> None:
    person = add_person(server)
    path = add_link(server, person)
    browsers = [Browser(server) for _ in range(6)]
    filled = [each.form(path).fields for each in browsers]
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda one, fields: one.post(path, fields).status_code, browsers, filled))
    assert sorted(answers) == [303] + [404] * 5
    for each in browsers:
        each.client.close()


@pytest.mark.parametrize("purpose", [sessions.SIGN_IN, sessions.SET_PASSWORD])
def test_an_expired_changed_or_invented_link_is_invalid(server: Server, purpose: str) -> None:
    person = add_person(server)
    late = add_link(server, person, purpose, minutes=-0.01)
    good = add_link(server, person, purpose)
    with Browser(server) as browser:
        fields = browser.form(good).fields
        for path in (late, good[:-1], good + "A", good.swapcase(), "/login/link/x", "/login/link/" + "A" * 5000):
            assert browser.get(path).status_code == 404, path
            assert browser.post(path, {**fields, "password": PASSWORD, "again": PASSWORD}).status_code == 404, path
        assert browser.get("/login/link/%00").status_code == 404
        assert browser.get(good).status_code == 200


def test_a_password_link_sets_the_password_and_ends_every_session(server: Server) -> None:
    person = add_person(server)
    path, other = (add_link(server, person, sessions.SET_PASSWORD) for _ in range(2))
    new = "quite another string of words"
    with Browser(server) as elsewhere, Browser(server) as browser:
        elsewhere.sign_in(person)
        for wrong, said in (
            ({"password": "short", "again": "short"}, "at least 10 characters"),
            ({"password": new, "again": new + "x"}, "don’t match"),
            ({"password": "Password123", "again": "Password123"}, "too common"),
            ({"password": person.login, "again": person.login}, "must not be your login"),
        ):
            answer = browser.fill(path, **wrong)
            assert answer.status_code == 422
            assert said in answer.text
            assert wrong["password"] not in answer.text.replace(person.login, "", 3)
        assert elsewhere.is_signed_in()
        assert _press(browser, path, password=new, again=new) == (303, "/")
        assert not elsewhere.is_signed_in()
        assert browser.is_signed_in()
        assert elsewhere.get(other).status_code == 404  # created before the password was changed
        assert elsewhere.sign_in(person).status_code == 422
        assert elsewhere.sign_in(person, new).status_code == 303


def test_a_link_works_only_for_users(server: Server) -> None:
    """Organizations cannot sign in."""
    world = server.world()
    who = server.run(lambda services: _organization(services, world.organization))
    path = add_link(server, Person(who, world.organization, ""))
    with Browser(server) as browser:
        assert browser.get(path).status_code == 404


async def _organization(services: Services, login: str) -> int:
    found = await find_account(services.database, login)
    assert found is not None
    return found.id
