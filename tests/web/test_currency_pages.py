"""Pages show and accept amounts with the decimals of their currency, and offer e-invoices."""

from __future__ import annotations

import pytest

from tests.harness.server import Server
from tests.web.places_kit import add_in, signed_in
from tests.web.studio import Studio, page_of, send, text_of
from tests.work.official_rules import complaints

pytestmark = pytest.mark.one_database

GERMAN = {"Accept-Language": "de"}


def invoice_in(studio: Studio, currency: str, price: float, *, sent: bool = False) -> str:
    """Create an invoice and return the path of its page."""
    items = [{"description": "Design", "qty": 1, "unit_price": price}]
    body = {"currency": currency, "tax": 10, "invoice_items": items}
    invoice = studio.call("POST", f"{studio.project}/invoices", **body)["invoice"]["id"]
    if sent:
        studio.call("POST", f"/invoices/{invoice}/send")
    return f"{studio.base}/billing/{invoice}"


def german(studio: Studio, path: str) -> str:
    return text_of(studio.member.client.get(path, headers=GERMAN).text)


def test_amounts_are_shown_with_the_decimals_of_the_currency(studio: Studio) -> None:
    yen, dinar = invoice_in(studio, "JPY", 123_456, sent=True), invoice_in(studio, "KWD", 1234.125)
    assert "135,802 JPY" in text_of(page_of(studio.member, yen))
    assert "135.802 JPY" in german(studio, yen)
    assert "1,357.538 KWD" in text_of(page_of(studio.member, dinar))
    assert "1.357,538 KWD" in german(studio, dinar)
    assert 'name="amount" value="135802"' in page_of(studio.member, yen), "the form contains the amount due"


def test_deleting_an_organization_mentions_its_issued_invoices(studio: Studio) -> None:
    invoice_in(studio, "EUR", 1, sent=True)
    asked = f"/{studio.team.world.organization}/settings/delete"
    assert "This organization has issued 1 invoice," in text_of(page_of(studio.owner, asked))
    invoice_in(studio, "EUR", 1, sent=True)
    assert "This organization has issued 2 invoices," in text_of(page_of(studio.owner, asked))


def test_amounts_are_accepted_with_the_decimals_of_the_currency(studio: Studio) -> None:
    yen = invoice_in(studio, "JPY", 100)
    wanted = {"description": "More", "qty": "1"}
    refused = send(studio.member, f"{yen}/lines", **wanted, unit_price="10.5")
    assert refused.status_code == 422
    assert "“10.5” has decimal places, but this currency has none. Enter an amount such as 1250." in text_of(
        refused.text
    )
    assert send(studio.member, f"{yen}/lines", **wanted, unit_price="1,050").status_code == 303
    assert "1,265 JPY" in text_of(page_of(studio.member, yen))
    refused = send(studio.member, f"{studio.base}/settings/billing", currency="JPY", hourly_rate="10.5")
    assert refused.status_code in (403, 422)


def test_a_currency_that_does_not_fit_a_rate_is_refused(studio: Studio) -> None:
    path = f"{studio.base}/settings/billing"
    studio.call("PATCH", f"{studio.project}/billing", currency="EUR")
    column = studio.call("POST", f"{studio.project}/columns", title="To do")["column"]["id"]
    task = studio.call("POST", f"/columns/{column}/tasks", title="x", hourly_rate=80.5)["task"]
    assert task["hourly_rate"] == "80.50"
    page = page_of(studio.owner, path)
    was = page.partition('name="was" value="')[2].partition('"')[0]
    refused = send(studio.owner, path, was=was, currency="JPY")
    assert refused.status_code == 422
    said = "A rate or the budget doesn’t fit JPY, where an amount has no decimal places: change the amount first."
    assert said in text_of(refused.text)
    assert 'id="currency-fault"' in refused.text


