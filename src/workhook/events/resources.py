"""The fields of every record that Workhook's own events carry, as the API shows them.

The source is the list of resources of the work API: every field of a record is always present, null while it is
unset. The key is the name of the event, which is also the name of the record in its payload.
"""

from __future__ import annotations

from workhook.events.json_schema import (
    AMOUNT,
    COUNT,
    CURRENCY,
    EMAIL,
    FLAG,
    INTEGER_ID,
    LINK,
    MILLISECONDS,
    MOMENT,
    TEXT,
    USER,
    Schema,
    list_of,
    map_of,
    nullable,
    one_of,
    prefixed_id,
    record,
    reference,
)

_TIMES: dict[str, Schema] = {"created_at": MOMENT, "updated_at": MOMENT}
_MAYBE_TEXT = nullable(TEXT)
_MAYBE_MOMENT = nullable(MOMENT)
_MAYBE_COUNT = nullable(COUNT)
_MAYBE_LINK = nullable(LINK)

_PROJECT = record(
    {
        "id": prefixed_id("prj"),
        "repository_id": INTEGER_ID,
        "title": TEXT,
        "name": TEXT,
        "full_name": TEXT,
        "avatar": _MAYBE_LINK,
        "private": FLAG,
        "archive": FLAG,
        **_TIMES,
    }
)

_CLIENT = record({"id": prefixed_id("cli"), "username": _MAYBE_TEXT, "email": EMAIL, **_TIMES})

_COLUMN = record(
    {
        "id": prefixed_id("col"),
        "title": TEXT,
        "position": COUNT,
        "stage": nullable(one_of("in_queue", "in_progress", "done")),
        "finished": FLAG,
        "start_timer": FLAG,
        **_TIMES,
    }
)

_TASK = record(
    {
        "id": prefixed_id("tsk"),
        "title": TEXT,
        "description": _MAYBE_TEXT,
        "cover_url": _MAYBE_LINK,
        "priority": nullable(one_of("low", "medium", "high")),
        "deadline": _MAYBE_MOMENT,
        "position": COUNT,
        "fields": map_of(TEXT),
        "sections": map_of(map_of(TEXT)),
        "project": reference("prj"),
        "column": reference("col"),
        "assignees": list_of(USER),
        "labels": list_of(TEXT),
        "completed_at": _MAYBE_MOMENT,
        **_TIMES,
    }
)

_TASK_COMMENT = record(
    {"id": INTEGER_ID, "text": TEXT, "private": FLAG, "task": reference("tsk"), "user": USER, **_TIMES}
)

_FILE = record(
    {
        "id": prefixed_id("fil"),
        "title": TEXT,
        "file_link": LINK,
        "user": USER,
        "project": reference("prj"),
        "private": FLAG,
        "folder": nullable(reference("fld")),
        "size": {**COUNT, "description": "bytes"},
        "content_type": TEXT,
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        **_TIMES,
    }
)

_FOLDER = record({"id": prefixed_id("fld"), "title": TEXT, **_TIMES})

_REPLY = record(
    {
        "id": INTEGER_ID,
        "body": {"type": "string", "description": "may hold markup, sanitised"},
        "file_comment_id": INTEGER_ID,
        "private": FLAG,
        "user": USER,
        **_TIMES,
    }
)

_FILE_COMMENT = record(
    {
        "id": INTEGER_ID,
        "text": TEXT,
        "private": FLAG,
        "file": reference("fil", also={"link": LINK}),
        "user": USER,
        "comments": list_of(_REPLY),
        **_TIMES,
    }
)

_TIMESHEET = record(
    {
        "id": prefixed_id("tms"),
        "task": nullable(reference("tsk")),
        "project": reference("prj"),
        "user": USER,
        "is_active": FLAG,
        "finished": FLAG,
        "start_time": MOMENT,
        "end_time": _MAYBE_MOMENT,
        "duration": MILLISECONDS,
        "elapsed_time": MILLISECONDS,
        "formatted_duration": TEXT,
        "short_formatted_duration": record({"display": TEXT, "decimal": {"type": "number", "minimum": 0}}),
        "notes": _MAYBE_TEXT,
        "billable": FLAG,
        "billable_rate": nullable(AMOUNT),
        "hourly_rate": nullable({"type": "string", "pattern": r"^\d+\.\d\d$"}),
        **_TIMES,
    }
)

_SERVICE_PRICE = record(
    {
        "id": prefixed_id("prc"),
        "amount": AMOUNT,
        "currency": CURRENCY,
        "interval": one_of("one_time", "week", "month", "year"),
        "credits": nullable(AMOUNT),
    }
)

_SERVICE = record(
    {
        "id": prefixed_id("svc"),
        "title": TEXT,
        "organization": {"type": "string", "description": "the organization's login"},
        "description": _MAYBE_TEXT,
        "active": FLAG,
        "addon": FLAG,
        "position": COUNT,
        "disable_pause": FLAG,
        "disable_quantity": FLAG,
        "limit_pausing": _MAYBE_COUNT,
        "minimum_months": _MAYBE_COUNT,
        "cancel_at_period_end": FLAG,
        "require_payment_method": FLAG,
        "preview_image": _MAYBE_LINK,
        "service_prices": list_of(_SERVICE_PRICE),
        "default_price": nullable(_SERVICE_PRICE),
        "checkout_link": _MAYBE_LINK,
        **_TIMES,
    },
    optional=("organization",),
)

