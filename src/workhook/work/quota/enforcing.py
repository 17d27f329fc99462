"""Where a request makes something new, its events are watched: what does not fit is refused before the commit."""

from __future__ import annotations

import msgspec

from workhook.core.errors import Conflict, Forbidden, Problem, TooLarge
from workhook.events.outbox import Draft
from workhook.http.calls import Call, current
from workhook.http.operations import WEBHOOK_API, Operation
from workhook.identity.authenticator import Caller
from workhook.identity.queries import find_member_role
from workhook.storage import Reader, Transaction
from workhook.work.quota.counting import MIB, REFUSALS, StoredUsage, UsageMemory, memory_of

TELLING = frozenset(
    f"{kind}_{name}"
    for kind in ("repository", "organization")
    for name in ("events_publish", "dispatch", "hooks_create", "hooks_ping", "hooks_test", "hooks_test_old")
)
"""Operations of the webhook API that store an event because the caller asks for one."""

MAKING = frozenset(
    {
        "create_project", "add_client", "create_column", "create_task", "change_tasks", "create_file", "create_folder",
        "create_task_comment", "create_file_comment", "create_file_comment_reply", "create_service",
        "create_service_checkout", "create_task_credit", "create_invoice", "create_timesheet",
    }
)  # fmt: skip
"""Operations of the work API that make records. Whatever else writes edits, ends, restores or removes what is there."""

ACTIONS = frozenset({"created", "added", "started", "granted", "spent"})
"""Of the work API's own events, those that tell of a new record."""

REMEDY = (
    "Deleted things count until they have been in the trash for 30 days, and events until they are old enough to be "
    "removed. Delete what is not needed, or ask whoever runs the server for more."
)
_GROWTH = object()


class _Growth(msgspec.Struct):
    """Of one account in one transaction. `asked`: something of it can be refused. `file_bytes`: what its files have, if
    that was counted in the transaction."""

    usage: StoredUsage = StoredUsage(0, 0, 0)
    asked: bool = False
    file_bytes: int | None = None


def watch(tx: Transaction, draft: Draft, size: int) -> None:
    """An `events.outbox.Watcher`. What happens by itself, without a call, is counted the next time."""
    call = current()
    memory = memory_of(call.services) if call is not None else None
    if call is None or memory is None:
        return
    made = _makes(call.operation, draft)
    growth = _growth_of(tx, call, memory, draft.account_id)
    growth.usage += StoredUsage(0, size, 2 if made else 1)  # the event, and the record that it tells of
    growth.asked |= made or call.operation.name in TELLING


def takes_file(
    tx: Transaction, call: Call, memory: UsageMemory, account_id: int, more_bytes: int, *, beside: int
) -> None:
    """No event tells the size of a file. Who calls has counted the files that are there, `beside`, under a lock."""
    growth = _growth_of(tx, call, memory, account_id)
    growth.usage += StoredUsage(more_bytes, 0, 0)
    growth.file_bytes = beside


def _makes(operation: Operation, draft: Draft) -> bool:
    name = operation.name
    if name.endswith("_hooks_create"):
        return True  # it tells of a webhook by a ping
    if name == "create_timesheet" and draft.action == "finished":
        return True  # with a duration it never runs
    if name not in MAKING or draft.action not in ACTIONS:
        return False
    return name != "change_tasks" or draft.name == "task"  # what is moved can start a timer


def _growth_of(tx: Transaction, call: Call, memory: UsageMemory, account_id: int) -> _Growth:
    found: dict[int, _Growth] | None = tx.state.get(_GROWTH)
    if found is None:
        accounts: dict[int, _Growth] = {}
        tx.state[_GROWTH] = found = accounts

        async def check(tx: Transaction) -> None:
            for account_id, growth in accounts.items():
                if growth.asked:
                    await _require_room(tx, call, memory, account_id, growth)

        def remember() -> None:
            for account_id, growth in accounts.items():
                memory.add(account_id, growth.usage)

        tx.before_commit(check)
        tx.after_commit(remember)
    return found.setdefault(account_id, _Growth())


async def _require_room(tx: Transaction, call: Call, memory: UsageMemory, account_id: int, growth: _Growth) -> None:
    used = await memory.usage(account_id)
    if used is None:
        return
    if growth.file_bytes is not None:
        used = msgspec.structs.replace(used, file_bytes=growth.file_bytes)
    limits, more = memory.limits, growth.usage
    if limits.rows and used.rows + more.rows > limits.rows:
        raise await _too_many(tx, call, account_id, used.rows, limits.rows)
    if limits.mb and used.bytes + more.bytes > limits.bytes:
        raise too_large(limits.mb, used.bytes if await _may_know(tx, call, account_id) else None)


async def _too_many(reader: Reader, call: Call, account_id: int, used: int, limit: int) -> Problem:
    REFUSALS.labels("rows").inc()
    uses = f", and has {used:,}" if await _may_know(reader, call, account_id) else ""
    message = f"An organization may have {limit:,} records (organization_max_rows){uses}: this is too much. {REMEDY}"
    kind = Forbidden if call.operation.area is WEBHOOK_API else Conflict
    return kind(message, code="row_quota")


def too_large(max_mb: int, used_bytes: int | None) -> Problem:
    """`used_bytes` None: the caller is not to know it."""
    REFUSALS.labels("bytes").inc()
    uses = f", and {used_bytes / MIB:.1f} MiB are used" if used_bytes is not None else ""
    message = (
        f"An organization's files and events may have {max_mb} MiB together (organization_max_mb){uses}: "
        f"this does not fit. {REMEDY}"
    )
    return TooLarge(message, code="storage_quota")


async def _may_know(reader: Reader, call: Call, account_id: int) -> bool:
    """How much an organization has is the business of its own people, not of its clients."""
    actor = call.actor.actor if isinstance(call.actor, Caller) else None
    if actor is None:
        return False
    return actor.user.id == account_id or await find_member_role(reader, account_id, actor.user.id) is not None
