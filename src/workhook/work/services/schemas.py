"""Services on the wire, and what a caller may say about one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.records import COMPUTED, HIDDEN, EventSchema, Record, Wire, resource_id
from workhook.http.currencies import Currency
from workhook.http.lists import ListQuery
from workhook.http.parameters import LongText, Money, Title, WebAddress
from workhook.http.wire_types import Timestamp, Url
from workhook.identity.schemas import Account
from workhook.work.services.rules import Interval, Offer, ServicePrice

PRICES_MAX = 50
COUNT_MAX = 10_000

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Months = Annotated[int, Meta(ge=0, le=1200)]
Position = Annotated[int, Meta(ge=0, le=2**31 - 1, description="Where it stands among the others; 0 is the first.")]


class ServicePriceParameters(msgspec.Struct):
    """What one costs, and the task credits that come with it, each period."""

    amount: Money
    currency: Currency
    interval: Interval
    credits: Money | None = None

    def offer(self) -> Offer:
        return Offer(self.amount, self.currency, self.interval, self.credits)


Prices = Annotated[
    list[ServicePriceParameters],
    Meta(max_length=PRICES_MAX, description="The first is the default price."),
]


class ServiceCreate(msgspec.Struct):
    """`organization` is needed only by who is in several."""

    title: Title
    organization: (
        Annotated[str, Meta(description="Login of the owner: an organization, or the caller's own.")] | UnsetType
    ) = UNSET
    description: LongText | None = None
    active: bool = True
    addon: bool = False
    position: Annotated[Position, Meta(description="Behind the others, if it is absent.")] | UnsetType = UNSET
    disable_pause: bool = False
    disable_quantity: bool = False
    limit_pausing: Annotated[Count, Meta(description="Most pauses of one checkout.")] | None = None
    minimum_months: Annotated[Months, Meta(description="A checkout cannot be canceled earlier.")] | None = None
    cancel_at_period_end: bool = False
    require_payment_method: bool = False
    preview_image: WebAddress | None = None
    service_prices: Prices = []


class ServiceEdit(msgspec.Struct):
    """What is absent stays. `service_prices` are replaced as a whole: one that says the same keeps its id."""

    title: Title | UnsetType = UNSET
    description: LongText | UnsetType | None = UNSET
    active: bool | UnsetType = UNSET
    addon: bool | UnsetType = UNSET
    position: Position | UnsetType = UNSET
    disable_pause: bool | UnsetType = UNSET
    disable_quantity: bool | UnsetType = UNSET
    limit_pausing: Count | UnsetType | None = UNSET
    minimum_months: Months | UnsetType | None = UNSET
    cancel_at_period_end: bool | UnsetType = UNSET
    require_payment_method: bool | UnsetType = UNSET
    preview_image: WebAddress | UnsetType | None = UNSET
    service_prices: Prices | UnsetType = UNSET


class ServiceQuery(ListQuery):
    """Filters of the list."""

    organization: Annotated[str, Meta(description="Login of the owner.")] | UnsetType = UNSET
    active: bool | UnsetType = UNSET


class Service(Record, frozen=True):
    """`organization` is the owner's login. `default_price` is the first of the prices."""

    id: Annotated[str, resource_id("svc")]
    title: str
    organization: Annotated[str, COMPUTED, EventSchema({"description": "the organization's login"}, optional=True)]
    description: str | None
    active: bool
    addon: bool
    position: int
    disable_pause: bool
    disable_quantity: bool
    limit_pausing: int | None
    minimum_months: int | None
    cancel_at_period_end: bool
    require_payment_method: bool
    preview_image: Url | None
    service_prices: tuple[ServicePrice, ...]  # those that can be chosen now, in their order
    default_price: ServicePrice | None
    checkout_link: Annotated[Url | None, COMPUTED, Meta(description="Null: there is no page to check out at.")]
    created_at: Timestamp
    updated_at: Timestamp
    owner: Annotated[Account, HIDDEN]
    role: Annotated[str, COMPUTED, HIDDEN]  # the caller's in the owner's account


class ServiceAnswer(msgspec.Struct):
    service: Wire[Service]
    success: bool = True


class ServicesAnswer(msgspec.Struct):
    services: list[Wire[Service]]
    success: bool = True


def with_prices(service: Service, prices: tuple[ServicePrice, ...]) -> Service:
    return msgspec.structs.replace(service, service_prices=prices, default_price=next(iter(prices), None))
