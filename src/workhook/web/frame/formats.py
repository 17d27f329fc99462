"""Formatting and parsing of moments, days, durations and amounts in the reader's language and time zone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from workhook.core.clock import HOUR_MS, now_ms, to_seconds_text
from workhook.core.errors import shown
from workhook.core.money import HUNDREDTH_DIGITS, amount_text, digits_of
from workhook.core.zones import calendar_day, day_in, is_day, is_known, zone_of
from workhook.http.calls import current
from workhook.web.frame import cookies, names, texts
from workhook.web.frame.texts import gettext
from workhook.work.kernel.durations import format_duration, hour_hundredths, typed_duration_ms
from workhook.work.money.invoices.schemas import is_overdue

if TYPE_CHECKING:
    from workhook.work.money.checkouts.schemas import Checkout

COOKIE = "workhook_timezone"


def reader_zone() -> tzinfo:
    """Return the reader's time zone, or UTC outside a request."""
    call = current()
    name = cookies.read(call, COOKIE) if call is not None else None
    return zone_of(name) if name and is_known(name) else UTC


def today() -> date:
    """Return the current day in the reader's time zone."""
    return day_in(now_ms(), reader_zone())


def shown_day(at_ms: int) -> date:
    """Return the day of a deadline: a date as it is, a moment in the reader's time zone."""
    return calendar_day(at_ms, reader_zone())


def span_name(first: date, last: date) -> str:
    """Format a range of days with the year of the last: `November 23 to 29, 2026`."""
    if (first.year, first.month) == (last.year, last.month):
        return gettext(
            "%(month)s %(first)s to %(last)s, %(year)s",
            month=month_names()[first.month - 1],
            first=first.day,
            last=last.day,
            year=last.year,
        )
    return gettext("%(first)s to %(last)s, %(year)s", first=day_name(first), last=day_name(last), year=last.year)


def day_name(day: date) -> str:
    """Format the day and the month: `November 30`."""
    return _day_text(day, month_names(), has_year=False)


def full_day_name(day: date) -> str:
    """Format the day with its year: `November 30, 2026`."""
    return _day_text(day, month_names(), has_year=True)


def weekday_day_name(day: date) -> str:
    """Format the day with its weekday: `Monday, November 30`."""
    return f"{weekday_names()[day.weekday()]}, {day_name(day)}"


def short_day_name(day: date) -> str:
    """Format the day as the controller `when` does: `Nov 30`, and with the year if it is not the current one."""
    return _day_text(day, short_month_names(), has_year=day.year != today().year)


def axis_day_name(day: date) -> str:
    """Format the day for the axis of a chart: `Nov 30`."""
    return _day_text(day, short_month_names(), has_year=False)


def _day_text(day: date, months: Sequence[str], *, has_year: bool) -> str:
    name = {"month": months[day.month - 1], "day": day.day, "year": day.year}
    return (gettext("%(month)s %(day)s, %(year)s") if has_year else gettext("%(month)s %(day)s")) % name


def weekday_names() -> list[str]:
    return gettext("Monday Tuesday Wednesday Thursday Friday Saturday Sunday").split()


def month_names() -> list[str]:
    names = gettext("January February March April May June July August September October November December")
    return names.split()


def short_month_names() -> list[str]:
    return gettext("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec").split()


_WORD = re.compile(r"[^\W_]+")
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_ADDRESS = re.compile(r"""(https?://[^\s<>"']{1,2000}[^\s<>"'.,;:!?)\]])""")
_DECIMAL = {"en": (",", "."), "de": (".", ",")}


def moment(at_ms: int) -> str:
    """Format a moment: `2026-11-24 19:05:18 UTC`."""
    return to_seconds_text(at_ms).replace("T", " ").replace("Z", " UTC")


def when(at_ms: int | None, style: str = "relative") -> Markup:
    """Return a `<time>` element with the moment in UTC.

    The controller `when` shows it in the reader's time zone and language, as `relative`, `date`, `minute` or `moment`
    (with seconds).
    """
    if at_ms is None:
        return Markup("\u2013")
    iso = to_seconds_text(at_ms)
    return Markup('<time datetime="{}" data-controller="when" data-when-style-value="{}">{}</time>').format(
        iso, style, short_day_name(shown_day(at_ms)) if style == "date" else moment(at_ms)
    )


def dated(day: date) -> Markup:
    """Return a `<time>` element with a day that is the same in every time zone."""
    return Markup('<time datetime="{}" data-controller="when" data-when-style-value="day">{}</time>').format(
        day.isoformat(), short_day_name(day)
    )


def deadline(at_ms: int | None) -> Markup:
    """Return a `<time>` element with the day of a deadline, like `shown_day`."""
    return when(at_ms, "date") if at_ms is None or not is_day(at_ms) else dated(shown_day(at_ms))


def sold_day(at_ms: int, checkout: Checkout) -> Markup:
    """Show the day of a moment in the seller's time zone, as invoices do."""
    return dated(day_in(at_ms, checkout.zone))


