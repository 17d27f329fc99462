"""Blockers on the page of a task: searching, adding and removing them, and their mark on the card."""

from __future__ import annotations

from tests.web.studio import HOSTILE, Studio, page_of, send, undo
from tests.web.test_board_page import card


def _blockers(studio: Studio, task: str) -> list[str]:
    return list(studio.api.get(f"/api/v1/tasks/{task}").json()["task"]["blocked_by"])


def test_a_blocker_is_searched_and_added(studio: Studio) -> None:
    column = studio.add_column("To do")
    task, other = studio.add_task(column, "Launch"), studio.add_task(column, f"Texts {HOSTILE}")
    here = f"{studio.base}/tasks/{task}"
    assert f'action="{here}/waits"' in page_of(studio.owner, here)
    found = page_of(studio.owner, f"{here}/waits", q="texts")
    assert f'value="{other}"' in found
    assert "<script>alert" not in found
    assert "No open task" in page_of(studio.owner, f"{here}/waits", q="launch"), "not itself"
    assert send(studio.owner, f"{here}/waits", add=other).headers["location"] == f"{here}#waits"
    assert _blockers(studio, task) == [other]
    assert f'value="{other}"' not in page_of(studio.owner, f"{here}/waits", q="texts")
    page = page_of(studio.member, here)
    assert "Complete these tasks first" in page
    assert f'href="{studio.base}/tasks/{other}"' in page
    assert "Blocked" in card(page_of(studio.member, studio.base), task)
    answer = send(studio.owner, f"{here}/waits", remove=other)
    assert _blockers(studio, task) == []
    undo(studio.owner, answer)
    assert _blockers(studio, task) == [other]


def test_a_cycle_is_refused(studio: Studio) -> None:
    column = studio.add_column("To do")
    task, other = studio.add_task(column, "Launch"), studio.add_task(column, "Texts")
    send(studio.owner, f"{studio.base}/tasks/{task}/waits", add=other)
    answer = send(studio.owner, f"{studio.base}/tasks/{other}/waits", add=task)
    assert answer.status_code == 422
    assert "These tasks would block one another" in answer.text


def test_a_client_sees_blockers_and_cannot_remove_them(studio: Studio) -> None:
    column = studio.add_column("To do")
    task, other = studio.add_task(column, "Launch"), studio.add_task(column, "Texts")
    send(studio.owner, f"{studio.base}/tasks/{task}/waits", add=other)
    page = page_of(studio.client, f"{studio.base}/tasks/{task}")
    assert "Texts" in page
    assert 'id="form-waits"' not in page
    assert send(studio.client, f"{studio.base}/tasks/{task}/waits", remove=other).status_code == 403
