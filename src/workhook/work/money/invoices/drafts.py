"""Draft invoices: the defaults of a new one, changes planned before anything is written, and the sums of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core.errors import Fault, Invalid, compose, phrase, say, shown
from workhook.core.money import (
    AMOUNT_MAX_MINOR,
    DEFAULT_CURRENCY,
    amount_fault,
    amount_of,
    convert_minor,
    decimals,
    digits_of,
    to_minor,
    to_minor_or_none,
)
from workhook.identity.schemas import Repository
from workhook.identity.tables import accounts
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import bigint_param
from workhook.work.kernel.access import Access
from workhook.work.kernel.schemas import if_set
from workhook.work.kernel.tables import clients
from workhook.work.money.invoices import queries, rules, time_lines
from workhook.work.money.invoices.queries import TEXTS
from workhook.work.money.invoices.rules import Item, discount_fault, rate_fault, rows_text
from workhook.work.money.invoices.schemas import (
    TIMESHEETS_MAX,
    Invoice,
    InvoiceCreate,
    InvoiceItemInput,
    invoices,
)
from workhook.work.money.invoices.settings import InvoiceSettings, find_settings
from workhook.work.money.invoices.time_lines import InvoicedTime
from workhook.work.money.services.schemas import service_prices, services
from workhook.work.time.rates import Rounding, find_rounding

NEWEST_SEARCHED_MAX = 50
"""The number of a project's newest invoices, and of an account's newest services, searched for a default."""


class Presets(NamedTuple):
    """The defaults of a new invoice: texts by invoice field, and the current settings of the project."""

    currency: str
    texts: dict[str, str]
    settings: InvoiceSettings


_account = bigint_param("account_id")
_of_project = invoices.c.repository_id == bigint_param("repository_id")
_last_in_project = sa.select(invoices.c.currency).where(_of_project).order_by(invoices.c.id.desc()).limit(1)
_last_of_account = (
    sa.select(invoices.c.currency)
    .where(invoices.c.account_id == _account, invoices.c.invoice_number.is_not(None))
    .order_by(invoices.c.invoice_number.desc())  # in the order of the index of numbers, so nothing needs sorting
    .limit(1)
)
_newest_services = (
    sa.select(services.c.id)
    .where(services.c.account_id == _account)
    .order_by(services.c.id.desc())
    .limit(NEWEST_SEARCHED_MAX)
    .subquery("newest_services")
)
_last_price = (
    sa.select(service_prices.c.currency)
    .join(_newest_services, _newest_services.c.id == service_prices.c.service_id)
    .order_by(service_prices.c.id.desc())
    .limit(1)
)


def _first(*choices: sa.Select[Any]) -> sa.Select[Any]:
    return sa.select(sa.func.coalesce(*(each.scalar_subquery() for each in choices)).label("last"))


_for_invoice = _first(_last_in_project, _last_of_account, _last_price)
_for_price = _first(_last_price, _last_of_account)
_newest = (
    sa.select(invoices.c.id, *(invoices.c[name] for name in TEXTS))
    .where(_of_project)
    .order_by(invoices.c.id.desc())
    .limit(NEWEST_SEARCHED_MAX)
    .subquery("newest")
)
_last_addressed = (  # invoices of subscriptions do not name a buyer
    sa.select(_newest).where(_newest.c.bill_to.is_not(None)).order_by(_newest.c.id.desc()).limit(1)
)
_first_clients = (
    sa.select(accounts.c.name, clients.c.email)
    .join_from(clients, accounts, accounts.c.id == clients.c.user_id)
    .where(clients.c.repository_id == bigint_param("repository_id"))
    .order_by(clients.c.id)
    .limit(2)
)


async def find_presets(reader: Reader, access: Access) -> Presets:
    """Return the defaults for a new invoice. Raises `Forbidden` for clients, who must not see other clients."""
    access.require_member("make invoices")
    params = {"repository_id": access.repository.id}
    settings, code, last, found = await asyncio.gather(
        find_settings(reader, access.repository.id),
        find_last_currency(reader, access.repository),
        reader.fetch_one(_last_addressed, params),
        reader.fetch_all(_first_clients, params),
    )
    texts: dict[str, str] = {}
    if last is not None:
        texts = {name: last[name] for name in TEXTS if last[name]}
    elif len(found) == 1:
        shown = (found[0]["name"], None if access.reads_only else found[0]["email"])
        texts = {"bill_to": "\n".join(each for each in shown if each)}
    # The parties in the settings replace these texts.
    replaced = ("bill_to", "address") if settings.buyer and settings.buyer.name else ()
    for name in (*replaced, "bill_from") if settings.seller.address else replaced:
        texts.pop(name, None)
    if settings.payment_terms:
        texts["payment_terms"] = settings.payment_terms
    return Presets(settings.currency or code, texts, settings)


async def find_currency(reader: Reader, access: Access) -> str:
    settings = await find_settings(reader, access.repository.id)
    return settings.currency or await find_last_currency(reader, access.repository)


async def find_last_currency(reader: Reader, repository: Repository) -> str:
    """Return the currency to use if the settings contain none.

    The first that exists: that of the project's last invoice, the account's last invoice or its newest price, or
    `DEFAULT_CURRENCY`.
    """
    row = await reader.fetch_row(_for_invoice, {"repository_id": repository.id, "account_id": repository.owner.id})
    return row["last"] or DEFAULT_CURRENCY


async def find_price_currency(reader: Reader, account_id: int) -> str | None:
    """Return the currency of the account's newest price, or else of its last invoice, or None without either."""
    currency: str | None = (await reader.fetch_row(_for_price, {"account_id": account_id}))["last"]
    return currency


