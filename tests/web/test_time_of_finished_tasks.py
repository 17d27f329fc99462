"""Adding time entries for completed tasks."""

from __future__ import annotations

import re

from tests.web.studio import HOSTILE, Studio, page_of, send


def options(page: str, field: str) -> str:
    """Return the HTML of a task select, or an empty string if there is none."""
    found = re.search(rf'<select id="{field}".*?</select>', page, re.DOTALL)
    return found[0] if found else ""


def finished_task(studio: Studio, title: str) -> str:
    return studio.add_task(studio.add_column("Done", finished=True), title, assignees=[studio.team.member.login])


def test_finished_tasks_are_listed_after_open_ones_and_marked(studio: Studio) -> None:
    done = finished_task(studio, HOSTILE)
    opened = studio.add_task(studio.add_column("To do"), "Open one", assignees=[studio.team.member.login])
    for path, label in ((f"{studio.base}/time", "Completed tasks"), ("/time", "Website: completed tasks")):
        page = page_of(studio.member, path)
        add, start = options(page, "add-task"), options(page, "start-task")
        assert f'<optgroup label="{label}">' in add
        assert 0 < add.index(opened) < add.index(label) < add.index(done)
        assert opened in start
        assert done not in start
        assert "<img" not in add
    given = {"task_id": done, "start": "2026-01-05T09:00", "duration": "1:30", "timezone": "UTC"}
    for path in (f"{studio.base}/time", "/time"):
        assert send(studio.member, f"{path}/entries", **given).status_code == 303
        answer = send(studio.member, f"{path}/entries", **{**given, "duration": "soon"})
        assert answer.status_code == 422
        assert re.search(rf'value="{done}" selected', options(answer.text, "add-task"))
    entries = studio.call("GET", f"{studio.project}/timesheets")["timesheets"]
    assert [each["task"]["id"] for each in entries] == [done, done]
    entry = page_of(studio.member, f"{studio.base}/time/{entries[0]['id']}")
    assert re.search(rf'value="{done}" selected', options(entry, "task"))
    assert entry.count(done) >= 1


def test_time_can_be_added_if_all_tasks_are_finished(studio: Studio) -> None:
    done = finished_task(studio, "Domain bought")
    for path in (f"{studio.base}/time", "/time"):
        page = page_of(studio.member, path)
        assert done in options(page, "add-task")
        assert "Start timer" not in page
        assert "Add a task to the board first" not in page


def test_finished_tasks_of_others_are_not_on_the_own_time_page(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("Done", finished=True), "Theirs", assignees=[studio.team.owner.login])
    assert task not in page_of(studio.member, "/time")
    assert task in page_of(studio.member, f"{studio.base}/time")


def test_a_search_finds_tasks_beyond_the_end_of_the_list(studio: Studio) -> None:
    board = studio.add_column("To do")
    old = studio.add_task(board, "Old logo")
    done = studio.add_task(studio.add_column("Done", finished=True), "Old shop")
    for _ in range(2):
        pages = [{"action": "create", "column_id": board, "title": "New page"}] * 100
        new = studio.call("POST", "/tasks/bulk", operations=pages)["tasks"][-1]["id"]
    studio.call("POST", f"{studio.project}/timesheets", task_id=new, duration="1h")
    [entry] = studio.call("GET", f"{studio.project}/timesheets")["timesheets"]
    for path, field, finished in (
        (f"{studio.base}/time", "add-task", True),
        (f"{studio.base}/time/{entry['id']}", "task", True),
        (f"{studio.base}/billing/credits", "spend-task", False),
    ):
        page = page_of(studio.owner, path)
        assert "You can also search for other tasks." in page, path
        assert (new in options(page, field), old in options(page, field)) == (True, False)
        page = page_of(studio.owner, path, task_q="old")
        assert "Only matching tasks are listed." in page, path
        assert old in options(page, field), path
        assert (done in options(page, field)) is finished
        for nothing in ("zebra", "?!"):
            page = page_of(studio.owner, path, task_q=nothing)
            assert "No tasks match." in page, path
            assert old not in options(page, field)
    # A refused form keeps the selection.
    sent = {"task_id": old, "start": "2026-01-05T09:00", "duration": "soon", "timezone": "UTC"}
    for path, field in ((f"{studio.base}/time/entries", "add-task"), ("/time/entries", "add-task")):
        answer = send(studio.owner, path, **sent)
        assert re.search(rf'value="{old}" selected', options(answer.text, field)), path
    answer = send(studio.owner, f"{studio.base}/billing/credits/spend", task_id=old, amount="x")
    assert re.search(rf'value="{old}" selected', options(answer.text, "spend-task"))


def test_a_search_on_the_own_time_page_finds_unassigned_tasks(studio: Studio) -> None:
    board = studio.add_column("To do")
    task = studio.add_task(board, "Old logo")
    done = studio.add_task(studio.add_column("Done", finished=True), "Old shop")
    page = page_of(studio.member, "/time")
    assert "You can also search for other tasks." in page
    assert task not in page
    given = {"task_id": task, "start_time": "2026-01-05T09:00:00Z", "duration": 60_000}
    for each in (task, done):
        headers = {"Authorization": f"Bearer {studio.team.member.token}"}
        given["task_id"] = each
        assert studio.api.post(f"/api/v1{studio.project}/timesheets", json=given, headers=headers).is_success
    page = page_of(studio.member, "/time", week="2026-01-05")
    assert task in options(page, "start-task")
    assert "You can also search for other tasks." in page
    assert 'id="task-q"' not in page_of(studio.member, f"{studio.base}/time"), "everything is listed"
    page = page_of(studio.member, "/time", task_q="old")
    assert task in options(page, "start-task")
    assert done in options(page, "add-task")
    assert done not in options(page, "start-task")
    assert "No tasks match." in page_of(studio.member, "/time", task_q="zebra")
    assert task not in page_of(studio.client, "/time", task_q="old")
    assert 'id="task-q"' not in page_of(studio.client, "/time")
