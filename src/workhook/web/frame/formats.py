"""How pages write moments, durations, amounts and names. Scripts turn moments into the reader's own zone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

from workhook.core.clock import now_ms, to_seconds_text
from workhook.web.frame import names, texts

if TYPE_CHECKING:
    from markupsafe import Markup

_WORD = re.compile(r"[^\W_]+")
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_ADDRESS = re.compile(r"""(https?://[^\s<>"']{1,2000}[^\s<>"'.,;:!?)\]])""")
_DECIMAL = {"en": (",", "."), "de": (".", ",")}


def moment(at_ms: int) -> str:
    """`2026-11-24 19:05:18 UTC`."""
    return to_seconds_text(at_ms).replace("T", " ").replace("Z", " UTC")


def when(at_ms: int | None, style: str = "relative") -> Markup:
    """A `<time>` element with the moment in UTC. The controller `when` shows it in the reader's zone and language, as
    `relative`, `date` or `moment`."""
    from markupsafe import Markup

    if at_ms is None:
        return Markup("\u2013")
    iso = to_seconds_text(at_ms)
    return Markup('<time datetime="{}" data-controller="when" data-when-style-value="{}">{}</time>').format(
        iso, style, moment(at_ms)[:10] if style == "date" else moment(at_ms)
    )


def duration(ms: int) -> str:
    """Hours and minutes: `1:05`."""
    minutes = ms // 60_000
    return f"{minutes // 60}:{minutes % 60:02}"


def clock(at_ms: int, zone: tzinfo) -> str:
    """The time of day in the zone: `9:05`."""
    at = datetime.fromtimestamp(at_ms // 1000, zone)
    return f"{at.hour}:{at.minute:02}"


def plain_amount(minor: int) -> str:
    """As a field of a form holds an amount in hundredths: `1234.50`."""
    return f"{minor // 100}.{minor % 100:02}"


def amount(minor: int, currency: str) -> str:
    """An amount in hundredths, as the reader's language writes it: `1,234.50 EUR`."""
    thousands, decimal = _DECIMAL[texts.language()]
    whole, part = divmod(abs(minor), 100)
    number = f"{whole:,}".replace(",", thousands)
    sign = "\u2212" if minor < 0 else ""
    return f"{sign}{number}{decimal}{part:02} {currency}"


def file_size(count: int) -> str:
    """Bytes in the largest unit of which there is one: `1.5 MiB`, as limits of the API are told."""
    value, units = float(count), iter(_SIZES)
    unit = next(units)
    while value >= 1024 and unit != _SIZES[-1]:
        value, unit = value / 1024, next(units)
    number = f"{value:.0f}" if unit == "B" or value >= 100 else f"{value:.1f}".removesuffix(".0")
    return f"{number.replace('.', _DECIMAL[texts.language()][1])} {unit}"


def initials(name: str) -> str:
    """One or two letters that stand for somebody without a picture. Signs are no letters."""
    words: list[str] = _WORD.findall(name) or ["?"]
    return (words[0][:1] + (words[-1][:1] if len(words) > 1 else words[0][1:2])).upper()


def hue(name: str) -> int:
    """Which of twelve colours (`hue-0` to `hue-11`) stands for a name; the same each time."""
    return sum(name.encode()) % 12


def day(at_ms: int | None) -> str:
    """The date in UTC as a field of a form has it; empty for none."""
    return "" if at_ms is None else moment(at_ms)[:10]


def linked(text: str) -> Markup:
    """Text of a person: escaped, with its web addresses as links. Line breaks are kept by the style `written`."""
    from markupsafe import Markup

    link = Markup('<a href="{0}" rel="noopener noreferrer nofollow">{0}</a>')
    parts = _ADDRESS.split(text)  # what stands at the odd places are the addresses
    return Markup("").join(link.format(part) if number % 2 else part for number, part in enumerate(parts))


def since(at_ms: int, counted_ms: int = 0) -> int:
    """How many milliseconds a timer has counted that runs since then."""
    return counted_ms + max(0, now_ms() - at_ms)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "time": moment,
    "when": when,
    "duration": duration,
    "clock": clock,
    "amount": amount,
    "file_size": file_size,
    "plain_amount": plain_amount,
    "initials": initials,
    "hue": hue,
    "called": names.called,
    "tint": names.tint,
    "day": day,
    "linked": linked,
    "since": since,
}