_AS_GIVEN = ("due", "invoice_number", "currency", "language", "tax_category")
_COLUMNS = {**{name: name for name in (*TEXTS, *_AS_GIVEN)}, "tax": "tax_millionths"}
"""The columns of parameters that are stored as given, by parameter name."""


class InvoiceChange(msgspec.Struct, frozen=True):
    """A planned change: the given columns, those derived from them, and the timesheets that the invoice will claim."""

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


class OfferedTime(msgspec.Struct):
    """Timesheets (`ids`) to add to a draft in this order. Those that are taken or do not fit are left out.

    `plan_change` fills in the rest: `times` are the free ones, up to the maximum of an invoice, and `taken` is how many
    of these the draft gets.
    """

    ids: Sequence[str] = ()
    times: Sequence[InvoicedTime] = ()
    taken: int = 0
    is_full: bool = False  # some are free, but the draft already has the maximum


class _Time(msgspec.Struct, frozen=True):
    """The timesheets of a draft by ID, and the requested IDs. `before` are those that it has already claimed."""

    times: Mapping[str, InvoicedTime]
    before: list[str]
    asked: list[str]
    rounding: Rounding


async def plan_change(
    tx: Transaction, repository: Repository, invoice: Invoice, wanted: InvoiceCreate, offer: OfferedTime | None = None
) -> InvoiceChange:
    """Plan a change without writing. Locks the account's numbers and the timesheets once each. Raises `Invalid`."""
    taken = await _number_faults(tx, repository, invoice, wanted.invoice_number)
    time = await _lock_time(tx, repository, invoice, wanted, offer)
    if offer is None or not offer.times:
        return _plan(invoice, wanted, taken, time)

    def planned(count: int) -> InvoiceChange:
        assert time is not None, "time is offered"
        asked = [*time.asked, *(each.id for each in offer.times[:count])]
        return _plan(invoice, wanted, taken, msgspec.structs.replace(time, asked=asked))

    change, offer.taken = _as_many_as_fit(planned, len(offer.times))
    return change


