"""Invoices in the database, what the parameters of one make of it, and those that Workhook issues by itself.

Locks are taken in this order: the invoice, the account's logo, its counter of numbers, timesheets by id.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Conflict
from workhook.core.zones import day_in
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import row_reader, selected, stored_names, values_of
from workhook.work.board.tasks.schemas import tasks
from workhook.work.files.schemas import files
from workhook.work.kernel.access import with_access
from workhook.work.kernel.pages import length
from workhook.work.kernel.people import membership_of, person_columns, person_of_row
from workhook.work.kernel.record_events import publish_event
from workhook.work.kernel.settings import account_billing, party_text
from workhook.work.money.invoices import rules
from workhook.work.money.invoices.counters import count_one
from workhook.work.money.invoices.days import days_of, overdue_at
from workhook.work.money.invoices.rules import Books, Discount, Item, rows_text
from workhook.work.money.invoices.schemas import (
    IS_OPEN,
    NOT_COMPUTED,
    Invoice,
    blank_invoice,
    invoice_to_response,
    invoices,
)
from workhook.work.money.invoices.settings import (
    buyer_of_row,
    find_settings_to_issue,
    issued_values,
    seller_of_row,
    with_parties,
    with_settings,
)
from workhook.work.money.invoices.time_lines import NOTES_MAX_CHARS, InvoicedTime
from workhook.work.time.timesheets.schemas import timesheets

NUMBERS_TRIED_MAX = 1_000
"""Numbers that a transaction counts past because callers chose them for other invoices."""
_CHANGING = stored_names(Invoice, without=("id", "service_checkout_id", "recurring_items", "created_at"))
TEXTS = ("bill_to", "bill_from", "address", "payment_terms", "payment_method")


class LogoFile(msgspec.Struct, frozen=True):
    """A file of a project, and where its content is."""

    content_type: str
    size: int
    blob: str


is_open = sa.literal_column(f"invoices.{IS_OPEN}", sa.Boolean)
"""Something is due."""

_read, _read_time = row_reader(Invoice), row_reader(InvoicedTime)
_people = accounts.alias("people")
_columns = [
    *selected(Invoice, invoices),
    *person_columns(membership_of(invoices.c.repository_id, _people), _people),
]
invoices_with_people = with_parties(
    sa.select(*_columns).join_from(invoices, _people, _people.c.id == invoices.c.user_id, isouter=True),
    invoices.c.account_id,
    invoices.c.repository_id,
)

weight = length(*(invoices.c[name] for name in ("items", "recurring_items", "buyer", "seller", *TEXTS)))

# --- reads ------------------------------------------------------------------------------------------------------

_one = with_access(invoices_with_people.where(invoices.c.id == sa.bindparam("id")), invoices.c.repository_id)
by_id = _one.add_columns(projects.c.avatar.label("project_avatar"))
locked = _one.with_for_update(of=invoices)
_named = projects.alias("named")
# A project with the settings for its next invoice.
project = with_access(
    with_settings(
        sa.select(_named.c.id).where(_named.c.id == sa.bindparam("project_id")),
        _named.c.account_id,
        _named.c.repository_id,
    ),
    _named.c.repository_id,
)

_logo = sa.select(files.c.content_type, files.c.size, files.c.blob).where(
    files.c.id == sa.bindparam("file_id"),
    files.c.repository_id == big("repository_id"),
    files.c.deleted_at.is_(None),
    files.c.private.is_(sa.false()),
)

# --- timesheets -------------------------------------------------------------------------------------------------

# A line has less of them; a thousand entries may have 64 KiB each.
_noted = sa.func.substr(sa.func.ltrim(timesheets.c.notes), 1, 10 * NOTES_MAX_CHARS).label("notes")
_times = (
    sa.select(
        *(_noted if each.name == "notes" else each for each in selected(InvoicedTime, timesheets)),
        sa.func.coalesce(tasks.c.title, sa.literal("Work")).label("title"),  # time outlives its task
        sa.func.coalesce(_people.c.name, _people.c.login).label("person"),
        account_billing.c.timezone,
    )
    .join_from(timesheets, tasks, tasks.c.id == timesheets.c.task_id, isouter=True)
    .join(_people, _people.c.id == timesheets.c.user_id, isouter=True)
    .join(projects, projects.c.repository_id == timesheets.c.repository_id)
    .join(account_billing, account_billing.c.account_id == projects.c.account_id, isouter=True)
    .where(
        timesheets.c.repository_id == big("repository_id"),
        sa.or_(any_of(timesheets.c.id, "timesheet_ids"), timesheets.c.invoice_id == sa.bindparam("invoice_id")),
    )
    .order_by(timesheets.c.id)
)
_locked_times = _times.with_for_update(of=timesheets)
_claim = (
    sa.update(timesheets)
    .where(timesheets.c.repository_id == big("repository_id"), any_of(timesheets.c.id, "timesheet_ids"))
    .values(invoice_id=sa.bindparam("invoice_id"))
)
# Locked before they are changed, since an UPDATE alone takes them in whatever order it finds them.
_released = (
    sa.select(timesheets.c.id)
    .where(timesheets.c.invoice_id == sa.bindparam("claimed_by"), any_of(timesheets.c.id, "kept_ids", negate=True))
    .order_by(timesheets.c.id)
    .with_for_update(key_share=True)
    .cte("released")
)
_release = sa.update(timesheets).where(timesheets.c.id.in_(sa.select(_released.c.id))).values(invoice_id=sa.null())

# --- writes -----------------------------------------------------------------------------------------------------

_update = (
    sa.update(invoices)
    .where(invoices.c.id == sa.bindparam("invoice_id"))
    .values({name: sa.bindparam(name, type_=invoices.c[name].type) for name in _CHANGING})
)
_others = invoices.alias("others")
_update_numbered = _update.where(
    ~sa.exists().where(
        _others.c.account_id == big("account_id"),
        _others.c.invoice_number == sa.bindparam("invoice_number", type_=sa.Text),
    )
)
_delete = sa.delete(invoices).where(invoices.c.id == sa.bindparam("id"))
_insert = insert_into(invoices, *(each.name for each in invoices.c))


_numbered = sa.select(invoices.c.id).where(
    invoices.c.account_id == big("account_id"), invoices.c.invoice_number == sa.bindparam("invoice_number")
)


async def find_logo(reader: Reader, repository_id: int, file_id: str) -> LogoFile | None:
    """A file of the project that everybody in it sees."""
    row = await reader.fetch_one(_logo, {"repository_id": repository_id, "file_id": file_id})
    return LogoFile(row["content_type"], row["size"], row["blob"]) if row else None


async def lock_times(
    tx: Transaction, repository_id: int, timesheet_ids: Sequence[str], invoice_id: str
) -> list[InvoicedTime]:
    """These timesheets of the project and those that the invoice has claimed."""
    params = {"repository_id": repository_id, "timesheet_ids": timesheet_ids, "invoice_id": invoice_id}
    return list(map(_time_of, await tx.fetch_all(_locked_times, params)))


async def find_times(
    reader: Reader, repository_id: int, timesheet_ids: Sequence[str], invoice_id: str = ""
) -> list[InvoicedTime]:
    """As `lock_times`, to show what an invoice has or would have."""
    params = {"repository_id": repository_id, "timesheet_ids": timesheet_ids, "invoice_id": invoice_id}
    return list(map(_time_of, await reader.fetch_all(_times, params)))


def _time_of(row: Row) -> InvoicedTime:
    more = {"title": row["title"], "person": row["person"] or "", "timezone": row["timezone"]}
    return _read_time(row, **more, rate_lost=False)


async def claim(tx: Transaction, repository_id: int, timesheet_ids: Sequence[str], invoice_id: str) -> None:
    if timesheet_ids:
        params = {"repository_id": repository_id, "timesheet_ids": timesheet_ids, "invoice_id": invoice_id}
        await tx.execute(_claim, params)


async def release(tx: Transaction, invoice_id: str, *, but: Sequence[str] = ()) -> None:
    """The timesheets that the invoice has claimed, but for these, can be invoiced again."""
    await tx.execute(_release, {"claimed_by": invoice_id, "kept_ids": but})


async def update_and_number(tx: Transaction, invoice: Invoice, account_id: int) -> Invoice:
    """`update_invoice`, with the account's next number (see `next_number`); the invoice with it. It is issued."""
    day = days_of(invoice).issued
    assert day is not None, "it is issued"
    for _ in range(NUMBERS_TRIED_MAX):
        numbered = msgspec.structs.replace(invoice, invoice_number=await count_one(tx, account_id, day.year))
        values = {**values_of(numbered), "invoice_id": invoice.id, "account_id": account_id}
        if await tx.execute(_update_numbered, values):
            return numbered
    raise numbers_taken()


