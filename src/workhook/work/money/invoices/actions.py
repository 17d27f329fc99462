"""Invoices, from draft to payment: `/projects/{id}/invoices` and `/invoices`.

Owners and members create invoices; clients see those that were sent. Payments, credit notes, and the subscriptions that
Workhook bills automatically use these actions, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType
from msgspec.structs import replace

from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, Invalid, NotFound, compose, phrase, say
from workhook.core.zones import day_in, is_known
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.notifications import notification_statements
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import accounts, memberships, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import values_of
from workhook.work.kernel.access import Access, find_access, find_with_access
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.record_events import Changes, differences, notification_params, publish_event
from workhook.work.kernel.schemas import Done
from workhook.work.kernel.scopes import source_of_project
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices import drafts, queries, rules
from workhook.work.money.invoices.drafts import OfferedTime
from workhook.work.money.invoices.rules import ISSUED, Discount, Item, TaxRate, rows_text
from workhook.work.money.invoices.schemas import (
    Invoice,
    InvoiceAnswer,
    InvoiceCreate,
    InvoiceEdit,
    InvoiceList,
    InvoicesAnswer,
    invoice_to_response,
    new_invoice,
)
from workhook.work.money.invoices.settings import (
    InvoiceSettings,
    find_settings_to_issue,
    issued_values,
    lacking_vat_id,
    settings_of_row,
)

# The owners and clients of the project are notified of an invoice.
_concerned = sa.select(accounts).where(
    accounts.c.id.in_(
        sa.union_all(
            sa.select(bigint_param("account_id")),
            sa.select(memberships.c.user_id).where(
                memberships.c.organization_id == bigint_param("account_id"), memberships.c.role == "owner"
            ),
            sa.select(clients.c.user_id).where(clients.c.repository_id == bigint_param("repository_id")),
        )
    )
)
_invoice_id = sa.bindparam("invoice_id", type_=sa.Text)
_of_invoice = notification_statements("invoice", _concerned, {"invoice_id": _invoice_id})
_of_payment = notification_statements(
    "payment", _concerned, {"invoice_id": _invoice_id, "payment_id": sa.bindparam("payment_id", type_=sa.Text)}
)
TOLD_ACTIONS = frozenset({"sent", "voided", "credited"})
"""The actions of an invoice that people are notified of, besides payments."""


def notify_invoice(write: Write, repository: Repository, invoice_id: str, action: str) -> None:
    _of_invoice.defer(write.tx, {**notification_params(write, repository), "invoice_id": invoice_id, "detail": action})


def notify_payment(write: Write, repository: Repository, invoice_id: str, payment_id: str) -> None:
    params = {"invoice_id": invoice_id, "payment_id": payment_id}
    _of_payment.defer(write.tx, {**notification_params(write, repository), **params})


_DOING = "change invoices"

routes = Routes(WORK_API, "Invoices")


@routes.get("/projects/{id}/invoices")
async def list_invoices(call: Call, project_id: str, query: InvoiceList) -> Listed[InvoicesAnswer]:
    """List the invoices of a project.

    Clients do not see drafts.
    """
    after, now = cursor_of(query), now_ms()
    source = source_of_project(await find_access(call.database, actor_of(call), project_id))
    filters = queries.filters_of(query, source, now)
    invoices, headers = await read_for(call, queries.INVOICES, source, query, after, **filters)
    return Listed(InvoicesAnswer([invoice_to_response(each, now) for each in invoices]), headers)


async def find_invoice(reader: Reader, actor: Actor, invoice_id: str) -> tuple[Access, Invoice]:
    """Find an invoice and the actor's access to its project. Raises `NotFound`."""
    row, access = await find_with_access(reader, queries.by_id, actor, id=invoice_id)
    return access, visible(row, access)


def visible(row: Row, access: Access) -> Invoice:
    """Read the invoice from a row. Raises `NotFound` if it is a draft and the caller is a client."""
    invoice = queries.invoice_of(row)
    access.require_visible(invoice.status == "draft")
    return invoice