def _as_many_as_fit(planned: Callable[[int], InvoiceChange], count: int) -> tuple[InvoiceChange, int]:
    """Plan with as many of `count` timesheets as can be printed, but at least one. Raises `Invalid`."""
    try:
        return planned(count), count
    except Invalid as problem:
        if any(each.code != "too_long" for each in problem.faults):
            raise
        fits, over, found = 0, count, None
        while over - fits > 1:
            tried = (fits + over) // 2
            try:
                fits, found = tried, planned(tried)
            except Invalid:
                over = tried
        if found is None:
            raise
        return found, fits


async def _lock_time(
    tx: Transaction, repository: Repository, invoice: Invoice, wanted: InvoiceCreate, offer: OfferedTime | None
) -> _Time | None:
    """Lock the requested and offered timesheets and those of the invoice. Returns None if none of them change."""
    is_unsaid, offered = isinstance(wanted.timesheet_ids, UnsetType), offer.ids if offer else ()
    is_reworded = if_set(wanted.language, invoice.language) != invoice.language
    is_regrouped = if_set(wanted.group_by, invoice.group_by) != invoice.group_by
    if is_unsaid and not offered and not is_regrouped and not is_reworded:
        return None
    requested = [] if isinstance(wanted.timesheet_ids, UnsetType) else list(dict.fromkeys(wanted.timesheet_ids))
    locked = await queries.lock_times(tx, repository.id, [*requested, *offered], invoice.id)
    currency = if_set(wanted.currency, invoice.currency)
    times = {each.id: time_lines.in_currency(each, repository.currency, currency) for each in locked}
    before = sorted(each.id for each in times.values() if each.invoice_id == invoice.id)
    asked = before if is_unsaid else requested
    if offer:
        free = [times[each] for each in offered if time_lines.complaint(times.get(each), None) is None]
        offer.times = free[: max(TIMESHEETS_MAX - len(asked), 0)]
        offer.taken, offer.is_full = 0, bool(free) and not offer.times
    rounding = await find_rounding(tx, repository.id) if asked or (offer and offer.times) else Rounding()
    return _Time(times, before, asked, rounding)


def _plan(invoice: Invoice, wanted: InvoiceCreate, number_faults: Sequence[Fault], time: _Time | None) -> InvoiceChange:
    """Plan the change from the parameters and the locked time. Raises `Invalid`."""
    values: dict[str, object] = {
        column: given for name, column in _COLUMNS.items() if not isinstance(given := getattr(wanted, name), UnsetType)
    }
    currency = if_set(wanted.currency, invoice.currency)
    faults = _in_currency(invoice, wanted, currency, values)
    values |= _discount(wanted, currency, faults)
    values |= _service_days(invoice, wanted, faults)
    if not isinstance(wanted.credit_type, UnsetType):
        values["credit_type"] = None if wanted.credit_type is None else str(wanted.credit_type).lower()
    faults += number_faults
    items: Sequence[Item] = rules.items_of(str(values.get("items", invoice.items)))
    if not isinstance(wanted.invoice_items, UnsetType):
        faults += money_faults(wanted.invoice_items, currency)
        given = [] if faults else items_of_inputs(wanted.invoice_items, currency)
        for index, each in enumerate(given):
            faults += rules.item_faults(each, f"invoice_items[{index}].")
        items = [*given, *(each for each in items if each.kind == "time")]
    values["group_by"] = if_set(wanted.group_by, invoice.group_by)
    if time is not None:
        items = _with_time(invoice, wanted, items, time, faults)
    values["items"] = rules.items_text(items)
    after = msgspec.structs.replace(invoice, **values)
    every = [*items, *rules.items_of(invoice.recurring_items)]
    if not faults:
        faults += _amounts(after, values, every)
    faults += _length_faults(invoice, after, every)
    if faults:
        raise Invalid(faults=faults)
    return InvoiceChange(values, sorted(time.asked) if time else [], time.before if time else [])


