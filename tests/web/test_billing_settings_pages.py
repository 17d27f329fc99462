"""The billing settings of an organization, a project and a person, and the parties on an invoice's page."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.web.browser import forms
from tests.web.studio import HOSTILE, Studio, csrf_of, page_of, send, text_of
from tests.work.paper import png

pytestmark = pytest.mark.one_database

IBAN = "DE89370400440532013000"
ACCOUNT = {
    "legal_name": HOSTILE, "address": "Lindenstr. 1\r\n10969 Berlin", "vat_id": "DE 123 456 789",
    "tax_number": " 21/815/08150 ", "email": "b@acme.org",
    "country": "de", "iban": "DE89 3704 0044 0532 0130 00", "bic": "COBADEFFXXX", "currency": "EUR", "tax": "19.0",
    "tax_category": "", "payment_days": "14", "language": "de", "payment_terms": "14 days net",
    "number_format": "R{number:04}", "timezone": "Pacific/Auckland",
}  # fmt: skip
PROJECT = {
    "buyer_name": HOSTILE, "buyer_address": "Ring 2", "buyer_vat_id": "ATU12345678", "buyer_email": "",
    "buyer_country": "AT",
    "currency": "", "tax": "", "tax_category": "reverse_charge", "payment_days": "", "language": "",
}  # fmt: skip


@pytest.fixture
def here(studio: Studio) -> str:
    """Return the path of the organization's billing settings."""
    return f"/{studio.base.split('/')[1]}/settings/billing"


def was_of(page: str) -> str:
    """Return the version in the form, for detecting conflicts."""
    [found] = re.findall(r'name="was" value="(\w+)"', page)
    return str(found)


def saved(studio: Studio, path: str, fields: dict[str, str]) -> None:
    answer = send(studio.owner, path, **{"was": was_of(page_of(studio.owner, path)), **fields})
    assert (answer.status_code, answer.headers["location"]) == (303, path), text_of(answer.text)


def test_an_organization_saves_the_seller(studio: Studio, here: str) -> None:
    saved(studio, here, ACCOUNT)
    page = page_of(studio.owner, here)
    assert "<img" not in page[page.index("<main") :]
    billing = studio.call("GET", f"/organizations/{here.split('/')[1]}/billing")["billing"]
    assert (billing["legal_name"], billing["vat_id"], billing["iban"]) == (HOSTILE, "DE123456789", IBAN)
    assert (billing["tax"], billing["tax_category"], billing["payment_days"]) == (19, None, 14)
    assert (billing["country"], billing["tax_number"]) == ("DE", "21/815/08150")
    assert "E-invoices require a VAT ID or a tax number." in text_of(page)
    assert billing["address"] == "Lindenstr. 1\n10969 Berlin"
    saved(studio, here, dict.fromkeys(ACCOUNT, ""))
    cleared = studio.call("GET", f"/organizations/{here.split('/')[1]}/billing")["billing"]
    assert (cleared["legal_name"], cleared["currency"], cleared["tax"]) == (None, "USD", None)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("iban", "DE89370400440532013001", "check digits are wrong"),
        ("iban", "DE8937040044053201300", "An IBAN from DE has 22 characters; this one has 21"),
        ("bic", "COBA", "A BIC has 8 or 11 characters"),
        ("vat_id", "DE12", "This isn’t a valid VAT ID for DE"),
        ("tax_number", "--", "Enter the tax number as your tax office writes it, such as 21/815/08150."),
        ("tax_number", "1" * 65, "Tax number can have at most 64 characters"),
        ("number_format", "{0}", "Include the number exactly once"),
        ("timezone", "Europe/Atlantis", "Time zone must be the name of a time zone, such as Europe/Vienna"),
        ("payment_days", "x", "Days until due must be a whole number"),
        ("tax", "much", "is not a number"),
        ("email", "nobody", "Enter a valid e-mail address"),
        ("country", "XX", "Enter a two-letter country code, such as DE."),
    ],
)
def test_an_error_is_shown_next_to_its_field(studio: Studio, here: str, field: str, value: str, said: str) -> None:
    answer = send(studio.owner, here, **{**ACCOUNT, "was": was_of(page_of(studio.owner, here)), field: value})
    assert answer.status_code == 422
    assert said in text_of(answer.text)
    assert f'id="{field}-fault"' in answer.text
    assert f'value="{value}"' in answer.text


def test_the_settings_are_translated_to_german(studio: Studio, here: str) -> None:
    german = {"accept_language": "de"}
    shown = text_of(studio.owner.client.get(here, headers={"Accept-Language": "de"}).text)
    assert "Rechnungssteller" in shown
    assert "Steuernummer" in shown
    fields = {**ACCOUNT, "was": was_of(page_of(studio.owner, here)), "iban": "DE89370400440532013001"}
    fields["csrf"] = csrf_of(studio.owner)
    answer = studio.owner.post(here, fields, **german)
    assert "Die Prüfziffern der IBAN stimmen nicht" in text_of(answer.text)


def test_a_conflict_is_shown_and_nothing_is_saved(studio: Studio, here: str) -> None:
    was = was_of(page_of(studio.owner, here))
    login = here.split("/")[1]
    studio.call("PATCH", f"/organizations/{login}/billing", legal_name="Acme SE")
    answer = send(studio.owner, here, **{**ACCOUNT, "was": was})
    assert answer.status_code == 409
    assert "Acme SE" in text_of(answer.text)
    assert studio.call("GET", f"/organizations/{login}/billing")["billing"]["legal_name"] == "Acme SE"
    again = send(studio.owner, here, **{**ACCOUNT, "was": was_of(answer.text)})
    assert again.status_code == 303


