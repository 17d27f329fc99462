"""Take the pictures of README.md and docs/team/places.md: `python -m tests.pictures` writes them to `docs/pictures`.

It starts a server with a demo project and one without data, and takes WebP screenshots with the browser of the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.browser.chromium import launch
from tests.browser.people import sign_in
from tests.harness.receiver import Receiver
from tests.harness.server import Server, SharedServer
from tests.pictures.demo import Demo, make_demo
from tests.pictures.places import PLACES, README, Place
from tests.web.browser import Person
from workhook.http.calls import Services
from workhook.identity import queries

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
BYTES_MAX = 60_000
BYTES_MAX_ALL = 4_000_000
QUALITIES = (60, 50, 40, 30)
DESK_PX, DESK_HEIGHT_PX = 1280, 800
PHONE_PX, PHONE_HEIGHTS_PX = 390, (844, 1600)  # of the window, and the maximum of the picture


@dataclass(frozen=True)
class Look:
    """A kind of window. `ending` is the suffix of its pictures' names."""

    ending: str = ""
    phone: bool = False
    dark: bool = False


DESK, PHONE, DESK_DARK = Look(), Look("-phone", phone=True, dark=True), Look("-dark", dark=True)


def looks_of(place: Place) -> list[Look]:
    return [DESK, PHONE, *([DESK_DARK] if place.name in README else [])]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder to write to")
    parser.add_argument("--png", type=Path, help="a folder for the same pictures as PNG")
    parser.add_argument("places", nargs="*", help="the names of places; without any, all are taken")
    given = parser.parse_args()
    chosen = [each for each in PLACES if not given.places or each.name in given.places]
    for folder in filter(None, (given.out, given.png)):
        folder.mkdir(parents=True, exist_ok=True)
    receiver = Receiver()
    try:
        with _server() as server, _server() as empty:
            studio = Studio(server, empty, make_demo(server, receiver), given.out, given.png)
            asyncio.run(studio.take_all(chosen))
    finally:
        receiver.close()


@contextmanager
def _server() -> Iterator[SharedServer]:
    with tempfile.TemporaryDirectory() as folder:
        server = SharedServer(Path(folder), {})
        server.start()
        try:
            yield server
        finally:
            server.close()


@dataclass
class Studio:
    """Takes and writes pictures. Each person has one browser for each look."""

    server: Server
    empty: Server
    demo: Demo
    out: Path
    png: Path | None

    async def take_all(self, places: Sequence[Place]) -> None:
        async with async_playwright() as playwright:
            browser = await launch(playwright)
            for who in dict.fromkeys(each.who for each in places):
                for look in (DESK, PHONE, DESK_DARK):
                    theirs = [each for each in places if each.who == who and look in looks_of(each)]
                    if theirs:
                        await self._take_some(browser, who, look, theirs)
            await browser.close()

    async def _take_some(self, browser: Browser, who: str, look: Look, places: Sequence[Place]) -> None:
        server = self.empty if who == "first" else self.server
        width, height = (PHONE_PX, PHONE_HEIGHTS_PX[0]) if look.phone else (DESK_PX, DESK_HEIGHT_PX)
        context = await browser.new_context(
            base_url=server.url,
            viewport={"width": width, "height": height},
            color_scheme="dark" if look.dark else "light",
            has_touch=look.phone,
            reduced_motion="reduce",
            locale="en-US",
            timezone_id="UTC",
        )
        if who != "nobody":
            await sign_in(context, server, self._first_user() if who == "first" else self.demo.people[who])
        for place in places:
            await self._take(context, place, look)
        await context.close()

    def _first_user(self) -> Person:
        async def find(services: Services) -> Person:
            user = await queries.find_account(services.database, "owner")
            assert user is not None
            return Person(user.id, user.login, user.email or "")

        found: Person = self.empty.run(find)
        return found

    async def _take(self, context: BrowserContext, place: Place, look: Look) -> None:
        page = await context.new_page()
        answer = await page.goto(place.address(self.demo.names), wait_until="load")
        assert answer is not None
        assert answer.ok, f"{page.url}: {answer.status}"
        await self._settle(page, place)
        if look.phone:
            whole = await page.evaluate("document.documentElement.scrollHeight")
            low, high = PHONE_HEIGHTS_PX
            await page.set_viewport_size({"width": PHONE_PX, "height": min(max(whole, low), high)})
        else:
            await page.set_viewport_size({"width": DESK_PX, "height": place.height})
        name = f"{place.name}{look.ending}"
        content = await _smallest(page)
        (self.out / f"{name}.webp").write_bytes(content)
        if self.png is not None:
            await page.screenshot(path=self.png / f"{name}.png")
        print(f"{name}.webp: {len(content):,} bytes")
        await page.close()

    async def _settle(self, page: Page, place: Place) -> None:
        """Wait until scripts, fonts and pictures are loaded."""
        await page.evaluate("document.fonts.ready")
        if place.card:
            await page.wait_for_function("() => document.getElementById('over')?.listens")
            await page.locator("main").get_by_role("link", name=place.card).click()
            await expect(page.locator("#over #task")).to_be_visible()
        if place.path == "/docs":
            await expect(page.get_by_text("Loading operations…")).to_have_count(0, timeout=60_000)
        await page.evaluate(
            "Promise.all([...document.images].filter(each => each.loading !== 'lazy').map(each => each.decode()))"
        )
        await page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def _smallest(page: Page) -> bytes:
    """Return the picture in the best quality that fits into `BYTES_MAX`. Playwright itself writes no WebP."""
    session = await page.context.new_cdp_session(page)
    for quality in QUALITIES:
        shot = await session.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
        content = base64.b64decode(shot["data"])
        if len(content) <= BYTES_MAX:
            return content
    raise AssertionError(f"{page.url} needs more than {BYTES_MAX} bytes")


if __name__ == "__main__":
    main()
