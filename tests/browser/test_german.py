"""Every page in a browser that prefers German: no English text remains, and the page fits a phone."""

from __future__ import annotations

import gettext
import re
from functools import cache

import pytest
from playwright.async_api import Page, expect

from hatch_build import LOCALES
from scripts.texts import collected
from tests.browser.checks import fits, roomy
from tests.browser.test_everywhere import fill, pages_for
from tests.browser.test_first_start import _LINK, first_visit, fresh  # noqa: F401  # two are fixtures
from tests.browser.visits import Visits
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.web.studio import Studio

# Names of columns, events and headers that are also English texts of the catalog.
NAMES = {"To do", "column", "member", "organization", "public", "Accept", "Date"}
LOGIN = {"owner"}  # login of the first user
LETTERS_MIN = 10  # in a text with placeholders, not counting these

# Whole text nodes, and attributes that are shown or read out, except code, deliberate English and user content.
_TEXTS = """() => {
  const left = 'script, style, template, code, pre, bdi, [lang=en]:not(html), [dir=auto]';
  const found = [], nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) found.push([nodes.currentNode.parentElement, nodes.currentNode.textContent]);
  for (const name of ['aria-label', 'placeholder', 'title', 'alt'])
    for (const each of document.querySelectorAll(`[${name}]`)) found.push([each, each.getAttribute(name)]);
  const texts = found.filter(([element]) => !element.closest(left)).map(([, text]) => text);
  return [document.title.split(' · ')[0], ...texts].map(each => each.trim().replace(/\\s+/g, ' ')).filter(each => each);
}"""
_PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\}")


@cache
def english() -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the texts that differ in German: complete ones, and a pattern for those with placeholders."""
    german = gettext.translation("workhook", str(LOCALES), languages=["de"])
    texts = {
        each: german.pgettext(message.context, each) if message.context else german.gettext(each)
        for message in collected()
        if message.context != "field"  # API field names, which no page shows
        for each in ([message.id] if isinstance(message.id, str) else message.id[:1])
        if each
    }
    said = set(texts.values())
    other = {text for text, translated in texts.items() if text != translated and text not in said} - NAMES
    filled = [each for each in other if len(_PLACEHOLDER.sub("", each)) >= LETTERS_MIN and "<" not in each]
    patterns = [".+?".join(map(re.escape, _PLACEHOLDER.split(each))) for each in filled if _PLACEHOLDER.search(each)]
    return frozenset(other), re.compile("|".join(f"(?:{each})" for each in patterns))


async def left_on(page: Page) -> list[str]:
    """Return the English texts on the page."""
    whole, filled = english()
    return sorted({each for each in await page.evaluate(_TEXTS) if each in whole or filled.fullmatch(each)})


async def fault_of(page: Page, address: str) -> str | None:
    """Return the English texts on the page, or its layout problems on a phone."""
    await page.goto(address)
    if await page.locator("html").get_attribute("lang") != "de":
        return f"{address} is not in German"
    if left := await left_on(page):
        return f"{address} is left in English: {left}"
    try:
        await fits(page)
        await roomy(page)
    except AssertionError as error:
        return str(error)
    return None


@pytest.mark.variants("role")
@pytest.mark.parametrize("role", ["owner", "client"])
async def test_every_page_is_german(
    visit: Visits, server: Server, studio: Studio, receiver: Receiver, role: str
) -> None:
    fill(server, studio, receiver)
    addresses = pages_for(getattr(studio, role))
    assert len(addresses) > (8 if role == "client" else 20), addresses
    page = await visit("/", studio.team.everybody[role], width=360, locale="de-DE")
    faults = [fault for each in addresses if (fault := await fault_of(page, each))]
    assert not faults, "\n".join(faults)


async def test_public_pages_are_german(visit: Visits) -> None:
    visit.expect_trouble("status of 404")
    page = await visit("/login", width=360, locale="de-DE")
    faults = [
        fault for each in ("/login", "/login/link/gone", "/docs/search?q=x") if (fault := await fault_of(page, each))
    ]
    assert not faults, "\n".join(faults)


async def test_the_first_steps_are_german(first_visit: Visits) -> None:  # noqa: F811
    [link] = _LINK.findall(first_visit.server.first_sign_in())
    page = await first_visit(link.removeprefix(first_visit.server.url), width=360, locale="de-DE")
    assert set(await left_on(page)) <= LOGIN
    await page.get_by_role("button", name="Anmelden").click()
    await expect(page.get_by_role("heading", name="Willkommen bei Workhook")).to_be_visible()
    assert set(await left_on(page)) <= LOGIN
    await page.get_by_role("link", name="Diesen Schritt überspringen").click()
    await expect(page.get_by_role("heading", name="Ihr erstes Projekt")).to_be_visible()
    assert set(await left_on(page)) <= LOGIN
    await page.get_by_label("Titel").fill("Website")
    await page.get_by_role("button", name="Projekt erstellen").click()
    await page.get_by_role("button", name="Test-Webhook erstellen").click()
    await expect(page.get_by_text("Signatur gültig")).to_be_visible()
    assert set(await left_on(page)) <= LOGIN
    await page.goto("/workhook/website")
    await expect(page.get_by_text("Zu erledigen").first).to_be_visible()


async def test_remaining_english_text_is_detected(visit: Visits) -> None:
    """Ensures that the test above can fail."""
    page = await visit("/login", width=360)
    whole, filled = english()
    found = {each for each in await page.evaluate(_TEXTS) if each in whole}
    assert {"Login or e-mail address", "Password", "Sign in"} <= found
    assert filled.fullmatch("Ada updated the task “Logo”.")
    assert not filled.fullmatch("Ada hat die Aufgabe „Logo“ geändert.")
