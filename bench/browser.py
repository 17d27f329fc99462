"""W6 to W9: how long users wait in a browser. Chromium, with its CPU slowed down by a factor of four where stated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from playwright.async_api import Browser, Page, async_playwright

from bench.figures import Figure, median_text, recorded_trouble
from bench.pages import CARDS, Studio
from bench.processes import CannotMeasure
from bench.shared import Shared
from tests.browser.checks import measure
from tests.browser.chromium import launch

SLOWED = 4
MANY_CARDS, MANY_COLUMNS = 1_000, 5
KEYS = ("j", "j", "ArrowDown", "Shift+ArrowRight", "x", "Escape")
WIDTH, HEIGHT = 1440, 900

# An interaction lasts until the next frame is painted (Event Timing). Those below 16 ms are not reported.
_WATCH = """() => {
  window.benchEvents = []
  new PerformanceObserver(list => window.benchEvents.push(...list.getEntries().map(each => each.duration)))
    .observe({type: 'event', durationThreshold: 16})
}"""
_LONGEST_EVENT = """() => new Promise(resolve => requestAnimationFrame(() => setTimeout(
  () => resolve(Math.max(0, ...window.benchEvents)), 100)))"""
# Scrolls every list of cards, and the page, from top to bottom, 200 pixels per frame. Tasks over 50 ms are long tasks.
_SCROLL = """async () => {
  const long = []
  const watch = new PerformanceObserver(list => long.push(...list.getEntries().map(each => each.duration)))
  watch.observe({type: 'longtask'})
  const frame = () => new Promise(requestAnimationFrame)
  let frames = 0
  for (const each of [...document.querySelectorAll('.cards'), document.scrollingElement]) {
    for (let before = -1; before !== each.scrollTop; frames += 1) {
      before = each.scrollTop
      each.scrollBy(0, 200)
      await frame()
    }
  }
  await new Promise(resolve => setTimeout(resolve, 100))
  return {longest: Math.max(0, ...long), frames}
}"""


def figures(shared: Shared) -> Iterator[Figure]:
    """Measure the figures that the plan includes."""
    every = [
        Figure("W6", f"a board of {CARDS} cards, largest paint, CPU slowed {SLOWED} times", "ms", "at most", 1000),
        Figure("W7", "the same, how much moves about by itself", "CLS", "at most", 0.02),
        Figure("W8", "the same, the longest of six keys until it is painted", "ms", "at most", 100),
        Figure("W9", f"{MANY_CARDS:,} cards are scrolled, the longest task", "ms", "at most", 50),
    ]
    wanted = {each.id: each for each in every if each.id in shared.plan.only}
    if not wanted:
        return
    with recorded_trouble(*wanted.values()), Studio(shared, "browser") as studio:
        for _ in range(MANY_COLUMNS):
            studio.board.column(studio.board.projects[1], MANY_CARDS // MANY_COLUMNS)
        asyncio.run(_measure(shared, studio, wanted))
    yield from wanted.values()


async def _measure(shared: Shared, studio: Studio, wanted: dict[str, Figure]) -> None:
    async with async_playwright() as playwright:
        browser = await launch(playwright)
        for _ in range(shared.plan.rounds):
            for name, value in (await _round(browser, studio)).items():
                if name in wanted:
                    wanted[name].rounds.append(value)
                    wanted[name].made += 1
        await browser.close()
    for figure in wanted.values():
        figure.details = {figure.unit: median_text(figure.rounds, "{:.3f}" if figure.id == "W7" else "{:.0f}")}


async def _round(browser: Browser, studio: Studio) -> dict[str, float]:
    """Measure one round with an empty browser cache."""
    page = await _page(browser, studio)
    session = await page.context.new_cdp_session(page)
    await session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
    await page.goto(studio.project)
    seen = await measure(page)
    await page.wait_for_function("() => document.querySelector('.cards')?.sortable")
    await page.evaluate(_WATCH)
    for key in KEYS:
        await page.keyboard.press(key)
    slowest = float(await page.evaluate(_LONGEST_EVENT))
    await page.context.close()
    page = await _page(browser, studio)
    await page.goto("/benchers/bench1")
    await page.wait_for_function("() => document.querySelector('.cards')?.sortable")
    scrolled = await page.evaluate(_SCROLL)
    if await page.locator(".board-card").count() != MANY_CARDS or scrolled["frames"] < MANY_COLUMNS:
        raise CannotMeasure("the board does not show its cards, or does not scroll")
    await page.context.close()
    return {"W6": seen.lcp_ms, "W7": seen.cls, "W8": slowest, "W9": float(scrolled["longest"])}


async def _page(browser: Browser, studio: Studio) -> Page:
    context = await browser.new_context(base_url=studio.board.url, viewport={"width": WIDTH, "height": HEIGHT})
    await context.add_cookies([{"name": "workhook_session", "value": studio.session, "url": studio.board.url}])
    return await context.new_page()
