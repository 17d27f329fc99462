"""The states of a subscription and the transitions between them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from workhook.core.clock import DAY_MS, HOUR_MS, parse_rfc3339
from workhook.core.errors import Conflict
from workhook.core.zones import day_in, zone_of
from workhook.work.money.checkouts import rules
from workhook.work.money.checkouts.rules import State, Terms, add_months, period_end
from workhook.work.money.services.schemas import Interval, ServicePriceParameters, parameters_of, replaced_prices

NOW = parse_rfc3339("2026-01-31T10:00:00Z")
FEBRUARY = parse_rfc3339("2026-02-28T10:00:00Z")


def terms(
    interval: Interval | None = "month",
    *,
    disable_pause: bool = False,
    limit_pausing: int | None = None,
    minimum_months: int | None = None,
    cancel_at_period_end: bool = False,
) -> Terms:
    return Terms(interval, disable_pause, limit_pausing, minimum_months, cancel_at_period_end)


def active(kind: Terms, at: int = NOW) -> State:
    return rules.complete(State(), kind, at)


def refusal(step: Callable[[], State]) -> str:
    with pytest.raises(Conflict) as refused:
        step()
    return refused.value.code


def test_a_new_subscription_is_pending_and_cannot_be_paused_or_canceled() -> None:
    state = State()
    assert (state.status(NOW), state.due_at, state.days_left(NOW)) == ("pending", None, None)
    assert refusal(lambda: rules.pause(state, terms(), NOW)) == "pending"
    assert refusal(lambda: rules.unpause(state, terms(), NOW)) == "pending"
    assert refusal(lambda: rules.cancel(state, terms(), NOW)) == "pending"


def test_completing_a_subscription_starts_the_first_period() -> None:
    state = active(terms())
    assert (state.status(NOW), state.periods, state.period_end, state.due_at) == ("active", 1, FEBRUARY, FEBRUARY)
    assert state.days_left(NOW) == 28
    assert rules.complete(state, terms(), NOW + 1) is state


@pytest.mark.parametrize("interval", ["one_time", None])
def test_one_time_and_free_subscriptions_are_never_due(interval: Interval | None) -> None:
    state = active(terms(interval))
    assert (state.status(NOW), state.periods, state.period_end, state.due_at) == ("active", 1, None, None)
    paused = rules.pause(state, terms(interval), NOW + 5)
    assert rules.unpause(paused, terms(), NOW + 10).period_end is None
    assert rules.cancel(state, terms(interval, cancel_at_period_end=True), NOW + 5).status(NOW + 5) == "canceled"


def test_period_ends_are_counted_from_the_first_day() -> None:
    state, found = active(terms()), []
    for _ in range(3):
        found.append(state.period_end)
        state = rules.next_period(state, terms())
    days = ("2026-02-28", "2026-03-31", "2026-04-30")
    assert found == [parse_rfc3339(f"{day}T10:00:00Z") for day in days]


def test_the_number_of_pauses_is_limited() -> None:
    once = terms(limit_pausing=1)
    state = rules.pause(active(once), once, NOW + 1)
    assert (state.status(NOW + 2), state.pauses, state.due_at) == ("paused", 1, None)
    assert rules.pause(state, once, NOW + 2) is state  # already paused
    again = rules.unpause(state, terms(), NOW + 3)
    assert rules.unpause(again, terms(), NOW + 4) is again
    assert refusal(lambda: rules.pause(again, once, NOW + 4)) == "pause_limit_reached"
    assert refusal(lambda: rules.pause(active(once), terms(limit_pausing=0), NOW)) == "pause_limit_reached"
    assert refusal(lambda: rules.pause(active(once), terms(disable_pause=True), NOW)) == "pause_disabled"


def test_the_day_of_the_month_after_a_long_pause_is_kept_after_a_short_one() -> None:
    begun = NOW + DAY_MS
    state = rules.unpause(rules.pause(active(terms()), terms(), begun), terms(), begun + 31 * DAY_MS)
    assert state.period_end == parse_rfc3339("2026-03-31T10:00:00Z")
    state = rules.next_period(state, terms())
    state = rules.unpause(rules.pause(state, terms(), begun), terms(), begun)
    ends = [state.period_end]
    for _ in range(2):
        state = rules.next_period(state, terms())
        ends.append(state.period_end)
    assert ends == [parse_rfc3339(f"{day}T10:00:00Z") for day in ("2026-04-30", "2026-05-31", "2026-06-30")]


def test_the_days_left_do_not_change_during_a_pause() -> None:
    paused = rules.pause(active(terms()), terms(), NOW + 10 * DAY_MS)
    assert {paused.days_left(NOW + days * DAY_MS) for days in (10, 11, 28, 400)} == {18}
    assert rules.unpause(paused, terms(), NOW + 400 * DAY_MS).days_left(NOW + 400 * DAY_MS) == 18


def test_a_cancellation_takes_effect_now_or_at_the_end_of_the_period() -> None:
    now = rules.cancel(active(terms()), terms(), NOW + 5)
    assert (now.cancel_date, now.status(NOW + 5), now.due_at, now.days_left(NOW + 5)) == (NOW + 5, "canceled", None, 0)
    later = terms(cancel_at_period_end=True)
    state = rules.cancel(active(later), later, NOW + 5)
    assert (state.cancel_date, state.due_at) == (FEBRUARY, None)
    assert (state.status(FEBRUARY - 1), state.status(FEBRUARY)) == ("active", "canceled")
    assert rules.cancel(state, later, NOW + 6) is state
    assert rules.cancel(now, terms(), NOW + 6) is now


def test_a_canceled_subscription_cannot_be_changed() -> None:
    state = rules.cancel(active(terms()), terms(), NOW + 5)
    assert refusal(lambda: rules.pause(state, terms(), NOW + 6)) == "canceled"
    assert refusal(lambda: rules.unpause(state, terms(), NOW + 6)) == "canceled"
    assert refusal(lambda: rules.complete(state, terms(), NOW + 6)) == "canceled"


def test_the_minimum_term_is_counted_in_calendar_months() -> None:
    bound = terms(minimum_months=3)
    earliest = add_months(NOW, 3)
    assert earliest == parse_rfc3339("2026-04-30T10:00:00Z")
    assert refusal(lambda: rules.cancel(active(bound), bound, earliest - 1)) == "minimum_months"
    assert rules.cancel(active(bound), bound, earliest).status(earliest) == "canceled"


def test_a_paused_subscription_is_canceled_immediately() -> None:
    later = terms(cancel_at_period_end=True)
    paused = rules.pause(active(later), later, NOW + 5)
    state = rules.cancel(paused, later, NOW + 9)
    assert (state.status(NOW + 9), state.cancel_date, state.pause_date) == ("canceled", NOW + 9, None)


def test_a_pause_postpones_a_scheduled_cancellation() -> None:
    later = terms(cancel_at_period_end=True)
    waiting = rules.cancel(active(later), later, NOW + 5)
    paused = rules.pause(waiting, later, NOW + DAY_MS)
    assert paused.status(FEBRUARY + DAY_MS) == "paused"
    going = rules.unpause(paused, terms(), NOW + 3 * DAY_MS)
    assert (going.cancel_date, going.period_end) == (FEBRUARY + 2 * DAY_MS, FEBRUARY + 2 * DAY_MS)


RECURRING: st.SearchStrategy[Interval] = st.sampled_from(["week", "month", "year"])
WAITS = st.lists(st.integers(0, 500 * HOUR_MS), max_size=12)


@given(RECURRING, st.integers(0, 20), st.integers(0, 6 * DAY_MS), st.integers(0, 4000 * DAY_MS))
@example("week", 0, 0, 1_778_400_000)  # the end is a month after the start
def test_a_pause_postpones_the_end_by_exactly_its_duration(
    interval: Interval, periods: int, into_ms: int, ms: int
) -> None:
    state = active(terms(interval))
    for _ in range(periods):
        state = rules.next_period(state, terms(interval))
    begun = NOW if periods == 0 else period_end(NOW, interval, periods)
    assert begun is not None
    paused = rules.pause(state, terms(interval), begun + into_ms)
    going = rules.unpause(paused, terms(interval), begun + into_ms + ms)
    assert state.period_end is not None
    assert going.period_end == state.period_end + ms
    assert going.days_left(begun + into_ms + ms) == state.days_left(begun + into_ms)
    following = rules.next_period(going, terms(interval))
    if day_in(going.period_end, UTC) == day_in(state.period_end, UTC):
        without_pause = rules.next_period(state, terms(interval)).period_end
        assert without_pause is not None
        assert following.period_end == without_pause + ms
    else:
        assert following.period_end == period_end(going.period_end, interval, 1)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_a_short_pause_keeps_the_day_of_the_month(zone: str) -> None:
    kind = replace(terms(), zone=zone_of(zone))
    state, found = active(kind), []
    for _ in range(5):
        assert state.period_end is not None
        pause = state.period_end - DAY_MS
        state = rules.unpause(rules.pause(state, kind, pause), kind, pause + HOUR_MS)
        found.append(None if state.period_end is None else day_in(state.period_end, kind.zone).isoformat())
        state = rules.next_period(state, kind)
    assert found == ["2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31", "2026-06-30"]


@given(RECURRING, WAITS)
def test_periods_add_up_to_the_time_that_was_not_paused(interval: Interval, waits: list[int]) -> None:
    """Pause and resume alternately. The total length of the periods equals the time that was not paused."""
    kind, now, state, paused_ms = terms(interval), NOW, active(terms(interval)), 0
    for wait in waits:
        now += wait
        while state.is_due(now):
            state = rules.next_period(state, kind)
        if state.pause_date is None:
            state = rules.pause(state, kind, now)
        else:
            paused_ms += now - state.pause_date
            state = rules.unpause(state, kind, now)
        assert state.period_end is not None
        assert state.pause_date is not None or state.period_end >= now
        if interval == "week":
            assert state.period_end - NOW - paused_ms == state.periods * 7 * DAY_MS


# --- prices ----------------------------------------------------------------------------------------------------------

INTERVALS: st.SearchStrategy[Interval] = st.sampled_from(["one_time", "week", "month", "year"])
OFFERS = st.lists(
    st.builds(
        ServicePriceParameters,
        st.integers(0, 2),
        st.sampled_from(["EUR", "USD"]),
        INTERVALS,
        st.sampled_from([None, 0, 5]),
    ),
    max_size=8,
)


@given(OFFERS, OFFERS)
def test_unchanged_prices_keep_their_ids(
    old: list[ServicePriceParameters], wanted: list[ServicePriceParameters]
) -> None:
    before = replaced_prices((), old)
    after = replaced_prices(before, wanted)
    assert [parameters_of(each) for each in after] == wanted
    assert len({each.id for each in after}) == len(after)
    kept = {each.id for each in before} & {each.id for each in after}
    assert len(kept) == sum(min(old.count(each), wanted.count(each)) for each in set(old))
    assert replaced_prices(after, wanted) == after
