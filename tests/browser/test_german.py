"""Every page in German, which the browser asks for: nothing of it is left in English, and it fits on a telephone."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator
from functools import cache

import pytest
from playwright.async_api import Page

from hatch_build import LOCALES
from scripts.texts import collected
from tests.browser.checks import fits
from tests.browser.test_everywhere import fill, pages_for
from tests.browser.visits import Visits
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.web.studio import Studio, open_studio

# Names of columns, of events and of a header, which are English words of the catalogue, too.
NAMES = {"To do", "member", "organization", "Accept"}
LETTERS_MIN = 10  # of a text with placeholders, without these

# Whole text nodes, and what is read out or shown in a field; not what is code, English on purpose, or of a person.
_TEXTS = """() => {
  const left = 'script, style, template, code, pre, bdi, [lang=en]:not(html), [dir=auto]';
  const found = [], nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) found.push([nodes.currentNode.parentElement, nodes.currentNode.textContent]);
  for (const name of ['aria-label', 'placeholder', 'title', 'alt'])
    for (const each of document.querySelectorAll(`[${name}]`)) found.push([each, each.getAttribute(name)]);
  const texts = found.filter(([element]) => !element.closest(left)).map(([, text]) => text);
  return [document.title.split(' · ')[0], ...texts].map(each => each.trim().replace(/\\s+/g, ' ')).filter(each => each);
}"""
_PLACEHOLDER = re.compile(r"%\(\w+\)[sd]")


@pytest.fixture
def studio(server: Server) -> Iterator[Studio]:
    with open_studio(server) as studio:
        yield studio


@cache
def english() -> tuple[frozenset[str], re.Pattern[str]]:
    """What is another text in German: whole texts, and what fits one with placeholders."""
    german = gettext.translation("workhook", str(LOCALES), languages=["de"])
    texts = {
        each: german.pgettext(message.context, each) if message.context else german.gettext(each)
        for message in collected()
        for each in ([message.id] if isinstance(message.id, str) else message.id[:1])
        if each
    }
    said = set(texts.values())
    other = {text for text, translated in texts.items() if text != translated and text not in said} - NAMES
    filled = [each for each in other if len(_PLACEHOLDER.sub("", each)) >= LETTERS_MIN and "<" not in each]
    patterns = [".+?".join(map(re.escape, _PLACEHOLDER.split(each))) for each in filled if _PLACEHOLDER.search(each)]
    return frozenset(other), re.compile("|".join(f"(?:{each})" for each in patterns))


async def fault_of(page: Page, address: str) -> str | None:
    """What is English on the page, or that it is too wide."""
    await page.goto(address)
    if await page.locator("html").get_attribute("lang") != "de":
        return f"{address} is not in German"
    whole, filled = english()
    left = sorted({each for each in await page.evaluate(_TEXTS) if each in whole or filled.fullmatch(each)})
    if left:
        return f"{address} is left in English: {left}"
    try:
        await fits(page)
    except AssertionError as error:
        return str(error)
    return None


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


async def test_pages_for_everybody_are_german(visit: Visits) -> None:
    visit.expect_trouble("status of 404")
    page = await visit("/login", width=360, locale="de-DE")
    faults = [
        fault for each in ("/login", "/login/link/gone", "/docs/search?q=x") if (fault := await fault_of(page, each))
    ]
    assert not faults, "\n".join(faults)


async def test_what_is_left_in_english_is_found(visit: Visits) -> None:
    """So that the test above can fail."""
    page = await visit("/login", width=360)
    whole, filled = english()
    found = {each for each in await page.evaluate(_TEXTS) if each in whole}
    assert {"Login or e-mail address", "Password", "Sign in"} <= found
    assert filled.fullmatch("Ada changed the task “Logo”.")
    assert not filled.fullmatch("Ada hat die Aufgabe „Logo“ geändert.")
