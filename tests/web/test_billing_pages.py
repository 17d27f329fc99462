"""The invoices of a project, as those who may see them do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.server import Server
from tests.web.places_kit import add_in, signed_in
from tests.web.studio import HOSTILE, Studio, open_studio, page_of, send, text_of


@pytest.fixture
def studio(server: Server) -> Iterator[Studio]:
    with open_studio(server) as studio:
        yield studio


def draft_in(studio: Studio) -> str:
    items = [{"description": HOSTILE, "qty": 1.5, "unit_price": 1000.01}]
    body = {"currency": "EUR", "tax": 19, "bill_to": HOSTILE, "invoice_items": items}
    return str(studio.call("POST", f"{studio.project}/invoices", **body)["invoice"]["id"])


def test_from_draft_to_paid(studio: Studio) -> None:
    base = f"{studio.base}/billing"
    assert "There are no invoices yet." in text_of(page_of(studio.member, base))
    path = f"{base}/{draft_in(studio)}"
    for page in (page_of(studio.member, base), page_of(studio.member, path)):
        assert "<img" not in page[page.index("<main") :]
        assert HOSTILE in text_of(page)
        assert "1,785.02 EUR" in text_of(page)
    assert send(studio.member, f"{path}/pay").status_code == 409
    for step, seen in (("send", "Open"), ("pay", "Paid")):
        answer = send(studio.member, f"{path}/{step}")
        assert (answer.status_code, answer.headers["location"]) == (303, path), answer.text
        assert seen in text_of(page_of(studio.member, path))
    assert send(studio.owner, f"{path}/void").status_code == 409


def test_an_issued_invoice_becomes_void(studio: Studio) -> None:
    path = f"{studio.base}/billing/{draft_in(studio)}"
    send(studio.owner, f"{path}/send")
    assert send(studio.owner, f"{path}/void").status_code == 303
    assert "Void" in text_of(page_of(studio.owner, path))


def test_clients_see_what_was_issued_and_change_nothing(studio: Studio) -> None:
    base = f"{studio.base}/billing"
    path = f"{base}/{draft_in(studio)}"
    assert "There are no invoices yet." in text_of(page_of(studio.client, base))
    assert studio.client.get(path).status_code == 404
    assert studio.client.get(f"{path}/pdf").status_code == 404
    send(studio.owner, f"{path}/send")
    assert "Mark as paid" not in page_of(studio.client, path)
    assert send(studio.client, f"{path}/pay").status_code == 403
    assert studio.client.get(f"{path}/pdf").content.startswith(b"%PDF")


def test_strangers_find_no_invoice(server: Server, studio: Studio) -> None:
    invoice = draft_in(studio)
    with open_studio(server) as other:
        for base in (studio.base, other.base):
            assert other.owner.get(f"{base}/billing/{invoice}").status_code == 404
            assert other.owner.get(f"{base}/billing/{invoice}/pdf").status_code == 404
            assert send(other.owner, f"{base}/billing/{invoice}/send").status_code == 404


def test_those_who_only_read_change_nothing(server: Server, studio: Studio) -> None:
    path = f"{studio.base}/billing/{draft_in(studio)}"
    with signed_in(server, add_in(server, studio.team.world, "read")) as reader:
        assert "Issue the invoice" not in page_of(reader, path)
        assert send(reader, f"{path}/send").status_code == 403
    assert "Issue the invoice" in page_of(studio.member, path)
