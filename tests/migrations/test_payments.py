"""Invoices that were marked as paid before there were payments get the one payment that this was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.migrations.upgrade_kit import migrate_to, on_database

PAID = 5_003
"""More than the migration books at once."""
_TIMES = {"created_at": 1, "updated_at": 9}
_OTHERS = [("draft", 100), ("sent", 100), ("void", 100), ("paid", 0)]


def _fill(connection: Any) -> None:
    def insert(table: str, rows: list[dict[str, object]]) -> None:
        connection.execute(sa.insert(sa.table(table, *map(sa.column, rows[0]))), rows)

    insert("accounts", [{"id": 1, "kind": "user", "login": "octo", "login_key": "octo", **_TIMES}])
    place = {"repository_id": 1, "id": "prj_1", "account_id": 1, "name": "x", "name_key": "x", "title": "X"}
    insert("projects", [{**place, "private": False, "archive": False, **_TIMES}])
    common = {"repository_id": 1, "account_id": 1, "currency": "EUR", "items": "[]", "recurring_items": "[]", **_TIMES}
    paid = [("paid", 100 + number) for number in range(PAID)]
    insert(
        "invoices",
        [
            {
                **common, "id": f"inv_{number:05}", "invoice_number": str(number), "status": status,
                "amount_minor": total, "total_minor": total, "paid_at": 7 if number % 2 and status == "paid" else None,
            }
            for number, (status, total) in enumerate([*paid, *_OTHERS])
        ],
    )  # fmt: skip


def test_what_was_marked_as_paid_has_its_payment(backend: Databases, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path), **backend.empty(tmp_path)}

    def work(connection: Any) -> None:
        migrate_to(connection, "0028")
        _fill(connection)

    on_database(settings, work)
    on_database(settings, lambda connection: migrate_to(connection, "0029"))
    found: list[Any] = []

    def look(connection: Any) -> None:
        found.append(connection.execute(sa.text("SELECT * FROM payments ORDER BY id")).mappings().all())
        found.append(connection.execute(sa.text("SELECT * FROM invoices ORDER BY id")).mappings().all())

    on_database(settings, look)
    payments, invoices = found
    assert len(payments) == PAID
    for payment, invoice in zip(payments, invoices, strict=False):
        assert payment["id"] == f"pay_{invoice['id'][4:]}"
        assert (payment["invoice_id"], payment["kind"], payment["position"]) == (invoice["id"], "payment", 1)
        assert payment["amount_minor"] == invoice["paid_minor"] == invoice["total_minor"]
        assert payment["paid_at"] == (invoice["paid_at"] or 9)
        assert json.loads(invoice["payments"]) == [[payment["id"], payment["amount_minor"], payment["paid_at"]]]
    others = [(each["status"], each["paid_minor"], each["payments"]) for each in invoices[PAID:]]
    assert others == [("draft", None, None), ("sent", None, None), ("void", None, None), ("paid", 0, "[]")]
