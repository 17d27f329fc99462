"""Characters that are missing from all fonts on this machine. Invoice pages warn about them before a client sees boxes.

Finding them takes a limited process, so each character is checked only once. A character with a font is cached for the
lifetime of this process, and one without for some minutes, because fonts may be installed in the meantime.
"""

from __future__ import annotations

import asyncio
import re
import time
import unicodedata
from weakref import WeakKeyDictionary

import structlog

from workhook.core.limited_process import ProcessFailed as RenderFailed
from workhook.work.money.invoices import documents
from workhook.work.money.invoices.printing import printable

WAIT_S = 1.5
"""The time a page waits for a check. Later pages can use its result even if it takes longer."""
CHECK_S = 20.0
AT_ONCE = 300
"""The number of characters per check."""
WANTED_MAX, KNOWN_MAX = 3_000, 100_000
RETRY_S = 300.0
"""The time for which a character counts as having no font or, if the check failed, as having one."""

# Characters of the bundled fonts, as in `render.py`; few texts have any others.
_SHIPPED = re.compile("[\0-\u024f\u0391-\u03a1\u03a3-\u03ce\u0401-\u044f\u2010-\u2022\u2026\u20ac]+")
_WITHOUT_A_SHAPE = ("Cc", "Cf", "Cs", "Mn", "Mc", "Me", "Zs", "Zl", "Zp")
_FOR_EVER = float("inf")

log = structlog.get_logger(__name__)


class FontKnowledge:
    """The results of earlier checks, for the requests of one event loop."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bool, float]] = {}  # whether each lacks a font, and until when this is known
        self._wanted: dict[str, None] = {}
        self._check: asyncio.Task[None] | None = None

    async def missing_in(self, text: str) -> str:
        """Return the distinct characters without a font that are known within `WAIT_S`."""
        rest = _SHIPPED.sub("", text)
        shaped = (each for each in printable(rest) if unicodedata.category(each) not in _WITHOUT_A_SHAPE)
        found = list(dict.fromkeys(shaped)) if rest else []
        now = time.monotonic()
        unknown = [each for each in found if self._known.get(each, (False, 0.0))[1] <= now]
        if unknown:
            self._wanted |= dict.fromkeys(unknown[: max(WANTED_MAX - len(self._wanted), 0)])
            if self._check is None or self._check.done():
                self._check = asyncio.create_task(self._ask())
            await asyncio.wait([self._check], timeout=WAIT_S)
        return "".join(each for each in found if self._known.get(each, (False, 0.0))[0])

    async def _ask(self) -> None:
        while self._wanted:
            asked = "".join(list(self._wanted)[:AT_ONCE])
            try:
                lacking, good_s = await documents.find_missing(asked, timeout_s=CHECK_S), _FOR_EVER
            except (RenderFailed, OSError) as failed:
                log.warning("font_check_failed", error=str(failed), stderr=getattr(failed, "stderr", ""))
                lacking, good_s = set(), RETRY_S
            now = time.monotonic()
            if len(self._known) > KNOWN_MAX:
                self._known.clear()
            for each in asked:
                self._wanted.pop(each, None)
                self._known[each] = each in lacking, now + (RETRY_S if each in lacking else good_s)


_font_knowledge: WeakKeyDictionary[asyncio.AbstractEventLoop, FontKnowledge] = WeakKeyDictionary()


async def missing_in(text: str) -> str:
    """Return the distinct characters of the text that are missing from all fonts on this machine."""
    return await _font_knowledge.setdefault(asyncio.get_running_loop(), FontKnowledge()).missing_in(text)


_EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH")


def package_for(missing: str) -> str:
    """Return a font package of Debian and other distributions that probably has the characters."""
    is_east_asian = any(unicodedata.name(each, "").startswith(_EAST_ASIAN) for each in missing)
    return "fonts-noto-cjk" if is_east_asian else "fonts-noto-core"


def format_missing(missing: str, limit: int = 12) -> str:
    """Return the first of the characters for a page; one without a Unicode name is shown as its code point."""
    shown = (each if unicodedata.name(each, "") else f"U+{ord(each):04X}" for each in missing[:limit])
    return " ".join(shown) + (" …" if len(missing) > limit else "")