async def lock_invoice(write: Write, invoice_id: str) -> tuple[Access, Invoice]:
    """Lock an invoice for a change. Raises `NotFound`, `Forbidden`, or `Conflict` if the project is archived."""
    row, access = await find_with_access(write.tx, queries.locked, write.actor, id=invoice_id)
    invoice = visible(row, access)
    access.require_writable()
    access.require_member(_DOING)
    return access, invoice


def require_issued(invoice: Invoice) -> None:
    """Raise `Conflict` if the invoice is a draft or void. Call this before recording money on it."""
    if invoice.status not in ISSUED:
        remedy = phrase("send it first" if invoice.status == "draft" else "nothing is due on it")
        message = compose("The invoice is {}; {}.", invoice.status, remedy)
        raise Conflict(message, code=f"invoice_{invoice.status}")


async def change_invoice(
    write: Write,
    access: Access,
    before: Invoice,
    action: str,
    values: Mapping[str, object],
    *,
    more_changes: Changes | None = None,
    extra_records: Mapping[str, msgspec.Struct] | None = None,
) -> Invoice:
    """Write the values, publish the event, notify people and return the updated invoice.

    An invoice that is sent without a number gets the next one. For `extra_records`, see `RecordEvent`.
    """
    after = replace(before, **values, updated_at=max(write.now, before.updated_at + 1)).with_overdue_at()
    if action == "sent" and before.invoice_number is None:
        after = await queries.update_and_number(write.tx, after, access.repository.owner.id)
    else:
        await write.tx.execute(queries.update, {**values_of(after), "invoice_id": after.id})
    record = invoice_to_response(after, write.now)
    changes = {**differences(invoice_to_response(before, write.now), record), **(more_changes or {})}
    await publish_event(
        write, access.repository, "invoice", action, record, changes=changes, extra_records=extra_records
    )
    if action in TOLD_ACTIONS:
        notify_invoice(write, access.repository, after.id, action)
    return after


_lock_project = (
    sa.select(projects.c.repository_id)
    .where(projects.c.repository_id == bigint_param("repository_id"), projects.c.deleted_at.is_(None))
    .with_for_update(read=True)
)


async def lock_project(tx: Transaction, repository_id: int) -> None:
    """Prevent the deletion of the project before an invoice is issued in it. Raises `NotFound` if it is deleted."""
    if await tx.fetch_one(_lock_project, {"repository_id": repository_id}) is None:
        raise NotFound()


# Fields that affect no amount and identify neither the invoice nor its parties.
_AFTER_SENDING = frozenset({"payment_terms", "payment_method", "due", "credit_type"})


@routes.post("/projects/{id}/invoices")
async def create_invoice(write: Write, project_id: str, wanted: InvoiceCreate) -> InvoiceAnswer:
    """Create a draft invoice.

    Its timesheets are reserved: they cannot be added to another invoice.
    """
    return answer_of(await draft_invoice(write, project_id, wanted), write.now)


@routes.get("/invoices/{invoice_id}")
async def get_invoice(call: Call, invoice_id: str) -> InvoiceAnswer:
    """Get an invoice."""
    _, invoice = await find_invoice(call.database, actor_of(call), invoice_id)
    return answer_of(invoice, now_ms())


async def draft_invoice(
    write: Write, project_id: str, wanted: InvoiceCreate, offer: OfferedTime | None = None
) -> Invoice:
    """Create a draft.

    The tax is that of the settings unless the caller gives a rate or a category. Raises `NotFound`, `Forbidden`,
    `Conflict` or `Invalid` before anything is written.
    """
    row, access = await find_with_access(write.tx, queries.project, write.actor, project_id=project_id)
    access.require_writable()
    access.require_member(_DOING)
    settings = settings_of_row(row)
    currency = settings.currency or await drafts.find_last_currency(write.tx, access.repository)
    gives_tax = not (isinstance(wanted.tax, UnsetType) and isinstance(wanted.tax_category, UnsetType))
    rate = TaxRate() if gives_tax else settings.rate
    blank = new_invoice(settings, currency, rate, write.actor.user, write.now)
    change = await drafts.plan_change(write.tx, access.repository, blank, wanted, offer)
    invoice = replace(blank, **change.values)
    await queries.insert_invoice(write.tx, access.repository, invoice)
    await queries.claim(write.tx, access.repository.id, change.new_ids, invoice.id)
    await publish_event(write, access.repository, "invoice", "created", invoice_to_response(invoice, write.now))
    return invoice


