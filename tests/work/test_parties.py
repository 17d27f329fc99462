"""Who bills and who pays: in a draft as the settings say, fixed when it is sent; numbers by the account's format."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from tests.work.shop import Shop
from tests.work.studio import Studio
from workhook.core.clock import DAY_MS, now_ms, to_millis_text
from workhook.http.calls import Services
from workhook.identity.tables import accounts
from workhook.work.kernel.settings.schemas import account_billing
from workhook.work.money.invoices.schemas import invoices

WORK = {"description": "Design", "qty": 1, "unit_price": 100}
IBAN = "DE89370400440532013000"
BUYER = {
    "name": "Client AG", "address": "Ring 2\n1010 Wien", "vat_id": "ATU12345678", "email": "ap@client.example",
    "country": "AT",
}  # fmt: skip
SELLER = {
    "name": "Acme GmbH", "address": "Lindenstr. 1", "vat_id": "DE123456789", "email": "b@acme.example", "country": "DE",
    "iban": IBAN, "bic": "COBADEFFXXX", "logo": None, "timezone": "Europe/Berlin", "tax_number": "21/815/08150",
}  # fmt: skip


class Books:
    """The settings of a studio, and its invoices."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.owner = studio.owner
        self.account = f"/organizations/{studio.world.organization}/billing"
        self.project = f"{studio.project}/billing"

    def settle(self) -> None:
        """Both parties are known."""
        self.owner.patch(self.account, json={"legal_name": SELLER["name"], **{k: SELLER[k] for k in _OF_SELLER}})
        self.owner.patch(self.project, json={"buyer": BUYER})

    def draw(self, **more: Any) -> Any:
        body = {"invoice_items": [WORK], "currency": "EUR", **more}
        return self.owner.post(f"{self.studio.project}/invoices", json=body)["invoice"]

    def send(self, record: Any) -> Any:
        return self.owner.post(f"/invoices/{record['id']}/send")["invoice"]

    def now(self, record: Any) -> Any:
        return self.owner.get(f"/invoices/{record['id']}")["invoice"]

    def numbers(self, number_format: str | None, count: int = 1) -> list[str]:
        """Those of so many invoices in this format."""
        self.owner.patch(self.account, json={"number_format": number_format})
        return [self.send(self.draw())["invoice_number"] for _ in range(count)]


_OF_SELLER = ("address", "vat_id", "email", "country", "iban", "bic", "timezone", "tax_number")


@pytest.fixture
def books(studio: Studio) -> Books:
    return Books(studio)


# --- parties ----------------------------------------------------------------------------------------------------------


def test_a_draft_shows_what_the_settings_say_now(books: Books, studio: Studio) -> None:
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


