"""Services: what an organization offers, prices and permissions."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness.receiver import Receiver
from tests.harness.waiting import until
from tests.work.paper import read, text_of
from tests.work.scene import Scene
from tests.work.shop import Shop
from tests.work.studio import Caller, Studio
from tests.work.test_einvoices import Bills, bills, line, texts
from workhook.core import json

MONTHLY = {"amount": 1200, "currency": "EUR", "interval": "month", "credits": 10}
YEARLY = {"amount": 11999.5, "currency": "USD", "interval": "year", "credits": None}
NEW: dict[str, Any] = {"title": "Design retainer", "service_prices": [MONTHLY, YEARLY]}


@pytest.fixture
def service(studio: Studio) -> dict[str, Any]:
    found: dict[str, Any] = studio.owner.post("/services", json=NEW)["service"]
    studio.happened()
    return found


def _without_id(price: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in price.items() if name != "id"}


# --- creating and reading --------------------------------------------------------------------------------------------


def test_a_service_is_created_with_every_field(studio: Studio) -> None:
    answer = studio.owner.post("/services", json=NEW)
    assert list(answer) == ["service", "success"]
    service = answer["service"]
    assert set(service) == {
        "id", "title", "organization", "description", "active", "addon", "position", "disable_pause",
        "disable_quantity", "limit_pausing", "minimum_months", "cancel_at_period_end", "require_payment_method",
        "preview_image", "service_prices", "default_price", "checkout_link", "created_at", "updated_at",
    }  # fmt: skip
    assert service["id"].startswith("svc_")
    assert service["organization"] == studio.world.organization
    assert (service["active"], service["addon"], service["position"]) == (True, False, 0)
    nulls = ("description", "limit_pausing", "minimum_months", "preview_image", "checkout_link")
    assert [service[name] for name in nulls] == [None] * 5
    assert [_without_id(each) for each in service["service_prices"]] == [MONTHLY, YEARLY]
    assert all(each["id"].startswith("prc_") for each in service["service_prices"])
    assert service["default_price"] == service["service_prices"][0]
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("service", "created", service)
    assert set(event.payload) == {"action", "service", "organization", "sender"}
    assert event.payload["sender"]["login"] == studio.world.owner
    assert studio.owner.get(f"/services/{service['id']}") == answer


def test_every_parameter_is_stored(studio: Studio) -> None:
    told = {
        "title": "Retainer", "description": "All you need", "active": False, "addon": True, "position": 7,
        "disable_pause": True, "disable_quantity": True, "limit_pausing": 2, "minimum_months": 3,
        "cancel_at_period_end": True, "require_payment_method": True, "preview_image": "https://example.com/a.png",
    }  # fmt: skip
    service = studio.owner.post("/services", json={**told, "organization": studio.world.organization.upper()})[
        "service"
    ]
    assert {name: service[name] for name in told} == told
    assert (service["service_prices"], service["default_price"]) == ([], None)


def test_parameters_can_be_in_the_query(studio: Studio) -> None:
    prices = json.encode_text([{**MONTHLY, "currency": "eur"}])
    params = {"title": "Retainer", "service_prices": prices, "active": "false"}
    service = studio.owner.post("/services", params=params)["service"]
    assert service["active"] is False
    assert [_without_id(each) for each in service["service_prices"]] == [MONTHLY]


def test_a_new_service_is_last(studio: Studio, service: dict[str, Any]) -> None:
    assert studio.owner.post("/services", json={"title": "Audit", "position": 5})["service"]["position"] == 5
    assert studio.owner.post("/services", json={"title": "Logo"})["service"]["position"] == 6


def test_all_invalid_fields_are_named_at_once(studio: Studio) -> None:
    bad = {
        "title": "", "limit_pausing": -1, "minimum_months": 1.5, "preview_image": "nowhere", "price": 3,
        "service_prices": [{"amount": -1, "currency": "EUR", "interval": "day"}, {"currency": "XYZ", "id": "prc"}],
    }  # fmt: skip
    assert studio.owner.faults("POST", "/services", json=bad) == {
        "title": "invalid",
        "limit_pausing": "invalid",
        "minimum_months": "invalid",
        "preview_image": "invalid",
        "price": "unknown",
        "service_prices[0].amount": "invalid",
        "service_prices[0].interval": "invalid",
        "service_prices[1].id": "unknown",
        "service_prices[1].amount": "missing",
        "service_prices[1].interval": "missing",
        "service_prices[1].currency": "invalid",
    }
    assert studio.owner.faults("POST", "/services") == {"title": "missing"}
    assert studio.happened() == []


def test_the_list_can_be_filtered_and_paged(studio: Studio, service: dict[str, Any]) -> None:
    audit = studio.owner.post("/services", json={"title": "Audit", "active": False})["service"]
    assert studio.member.get("/services") == {"services": [service, audit], "success": True}
    assert studio.member.get("/services", params={"active": "true"})["services"] == [service]
    organization = studio.world.organization.upper()
    assert studio.member.get("/services", params={"organization": organization})["services"] == [service, audit]
    assert studio.member.get("/services", params={"organization": "nobodys"})["services"] == []
    first = studio.member.call("GET", "/services", params={"per_page": 1})
    assert first.json()["services"] == [service]
    assert studio.member.http.get(first.links["next"]["url"]).json()["services"] == [audit]
    assert studio.member.faults("GET", "/services", params={"color": "red"}) == {"color": "unknown"}


# --- changing --------------------------------------------------------------------------------------------------------


def test_the_list_of_an_account_contains_only_its_own_services(studio: Studio, service: dict[str, Any]) -> None:
    """Independent of which account is older."""
    own = studio.owner.post("/services", json={"title": "Own", "organization": studio.world.owner})["service"]
    for one in (service, own):
        listed = studio.owner.get("/services", params={"organization": one["organization"]})["services"]
        assert [each["id"] for each in listed] == [one["id"]]


def test_an_edit_event_shows_the_changes(studio: Studio, service: dict[str, Any]) -> None:
    path = f"/services/{service['id']}"
    edited = studio.owner.patch(path, json={"title": "Retainer", "minimum_months": 3})["service"]
    assert (edited["title"], edited["minimum_months"]) == ("Retainer", 3)
    assert edited["updated_at"] > service["updated_at"]
    [event] = studio.happened()
    assert (event.action, event.record) == ("edited", edited)
    assert event.changes == {
        "title": {"from": "Design retainer", "to": "Retainer"},
        "minimum_months": {"from": None, "to": 3},
    }
    assert studio.owner.patch(path, json={"minimum_months": None})["service"]["minimum_months"] is None


def test_prices_are_replaced_as_a_whole_and_unchanged_ones_keep_their_id(
    studio: Studio, service: dict[str, Any]
) -> None:
    monthly, yearly = service["service_prices"]
    dearer = {**MONTHLY, "amount": 1300}
    edited = studio.owner.patch(f"/services/{service['id']}", json={"service_prices": [YEARLY, dearer]})["service"]
    assert edited["service_prices"][0] == yearly
    assert edited["default_price"] == yearly
    assert _without_id(edited["service_prices"][1]) == dearer
    assert edited["service_prices"][1]["id"] != monthly["id"]
    [event] = studio.happened()
    assert set(event.changes) == {"service_prices", "default_price"}
    assert event.changes["default_price"] == {"from": monthly, "to": yearly}


def test_identical_prices_are_separate(studio: Studio, service: dict[str, Any]) -> None:
    path = f"/services/{service['id']}"
    first, second = studio.owner.patch(path, json={"service_prices": [MONTHLY, MONTHLY]})["service"]["service_prices"]
    assert first == service["service_prices"][0]
    assert first["id"] != second["id"]
    assert studio.owner.patch(path, json={"service_prices": []})["service"]["service_prices"] == []


@pytest.mark.parametrize("same", [{}, {"title": "Design retainer"}, {"service_prices": [MONTHLY, YEARLY]}])
def test_an_edit_without_a_change_writes_nothing(studio: Studio, service: dict[str, Any], same: dict[str, Any]) -> None:
    assert studio.owner.patch(f"/services/{service['id']}", json=same)["service"] == service
    assert studio.happened() == []


def test_other_fields_are_refused_in_an_edit(studio: Studio, service: dict[str, Any]) -> None:
    path = f"/services/{service['id']}"
    faults = studio.owner.faults("PATCH", path, json={"organization": "other", "title": None, "active": None})
    assert faults == {"organization": "unknown", "title": "invalid", "active": "invalid"}


def test_concurrent_price_changes_do_not_mix(studio: Studio, service: dict[str, Any]) -> None:
    path = f"/services/{service['id']}"

    def replace(amount: int) -> list[int]:
        wanted = [{**MONTHLY, "amount": amount}, {**MONTHLY, "amount": amount + 1}]
        answer = studio.owner.patch(path, json={"service_prices": wanted})
        return [each["amount"] for each in answer["service"]["service_prices"]]

    amounts = range(10, 100, 10)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(replace, amounts)) == [[each, each + 1] for each in amounts]
    events = studio.happened()
    assert len(events) == len(amounts)
    for before, after in itertools.pairwise(events):  # each starts where the previous one ended
        assert after.changes["service_prices"]["from"] == before.record["service_prices"]
    assert studio.owner.get(path)["service"] == events[-1].record


def test_a_deleted_service_is_gone(studio: Studio, service: dict[str, Any]) -> None:
    path = f"/services/{service['id']}"
    assert studio.owner.delete(path) == {"success": True}
    [event] = studio.happened()
    assert (event.action, event.record["id"]) == ("deleted", service["id"])
    for method in ("GET", "PATCH", "DELETE"):
        studio.owner.refused(404, method, path)
    assert studio.owner.get("/services")["services"] == []


# --- permissions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["client", "stranger"])
def test_services_are_hidden_from_outsiders(studio: Studio, service: dict[str, Any], who: str) -> None:
    caller: Caller = getattr(studio, who)
    path = f"/services/{service['id']}"
    assert caller.get("/services")["services"] == []
    for method in ("GET", "PATCH", "DELETE"):
        caller.refused(404, method, path)
    named = {"title": "Mine", "organization": studio.world.organization}
    assert caller.faults("POST", "/services", json=named) == {"organization": "invalid"}
    own = caller.post("/services", json={"title": "Mine"})["service"]
    assert own["organization"] != studio.world.organization
    assert caller.get("/services")["services"] == [own]
    studio.owner.refused(404, "GET", f"/services/{own['id']}")
    assert caller.patch(f"/services/{own['id']}", json={"title": "Still mine"})["service"]["title"] == "Still mine"


# --- events ----------------------------------------------------------------------------------------------------------


def test_only_organization_hooks_receive_service_events(studio: Studio, receiver: Receiver) -> None:
    for place in (f"/repos/{studio.world.full_name}", f"/orgs/{studio.world.organization}"):
        studio.hook(f"{receiver.url}{place}", place=place)
    service = studio.owner.post("/services", json=NEW)["service"]
    studio.owner.patch(studio.project, json={"title": "Later"})  # both hooks receive this one

    def heard() -> list[tuple[str, str]]:
        return sorted((each.path.split("/")[2], each.event) for each in receiver.requests if each.event != "ping")

    until(lambda: len(heard()) >= 3)
    assert heard() == [("orgs", "project"), ("orgs", "service"), ("repos", "project")]
    [payload] = [each.payload() for each in receiver.requests if each.event == "service"]
    assert payload["service"] == service
    assert "repository" not in payload


# --- days of service -------------------------------------------------------------------------------------------------
# The service period on the invoice, its PDF and its e-invoice, either derived from the lines or set explicitly.


__all__ = ["bills"]

DESIGN = line(100)


def days_of(record: dict[str, Any]) -> tuple[str | None, str | None]:
    return record["service_from"], record["service_to"]


def printed(studio: Studio, invoice_id: str) -> str:
    """Return the text in lowercase, since labels are printed in capitals."""
    return " ".join(text_of(read(studio, invoice_id)).split()).lower()


def document_dates(document: bytes) -> list[str]:
    """Return the dates of an e-invoice except for the issue date."""
    parts = document.decode().split('DateTimeString format="102">')
    return [each.partition("<")[0] for each in parts[2:]]


@pytest.fixture
def drawn(bills: Bills, scene: Scene) -> dict[str, Any]:
    """Return a draft with time on two days."""
    bills.settle()
    spent = [
        scene.timesheet(start_time=f"2026-11-{day}T09:00:00Z", duration=3_600_000, billable_rate=80)
        for day in ("03", "12")
    ]
    body = {"timesheet_ids": spent, "invoice_items": [DESIGN], "currency": "EUR"}
    made: dict[str, Any] = bills.owner.post(f"{bills.studio.project}/invoices", json=body)["invoice"]
    return made


def test_the_service_period_is_derived_from_the_time(bills: Bills, drawn: dict[str, Any]) -> None:
    assert days_of(drawn) == ("2026-11-03", "2026-11-12")
    lines = drawn["invoice_items"]
    assert ["service_from" in each for each in lines] == [False, True, True]
    assert days_of(lines[1]) == ("2026-11-03", "2026-11-03")
    bills.owner.post(f"/invoices/{drawn['id']}/send")
    assert "service period 3 nov 2026 \u2013 12 nov 2026" in printed(bills.studio, drawn["id"])
    document = bills.document(drawn["id"])
    assert len(texts(document, "BillingSpecifiedPeriod")) == 3
    assert document_dates(document) == ["20261103", "20261103", "20261112", "20261112", "20261103", "20261112"]
    assert texts(document, "ActualDeliverySupplyChainEvent") == []


def test_the_service_period_can_be_set_until_sending(bills: Bills, drawn: dict[str, Any]) -> None:
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
    assert document_dates(document)[-1] == "20261130"
    assert "30 nov 2026" in printed(bills.studio, drawn["id"])


def test_without_a_service_period_none_is_stated(bills: Bills) -> None:
    bills.settle()
    sent = bills.send(DESIGN)
    assert days_of(bills.owner.get(f"/invoices/{sent}")["invoice"]) == (None, None)
    assert document_dates(bills.document(sent)) == []
    assert "service" not in printed(bills.studio, sent)
    body = {"invoice_items": [{**DESIGN, "service_from": "2026-11-01"}]}
    [fault] = bills.owner.refused(422, "POST", f"{bills.studio.project}/invoices", json=body)["errors"]
    assert "set service_from of the invoice" in fault["message"]


def test_a_subscription_states_its_period_in_the_language_of_the_project(bills: Bills, shop: Shop) -> None:
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


def test_changing_the_language_of_a_draft_rewords_its_lines(bills: Bills, drawn: dict[str, Any]) -> None:
    where = f"/invoices/{drawn['id']}"
    german = bills.owner.patch(where, json={"language": "de"})["invoice"]
    assert [each["description"] for each in german["invoice_items"][1:]] == ["Task (03.11.2026)", "Task (12.11.2026)"]
    assert german["total"] == drawn["total"]
    english = bills.owner.patch(where, json={"language": "en", "group_by": "person"})["invoice"]
    assert english["invoice_items"][1]["description"].endswith("(3 Nov 2026 \u2013 12 Nov 2026)")


def test_lines_show_their_rate_if_there_are_several(bills: Bills) -> None:
    bills.settle()
    sent = bills.send(line(100), line(50, tax=7), line(7, tax_category="exempt"), tax=19, language="de")
    text = printed(bills.studio, sent)
    assert text.count("ust. 19 %") == 2  # once for the line and once in the totals
    assert text.count("ust. 7 %") == 2
    assert "steuerfrei" in text
    single = printed(bills.studio, bills.send(line(100), tax=19, language="de"))
    assert single.count("ust. 19 %") == 1
    note = bills.owner.post(f"/invoices/{sent}/credit_notes", json={"reason": "Zu viel", "total": 10})["credit_note"]
    answer = bills.owner.call("GET", f"/credit_notes/{note['id']}/pdf")
    assert 'filename="Rechnungskorrektur-' in answer.headers["content-disposition"]
