"""Checks for every page: accessible, no wider than the window, usable by keyboard. Also measures loading cost."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.node_tools import ensure_node_modules

PICTURES = "TESTS_PICTURES"  # the variable with the folder for screenshots
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
# None of our rules needs to fetch style sheets again.
_OPTIONS = {"rules": {"target-size": {"enabled": True}}, "preload": False}
_COLOR_RULES = ["color-contrast", "link-in-text-block"]  # rules whose results depend on the color scheme


# Turbo marks the page with `aria-busy` while it loads another one. If that happened, axe checks the new page again.
_RUN_AXE = """async options => {
  const busy = () => document.documentElement.hasAttribute('aria-busy');
  for (let round = 1; ; round += 1) {
    while (busy()) await new Promise(requestAnimationFrame);
    const found = await axe.run(document, {...options, resultTypes: ['violations']});
    if (round === 5 || !found.violations.some(each => each.nodes.some(node => node.html.includes('aria-busy'))))
      return found;
  }
}"""


_MEDIA = """() => [
  matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light',
  matchMedia('(prefers-reduced-motion: reduce)').matches ? 'reduce' : 'no-preference',
]"""


async def accessible(page: Page, *, both_schemes: bool = True) -> None:
    """Fail for each violation of WCAG 2.2 AA that axe finds in the current state of the page, in light and dark mode.

    Without `both_schemes`, only the current color scheme is checked. Scripts evaluated by Playwright bypass the content
    security policy, which therefore stays in force for the page's own scripts.
    """
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(_axe())
    found = await page.evaluate(_RUN_AXE, {**_OPTIONS, "runOnly": {"type": "tag", "values": _TAGS}})
    assert found["passes"], "axe looked at nothing"
    other = await _violations_in_other_scheme(page) if both_schemes else []
    lines = [line for violation in found["violations"] for line in _describe(violation)]
    lines += [f"in the other scheme: {line}" for violation in other for line in _describe(violation)]
    assert not lines, f"{page.url} is not accessible:\n" + "\n".join(lines)


async def _violations_in_other_scheme(page: Page) -> Any:
    """Return the violations of color rules in the other scheme."""
    scheme, motion = await page.evaluate(_MEDIA)
    # Disable motion, otherwise colors would still be in transition while axe runs.
    await page.emulate_media(color_scheme="light" if scheme == "dark" else "dark", reduced_motion="reduce")
    found = await page.evaluate(_RUN_AXE, {"runOnly": {"type": "rule", "values": _COLOR_RULES}})
    await page.emulate_media(color_scheme=scheme, reduced_motion=motion)
    return found["violations"]


@cache
def _axe() -> str:
    return (ensure_node_modules() / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def _describe(violation: dict[str, Any]) -> list[str]:
    lines = [f"{violation['id']} ({violation['impact']}): {violation['help']}"]
    for node in violation["nodes"]:
        reasons = node["failureSummary"].replace("\n", "\n      ")
        lines.append(f"  {' '.join(map(str, node['target']))}: {node['html']}\n      {reasons}")
    return lines


# Content that scrolls within its own container does not widen the page.
_WIDE = """width => [...document.querySelectorAll('body *')]
  .filter(each => each.getBoundingClientRect().right > width + .5)
  .filter(each => {
    for (let over = each.parentElement; over !== document.body; over = over.parentElement)
      if (getComputedStyle(over).overflowX !== 'visible') return false;
    return true;
  })
  .map(each => each.outerHTML.slice(0, 120))"""


async def fits(page: Page) -> None:
    """Fail if the page scrolls sideways."""
    assert page.viewport_size is not None
    width = page.viewport_size["width"]
    needed = await page.evaluate("document.documentElement.scrollWidth")
    if needed > width:
        wide = "\n".join((await page.evaluate(_WIDE, width))[:10])
        raise AssertionError(f"{page.url} is {needed} px wide in a window of {width}:\n{wide}")


# Visually hidden text is skipped. Code, addresses and long strings without spaces may break anywhere.
_BROKEN = """share => {
  const left = 'script, style, template, code, pre, option, .unseen, .break', known = new Map();
  const isHidden = each => {
    if (!each) return false;
    if (!known.has(each)) known.set(each, getComputedStyle(each).clipPath !== 'none' || isHidden(each.parentElement));
    return known.get(each);
  };
  const room = document.documentElement.clientWidth * share, found = new Set(), range = document.createRange();
  const boxes = (node, start, end) => {
    range.setStart(node, start);
    range.setEnd(node, end);
    return [...range.getClientRects()].filter(each => each.width);
  };
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const node = nodes.currentNode, element = node.parentElement;
    if (boxes(node, 0, node.length).length < 2 || !element.checkVisibility({visibilityProperty: true})) continue;
    if (element.closest(left) || isHidden(element)) continue;
    for (const long of node.textContent.matchAll(/\\S+/g))
      for (const word of long[0].matchAll(/[\\p{L}\\p{N}]+(?:[.,:][\\p{L}\\p{N}]+)*/gu)) {
        if (long[0].includes('@')) continue;
        const start = long.index + word.index;
        const lines = new Set(boxes(node, start, start + word[0].length).map(each => Math.round(each.bottom / 4))).size;
        const width = boxes(node, long.index, long.index + long[0].length).reduce((sum, each) => sum + each.width, 0);
        if (lines > 1 && width < room) found.add(`${word[0]} in ${element.outerHTML.slice(0, 120)}`);
      }
  }
  return [...found];
}"""
WORD_SHARE = 0.6  # of the width of the window: longer words may break
HEADER_SHARE = 0.15  # of the height of the window, including the tabs

_MAIN_TOP = "document.querySelector('main').getBoundingClientRect().top + scrollY"


async def roomy(page: Page) -> None:
    """Fail if a word or number is broken, or if the header takes up too much of a phone's screen."""
    broken = await page.evaluate(_BROKEN, WORD_SHARE)
    assert not broken, f"{page.url} breaks words:\n" + "\n".join(broken)
    assert page.viewport_size is not None
    header, most = await page.evaluate(_MAIN_TOP), page.viewport_size["height"] * HEADER_SHARE
    assert header <= most, f"{page.url}: the header has {header} px of at most {most}"


