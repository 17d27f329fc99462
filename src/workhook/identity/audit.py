"""The audit log: who did what to what, from where. Written in the transaction of the change itself."""

from __future__ import annotations

from collections.abc import Mapping

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.identity.schemas import Actor
from workhook.identity.tables import audit_log
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into

_insert = insert_into(
    audit_log,
    "at", "account_id", "repository_id", "actor_id", "token_id", "action", "target", "address", "detail",
)  # fmt: skip


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
    """`actor` None: Workhook itself or the command line. `detail` never holds a secret."""
    await tx.execute(
        _insert,
        {
            "at": now_ms(),
            "account_id": account_id,
            "repository_id": repository_id,
            "actor_id": actor.user.id if actor else None,
            "token_id": actor.token_id if actor else None,
            "action": action,
            "target": target,
            "address": actor.address if actor else None,
            "detail": json.encode_text(dict(detail or {})),
        },
    )
