"""What the parameters of an invoice make of it: its columns, and which timesheets it claims; and invoices that Workhook
issues by itself, for service checkouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UnsetType

from workhook.core.errors import Fault, Invalid, shown
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.storage import Transaction
from workhook.work.invoices import queries, rules
from workhook.work.invoices.rules import InvoicedTime, Item
from workhook.work.invoices.schemas import Invoice, InvoiceCreate, blank_invoice, invoice_to_response
from workhook.work.record_events import publish_event

_AS_GIVEN = ("bill_to", "bill_from", "address", "payment_terms", "due", "payment_method", "invoice_number", "currency")

_PRINTED = ("bill_to", "bill_from", "address", "payment_terms")


class InvoiceChange(msgspec.Struct, frozen=True):
    """`values`: the columns that the caller spoke of, and those that follow from them. Of the timesheets, by id: what
    the invoice claims when this is done, and what it claimed before."""

    values: dict[str, object]
    timesheet_ids: list[str] = []
    claimed_before: list[str] = []

    @property
    def claims_differ(self) -> bool:
        return self.timesheet_ids != self.claimed_before

    @property
    def new_ids(self) -> list[str]:
        return [each for each in self.timesheet_ids if each not in set(self.claimed_before)]

    @property
    def kept_ids(self) -> list[str]:
        return [each for each in self.claimed_before if each in set(self.timesheet_ids)]


async def plan_change(
    tx: Transaction, repository: Repository, invoice: Invoice, wanted: InvoiceCreate
) -> InvoiceChange:
    """From the invoice as it is and what the caller says. Nothing is written, but the account's numbers and the
    timesheets are locked. Raises `Invalid`."""
    values: dict[str, object] = {
        name: given for name in _AS_GIVEN if not isinstance(given := getattr(wanted, name), UnsetType)
    }
    if not isinstance(wanted.tax, UnsetType):
        values["tax_millionths"] = wanted.tax
    if not isinstance(wanted.credit_type, UnsetType):
        values["credit_type"] = None if wanted.credit_type is None else str(wanted.credit_type).lower()
    faults = await _number_faults(tx, repository, invoice, values.get("invoice_number"))
    items = list(rules.items_of(invoice.items))
    if not isinstance(wanted.invoice_items, UnsetType):
        given = [Item(each.description, each.qty, each.unit_price) for each in wanted.invoice_items]
        items = rules.replaced(items, given)
    ids, before = [], []
    if not isinstance(wanted.timesheet_ids, UnsetType):
        asked = list(dict.fromkeys(wanted.timesheet_ids))
        times = {each.id: each for each in await queries.lock_times(tx, repository.id, asked, invoice.id)}
        faults += _time_faults(wanted.timesheet_ids, times, invoice.id)
        before = sorted(each.id for each in times.values() if each.invoice_id == invoice.id)
        ids = sorted(asked)
        added = [times[each] for each in asked if each in times and each not in set(before)]
        items = rules.with_times(items, set(before) - set(asked), added)
    values["items"] = rules.items_text(items)
    faults += _amounts(invoice, values, items)
    faults += _length_faults(invoice, values, items)
    if faults:
        raise Invalid(faults=faults)
    return InvoiceChange(values, ids, before)


def _amounts(invoice: Invoice, values: dict[str, object], items: Sequence[Item]) -> list[Fault]:
    """Adds the amounts to `values`."""
    amount = rules.amount_minor([*items, *rules.items_of(invoice.recurring_items)])
    if rules.too_much(amount):
        return [Fault(field="invoice_items", message="invoice_items: the sum is more than an invoice can have")]
    millionths = values.get("tax_millionths", invoice.tax_millionths)
    assert millionths is None or isinstance(millionths, int)
    values["amount_minor"] = amount
    values["total_minor"] = amount + rules.tax_minor(amount, millionths)
    return []


def _length_faults(invoice: Invoice, values: Mapping[str, object], items: Sequence[Item]) -> list[Fault]:
    """What is too long already (from before there was this limit) may change, but not grow."""
    recurring = rules.items_of(invoice.recurring_items)
    before = rules.printed_chars(_texts(invoice), [*rules.items_of(invoice.items), *recurring])
    after = msgspec.structs.replace(invoice, **values)
    chars = rules.printed_chars(_texts(after), [*items, *recurring])
    if chars <= max(before, rules.PRINTED_MAX_CHARS):
        return []
    changed = (name for name in _PRINTED if getattr(after, name) != getattr(invoice, name))
    field = next(changed, "invoice_items")
    message = (
        f"{field}: the texts of the invoice would be {chars} characters together; at most {rules.PRINTED_MAX_CHARS} "
        "can be printed. Shorten them, or make several invoices"
    )
    return [Fault(field=field, code="too_long", message=message)]


def _texts(invoice: Invoice) -> list[str | None]:
    return [getattr(invoice, name) for name in _PRINTED]


async def _number_faults(tx: Transaction, repository: Repository, invoice: Invoice, number: object) -> list[Fault]:
    if not isinstance(number, str) or number == invoice.invoice_number:
        return []
    if await queries.is_free(tx, repository.owner.id, number):
        return []
    message = f"invoice_number: {number} is the number of another invoice"
    return [Fault(field="invoice_number", code="already_exists", message=message)]


def _time_faults(asked: Sequence[str], times: Mapping[str, InvoicedTime], invoice_id: str) -> list[Fault]:
    return [
        Fault(field=f"timesheet_ids[{index}]", message=f"timesheet_ids[{index}] ({shown(each)}): {wrong}")
        for index, each in enumerate(asked)
        if (wrong := rules.complaint(times.get(each), invoice_id))
    ]


async def issue(
    write: Write, repository: Repository, *, service_checkout_id: str, items: Sequence[Item], currency: str
) -> str:
    """A sent invoice with `items` as its recurring ones; its id. Its only event is `invoice created`.

    From here to the end of the transaction nobody else in the account gets a number.
    """
    amount = rules.amount_minor(items)
    invoice = msgspec.structs.replace(
        blank_invoice(currency, write.caller.user if write.caller else None, write.now),
        invoice_number=await queries.next_number(write.tx, repository.owner.id),
        status="sent",
        amount_minor=amount,
        total_minor=amount,
        issued=write.now,
        recurring_items=rules.items_text(items),
        service_checkout_id=service_checkout_id,
    )
    await queries.insert_invoice(write.tx, repository, invoice)
    record = invoice_to_response(invoice, write.now)
    await publish_event(write, repository, "invoice", "created", record)
    return invoice.id
