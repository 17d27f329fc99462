"""Drafts of invoices: how one is made, gets the time that is on no invoice yet, and is changed or deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from workhook.core.errors import Conflict, Invalid
from workhook.core.money import CURRENCIES
from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.web.billing.invoices import (
    UNBILLED,
    billing_page,
    invoice_address,
    invoice_at,
    percent_text,
    show_refused,
)
from workhook.web.frame import paging
from workhook.web.frame.forms import ChangedMeanwhile, PageForm, digest, form_page, is_late, refused_form
from workhook.web.frame.places import PercentField, Places, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.work.kernel.access import Access
from workhook.work.kernel.durations import display
from workhook.work.money.invoices import changing, drafting, planning, presets
from workhook.work.money.invoices.days import days_of
from workhook.work.money.invoices.inputs import TIMESHEETS_MAX, InvoiceCreate, InvoiceEdit
from workhook.work.money.invoices.schemas import Invoice, language_of
from workhook.work.money.invoices.settings import find_settings
from workhook.work.money.invoices.time_lines import InvoicedTime, complaint
from workhook.work.time.timesheets import queries

S = TypeVar("S", bound=InvoiceCreate)

places = Places("billing")

ALWAYS = ("due", "payment_terms", "payment_method")
"""What can be changed of an issued invoice, too."""
_PARTIES = ("bill_to", "address", "bill_from")
_SERVICE = ("service_from", "service_to")
FIELDS = (*_PARTIES, *ALWAYS, "currency", "tax", "tax_category", "discount", "invoice_number", "language", *_SERVICE)
_DOING = "change invoices"
NEW = ""
"""Instead of the id of an invoice: one that is not there yet."""


async def list_unbilled(visit: Visit, access: Access) -> Sequence[str]:
    """The ids of the oldest, as many as an invoice can have."""
    return await queries.list_unbilled(visit.database, access, limit=TIMESHEETS_MAX)


async def lock_free(tx: Transaction, access: Access, ids: Sequence[str], invoice_id: str) -> list[InvoicedTime]:
    """Those of these timesheets that an invoice can have: others may have been invoiced since they were listed."""
    locked = {each.id: each for each in await drafting.lock_times(tx, access.repository.id, ids, invoice_id)}
    return [locked[each] for each in ids if complaint(locked.get(each), NEW) is None]


async def take_what_fits(
    times: Sequence[InvoicedTime],
    take: Callable[[Sequence[InvoicedTime]], Awaitable[object]],
    plan: Callable[[Sequence[InvoicedTime]], Awaitable[object]],
) -> Sequence[InvoicedTime]:
    """Let an invoice `take` these times, or as many of the first as it can be printed with; answers these. `plan`
    raises what `take` would, and writes nothing. Raises `Invalid` for what is wrong otherwise, and where none fits."""
    try:
        await take(times)
        return times
    except Invalid as problem:  # nothing was written yet
        if any(each.code != "too_long" for each in problem.faults):
            raise
        fitting = await _fitting(times, plan)
        if not fitting:
            raise
    await take(fitting)
    return fitting


async def _fitting(
    times: Sequence[InvoicedTime], plan: Callable[[Sequence[InvoicedTime]], Awaitable[object]]
) -> Sequence[InvoicedTime]:
    """Of times that are too many, as many as are not."""
    fits, over = 0, len(times)
    while over - fits > 1:
        tried = (fits + over) // 2
        try:
            await plan(times[:tried])
        except Invalid:
            over = tried
        else:
            fits = tried
    return times[:fits]


@places.post("/{owner}/{project}/billing/{invoice_id}/unbilled", makes=True, action="invoice.edit")
async def add_unbilled(visit: Visit) -> Answer:
    """Put finished billable time of the project that is on no invoice onto a draft: all, or as much as it has room for,
    the oldest first."""
    access, invoice = await invoice_at(visit)
    access.hide_from_clients()
    ids = await list_unbilled(visit, access)

    before: list[str] = []
    offered: list[InvoicedTime] = []

    def edit(times: Sequence[InvoicedTime]) -> InvoiceEdit:
        return InvoiceEdit(timesheet_ids=[*before, *(each.id for each in times)])

    async def add(write: Write) -> int:
        here, current = await changing.lock_invoice(write, invoice.id)
        before[:] = [each.id for each in await drafting.lock_times(write.tx, access.repository.id, [], invoice.id)]
        free = await lock_free(write.tx, access, ids, invoice.id)
        offered[:] = free[: max(TIMESHEETS_MAX - len(before), 0)]
        if free and not offered:
            message = gettext("An invoice has at most %(number)d entries of time. Make another one.")
            raise Conflict(message % {"number": TIMESHEETS_MAX}, code="too_many_timesheets")
        if not offered:
            return 0
        added = await take_what_fits(
            offered,
            lambda times: changing.edit_invoice(write, invoice.id, edit(times)),
            lambda times: planning.plan_change(write.tx, here.repository, current, edit(times)),
        )
        return len(added)

    try:
        count = await visit.change(add)
    except (Invalid, Conflict) as problem:
        return await show_refused(visit, refused(visit, problem, offered))
    return visit.done(f"{invoice_address(visit)}#lines", await words_of(visit, access, count, ids))


def refused(visit: Visit, problem: Invalid | Conflict, offered: Sequence[InvoicedTime]) -> PageForm:
    """What is wrong. Entries without a rate are one sentence together, and the value `entry` of the form is the first
    of them. `offered`: the time that would have come onto the draft."""
    form = refused_form(visit.fields, problem, section=UNBILLED)
    if not any(each.code == "no_rate" for each in problem.faults):
        return form
    lacking = [each.id for each in offered if each.rate_minor is None]  # a problem keeps only the first faults
    words = ngettext(
        "Nobody has said what an hour of %(num)d entry costs. Nothing was added. Give it a rate, which can be 0.",
        "Nobody has said what an hour of %(num)d entries costs. Nothing was added. Give them a rate, which can be 0.",
        len(lacking),
    )
    form.problems = [words % {"num": len(lacking)}]
    form.values = {"entry": lacking[0]}
    return form


async def words_of(visit: Visit, access: Access, count: int, listed: Sequence[str]) -> str:
    """What was done with so many of the entries that were `listed`, and how much time is left."""
    if not count:
        return gettext("There is no finished, billable time any more that is on no invoice.")
    words = ngettext("%(num)d entry of time was added.", "%(num)d entries of time were added.", count)
    said = words % {"num": count}
    if count == len(listed) < TIMESHEETS_MAX:  # all there is
        return said
    left_ms = await queries.find_unbilled_ms(visit.database, access)
    if not left_ms:
        return said
    more = gettext("This invoice has no room for more: %(time)s is left. Make another invoice for it.")
    return f"{said} {more % {'time': display(left_ms)}}"


def values_of(invoice: Invoice) -> dict[str, str]:
    """The values of the form, as an invoice has them: of one that was issued, those that can be changed."""
    parties = _PARTIES if invoice.status == "draft" else ()
    values = {name: getattr(invoice, name) or "" for name in (*parties, "payment_terms", "payment_method")}
    values["due"] = _due(invoice)
    if invoice.status == "draft":
        values["currency"], values["invoice_number"] = invoice.currency, invoice.invoice_number or ""
        values["tax"], values["tax_category"] = percent_text(invoice.tax_millionths), invoice.tax_category or ""
        values["language"] = language_of(invoice)
        values["discount"] = percent_text(invoice.discount_millionths)
        values |= {name: getattr(invoice, name) or "" for name in _SERVICE}
    return values


def _due(invoice: Invoice) -> str:
    """As the field has it; empty for none."""
    day = days_of(invoice).due
    return "" if day is None else day.isoformat()


def _read(visit: Visit, shape: type[S]) -> S:
    """Raises `Invalid`."""
    percents = ("tax", "discount")
    names = [PercentField(name) if name in percents else name for name in FIELDS if name in visit.fields]
    return visit.form(shape, *names)


async def _writable(visit: Visit) -> Access:
    """The project of the path, if the visitor may change its invoices. Raises `NotFound`, `Forbidden`, `Conflict`."""
    access = await visit.access()
    access.require_member(_DOING)
    access.require_writable()
    return access


@places.get("/{owner}/{project}/billing/new")
async def new_invoice(visit: Visit) -> Answer:
    """Show the form of a new invoice."""
    access = await _writable(visit)
    begun = await presets.find_presets(visit.database, access)
    values = {**begun.texts, "currency": begun.currency, "tax": percent_text(begun.rate.millionths)}
    values |= {"tax_category": begun.rate.category or "", "language": begun.settings.language}
    return await _form_page(visit, access, PageForm(values))


@places.post("/{owner}/{project}/billing/new", makes=True, action="invoice.create")
async def create_invoice(visit: Visit) -> Answer:
    """Make a draft."""
    access = await _writable(visit)
    ids = await list_unbilled(visit, access) if visit.fields.get("unbilled") else []
    free: list[InvoicedTime] = []

    async def make(write: Write, create: InvoiceCreate) -> tuple[Invoice, int]:
        """The draft, and how many entries of time it has."""
        project_id = access.repository.project_id
        free[:] = await lock_free(write.tx, access, ids, NEW) if ids else []
        made: list[Invoice] = []

        def wanted(times: Sequence[InvoicedTime]) -> InvoiceCreate:
            return replace(create, timesheet_ids=[each.id for each in times]) if ids else create

        async def take(times: Sequence[InvoicedTime]) -> None:
            made.append(await changing.draft_invoice(write, project_id, wanted(times)))

        taken = await take_what_fits(free, take, lambda times: changing.plan_draft(write, project_id, wanted(times)))
        return made[0], len(taken)

    try:
        create = _read(visit, InvoiceCreate)
        made, count = await visit.change(lambda write: make(write, create))
    except Invalid as problem:
        form = refused_form(visit.fields, problem, FIELDS)
        if any(each.code == "no_rate" for each in problem.faults):
            form.problems = refused(visit, problem, free).problems
        return await _form_page(visit, access, form)
    words = gettext("The draft was made. Now add its lines.")
    if visit.fields.get("unbilled"):
        words = await words_of(visit, access, count, ids)
    return visit.done(paging.project_address(visit, "billing", made.id), words)


@places.get("/{owner}/{project}/billing/{invoice_id}/edit")
async def show_details(visit: Visit) -> Answer:
    """Show the form of what an invoice says beside its lines."""
    access, invoice = await invoice_at(visit)
    access.require_member(_DOING)
    access.require_writable()
    if invoice.status == "void":
        return visit.done(invoice_address(visit), gettext("The invoice is void. It stays as it is."))
    values = values_of(invoice)
    return await _form_page(visit, access, PageForm(values, was=digest(values)), invoice=invoice)


async def _details_again(visit: Visit, form: PageForm) -> Answer:
    access, invoice = await invoice_at(visit)
    if form.is_late:
        form.compare(values_of(invoice))
    return await _form_page(visit, access, form, invoice=invoice)


@places.post("/{owner}/{project}/billing/{invoice_id}/edit", action="invoice.edit")
@form_page(_details_again, FIELDS, on=(Invalid, Conflict))
async def save_details(visit: Visit) -> Answer:
    """Change what an invoice says beside its lines."""
    _, invoice = await invoice_at(visit)
    edit = _read(visit, InvoiceEdit)
    await visit.change(lambda write: _save(visit, write, invoice.id, edit))
    return visit.done(invoice_address(visit), gettext("The invoice was saved."))


async def _save(visit: Visit, write: Write, invoice_id: str, edit: InvoiceEdit) -> None:
    """Raises `ChangedMeanwhile` where somebody else did, and whatever the action raises."""
    _, current = await changing.lock_invoice(write, invoice_id)
    late = is_late(visit.fields, values_of(current))
    if late and current.status == "draft":
        raise ChangedMeanwhile
    if visit.fields.get("due", "") == _due(current):
        edit.due = UNSET  # a date alone would take its time of day away
    if not edit.discount and current.discount_minor is not None:
        edit.discount = UNSET  # nothing was said of the amount
    await changing.edit_invoice(write, invoice_id, edit)
    if late:  # the rule has let pass what was changed of an invoice that was issued meanwhile
        raise ChangedMeanwhile


async def _form_page(visit: Visit, access: Access, form: PageForm, *, invoice: Invoice | None = None) -> Answer:
    """`invoice` None: of a new one. What a form was sent with is shown, too, where it could not be changed now."""
    here = paging.project_address(visit, "billing")
    known = await find_settings(visit.database, access.repository.id)
    return await billing_page(
        visit,
        access,
        "billing/edit.html",
        "invoices",
        status=form.status,
        invoice=invoice,
        form=form,
        action=f"{here}/new" if invoice is None else invoice_address(visit, "edit"),
        back=here if invoice is None else invoice_address(visit),
        is_draft=invoice is None or invoice.status == "draft" or "currency" in visit.fields,
        currencies=sorted(CURRENCIES),
        known=known,
        unbilled_ms=await queries.find_unbilled_ms(visit.database, access) if invoice is None else 0,
    )


@places.post("/{owner}/{project}/billing/{invoice_id}/delete", action="invoice.delete")
async def delete_draft(visit: Visit) -> Answer:
    """Delete a draft."""
    _, invoice = await invoice_at(visit)
    await visit.change(lambda write: changing.delete_invoice(write, invoice.id))
    return visit.done(paging.project_address(visit, "billing"), gettext("The draft was deleted."))
