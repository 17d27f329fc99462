"""`/{owner}/audit` shows the audit log to the owners of an organization only."""

from __future__ import annotations

import html
import json
import re

import pytest

from tests.harness.server import Server
from tests.harness.waiting import until
from tests.web.browser import Browser, add_person
from tests.web.places_kit import add_in, join, signed_in
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, text_of
from workhook.core.clock import DAY_MS, now_ms, to_seconds_text
from workhook.events.catalog import CATALOG
from workhook.events.outbox import ABOUT_HOOKS
from workhook.http.calls import Services
from workhook.identity import audit, queries
from workhook.web import activity

_ACTION = re.compile(r"<strong>([^<]*)</strong> <code>([^<]*)</code>")


def path_of(studio: Studio) -> str:
    return f"/{studio.team.world.organization}/audit"


def entries(studio: Studio, **query: str) -> list[tuple[str, str]]:
    """Return actors and actions as listed on the page."""
    return _ACTION.findall(page_of(studio.owner, path_of(studio), **query))


def day(days: int = 0) -> str:
    return to_seconds_text(now_ms() + days * DAY_MS)[:10]


def test_the_audit_log_is_shown_and_filtered(studio: Studio) -> None:
    assert "No activity yet." in text_of(page_of(studio.owner, path_of(studio)))
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
        assert "No entries match these filters." in page, nothing
    page = page_of(studio.owner, path_of(studio))
    assert f'href="/{second["full_name"]}"' in page
    assert "&#34;request_id&#34;" in page
    assert f'href="{path_of(studio)}"' in page_of(studio.owner, f"/{studio.team.world.organization}")
    assert text_of(page_of(studio.owner, path_of(studio), action="project.create")).count(second["full_name"]) == 1


def test_a_person_invited_by_email_is_described(studio: Studio) -> None:
    studio.owner.fill_csrf(f"/{studio.team.world.organization}/people", who="kim@example.com", role="member")
    said = text_of(page_of(studio.owner, path_of(studio)))
    assert "person invited by e-mail" in said
    assert "(by e-mail)" not in said


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
    assert "denied: 403 \u00d7 3" in text_of(page)
    assert "<img src=x" not in page
    assert HOSTILE.partition("&")[0] in text_of(page)


def test_a_webhook_change_names_the_changed_fields(studio: Studio) -> None:
    """It states whether a secret was set, but never the secret."""
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
        "Disabled.",
        "Events: push → push, release",
        "Secret removed. Deliveries are no longer signed.",
        "Payload URL: https://example.com/before → https://example.com/after",
        "Secret changed.",
        "Password set.",
        "Secret set.",
    ):
        assert sentence in text, sentence


def test_a_refused_page_view_is_described_in_words(server: Server, studio: Studio) -> None:
    organization = studio.team.world.organization
    assert studio.member.get(f"/{studio.team.world.full_name}/webhooks").status_code == 403
    assert studio.member.get(path_of(studio)).status_code == 403
    assert studio.member.get(f"/{studio.team.world.full_name}/webhooks/events/s3cret-in-a-path").status_code == 403

    def written() -> str:
        page = page_of(studio.owner, path_of(studio), action="page.view")
        return page if page.count("was denied access to a page") == 3 else ""

    page = until(written)
    assert f"<bdi>/{studio.team.world.full_name}/webhooks</bdi>" in page
    assert f"<bdi>/{organization}/audit</bdi>" in page
    assert f"<bdi>/{studio.team.world.full_name}/webhooks/events/…</bdi>" in page
    assert "s3cret-in-a-path" not in page
    assert "place_" not in page
    assert "{" not in "".join(re.findall("<bdi>([^<]*)</bdi>", page))


def test_people_appear_by_name_and_strangers_by_login(server: Server, studio: Studio) -> None:
    stranger, admin = add_person(server, name="Sam Stranger"), add_person(server, name="Ada Admin")
    join(server, studio.team.world, admin, "admin")
    studio.add_column("To do")
    assert studio.owner.fill("/settings", "/settings/profile", name="Olivia Owner").status_code == 303
    for person in (stranger, admin):
        with signed_in(server, person) as browser:
            assert browser.get(path_of(studio)).status_code == 404

    def written() -> str:
        page = page_of(studio.owner, path_of(studio))
        return page if text_of(page).count("denied: 404") == 2 else ""

    page = until(written)
    assert "<strong>Olivia Owner</strong> <code>column.create</code>" in page
    assert 'aria-label="Olivia Owner"' in page
    assert "<strong>Ada Admin</strong> was denied access to a page" in page
    assert f"<strong>{stranger.login}</strong> was denied access to a page" in page
    assert "Sam Stranger" not in page, "a stranger's name is hidden"
    by_name = page_of(studio.owner, path_of(studio), actor="olivia OWNER")
    assert "column.create" in by_name
    assert "denied: 404" not in text_of(by_name)


