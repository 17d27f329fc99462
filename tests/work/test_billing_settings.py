"""Billing settings of organizations, people and projects: permissions, validation and the defaults of new invoices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from tests.work.shop import Shop
from tests.work.studio import Studio
from workhook.core.clock import DAY_MS, now_ms, to_millis_text
from workhook.core.zones import day_in, midnight_of
from workhook.identity.tables import accounts
from workhook.work.kernel.billing_settings import account_billing

WORK = {"description": "Design", "qty": 1, "unit_price": 100}
IBAN = "DE89370400440532013000"
BERLIN = ZoneInfo("Europe/Berlin")
ACCOUNT = {
    "legal_name": "Acme Studio GmbH", "address": "Lindenstr. 1\n10969 Berlin", "vat_id": "DE123456789",
    "tax_number": "21/815/08150", "email": "billing@acme.example", "country": "DE", "iban": IBAN, "bic": "COBADEFFXXX",
    "currency": "EUR",
    "tax": 19, "tax_category": "standard", "payment_days": 14, "payment_terms": "14 days net",
    "number_format": "R{number:04}", "language": "de", "hourly_rate": 90, "billable": True, "round_minutes": 15,
    "round_mode": "nearest", "timezone": "Europe/Berlin",
}  # fmt: skip
UNSET_ACCOUNT = dict.fromkeys(ACCOUNT) | {
    "currency": "USD", "number_format": "INV-{number:05}", "language": "en", "billable": False, "round_minutes": 0,
    "round_mode": "up", "timezone": "UTC",
}  # fmt: skip
PROJECT = {
    "buyer": {
        "name": "Client AG", "address": "Ring 2\nWien", "vat_id": "ATU12345678", "email": "ap@client.example",
        "country": "AT",
    },
    "currency": "CHF", "tax": 7.7, "tax_category": "standard", "payment_days": 30, "language": "en",
    "hourly_rate": 80.5, "billable": False, "round_minutes": 6, "round_mode": "up",
    "budget": {"hours": 40.25, "amount": None},
}  # fmt: skip
UNSET_PROJECT = dict.fromkeys(PROJECT) | {"buyer": dict.fromkeys(PROJECT["buyer"]), "rates": []}  # type: ignore[call-overload]


@pytest.fixture
def account(studio: Studio) -> str:
    """Return the path of the organization's settings."""
    return f"/organizations/{studio.world.organization}/billing"


@pytest.fixture
def project(studio: Studio) -> str:
    return f"{studio.project}/billing"


def new_draft(studio: Studio, **parameters: Any) -> Any:
    """Create a draft."""
    return studio.owner.post(f"{studio.project}/invoices", json={"invoice_items": [WORK], **parameters})["invoice"]


def sent(studio: Studio, record: Any) -> Any:
    return studio.owner.post(f"/invoices/{record['id']}/send")["invoice"]


# --- an organization -------------------------------------------------------------------------------------------------


def test_unset_fields_are_null_or_show_their_default(studio: Studio, account: str) -> None:
    assert studio.owner.get(account) == {"billing": {**UNSET_ACCOUNT, "logo": None}, "success": True}


def test_each_field_can_be_set_kept_and_cleared(studio: Studio, account: str) -> None:
    assert studio.owner.patch(account, json=ACCOUNT)["billing"] == {**ACCOUNT, "logo": None}
    assert studio.owner.patch(account, json={"email": "x@acme.example"})["billing"]["legal_name"] == "Acme Studio GmbH"
    assert studio.owner.get(account)["billing"] == {**ACCOUNT, "email": "x@acme.example", "logo": None}
    assert studio.owner.patch(account, json=dict.fromkeys(ACCOUNT))["billing"] == {**UNSET_ACCOUNT, "logo": None}


def test_input_is_stored_in_normalized_form(studio: Studio, account: str) -> None:
    typed = {"iban": "de89 3704 0044 0532 0130 00", "bic": "cobadeffxxx", "vat_id": "de 123.456.789", "currency": "eur"}
    texts = {"legal_name": "  Acme  ", "tax_number": " 21 815\n08150 "}
    made = studio.owner.patch(account, json={**typed, **texts})["billing"]
    found = [made[name] for name in ("iban", "bic", "vat_id", "currency", "legal_name", "tax_number")]
    assert found == [IBAN, "COBADEFFXXX", "DE123456789", "EUR", "Acme", "21 815 08150"]