# Images keep their colors.
_PRINTED = """() => {
  const found = [], seen = each => each.checkVisibility({visibilityProperty: true}) && each.getClientRects().length;
  const short = each => each.outerHTML.slice(0, 120);
  const wrong = 'header.top, nav, button, .button, .toasts, .menu, [type=checkbox]';
  for (const each of document.querySelectorAll(wrong)) if (seen(each)) found.push(`printed: ${short(each)}`);
  const clear = ['rgba(0, 0, 0, 0)', 'rgb(255, 255, 255)'], on = new Map();
  const left = 'script, style, template, option, svg';
  const paper = each => {
    if (!each) return 'rgb(255, 255, 255)';
    const own = getComputedStyle(each).backgroundColor;
    if (!on.has(each)) on.set(each, clear.includes(own) ? paper(each.parentElement) : own);
    return on.get(each);
  };
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const element = nodes.currentNode.parentElement;
    if (!nodes.currentNode.textContent.trim() || element.closest(left) || !seen(element)) continue;
    const colours = `${getComputedStyle(element).color} on ${paper(element)}`;
    if (colours !== 'rgb(0, 0, 0) on rgb(255, 255, 255)') found.push(`${colours}: ${short(element)}`);
  }
  return found;
}"""


async def printed(page: Page) -> None:
    """Fail if the printed page contains navigation, controls, or colors of the dark scheme."""
    scheme, motion = await page.evaluate(_MEDIA)
    await page.emulate_media(media="print", color_scheme="dark", reduced_motion="reduce")
    found = await page.evaluate(_PRINTED)
    await page.emulate_media(media="screen", color_scheme=scheme, reduced_motion=motion)
    assert not found, f"{page.url} on paper:\n" + "\n".join(found[:20])


# A stop is an element that can have the focus. Radio buttons of one name are a single stop. Each stop gets a number.
_STOPS = """() => {
  const looks = element => {
    const style = getComputedStyle(element);
    return [style.outlineStyle === 'none' ? '' : style.outline, style.boxShadow, style.borderColor,
            style.backgroundColor, style.textDecorationLine].join(' | ');
  };
  const can = 'a[href], button, input, select, textarea, summary, iframe, [tabindex], [contenteditable=true]';
  const radios = [];
  const stops = [...document.querySelectorAll(can)].filter(each => {
    if (each.tabIndex < 0 || each.disabled || each.type === 'hidden') return false;
    if (!each.checkVisibility({visibilityProperty: true})) return false;
    if (each.type !== 'radio') return true;
    const known = radios.some(other => other.form === each.form && other.name === each.name);
    radios.push(each);
    return !known;
  });
  document.activeElement?.blur();
  window.testsStops = {stops, looks, before: stops.map(looks)};
  return stops.map(each => each.outerHTML.slice(0, 160));
}"""

