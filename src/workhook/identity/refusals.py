"""Refused attempts, in the audit log: written in batches beside the requests, and never more than so many a minute.

A stranger can be refused as often as they like, so what is kept of it is bounded: the memory, and the rows of a minute.
Half of these at most are for what concerns nobody in particular, so that such noise hides nothing that concerns an
organization; and a sixth for one caller, so that nobody hides what somebody else tries behind refusals of their own.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Hashable
from contextlib import suppress
from typing import NamedTuple

import structlog
from prometheus_client import Counter as Metric

from workhook.core import json
from workhook.core.clock import MINUTE_MS, now_ms, to_millis_text
from workhook.core.errors import NotFound, Problem, Unavailable
from workhook.http.calls import Call
from workhook.identity import audit
from workhook.identity.audit_actions import action_of, is_page
from workhook.storage import Database

FLUSH_S = 0.5
PAUSE_MAX_S = 5.0  # between two tries while the database is away
LATE_MS = MINUTE_MS
PENDING_MAX = 500
ROWS_A_MINUTE = 600  # in one process: a day of it is some 200 MB
ROWS_OF_ONE_A_MINUTE = 100  # of these, of one caller
_STATUSES = frozenset({401, 403, 404, 429})
_ID = re.compile(r"[0-9]{1,16}|[a-z]{2,4}_[0-9a-z]{26}")
_PARAMETER = re.compile(r"\{(\w+)\}")

REFUSALS = Metric("workhook_refusals_total", "Refused attempts, by the status that they were answered.", ["status"])
REFUSALS_DROPPED = Metric("workhook_audit_refusals_dropped_total", "Refused attempts that are not in the audit log.")
log = structlog.get_logger(__name__)


class _Alike(NamedTuple):
    """What makes two refusals one entry."""

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
    """`note` is called in the request and does nothing but remember. What waits stays while the database is away."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: _Refused = {}
        self._writing: _Refused = {}  # counts as pending: it is again if it cannot be written
        self._closing = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._budget = Budget()
        self._dropped = 0

    def note(self, call: Call, problem: Problem) -> None:
        """For `http.routing`: every problem that a call is answered with, `Call.refused` too."""
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
        """Write what is pending. If the database is away it is lost, and counted."""
        self._closing.set()
        if self._writer is not None:
            await asyncio.gather(self._writer, return_exceptions=True)
        pending, self._pending = self._pending, {}
        if pending:
            log.warning("refusals_not_in_the_audit_log", number=_drop(pending), note="the database is away")

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
        """False: the database cannot be used, and what was to be written waits. An entry whose commit was never
        answered may be there twice then: better than not at all."""
        dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning("refusals_not_in_the_audit_log", number=dropped, note="there are too many at once")
        if not self._pending:
            return True
        self._writing, self._pending = self._pending, {}
        try:
            await self._database.write([(audit.insert, [_row(*each, now_ms()) for each in self._writing.items()])])
        except Unavailable as problem:
            log.warning("refusals_wait_for_database", number=len(self._writing), reason=problem.message)
            self._pending = _together(self._writing, self._pending)
            return False
        except Exception:
            log.exception("refusals_not_in_the_audit_log", number=_drop(self._writing))
        finally:
            self._writing = {}
        return True


def _together(earlier: _Refused, later: _Refused) -> _Refused:
    found = dict(earlier)
    for key, seen in later.items():
        known = found.get(key)
        found[key] = seen if known is None else known._replace(times=known.times + seen.times)
    return found


def _drop(refused: _Refused) -> int:
    number = sum(each.times for each in refused.values())
    REFUSALS_DROPPED.inc(number)
    return number


class Budget:
    """Rows of a minute."""

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
    """Credentials that are not good, what may not be done, what exists and is not seen, and the request limit."""
    if problem.status not in _STATUSES:
        return False
    if problem.status == 401:
        return call.header("authorization") is not None or call.refused is problem
    return not isinstance(problem, NotFound) or call.record.hidden


def _key(call: Call, problem: Problem) -> _Alike:
    account_id, repository_id = call.record.place or (0, None)
    target = _target(call, repository_id)[: audit.TARGET_MAX_CHARS]
    action = action_of(call.operation)
    return _Alike(
        account_id, repository_id, **audit.caller(call), action=action, status=problem.status, target=target,
        reason=problem.code,
    )  # fmt: skip


def _target(call: Call, repository_id: int | None) -> str:
    """The path, with what is known to be no secret in it: names of the place that was found, and ids. The rest is
    whatever the caller wrote, a token in the wrong place among it, and shows as in the pattern, or as `…` for people
    who read of a page."""
    given = call.request.path_params if call.record.place else {}
    found = {"org"} if repository_id is None else {"org", "owner", "repo"}
    names = call.record.names
    shown = {
        name: value
        for name, value in ((name, str(value)) for name, value in given.items())
        if name in found or value.lower() in names or _ID.fullmatch(value)
    }
    hidden = "…" if is_page(call.operation) else None
    return call.prefix + _PARAMETER.sub(lambda each: shown.get(each[1], hidden or each[0]), call.operation.path)


def _row(key: _Alike, seen: _Seen, now: int) -> dict[str, object]:
    """What the database was away for has the time when it was written: entries stand in the order of their times, and
    are found by that."""
    values = key._asdict()
    detail = {"reason": values.pop("reason")}
    if now - seen.at > LATE_MS:
        detail["refused_at"] = to_millis_text(seen.at)
        seen = seen._replace(at=now)
    return {**values, **seen._asdict(), "detail": json.encode_text(detail)}
