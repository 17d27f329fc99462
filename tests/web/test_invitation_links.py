"""Invitation links: who can join with one, only once, and that they reveal and permit nothing else."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.harness.server import Server, SharedServer
from tests.harness.world import World
from tests.web.browser import PASSWORD, Browser, Person, add_person, forms, without_keys
from tests.web.pauses import lengthen_pauses
from tests.web.places_kit import add_in, owner_of
from tests.web.studio import HOSTILE, text_of
from tests.web.test_people_pages import after
from workhook.core import json
from workhook.core.clock import now_ms
from workhook.events.payloads import from_stored
from workhook.events.tables import events
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.signin import throttle
from workhook.identity.tables import accounts, invitations
from workhook.storage.metadata import bigint_param

_end = (
    sa.update(invitations).where(invitations.c.email == sa.bindparam("address")).values(expires_at=bigint_param("now"))
)
_digests = sa.select(invitations.c.link_digest).where(invitations.c.email == sa.bindparam("address"))
_told = (
    sa.select(events.c.name, events.c.action, events.c.payload)
    .where(events.c.actor_id == bigint_param("actor_id"))
    .order_by(events.c.id)
)
_like = sa.select(accounts.c.login, accounts.c.email).where(accounts.c.login_key == sa.bindparam("login_key"))


@dataclass
class Place:
    """An organization with a project, and the browsers of its visitors."""

    server: Server
    world: World
    closing: ExitStack
    owner: Browser = field(init=False)

    def __post_init__(self) -> None:
        self.owner = self.browser(owner_of(self.server, self.world))

    @property
    def people(self) -> str:
        return f"/{self.world.organization}/people"

    @property
    def settings(self) -> str:
        return f"/{self.world.full_name}/settings"

    def browser(self, person: Person) -> Browser:
        return self.closing.enter_context(Browser.of(self.server, person.login))

    def stranger(self) -> Browser:
        return self.closing.enter_context(Browser(self.server))

    def link(self, who: str, role: str = "member") -> str:
        return link_of(self.owner.fill_csrf(self.people, who=who, role=role, link="1"))

    def project_link(self, who: str, role: str = "write") -> str:
        return link_of(self.owner.fill_csrf(f"{self.settings}/people", who=who, role=role, link="1"))

    def client_link(self, email: str) -> str:
        return link_of(self.owner.fill_csrf(f"{self.settings}/clients/invite", email=email, link="1"))

    def rows(self, statement: Any, **params: object) -> list[Any]:
        async def read(services: Services) -> list[Any]:
            return list(await services.database.fetch_all(statement, params))

        found: list[Any] = self.server.run(read)
        return found

    def write(self, statement: Any, **params: object) -> None:
        async def run(services: Services) -> None:
            async with services.database.transaction() as tx:
                await tx.execute(statement, params)

        self.server.run(run)

    def role(self, login: str) -> str | None:
        async def read(services: Services) -> str | None:
            user = await queries.find_account(services.database, login)
            place = await queries.find_account(services.database, self.world.organization)
            assert user is not None
            assert place is not None
            return await queries.find_member_role(services.database, place.id, user.id)

        found: str | None = self.server.run(read)
        return found

    def role_here(self, login: str) -> str | None:
        async def read(services: Services) -> str | None:
            user = await queries.find_account(services.database, login)
            assert user is not None
            owner, name = self.world.organization, self.world.repository
            found = await queries.find_repository(services.database, owner, name, user.id)
            return found.role if found else None

        found: str | None = self.server.run(read)
        return found

    def told_by(self, login: str) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the events sent by the user."""

        async def read(services: Services) -> list[Any]:
            user = await queries.find_account(services.database, login)
            assert user is not None
            return list(await services.database.fetch_all(_told, {"actor_id": user.id}))

        return [
            (row["name"], row["action"], json.decode(from_stored(row["payload"]) or b""))
            for row in self.server.run(read)
        ]


@pytest.fixture
def place(server: Server) -> Iterator[Place]:
    with ExitStack() as closing:
        yield Place(server, server.world(), closing)


def link_of(answer: httpx.Response) -> str:
    """Return the path of the link shown on the page."""
    assert answer.status_code == 200, answer.text
    shown = answer.text.partition('<code id="link">')[2].partition("</code>")[0]
    assert shown.startswith("http")
    return "/invitations/links/" + shown.rpartition("/")[2]


