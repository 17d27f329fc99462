"""The message shown on the page after a change: for which session, how often, and its undo button."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import cast

import pytest

from tests.harness.server import Server
from tests.web.browser import Browser, Form, forms
from workhook.http.calls import Call
from workhook.web.frame import flash

pytestmark = pytest.mark.one_database

COOKIE = "workhook_note"


class Board:
    """A board with two columns and a card."""

    def __init__(self, server: Server) -> None:
        self.server, self.world = server, server.world()
        self.path = f"/{self.world.full_name}"
        self.browser = Browser.of(server, self.world.owner)
        with server.client(self.world.token) as client:
            for title in ("To do", "Done"):
                path = f"/api/v1/projects/{self.world.project_id}/columns"
                client.post(path, json={"title": title}).raise_for_status()
            columns = client.get(f"/api/v1/projects/{self.world.project_id}/columns").json()["columns"]
            self.columns = [each["id"] for each in columns]
            made = client.post(f"/api/v1/columns/{self.columns[0]}/tasks", json={"title": "Paint & <b>dry</b>"})
            self.task = made.raise_for_status().json()["task"]["id"]

    def csrf(self, browser: Browser | None = None) -> str:
        shown = forms((browser or self.browser).get("/"))
        return next(each.fields["csrf"] for each in shown if each.action == "/logout")

    def move(self, column_id: str) -> None:
        path = f"{self.path}/tasks/{self.task}/move"
        fields = {"csrf": self.csrf(), "column_id": column_id, "position": "0"}
        answer = self.browser.post(path, fields)
        assert (answer.status_code, answer.headers["location"]) == (303, self.path), answer.text

    def column(self) -> str:
        with self.server.client(self.world.token) as client:
            return str(client.get(f"/api/v1/tasks/{self.task}").raise_for_status().json()["task"]["column"]["id"])

    def undo(self, browser: Browser | None = None) -> list[Form]:
        return [each for each in forms((browser or self.browser).get(self.path)) if each.buttons == ["Undo"]]


@pytest.fixture
def board(server: Server) -> Iterator[Board]:
    board = Board(server)
    yield board
    board.browser.client.close()


def test_a_message_is_shown_once_and_its_undo_reverts_the_change(board: Board) -> None:
    first, second = board.columns
    board.move(second)
    assert board.column() == second
    page = board.browser.get(board.path)
    assert "“Paint &amp; &lt;b&gt;dry&lt;/b&gt;” was moved to position 1 in" in page.text
    assert "<b>dry" not in page.text
    assert f"{COOKIE}=;" in page.headers["set-cookie"]
    assert "Max-Age=0" in page.headers["set-cookie"]
    [undo] = [each for each in forms(page) if each.buttons == ["Undo"]]
    assert undo.action == f"{board.path}/tasks/{board.task}/move"
    assert board.undo() == []
    assert board.browser.post(undo.action, undo.fields).status_code == 303
    assert board.column() == first


def test_the_cookie_is_readable_by_the_server_only(board: Board) -> None:
    board.move(board.columns[1])
    answer = board.browser.post(
        f"{board.path}/tasks/{board.task}/move",
        {"csrf": board.csrf(), "column_id": board.columns[0], "position": "0"},
    )
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax; Max-Age=60")


@pytest.mark.parametrize("spoiled", ["body", "signature", "none", "of another session"])
def test_a_forged_message_or_one_of_another_session_is_ignored(board: Board, spoiled: str) -> None:
    board.move(board.columns[1])
    value = str(board.browser.client.cookies.get(COOKIE))
    body, _, signature = value.partition(".")
    note = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert note["undo"]["action"].startswith(board.path)
    if spoiled == "body":
        note["undo"]["action"] = "https://evil.example/"
        value = f"{base64.urlsafe_b64encode(json.dumps(note).encode()).decode().rstrip('=')}.{signature}"
    elif spoiled == "signature":
        value = f"{body}.{'A' * len(signature)}"
    elif spoiled == "none":
        value = body
    with Browser.of(board.server, board.world.owner) as other:
        if spoiled == "of another session":  # of the same user, the closest case to an own session
            other.client.cookies.set(COOKIE, value)
            assert board.undo(other) == []
            return
    board.browser.client.cookies.delete(COOKIE)
    board.browser.client.cookies.set(COOKIE, value)
    page = board.browser.get(board.path)
    assert page.status_code == 200
    assert "was moved to position" not in page.text
    assert "evil" not in page.text
    assert f"{COOKIE}=;" in page.headers["set-cookie"], "it is not looked at again"


def test_a_message_is_kept_until_a_page_is_actually_viewed(board: Board) -> None:
    """Turbo prefetches hovered links, and HEAD requests and problem pages show no message."""
    board.move(board.columns[1])
    for headers in ({"X-Sec-Purpose": "prefetch"}, {"Sec-Purpose": "prefetch;prerender"}):
        page = board.browser.get(board.path, headers=headers)
        assert (page.status_code, "was moved to position" in page.text, "set-cookie" in page.headers) == (
            200,
            False,
            False,
        )
    assert "set-cookie" not in board.browser.client.head(board.path).headers
    assert len(board.undo()) == 1


@pytest.mark.parametrize(
    "action", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", ""]
)
def test_an_undo_cannot_lead_to_another_site(action: str) -> None:
    with pytest.raises(AssertionError, match="must stay on this server"):
        flash.left(cast("Call", None), "x", flash.Note("Moved", flash.Undo(action)))
