"""The mail queue. Messages are leased by the database's clock, so several processes can share it.

A message is due again when its lease expires. Its attempt count identifies the last process that leased it: only that
process can record the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from workhook.core.clock import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from workhook.core.disclosure import HiddenRepr
from workhook.http.calls import Services
from workhook.identity.mail.recipients import record_bounce
from workhook.identity.tables import ATTEMPTS_MAX, OWN_LINKS, MailKind, is_own_link, mail_messages
from workhook.storage import Database, Reader, Row, Transaction
from workhook.storage.dialects import server_now
from workhook.storage.metadata import bigint_param
from workhook.storage.sweeping import in_batches

LEASE_MS = 5 * MINUTE_MS
"""Longer than the work on a message can take, including rendering its PDF and waiting for the server."""
FIRST_PAUSE_MS, LAST_PAUSE_MS = MINUTE_MS, 4 * HOUR_MS
"""With these pauses (1, 2, 4, 8 … minutes, then 4 hours), the last of `ATTEMPTS_MAX` is two days after the first."""
PER_HOUR = 60  # messages per recipient per hour; others wait, except the recipient's own links
PER_HOUR_FROM_ONE = 20
"""Messages per recipient per hour caused by one other person, who must not use up the recipient's limit."""
BATCH = 1_000
SENT_KEPT_MS, FAILED_KEPT_MS = 7 * DAY_MS, 30 * DAY_MS

_c = mail_messages.c


class MailMessage(HiddenRepr, msgspec.Struct, frozen=True):
    id: int
    user_id: int | None
    kind: MailKind
    actor_id: int | None
    task_id: str | None
    invoice_id: str | None
    invitation_id: int | None
    detail: str | None
    created_at: int
    recipient: str
    language: str | None
    sealed: bytes | None
    attempts: int


_TAKEN = MailMessage.__struct_fields__
_first = mail_messages.alias("first")
_due = (
    sa.select(_first.c.id)
    .where(_first.c.next_attempt_at <= server_now())
    .order_by(_first.c.next_attempt_at, _first.c.id)
    .limit(bigint_param("limit"))
    .with_for_update(skip_locked=True)
)


def _taking(due: sa.Select[Any]) -> sa.UpdateBase:
    return (
        sa.update(mail_messages)
        .where(_c.id.in_(due))
        .values(next_attempt_at=server_now() + bigint_param("lease_ms"), attempts=_c.attempts + sa.literal_column("1"))
        .returning(*(_c[name] for name in _TAKEN))
    )


_take = _taking(_due)
_take_own_links = _taking(_due.where(_first.c.kind.in_([sa.literal_column(f"'{each}'") for each in OWN_LINKS])))
_is_ours = sa.and_(_c.id == bigint_param("id"), _c.attempts == bigint_param("taken"), _c.next_attempt_at.is_not(None))
_failure = sa.bindparam("failure", type_=sa.Text)
_over = {"next_attempt_at": sa.null(), "sealed": sa.null()}


def _set(**values: Any) -> sa.Update:
    return sa.update(mail_messages).where(_is_ours).values(**values)


_outcomes: Mapping[str, sa.UpdateBase] = {
    "sent": _set(sent_at=server_now(), failure=sa.null(), **_over),
    "failed": _set(failed_at=server_now(), failure=_failure, **_over),
    "again": _set(next_attempt_at=server_now() + bigint_param("pause_ms"), failure=_failure),
    "waits": _set(
        next_attempt_at=server_now() + bigint_param("pause_ms"), attempts=_c.attempts - sa.literal_column("1")
    ),
    "dropped": sa.delete(mail_messages).where(_is_ours),
}
_is_from_one = _c.actor_id == bigint_param("actor_id")
_in_hour = sa.select(
    sa.func.count().label("number"),
    (sa.func.min(_c.sent_at) + bigint_param("hour_ms") - server_now()).label("left"),
    sa.func.count(sa.case((_is_from_one, 1))).label("from_one"),
    (sa.func.min(sa.case((_is_from_one, _c.sent_at))) + bigint_param("hour_ms") - server_now()).label("left_from_one"),
).where(
    _c.recipient == sa.bindparam("recipient", type_=sa.Text),
    _c.sent_at > server_now() - bigint_param("hour_ms"),
    sa.not_(is_own_link),
)
_backlog = sa.select(
    sa.func.count().label("waiting"),
    (server_now() - sa.func.min(sa.case((_c.next_attempt_at <= server_now(), _c.created_at)))).label("oldest_ms"),
).where(_c.next_attempt_at.is_not(None))
_past = mail_messages.alias("past")
_old = sa.select(_past.c.id).where(
    sa.or_(_past.c.sent_at < bigint_param("sent_before"), _past.c.failed_at < bigint_param("failed_before"))
)
_forget = sa.delete(mail_messages).where(_c.id.in_(_old.limit(bigint_param("limit")).with_for_update(skip_locked=True)))


