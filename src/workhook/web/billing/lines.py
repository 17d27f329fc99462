"""The lines of a draft. Each is added, changed, and removed by its own form.

The API takes all lines at once, so each form re-reads the lines under a lock and finds its own by digest.
"""

from __future__ import annotations

from collections.abc import Sequence

from workhook.core.errors import Conflict, Invalid, NotFound, say
from workhook.http.calls import Response
from workhook.identity.context import Write
from workhook.web.billing.invoices import (
    LINE,
    billing_page,
    can_be_undone,
    invoice_address,
    invoice_at,
    line_digest,
    percent_text,
    show_refused,
)
from workhook.web.frame.flash import Undo
from workhook.web.frame.formats import number, typed_amount
from workhook.web.frame.forms import ChangedMeanwhile, PageForm, form_page
from workhook.web.frame.places import AmountField, PercentField, Places, QuantityField, Visit
from workhook.web.frame.texts import gettext
from workhook.work.kernel.access import Access
from workhook.work.kernel.schemas import if_set
from workhook.work.money.invoices import actions, queries, rules
from workhook.work.money.invoices.drafts import input_of_item
from workhook.work.money.invoices.rules import Item
from workhook.work.money.invoices.schemas import ITEMS_MAX, Invoice, InvoiceEdit, InvoiceItemInput

places = Places("billing")

FIELDS = ("description", "qty", "unit_price", "discount", "tax")
_DIGITS_MAX = 6


def _read(visit: Visit, currency: str) -> InvoiceItemInput:
    return visit.form(
        InvoiceItemInput,
        "description",
        QuantityField("qty"),
        AmountField("unit_price", currency),
        PercentField("discount"),
        PercentField("tax"),
        *(AmountField("discount_amount", currency), "tax_category"),  # only sent by the undo of a removal
    )


def _values_of(item: Item, currency: str) -> dict[str, str]:
    return {
        "description": item.description,
        "qty": number(item.qty),
        "unit_price": typed_amount(item.unit_price_minor, currency),
        "discount": percent_text(item.discount_millionths),
        "tax": percent_text(item.tax_millionths),
    }


def _with_rest(line: InvoiceItemInput, was: Item, currency: str) -> InvoiceItemInput:
    """Copy the values that the form lacks from the old line. A cleared tax falls back to the invoice's."""
    kept = input_of_item(was, currency)
    if not line.discount:
        line.discount_amount = kept.discount_amount
    is_cleared = if_set(line.tax) is None and was.tax_millionths is not None
    if not line.tax and not is_cleared:
        line.tax_category = kept.tax_category
    return line


def _number_of(visit: Visit) -> int:
    """Return the index of the line in the path. Raises `NotFound`."""
    text = visit.path("number")
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text)):
        raise NotFound()
    return int(text) - 1


def _find(items: Sequence[Item], index: int, was: str) -> int:
    """Return the current index of the line shown at `index`. Raises `ChangedMeanwhile`."""
    found = [place for place, each in enumerate(items) if line_digest(each) == was]
    if index in found:
        return index
    if len(found) != 1:
        raise ChangedMeanwhile
    return found[0]


async def _write_lines(write: Write, invoice: Invoice, items: Sequence[Item | InvoiceItemInput]) -> None:
    """Save all lines except those of time, which are unaffected. Raises the errors of `edit_invoice`."""
    if len(items) > ITEMS_MAX:
        raise Conflict(
            say("An invoice can have at most {} lines. Create another invoice for the rest.", ITEMS_MAX),
            code="too_many_items",
        )
    by_hand = [each for each in items if not (isinstance(each, Item) and each.kind == "time")]
    given = [input_of_item(each, invoice.currency) if isinstance(each, Item) else each for each in by_hand]
    await actions.edit_invoice(write, invoice.id, InvoiceEdit(invoice_items=given))


async def _write_times(
    write: Write, access: Access, invoice: Invoice, *, added: Sequence[str] = (), released: Sequence[str] = ()
) -> None:
    """Claim the `added` timesheets, or release the `released` ones of a line. Identical lines keep theirs."""
    claimed = await queries.find_times(write.tx, access.repository.id, [], invoice.id)
    kept = [each.id for each in claimed if each.id not in released]
    await actions.edit_invoice(write, invoice.id, InvoiceEdit(timesheet_ids=[*kept, *added]))


@places.post("/{owner}/{project}/billing/{invoice_id}/lines", makes=True, action="invoice.edit")
@form_page(show_refused, FIELDS, section=LINE, on=(Invalid, Conflict))
async def add_line(visit: Visit) -> Response:
    """Add a line to a draft, at the end or at the position from which it was removed."""
    _, invoice = await invoice_at(visit)
    position = visit.fields.get("position", "")

    async def add(write: Write, line: InvoiceItemInput) -> None:
        _, current = await actions.lock_invoice(write, invoice.id)
        items: list[Item | InvoiceItemInput] = [*rules.items_of(current.items)]
        place = int(position) if position.isascii() and position.isdigit() else len(items)
        items.insert(place, line)
        await _write_lines(write, current, items)

    line = _read(visit, invoice.currency)
    await visit.change(lambda write: add(write, line))
    return visit.done(f"{invoice_address(visit)}#lines", gettext("Line item added."))