@routes.patch("/invoices/{invoice_id}")
async def edit_invoice(write: Write, invoice_id: str, wanted: InvoiceEdit) -> InvoiceAnswer:
    """Update an invoice.

    Once sent, its lines, timesheets, parties, tax, currency and number cannot be changed. A void invoice cannot be
    changed.
    """
    return await change_draft(write, invoice_id, wanted)


async def change_draft(
    write: Write, invoice_id: str, wanted: InvoiceEdit, offer: OfferedTime | None = None
) -> InvoiceAnswer:
    """Update an invoice like `edit_invoice`. `offer` is time to add; time that is taken or does not fit is left out."""
    access, invoice = await lock_invoice(write, invoice_id)
    write.require_match(answer_of(invoice, write.now))
    change = await drafts.plan_change(write.tx, access.repository, invoice, wanted, offer)
    changed = {name for name, value in change.values.items() if value != getattr(invoice, name)}
    if change.claims_differ:
        changed.add("timesheet_ids")
    if not changed:
        return answer_of(invoice, write.now)
    if invoice.status == "void" or (invoice.status != "draft" and not changed <= _AFTER_SENDING):
        message = say("The invoice is void and cannot be changed.")
        if invoice.status != "void":
            stay = "The invoice is {}; its lines, parties, tax, currency, and number can no longer be changed."
            message = compose(stay, invoice.status)
        raise Conflict(message, code=f"invoice_{invoice.status}")
    claims: dict[str, dict[str, object]] = {}
    if change.claims_differ:
        await queries.release(write.tx, invoice.id, but=change.kept_ids)
        claims["timesheet_ids"] = {"from": change.claimed_before, "to": change.timesheet_ids}
    await queries.claim(write.tx, access.repository.id, change.new_ids, invoice.id)
    after = await change_invoice(write, access, invoice, "edited", change.values, more_changes=claims)
    return answer_of(after, write.now)


@routes.delete("/invoices/{invoice_id}")
async def delete_invoice(write: Write, invoice_id: str) -> Done:
    """Delete a draft.

    Its timesheets can be invoiced again.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    write.require_match(answer_of(invoice, write.now))
    if invoice.status != "draft":
        raise Conflict(say("Only drafts can be deleted."), code=f"invoice_{invoice.status}")
    await queries.delete_invoice(write.tx, invoice.id)
    await publish_event(write, access.repository, "invoice", "deleted", invoice_to_response(invoice, write.now))
    return Done()


@routes.post("/invoices/{invoice_id}/send")
async def send_invoice(write: Write, invoice_id: str) -> InvoiceAnswer:
    """Issue a draft: assign its number, and fix its amounts and parties.

    A draft without lines fails with 422 `empty`. An invoice with a total of 0 is paid immediately. If `due` is missing,
    it is derived from `payment_days` in the billing settings. The tax category `reverse_charge` requires the VAT IDs of
    both parties.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    if invoice.status == "sent":
        return answer_of(invoice, write.now)
    if invoice.status != "draft":
        message = say("The invoice is {}, not a draft.", invoice.status)
        raise Conflict(message, code=f"invoice_{invoice.status}")
    if not rules.items_of(invoice.items) and not rules.items_of(invoice.recurring_items):
        message = phrase("invoice_items: the invoice has no lines; add some before sending it")
        raise Invalid.at("invoice_items", message, code="empty")
    await lock_project(write.tx, access.repository.id)
    settings = await find_settings_to_issue(write.tx, access.repository.id)
    _require_parties(invoice, settings, access)
    values = issued_values(settings, invoice.total_minor, invoice.due, write.now)
    return answer_of(await change_invoice(write, access, invoice, "sent", values), write.now)


