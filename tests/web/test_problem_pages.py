"""Errors are pages for browsers and JSON for everyone else, and always JSON under /api."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

import httpx
import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.harness.waiting import until
from tests.web.browser import Browser, add_person
from workhook.http.calls import Services
from workhook.http.negotiation import prefers_page

pytestmark = pytest.mark.one_database

HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
OTHERS = (
    "*/*",
    "",
    "application/json",
    "application/json, text/html",
    "text/html;q=0.5, application/json",
    "image/png",
)


def is_page(answer: httpx.Response, status: int, title: str) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (status, HTML), answer.text
    assert f"<h1>{title}</h1>" in answer.text
    assert answer.headers["x-request-id"] in answer.text
    assert (answer.headers["vary"], answer.headers["cache-control"]) == ("Accept, Accept-Encoding", "no-store")
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def is_json(answer: httpx.Response, status: int) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (status, JSON), answer.text
    body = answer.json()
    assert body["message"]
    assert body.get("status", str(status)) == str(status)


@pytest.mark.parametrize(
    ("accept", "page"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("application/json;q=0.9, text/html", True),
        ("TEXT/HTML; charset=utf-8", True),
        ("text/html, application/json", True),
        ("application/json, text/html", False),
        ("text/html;q=0.5, application/vnd.github+json", False),
        ("text/html;q=0, application/json;q=0.1", False),
        ("text/html;q=x, application/json", False),
        ("application/json;q=.5, text/html;q=.9", True),
        ("*/*", None),
        ("text/html;q=0", None),
        ("image/png, ;;q=,,", None),
        (None, None),
    ],
)
def test_the_accept_header_decides_between_page_and_json(accept: str | None, page: bool | None) -> None:
    assert [prefers_page(accept, otherwise=each) for each in (True, False)] == (
        [True, False] if page is None else [page] * 2
    )


def test_an_unknown_address_is_not_found(server: Server) -> None:
    with Browser(server) as browser:
        for path in ("/nope/of/any/kind", "/orgs/nobody/nothing/here/at/all", "/a/b/c/%3Cscript%3Ealert(1)"):
            answer = browser.get(path)
            is_page(answer, 404, "Page not found")
            assert "<script" not in answer.text
        styles = re.findall(r'<link rel="stylesheet" href="([^"]+)">', browser.get("/nope/of/any/kind").text)
        assert "color-scheme: light dark" in "".join(browser.get(each).text for each in styles)
        twice = f"{server.url}//api/v1/nope"
        for path in ("/api", "/api/", "/api/nope", "/api/v1/nope", "/api/v3/nope", "/api/v1/projects", twice):
            answer = browser.get(path)
            is_json(answer, 401 if path.endswith("projects") else 404)
        is_json(browser.get("/orgs/nobody"), 401)  # an API operation exists at this address
        # Possible page addresses lead strangers to the sign-in.
        for path in ("/nope", "/nope/nothing", "/%3Cscript%3Ealert(1)"):
            answer = browser.get(path)
            assert (answer.status_code, answer.headers["location"]) == (303, f"/login?return_to={quote(path, safe='')}")
        assert browser.client.head("/nope").content == b""
        for accept in OTHERS:
            is_json(browser.get("/nope", headers={"Accept": accept}), 404)


def test_an_unsupported_method_is_refused(server: Server) -> None:
    with Browser(server) as browser:
        answer = browser.client.delete("/login")
        is_page(answer, 405, "Action not available")
        assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"
        plain = browser.client.delete("/login", headers={"Accept": "*/*"})
        is_json(plain, 405)
        assert plain.headers["allow"] == answer.headers["allow"]
        is_json(browser.client.delete("/api/v1/projects"), 405)


def test_refusals_of_pages_are_pages_or_json(server: Server) -> None:
    with Browser(server) as browser:
        browser.sign_in(add_person(server))
        form = browser.form("/", "/logout")
        much = {**form.fields, "more": "a" * 70_000}
        cases: tuple[tuple[str, str, dict[str, str] | None, int, str], ...] = (
            ("POST", "/logout", {"csrf": "x"}, 403, "Access denied"),
            ("POST", "/logout", much, 413, "Too large"),
            ("GET", "/login/link/nope", None, 404, "Page not found"),
            ("GET", "/login?return_to=%00", None, 400, "Invalid request"),
        )
        for method, path, fields, status, title in cases:
            for accept in (None, "*/*"):  # the address belongs to a page
                headers = {"Accept": accept} if accept else {}
                is_page(browser.client.request(method, path, data=fields, headers=headers), status, title)
            as_json = browser.client.request(method, path, data=fields, headers={"Accept": "application/json"})
            is_json(as_json, status)
            assert as_json.headers["vary"] == "Accept"  # otherwise a cache might serve it to browsers
        assert browser.is_signed_in()


def test_a_server_error_is_a_page_or_json(new_server: Callable[..., Server]) -> None:
    server = new_server()

    async def spoil(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(sa.text("ALTER TABLE sessions RENAME TO lost"))

    server.run(spoil)
    with Browser(server, Cookie="workhook_session=x") as browser:
        for path in ("/settings/password", "/"):
            is_page(browser.get(path), 500, "Server error")
        is_json(browser.get("/settings/password", headers={"Accept": "application/json"}), 500)
    until(lambda: "no such table" in server.log() or "UndefinedTable" in server.log())
