"""What the parameters of an invoice make of it, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.errors import Fault, Invalid, Message, compose, part, say, shown
from workhook.core.money import (
    AMOUNT_MAX_MINOR,
    amount_fault,
    amount_of,
    decimals,
    digits_of,
    minor_of,
    minor_or_none,
    rescaled,
)
from workhook.identity.schemas import Repository
from workhook.storage import Transaction
from workhook.work.kernel.schemas import if_set
from workhook.work.money.invoices import counters, drafting, rules, time_lines
from workhook.work.money.invoices.drafting import TEXTS
from workhook.work.money.invoices.inputs import InvoiceCreate, InvoiceItemInput
from workhook.work.money.invoices.rules import Item, discount_fault, rate_fault, rows_text
from workhook.work.money.invoices.schemas import Invoice, language_of
from workhook.work.money.invoices.time_lines import GroupBy, InvoicedTime
from workhook.work.time.rates.terms import Rounding, find_rounding

V = TypeVar("V")

_AS_GIVEN = (*TEXTS, "due", "invoice_number", "currency", "language")


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
    currency = if_set(wanted.currency, invoice.currency)
    faults = _in_currency(invoice, wanted, currency, values)
    values |= _rate_and_discount(wanted, currency, faults)
    values |= _service_days(invoice, wanted, faults)
    if not isinstance(wanted.credit_type, UnsetType):
        values["credit_type"] = None if wanted.credit_type is None else str(wanted.credit_type).lower()
    faults += await _number_faults(tx, repository, invoice, values.get("invoice_number"))
    items = list(rules.items_of(str(values.get("items", invoice.items))))
    if not isinstance(wanted.invoice_items, UnsetType):
        faults += money_faults(wanted.invoice_items, currency)
        given = [] if faults else items_of_inputs(wanted.invoice_items, currency)
        for index, each in enumerate(given):
            faults += rules.item_faults(each, f"invoice_items[{index}].")
        items = [*given, *(each for each in items if each.kind == "time")]
    claims = await _plan_time(tx, repository, invoice, wanted, items)
    faults += claims.faults
    values["items"] = rules.items_text(claims.items)
    values["group_by"] = claims.group_by
    if not faults:
        faults += _amounts(invoice, values, claims.items)
    faults += _length_faults(invoice, values, claims.items)
    if faults:
        raise Invalid(faults=faults)
    return InvoiceChange(values, claims.ids, claims.before)


class _Claims(msgspec.Struct, frozen=True):
    """The lines of a draft with those of its time. `ids` and `before`: of the timesheets that it claims now, and that
    it claimed; none if nothing was said of them."""

    items: Sequence[Item]
    group_by: GroupBy | None
    ids: list[str] = []
    before: list[str] = []
    faults: list[Fault] = []


async def _plan_time(
    tx: Transaction,
    repository: Repository,
    invoice: Invoice,
    wanted: InvoiceCreate,
    items: Sequence[Item],
) -> _Claims:
    """Locks the timesheets that are asked for, and those that the invoice has."""
    currency, language = if_set(wanted.currency, invoice.currency), if_set(wanted.language, language_of(invoice))
    group_by = invoice.group_by if isinstance(wanted.group_by, UnsetType) else wanted.group_by
    is_regrouped = group_by != invoice.group_by
    is_reworded = language != language_of(invoice)
    if isinstance(wanted.timesheet_ids, UnsetType) and not is_regrouped and not is_reworded:
        return _Claims(items, group_by)
    given = [] if isinstance(wanted.timesheet_ids, UnsetType) else wanted.timesheet_ids
    locked = await drafting.lock_times(tx, repository.id, given, invoice.id)
    times = {each.id: time_lines.in_currency(each, repository.currency, currency) for each in locked}
    before = sorted(each.id for each in times.values() if each.invoice_id == invoice.id)
    asked = before if isinstance(wanted.timesheet_ids, UnsetType) else list(dict.fromkeys(given))
    known = set(before)
    added = [times[each] for each in asked if each in times and each not in known]
    faults = [*_time_faults(asked, times, invoice.id), *_rate_faults(asked, added, currency)]
    rounding = await find_rounding(tx, repository.id) if asked else Rounding()
    if group_by is None and not is_regrouped:
        items = time_lines.with_entries(items, known - set(asked), added, rounding, language)
    elif is_regrouped or known != set(asked):
        in_order = sorted((times[each] for each in asked if each in times), key=_order)
        items = time_lines.with_times(items, in_order, group_by, rounding, language)
    if is_reworded:
        items = time_lines.in_language(items, times.values(), group_by, language)
    return _Claims(items, group_by, sorted(asked), before, faults)


def _order(time: InvoicedTime) -> tuple[int, str]:
    return time.start_time, time.id


def money_faults(given: Sequence[InvoiceItemInput], currency: str) -> list[Fault]:
    """Return what is wrong with the amounts of lines in the currency."""
    return [
        fault
        for index, each in enumerate(given)
        for name in ("unit_price", "discount_amount")
        if isinstance(amount := getattr(each, name), Decimal)
        and (fault := amount_fault(amount, currency, f"invoice_items[{index}].{name}"))
    ]


def items_of_inputs(given: Sequence[InvoiceItemInput], currency: str) -> list[Item]:
    """Of lines that are written by hand. Raises `Invalid`."""
    if faults := money_faults(given, currency):
        raise Invalid(faults=faults)
    return [_item_of_input(each, currency, f"invoice_items[{index}].") for index, each in enumerate(given)]


def _item_of_input(given: InvoiceItemInput, currency: str, path: str) -> Item:
    discount = if_set(given.discount_amount)
    return Item(
        given.description,
        given.qty,
        minor_of(given.unit_price, currency, f"{path}unit_price"),
        discount_millionths=if_set(given.discount),
        discount_minor=None if discount is None else minor_of(discount, currency, f"{path}discount_amount"),
        tax_millionths=if_set(given.tax),
        tax_category=None if isinstance(given.tax_category, UnsetType) else given.tax_category,
    )


def input_of_item(item: Item, currency: str) -> InvoiceItemInput:
    """What `items_of_inputs` makes the same line of."""

    def given(value: V | None) -> V | UnsetType:
        return UNSET if value is None else value

    return InvoiceItemInput(
        item.description,
        item.qty,
        amount_of(item.unit_price_minor, currency),
        discount=given(item.discount_millionths),
        discount_amount=UNSET if item.discount_minor is None else amount_of(item.discount_minor, currency),
        tax=given(item.tax_millionths),
        tax_category=given(item.tax_category),
    )


def _in_currency(invoice: Invoice, wanted: InvoiceCreate, currency: str, values: dict[str, object]) -> list[Fault]:
    """Adds to `values` what the draft has already, as amounts of the currency that it gets. What the request replaces
    is left out."""
    before = invoice.currency
    if invoice.status != "draft" or digits_of(currency) == digits_of(before):
        return []
    items, first = rules.items_of(invoice.items), 0
    if not isinstance(wanted.invoice_items, UnsetType):
        items, first = tuple(each for each in items if each.kind == "time"), len(wanted.invoice_items)
    lines_too = compose("send {} with it", "invoice_items")
    amounts = [
        (f"invoice_items[{index}].{name}", minor, _TIME_FIRST if each.kind == "time" else lines_too)
        for index, each in enumerate(items, first)
        for name, minor in (("unit_price", each.unit_price_minor), ("discount_amount", each.discount_minor))
    ]
    off = invoice.discount_minor if isinstance(wanted.discount_amount, UnsetType) else None
    for field, minor, remedy in (*amounts, ("discount_amount", off, compose("send {} with it", "discount_amount"))):
        fault = None if minor is None else amount_fault(amount_of(minor, before), currency, field)
        if fault is not None:
            return [_loses(currency, remedy) if fault.code == "too_many_decimals" else fault]
    if off is not None:
        values["discount_minor"] = rescaled(off, before, currency)
    changed = (rules.in_currency(each, before, currency) for each in items)
    values["items"] = rules.items_text(each for each in changed if each is not None)
    return []


_TIME_FIRST = part("take the time with that rate off first, with timesheet_ids")
"""Lines of time are not written by hand."""


def _loses(currency: str, remedy: Message) -> Fault:
    sentence = "currency: an amount in {} has {}, and the invoice has one with more; {}"
    message = compose(sentence, currency, decimals(currency), remedy)
    return Fault(field="currency", code="too_many_decimals", message=message)


def _rate_and_discount(wanted: InvoiceCreate, currency: str, faults: list[Fault]) -> dict[str, object]:
    """What the caller says of them; adds to `faults`. A percentage takes the place of an amount, and the other way
    round."""
    values: dict[str, object] = {}
    if not isinstance(wanted.tax, UnsetType):
        values["tax_millionths"] = wanted.tax
    if not isinstance(wanted.tax_category, UnsetType):
        values["tax_category"] = wanted.tax_category
    if not (isinstance(wanted.discount, UnsetType) and isinstance(wanted.discount_amount, UnsetType)):
        values["discount_millionths"] = if_set(wanted.discount)
        amount = if_set(wanted.discount_amount)
        if amount is not None and (fault := amount_fault(amount, currency, "discount_amount")):
            faults.append(fault)
        values["discount_minor"] = None if amount is None else minor_or_none(amount, currency)
    return values


def _service_days(invoice: Invoice, wanted: InvoiceCreate, faults: list[Fault]) -> dict[str, object]:
    """Both days of the service, or none; adds to `faults`. One alone is the day of the whole service."""
    if isinstance(wanted.service_from, UnsetType) and isinstance(wanted.service_to, UnsetType):
        return {}
    first = invoice.service_from if isinstance(wanted.service_from, UnsetType) else wanted.service_from
    last = invoice.service_to if isinstance(wanted.service_to, UnsetType) else wanted.service_to
    if wanted.service_from is None and isinstance(wanted.service_to, UnsetType):
        last = None
    first, last = first or last, last or first
    if first and last and last < first:
        message = "service_to: the last day of the service is before its first day, service_from"
        faults.append(Fault(field="service_to", message=message))
    return {"service_from": first, "service_to": last}


def _amounts(invoice: Invoice, values: dict[str, object], items: Sequence[Item]) -> list[Fault]:
    """Adds the amounts to `values`."""
    after = msgspec.structs.replace(invoice, **values)
    every = [*items, *rules.items_of(invoice.recurring_items)]
    nets = sum(each.amount_minor for each in every)
    if nets > AMOUNT_MAX_MINOR:
        return [Fault(field="invoice_items", message="invoice_items: the sum is more than an invoice can have")]
    if wrong := rate_fault(after.tax_millionths, after.tax_category):
        return [Fault(field="tax_category", message=compose("{}: {}", "tax_category", wrong))]
    if wrong := discount_fault(after.discount_millionths, after.discount_minor, {"the sum of the lines": nets}):
        return [Fault(field="discount_amount", message=compose("{}: {}", "discount_amount", wrong))]
    sums = rules.sums_of_items(every, after.rate, after.whole_discount)
    values["amount_minor"], values["total_minor"] = sums.amount, sums.total
    values["taxes"] = rows_text(sums.taxes)
    return []


def _length_faults(invoice: Invoice, values: Mapping[str, object], items: Sequence[Item]) -> list[Fault]:
    after = msgspec.structs.replace(invoice, **values)
    every = [*items, *rules.items_of(invoice.recurring_items)]
    chars = rules.printed_chars([getattr(after, name) for name in TEXTS], every)
    if chars <= rules.PRINTED_MAX_CHARS:
        return []
    changed = (name for name in TEXTS if getattr(after, name) != getattr(invoice, name))
    field = next(changed, "invoice_items")
    message = say(
        "{}: the texts of the invoice would be {} characters together; at most {} can be printed. Shorten "
        "them, or make several invoices",
        field,
        chars,
        rules.PRINTED_MAX_CHARS,
    )
    return [Fault(field=field, code="too_long", message=message)]


async def _number_faults(tx: Transaction, repository: Repository, invoice: Invoice, number: object) -> list[Fault]:
    if not isinstance(number, str) or number == invoice.invoice_number:
        return []
    await counters.hold_numbers(tx, repository.owner.id)
    if not await drafting.is_taken(tx, repository.owner.id, number):
        return []
    message = say("invoice_number: {} is the number of another invoice", number)
    return [Fault(field="invoice_number", code="already_exists", message=message)]


def _time_faults(asked: Sequence[str], times: Mapping[str, InvoicedTime], invoice_id: str) -> list[Fault]:
    faults = []
    for index, each in enumerate(asked):
        time = times.get(each)
        if wrong := time_lines.complaint(time, invoice_id):
            other = f" ({time.invoice_id})" if time and time.invoice_id not in (None, invoice_id) else ""
            field = f"timesheet_ids[{index}]"
            faults.append(Fault(field=field, message=f"{field} ({shown(each)}): {wrong}{other}"))
    return faults


def _rate_faults(asked: Sequence[str], added: Sequence[InvoicedTime], currency: str) -> list[Fault]:
    """Time of which nobody said what it costs would be given away unseen."""
    faults = []
    for each in added:
        if not each.billable or (each.rate_minor is not None and not each.rate_lost):
            continue
        wrong = part("nobody said what an hour of it costs: give it a billable_rate, which can be 0")
        if each.rate_lost:
            sentence = "an amount in {} has {}, and its rate has more; give it another billable_rate"
            wrong = compose(sentence, currency, decimals(currency))
        field = f"timesheet_ids[{asked.index(each.id)}]"
        code = "too_many_decimals" if each.rate_lost else "no_rate"
        faults.append(Fault(field=field, code=code, message=compose("{} ({}): {}", field, each.id, wrong)))
    return faults
