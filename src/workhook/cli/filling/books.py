"""Payments and credit notes of `workhook bench`, as `rows` has the others."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from workhook.cli.filling import rows, sql
from workhook.cli.filling.sql import N, whole
from workhook.storage.metadata import big
from workhook.work.money.credit_notes.schemas import credit_notes
from workhook.work.money.payments.schemas import payments

BOOKED = 2  # the invoice that has half of all payments and credit notes

# Half are of one invoice, the others of one each.
_booked: dict[str, sa.ColumnElement[Any]] = {
    **rows.FIRST_REPOSITORY,
    "invoice_id": sql.id_text("inv", big("start"), sa.case((N % whole(2) == whole(0), whole(BOOKED)), else_=N)),
    "user_id": sql.person(N),
    "currency": sql.text("EUR"),
    "position": N,
}

insert_payments = sql.rows(
    payments,
    {
        **_booked,
        "id": sql.id_text("pay", big("start"), N),
        "kind": sql.text("payment"),
        "amount_minor": whole(1),
        "paid_at": rows.SOME_AT,
        "created_at": rows.SOME_AT,
    },
)

insert_credit_notes = sql.rows(
    credit_notes,
    {
        **_booked,
        "id": sql.id_text("crn", big("start"), N),
        "account_id": big("acme"),
        "credit_note_number": sql.joined(sql.text("F-"), rows.NUMBER_TEXT),
        "amount_minor": whole(1),
        "taxes": sql.text("[]"),
        "total_minor": whole(1),
        "reason": sql.text("Late"),
        "issued": rows.SOME_AT,
        "items": sql.text("[]"),
    },
)