def address() -> str:
    return f"guest-{uuid.uuid4().hex[:8]}@example.com"


def new_login() -> str:
    return f"guest-{uuid.uuid4().hex[:8]}"


def join(browser: Browser, link: str, login: str, **other: str) -> httpx.Response:
    given = {"login": login, "name": "Guest", "password": PASSWORD, "again": PASSWORD, **other}
    return browser.fill(link, **given)


def gone(browser: Browser, link: str) -> str:
    """Return the page for an invalid link, without its request ID."""
    answer = browser.get(link)
    assert answer.status_code == 404, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    return without_keys(answer.text).replace(answer.headers["x-request-id"], "")


def test_a_new_user_creates_an_account_and_becomes_a_member(place: Place) -> None:
    email, login = address(), new_login()
    link = place.link(email)
    assert place.owner.get(place.people).text.count(link.rpartition("/")[2]) == 0, "it is shown once"
    assert "link created" in text_of(place.owner.get(place.people).text)
    stranger = place.stranger()
    shown = stranger.get(link)
    said = text_of(shown.text)
    assert "invited you to Acme" in said
    assert "Octo has invited you" in said
    assert email not in shown.text, "the link alone does not reveal the address"
    assert (shown.headers["cache-control"], shown.headers["referrer-policy"]) == ("no-store", "no-referrer")
    assert "content-encoding" not in shown.headers
    answer = join(stranger, link, login)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/{place.world.organization}")
    assert stranger.get(place.people).status_code == 200, "they have signed in"
    assert place.role(login) == "member"
    [(name, action, payload)] = place.told_by(login)
    assert (name, action, payload["member"]["login"], payload["sender"]["login"]) == ("member", "added", login, login)
    [row] = place.rows(_like, login_key=login)
    assert row["email"] is None, "the address is not proven"
    assert gone(place.stranger(), link)
    again = place.stranger()
    assert again.sign_in(Person(0, login, "")).status_code == 303, "the password is theirs"


def test_all_invalid_links_show_the_same_page(place: Place) -> None:
    used, revoked, replaced, over, changed, renewed = (address() for _ in range(6))
    links = {each: place.link(each) for each in (used, revoked, replaced, over, changed, renewed)}
    assert join(place.stranger(), links[used], new_login()).status_code == 303
    of = {each.action: each for each in forms(place.owner.get(place.people))}
    rows = place.rows(sa.select(invitations.c.id, invitations.c.email).where(invitations.c.email.is_not(None)))
    number = {row["email"]: row["id"] for row in rows}
    cancel = of[f"{place.people}/invitations/{number[revoked]}/cancel"]
    assert place.owner.post(cancel.action, cancel.fields).status_code == 303
    renew = of[f"{place.people}/invitations/{number[replaced]}/link"]
    newer = link_of(place.owner.post(renew.action, renew.fields))
    place.write(_end, address=over, now=now_ms())
    place.owner.fill_csrf(place.people, who=renewed, role="owner")
    stranger = place.stranger()
    bad = [links[each] for each in (used, revoked, replaced, over, renewed)]
    secret = links[changed].rpartition("/")[2]
    bad += [f"/invitations/links/{each}" for each in ("x", "A" * 43, secret.swapcase(), secret[:-1], "A" * 500)]
    pages = {gone(stranger, each) for each in bad}
    assert len(pages) == 1
    [page] = pages
    assert "This link is invalid, has expired" in page
    assert place.world.organization not in page
    assert stranger.get(newer).status_code == 200
    assert stranger.get(links[changed]).status_code == 200
    visitor = place.browser(add_person(place.server))
    for each in bad:
        for action in ("/accept", "/decline"):
            assert visitor.fill_csrf(each + action).status_code == 404
    assert stranger.client.head(links[changed]).status_code == 200
    assert stranger.get(links[changed]).status_code == 200, "looking does not use it up"


