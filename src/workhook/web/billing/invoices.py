"""Invoices: lists for one project and across projects, and the page of an invoice with its payments."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, date, tzinfo
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import UNSET

from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, Invalid, NotFound
from workhook.core.money import DEFAULT_CURRENCY, amount_of
from workhook.core.zones import calendar_day, day_in, end_of
from workhook.http import lists
from workhook.http.calls import Response
from workhook.http.lists import Key, Rows
from workhook.identity.context import Write
from workhook.identity.queries import find_member_role
from workhook.identity.schemas import Account, Repository
from workhook.storage import Reader
from workhook.web.frame import navigation, paging
from workhook.web.frame.formats import number
from workhook.web.frame.forms import UNSENT, ChangedMeanwhile, PageForm, digest, form_page
from workhook.web.frame.paging import fill_page, project_options
from workhook.web.frame.places import AmountField, Places, Visit
from workhook.web.frame.refusals import in_words
from workhook.web.frame.texts import gettext
from workhook.work.board.projects.listing import find_visible
from workhook.work.history.all_projects import AllInvoicesQuery
from workhook.work.kernel.access import Access
from workhook.work.kernel.billing_settings import grouped, percent_of
from workhook.work.kernel.lists import NEWEST_FIRST, cursor_of, read, read_all
from workhook.work.kernel.scopes import source_across_projects, source_of_project
from workhook.work.money.credit_notes import actions as credit_notes
from workhook.work.money.credit_notes.amounts import CreditableLine, RateBalance, find_rates, lines_of, whole_line
from workhook.work.money.credit_notes.schemas import CreditedItemInput, CreditNote, CreditNoteCreate
from workhook.work.money.invoices import actions, documents, einvoice, printing, rules, unprintable
from workhook.work.money.invoices.drafts import InvoiceTimeSums, find_rounded
from workhook.work.money.invoices.mail import find_mailed
from workhook.work.money.invoices.queries import INVOICES, filters_of, open_sums
from workhook.work.money.invoices.rules import Item, Status, items_of
from workhook.work.money.invoices.schemas import Invoice, InvoiceList, PlacedInvoice
from workhook.work.money.payments import actions as payments
from workhook.work.money.payments.schemas import Payment, PaymentCreate, RefundCreate
from workhook.work.time.timesheets.queries import find_unbilled_ms

T = TypeVar("T")

places = Places("billing")

ROWS = 50
PAYMENT, CREDIT, CREDIT_LINE = "payment", "credit", "credit_line"
FIELDS = ("amount", "paid_at", "method", "reference", "total", "reason", "rate", "line", "unit_price")
LINE, UNBILLED = "line", "unbilled"  # sections of the invoice page with a form
UNDO_MAX_CHARS = 500
"""The longest texts of a line whose removal can be undone, because the undo is stored in a cookie."""


def recipient(invoice: Invoice) -> str:
    """Return the first line of the recipient, from the invoice or else from the settings."""
    return next(iter(printing.buyer_text(invoice).strip().splitlines()), "")


async def _owns(visit: Visit, repository: Repository) -> bool:
    """Return whether the visitor may change the seller's billing settings. Only project admins can own the account."""
    if repository.role != "admin" or repository.owner.id == visit.actor.user.id:
        return repository.role == "admin"
    return await find_member_role(visit.database, repository.owner.id, visit.actor.user.id) == "owner"


async def is_in_account(visit: Visit, account: Account) -> bool:
    """Return whether the visitor belongs to the account and so can see its services."""
    user = visit.actor.user
    return account.id == user.id or await find_member_role(visit.database, account.id, user.id) is not None


async def billing_page(
    visit: Visit, access: Access, template: str, current: str, *, form: PageForm = UNSENT, **context: Any
) -> Response:
    """Show a page of a project's billing. `current`: the section it belongs to."""
    if max(form.status, context.get("status", 200)) != 200:  # a POST or a download has not loaded the header
        await visit.load_frame()
    sees_services = not access.is_client and await is_in_account(visit, access.repository.owner)
    return visit.page(
        template,
        form=form,
        access=access,
        current=current,
        parts_of_billing=navigation.places_of_billing(access, sees_services=sees_services),
        may_write=access.may_write and not access.is_client,
        now=now_ms(),
        **context,
    )


