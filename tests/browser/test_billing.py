"""The invoices of a project in a browser."""

from __future__ import annotations

import re

from playwright.async_api import expect

from tests.browser.checks import accessible, fits, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server


def draft_invoice(server: Server, team: Team) -> None:
    items = [{"description": "Design " * 20, "qty": 1.5, "unit_price": 1000.01}]
    body = {"currency": "EUR", "tax": 19, "bill_to": "W" * 200, "invoice_items": items}
    with server.client(team.owner.token) as api:
        made = api.post(f"/api/v1/projects/{team.world.project_id}/invoices", json=body)
        assert made.is_success, made.text


async def test_an_invoice_is_issued_and_paid(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme
) -> None:
    draft_invoice(server, team)
    page = await visit(f"/{team.world.full_name}/billing", team.owner, width=width, scheme=scheme)
    await accessible(page)
    await fits(page)
    await picture(page, "invoices")
    await page.get_by_role("link", name="Draft invoice").click()
    await expect(page).to_have_url(re.compile("/billing/inv_"))
    await page.get_by_role("button", name="Issue the invoice").click()
    await page.get_by_role("button", name="Mark as paid").wait_for()
    await page.locator("#toasts .toast").wait_for()
    await page.reload()
    await accessible(page)
    await fits(page)
    await picture(page, "invoice")
    await page.get_by_role("button", name="Mark as paid").click()
    await expect(page.get_by_role("main")).to_contain_text("Paid")
