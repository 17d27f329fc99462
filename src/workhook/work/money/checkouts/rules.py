"""The states of a subscription, their transitions and their calendar, as pure functions.

pending → (complete) active ⇄ paused → canceled. Only times are stored, and the status follows from them. A subscription
that ends with its period is active until then, and canceled afterwards without being changed.

The calendar uses the seller's time zone and milliseconds since the epoch. Period ends are counted from an anchor, so
they do not drift. A monthly subscription that starts on 31 January has periods ending on 28 February, 31 March and 30
April. They keep the time of day when the clocks change.
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, timedelta, tzinfo
from typing import Literal

import msgspec
from msgspec.structs import replace

from workhook.core.clock import DAY_MS
from workhook.core.errors import Conflict, say
from workhook.core.records import Record
from workhook.core.zones import at_same_time, day_in
from workhook.work.money.services.schemas import Interval

Status = Literal["pending", "active", "paused", "canceled"]

_MONTHS: dict[Interval, int] = {"month": 1, "year": 12}


class Terms(msgspec.Struct, frozen=True):
    """The terms of the service and price. `interval` is None without a price; `zone` is the seller's time zone."""

    interval: Interval | None
    disable_pause: bool
    limit_pausing: int | None
    minimum_months: int | None
    cancel_at_period_end: bool
    zone: tzinfo = UTC


