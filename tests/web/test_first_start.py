"""The first steps on a new server without scripts, from the printed link to the first visible delivery."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.harness.server import Server
from tests.harness.waiting import until
from tests.web.browser import PASSWORD, Browser, Person, add_link, add_person, forms
from tests.web.places_kit import join, owner_of, signed_in
from tests.web.studio import HOSTILE, text_of
from tests.work.trello import encoded
from tests.work.trello_importer import comment, small
from workhook.web.welcome.importing import EXPORT_MAX_BYTES

_LINK = re.compile(r"sign-in link for owner, valid once and for an hour: (http\S+)\n")
_TOKEN = re.compile(r"shown only once: (\S+)\n")
ADA = {"id": "m1", "username": "ada", "fullName": "Ada"}


@pytest.fixture
def fresh(new_server: Callable[..., Server]) -> Server:
    """Start a server like `make run` does, which does not deliver to private networks."""
    return new_server(delivery_allow_networks="")


@pytest.fixture
def open_browser() -> Iterator[Callable[[Server], Browser]]:
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(Browser(server))


def enter(server: Server, browser: Browser) -> str:
    """Open the printed link and return where it redirects to."""
    [link] = _LINK.findall(server.first_sign_in())
    answer = browser.fill(link.removeprefix(server.url))
    assert answer.status_code == 303
    return str(answer.headers["location"])


def upload(browser: Browser, action: str, data: bytes, *, csrf: str | None = None) -> httpx.Response:
    if csrf is None:
        csrf = next(each.fields["csrf"] for each in forms(browser.get("/")) if each.action == "/logout")
    sent = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    files = {"file": ("board.json", data, "application/json")}
    return browser.client.post(action, data={"csrf": csrf}, files=files, headers=sent)


def test_the_setup_leads_from_the_link_to_a_delivery(fresh: Server, open_browser: Callable[[Server], Browser]) -> None:
    browser = open_browser(fresh)
    assert enter(fresh, browser) == "/welcome"
    names = browser.fill("/welcome", organization="Acme & Söhne", name="Ada", password=PASSWORD, again=PASSWORD)
    assert names.headers["location"] == "/welcome/project"
    made = browser.fill("/welcome/project", title="Website", template="board")
    step = made.headers["location"]
    assert step == "/welcome/webhook?project=website"
    tried = browser.fill(step, "/workhook/website/webhooks/receiver")
    assert tried.headers["location"] == step
    assert browser.fill(step, "/workhook/website/webhooks/receiver/card").headers["location"] == step
    page = until(lambda: found if ">task<" in (found := browser.get(step).text) else "")
    assert text_of(page).count("valid signature") == 2, "of the ping, and of the card's event"
    assert re.search(r'href="/workhook/website">(?:(?!</a>).)*Finish', page, re.S), "it leads to the created project"
    assert "<code>created</code>" in page, "what happened to the task"
    assert [each for each in ("To do", "Doing", "Done") if each in browser.get("/workhook/website").text]
    assert "Acme &amp; Söhne" in browser.get("/workhook").text
    again = open_browser(fresh)
    assert again.fill("/login", login="owner", password=PASSWORD).headers["location"] == "/"


def test_only_the_first_sign_in_leads_to_the_setup(fresh: Server, open_browser: Callable[[Server], Browser]) -> None:
    browser = open_browser(fresh)
    assert enter(fresh, browser) == "/welcome"
    second = open_browser(fresh)
    owner = Person(_id_of(fresh, "owner"), "owner", "")
    assert second.fill(add_link(fresh, owner)).headers["location"] == "/"
    assert second.get("/welcome").status_code == 200, "but the steps are still there"


@pytest.mark.parametrize("what", ["user", "task", "hook"])
def test_a_server_in_use_does_not_start_the_setup(
    fresh: Server, open_browser: Callable[[Server], Browser], what: str
) -> None:
    [token] = _TOKEN.findall(fresh.first_sign_in())
    with fresh.client(token) as client:
        if what == "user":
            add_person(fresh)
        elif what == "hook":
            body = {"config": {"url": "https://example.com/"}}
            assert client.post("/repos/workhook/getting-started/hooks", json=body).status_code == 201
        else:
            [project] = client.get("/api/v1/projects").json()["projects"]
            column = client.post(f"/api/v1/projects/{project['id']}/columns", json={"title": "To do"}).json()["column"]
            made = client.post(f"/api/v1/columns/{column['id']}/tasks", json={"title": "A task"})
            assert made.is_success, made.text
    assert enter(fresh, open_browser(fresh)) == "/"


def test_every_step_can_be_skipped(fresh: Server, open_browser: Callable[[Server], Browser]) -> None:
    browser = open_browser(fresh)
    enter(fresh, browser)
    for path, onwards in (("/welcome", "/welcome/project"), ("/welcome/project", "/welcome/webhook")):
        page = browser.get(path).text
        assert f'href="{onwards}">Skip this step' in page
        assert 'href="/">Skip setup' in page
    assert "Getting started" in text_of(browser.get("/welcome/webhook").text), "the project that is there"
    assert browser.get("/").status_code == 200


def test_errors_are_shown_next_to_their_fields(fresh: Server, open_browser: Callable[[Server], Browser]) -> None:
    browser = open_browser(fresh)
    enter(fresh, browser)
    refused = browser.fill("/welcome", organization="x" * 256, name=HOSTILE, password=PASSWORD, again="another one")
    assert refused.status_code == 422
    assert 'id="organization-fault"' in refused.text
    assert 'id="password-fault"' in refused.text
    assert "The passwords don’t match." in text_of(refused.text)
    assert HOSTILE not in refused.text, "what was typed is kept, as text"
    assert "onerror=alert(1)&gt;" in refused.text
    assert PASSWORD not in refused.text
    weak = browser.fill("/welcome", organization="Acme", name="Ada", password="short", again="short")
    assert "at least 10 characters" in text_of(weak.text)
    assert "Acme" not in browser.get("/workhook").text, "nothing was kept"
    untitled = browser.fill("/welcome/project", title=" ", template="board")
    assert untitled.status_code == 422
    assert 'id="title-fault"' in untitled.text
    assert re.search(r'id="title"[^>]* autofocus', untitled.text)
    assert browser.fill("/welcome/project", title="A", template="none").status_code == 404


def test_the_first_invalid_field_is_focused(fresh: Server, open_browser: Callable[[Server], Browser]) -> None:
    browser = open_browser(fresh)
    [link] = _LINK.findall(fresh.first_sign_in())
    assert "<button autofocus>" in browser.get(link.removeprefix(fresh.url)).text
    enter(fresh, browser)
    assert re.search(r'id="organization"[^>]* autofocus', browser.get("/welcome").text)
    wrong = browser.fill("/welcome", organization="Acme", name="Ada", password=PASSWORD, again="another")
    assert wrong.text.count(" autofocus") == 1
    assert re.search(r'id="password"[^>]* autofocus', wrong.text)


def test_the_setup_sets_a_password_but_never_changes_one(
    fresh: Server, open_browser: Callable[[Server], Browser]
) -> None:
    browser = open_browser(fresh)
    enter(fresh, browser)
    browser.fill("/welcome", organization="Acme", name=HOSTILE, password=PASSWORD, again=PASSWORD)
    page = browser.get("/welcome").text
    assert 'name="password"' not in page
    assert HOSTILE not in page
    other = "quite another string of words"
    assert browser.fill_csrf("/welcome", organization="Acme", name="A", password=other, again=other).status_code == 303
    third = open_browser(fresh)
    assert third.fill("/login", login="owner", password=other).status_code == 422
    assert third.fill("/login", login="owner", password=PASSWORD).status_code == 303


def test_only_organization_owners_can_open_the_setup(server: Server, open_browser: Callable[[Server], Browser]) -> None:
    world = server.world()
    member, stranger = join(server, world, add_person(server), "member"), add_person(server)
    assert open_browser(server).get("/welcome").headers["location"] == "/login?return_to=%2Fwelcome"
    for person in (member, stranger):
        with signed_in(server, person) as browser:
            for path in ("/welcome", "/welcome/project", "/welcome/webhook"):
                assert browser.get(path).status_code == 404
            for path in ("/welcome", "/welcome/project"):
                assert browser.fill_csrf(path, organization="X", name="X", title="X").status_code == 404
            assert upload(browser, "/welcome/import", encoded(small({}))).status_code == 404
    other = server.world()
    with Browser.of(server, world.owner) as owner:
        assert owner.get(f"/welcome/webhook?project={world.repository}").status_code == 200
        assert owner.get(f"/welcome/webhook?project={other.repository}x").status_code == 404
        assert other.organization not in owner.get("/welcome/webhook").text


# --- importing a Trello board ----------------------------------------------------------------------------------------


def test_a_board_becomes_the_first_project(fresh: Server, open_browser: Callable[[Server], Browser]) -> None:
    browser = open_browser(fresh)
    enter(fresh, browser)
    bad = upload(browser, "/welcome/import", b'{"lists": [')
    assert bad.status_code == 422
    assert 'id="file-fault"' in bad.text
    assert "This isn’t valid JSON: line 1" in text_of(bad.text)
    made = upload(browser, "/welcome/import", encoded(small({"name": HOSTILE}, {}, name=HOSTILE)))
    assert made.status_code == 201
    assert HOSTILE not in made.text
    assert "2 cards" in text_of(made.text)
    onwards = re.search(r'href="(/welcome/webhook\?project=[\w.-]+)"', made.text)
    assert onwards is not None
    assert browser.get(onwards[1]).status_code == 200


def test_members_import_a_board_and_a_second_import_adds_only_new_cards(server: Server) -> None:
    world = server.world()
    action = f"/{world.organization}/-/import"
    with signed_in(server, join(server, world, add_person(server), "member")) as member:
        assert f'href="{action}"' in member.get(f"/{world.organization}").text
        assert "Import a project" in member.get(action).text
        board = small({}, {}, name="Relaunch")
        first = upload(member, action, encoded(board))
        assert first.status_code == 201
        assert "2 cards" in text_of(first.text)
        assert "Relaunch" in member.get(f"/{world.organization}").text
        again = upload(member, action, encoded(board))
        assert "Nothing new to import. 2 existing cards are unchanged." in text_of(again.text)
        for data, told in (
            (b"", "Choose the exported file"),
            (b"[]", "it contains a list"),
            (b'{"idBoard": 1, "idList": 2}', "card"),
        ):
            refused = upload(member, action, data)
            assert refused.status_code == 422
            assert told in text_of(refused.text)


def test_imported_comments_cannot_impersonate_users(server: Server) -> None:
    """Anyone can write an export file. Only the command line, used by the server's operator, trusts its authors."""
    world = server.world()
    owner = owner_of(server, world)
    with signed_in(server, join(server, world, add_person(server), "member")) as member:
        written = comment(1, "I resign", author={**ADA, "username": owner.login})
        made = upload(member, f"/{world.organization}/-/import", encoded(small({}, name="Forged", actions=[written])))
        assert made.status_code == 201, made.text
    comments = _comments(server, world.token, "Forged")
    assert len(comments) == 1
    assert comments[0]["user"]["username"] != owner.login
    assert comments[0]["imported_author"] == f"Ada ({owner.login})"


