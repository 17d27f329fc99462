"""What a browser and its system are called, of the header `User-Agent`. It is for people to recognize a session by."""

from __future__ import annotations

import re

from workhook.web.frame.texts import gettext

# Each names itself, and most of those below it for old servers: so the first that is found counts.
_BROWSERS = (
    ("Edge", r"Edg(?:e|A|iOS)?/"),
    ("Opera", r"OPR/|Opera"),
    ("Samsung Internet", r"SamsungBrowser/"),
    ("Vivaldi", r"Vivaldi/"),
    ("Firefox", r"Firefox/|FxiOS/"),
    ("Chrome", r"(?:Headless)?Chrom(?:e|ium)/|CriOS/"),
    ("Safari", r"Version/[\d.]+.* Safari/"),
)
_SYSTEMS = (
    ("iPhone", r"iPhone"),
    ("iPad", r"iPad"),
    ("Android", r"Android"),
    ("ChromeOS", r"CrOS"),
    ("Windows", r"Windows"),
    ("macOS", r"Macintosh|Mac OS X"),
    ("Linux", r"Linux|X11"),
)


def browser_name(user_agent: str) -> str:
    """`Chrome on Linux`; the header as it is where it names no browser that is known."""
    browser, system = _first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)
    if browser and system:
        return gettext("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return browser or user_agent


def _first(known: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for name, pattern in known if re.search(pattern, text)), "")
