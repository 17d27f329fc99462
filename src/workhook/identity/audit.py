"""The audit log: completed actions and refused requests.

A change is recorded in its own transaction, either explicitly (`record`) or from the call that caused its events
(`of_events`). Each write leaves one entry, unless nothing changed. An action has the same name in the API and on pages,
whether it succeeds or is refused: the route's `action`, or else the operation's name or `page.view`.

Refusals are written in batches, outside the requests. Memory and the number of rows per minute are bounded. At most
half of the rows belong to no known account and at most a sixth to one caller, so that noise cannot hide the rest.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import msgspec
import structlog
from prometheus_client import Counter as Metric

from workhook.core import json
from workhook.core.clock import MINUTE_MS, now_ms, to_millis_text
from workhook.core.errors import NotFound, Problem, Unavailable
from workhook.events.outbox import Draft
from workhook.http.calls import Call, current
from workhook.http.operations import WORK_API, Operation
from workhook.identity.authenticator import Caller
from workhook.identity.schemas import Actor
from workhook.identity.tables import audit_log
from workhook.storage import Database, Transaction
from workhook.storage.metadata import insert_into

COLUMNS = (
    "at", "account_id", "repository_id", "actor_id", "token_id", "app_id", "action", "status", "request_id", "times",
    "target", "address", "detail",
)  # fmt: skip
insert = insert_into(audit_log, *COLUMNS)

ADDRESS_MAX_CHARS = 64
TARGET_MAX_CHARS = 500


class _Changes:
    def __init__(self) -> None:
        self.events: list[Draft] = []
        self.are_recorded = False


class AuditTarget(msgspec.Struct, frozen=True):
    """The object of an action. Owners of the account `account_id` see the entry. `detail` never contains a secret."""

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
    """Record an action. `actor` None: Workhook itself, the command line, or an app that authenticates as itself."""
    record_all(tx, actor, action, [AuditTarget(target, account_id, repository_id, detail)])


def record_all(tx: Transaction, actor: Actor | None, action: str, entries: Sequence[AuditTarget]) -> None:
    """Record an action on any number of targets with one statement."""
    if not entries:
        return
    tx.get_local(_Changes).are_recorded = True
    tx.defer(insert, _rows(actor, action, entries))


def row_of_call(actor: Actor, event: Draft) -> Mapping[str, object]:
    """Return the columns of the entry for the current call, which has caused one event."""
    call = current()
    assert call is not None, "an actor calls"
    detail = {"events": {event_label(event): 1}}
    entry = AuditTarget(_target(call), event.account_id, event.repository_id, detail)
    [row] = _rows(actor, action_of(call.operation), [entry])
    return row


def _rows(actor: Actor | None, action: str, entries: Sequence[AuditTarget]) -> list[dict[str, object]]:
    call = current()
    common = {"at": now_ms(), **caller(call, actor), "action": action, "status": None, "times": 1}
    common["request_id"] = call.request_id if call else None
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
    """Return the columns that identify the caller, or `actor` instead."""
    found = call.actor if call is not None and isinstance(call.actor, Caller) else None
    app = found.app if found else None
    actor = found.actor if actor is None and found else actor
    address = (actor.address if actor else None) or (call.address if call else None)
    return {
        "actor_id": actor.user.id if actor else None,
        "token_id": (actor.token_id or None) if actor else None,
        "app_id": actor.app_id if actor else app.id if app else None,
        "address": address[:ADDRESS_MAX_CHARS] if address else None,
    }


async def of_events(tx: Transaction, events: Sequence[Draft]) -> None:
    """Record the call's changes before the commit. A fan-out of `events.outbox` that delivers nothing."""
    if current() is not None:
        changes = tx.get_local(_Changes)
        if not changes.events:
            tx.before_commit(_record_call)
        changes.events += events


async def _record_call(tx: Transaction) -> None:
    """Record one entry for each account that was changed.

    Only the entry for the last event's account names the target. Earlier events are side effects (a paused timer).
    """
    call, changes = current(), tx.get_local(_Changes)
    if call is None or changes.are_recorded:
        return
    events = changes.events
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
            detail={"events": dict(Counter(map(event_label, mine)))},
        )


def event_label(event: Draft) -> str:
    """Return the event's name in an entry, such as `task.created` or `push`."""
    return f"{event.name}.{event.action}" if event.action else event.name


def _target(call: Call) -> str:
    """Return the created object (`task/tsk_…`), or else the object that the path names."""
    thing, _, verb = action_of(call.operation).rpartition(".")
    if verb == "create" and is_page(call.operation):
        return thing  # the path only names the place
    made = _made_id(call.made) if call.operation.method == "POST" else None
    if made is None:
        made = next((str(each) for each in reversed(list(call.request.path_params.values()))), None)
    return f"{thing}/{made}" if made is not None else thing


