"""All pages that a client can reach by following links: each one opens, and none shows anything hidden from clients."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from tests.harness.server import Server
from tests.harness.world import add_client
from tests.web.browser import Browser
from tests.web.studio import Studio, open_studio, text_of
from workhook.core.clock import now_ms, to_seconds_text
from workhook.http.calls import Services
from workhook.identity.tokens.lookup import find_actor

_LINK = re.compile(r"""(?:href|src|data-\w+(?:-\w+)*-url-value)="([^"]*)\"""")
_ELSEWHERE = ("/static/", "/docs", "/openapi", "/logout")
OF_ONE_PATH_MAX = 6  # a calendar continues indefinitely


def plant(server: Server, studio: Studio) -> tuple[str, dict[str, str]]:
    """Fill the project. Return a text visible to the client, and the hidden words by what they belong to."""
    hidden: dict[str, str] = {}

    def word(place: str) -> str:
        return hidden.setdefault(place, f"hidden{len(hidden)}zz")

    column, shown = studio.add_column("To do"), "shownzz"
    deadline = to_seconds_text(now_ms())
    task = studio.add_task(column, shown, deadline=deadline, assignees=[studio.team.client.login])
    studio.call("POST", f"/tasks/{task}/task_comments", text=f"{shown}comment")
    studio.call("POST", f"/tasks/{task}/task_comments", text=word("private comment"), private=True)
    upload = {"file": ("plan.txt", shown.encode(), "text/plain")}
    file = studio.api.post(f"/api/v1{studio.project}/files", files=upload, data={"title": f"{shown}file"})
    assert file.is_success, file.text
    file_id = file.json()["file"]["id"]
    remark = studio.call("POST", f"/files/{file_id}/file_comments", text=f"{shown}remark")
    comment_id = remark["id"]
    studio.call("POST", f"/files/{file_id}/file_comments", text=word("private remark"), private=True)
    studio.call("POST", f"/file_comments/{comment_id}/comments", body=word("private reply"), private=True)
    studio.call("POST", f"{studio.project}/timesheets", task_id=task, duration=60, notes=word("notes on time"))
    studio.call("POST", f"{studio.project}/timesheets", task_id=task)  # a running timer
    studio.call("PATCH", f"/tasks/{task}", hourly_rate="6431.20", estimate="87:13")
    hidden |= {"rate of a task": "6431", "estimate of a task": "87:13"}
    studio.call("POST", f"{studio.project}/invoices", bill_to=word("draft of an invoice"))
    studio.call("POST", f"{studio.project}/task_credits", amount=1, notes=word("credits"))
    owner = {"organization": studio.team.world.organization}
    studio.call("POST", "/services", title=word("service"), **owner)
    bought = studio.call("POST", "/services", title=f"{shown}service", **owner)["service"]["id"]
    taken = studio.call("POST", f"{studio.project}/service_checkouts", service_id=bought)["service_checkout"]["id"]
    studio.call("POST", f"/service_checkouts/{taken}/complete")
    config = {"url": f"https://example.com/{word('webhook')}", "content_type": "json"}
    made = studio.api.post(f"{studio.team.world.repo_path}/hooks", json={"config": config, "active": False})
    assert made.is_success, made.text
    title = word("another project")
    second = studio.call("POST", "/projects", title=title)["project"]
    other = studio.call("POST", f"/projects/{second['id']}/columns", title=word("another column"))["column"]["id"]
    studio.add_task(other, word("another task"))
    gone = studio.add_task(column, word("deleted task"))
    studio.call("DELETE", f"/tasks/{gone}")
    email = f"{word('invited member')}@example.com"
    invited = studio.api.post(f"/orgs/{studio.team.world.organization}/invitations", json={"email": email})
    assert invited.is_success, invited.text
    hidden["another client"] = _another_client(server, studio)
    return shown, hidden


def _another_client(server: Server, studio: Studio) -> str:
    async def add(services: Services) -> str:
        actor = await find_actor(services.database, await add_client(services, studio.team.world))
        assert actor is not None
        return actor.user.login

    login: str = server.run(add)
    return login


def links_of(answer: httpx.Response, path: str) -> Iterator[str]:
    """Yield the addresses on this server that the page links to, except those common to all pages."""
    for found in _LINK.findall(answer.text):
        parts = urlsplit(urljoin(path, html.unescape(found)))
        if parts.netloc or parts.scheme or not parts.path.startswith("/") or parts.path.startswith(_ELSEWHERE):
            continue
        if not parts.path.endswith("/live"):  # this stream does not end
            yield parts.path + (f"?{parts.query}" if parts.query else "")


def walk(
    browser: Browser, start: str = "/", is_wanted: Callable[[str], bool] = lambda address: True
) -> dict[str, httpx.Response]:
    """Return every response reachable by links from `start`, by address. `is_wanted` is called before each request."""
    waiting, found, visits = [start], {}, Counter[str]()
    while waiting:
        address = waiting.pop(0)
        path = urlsplit(address).path
        if address in found or visits[path] >= OF_ONE_PATH_MAX or not is_wanted(address):
            continue
        visits[path] += 1
        answer = found[address] = browser.get(address)
        if answer.status_code == 303:
            waiting.append(answer.headers["location"])
        elif answer.headers.get("content-type", "").startswith("text/html"):
            waiting += links_of(answer, address)
    return found


@dataclass(frozen=True)
class Planted:
    """A project with texts visible to its client and words hidden from them."""

    studio: Studio
    shown: str
    hidden: dict[str, str]


@pytest.fixture(scope="module")
def planted(server: Server) -> Iterator[Planted]:
    with open_studio(server) as studio:
        yield Planted(studio, *plant(server, studio))


def test_a_client_reaches_only_what_is_visible_to_clients(planted: Planted) -> None:
    studio, shown, hidden = planted.studio, planted.shown, planted.hidden
    pages = walk(studio.client)
    refused = {address: each.status_code for address, each in pages.items() if each.status_code not in (200, 303)}
    assert refused == {}, "a link leads where they may not go"
    named = [(address, place) for address, each in pages.items() for place, text in hidden.items() if text in each.text]
    assert named == []
    seen = {address for address, each in pages.items() if shown in each.text}
    base = studio.base
    assert {"/", base, f"{base}/list", f"{base}/files", f"{base}/calendar"} <= pages.keys()
    assert {"/", f"{base}/list", f"{base}/files"} <= seen
    assert any("/tasks/" in address for address in seen)
    assert any("/billing/subscriptions/" in address for address in seen)
    assert len(pages) > 15, sorted(pages)
    ways = ("webhooks", "settings", "trash", "activity", "time", "people", "audit", "-")
    assert [
        each for each in pages if each.startswith(f"{base}/") and each.split("/")[3].partition("?")[0] in ways
    ] == []
    assert [each for each in pages if each.startswith(f"/{studio.team.world.organization}/-")] == []


@pytest.mark.whole
def test_the_hidden_words_are_visible_to_members(planted: Planted) -> None:
    """Ensures that the words of the other tests can be found."""
    everything = "".join(each.text for each in walk(planted.studio.owner).values())
    missing = [place for place, text in planted.hidden.items() if text not in everything]
    assert missing == []


def test_searching_reveals_nothing_hidden_to_a_client(planted: Planted) -> None:
    studio, hidden = planted.studio, planted.hidden
    nothing = text_of(studio.client.get("/search?q=nowherezz").text)
    for place, text in hidden.items():
        for within in ("", f"&project={studio.team.world.full_name}"):
            page = studio.client.get(f"/search?q={text}{within}")
            assert page.status_code == 200
            if not within:
                assert text_of(page.text).replace(text, "nowherezz") == nothing, place
            assert text_of(page.text).count(text) <= 1, place
    assert "shownzz" in text_of(studio.client.get("/search?q=shownzzcomment").text).replace("“shownzzcomment”", "")
