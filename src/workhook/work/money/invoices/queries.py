"""The SQL of invoices, and the counters of their numbers.

Each account has one counter, and one per year if its number format contains the year.

Locks are taken in this order: the invoice, the account's logo, its number counter, timesheets by ID. Assigning a number
locks the account's counter until the transaction ends, whatever the format. A rollback returns the number, so there are
no gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, UnsetType

from workhook.core.errors import Conflict, Number, say
from workhook.identity.queries import repository_of
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import bigint_param, insert_into, of_account, plain_table
from workhook.storage.record_rows import row_reader, selected, stored_names, values_of
from workhook.work.board.tasks.matching import matches, words_of
from workhook.work.board.tasks.schemas import tasks
from workhook.work.files.schemas import files
from workhook.work.kernel.access import Access, is_insider, with_access
from workhook.work.kernel.billing_settings import DEFAULT_FORMAT, NumberFormat, account_billing, party_text, seller_of
from workhook.work.kernel.list_statements import length
from workhook.work.kernel.lists import BY_USER, Condition, Filter, Listing, Words, with_place
from workhook.work.kernel.people import membership_of, person_columns, person_of_row
from workhook.work.kernel.schemas import RecordPlace
from workhook.work.kernel.scopes import ProjectRef, Scope, Source
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices.schemas import (
    IS_OPEN,
    NOT_COMPUTED,
    Invoice,
    InvoiceList,
    PlacedInvoice,
    due_day,
    invoices,
    is_late,
)
from workhook.work.money.invoices.settings import LogoFile, buyer_of_row, seller_of_row, with_parties, with_settings
from workhook.work.money.invoices.time_lines import NOTES_MAX_CHARS, InvoicedTime
from workhook.work.time.timesheets.schemas import timesheets

invoice_numbers = plain_table(
    "invoice_numbers",
    of_account("account_id", primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
)

invoice_year_numbers = plain_table(
    "invoice_year_numbers",
    of_account("account_id", primary_key=True),
    sa.Column("year", sa.BigInteger, primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
)


def increment_counter(numbers: sa.Table, step: sa.ColumnElement[int], **others: Any) -> Any:
    """Return a statement that locks the account's row and adds `step`. `others` are further key columns."""
    counter = upsert(numbers).values(account_id=bigint_param("account_id"), last=step, **others)
    return counter.on_conflict_do_update(
        index_elements=[*numbers.primary_key.columns], set_={"last": numbers.c.last + step}
    ).returning(numbers.c.last)


ONE: sa.ColumnElement[int] = sa.literal(1, sa.BigInteger)
_format = (
    sa.select(account_billing.c.number_format)
    .where(account_billing.c.account_id == bigint_param("account_id"))
    .scalar_subquery()
)
# Numbers with a year have their own counter; this one is then only locked.
_one_without_year = sa.case((_format.like("%{year}%"), sa.literal(0, sa.BigInteger)), else_=ONE)
_count = increment_counter(invoice_numbers, _one_without_year).returning(_format.label("number_format"))
_count_in_year = increment_counter(invoice_year_numbers, ONE, year=bigint_param("year"))
_hold = increment_counter(invoice_numbers, sa.literal(0, sa.BigInteger))


async def count_one(tx: Transaction, account_id: int, year: int) -> str:
    """Return the next number of the account. `year` is the year of issue."""
    row = await tx.fetch_row(_count, {"account_id": account_id})
    number_format, number = NumberFormat(row["number_format"] or DEFAULT_FORMAT), row["last"]
    if number_format.is_yearly:
        row = await tx.fetch_row(_count_in_year, {"account_id": account_id, "year": year})
        number = row["last"]
    return number_format.number_text(number, year)


async def lock_numbers(tx: Transaction, account_id: int) -> None:
    """Prevent other transactions from choosing or getting an invoice number in the account."""
    await tx.fetch_one(_hold, {"account_id": account_id})


NUMBERS_TRIED_MAX = 1_000
"""The maximum number of invoice numbers skipped because callers have chosen them for other invoices."""
_CHANGING = stored_names(Invoice, without=("id", "service_checkout_id", "recurring_items", "created_at"))
TEXTS = ("bill_to", "bill_from", "address", "payment_terms", "payment_method")

is_open = sa.literal_column(f"invoices.{IS_OPEN}", sa.Boolean)

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

