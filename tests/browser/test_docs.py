"""The documentation: the API reference with its forms, and the guide with its search."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import HEIGHTS, Scheme, Visits


async def opened(page: Page) -> None:
    """Wait until the operation of the address is open."""
    await expect(page.get_by_role("heading", name="Samples")).to_be_visible()


@pytest.mark.whole
async def test_an_operation_is_tried_with_a_token_instead_of_the_session(visit: Visits, team: Team) -> None:
    page = await visit("/docs#user_get", team.owner)
    await opened(page)
    status = page.locator(".live-responses-table .response-col_status").last
    await page.get_by_role("button", name="Try it out").click()
    visit.expect_trouble("status of 401")
    await page.get_by_role("button", name="Execute").click()
    await expect(status).to_contain_text("401")
    await page.get_by_role("button", name="Authorize").first.click()
    await page.get_by_label("Value").first.fill(team.member.token)
    await page.get_by_role("dialog").get_by_role("button", name="Apply credentials").first.click()
    await page.get_by_role("button", name="Close").first.click()
    await page.get_by_role("button", name="Execute").click()
    await expect(status).to_contain_text("200")
    await expect(page.locator(".live-responses-table")).to_contain_text(team.member.login)


@pytest.mark.whole
async def test_samples_contain_what_the_operation_needs(visit: Visits) -> None:
    page = await visit("/docs#create_task")
    await opened(page)
    samples = page.locator(".samples details")
    for name, words in (("curl", "curl -X POST"), ("Python", "httpx.request"), ("JavaScript", "await fetch")):
        sample = samples.filter(has=page.get_by_text(name, exact=True)).locator("pre")
        await expect(sample).to_contain_text(words)
        await expect(sample).to_contain_text("/api/v1/columns/{id}/tasks")
        await expect(sample).to_contain_text('"title": "text"')


@pytest.mark.whole
@pytest.mark.variants("anchor")
@pytest.mark.parametrize("anchor", ["", "#create_task"], ids=["closed", "open"])
async def test_the_reference_is_accessible(visit: Visits, team: Team, anchor: str) -> None:
    """The page is loaded only once, because drawing its operations takes the browser seconds."""
    page = await visit(f"/docs{anchor}", team.owner if anchor else None, reduced_motion="reduce")
    if anchor:
        await opened(page)
    await expect(page.get_by_text("Loading operations…")).to_have_count(0)
    looks: list[tuple[int, Scheme]] = [(1440, "light"), (360, "dark")]
    for width, scheme in looks:
        await page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        await picture(page, f"docs-{'open' if anchor else 'closed'}")
        await accessible(page)
        await fits(page)
        if not anchor:
            await keyboard(page)


@pytest.mark.whole
async def test_operations_are_found_by_name(visit: Visits) -> None:
    page = await visit("/docs")
    tags = page.locator(".opblock-tag")
    await expect(tags).not_to_have_count(0)
    await page.get_by_label("Filter by path, name or tag").fill("create_column")
    await expect(tags).to_have_count(1)
    await tags.click()
    await expect(page.locator(".opblock")).to_have_count(1)


CALLS_MAX = 20_000_000
"""Maximum number of function calls of the viewer until the reference is shown. Converting the whole document, as the
viewer does by default, takes five times as many."""


@pytest.mark.whole
async def test_the_reference_does_not_block_the_browser(visit: Visits) -> None:
    page = await visit("/docs")
    profiler = await page.context.new_cdp_session(page)
    await profiler.send("Profiler.enable")
    await profiler.send("Profiler.startPreciseCoverage", {"callCount": True})
    await page.reload()
    await expect(page.locator(".opblock-tag")).not_to_have_count(0)
    await expect(page.get_by_role("button", name="Authorize").first).to_be_visible()
    scripts = (await profiler.send("Profiler.takePreciseCoverage"))["result"]
    functions = [each for script in scripts if "swagger-ui" in script["url"] for each in script["functions"]]
    assert functions
    assert sum(each["ranges"][0]["count"] for each in functions) < CALLS_MAX


GUIDE = {
    "/docs/guide/operators/security": "guide",
    "/docs/guide/integrators/api": "guide-table",
    "/docs/search?q=signature": "guide-search",
}


@pytest.mark.parametrize("path", GUIDE)
async def test_the_guide_is_accessible(visit: Visits, path: str, width: int, scheme: Scheme) -> None:
    page = await visit(path, width=width, scheme=scheme, reduced_motion="reduce")
    await picture(page, GUIDE[path])
    await accessible(page)
    await fits(page)
    await keyboard(page)


@pytest.mark.whole
async def test_the_guide_can_be_searched(visit: Visits, team: Team) -> None:
    page = await visit("/docs", team.member)
    await page.get_by_role("searchbox", name="Search the guide").fill("verify delivery")
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="Verify a delivery").first.click()
    await expect(page.get_by_role("heading", name="Verify a delivery")).to_be_in_viewport()
