"""The examples of the page on e-invoices work as documented."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from tests.docs.pages import blocks, parse_json_output
from tests.docs.reader import guided

SELLER, TAX_NUMBER, BUYER, TIMEZONE, SERVICE, DOWNLOAD = blocks("docs/team/e-invoices.md", "sh")
LINE = '{"invoice_items": [{"description": "Hosting", "qty": 1, "unit_price": 10}]}'


def test_an_e_invoice_can_be_downloaded(tmp_path: Path) -> None:
    with guided(tmp_path) as page:
        page.shell.run(f"API=$W/api/v1 PROJECT={page.project}\n")
        for block in (SELLER, TAX_NUMBER, BUYER, TIMEZONE):
            assert parse_json_output(page.shell.run(block))["success"], block
        invoice = parse_json_output(page.shell.run(f"curl -s -H \"$A\" $API/projects/$PROJECT/invoices -d '{LINE}'"))[
            "invoice"
        ]
        page.shell.run(f"INVOICE={invoice['id']}\n")
        assert parse_json_output(page.shell.run(SERVICE))["invoice"]["service_to"] == "2026-11-30"
        page.shell.run('curl -s -X POST -H "$A" $API/invoices/$INVOICE/send')
        credit = """-d '{"total": 1, "reason": "Late"}'"""
        note = parse_json_output(page.shell.run(f'curl -s -H "$A" $API/invoices/$INVOICE/credit_notes {credit}'))[
            "credit_note"
        ]
        page.shell.run(f"NOTE={note['id']}\n{DOWNLOAD}")
        for name in ("invoice.xml", "credit-note.xml"):
            assert ET.parse(tmp_path / name).getroot().tag.endswith("CrossIndustryInvoice"), name
