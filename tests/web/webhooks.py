"""Setup for tests of webhook pages: people of an organization in browsers, and a webhook."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.browser.people import Insider, Team, make_team
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World
from tests.web.browser import Browser, add_link

_CSRF = re.compile(r'name="csrf" value="([^"]+)"')
_TAG = re.compile(r"<[^>]*>")


def text_of(response: httpx.Response) -> str:
    """Return the text of a page without markup."""
    return " ".join(html.unescape(_TAG.sub(" ", response.text)).split())


@dataclass
class Visitor:
    """A signed-in user in a browser."""

    browser: Browser
    base: str  # address of the webhook list

    def get(self, path: str = "", *, status: int = 200) -> httpx.Response:
        response = self.browser.get(self._full(path))
        assert response.status_code == status, response.text
        return response

    def send(self, path: str = "", *, status: int = 303, **fields: str) -> httpx.Response:
        """Send a form with the `csrf` field of a page available to all users."""
        found = _CSRF.search(self.browser.get("/settings").text)
        assert found is not None
        fields = {name.replace("__", "."): value for name, value in fields.items()}
        response = self.browser.post(self._full(path), {"csrf": found[1], **fields})
        assert response.status_code == status, response.text
        return response

    def _full(self, path: str) -> str:
        """Return paths that begin with the organization unchanged, and append others to the base."""
        return path if path.startswith(f"/{self.base.split('/')[1]}/") else self.base + path


@dataclass
class Office:
    """An organization with a project and its people, with API access for tests."""

    server: Server
    team: Team
    receiver: Receiver
    _open: ExitStack = field(default_factory=ExitStack)

    @property
    def world(self) -> World:
        return self.team.world

    def visitor(self, person: Insider | None = None, base: str = "") -> Visitor:
        """Sign a person in, by default the owner."""
        browser = self._open.enter_context(Browser(self.server))
        path = add_link(self.server, person or self.team.owner)
        found = _CSRF.search(browser.get(path).text)
        assert found is not None
        assert browser.post(path, {"csrf": found[1]}).status_code == 303
        return Visitor(browser, base or f"/{self.world.full_name}/webhooks")

    def api(self, method: str, path: str, body: Any = None) -> Any:
        with self.server.client(self.world.token) as client:
            response = client.request(method, path, json=body)
        assert response.is_success, response.text
        return response.json() if response.content else None

    def hook(self, **more: Any) -> int:
        """Create an inactive webhook, which sends no ping."""
        config = {"url": self.receiver.url, "content_type": "json", "secret": "s3cret", **more.pop("config", {})}
        body = {"active": False, "events": ["*"], "config": config, **more}
        return int(self.api("POST", f"{self.world.repo_path}/hooks", body)["id"])

    def deliveries(self, hook: int, count: int) -> list[dict[str, Any]]:
        """Wait until the webhook has `count` deliveries and return them, newest first."""
        path = f"{self.world.repo_path}/hooks/{hook}/deliveries?per_page=100"
        return until(lambda: found if len(found := self.api("GET", path)) >= count else [])

    def publish(self, hook: int, *payloads: dict[str, Any], event: str = "push") -> list[dict[str, Any]]:
        before = len(self.api("GET", f"{self.world.repo_path}/hooks/{hook}/deliveries?per_page=100"))
        for number, payload in enumerate(payloads, before + 1):
            self.api("POST", f"{self.world.repo_path}/events", {"event": event, "payload": payload})
            self.deliveries(hook, number)  # one by one, to make their order known
        return self.deliveries(hook, before + len(payloads))


@pytest.fixture
def office(server: Server, receiver: Receiver) -> Iterator[Office]:
    office = Office(server, server.run(make_team), receiver)
    with office._open:
        yield office


def listening(office: Office, **config: str) -> int:
    """Create an active webhook and wait for its ping."""
    hook = office.hook(active=True, config={"retries": "0", **config})
    office.deliveries(hook, 1)
    return hook