async def lease_due(database: Database, limit: int) -> list[MailMessage]:
    """Lease due messages: recipients' own links first, then the messages waiting longest."""

    async def some(tx: Transaction) -> list[Row]:
        rows = list(await tx.fetch_all(_take_own_links, {"limit": limit, "lease_ms": LEASE_MS}))
        if len(rows) < limit:
            rows += await tx.fetch_all(_take, {"limit": limit - len(rows), "lease_ms": LEASE_MS})
        return rows

    return [MailMessage(*(row[name] for name in _TAKEN)) for row in await database.in_transaction(some)]


def pause_after(attempts: int) -> int | None:
    """Return the milliseconds until the next attempt, or None to give up."""
    if attempts >= ATTEMPTS_MAX:
        return None
    pause_ms: int = min(FIRST_PAUSE_MS * 2 ** (attempts - 1), LAST_PAUSE_MS)
    return pause_ms


async def hold_back_ms(reader: Reader, message: MailMessage) -> int:
    """Return how many milliseconds to delay the message because its recipient reached an hourly limit, or 0."""
    if message.kind in OWN_LINKS:  # these have their own limits where they are requested
        return 0
    params = {"recipient": message.recipient, "actor_id": message.actor_id or 0, "hour_ms": HOUR_MS}
    row = await reader.fetch_row(_in_hour, params)
    waits = [row["left"]] if row["number"] >= PER_HOUR else []
    if row["from_one"] >= PER_HOUR_FROM_ONE:
        waits.append(row["left_from_one"])
    return max([*waits, SECOND_MS]) if waits else 0


async def record(
    database: Database,
    message: MailMessage,
    outcome: Literal["sent", "again", "waits", "failed", "dropped"],
    *,
    bounced: str | None = None,
    **values: object,
) -> None:
    """Record the outcome of a message, unless another process has taken it since.

    `waits`: it was not attempted; `failed`: it is kept for a while so that people can see it; `dropped`: there is
    nothing to send, or no recipient. `values`: `failure` (`again`, `failed`) and `pause_ms` (`again`, `waits`).
    `bounced` is the address that gets no further mail.
    """

    async def step(tx: Transaction) -> None:
        done = await tx.execute(_outcomes[outcome], {"id": message.id, "taken": message.attempts, **values})
        if done and bounced is not None and message.user_id is not None:
            await record_bounce(tx, message.user_id, bounced, str(values["failure"]))

    await database.in_transaction(step)


async def find_backlog(reader: Reader) -> tuple[int, int]:
    """Return the number of messages to send, and the age in milliseconds of the oldest one that is due, or 0."""
    row = await reader.fetch_row(_backlog, {})
    return row["waiting"], max(row["oldest_ms"] or 0, 0)


async def delete_old(services: Services, now: int) -> int:
    """Remove messages that were sent a week ago or given up a month ago; return their number. Raises `Unavailable`."""

    async def some(limit: int, _: int) -> int:
        params = {"sent_before": now - SENT_KEPT_MS, "failed_before": now - FAILED_KEPT_MS, "limit": limit}
        return await services.database.in_transaction(lambda tx: tx.execute(_forget, params))

    return await in_batches("mail", BATCH, some)
