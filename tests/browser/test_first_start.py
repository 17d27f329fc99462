"""From the printed link to the first visible delivery, in a browser, on a new server."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, FilePayload, Page, expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits
from tests.harness.own_process import OwnProcess
from tests.harness.server import Server
from tests.web.browser import PASSWORD
from tests.work.trello import encoded
from tests.work.trello_importer import small

_LINK = re.compile(r"sign-in link for owner, valid once and for an hour: (http\S+)\n")
TWO_MINUTES_S = 120
STILL: dict[str, Any] = {"reduced_motion": "reduce"}  # a page that is still scrolling does not show the focus


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], Server]:
    """Return a function that starts an empty server, which does not deliver to private networks."""
    made = OwnProcess(tmp_path / "data", {"delivery_allow_networks": ""})
    return made.start


@pytest_asyncio.fixture(loop_scope="session")
async def first_visit(browser: Browser, fresh: Callable[[], Server]) -> AsyncIterator[Visits]:
    server = await asyncio.to_thread(fresh)
    visits = Visits(browser, server)
    yield visits
    await visits.close()
    await asyncio.to_thread(server.stop)


async def enter(first_visit: Visits, **how: Any) -> Page:
    """Open the printed link."""
    [link] = _LINK.findall(first_visit.server.first_sign_in())
    page = await first_visit(link.removeprefix(first_visit.server.url), **how)
    await page.get_by_role("button").last.click()
    await expect(page.get_by_role("heading", name="Welcome to Workhook")).to_be_visible()
    return page


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
async def test_a_delivery_arrives_within_two_minutes(first_visit: Visits, scripts: bool) -> None:
    began = time.monotonic()
    page = await enter(first_visit, scripts=scripts)
    await page.get_by_label("Organization name").fill("Acme")
    await page.get_by_label("Your name").fill("Ada")
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_label("Repeat password").fill(PASSWORD)
    await page.get_by_role("button", name="Save and continue").click()
    await page.get_by_label("Title").fill("Website")
    await page.get_by_role("button", name="Create project").click()
    await page.get_by_role("button", name="Create test webhook").click()
    arrived = page.locator(".arrivals > li")
    if scripts:  # the page updates by itself
        await expect(arrived.filter(has_text="ping")).to_have_count(1)
    await page.get_by_role("button", name="Add a card").click()
    if not scripts:
        await expect(page.get_by_role("heading", name="Try a webhook")).to_be_visible()
        await _reload_until(page, "task")
    task = arrived.filter(has_text="task").first
    await expect(task).to_contain_text("valid signature")
    await expect(task.locator("pre")).to_contain_text("My first card")
    took = time.monotonic() - began
    print(f"From the printed link to the delivery: {took:.1f} s")
    assert took < TWO_MINUTES_S
    await page.get_by_role("link", name="Finish").click()
    await expect(page.get_by_role("link", name="Website", exact=True)).to_be_visible()


async def _reload_until(page: Page, event: str) -> None:
    """Reload the page, as a visitor without scripts would."""
    while event not in await page.locator(".arrival-event").all_text_contents():
        await page.reload()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without-scripts"])
async def test_after_the_preview_the_primary_button_imports(visit: Visits, team: Team, scripts: bool) -> None:
    page = await visit(f"/{team.world.organization}/-/import", team.owner, scripts=scripts, width=360)
    look, make = (page.get_by_role("button", name=name) for name in ("Preview", "Import"))
    strong = await look.evaluate("each => getComputedStyle(each).backgroundColor")
    chosen: FilePayload = {"name": "plan.csv", "mimeType": "text/csv", "buffer": b"Title\nOne\n"}
    await page.locator("#file").set_input_files(chosen)
    await look.click()
    await expect(page.locator("#import-plan")).to_contain_text("To be created")
    await expect(make).to_have_css("background-color", strong)  # and only one button has this name
    await expect(look).not_to_have_css("background-color", strong)
    if not scripts:
        await page.locator("#file").set_input_files(chosen)
    await make.click()
    await expect(page.get_by_role("heading", name="Project imported")).to_be_visible()


async def test_a_board_file_is_dropped_onto_the_page(first_visit: Visits) -> None:
    page = await enter(first_visit)
    await page.goto("/welcome/project")
    data = encoded(small({}, {}, {}, name="Relaunch")).decode()
    transfer = await page.evaluate_handle(
        """text => { const transfer = new DataTransfer();
           transfer.items.add(new File([text], 'board.json', {type: 'application/json'})); return transfer }""",
        data,
    )
    heading = page.locator("main h1")
    while not await page.locator("form.drop.over").count():  # the event is lost until the script is running
        await heading.dispatch_event("dragover", {"dataTransfer": transfer})
    await heading.dispatch_event("drop", {"dataTransfer": transfer})
    await expect(page.locator("#import-plan")).to_contain_text("To be created")
    await expect(page.locator("#import-plan .made")).to_contain_text("3 cards")
    await accessible(page)
    # The file is still selected, and no other button has this name.
    await page.get_by_role("button", name="Import").click()
    await expect(page.get_by_role("heading", name="Project imported")).to_be_visible()
    await expect(page.locator(".made")).to_contain_text("3 cards")
    await accessible(page)
    await page.get_by_role("link", name="Continue").click()
    await expect(page.get_by_role("heading", name="Relaunch")).to_be_visible()


async def test_the_steps_are_accessible(first_visit: Visits, width: int, scheme: Scheme) -> None:
    page = await enter(first_visit, width=width, scheme=scheme, **STILL)
    for number, path in enumerate(("/welcome", "/welcome/project", "/welcome/webhook"), 1):
        await page.goto(path)
        await accessible(page)
        await fits(page)
        await keyboard(page)
        await picture(page, f"welcome-{number}")
    await page.get_by_role("button", name="Create test webhook").click()
    await expect(page.locator(".arrivals > li")).to_have_count(1)
    await accessible(page)
    await fits(page)
    await picture(page, "welcome-arrived")


@pytest.mark.whole
async def test_the_receiver_and_the_import_are_accessible(
    visit: Visits, team: Team, width: int, scheme: Scheme
) -> None:
    page = await visit(f"/{team.world.full_name}/webhooks/receiver", team.owner, width=width, scheme=scheme, **STILL)
    await picture(page, "receiver-none")
    await page.get_by_role("button", name="Create test webhook").click()
    await expect(page.locator(".arrivals > li")).to_have_count(1)
    await page.get_by_role("button", name="Add a card").click()
    await expect(page.locator(".arrivals > li")).to_have_count(3)  # the ping, a column and the card
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await picture(page, "receiver")
    await page.goto(f"/{team.world.organization}/-/import")
    await accessible(page)
    await fits(page)
    await picture(page, "import")
    labels = [{"id": "a", "name": "Bug", "color": "red"}]
    card = {"name": "n" * 300, "labels": labels, "idMembers": ["m"]}
    members = [{"id": "m", "username": "jana", "fullName": "Jana Köhler"}]
    board = small(card, {}, labels=labels, members=members, desc="Our site")
    chosen: FilePayload = {"name": "board.json", "mimeType": "application/json", "buffer": encoded(board)}
    await page.locator("#file").set_input_files(chosen)
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator("#import-plan")).to_contain_text("Project description: 1")
    await accessible(page)
    await fits(page)
    await keyboard(page)
    await picture(page, "import-plan")


async def test_import_settings_are_sent_with_the_file(visit: Visits, team: Team) -> None:
    page = await visit(f"/{team.world.organization}/-/import", team.owner)
    table = "Titel;Status;Zuständig;Kunde\nEins;Bezahlt;Jana;Müller\n".encode()
    chosen: FilePayload = {"name": "plan (1).csv", "mimeType": "text/csv", "buffer": table}
    await page.locator("#file").set_input_files(chosen)
    await page.get_by_role("button", name="Preview").click()
    plan = page.locator("#import-plan")
    await expect(plan).to_contain_text("Creates a new project “plan”.")
    await expect(plan).to_contain_text("Kunde → custom field")
    await accessible(page)
    await plan.get_by_label("Project name").fill("Umbau")
    await plan.get_by_label("Bezahlt").check()
    await plan.get_by_label("Jana").select_option(team.member.login)
    await page.get_by_role("button", name="Preview").click()
    await expect(plan).to_contain_text("Creates a new project “Umbau”.")
    await expect(plan.get_by_label("Bezahlt")).to_be_checked()
    await expect(plan.get_by_label("Jana")).to_have_value(team.member.login)
    await page.get_by_role("button", name="Import").click()
    await expect(page.get_by_role("heading", name="Project imported")).to_be_visible()
    await expect(page.get_by_role("heading", name="Umbau")).to_be_visible()
    await expect(page.locator("main")).not_to_contain_text("No user matches")
