"""Deleted objects: listed in the trash, restorable, and purged after 30 days."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.clients import become_client
from tests.harness.receiver import Receiver, Reply
from tests.harness.waiting import until
from tests.work.studio import Caller, Studio
from workhook import asgi
from workhook.core.clock import DAY_MS, now_ms
from workhook.hooks.tables import hooks
from workhook.http.calls import Services
from workhook.identity.tables import audit_log, projects
from workhook.storage import metadata
from workhook.storage.metadata import bigint_param
from workhook.work.board.projects import deletion
from workhook.work.history import trash

assert asgi  # importing the app registers the tables of every area

KEYS = {"type", "id", "title", "deleted_at"}


def _trash(caller: Caller, path: str = "/trash", **more: Any) -> list[dict[str, Any]]:
    answer = caller.get(path, **more)
    assert set(answer) == {"success", "trash"}
    assert all(set(each) == KEYS for each in answer["trash"])
    found: list[dict[str, Any]] = answer["trash"]
    return found


def _titles(found: list[dict[str, Any]]) -> list[str]:
    return [each["title"] for each in found]


def _upload(studio: Studio, title: str, project: str | None = None) -> str:
    answer = studio.owner.post(
        f"{project or studio.project}/files", files={"file": (title, b"content of " + title.encode(), "text/plain")}
    )
    file_id: str = answer["file"]["id"]
    return file_id


# --- projects --------------------------------------------------------------------------------------------------------


def test_a_deleted_project_can_be_restored(studio: Studio) -> None:
    before = studio.owner.get(studio.project)["project"]
    assert _trash(studio.owner) == []
    studio.owner.delete(studio.project)
    studio.happened()
    [deleted] = _trash(studio.owner)
    assert (deleted["type"], deleted["id"], deleted["title"]) == ("project", studio.project_id, "Website")
    assert deleted["deleted_at"] > before["updated_at"]
    restored = studio.owner.post(f"{studio.project}/restore")["project"]
    assert {**restored, "updated_at": before["updated_at"]} == before
    assert restored["updated_at"] > before["updated_at"]
    assert studio.owner.get(studio.project)["project"] == restored
    assert _trash(studio.owner) == []
    [told] = studio.happened()
    assert (told.name, told.action, told.record) == ("project", "created", restored)
    assert studio.owner.post(f"{studio.project}/restore")["project"] == restored  # repeated
    assert studio.happened() == []


def test_a_name_taken_in_the_meantime_gets_a_suffix(studio: Studio) -> None:
    studio.owner.patch(studio.project, json={"name": "WebSite"})
    studio.owner.delete(studio.project)
    other = studio.owner.post("/projects", json={"title": "Website"})["project"]
    assert other["name"] == "website"
    assert studio.owner.post(f"{studio.project}/restore")["project"]["name"] == "WebSite-2"
    assert studio.owner.get(f"/projects/{other['id']}")["project"]["name"] == "website"


def test_the_trash_lists_the_last_deleted_first_in_pages(studio: Studio) -> None:
    for title in "abc":
        made = studio.owner.post("/projects", json={"title": title})["project"]
        studio.owner.delete(f"/projects/{made['id']}")
    assert _titles(_trash(studio.owner)) == ["c", "b", "a"]
    page = studio.owner.call("GET", "/trash", params={"per_page": 2})
    rest = studio.owner.http.get(page.links["next"]["url"])
    assert _titles(page.json()["trash"] + rest.json()["trash"]) == ["c", "b", "a"]


def test_only_owners_and_admins_can_restore(studio: Studio) -> None:
    admin, writer = studio.add(role="admin"), studio.add(role="write")
    assert writer.refused(403, "POST", f"{studio.project}/restore")["code"] == "missing_role"
    others = (studio.member, writer, studio.client, studio.stranger)
    studio.owner.delete(studio.project)
    for caller in others:
        caller.refused(404, "POST", f"{studio.project}/restore")
        assert _trash(caller) == []
    assert _titles(_trash(admin)) == ["Website"]
    assert admin.post(f"{studio.project}/restore")["project"]["title"] == "Website"


def test_the_webhooks_of_a_restored_project_work_again(studio: Studio, receiver: Receiver) -> None:
    studio.hook(receiver.url, "project")
    studio.owner.delete(studio.project)
    studio.owner.post(f"{studio.project}/restore")
    studio.owner.patch(studio.project, json={"title": "Again"})
    received = receiver.wait_for(lambda requests: len([each for each in requests if each.event == "project"]) >= 3)
    actions = [each.payload()["action"] for each in received if each.event == "project"]
    assert sorted(actions) == ["created", "deleted", "edited"]


# --- objects in a project ---------------------------------------------------------------------------------------------


def test_the_trash_of_a_project_lists_its_objects_in_pages(studio: Studio) -> None:
    path = f"{studio.project}/trash"
    for title in ("a.txt", "b.txt", "c.txt", "kept.txt"):
        file_id = _upload(studio, title)
        if title != "kept.txt":
            studio.owner.delete(f"/files/{file_id}")
    column = studio.owner.post(f"{studio.project}/columns", json={"title": "To do"})["column"]
    for title in ("First", "Second"):
        task = studio.owner.post(f"/columns/{column['id']}/tasks", json={"title": title})["task"]
        studio.owner.delete(f"/tasks/{task['id']}")
    found = _trash(studio.owner, path)
    assert _titles(found) == ["Second", "First", "c.txt", "b.txt", "a.txt"]
    assert [each["type"] for each in found] == ["task", "task", "file", "file", "file"]
    page = studio.owner.call("GET", path, params={"per_page": 3})
    rest = studio.owner.http.get(page.links["next"]["url"])
    assert page.json()["trash"] + rest.json()["trash"] == found


# --- purging ---------------------------------------------------------------------------------------------------------

_age = sa.update(projects).where(projects.c.id == sa.bindparam("project_id")).values(deleted_at=bigint_param("at"))
_hooks = sa.select(hooks.c.id).where(hooks.c.repository_id == bigint_param("repository_id"))
_audited = sa.select(audit_log.c.target).where(audit_log.c.action == "project.purge")


def _delete_long_ago(studio: Studio, project_id: str, *, days: float = 30) -> None:
    studio.owner.delete(f"/projects/{project_id}")

    studio.server.execute(_age, {"project_id": project_id, "at": now_ms() - round(days * DAY_MS) - 1000})


def _purge(studio: Studio) -> int:
    count: int = studio.server.run(lambda services: trash.purge_projects(services, now_ms()))
    return count


def _left(studio: Studio, repository_id: int) -> dict[str, int]:
    """Return the number of the project's remaining rows by table."""

    async def count(services: Services) -> dict[str, int]:
        found = {}
        for table in metadata.sorted_tables:
            if any(key.column is projects.c.repository_id for key in table.foreign_keys) or table is projects:
                statement = sa.select(table.c.repository_id).where(
                    table.c.repository_id == bigint_param("repository_id")
                )
                found[table.name] = len(await services.database.fetch_all(statement, {"repository_id": repository_id}))
        return {name: number for name, number in found.items() if number}

    left: dict[str, int] = studio.server.run(count)
    return left


