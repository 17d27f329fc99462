"""`/{owner}/audit`: the owners of an organization read who did what, and nobody else does."""

from __future__ import annotations

import json
import re

from tests.harness.server import Server
from tests.harness.waiting import until
from tests.web.browser import Browser, add_person
from tests.web.places_kit import add_in, join, signed_in
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, text_of
from workhook.core.clock import DAY_MS, now_ms, to_seconds_text
from workhook.http.calls import Services
from workhook.identity import audit, queries

_ACTION = re.compile(r"<strong>([^<]*)</strong> <code>([^<]*)</code>")


def path_of(studio: Studio) -> str:
    return f"/{studio.team.world.organization}/audit"


def entries(studio: Studio, **query: str) -> list[tuple[str, str]]:
    """Who did what, as the page has it."""
    return _ACTION.findall(page_of(studio.owner, path_of(studio), **query))


def day(days: int = 0) -> str:
    return to_seconds_text(now_ms() + days * DAY_MS)[:10]


def test_what_happened_is_there_and_is_filtered(studio: Studio) -> None:
    assert "Nothing has happened yet." in text_of(page_of(studio.owner, path_of(studio)))
    owner = "Octo"
    title = "Second"
    second = studio.call("POST", "/projects", title=title)["project"]
    studio.add_task(studio.add_column("To do"), "Logo")
    found = entries(studio)
    assert found == [(owner, "task.create"), (owner, "column.create"), (owner, "project.create")]
    assert entries(studio, action="column") == [(owner, "column.create")]
    assert entries(studio, action="TASK.create") == [(owner, "task.create")]
    assert entries(studio, project=second["name"]) == [(owner, "project.create")]
    assert entries(studio, actor=studio.team.owner.login.upper(), project="website") == found[:2]
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


def test_a_change_of_a_webhook_says_what_it_changed(studio: Studio) -> None:
    """Above all whether there is a secret: never which."""
    hooks = f"/repos/{studio.team.world.full_name}/hooks"
    config = {"url": "https://example.com/before", "content_type": "json"}
    hook = studio.api.post(hooks, json={"config": config, "events": ["push"]}).json()
    changes: list[dict[str, object]] = [
        {"secret": "s3cret-one"},
        {"secret": "s3cret-two", "username": "octo", "password": "s3cret-pass"},
        {"url": "https://example.com/after"},
        {"secret": ""},
    ]
    for change in changes:
        answer = studio.api.patch(f"{hooks}/{hook['id']}/config", json=change)
        assert answer.status_code == 200, answer.text
    answer = studio.api.patch(f"{hooks}/{hook['id']}", json={"events": ["push", "release"], "active": False})
    assert answer.status_code == 200, answer.text
    organization = studio.team.world.organization
    log = studio.api.get(f"/orgs/{organization}/audit-log", params={"phrase": "action:hook.update"}).json()
    assert [each["data"]["changed"] for each in log] == [
        ["active", "events"],
        ["config.secret"],
        ["config.url"],
        ["config.username", "config.secret", "config.password"],
        ["config.secret"],
    ]
    assert [each["data"].get("secrets", {}).get("config.secret") for each in log] == [
        None, "removed", None, "changed", "set",
    ]  # fmt: skip
    assert log[2]["data"]["before"] == {"config.url": "https://example.com/before"}
    assert "s3cret" not in json.dumps(log)
    page = page_of(studio.owner, path_of(studio), action="hook.update")
    assert "s3cret" not in page
    text = text_of(page)
    for sentence in (
        "It was turned off.",
        "Events: push → push, release",
        "The secret was removed. Nothing is signed.",
        "Address of the receiver: https://example.com/before → https://example.com/after",
        "The secret was changed.",
        "A password was set.",
        "A secret was set.",
    ):
        assert sentence in text, sentence


def test_a_refused_page_is_told_in_words(server: Server, studio: Studio) -> None:
    organization = studio.team.world.organization
    assert studio.member.get(f"/{studio.team.world.full_name}/webhooks").status_code == 403
    assert studio.member.get(path_of(studio)).status_code == 403
    assert studio.member.get(f"/{studio.team.world.full_name}/webhooks/events/s3cret-in-a-path").status_code == 403

    def written() -> str:
        page = page_of(studio.owner, path_of(studio), action="page.view")
        return page if page.count("was refused a page") == 3 else ""

    page = until(written)
    assert f"<bdi>/{studio.team.world.full_name}/webhooks</bdi>" in page
    assert f"<bdi>/{organization}/audit</bdi>" in page
    assert f"<bdi>/{studio.team.world.full_name}/webhooks/events/…</bdi>" in page
    assert "s3cret-in-a-path" not in page
    assert "place_" not in page
    assert "{" not in "".join(re.findall("<bdi>([^<]*)</bdi>", page))


def test_people_have_their_names_and_strangers_only_a_login(server: Server, studio: Studio) -> None:
    stranger, admin = add_person(server, name="Sam Stranger"), add_person(server, name="Ada Admin")
    join(server, studio.team.world, admin, "admin")
    studio.add_column("To do")
    assert studio.owner.fill("/settings", "/settings/profile", name="Olivia Owner").status_code == 303
    for person in (stranger, admin):
        with signed_in(server, person) as browser:
            assert browser.get(path_of(studio)).status_code == 404

    def written() -> str:
        page = page_of(studio.owner, path_of(studio))
        return page if text_of(page).count("refused: 404") == 2 else ""

    page = until(written)
    assert "<strong>Olivia Owner</strong> <code>column.create</code>" in page
    assert 'aria-label="Olivia Owner"' in page
    assert "<strong>Ada Admin</strong> was refused a page" in page
    assert f"<strong>{stranger.login}</strong> was refused a page" in page
    assert "Sam Stranger" not in page, "a stranger's name is the business of nobody here"
    by_name = page_of(studio.owner, path_of(studio), actor="olivia OWNER")
    assert "column.create" in by_name
    assert "refused: 404" not in text_of(by_name)


def test_actions_that_occur_are_suggested(studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), "Logo")
    page = page_of(studio.owner, path_of(studio))
    [listed] = re.findall(r'<datalist id="known-actions">(.*?)</datalist>', page)
    assert re.findall('value="([^"]+)"', listed) == ["column", "column.create", "task", "task.create"]


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
    assert "Download as JSON lines" in page_of(studio.owner, path_of(studio))
    nothing = studio.owner.get(f"{path_of(studio)}/entries.jsonl?action=nothing")
    assert nothing.status_code == 303
    page = studio.owner.get(nothing.headers["location"]).text
    assert "there is nothing to download" in page


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