_invoice_by_id = with_access(invoices_with_people.where(invoices.c.id == sa.bindparam("id")), invoices.c.repository_id)
by_id = _invoice_by_id.add_columns(projects.c.avatar.label("project_avatar"))
locked = _invoice_by_id.with_for_update(of=invoices)
_this_project = projects.alias("named")
# A project with the settings for its next invoice.
project = with_access(
    with_settings(
        sa.select(_this_project.c.id).where(_this_project.c.id == sa.bindparam("project_id")),
        _this_project.c.account_id,
        _this_project.c.repository_id,
    ),
    _this_project.c.repository_id,
)

_logo = sa.select(files.c.content_type, files.c.size, files.c.blob).where(
    files.c.id == sa.bindparam("file_id"),
    files.c.repository_id == bigint_param("repository_id"),
    files.c.deleted_at.is_(None),
    files.c.private.is_(sa.false()),
)

# --- timesheets -------------------------------------------------------------------------------------------------

# A line shows less than this, and a thousand entries could have notes of 64 KiB each.
_noted = sa.func.substr(sa.func.ltrim(timesheets.c.notes), 1, 10 * NOTES_MAX_CHARS).label("notes")
_times = (
    sa.select(
        *(_noted if each.name == "notes" else each for each in selected(InvoicedTime, timesheets)),
        sa.func.coalesce(tasks.c.title, sa.literal("Work")).label("title"),  # time is kept when its task is purged
        sa.func.coalesce(_people.c.name, _people.c.login).label("person"),
        account_billing.c.timezone,
    )
    .join_from(timesheets, tasks, tasks.c.id == timesheets.c.task_id, isouter=True)
    .join(_people, _people.c.id == timesheets.c.user_id, isouter=True)
    .join(projects, projects.c.repository_id == timesheets.c.repository_id)
    .join(account_billing, account_billing.c.account_id == projects.c.account_id, isouter=True)
    .where(
        timesheets.c.repository_id == bigint_param("repository_id"),
        sa.or_(any_of(timesheets.c.id, "timesheet_ids"), timesheets.c.invoice_id == sa.bindparam("invoice_id")),
    )
    .order_by(timesheets.c.id)
)
_locked_times = _times.with_for_update(of=timesheets)
_claim = (
    sa.update(timesheets)
    .where(timesheets.c.repository_id == bigint_param("repository_id"), any_of(timesheets.c.id, "timesheet_ids"))
    .values(invoice_id=sa.bindparam("invoice_id"))
)
# Locked first, because an UPDATE alone locks rows in any order.
_released = (
    sa.select(timesheets.c.id)
    .where(timesheets.c.invoice_id == sa.bindparam("claimed_by"), any_of(timesheets.c.id, "kept_ids", negate=True))
    .order_by(timesheets.c.id)
    .with_for_update(key_share=True)
    .cte("released")
)
_release = sa.update(timesheets).where(timesheets.c.id.in_(sa.select(_released.c.id))).values(invoice_id=sa.null())

# --- writes -----------------------------------------------------------------------------------------------------

update = (
    sa.update(invoices)
    .where(invoices.c.id == sa.bindparam("invoice_id"))
    .values({name: sa.bindparam(name, type_=invoices.c[name].type) for name in _CHANGING})
)
_other_invoices = invoices.alias("others")
_update_numbered = update.where(
    ~sa.exists().where(
        _other_invoices.c.account_id == bigint_param("account_id"),
        _other_invoices.c.invoice_number == sa.bindparam("invoice_number", type_=sa.Text),
    )
)
_delete = sa.delete(invoices).where(invoices.c.id == sa.bindparam("id"))
_insert = insert_into(invoices, *(each.name for each in invoices.c))
_numbered = sa.select(invoices.c.id).where(
    invoices.c.account_id == bigint_param("account_id"), invoices.c.invoice_number == sa.bindparam("invoice_number")
)


async def find_logo(reader: Reader, repository_id: int, file_id: str) -> LogoFile | None:
    """Find a file of the project that is not private."""
    row = await reader.fetch_one(_logo, {"repository_id": repository_id, "file_id": file_id})
    return LogoFile(row["content_type"], row["size"], row["blob"]) if row else None


async def lock_times(
    tx: Transaction, repository_id: int, timesheet_ids: Sequence[str], invoice_id: str = ""
) -> list[InvoicedTime]:
    """Lock these timesheets of the project, and those that the invoice has claimed."""
    return await _fetch_times(tx, _locked_times, repository_id, timesheet_ids, invoice_id)