@places.get("/{owner}/{project}/billing")
async def billing(visit: Visit) -> Response:
    """Show the invoices of a project. Clients don't see drafts."""
    access = await visit.follow()
    cursor = visit.query("cursor")
    query = InvoiceList(per_page=ROWS, cursor=cursor or UNSET)
    source, after = source_of_project(access), cursor_of(query)
    filters = filters_of(query, source, now_ms())
    found = await read(visit.database, INVOICES, source, filters, order=NEWEST_FIRST, after=after, limit=ROWS + 1)
    invoices, headers = lists.page(visit.call, found, query)
    return await billing_page(
        visit,
        access,
        "billing/invoices.html",
        "invoices",
        invoices=invoices,
        recipient=recipient,
        open=await open_sums(visit.database, access),
        more=paging.next_page(headers),
        begins=not cursor,
    )


# --- an invoice ------------------------------------------------------------------------------------------------------


async def invoice_at(visit: Visit) -> tuple[Access, Invoice]:
    """Return the invoice in the path. Raises `NotFound` if it does not exist or belongs to another project."""
    access = await visit.access()
    its, invoice = await actions.find_invoice(visit.database, visit.actor, visit.path("invoice_id"))
    access.require_same_project(its)
    return access, invoice


def invoice_address(visit: Visit, *more: str) -> str:
    return paging.project_address(visit, "billing", visit.path("invoice_id"), *more)


def can_be_undone(item: Item) -> bool:
    return len(" ".join(item.timesheet_ids) or item.description) <= UNDO_MAX_CHARS


def line_digest(item: Item) -> str:
    """Return the digest by which a form identifies its line."""
    shown = {
        "timesheet_ids": " ".join(item.timesheet_ids),
        "description": item.description,
        "qty": f"{item.qty:f}",
        "unit_price": str(item.unit_price_minor),
    }
    rest = (item.discount_millionths, item.discount_minor, item.tax_millionths, item.tax_category)
    return digest({**shown, "rest": str(rest)})


def percent_text(millionths: int | None) -> str:
    return "" if millionths is None else number(percent_of(millionths).normalize())


class Money(msgspec.Struct):
    """The payments and balance of an invoice for its page. `left`: the unrefunded part of each payment, by its ID.

    `rates`, `lines`: billed amounts and how much of them can still be credited. `was`: the balance shown on the page,
    sent by its forms. `form`: the rejected form; its section is one of the constants or the ID of the payment to
    refund. `rounded`: the time of a draft, if it is rounded.
    """

    payments: Sequence[Payment] = ()
    credit_notes: Sequence[CreditNote] = ()
    left: dict[str, int] = {}
    was: str = ""
    form: PageForm = msgspec.field(default_factory=PageForm)
    currency: str = DEFAULT_CURRENCY
    zone: tzinfo = UTC
    rounded: InvoiceTimeSums | None = None
    rates: Sequence[RateBalance] = ()
    lines: Sequence[CreditableLine] = ()

    def day_of(self, booked: Payment | CreditNote) -> date:
        """Return the day of a payment or credit note in the invoice's time zone."""
        if isinstance(booked, Payment):
            return calendar_day(booked.paid_at, self.zone)
        return day_in(booked.issued, self.zone)

    def of(self, kind: str, **values: str) -> PageForm:
        return self.form.of(kind, **values)

    def amount_of(self, kind: str, name: str, minor: int) -> PageForm:
        return self.of(kind, **{name: number(amount_of(minor, self.currency))})


async def money_of(reader: Reader, access: Access, invoice: Invoice) -> Money:
    source = source_of_project(access)
    booked = await read_all(reader, payments.rows.listing, source, invoice_id=invoice.id)
    notes = await read_all(reader, credit_notes.rows.listing, source, invoice_id=invoice.id)
    left = Counter[str]()
    for each in booked:
        left[each.refund_of or each.id] += each.amount_minor
    rates = await find_rates(reader, invoice)
    return Money(
        booked,
        notes,
        dict(left),
        balance_of(invoice),
        currency=invoice.currency,
        zone=invoice.zone,
        rates=rates.rows,
        lines=lines_of(invoice, rates, _lines_of_notes(notes)),
    )


