"""Forgotten passwords: the link is sent to the person's address, and responses do not reveal who has an account."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.harness.server import Server
from tests.mail.server import MailServer, Received
from tests.walls.dump import Reader
from tests.walls.test_side_effects import effects
from tests.web.browser import Browser, add_person
from tests.web.studio import text_of
from tests.work.test_administration import change
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.signin import passwords, throttle

NEW = "quite another string of words"


@pytest.fixture
def browser(server: Server) -> Iterator[Browser]:
    with Browser(server) as browser:
        yield browser


def link_in(got: Received, server: Server) -> str:
    """Return the path of the link in a message."""
    found = re.search(re.escape(server.url) + r"(/login/link/\S+)", got.text)
    assert found is not None
    return found[1]


def request_link(browser: Browser, login: str) -> str:
    answer = browser.fill("/login/forgotten", login=login)
    assert answer.status_code == 200, answer.text
    return text_of(answer.text).replace(login, "")


@pytest.mark.parametrize("by", ["login", "email"])
def test_the_link_allows_setting_a_password(server: Server, mail: MailServer, browser: Browser, by: str) -> None:
    person = add_person(server)
    assert "/login/forgotten" in browser.get("/login").text
    request_link(browser, getattr(person, by))
    [got] = mail.wait_for(person.email)
    path = link_in(got, server)
    assert browser.fill(path, path, password=NEW, again=NEW).status_code == 303
    with Browser(server) as other:
        assert other.sign_in(person).status_code == 422
        assert other.sign_in(person, NEW).status_code == 303


def test_the_response_is_the_same_without_an_account(server: Server, mail: MailServer, browser: Browser) -> None:
    person = add_person(server)
    away = add_person(server)
    nowhere = f"{uuid.uuid4().hex[:8]}@people.example"

    async def disable(services: Services) -> None:
        async with services.database.transaction() as tx:
            user = await queries.find_account(tx, away.login)
            assert user is not None
            await actions.disable(tx, user, base=services.base)

    server.run(disable)
    names = (person.email, person.login, nowhere, "nobody-at-all", away.login, away.email, "a" * 300)
    assert len({request_link(browser, name) for name in names}) == 1
    mail.wait_for(person.email)
    assert [mail.to(each) for each in (nowhere, away.email)] == [[], []]


def test_a_request_has_no_other_effects(server: Server, mail: MailServer, browser: Browser) -> None:
    """Compare with the effects which `tests.walls.effects` declares for writes without a mail server."""
    person = add_person(server)
    reader = Reader(server)
    try:
        request_link(browser, f"nobody-{uuid.uuid4().hex[:8]}")  # so that this IP address was counted before
        before = reader.dump()
        request_link(browser, f"nobody-{uuid.uuid4().hex[:8]}")
        none = reader.dump()
        assert effects(before, none) == "+sign_in_failures ~sign_in_failures"
        request_link(browser, person.login)
        mail.wait_for(person.email)
        found = effects(none, reader.dump()).removesuffix(" ~workers")  # the worker's heartbeat may happen meanwhile
        assert found == "+audit_log +mail_messages +sign_in_failures +sign_in_links ~sign_in_failures"
    finally:
        reader.close()


def test_a_second_request_sends_no_second_link(server: Server, mail: MailServer, browser: Browser) -> None:
    person = add_person(server)
    request_link(browser, person.email)
    request_link(browser, person.login)
    other = add_person(server)
    request_link(browser, other.email)
    mail.wait_for(other.email)  # messages are sent in the order of their due times
    assert len(mail.wait_for(person.email)) == 1


def test_requests_are_throttled_after_a_few(server: Server, browser: Browser) -> None:
    name = f"nobody-{uuid.uuid4().hex[:8]}"
    for _ in range(throttle.FREE_ASKED):
        request_link(browser, name)
    answer = browser.fill("/login/forgotten", login=name)
    assert (answer.status_code, "retry-after" in answer.headers) == (429, True)
    assert "Too many requests for a link" in answer.text


def test_nobody_gets_a_first_password_if_there_is_an_identity_provider(server: Server, mail: MailServer) -> None:
    """The provider may have locked the person out, which a new password would bypass."""
    addresses = [add_person(server, password=None).email, add_person(server).email]

    async def both(services: Services) -> None:
        for each in addresses:
            await passwords.mail_password_link(
                services.database, services.vault, each, "192.0.2.1", without_password=False
            )

    server.run(both)
    mail.wait_for(addresses[1])
    assert mail.to(addresses[0]) == []


def test_password_resets_are_not_offered_without_a_mail_server(new_server: Callable[..., Server]) -> None:
    with Browser(new_server()) as browser:
        assert "/login/forgotten" not in browser.get("/login").text
        assert browser.get("/login/forgotten").status_code == 404


def test_a_person_added_by_an_administrator_gets_the_link(server: Server, mail: MailServer, browser: Browser) -> None:
    owner = add_person(server)
    change(server, owner.login)
    browser.sign_in(owner)
    login = f"new-{uuid.uuid4().hex[:8]}"
    address = f"{login}@people.example"
    page = "/settings/administration"
    made = browser.fill(page, f"{page}/users", login=login, email=address, name="New")
    assert f"The link is e-mailed to {address}." in text_of(made.text)
    [got] = mail.wait_for(address)
    path = link_in(got, server)
    assert path in made.text
    with Browser(server) as other:
        assert other.fill(path, path, password=NEW, again=NEW).status_code == 303
