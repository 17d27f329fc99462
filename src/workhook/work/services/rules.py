"""How a new list of prices replaces the old one."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from workhook.core.ids import new_id
from workhook.core.records import CURRENCY, JsonName, Record, resource_id
from workhook.http.wire_types import Minor

Interval = Literal["one_time", "week", "month", "year"]


class ServicePrice(Record, frozen=True):
    """`amount` is a number with at most two decimals, in every currency; `credits` are task credits."""

    id: Annotated[str, resource_id("prc")]
    amount_minor: Annotated[Minor, JsonName("amount")]
    currency: Annotated[str, CURRENCY]
    interval: Interval
    credits_minor: Annotated[Minor | None, JsonName("credits")]


class Offer(msgspec.Struct, frozen=True):
    """A price without its id."""

    amount_minor: int
    currency: str
    interval: Interval
    credits_minor: int | None


def offer_of(price: ServicePrice) -> Offer:
    return Offer(price.amount_minor, price.currency, price.interval, price.credits_minor)


def replaced(old: Sequence[ServicePrice], wanted: Sequence[Offer]) -> tuple[ServicePrice, ...]:
    """The prices for `wanted`, in its order.

    A price that says what an old one says is that one: it keeps its id, by which callers know it.
    """
    free: dict[Offer, deque[ServicePrice]] = defaultdict(deque)
    for price in old:
        free[offer_of(price)].append(price)
    return tuple(free[each].popleft() if free[each] else _new(each) for each in wanted)


def _new(offer: Offer) -> ServicePrice:
    return ServicePrice(new_id("prc"), offer.amount_minor, offer.currency, offer.interval, offer.credits_minor)