def test_a_logo_is_uploaded_shown_and_removed(studio: Studio, here: str) -> None:
    def put(content: bytes) -> httpx.Response:
        fields = {"csrf": csrf_of(studio.owner)}
        headers = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
        files = {"file": ("logo.png", content, "image/png")}
        return studio.owner.client.post(f"{here}/logo", data=fields, files=files, headers=headers)

    refused = put(b"GIF89a")
    assert refused.status_code == 422
    assert "The logo must be a PNG or a JPEG" in text_of(refused.text)
    assert put(b"\x89PNG\r\n\x1a\n" + b"\0" * 2**20).status_code == 413
    assert "data:image/png" not in page_of(studio.owner, here)
    saved = put(png())
    assert (saved.status_code, saved.headers["location"]) == (303, f"{here}#logo")
    assert 'src="data:image/png;base64,' in page_of(studio.owner, here)
    assert send(studio.owner, f"{here}/logo/remove").status_code == 303
    assert "data:image/png" not in page_of(studio.owner, here)


def test_only_owners_and_admins_can_open_the_settings(studio: Studio, here: str) -> None:
    assert studio.member.get(here).status_code == 403
    assert studio.client.get(here).status_code == 404
    project = f"{studio.base}/settings/billing"
    for person in (studio.member, studio.client):
        assert person.get(project).status_code in (403, 404)
        assert send(person, project, **PROJECT).status_code in (403, 404)


def test_a_project_saves_the_buyer(studio: Studio, here: str) -> None:
    path = f"{studio.base}/settings/billing"
    assert f'href="{path}"' in page_of(studio.owner, f"{studio.base}/settings")
    assert "Fields left blank use the organization’s billing settings." in page_of(studio.owner, path)
    saved(studio, path, PROJECT)
    billing = studio.call("GET", f"{studio.project}/billing")["billing"]
    party = {"name": HOSTILE, "address": "Ring 2", "vat_id": "ATU12345678", "email": None, "country": "AT"}
    assert billing["buyer"] == party
    assert (billing["tax_category"], billing["currency"]) == ("reverse_charge", None)
    wrong = {**PROJECT, "was": was_of(page_of(studio.owner, path)), "buyer_vat_id": "ATU1"}
    answer = send(studio.owner, path, **wrong)
    assert answer.status_code == 422
    assert 'id="buyer_vat_id-fault"' in answer.text
    assert "Tax number" not in text_of(answer.text)


def test_a_person_has_their_own_settings(studio: Studio) -> None:
    path = "/settings/billing"
    page = page_of(studio.member, path)
    answer = send(studio.member, path, **{**ACCOUNT, "was": was_of(page), "legal_name": "M. Ember"})
    assert answer.status_code == 303
    assert 'value="M. Ember"' in page_of(studio.member, path)
    assert 'value="M. Ember"' not in page_of(studio.owner, path)


def test_a_new_invoice_uses_the_settings_and_shows_both_parties(studio: Studio, here: str) -> None:
    saved(studio, here, {**ACCOUNT, "tax": ""})
    saved(studio, f"{studio.base}/settings/billing", PROJECT)
    page = studio.member.get(f"{studio.base}/billing/new")
    [form] = [each for each in forms(page) if "bill_to" in each.fields]
    found = [form.fields[name] for name in ("currency", "tax", "tax_category", "language", "bill_to")]
    assert found == ["EUR", "", "reverse_charge", "de", ""]
    assert "14 days net" in text_of(page.text)
    assert "Defaults to 14 days after the issue date." in text_of(page.text)
    made = send(studio.member, f"{studio.base}/billing/new", **form.fields)
    assert made.status_code == 303
    path = made.headers["location"]
    line = {"description": "Design", "qty": "1", "unit_price": "100"}
    assert send(studio.member, f"{path}/lines", **line).status_code == 303
    text = text_of(page_of(studio.member, path))
    for shown in (
        HOSTILE, "Ring 2", "VAT ID: ATU12345678", "VAT ID: DE123456789", "Tax number: 21/815/08150",
        "DE89 3704 0044 0532 0130 00",
    ):  # fmt: skip
        assert shown in text
    assert "The recipient is missing" not in text
    assert send(studio.member, f"{path}/send").status_code == 303
    saved(studio, f"{studio.base}/settings/billing", {**PROJECT, "buyer_name": "Client SE"})
    text = text_of(page_of(studio.client, path))
    assert "Client SE" not in text
    assert "Invoice R0001" in text


def test_reverse_charge_names_the_missing_vat_id(studio: Studio, here: str) -> None:
    saved(studio, here, {**ACCOUNT, "tax": "", "vat_id": ""})
    saved(studio, f"{studio.base}/settings/billing", PROJECT)
    items = [{"description": "Design", "qty": 1, "unit_price": 100}]
    invoice = studio.call("POST", f"{studio.project}/invoices", invoice_items=items)["invoice"]["id"]
    answer = send(studio.member, f"{studio.base}/billing/{invoice}/send")
    assert "requires your VAT ID" in text_of(answer.text)
