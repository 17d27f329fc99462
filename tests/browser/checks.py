"""What every page has to be: accessible, no wider than the window, usable with the keyboard. And what it weighs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.node_tools import ensure_node_modules

PICTURES = "TESTS_PICTURES"  # the variable that names a folder for the pictures
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_OPTIONS = {"rules": {"target-size": {"enabled": True}}, "preload": False}  # no rule of ours needs its files again
_OF_COLOURS = ["color-contrast", "link-in-text-block"]  # what differs from one scheme to the other


# Turbo marks the page with `aria-busy` while it loads another: then axe looks again, at the one that stays.
_LOOK = """async options => {
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
    """Fail for each violation of WCAG 2.2 AA that axe finds in the page as it is now, in light and in dark.

    `both_schemes` False: only in the one that it has.

    What Playwright evaluates is not subject to the page's policy, so that stays in force for the page's own scripts.
    """
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(_axe())
    found = await page.evaluate(_LOOK, {**_OPTIONS, "runOnly": {"type": "tag", "values": _TAGS}})
    assert found["passes"], "axe looked at nothing"
    other = await _in_the_other_scheme(page) if both_schemes else []
    lines = [line for violation in found["violations"] for line in _told(violation)]
    lines += [f"in the other scheme: {line}" for violation in other for line in _told(violation)]
    assert not lines, f"{page.url} is not accessible:\n" + "\n".join(lines)


async def _in_the_other_scheme(page: Page) -> Any:
    """The violations of the rules that are about colours."""
    scheme, motion = await page.evaluate(_MEDIA)
    # Colours would still change while axe looks, if anything could move.
    await page.emulate_media(color_scheme="light" if scheme == "dark" else "dark", reduced_motion="reduce")
    found = await page.evaluate(_LOOK, {"runOnly": {"type": "rule", "values": _OF_COLOURS}})
    await page.emulate_media(color_scheme=scheme, reduced_motion=motion)
    return found["violations"]


@cache
def _axe() -> str:
    return (ensure_node_modules() / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def _told(violation: dict[str, Any]) -> list[str]:
    lines = [f"{violation['id']} ({violation['impact']}): {violation['help']}"]
    for node in violation["nodes"]:
        reasons = node["failureSummary"].replace("\n", "\n      ")
        lines.append(f"  {' '.join(map(str, node['target']))}: {node['html']}\n      {reasons}")
    return lines


# What is scrolled by itself makes no page wide.
_WIDE = """width => [...document.querySelectorAll('body *')]
  .filter(each => each.getBoundingClientRect().right > width + .5)
  .filter(each => {
    for (let over = each.parentElement; over !== document.body; over = over.parentElement)
      if (getComputedStyle(over).overflowX !== 'visible') return false;
    return true;
  })
  .map(each => each.outerHTML.slice(0, 120))"""


async def fits(page: Page) -> None:
    """Fail where the page can be scrolled sideways."""
    assert page.viewport_size is not None
    width = page.viewport_size["width"]
    needed = await page.evaluate("document.documentElement.scrollWidth")
    if needed > width:
        wide = "\n".join((await page.evaluate(_WIDE, width))[:10])
        raise AssertionError(f"{page.url} is {needed} px wide in a window of {width}:\n{wide}")


# What is only hidden from the eye has no place of its own; code, addresses, and what is long without a space, may
# break anywhere.
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
WORD_SHARE = 0.6  # of the width of the window: a word that is longer may be broken
HEADER_SHARE = 0.15  # of its height, with the tabs

_MAIN_TOP = "document.querySelector('main').getBoundingClientRect().top + scrollY"


async def roomy(page: Page) -> None:
    """Fail where a word or a number is broken, or the header of a phone takes more than its share."""
    broken = await page.evaluate(_BROKEN, WORD_SHARE)
    assert not broken, f"{page.url} breaks words:\n" + "\n".join(broken)
    assert page.viewport_size is not None
    header, most = await page.evaluate(_MAIN_TOP), page.viewport_size["height"] * HEADER_SHARE
    assert header <= most, f"{page.url}: the header has {header} px of at most {most}"


# Pictures keep the colours that they have.
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
    """Fail for what a printed page is not for: navigation, what is clicked, and colours of a dark screen."""
    scheme, motion = await page.evaluate(_MEDIA)
    await page.emulate_media(media="print", color_scheme="dark", reduced_motion="reduce")
    found = await page.evaluate(_PRINTED)
    await page.emulate_media(media="screen", color_scheme=scheme, reduced_motion=motion)
    assert not found, f"{page.url} on paper:\n" + "\n".join(found[:20])


# A stop is an element that can have the focus. The radio buttons of one name are one stop. Each gets a number.
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
    """Go through the page with the Tab key. Fail for a control that it does not reach, or where the focus is not seen.

    The answer is the controls in the order of the key, each as the beginning of its HTML.
    """
    await page.emulate_media(reduced_motion="reduce")  # else it still moves to what has the focus
    stops: list[str] = await page.evaluate(_STOPS)
    order: list[int] = []
    faults: list[str] = []
    for _ in range(2 * len(stops) + 2):  # the way may begin in the middle, and go over the end
        await page.keyboard.press("Tab")
        focused = await page.evaluate(_FOCUSED)
        number = focused["number"]
        if order and number == order[-1]:
            continue  # a field for a date and a time has several stops in it
        if number in order:
            break
        if number >= 0:
            order.append(number)
            faults += [] if focused["marked"] else [f"does not look other with the focus: {stops[number]}"]
            faults += [] if focused["seen"] else [f"is hidden or outside of the window with the focus: {stops[number]}"]
        elif not focused["html"].startswith("<body"):
            faults.append(f"gets the focus and is none of the page's controls: {focused['html']}")
    await page.evaluate("document.activeElement?.blur()")  # pictures of the page show no focus
    faults += [f"is not reached: {stops[number]}" for number in sorted(set(range(len(stops))) - set(order))]
    assert not faults, f"{page.url} by keyboard:\n" + "\n".join(faults)
    return [stops[number] for number in order]


async def picture(page: Page, name: str) -> Path | None:
    """The whole page, if somebody asks for pictures: `NAME-WIDTH-SCHEME.png` in the folder of `TESTS_PICTURES`."""
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
    """What a page costs whoever opens it."""

    lcp_ms: float  # when the largest thing was painted: Largest Contentful Paint
    cls: float  # how much moved about by itself: Cumulative Layout Shift
    transferred_bytes: int  # with headers, of the page and of all it has loaded; what the browser kept counts nothing
    requests: int


# The paint is told of some time after it has happened; shifts are told of in the same way, and before it.
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
    """Of a page that was opened and not yet touched: the first click or key ends what a browser tells of paint."""
    return Measured(**await page.evaluate(_MEASURE))
