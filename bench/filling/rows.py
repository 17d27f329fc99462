"""The statements that create the many rows, each for the numbers from `first` to `last`.

Six of ten tasks are in the first project, and the first task has half of the comments. A timesheet has the number of
its task. All files, invoices, credits and checkouts belong to the first project, and so do half of the events. Rare
values are among the oldest tenth, so a list that searches for one must scan everything newer.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from bench.filling import sql
from bench.filling.plan import BUCKETS_FROM, COLUMNS, IN_BUCKET
from bench.filling.sql import N, Text, Whole, whole
from workhook.core import json
from workhook.core.clock import DAY_MS, HOUR_MS
from workhook.events.tables import events
from workhook.hooks.tables import deliveries, dispatches
from workhook.identity.tables import audit_log
from workhook.storage.metadata import bigint_param
from workhook.work.board.tasks.column_order import STEP
from workhook.work.board.tasks.schemas import task_assignees, task_buckets, tasks
from workhook.work.discussion.schemas import file_comment_replies, file_comments, task_comments
from workhook.work.files.schemas import files
from workhook.work.money.checkouts.schemas import service_checkouts
from workhook.work.money.credit_notes.schemas import credit_notes
from workhook.work.money.credits.schemas import task_credits
from workhook.work.money.invoices.schemas import invoices
from workhook.work.money.payments.schemas import payments
from workhook.work.time.timesheets.schemas import timesheets

# --- tasks, their comments and timesheets -----------------------------------------------------------------------------

COMMON_WORD, USUAL_WORDS, SELDOM_WORD = "board", ("limit", "column", "report", "invoice"), "zebra"
LABELS, SELDOM_LABEL = ("bug", "idea", "later"), "urgent"
PRIORITIES = (None, "low", "medium", "high")
_DESCRIPTION = "Two boards can have different limits, see the discussion. " * 3


def _bucket(number: Whole) -> Whole:
    """Return the index of a task's bucket among all buckets, from 0."""
    return (number - whole(1)) // whole(IN_BUCKET)