def _lines_of_notes(notes: Iterable[CreditNote]) -> list[Item]:
    return [item for note in notes for item in items_of(note.items)]


async def show_invoice(
    visit: Visit, access: Access, invoice: Invoice, form: PageForm | None = None, *, missing: Invalid | None = None
) -> Response:
    """Show an invoice. `form`: the submitted form of one section; `missing`: why no e-invoice can be made."""
    form = form or PageForm()
    money = await money_of(visit.database, access, invoice)
    money.form = form
    is_draft, lacking, unprinted = invoice.status == "draft", list[str](), list[str]()
    if is_draft:
        lacking, unprinted = einvoice.lacking_of_draft(invoice, access.repository)
        money.rounded = await find_rounded(visit.database, access.repository.id, invoice)
    offers_xml = invoice.status not in ("draft", "void")
    if offers_xml and access.is_client:  # others learn what is missing
        offers_xml = await documents.can_be_einvoice(visit.database, visit.actor, invoice.id)
    missing_shapes = ""
    if not access.is_client and invoice.status != "void":
        missing_shapes = await unprintable.missing_in(printing.texts_of(invoice, access.repository))
    return await billing_page(
        visit,
        access,
        "billing/invoice.html",
        "invoices",
        status=missing.status if missing else form.status,
        invoice=invoice,
        address=f"/{access.repository.full_name}/billing/{invoice.id}",
        items=[(each, line_digest(each), can_be_undone(each)) for each in rules.items_of(invoice.items)],
        recurring=rules.items_of(invoice.recurring_items),
        nets=sum(each.amount_minor for each in invoice.every_item),
        taxes=[(percent_of(each.millionths).normalize(), each) for each in invoice.tax_rows],
        percent_text=percent_text,
        shows_taxes=invoice.tax_millionths is not None
        or any(each.millionths or each.category in ("exempt", "reverse_charge") for each in invoice.tax_rows),
        money=money,
        missing=[] if missing is None else [in_words(each) for each in missing.reasons],
        lacking=lacking,
        unprinted=unprinted,
        offers_xml=offers_xml,
        owns_account=await _owns(visit, access.repository),
        books=invoice.books,
        line=form.of(LINE, qty="1"),
        mailed=await find_mailed(visit.database, access, invoice, now_ms()),
        unbilled=form.of(UNBILLED),
        unbilled_ms=await find_unbilled_ms(visit.database, access) if is_draft else 0,
        unbillable_ms=await find_unbilled_ms(visit.database, access, billable=False) if is_draft else 0,
        pictures=printing.pictures_in(invoice, access.repository) if is_draft else "",
        unprintable=unprintable.format_missing(missing_shapes),
        font_package=unprintable.package_for(missing_shapes),
        seller=invoice.who_bills,
        buyer=invoice.who_pays,
        seller_text=printing.seller_text(invoice, access.repository),
        buyer_text=printing.buyer_text(invoice),
        grouped=grouped,
        is_late_already=is_draft and invoice.due is not None and end_of(invoice.due, invoice.zone) <= now_ms(),
    )


async def show_refused(visit: Visit, form: PageForm) -> Response:
    access, invoice = await invoice_at(visit)
    if form.section not in (LINE, UNBILLED):
        form.was = balance_of(invoice)
    return await show_invoice(visit, access, invoice, form)


