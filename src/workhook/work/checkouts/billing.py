"""A period of a subscription begins: its invoice, its credits, and the row that says so, in one transaction.

A chore begins the periods that are due: each once, whoever is at it and however long nobody was.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import structlog
from msgspec.structs import replace
from prometheus_client import Counter

from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.storage.sweeping import concerns_all
from workhook.work.checkouts import queries, rules
from workhook.work.checkouts.rules import State
from workhook.work.checkouts.schemas import Checkout
from workhook.work.credits import ledger
from workhook.work.invoices import drafting, issued
from workhook.work.invoices.rules import Item

EVERY_S = 20.0
BATCH = 200

TROUBLE = Counter(
    "workhook_checkout_periods_failed_total", "Periods of subscriptions that could not begin and are tried again."
)

log = structlog.get_logger(__name__)


async def catch_up(write: Write, checkout: Checkout) -> Checkout:
    """Begin every period that is due by `now`, by Workhook itself. The row of the checkout is locked.

    So that a change finds what it would have found if the chore had come by a moment before.
    """
    while checkout.state.is_due(write.now):
        checkout = await begin_next(write, checkout)
    return checkout


async def begin_next(write: Write, checkout: Checkout) -> Checkout:
    """The checkout in its next period, which begins where the last one ended. Its row is locked."""
    return await begin_period(write.by_itself(), checkout, rules.next_period(checkout.state, checkout.terms))


async def begin_period(write: Write, checkout: Checkout, state: State) -> Checkout:
    """`state` is the one in the new period. Raises `UniqueViolation` for a period that began before,
    `NotFound` for a project that was deleted."""
    started_at = checkout.state.period_end or state.completed_at or write.now
    description = _describe(checkout, started_at, state.period_end)
    begun = changed(checkout, state, write.now)
    price, invoice_id, credit_id = checkout.price, None, None
    credits_minor = (price.credits_minor or 0) * checkout.qty if price else 0
    writer = await ledger.lock_ledger(write, checkout.repository) if credits_minor else None
    if writer is None and price and price.amount_minor:
        await issued.lock_project(write.tx, checkout.repository.id)
    await queries.update_checkout(write.tx, begun)
    if price and price.amount_minor:  # what costs nothing has no invoice
        items = [Item(description, Decimal(checkout.qty), price.amount_minor)]
        invoice_id = await drafting.issue(
            write, checkout.repository, service_checkout_id=checkout.id, items=items, currency=price.currency
        )
    if writer:
        credit_id = await writer.grant(credits_minor, description)
    await queries.insert_period(
        write.tx, checkout.id, state.periods, started_at=started_at, invoice_id=invoice_id, credit_id=credit_id
    )
    return begun


def changed(checkout: Checkout, state: State, now: int) -> Checkout:
    """The checkout in another state, with an `updated_at` that grew."""
    return replace(checkout, state=state, updated_at=max(now, checkout.updated_at + 1))


def _describe(checkout: Checkout, start: int, end: int | None) -> str:
    """`Design retainer, 2026-01-31 to 2026-02-28`; the title alone for what is paid once."""
    title = checkout.service.title
    return title if end is None else f"{title}, {_day(start)} to {_day(end)}"


def _day(at: int) -> str:
    return datetime.fromtimestamp(at // 1000, UTC).date().isoformat()


async def begin_due_periods(services: Services, now: int) -> int:
    """The chore: begin the periods that are due by `now` (milliseconds); returns how many did. A period that was missed
    comes late, with its own invoice and credits. One checkout that fails does not keep the others waiting.

    Raises `Unavailable` if the database cannot be used.
    """
    begun, after = 0, (-1, "")
    while True:
        due = await queries.due_checkouts(services.database, now, after, BATCH)
        for _, checkout_id in due:
            begun += await _begin_all(services, checkout_id, now)
        if len(due) < BATCH:
            return begun
        after = due[-1]


async def _begin_all(services: Services, checkout_id: str, now: int) -> int:
    async def begin_one(tx: Transaction) -> bool:
        """One period in one transaction. Returns False if none is due, or somebody else is at the checkout."""
        checkout = await queries.lock_if_due(tx, checkout_id, now)
        if checkout is not None:
            await begin_next(Write(tx, None, services.base, moment=now), checkout)
        return checkout is not None

    begun = 0
    try:
        while await services.database.in_transaction(begin_one):
            begun += 1
    except Exception as error:
        if concerns_all(error):
            raise
        TROUBLE.inc()
        log.exception("period_failed", service_checkout_id=checkout_id)
    return begun
