"""The helpers of these tests detect the faults they exist for, and leave no process behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from playwright.async_api import Browser, Page, Route

from tests.browser import chromium
from tests.browser.checks import PICTURES, accessible, fits, keyboard, measure, picture
from tests.browser.visits import Visits
from tests.harness.server import Server
from tests.node_tools import ensure_node_modules

ROOT = Path(__file__).parents[2]
DARK_PALE = "<style>@media (prefers-color-scheme: dark) { p { color: #ddd } }</style><p>pale in the dark"
POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' http://elsewhere.invalid"


async def show(visit: Visits, body: str, *, policy: str = "default-src 'self' 'unsafe-inline'") -> Page:
    """Show a page that the server does not serve."""
    page = await visit("/login", width=360)

    async def answer(route: Route) -> None:
        headers = {"Content-Type": "text/html", "Content-Security-Policy": policy}
        await route.fulfill(body=f"<!doctype html><html lang=en><title>Made up</title>{body}", headers=headers)

    await page.route("**/made-up", answer)
    await page.goto("/made-up")
    return page


@pytest.fixture
def new_visit(browser: Browser, server: Server) -> Callable[[], Visits]:
    """Return a factory of visits that only the test closes."""
    return lambda: Visits(browser, server)


@pytest.mark.parametrize(
    ("body", "trouble"),
    [
        ("<p style='color: red'>x", "Content Security Policy"),
        ("<script>let x = 1</script>", "Content Security Policy"),
        ("<img alt='' src='http://elsewhere.invalid/x.png'>", "leaves the origin: GET http://elsewhere.invalid/x.png"),
        ("<img alt='' src='http://elsewhere.invalid/x.png'>", "failed request: GET http://elsewhere.invalid/x.png"),
        ("<img alt='' src='/nothing-here.png'>", "status of 404"),
    ],
)
async def test_a_broken_page_fails_the_test(new_visit: Callable[[], Visits], body: str, trouble: str) -> None:
    visit = new_visit()
    await show(visit, body, policy=POLICY)
    with pytest.raises(AssertionError, match="The pages had trouble") as failure:
        await visit.close()
    assert trouble in str(failure.value)


@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        ("console.warn('mind this')", "console warning: mind this"),
        ("console.error('broken')", "console error: broken"),
        ("nothing.at.all", "error of a script: nothing is not defined"),
        ("Promise.reject(new Error('not caught'))", "error of a script: not caught"),
    ],
)
async def test_a_broken_script_fails_the_test(new_visit: Callable[[], Visits], script: str, trouble: str) -> None:
    visit = new_visit()
    await show(visit, f"<script>{script}</script>")
    with pytest.raises(AssertionError, match="The pages had trouble") as failure:
        await visit.close()
    assert trouble in str(failure.value)


async def test_expected_trouble_must_occur(new_visit: Callable[[], Visits]) -> None:
    visit = new_visit()
    visit.expect_trouble("mind this")
    await show(visit, "<script>console.warn('mind this')</script>")
    await visit.close()
    visit = new_visit()
    visit.expect_trouble("mind this")
    await show(visit, "<p>Nothing is wrong")
    with pytest.raises(AssertionError, match="did not come"):
        await visit.close()


@pytest.mark.parametrize(
    ("check", "body", "fault"),
    [
        (accessible, "<input>", "label"),
        (accessible, "<p style='color: #aaa; background: #fff'>pale", "color-contrast"),
        (accessible, DARK_PALE, "in the other scheme: color-contrast"),
        (accessible, 2 * "<button aria-label=a style='width: 9px; height: 9px; padding: 0'></button>", "target-size"),
        (fits, "<p style='width: 500px'>wide", "is 508 px wide in a window of 360"),
        (keyboard, "<button style='outline: none'>a</button>", "does not look other with the focus"),
        (keyboard, "<button onblur='this.focus()'>a</button><button>b</button>", "is not reached: <button>b"),
        (keyboard, "<div style='position: fixed; inset: 0; z-index: 1'></div><button>a</button>", "is hidden"),
    ],
)  # fmt: skip
async def test_a_check_fails_for_a_broken_page(
    visit: Visits, check: Callable[[Page], Awaitable[object]], body: str, fault: str
) -> None:
    page = await show(visit, body)
    with pytest.raises(AssertionError) as failure:
        await check(page)
    assert fault in str(failure.value)


async def test_radio_buttons_of_one_name_are_a_single_tab_stop(visit: Visits) -> None:
    choices = "".join(f"<label><input type=radio name=kind value={each}> {each}</label>" for each in "ab")
    page = await show(visit, f"<a href=/>first</a>{choices}<button tabindex=-1>never</button><button>last</button>")
    assert [stop.split(">")[0] for stop in await keyboard(page)] == [
        '<a href="/"',
        '<input type="radio" name="kind" value="a"',
        "<button",
    ]


async def test_a_page_is_measured_and_photographed(
    visit: Visits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await visit("/login", scheme="dark")
    measured = await measure(page)
    assert measured.lcp_ms > 0
    assert measured.cls == 0
    assert measured.transferred_bytes > 1000
    assert measured.requests >= 2
    monkeypatch.setenv(PICTURES, str(tmp_path / "pictures"))
    path = await picture(page, "made-up")
    assert path is not None
    assert path == tmp_path / "pictures" / "made-up-1440-dark.png"
    assert path.read_bytes().startswith(b"\x89PNG")


async def test_a_page_opens_with_the_requested_browser_settings(visit: Visits) -> None:
    page = await visit("/login", width=768, scheme="dark", touch=True, locale="de-DE", reduced_motion="reduce")
    assert await page.evaluate("[innerWidth, navigator.maxTouchPoints > 0, navigator.language]") == [768, True, "de-DE"]
    for query in ("(prefers-color-scheme: dark)", "(prefers-reduced-motion: reduce)"):
        assert await page.evaluate("query => matchMedia(query).matches", query)


@pytest.mark.whole
def test_concurrent_calls_unpack_one_complete_browser(tmp_path: Path) -> None:
    package = ensure_node_modules() / "@sparticuz" / "chromium"
    with ThreadPoolExecutor(3) as threads:
        folders = set(threads.map(lambda _: chromium.unpack(package, tmp_path / "unpacked"), range(3)))
    [folder] = folders
    assert [each.name for each in folder.parent.iterdir()] == [folder.name]
    assert {"chromium", "lib", "fonts", "fonts.conf"} <= {each.name for each in folder.iterdir()}


_OPEN = """
import asyncio
from playwright.async_api import async_playwright
from tests.browser.chromium import launch

async def main():
    async with async_playwright() as playwright:
        await (await launch(playwright)).new_page()
        print("open", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_killed_worker_leaves_no_browser_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", _OPEN], cwd=ROOT, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "open\n"
        processes = psutil.Process(worker.pid).children(recursive=True)
        assert len(processes) > 2
        worker.send_signal(signal.SIGKILL)
    chromium.wait_for_end(processes)
