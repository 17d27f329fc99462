"""Drafts of invoices: creating one, adding unbilled time, changing it and its lines, and deleting it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import UNSET

from workhook.core.errors import Conflict, Invalid, NotFound, say
from workhook.core.money import CURRENCIES
from workhook.http.calls import Response
from workhook.identity.context import Write
from workhook.web.billing.invoices import (
    LINE,
    UNBILLED,
    billing_page,
    can_be_undone,
    invoice_address,
    invoice_at,
    line_digest,
    percent_text,
    show_refused,
)
from workhook.web.frame import paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.formats import number, typed_amount
from workhook.web.frame.forms import ChangedMeanwhile, PageForm, digest, form_page, is_late, refused_form
from workhook.web.frame.places import AmountField, PercentField, Places, QuantityField, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.work.kernel.access import Access
from workhook.work.kernel.durations import format_duration
from workhook.work.kernel.schemas import if_set
from workhook.work.money.invoices import actions, drafts, queries, rules
from workhook.work.money.invoices.drafts import OfferedTime, input_of_item
from workhook.work.money.invoices.rules import Item
from workhook.work.money.invoices.schemas import (
    ITEMS_MAX,
    TIMESHEETS_MAX,
    Invoice,
    InvoiceCreate,
    InvoiceEdit,
    InvoiceItemInput,
)
from workhook.work.money.invoices.settings import find_settings
from workhook.work.time.timesheets import sums
from workhook.work.time.timesheets.queries import find_unbilled_ms, list_to_invoice

S = TypeVar("S", bound=InvoiceCreate)

places = Places("billing")

ALWAYS = ("due", "payment_terms", "payment_method")
"""The fields that can still be changed on an issued invoice."""
_PARTIES = ("bill_to", "address", "bill_from")
_SERVICE = ("service_from", "service_to")
FIELDS = (*_PARTIES, *ALWAYS, "currency", "tax", "tax_category", "discount", "invoice_number", "language", *_SERVICE)
_DOING = "change invoices"


async def offer_unbilled(visit: Visit, access: Access) -> OfferedTime:
    """Return the oldest unbilled time, up to the limit of an invoice."""
    return OfferedTime(await list_to_invoice(visit.database, access, *sums.ALWAYS, limit=TIMESHEETS_MAX))


@places.post("/{owner}/{project}/billing/{invoice_id}/unbilled", makes=True, action="invoice.edit")
async def add_unbilled(visit: Visit) -> Response:
    """Add the project's unbilled time to a draft, oldest first, up to the limit of an invoice."""
    access, invoice = await invoice_at(visit)
    access.require_not_client()
    offer = await offer_unbilled(visit, access)

    async def add(write: Write) -> None:
        await actions.change_draft(write, invoice.id, InvoiceEdit(), offer)
        if offer.is_full:
            message = gettext(
                "An invoice can have at most %(number)d time entries. Create another invoice for the rest."
            )
            raise Conflict(message % {"number": TIMESHEETS_MAX}, code="too_many_timesheets")

    try:
        await visit.change(add)
    except (Invalid, Conflict) as problem:
        return await show_refused(visit, refused(visit, problem, offer))
    return visit.done(f"{invoice_address(visit)}#lines", await words_of(visit, access, offer))


def refused(visit: Visit, problem: Invalid | Conflict, offer: OfferedTime) -> PageForm:
    """Return the rejected form. Entries without a rate share one message; the form's `entry` is the first of them."""
    form = refused_form(visit.fields, problem, section=UNBILLED)
    if not any(each.code == "no_rate" for each in problem.faults):
        return form
    lacking = [each.id for each in offer.times if each.rate_minor is None]  # a problem has only the first faults
    words = ngettext(
        "%(num)d time entry has no hourly rate, so nothing was added. Set a rate first; it can be 0.",
        "%(num)d time entries have no hourly rate, so nothing was added. Set their rates first; 0 is allowed.",
        len(lacking),
    )
    form.problems = [words]
    form.values = {"entry": lacking[0]}
    return form


async def words_of(visit: Visit, access: Access, offer: OfferedTime) -> str:
    """Return a message with the number of added entries and the remaining time."""
    count = offer.taken
    if not count:
        return gettext("No unbilled time left to add.")
    message = ngettext("%(num)d time entry added.", "%(num)d time entries added.", count)
    is_all = count == len(offer.ids) < TIMESHEETS_MAX
    left_ms = 0 if is_all else await find_unbilled_ms(visit.database, access)
    if not left_ms:
        return message
    more = gettext(
        "This invoice is full. Create another one for the remaining %(time)s.", time=format_duration(left_ms)
    )
    return f"{message} {more}"


def values_of(invoice: Invoice) -> dict[str, str]:
    """Return the values of the form; for an issued invoice, only the editable ones."""
    parties = _PARTIES if invoice.status == "draft" else ()
    values = {name: getattr(invoice, name) or "" for name in (*parties, "payment_terms", "payment_method")}
    values["due"] = _due(invoice)
    if invoice.status == "draft":
        values["currency"], values["invoice_number"] = invoice.currency, invoice.invoice_number or ""
        values["tax"], values["tax_category"] = percent_text(invoice.tax_millionths), invoice.tax_category or ""
        values["language"] = invoice.language
        values["discount"] = percent_text(invoice.discount_millionths)
        values |= {name: getattr(invoice, name) or "" for name in _SERVICE}
    return values


def _due(invoice: Invoice) -> str:
    day = invoice.days.due
    return "" if day is None else day.isoformat()


def _read(visit: Visit, shape: type[S]) -> S:
    percents = ("tax", "discount")
    names = [PercentField(name) if name in percents else name for name in FIELDS if name in visit.fields]
    return visit.form(shape, *names)


