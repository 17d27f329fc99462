"""`docs/team/first-project.md`, followed on the pages until the invoice has a PDF."""

from __future__ import annotations

import html
import re

import httpx

from tests.docs.pages import ROOT
from tests.harness.server import Server
from tests.web.browser import forms
from tests.web.studio import open_studio, text_of

PAGE = (ROOT / "docs" / "team" / "first-project.md").read_text(encoding="utf-8")
PARTY = {"address": "Ring 1", "country": "AT", "vat_id": "ATU12345675"}


def names_of(page: str) -> set[str]:
    """Return the names of buttons, fields, and pages in a page of the documentation."""
    written = re.findall(r"\*\*([^*]+)\*\*", " ".join(page.split()))
    return {name for each in written for name in each.split(" ▸ ")}


def test_the_first_project_ends_with_an_invoice(server: Server) -> None:
    with open_studio(server) as studio:
        owner, place, board = studio.owner, f"/{studio.team.world.organization}", studio.base
        settings = f"{board}/settings/billing"
        seen: list[str] = []

        def look(path: str) -> httpx.Response:
            answer = owner.get(path)
            assert answer.status_code == 200, path
            seen.append(html.unescape(answer.text))
            return answer

        def fill(path: str, action: str | None = None, **fields: str) -> str:
            """Fill in a form of the page, and return the address that it leads to."""
            look(path)
            answer = owner.fill(path, action, **fields)
            assert answer.status_code == 303, answer.text
            return str(answer.headers["location"])

        look(place)
        look(f"{board}/settings")
        task = studio.add_task(studio.add_column("Doing"), "Draw")
        fill(f"{board}/time", f"{board}/time/entries", task_id=task, duration="1:00")
        fill(settings, hourly_rate="90", billable="true")
        fill(f"{board}/time", f"{board}/time/entries", task_id=task, duration="1:30")
        earlier = re.findall(rf'href="({board}/time/\w+)[?"]', look(f"{board}/time").text)
        entry = next(each for each in earlier if 'value="1:00"' in owner.get(each).text)
        fill(entry, f"{entry}/edit", billable="true")

        fill(f"{place}/settings/billing", legal_name="Acme", **PARTY)
        fill(settings, buyer_name="Client", buyer_address="Ring 2", buyer_country="AT")
        look(f"{board}/billing")
        invoice = fill(f"{board}/billing/new", unbilled="1").partition("?")[0]
        [form] = [each for each in forms(look(invoice)) if each.action.endswith("/send")]
        assert owner.post(form.action, form.fields).status_code == 303
        assert "Total: 225.00" in text_of(look(invoice).text), "both entries are billed"
        assert owner.get(f"{invoice}/pdf").content.startswith(b"%PDF")

        shown = " ".join(seen)
        assert sorted(each for each in names_of(PAGE) if each not in shown) == []
