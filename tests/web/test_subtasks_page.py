"""Subtasks on the page of a task: adding, completing and reopening them, and their count on the card."""

from __future__ import annotations

from typing import Any

from tests.web.studio import HOSTILE, Studio, page_of, send
from tests.web.test_board_page import card


def _subtasks(studio: Studio, task: str) -> list[Any]:
    tasks = studio.api.get(f"/api/v1{studio.project}/tasks", params={"parent_id": task}).json()["tasks"]
    return list(tasks)


def test_a_subtask_is_added_completed_and_reopened(studio: Studio) -> None:
    column = studio.add_column("To do")
    task = studio.add_task(column, HOSTILE)
    here = f"{studio.base}/tasks/{task}"
    answer = send(studio.owner, f"{here}/subtasks", title="Texts")
    assert answer.headers["location"] == f"{here}#subtasks"
    (made,) = _subtasks(studio, task)
    tick = f"{here}/subtasks/{made['id']}/tick"
    assert tick not in page_of(studio.owner, here), "no column completes"
    studio.call("POST", f"{studio.project}/columns", title="Done", finished=True)
    assert tick in page_of(studio.owner, here)
    assert send(studio.owner, tick, done="1").status_code == 303
    (made,) = _subtasks(studio, task)
    assert made["completed_at"] is not None
    assert "Subtasks: 1/1" in card(page_of(studio.owner, studio.base), task)
    send(studio.owner, tick, done="0")
    (made,) = _subtasks(studio, task)
    assert made["completed_at"] is None
    page = page_of(studio.owner, f"{studio.base}/tasks/{made['id']}")
    assert "Subtask of" in page
    assert f'href="{here}"' in page
    assert "<script>alert" not in page
    assert 'id="form-subtask"' not in page, "a subtask has no subtasks"


def test_a_subtask_of_another_task_is_not_found(studio: Studio) -> None:
    column = studio.add_column("To do")
    studio.call("POST", f"{studio.project}/columns", title="Done", finished=True)
    task, other = studio.add_task(column, "A"), studio.add_task(column, "B")
    child = studio.add_task(column, "C", parent_id=other)
    assert send(studio.owner, f"{studio.base}/tasks/{task}/subtasks/{child}/tick", done="1").status_code == 404


def test_a_client_adds_subtasks_and_completes_its_own(studio: Studio) -> None:
    column = studio.add_column("To do")
    studio.call("POST", f"{studio.project}/columns", title="Done", finished=True)
    task = studio.add_task(column, "A")
    theirs = studio.add_task(column, "B", parent_id=task)
    here = f"{studio.base}/tasks/{task}"
    assert send(studio.client, f"{here}/subtasks", title="Own").status_code == 303
    own = next(each["id"] for each in _subtasks(studio, task) if each["title"] == "Own")
    page = page_of(studio.client, here)
    assert f"{here}/subtasks/{own}/tick" in page
    assert f"{here}/subtasks/{theirs}/tick" not in page
    assert send(studio.client, f"{here}/subtasks/{theirs}/tick", done="1").status_code == 403


def test_a_copy_is_a_subtask_of_the_same_task(studio: Studio) -> None:
    column = studio.add_column("To do")
    task = studio.add_task(column, "A")
    child = studio.add_task(column, "B", parent_id=task)
    duplicate = f"{studio.base}/tasks/{child}/duplicate"
    assert send(studio.owner, duplicate).status_code == 303
    assert len(_subtasks(studio, task)) == 2
    studio.call("DELETE", f"/tasks/{task}")
    copy = send(studio.owner, duplicate).headers["location"].rpartition("/")[2]
    assert studio.api.get(f"/api/v1/tasks/{copy}").json()["task"]["parent_id"] is None