def test_only_a_digest_is_stored(place: Place) -> None:
    email = address()
    secret = place.link(email).rpartition("/")[2]
    [row] = place.rows(_digests, address=email)
    assert secret.encode() not in bytes(row["link_digest"])
    assert len(bytes(row["link_digest"])) == 32
    log = place.owner.get(f"/{place.world.organization}/audit").text
    assert "invitation.link" in log
    assert secret not in log
    assert email not in log


def test_account_errors_are_reported_and_the_link_remains_valid(place: Place) -> None:
    email, taken = address(), add_person(place.server)
    link, stranger = place.link(email, "owner"), place.stranger()
    for given, said in (
        ({"login": "settings"}, "reserved for a page"),
        ({"login": "INVITATIONS"}, "reserved for a page"),
        ({"login": taken.login.upper()}, "is taken"),
        ({"login": place.world.organization}, "is taken"),
        ({"login": "a--b"}, "1 to 39 letters"),
        ({"login": HOSTILE}, "1 to 39 letters"),
        ({"login": "a" * 300}, "1 to 39 letters"),
        ({"login": ""}, "1 to 39 letters"),
        ({"name": "x" * 256}, "255"),
        ({"password": "short", "again": "short"}, "at least 10 characters"),
        ({"password": "password123", "again": "password123"}, "too common"),
        ({"again": "another one altogether"}, "don’t match"),
        ({"login": "hello-my-friend", "password": "hello my friend", "again": "hello my friend"}, "must not be your"),
    ):
        answer = join(stranger, link, given.get("login", "guest-x"), **{k: v for k, v in given.items() if k != "login"})
        assert answer.status_code == 422, given
        assert said in text_of(answer.text), given
        assert "<img src=x" not in answer.text
        assert PASSWORD not in answer.text
        assert 'value="Guest"' in answer.text or "name" in given
    assert place.rows(_like, login_key="guest-x") == []
    raised = join(stranger, link, login := new_login())
    assert raised.status_code == 303
    assert place.role(login) == "owner"


def test_a_signed_in_user_accepts_or_declines(place: Place) -> None:
    person, other = add_person(place.server), add_person(place.server)
    link = place.link(address())
    browser = place.browser(person)
    assert f"You’re accepting as {person.login}." in text_of(browser.get(link).text)
    page = after(browser, browser.fill(link, f"{link}/accept"))
    assert "Welcome to" in page
    assert place.role(person.login) == "member"
    assert [event[:2] for event in place.told_by(person.login)] == [("member", "added")]
    assert gone(browser, link)
    link = place.link(address())
    assert "You already have access" in text_of(browser.get(link).text)
    assert browser.fill_csrf(f"{link}/accept").status_code == 409
    assert "You already have access" in text_of(place.owner.get(link).text)
    elsewhere = place.browser(other)
    assert "Invitation declined" in after(elsewhere, elsewhere.fill(link, f"{link}/decline"))
    assert place.role(other.login) is None
    assert gone(elsewhere, link)


def test_signing_in_returns_to_the_link(place: Place) -> None:
    person, link, browser = add_person(place.server), place.link(address()), place.stranger()
    way = f"/login?return_to={link}"
    assert f'href="{way}"' in browser.get(link).text
    answer = browser.fill(way, "/login", login=person.login, password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, link)
    assert browser.fill(link, f"{link}/accept").status_code == 303
    assert place.role(person.login) == "member"


def test_a_link_for_a_login_works_only_for_that_user(place: Place) -> None:
    person, other = add_person(place.server), add_person(place.server)
    link = place.link(person.login)
    stranger, elsewhere = place.stranger(), place.browser(other)
    page = stranger.get(link)
    assert f"This invitation is for {person.login}" in text_of(page.text)
    assert [each for each in forms(page) if each.action == link] == []
    key = stranger.form("/login", "/login").fields["csrf"]
    given = {"csrf": key, "login": new_login(), "password": PASSWORD, "again": PASSWORD}
    assert stranger.post(link, given).status_code == 403
    assert f"for {person.login}, but you’re signed in as {other.login}" in text_of(elsewhere.get(link).text)
    for action in ("/accept", "/decline"):
        assert elsewhere.fill_csrf(link + action).status_code == 403
    assert place.role(other.login) is None
    browser = place.browser(person)
    assert browser.fill(link, f"{link}/accept").status_code == 303
    assert place.role(person.login) == "member"