def _require_parties(invoice: Invoice, settings: InvoiceSettings, access: Access) -> None:
    """Raise `Invalid` if reverse charge lacks a VAT ID, or if this server does not know the seller's time zone."""
    account = f"/organizations/{access.repository.owner.login}/billing"
    is_reversed = any(each.category == "reverse_charge" for each in invoice.tax_rows)
    if is_reversed and (who := lacking_vat_id(settings.seller, settings.buyer)):
        message = say("seller.vat_id: required for an invoice with reverse_charge; set vat_id in {} first", account)
        if who == "buyer":
            sentence = "buyer.vat_id: required for an invoice with reverse_charge; set buyer.vat_id in {} first"
            message = say(sentence, f"/projects/{access.repository.project_id}/billing")
        raise Invalid.at(f"{who}.vat_id", message, code="missing")
    zone = settings.seller.timezone
    if zone is not None and not is_known(zone):  # the invoice would permanently use the days of another zone
        message = say("seller.timezone: unknown time zone {}; choose another time zone in {} first", zone, account)
        raise Invalid.at("seller.timezone", message)


@routes.post("/invoices/{invoice_id}/void")
async def void_invoice(write: Write, invoice_id: str) -> InvoiceAnswer:
    """Void a sent invoice on which nothing has been paid or credited.

    It keeps its number, and its timesheets can be invoiced again. An invoice with a total of 0 counts as paid but can
    be voided.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    if invoice.status == "void":
        return answer_of(invoice, write.now)
    require_issued(invoice)
    books = invoice.books
    if books.credited:
        rest = "The invoice has credit notes; credit the remaining amount instead."
        message = rest if books.not_credited else say("The invoice is fully credited.")
        raise Conflict(message, code="has_credit_notes")
    if books.paid and books.due:
        raise Conflict("The invoice has payments; refund them first.", code="has_payments")
    if invoice.status != "sent" and invoice.total_minor:  # an invoice with a total of 0 cannot be credited
        message = say("The invoice is {}; issue a credit note instead (credit_notes).", invoice.status)
        raise Conflict(message, code=f"invoice_{invoice.status}")
    await queries.release(write.tx, invoice.id)
    return answer_of(await change_invoice(write, access, invoice, "voided", {"status": "void"}), write.now)


async def issue(
    write: Write, repository: Repository, *, service_checkout_id: str, items: Sequence[Item], currency: str
) -> str:
    """Issue an invoice with `items` as its recurring ones and return its ID.

    Its only event is `invoice created`; the caller notifies people. Until this transaction ends, no other one can get
    an invoice number of the account.
    """
    settings = await find_settings_to_issue(write.tx, repository.id)
    rate = settings.rate_at_issue
    sums = rules.sums_of_items(items, rate, Discount())
    today = day_in(write.now, settings.seller.zone)
    invoice = replace(
        new_invoice(settings, currency, rate, write.caller.user if write.caller else None, write.now),
        invoice_number=await queries.next_number(write.tx, repository.owner.id, today.year),
        amount_minor=sums.amount,
        total_minor=sums.total,
        taxes=rows_text(sums.taxes),
        recurring_items=rules.items_text(items),
        service_checkout_id=service_checkout_id,
        **issued_values(settings, sums.total, None, write.now),
    ).with_overdue_at()
    await queries.insert_invoice(write.tx, repository, invoice)
    record = invoice_to_response(invoice, write.now)
    await publish_event(write, repository, "invoice", "created", record)
    return invoice.id


def answer_of(invoice: Invoice, now: int) -> InvoiceAnswer:
    return InvoiceAnswer(invoice_to_response(invoice, now))