class State(Record, frozen=True):
    """The state of a subscription. Times are in milliseconds.

    `periods` is the number of periods that have started; the last one ends at `period_end`. Period n ends
    `n - anchor_periods` intervals after `anchor`.
    """

    completed_at: int | None = None
    pauses: int = 0
    pause_date: int | None = None
    cancel_date: int | None = None
    period_end: int | None = None
    periods: int = 0
    anchor: int | None = None
    anchor_periods: int = 0

    @property
    def due_at(self) -> int | None:
        """The start of the next period, or None if no further period will start."""
        if self.completed_at is None or self.pause_date is not None or self.cancel_date is not None:
            return None
        return self.period_end

    def is_due(self, now: int) -> bool:
        return self.due_at is not None and self.due_at <= now

    def status(self, now: int) -> Status:
        if self.pause_date is not None:
            return "paused"
        if self.cancel_date is not None and self.cancel_date <= now:
            return "canceled"
        return "pending" if self.completed_at is None else "active"

    def days_left(self, now: int) -> int | None:
        """The days left in the period, rounded up, or None without a period. A pause stops the count."""
        if self.period_end is None:
            return None
        if self.status(now) == "canceled":
            return 0
        since = now if self.pause_date is None else self.pause_date
        return max(0, -((since - self.period_end) // DAY_MS))


def complete(state: State, terms: Terms, now: int) -> State:
    """Start the first period. A completed checkout is left unchanged. Raises `Conflict`."""
    if state.completed_at is None:
        return next_period(replace(state, completed_at=now, anchor=now), terms)
    _require_not_canceled(state, now)
    return state


def next_period(state: State, terms: Terms) -> State:
    """Start the next period at the end of the last one. Without a price, or with a one-time price, it has no end."""
    number, end = state.periods + 1, None
    if state.anchor is not None and terms.interval is not None:
        end = period_end(state.anchor, terms.interval, number - state.anchor_periods, terms.zone)
    return replace(state, periods=number, period_end=end)


def pause(state: State, terms: Terms, now: int) -> State:
    """Pause a subscription that has no due period. Raises `Conflict`."""
    _require_completed(state)
    _require_not_canceled(state, now)
    if state.pause_date is not None:
        return state
    if terms.disable_pause:
        raise Conflict("The service does not allow its checkouts to be paused.", code="pause_disabled")
    if terms.limit_pausing is not None and state.pauses >= terms.limit_pausing:
        message = say(
            "The checkout has reached the maximum number of pauses that its service allows: {}.", terms.limit_pausing
        )
        raise Conflict(message, code="pause_limit_reached")
    return replace(state, pauses=state.pauses + 1, pause_date=now)


def stop(state: State, now: int) -> State:
    """Pause if another period would start, regardless of the terms and without counting the pause.

    A period that is already due starts when the checkout is resumed.
    """
    return state if state.due_at is None else replace(state, pause_date=min(now, state.due_at))


def unpause(state: State, terms: Terms, now: int) -> State:
    """Resume, extending the period by exactly the duration of the pause. Raises `Conflict`."""
    _require_completed(state)
    _require_not_canceled(state, now)
    if state.pause_date is None:
        return state
    paused_ms = max(0, now - state.pause_date)  # the clock may have been set back
    going = replace(state, pause_date=None)
    if state.period_end is None:
        return going
    end = state.period_end + paused_ms
    canceled = None if state.cancel_date is None else end  # canceled at the end of its period, which is now later
    return _count_from(replace(going, period_end=end, cancel_date=canceled), end, terms)


def _count_from(state: State, end: int, terms: Terms) -> State:
    """Count further periods from the new end of this one.

    They keep the agreed day of the month if the new end falls on it: after a short pause in February, a subscription
    that renews on the 31st next ends on 31 March.
    """
    if state.anchor is not None and terms.interval is not None:
        agreed = at_same_time(day_in(state.anchor, terms.zone), end, terms.zone)
        if period_end(agreed, terms.interval, state.periods - state.anchor_periods, terms.zone) == end:
            return replace(state, anchor=agreed)
    return replace(state, anchor=end, anchor_periods=state.periods)


def cancel(state: State, terms: Terms, now: int) -> State:
    """Cancel a subscription that has no due period. Raises `Conflict`.

    It ends with its period if the terms say so and it is not paused; otherwise it ends now.
    """
    _require_completed(state)
    if state.cancel_date is not None:
        return state
    if state.completed_at is not None and terms.minimum_months:
        earliest = add_months(state.completed_at, terms.minimum_months, terms.zone)
        if now < earliest:
            months = terms.minimum_months
            one = say("The checkout cannot be canceled in its first month.")
            message = one if months == 1 else say("The checkout cannot be canceled in its first {} months.", months)
            raise Conflict(message, code="minimum_months")
    if terms.cancel_at_period_end and state.pause_date is None and state.period_end is not None:
        return replace(state, cancel_date=state.period_end)
    return end(state, now)


def end(state: State, now: int) -> State:
    """Cancel now, regardless of the terms."""
    return replace(state, pause_date=None, cancel_date=now)


def _require_completed(state: State) -> None:
    if state.completed_at is None:
        raise Conflict("The checkout is pending: complete it first, or delete it.", code="pending")


def _require_not_canceled(state: State, now: int) -> None:
    if state.status(now) == "canceled":
        raise Conflict("The checkout is canceled.", code="canceled")


def add_months(at: int, months: int, zone: tzinfo = UTC) -> int:
    """Return the same day and time in the zone, that many months later, or the last day of a shorter month."""
    before = day_in(at, zone)
    year, month = divmod(before.year * 12 + before.month - 1 + months, 12)
    day = min(before.day, calendar.monthrange(year, month + 1)[1])
    return at_same_time(date(year, month + 1, day), at, zone)


def period_end(anchor: int, interval: Interval, number: int, zone: tzinfo = UTC) -> int | None:
    """Return the end of the nth period (counted from 1) after the anchor, or None for a one-time price."""
    if interval == "one_time":
        return None
    if interval == "week":
        return at_same_time(day_in(anchor, zone) + timedelta(weeks=number), anchor, zone)
    return add_months(anchor, number * _MONTHS[interval], zone)


def months_between(start: int, end: int, zone: tzinfo = UTC) -> int:
    """Return the whole months from `start` to `end` in the zone, or 0 if `end` is not after `start`."""
    first, last = day_in(start, zone), day_in(end, zone)
    months = (last.year - first.year) * 12 + last.month - first.month
    return max(0, months if add_months(start, months, zone) <= end else months - 1)
