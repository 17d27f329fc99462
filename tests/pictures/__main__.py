"""Makes the pictures of the README: `python -m tests.pictures` writes them to `docs/pictures`.

A server of its own with a demo project, looked at by the browser of the tests. WebP, each at most 120 KB.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import tempfile
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from tests.browser.chromium import launch
from tests.browser.people import sign_in
from tests.harness.receiver import Receiver
from tests.harness.server import SharedServer
from tests.pictures.demo import Demo, make_demo

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
BYTES_MAX = 120_000
QUALITIES = (90, 80, 70, 60, 45)
WIDTH, HEIGHT = 1280, 800


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder to write to")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    receiver = Receiver()
    with tempfile.TemporaryDirectory() as folder:
        server = SharedServer(Path(folder), {})
        server.start()
        try:
            pictures = asyncio.run(_take_all(server, make_demo(server, receiver)))
        finally:
            server.close()
            receiver.close()
    for name, content in pictures.items():
        (out / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes")


async def _take_all(server: SharedServer, demo: Demo) -> dict[str, bytes]:
    """The pictures by the names of their files."""
    places = {"board": demo.board, "delivery": demo.delivery}
    async with async_playwright() as playwright:
        browser = await launch(playwright)
        pictures = {
            f"{name}{'-dark' if dark else ''}.webp": await _take(browser, server, demo, path, dark=dark)
            for name, path in places.items()
            for dark in (False, True)
        }
        await browser.close()
    return pictures


async def _take(browser: Browser, server: SharedServer, demo: Demo, path: str, *, dark: bool) -> bytes:
    """The picture of a place."""
    context = await browser.new_context(
        base_url=server.url,
        viewport={"width": WIDTH, "height": HEIGHT},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
    )
    await sign_in(context, server, demo.owner)
    page = await context.new_page()
    await page.goto(path, wait_until="load")
    await page.evaluate("document.fonts.ready")
    content = await _smallest(page)
    await context.close()
    return content


async def _smallest(page: Page) -> bytes:
    """The best quality that fits into `BYTES_MAX`. Playwright itself writes no WebP."""
    session = await page.context.new_cdp_session(page)
    for quality in QUALITIES:
        shot = await session.send("Page.captureScreenshot", {"format": "webp", "quality": quality})
        content = base64.b64decode(shot["data"])
        if len(content) <= BYTES_MAX:
            return content
    raise AssertionError(f"{page.url} needs more than {BYTES_MAX} bytes")


if __name__ == "__main__":
    main()