def _with_time(
    invoice: Invoice, wanted: InvoiceCreate, items: Sequence[Item], time: _Time, faults: list[Fault]
) -> Sequence[Item]:
    """Return the lines of a draft, including those of its time. Append to `faults`."""
    currency, language = if_set(wanted.currency, invoice.currency), if_set(wanted.language, invoice.language)
    group_by = if_set(wanted.group_by, invoice.group_by)
    times, known, rounding = time.times, set(time.before), time.rounding
    added = [times[each] for each in time.asked if each in times and each not in known]
    faults += [*_time_faults(time.asked, times, invoice.id), *_rate_faults(time.asked, added, currency)]
    if group_by is None and group_by == invoice.group_by:
        released = known - set(time.asked)
        kept = (each for each in items if not released.intersection(each.timesheet_ids))  # as they were rounded
        items = [*kept, *time_lines.lines_of(added, None, rounding, language)]
    elif group_by != invoice.group_by or known != set(time.asked):
        asked = (times[each] for each in time.asked if each in times)
        in_order = sorted(asked, key=lambda each: (each.start_time, each.id))
        by_hand = (each for each in items if each.kind == "item")
        items = [*by_hand, *time_lines.lines_of(in_order, group_by, rounding, language)]
    if language != invoice.language:
        items = time_lines.in_language(items, times.values(), group_by, language)
    return items


def money_faults(inputs: Sequence[InvoiceItemInput], currency: str) -> list[Fault]:
    return [
        fault
        for index, each in enumerate(inputs)
        for name in ("unit_price", "discount_amount")
        if isinstance(amount := getattr(each, name), Decimal)
        and (fault := amount_fault(amount, currency, f"invoice_items[{index}].{name}"))
    ]


def items_of_inputs(inputs: Sequence[InvoiceItemInput], currency: str) -> list[Item]:
    """Return the manually entered lines. Raises `Invalid`."""
    if faults := money_faults(inputs, currency):
        raise Invalid(faults=faults)
    return [
        Item(
            each.description,
            each.qty,
            to_minor(each.unit_price, currency, "unit_price"),
            discount_millionths=if_set(each.discount),
            discount_minor=None
            if (off := if_set(each.discount_amount)) is None
            else to_minor(off, currency, "discount_amount"),
            tax_millionths=if_set(each.tax),
            tax_category=None if isinstance(each.tax_category, UnsetType) else each.tax_category,
        )
        for each in inputs
    ]


def input_of_item(item: Item, currency: str) -> InvoiceItemInput:
    """Return the input from which `items_of_inputs` would create the same line."""
    return InvoiceItemInput(
        item.description,
        item.qty,
        amount_of(item.unit_price_minor, currency),
        discount=item.discount_millionths,
        discount_amount=None if item.discount_minor is None else amount_of(item.discount_minor, currency),
        tax=item.tax_millionths,
        tax_category=item.tax_category,
    )


def _in_currency(invoice: Invoice, wanted: InvoiceCreate, currency: str, values: dict[str, object]) -> list[Fault]:
    """Convert the draft's amounts to its new currency in `values`, except those that the request replaces."""
    before = invoice.currency
    if invoice.status != "draft" or digits_of(currency) == digits_of(before):
        return []
    items, first = rules.items_of(invoice.items), 0
    if not isinstance(wanted.invoice_items, UnsetType):
        items, first = tuple(each for each in items if each.kind == "time"), len(wanted.invoice_items)
    lines_too = compose("also send {}", "invoice_items")
    amounts = [
        (f"invoice_items[{index}].{name}", minor, _TIME_FIRST if each.kind == "time" else lines_too)
        for index, each in enumerate(items, first)
        for name, minor in (("unit_price", each.unit_price_minor), ("discount_amount", each.discount_minor))
    ]
    off = invoice.discount_minor if isinstance(wanted.discount_amount, UnsetType) else None
    for field, minor, remedy in (*amounts, ("discount_amount", off, compose("also send {}", "discount_amount"))):
        fault = None if minor is None else amount_fault(amount_of(minor, before), currency, field)
        if fault is not None and fault.code == "too_many_decimals":
            sentence = "currency: an amount in {} has {}, but the invoice has an amount with more; {}"
            message = compose(sentence, currency, decimals(currency), remedy)
            fault = Fault(field="currency", code="too_many_decimals", message=message)
        if fault is not None:
            return [fault]
    if off is not None:
        values["discount_minor"] = convert_minor(off, before, currency)
    changed = (rules.in_currency(each, before, currency) for each in items)
    values["items"] = rules.items_text(each for each in changed if each is not None)
    return []