async def update_invoice(tx: Transaction, invoice: Invoice) -> None:
    await tx.execute(_update, {**values_of(invoice), "invoice_id": invoice.id})


async def delete_invoice(tx: Transaction, invoice_id: str) -> None:
    """Its timesheets can be invoiced again. The foreign key would see to that too, but lock them in any order."""
    await release(tx, invoice_id)
    tx.defer(_delete, [{"id": invoice_id}])


async def insert_invoice(tx: Transaction, repository: Repository, invoice: Invoice) -> None:
    owners = {"repository_id": repository.id, "account_id": repository.owner.id}
    await tx.execute(_insert, {**values_of(invoice), **owners, "user_id": invoice.user and invoice.user.id})


def invoice_of(row: Row) -> Invoice:
    """Of a row of `invoices_with_people`. The parties of a draft are those of the settings."""
    user = person_of_row(row) if row["user_id"] is not None else None
    if row["status"] != "draft":
        return _read(row, **NOT_COMPUTED, user=user, buyer_shown=row["buyer"], seller_shown=row["seller"])
    buyer, seller = party_text(buyer_of_row(row)), party_text(seller_of_row(row))
    return _read(row, **NOT_COMPUTED, user=user, buyer_shown=buyer, seller_shown=seller)


async def next_number(tx: Transaction, account_id: int, year: int) -> str:
    """The next of the account's sequence, in this year, that no caller chose before. Until the transaction ends nobody
    else gets one, so that the numbers have no gap: what is rolled back gives its number back."""
    for _ in range(NUMBERS_TRIED_MAX):
        number = await count_one(tx, account_id, year)
        if not await is_taken(tx, account_id, number):
            return number
    raise numbers_taken()


