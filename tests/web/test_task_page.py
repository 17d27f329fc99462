"""The page of a task: its forms, the view of each role, and concurrent changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import httpx
import pytest

from tests.harness.server import Server
from tests.harness.world import World, add_client, add_user
from tests.web.browser import Browser, forms
from workhook.http.calls import Services
from workhook.identity.tokens.lookup import find_actor

HOSTILE = '<script>alert(1)</script>" \u202eevil ' + "x" * 200


class Place(NamedTuple):
    world: World
    path: str
    owner: Browser


def login_of(server: Server, token: str) -> str:
    async def find(services: Services) -> str:
        actor = await find_actor(services.database, token)
        assert actor is not None
        return actor.user.login

    login: str = server.run(find)
    return login


@pytest.fixture
def place(server: Server) -> Iterator[Place]:
    """Provide a task in the first of two columns."""
    world = server.world()
    base = f"/{world.full_name}"
    with Browser.of(server, world.owner) as owner:
        for title in ("To do", "Done"):
            owner.fill_csrf(f"{base}/columns", title=title)
        add = next(each for each in forms(owner.get(base)) if each.action.endswith("/tasks"))
        owner.post(add.action, {**add.fields, "title": HOSTILE})
        found = re.search(rf'href="({base}/tasks/tsk[^"]*)"', owner.get(base).text)
        assert found
        yield Place(world, found[1], owner)


def shown(browser: Browser, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def was(browser: Browser, path: str, field: str) -> str:
    return next(each.fields["was"] for each in forms(browser.get(path)) if each.fields.get("field") == field)


def edit(browser: Browser, path: str, field: str, value: str, **more: str) -> httpx.Response:
    return browser.fill_csrf(f"{path}/edit", field=field, **{field: value}, **more)


def undo(browser: Browser, path: str) -> httpx.Response:
    """Press the undo button in the message on the page."""
    page = browser.get(path)
    toasts = page.text.partition('class="toasts"')[2]
    action = re.search(r'<form method="post" action="([^"]*)"', toasts)
    assert action, toasts
    form = [each for each in forms(page) if each.action == action[1]][-1]
    return browser.post(form.action, form.fields)


def test_each_field_has_its_own_form_and_undo(place: Place) -> None:
    _, path, owner = place
    assert "<script>alert" not in shown(owner, path)
    values = {
        "title": "Another",
        "description": "First\nsee https://example.com/a?b=c&d.",
        "priority": "high",
        "deadline": "2027-03-04",
        "cover_url": "https://example.com/cover.png",
    }
    for field, value in values.items():
        answer = edit(owner, path, field, value, was=was(owner, path, field))
        assert (answer.status_code, answer.headers["location"]) == (303, path), answer.text
        undo(owner, path)
        edit(owner, path, field, value)
    page = shown(owner, path)
    assert 'dir="auto">Another</h1>' in page
    assert '<a href="https://example.com/a?b=c&amp;d" rel="noopener noreferrer nofollow">' in page
    assert '<option value="high" selected>' in page
    assert 'value="2027-03-04"' in page
    assert edit(owner, path, "title", "").status_code == 422
    assert edit(owner, path, "user_id", "1").status_code == 400


def test_undo_restores_the_old_value(place: Place) -> None:
    _, path, owner = place
    edit(owner, path, "title", "Before")
    edit(owner, path, "title", "After")
    assert undo(owner, path).status_code == 303
    assert 'dir="auto">Before</h1>' in shown(owner, path)


def test_a_conflict_shows_both_versions_and_can_be_overridden(place: Place) -> None:
    _, path, owner = place
    seen = was(owner, path, "title")
    other = was(owner, path, "priority")
    edit(owner, path, "title", "Theirs")
    late = edit(owner, path, "title", "Mine", was=seen)
    assert late.status_code == 409
    assert "Someone else changed this while you were editing" in late.text
    assert ">Theirs<" in late.text
    assert ">Mine<" in late.text
    assert "Theirs" in shown(owner, path)
    assert edit(owner, path, "priority", "low", was=other).status_code == 303, "another field is not in the way"
    assert edit(owner, path, "title", "Theirs", was=seen).status_code == 303, "both wrote the same"
    again = next(each for each in forms(late) if each.fields.get("title") == "Mine")
    assert owner.post(again.action, again.fields).status_code == 303
    assert 'dir="auto">Mine</h1>' in shown(owner, path)


def test_list_values_are_added_and_removed_one_by_one(place: Place) -> None:
    world, path, owner = place
    for label in ("red", "blue"):
        owner.fill_csrf(f"{path}/labels", add=label)
    owner.fill_csrf(f"{path}/assignees", add=world.owner)
    assert owner.fill_csrf(f"{path}/assignees", add="nobody-of-this-name").status_code == 422
    page = shown(owner, path)
    assert all(f'dir="auto">{name}</span>' in page for name in ("red", "blue", "Octo"))
    owner.fill_csrf(f"{path}/labels", remove="red")
    assert 'dir="auto">red</span>' not in shown(owner, path)
    owner.fill_csrf(f"{path}/labels", remove="blue")
    undo(owner, path)
    assert 'dir="auto">blue</span>' in shown(owner, path)
    item = {"section": "Ready", "item": "Tested <b>"}
    owner.fill_csrf(f"{path}/checklist", step="add", **item)
    owner.fill_csrf(f"{path}/checklist", step="tick", **item)
    page = shown(owner, path)
    assert 'aria-pressed="true" aria-label="Done: Tested &lt;b&gt;"' in page
    owner.fill_csrf(f"{path}/checklist", step="remove", **item)
    assert "Tested" not in shown(owner, path)


def test_a_task_is_moved_copied_deleted_and_restored(place: Place) -> None:
    world, path, owner = place
    target = re.search(r'<option value="(col[^"]*)">Done</option>', shown(owner, path))
    assert target
    edit(owner, path, "column_id", target[1])
    assert f'<option value="{target[1]}" selected>Done' in shown(owner, path)
    copy = owner.fill_csrf(f"{path}/duplicate").headers["location"]
    assert copy != path
    assert "Copy of " in shown(owner, copy)
    gone = owner.fill_csrf(f"{path}/delete")
    assert gone.headers["location"] == f"/{world.full_name}"
    assert owner.get(path).status_code == 404
    assert undo(owner, f"/{world.full_name}").headers["location"] == path
    shown(owner, path)


def test_a_task_has_an_estimate_and_a_rate(place: Place, server: Server) -> None:
    world, path, owner = place
    edit(owner, path, "estimate", "5")
    page = shown(owner, path)
    assert "0:00 of 5:00" in page
    assert 'value="5:00"' in page
    assert 'title="Estimate"' in shown(owner, f"/{world.full_name}")
    edit(owner, path, "estimate", "1h 30m")
    undo(owner, path)
    assert "0:00 of 5:00" in shown(owner, path)
    edit(owner, path, "hourly_rate", "1,095.50")
    edit(owner, path, "billable", "true")
    page = shown(owner, path)
    assert 'value="1095.50"' in page
    assert '<option value="true" selected>' in page
    for wrong in ("soon", "0"):
        assert edit(owner, path, "estimate", wrong).status_code == 422
    assert edit(owner, path, "hourly_rate", "much").status_code == 422
    copy = owner.fill_csrf(f"{path}/duplicate").headers["location"]
    assert 'value="1095.50"' in shown(owner, copy)
    token = server.run(lambda services: add_user(services, world, member="member"))
    with Browser.of(server, login_of(server, token)) as member:
        page = shown(member, path)
        assert "1,095.50" in page
        assert 'name="hourly_rate"' not in page
        assert edit(member, path, "hourly_rate", "1").status_code == 403
        copy = member.fill_csrf(f"{path}/duplicate").headers["location"]
        page = shown(member, copy)
        assert "0:00 of 5:00" in page
        assert "1,095.50" not in page
    token = server.run(lambda services: add_client(services, world))
    with Browser.of(server, login_of(server, token)) as client:
        for rate in ("1095.50", "1", ""):
            assert edit(client, path, "hourly_rate", rate, was="x").status_code == 404
    for name in ("estimate", "hourly_rate", "billable"):
        edit(owner, path, name, "")
    page = shown(owner, path)
    assert "of 5:00" not in page
    assert 'value="1095.50"' not in page


def test_a_task_number_redirects_to_the_task(place: Place, server: Server) -> None:
    world, path, owner = place
    base = f"/{world.full_name}"
    assert '<span class="quiet numbers task-number">#1</span>' in shown(owner, path)
    assert "#1</span>" in shown(owner, base)
    assert "#1</span>" in shown(owner, "/search?q=evil")
    answer = owner.get(f"{base}/tasks/1")
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    for none in ("0", "2", "9" * 30):
        assert owner.get(f"{base}/tasks/{none}").status_code == 404
    other = server.world()
    with Browser.of(server, other.owner) as stranger:
        assert stranger.get(f"{base}/tasks/1").status_code == 404
    owner.fill_csrf(f"{path}/delete")
    assert owner.get(f"{base}/tasks/1").status_code == 404


def test_a_running_timer_is_in_the_header_of_every_page(place: Place) -> None:
    world, path, owner = place
    owner.fill_csrf(f"{path}/timer")
    board = owner.get(f"/{world.full_name}")
    assert 'id="running"' in board.text
    assert f'href="{path}"' in board.text
    for step, follows in (("pause", False), ("resume", True), ("finish", False)):
        form = next(each for each in forms(owner.get(path)) if each.action.endswith(f"/{step}"))
        assert owner.post(form.action, form.fields).headers["location"] == path
        assert ('id="running"' in shown(owner, path)) is follows
    assert owner.post(f"{form.action}/no", form.fields).status_code in (404, 405)
    elsewhere = {**form.fields, "back": "//example.com/"}
    assert owner.post(form.action, elsewhere).headers["location"] == "/"


def test_comments_are_added_changed_and_deleted(place: Place) -> None:
    _, path, owner = place
    assert owner.fill_csrf(f"{path}/comments", text=" ").status_code == 422
    where = owner.fill_csrf(f"{path}/comments", text="<i>One</i>").headers["location"]
    number = where.rpartition("-")[2]
    assert f'id="comment-{number}"' in shown(owner, path)
    assert "&lt;i&gt;One&lt;/i&gt;" in shown(owner, path)
    owner.fill_csrf(f"{path}/comments/{number}/edit", text="Two")
    assert "Two" in shown(owner, path)
    assert owner.fill_csrf(f"{path}x/comments/{number}/delete").status_code == 404
    assert owner.fill_csrf(f"{path}/comments/abc/delete").status_code == 404
    owner.fill_csrf(f"{path}/comments/{number}/delete")
    assert f"comment-{number}" not in shown(owner, path)


def test_a_client_sees_and_changes_only_permitted_parts(server: Server, place: Place) -> None:
    world, path, owner = place
    owner.fill_csrf(f"{path}/comments", text="For all")
    owner.fill_csrf(f"{path}/comments", text="Between us", private="1")
    owner.fill_csrf(f"{path}/timer")
    assert "Hidden from clients" in shown(owner, path)
    token = server.run(lambda services: add_client(services, world))
    with Browser.of(server, login_of(server, token)) as client:
        page = shown(client, path)
        assert "For all" in page
        assert "Between us" not in page
        for hidden in (
            "Hidden from clients",
            "Hide from clients",
            "Start timer",
            "Edit title",
            "live-url",
            "/history",
        ):
            assert hidden not in page
        assert edit(client, path, "title", "Taken").status_code == 403
        assert client.fill_csrf(f"{path}/timer").status_code == 404
        assert client.fill_csrf(f"{path}/comments", text="Secret", private="1").status_code == 403
        assert client.fill_csrf(f"{path}/comments", text="Thanks").status_code == 303
    assert "Thanks" in shown(owner, path)


def test_a_reader_is_offered_no_forms(server: Server, place: Place) -> None:
    world, path, _ = place
    token = server.run(lambda services: add_user(services, world, role="read"))
    with Browser.of(server, login_of(server, token)) as reader:
        page = reader.get(path)
        assert page.status_code == 200
        assert [each.action for each in forms(page)] == ["/logout"]
        assert edit(reader, path, "title", "Taken").status_code == 403


def test_a_task_is_not_accessible_through_another_project(server: Server, place: Place) -> None:
    """Not even for a user with access to both organizations."""
    world, path, owner = place
    other = server.world()
    wrong = path.replace(world.full_name, other.full_name)
    assert owner.get(wrong).status_code == 404
    with Browser.of(server, other.owner) as stranger:
        assert stranger.get(path).status_code == 404
        assert stranger.get(wrong).status_code == 404
        for step in ("edit", "labels", "assignees", "checklist", "duplicate", "delete", "restore", "comments", "timer"):
            fields = {"field": "title", "title": "x", "add": "x", "section": "x", "item": "x", "step": "add"}
            for address in (path, wrong):
                answer = stranger.fill_csrf(f"{address}/{step}", text="x", **fields)
                assert answer.status_code in (404, 422), f"{address}/{step}"
    assert '<h1 id="task-title" dir="auto">x</h1>' not in shown(owner, path)