def test_collaborators_and_clients_join_with_a_link(place: Place) -> None:
    login, email, guest = new_login(), address(), new_login()
    link = place.project_link(address(), "read")
    stranger = place.stranger()
    assert "has invited you to Acme ’s project Website" in text_of(stranger.get(link).text)
    answer = join(stranger, link, login)
    assert answer.headers["location"] == f"/{place.world.full_name}"
    assert (place.role(login), place.role_here(login)) == (None, "read")
    assert [event[:2] for event in place.told_by(login)] == [("member", "added")]
    link = place.client_link(email)
    with place.server.client(place.world.token) as api:
        listed = api.get(f"{place.world.repo_path}/invitations").json()
    assert listed == [], "GitHub's clients know no clients"
    assert email in place.owner.get(place.settings).text
    client = place.stranger()
    assert "As a client, you’ll see" in text_of(client.get(link).text)
    assert join(client, link, guest).status_code == 303
    [(name, action, payload)] = place.told_by(guest)
    assert (name, action) == ("client", "added")
    assert (payload["client"]["username"], email in str(payload)) == (guest, False)
    assert client.get(f"/{place.world.full_name}").status_code == 200
    [remove] = [each for each in forms(place.owner.get(place.settings)) if each.action.endswith("/remove")]
    removed = place.owner.post(remove.action, remove.fields)
    assert client.get(f"/{place.world.full_name}").status_code == 404
    [back] = [each for each in forms(place.owner.get(removed.headers["location"])) if "Undo" in each.buttons]
    for name, value in (("username", login), ("until", "9" * 13), ("until", "x"), ("removed", "")):
        assert place.owner.post(back.action, {**back.fields, name: value}).status_code == 404, name
    assert place.owner.post(back.action, back.fields).status_code == 303
    assert client.get(f"/{place.world.full_name}").status_code == 200
    assert client.get(place.settings).status_code in (403, 404)
    assert gone(client, link)


def test_project_invitations_by_address_are_listed_renewed_and_revoked(place: Place) -> None:
    email, client = address(), address()
    first = place.project_link(email, "admin")
    with place.server.client(place.world.token) as api:
        [listed] = api.get(f"{place.world.repo_path}/invitations").json()
        assert (listed["login"], listed["invitee"], listed["permissions"]) == (None, None, "admin")
        changed = api.patch(f"{place.world.repo_path}/invitations/{listed['id']}", json={"permissions": "read"})
        assert changed.status_code == 200, changed.text
    assert gone(place.stranger(), first), "a changed role ends the link"
    place.client_link(client)
    page = place.owner.get(place.settings)
    renewing = [each for each in forms(page) if each.action.endswith("/link")]
    answers = [place.owner.post(each.action, each.fields) for each in renewing]
    newer = [link_of(each) for each in answers]
    assert len(newer) == 2
    told = ["Earlier links to this invitation no longer work." in text_of(each.text) for each in answers]
    assert sorted(told) == [False, True], "the changed role has ended the only earlier link of the other"
    cancelling = [each for each in forms(page) if each.action.endswith("/cancel")]
    for each in cancelling:
        answer = place.owner.post(each.action, each.fields)
        shown = place.owner.get(answer.headers["location"])
        assert "revoked" in shown.text
        [undo] = [form for form in forms(shown) if "Undo" in form.buttons]
        assert place.owner.post(undo.action, undo.fields).status_code == 303
    for link in newer:
        assert gone(place.stranger(), link)
    left = place.owner.get(place.settings).text
    assert email in left
    assert client in left
    assert "· link created" not in text_of(left), "what is invited again has none"
    assert "Enter a valid e-mail address" in text_of(
        place.owner.fill_csrf(f"{place.settings}/clients/invite", email="no").text
    )
    assert place.owner.fill_csrf(f"{place.settings}/people", who="a b@c", role="read").status_code == 422