def numbers_taken() -> Conflict:
    return Conflict(
        f"The next {NUMBERS_TRIED_MAX:,} invoice numbers are taken. Change the number format in the billing settings.",
        code="numbers_taken",
    )


async def is_taken(tx: Transaction, account_id: int, number: str) -> bool:
    return await tx.fetch_one(_numbered, {"account_id": account_id, "invoice_number": number}) is not None


async def issue(
    write: Write, repository: Repository, *, service_checkout_id: str, items: Sequence[Item], currency: str
) -> str:
    """An issued invoice with `items` as its recurring ones; its id. Its only event is `invoice created`; the
    caller tells people of it.

    From here to the end of the transaction nobody else in the account gets a number.
    """
    settings = await find_settings_to_issue(write.tx, repository.id)
    rate = settings.rate_at_issue
    sums = rules.sums_of_items(items, rate, Discount())
    today = day_in(write.now, settings.seller.zone)
    invoice = msgspec.structs.replace(
        blank_invoice(currency, write.caller.user if write.caller else None, write.now),
        invoice_number=await next_number(write.tx, repository.owner.id, today.year),
        status=Books(sums.total).status,
        amount_minor=sums.amount,
        tax_millionths=rate.millionths,
        tax_category=rate.category,
        total_minor=sums.total,
        taxes=rows_text(sums.taxes),
        issued=write.now,
        paid_at=None if sums.total else write.now,
        recurring_items=rules.items_text(items),
        service_checkout_id=service_checkout_id,
        payment_terms=settings.payment_terms,
        language=settings.language,
        **issued_values(settings, None, write.now),
    )
    invoice = msgspec.structs.replace(invoice, overdue_at=overdue_at(invoice))
    await insert_invoice(write.tx, repository, invoice)
    record = invoice_to_response(invoice, write.now)
    await publish_event(write, repository, "invoice", "created", record)
    return invoice.id