def test_only_occurring_actions_are_suggested(studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), "Logo")
    page = page_of(studio.owner, path_of(studio))
    [listed] = re.findall(r'<datalist id="known-actions">(.*?)</datalist>', page)
    assert re.findall('value="([^"]+)"', listed) == ["column", "column.create", "task", "task.create"]


def test_pages_continue_with_older_entries(server: Server, studio: Studio) -> None:
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
    assert "No more entries." in page_of(studio.owner, f"{path}?cursor=1")


def test_invalid_filters_are_refused(studio: Studio) -> None:
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


def test_the_log_is_downloaded(studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), "Logo")
    answer = studio.owner.get(f"{path_of(studio)}/entries.jsonl?action=task")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    [line] = answer.text.splitlines()
    assert json.loads(line)["action"] == "task.create"
    assert "Download JSON Lines" in page_of(studio.owner, path_of(studio))
    nothing = studio.owner.get(f"{path_of(studio)}/entries.jsonl?action=nothing")
    assert nothing.status_code == 303
    page = studio.owner.get(nothing.headers["location"]).text
    assert "No matching entries to download." in page


def test_only_owners_can_read_it(server: Server, studio: Studio) -> None:
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


# --- activity page ---------------------------------------------------------------------------------------------------
# The activity of a project in words, for its members only.


def sentences_of(page: str) -> list[str]:
    found = re.findall(r'<p class="said"><span>(.*?)</span> <span class="quiet', page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", each)) for each in found]


def test_activity_is_described_in_words_newest_first(studio: Studio) -> None:
    who = "Octo"
    to_do, done = studio.add_column("To do"), studio.add_column("Done", stage="done", finished=True)
    task = studio.add_task(to_do, "Logo")
    studio.call("PATCH", f"/tasks/{task}", priority="high", labels=["a"])
    studio.call("PATCH", f"/tasks/{task}", column_id=done)
    studio.call("PATCH", f"/tasks/{task}", column_id=to_do)
    studio.call("POST", f"/tasks/{task}/task_comments", text="Good")
    studio.call("DELETE", f"/tasks/{task}")
    page = page_of(studio.member, f"{studio.base}/activity")
    assert sentences_of(page)[:6] == [
        f"{who} deleted the task “Logo”.",
        f"{who} commented on “Logo”.",
        f"{who} moved “Logo” from Done to To do.",
        f"{who} completed “Logo” by moving it from To do to Done.",
        f"{who} changed the priority, labels of “Logo”.",
        f"{who} created the task “Logo”.",
    ]
    assert page.count(f'href="{studio.base}/tasks/{task}"') == 4, "what was deleted has no page"
    assert re.search(rf'href="{studio.base}/tasks/{task}#\d+"', page)


def test_activity_is_filtered_by_kind_and_person(studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), "Logo")
    path = f"{studio.base}/activity"
    assert [each.split()[1:4] for each in sentences_of(page_of(studio.owner, path, event="task", actor=""))] == [
        ["created", "the", "task"]
    ]
    assert sentences_of(page_of(studio.owner, path, actor=studio.team.member.login)) == []
    assert "No recent activity matches these filters" in page_of(studio.owner, path, actor=studio.team.member.login)
    assert len(sentences_of(page_of(studio.owner, path, actor=studio.team.owner.login))) == 2


def test_activity_has_pages(studio: Studio) -> None:
    column = studio.add_column("To do")
    create = [{"action": "create", "column_id": column, "title": f"Task {number}"} for number in range(50)]
    studio.call("POST", "/tasks/bulk", operations=create)
    first = page_of(studio.owner, f"{studio.base}/activity")
    [more] = re.findall(r'href="(\?[^"]*)" rel="next"', first)
    second = page_of(studio.owner, f"{studio.base}/activity{html.unescape(more)}")
    assert (len(sentences_of(first)), len(sentences_of(second))) == (50, 1)
    assert "created the column" in sentences_of(second)[0]


def test_the_payload_has_its_own_page(server: Server, studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), HOSTILE)
    page = page_of(studio.owner, f"{studio.base}/activity", event="task")
    [number] = re.findall(r'id="event-(\d+)"', page)
    shown = page_of(studio.owner, f"{studio.base}/activity/{number}")
    assert f'<turbo-frame id="payload-{number}">' in shown
    assert "<img" not in shown[shown.index("<main") :]
    assert '"action": "created"' in text_of(shown)
    with open_studio(server) as other:
        for path in (f"{other.base}/activity/{number}", f"{studio.base}/activity/{number}"):
            assert other.owner.get(path).status_code == 404
    assert studio.owner.get(f"{studio.base}/activity/{10**14}").status_code == 404
    assert studio.owner.get(f"{studio.base}/activity/-1").status_code == 404