def test_importing_does_not_reveal_a_private_project(server: Server) -> None:
    """A member who uploads the same board does not learn that it is already in a project hidden from them."""
    world = server.world()
    action, board = f"/{world.organization}/-/import", encoded(small({}, name="Secret plan"))
    with Browser.of(server, world.owner) as owner:
        assert upload(owner, action, board).status_code == 201
    with server.client(world.token) as client:
        found = client.get("/api/v1/projects").json()["projects"]
        [project] = [each for each in found if each["title"] == "Secret plan"]
        changed = client.put(f"/api/v1/projects/{project['id']}", json={"private": True})
        if changed.status_code == 405:
            changed = client.patch(f"/api/v1/projects/{project['id']}", json={"private": True})
        assert changed.is_success, changed.text
    with signed_in(server, join(server, world, add_person(server), "member")) as member:
        refused = upload(member, action, board)
        assert refused.status_code == 404
        assert "secret-plan" not in refused.text


def test_importing_needs_the_permission_to_create_projects(server: Server) -> None:
    world = server.world()
    action = f"/{world.organization}/-/import"
    for place in ("client", "read", "stranger"):
        person = add_person(server)
        if place != "stranger":
            join(server, world, person, place)
        with signed_in(server, person) as browser:
            assert browser.get(action).status_code == 404
            assert upload(browser, action, encoded(small({}))).status_code == 404
            assert "-/import" not in browser.get(f"/{world.organization}").text


def test_a_cross_site_or_oversized_upload_is_refused(server: Server) -> None:
    world = server.world()
    action = f"/{world.organization}/-/import"
    with Browser.of(server, world.owner) as owner:
        assert upload(owner, action, encoded(small({})), csrf="x").status_code == 403
        assert upload(owner, action, b" " * (EXPORT_MAX_BYTES + 1)).status_code == 413
        assert "Website relaunch" not in owner.get(f"/{world.organization}").text


def _comments(server: Server, token: str, title: str) -> list[dict[str, Any]]:
    with server.client(token) as client:
        found = client.get("/api/v1/projects").json()["projects"]
        [project] = [each for each in found if each["title"] == title]
        [task] = client.get(f"/api/v1/projects/{project['id']}/tasks").json()["tasks"]
        comments: list[dict[str, Any]] = client.get(f"/api/v1/tasks/{task['id']}/task_comments").json()["task_comments"]
        return comments


def _id_of(server: Server, login: str) -> int:
    [token] = _TOKEN.findall(server.first_sign_in())
    with server.client(token) as client:
        return int(client.get(f"/users/{login}").json()["id"])