def test_errors_name_the_field_and_the_remedy(studio: Studio, account: str) -> None:
    cases: list[tuple[str, object, str]] = [
        ("iban", "DE89370400440532013001", "check digits"),
        ("bic", "COBA", "a BIC of 8 or 11"),
        ("vat_id", "DE12", "a valid VAT ID for DE"),
        ("tax_number", "x" * 65, "at most 64"),
        ("tax_number", "12\u200b", "as the tax office writes it"),
        ("email", "nobody", "an e-mail address"),
        ("currency", "EURO", "ISO 4217"),
        ("tax", 101, "from 0 to 100"),
        ("tax_category", "none", "one of exempt, reverse_charge, standard, zero"),
        ("payment_days", 366, "0 to 365"),
        ("number_format", "{number!r}", "{number:05}"),
        ("number_format", "INV", "{number} once"),
        ("language", "fr", "one of de, en"),
        ("timezone", "Europe/Atlantis", "the name of a time zone, such as Europe/Vienna"),
        ("timezone", "../etc/hostname", "the name of a time zone"),
        ("timezone", "x" * 65, "at most 64"),
        ("legal_name", "  ", "1 to 255"),
        ("address", "x" * 1001, "1 to 1000"),
    ]
    for field, value, words in cases:
        error = studio.owner.refused(422, "PATCH", account, json={field: value})
        [fault] = error["errors"]
        assert fault["field"] == field, field
        assert words in fault["message"], field
        assert studio.owner.get(account)["billing"][field] == UNSET_ACCOUNT[field], field


def test_only_the_standard_category_has_a_tax_rate(studio: Studio, account: str) -> None:
    wrong = {"tax": 19, "tax_category": "reverse_charge"}
    assert studio.owner.faults("PATCH", account, json=wrong) == {"tax_category": "invalid"}
    studio.owner.patch(account, json={"tax": 19})
    assert studio.owner.faults("PATCH", account, json={"tax_category": "exempt"}) == {"tax_category": "invalid"}
    assert studio.owner.patch(account, json={"tax": 0, "tax_category": "exempt"})["billing"]["tax"] == 0


def test_a_person_has_their_own_settings(studio: Studio) -> None:
    own = f"/organizations/{studio.member.login}/billing"
    studio.member.patch(own, json={"legal_name": "M. Ember", "number_format": "M{number}", "currency": "EUR"})
    assert studio.member.get(own)["billing"]["legal_name"] == "M. Ember"
    studio.owner.refused(404, "GET", own)
    title = {"title": "Mine", "organization": studio.member.login}
    project_id = studio.member.post("/projects", json=title)["project"]["id"]
    body = {"invoice_items": [WORK]}
    made = studio.member.post(f"/projects/{project_id}/invoices", json=body)["invoice"]
    assert (made["currency"], made["seller"]["name"]) == ("EUR", "M. Ember")
    assert studio.member.post(f"/invoices/{made['id']}/send")["invoice"]["invoice_number"] == "M1"


def test_only_real_changes_are_in_the_audit_log(studio: Studio, account: str, project: str) -> None:
    for path, change in ((account, {"iban": IBAN}), (project, {"buyer": {"name": "Client AG"}})):
        studio.owner.patch(path, json=change)
        studio.owner.patch(path, json=change)
    log = studio.owner.http.get(f"{studio.world.org_path}/audit-log").json()
    found = [each for each in log if each["action"].endswith("_billing.edit")]
    assert [each["action"] for each in found] == ["project_billing.edit", "organization_billing.edit"]
    assert "Client AG" in str(found[0])
    assert IBAN in str(found[1])


# --- a project -------------------------------------------------------------------------------------------------------


def test_a_project_stores_only_its_overrides(studio: Studio, project: str) -> None:
    assert studio.owner.get(project)["billing"] == UNSET_PROJECT
    assert studio.owner.patch(project, json=PROJECT)["billing"] == {**PROJECT, "rates": []}
    assert studio.member.get(project)["billing"] == {**PROJECT, "rates": []}
    assert studio.owner.patch(project, json=dict.fromkeys(PROJECT))["billing"] == UNSET_PROJECT