async def _writable(visit: Visit) -> Access:
    access = await visit.access()
    access.require_member(_DOING)
    access.require_writable()
    return access


@places.get("/{owner}/{project}/billing/new")
async def new_invoice(visit: Visit) -> Response:
    """Show the form for a new invoice."""
    access = await _writable(visit)
    begun = await drafts.find_presets(visit.database, access)
    rate, language = begun.settings.rate, begun.settings.language
    values = {**begun.texts, "currency": begun.currency, "tax": percent_text(rate.millionths)}
    values |= {"tax_category": rate.category or "", "language": language}
    return await _form_page(visit, access, PageForm(values))


@places.post("/{owner}/{project}/billing/new", makes=True, action="invoice.create")
async def create_invoice(visit: Visit) -> Response:
    """Create a draft."""
    access = await _writable(visit)
    offer = await offer_unbilled(visit, access) if visit.fields.get("unbilled") else OfferedTime()
    try:
        create, project_id = _read(visit, InvoiceCreate), access.repository.project_id
        made = await visit.change(lambda write: actions.draft_invoice(write, project_id, create, offer))
    except Invalid as problem:
        form = refused_form(visit.fields, problem, FIELDS)
        if any(each.code == "no_rate" for each in problem.faults):
            form.problems = refused(visit, problem, offer).problems
        return await _form_page(visit, access, form)
    words = gettext("Draft created. Add line items next.")
    if visit.fields.get("unbilled"):
        words = await words_of(visit, access, offer)
    return visit.done(paging.project_address(visit, "billing", made.id), words)


@places.get("/{owner}/{project}/billing/{invoice_id}/edit")
async def show_details(visit: Visit) -> Response:
    """Show the form for the details of an invoice."""
    access, invoice = await invoice_at(visit)
    access.require_member(_DOING)
    access.require_writable()
    if invoice.status == "void":
        return visit.done(invoice_address(visit), gettext("A void invoice can’t be edited."))
    values = values_of(invoice)
    return await _form_page(visit, access, PageForm(values, was=digest(values)), invoice=invoice)


async def _details_again(visit: Visit, form: PageForm) -> Response:
    access, invoice = await invoice_at(visit)
    if form.is_late:
        form.compare(values_of(invoice))
    return await _form_page(visit, access, form, invoice=invoice)


@places.post("/{owner}/{project}/billing/{invoice_id}/edit", action="invoice.edit")
@form_page(_details_again, FIELDS, on=(Invalid, Conflict))
async def save_details(visit: Visit) -> Response:
    """Change the details of an invoice."""
    _, invoice = await invoice_at(visit)
    edit = _read(visit, InvoiceEdit)
    await visit.change(lambda write: _save(visit, write, invoice.id, edit))
    return visit.done(invoice_address(visit), gettext("Invoice saved."))


async def _save(visit: Visit, write: Write, invoice_id: str, edit: InvoiceEdit) -> None:
    """Save the edit. Raises `ChangedMeanwhile` and the errors of the action."""
    _, current = await actions.lock_invoice(write, invoice_id)
    late = is_late(visit.fields, values_of(current))
    if late and current.status == "draft":
        raise ChangedMeanwhile
    if visit.fields.get("due", "") == _due(current):
        edit.due = UNSET  # a bare date would drop the time of day
    if not edit.discount and current.discount_minor is not None:
        edit.discount = UNSET  # the form does not have the amount
    await actions.edit_invoice(write, invoice_id, edit)
    if late:  # the invoice was issued meanwhile, and the action accepted the change
        raise ChangedMeanwhile


async def _form_page(visit: Visit, access: Access, form: PageForm, *, invoice: Invoice | None = None) -> Response:
    """Show the form for an invoice, or for a new one (None). Submitted fields are shown even if no longer editable."""
    address = paging.project_address(visit, "billing")
    known = await find_settings(visit.database, access.repository.id)
    return await billing_page(
        visit,
        access,
        "billing/edit.html",
        "invoices",
        form=form,
        invoice=invoice,
        action=f"{address}/new" if invoice is None else invoice_address(visit, "edit"),
        back=address if invoice is None else invoice_address(visit),
        is_draft=invoice is None or invoice.status == "draft" or "currency" in visit.fields,
        currencies=sorted(CURRENCIES),
        known=known,
        unbilled_ms=await find_unbilled_ms(visit.database, access) if invoice is None else 0,
    )


@places.post("/{owner}/{project}/billing/{invoice_id}/delete", action="invoice.delete")
async def delete_draft(visit: Visit) -> Response:
    """Delete a draft."""
    _, invoice = await invoice_at(visit)
    await visit.change(lambda write: actions.delete_invoice(write, invoice.id))
    return visit.done(paging.project_address(visit, "billing"), gettext("Draft deleted."))


# --- lines, each added, changed, and removed by its own form ----------------------------------------------------------

# The API takes all lines at once, so each form re-reads the lines under a lock and finds its own by digest.

LINE_FIELDS = ("description", "qty", "unit_price", "discount", "tax")
_DIGITS_MAX = 6


def _read_line(visit: Visit, currency: str) -> InvoiceItemInput:
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
    """Fill in from the old line what the form lacks. A cleared tax is not filled in: the invoice's tax applies."""
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
    """Return the current index of the line shown at `index` with the digest `was`. Raises `ChangedMeanwhile`."""
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
@form_page(show_refused, LINE_FIELDS, section=LINE, on=(Invalid, Conflict))
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

    line = _read_line(visit, invoice.currency)
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
    access.require_member(_DOING)
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
@form_page(_line_again, LINE_FIELDS, on=(Invalid, Conflict))
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

    line = _read_line(visit, invoice.currency)
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
