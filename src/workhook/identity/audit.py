"""The audit log: who did what to what, from where. Written in the transaction of the change itself.

What knows most about a change records it (`record`). A change that nobody records and that has events is recorded here,
from the call that is being answered (`of_events`). So each write leaves one entry, and what changes nothing none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.events.outbox import Event
from workhook.http.calls import Call, current
from workhook.identity.audit_actions import action_of, is_page
from workhook.identity.authenticator import Caller
from workhook.identity.schemas import Actor
from workhook.identity.tables import audit_log
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into

COLUMNS = (
    "at", "account_id", "repository_id", "actor_id", "token_id", "app_id", "action", "status", "request_id", "times",
    "target", "address", "detail",
)  # fmt: skip
insert = insert_into(audit_log, *COLUMNS)

ADDRESS_MAX_CHARS = 64
TARGET_MAX_CHARS = 500
_RECORDED = object()
_EVENTS = object()


class AuditTarget(msgspec.Struct, frozen=True):
    """One thing that something was done to. `account_id`: whose owners read it. `detail` never holds a secret."""

    target: str
    account_id: int
    repository_id: int | None = None
    detail: Mapping[str, object] | None = None


async def record(
    tx: Transaction,
    actor: Actor | None,
    action: str,
    target: str,
    *,
    account_id: int,
    repository_id: int | None = None,
    detail: Mapping[str, object] | None = None,
) -> None:
    """`actor` None: Workhook itself, the command line, or an app that calls for itself. The rest: see `AuditTarget`."""
    record_all(tx, actor, action, [AuditTarget(target, account_id, repository_id, detail)])


def record_all(tx: Transaction, actor: Actor | None, action: str, entries: Sequence[AuditTarget]) -> None:
    """`record` for any number of things, with one statement."""
    if not entries:
        return
    tx.state[_RECORDED] = True
    tx.defer(insert, _rows(actor, action, entries))


def row_of_call(actor: Actor, account_id: int, repository_id: int | None, happened: str) -> Mapping[str, object]:
    """The columns of the entry that tells of the current call, which has made one event: `happened` is its name as
    `told_as` answers it."""
    call = current()
    assert call is not None, "an actor calls"
    entry = AuditTarget(_target(call), account_id, repository_id, {"events": {happened: 1}})
    [row] = _rows(actor, action_of(call.operation), [entry])
    return row


def _rows(actor: Actor | None, action: str, entries: Sequence[AuditTarget]) -> list[dict[str, object]]:
    call = current()
    common = {
        "at": now_ms(),
        **caller(call, actor),
        "action": action,
        "status": None,
        "request_id": call.request_id if call else None,
        "times": 1,
    }
    return [
        {
            **common,
            "account_id": each.account_id,
            "repository_id": each.repository_id,
            "target": each.target[:TARGET_MAX_CHARS],
            "detail": json.encode_text(dict(each.detail or {})),
        }
        for each in entries
    ]


def caller(call: Call | None, actor: Actor | None = None) -> dict[str, object]:
    """The columns that tell who it was; `actor` where that is not who calls."""
    found = call.actor if call is not None and isinstance(call.actor, Caller) else None
    app = found.app if found else None
    if actor is None and found is not None:
        actor = found.actor
    address = (actor.address if actor else None) or (call.address if call else None)
    return {
        "actor_id": actor.user.id if actor else None,
        "token_id": (actor.token_id or None) if actor else None,
        "app_id": actor.app_id if actor else app.id if app else None,
        "address": address[:ADDRESS_MAX_CHARS] if address else None,
    }


async def of_events(tx: Transaction, events: Sequence[Event]) -> None:
    """A fan-out of `events.outbox` that delivers nothing: what a call changed is recorded as its last act."""
    if current() is not None:
        known = _EVENTS in tx.state
        tx.state.setdefault(_EVENTS, []).extend(events)
        if not known and tx.is_last_step:  # so that it is written with what the other fan-outs write
            await _record_call(tx)
        elif not known:
            tx.before_commit(_record_call)


async def _record_call(tx: Transaction) -> None:
    """One entry for each account that something happened to, and nobody reads of another's.

    There is more than one where many things were changed at once, or where something made way: who starts a timer here
    has paused the one elsewhere. What made way is told first, so what the call names is of the last event's account.
    """
    call, events = current(), tx.state[_EVENTS]
    if call is None or tx.state.get(_RECORDED):
        return
    action, named_in = action_of(call.operation), events[-1].account_id
    for account_id in dict.fromkeys(each.account_id for each in events):
        mine = [each for each in events if each.account_id == account_id]
        repositories = {each.repository_id for each in mine}
        await record(
            tx,
            None,
            action,
            _target(call) if account_id == named_in else action.rpartition(".")[0],
            account_id=account_id,
            repository_id=repositories.pop() if len(repositories) == 1 else None,
            detail={"events": dict(Counter(told_as(each.name, each.action) for each in mine))},
        )


def told_as(event: str, action: str | None) -> str:
    """How an entry names an event: `task.created`, `push`."""
    return f"{event}.{action}" if action else event


def _target(call: Call) -> str:
    """What was made (`task/tsk_…`), or else what the path names (`tasks/tsk_…` as `task/tsk_…`).

    The path of a page that makes something names only where, and its answer does not name what was made."""
    thing, _, verb = action_of(call.operation).rpartition(".")
    if verb == "create" and is_page(call.operation):
        return thing
    made = _made_id(call.made) if call.operation.method == "POST" else None
    if made is None:
        made = next((str(each) for each in reversed(list(call.request.path_params.values()))), None)
    return f"{thing}/{made}" if made is not None else thing


def _made_id(body: Any) -> object:
    """Of `{"id": …}` or `{"task": {"id": …}, …}`."""
    fields = msgspec.structs.asdict(body) if isinstance(body, msgspec.Struct) else body
    if not isinstance(fields, dict):
        return None
    if isinstance(fields.get("id"), str | int):
        return fields["id"]
    inner = next(iter(fields.values()), None)
    if isinstance(inner, msgspec.Struct):
        return getattr(inner, "id", None)
    return inner.get("id") if isinstance(inner, dict) else None