def test_what_was_sent_before_there_were_parties_has_none(books: Books, studio: Studio) -> None:
    books.settle()
    sent = books.send(books.draw())
    earlier = sa.update(invoices).where(invoices.c.id == sa.bindparam("invoice_id"))
    nothing = earlier.values(buyer=None, seller=None, language=None)

    async def forget(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(nothing, {"invoice_id": sent["id"]})

    studio.server.run(forget)
    found = books.now(sent)
    assert (found["buyer"], found["seller"], found["language"]) == (None, None, "en")
    assert books.owner.call("GET", f"/invoices/{sent['id']}/pdf").status_code == 200


def test_the_language_of_a_draft_can_be_changed_and_no_longer(books: Books) -> None:
    made = books.draw()
    assert made["language"] == "en"
    changed = books.owner.patch(f"/invoices/{made['id']}", json={"language": "de"})["invoice"]
    assert changed["language"] == "de"
    books.send(made)
    refused = books.owner.refused(409, "PATCH", f"/invoices/{made['id']}", json={"language": "en"})
    assert refused["code"] == "invoice_sent"


# --- reverse charge ---------------------------------------------------------------------------------------------------


def test_reverse_charge_needs_both_vat_ids(books: Books) -> None:
    made = books.draw(tax_category="reverse_charge")
    assert (made["total"], made["taxes"][0]["category"]) == (100, "reverse_charge")
    send = f"/invoices/{made['id']}/send"
    refused = books.owner.refused(422, "POST", send)
    assert [each["field"] for each in refused["errors"]] == ["seller.vat_id"]
    assert f"/organizations/{books.studio.world.organization}/billing" in refused["errors"][0]["message"]
    books.owner.patch(books.account, json={"vat_id": "DE123456789"})
    refused = books.owner.refused(422, "POST", send)
    assert [each["field"] for each in refused["errors"]] == ["buyer.vat_id"]
    assert f"{books.studio.project}/billing" in refused["errors"][0]["message"]
    assert books.now(made)["status"] == "draft"
    books.owner.patch(books.project, json={"buyer": {"vat_id": "ATU12345678"}})
    assert books.send(made)["status"] == "sent"


def test_a_line_with_reverse_charge_needs_them_too(books: Books) -> None:
    lines = [{**WORK, "tax": 19}, {**WORK, "tax_category": "reverse_charge"}]
    made = books.draw(invoice_items=lines)
    assert books.owner.faults("POST", f"/invoices/{made['id']}/send") == {"seller.vat_id": "missing"}


def test_reverse_charge_has_no_percentage(books: Books) -> None:
    body = {"invoice_items": [WORK], "tax": 19, "tax_category": "reverse_charge"}
    assert books.owner.faults("POST", f"{books.studio.project}/invoices", json=body) == {"tax_category": "invalid"}


def test_the_invoice_of_a_subscription_has_the_settings(books: Books, shop: Shop) -> None:
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


def test_a_format_of_ones_own_goes_on_with_the_counter(books: Books) -> None:
    assert books.numbers(None, 2) == ["INV-00001", "INV-00002"]
    assert books.numbers("R{number}") == ["R3"]
    assert books.numbers("INV-{number:05}") == ["INV-00004"]


def test_with_a_year_numbers_start_anew(books: Books) -> None:
    year = to_millis_text(now_ms())[:4]
    assert books.numbers(None) == ["INV-00001"]
    assert books.numbers("{year}-{number:03}", 2) == [f"{year}-001", f"{year}-002"]
    assert books.numbers("{number}/{year}") == [f"3/{year}"]
    assert books.numbers(None) == ["INV-00002"]


def test_a_number_that_somebody_chose_is_passed_over(books: Books) -> None:
    year = to_millis_text(now_ms())[:4]
    books.owner.patch(books.account, json={"number_format": "{year}-{number}"})
    books.draw(invoice_number=f"{year}-1")
    assert books.send(books.draw())["invoice_number"] == f"{year}-2"


def test_the_search_for_a_number_ends_where_all_are_taken(books: Books, studio: Studio) -> None:
    """With a format that no request can store: it has no number."""

    async def store(services: Services) -> None:
        owner = sa.select(accounts.c.id).where(accounts.c.login == studio.world.organization)
        change = sa.update(account_billing).where(account_billing.c.account_id == owner.scalar_subquery())
        await services.database.write([(change.values(number_format="INV"), [{}])])

    books.settle()
    studio.server.run(store)
    assert books.send(books.draw())["invoice_number"] == "INV"
    draft = books.draw()
    assert books.owner.refused(409, "POST", f"/invoices/{draft['id']}/send")["code"] == "numbers_taken"
    assert books.now(draft)["status"] == "draft"
    books.owner.patch(books.account, json={"number_format": "{year}-{number}"})
    assert books.send(draft)["status"] == "sent"


def test_fifty_at_once_leave_no_gap(books: Books) -> None:
    books.owner.patch(books.account, json={"number_format": "{year}-{number:02}"})
    drafts = [books.draw() for _ in range(50)]
    with ThreadPoolExecutor(10) as threads:
        numbers = {each["invoice_number"] for each in threads.map(books.send, drafts)}
    year = to_millis_text(now_ms())[:4]
    assert numbers == {f"{year}-{number:02}" for number in range(1, 51)}