def test_clients_cannot_see_activity(studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), "Logo")
    assert f'href="{studio.base}/activity"' not in page_of(studio.client, f"{studio.base}/list")
    for path in ("/activity", "/activity/1"):
        answer = studio.client.get(studio.base + path)
        assert answer.status_code == 403
        assert "Logo" not in answer.text


def test_hostile_texts_are_escaped(studio: Studio) -> None:
    studio.add_task(studio.add_column(HOSTILE), "%(who)s %s" + HOSTILE)
    page = page_of(studio.owner, f"{studio.base}/activity")
    assert "<img" not in page[page.index("<main") :]
    assert sentences_of(page)[0].endswith(f"“%(who)s %s{HOSTILE}”.")


def test_a_published_event_is_never_described_as_a_real_change(studio: Studio) -> None:
    who, path = "Octo", f"{studio.team.world.repo_path}/events"
    task = studio.add_task(studio.add_column("To do"), "Logo")
    forged = {"task": {"id": task, "title": "EVIL"}, "invoice": {"id": "inv_1", "name": "7"}}
    for event, action in (("invoice", "paid"), ("task", "created"), ("task_comment", "created"), ("push", None)):
        body = {"event": event, "action": action, "payload": forged}
        assert studio.api.post(path, json=body).status_code == 202
    named = {"event": "task", "action": "deleted", "payload": forged, "id": "its-own-name"}
    assert studio.api.post(path, json=named).status_code == 202
    page = page_of(studio.member, f"{studio.base}/activity")
    assert sentences_of(page)[:6] == [
        f"{who} published the event task.deleted.",
        f"{who} published the event push.",
        f"{who} published the event task_comment.created.",
        f"{who} published the event task.created.",
        f"{who} published the event invoice.paid.",
        f"{who} created the task “Logo”.",
    ]
    assert "EVIL" not in page
    history = text_of(page_of(studio.member, f"{studio.base}/tasks/{task}/history"))
    assert f"{who} published the event task.created." in history
    assert f"{who} created the task." in history
    listed = studio.call("GET", f"{studio.project}/activity")["activity"]
    assert [each["published"] for each in listed[:6]] == [True, True, True, True, True, False]


def test_people_who_join_or_leave_are_not_added_or_removed_by_themselves() -> None:
    place = activity.ProjectNames("/acme/website", {}, {"mara": "Mara"})

    def words(event: str, action: str, sender: str) -> str:
        payload = {"client": {"username": "mara"}, "member": {"login": "mara"}, "sender": {"login": sender}}
        return activity.sentence(place, sender.title(), event, action, payload, published=False).striptags()

    assert words("client", "added", "mara") == "Mara joined as a client."
    assert words("client", "added", "octo") == "Octo added the client Mara."
    assert words("client", "removed", "mara") == "Mara left the project."
    assert words("client", "removed", "octo") == "Octo removed the client Mara."
    assert words("member", "added", "mara") == "Mara joined the team."
    assert words("member", "removed", "octo") == "Octo removed Mara from the team."


def test_a_draft_invoice_is_described_without_a_number() -> None:
    place = activity.ProjectNames("/acme/website", {})
    for action, words in (("created", "created a draft invoice."), ("edited", "updated a draft invoice.")):
        for number, expected in ((None, words), ("2026-1", words.replace("a draft invoice", "invoice 2026-1"))):
            payload = {"invoice": {"invoice_number": number}}
            found = activity.sentence(place, "Octo", "invoice", action, payload, published=False)
            assert found.striptags() == f"Octo {expected}"


def test_every_project_event_has_a_sentence() -> None:
    own = {name: each for name, each in CATALOG.items() if each.origin == "own" and "repository" in each.targets}
    actions = {name: set(activity.ACTIONS_OF.get(name, ())) for name in own}
    ours = {
        name: {each for each in event.actions if not event.shared or each in actions[name]}
        for name, event in own.items()
    }
    assert actions == ours
    assert set(own) - ABOUT_HOOKS <= set(activity.KINDS)
    assert not ABOUT_HOOKS & set(activity.KINDS), "nothing of them is ever listed"


@pytest.mark.parametrize(
    "payload", [None, [], "x", 7, {}, {"task": None}, {"task": {"title": 7, "id": ["x"]}, "changes": 1}]
)
def test_any_published_payload_can_be_described(payload: object) -> None:
    for event in ("task", "push", "no_such_event"):
        for action in (None, "edited", "moved", "opened"):
            for published in (False, True):
                place = activity.ProjectNames("/a/b", {})
                assert activity.sentence(place, None, event, action, payload, published=published)
