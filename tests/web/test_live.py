"""`/{owner}/{project}/live` tells a page that something has happened, but not what."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator

import httpx
import pytest

from tests.harness.server import Server
from tests.harness.waiting import WAIT_S, until
from tests.harness.world import add_client
from tests.web.browser import Browser, Person, add_person
from workhook.events import outbox
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.signin import sessions
from workhook.identity.tokens.lookup import find_actor

STREAM = {"Accept": "text/event-stream"}


class Page:
    """The event stream of a page."""

    def __init__(self, browser: Browser, path: str) -> None:
        request = browser.client.build_request("GET", path, headers=STREAM, timeout=WAIT_S)
        self.answer = browser.client.send(request, stream=True)
        self._lines = self.answer.iter_lines()

    def opened(self) -> Page:
        assert self.answer.status_code == 200, self.answer.read()
        while not next(self._lines).startswith("id:"):
            pass
        return self

    def next(self) -> str:
        """Return the next event with its data."""
        lines: list[str] = []
        for line in self._lines:
            if not line and lines:
                break
            if line and not line.startswith((":", "id:", "retry:")):
                lines.append(line)
        return "\n".join(lines)

    def rest(self) -> list[str]:
        """Return the remaining events until the server ends the stream."""
        found = []
        while event := self.next():
            found.append(event)
        return found


class Watched:
    """A project of an organization, with a member in a browser."""

    def __init__(self, server: Server) -> None:
        self.server, self.world = server, server.world()
        self.path = f"/{self.world.full_name}/live"
        self.member = add_person(server, password=None)
        self.open: list[Browser] = []

        async def join(services: Services) -> None:
            async with services.database.transaction() as tx:
                organization = await queries.find_account(tx, self.world.organization)
                user = await queries.find_account(tx, self.member.login)
                assert organization is not None
                assert user is not None
                await actions.set_member(tx, organization, user, "member")

        server.run(join)

    def browser(self, login: str) -> Browser:
        browser = Browser.of(self.server, login)
        self.open.append(browser)
        return browser

    def page(self, login: str | None = None) -> Page:
        return Page(self.browser(login or self.member.login), self.path)

    def rename(self, title: str) -> None:
        with self.server.client(self.world.token) as client:
            client.patch(f"/api/v1/projects/{self.world.project_id}", json={"title": title}).raise_for_status()


@pytest.fixture
def watched(server: Server) -> Iterator[Watched]:
    watched = Watched(server)
    yield watched
    for each in watched.open:
        each.client.close()


def test_a_page_is_told_that_something_happened_but_not_what(watched: Watched) -> None:
    page = watched.page().opened()
    assert page.answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert page.answer.headers["cache-control"] == "no-store"
    assert "content-encoding" not in page.answer.headers
    watched.rename("A secret")
    assert page.next() == "event: changed\ndata:"
    watched.rename("Another")
    assert page.next() == "event: changed\ndata:"


def _address_in(page: str) -> str:
    [address] = re.findall(r'data-live-url-value="([^"]*)"', page)
    return str(address)


def test_a_page_is_told_of_changes_before_its_stream_opened(watched: Watched) -> None:
    """Something changed after the page was rendered and before its script ran."""
    browser = watched.browser(watched.member.login)
    before = _address_in(browser.get(f"/{watched.world.full_name}").text)
    watched.rename("Too early for the stream")
    after = _address_in(browser.get(f"/{watched.world.full_name}").text)
    assert Page(browser, before).opened().next() == "event: changed\ndata:"
    page = Page(browser, after).opened()
    watched.rename("Only this")
    newest = _address_in(browser.get(f"/{watched.world.full_name}").text)
    assert page.next() == "event: changed\ndata:"
    assert _number(before) < _number(after) < _number(newest), "no signal for events that the page had seen"


def _number(address: str) -> int:
    return int(address.partition("?seen=")[2])


# SQLite serializes writers, so a page never misses an earlier event.
@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_page_rendered_during_an_open_transaction_reloads(watched: Watched) -> None:
    """The uncommitted change may have a lower number than events that the page has already seen."""
    browser = watched.browser(watched.member.login)

    async def address_meanwhile(services: Services) -> str:
        async with services.database.transaction() as tx:
            repository = await queries.find_repository(
                tx, watched.world.organization, watched.world.repository, watched.member.id
            )
            assert repository is not None
            await outbox.append(tx, outbox.Draft(1, repository.id, "push", None, {}))
            page = await asyncio.to_thread(browser.get, f"/{watched.world.full_name}")
            return _address_in(page.text)

    watched.rename("One event at least")
    address = watched.server.run(address_meanwhile)
    assert _number(address) == 0
    assert Page(browser, address).opened().next() == "event: changed\ndata:"


async def _ended(services: Services, person: Person) -> None:
    async with services.database.transaction() as tx:
        for each in await sessions.list_of(tx, person.id):
            await sessions.end(tx, person.id, each["id"])


async def _disabled(services: Services, person: Person) -> None:
    async with services.database.transaction() as tx:
        user = await queries.find_account(tx, person.login)
        assert user is not None
        await actions.disable(tx, user, base="http://localhost")


@pytest.mark.parametrize("way", [_ended, _disabled], ids=["session ended", "user disabled"])
def test_a_stream_ends_with_the_session(watched: Watched, way: Callable[[Services, Person], Awaitable[None]]) -> None:
    theirs, mine = watched.page().opened(), watched.page(watched.world.owner).opened()
    watched.server.run(lambda services: way(services, watched.member))
    assert theirs.rest() == []
    watched.rename("After")
    assert mine.next() == "event: changed\ndata:"


def test_a_stream_ends_for_a_removed_member(watched: Watched) -> None:
    theirs = watched.page().opened()
    with watched.server.client(watched.world.token) as client:
        client.delete(f"{watched.world.org_path}/members/{watched.member.login}").raise_for_status()
    assert set(theirs.rest()) <= {"event: changed\ndata:"}  # at most the event about the removal
    assert watched.page().answer.status_code == 404


def test_strangers_and_clients_cannot_open_the_stream(watched: Watched, server: Server) -> None:
    """Strangers must not learn that the project exists, and clients must not learn of private activity."""

    async def client_of(services: Services) -> str:
        actor = await find_actor(services.database, await add_client(services, watched.world))
        assert actor is not None
        return actor.user.login

    assert watched.page(server.world().owner).answer.status_code == 404
    assert watched.page(server.run(client_of)).answer.status_code == 403
    with Browser(server) as nobody:
        assert nobody.get(watched.path).headers["location"].startswith("/login?return_to=")
        program = httpx.get(f"{server.url}{watched.path}", headers=STREAM)
        assert (program.status_code, program.json()["message"]) == (404, "Not Found")


def test_a_user_can_open_a_limited_number_of_streams(watched: Watched) -> None:
    """The limit applies per user, not per session."""
    pages = [watched.page().opened() for _ in range(10)]
    refused = watched.page()
    assert (refused.answer.status_code, refused.answer.headers["retry-after"]) == (429, "10")
    watched.page(watched.world.owner).opened()  # of another user
    pages[0].answer.close()
    assert until(lambda: watched.page().answer.status_code == 200)