def test_team_and_client_can_download_an_e_invoice(studio: Studio) -> None:
    draft = invoice_in(studio, "EUR", 100)
    assert "E-invoice" not in page_of(studio.member, draft)
    path = invoice_in(studio, "EUR", 100, sent=True)
    for reader in (studio.member, studio.client):
        page = page_of(reader, path)
        assert (f'href="{path}/xml"' in page) is (reader is studio.member), "only those who can complete it see it"
        missing = reader.client.get(f"{path}/xml")
        assert missing.status_code == 422
        said = text_of(missing.text)
        assert "This invoice can’t be exported as an e-invoice yet:" in said
        assert "The client’s country is missing. The seller needs to complete the billing settings." in said
        assert "/settings/billing" not in missing.text[missing.text.index("<main") :]
    missing = studio.owner.client.get(f"{path}/xml")
    assert "The client’s country is missing. Add it in the project’s billing settings." in text_of(missing.text)
    assert "Your country is missing. Enter it in the seller’s billing settings." in text_of(missing.text)
    assert "Only owners can change" not in missing.text
    assert f'href="{studio.base}/settings/billing"' in missing.text
    assert f'href="/{studio.team.world.organization}/settings/billing"' in missing.text
    assert "Diese Rechnung kann noch nicht als E-Rechnung exportiert werden:" in german(studio, f"{path}/xml")
    login = studio.base.split("/")[1]
    studio.call("PATCH", f"/organizations/{login}/billing", country="DE", vat_id="DE123456789")
    studio.call("PATCH", f"{studio.project}/billing", buyer={"name": "Client AG", "country": "AT"})
    path = invoice_in(studio, "EUR", 100, sent=True)
    for reader in (studio.member, studio.client):
        assert f'href="{path}/xml"' in page_of(reader, path)
        document = reader.client.get(f"{path}/xml")
        assert (document.status_code, document.headers["content-type"]) == (200, "application/xml")
        assert complaints(document.content) == []
    body = {"total": 10, "reason": "Late"}
    invoice = path.rpartition("/")[2]
    note = studio.call("POST", f"/invoices/{invoice}/credit_notes", **body)["credit_note"]["id"]
    assert f'href="{path}/credit_notes/{note}/xml"' in page_of(studio.client, path)
    document = studio.client.client.get(f"{path}/credit_notes/{note}/xml")
    assert complaints(document.content) == []


def test_a_draft_warns_that_parts_of_the_seller_are_missing_for_good(studio: Studio) -> None:
    draft = invoice_in(studio, "EUR", 100)
    login = studio.team.world.organization
    words = "{} missing. {} can’t be added after the invoice is issued."
    both, address, number = (
        words.format("Your address and tax number are", "They"),
        words.format("Your address is", "It"),
        words.format("Your tax number is", "It"),
    )

    def warnings() -> list[str]:
        return [each for each in (both, address, number) if each in text_of(page_of(studio.owner, draft))]

    assert warnings() == [both]
    assert f'{both}</strong> <a href="/{login}/settings/billing">' in page_of(studio.owner, draft)
    assert f"{both}</strong></p>" in page_of(studio.member, draft), "members cannot change the settings"
    assert "Ihre Adresse und Steuernummer fehlen." in german(studio, draft)
    studio.call("PATCH", f"/organizations/{login}/billing", tax_number="12/345/67890")
    assert warnings() == [address]
    studio.call("PATCH", f"/organizations/{login}/billing", tax_number=None, address="Main Street 1\n10115 Berlin")
    assert warnings() == [number]
    studio.call("PATCH", f"/organizations/{login}/billing", vat_id="DE123456789")
    assert warnings() == []
    studio.call("PATCH", f"/organizations/{login}/billing", vat_id=None, address=None)
    studio.call("PATCH", f"/invoices/{draft.rpartition('/')[2]}", bill_from="Studio\nMain Street 1\nTax no. 7")
    assert warnings() == []


def test_a_draft_lists_what_an_e_invoice_lacks(studio: Studio) -> None:
    draft = invoice_in(studio, "EUR", 100)
    words = "Missing for an e-invoice:"
    assert words not in page_of(studio.owner, draft)
    account = f"/organizations/{studio.team.world.organization}/billing"
    studio.call("PATCH", account, country="DE")
    page = page_of(studio.owner, draft)
    assert f"{words} your VAT ID or tax number, the client’s country, the client’s name." in text_of(page)
    assert f'href="/{studio.team.world.organization}/settings/billing"' in page
    assert f'href="{studio.base}/settings/billing"' in page
    page = page_of(studio.member, draft)
    assert words in page
    assert "/settings/billing" not in page[page.index("<main") :]
    assert "Für eine E-Rechnung fehlt: Ihre USt-IdNr. oder Steuernummer" in german(studio, draft)
    studio.call("PATCH", f"{studio.project}/billing", buyer={"name": "Client AG", "country": "AT"})
    for enough in ("vat_id", "tax_number"):
        numbers = {"vat_id": None, "tax_number": None, enough: "DE123456789"}
        studio.call("PATCH", account, **numbers)
        assert words not in page_of(studio.owner, draft)
    studio.call("PATCH", account, country=None)
    assert f"{words} your country." in text_of(page_of(studio.owner, draft))
    studio.call("PATCH", account, country="DE")
    assert words not in page_of(studio.client, invoice_in(studio, "EUR", 100, sent=True))


def test_a_project_admin_is_linked_only_to_the_project_settings(studio: Studio, server: Server) -> None:
    studio.call("PATCH", f"/organizations/{studio.team.world.organization}/billing", country="DE")
    draft = invoice_in(studio, "EUR", 100)
    with signed_in(server, add_in(server, studio.team.world, "admin")) as admin:
        page = page_of(admin, draft)
        assert f'href="{studio.base}/settings/billing"' in page
        assert f'href="/{studio.team.world.organization}/settings/billing"' not in page