def last_day(ends_ms: int, zone: tzinfo) -> Markup:
    """Show the last day before an exclusive end."""
    return dated(day_in(ends_ms - 1, zone))


def iso_day(text: str) -> Markup:
    """Show a day such as `2026-11-27`."""
    return dated(date.fromisoformat(text))


def clock(at_ms: int, zone: tzinfo) -> str:
    """Format the time of day in a time zone: `9:05`."""
    at = datetime.fromtimestamp(at_ms // 1000, zone)
    return f"{at.hour}:{at.minute:02}"


def hundredths(value: int) -> str:
    """Format a number of hundredths: `1,234.50`."""
    return _in_style(value, HUNDREDTH_DIGITS)


def money(minor: int, currency: str) -> str:
    """Format an amount in minor units, without its currency: `1,234.50`."""
    return _in_style(minor, digits_of(currency))


def _in_style(value: int, digits: int) -> str:
    thousands, decimal = _DECIMAL[texts.language()]
    unit: int = 10**digits
    whole, part = divmod(abs(value), unit)
    number = f"{whole:,}".replace(",", thousands)
    sign = "\u2212" if value < 0 else ""
    return f"{sign}{number}" + (f"{decimal}{part:0{digits}}" if digits else "")


def whole(value: int) -> str:
    """Format a whole number: `1,234`."""
    return _in_style(value, 0)


def amount(minor: int, currency: str) -> str:
    """Format an amount in minor units: `1,234.50 EUR`, `1,235 JPY`."""
    return f"{money(minor, currency)} {currency}"


def hours(ms: int) -> str:
    """Format hours, rounded to a hundredth: `1.50`."""
    return hundredths(hour_hundredths(ms))


def with_mark(number: str) -> str:
    """Replace the point of a number such as `1.2` by the decimal mark of the reader's language."""
    return number.replace(".", _DECIMAL[texts.language()][1])


def typed_amount(minor: int | None, currency: str) -> str:
    """Format an amount in minor units for a form field, as `read_amount` reads it: `1234.50`; in German `1234,50`."""
    return "" if minor is None else with_mark(amount_text(minor, currency))


def typed_hundredths(value: int | None) -> str:
    """Format a number of hundredths for a form field, so that `read_amount` can parse it."""
    return "" if value is None else with_mark(f"{Decimal(value).scaleb(-HUNDREDTH_DIGITS):f}")


def number(value: Decimal) -> str:
    """Format a number with all its decimal places, for text and form fields: `1.5`."""
    return with_mark(f"{value:f}")


def task_credits(minor: int, *, signed: bool = False) -> str:
    """Format credits in hundredths: `1,250` or `12.50`; with `signed` also `+12.50`."""
    found = hundredths(minor) if minor % 100 else _in_style(minor // 100, 0)
    return f"+{found}" if signed and minor > 0 else found


def read_number(typed: str) -> str:
    """Parse a number in the reader's language into the API's form: `1,250.5` is `1250.5`.

    Raises `ValueError` for anything else, including the notation of other languages, because a mistaken comma or point
    would change the number by a factor of a thousand. The message shows how to write it.
    """
    if (found := _read(typed, *_DECIMAL[texts.language()])) is not None:
        return found
    message = gettext("“%(typed)s” is not a number. Enter a number such as %(example)s.")
    raise ValueError(message % _as_example(typed, _read_foreign(typed) or "1.5"))


def _read(typed: str, thousands: str, decimal: str) -> str | None:
    found = _number(thousands, decimal).fullmatch(typed.strip().replace("\u2212", "-"))
    if found is None:
        return None
    whole = found["whole"].replace(found["group"], "") if found["group"] else found["whole"]
    return found["sign"] + (whole or "0") + (f".{found['part']}" if found["part"] else "")


def _read_foreign(typed: str) -> str | None:
    """Parse a number in another language's notation, for the example in the message."""
    thousands, decimal = _DECIMAL[texts.language()]
    return _read(typed, decimal, thousands)


def read_quantity(typed: str) -> str:
    """Parse like `read_number`, but reject three zeros after the point: many people mean a thousand by `1.000`."""
    found = read_number(typed)
    if found.endswith(".000"):
        message = gettext("“%(typed)s” is ambiguous. Enter %(one)s or %(thousands)s.")
        whole = found.removesuffix(".000")
        raise ValueError(message % {"typed": typed.strip(), "one": whole, "thousands": f"{whole}000"})
    return found


def read_amount(typed: str, currency: str | None = None) -> str:
    """Parse an amount of money like `read_number`.

    Without a currency, it is in credits or hours, with two decimal places.

    More decimal places are rejected, because three are probably thousands in another language's notation. One or two
    zeros are ignored.
    """
    digits = HUNDREDTH_DIGITS if currency is None else digits_of(currency)
    example = f"{Decimal(1250):.{digits}f}"
    try:
        found = read_number(typed)
    except ValueError:
        message = gettext("“%(typed)s” is not an amount. Enter one such as %(example)s.")
        raise ValueError(message % _as_example(typed, _read_foreign(typed) or example)) from None
    whole, _, part = found.partition(".")
    if len(part) <= digits:
        return found
    if len(part) <= HUNDREDTH_DIGITS and not part[digits:].strip("0"):
        return f"{whole}.{part[:digits]}" if digits else whole
    if digits == 0:
        message = gettext(
            "“%(typed)s” has decimal places, but this currency has none. Enter an amount such as %(example)s."
        )
    elif digits == HUNDREDTH_DIGITS:
        message = gettext("“%(typed)s” has more than two decimal places. Enter an amount such as %(example)s.")
    else:
        message = gettext("“%(typed)s” has more than three decimal places. Enter an amount such as %(example)s.")
    raise ValueError(message % _as_example(typed, example))


def read_hours(typed: str, _: str | None = None) -> str:
    """Parse hours like `read_amount`, or a duration such as `1:30` or `90m`, into hours with two decimal places."""
    with_units = None if re.fullmatch(r"[^:a-zA-Z]*", typed) else typed_duration_ms(typed)
    return read_amount(typed) if with_units is None else f"{Decimal(with_units) / HOUR_MS:.{HUNDREDTH_DIGITS}f}"


def read_percent(typed: str) -> str:
    """Parse like `read_number`, with or without a percent sign."""
    return read_number(typed.strip().removesuffix("%"))


@cache
def _number(group: str, point: str) -> re.Pattern[str]:
    """Return the pattern of a number. Spaces and apostrophes may also separate thousands."""
    between = rf"(?P<group>[{group} \u00a0\u2009\u202f'\u2019])"
    whole = rf"[1-9]\d{{0,2}}(?:{between}\d{{3}}(?:(?P=group)\d{{3}})*)|\d+|(?=[{point}]\d)"
    return re.compile(rf"(?P<sign>-?)(?P<whole>{whole})(?:[{point}](?P<part>\d+))?", re.ASCII)


def _as_example(typed: str, plain: str) -> dict[str, str]:
    return {"typed": shown(typed), "example": number(Decimal(plain))}


def file_size(count: int) -> str:
    """Format bytes in the largest fitting unit: `1.5 MiB`."""
    value, units = float(count), iter(_SIZES)
    unit = next(units)
    while value >= 1024 and unit != _SIZES[-1]:
        value, unit = value / 1024, next(units)
    number = f"{value:.0f}" if unit == "B" or value >= 100 else f"{value:.1f}".removesuffix(".0")
    return f"{with_mark(number)} {unit}"


def initials(name: str) -> str:
    """Return one or two letters for an avatar."""
    words: list[str] = _WORD.findall(name) or ["?"]
    return (words[0][:1] + (words[-1][:1] if len(words) > 1 else words[0][1:2])).upper()


_HUES = {
    "red": 0, "orange": 1, "yellow": 2, "lime": 3, "green": 4, "teal": 5, "sky": 6, "blue": 8, "purple": 9, "pink": 11,
}  # fmt: skip


def hue(name: str, colors: Mapping[str, str] | None = None) -> int:
    """Return the hue of a name, from 0 to 11.

    It comes from `colors`, or from the name itself if that is a color such as `Dark red`, or is derived from the name.
    """
    color = (colors or {}).get(name) or name.lower().removeprefix("light ").removeprefix("dark ")
    return _HUES.get(color, sum(name.encode()) % 12)


def day(at_ms: int | None) -> str:
    """Format `shown_day` for a form field, empty for None."""
    return "" if at_ms is None else shown_day(at_ms).isoformat()


def linked(text: str) -> Markup:
    """Escape a user's text and link its URLs. The CSS class `written` keeps its line breaks."""
    link = Markup('<a href="{0}" rel="noopener noreferrer nofollow">{0}</a>')
    parts = _ADDRESS.split(text)  # URLs have odd indexes
    return Markup("").join(link.format(part) if number % 2 else part for number, part in enumerate(parts))


def since(at_ms: int, counted_ms: int = 0) -> int:
    """Return the milliseconds of a timer that has been running since `at_ms`."""
    return counted_ms + max(0, now_ms() - at_ms)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "time": moment,
    "when": when,
    "dated": dated,
    "deadline": deadline,
    "sold_day": sold_day,
    "last_day": last_day,
    "iso_day": iso_day,
    "is_overdue": is_overdue,
    "duration": format_duration,
    "clock": clock,
    "amount": amount,
    "money": money,
    "hundredths": hundredths,
    "hours": hours,
    "file_size": file_size,
    "typed_amount": typed_amount,
    "typed_hundredths": typed_hundredths,
    "number": number,
    "whole": whole,
    "task_credits": task_credits,
    "initials": initials,
    "hue": hue,
    "called": names.called,
    "tint": names.tint,
    "day": day,
    "full_day_name": full_day_name,
    "weekday_day_name": weekday_day_name,
    "linked": linked,
    "since": since,
}
