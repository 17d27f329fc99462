"""The days of a service: on the invoice, its PDF and its e-invoice, from its lines or as somebody says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.work.paper import read, text_of
from tests.work.scene import Scene
from tests.work.shop import Shop
from tests.work.studio import Studio
from tests.work.test_einvoices import Bills, bills, line, texts

__all__ = ["bills"]

DESIGN = line(100)


def days_of(record: dict[str, Any]) -> tuple[str | None, str | None]:
    return record["service_from"], record["service_to"]


def printed(studio: Studio, invoice_id: str) -> str:
    """In small letters, as labels are in capitals."""
    return " ".join(text_of(read(studio, invoice_id)).split()).lower()


def strings(document: bytes) -> list[str]:
    """The days of an e-invoice that are not the day of issue."""
    parts = document.decode().split('DateTimeString format="102">')
    return [each.partition("<")[0] for each in parts[2:]]


@pytest.fixture
def drawn(bills: Bills, scene: Scene) -> dict[str, Any]:
    """A draft of time on two days."""
    bills.settle()
    spent = [
        scene.timesheet(start_time=f"2026-11-{day}T09:00:00Z", duration=3_600_000, billable_rate=80)
        for day in ("03", "12")
    ]
    body = {"timesheet_ids": spent, "invoice_items": [DESIGN], "currency": "EUR"}
    made: dict[str, Any] = bills.owner.post(f"{bills.studio.project}/invoices", json=body)["invoice"]
    return made


def test_they_are_those_of_the_time(bills: Bills, drawn: dict[str, Any]) -> None:
    assert days_of(drawn) == ("2026-11-03", "2026-11-12")
    lines = drawn["invoice_items"]
    assert ["service_from" in each for each in lines] == [False, True, True]
    assert days_of(lines[1]) == ("2026-11-03", "2026-11-03")
    bills.owner.post(f"/invoices/{drawn['id']}/send")
    assert "period of service 3 nov 2026 \u2013 12 nov 2026" in printed(bills.studio, drawn["id"])
    document = bills.document(drawn["id"])
    assert len(texts(document, "BillingSpecifiedPeriod")) == 3
    assert strings(document) == ["20261103", "20261103", "20261112", "20261112", "20261103", "20261112"]
    assert texts(document, "ActualDeliverySupplyChainEvent") == []


def test_somebody_can_say_them_until_it_is_sent(bills: Bills, drawn: dict[str, Any]) -> None:
    where = f"/invoices/{drawn['id']}"

    def say(**days: str | None) -> tuple[str | None, str | None]:
        return days_of(bills.owner.patch(where, json=days)["invoice"])

    assert say(service_from="2026-11-01") == ("2026-11-01", "2026-11-01")
    assert say(service_to="2026-11-30") == ("2026-11-01", "2026-11-30")
    assert say(service_from="2026-11-02") == ("2026-11-02", "2026-11-30")
    assert say(service_from=None) == ("2026-11-03", "2026-11-12")
    assert say(service_to="2026-11-30") == ("2026-11-30", "2026-11-30")
    for wrong in ({"service_from": "2026-12-01", "service_to": "2026-11-30"}, {"service_to": "30.11.2026"}):
        [fault] = bills.owner.refused(422, "PATCH", where, json=wrong)["errors"]
        assert fault["field"] == "service_to"
    bills.owner.post(f"{where}/send")
    assert bills.owner.refused(409, "PATCH", where, json={"service_to": "2026-12-01"})["code"] == "invoice_sent"
    document = bills.document(drawn["id"])
    assert len(texts(document, "ActualDeliverySupplyChainEvent")) == 1
    assert strings(document)[-1] == "20261130"
    assert "30 nov 2026" in printed(bills.studio, drawn["id"])


def test_without_any_nothing_is_stated(bills: Bills) -> None:
    bills.settle()
    sent = bills.send(DESIGN)
    assert days_of(bills.owner.get(f"/invoices/{sent}")["invoice"]) == (None, None)
    assert strings(bills.document(sent)) == []
    assert "service" not in printed(bills.studio, sent)
    body = {"invoice_items": [{**DESIGN, "service_from": "2026-11-01"}]}
    [fault] = bills.owner.refused(422, "POST", f"{bills.studio.project}/invoices", json=body)["errors"]
    assert "set service_from of the invoice" in fault["message"]


def test_a_subscription_has_its_period_in_the_language_of_the_project(bills: Bills, shop: Shop) -> None:
    bills.settle()
    bills.owner.patch(bills.settings, json={"language": "de"})
    shop.buy("2031-01-31T10:00")
    [sent] = bills.owner.get(f"{bills.studio.project}/invoices")["invoices"]
    [item] = sent["recurring_invoice_items"]
    assert item["description"] == "Design retainer, 31.01.2031 \u2013 27.02.2031"
    assert days_of(sent) == days_of(item) == ("2031-01-31", "2031-02-27")
    assert "leistungszeitraum 31.01.2031 \u2013 27.02.2031" in printed(bills.studio, sent["id"])
    answer = bills.owner.call("GET", f"/invoices/{sent['id']}/pdf")
    assert f'filename="Rechnung-{sent["invoice_number"]}.pdf"' in answer.headers["content-disposition"]


def test_another_language_of_a_draft_rewords_its_lines(bills: Bills, drawn: dict[str, Any]) -> None:
    where = f"/invoices/{drawn['id']}"
    german = bills.owner.patch(where, json={"language": "de"})["invoice"]
    assert [each["description"] for each in german["invoice_items"][1:]] == ["Task (03.11.2026)", "Task (12.11.2026)"]
    assert german["total"] == drawn["total"]
    english = bills.owner.patch(where, json={"language": "en", "group_by": "person"})["invoice"]
    assert english["invoice_items"][1]["description"].endswith("(3 Nov 2026 \u2013 12 Nov 2026)")


def test_each_line_shows_its_rate_where_there_are_several(bills: Bills) -> None:
    bills.settle()
    sent = bills.send(line(100), line(50, tax=7), line(7, tax_category="exempt"), tax=19, language="de")
    text = printed(bills.studio, sent)
    assert text.count("ust. 19 %") == 2  # of the line and of the sum
    assert text.count("ust. 7 %") == 2
    assert "steuerfrei" in text
    single = printed(bills.studio, bills.send(line(100), tax=19, language="de"))
    assert single.count("ust. 19 %") == 1
    note = bills.owner.post(f"/invoices/{sent}/credit_notes", json={"reason": "Zu viel", "total": 10})["credit_note"]
    answer = bills.owner.call("GET", f"/credit_notes/{note['id']}/pdf")
    assert 'filename="Rechnungskorrektur-' in answer.headers["content-disposition"]
