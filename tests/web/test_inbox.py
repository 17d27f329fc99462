"""The inbox, the bell in the header, and the notification settings."""

from __future__ import annotations

import html
import re

from tests.web.browser import Browser
from tests.web.studio import HOSTILE, Studio, page_of, text_of


def _items(page: str) -> list[str]:
    """Return the text of each notification, newest first."""
    if "inbox-list" not in page:
        return []
    block = page[page.index("inbox-list") :]
    parts = ("<li " + each for each in block[: block.index("</ul>")].split("<li ")[1:])
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", each)).split()) for each in parts]


def _unread(browser: Browser, path: str = "/") -> str:
    """Return the label of the bell."""
    page = page_of(browser, path)
    return page[page.index('class="bell"') :].split('aria-label="')[1].split('"')[0]


def _assign(studio: Studio, title: str, login: str) -> str:
    column = studio.add_column("To do")
    made = studio.call("POST", f"/columns/{column}/tasks", title=title, assignees=[login])
    return str(made["task"]["id"])


def test_the_bell_counts_and_the_inbox_lists_notifications(studio: Studio) -> None:
    login = studio.team.member.login
    before = _unread(studio.member)
    assert before == "Inbox"
    task = _assign(studio, "Landing page", login)
    studio.call("POST", f"/tasks/{task}/task_comments", text=f"**Look**, @{login}")
    for path in ("/", "/inbox", studio.base, "/settings/notifications"):
        assert _unread(studio.member, path) == "Inbox, 2 unread"
    page = page_of(studio.member, "/inbox")
    mention, assignment = _items(page)
    assert "mentioned you in “Landing page”." in mention
    assert f"Look, @{login}" in mention
    assert "assigned “Landing page” to you." in assignment
    assert f'href="{studio.base}/tasks/{task}#comment-' in page
    assert page_of(studio.member, f"{studio.base}/tasks/{task}")
    assert _items(page_of(studio.owner, "/inbox")) == []
    assert "You’re all caught up." in text_of(page_of(studio.owner, "/inbox"))


def test_one_or_all_notifications_are_marked_as_read(studio: Studio) -> None:
    for title in ("One", "Two"):
        _assign(studio, title, studio.team.member.login)
    newest = page_of(studio.member, "/inbox").split('id="notification-')[1].split('"')[0]
    assert studio.member.fill_csrf(f"/inbox/{newest}/read", unread="1").headers["location"] == "/inbox?unread=1"
    assert _unread(studio.member) == "Inbox, 1 unread"
    assert ["“One”" in each for each in _items(page_of(studio.member, "/inbox?unread=1"))] == [True]
    assert len(_items(page_of(studio.member, "/inbox"))) == 2
    assert studio.owner.fill_csrf(f"/inbox/{newest}/read").status_code == 404
    assert studio.member.fill_csrf("/inbox/read", upto=newest).headers["location"] == "/inbox"
    assert _unread(studio.member) == "Inbox"
    assert "No unread notifications." in text_of(page_of(studio.member, "/inbox?unread=1"))


def test_notifications_disappear_with_access_to_the_project(studio: Studio) -> None:
    login = studio.team.client.login
    _assign(studio, "Landing page", login)
    assert _unread(studio.client) == "Inbox, 1 unread"
    [client] = [
        each for each in studio.call("GET", f"{studio.project}/clients")["clients"] if each["username"] == login
    ]
    studio.call("DELETE", f"/clients/{client['id']}")
    assert _unread(studio.client) == "Inbox"
    assert _items(page_of(studio.client, "/inbox")) == []


def test_hostile_texts_are_escaped(studio: Studio) -> None:
    task = _assign(studio, HOSTILE, studio.team.member.login)
    studio.call("POST", f"/tasks/{task}/task_comments", text=f"{HOSTILE} @{studio.team.member.login}")
    page = page_of(studio.member, "/inbox")
    assert HOSTILE not in page
    assert len(_items(page)) == 2


def test_notification_kinds_are_turned_off(studio: Studio) -> None:
    page = page_of(studio.member, "/settings/notifications")
    assert page.count('name="inbox ') == page.count(" checked") == 7
    chosen = {f"inbox {kind}": "on" for kind in ("mention", "invoice")}
    assert studio.member.fill_csrf("/settings/notifications", **chosen).status_code == 303
    assert page_of(studio.member, "/settings/notifications").count(" checked") == 2
    _assign(studio, "Landing page", studio.team.member.login)
    assert _unread(studio.member) == "Inbox"