def test_a_partial_update_of_the_buyer_keeps_the_other_fields(studio: Studio, project: str) -> None:
    studio.owner.patch(project, json={"buyer": {"name": "Client AG", "email": "a@client.example"}})
    changed = studio.owner.patch(project, json={"buyer": {"email": None, "vat_id": "ATU12345678"}})["billing"]["buyer"]
    assert changed == {"name": "Client AG", "address": None, "vat_id": "ATU12345678", "email": None, "country": None}


def test_errors_in_the_buyer_name_the_nested_field(studio: Studio, project: str) -> None:
    wrong = {"buyer": {"vat_id": "X", "email": "X", "iban": IBAN}}
    assert studio.owner.faults("PATCH", project, json=wrong) == {
        "buyer.iban": "unknown", "buyer.vat_id": "invalid", "buyer.email": "invalid",
    }  # fmt: skip
    assert studio.owner.faults("PATCH", project, json={"buyer": "Client AG"}) == {"buyer": "invalid"}
    assert studio.owner.faults("PATCH", project, json={"buyer": []}) == {"buyer": "invalid"}


# --- defaults of new invoices ----------------------------------------------------------------------------------------


def test_a_draft_takes_the_defaults_of_the_organization(studio: Studio, account: str) -> None:
    studio.owner.patch(account, json=ACCOUNT)
    made = new_draft(studio)
    found = {name: made[name] for name in ("currency", "tax", "tax_category", "payment_terms", "language", "total")}
    assert found == {
        "currency": "EUR", "tax": 19, "tax_category": "standard", "payment_terms": "14 days net", "language": "de",
        "total": 119,
    }  # fmt: skip
    assert made["due"] is None
    issued = sent(studio, made)
    assert issued["invoice_number"] == "R0001"
    assert issued["due"] == to_millis_text(midnight_of(day_in(now_ms(), BERLIN) + timedelta(days=14)))


def test_project_settings_override_those_of_the_organization(studio: Studio, account: str, project: str) -> None:
    studio.owner.patch(account, json=ACCOUNT)
    studio.owner.patch(project, json=PROJECT)
    made = new_draft(studio)
    assert (made["currency"], made["tax"], made["language"]) == ("CHF", 7.7, "en")
    assert made["payment_terms"] == "14 days net"
    assert sent(studio, made)["due"] == to_millis_text(midnight_of(day_in(now_ms(), BERLIN) + timedelta(days=30)))


def test_values_in_the_request_override_the_settings(studio: Studio, account: str) -> None:
    studio.owner.patch(account, json=ACCOUNT)
    own = {"currency": "USD", "payment_terms": None, "language": "en", "due": "2027-01-31"}
    made = new_draft(studio, tax=None, **own)
    found = [made[name] for name in ("currency", "tax", "tax_category", "payment_terms", "language", "total")]
    assert found == ["USD", None, None, None, "en", 100]
    assert sent(studio, made)["due"] == "2027-01-31T00:00:00.000Z"
    assert new_draft(studio, tax_category="exempt")["tax"] is None
    assert new_draft(studio, tax=5)["tax_category"] is None


def test_a_project_overrides_tax_rate_and_category_together(studio: Studio, account: str, project: str) -> None:
    studio.owner.patch(account, json={"tax": 19, "tax_category": "standard"})
    studio.owner.patch(project, json={"tax_category": "exempt"})
    made = new_draft(studio)
    assert (made["tax"], made["tax_category"], made["total"]) == (None, "exempt", 100)


def test_without_a_setting_the_currency_is_that_of_the_last_invoice(studio: Studio, account: str) -> None:
    assert new_draft(studio)["currency"] == "USD"
    new_draft(studio, currency="CHF")
    assert new_draft(studio)["currency"] == "CHF"
    studio.owner.patch(account, json={"currency": "EUR"})
    assert new_draft(studio)["currency"] == "EUR"


# --- parties ---------------------------------------------------------------------------------------------------------
# Seller and buyer: drafts follow the settings, sending fixes both, and numbers use the account's format.