async def _book(
    visit: Visit,
    kind: str,
    read_form: Callable[[Access, Invoice], Awaitable[T]],
    book: Callable[[Write, Access, Invoice, T], Awaitable[object]],
    text: str,
) -> Response:
    """Run a form of the invoice. One made for another balance is rejected, as it may have been submitted twice."""
    called = {"invoice_items": "unit_price"}

    @form_page(show_refused, FIELDS, section=kind, called=called, on=(Invalid, Conflict))
    async def run(visit: Visit) -> Response:
        access, invoice = await invoice_at(visit)
        wanted = await read_form(access, invoice)

        async def step(write: Write) -> None:
            access, current = await actions.lock_invoice(write, invoice.id)
            if visit.fields.get("was") != balance_of(current):
                raise ChangedMeanwhile
            await book(write, access, current, wanted)

        await visit.change(step)
        return visit.done(f"{invoice_address(visit)}#money", text)

    return await run(visit)


def balance_of(invoice: Invoice) -> str:
    return f"{invoice.paid_minor or 0}/{invoice.credited_minor or 0}"


@places.post("/{owner}/{project}/billing/{invoice_id}/payments", makes=True, action="invoice.pay")
async def book_payment(visit: Visit) -> Response:
    """Record a payment on an invoice."""

    async def read_form(_: Access, invoice: Invoice) -> PaymentCreate:
        return visit.form(PaymentCreate, AmountField("amount", invoice.currency), "paid_at", "method", "reference")

    return await _book(visit, PAYMENT, read_form, payments.pay, gettext("Payment recorded."))


@places.post(
    "/{owner}/{project}/billing/{invoice_id}/payments/{payment_id}/refund", makes=True, action="invoice.refund"
)
async def give_back(visit: Visit) -> Response:
    """Record the refund of a payment or a part of it."""
    payment_id = visit.path("payment_id")

    async def read_form(_: Access, invoice: Invoice) -> RefundCreate:
        return visit.form(RefundCreate, AmountField("amount", invoice.currency), "paid_at", "reference")

    async def book(write: Write, access: Access, invoice: Invoice, wanted: RefundCreate) -> None:
        payment = await payments.find_payment(write.tx, write.actor, payment_id)
        if payment.invoice.id != invoice.id:
            raise NotFound()
        await payments.refund(write, access, invoice, payment, wanted)

    return await _book(visit, payment_id, read_form, book, gettext("Refund recorded."))


@places.post("/{owner}/{project}/billing/{invoice_id}/credit_notes", makes=True, action="invoice.credit")
async def make_credit_note(visit: Visit) -> Response:
    """Credit an invoice, a part of it, or one of its lines."""
    is_line = "line" in visit.fields

    async def read_form(access: Access, invoice: Invoice) -> CreditNoteCreate:
        if is_line:
            return await _credited_line(visit, access, invoice)
        wanted = visit.form(CreditNoteCreate, AmountField("total", invoice.currency), "reason")
        if (rate := visit.fields.get("rate", "")) != "":
            row = _chosen(invoice.tax_rows, rate, "rate")
            wanted.tax, wanted.tax_category = row.millionths, row.category
        return wanted

    return await _book(
        visit, CREDIT_LINE if is_line else CREDIT, read_form, credit_notes.credit, gettext("Credit note issued.")
    )


async def _credited_line(visit: Visit, access: Access, invoice: Invoice) -> CreditNoteCreate:
    source = source_of_project(access)
    notes = await read_all(visit.database, credit_notes.rows.listing, source, invoice_id=invoice.id)
    lines = lines_of(invoice, await find_rates(visit.database, invoice), _lines_of_notes(notes))
    credited = whole_line(_chosen(lines, visit.fields["line"], "line"), invoice.currency)
    if visit.fields.get("unit_price"):
        amount = AmountField("unit_price", invoice.currency)
        credited.unit_price = visit.form(CreditedItemInput, amount, description="-", qty=1).unit_price
    wanted = visit.form(CreditNoteCreate, "reason")
    wanted.invoice_items = [credited]
    return wanted


def _chosen(found: Sequence[T], text: str, field: str) -> T:
    """Return the row with the index `text`. Raises `Invalid`."""
    if not (text.isascii() and text.isdigit() and len(text) < 5 and int(text) < len(found)):
        raise Invalid.at(field, gettext("Choose an option from the list."))
    return found[int(text)]