_TIME_FIRST = phrase("first remove the time with that rate, with timesheet_ids")
"""The remedy for lines of time, which cannot be edited directly."""


def _discount(wanted: InvoiceCreate, currency: str, faults: list[Fault]) -> dict[str, object]:
    """Return the given discount, and append to `faults`. A percentage replaces an amount and vice versa."""
    if isinstance(wanted.discount, UnsetType) and isinstance(wanted.discount_amount, UnsetType):
        return {}
    amount = if_set(wanted.discount_amount)
    if amount is not None and (fault := amount_fault(amount, currency, "discount_amount")):
        faults.append(fault)
    minor = None if amount is None else to_minor_or_none(amount, currency)
    return {"discount_millionths": if_set(wanted.discount), "discount_minor": minor}


def _service_days(invoice: Invoice, wanted: InvoiceCreate, faults: list[Fault]) -> dict[str, object]:
    """Return the first and last day of the service, or neither, and append to `faults`. A single day counts as both."""
    if isinstance(wanted.service_from, UnsetType) and isinstance(wanted.service_to, UnsetType):
        return {}
    first = if_set(wanted.service_from, invoice.service_from)
    last = if_set(wanted.service_to, invoice.service_to)
    if wanted.service_from is None and isinstance(wanted.service_to, UnsetType):
        last = None
    first, last = first or last, last or first
    if first and last and last < first:
        message = "service_to: the last day of the service is before its first day, service_from"
        faults.append(Fault(field="service_to", message=message))
    return {"service_from": first, "service_to": last}


def _amounts(after: Invoice, values: dict[str, object], every: Sequence[Item]) -> list[Fault]:
    """Add the computed amounts to `values`, or return the faults."""
    nets = sum(each.amount_minor for each in every)
    if nets > AMOUNT_MAX_MINOR:
        return [Fault(field="invoice_items", message="invoice_items: the sum exceeds the maximum for an invoice")]
    if wrong := rate_fault(after.tax_millionths, after.tax_category):
        return [Fault(field="tax_category", message=compose("{}: {}", "tax_category", wrong))]
    if wrong := discount_fault(after.discount_millionths, after.discount_minor, {"the sum of the lines": nets}):
        return [Fault(field="discount_amount", message=compose("{}: {}", "discount_amount", wrong))]
    sums = rules.sums_of_items(every, after.rate, after.whole_discount)
    values["amount_minor"], values["total_minor"] = sums.amount, sums.total
    values["taxes"] = rows_text(sums.taxes)
    return []


def _length_faults(invoice: Invoice, after: Invoice, every: Sequence[Item]) -> list[Fault]:
    texts = [*(getattr(after, name) for name in TEXTS), *(each.description for each in every)]
    chars = sum(len(each) for each in texts if each)
    if chars <= rules.PRINTED_MAX_CHARS:
        return []
    field = next((name for name in TEXTS if getattr(after, name) != getattr(invoice, name)), "invoice_items")
    message = say(
        "{}: the invoice's texts would have {} characters in total; at most {} can be printed. Shorten them, "
        "or split the invoice",
        field,
        chars,
        rules.PRINTED_MAX_CHARS,
    )
    return [Fault(field=field, code="too_long", message=message)]


