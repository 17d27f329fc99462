"""Services: their records, tables and request parameters."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.ids import new_id
from workhook.core.money import Hundredths, Minor, amount_of, to_minor
from workhook.core.records import (
    CURRENCY,
    HIDDEN,
    NOT_STORED,
    EventSchema,
    JsonName,
    Record,
    Timestamp,
    Wire,
    resource_id,
)
from workhook.http.lists import ListQuery
from workhook.http.parameters import CreditsAmount, Currency, LongText, Money, Title, WebAddress
from workhook.http.wire_types import Url
from workhook.identity.schemas import Account
from workhook.storage.metadata import Millis, of_account, partial_index, plain_table
from workhook.storage.record_rows import table_columns

PRICES_MAX = 50
COUNT_MAX = 10_000

Interval = Literal["one_time", "week", "month", "year"]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Months = Annotated[int, Meta(ge=0, le=1200)]
Position = Annotated[int, Meta(ge=0, le=2**31 - 1, description="Position among the other services; 0 is the first.")]


class ServicePriceParameters(msgspec.Struct, frozen=True):
    """The price of each period, and the task credits included in it."""

    amount: Money
    currency: Currency
    interval: Interval
    credits: CreditsAmount | None = None


Prices = Annotated[
    list[ServicePriceParameters],
    Meta(max_length=PRICES_MAX, description="The first is the default price."),
]


class ServiceCreate(msgspec.Struct):
    """`organization` is required only if you belong to several."""

    title: Title
    organization: (
        Annotated[str, Meta(description="Login of the owner: an organization, or the caller's own.")] | UnsetType
    ) = UNSET
    description: LongText | None = None
    active: bool = True
    addon: bool = False
    position: Annotated[Position, Meta(description="Default: after the others.")] | UnsetType = UNSET
    disable_pause: bool = False
    disable_quantity: bool = False
    limit_pausing: Annotated[Count, Meta(description="Maximum number of pauses per checkout.")] | None = None
    minimum_months: Annotated[Months, Meta(description="Months before a checkout can be canceled.")] | None = None
    cancel_at_period_end: bool = False
    require_payment_method: bool = False
    preview_image: WebAddress | None = None
    service_prices: Prices = []


class ServiceEdit(msgspec.Struct):
    """Omitted fields are left unchanged. `service_prices` replaces all prices; an unchanged price keeps its ID."""

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
    """Filters for services."""

    organization: Annotated[str, Meta(description="Login of the owner.")] | UnsetType = UNSET
    active: bool | UnsetType = UNSET


class ServicePrice(Record, frozen=True):
    """A price of a service. `amount` has at most the decimal places of its currency, and `credits` are task credits."""

    id: Annotated[str, resource_id("prc")]
    amount_minor: Annotated[Minor, JsonName("amount")]
    currency: Annotated[str, CURRENCY]
    interval: Interval
    credits_minor: Annotated[Hundredths | None, JsonName("credits")]


class Service(Record, frozen=True):
    """A service. `organization` is the owner's login, and `default_price` is the first of the prices."""

    id: Annotated[str, resource_id("svc")]
    title: str
    organization: Annotated[str, NOT_STORED, EventSchema({"description": "the organization's login"}, optional=True)]
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
    service_prices: tuple[ServicePrice, ...]  # the prices on offer, in order
    default_price: ServicePrice | None
    checkout_link: Annotated[Url | None, NOT_STORED, Meta(description="Always null: there is no checkout page.")]
    created_at: Timestamp
    updated_at: Timestamp
    owner: Annotated[Account, HIDDEN]
    role: Annotated[str, NOT_STORED, HIDDEN]  # the caller's role in the owner's account


class ServiceAnswer(msgspec.Struct):
    service: Wire[Service]
    success: bool = True


services = plain_table(
    "services",
    of_account("account_id", nullable=False),
    *table_columns(Service),
    # JSON: the prices on offer, in order. They are stored in the row so that its lock covers them.
    sa.Column("prices", sa.Text, nullable=False),
    sa.Column("deleted_at", Millis),
    sa.Index("ix_services_account_id", "account_id", "id"),
    partial_index("ix_services_offered", "account_id", "active", "id", where=sa.text("deleted_at IS NULL")),
)

# All prices, including former ones. They never change, so checkouts keep theirs.
service_prices = plain_table(
    "service_prices",
    sa.Column("service_id", sa.Text, sa.ForeignKey("services.id", ondelete="CASCADE"), nullable=False, index=True),
    *table_columns(ServicePrice),
)


def prices_of_text(text: str) -> tuple[ServicePrice, ...]:
    return tuple(ServicePrice(*columns) for columns in json.decode(text))


def replaced_prices(old: Sequence[ServicePrice], wanted: Sequence[ServicePriceParameters]) -> tuple[ServicePrice, ...]:
    """Return the prices for `wanted`, in order. A price that equals an old one keeps its ID. Raises `Invalid`."""
    free: dict[ServicePriceParameters, deque[ServicePrice]] = defaultdict(deque)
    for price in old:
        free[parameters_of(price)].append(price)
    return tuple(
        free[each].popleft()
        if free[each]
        else ServicePrice(
            new_id("prc"),
            to_minor(each.amount, each.currency, f"service_prices[{index}].amount"),
            each.currency,
            each.interval,
            each.credits,
        )
        for index, each in enumerate(wanted)
    )


def parameters_of(price: ServicePrice) -> ServicePriceParameters:
    """Return the parameters from which `replaced_prices` would create this price."""
    return ServicePriceParameters(
        amount_of(price.amount_minor, price.currency), price.currency, price.interval, price.credits_minor
    )
