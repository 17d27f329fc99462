"""`/projects/{id}/invoices` and `/invoices`, from draft to paid.

Owners and members make invoices, clients see what was sent.
"""

from __future__ import annotations

from msgspec import UnsetType
from msgspec.structs import replace

from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, Fault, Invalid
from workhook.core.zones import is_known
from workhook.http import lists
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.kernel.access import Access, find_access, find_with_access
from workhook.work.kernel.record_events import publish_event
from workhook.work.kernel.schemas import Done
from workhook.work.kernel.settings.arithmetic import TaxRate
from workhook.work.kernel.settings.parties import party_text
from workhook.work.money.invoices import drafting, planning, presets, printing, rules
from workhook.work.money.invoices.changing import (
    change_invoice,
    find_invoice,
    lock_invoice,
    lock_project,
    require_issued,
    visible,
)
from workhook.work.money.invoices.documents import PDF, attachment_of, parties_now, pdf_answer, xml_answer
from workhook.work.money.invoices.einvoice import XML, einvoice_of
from workhook.work.money.invoices.inputs import InvoiceCreate, InvoiceEdit, InvoiceList
from workhook.work.money.invoices.rules import Books
from workhook.work.money.invoices.schemas import (
    Invoice,
    InvoiceAnswer,
    InvoicesAnswer,
    blank_invoice,
    invoice_to_response,
)
from workhook.work.money.invoices.settings import (
    InvoiceSettings,
    find_settings_to_issue,
    issued_values,
    lacking_vat_id,
    settings_of_row,
)

# What no amount follows from, and what names neither the invoice nor its parties.
_AFTER_SENDING = frozenset({"payment_terms", "payment_method", "due", "credit_type"})
_DOING = "change invoices"

routes = Routes(WORK_API, "Invoices", read="work.read", write="work.write")


@routes.get("/projects/{id}/invoices")
async def list_invoices(call: Call, project_id: str, query: InvoiceList) -> Listed[InvoicesAnswer]:
    """List a project's invoices.

    Clients do not see drafts.
    """
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), project_id)
    now = now_ms()
    found = await drafting.list_invoices(call.database, access, query, now=now, after=key[0] if key else None)
    invoices, headers = lists.page(call, found, query, lambda invoice: (invoice.id,))
    return Listed(InvoicesAnswer([invoice_to_response(each, now) for each in invoices]), headers)


@routes.post("/projects/{id}/invoices")
async def create_invoice(write: Write, project_id: str, wanted: InvoiceCreate) -> InvoiceAnswer:
    """Create a draft of an invoice.

    Its timesheets are reserved: no other invoice can have them.
    """
    return _answer(await draft_invoice(write, project_id, wanted), write.now)


async def draft_invoice(write: Write, project_id: str, wanted: InvoiceCreate) -> Invoice:
    """The new draft. Raises what `plan_draft` does, before anything is written."""
    access, blank, change = await plan_draft(write, project_id, wanted)
    invoice = replace(blank, **change.values)
    await drafting.insert_invoice(write.tx, access.repository, invoice)
    await drafting.claim(write.tx, access.repository.id, change.new_ids, invoice.id)
    await publish_event(write, access.repository, "invoice", "created", invoice_to_response(invoice, write.now))
    return invoice


async def plan_draft(
    write: Write, project_id: str, wanted: InvoiceCreate
) -> tuple[Access, Invoice, planning.InvoiceChange]:
    """What `draft_invoice` begins with, and what it makes of that. Raises `NotFound`, `Forbidden`, `Conflict`,
    `Invalid`."""
    row, access = await find_with_access(write.tx, drafting.project, write.actor, project_id=project_id)
    access.require_writable()
    access.require_member(_DOING)
    settings = settings_of_row(row)
    currency = settings.currency or await presets.find_last_currency(write.tx, access.repository)
    blank = _begun(settings, currency, wanted, write)
    return access, blank, await planning.plan_change(write.tx, access.repository, blank, wanted)


def _begun(settings: InvoiceSettings, currency: str, wanted: InvoiceCreate, write: Write) -> Invoice:
    """A draft that says what the settings say. Of the tax only if the caller speaks of neither rate nor category."""
    speaks_of_tax = not (isinstance(wanted.tax, UnsetType) and isinstance(wanted.tax_category, UnsetType))
    rate = TaxRate() if speaks_of_tax else settings.rate
    return replace(
        blank_invoice(currency, write.actor.user, write.now),
        tax_millionths=rate.millionths,
        tax_category=rate.category,
        payment_terms=settings.payment_terms,
        language=settings.language,
        buyer_shown=party_text(settings.buyer),
        seller_shown=party_text(settings.seller),
    )


