"""Issued invoices are permanent: objects they refer to cannot be deleted, and no chore touches them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from tests.work.paper import png
from tests.work.scene import Scene
from tests.work.shop import MONTHLY, Shop
from tests.work.studio import Caller, JsonObject, Studio
from workhook import asgi
from workhook.chores import CHORES
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.identity.tables import projects
from workhook.storage.metadata import bigint_param
from workhook.work.board.tasks.schemas import tasks
from workhook.work.history import trash
from workhook.work.money.invoices.schemas import invoices
from workhook.work.operations import OPERATIONS

assert asgi  # importing the app registers the tables of every area

_bury_project = (
    sa.update(projects).where(projects.c.id == sa.bindparam("gone_id")).values(deleted_at=bigint_param("at"))
)
_bury_task = (
    sa.update(tasks)
    .where(tasks.c.id == sa.bindparam("gone_id"))
    .values(deleted_at=bigint_param("at"), bucket_id=None, rank=None)
)
_row = sa.select(invoices).where(invoices.c.id == sa.bindparam("id"))
_task = sa.select(tasks.c.id).where(tasks.c.id == sa.bindparam("id"))


def _backdate_deletion(studio: Studio, statement: sa.Update, gone_id: str, *, days: int) -> None:
    """Move an object into the trash directly, as if it had been deleted `days` ago."""

    studio.server.execute(statement, {"gone_id": gone_id, "at": now_ms() - days * DAY_MS})


def _run_chores(studio: Studio, *, in_days: int = 0) -> None:
    async def run(services: Services) -> None:
        for chore in CHORES:
            await chore.run(services, now_ms() + in_days * DAY_MS)

    studio.server.run(run)


def _stored(studio: Studio, statement: sa.Select[Any], row_id: str) -> list[dict[str, Any]]:
    return studio.server.fetch(statement, {"id": row_id})


def _issue(studio: Studio, *timesheet_ids: str, steps: tuple[str, ...] = ("send",), **more: Any) -> JsonObject:
    """Issue an invoice for the time entries, or for one line without any."""
    lines = {"timesheet_ids": timesheet_ids} if timesheet_ids else {
        "invoice_items": [{"description": "Work", "qty": 2, "unit_price": 10.5}]
    }  # fmt: skip
    made = studio.owner.post(f"{studio.project}/invoices", json={**lines, **more})["invoice"]
    for step in steps:
        made = studio.owner.post(f"/invoices/{made['id']}/{step}")["invoice"]
    invoice: JsonObject = made
    return invoice


def _refused_deletion(caller: Caller, path: str, *numbers: str, method: str = "DELETE", **more: Any) -> str:
    """Check that a deletion is refused because of invoices, and return the message."""
    refused = caller.refused(409, method, path, **more)
    assert refused["code"] == "has_invoices"
    assert all(each in refused["message"] for each in numbers), refused["message"]
    return str(refused["message"])


# --- projects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [("send",), ("send", "pay"), ("send", "void")])
def test_a_project_with_an_issued_invoice_cannot_be_deleted(studio: Studio, steps: tuple[str, ...]) -> None:
    admin, invoice = studio.add(role="admin"), _issue(studio, steps=steps)
    studio.happened()
    for caller in (studio.owner, admin):
        assert "archive" in _refused_deletion(caller, studio.project, invoice["invoice_number"])
    assert studio.happened() == []
    assert studio.owner.get(f"/invoices/{invoice['id']}")["invoice"] == invoice
    assert studio.owner.patch(studio.project, json={"archive": True})["project"]["archive"] is True
    _refused_deletion(studio.owner, studio.project, invoice["invoice_number"])
    studio.client.refused(403, "DELETE", studio.project)


def test_the_error_names_up_to_five_invoices(studio: Studio) -> None:
    numbers = [_issue(studio)["invoice_number"] for _ in range(6)]
    _issue(studio, steps=(), invoice_number="DRAFT-1")
    message = _refused_deletion(studio.owner, studio.project, *numbers[:5])
    assert numbers[5] not in message
    assert "more" in message
    assert "DRAFT" not in message


def test_a_project_with_only_drafts_can_be_deleted(studio: Studio) -> None:
    draft = _issue(studio, steps=())
    studio.owner.delete(studio.project)
    studio.owner.refused(404, "GET", f"/invoices/{draft['id']}")
    studio.owner.post(f"{studio.project}/restore")
    assert studio.owner.get(f"/invoices/{draft['id']}")["invoice"] == draft


def test_a_project_with_issued_invoices_is_never_purged(studio: Studio) -> None:
    """Not even if it were in the trash."""
    invoice = _issue(studio)
    [before] = _stored(studio, _row, invoice["id"])
    _backdate_deletion(studio, _bury_project, studio.project_id, days=31)
    _run_chores(studio)
    _run_chores(studio, in_days=400)
    assert _stored(studio, _row, invoice["id"]) == [before]
    assert studio.owner.post(f"{studio.project}/restore")["project"]["id"] == studio.project_id
    assert studio.owner.get(f"/invoices/{invoice['id']}")["invoice"] == invoice


# --- services and checkouts ------------------------------------------------------------------------------------------


def test_a_service_on_an_issued_invoice_cannot_be_deleted(studio: Studio, shop: Shop) -> None:
    service = shop.service(MONTHLY)
    checkout = shop.choose(service)
    other = shop.service(MONTHLY)
    shop.choose(other)
    studio.owner.post(f"/service_checkouts/{checkout['id']}/complete")
    [invoice] = studio.owner.get(f"{studio.project}/invoices")["invoices"]
    studio.happened()
    assert "active" in _refused_deletion(studio.owner, f"/services/{service['id']}", invoice["invoice_number"])
    assert studio.happened() == []
    studio.member.refused(403, "DELETE", f"/services/{service['id']}")
    studio.owner.delete(f"/services/{other['id']}")
    studio.owner.patch(f"/services/{service['id']}", json={"active": False})
    # Deleting the checkout cancels and hides it as documented; its invoice remains, and therefore also the service.
    assert studio.owner.delete(f"/service_checkouts/{checkout['id']}") == {"success": True}
    studio.owner.refused(404, "GET", f"/service_checkouts/{checkout['id']}")
    assert studio.owner.get(f"/invoices/{invoice['id']}")["invoice"] == invoice
    _refused_deletion(studio.owner, f"/services/{service['id']}", invoice["invoice_number"])


# --- time and tasks --------------------------------------------------------------------------------------------------


def _time(studio: Studio, scene: Scene, **more: Any) -> tuple[str, str]:
    """Return the IDs of a new time entry and its task."""
    timesheet = scene.timesheet(**more)
    return timesheet, str(studio.owner.get(f"/timesheets/{timesheet}")["timesheet"]["task"]["id"])


def test_a_task_with_invoiced_time_cannot_be_deleted(studio: Studio, scene: Scene) -> None:
    timesheet, task = _time(studio, scene)
    invoice = _issue(studio, timesheet, steps=())
    studio.owner.delete(f"/tasks/{task}")  # a draft claims the time but does not prevent the deletion
    studio.owner.post(f"/tasks/{task}/restore")
    invoice = studio.owner.post(f"/invoices/{invoice['id']}/send")["invoice"]
    studio.happened()
    assert "archive" in _refused_deletion(studio.owner, f"/tasks/{task}", invoice["invoice_number"])
    operations = [{"action": "delete", "id": scene.task()}, {"action": "delete", "id": task}]
    studio.happened()
    body = {"operations": operations}
    refused = _refused_deletion(studio.owner, "/tasks/bulk", invoice["invoice_number"], method="POST", json=body)
    assert "operations[1]" in refused
    assert studio.happened() == []
    assert studio.owner.refused(409, "DELETE", f"/timesheets/{timesheet}")["code"] == "invoiced"
    studio.owner.delete(f"/columns/{studio.owner.get(f'/tasks/{task}')['task']['column']['id']}")  # moves the task
    assert studio.owner.get(f"/invoices/{invoice['id']}")["invoice"] == invoice
    studio.owner.post(f"/invoices/{invoice['id']}/void")
    assert studio.owner.delete(f"/tasks/{task}") == {"success": True}


def test_the_error_names_each_invoice_of_a_task_once(studio: Studio, scene: Scene) -> None:
    first, task = _time(studio, scene)
    second, third = scene.timesheet(task_id=task), scene.timesheet(task_id=task)
    numbers = [_issue(studio, first, second)["invoice_number"], _issue(studio, third)["invoice_number"]]
    message = _refused_deletion(studio.owner, f"/tasks/{task}", *numbers)
    assert [message.count(each) for each in numbers] == [1, 1]


def test_a_client_cannot_delete_its_task_on_an_issued_invoice(studio: Studio, scene: Scene) -> None:
    """The client can see the invoice, so the error may name it."""
    task = studio.client.post(f"/columns/{scene.column()}/tasks", json={"title": "Mine"})["task"]["id"]
    invoice = _issue(studio, scene.timesheet(task_id=task))
    _refused_deletion(studio.client, f"/tasks/{task}", invoice["invoice_number"])
    assert studio.client.get(f"/invoices/{invoice['id']}")["invoice"]["invoice_number"] == invoice["invoice_number"]


def test_a_task_deleted_before_it_was_invoiced_is_not_purged(studio: Studio, scene: Scene) -> None:
    timesheet, task = _time(studio, scene)
    studio.owner.delete(f"/tasks/{task}")
    invoice = _issue(studio, timesheet)  # time in the trash can still be billed
    _backdate_deletion(studio, _bury_task, task, days=60)
    studio.server.run(lambda services: trash.purge_tasks(services, now_ms()))
    assert _stored(studio, _task, task) == [{"id": task}]
    assert studio.owner.get(f"/invoices/{invoice['id']}")["invoice"] == invoice


# --- files -----------------------------------------------------------------------------------------------------------


def _logo(studio: Studio, *, private: bool = False) -> str:
    """Create a file, make it the avatar of the project and return its ID."""
    upload = {"file": ("logo.png", png(), "image/png")}
    path = f"{studio.project}/files"
    file = studio.owner.post(path, files=upload, data={"private": str(private).lower()})["file"]
    studio.owner.patch(studio.project, json={"avatar": file["file_link"]})
    return str(file["id"])


def test_the_logo_of_issued_invoices_cannot_be_deleted(studio: Studio) -> None:
    logo = _logo(studio)
    studio.owner.delete(f"/files/{logo}")
    studio.owner.post(f"/files/{logo}/restore")
    invoice = _issue(studio)
    assert "avatar" in _refused_deletion(studio.owner, f"/files/{logo}", invoice["invoice_number"])
    other = _logo(studio, private=True)  # no invoice shows it
    studio.owner.delete(f"/files/{other}")
    studio.owner.delete(f"/files/{logo}")


# --- all deletions ---------------------------------------------------------------------------------------------------


def _everything(studio: Studio, scene: Scene, shop: Shop) -> tuple[dict[str, Callable[[], str]], list[JsonObject]]:
    """Return the path of a related object for each DELETE operation, and the issued invoices."""
    timesheet, task = _time(studio, scene)
    service = shop.service({**MONTHLY, "credits": 5})
    checkout = shop.choose(service)
    studio.owner.post(f"/service_checkouts/{checkout['id']}/complete")
    owner, logo = studio.owner, _logo(studio)
    folder = owner.post(f"{studio.project}/folders", json={"title": "Folder"})["folder"]["id"]
    sent = _issue(studio, timesheet, bill_to="Client", tax=19)
    [issued] = [each for each in owner.get(f"{studio.project}/invoices")["invoices"] if each["id"] != sent["id"]]
    comment = owner.post(f"/files/{logo}/file_comments", json={"text": "Said"})["id"]
    reply = owner.post(f"/file_comments/{comment}/comments", json={"body": "Yes"})["comment"]["id"]
    task_comment = owner.post(f"/tasks/{task}/task_comments", json={"text": "Said"})["task_comment"]["id"]
    member = studio.member.login
    owner.post(f"{studio.project}/members", json={"username": member})
    client = studio.new_client(scene.new_email())["id"]

    def column() -> str:
        owner.post(f"{studio.project}/columns", json={"title": "Another"})
        return f"/columns/{owner.get(f'/tasks/{task}')['task']['column']['id']}"

    def credit() -> str:
        return f"/task_credits/{owner.get(f'{studio.project}/task_credits')['task_credits'][0]['id']}"

    paths: dict[str, Callable[[], str]] = {
        "/file_comments/{}/comments/{}": lambda: f"/file_comments/{comment}/comments/{reply}",
        "/file_comments/{}": lambda: f"/file_comments/{comment}",
        "/task_comments/{}": lambda: f"/task_comments/{task_comment}",
        "/files/{}": lambda: f"/files/{logo}",
        "/folders/{}": lambda: f"/folders/{folder}",
        "/columns/{}": column,
        "/tasks/{}": lambda: f"/tasks/{task}",
        "/timesheets/{}": lambda: f"/timesheets/{timesheet}",
        "/task_credits/{}": credit,
        "/invoices/{}": lambda: f"/invoices/{sent['id']}",
        "/projects/{}/members/{}": lambda: f"{studio.project}/members/{member}",
        "/clients/{}": lambda: f"/clients/{client}",
        "/services/{}": lambda: f"/services/{service['id']}",
        "/service_checkouts/{}": lambda: f"/service_checkouts/{checkout['id']}",
        "/organizations/{}/billing/logo": lambda: f"/organizations/{studio.world.organization}/billing/logo",
        "/projects/{}": lambda: studio.project,
    }
    return paths, [sent, issued]


def _pdf(studio: Studio, invoice: JsonObject) -> bytes:
    response = studio.owner.call("GET", f"/invoices/{invoice['id']}/pdf")
    assert response.status_code == 200
    return response.content


def test_no_deletion_changes_an_issued_invoice(studio: Studio, scene: Scene, shop: Shop) -> None:
    """Run every DELETE operation on the related objects, then every chore, now and in a year."""
    paths, issued = _everything(studio, scene, shop)
    assert set(paths) == {_pattern(each.path) for each in OPERATIONS if each.method == "DELETE"}
    pages = [_pdf(studio, each) for each in issued]
    rows = [_stored(studio, _row, each["id"]) for each in issued]
    answers = {}
    for pattern, path in paths.items():
        answers[pattern] = studio.owner.call("DELETE", path()).status_code
        assert [_stored(studio, _row, each["id"]) for each in issued] == rows, pattern
        assert [studio.owner.get(f"/invoices/{each['id']}")["invoice"] for each in issued] == issued, pattern
    refused = {pattern for pattern, status in answers.items() if status == 409}
    assert refused == {"/files/{}", "/tasks/{}", "/timesheets/{}", "/invoices/{}", "/services/{}", "/projects/{}"}
    assert set(answers.values()) == {200, 409}
    for days in (0, 400):
        _run_chores(studio, in_days=days)
        assert [_stored(studio, _row, each["id"]) for each in issued] == rows
    assert [_pdf(studio, each) for each in issued] == pages


def _pattern(path: str) -> str:
    return "/".join("{}" if each.startswith("{") else each for each in path.split("/"))
