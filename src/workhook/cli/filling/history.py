"""Events, what became of them, and the audit log.

Half of the events are of the first repository. What is seldom is among the oldest tenth: a list that has to look for
it looks at everything that came since.
"""

from __future__ import annotations

import sqlalchemy as sa

from workhook.cli.filling import sql
from workhook.cli.filling.sql import N, Text, Whole, whole
from workhook.core import json
from workhook.events.tables import events
from workhook.hooks.tables import deliveries, dispatches
from workhook.identity.tables import audit_log
from workhook.storage.metadata import big

NAMES = ("task", "task_comment", "timesheet", "file", "push", "task", "column", "invoice")
ACTIONS = ("updated", "created", "finished", "created", None, "moved", "created", "sent")
SELDOM_NAME, SELDOM_ACTION = "release", "published"
AUDITED = ("task.update", "task.create", "timesheet.create", "hook.ping", "member.add", "file.create")
SELDOM_AUDITED = "hook.delete"
URL = "https://hooks.example.com/in"

_ATTEMPT = 50  # milliseconds after the event
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
    """Of its repository."""
    return sa.case((event % whole(2) == whole(0), whole(0)), else_=whole(1) + event // whole(2) % whole(sql.OTHERS))


def _seldom(event: Whole) -> sa.ColumnElement[bool]:
    return sa.and_(event <= big("old_events"), event % big("seldom_every") == whole(0))


def _kind(event: Whole) -> Whole:
    return event // whole(2) % whole(len(NAMES))


def _name(event: Whole) -> Text:
    return sa.case((_seldom(event), sql.text(SELDOM_NAME)), else_=sql.pick(_kind(event), NAMES))


def _action(event: Whole) -> Text:
    return sa.case((_seldom(event), sql.text(SELDOM_ACTION)), else_=sql.pick(_kind(event), ACTIONS))


def _actor(number: Whole, seldom: sa.ColumnElement[bool]) -> Whole:
    """Everybody in turn but for the one who is seldom seen."""
    usual = sql.person(sa.case((number % whole(60) == whole(6), whole(5)), else_=number))
    return sa.case((seldom, sql.person(whole(6))), else_=usual)


insert_events = sql.rows(
    events,
    {
        "account_id": sql.account_at(_index(N)),
        "repository_id": sql.repository_at(_index(N)),
        "name": _name(N),
        "action": _action(N),
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
    """The first of two is the repository's, the other the organization's."""
    index = _index(_event_of(dispatch))
    of_organization = big("first_hook") + whole(sql.OTHERS + 1) + index // whole((sql.OTHERS + 1) // 2)
    return sa.case((dispatch % whole(2) == whole(1), big("first_hook") + index), else_=of_organization)


def _guid_of(dispatch: Whole) -> Text:
    return sql.guid(sql.spread(_event_of(dispatch), "events"), dispatch)


insert_dispatches = sql.rows(
    dispatches,
    {
        "event_id": big("event_offset") + _event_of(N),
        "hook_id": _hook_of(N),
        "guid": _guid_of(N),
        "attempts": whole(1),
        "retries": whole(0),
        "wanted": whole(0),
        "created_at": sql.spread(_event_of(N), "events"),
    },
)

_dispatch: Whole = N - N // whole(20)
_event = _event_of(_dispatch)
_old = big("old_deliveries") >= N
_failed = sa.and_(_old, N % whole(50) == whole(0))

insert_deliveries = sql.rows(
    deliveries,
    {
        "dispatch_id": big("dispatch_offset") + _dispatch,
        "hook_id": _hook_of(_dispatch),
        "event_id": big("event_offset") + _event,
        "repository_id": sql.repository_at(_index(_event)),
        "guid": _guid_of(_dispatch),
        "event": _name(_event),
        "action": _action(_event),
        "delivered_at": sql.spread(_event, "events") + whole(_ATTEMPT),
        "duration_ms": N % whole(200),
        "redelivery": sa.and_(_old, N % whole(40) == whole(0)),
        "status": sa.case((_failed, sql.text("Invalid HTTP Response: 502")), else_=sql.text("OK")),
        "status_code": sa.case((_failed, whole(502)), else_=whole(200)),
        "url": sql.text(URL),
        "request_headers": sql.data(_REQUEST),
        "response_headers": sql.data(_RESPONSE),
        "response_body": sql.data(b"ok"),
    },
)

_seldom_entry = sa.and_(big("old_audit") >= N, N % big("seldom_audit") == whole(0))
_place = sa.case((N % whole(4) == whole(3), whole(sql.OTHERS)), else_=N % whole(sql.OTHERS // 2))

insert_audit = sql.rows(
    audit_log,
    {
        "at": sql.spread(N, "audit"),
        "account_id": sql.account_at(_place),
        "repository_id": sql.repository_at(_place),
        "actor_id": _actor(N, _seldom_entry),
        "action": sa.case((_seldom_entry, sql.text(SELDOM_AUDITED)), else_=sql.pick(N // whole(7), AUDITED)),
        "target": sql.joined(sql.text("task/"), sa.cast(N, sa.Text)),
        "address": sql.text("192.0.2.1"),
        "detail": sql.text("{}"),
    },
)
