"""Invoices from draft to paid: contents, numbering and events."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.work.paper import as_shown
from tests.work.studio import Studio, without_addresses

FIELDS = {
    "id", "name", "invoice_number", "status", "bill_from", "bill_to", "address", "amount", "tax", "total", "currency",
    "issued", "due", "paid_at", "overdue", "payment_method", "payment_terms", "credit_type", "invoice_items",
    "recurring_invoice_items", "user", "created_at", "updated_at", "amount_paid", "amount_credited", "amount_due",
    "to_refund", "payments", "credit_notes", "taxes", "tax_category", "discount", "discount_amount", "buyer", "seller",
    "language", "group_by", "service_from", "service_to",
}  # fmt: skip
WORK = {"description": "Design", "qty": 1.5, "unit_price": 99.99}
Draw = Callable[..., Any]


@pytest.fixture
def path(studio: Studio) -> str:
    return f"{studio.project}/invoices"


@pytest.fixture
def draw(studio: Studio) -> Draw:
    """Return a function that creates an invoice and applies the given steps: `draw("send", "pay", tax=19)`."""

    return lambda *steps, **body: studio.invoice(*steps, **{"invoice_items": [WORK], "currency": "USD", **body})


def shown(studio: Studio, record: Any) -> Any:
    return studio.owner.get(f"/invoices/{record['id']}")["invoice"]


# --- drafts ------------------------------------------------------------------------------------------------------


def test_a_draft_has_every_field(studio: Studio, path: str) -> None:
    body: dict[str, Any] = {
        "bill_to": "Client & Co.\nMain Street 1",
        "bill_from": "Acme",
        "address": "Harbour 2",
        "tax": 19,
        "payment_terms": "14 days",
        "due": "2026-12-24",
        "payment_method": "Transfer",
        "invoice_number": 42,
        "currency": "eur",
        "credit_type": True,
        "invoice_items": [WORK, {"description": "Hosting", "qty": 12, "unit_price": 5}],
    }
    answer = studio.owner.post(path, json=body)
    assert answer["success"] is True
    record = answer["invoice"]
    assert set(record) == FIELDS
    assert record["id"].startswith("inv_")
    for name in ("bill_to", "bill_from", "address", "tax", "payment_terms", "payment_method"):
        assert record[name] == body[name]
    assert record["invoice_items"] == as_shown(body["invoice_items"])
    assert (record["invoice_number"], record["name"], record["credit_type"]) == ("42", "Invoice 42", "true")
    assert (record["currency"], record["due"]) == ("EUR", "2026-12-24T00:00:00.000Z")
    assert (record["amount"], record["total"]) == (209.99, 249.89)
    assert (record["status"], record["issued"], record["paid_at"], record["overdue"]) == ("draft", None, None, False)
    assert (record["recurring_invoice_items"], record["user"]["username"]) == ([], studio.world.owner)
    assert studio.owner.get(f"/invoices/{record['id']}") == answer
    assert studio.owner.get(path) == {"success": True, "invoices": [record]}
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("invoice", "created", record)


def test_a_draft_can_be_empty(studio: Studio, path: str) -> None:
    record = studio.owner.post(path)["invoice"]
    unset = {name for name, value in record.items() if value is None}
    assert unset == {
        "invoice_number", "bill_from", "bill_to", "address", "tax", "issued", "due", "paid_at", "payment_method",
        "payment_terms", "credit_type", "tax_category", "discount", "discount_amount", "buyer", "group_by",
        "service_from", "service_to",
    }  # fmt: skip
    assert (record["amount"], record["total"], record["currency"]) == (0, 0, "USD")
    assert (record["name"], record["invoice_items"]) == ("Draft invoice", [])


def test_the_currency_of_the_last_invoice_is_the_default(studio: Studio, path: str) -> None:
    studio.owner.post(path, params={"currency": "CHF", "tax": "7.7", "credit_type": "false"})
    record = studio.owner.post(path)["invoice"]
    assert (record["currency"], record["tax"]) == ("CHF", None)


def test_quantities_are_exact_and_amounts_are_rounded_per_line(studio: Studio, draw: Draw) -> None:
    lines = [{"description": "Third", "qty": 0.333333, "unit_price": 0.01}] * 3
    lines.append({"description": "Half a cent", "qty": 0.5, "unit_price": 0.01})
    lines.append({"description": "Many", "qty": 123456.654321, "unit_price": 1.11})
    record = draw(invoice_items=lines, tax=7.5)
    assert record["invoice_items"] == as_shown(lines)
    assert record["amount"] == 137036.90  # 0.00 three times, 0.01, 137036.886… = 137036.89
    assert record["total"] == 147314.67  # 137036.90 and 10277.7675


def test_invalid_parameters_are_refused(studio: Studio, path: str, draw: Draw) -> None:
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"tax": 101, "due": "soon", "currency": "XYZ", "x": 1}, ["tax", "due", "currency", "x"]),
        ({"tax": 1.23456}, ["tax"]),
        ({"tax": True, "credit_type": "yes", "currency": None}, ["tax", "credit_type", "currency"]),
        ({"due": "2026-12-24T00:00:00"}, ["due"]),
        ({"invoice_number": ""}, ["invoice_number"]),
        ({"invoice_number": False, "bill_to": 1}, ["invoice_number", "bill_to"]),
        ({"invoice_number": "x" * 65, "address": "ä" * 33_000}, ["invoice_number", "address"]),
        ({"invoice_items": {}}, ["invoice_items"]),
        ({"invoice_items": [WORK] * 1001}, ["invoice_items"]),
        (
            {"invoice_items": [{**WORK, "qty": 0}, {"description": " ", "unit_price": -1, "taxes": 1}]},
            [
                "invoice_items[0].qty",
                "invoice_items[1].description",
                "invoice_items[1].qty",
                "invoice_items[1].unit_price",
                "invoice_items[1].taxes",
            ],
        ),
        ({"invoice_items": [{**WORK, "qty": 0.0000001}, {**WORK, "qty": "1"}]},
         ["invoice_items[0].qty", "invoice_items[1].qty"]),
        ({"invoice_items": [{"description": "All", "qty": 10**8, "unit_price": 10**8}]}, ["invoice_items"]),
        ({"timesheet_ids": ["tms_0", "tms_1"]}, ["timesheet_ids[0]", "timesheet_ids[1]"]),
    ]  # fmt: skip
    record = draw()
    for body, faults in cases:
        for method, where in (("POST", path), ("PATCH", f"/invoices/{record['id']}")):
            assert set(studio.owner.faults(method, where, json=body)) == set(faults)
        assert studio.owner.get(path)["invoices"] == [record], body


def test_a_draft_can_be_changed(studio: Studio, draw: Draw) -> None:
    record = draw(tax=10, bill_to="Client", due="2026-12-24", invoice_number="A-1")
    where = f"/invoices/{record['id']}"
    studio.happened()
    lines = [{"description": "More", "qty": 2, "unit_price": 50}]
    edited = studio.owner.patch(where, json={"invoice_items": lines, "due": None, "invoice_number": 7})["invoice"]
    assert (edited["amount"], edited["total"], edited["due"]) == (100, 110, None)
    assert (edited["bill_to"], edited["invoice_number"]) == ("Client", "7")
    assert edited["updated_at"] > record["updated_at"]
    [event] = studio.happened()
    assert (event.action, event.record) == ("edited", edited)
    assert set(event.changes) == {
        "invoice_items",
        "amount",
        "taxes",
        "total",
        "amount_due",
        "due",
        "invoice_number",
        "name",
    }
    assert event.changes["amount"] == {"from": 149.99, "to": 100}

    for nothing in ({}, {"bill_to": "Client"}, {"invoice_number": "7", "invoice_items": lines}):
        assert studio.owner.patch(where, json=nothing)["invoice"] == edited
    assert studio.happened() == []


def test_a_draft_can_be_deleted(studio: Studio, path: str, draw: Draw) -> None:
    record = draw()
    studio.happened()
    where = f"/invoices/{record['id']}"
    assert studio.owner.delete(where) == {"success": True}
    studio.owner.refused(404, "GET", where)
    assert studio.owner.get(path)["invoices"] == []
    [event] = studio.happened()
    assert (event.action, event.record) == ("deleted", record)


# --- states ------------------------------------------------------------------------------------------------------


def test_an_invoice_can_be_sent_and_paid(studio: Studio, draw: Draw) -> None:
    draft = draw(tax=19)
    where = f"/invoices/{draft['id']}"
    studio.happened()
    sent = studio.owner.post(f"{where}/send")["invoice"]
    assert (sent["status"], sent["invoice_number"], sent["name"]) == ("sent", "INV-00001", "Invoice INV-00001")
    assert sent["issued"] >= draft["created_at"]
    assert {**sent, "status": "", "invoice_number": 0, "name": 0, "issued": 0, "updated_at": 0} == {
        **draft, "status": "", "invoice_number": 0, "name": 0, "issued": 0, "updated_at": 0
    }  # fmt: skip
    assert studio.owner.post(f"{where}/send")["invoice"] == sent
    paid = studio.owner.post(f"{where}/pay")["invoice"]
    assert paid["status"] == "paid"
    assert paid["paid_at"] >= sent["issued"]
    assert studio.owner.post(f"{where}/pay")["invoice"] == paid == shown(studio, draft)
    events = studio.happened()
    assert [(each.action, each.record) for each in events] == [("sent", sent), ("paid", paid)]
    assert events[0].changes["status"] == {"from": "draft", "to": "sent"}
    assert events[0].changes["invoice_number"] == {"from": None, "to": "INV-00001"}


def test_a_sent_invoice_can_be_voided(studio: Studio, draw: Draw) -> None:
    record = draw("send")
    studio.happened()
    void = studio.owner.post(f"/invoices/{record['id']}/void")["invoice"]
    assert (void["status"], void["invoice_number"]) == ("void", "INV-00001")
    assert studio.owner.post(f"/invoices/{record['id']}/void")["invoice"] == void
    assert [(each.action, each.record) for each in studio.happened()] == [("voided", void)]


@pytest.mark.parametrize(
    ("steps", "verb"),
    [((), "pay"), ((), "void"), (("send", "pay"), "send"), (("send", "pay"), "void"), (("send", "void"), "send"),
     (("send", "void"), "pay")],
)  # fmt: skip
def test_invalid_transitions_are_refused(studio: Studio, draw: Draw, steps: tuple[str, ...], verb: str) -> None:
    record = draw(*steps)
    studio.happened()
    refused = studio.owner.refused(409, "POST", f"/invoices/{record['id']}/{verb}")
    assert refused["code"] == f"invoice_{record['status']}"
    assert (studio.happened(), shown(studio, record)) == ([], record)


@pytest.mark.parametrize("steps", [("send",), ("send", "pay"), ("send", "void")])
def test_a_sent_invoice_cannot_be_changed(studio: Studio, draw: Draw, steps: tuple[str, ...]) -> None:
    record = draw(*steps, payment_method="Transfer")
    where, code = f"/invoices/{record['id']}", f"invoice_{record['status']}"
    changes: list[dict[str, Any]] = [
        {"invoice_items": []},
        {"tax": 1},
        {"due": None, "tax": 1},
        {"invoice_number": "1"},
        {"bill_to": "Else"},
        {"bill_from": "Us"},
        {"address": "Here"},
    ]
    for change in [*changes, {"invoice_number": None}, {"currency": "EUR"}, {"payment_terms": "x", "tax": 1}]:
        assert studio.owner.refused(409, "PATCH", where, json=change)["code"] == code
    assert studio.owner.refused(409, "DELETE", where)["code"] == code
    same = {"invoice_items": [WORK], "payment_method": "Transfer", "invoice_number": record["invoice_number"]}
    assert studio.owner.patch(where, json=same)["invoice"] == record


@pytest.mark.parametrize("steps", [("send",), ("send", "pay")])
def test_fields_without_effect_on_amounts_can_change_after_sending(
    studio: Studio, draw: Draw, steps: tuple[str, ...]
) -> None:
    record = draw(*steps, due="2030-01-01")
    studio.happened()
    change = {
        "due": "2031-01-01T00:00:00.000Z", "payment_terms": "30 days", "payment_method": "Card", "credit_type": True,
    }  # fmt: skip
    after = studio.owner.patch(f"/invoices/{record['id']}", json=change)["invoice"]
    expected = {**record, **change, "credit_type": "true", "updated_at": after["updated_at"]}
    assert after == expected
    [event] = studio.happened()
    assert (event.action, event.record) == ("edited", after)
    assert event.changes == {name: {"from": record[name], "to": after[name]} for name in change}


@pytest.mark.parametrize("field", ["due", "payment_terms", "payment_method"])
def test_each_of_these_fields_can_change_alone(studio: Studio, draw: Draw, field: str) -> None:
    record = draw("send", due="2030-01-01", payment_terms="30 days", payment_method="Card")
    after = studio.owner.patch(f"/invoices/{record['id']}", json={field: None})["invoice"]
    assert after == {**record, field: None, "updated_at": after["updated_at"]}


def test_a_credited_invoice_cannot_be_changed(studio: Studio, draw: Draw) -> None:
    where = f"/invoices/{draw('send')['id']}"
    studio.owner.post(f"{where}/credit_notes", json={"reason": "Wrong"})
    record = studio.owner.get(where)["invoice"]
    assert record["status"] == "credited"
    for method, change in (("PATCH", {"tax": 1}), ("PATCH", {"invoice_items": []}), ("DELETE", None)):
        assert studio.owner.refused(409, method, where, json=change)["code"] == "invoice_credited"
    assert studio.owner.get(where)["invoice"] == record


def test_a_void_invoice_cannot_be_changed(studio: Studio, draw: Draw) -> None:
    record = draw("send", "void")
    for change in ({"payment_method": "Card"}, {"due": "2030-01-01"}):
        refused = studio.owner.refused(409, "PATCH", f"/invoices/{record['id']}", json=change)
        assert refused["code"] == "invoice_void"


def test_an_invoice_is_not_overdue_on_its_due_date(studio: Studio, path: str, draw: Draw) -> None:
    began = None
    while began != datetime.now(UTC).date():  # repeat if midnight passed in the meantime
        began = datetime.now(UTC).date()
        today, before = (draw("send", due=(began - timedelta(days=days)).isoformat()) for days in (0, 1))
        late = [each["id"] for each in studio.owner.get(path, params={"overdue": "true"})["invoices"]]
    assert (today["overdue"], before["overdue"]) == (False, True)
    assert (today["id"] in late, before["id"] in late) == (False, True)


def test_invoices_can_be_filtered_by_overdue_and_status(studio: Studio, path: str, draw: Draw) -> None:
    late, paid = draw("send", due="2026-01-01"), draw("send", "pay", due="2026-01-01")
    early, draft = draw("send", due="2999-01-01T12:00:00+01:00"), draw(due="2026-01-01")
    assert [each["overdue"] for each in (late, paid, early, draft)] == [True, False, False, False]

    def ids(**filters: str) -> list[str]:
        return [each["id"] for each in studio.owner.get(path, params=filters)["invoices"]]

    assert ids(overdue="true") == [late["id"]]
    assert ids(overdue="false") == [paid["id"], early["id"], draft["id"]]
    assert ids(status="sent") == [late["id"], early["id"]]
    assert ids(status="sent", overdue="false") == [early["id"]]
    assert studio.owner.faults("GET", path, params={"status": "late", "x": "1"}) == {
        "status": "invalid",
        "x": "unknown",
    }


# --- numbers -----------------------------------------------------------------------------------------------------


def test_concurrently_sent_invoices_have_consecutive_numbers(studio: Studio, draw: Draw) -> None:
    ids = [draw()["id"] for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(studio.owner.post, f"/invoices/{each}/send") for each in ids]
    numbers = sorted(each.result()["invoice"]["invoice_number"] for each in calls)
    assert numbers == [f"INV-{number:05d}" for number in range(1, 21)]


def test_concurrent_sends_of_one_invoice_take_effect_once(studio: Studio, draw: Draw) -> None:
    record = draw()
    studio.happened()
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(studio.owner.post, f"/invoices/{record['id']}/send") for _ in range(8)]
    assert {each.result()["invoice"]["invoice_number"] for each in calls} == {"INV-00001"}
    assert [each.action for each in studio.happened()] == ["sent"]
    assert draw("send")["invoice_number"] == "INV-00002"


def test_a_custom_number_is_outside_the_sequence(studio: Studio, path: str, draw: Draw) -> None:
    assert draw("send", invoice_number="2026/7")["invoice_number"] == "2026/7"
    assert draw("send")["invoice_number"] == "INV-00001"
    draw(invoice_number="INV-00002")
    assert draw("send")["invoice_number"] == "INV-00003"
    for taken in ("2026/7", "INV-00001", "INV-00002"):
        faults = {"invoice_number": "already_exists"}
        assert studio.owner.faults("POST", path, json={"invoice_number": taken}) == faults
        where = f"/invoices/{draw()['id']}"
        assert studio.owner.faults("PATCH", where, json={"invoice_number": taken}) == faults


def test_a_custom_number_can_be_taken_only_once(studio: Studio, path: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(studio.owner.call, "POST", path, json={"invoice_number": "7"}) for _ in range(8)]
    assert sorted(each.result().status_code for each in calls) == [200] + [422] * 7


def test_numbers_are_unique_per_account(studio: Studio, elsewhere: Studio, draw: Draw) -> None:
    draw("send", invoice_number="7")
    record = elsewhere.owner.post(f"{elsewhere.project}/invoices", json={"invoice_number": "7"})["invoice"]
    assert record["invoice_number"] == "7"


# --- permissions -------------------------------------------------------------------------------------------------


def test_clients_see_sent_invoices_and_readers_see_all(studio: Studio, path: str, draw: Draw) -> None:
    draft, sent, void = draw(), draw("send"), draw("send", "void")
    assert studio.client.get(path)["invoices"] == without_addresses([sent, void])
    assert studio.client.get(path, params={"status": "draft"})["invoices"] == []
    assert studio.client.get(f"/invoices/{sent['id']}")["invoice"] == without_addresses(sent)
    for part in ("", "/pdf", "/xml", "/payments", "/credit_notes"):
        studio.client.refused(404, "GET", f"/invoices/{draft['id']}{part}")
    studio.client.refused(403, "DELETE", f"/invoices/{sent['id']}")
    assert studio.add(role="read").get(path)["invoices"] == without_addresses([draft, sent, void])
