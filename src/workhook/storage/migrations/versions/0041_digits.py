"""Amounts have the decimals of their currency, and a project has the currency of its money.

Before, all amounts were hundredths. Those in currencies with no or three decimals (ISO 4217) become minor units of
these. A hundredth of a yen cannot be paid: what has some is rounded half up, and the sums of an invoice are made of
what its parts are then, so that they go on to agree. Decision 54.

What is rescaled must not be rescaled again, so all of that is one transaction with the number of the schema. It holds
rows with such amounts alone.
"""

# ruff: noqa: S608  # the statements are made of names that stand here

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

from workhook.storage.online import add_column, beside_others

revision = "0041"
down_revision = "0038"

# As ISO 4217 had it when this was written; what is here never changes.
_WITHOUT = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE = "BHD IQD JOD KWD LYD OMR TND"
_UNUSUAL = {**dict.fromkeys(_WITHOUT.split(), 0), **dict.fromkeys(_THREE.split(), 3)}
_CODES = ", ".join(f"'{code}'" for code in _UNUSUAL)
_WHOLE, _FINE = (", ".join(f"'{code}'" for code in codes.split()) for codes in (_WITHOUT, _THREE))

_RATES_OF_PROJECTS = (
    ("project_billing", "hourly_rate_minor"),
    ("project_billing", "budget_minor"),
    ("project_rates", "hourly_rate_minor"),
    ("tasks", "hourly_rate_minor"),
    ("timesheets", "billable_rate_minor"),
)
_RATES_OF_ACCOUNTS = (("account_billing", "hourly_rate_minor"), ("member_rates", "hourly_rate_minor"))
_INVOICE = (
    "amount_minor", "total_minor", "paid_minor", "credited_minor", "discount_minor", "items", "recurring_items",
    "taxes", "payments", "credit_notes",
)  # fmt: skip

_Scale = Callable[[int], int]


def upgrade() -> None:
    add_column("projects", sa.Column("currency", sa.Text))
    with beside_others():
        op.execute(
            "UPDATE projects SET currency = coalesce("
            "(SELECT currency FROM project_billing WHERE project_billing.repository_id = projects.repository_id), "
            "(SELECT currency FROM account_billing WHERE account_billing.account_id = projects.account_id)) "
            "WHERE currency IS NULL"
        )
    _rescale_rates()
    _rescale_prices()
    _rescale_invoices()


def _rescale_rates() -> None:
    for table, column in _RATES_OF_PROJECTS:
        _update(table, column, "repository_id IN (SELECT repository_id FROM projects WHERE currency IN ({}))")
    for table, column in _RATES_OF_ACCOUNTS:
        _update(table, column, "account_id IN (SELECT account_id FROM account_billing WHERE currency IN ({}))")


def _update(table: str, column: str, where: str) -> None:
    for codes, value in ((_WHOLE, f"({column} + 50) / 100"), (_FINE, f"{column} * 10")):
        op.execute(f"UPDATE {table} SET {column} = {value} WHERE {column} IS NOT NULL AND {where.format(codes)}")


def _rescale_prices() -> None:
    _update("service_prices", "amount_minor", "currency IN ({})")
    of_prices = f"SELECT service_id FROM service_prices WHERE currency IN ({_CODES})"
    for row in _rows(f"SELECT id, prices FROM services WHERE id IN ({of_prices})"):
        prices = json.loads(row["prices"])
        for each in prices:
            if (digits := _UNUSUAL.get(each[2])) is not None:
                each[1] = _scale_to(digits)(each[1])
        _set("services", row["id"], prices=_text(prices))


def _rescale_invoices() -> None:
    wanted = f"SELECT id, currency, status, {', '.join(_INVOICE)} FROM invoices WHERE currency IN ({_CODES})"
    for row in _rows(wanted):
        scale = _scale_to(_UNUSUAL[row["currency"]])
        values = rescaled_invoice(row, scale)
        _set("invoices", row["id"], **values)
        for payment_id, minor, _ in json.loads(values["payments"] or "[]"):
            _set("payments", payment_id, amount_minor=minor)
        for note_id, minor, _ in json.loads(values["credit_notes"] or "[]"):
            _rescale_note(note_id, minor, scale)