BUYER = {
    "name": "Client AG", "address": "Ring 2\n1010 Wien", "vat_id": "ATU12345678", "email": "ap@client.example",
    "country": "AT",
}  # fmt: skip
SELLER = {
    "name": "Acme GmbH", "address": "Lindenstr. 1", "vat_id": "DE123456789", "email": "b@acme.example", "country": "DE",
    "iban": IBAN, "bic": "COBADEFFXXX", "logo": None, "timezone": "Europe/Berlin", "tax_number": "21/815/08150",
}  # fmt: skip


class Books:
    """A studio's billing settings and invoices."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.owner = studio.owner
        self.account = f"/organizations/{studio.world.organization}/billing"
        self.project = f"{studio.project}/billing"

    def settle(self) -> None:
        """Set both parties."""
        self.owner.patch(self.account, json={"legal_name": SELLER["name"], **{k: SELLER[k] for k in _OF_SELLER}})
        self.owner.patch(self.project, json={"buyer": BUYER})

    def draw(self, **more: Any) -> Any:
        return self.studio.invoice(**more)

    def send(self, record: Any) -> Any:
        return self.owner.post(f"/invoices/{record['id']}/send")["invoice"]

    def now(self, record: Any) -> Any:
        return self.owner.get(f"/invoices/{record['id']}")["invoice"]

    def numbers(self, number_format: str | None, count: int = 1) -> list[str]:
        """Return the numbers of `count` new invoices with this format."""
        self.owner.patch(self.account, json={"number_format": number_format})
        return [self.send(self.draw())["invoice_number"] for _ in range(count)]


_OF_SELLER = ("address", "vat_id", "email", "country", "iban", "bic", "timezone", "tax_number")


@pytest.fixture
def books(studio: Studio) -> Books:
    return Books(studio)


# --- parties ----------------------------------------------------------------------------------------------------------


def test_a_draft_follows_the_current_settings(books: Books, studio: Studio) -> None:
    made = books.draw()
    nobody = {**dict.fromkeys(SELLER), "name": "Acme"}
    assert (made["buyer"], made["seller"]) == (None, nobody)
    books.settle()
    assert (books.now(made)["buyer"], books.now(made)["seller"]) == (BUYER, SELLER)
    [listed] = studio.member.get(f"{studio.project}/invoices")["invoices"]
    assert (listed["buyer"], listed["seller"]) == (BUYER, SELLER)
    books.owner.patch(books.account, json={"legal_name": "Acme SE"})
    assert books.now(made)["seller"]["name"] == "Acme SE"
    assert books.draw()["buyer"] == BUYER


def test_sending_fixes_both_parties(books: Books, studio: Studio) -> None:
    books.settle()
    studio.happened()
    sent = books.send(books.draw())
    assert (sent["buyer"], sent["seller"]) == (BUYER, SELLER)
    assert [each.record["seller"] for each in studio.happened() if each.name == "invoice"] == [SELLER, SELLER]
    books.owner.patch(books.account, json={"legal_name": "Acme SE", "iban": None})
    books.owner.patch(books.project, json={"buyer": None})
    for caller in (studio.owner, studio.client):
        found = caller.get(f"/invoices/{sent['id']}")["invoice"]
        assert (found["buyer"], found["seller"]) == (BUYER, SELLER)
    books.owner.post(f"/invoices/{sent['id']}/pay")
    assert books.now(sent)["seller"] == SELLER


def test_a_credit_note_has_the_parties_of_its_invoice(books: Books) -> None:
    books.settle()
    sent = books.send(books.draw(language="de"))
    books.owner.patch(books.account, json={"legal_name": "Acme SE"})
    books.owner.patch(books.project, json={"buyer": None})
    note = books.owner.post(f"/invoices/{sent['id']}/credit_notes", json={"reason": "Late"})["credit_note"]
    found = books.owner.get(f"/credit_notes/{note['id']}")["credit_note"]
    assert note == found
    assert (found["buyer"], found["seller"], found["language"]) == (BUYER, SELLER, "de")
    [listed] = books.owner.get(f"/invoices/{sent['id']}/credit_notes")["credit_notes"]
    assert listed == found


def test_the_language_can_be_changed_only_in_a_draft(books: Books) -> None:
    made = books.draw()
    assert made["language"] == "en"
    changed = books.owner.patch(f"/invoices/{made['id']}", json={"language": "de"})["invoice"]
    assert changed["language"] == "de"
    books.send(made)
    refused = books.owner.refused(409, "PATCH", f"/invoices/{made['id']}", json={"language": "en"})
    assert refused["code"] == "invoice_sent"


# --- reverse charge ---------------------------------------------------------------------------------------------------


def test_a_line_with_reverse_charge_requires_vat_ids_too(books: Books) -> None:
    lines = [{**WORK, "tax": 19}, {**WORK, "tax_category": "reverse_charge"}]
    made = books.draw(invoice_items=lines)
    assert books.owner.faults("POST", f"/invoices/{made['id']}/send") == {"seller.vat_id": "missing"}


def test_reverse_charge_has_no_tax_rate(books: Books) -> None:
    body = {"invoice_items": [WORK], "tax": 19, "tax_category": "reverse_charge"}
    assert books.owner.faults("POST", f"{books.studio.project}/invoices", json=body) == {"tax_category": "invalid"}


def test_a_subscription_invoice_follows_the_settings(books: Books, shop: Shop) -> None:
    books.settle()
    books.owner.patch(books.account, json={"tax": 20, "payment_days": 7, "language": "de"})

    def subscribed() -> Any:
        service = shop.service({"amount": 50, "currency": "EUR", "interval": "month"})
        shop.buy(f"{now_ms() // (365 * DAY_MS) + 1971}-01-10T10:00", service)
        return books.owner.get(f"{books.studio.project}/invoices")["invoices"][-1]

    first = subscribed()
    assert (first["amount"], first["tax"], first["total"], first["language"]) == (50, 20, 60, "de")
    assert (first["buyer"], first["seller"]) == (BUYER, SELLER)
    assert first["due"] > to_millis_text(now_ms())
    books.owner.patch(books.account, json={"tax": None, "tax_category": "reverse_charge"})
    assert subscribed()["taxes"][0]["category"] == "reverse_charge"
    books.owner.patch(books.project, json={"buyer": {"vat_id": None}})
    without = subscribed()
    assert (without["tax_category"], without["total"]) == (None, 50)


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_a_custom_format_continues_the_counter(books: Books) -> None:
    assert books.numbers(None, 2) == ["INV-00001", "INV-00002"]
    assert books.numbers("R{number}") == ["R3"]
    assert books.numbers("INV-{number:05}") == ["INV-00004"]


def test_a_format_with_a_year_starts_its_own_counter(books: Books) -> None:
    year = to_millis_text(now_ms())[:4]
    assert books.numbers(None) == ["INV-00001"]
    assert books.numbers("{year}-{number:03}", 2) == [f"{year}-001", f"{year}-002"]
    assert books.numbers("{number}/{year}") == [f"3/{year}"]
    assert books.numbers(None) == ["INV-00002"]


def test_a_manually_chosen_number_is_skipped(books: Books) -> None:
    year = to_millis_text(now_ms())[:4]
    books.owner.patch(books.account, json={"number_format": "{year}-{number}"})
    books.draw(invoice_number=f"{year}-1")
    assert books.send(books.draw())["invoice_number"] == f"{year}-2"


def test_sending_fails_if_every_number_is_taken(books: Books, studio: Studio) -> None:
    """Use a format without a number, which the API would not accept."""
    books.settle()
    owner = sa.select(accounts.c.id).where(accounts.c.login == studio.world.organization)
    change = sa.update(account_billing).where(account_billing.c.account_id == owner.scalar_subquery())
    studio.server.execute(change.values(number_format="INV"))
    assert books.send(books.draw())["invoice_number"] == "INV"
    draft = books.draw()
    assert books.owner.refused(409, "POST", f"/invoices/{draft['id']}/send")["code"] == "numbers_taken"
    assert books.now(draft)["status"] == "draft"
    books.owner.patch(books.account, json={"number_format": "{year}-{number}"})
    assert books.send(draft)["status"] == "sent"


def test_fifty_concurrent_sends_leave_no_gap(books: Books) -> None:
    books.owner.patch(books.account, json={"number_format": "{year}-{number:02}"})
    drafts = [books.draw() for _ in range(50)]
    with ThreadPoolExecutor(10) as threads:
        numbers = {each["invoice_number"] for each in threads.map(books.send, drafts)}
    year = to_millis_text(now_ms())[:4]
    assert numbers == {f"{year}-{number:02}" for number in range(1, 51)}