_FOCUSED = """() => {
  const {stops, looks, before} = window.testsStops;
  const element = document.activeElement;
  const number = stops.findIndex(each =>
    each === element || (each.type === 'radio' && each.form === element.form && each.name === element.name));
  if (number < 0) return {number, html: element?.outerHTML.slice(0, 160) ?? ''};
  const box = element.getBoundingClientRect();
  const label = element.labels?.[0];
  const seen = [box.left + Math.min(12, box.width / 2), box.left + box.width / 2].some(x => {
    const at = document.elementFromPoint(x, box.top + box.height / 2);
    return at !== null && (element.contains(at) || at.contains(element) || (label?.contains(at) ?? false));
  });
  return {number, seen, marked: looks(element) !== before[number]};
}"""


async def keyboard(page: Page) -> list[str]:
    """Tab through the page. Fail for a control that cannot be reached, or whose focus is not visible.

    Returns the controls in tab order, each as the beginning of its HTML.
    """
    await page.emulate_media(reduced_motion="reduce")  # otherwise the page is still scrolling to the focus
    stops: list[str] = await page.evaluate(_STOPS)
    order: list[int] = []
    faults: list[str] = []
    for _ in range(2 * len(stops) + 2):  # the focus may start in the middle of the page and wrap around
        await page.keyboard.press("Tab")
        focused = await page.evaluate(_FOCUSED)
        number = focused["number"]
        if order and number == order[-1]:
            continue  # a field for date and time has several stops inside
        if number in order:
            break
        if number >= 0:
            order.append(number)
            faults += [] if focused["marked"] else [f"does not look other with the focus: {stops[number]}"]
            faults += [] if focused["seen"] else [f"is hidden or outside of the window with the focus: {stops[number]}"]
        elif not focused["html"].startswith("<body"):
            faults.append(f"gets the focus but is not a control of the page: {focused['html']}")
    await page.evaluate("document.activeElement?.blur()")  # screenshots show no focus
    faults += [f"is not reached: {stops[number]}" for number in sorted(set(range(len(stops))) - set(order))]
    assert not faults, f"{page.url} by keyboard:\n" + "\n".join(faults)
    return [stops[number] for number in order]


async def picture(page: Page, name: str) -> Path | None:
    """Save a screenshot of the whole page as `NAME-WIDTH-SCHEME.png` if `TESTS_PICTURES` names a folder."""
    folder = os.environ.get(PICTURES)
    if not folder:
        return None
    assert page.viewport_size is not None
    scheme, _ = await page.evaluate(_MEDIA)
    path = Path(folder) / f"{name}-{page.viewport_size['width']}-{scheme}.png"
    await page.screenshot(path=path, full_page=True, animations="disabled")
    return path


@dataclass(frozen=True)
class Measured:
    """The loading cost of a page."""

    lcp_ms: float  # Largest Contentful Paint
    cls: float  # Cumulative Layout Shift
    transferred_bytes: int  # with headers, for the page and everything it loaded, without cached responses
    requests: int


# The browser reports the paint with a delay, and layout shifts before it.
_MEASURE = """() => new Promise(resolve => {
  const shifts = [];
  new PerformanceObserver(list => shifts.push(...list.getEntries())).observe({type: 'layout-shift', buffered: true});
  new PerformanceObserver(list => requestAnimationFrame(() => {
    const loaded = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    resolve({
      lcp_ms: list.getEntries().at(-1).startTime,
      cls: shifts.filter(each => !each.hadRecentInput).reduce((sum, each) => sum + each.value, 0),
      transferred_bytes: loaded.reduce((sum, each) => sum + each.transferSize, 0),
      requests: loaded.length,
    });
  })).observe({type: 'largest-contentful-paint', buffered: true});
})"""


async def measure(page: Page) -> Measured:
    """Measure a page right after opening it. The browser stops reporting paints at the first click or key press."""
    return Measured(**await page.evaluate(_MEASURE))