def _rescale_note(note_id: str, total: int, scale: _Scale) -> None:
    [row] = _rows("SELECT taxes, items FROM credit_notes WHERE id = :id", id=note_id)
    taxes = _taxes(row["taxes"], scale)
    if taxes:
        taxes[-1][3] += total - sum(each[2] + each[3] for each in taxes)
        if taxes[-1][3] < 0:
            taxes[-1][2], taxes[-1][3] = taxes[-1][2] + taxes[-1][3], 0
    _set(
        "credit_notes",
        note_id,
        taxes=_text(taxes),
        amount_minor=sum(each[2] for each in taxes),
        total_minor=total,
        items=_items(row["items"], scale),
    )


def rescaled_invoice(row: Any, scale: _Scale) -> dict[str, Any]:
    """The columns that hold amounts, so that `total = paid + credited + due` stays true, and what was settled is."""
    taxes = None if row["taxes"] is None else _taxes(row["taxes"], scale)
    if taxes is None:
        amount = scale(row["amount_minor"])
        total = max(amount, scale(row["total_minor"]))
    else:
        amount = sum(each[2] for each in taxes)
        total = amount + sum(each[3] for each in taxes)
    paid, credited = row["paid_minor"], row["credited_minor"]
    rest = row["total_minor"] - (paid or 0) - (credited or 0)
    if credited is not None:
        credited = total if credited == row["total_minor"] else min(scale(credited), total)
    if paid is not None:
        settled = total - (credited or 0)
        paid = settled if rest == 0 else scale(paid)
    return {
        "amount_minor": amount,
        "total_minor": total,
        "paid_minor": paid,
        "credited_minor": credited,
        "discount_minor": None if row["discount_minor"] is None else scale(row["discount_minor"]),
        "items": _items(row["items"], scale),
        "recurring_items": _items(row["recurring_items"], scale),
        "taxes": None if taxes is None else _text(taxes),
        "payments": _booked(row["payments"], paid, scale),
        "credit_notes": _booked(row["credit_notes"], credited, scale),
    }


def _scale_to(digits: int) -> _Scale:
    """From hundredths to minor units, half up and away from 0."""
    if digits == 3:
        return lambda value: value * 10
    return lambda value: (value + 50) // 100 if value >= 0 else -((50 - value) // 100)


def _taxes(text: str, scale: _Scale) -> list[list[Any]]:
    return [[rate, category, scale(base), scale(tax)] for rate, category, base, tax in json.loads(text)]


def _items(text: str, scale: _Scale) -> str:
    """`[description, quantity, unit price, time, milliseconds, discount in millionths, discount, …]`."""
    items = json.loads(text)
    for each in items:
        each[2] = scale(each[2])
        if len(each) > 6 and each[6] is not None:
            each[6] = scale(each[6])
    return _text(items)


def _booked(text: str | None, total: int | None, scale: _Scale) -> str | None:
    """`[[id, amount, milliseconds], …]`, which add up to the sum that the invoice has."""
    if text is None:
        return None
    booked = [[each, scale(minor), at_ms] for each, minor, at_ms in json.loads(text)]
    if booked and total is not None:
        booked[-1][1] += total - sum(minor for _, minor, _ in booked)
    return _text(booked)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _rows(query: str, **params: object) -> list[Any]:
    return list(op.get_bind().execute(sa.text(query), params).mappings())


def _set(table: str, row_id: str, **values: object) -> None:
    assigned = ", ".join(f"{name} = :{name}" for name in values)
    op.get_bind().execute(sa.text(f"UPDATE {table} SET {assigned} WHERE id = :row_id"), {**values, "row_id": row_id})
