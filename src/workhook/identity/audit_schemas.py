"""Entries of the audit log, as clients know them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from workhook.core import json
from workhook.identity.audit_actions import operation_type
from workhook.identity.tokens.kinds import KINDS
from workhook.storage import Row


class AuditEntry(msgspec.Struct):
    """Who did what to what, from where; or what was refused."""

    timestamp: Annotated[int, Meta(description="Milliseconds since the epoch.")] = msgspec.field(name="@timestamp")
    document_id: Annotated[str, Meta(description="Of this entry alone.")] = msgspec.field(name="_document_id")
    action: Annotated[str, Meta(examples=["hook.create", "task.edit"])]
    operation_type: Annotated[str, Meta(examples=["create", "access", "modify", "remove", "restore"])]
    created_at: Annotated[int, Meta(description="The same as `@timestamp`.")]
    actor: Annotated[str | None, Meta(description="Null for Workhook itself and for its command line.")]
    actor_id: int | None
    actor_ip: str | None
    org: Annotated[str | None, Meta(description="The organization that it concerns.")]
    org_id: int | None
    repo: Annotated[str | None, Meta(description="`owner/name`.")]
    repo_id: int | None
    user: Annotated[str | None, Meta(description="Whom it was about, where that was somebody.")]
    token_id: int | None
    programmatic_access_type: Annotated[str | None, Meta(examples=["classic personal access token"])]
    app_id: Annotated[int | None, Meta(description="The app that called, or that the token was issued to.")]
    request_id: Annotated[str | None, Meta(description="The `X-Request-Id` of its answer.")]
    status: Annotated[int | None, Meta(description="Null: it was done. Else how it was refused.")]
    times: Annotated[int, Meta(ge=1, description="Refusals that were alike, at about that time.")]
    target: Annotated[str, Meta(examples=["hook/7"], description="What was acted on; of a refusal the path.")]
    data: Annotated[dict[str, Any], Meta(description="More of it. Never a secret.")]


def entry_of(row: Row, *, hooks: bool = True) -> AuditEntry:
    """From a row of `audit_queries.read`. `hooks` False: for who sees no webhooks of others, their settings are left
    out."""
    action, kind = row["action"], KINDS.get(row["token_kind"] or "")
    data = json.decode(row["detail"])
    if not hooks and action.startswith("hook."):
        data.pop("config", None)
    return AuditEntry(
        timestamp=row["at"],
        document_id=f"AL_{row['id']}",
        action=action,
        operation_type=operation_type(action),
        created_at=row["at"],
        actor=row["actor"],
        actor_id=row["actor_id"],
        actor_ip=row["address"],
        org=row["place"],
        org_id=row["account_id"] or None,
        repo=f"{row['owner']}/{row['repository']}" if row["owner"] else None,
        repo_id=row["repository_id"],
        user=row["target"] if action.startswith("member.") and row["status"] is None else None,
        token_id=row["token_id"],
        programmatic_access_type=kind.title if kind else None,
        app_id=row["app_id"],
        request_id=row["request_id"],
        status=row["status"],
        times=row["times"],
        target=row["target"],
        data=data,
    )


def line_of(row: Row, *, hooks: bool = True) -> bytes:
    """One line of JSON."""
    return json.on_one_line(json.encode(entry_of(row, hooks=hooks))) + b"\n"
