"""A refused form reports its errors in the title, next to the fields, and by the position of the cursor."""

from __future__ import annotations

from html.parser import HTMLParser

import httpx
import pytest

from tests.harness.server import Server
from tests.web.browser import Browser, add_link, add_person
from workhook.identity.signin import sessions

pytestmark = pytest.mark.one_database


class _Page(HTMLParser):
    """The title, IDs and form fields of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.ids: set[str] = set()
        self.fields: dict[str, dict[str, str | None]] = {}
        self._in_title = False
        self._in_post = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._in_title = tag == "title"
        self.ids.add(given.get("id") or "")
        if tag == "form":
            self._in_post = given.get("method") == "post"
        is_filled_in = tag == "input" and given.get("type") != "hidden" and "hidden" not in given
        if is_filled_in and self._in_post and "name" in given:
            self.fields[str(given["name"])] = given

    def handle_data(self, data: str) -> None:
        self.title += data if self._in_title else ""


def check(answer: httpx.Response, goes_on_at: str | None, *, starts_at: str | None = None) -> None:
    """Check a page. `goes_on_at` is the field with the cursor after a refusal. It is None for a form not sent yet,
    whose cursor is in `starts_at`."""
    page = _Page()
    page.feed(answer.text)
    assert page.title.startswith("Error: ") is (goes_on_at is not None)
    cursor = goes_on_at or starts_at
    assert [name for name, field in page.fields.items() if "autofocus" in field] == [cursor] * bool(cursor)
    for name, field in page.fields.items():
        described = (field.get("aria-describedby") or "").split()
        assert set(described) <= page.ids, name
        assert ("problems" in described) is (goes_on_at is not None), name


def test_refused_forms_report_their_errors(server: Server) -> None:
    person, guest = add_person(server), add_person(server, password=None)
    short = {"password": "short", "again": "other"}
    with Browser(server) as browser, Browser(server) as new:
        check(browser.get("/login"), None, starts_at="login")
        check(browser.fill("/login", login=person.login, password="not the right one"), "password")
        browser.sign_in(person)
        for path, fields, goes_on_at in (
            ("/settings/password", {"current": "x", **short}, "current"),
            ("/login/device", {"user_code": "BCDF-GHJK"}, "user_code"),
        ):
            check(browser.get(path), None)
            check(browser.fill(path, **fields), goes_on_at)
        link = add_link(server, guest, sessions.SET_PASSWORD)
        check(new.get(link), None)
        refused = new.fill(link, **short)
        check(refused, "password")
        assert "The passwords don’t match." in refused.text
        assert "needs at least 10 characters" in refused.text  # all errors at once
