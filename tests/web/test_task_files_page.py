"""Files on the page of a task: attaching, listing, detaching and restoring them."""

from __future__ import annotations

from tests.web.browser import Browser, forms
from tests.web.studio import Studio, page_of, send, undo
from tests.web.test_board_page import card


def attach(studio: Studio, browser: Browser, task: str, name: str, **more: str) -> str:
    """Upload a file with the form of the task page and return where it redirects to."""
    page = browser.get(f"{studio.base}/tasks/{task}")
    form = next(each for each in forms(page) if each.fields.get("task_id") == task)
    headers = {"Origin": "null", "Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
    fields = {"csrf": form.fields["csrf"], "task_id": task, **more}
    answer = browser.client.post(form.action, data=fields, files={"file": (name, b"x", "text/plain")}, headers=headers)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def test_a_file_is_attached_on_the_page_of_the_task(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    here = f"{studio.base}/tasks/{task}"
    assert attach(studio, studio.owner, task, "plan.txt") == f"{here}#files"
    attach(studio, studio.owner, task, "secret.txt", private="1")
    page = page_of(studio.member, here)
    assert "plan.txt" in page
    assert "secret.txt" in page
    assert "Files: 2" in card(page_of(studio.member, studio.base), task)
    for_client = page_of(studio.client, here)
    assert "plan.txt" in for_client
    assert "secret.txt" not in for_client
    assert "Files: 1" in card(page_of(studio.client, studio.base), task)


def test_a_file_is_detached_and_restored(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    here = f"{studio.base}/tasks/{task}"
    attach(studio, studio.owner, task, "plan.txt")
    (file,) = studio.api.get(f"/api/v1/tasks/{task}/files").json()["files"]
    assert "Logo" in page_of(studio.member, f"{studio.base}/files/{file['id']}")
    answer = send(studio.owner, f"{studio.base}/files/{file['id']}/task", task_id="")
    assert answer.headers["location"] == f"{here}#files"
    assert "plan.txt" not in page_of(studio.member, here)
    undo(studio.owner, answer)
    assert "plan.txt" in page_of(studio.member, here)
    activity = page_of(studio.owner, f"{studio.base}/activity")
    assert "removed the file" in activity
    assert "attached the file" in activity


def test_the_page_of_a_file_does_not_name_a_deleted_task(studio: Studio) -> None:
    task = studio.add_task(studio.add_column("To do"), "Logo")
    attach(studio, studio.owner, task, "plan.txt")
    (file,) = studio.api.get(f"/api/v1/tasks/{task}/files").json()["files"]
    studio.call("DELETE", f"/tasks/{task}")
    assert "Logo" not in page_of(studio.member, f"{studio.base}/files/{file['id']}")