_SERVICE_CHECKOUT = record(
    {
        "id": prefixed_id("sco"),
        "service": reference("svc"),
        "service_price": nullable(_SERVICE_PRICE),
        "qty": {"type": "integer", "minimum": 1},
        "currency": nullable(CURRENCY),
        "default": FLAG,
        "status": one_of("pending", "active", "paused", "canceled"),
        "completed": FLAG,
        "paused": FLAG,
        "pause_date": _MAYBE_MOMENT,
        "cancel_date": _MAYBE_MOMENT,
        "period_end": _MAYBE_MOMENT,
        "archive": FLAG,
        "days_left": _MAYBE_COUNT,
        "months_since_creation": COUNT,
        "disable_pause": FLAG,
        "addons_purchased": {**list_of(reference("svc")), "description": "the add-ons that were bought with it"},
        "retention_coupon_used": FLAG,
        "unsubscribe_reason": _MAYBE_TEXT,
        "unsubscribed_feedback": _MAYBE_TEXT,
        "payment_customer_id": _MAYBE_TEXT,
        "payment_subscription_id": _MAYBE_TEXT,
        **_TIMES,
    }
)

_TASK_CREDIT = record(
    {
        "id": prefixed_id("crd"),
        "kind": one_of("grant", "spend", "expire", "reversal"),
        "amount": {**AMOUNT, "description": "signed: what the balance grew by"},
        "balance_after": AMOUNT,
        "task": nullable(reference("tsk")),
        "notes": _MAYBE_TEXT,
        "user": {**nullable(USER), "description": "null when the service made the entry by itself"},
        "reversed": FLAG,
        "reverses": {**_MAYBE_TEXT, "description": "of a reversal: the id of the entry that it undoes"},
        "expires_at": _MAYBE_MOMENT,
        **_TIMES,
    },
    optional=("reverses",),
)

_INVOICE_ITEM = record({"description": TEXT, "qty": {"type": "number"}, "unit_price": AMOUNT})

_INVOICE = record(
    {
        "id": prefixed_id("inv"),
        "name": _MAYBE_TEXT,
        "invoice_number": {**_MAYBE_TEXT, "description": "null until a number is given, or the invoice is sent"},
        "status": one_of("draft", "sent", "paid", "void"),
        "bill_from": _MAYBE_TEXT,
        "bill_to": _MAYBE_TEXT,
        "address": _MAYBE_TEXT,
        "amount": {**AMOUNT, "description": "before tax"},
        "tax": {**nullable({"type": "number"}), "description": "percent"},
        "total": AMOUNT,
        "currency": CURRENCY,
        "issued": _MAYBE_MOMENT,
        "due": _MAYBE_MOMENT,
        "paid_at": _MAYBE_MOMENT,
        "overdue": FLAG,
        "payment_method": _MAYBE_TEXT,
        "payment_terms": _MAYBE_TEXT,
        "credit_type": _MAYBE_TEXT,
        "invoice_items": list_of(_INVOICE_ITEM),
        "recurring_invoice_items": list_of(_INVOICE_ITEM),
        "user": {**nullable(USER), "description": "null when the service made the invoice by itself"},
        **_TIMES,
    }
)

_HOOK_CONFIG = record(
    {"url": TEXT, "content_type": TEXT, "insecure_ssl": one_of("0", "1"), "secret": TEXT},
    optional=("url", "content_type", "insecure_ssl", "secret"),
)

_LAST_RESPONSE = record({"code": nullable({"type": "integer"}), "status": _MAYBE_TEXT, "message": _MAYBE_TEXT})

HOOK = record(
    {
        "type": one_of("Repository", "Organization"),
        "id": INTEGER_ID,
        "name": one_of("web"),
        "active": FLAG,
        "events": list_of(TEXT),
        "config": _HOOK_CONFIG,
        **_TIMES,
        "url": LINK,
        "ping_url": LINK,
        "deliveries_url": LINK,
        "test_url": LINK,
        "last_response": nullable(_LAST_RESPONSE),
    },
    optional=("test_url", "last_response"),
)

RESOURCES: dict[str, Schema] = {
    "client": _CLIENT,
    "column": _COLUMN,
    "file": _FILE,
    "file_comment": _FILE_COMMENT,
    "file_comment_reply": _REPLY,
    "folder": _FOLDER,
    "hook": HOOK,
    "invoice": _INVOICE,
    "member": USER,
    "project": _PROJECT,
    "service": _SERVICE,
    "service_checkout": _SERVICE_CHECKOUT,
    "task": _TASK,
    "task_comment": _TASK_COMMENT,
    "task_credit": _TASK_CREDIT,
    "timesheet": _TIMESHEET,
}