@places.post("/{owner}/{project}/billing/{invoice_id}/grouping", action="invoice.edit")
async def group_time(visit: Visit) -> Response:
    """Group the time on a draft into lines: by entry, task, person, or day."""
    _, invoice = await invoice_at(visit)
    edit = visit.form(InvoiceEdit, "group_by")
    await visit.change(lambda write: actions.edit_invoice(write, invoice.id, edit))
    return visit.done(f"{invoice_address(visit)}#lines", gettext("Time grouped."))


@places.post("/{owner}/{project}/billing/{invoice_id}/times", makes=True, action="invoice.edit")
async def add_time(visit: Visit) -> Response:
    """Restore the time of a removed line to a draft."""
    access, invoice = await invoice_at(visit)

    async def add(write: Write) -> None:
        _, current = await actions.lock_invoice(write, invoice.id)
        await _write_times(write, access, current, added=visit.fields.get("timesheet_ids", "").split())

    await visit.change(add)
    return visit.done(f"{invoice_address(visit)}#lines", gettext("Line item added."))


@places.get("/{owner}/{project}/billing/{invoice_id}/lines/{number}")
async def show_line(visit: Visit) -> Response:
    """Show the form of a line of a draft."""
    access, invoice = await invoice_at(visit)
    access.require_member("change invoices")
    access.require_writable()
    items, index = rules.items_of(invoice.items), _number_of(visit)
    if invoice.status != "draft" or index >= len(items) or items[index].kind == "time":
        raise NotFound()
    item = items[index]
    return await _line_page(visit, access, invoice, PageForm(_values_of(item, invoice.currency), was=line_digest(item)))


async def _line_page(visit: Visit, access: Access, invoice: Invoice, form: PageForm) -> Response:
    return await billing_page(
        visit,
        access,
        "billing/line.html",
        "invoices",
        form=form,
        invoice=invoice,
        action=invoice_address(visit, "lines", visit.path("number")),
        back=invoice_address(visit),
    )


async def _line_again(visit: Visit, form: PageForm) -> Response:
    access, invoice = await invoice_at(visit)
    if form.is_late:
        items, index = rules.items_of(invoice.items), _number_of(visit)
        form.compare(_values_of(items[index], invoice.currency) if index < len(items) else None)
        form.was = line_digest(items[index]) if index < len(items) else ""
    return await _line_page(visit, access, invoice, form)


@places.post("/{owner}/{project}/billing/{invoice_id}/lines/{number}", action="invoice.edit")
@form_page(_line_again, FIELDS, on=(Invalid, Conflict))
async def save_line(visit: Visit) -> Response:
    """Change a line of a draft. Without `was` the line is added, because it was removed while it was being edited."""
    _, invoice = await invoice_at(visit)
    index, was = _number_of(visit), visit.fields.get("was", "")

    async def save(write: Write, line: InvoiceItemInput) -> None:
        _, current = await actions.lock_invoice(write, invoice.id)
        items: list[Item | InvoiceItemInput] = [*rules.items_of(current.items)]
        if not was:
            items.append(line)
        elif current.status == "draft":
            known = rules.items_of(current.items)
            place = _find(known, index, was)
            items[place] = _with_rest(line, known[place], current.currency)
        else:  # the action rejects it with its own message
            items[index : index + 1] = [line]
        await _write_lines(write, current, items)

    line = _read(visit, invoice.currency)
    await visit.change(lambda write: save(write, line))
    return visit.done(f"{invoice_address(visit)}#lines", gettext("Line item saved."))


@places.post("/{owner}/{project}/billing/{invoice_id}/lines/{number}/remove", action="invoice.edit")
async def remove_line(visit: Visit) -> Response:
    """Remove a line of a draft. Its time, if any, can be invoiced again."""
    access, invoice = await invoice_at(visit)
    index, was = _number_of(visit), visit.fields.get("was", "")

    async def remove(write: Write) -> tuple[int, Item]:
        _, current = await actions.lock_invoice(write, invoice.id)
        items = [*rules.items_of(current.items)]
        place = _find(items, index, was)
        gone = items.pop(place)
        if gone.timesheet_ids:
            await _write_times(write, access, current, released=gone.timesheet_ids)
        else:
            await _write_lines(write, current, items)
        return place, gone

    place, gone = await visit.change(remove)
    return visit.done(
        f"{invoice_address(visit)}#lines",
        gettext("Line item removed."),
        undo=_undo(visit, place, gone, invoice.currency),
    )


def _undo(visit: Visit, place: int, gone: Item, currency: str) -> Undo | None:
    if not can_be_undone(gone):
        return None
    if gone.timesheet_ids:
        return Undo(invoice_address(visit, "times"), {"timesheet_ids": " ".join(gone.timesheet_ids)})
    values = {**_values_of(gone, currency), "position": str(place)}
    if gone.discount_minor is not None:
        values["discount_amount"] = typed_amount(gone.discount_minor, currency)
    if gone.tax_category is not None:
        values["tax_category"] = gone.tax_category
    return Undo(invoice_address(visit, "lines"), values)