def _made_id(body: Any) -> object:
    """Return the ID in `{"id": …}` or `{"task": {"id": …}, …}`."""
    fields = msgspec.structs.asdict(body) if isinstance(body, msgspec.Struct) else body
    if not isinstance(fields, dict):
        return None
    if isinstance(fields.get("id"), str | int):
        return fields["id"]
    inner = next(iter(fields.values()), None)
    if isinstance(inner, msgspec.Struct):
        return getattr(inner, "id", None)
    return inner.get("id") if isinstance(inner, dict) else None


# --- names of operations ----------------------------------------------------------------------------------------------

VIEW = "page.view"

_PLACE = re.compile(r"^(repository|organization)_(?=[a-z]+_)|^(app|user)_(?=installations_)")

_TYPES = (
    ("access", ("view", "get", "list", "read", "search", "follow", "report", "authenticate")),
    ("create", ("create", "add", "issue", "register", "install", "upload", "setup", "scope")),
    ("remove", ("delete", "remove", "purge", "revoke", "uninstall")),
    ("restore", ("restore",)),
    ("authentication", ("sign_in", "login", "logout", "sign_out", "authorize")),
)
VERBS = {"created": "create", "deleted": "delete", "removed": "remove", "restored": "restore", "archived": "archive",
         "unarchived": "unarchive", "purged": "purge", "edited": "edit", "added": "add"}  # fmt: skip
"""The verbs of actions, by the actions of their events."""
_TYPE_OF = {verb: kind for kind, verbs in _TYPES for verb in verbs}


def action_of(operation: Operation) -> str:
    """Return the name of the action, which is the same whether it succeeds or is refused."""
    if operation.action:
        return operation.action
    return VIEW if is_page(operation) else _from_name(operation.name, operation.area is WORK_API)


def is_page(operation: Operation) -> bool:
    return operation.name.startswith(("page_", "place_"))


@cache
def _from_name(name: str, verb_first: bool) -> str:
    """Convert the work API's `create_task`, or the webhook API's `repository_hooks_create`."""
    if verb_first:
        verb, _, thing = name.partition("_")
    else:
        thing, _, verb = _split(_PLACE.sub("", name))
    return f"{thing.removesuffix('s')}.{verb}" if thing and verb else thing or verb


def _split(name: str) -> tuple[str, str, str]:
    """Split at the plural: `hooks_update_config` is about a hook, `oauth_apps_create` about an OAuth app."""
    thing, plural, verb = re.sub(r"^((?:re)?deliver)ies_", r"\1ys_", name).partition("s_")
    return (thing, plural, verb) if plural and verb else name.rpartition("_")


def operation_type(action: str) -> str:
    """Return GitHub's name for the type of an action: create, access, modify, remove, restore or authentication."""
    verb = action.rpartition(".")[2]
    return _TYPE_OF.get(verb) or _TYPE_OF.get(verb.partition("_")[0]) or "modify"


# --- refusals ---------------------------------------------------------------------------------------------------------

FLUSH_S = 0.5
PAUSE_MAX_S = 5.0  # between two attempts while the database is unavailable
LATE_MS = MINUTE_MS
PENDING_MAX = 500
ROWS_A_MINUTE = 600  # in one process: about 200 MB a day
ROWS_OF_ONE_A_MINUTE = 100  # from one caller
_STATUSES = frozenset({401, 403, 404, 429})
_ID = re.compile(r"[0-9]{1,16}|[a-z]{2,4}_[0-9a-z]{26}")
_PARAMETER = re.compile(r"\{(\w+)\}")

REFUSALS = Metric("workhook_refusals_total", "Denied attempts, by response status.", ["status"])
REFUSALS_DROPPED = Metric("workhook_audit_refusals_dropped_total", "Denied attempts missing from the audit log.")
log = structlog.get_logger(__name__)


class _Alike(NamedTuple):
    """The key by which refusals are counted together."""

    account_id: int
    repository_id: int | None
    actor_id: object
    token_id: object
    app_id: object
    address: object
    action: str
    status: int
    target: str
    reason: str


class _Seen(NamedTuple):
    at: int
    request_id: str
    times: int


_Refused = dict[_Alike, _Seen]


