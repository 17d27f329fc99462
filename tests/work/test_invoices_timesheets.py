"""Time entries on invoices: each is on at most one, drafts included, and is released by deleting or voiding it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.work.scene import Scene
from tests.work.studio import Studio

HOUR_MS = 3_600_000
MISSING = "tms_00000000000000000000000000"
Draw = Callable[..., Any]


@pytest.fixture
def draw(studio: Studio) -> Draw:
    def make(*timesheet_ids: str, **more: Any) -> Any:
        body = {"timesheet_ids": timesheet_ids, **more}
        return studio.owner.post(f"{studio.project}/invoices", json=body)["invoice"]

    return make


def invoiced(studio: Studio) -> set[str]:
    found = studio.owner.get(f"{studio.project}/timesheets", params={"invoiced": "true"})["timesheets"]
    return {each["id"] for each in found}


def test_time_becomes_invoice_lines(studio: Studio, scene: Scene, draw: Draw) -> None:
    times = {"start_time": "2026-11-02T09:00:00Z", "end_time": "2026-11-02T12:00:00Z"}
    first = scene.timesheet(duration=90 * 60_000, billable_rate=80.5, **times)
    second = scene.timesheet(duration=20 * 60_000, billable_rate=90, **times)
    line = {"description": "Hosting", "qty": 1, "unit_price": 10}
    record = draw(second, first, invoice_items=[line], tax=10)
    of_time = {"kind": "time", "description": "Task (2 Nov 2026)"}
    days = {"service_from": "2026-11-02", "service_to": "2026-11-02"}
    assert record["invoice_items"] == [
        {"kind": "item", **line, "timesheet_ids": []},
        {**of_time, "qty": 0.333333, "unit_price": 90, "timesheet_ids": [second], **days},
        {**of_time, "qty": 1.5, "unit_price": 80.5, "timesheet_ids": [first], **days},
    ]
    assert (record["amount"], record["total"]) == (160.75, 176.83)
    assert invoiced(studio) == {first, second}
    assert studio.happened()[-1].record == record


def test_only_billable_finished_and_unbilled_time_can_be_invoiced(
    studio: Studio, elsewhere: Studio, scene: Scene, draw: Draw
) -> None:
    taken = scene.timesheet()
    draw(taken)
    foreign = Scene(elsewhere.owner, elsewhere.project_id, elsewhere.world.organization).timesheet()
    wrong = [taken, scene.timesheet(billable=False), scene.running(), foreign, MISSING]
    body = {"timesheet_ids": [scene.timesheet(), *wrong]}
    errors = studio.owner.refused(422, "POST", f"{studio.project}/invoices", json=body)["errors"]
    assert [each["field"] for each in errors] == [f"timesheet_ids[{index}]" for index in range(1, 6)]
    assert all(timesheet_id in each["message"] for timesheet_id, each in zip(wrong, errors, strict=True))
    assert invoiced(studio) == {taken}


def test_deleting_or_voiding_an_invoice_releases_its_time(studio: Studio, scene: Scene, draw: Draw) -> None:
    timesheet = scene.timesheet()
    studio.owner.delete(f"/invoices/{draw(timesheet)['id']}")
    assert invoiced(studio) == set()
    where = f"/invoices/{draw(timesheet)['id']}"
    studio.owner.post(f"{where}/send")
    assert invoiced(studio) == {timesheet}
    void = studio.owner.post(f"{where}/void")["invoice"]
    assert (invoiced(studio), len(void["invoice_items"])) == (set(), 1)
    draw(timesheet)


def test_the_time_of_a_draft_can_be_replaced(studio: Studio, scene: Scene, draw: Draw) -> None:
    first, second, third = scene.timesheet(), scene.timesheet(billable_rate=50), scene.timesheet(billable_rate=60)
    line = {"description": "Hosting", "qty": 1, "unit_price": 10}
    record = draw(first, second, invoice_items=[line])
    where = f"/invoices/{record['id']}"
    studio.happened()
    edited = studio.owner.patch(where, json={"timesheet_ids": [third, second]})["invoice"]
    assert [each["unit_price"] for each in edited["invoice_items"]] == [10, 50, 60]
    assert invoiced(studio) == {second, third}
    [event] = studio.happened()
    assert event.changes["timesheet_ids"] == {"from": sorted([first, second]), "to": sorted([second, third])}
    assert studio.owner.patch(where, json={"timesheet_ids": [second, third]})["invoice"] == edited
    assert studio.happened() == []
    studio.owner.post(f"{where}/send")
    assert studio.owner.refused(409, "PATCH", where, json={"timesheet_ids": []})["code"] == "invoice_sent"
    assert invoiced(studio) == {second, third}


def test_manual_lines_and_time_lines_are_replaced_independently(studio: Studio, scene: Scene, draw: Draw) -> None:
    first, second = scene.timesheet(), scene.timesheet(billable_rate=50, duration=20 * 60_000)
    line = {"description": "Hosting", "qty": 1, "unit_price": 10}
    record = draw(first, second, invoice_items=[line])
    where, of_time = f"/invoices/{record['id']}", record["invoice_items"][1:]
    studio.owner.patch(f"{studio.project}/billing", json={"round_minutes": 15})  # applies to added time only
    edited = studio.owner.patch(where, json={"invoice_items": [{**line, "qty": 2}]})["invoice"]
    assert edited["invoice_items"][1:] == of_time
    assert (edited["invoice_items"][0]["qty"], invoiced(studio)) == (2, {first, second})
    edited = studio.owner.patch(where, json={"timesheet_ids": [second]})["invoice"]
    assert [each["timesheet_ids"] for each in edited["invoice_items"]] == [[], [second]]
    edited = studio.owner.patch(where, json={"invoice_items": []})["invoice"]
    assert edited["invoice_items"] == of_time[1:]
    third = scene.timesheet(duration=20 * 60_000, billable_rate=60)
    edited = studio.owner.patch(where, json={"timesheet_ids": [second, third]})["invoice"]
    assert edited["invoice_items"][:1] == of_time[1:]
    assert edited["invoice_items"][1]["qty"] == 0.5


def test_response_only_fields_are_refused_in_a_line(studio: Studio, scene: Scene, draw: Draw) -> None:
    record = draw(scene.timesheet())
    body = {"invoice_items": record["invoice_items"]}
    errors = studio.owner.refused(422, "PATCH", f"/invoices/{record['id']}", json=body)["errors"]
    names = ("kind", "timesheet_ids", "service_from", "service_to")
    assert [each["field"] for each in errors] == [f"invoice_items[0].{name}" for name in names]
    assert "the invoice's timesheet_ids" in errors[1]["message"]


def test_time_can_be_grouped(studio: Studio, scene: Scene, draw: Draw) -> None:
    task = scene.task(title="Logo")
    day, next_day = ({"start_time": f"2026-11-0{n}T09:00:00Z", "end_time": f"2026-11-0{n}T12:00:00Z"} for n in (2, 3))
    first = scene.timesheet(task_id=task, duration=HOUR_MS, billable_rate=80, notes="Two drafts", **day)
    second = scene.timesheet(task_id=task, duration=HOUR_MS // 2, billable_rate=80, **next_day)
    dearer = scene.timesheet(task_id=task, duration=HOUR_MS, billable_rate=95, **next_day)
    line = {"description": "Hosting", "qty": 1, "unit_price": 10}
    record = draw(dearer, second, first, invoice_items=[line], group_by="task")
    where = f"/invoices/{record['id']}"
    assert (record["group_by"], record["amount"]) == ("task", 225)
    assert record["invoice_items"][1:] == [
        {
            "kind": "time",
            "description": "Logo (2 Nov 2026 \u2013 3 Nov 2026): Two drafts",
            "qty": 1.5,
            "unit_price": 80,
            "timesheet_ids": [first, second],
            "service_from": "2026-11-02",
            "service_to": "2026-11-03",
        },
        {
            "kind": "time",
            "description": "Logo (3 Nov 2026)",
            "qty": 1,
            "unit_price": 95,
            "timesheet_ids": [dearer],
            "service_from": "2026-11-03",
            "service_to": "2026-11-03",
        },
    ]
    studio.happened()
    by_day = studio.owner.patch(where, json={"group_by": "day"})["invoice"]
    shown = [each["description"] for each in by_day["invoice_items"]]
    assert shown == ["Hosting", "2 Nov 2026: Logo", "3 Nov 2026: Logo", "3 Nov 2026: Logo"]
    [event] = studio.happened()
    assert event.changes["group_by"] == {"from": "task", "to": "day"}
    assert "timesheet_ids" not in event.changes
    fewer = studio.owner.patch(where, json={"timesheet_ids": [second, dearer]})["invoice"]
    assert [each["timesheet_ids"] for each in fewer["invoice_items"]] == [[], [second], [dearer]]
    single = studio.owner.patch(where, json={"group_by": None})["invoice"]
    assert (single["group_by"], single["amount"]) == (None, 145)
    studio.owner.post(f"{where}/send")
    assert studio.owner.refused(409, "PATCH", where, json={"group_by": "day"})["code"] == "invoice_sent"


def test_grouped_time_is_rounded_per_entry(studio: Studio, scene: Scene, draw: Draw) -> None:
    studio.owner.patch(f"{studio.project}/billing", json={"round_minutes": 15})
    task = scene.task(title="Logo")
    entries = [scene.timesheet(task_id=task, duration=20 * 60_000, billable_rate=60) for _ in range(2)]
    record = draw(*entries, group_by="person")
    assert [(each["qty"], each["unit_price"]) for each in record["invoice_items"]] == [(1, 60)]


def test_concurrent_invoices_cannot_share_time(studio: Studio, scene: Scene) -> None:
    body = {"timesheet_ids": [scene.timesheet(), scene.timesheet()]}
    path = f"{studio.project}/invoices"
    turned = {"timesheet_ids": body["timesheet_ids"][::-1]}
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(studio.owner.call, "POST", path, json=each) for each in (body, turned) * 4]
    assert sorted(each.result().status_code for each in calls) == [200] + [422] * 7
    assert len(studio.owner.get(path)["invoices"]) == 1


def test_amounts_are_those_of_the_time_entries(studio: Studio, scene: Scene, draw: Draw) -> None:
    timesheet = scene.timesheet(duration=50 * 60_000, billable_rate=87.03)
    record = draw(timesheet)
    assert (record["amount"], record["invoice_items"][0]["qty"]) == (72.53, 0.833333)
    lines = [{"description": "Hosting", "qty": 1, "unit_price": 1}]
    edited = studio.owner.patch(f"/invoices/{record['id']}", json={"invoice_items": lines})["invoice"]
    assert edited["amount"] == 73.53


def test_time_of_a_deleted_task_can_be_invoiced(studio: Studio, scene: Scene, draw: Draw) -> None:
    task_id = scene.task()
    timesheet = scene.timesheet(task_id=task_id)
    studio.owner.delete(f"/tasks/{task_id}")
    assert len(draw(timesheet)["invoice_items"]) == 1


def test_time_without_a_rate_is_refused(studio: Studio, scene: Scene, draw: Draw) -> None:
    unpriced, free = scene.timesheet(billable_rate=None), scene.timesheet(billable_rate=0, duration=HOUR_MS)
    body = {"timesheet_ids": [free, unpriced]}
    [error] = studio.owner.refused(422, "POST", f"{studio.project}/invoices", json=body)["errors"]
    assert (error["field"], error["code"]) == ("timesheet_ids[1]", "no_rate")
    assert unpriced in error["message"]
    record = draw(free)
    assert [(each["qty"], each["unit_price"]) for each in record["invoice_items"]] == [(1, 0)]
