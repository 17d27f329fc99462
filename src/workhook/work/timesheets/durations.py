"""Durations as people and programs write them. Pure.

Milliseconds (`5400000`), hours and minutes (`1:30`, `1:30:15`), parts with units (`1h 30m`, `90m`, `1.5h`), and those
of ISO 8601 with hours, minutes and seconds (`PT1H30M`).
"""

from __future__ import annotations

import re
from fractions import Fraction

from workhook.core.clock import HOUR_MS, MINUTE_MS, SECOND_MS

TEXT_MAX_CHARS = 40
_NUMBER = r"\d{1,15}(?:[.,]\d{1,6})?"
_CLOCK = re.compile(r"(\d{1,15}):([0-5]?\d)(?::([0-5]?\d))?", re.ASCII)
_PARTS = re.compile(
    rf"(?:({_NUMBER})\s*h(?:ours?|rs?)?)?\s*(?:({_NUMBER})\s*m(?:in(?:utes?|s)?)?)?\s*(?:({_NUMBER})\s*s(?:ec(?:onds?|s)?)?)?",
    re.ASCII,
)
_ISO = re.compile(rf"pt(?:({_NUMBER})h)?(?:({_NUMBER})m)?(?:({_NUMBER})s)?", re.ASCII)
_UNITS_MS = (HOUR_MS, MINUTE_MS, SECOND_MS)


def duration_ms(text: str) -> int | None:
    """Milliseconds, rounded down to a whole one; None for what is no duration."""
    typed = text.strip().lower()
    if not 1 <= len(typed) <= TEXT_MAX_CHARS or not typed.isascii():
        return None
    if typed.isdigit():
        return int(typed)
    for form in (_CLOCK, _ISO, _PARTS):
        if (found := form.fullmatch(typed)) and any(found.groups()):
            parts = zip(found.groups(), _UNITS_MS, strict=True)
            return int(sum(Fraction(part.replace(",", ".")) * unit for part, unit in parts if part))
    return None