def test_only_inviters_can_create_links(place: Place) -> None:
    place.link(address())
    place.client_link(address())
    organization = [each.action for each in forms(place.owner.get(place.people)) if each.action.endswith("/link")]
    project = [each.action for each in forms(place.owner.get(place.settings)) if each.action.endswith("/link")]
    for role, status in (("member", 403), ("write", 403), ("client", 404)):
        browser = place.browser(add_in(place.server, place.world, role))
        for action in project:
            assert browser.fill_csrf(action).status_code in (status, 404, 403), role
        for action in organization:
            assert browser.fill_csrf(action).status_code in (403, 404), role
        answer = browser.fill_csrf(f"{place.settings}/clients/invite", email=address(), link="1")
        assert answer.status_code in (403, 404)
    other = Place(place.server, place.server.world(), place.closing)
    for action in organization:
        assert other.owner.fill_csrf(action.replace(place.people, other.people)).status_code == 404
    for action in project:
        assert other.owner.fill_csrf(action.replace(place.settings, other.settings)).status_code == 404


def test_a_link_ends_when_its_creator_loses_the_permission(place: Place) -> None:
    second = add_in(place.server, place.world, "owner")
    browser = place.browser(second)
    link = link_of(browser.fill_csrf(place.people, who=address(), role="owner", link="1"))
    assert place.stranger().get(link).status_code == 200
    place.owner.fill_csrf(f"{place.people}/{second.login}/role", role="member")
    assert gone(place.stranger(), link)


def test_only_one_of_several_concurrent_users_joins(place: Place) -> None:
    link = place.link(address())
    logins = [new_login() for _ in range(4)]
    browsers = [place.stranger() for _ in logins]
    given = [each.form(link).fields for each in browsers]

    def send(number: int) -> int:
        fields = {**given[number], "login": logins[number], "password": PASSWORD, "again": PASSWORD}
        return browsers[number].post(link, fields).status_code

    with ThreadPoolExecutor(len(logins)) as pool:
        statuses = list(pool.map(send, range(len(logins))))
    assert sorted(statuses) == [303, 404, 404, 404]
    made = [each for each in logins if place.rows(_like, login_key=each)]
    assert made == [logins[statuses.index(303)]], "the others have no account either"


def test_a_server_can_restrict_links_to_existing_accounts(backend: Databases, tmp_path: Path, place: Place) -> None:
    server = SharedServer(tmp_path, {**backend.new(tmp_path), "link_create_users": "false"}).start()
    place.closing.callback(server.close)
    here = Place(server, server.world(), place.closing)
    link, stranger, person = here.link(address()), here.stranger(), add_person(server)
    page = stranger.get(link)
    assert "Sign in to accept." in text_of(page.text)
    assert [each for each in forms(page) if each.action == link] == []
    key = stranger.form("/login", "/login").fields["csrf"]
    given = {"csrf": key, "login": (login := new_login()), "password": PASSWORD, "again": PASSWORD}
    assert stranger.post(link, given).status_code == 403
    assert here.rows(_like, login_key=login) == []
    browser = here.browser(person)
    assert browser.fill(link, f"{link}/accept").status_code == 303


def test_trying_many_links_is_throttled(place: Place) -> None:
    link, stranger = place.link(address()), place.stranger()
    for _ in range(throttle.FREE_BY_ADDRESS):
        assert stranger.get("/invitations/links/" + "A" * 43).status_code == 404
    place.server.run(lengthen_pauses)
    refused = stranger.get(link)
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)
    assert "Too many invalid links" in refused.text
    assert stranger.get("/login").status_code == 200, "signing in has its own count"
    assert place.stranger().get(link).status_code == 200


def test_links_end_with_a_disabled_inviter_or_a_deleted_project(place: Place) -> None:
    second = add_in(place.server, place.world, "owner")
    link = link_of(place.browser(second).fill_csrf(place.people, who=address(), role="member", link="1"))
    in_project = place.project_link(address())

    async def disable(services: Services) -> None:
        async with services.database.transaction() as tx:
            user = await queries.find_account(tx, second.login)
            assert user is not None
            await actions.disable(tx, user, base="http://x")

    place.server.run(disable)
    assert place.owner.fill(f"{place.settings}/delete", name=place.world.repository).status_code == 303
    assert gone(place.stranger(), link) == gone(place.stranger(), in_project)


def test_the_expiration_date_is_readable_without_scripts(place: Place) -> None:
    page = place.stranger().get(place.link(address())).text
    assert re.search(r"expires on <time [^>]*>[A-Z][a-z]{2} \d+(, \d{4})?</time>", page)