def _fill(studio: Studio) -> dict[str, Any]:
    """Create a project with objects of every kind."""
    project: dict[str, Any] = studio.owner.post("/projects", json={"title": "Full"})["project"]
    path = f"/projects/{project['id']}"
    studio.owner.post(f"{path}/members", json={"username": studio.stranger.login})
    email = f"c.{studio.world.owner}@a.example"
    studio.server.run(lambda services: become_client(services, project["id"], email))
    column = studio.owner.post(f"{path}/columns", json={"title": "To do"})["column"]
    tasks = [studio.owner.post(f"/columns/{column['id']}/tasks", json={"title": each})["task"] for each in "abc"]
    studio.owner.post(f"/tasks/{tasks[0]['id']}/task_comments", json={"text": "Hello"})
    studio.owner.delete(f"/tasks/{tasks[1]['id']}")
    folder = studio.owner.post(f"{path}/folders", json={"title": "Drafts"})["folder"]
    upload = {"file": ("a.txt", b"some content", "text/plain")}
    file = studio.owner.post(f"{path}/files", files=upload, data={"folder": folder["id"]})["file"]
    comment = studio.owner.post(f"/files/{file['id']}/file_comments", json={"text": "Nice"})
    studio.owner.post(f"/file_comments/{comment['id']}/comments", json={"body": "Thanks"})
    sheet = {"task_id": tasks[0]["id"], "duration": 3_600_000, "billable": True, "billable_rate": 50}
    timesheet = studio.owner.post(f"{path}/timesheets", json=sheet)["timesheet"]
    studio.owner.post(f"{path}/invoices", json={"currency": "EUR", "timesheet_ids": [timesheet["id"]]})
    studio.owner.post(f"{path}/task_credits", json={"amount": 5})
    studio.owner.post(f"{path}/task_credits", json={"amount": 1, "kind": "spend", "task_id": tasks[0]["id"]})
    return project


@pytest.mark.parametrize("batch", [deletion.BATCH, 2])
def test_a_project_is_purged_with_everything_in_it_after_30_days(
    studio: Studio, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "BATCH", batch)
    deletion.delete_batch.cache_clear()
    full = _fill(studio)
    repository_id = full["repository_id"]
    before = _left(studio, repository_id)
    assert {"projects", "tasks", "columns", "files", "timesheets", "invoices", "task_credits", "clients"} <= set(before)
    kept = _left(studio, studio.owner.get(studio.project)["project"]["repository_id"])
    _delete_long_ago(studio, full["id"], days=29.9)
    assert (before.pop("invitations"), before.pop("notifications")) == (1, 1), "both end when the project is deleted"
    assert _purge(studio) == 0
    assert _left(studio, repository_id) == before
    assert full["id"] in [each["id"] for each in _trash(studio.owner)]
    studio.owner.post(f"/projects/{full['id']}/restore")
    _delete_long_ago(studio, full["id"])
    studio.owner.refused(404, "POST", f"/projects/{full['id']}/restore")
    assert _trash(studio.owner) == []
    blobs = [each for each in (studio.server.data / "files").rglob("blb_*") if each.is_file()]
    assert _purge(studio) == 1
    assert _left(studio, repository_id) == {}
    assert len([each for each in (studio.server.data / "files").rglob("blb_*") if each.is_file()]) == len(blobs) - 1
    assert _left(studio, studio.owner.get(studio.project)["project"]["repository_id"]) == kept
    assert _purge(studio) == 0


def test_a_project_with_pending_deliveries_is_not_purged(studio: Studio, receiver: Receiver) -> None:
    receiver.reply = lambda received: Reply(status=500)
    studio.hook(receiver.url, "project")
    repository_id = studio.owner.get(studio.project)["project"]["repository_id"]
    _delete_long_ago(studio, studio.project_id)
    receiver.wait_for(lambda requests: any(each.event == "project" for each in requests))
    assert _purge(studio) == 0
    assert _left(studio, repository_id)["hooks"] == 1

    def gone() -> bool:
        studio.server.execute(sa.text("UPDATE dispatches SET next_attempt_at = NULL"))
        return _purge(studio) == 1

    assert until(gone)
    assert _left(studio, repository_id) == {}
