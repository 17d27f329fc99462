"""The same time has the same duration and amount in reports, invoices, exports, PDFs, pages and API responses."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from pypdf import PdfReader

from tests.web.studio import Studio, page_of, text_of
from tests.work.official_rules import complaints

SPAN = {"from": "2026-01-01", "to": "2026-01-31"}


class Entries:
    """Finished billable time on one task, and all its representations."""

    def __init__(self, studio: Studio, *durations_ms: int, rate: float, **billing: Any) -> None:
        self.studio = studio
        owner = f"/organizations/{studio.team.world.organization}/billing"
        studio.call("PATCH", owner, currency="EUR", country="de", vat_id="DE123456789", **billing)
        studio.call("PATCH", f"{studio.project}/billing", buyer={"name": "Acme", "country": "de"})
        self.task = studio.add_task(studio.add_column("Doing"), "Photos")
        self.ids = []
        for number, each in enumerate(durations_ms):
            given = {"task_id": self.task, "start_time": f"2026-01-05T0{number}:00:00Z", "duration": each}
            made = studio.call("POST", f"{studio.project}/timesheets", **given, billable=True, billable_rate=rate)
            self.ids.append(made["timesheet"]["id"])

    def invoice(self, **more: Any) -> dict[str, Any]:
        made = self.studio.call("POST", f"{self.studio.project}/invoices", timesheet_ids=self.ids, **more)["invoice"]
        found: dict[str, Any] = made
        return found

    def drop(self, invoice: dict[str, Any]) -> None:
        assert self.studio.api.delete(f"/api/v1/invoices/{invoice['id']}").is_success

    def report(self, **query: str) -> dict[str, Any]:
        params = {"project_id": self.studio.team.world.project_id, **query}
        found: dict[str, Any] = self.studio.api.get("/api/v1/reports/timesheets", params=params).json()["totals"]
        return found

    def table(self) -> list[dict[str, str]]:
        headers = {"Accept": "text/csv"}
        answer = self.studio.api.get(f"/api/v1{self.studio.project}/timesheets", headers=headers)
        return list(csv.DictReader(io.StringIO(answer.text)))


def pdf_of(studio: Studio, invoice: dict[str, Any]) -> str:
    answer = studio.api.get(f"/api/v1/invoices/{invoice['id']}/pdf")
    assert answer.status_code == 200, answer.text
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(answer.content)).pages)


@pytest.mark.parametrize("group_by", [None, "task", "person", "day"])
def test_the_amount_does_not_depend_on_the_grouping(studio: Studio, group_by: str | None) -> None:
    entries = Entries(studio, 18_000, 18_400, rate=25)
    assert entries.report()["amount"] == 0.26
    assert sum(float(each["amount"]) for each in entries.table()) == 0.26
    made = entries.invoice(group_by=group_by)
    assert made["amount"] == 0.26
    sent = studio.call("POST", f"/invoices/{made['id']}/send")["invoice"]
    assert sent["total"] == 0.26
    document = studio.api.get(f"/api/v1/invoices/{made['id']}/xml")
    assert document.status_code == 200, document.text
    assert complaints(document.content) == []
    assert "0.26 EUR" in pdf_of(studio, sent)
    report = text_of(page_of(studio.member, f"{studio.base}/time/report", **SPAN))
    assert "0.26" in report


def test_a_fraction_of_a_second_does_not_start_another_quarter_hour(studio: Studio) -> None:
    entries = Entries(studio, 900_350, rate=100, round_minutes=15, round_mode="up")
    assert entries.report()["duration"] == 900_000
    assert "The invoice would include 0:15 for 25.00 EUR." in text_of(
        page_of(studio.member, f"{studio.base}/time/report", **SPAN)
    )
    made = entries.invoice()
    assert (made["invoice_items"][0]["qty"], made["amount"]) == (0.25, 25)
    assert "0:15" in pdf_of(studio, made)


def test_a_duration_is_formatted_identically_everywhere(studio: Studio) -> None:
    entries = Entries(studio, 58_855_000, rate=10)
    [shown] = studio.call("GET", f"{studio.project}/timesheets")["timesheets"]
    short = {"display": "16:20:55", "decimal": 16.35}
    assert (shown["duration"], shown["short_formatted_duration"]) == (58_855_000, short)
    assert entries.report()["short_formatted_duration"] == short
    [row] = entries.table()
    assert (row["duration_ms"], row["hours"], row["amount"]) == ("58855000", "16.35", "163.49")
    made = entries.invoice()
    assert (made["invoice_items"][0]["qty"], made["amount"]) == (16.348611, 163.49)
    week = page_of(studio.member, f"{studio.base}/time", week="2026-01-05")
    report = page_of(studio.member, f"{studio.base}/time/report", **SPAN)
    task = page_of(studio.member, f"{studio.base}/tasks/{entries.task}")
    draft = page_of(studio.member, f"{studio.base}/billing/{made['id']}")
    for text in (*map(text_of, (week, report, task, draft)), pdf_of(studio, made)):
        assert "16:20:55" in text
        assert "16:21" not in text
    entry = page_of(studio.owner, f"{studio.base}/time/{entries.ids[0]}")
    assert "This time entry is on an invoice" in entry
    entries.drop(made)
    assert 'value="16:20:55"' in page_of(studio.owner, f"{studio.base}/time/{entries.ids[0]}")
