"""A project with columns and tasks, and the browsers of its visitors."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.browser.people import Team, make_team
from tests.harness.server import Server
from tests.web.browser import Browser, forms

HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;"


@dataclass
class Studio:
    """`owner`, `member` and `client` are signed in. `api` is an API client of the owner."""

    team: Team
    api: httpx.Client
    owner: Browser
    member: Browser
    client: Browser

    @property
    def base(self) -> str:
        return f"/{self.team.world.full_name}"

    def call(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        answer = self.api.request(method, f"/api/v1{path}", json=body or None)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    @property
    def project(self) -> str:
        return f"/projects/{self.team.world.project_id}"

    def add_column(self, title: str, **more: Any) -> str:
        return str(self.call("POST", f"{self.project}/columns", title=title, **more)["column"]["id"])

    def add_task(self, column: str, title: str, **more: Any) -> str:
        return str(self.call("POST", f"/columns/{column}/tasks", title=title, **more)["task"]["id"])

    def task(self, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/tasks/{task_id}")["task"]
        return found


@contextmanager
def open_studio(server: Server) -> Iterator[Studio]:
    with ExitStack() as stack:
        team: Team = server.run(make_team)
        api = stack.enter_context(server.client(team.owner.token))
        browsers = [stack.enter_context(Browser.of(server, each.login)) for each in team.everybody.values()]
        yield Studio(team, api, *browsers)


def page_of(browser: Browser, path: str, **query: str) -> str:
    """Return the HTML of a page that must exist."""
    answer = browser.get(f"{path}?{urlencode(query)}" if query else path)
    assert answer.status_code == 200, answer.text
    return answer.text


def text_of(page: str) -> str:
    """Return the visible text of the main part of a page, with single spaces."""
    main = page[page.index("<main") : page.index("</main>")]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", main)).split())


def send(browser: Browser, action: str, **fields: str) -> httpx.Response:
    """Send a form the way a page would. The answer redirects to a page."""
    return browser.post(action, {"csrf": csrf_of(browser), **fields})


def csrf_of(browser: Browser) -> str:
    """Return the CSRF token used by all forms of the browser's session."""
    return next(each.fields["csrf"] for each in forms(browser.get("/")) if each.action == "/logout")


def undo(browser: Browser, answer: httpx.Response) -> httpx.Response:
    """Press the undo button in the message on the page that the answer redirects to."""
    assert answer.status_code == 303, answer.text
    shown = browser.get(answer.headers["location"])
    [form] = [each for each in forms(shown) if "Undo" in each.buttons]
    return browser.post(form.action, form.fields)
