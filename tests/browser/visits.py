"""Opening pages. Everything that a browser reports as wrong is recorded."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Route, WebError

from tests.browser.people import sign_in
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S
from tests.web.browser import Person

Scheme = Literal["light", "dark"]

HEIGHTS = {360: 740, 768: 1024, 1440: 900}  # of the window, by width


SCRIPTS = """async () => {
  const named = document.querySelector("meta[name=controllers]").content.split(" ")
  await Promise.all(named.map(each => import(`workhook/${each}`)))
  await new Promise(requestAnimationFrame)
}"""


async def wait_for_scripts(page: Page) -> None:
    """Wait for the scripts of a page, which load one after the other. A key pressed before that is lost."""
    await page.evaluate(SCRIPTS)


class Watch:
    """Collects problems of one server's pages. Violations of the content security policy are console errors."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._trouble: list[str] = []
        self._expected: list[str] = []

    def expect(self, text: str) -> None:
        """Require a problem that contains this text, and ignore it."""
        self._expected.append(text)

    def follow(self, context: BrowserContext) -> None:
        """Record everything that happens in any page of the context."""
        context.on("console", self._console)
        context.on("weberror", self._error)
        context.on("request", self._request)
        context.on("requestfailed", self._failed)
        context.on("page", lambda page: page.on("crash", self._crash))

    def check(self) -> None:
        """Fail for recorded problems, and for expected ones that did not occur."""
        rest = [each for each in self._trouble if not any(text in each for text in self._expected)]
        missing = [text for text in self._expected if not any(text in each for each in self._trouble)]
        assert not rest, "The pages had trouble:\n" + "\n".join(rest)
        assert not missing, f"This was expected and did not come: {missing}"

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._trouble.append(f"console {message.type}: {message.text} ({message.location['url']})")

    def _error(self, error: WebError) -> None:
        self._trouble.append(f"error of a script: {error.error}")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and f"{parts.scheme}://{parts.netloc}" != self._origin:
            self._trouble.append(f"request that leaves the origin: {request.method} {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page itself aborted the request
            self._trouble.append(f"failed request: {request.method} {request.url}: {request.failure}")

    def _crash(self, page: Page) -> None:
        self._trouble.append(f"the page crashed: {page.url}")


class Visits:
    """The type of the `visit` fixture: `page = await visit("/", team.owner)`."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self.server = server
        self.watch = Watch(server.url)
        self._browser = browser
        self._open = AsyncExitStack()

    async def __call__(
        self,
        path: str,
        person: Person | None = None,
        *,
        width: int = 1440,
        scheme: Scheme = "light",
        scripts: bool = True,
        touch: bool = False,
        locale: str = "en-GB",
        **more: Any,
    ) -> Page:
        """Open the page in a new context, where `person` is signed in. `more` is passed to Playwright's `new_context`.

        To open another page of the same person, use `await page.context.new_page()`.
        """
        context = await self._browser.new_context(
            base_url=self.server.url,
            viewport={"width": width, "height": HEIGHTS.get(width, 900)},
            color_scheme=scheme,
            java_script_enabled=scripts,
            has_touch=touch,
            locale=locale,
            **more,
        )
        self._open.push_async_callback(context.close)
        context.set_default_timeout(WAIT_S * 1000)
        self.watch.follow(context)
        if person is not None:
            await sign_in(context, self.server, person)
        page = await context.new_page()
        await page.goto(path)
        return page

    def expect_trouble(self, text: str) -> None:
        """Declare in advance a problem that contains this text: `visit.expect_trouble("status of 422")`."""
        self.watch.expect(text)

    async def close(self) -> None:
        """Close all pages, then fail for their problems."""
        await self._open.aclose()
        self.watch.check()


async def hold(page: Page, address: str | re.Pattern[str]) -> asyncio.Event:
    """Hold back responses from this address until the returned event is set."""
    free = asyncio.Event()

    async def answer(route: Route) -> None:
        await free.wait()
        await route.continue_()

    await page.route(address, answer)
    return free
