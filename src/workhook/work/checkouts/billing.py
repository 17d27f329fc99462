"""A period begins: its invoice, its credits, and the row that says so, in one transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from msgspec.structs import replace

from workhook.identity.context import Write
from workhook.work.checkouts import queries, rules
from workhook.work.checkouts.rules import State
from workhook.work.checkouts.schemas import Checkout
from workhook.work.credits import ledger
from workhook.work.invoices import issued, issuing
from workhook.work.invoices.rules import Item


async def catch_up(write: Write, checkout: Checkout) -> Checkout:
    """Begin every period that is due by `now`, by Workhook itself. The row of the checkout is locked.

    So that a change finds what it would have found if the scheduler had come by a moment before.
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
    words = _words(checkout, started_at, state.period_end)
    begun = changed(checkout, state, write.now)
    credits_minor = (checkout.price.credits_minor or 0) * checkout.qty if checkout.price else 0
    pen = await ledger.take(write, checkout.repository) if credits_minor else None
    if pen is None and _costs(checkout):
        await issued.hold_project(write.tx, checkout.repository.id)
    await queries.update_checkout(write.tx, begun)
    invoice_id = await _issue(write, checkout, words)
    credit_id = None
    if pen:  # credits of a period do not expire
        credit_id = await ledger.grant(pen, amount_minor=credits_minor, notes=words, expires_at=None)
    await queries.insert_period(
        write.tx, checkout.id, state.periods, started_at=started_at, invoice_id=invoice_id, credit_id=credit_id
    )
    return begun


def changed(checkout: Checkout, state: State, now: int) -> Checkout:
    return replace(checkout, state=state, updated_at=max(now, checkout.updated_at + 1))


async def _issue(write: Write, checkout: Checkout, words: str) -> str | None:
    """What costs nothing has no invoice."""
    price = checkout.price
    if price is None or not _costs(checkout):
        return None
    return await issuing.issue(
        write,
        checkout.repository,
        service_checkout_id=checkout.id,
        items=[Item(words, Decimal(checkout.qty), price.amount_minor)],
        currency=price.currency,
    )


def _costs(checkout: Checkout) -> bool:
    return checkout.price is not None and checkout.price.amount_minor != 0


def _words(checkout: Checkout, start: int, end: int | None) -> str:
    """`Design retainer, 2026-01-31 to 2026-02-28`; the title alone for what is paid once."""
    title = checkout.service.title
    return title if end is None else f"{title}, {_day(start)} to {_day(end)}"


def _day(at: int) -> str:
    return datetime.fromtimestamp(at // 1000, UTC).date().isoformat()
