"""Durations as people and programs write them, in one grammar for the API, pages and imports.

Accepted forms are hours and minutes (`1:30`, `1:5`, `:15`, `1:30:15`), parts with units (`1h 30m`, `1h30`, `90m`,
`1.5h`), decimal hours (`1.5`, `1,5`, `.5`), and hours, minutes and seconds of ISO 8601 (`PT1H30M`). Only the meaning of
a bare whole number depends on the source: milliseconds in the API (`5400000`), hours on pages. Fractions of a second
are dropped.
"""

from __future__ import annotations

import re
from fractions import Fraction

from workhook.core.clock import HOUR_MS, MINUTE_MS, SECOND_MS
from workhook.core.money import half_up

TEXT_MAX_CHARS = 40
BARE_HOURS_MAX = 24
"""The largest bare number read as hours. Larger ones are ambiguous: some people mean minutes, others hours."""

_NUMBER = r"(?:\d{1,15}(?:[.,]\d{1,6})?|(?<![a-z.])[.,]\d{1,6})"  # in `2h,30m` the comma is not a decimal mark
_HOURS = r"(?:h|hrs?|hours?|std\.?|stunden?)"
_MINUTES = r"(?:m|mins?|minutes?|min\.|minuten?)"
_SECONDS = r"(?:s|secs?|seconds?|sek\.?|sekunden?)"
_FORMS = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"(\d{{0,15}}):([0-5]?\d)(?::([0-5]?\d))?\s*{_HOURS}?",
        rf"pt(?:({_NUMBER})h)?(?:({_NUMBER})m)?(?:({_NUMBER})s)?",
        rf"(?:({_NUMBER})\s*{_HOURS})?\s*(?:({_NUMBER})\s*{_MINUTES})?\s*(?:({_NUMBER})\s*{_SECONDS})?",
        rf"(\d{{1,15}})\s*{_HOURS}\s*([0-5]?\d)()",
        r"(\d{0,15}[.,]\d{1,6})()()",
    )
)
_UNITS_MS = (HOUR_MS, MINUTE_MS, SECOND_MS)
_SPACES = re.compile("[\t\u00a0\u2009\u202f]")
_PERHAPS_THOUSANDS = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
"""A thousand in one language, a decimal fraction in another; rejected rather than misread."""


class AmbiguousNumber(ValueError):
    """A whole number that could be hours or minutes."""

    def __init__(self, number: int) -> None:
        super().__init__(f"{number} can be minutes or hours")
        self.number = number


def duration_ms(text: str) -> int | None:
    """Parse a duration into milliseconds, truncated to whole seconds, or return None. A bare number is milliseconds."""
    typed = _plain(text)
    return whole_seconds(int(typed)) if typed.isdigit() else _read(typed)


def typed_duration_ms(text: str, unit_ms: int | None = None) -> int | None:
    """Parse a duration typed by a person into milliseconds; return None if it is invalid.

    A bare whole number means hours, and raises `AmbiguousNumber` if it may mean minutes. With `unit_ms`, any bare
    number is in that unit.
    """
    typed = _plain(text)
    if unit_ms is not None and re.fullmatch(_NUMBER, typed, re.ASCII):
        return None if _PERHAPS_THOUSANDS.fullmatch(typed) else whole_seconds(int(_fraction(typed) * unit_ms))
    if not typed.isdigit():
        return _read(typed)
    if int(typed) > BARE_HOURS_MAX:
        raise AmbiguousNumber(int(typed))
    return int(typed) * HOUR_MS


def _plain(text: str) -> str:
    """Normalize a text. Returns an empty string if it cannot be a duration; digits of other scripts are rejected."""
    typed = _SPACES.sub(" ", text).strip().lower()
    return typed if len(typed) <= TEXT_MAX_CHARS and typed.isascii() else ""


def _read(typed: str) -> int | None:
    for form in _FORMS:
        if (found := form.fullmatch(typed)) and any(found.groups()):
            if any(each and _PERHAPS_THOUSANDS.fullmatch(each) for each in found.groups()):
                return None
            parts = zip(found.groups(), _UNITS_MS, strict=True)
            return whole_seconds(int(sum(_fraction(part) * unit for part, unit in parts if part)))
    return None


def _fraction(number: str) -> Fraction:
    return Fraction("0" + number.replace(",", "."))


def whole_seconds(duration_ms: int) -> int:
    """Round milliseconds down to a whole second."""
    return duration_ms // SECOND_MS * SECOND_MS


def format_duration_with_units(duration_ms: int) -> str:
    """Format as `1h 30m 5s`, in whole seconds and without zero parts; `0s` for less than a second."""
    minutes, seconds = divmod(duration_ms // SECOND_MS, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{count}{unit}" for count, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if count]
    return " ".join(parts) or "0s"


def format_duration(duration_ms: int) -> str:
    """Format as `1:30`, or `1:30:15` with seconds, as shown on pages, in PDFs and in the API."""
    minutes, seconds = divmod(duration_ms // SECOND_MS, 60)
    return f"{minutes // 60}:{minutes % 60:02d}" + (f":{seconds:02d}" if seconds else "")


def hour_hundredths(duration_ms: int) -> int:
    """Return the duration in hundredths of an hour, rounded half up."""
    return half_up(duration_ms * 100, HOUR_MS)


def decimal_hours(duration_ms: int) -> float:
    """Return the duration in hours, rounded half up to two decimal places."""
    return hour_hundredths(duration_ms) / 100


def signed_hours(duration_ms: int) -> float:
    """Return `decimal_hours` of a difference, which may be negative."""
    return decimal_hours(duration_ms) if duration_ms >= 0 else -decimal_hours(-duration_ms)


def two_decimals(minor: int) -> str:
    """Format 8000 as `80.00`."""
    return f"{minor // 100}.{minor % 100:02d}"


def hours_text(duration_ms: int) -> str:
    """Format `decimal_hours` with both decimal places."""
    return two_decimals(hour_hundredths(duration_ms))


def amount_minor(duration_ms: int, billable_rate_minor: int) -> int:
    """Multiply hours by the rate, in minor units, rounding half up once."""
    return half_up(duration_ms * billable_rate_minor, HOUR_MS)