@routes.get("/invoices/{invoice_id}")
async def get_invoice(call: Call, invoice_id: str) -> InvoiceAnswer:
    """Get an invoice."""
    _, invoice = await find_invoice(call.database, actor_of(call), invoice_id)
    return _answer(invoice, now_ms())


@routes.patch("/invoices/{invoice_id}")
async def edit_invoice(write: Write, invoice_id: str, wanted: InvoiceEdit) -> InvoiceAnswer:
    """Change an invoice.

    After it is sent, its lines, timesheets, tax, currency and number cannot be changed; after it is void, nothing can.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    write.require_match(_answer(invoice, write.now))
    change = await planning.plan_change(write.tx, access.repository, invoice, wanted)
    changed = {name for name, value in change.values.items() if value != getattr(invoice, name)}
    if change.claims_differ:
        changed.add("timesheet_ids")
    if not changed:
        return _answer(invoice, write.now)
    if invoice.status == "void" or (invoice.status != "draft" and not changed <= _AFTER_SENDING):
        fixed = "what its amounts follow from, its parties and its number stay as they are"
        stays = "everything stays as it is" if invoice.status == "void" else fixed
        message = f"The invoice is {invoice.status}; {stays}."
        raise Conflict(message, code=f"invoice_{invoice.status}")
    claims: dict[str, dict[str, object]] = {}
    if change.claims_differ:
        await drafting.release(write.tx, invoice.id, but=change.kept_ids)
        claims["timesheet_ids"] = {"from": change.claimed_before, "to": change.timesheet_ids}
    await drafting.claim(write.tx, access.repository.id, change.new_ids, invoice.id)
    after = await change_invoice(write, access, invoice, "edited", change.values, more_changes=claims)
    return _answer(after, write.now)


@routes.delete("/invoices/{invoice_id}")
async def delete_invoice(write: Write, invoice_id: str) -> Done:
    """Delete a draft.

    Its timesheets can be invoiced again.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    write.require_match(_answer(invoice, write.now))
    if invoice.status != "draft":
        raise Conflict("Only drafts can be deleted.", code=f"invoice_{invoice.status}")
    await drafting.delete_invoice(write.tx, invoice.id)
    await publish_event(write, access.repository, "invoice", "deleted", invoice_to_response(invoice, write.now))
    return Done()


