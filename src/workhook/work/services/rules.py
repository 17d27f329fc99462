"""How a new list of prices replaces the old one."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Literal

import msgspec

from workhook.core.ids import new_id

Interval = Literal["one_time", "week", "month", "year"]


class Price(msgspec.Struct, frozen=True):
    """What somebody pays for one of a service, and how often; `credits_minor` come with it. Amounts in hundredths."""

    id: str
    amount_minor: int
    currency: str
    interval: Interval
    credits_minor: int | None


class Offer(msgspec.Struct, frozen=True):
    """A price without its id."""

    amount_minor: int
    currency: str
    interval: Interval
    credits_minor: int | None


def offer_of(price: Price) -> Offer:
    return Offer(price.amount_minor, price.currency, price.interval, price.credits_minor)


def replaced(old: Sequence[Price], wanted: Sequence[Offer]) -> tuple[Price, ...]:
    """The prices for `wanted`, in its order.

    A price that says what an old one says is that one: it keeps its id, by which callers know it.
    """
    free: dict[Offer, deque[Price]] = defaultdict(deque)
    for price in old:
        free[offer_of(price)].append(price)
    return tuple(free[each].popleft() if free[each] else _new(each) for each in wanted)


def _new(offer: Offer) -> Price:
    return Price(new_id("prc"), offer.amount_minor, offer.currency, offer.interval, offer.credits_minor)
