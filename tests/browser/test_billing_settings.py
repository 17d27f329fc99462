"""Billing settings in a browser, on a phone and a desktop: seller, buyer, and both on an invoice."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import expect

from tests.browser.checks import accessible, fits, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server
from tests.work.paper import png

LONG = "W" * 60
IBAN = "DE89 3704 0044 0532 0130 00"


async def test_the_seller_is_saved_with_a_logo(
    visit: Visits, team: Team, width: int, scheme: Scheme, tmp_path: Path
) -> None:
    page = await visit(f"/{team.world.organization}/settings", team.owner, width=width, scheme=scheme)
    await page.get_by_role("link", name="Billing", exact=True).click()
    visit.expect_trouble("status of 422")
    await page.get_by_label("Name on invoices").fill(LONG)
    await page.get_by_label("Address", exact=True).fill("Lindenstr. 1\n10969 Berlin")
    await page.get_by_label("IBAN").fill("DE89 3704 0044 0532 0130 01")
    await page.get_by_label("Days until due").fill("14")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_text("The IBAN’s check digits are wrong")).to_be_visible()
    await expect(page.get_by_label("IBAN")).to_have_attribute("aria-invalid", "true")
    await accessible(page)
    await fits(page)
    await picture(page, "billing-settings-refused")
    await page.get_by_label("IBAN").fill(IBAN)
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_text("Billing settings saved.")).to_be_visible()
    file = tmp_path / "logo.png"
    file.write_bytes(png(40, 20))
    await page.locator("#file").set_input_files(file)
    await page.get_by_role("button", name="Save logo").click()
    await expect(page.get_by_role("img", name="Invoice logo")).to_be_visible()
    await accessible(page)
    await fits(page)
    await picture(page, "billing-settings")


async def test_the_buyer_is_saved_and_both_parties_appear_on_the_invoice(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme
) -> None:
    items = [{"description": "Design", "qty": 1, "unit_price": 100}]
    with server.client(team.owner.token) as api:
        seller = {"legal_name": "Acme GmbH", "address": "Lindenstr. 1", "vat_id": "DE123456789", "iban": IBAN}
        account = f"/api/v1/organizations/{team.world.organization}/billing"
        api.patch(account, json={**seller, "bic": "COBADEFFXXX"}).raise_for_status()
        invoices = f"/api/v1/projects/{team.world.project_id}/invoices"
        made = api.post(invoices, json={"invoice_items": items}).raise_for_status().json()["invoice"]["id"]
    page = await visit(f"/{team.world.full_name}/settings", team.owner, width=width, scheme=scheme)
    await page.get_by_role("link", name="Billing settings").click()
    await page.get_by_label("Name", exact=True).fill("Client AG")
    await page.get_by_label("Address", exact=True).fill("Ring 2\n1010 Wien")
    await page.get_by_label("VAT ID").fill("ATU12345678")
    await page.get_by_label("Tax category").select_option("Reverse charge")
    await accessible(page)
    await fits(page)
    await picture(page, "project-billing")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_text("Billing settings saved.")).to_be_visible()
    await page.goto(f"{server.url}/{team.world.full_name}/billing/{made}")
    for shown in ("Acme GmbH", "Client AG", "DE123456789", "ATU12345678", IBAN):
        await expect(page.get_by_text(shown).first).to_be_visible()
    await accessible(page)
    await fits(page)
    await picture(page, "invoice-parties")


async def test_days_follow_the_time_zone_of_the_studio_and_rounding_is_explained(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme
) -> None:
    """The entry starts at half past midnight in Berlin and lasts 50 minutes, which the invoice rounds up to an hour."""
    account = f"/{team.world.organization}/settings/billing"
    with server.client(team.owner.token) as api:
        billing = {"currency": "EUR", "hourly_rate": 80.5, "billable": True, "round_minutes": 15}
        api.patch(f"/api/v1/organizations/{team.world.organization}/billing", json=billing).raise_for_status()
        project = f"/api/v1/projects/{team.world.project_id}"
        column = api.post(f"{project}/columns", json={"title": "Doing"}).json()["column"]["id"]
        task = api.post(f"/api/v1/columns/{column}/tasks", json={"title": "Photos"}).json()["task"]["id"]
        spent = {"task_id": task, "start_time": "2026-01-31T23:30:00Z", "duration": 50 * 60_000, "billable": True}
        api.post(f"{project}/timesheets", json=spent).raise_for_status()
    page = await visit(account, team.owner, width=width, scheme=scheme, timezone_id="Pacific/Auckland")
    await page.get_by_label("Time zone").select_option("Europe/Berlin")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_text("Billing settings saved.")).to_be_visible()
    await expect(page.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    await accessible(page)
    await fits(page)
    await page.goto(f"{server.url}/{team.world.full_name}/time/report?from=2026-01-26&to=2026-02-08")
    await expect(page.locator("#foreseen")).to_contain_text("The invoice would include 1:00 for 80.50 EUR.")
    await expect(page.locator("#invoice-form")).to_contain_text("Unbilled time: 0:50 (67.08 EUR).")
    await accessible(page)
    await fits(page)
    await page.get_by_role("button", name="Create invoice").click()
    await expect(page.get_by_text("Photos (1 Feb 2026)")).to_be_visible()
    await expect(page.locator("#rounded")).to_contain_text("Tracked: 0:50, billed: 1:00.")
    await accessible(page)
    await fits(page)
