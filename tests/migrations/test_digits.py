"""Amounts in currencies without two decimals were hundredths: they become minor units, and what was true stays true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.migrations.upgrade_kit import insert, migrate_to, on_database

_TIMES = {"created_at": 1, "updated_at": 9}
_PLACES = {1: "JPY", 2: "KWD", 3: None, 4: "EUR"}
"""Projects with the currency that they say; the account says none."""


def _invoice(number: int, currency: str, total: int, **more: object) -> dict[str, object]:
    tax = total // 11
    row = {
        "id": f"inv_{number}", "repository_id": 1, "account_id": 1, "invoice_number": f"{number}", "status": "sent",
        "currency": currency, "amount_minor": total - tax, "total_minor": total, "discount_minor": 200,
        "items": json.dumps(
            [["Work", "2", total - tax, None, None], ["Off", "1", 500, None, None, None, 100, None, None]]
        ),
        "recurring_items": "[]", "taxes": json.dumps([[100_000, "standard", total - tax, tax]]), **_TIMES,
    }  # fmt: skip
    return {**row, **more}


def _fill(connection: Any) -> None:
    insert(connection, "accounts", id=1, kind="user", login="octo", login_key="octo", **_TIMES)
    insert(connection, "accounts", id=2, kind="organization", login="acme", login_key="acme", **_TIMES)
    insert(connection, "account_billing", account_id=2, currency="JPY", hourly_rate_minor=800_000)
    insert(connection, "member_rates", account_id=2, user_id=1, hourly_rate_minor=900_050)
    for number, currency in _PLACES.items():
        place = {"repository_id": number, "id": f"prj_{number}", "name": f"x{number}", "name_key": f"x{number}"}
        owner = {"account_id": 1, "title": "X", "private": False, "archive": False}
        insert(connection, "projects", **place, **owner, **_TIMES)
        insert(connection, "project_rates", repository_id=number, user_id=1, hourly_rate_minor=100)
        insert(
            connection,
            "project_billing",
            repository_id=number,
            currency=currency,
            hourly_rate_minor=8000,
            budget_minor=100_000,
        )
        times = {"start_time": 1, "end_time": 3_600_001, "duration_ms": 3_600_000, "is_active": False, "finished": True}
        whose = {"id": f"tms_{number}", "repository_id": number, "user_id": 1, "billable": True}
        insert(connection, "timesheets", **whose, billable_rate_minor=800_000, **times, **_TIMES)
    place = {"repository_id": 5, "id": "prj_5", "account_id": 2, "name": "y", "name_key": "y", "title": "Y"}
    insert(connection, "projects", **place, private=False, archive=False, **_TIMES)
    prices: list[list[Any]] = [["prc_1", 900_000, "JPY", "month", 250], ["prc_2", 950, "EUR", "month", None]]
    flags = dict.fromkeys(("active", "addon", "disable_pause", "disable_quantity", "cancel_at_period_end"), False)
    service = {"id": "svc_1", "account_id": 1, "title": "S", "position": 0, "require_payment_method": False}
    insert(connection, "services", **service, **flags, prices=json.dumps(prices), **_TIMES)
    for price_id, minor, currency, interval, granted in prices:
        row = {"amount_minor": minor, "currency": currency, "interval": interval, "credits_minor": granted}
        insert(connection, "service_prices", id=price_id, service_id="svc_1", **row)
    _fill_invoices(connection)


def _fill_invoices(connection: Any) -> None:
    insert(connection, "invoices", **_invoice(1, "EUR", 1100))
    insert(connection, "invoices", **_invoice(2, "JPY", 110_000))
    insert(connection, "invoices", **_invoice(3, "KWD", 1100))
    # Paid and credited by fractions that cannot be paid, and settled.
    payments: list[tuple[str, int, int]] = [("pay_1", 3_333, 1), ("pay_2", -50, 2)]
    notes = [["crn_1", 110_055 - 3_283, 3]]
    sums = {"paid_minor": 3_283, "credited_minor": 110_055 - 3_283, "status": "paid"}
    lists = {"payments": json.dumps(payments), "credit_notes": json.dumps(notes)}
    insert(connection, "invoices", **_invoice(4, "JPY", 110_055, **sums, **lists))
    for position, (payment_id, minor, at_ms) in enumerate(payments, 1):
        kind = "payment" if minor > 0 else "refund"
        row = {"id": payment_id, "repository_id": 1, "invoice_id": "inv_4", "kind": kind, "amount_minor": minor}
        insert(connection, "payments", **row, currency="JPY", paid_at=at_ms, created_at=1, position=position)
    total = notes[0][1]
    taxes = json.dumps([[100_000, "standard", 97_065, 9_707]])
    note = {"id": "crn_1", "repository_id": 1, "account_id": 1, "invoice_id": "inv_4", "credit_note_number": "CN-1"}
    amounts = {"amount_minor": 97_065, "total_minor": total, "taxes": taxes, "items": "[]", "currency": "JPY"}
    insert(connection, "credit_notes", **note, **amounts, reason="x", issued=3, position=1)


def _look(connection: Any, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(sa.text(query))]


def test_amounts_become_minor_units(backend: Databases, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path), **backend.empty(tmp_path)}

    def work(connection: Any) -> None:
        migrate_to(connection, "0038")
        _fill(connection)

    on_database(settings, work)
    on_database(settings, lambda connection: migrate_to(connection, "0041"))
    on_database(settings, _check_rates)
    on_database(settings, _check_invoices)


def _check_rates(connection: Any) -> None:
    currencies = _look(connection, "SELECT currency FROM projects ORDER BY repository_id")
    assert currencies == [("JPY",), ("KWD",), (None,), ("EUR",), ("JPY",)]
    rates = "SELECT hourly_rate_minor, budget_minor FROM project_billing ORDER BY repository_id"
    assert _look(connection, rates) == [(80, 1000), (80_000, 1_000_000), (8000, 100_000), (8000, 100_000)]
    assert _look(connection, "SELECT hourly_rate_minor FROM project_rates ORDER BY repository_id") == [
        (1,), (1000,), (100,), (100,),
    ]  # fmt: skip
    assert _look(connection, "SELECT billable_rate_minor FROM timesheets ORDER BY repository_id") == [
        (8000,), (8_000_000,), (800_000,), (800_000,),
    ]  # fmt: skip
    spent = "SELECT repository_id, sum(amount_minor) FROM timesheet_changes GROUP BY repository_id ORDER BY 1"
    assert [(place, int(minor)) for place, minor in _look(connection, spent)] == [
        (1, 8000), (2, 8_000_000), (3, 800_000), (4, 800_000),
    ]  # fmt: skip
    assert _look(connection, "SELECT hourly_rate_minor FROM account_billing") == [(8000,)]
    assert _look(connection, "SELECT hourly_rate_minor FROM member_rates") == [(9001,)], "half a yen is rounded up"
    assert _look(connection, "SELECT amount_minor, credits_minor FROM service_prices ORDER BY id") == [
        (9000, 250), (950, None),
    ]  # fmt: skip
    [[prices]] = _look(connection, "SELECT prices FROM services")
    assert json.loads(prices) == [["prc_1", 9000, "JPY", "month", 250], ["prc_2", 950, "EUR", "month", None]]


def _check_invoices(connection: Any) -> None:
    every = "SELECT amount_minor, total_minor, discount_minor, taxes, items FROM invoices ORDER BY id"
    euro, yen, dinar, odd = _look(connection, every)
    assert euro[:3] == (1000, 1100, 200)
    assert (yen[:3], json.loads(yen[3])) == ((1000, 1100, 2), [[100_000, "standard", 1000, 100]])
    assert [each[2] for each in json.loads(yen[4])] == [1000, 5]
    assert json.loads(yen[4])[1][6] == 1
    assert (dinar[:3], json.loads(dinar[3])) == ((10_000, 11_000, 2000), [[100_000, "standard", 10_000, 1000]])
    assert odd[:2] == (1001, 1101), "base and tax are rounded, and the sums are made of these"
    [row] = _look(
        connection, "SELECT paid_minor, credited_minor, payments, credit_notes FROM invoices WHERE id = 'inv_4'"
    )
    paid, credited, payments, notes = row[0], row[1], json.loads(row[2]), json.loads(row[3])
    assert paid + credited == odd[1], "it stays settled"
    assert sum(each[1] for each in payments) == paid
    assert sum(each[1] for each in notes) == credited
    assert _look(connection, "SELECT id, amount_minor FROM payments ORDER BY id") == [(a, b) for a, b, _ in payments]
    [(amount, total, taxes)] = _look(connection, "SELECT amount_minor, total_minor, taxes FROM credit_notes")
    assert total == credited
    [[_, _, base, tax]] = json.loads(taxes)
    assert (base, base + tax) == (amount, total)
