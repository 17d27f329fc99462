"""Files, invoices, credits and checkouts of the first project: as many of each, in the order of their numbers."""

from __future__ import annotations

import sqlalchemy as sa

from workhook.cli.filling import sql
from workhook.cli.filling.sql import N, Text, Whole, whole
from workhook.core.clock import DAY_MS
from workhook.storage.metadata import big
from workhook.work.checkouts.schemas import service_checkouts
from workhook.work.comments.tables import file_comment_replies, file_comments
from workhook.work.credits.schemas import task_credits
from workhook.work.files.tables import files
from workhook.work.invoices.schemas import invoices

STATUSES = ("draft", "sent", "paid", "void")
FOLDERS = 20
_at = sql.spread(N, "some")
_times: dict[str, sa.ColumnElement[int]] = {"created_at": _at, "updated_at": _at}
_place: dict[str, sa.ColumnElement[int]] = {"repository_id": sql.repository_at(whole(0))}
_number = sa.cast(N, sa.Text)


def _file_id(number: Whole) -> Text:
    return sql.id_text("fil", big("start"), number)


insert_files = sql.rows(
    files,
    {
        **_place,
        "id": _file_id(N),
        "folder_id": sa.case(
            (N % whole(3) == whole(0), sa.null()), else_=sql.id_text("fld", big("start"), N % whole(FOLDERS))
        ),
        "title": sql.joined(sql.text("Drawing of the board "), _number),
        "name": sql.joined(sql.text("drawing"), _number, sql.text(".txt")),
        "user_id": sql.person(N),
        "private": N % whole(20) == whole(0),
        "size": whole(1),
        "content_type": sql.text("text/plain"),
        "sha256": sql.text("0" * 64),
        "blob": sql.joined(sql.text("filled/"), _number),
        "deleted_at": sa.case((N % whole(25) == whole(0), _at), else_=sa.null()),
        **_times,
    },
)

insert_file_comments = sql.rows(
    file_comments,
    {
        **_place,
        "file_id": _file_id(sa.case((N % whole(2) == whole(0), whole(1)), else_=N)),
        "user_id": sql.person(N),
        "text": sql.joined(sql.text("On the board: "), _number),
        "private": sa.false(),
        **_times,
    },
)

insert_replies = sql.rows(
    file_comment_replies,
    {
        **_place,
        "file_comment_id": big("comment_offset") + N,
        "user_id": sql.person(N),
        "body": sql.joined(sql.text("Yes, the board: "), _number),
        "plain_body": sql.joined(sql.text("Yes, the board: "), _number),
        "private": sa.false(),
        **_times,
    },
)

_issued = N % whole(len(STATUSES)) != whole(0)

insert_invoices = sql.rows(
    invoices,
    {
        **_place,
        "id": sql.id_text("inv", big("start"), N),
        "account_id": big("acme"),
        "invoice_number": sa.case((_issued, sql.joined(sql.text("F-"), _number)), else_=sa.null()),
        "status": sql.pick(N, STATUSES),
        "amount_minor": whole(10_000),
        "total_minor": whole(10_000),
        "currency": sql.text("EUR"),
        "issued": sa.case((_issued, _at), else_=sa.null()),
        "due": sa.case((_issued, _at + whole(14 * DAY_MS)), else_=sa.null()),
        "items": sql.text("[]"),
        "recurring_items": sql.text("[]"),
        **_times,
    },
)

insert_credits = sql.rows(
    task_credits,
    {
        **_place,
        "id": sql.id_text("crd", big("start"), N),
        "kind": sql.text("grant"),
        "amount_minor": whole(100),
        "balance_after_minor": N * whole(100),
        "remaining_minor": sa.case((N % whole(10) == whole(0), whole(100)), else_=whole(0)),
        "uses": sql.text("[]"),
        "reversed": sa.false(),
        **_times,
    },
)

insert_checkouts = sql.rows(
    service_checkouts,
    {
        **_place,
        "id": sql.id_text("sco", big("start"), N),
        "service_id": sql.id_text("svc", big("start"), N % whole(FOLDERS)),
        "user_id": sql.person(N),
        "qty": whole(1),
        "pauses": whole(0),
        "periods": whole(0),
        "anchor_periods": whole(0),
        **_times,
    },
)