class Refusals:
    """A buffer of refusals, which are written in the background. They wait while the database is unavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: _Refused = {}
        self._writing: _Refused = {}  # pending again if it cannot be written
        self._closing = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._budget = Budget()
        self._dropped = 0

    def note(self, call: Call, problem: Problem) -> None:
        """Record a problem that is returned to the caller, including `Call.refused`. Used by `http.routing`."""
        if not _counts(call, problem):
            return
        REFUSALS.labels(problem.status).inc()
        key = _key(call, problem)
        caller = (key.actor_id, key.app_id) if key.actor_id or key.app_id else key.address
        seen = self._pending.get(key)
        if seen is not None:
            self._pending[key] = seen._replace(times=seen.times + 1)
        elif len(self._pending) + len(self._writing) < PENDING_MAX and self._budget.take(
            time.monotonic(), known=key.account_id != 0, caller=caller
        ):
            self._pending[key] = _Seen(now_ms(), call.request_id, 1)
        else:
            REFUSALS_DROPPED.inc()
            self._dropped += 1
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_later(), name="refusals")

    async def close(self) -> None:
        """Write pending refusals. If the database is unavailable, they are lost and counted."""
        self._closing.set()
        if self._writer is not None:
            await asyncio.gather(self._writer, return_exceptions=True)
        pending, self._pending = self._pending, {}
        if pending:
            log.warning("refusals_not_audited", count=_drop(pending), note="the database is unavailable")

    async def _write_later(self) -> None:
        pause_s = FLUSH_S
        while self._pending or self._dropped:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause_s)
            written = await self._write()
            if self._closing.is_set() and not written:
                return
            pause_s = FLUSH_S if written else min(pause_s * 2, PAUSE_MAX_S)

    async def _write(self) -> bool:
        """Write pending refusals, perhaps twice after an unconfirmed commit. Returns False if the database is down."""
        dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning("refusals_not_audited", count=dropped, note="there are too many at once")
        if not self._pending:
            return True
        self._writing, self._pending = self._pending, {}
        try:
            await self._database.write(insert, [_row(*each, now_ms()) for each in self._writing.items()])
        except Unavailable as problem:
            log.warning("refusal_audit_delayed", count=len(self._writing), error=problem.message)
            later, self._pending = self._pending, self._writing
            for key, seen in later.items():
                known = self._pending.get(key)
                self._pending[key] = seen if known is None else known._replace(times=known.times + seen.times)
            return False
        except Exception:
            log.exception("refusals_not_audited", count=_drop(self._writing))
        finally:
            self._writing = {}
        return True


def _drop(refused: _Refused) -> int:
    number = sum(each.times for each in refused.values())
    REFUSALS_DROPPED.inc(number)
    return number


class Budget:
    def __init__(self) -> None:
        self._minute_began_s = 0.0
        self._rows = self._unknown = 0
        self._of: Counter[Hashable] = Counter()

    def take(self, now_s: float, *, known: bool, caller: Hashable) -> bool:
        if now_s - self._minute_began_s >= 60:
            self._minute_began_s, self._rows, self._unknown = now_s, 0, 0
            self._of.clear()
        if self._rows >= ROWS_A_MINUTE or (not known and self._unknown >= ROWS_A_MINUTE // 2):
            return False
        if self._of[caller] >= ROWS_OF_ONE_A_MINUTE:
            return False
        self._rows += 1
        self._unknown += not known
        self._of[caller] += 1
        return True


def _counts(call: Call, problem: Problem) -> bool:
    """Return whether a refusal is about invalid credentials, missing rights, a hidden object or the request limit."""
    if problem.status not in _STATUSES:
        return False
    if problem.status == 401:
        return call.header("authorization") is not None or call.refused is problem
    return not isinstance(problem, NotFound) or call.record.hidden


def _key(call: Call, problem: Problem) -> _Alike:
    account_id, repository_id = call.record.place or (0, None)
    target, action = _path_of(call, repository_id)[:TARGET_MAX_CHARS], action_of(call.operation)
    return _Alike(
        account_id, repository_id, **caller(call), action=action, status=problem.status, target=target,
        reason=problem.code,
    )  # fmt: skip


def _path_of(call: Call, repository_id: int | None) -> str:
    """Return the path with the names of the place that was found, and IDs.

    Anything else may be a misplaced secret, and is shown as in the pattern, or as `…` for pages.
    """
    parameters = call.request.path_params if call.record.place else {}
    found = {"org"} if repository_id is None else {"org", "owner", "repo"}
    names = call.record.names
    texts = {name: str(value) for name, value in parameters.items()}
    shown = {
        name: text for name, text in texts.items() if name in found or text.lower() in names or _ID.fullmatch(text)
    }
    hidden = "…" if is_page(call.operation) else None
    return call.prefix + _PARAMETER.sub(lambda each: shown.get(each[1], hidden or each[0]), call.operation.path)


def _row(key: _Alike, seen: _Seen, now: int) -> dict[str, object]:
    """Return the row of a refusal. If written late, its time is `now`, because entries are ordered by time."""
    values = key._asdict()
    detail = {"reason": values.pop("reason")}
    if now - seen.at > LATE_MS:
        detail["refused_at"] = to_millis_text(seen.at)
        seen = seen._replace(at=now)
    return {**values, **seen._asdict(), "detail": json.encode_text(detail)}
