"""The page of what happened in a project: in words, for its members alone."""

from __future__ import annotations

import html
import re

import pytest

from tests.harness.server import Server
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, text_of
from workhook.events.catalog import CATALOG
from workhook.events.outbox import ABOUT_HOOKS
from workhook.web import activity


def told(page: str) -> list[str]:
    found = re.findall(r'<p class="said"><span>(.*?)</span> <span class="quiet', page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", each)) for each in found]


def test_what_happened_is_told_in_words_the_newest_first(studio: Studio) -> None:
    who = "Octo"
    to_do, done = studio.add_column("To do"), studio.add_column("Done", stage="done", finished=True)
    task = studio.add_task(to_do, "Logo")
    studio.call("PATCH", f"/tasks/{task}", priority="high", labels=["a"])
    studio.call("PATCH", f"/tasks/{task}", column_id=done)
    studio.call("PATCH", f"/tasks/{task}", column_id=to_do)
    studio.call("POST", f"/tasks/{task}/task_comments", text="Good")
    studio.call("DELETE", f"/tasks/{task}")
    page = page_of(studio.member, f"{studio.base}/activity")
    assert told(page)[:6] == [
        f"{who} deleted the task “Logo”.",
        f"{who} commented on “Logo”.",
        f"{who} moved “Logo” from Done to To do.",
        f"{who} finished “Logo”: it came from To do to Done.",
        f"{who} changed the priority, labels of “Logo”.",
        f"{who} made the task “Logo”.",
    ]
    assert page.count(f'href="{studio.base}/tasks/{task}"') == 4, "what was deleted has no page"
    assert re.search(rf'href="{studio.base}/tasks/{task}#\d+"', page)


def test_it_is_narrowed_down_by_kind_and_person(studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), "Logo")
    path = f"{studio.base}/activity"
    assert [each.split()[1:4] for each in told(page_of(studio.owner, path, event="task", actor=""))] == [
        ["made", "the", "task"]
    ]
    assert told(page_of(studio.owner, path, actor=studio.team.member.login)) == []
    assert "Nothing of this kind happened" in page_of(studio.owner, path, actor=studio.team.member.login)
    assert len(told(page_of(studio.owner, path, actor=studio.team.owner.login))) == 2


def test_its_pages_follow_one_another(studio: Studio) -> None:
    column = studio.add_column("To do")
    create = [{"action": "create", "column_id": column, "title": f"Task {number}"} for number in range(50)]
    studio.call("POST", "/tasks/bulk", operations=create)
    first = page_of(studio.owner, f"{studio.base}/activity")
    [more] = re.findall(r'href="(\?[^"]*)" rel="next"', first)
    second = page_of(studio.owner, f"{studio.base}/activity{html.unescape(more)}")
    assert (len(told(first)), len(told(second))) == (50, 1)
    assert "made the column" in told(second)[0]


def test_the_payload_is_on_a_page_of_its_own(server: Server, studio: Studio) -> None:
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


def test_clients_do_not_see_it(studio: Studio) -> None:
    studio.add_task(studio.add_column("To do"), "Logo")
    assert f'href="{studio.base}/activity"' not in page_of(studio.client, f"{studio.base}/list")
    for path in ("/activity", "/activity/1"):
        answer = studio.client.get(studio.base + path)
        assert answer.status_code == 403
        assert "Logo" not in answer.text


def test_hostile_texts_are_texts(studio: Studio) -> None:
    studio.add_task(studio.add_column(HOSTILE), "%(who)s %s" + HOSTILE)
    page = page_of(studio.owner, f"{studio.base}/activity")
    assert "<img" not in page[page.index("<main") :]
    assert told(page)[0].endswith(f"“%(who)s %s{HOSTILE}”.")


def test_what_was_published_is_never_told_as_if_it_had_happened(studio: Studio) -> None:
    who, path = "Octo", f"{studio.team.world.repo_path}/events"
    task = studio.add_task(studio.add_column("To do"), "Logo")
    forged = {"task": {"id": task, "title": "EVIL"}, "invoice": {"id": "inv_1", "name": "7"}}
    for event, action in (("invoice", "paid"), ("task", "created"), ("task_comment", "created"), ("push", None)):
        body = {"event": event, "action": action, "payload": forged}
        assert studio.api.post(path, json=body).status_code == 202
    named = {"event": "task", "action": "deleted", "payload": forged, "id": "its-own-name"}
    assert studio.api.post(path, json=named).status_code == 202
    page = page_of(studio.member, f"{studio.base}/activity")
    assert told(page)[:6] == [
        f"published by {who}: task.deleted",
        f"published by {who}: push",
        f"published by {who}: task_comment.created",
        f"published by {who}: task.created",
        f"published by {who}: invoice.paid",
        f"{who} made the task “Logo”.",
    ]
    assert "EVIL" not in page
    history = text_of(page_of(studio.member, f"{studio.base}/tasks/{task}/history"))
    assert f"published by {who} : task.created" in history
    assert f"{who} made the task." in history
    listed = studio.call("GET", f"{studio.project}/activity")["activity"]
    assert [each["published"] for each in listed[:6]] == [True, True, True, True, True, False]


def test_each_event_of_a_project_has_a_sentence() -> None:
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
def test_what_others_publish_is_told_whatever_it_is(payload: object) -> None:
    for event in ("task", "push", "no_such_event"):
        for action in (None, "edited", "moved", "opened"):
            for published in (False, True):
                place = activity.ProjectNames("/a/b", {})
                assert activity.sentence(place, None, event, action, payload, published=published)
