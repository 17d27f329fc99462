"""Service checkouts: their record, tables and request parameters."""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.core.records import CURRENCY, DESCRIBED, NOT_STORED, EventSchema, Record, Wire, resource_id, to_response
from workhook.core.zones import zone_or_utc
from workhook.http.parameters import LongText
from workhook.http.wire_types import Time
from workhook.identity.schemas import Repository
from workhook.storage.metadata import Millis, in_project, plain_table
from workhook.storage.record_rows import table_columns
from workhook.work.kernel.billing_settings import DEFAULT_LANGUAGE, Language
from workhook.work.money.checkouts.rules import State, Status, Terms, months_between
from workhook.work.money.services.schemas import ServicePrice

QTY_MAX = 10_000


class ServiceCheckoutCreate(msgspec.Struct):
    """`service_price_id` defaults to the service's default price."""

    service_id: Annotated[str, Meta(description="An active service of the project's owner.")]
    service_price_id: Annotated[str, Meta(description="One of the service's prices.")] | UnsetType | None = UNSET
    qty: Annotated[int, Meta(ge=1, le=QTY_MAX)] = 1


class ServiceCheckoutCancel(msgspec.Struct):
    """The reason for canceling."""

    reason: LongText | None = None
    feedback: LongText | None = None


class CheckoutServiceShape(msgspec.Struct):
    """The purchased service."""

    id: Annotated[str, resource_id("svc")]
    title: str


class ServiceCheckoutShape(msgspec.Struct):
    """A checkout of a service. `status` and all other time-dependent fields are as of the time of the request."""

    id: Annotated[str, resource_id("sco")]
    service: CheckoutServiceShape
    service_price: Wire[ServicePrice] | None
    qty: Annotated[int, EventSchema({"minimum": 1})]
    currency: Annotated[str | None, CURRENCY]
    default: Annotated[bool, Meta(description="Its price is the service's default price.")]
    status: Status
    completed: bool
    paused: bool
    pause_date: Time | None
    cancel_date: Annotated[Time | None, Meta(description="When it ended or will end.")]
    period_end: Time | None
    archive: Annotated[bool, Meta(description="Whether it has ended.")]
    days_left: Annotated[int | None, Meta(description="Days left of the period; a pause stops the count.")]
    months_since_creation: int
    disable_pause: bool
    addons_purchased: Annotated[
        list[CheckoutServiceShape], Meta(description="Always empty: add-ons are checkouts."), DESCRIBED
    ]
    retention_coupon_used: Annotated[bool, Meta(description="Always false: there are no coupons.")]
    unsubscribe_reason: str | None
    unsubscribed_feedback: str | None
    payment_customer_id: Annotated[str | None, Meta(description="Null without a payment provider.")]
    payment_subscription_id: Annotated[str | None, Meta(description="Null without a payment provider.")]
    created_at: Time
    updated_at: Time


class ServiceCheckoutAnswer(msgspec.Struct):
    service_checkout: ServiceCheckoutShape
    success: bool = True


class ServiceCheckoutsAnswer(msgspec.Struct):
    service_checkouts: list[ServiceCheckoutShape]
    success: bool = True


class BoughtService(Record, frozen=True):
    """The fields of a service that a checkout needs."""

    id: str
    title: str
    active: bool
    deleted_at: int | None
    disable_quantity: bool
    disable_pause: bool
    limit_pausing: int | None
    minimum_months: int | None
    cancel_at_period_end: bool
    prices: tuple[ServicePrice, ...]

    @property
    def offered(self) -> bool:
        return self.active and self.deleted_at is None


class Checkout(Record, frozen=True):
    """A subscription in a project. `price` is the chosen one, which may no longer be on offer."""

    id: str
    repository: Repository
    service: BoughtService
    price: ServicePrice | None
    qty: int
    state: State
    unsubscribe_reason: str | None
    unsubscribed_feedback: str | None
    created_at: int
    updated_at: int
    # The seller's time zone and language; None means UTC.
    timezone: Annotated[str | None, NOT_STORED] = None
    language: Annotated[Language, NOT_STORED] = DEFAULT_LANGUAGE

    @property
    def terms(self) -> Terms:
        service, interval = self.service, self.price.interval if self.price else None
        months = service.minimum_months
        ends = service.cancel_at_period_end
        return Terms(interval, service.disable_pause, service.limit_pausing, months, ends, self.zone)

    @property
    def zone(self) -> tzinfo:
        """The time zone of its periods and of the days on its invoices."""
        return zone_or_utc(self.timezone)


service_checkouts = plain_table(
    "service_checkouts",
    in_project(),
    sa.Column("service_id", sa.Text, sa.ForeignKey("services.id"), nullable=False),
    sa.Column("service_price_id", sa.Text, sa.ForeignKey("service_prices.id")),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    *table_columns(Checkout),
    *table_columns(State),
    # `State.due_at`
    sa.Column("due_at", Millis),
    sa.Column("deleted_at", Millis),
    sa.Index("ix_service_checkouts_repository_id", "repository_id", "id"),
    sa.Index("ix_service_checkouts_due_at", "due_at", "id"),
)

# One row per started period; its key ensures that a period is billed only once.
service_checkout_periods = plain_table(
    "service_checkout_periods",
    sa.Column(
        "service_checkout_id", sa.Text, sa.ForeignKey("service_checkouts.id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("started_at", Millis, nullable=False),
    sa.Column("invoice_id", sa.Text),
    sa.Column("credit_id", sa.Text),
)


def checkout_to_response(checkout: Checkout, now: int) -> ServiceCheckoutShape:
    state, service, price = checkout.state, checkout.service, checkout.price
    status = state.status(now)
    return ServiceCheckoutShape(
        id=checkout.id,
        service=CheckoutServiceShape(service.id, service.title),
        service_price=to_response(price) if price else None,
        qty=checkout.qty,
        currency=price.currency if price else None,
        default=price is not None and service.prices[:1] == (price,),
        status=status,
        completed=state.completed_at is not None,
        paused=status == "paused",
        pause_date=_time(state.pause_date),
        cancel_date=_time(state.cancel_date),
        period_end=_time(state.period_end),
        archive=status == "canceled",
        days_left=state.days_left(now),
        months_since_creation=months_between(checkout.created_at, now, checkout.zone),
        disable_pause=service.disable_pause,
        addons_purchased=[],
        retention_coupon_used=False,
        unsubscribe_reason=checkout.unsubscribe_reason,
        unsubscribed_feedback=checkout.unsubscribed_feedback,
        payment_customer_id=None,
        payment_subscription_id=None,
        created_at=to_millis_text(checkout.created_at),
        updated_at=to_millis_text(checkout.updated_at),
    )


def _time(at: int | None) -> str | None:
    return None if at is None else to_millis_text(at)
