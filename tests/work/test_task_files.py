"""Files of tasks: attached on upload or later, listed by task, and kept when the task is deleted."""

from __future__ import annotations

from tests.work.studio import Caller, Studio
from tests.work.test_files import attempt, upload

NO_TASK = {
    "field": "task_id",
    "code": "not_found",
    "message": "task_id: the file's project has no such task",
}


def _ids(caller: Caller, path: str, **query: str) -> list[str]:
    return [each["id"] for each in caller.get(path, params=query)["files"]]


def test_a_file_can_be_attached_on_upload(studio: Studio) -> None:
    task = studio.task()
    studio.happened()
    file = upload(studio.owner, studio.project, task_id=task)
    assert file["task_id"] == task
    (event,) = studio.happened()
    assert (event.name, event.action, event.record) == ("file", "created", file)


def test_a_file_can_be_attached_and_detached_later(studio: Studio) -> None:
    task, file = studio.task(), upload(studio.owner, studio.project)
    studio.happened()
    edited = studio.owner.patch(f"/files/{file['id']}", json={"task_id": task})["file"]
    assert edited["task_id"] == task
    (event,) = studio.happened()
    assert (event.name, event.action) == ("file", "edited")
    assert event.payload["changes"] == {"task_id": {"from": None, "to": task}}
    studio.owner.patch(f"/files/{file['id']}", json={"task_id": task, "title": file["title"]})
    assert studio.happened() == [], "it was there already"
    assert studio.owner.patch(f"/files/{file['id']}", json={"task_id": None})["file"]["task_id"] is None


def test_files_can_be_filtered_by_task(studio: Studio) -> None:
    logo, other = studio.task(), studio.task()
    first, second = (upload(studio.owner, studio.project, task_id=logo)["id"] for _ in range(2))
    upload(studio.owner, studio.project, task_id=other)
    upload(studio.owner, studio.project)
    assert _ids(studio.owner, f"/tasks/{logo}/files") == [first, second]
    assert _ids(studio.owner, f"{studio.project}/files", task_id=logo) == [first, second]
    assert _ids(studio.owner, "/files", task_id=logo) == [first, second]


def test_a_client_sees_only_public_files_of_a_task(studio: Studio) -> None:
    task = studio.task()
    upload(studio.owner, studio.project, task_id=task, private="true")
    shown = upload(studio.owner, studio.project, task_id=task)["id"]
    own = upload(studio.client, studio.project, task_id=task)["id"]
    assert _ids(studio.client, f"/tasks/{task}/files") == [shown, own]
    assert _ids(studio.client, "/files", task_id=task) == [shown, own]
    studio.client.refused(403, "PATCH", f"/files/{shown}", json={"task_id": None})
    assert studio.client.patch(f"/files/{own}", json={"task_id": None})["file"]["task_id"] is None


def test_a_file_can_be_attached_only_to_a_task_of_its_project(studio: Studio) -> None:
    elsewhere = studio.owner.post("/projects", json={"title": "Elsewhere"})["project"]["id"]
    theirs = studio.task(studio.column(project=f"/projects/{elsewhere}"))
    deleted = studio.task()
    studio.owner.delete(f"/tasks/{deleted}")
    file = upload(studio.owner, studio.project)
    for wrong in (theirs, deleted, "tsk_nothing"):
        problem = studio.owner.refused(422, "PATCH", f"/files/{file['id']}", json={"task_id": wrong})
        assert problem["errors"] == [NO_TASK]
        problem = studio.owner.refused(
            422, "POST", f"{studio.project}/files", **attempt(studio.owner, "", task_id=wrong)
        )
        assert problem["errors"] == [NO_TASK]
    studio.owner.refused(404, "GET", f"/tasks/{deleted}/files")


def test_deleting_and_restoring_keeps_the_relation(studio: Studio) -> None:
    task = studio.task()
    file = upload(studio.owner, studio.project, task_id=task)["id"]
    studio.owner.delete(f"/tasks/{task}")
    assert studio.owner.get(f"/files/{file}")["file"]["task_id"] == task
    renamed = studio.owner.patch(f"/files/{file}", json={"title": "Else"})["file"]
    assert renamed["task_id"] == task, "what is not changed is not looked at"
    studio.owner.post(f"/tasks/{task}/restore")
    assert _ids(studio.owner, f"/tasks/{task}/files") == [file]
    studio.owner.delete(f"/files/{file}")
    assert _ids(studio.owner, f"/tasks/{task}/files") == []
    studio.owner.post(f"/files/{file}/restore")
    assert _ids(studio.owner, f"/tasks/{task}/files") == [file]