@routes.post("/invoices/{invoice_id}/send")
async def send_invoice(write: Write, invoice_id: str) -> InvoiceAnswer:
    """Issue a draft: it gets its number, and its amounts and parties are fixed.

    One without lines is 422 `empty`. One whose total is 0 is paid at once. One without `due` gets it from
    `payment_days` of the billing settings. A tax that is `reverse_charge` needs the VAT ids of both parties.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    if invoice.status == "sent":
        return _answer(invoice, write.now)
    if invoice.status != "draft":
        message = f"The invoice is {invoice.status}; it would have to be a draft."
        raise Conflict(message, code=f"invoice_{invoice.status}")
    if not rules.items_of(invoice.items) and not rules.items_of(invoice.recurring_items):
        message = "invoice_items: the invoice has no lines; add some before it is sent"
        raise Invalid(faults=[Fault(field="invoice_items", code="empty", message=message)])
    await lock_project(write.tx, access.repository.id)
    settings = await find_settings_to_issue(write.tx, access.repository.id)
    _require_vat_ids(invoice, settings, access)
    _require_zone(settings, access)
    values = {"status": Books(invoice.total_minor).status, "issued": write.now}
    values |= issued_values(settings, invoice.due, write.now)
    if invoice.total_minor == 0:
        values["paid_at"] = write.now
    return _answer(await change_invoice(write, access, invoice, "sent", values), write.now)


def _require_vat_ids(invoice: Invoice, settings: InvoiceSettings, access: Access) -> None:
    """Raises `Invalid` where the buyer owes the tax and a VAT id is missing."""
    if not any(each.category == "reverse_charge" for each in invoice.tax_rows):
        return
    if (who := lacking_vat_id(settings.seller, settings.buyer)) is None:
        return
    if who == "seller":
        where = f"/organizations/{access.repository.owner.login}/billing"
        message = f"seller.vat_id: an invoice with reverse_charge needs it; set vat_id in {where} first"
    else:
        where = f"/projects/{access.repository.project_id}/billing"
        message = f"buyer.vat_id: an invoice with reverse_charge needs it; set buyer.vat_id in {where} first"
    raise Invalid(faults=[Fault(field=f"{who}.vat_id", code="missing", message=message)])


def _require_zone(settings: InvoiceSettings, access: Access) -> None:
    """Raises `Invalid` where this server does not know the zone of who bills: the invoice would have the days of
    another one for good."""
    zone = settings.seller.timezone
    if zone is None or is_known(zone):
        return
    where = f"/organizations/{access.repository.owner.login}/billing"
    message = f"seller.timezone: this server does not know {zone}; set timezone in {where} to one that it knows first"
    raise Invalid(faults=[Fault(field="seller.timezone", message=message)])


@routes.post("/invoices/{invoice_id}/void")
async def void_invoice(write: Write, invoice_id: str) -> InvoiceAnswer:
    """Void an invoice that was sent, and on which nothing is paid or credited.

    It keeps its number; its timesheets can be invoiced again. One with a total of 0 counts as paid, and can be voided.
    """
    access, invoice = await lock_invoice(write, invoice_id)
    if invoice.status == "void":
        return _answer(invoice, write.now)
    require_issued(invoice)
    books = invoice.books
    if books.credited:
        rest = "The invoice has credit notes; credit the rest of it instead."
        message = rest if books.not_credited else "All of the invoice is credited."
        raise Conflict(message, code="has_credit_notes")
    if books.paid and books.due:
        raise Conflict("Something was paid on the invoice; give it back first (refund).", code="has_payments")
    if invoice.status != "sent" and invoice.total_minor:  # of 0, nothing can be credited
        message = f"The invoice is {invoice.status}; credit it instead (credit_notes)."
        raise Conflict(message, code=f"invoice_{invoice.status}")
    await drafting.release(write.tx, invoice.id)
    return _answer(await change_invoice(write, access, invoice, "voided", {"status": "void"}), write.now)


@routes.get("/invoices/{invoice_id}/pdf", answers={200: {"type": "string", "format": "binary"}}, media_type=PDF)
async def get_invoice_pdf(call: Call, invoice_id: str) -> Answer:
    """Get an invoice as a PDF.

    A draft is marked as one. The logo is that of the billing settings, or else the project's `avatar` if that is a
    PNG, JPEG or SVG among the project's files. It must not be private, and must be drawn within two seconds. Otherwise
    the initials of the account that bills stand in its place. An organization's invoices are printed one after the
    other; 503 `pdf_unavailable`: too many wait already, or it took too long. Emoji are left out. If no font of the
    server has some characters, they are printed as boxes. `X-Missing-Characters` then names the first of them, such as
    `U+6F22`.

    If the invoice has an e-invoice (`/xml`), the PDF carries it, as Factur-X (ZUGFeRD) of the profile EN 16931: it is
    PDF/A-3 with the file `factur-x.xml`. One with boxes carries none.
    """
    row, access = await find_with_access(call.database, drafting.by_id, actor_of(call), id=invoice_id)
    invoice, repository = visible(row, access), access.repository
    return await pdf_answer(
        call,
        repository,
        invoice.id,
        printing.printed(invoice, repository),
        einvoice=attachment_of(invoice, repository, row),
        logo_id=printing.logo_of(invoice),
        avatar=row["project_avatar"],
        timestamp_s=printing.timestamp_s(invoice),
        file_name=printing.file_name(invoice),
    )


@routes.get(
    "/invoices/{invoice_id}/xml",
    answers={200: {"type": "string", "format": "binary"}},
    problems=(409, 422),
    media_type=XML,
)
async def get_invoice_xml(call: Call, invoice_id: str) -> Answer:
    """Get an invoice as an e-invoice: EN 16931, in the syntax of UN/CEFACT (CII).

    Of an invoice that was sent. It needs the country and the name of the buyer, and the country of the seller with a
    VAT id or a tax number: 422 names what is missing, and where to write it. A draft is 409 `invoice_draft`, a void one
    409 `invoice_void`.
    """
    row, access = await find_with_access(call.database, drafting.by_id, actor_of(call), id=invoice_id)
    invoice = visible(row, access)
    require_issued(invoice)
    document = einvoice_of(invoice, access.repository, parties_now(row))
    return xml_answer(document, printing.file_name(invoice, "xml"))


def _answer(invoice: Invoice, now: int) -> InvoiceAnswer:
    return InvoiceAnswer(invoice_to_response(invoice, now))