@places.get("/{owner}/{project}/billing/{invoice_id}/credit_notes/{credit_note_id}/xml", head=False)
async def credit_note_xml(visit: Visit) -> Response:
    """Download a credit note as an e-invoice."""
    access, invoice = await invoice_at(visit)
    try:
        return await credit_notes.get_credit_note_xml(visit.call, visit.path("credit_note_id"))
    except Invalid as problem:
        return await show_invoice(visit, access, invoice, missing=problem)


@places.get("/{owner}/{project}/billing/{invoice_id}/credit_notes/{credit_note_id}/pdf", head=False)
async def credit_note_pdf(visit: Visit) -> Response:
    """Show a credit note as a PDF."""
    await invoice_at(visit)
    return await credit_notes.get_credit_note_pdf(visit.call, visit.path("credit_note_id"))


@places.get("/{owner}/{project}/billing/{invoice_id}")
async def invoice_page(visit: Visit) -> Response:
    """Show an invoice with its lines, totals, and actions."""
    return await show_invoice(visit, *await invoice_at(visit))


@places.get("/{owner}/{project}/billing/{invoice_id}/pdf", head=False)
async def invoice_pdf(visit: Visit) -> Response:
    """Show an invoice as a PDF."""
    _, invoice = await invoice_at(visit)
    return await documents.get_invoice_pdf(visit.call, invoice.id)


@places.get("/{owner}/{project}/billing/{invoice_id}/xml", head=False)
async def invoice_xml(visit: Visit) -> Response:
    """Download an invoice as an e-invoice, or show its page with the missing fields."""
    access, invoice = await invoice_at(visit)
    try:
        return await documents.get_invoice_xml(visit.call, invoice.id)
    except Invalid as problem:
        return await show_invoice(visit, access, invoice, missing=problem)


async def _set_status(visit: Visit, step: Callable[[Write, str], Awaitable[object]], text: str) -> Response:
    _, invoice = await invoice_at(visit)
    await visit.change(lambda write: step(write, invoice.id))
    return visit.done(invoice_address(visit), text)


@places.post("/{owner}/{project}/billing/{invoice_id}/send", makes=True, action="invoice.send")
async def issue(visit: Visit) -> Response:
    """Issue a draft and assign its number."""
    return await _set_status(visit, actions.send_invoice, gettext("Invoice issued. Its amounts are final."))


@places.post("/{owner}/{project}/billing/{invoice_id}/void", action="invoice.void")
async def make_void(visit: Visit) -> Response:
    """Void an issued invoice."""
    return await _set_status(visit, actions.void_invoice, gettext("Invoice voided. It keeps its number."))


# --- the invoices of all projects ------------------------------------------------------------------------------------

PATH = "/invoices"
STATUSES: Sequence[str] = get_args(Status)

all_places = Places("all_invoices")


@all_places.get(PATH)
async def all_invoices(visit: Visit) -> Response:
    """Show the invoices of all projects."""
    given = defaultdict(str, paging.given(visit))
    query = paging.query_of(AllInvoicesQuery, given, ROWS)
    now, after, source = now_ms(), cursor_of(query), source_across_projects(visit.actor, query)
    filters, limit = filters_of(query, source, now), ROWS + 1

    async def ask(behind: Key | None) -> Rows[Invoice]:
        return await read(visit.database, INVOICES, source, filters, order=NEWEST_FIRST, after=behind, limit=limit)

    found, options = await asyncio.gather(fill_page(ask, after, limit), project_options(visit))
    page, headers = lists.page(visit.call, found, query)
    listed = [invoice for invoice in page if isinstance(invoice, PlacedInvoice)]
    projects = await find_visible(visit.database, visit.actor, {each.project.id for each in listed})
    return visit.page(
        "billing/all.html",
        recipient=recipient,
        lines=[
            (each, f"/{projects[each.project.id].full_name}/billing") for each in listed if each.project.id in projects
        ],
        more=paging.next_page(headers),
        given=given,
        filtered=paging.is_filtered(AllInvoicesQuery, given),
        first=paging.with_query(visit, cursor=None),
        projects=options,
        statuses=STATUSES,
        now=now,
        is_guest=bool(options) and all(each.repository.role is None for each in options),
    )