async def find_times(
    reader: Reader, repository_id: int, timesheet_ids: Sequence[str], invoice_id: str = ""
) -> list[InvoicedTime]:
    """Find the timesheets that `lock_times` would lock, to show the time that an invoice has or would have."""
    return await _fetch_times(reader, _times, repository_id, timesheet_ids, invoice_id)


async def _fetch_times(
    reader: Reader, statement: sa.Select[Any], repository_id: int, timesheet_ids: Sequence[str], invoice_id: str
) -> list[InvoicedTime]:
    params = {"repository_id": repository_id, "timesheet_ids": timesheet_ids, "invoice_id": invoice_id}
    return [
        _read_time(row, title=row["title"], person=row["person"] or "", timezone=row["timezone"], rate_lost=False)
        for row in await reader.fetch_all(statement, params)
    ]


async def claim(tx: Transaction, repository_id: int, timesheet_ids: Sequence[str], invoice_id: str) -> None:
    if timesheet_ids:
        params = {"repository_id": repository_id, "timesheet_ids": timesheet_ids, "invoice_id": invoice_id}
        await tx.execute(_claim, params)


async def release(tx: Transaction, invoice_id: str, *, but: Sequence[str] = ()) -> None:
    """Release the timesheets that the invoice has claimed, except those in `but`. They can then be invoiced again."""
    await tx.execute(_release, {"claimed_by": invoice_id, "kept_ids": but})


async def update_and_number(tx: Transaction, invoice: Invoice, account_id: int) -> Invoice:
    """Update an issued invoice and assign the account's next number (see `next_number`), in one statement."""
    day = invoice.days.issued
    assert day is not None, "it is issued"
    for _ in range(NUMBERS_TRIED_MAX):
        numbered = msgspec.structs.replace(invoice, invoice_number=await count_one(tx, account_id, day.year))
        values = {**values_of(numbered), "invoice_id": invoice.id, "account_id": account_id}
        if await tx.execute(_update_numbered, values):
            return numbered
    raise numbers_taken()


async def delete_invoice(tx: Transaction, invoice_id: str) -> None:
    """Delete an invoice, releasing its timesheets first: the foreign key would lock them in any order."""
    await release(tx, invoice_id)
    tx.defer(_delete, [{"id": invoice_id}])


async def insert_invoice(tx: Transaction, repository: Repository, invoice: Invoice) -> None:
    owners = {"repository_id": repository.id, "account_id": repository.owner.id}
    await tx.execute(_insert, {**values_of(invoice), **owners, "user_id": invoice.user and invoice.user.id})


def invoice_of(row: Row) -> Invoice:
    """Read a row of `invoices_with_people`. The parties of a draft are those of the current settings."""
    user = person_of_row(row) if row["user_id"] is not None else None
    buyer, seller = row["buyer"], row["seller"]
    if row["status"] == "draft":
        now = buyer_of_row(row)
        buyer, seller = party_text(now) if now else None, party_text(seller_of_row(row))
    return _read(row, **NOT_COMPUTED, user=user, buyer_shown=buyer, seller_shown=seller)


async def next_number(tx: Transaction, account_id: int, year: int) -> str:
    """Return the account's next invoice number, skipping any that callers have chosen. `year` is the year of issue."""
    for _ in range(NUMBERS_TRIED_MAX):
        number = await count_one(tx, account_id, year)
        if not await is_taken(tx, account_id, number):
            return number
    raise numbers_taken()


def numbers_taken() -> Conflict:
    return Conflict(
        say(
            "The next {} invoice numbers are taken. Change the number format in the billing settings.",
            Number(NUMBERS_TRIED_MAX),
        ),
        code="numbers_taken",
    )


async def is_taken(tx: Transaction, account_id: int, number: str) -> bool:
    return await tx.fetch_one(_numbered, {"account_id": account_id, "invoice_number": number}) is not None


OPEN_MAX = 1000


class DueInvoice(msgspec.Struct, frozen=True):
    """An open invoice. `due` is in milliseconds since the epoch, or None.

    `day` is that day in the seller's time zone, and `overdue_at` its end.
    """

    id: str
    invoice_number: str
    status: str
    amount_due_minor: int
    currency: str
    due: int | None
    overdue_at: int | None
    day: date | None
    repository: Repository