async def _number_faults(tx: Transaction, repository: Repository, invoice: Invoice, number: object) -> list[Fault]:
    if not isinstance(number, str) or number == invoice.invoice_number:
        return []
    await queries.lock_numbers(tx, repository.owner.id)
    if not await queries.is_taken(tx, repository.owner.id, number):
        return []
    message = say("invoice_number: {} is already used by another invoice", number)
    return [Fault(field="invoice_number", code="already_exists", message=message)]


def _time_faults(asked: Sequence[str], times: Mapping[str, InvoicedTime], invoice_id: str) -> list[Fault]:
    faults = []
    for index, each in enumerate(asked):
        time = times.get(each)
        if wrong := time_lines.complaint(time, invoice_id):
            field = f"timesheet_ids[{index}]"
            message = compose("{} ({}): {}", field, shown(each), phrase(wrong))
            if time and time.invoice_id not in (None, invoice_id):
                message = compose("{} ({})", message, time.invoice_id)
            faults.append(Fault(field=field, message=message))
    return faults


def _rate_faults(asked: Sequence[str], added: Sequence[InvoicedTime], currency: str) -> list[Fault]:
    """Return a fault for each added timesheet without a rate, which would otherwise be billed at zero unnoticed."""
    faults = []
    for each in added:
        if not each.billable or (each.rate_minor is not None and not each.rate_lost):
            continue
        wrong = phrase("it has no hourly rate: set billable_rate, which can be 0")
        if each.rate_lost:
            sentence = "an amount in {} has {}, but its rate has more; set another billable_rate"
            wrong = compose(sentence, currency, decimals(currency))
        field = f"timesheet_ids[{asked.index(each.id)}]"
        code = "too_many_decimals" if each.rate_lost else "no_rate"
        faults.append(Fault(field=field, code=code, message=compose("{} ({}): {}", field, each.id, wrong)))
    return faults


class InvoiceTimeSums(msgspec.Struct, frozen=True):
    """The sums of the time on an invoice.

    `worked_ms` is the time spent. `duration_ms` and `amount_minor` are the sums of the lines, before tax and the
    invoice's discount. `rounding` applies to each entry; None if the lines were rounded by previous settings.
    """

    worked_ms: int
    duration_ms: int
    amount_minor: int
    currency: str
    rounding: Rounding | None


async def preview_time(
    reader: Reader, access: Access, timesheet_ids: Sequence[str], rounding: Rounding
) -> InvoiceTimeSums:
    """Return the sums of a new invoice with a line for each of these finished timesheets of the project."""
    currency, found = await asyncio.gather(
        find_currency(reader, access), queries.find_times(reader, access.repository.id, timesheet_ids)
    )
    times = [time_lines.in_currency(each, access.repository.currency, currency) for each in found]
    return _of(times, time_lines.lines_of(times, None, rounding), currency, rounding)


async def find_rounded(reader: Reader, repository_id: int, invoice: Invoice) -> InvoiceTimeSums | None:
    """Return the sums of a draft's time, or None if it has no time or none of it is rounded."""
    lines = [each for each in rules.items_of(invoice.items) if each.kind == "time"]
    if not lines:
        return None
    rounding, times = await asyncio.gather(
        find_rounding(reader, repository_id), queries.find_times(reader, repository_id, [], invoice.id)
    )
    found = _of(times, lines, invoice.currency, rounding)
    again = time_lines.lines_of(times, invoice.group_by, rounding)
    if sorted(each.duration_ms or 0 for each in lines) == sorted(each.duration_ms or 0 for each in again):
        return found if rounding.minutes else None
    # Lines that were created before the settings changed are kept.
    return None if found.duration_ms == found.worked_ms else msgspec.structs.replace(found, rounding=None)


def _of(
    times: Sequence[InvoicedTime], lines: Sequence[Item], currency: str, rounding: Rounding | None
) -> InvoiceTimeSums:
    return InvoiceTimeSums(
        sum(each.duration_ms for each in times),
        sum(each.duration_ms or 0 for each in lines),
        sum(each.amount_minor for each in lines),
        currency,
        rounding,
    )
