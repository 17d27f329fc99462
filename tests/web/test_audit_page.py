"""`/{owner}/audit`: the owners of an organization read who did what, and nobody else does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.harness.server import Server
from tests.web.browser import Browser
from tests.web.places_kit import add_in
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, text_of
from workhook.core.clock import DAY_MS, now_ms, to_seconds_text
from workhook.http.calls import Services
from workhook.identity import audit, queries
from workhook.web.hooks import app_hooks, deliveries, hooks, trying

_ACTION = re.compile(r"<strong>([^<]*)</strong> <code>([^<]*)</code>")


@pytest.fixture
def studio(server: Server) -> Iterator[Studio]:
    with open_studio(server) as studio:
        yield studio


def path_of(studio: Studio) -> str:
    return f"/{studio.team.world.organization}/audit"


def entries(studio: Studio, **query: str) -> list[tuple[str, str]]:
    """Who did what, as the page has it."""
    return _ACTION.findall(page_of(studio.owner, path_of(studio), **query))


def day(days: int = 0) -> str:
    return to_seconds_text(now_ms() + days * DAY_MS)[:10]


def test_what_happened_is_there_and_is_filtered(studio: Studio) -> None:
    assert "Nothing has happened yet." in text_of(page_of(studio.owner, path_of(studio)))
    owner = studio.team.owner.login
    title = "Second"
    second = studio.call("POST", "/projects", title=title)["project"]
    studio.add_task(studio.add_column("To do"), "Logo")
    found = entries(studio)
    assert found == [(owner, "task.create"), (owner, "column.create"), (owner, "project.create")]
    assert entries(studio, action="column") == [(owner, "column.create")]
    assert entries(studio, action="TASK.create") == [(owner, "task.create")]
    assert entries(studio, project=second["name"]) == [(owner, "project.create")]
    assert entries(studio, actor=owner.upper(), project="website") == found[:2]
    assert entries(studio, since=day(), until=day(1)) == found
    for nothing in ({"actor": studio.team.member.login}, {"until": day(-1)}, {"since": day(2)}, {"action": "x y"}):
        page = page_of(studio.owner, path_of(studio), **nothing)
        assert "Nothing fits these filters." in page, nothing
    page = page_of(studio.owner, path_of(studio))
    assert f'href="/{second["full_name"]}"' in page
    assert "&#34;request_id&#34;" in page
    assert f'href="{path_of(studio)}"' in page_of(studio.owner, f"/{studio.team.world.organization}")


def test_refusals_are_marked(server: Server, studio: Studio) -> None:
    owner = studio.team.owner

    async def refuse(services: Services) -> None:
        async with services.database.transaction() as tx:
            place = await queries.find_account(tx, studio.team.world.organization)
            assert place is not None
            row = dict.fromkeys(audit.COLUMNS)
            seen = {"at": now_ms(), "account_id": place.id, "actor_id": owner.id, "action": "hook.create", "times": 3}
            await tx.execute(audit.insert, {**row, **seen, "status": 403, "target": HOSTILE, "detail": "{}"})

    server.run(refuse)
    page = page_of(studio.owner, path_of(studio))
    assert "refused: 403 \u00d7 3" in text_of(page)
    assert "<img src=x" not in page
    assert HOSTILE.partition("&")[0] in text_of(page)


def test_pages_lead_back_in_time(server: Server, studio: Studio) -> None:
    async def fill(services: Services) -> None:
        async with services.database.transaction() as tx:
            place = await queries.find_account(tx, studio.team.world.organization)
            assert place is not None
            for number in range(120):
                await audit.record(tx, None, "project.edit", f"number-{number}", account_id=place.id)

    server.run(fill)
    seen: list[str] = []
    ids: list[int] = []
    path, query = path_of(studio), "?action=project"
    while query:
        page = page_of(studio.owner, path + query)
        seen += re.findall(r"<bdi>(number-\d+)</bdi>", page)
        ids += map(int, re.findall(r'<li id="AL_(\d+)"', page))
        following = re.search(r'href="(\?[^"]*)" rel="next"', page)
        query = following[1].replace("&amp;", "&") if following else ""
        assert not query or "action=project" in query
    assert sorted(seen) == sorted(f"number-{number}" for number in range(120))
    assert ids == sorted(ids, reverse=True)
    assert "There is nothing before that." in page_of(studio.owner, f"{path}?cursor=1")


def test_what_is_no_filter_is_said(studio: Studio) -> None:
    for query in (
        "since=tomorrow",
        "until=2026-13-01",
        "since=2026-11-24..x",
        "until=" + HOSTILE,
        f"actor={'x' * 101}",
    ):
        answer = studio.owner.get(f"{path_of(studio)}?{query}")
        assert answer.status_code == 422, query
        assert 'id="problems"' in answer.text
        assert "<img src=x" not in answer.text
    assert studio.owner.get(f"{path_of(studio)}?cursor=x").status_code == 422
    assert studio.owner.get(f"{path_of(studio)}?actor=%00").status_code == 400


def test_all_of_it_is_downloaded(studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), "Logo")
    answer = studio.owner.get(f"{path_of(studio)}/entries.jsonl?action=task")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    [line] = answer.text.splitlines()
    assert json.loads(line)["action"] == "task.create"


def test_only_owners_read_it(server: Server, studio: Studio) -> None:
    reader = Browser.of(server, add_in(server, studio.team.world, "admin").login)
    with open_studio(server) as other, reader:
        for browser, status in ((studio.member, 403), (reader, 404), (studio.client, 404), (other.owner, 404)):
            for path in (path_of(studio), f"{path_of(studio)}/entries.jsonl"):
                assert browser.get(path).status_code == status
        other.add_column("Theirs")
        assert other.team.owner.login not in page_of(studio.owner, path_of(studio))
        assert entries(studio, actor=other.team.owner.login) == []
    assert path_of(studio) not in page_of(studio.member, f"/{studio.team.world.organization}")
    own = f"/{studio.team.owner.login}/audit"
    assert studio.owner.get(own).status_code == 404, "a user has none"


def test_a_refused_page_of_webhooks_has_the_name_of_what_it_does() -> None:
    for room in (hooks, deliveries, trying, app_hooks):
        for operation in room.places.operations:
            assert re.fullmatch(r"(hook|delivery)\.[a-z_]+", audit.action_of(operation)), operation.name
