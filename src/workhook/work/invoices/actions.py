"""Invoices from draft to paid: owners and members make them, clients see what was sent."""

from __future__ import annotations

import msgspec

from workhook.core.errors import Conflict, NotFound
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.storage import Reader, Row, Transaction
from workhook.work.access import Access, access_of
from workhook.work.invoices import drafting, issued, queries, rules
from workhook.work.invoices.drafting import Plan
from workhook.work.invoices.schemas import Invoice, InvoiceCreate, InvoiceEdit, blank_invoice, invoice_to_response
from workhook.work.record_events import differences, publish_event

# What no amount follows from, and what does not name the invoice.
_AFTER_SENDING = frozenset({"bill_to", "bill_from", "address", "payment_terms", "payment_method", "due", "credit_type"})
_DOING = "change invoices"


class Taken(msgspec.Struct, frozen=True):
    """An invoice of somebody who sees it; for a change nobody else changes it until the transaction ends."""

    access: Access
    invoice: Invoice
    avatar: str | None = None  # of the project, for who looks at it


async def look_at(reader: Reader, actor: Actor, invoice_id: str) -> Taken:
    """Raises `NotFound`; drafts do not exist for clients."""
    row = await queries.find_invoice(reader, invoice_id, actor.user.id)
    seen = _seen(row, actor)
    return msgspec.structs.replace(seen, avatar=row["project_avatar"] if row else None)


async def take(tx: Transaction, actor: Actor, invoice_id: str) -> Taken:
    """For a change. Raises `NotFound`, `Forbidden`, `Conflict` if the project is archived."""
    taken = _seen(await queries.lock_invoice(tx, invoice_id, actor.user.id), actor)
    taken.access.require_writable()
    taken.access.require_member(_DOING)
    return taken


async def create(write: Write, project_id: str, wanted: InvoiceCreate) -> Invoice:
    """A draft. Raises `NotFound`, `Forbidden`, `Conflict` if the project is archived, `Invalid`."""
    row = await queries.find_project(write.tx, project_id, write.actor.user.id)
    access = access_of(row, write.actor)
    access.require_writable()
    access.require_member(_DOING)
    assert row is not None, "access_of refuses none"
    repository = access.repository
    blank = blank_invoice(row["last_currency"] or rules.DEFAULT_CURRENCY, write.actor.user, write.now)
    plan = await drafting.plan(write.tx, repository, blank, wanted)
    invoice = msgspec.structs.replace(blank, **plan.values)
    await queries.insert_invoice(write.tx, repository, invoice)
    await _claim(write.tx, access, invoice.id, plan)
    record = invoice_to_response(invoice, write.now)
    await publish_event(write, repository, "invoice", "created", record)
    return invoice


async def edit(write: Write, taken: Taken, wanted: InvoiceEdit) -> Invoice:
    """The invoice after the change; nothing happens if there is none. `taken` is what `take` gave.

    Raises `Invalid`, and `Conflict` for what may not change any more.
    """
    invoice = taken.invoice
    plan = await drafting.plan(write.tx, taken.access.repository, invoice, wanted)
    changed = {name for name, value in plan.values.items() if value != getattr(invoice, name)}
    if plan.claims_differ:
        changed.add("timesheet_ids")
    if not changed:
        return taken.invoice
    if invoice.status == "void" or (invoice.status != "draft" and not changed <= _AFTER_SENDING):
        stays = "everything" if invoice.status == "void" else "what its amounts follow from, and its number,"
        message = f"The invoice is {invoice.status}; {stays} stays as it is."
        raise Conflict(message, code=f"invoice_{invoice.status}")
    if plan.claims_differ:
        await queries.release(write.tx, invoice.id, but=plan.kept_ids)
    await _claim(write.tx, taken.access, invoice.id, plan)
    claims: dict[str, dict[str, object]] = {}
    if plan.claims_differ:
        claims["timesheet_ids"] = {"from": plan.claimed_before, "to": plan.timesheet_ids}
    return await _write(write, taken, "edited", plan.values, more_changes=claims)


async def delete(write: Write, taken: Taken) -> None:
    """`taken` is what `take` gave. Raises `Conflict` unless it is a draft."""
    if taken.invoice.status != "draft":
        raise Conflict("Only drafts can be deleted.", code=f"invoice_{taken.invoice.status}")
    await queries.delete_invoice(write.tx, taken.invoice.id)
    record = invoice_to_response(taken.invoice, write.now)
    await publish_event(write, taken.access.repository, "invoice", "deleted", record)


async def send(write: Write, taken: Taken) -> Invoice:
    """A draft is issued: it gets its number, and its amounts stay. Raises `Conflict` if it is paid or void."""
    if _is_already(taken, "sent", possible_from="draft"):
        return taken.invoice
    await issued.hold_project(write.tx, taken.access.repository.id)
    return await _write(write, taken, "sent", {"status": "sent", "issued": write.now}, number=True)


async def pay(write: Write, taken: Taken) -> Invoice:
    """Raises `Conflict` unless it was sent."""
    if _is_already(taken, "paid", possible_from="sent"):
        return taken.invoice
    return await _write(write, taken, "paid", {"status": "paid", "paid_at": write.now})


async def void(write: Write, taken: Taken) -> Invoice:
    """Its timesheets can be invoiced again. Raises `Conflict` unless it was sent."""
    if _is_already(taken, "void", possible_from="sent"):
        return taken.invoice
    await queries.release(write.tx, taken.invoice.id)
    return await _write(write, taken, "voided", {"status": "void"})


def _seen(row: Row | None, actor: Actor) -> Taken:
    access = access_of(row, actor)
    if row is None:
        raise NotFound()
    invoice = queries.invoice_of(row)
    access.require_sight(invoice.status == "draft")
    return Taken(access, invoice)


def _is_already(taken: Taken, status: str, *, possible_from: str) -> bool:
    current = taken.invoice.status
    if current not in (status, possible_from):
        message = f"The invoice is {current}; it would have to be {possible_from}."
        raise Conflict(message, code=f"invoice_{current}")
    return bool(current == status)


async def _claim(tx: Transaction, access: Access, invoice_id: str, plan: Plan) -> None:
    if plan.new_ids:
        await queries.claim(tx, access.repository.id, plan.new_ids, invoice_id)


async def _write(
    write: Write,
    taken: Taken,
    action: str,
    values: dict[str, object],
    *,
    more_changes: dict[str, dict[str, object]] | None = None,
    number: bool = False,
) -> Invoice:
    """`number`: give it the next number, unless it has one."""
    before = taken.invoice
    after = msgspec.structs.replace(before, **values, updated_at=max(write.now, before.updated_at + 1))
    if number and before.invoice_number is None:
        after = await queries.update_and_number(write.tx, after, taken.access.repository.owner.id)
    else:
        await queries.update_invoice(write.tx, after)
    record = invoice_to_response(after, write.now)
    changes = {**differences(invoice_to_response(before, write.now), record), **(more_changes or {})}
    await publish_event(write, taken.access.repository, "invoice", action, record, changes=changes)
    return after