_amount_due = (
    invoices.c.total_minor - sa.func.coalesce(invoices.c.credited_minor, 0) - sa.func.coalesce(invoices.c.paid_minor, 0)
)
_SHOWN = ("id", "invoice_number", "status", "currency", "due", "overdue_at")
_person = bigint_param("user_id")
_own_clients = clients.alias("mine")
_open = (
    with_access(
        sa.select(
            *(invoices.c[name].label(f"invoice_{name}") for name in (*_SHOWN, "seller")),
            _amount_due.label("amount_due_minor"),
        )
        .select_from(_own_clients.join(invoices, invoices.c.repository_id == _own_clients.c.repository_id))
        .where(_own_clients.c.user_id == _person, is_open),
        invoices.c.repository_id,
    )
    .where(sa.not_(is_insider(_person)))
    .order_by(invoices.c.due.is_(None), invoices.c.due, invoices.c.id)
    .limit(bigint_param("limit"))
)

_newest_open = (
    sa.select(invoices.c.currency, _amount_due.label("amount_due_minor"))
    .where(invoices.c.repository_id == bigint_param("repository_id"), is_open)
    .order_by(invoices.c.id.desc())
    .limit(bigint_param("limit"))
    .subquery("newest_open")
)
_sums = (
    sa.select(
        _newest_open.c.currency,
        sa.func.count().label("number"),
        sa.cast(sa.func.sum(_newest_open.c.amount_due_minor), sa.BigInteger).label("amount_due_minor"),
    )
    .group_by(_newest_open.c.currency)
    .order_by(_newest_open.c.currency)
)


async def open_sums(reader: Reader, access: Access) -> dict[str, int]:
    """Return the amounts still due in a project, in minor units by currency.

    Empty if there are more than `OPEN_MAX` open invoices. Everyone in the project can see issued invoices.
    """
    params = {"repository_id": access.repository.id, "limit": OPEN_MAX + 1}
    rows = await reader.fetch_all(_sums, params)
    if sum(row["number"] for row in rows) > OPEN_MAX:
        return {}
    return {row["currency"]: row["amount_due_minor"] for row in rows}


async def list_due(reader: Reader, user: Account, limit: int) -> list[DueInvoice]:
    """List a client's open invoices by due date, those without one last."""
    rows = await reader.fetch_all(_open, {"user_id": user.id, "limit": limit})
    return [
        DueInvoice(
            **{name: row[f"invoice_{name}"] for name in _SHOWN},
            amount_due_minor=row["amount_due_minor"],
            day=due_day(row["invoice_due"], seller_of(row["invoice_seller"]).zone),
            repository=repository_of(row, user.id, "project_"),
        )
        for row in rows
    ]


# --- lists, of one project or across projects; clients do not see drafts ----------------------------------------------


def _late(row: Any) -> Condition:
    """Return the condition that an invoice is late, with `IS_OPEN` worded exactly as in the partial index."""
    is_open: Condition = sa.literal_column(f"{row.name}.{IS_OPEN}", sa.Boolean)
    return sa.and_(is_open, is_late(row))


def _select_full_rows(page: sa.CTE, scope: Scope) -> sa.Select[Any]:
    return with_place(invoices_with_people.join(page, page.c.id == invoices.c.id), page, scope)


def _make(row: Row, place: ProjectRef, _: Source) -> Invoice:
    invoice = invoice_of(row)
    if place.repository is not None:
        return invoice
    return PlacedInvoice(**msgspec.structs.asdict(invoice), project=RecordPlace(place.id, place.title))


INVOICES = Listing(
    invoices,
    _select_full_rows,
    _make,
    weight,
    {
        "status": Filter(lambda row: row.c.status == sa.bindparam("status"), indexed=True),
        "user": BY_USER,
        "late": Filter(_late, indexed=True),
        "not_late": Filter(lambda row: sa.not_(_late(row)), ["status", "overdue_at"], common=True),
    },
    Words(matches(invoices)),
    is_visible=lambda row, insider: sa.or_(insider, row.c.status != "draft"),
    reads=["status"],
)


def filters_of(query: InvoiceList, source: Source, now: int) -> dict[str, object]:
    found = {**INVOICES.to_filters(query, source), "now": now}
    if not isinstance(query.overdue, UnsetType):
        found["late" if query.overdue else "not_late"] = query.overdue
    if (words := getattr(query, "q", UNSET)) is not UNSET:
        found["q"] = words_of(words)
    return found
