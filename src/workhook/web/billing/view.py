"""What the pages of billing share: their parts, and the page of an invoice."""

from __future__ import annotations

from typing import Any

import msgspec

from workhook.core.clock import now_ms
from workhook.core.errors import Invalid
from workhook.core.zones import has_passed
from workhook.http.calls import Answer
from workhook.identity.queries import find_member_role
from workhook.identity.schemas import Account, Repository
from workhook.web.frame import navigation, paging
from workhook.web.frame.formats import number
from workhook.web.frame.forms import PageForm, digest
from workhook.web.frame.places import Visit
from workhook.web.frame.refusals import in_words
from workhook.work.kernel.access import Access
from workhook.work.kernel.settings.arithmetic import percent_of
from workhook.work.kernel.settings.bank import grouped
from workhook.work.money.invoices import changing, einvoice, printing, rules, unprintable
from workhook.work.money.invoices.days import zone_of_invoice
from workhook.work.money.invoices.mail_outcomes import find_mailed
from workhook.work.money.invoices.rules import Item
from workhook.work.money.invoices.schemas import Invoice
from workhook.work.time.timesheets import started

LINE, UNBILLED = "line", "unbilled"  # sections of the page of an invoice that have a form
UNDO_MAX_CHARS = 500
"""The longest texts of a line whose removal can be undone: what undoes it travels in a cookie."""


def recipient(invoice: Invoice) -> str:
    """The first line of whom it names: what is written on it, or else the party of the settings."""
    return next(iter(printing.buyer_text(invoice).strip().splitlines()), "")


async def _owns(visit: Visit, repository: Repository) -> bool:
    """Whether the billing settings of who bills are the visitor's to write. Only admins of the project can own it."""
    if repository.role != "admin" or repository.owner.id == visit.actor.user.id:
        return repository.role == "admin"
    return await find_member_role(visit.database, repository.owner.id, visit.actor.user.id) == "owner"


async def is_in_account(visit: Visit, account: Account) -> bool:
    """Whether the visitor is in the account, and so sees its services."""
    user = visit.actor.user
    return account.id == user.id or await find_member_role(visit.database, account.id, user.id) is not None


async def billing_page(
    visit: Visit, access: Access, template: str, current: str, *, status: int = 200, **context: Any
) -> Answer:
    """A page of a project's billing. `current`: the part of it that the page belongs to."""
    if status != 200:  # the answer to a form: the header was not read yet
        await visit.load_frame()
    sees_services = not access.is_client and await is_in_account(visit, access.repository.owner)
    return visit.page(
        template,
        status=status,
        access=access,
        current=current,
        parts_of_billing=navigation.places_of_billing(access, sees_services=sees_services),
        may_write=access.may_write and not access.is_client,
        now=now_ms(),
        **context,
    )


# --- an invoice ------------------------------------------------------------------------------------------------------


async def invoice_at(visit: Visit) -> tuple[Access, Invoice]:
    """The invoice that the path names. Raises `NotFound`, too where it is another project's."""
    access = await visit.access()
    its, invoice = await changing.find_invoice(visit.database, visit.actor, visit.path("invoice_id"))
    access.require_same(its)
    return access, invoice


def invoice_address(visit: Visit, *more: str) -> str:
    """Of the invoice that the path names, or of a part of its page."""
    return paging.project_address(visit, "billing", visit.path("invoice_id"), *more)


async def show_invoice(
    visit: Visit,
    access: Access,
    invoice: Invoice,
    *,
    money: msgspec.Struct,
    form: PageForm,
    missing: Invalid | None = None,
) -> Answer:
    """The page of an invoice. `money`: what its template shows of that; `form`: that of one of its sections, as it was
    sent; `missing`: what an e-invoice needs and does not have."""
    every = [*rules.items_of(invoice.items), *rules.items_of(invoice.recurring_items)]
    buyer, seller = printing.parties_of(invoice)
    missing_shapes = await _unprintable(access, invoice)
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
        nets=sum(each.amount_minor for each in every),
        taxes=[(percent_of(each.millionths).normalize(), each) for each in invoice.tax_rows],
        percent_text=percent_text,
        shows_taxes=invoice.tax_millionths is not None
        or any(each.millionths or each.category in ("exempt", "reverse_charge") for each in invoice.tax_rows),
        money=money,
        missing=[] if missing is None else [in_words(each) for each in missing.reasons],
        lacking=einvoice.lacking_of_draft(invoice, access.repository) if invoice.status == "draft" else [],
        owns_account=await _owns(visit, access.repository),
        books=invoice.books,
        line=form.of(LINE, qty="1"),
        mailed=await find_mailed(visit.database, access, invoice, now_ms()),
        unbilled=form.of(UNBILLED),
        unbilled_ms=await started.find_unbilled_ms(visit.database, access) if invoice.status == "draft" else 0,
        pictures=printing.pictures_in(invoice, access.repository) if invoice.status == "draft" else "",
        unprintable=unprintable.in_sight(missing_shapes),
        font_package=unprintable.package_for(missing_shapes),
        seller=seller,
        buyer=buyer,
        seller_text=printing.seller_text(invoice, access.repository),
        buyer_text=printing.buyer_text(invoice),
        grouped=grouped,
        is_late_already=invoice.status == "draft" and _is_late(invoice),
    )


def _is_late(invoice: Invoice) -> bool:
    return invoice.due is not None and has_passed(invoice.due, now_ms(), zone_of_invoice(invoice))


async def _unprintable(access: Access, invoice: Invoice) -> str:
    """The characters of which its PDF would have boxes, for those who can do something about it."""
    if access.is_client or invoice.status == "void":
        return ""
    return await unprintable.missing_in(printing.texts_of(invoice, access.repository))


def can_be_undone(item: Item) -> bool:
    """The removal of the line."""
    return len(" ".join(item.timesheet_ids) or item.description) <= UNDO_MAX_CHARS


def line_digest(item: Item) -> str:
    """Of a line: by it a form says which one it was made for."""
    shown = {
        "timesheet_ids": " ".join(item.timesheet_ids),
        "description": item.description,
        "qty": f"{item.qty:f}",
        "unit_price": str(item.unit_price_minor),
    }
    rest = (item.discount_millionths, item.discount_minor, item.tax_millionths, item.tax_category)
    return digest({**shown, "rest": str(rest)})


def percent_text(millionths: int | None) -> str:
    """As a form has it; empty without one."""
    return "" if millionths is None else number(percent_of(millionths).normalize())
