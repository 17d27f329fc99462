"""Pages whose address starts with a login: who can open them, and that they are invisible to API clients."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.harness.depth import is_taken
from tests.harness.server import Server
from tests.harness.world import World
from tests.web.browser import Browser, add_person, forms
from workhook.asgi import described
from workhook.http.operations import PLACES, Operation

pytestmark = pytest.mark.one_database

PLACES_OF_ALL = tuple(each for each in described() if each.area is PLACES)
CHANGES = tuple(each for each in PLACES_OF_ALL if each.method == "POST")
OF_PROJECTS = tuple(each for each in PLACES_OF_ALL if each.path.startswith("/{owner}/{project}"))


def path_of(operation: Operation, world: World) -> str:
    names = {"owner": world.organization, "project": world.repository}
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "1"), operation.path)


@pytest.fixture(scope="module")
def world(server: Server) -> World:
    return server.world()


@pytest.fixture
def stranger(server: Server) -> Iterator[Browser]:
    """Provide the browser of an owner of another organization."""
    with Browser.of(server, server.world().owner) as browser:
        yield browser


def csrf_of(browser: Browser) -> str:
    return next(each.fields["csrf"] for each in forms(browser.get("/")) if each.action == "/logout")


def comparable(answer: httpx.Response) -> tuple[int, dict[str, object], dict[str, str]]:
    """Return the parts of an answer that do not differ between requests."""
    headers = {name: text for name, text in answer.headers.items() if name not in ("date", "x-request-id")}
    headers.pop("x-github-request-id")
    return answer.status_code, answer.json() if answer.content else {}, headers


def test_api_clients_get_the_same_404_for_every_page_address(server: Server, world: World) -> None:
    """Whether the page exists or not, with any method, with or without a token."""
    there = [f"/{world.full_name}", *{path_of(each, world) for each in PLACES_OF_ALL}]
    nowhere = "/no/such/address/at/all"
    for headers in ({}, {"Authorization": f"Bearer {world.token}"}, {"Accept": "application/vnd.github+json"}):
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
            for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"):
                expected = comparable(client.request(method, nowhere))
                assert expected[0] == 404
                assert expected[2]["content-type"] == "application/json; charset=utf-8"
                for path in (each for each in there if is_taken(f"{method} {each}")):
                    assert comparable(client.request(method, path)) == expected, f"{method} {path}"


def test_browsers_are_redirected_to_the_sign_in_and_back(server: Server, world: World) -> None:
    with Browser(server) as browser:
        for each in PLACES_OF_ALL:
            path = path_of(each, world)
            if each.method == "GET":
                answer = browser.get(f"{path}?a=b")
                assert (answer.status_code, answer.content) == (303, b""), path
                back = path.replace("/", "%2F")
                assert answer.headers["location"] == f"/login?return_to={back}%3Fa%3Db", path
            else:
                answer = browser.post(path, {"csrf": "x"})
                assert answer.status_code == 403, path
                assert "been signed out" in answer.text, path


def test_head_is_answered_like_get(server: Server, world: World) -> None:
    path = f"/{world.full_name}"
    with Browser.of(server, world.owner) as browser:
        shown, asked = browser.get(path), browser.client.head(path)
    assert (shown.status_code, asked.status_code, asked.content) == (200, 200, b"")
    differing = ("date", "content-length", "content-security-policy", "x-request-id")
    assert {name: text for name, text in asked.headers.items() if name not in differing} == {
        name: text for name, text in shown.headers.items() if name not in differing
    }


def test_an_unsupported_method_is_refused(server: Server, world: World) -> None:
    with Browser.of(server, world.owner) as browser:
        answer = browser.client.delete(f"/{world.full_name}")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        assert "Action not available" in answer.text


@pytest.mark.parametrize("operation", OF_PROJECTS, ids=lambda each: f"{each.method} {each.path}")
def test_a_stranger_cannot_tell_whether_a_project_exists(stranger: Browser, world: World, operation: Operation) -> None:
    """An existing project looks the same as one that does not exist."""
    there = path_of(operation, world)
    elsewhere = there.replace(world.full_name, f"{world.organization}/no-such")
    fields = {"csrf": csrf_of(stranger)}
    answers = [
        stranger.get(path) if operation.method == "GET" else stranger.post(path, fields) for path in (there, elsewhere)
    ]
    if operation.method == "POST" and {each.status_code for each in answers} == {422}:
        return  # refused because of the form alone, before any lookup
    assert [each.status_code for each in answers] == [404, 404], answers[0].text
    assert world.repository not in answers[0].text.replace("no-such", "")


@pytest.mark.parametrize(
    "operation", [each for each in PLACES_OF_ALL if each.method == "POST"], ids=lambda each: each.path
)
def test_a_form_of_another_session_or_site_is_refused(server: Server, world: World, operation: Operation) -> None:
    path = path_of(operation, world)
    with Browser.of(server, world.owner) as browser, Browser.of(server, world.owner) as other:
        own, others = csrf_of(browser), csrf_of(other)
        for fields, headers in (
            ({"title": "New"}, {}),
            ({"csrf": others}, {}),
            ({"csrf": own[:-1]}, {}),
            ({"csrf": own}, {"Sec_Fetch_Site": "cross-site"}),
        ):
            answer = browser.post(path, fields, **headers)
            assert answer.status_code == 403, answer.text
            assert "has expired" in answer.text


def test_a_cross_site_form_sets_no_cookie(server: Server) -> None:
    """Browsers omit `SameSite=Lax` cookies from cross-site forms, but would store the cookies of the answer."""
    pages = [each for each in described() if each.area.style == "page" and each.method == "POST"]
    assert "/logout" in {each.path for each in pages}
    with Browser(server) as browser:
        for operation in pages:
            path = re.sub(r"\{\w+\}", "1", operation.path)
            for site in ("cross-site", "same-site"):
                answer = browser.post(path, {"csrf": "x", "return_to": "/"}, Sec_Fetch_Site=site)
                assert "set-cookie" not in answer.headers, path


def test_turbo_shows_a_refusal_as_a_message_on_the_page(server: Server, world: World) -> None:
    """The answer is a stream that adds a message, with the status of the error. Server errors remain full pages."""
    with Browser.of(server, world.owner) as browser:
        path = f"/{world.full_name}/columns"
        stream = {"Accept": "text/vnd.turbo-stream.html, text/html, application/xhtml+xml"}
        refused = browser.post(path, {"csrf": csrf_of(browser), "title": ""}, **stream)
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "text/vnd.turbo-stream.html; charset=utf-8"
        assert refused.headers["cache-control"] == "no-store"
        assert '<turbo-stream action="append" targets="' in refused.text
        browser.client.cookies.delete("workhook_session")
        gone = browser.post(path, {"csrf": "x"}, **stream)
        assert (gone.status_code, "been signed out" in gone.text) == (403, True)


def test_signed_in_users_see_problem_pages_with_navigation(server: Server) -> None:
    person = add_person(server)
    with Browser.of(server, person.login) as browser, Browser(server) as nobody:
        answer = browser.get(f"/{person.login}/no-such")
        assert answer.status_code == 404
        assert "<h1>Page not found</h1>" in answer.text
        out = [each for each in forms(answer) if each.action == "/logout"]
        assert browser.post("/logout", out[0].fields).headers["location"] == "/login"
        assert [each for each in forms(nobody.get("/a/b/c/d/e")) if each.action == "/logout"] == []


def test_the_help_lists_every_key(server: Server, world: World) -> None:
    with Browser.of(server, world.owner) as browser:
        page = browser.get(f"/{world.full_name}").text
    helped = page[page.index('<dialog id="shortcuts"') :]
    letters = set(re.findall(r'data-go="(\w)"', page))
    assert {"a", "b", "c", "w"} <= letters
    assert letters == set(re.findall(r"<kbd>g</kbd> <kbd>(\w)</kbd>", helped))
