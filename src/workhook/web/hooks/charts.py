"""The health of a webhook as words and as a small chart of the last 24 hours."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workhook.core.clock import parse_rfc3339
from workhook.hooks.health import HealthBucket, HookHealth
from workhook.web.frame.formats import with_mark
from workhook.web.frame.texts import gettext, ngettext

HEIGHT = 24
STEP = 5  # the width of an hour, with the gap behind it
_LEAST = 2  # keeps a single failure among thousands visible


class Bar(msgspec.Struct, frozen=True):
    """One hour: heights from the bottom, with failures above successes."""

    x: int
    good: int
    bad: int

    @property
    def good_y(self) -> int:
        return HEIGHT - self.good

    @property
    def bad_y(self) -> int:
        return HEIGHT - self.good - self.bad


def bars(buckets: Sequence[HealthBucket]) -> list[Bar]:
    """Return the bars of the hours, scaled to the busiest one."""
    most = max((each.succeeded + each.failed for each in buckets), default=0)
    return [
        Bar(number * STEP, _height(each.succeeded, most), _height(each.failed, most))
        for number, each in enumerate(buckets)
    ]


def _height(count: int, most: int) -> int:
    return max(_LEAST, count * (HEIGHT - _LEAST) // most) if count else 0


def milliseconds(text: str | None) -> int | None:
    """Parse a moment of the API, for the filter `when`."""
    return None if text is None else parse_rfc3339(text)


def in_words(health: HookHealth) -> str:
    """Describe the chart for screen readers."""
    if not health.deliveries:
        return gettext("No deliveries in the last 24 hours.")
    counted = ngettext("%(num)d delivery", "%(num)d deliveries", health.deliveries)
    failed = sum(each.failed for each in health.buckets)
    return gettext("%(deliveries)s in the last 24 hours, %(failed)d failed.", deliveries=counted, failed=failed)


def share(rate: float | None) -> str:
    """Format a rate such as `99.8%`; never 100% if anything failed."""
    if rate is None:
        return "\u2013"
    tenths = int(rate * 1000)
    percent = str(tenths // 10) if tenths % 10 == 0 else with_mark(f"{tenths // 10}.{tenths % 10}")
    return gettext("%(percent)s%%", percent=percent)


def took(ms: float | None) -> str:
    """Format a percentile of durations like the duration of a delivery."""
    return "\u2013" if ms is None else lasted(round(ms / 1000, 2))


def lasted(seconds: float) -> str:
    """Format the duration of a delivery, which has a resolution of 10 ms: `80 ms` or `1.2 s`."""
    if not seconds:
        return "<\u202f10\u202fms"
    ms = seconds * 1000
    return f"{ms:.0f}\u202fms" if ms < 1000 else f"{with_mark(f'{ms / 1000:.1f}')}\u202fs"