def _column(bucket: Whole) -> Whole:
    """Return the index of a bucket's column among all columns. The first project's columns come first."""
    first, others = bigint_param("first_buckets"), bigint_param("other_buckets")
    of_others = whole(COLUMNS) + (bucket - first) * whole(sql.OTHER_COLUMNS) // others
    return sa.case((bucket < first, bucket * whole(COLUMNS) // first), else_=of_others)


def _task_id(number: Whole) -> Text:
    return sql.id_text("tsk", sql.shuffled(number, "tasks"), number)


def _task_repository(number: Whole) -> Whole:
    return sql.repository_at(_column(_bucket(number)) // whole(COLUMNS))


_task_at = sql.shuffled(N, "tasks")
_deleted = N % whole(50) == whole(0)
_seldom_task = N % bigint_param("seldom_task") == whole(7)
_title = sql.joined(
    sql.text("Task "), sa.cast(N, sa.Text), sql.text(f": the {COMMON_WORD}, the "), sql.pick(N, USUAL_WORDS),
    sa.case((_seldom_task, sql.text(f" and the {SELDOM_WORD}")), else_=sql.text("")),
)  # fmt: skip
_labels = sql.pick(N // whole(3), ("[]", *(f'["{each}"]' for each in LABELS)))
_usual_person = sa.case((N % whole(60) == whole(6), sql.person(whole(5))), else_=sql.person(N))
_someone = sa.case((_seldom_task, sql.person(whole(6))), else_=_usual_person)

# Triggers count the rows added to the buckets.
insert_buckets = sql.rows(
    task_buckets,
    {
        "id": whole(BUCKETS_FROM) + N,
        "column_id": sql.column_at(_column(N)),
        "rank": (N + whole(1)) * whole(STEP),
        "size": whole(0),
    },
)

insert_tasks = sql.rows(
    tasks,
    {
        "id": _task_id(N),
        "number": N,  # with gaps, because each number is unique among all tasks
        "repository_id": _task_repository(N),
        "column_id": sql.column_at(_column(_bucket(N))),
        "bucket_id": sa.case((_deleted, sa.null()), else_=whole(BUCKETS_FROM) + _bucket(N)),
        "rank": sa.case((_deleted, sa.null()), else_=(N - whole(1)) % whole(IN_BUCKET) * whole(STEP)),
        "title": _title,
        "description": sql.text(_DESCRIPTION),
        "priority": sql.pick(N // whole(5), PRIORITIES),
        "deadline": sa.case((N % whole(2) == whole(0), _task_at + N % whole(40) * whole(DAY_MS)), else_=sa.null()),
        "fields": sql.text("{}"),
        "sections": sql.text("[]"),
        "labels": sa.case((_seldom_task, sql.text(f'["{SELDOM_LABEL}"]')), else_=_labels),
        "user_id": _someone,
        "completed_at": sa.case((N % whole(3) == whole(0), _task_at + whole(HOUR_MS)), else_=sa.null()),
        "deleted_at": sa.case((_deleted, _task_at + whole(HOUR_MS)), else_=sa.null()),
        "created_at": _task_at,
        "updated_at": _task_at + N % whole(1000) * whole(1000),
    },
)

insert_assignees = sql.rows(
    task_assignees,
    {"task_id": _task_id(N), "user_id": _someone},
    sa.or_(N % whole(3) == whole(0), _seldom_task),
)

_commented = sa.case((N % whole(2) == whole(0), whole(1)), else_=N)

insert_comments = sql.rows(
    task_comments,
    {
        "repository_id": _task_repository(_commented),
        "task_id": _task_id(_commented),
        "user_id": _usual_person,
        "text": sql.joined(sql.text(f"On the {COMMON_WORD}: number "), sa.cast(N, sa.Text)),
        "private": N % whole(10) == whole(0),
        "created_at": _task_at,
        "updated_at": _task_at,
    },
)

_billed = sa.and_(bigint_param("first_tasks") >= N, N % whole(10) == whole(0))

insert_timesheets = sql.rows(
    timesheets,
    {
        "id": sql.id_text("tms", _task_at, N),
        "repository_id": _task_repository(N),
        "task_id": _task_id(N),
        "user_id": _someone,
        "start_time": _task_at,
        "end_time": _task_at + whole(HOUR_MS),
        "duration_ms": whole(HOUR_MS),
        "is_active": sa.false(),
        "finished": N % whole(5) != whole(0),
        "notes": sql.text("What was done."),
        "billable": N % whole(4) != whole(0),
        "billable_rate_minor": whole(9000),
        "invoice_id": sa.case(
            (_billed, sql.id_text("inv", bigint_param("start"), whole(1) + N % bigint_param("some"))), else_=sa.null()
        ),
        "created_at": _task_at,
        "updated_at": _task_at,
    },
)

# --- files, invoices, credits, checkouts, payments, credit notes ------------------------------------------------------

STATUSES = ("draft", "sent", "partially_paid", "paid", "credited", "void")
FOLDERS = 20
SOME_AT = sql.spread(N, "some")
_some_times: dict[str, sa.ColumnElement[int]] = {"created_at": SOME_AT, "updated_at": SOME_AT}
FIRST_REPOSITORY: dict[str, sa.ColumnElement[int]] = {"repository_id": sql.repository_at(whole(0))}
NUMBER_TEXT = sa.cast(N, sa.Text)


def _file_id(number: Whole) -> Text:
    return sql.id_text("fil", bigint_param("start"), number)


insert_files = sql.rows(
    files,
    {
        **FIRST_REPOSITORY,
        "id": _file_id(N),
        "folder_id": sa.case(
            (N % whole(3) == whole(0), sa.null()), else_=sql.id_text("fld", bigint_param("start"), N % whole(FOLDERS))
        ),
        "title": sql.joined(sql.text("Drawing of the board "), NUMBER_TEXT),
        "name": sql.joined(sql.text("drawing"), NUMBER_TEXT, sql.text(".txt")),
        "user_id": sql.person(N),
        "private": N % whole(20) == whole(0),
        "size": whole(1),
        "content_type": sql.text("text/plain"),
        "sha256": sql.text("0" * 64),
        "blob": sql.joined(sql.text("filled/"), NUMBER_TEXT),
        "deleted_at": sa.case((N % whole(25) == whole(0), SOME_AT), else_=sa.null()),
        **_some_times,
    },
)

insert_file_comments = sql.rows(
    file_comments,
    {
        **FIRST_REPOSITORY,
        "file_id": _file_id(sa.case((N % whole(2) == whole(0), whole(1)), else_=N)),
        "user_id": sql.person(N),
        "text": sql.joined(sql.text("On the board: "), NUMBER_TEXT),
        "private": sa.false(),
        **_some_times,
    },
)

insert_replies = sql.rows(
    file_comment_replies,
    {
        **FIRST_REPOSITORY,
        "file_comment_id": bigint_param("comment_offset") + N,
        "user_id": sql.person(N),
        "body": sql.joined(sql.text("Yes, the board: "), NUMBER_TEXT),
        "plain_body": sql.joined(sql.text("Yes, the board: "), NUMBER_TEXT),
        "private": sa.false(),
        **_some_times,
    },
)

_issued = N % whole(len(STATUSES)) != whole(0)

insert_invoices = sql.rows(
    invoices,
    {
        **FIRST_REPOSITORY,
        "id": sql.id_text("inv", bigint_param("start"), N),
        "account_id": bigint_param("acme"),
        "invoice_number": sa.case((_issued, sql.joined(sql.text("F-"), NUMBER_TEXT)), else_=sa.null()),
        "status": sql.pick(N, STATUSES),
        "amount_minor": whole(10_000),
        "total_minor": whole(10_000),
        "paid_minor": whole(5_000),
        "currency": sql.text("EUR"),
        "issued": sa.case((_issued, SOME_AT), else_=sa.null()),
        **dict.fromkeys(("due", "overdue_at"), sa.case((_issued, SOME_AT + whole(14 * DAY_MS)), else_=sa.null())),
        "items": sql.text("[]"),
        "recurring_items": sql.text("[]"),
        "taxes": sql.text("[]"),
        "language": sql.text("en"),
        "seller": sa.case((_issued, sql.text("{}")), else_=sa.null()),
        **_some_times,
    },
)

insert_credits = sql.rows(
    task_credits,
    {
        **FIRST_REPOSITORY,
        "id": sql.id_text("crd", bigint_param("start"), N),
        "kind": sql.text("grant"),
        "amount_minor": whole(100),
        "balance_after_minor": N * whole(100),
        "remaining_minor": sa.case((N % whole(10) == whole(0), whole(100)), else_=whole(0)),
        "uses": sql.text("[]"),
        "reversed": sa.false(),
        **_some_times,
    },
)

insert_checkouts = sql.rows(
    service_checkouts,
    {
        **FIRST_REPOSITORY,
        "id": sql.id_text("sco", bigint_param("start"), N),
        "service_id": sql.id_text("svc", bigint_param("start"), N % whole(FOLDERS)),
        "user_id": sql.person(N),
        "qty": whole(1),
        "pauses": whole(0),
        "periods": whole(0),
        "anchor_periods": whole(0),
        **_some_times,
    },
)

BOOKED = 2  # the invoice with half of all payments and credit notes

# Half belong to one invoice, the others to one invoice each.
_booked: dict[str, sa.ColumnElement[Any]] = {
    **FIRST_REPOSITORY,
    "invoice_id": sql.id_text(
        "inv", bigint_param("start"), sa.case((N % whole(2) == whole(0), whole(BOOKED)), else_=N)
    ),
    "user_id": sql.person(N),
    "currency": sql.text("EUR"),
    "position": N,
}

insert_payments = sql.rows(
    payments,
    {
        **_booked,
        "id": sql.id_text("pay", bigint_param("start"), N),
        "kind": sql.text("payment"),
        "amount_minor": whole(1),
        "paid_at": SOME_AT,
        "created_at": SOME_AT,
    },
)

insert_credit_notes = sql.rows(
    credit_notes,
    {
        **_booked,
        "id": sql.id_text("crn", bigint_param("start"), N),
        "account_id": bigint_param("acme"),
        "credit_note_number": sql.joined(sql.text("F-"), NUMBER_TEXT),
        "amount_minor": whole(1),
        "taxes": sql.text("[]"),
        "total_minor": whole(1),
        "reason": sql.text("Late"),
        "issued": SOME_AT,
        "items": sql.text("[]"),
    },
)


# --- events, their deliveries, the audit log -------------------------------------------------------------------------

NAMES = ("task", "task_comment", "timesheet", "file", "push", "task", "column", "invoice")
ACTIONS = ("updated", "created", "finished", "created", None, "moved", "created", "sent")
SELDOM_NAME, SELDOM_ACTION = "release", "published"
AUDITED = ("task.update", "task.create", "timesheet.create", "hook.ping", "member.add", "file.create")
SELDOM_AUDITED = "hook.delete"
URL = "https://hooks.example.com/in"

_ATTEMPT_MS = 50  # milliseconds after the event
_PAYLOAD = json.encode(
    {"action": "updated", "task": {"title": "Move the column's limit into the board", "labels": ["board", "limits"]},
     "note": "x" * 200}
)  # fmt: skip
_REQUEST = json.encode(
    {"Accept": "*/*", "Content-Type": "application/json", "User-Agent": "Workhook/1", "X-GitHub-Event": "task",
     "X-Hub-Signature-256": "sha256=" + "0" * 64}
)  # fmt: skip
_RESPONSE = json.encode({"Content-Type": "text/plain", "Content-Length": "2"})


def _index(event: Whole) -> Whole:
    """Return the index of an event's repository."""
    return sa.case((event % whole(2) == whole(0), whole(0)), else_=whole(1) + event // whole(2) % whole(sql.OTHERS))


def _seldom(event: Whole) -> sa.ColumnElement[bool]:
    return sa.and_(event <= bigint_param("old_events"), event % bigint_param("seldom_every") == whole(0))


def _event_kind(event: Whole) -> Whole:
    return event // whole(2) % whole(len(NAMES))


def _event_name(event: Whole) -> Text:
    return sa.case((_seldom(event), sql.text(SELDOM_NAME)), else_=sql.pick(_event_kind(event), NAMES))


def _event_action(event: Whole) -> Text:
    return sa.case((_seldom(event), sql.text(SELDOM_ACTION)), else_=sql.pick(_event_kind(event), ACTIONS))


def _actor(number: Whole, seldom: sa.ColumnElement[bool]) -> Whole:
    """Return each person in turn, except the one who is rarely active."""
    usual = sql.person(sa.case((number % whole(60) == whole(6), whole(5)), else_=number))
    return sa.case((seldom, sql.person(whole(6))), else_=usual)


insert_events = sql.rows(
    events,
    {
        "account_id": sql.account_at(_index(N)),
        "repository_id": sql.repository_at(_index(N)),
        "name": _event_name(N),
        "action": _event_action(N),
        "payload": sql.data(_PAYLOAD),
        "size": whole(len(_PAYLOAD)),
        "created_at": sql.spread(N, "events"),
        "actor_id": _actor(N // whole(2), _seldom(N)),
        "listed": N % whole(50) != whole(1),
    },
)


def _event_of(dispatch: Whole) -> Whole:
    return (dispatch + whole(1)) // whole(2)


def _hook_of(dispatch: Whole) -> Whole:
    """Return the webhook of a dispatch: in each pair, the repository's first and then the organization's."""
    index = _index(_event_of(dispatch))
    of_organization = bigint_param("first_hook") + whole(sql.OTHERS + 1) + index // whole((sql.OTHERS + 1) // 2)
    return sa.case((dispatch % whole(2) == whole(1), bigint_param("first_hook") + index), else_=of_organization)


def _guid_of(dispatch: Whole) -> Text:
    return sql.guid(sql.spread(_event_of(dispatch), "events"), dispatch)


insert_dispatches = sql.rows(
    dispatches,
    {
        "event_id": bigint_param("event_offset") + _event_of(N),
        "hook_id": _hook_of(N),
        "guid": _guid_of(N),
        "attempts": whole(1),
        "retries": whole(0),
        "wanted": whole(0),
        "created_at": sql.spread(_event_of(N), "events"),
    },
)

_delivery_dispatch: Whole = N - N // whole(20)
_delivery_event = _event_of(_delivery_dispatch)
_old_delivery = bigint_param("old_deliveries") >= N
_failed_delivery = sa.and_(_old_delivery, N % whole(50) == whole(0))

insert_deliveries = sql.rows(
    deliveries,
    {
        "dispatch_id": bigint_param("dispatch_offset") + _delivery_dispatch,
        "hook_id": _hook_of(_delivery_dispatch),
        "event_id": bigint_param("event_offset") + _delivery_event,
        "repository_id": sql.repository_at(_index(_delivery_event)),
        "guid": _guid_of(_delivery_dispatch),
        "event": _event_name(_delivery_event),
        "action": _event_action(_delivery_event),
        "delivered_at": sql.spread(_delivery_event, "events") + whole(_ATTEMPT_MS),
        "duration_ms": N % whole(200),
        "redelivery": sa.and_(_old_delivery, N % whole(40) == whole(0)),
        "status": sa.case((_failed_delivery, sql.text("Invalid HTTP Response: 502")), else_=sql.text("OK")),
        "status_code": sa.case((_failed_delivery, whole(502)), else_=whole(200)),
        "url": sql.text(URL),
        "request_headers": sql.data(_REQUEST),
        "response_headers": sql.data(_RESPONSE),
        "response_body": sql.data(b"ok"),
    },
)

_seldom_entry = sa.and_(bigint_param("old_audit") >= N, N % bigint_param("seldom_audit") == whole(0))
_audit_place = sa.case((N % whole(4) == whole(3), whole(sql.OTHERS)), else_=N % whole(sql.OTHERS // 2))

insert_audit = sql.rows(
    audit_log,
    {
        "at": sql.spread(N, "audit"),
        "account_id": sql.account_at(_audit_place),
        "repository_id": sql.repository_at(_audit_place),
        "actor_id": _actor(N, _seldom_entry),
        "action": sa.case((_seldom_entry, sql.text(SELDOM_AUDITED)), else_=sql.pick(N // whole(7), AUDITED)),
        "target": sql.joined(sql.text("task/"), sa.cast(N, sa.Text)),
        "address": sql.text("192.0.2.1"),
        "detail": sql.text("{}"),
    },
)
