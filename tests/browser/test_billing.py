"""The billing of a project in a browser: invoices, subscriptions and credits, and the services of an organization."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.server import Server


def draft_invoice(server: Server, team: Team) -> str:
    items = [{"description": "Design " * 20, "qty": 1.5, "unit_price": 1000.01}]
    body = {"currency": "EUR", "tax": 19, "bill_to": "W" * 200, "invoice_items": items}
    return str(ask(server, team, f"/projects/{team.world.project_id}/invoices", **body)["invoice"]["id"])


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_unbilled_time_is_added_to_a_draft(visit: Visits, server: Server, team: Team, scripts: bool) -> None:
    draft_invoice(server, team)
    project = f"/projects/{team.world.project_id}"
    column = ask(server, team, f"{project}/columns", title="Doing")["column"]["id"]
    task = ask(server, team, f"/columns/{column}/tasks", title="Draw the page")["task"]["id"]
    given = {"task_id": task, "duration": 12_000_000, "billable": True, "billable_rate": 90}
    ask(server, team, f"{project}/timesheets", **given)
    page = await visit(f"/{team.world.full_name}/billing/new", team.member, scripts=scripts, width=360)
    await expect(page.get_by_label("Add unbilled time (3:20)")).not_to_be_checked()
    if scripts:
        await fits(page)
    await page.goto(f"/{team.world.full_name}/billing")
    await page.get_by_role("link", name="Draft invoice").click()
    await expect(page.get_by_role("heading", name="Unbilled time")).to_be_visible()
    if scripts:
        await fits(page)
    await page.get_by_role("button", name="Add unbilled time (3:20)").click()
    main = page.get_by_role("main")
    await expect(main).to_contain_text(re.compile(r"3:20 . 90\.00 EUR"))
    await expect(main.get_by_role("button", name="Add unbilled time")).to_have_count(0)


def ask(server: Server, team: Team, path: str, **body: Any) -> dict[str, Any]:
    with server.client(team.owner.token) as api:
        made = api.post(f"/api/v1{path}", json=body)
        assert made.is_success, made.text
        found: dict[str, Any] = made.json()
        return found


def made_service(server: Server, team: Team, title: str = "Care") -> dict[str, Any]:
    prices = [
        {"amount": 1250, "currency": "EUR", "interval": "month", "credits": 12.5},
        {"amount": 12000, "currency": "EUR", "interval": "year"},
    ]
    body = {"title": title, "organization": team.world.organization, "service_prices": prices}
    found: dict[str, Any] = ask(server, team, "/services", **body)["service"]
    return found


def subscribed(server: Server, team: Team, *, start: bool = True) -> str:
    service = made_service(server, team)
    there = f"/projects/{team.world.project_id}/service_checkouts"
    made = ask(server, team, there, service_id=service["id"])["service_checkout"]["id"]
    if start:
        ask(server, team, f"/service_checkouts/{made}/complete")
    return str(made)


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
    await accessible(page)
    await fits(page)
    await picture(page, "invoice-draft")
    await page.get_by_text("Issue invoice…").click()
    await page.get_by_role("button", name="Issue invoice").click()
    await page.get_by_text("Record payment…").wait_for()
    await page.locator("#toasts .toast").wait_for()
    await page.reload()
    await accessible(page)
    await fits(page)
    await picture(page, "invoice")
    await page.get_by_text("Record payment…").click()
    await page.get_by_text("Issue credit note…").click()
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await picture(page, "invoice-forms")
    await page.get_by_role("button", name="Record payment").click()
    await expect(page.get_by_role("main")).to_contain_text("Paid:")
    await page.get_by_text("Refund…").click()
    await page.get_by_label("Amount (EUR)").fill("1.00")
    await accessible(page)
    await fits(page)
    await page.get_by_role("button", name="Record refund").click()
    await expect(page.get_by_role("main")).to_contain_text("Partially paid")
    await expect(page.get_by_role("main")).to_contain_text("Amount due: 1.00")
    await picture(page, "invoice-money")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_a_draft_is_edited(visit: Visits, team: Team, scripts: bool) -> None:
    visit.expect_trouble("status of 422")
    page = await visit(f"/{team.world.full_name}/billing", team.member, scripts=scripts)
    await page.get_by_role("link", name="New invoice").click()
    await page.get_by_label("Bill to").fill("Acme")
    await page.get_by_label("Currency").select_option("EUR")
    await page.get_by_label("Tax (%)").fill("19 %")
    await page.get_by_role("button", name="Create draft").click()
    main = page.get_by_role("main")
    await expect(main).to_contain_text("No line items yet.")
    await page.get_by_label("Description").fill("Design")
    await page.get_by_label("Quantity").fill("2")
    await page.get_by_label("Unit price (EUR)").fill("lots")
    await page.get_by_role("button", name="Add line item").click()
    await expect(main).to_contain_text("“lots” is not an amount.")
    await expect(page.get_by_label("Description")).to_have_value("Design")
    await page.get_by_label("Unit price (EUR)").fill("1,250.00")
    await page.get_by_role("button", name="Add line item").click()
    await expect(main).to_contain_text("2,975.00 EUR")
    await expect(page.get_by_label("Description")).to_have_value("")
    await page.get_by_label("Edit line item 1").click()
    await expect(main).to_contain_text("Edit line item")
    await page.get_by_label("Quantity").fill("1.5")
    await page.get_by_role("button", name="Save").click()
    await expect(main).to_contain_text("2,231.25 EUR")
    await page.get_by_role("button", name="Remove line item 1").click()
    await expect(main).to_contain_text("No line items yet.")
    await page.get_by_role("button", name="Undo").click()
    await expect(main).to_contain_text("2,231.25 EUR")
    await page.reload()  # without the message that covers the page
    await page.get_by_text("Delete draft…").click()
    await page.get_by_role("button", name="Delete draft permanently").click()
    await expect(main).to_contain_text("No invoices yet.")


async def test_invoice_forms_are_accessible(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme
) -> None:
    visit.expect_trouble("status of 422")
    visit.expect_trouble("status of 409")
    base = f"/{team.world.full_name}/billing"
    invoice = draft_invoice(server, team)
    page = await visit(f"{base}/new", team.member, width=width, scheme=scheme)
    await keyboard(page)
    await page.get_by_label("Tax (%)").fill("lots")
    await page.get_by_role("button", name="Create draft").click()
    await page.get_by_text("“lots” is not a number.").wait_for()
    await accessible(page)
    await fits(page)
    await picture(page, "invoice-new")
    await page.goto(f"{base}/{invoice}/lines/1")
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await page.goto(f"{base}/{invoice}/edit")
    with server.client(team.owner.token) as api:
        api.patch(f"/api/v1/invoices/{invoice}", json={"bill_to": "V" * 200}).raise_for_status()
    await page.get_by_label("Bill to").fill("U" * 200)
    await page.get_by_role("button", name="Save").click()
    await page.get_by_text("Someone else changed this while you were editing.").wait_for()
    await expect(page.get_by_label("Bill to")).to_have_value("U" * 200)
    await accessible(page)
    await fits(page)
    await picture(page, "invoice-changed")
    await page.get_by_role("button", name="Save").click()
    await expect(page).to_have_url(re.compile("/billing/inv_[^/]+$"))
    await expect(page.get_by_role("main")).to_contain_text("U" * 200)
    await page.reload()  # without the message that covers the page
    await keyboard(page)


async def test_a_project_subscribes_to_a_service(visit: Visits, team: Team) -> None:
    page = await visit(f"/{team.world.full_name}/billing", team.owner)
    parts = page.get_by_role("navigation", name="Billing sections")
    await parts.get_by_role("link", name="Services").click()
    await page.get_by_role("link", name="New service").click()
    await page.get_by_label("Title").fill("Care")
    await page.get_by_label("Amount").fill("1,250.00")
    await page.get_by_label("Included credits").fill("12.5")
    await page.get_by_role("button", name="Create service").click()
    await expect(page.get_by_role("heading", name="Care")).to_be_visible()
    await page.locator("summary", has_text="Add price").click()
    await page.get_by_label("Amount").fill("12000")
    await page.get_by_label("Billing interval").select_option("year")
    await page.get_by_role("button", name="Add price").click()
    await page.get_by_role("button", name="Make default").click()
    await expect(page.locator("#toasts .toast")).to_contain_text("Default price changed.")
    main = page.get_by_role("main")
    await page.goto(f"/{team.world.full_name}/billing/subscriptions")
    await page.get_by_role("link", name="New subscription").click()
    await page.get_by_label("Care: 1,250.00 EUR per month").check()
    await page.get_by_role("button", name="Create subscription").click()
    await expect(main).to_contain_text("renews on")
    await page.get_by_role("button", name="Pause").click()
    await expect(main).to_contain_text("paused since")
    await page.get_by_role("button", name="Resume").click()
    await expect(main).to_contain_text("renews on")
    await page.get_by_text("Cancel subscription…").click()
    await page.get_by_label("Reason").fill("Too dear")
    await page.get_by_role("button", name="Cancel subscription").click()
    await expect(main).to_contain_text("ended on")
    await parts.get_by_role("link", name="Credits").click()
    await expect(main).to_contain_text("12.50")
    await parts.get_by_role("link", name="Invoices").click()
    await expect(main).to_contain_text("1,250.00 EUR")


@pytest.mark.whole
async def test_services_are_accessible(visit: Visits, server: Server, team: Team, width: int, scheme: Scheme) -> None:
    visit.expect_trouble("status of 422")
    base = f"/{team.world.organization}/-/services"
    service = made_service(server, team, "Care" * 40)
    page = await visit(base, team.owner, width=width, scheme=scheme)
    for name, path in (("services", base), ("service", f"{base}/{service['id']}"), ("service-new", f"{base}/new")):
        await page.goto(path)
        await accessible(page)
        await fits(page)
        await picture(page, name)
        await keyboard(page)
    await page.get_by_label("Title").fill("Care")
    await page.get_by_label("Maximum pauses").fill("many")
    await page.get_by_label("Amount").fill("lots")
    await page.get_by_role("button", name="Create service").click()
    await page.get_by_text("“lots” is not an amount.").wait_for()
    await accessible(page)
    await fits(page)


@pytest.mark.variants("role")
@pytest.mark.parametrize("role", ["owner", "client"])
async def test_subscriptions_are_accessible(
    visit: Visits, server: Server, team: Team, width: int, scheme: Scheme, role: str
) -> None:
    base = f"/{team.world.full_name}/billing/subscriptions"
    subscription = subscribed(server, team)
    page = await visit(base, team.everybody[role], width=width, scheme=scheme)
    pages = {"subscriptions": base, "subscription": f"{base}/{subscription}"}
    if role == "owner":
        pages["subscribe"] = f"{base}/new"
    for name, path in pages.items():
        await page.goto(path)
        await accessible(page)
        await fits(page)
        await keyboard(page)
        await picture(page, f"{name}-of-{role}")
    if role == "client":
        await expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)
        parts = page.get_by_role("navigation", name="Billing sections").get_by_role("link")
        await expect(parts).to_have_text([re.compile("Invoices"), re.compile("Subscriptions")])


async def test_credits_are_accessible(visit: Visits, server: Server, team: Team, width: int, scheme: Scheme) -> None:
    visit.expect_trouble("status of 409")
    project = f"/projects/{team.world.project_id}"
    column = ask(server, team, f"{project}/columns", title="To do")["column"]["id"]
    ask(server, team, f"/columns/{column}/tasks", title="Paid for " * 20)
    ask(server, team, f"{project}/task_credits", amount=1250.5, notes="Granted " * 40)
    page = await visit(f"/{team.world.full_name}/billing/credits", team.member, width=width, scheme=scheme)
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await page.get_by_label("Credits to spend").fill("2,000")
    await page.get_by_label("Task", exact=True).select_option(index=1)
    await page.get_by_role("button", name="Spend credits").click()
    await page.get_by_text("The balance is 1250.5, so 2000 cannot be spent.").wait_for()
    await expect(page.get_by_label("Credits to spend")).to_have_value("2,000")
    await accessible(page)
    await fits(page)
    await page.get_by_label("Credits to spend").fill("50.5")
    await page.get_by_role("button", name="Spend credits").click()
    await expect(page.get_by_role("main")).to_contain_text("1,200")
    await expect(page.get_by_label("Credits to spend")).to_have_value("")
    await picture(page, "credits")
    await page.get_by_role("button", name="Reverse the credits spent on").click()
    await expect(page.get_by_role("main")).to_contain_text("reversed")
