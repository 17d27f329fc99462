"""The audit log of an organization, for its owners: a page of it, or all of it as JSON lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from workhook.core import json
from workhook.core.errors import Fault, Invalid, Malformed
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.lists import PER_PAGE, link, per_page_of
from workhook.http.negotiation import weighted
from workhook.http.operations import WEBHOOK_API, Query
from workhook.identity import audit_queries
from workhook.identity.audit import operation_type
from workhook.identity.audit_queries import PHRASE_MAX_CHARS, Selection, parse_phrase
from workhook.identity.authenticator import actor_of, named_organization
from workhook.identity.tokens.issue import KINDS, OAUTH
from workhook.storage import Reader, Row


class AuditEntry(msgspec.Struct):
    """Who did what to what, and from where; or what was refused."""

    timestamp: Annotated[int, Meta(description="Milliseconds since the epoch.")] = msgspec.field(name="@timestamp")
    document_id: Annotated[str, Meta(description="Id of this entry.")] = msgspec.field(name="_document_id")
    action: Annotated[str, Meta(examples=["hook.create", "task.edit"])]
    operation_type: Annotated[str, Meta(examples=["create", "access", "modify", "remove", "restore"])]
    created_at: Annotated[int, Meta(description="The same as `@timestamp`.")]
    actor: Annotated[str | None, Meta(description="Null for Workhook itself and for its command line.")]
    actor_id: int | None
    actor_ip: str | None
    org: Annotated[str | None, Meta(description="The organization that the entry is about.")]
    org_id: int | None
    repo: Annotated[str | None, Meta(description="`owner/name`.")]
    repo_id: int | None
    user: Annotated[str | None, Meta(description="The person whom the entry is about, if there is one.")]
    token_id: int | None
    programmatic_access_type: Annotated[str | None, Meta(examples=["classic personal access token"])]
    app_id: Annotated[int | None, Meta(description="The app that called, or that the token was issued to.")]
    request_id: Annotated[str | None, Meta(description="The `X-Request-Id` of the request.")]
    status: Annotated[int | None, Meta(description="Null: it was done. Otherwise the status of the refusal.")]
    times: Annotated[int, Meta(ge=1, description="Number of like refusals at about that time.")]
    target: Annotated[str, Meta(examples=["hook/7"], description="What was acted on; for a refusal, the path.")]
    data: Annotated[dict[str, Any], Meta(description="More details. Never a secret.")]


def entry_of(row: Row, *, hooks: bool = True) -> AuditEntry:
    """From a row of `audit_queries.read`. `hooks` False: for who sees no webhooks of others, their settings are left
    out."""
    action, kind = row["action"], KINDS.get(row["token_kind"] or "")
    data = json.decode(row["detail"])
    if not hooks and action.startswith("hook."):
        for name in ("config", "changed", "before", "secrets"):
            data.pop(name, None)
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


LINES = "application/x-ndjson"
_VARY = {"Vary": "Accept"}
_MARK = "v1_"
_CURSOR = {"type": "string", "pattern": "^v1_[0-9]{1,16}$"}

routes = Routes(WEBHOOK_API, "audit log", read="audit_log.read")


@routes.get(
    "/orgs/{org}/audit-log",
    query=(
        Query(
            "phrase",
            "Which entries: `action:hook.create` (or `action:hook`), `actor:octo`, `repo:acme/website`, "
            "`created:>=2026-11-01` (a day, a time, or a range with `..`), and a word that the action contains.",
            {"type": "string", "maxLength": PHRASE_MAX_CHARS},
        ),
        Query(
            "include",
            "`git` is what is done over Git, of which Workhook has nothing; `web` and `all` are the rest.",
            {"enum": ["web", "git", "all"]},
        ),
        Query("after", "Entries after this one; the value comes from a `Link` header.", _CURSOR),
        Query("before", "Entries before this one; the value comes from a `Link` header.", _CURSOR),
        Query("order", "`desc` begins with the newest.", {"enum": ["desc", "asc"], "default": "desc"}),
        PER_PAGE,
    ),
    answers={200: list[AuditEntry]},
    other_media_types=(LINES,),
)
async def organization_audit_log_list(call: Call) -> Answer:
    """List the audit log of an organization.

    With `Accept: application/x-ndjson` you get all matching entries, one line of JSON each, without pages.
    """
    selection = parse_phrase(call.query_text("phrase") or "", named_organization(call).account.id)
    include, order = _choice(call, "include", ("web", "git", "all")), _choice(call, "order", ("desc", "asc"))
    newest_first, nothing = order == "desc", include == "git"
    # An OAuth app sees its own webhooks only (the specification, Authentication 3); of those no settings are kept here.
    hooks = actor_of(call).token_kind != OAUTH.name
    if any(name == LINES for name, _ in weighted(call.header("accept"))):
        body = export_lines(call.database, selection, newest_first=newest_first, nothing=nothing, hooks=hooks)
        return Answer(body, media_type=LINES, headers=_VARY)
    per_page = per_page_of(call)
    after, before = _cursor(call, "after"), _cursor(call, "before")
    if after is not None and before is not None:
        raise Invalid(faults=[_fault("before", "before and after do not go together")])
    if nothing:
        return Answer([], headers=_VARY)
    forwards = before is None
    rows = await audit_queries.read(
        call.database,
        selection,
        newest_first=newest_first is forwards,
        beyond=after if forwards else before,
        limit=per_page + 1,
    )
    more, rows = len(rows) > per_page, rows[:per_page]
    page = rows if forwards else rows[::-1]
    headers = _VARY | _link(call, page, more, after, forwards)
    return Answer([entry_of(row, hooks=hooks) for row in page], headers=headers)


def _link(call: Call, rows: Sequence[Row], more: bool, after: int | None, forwards: bool) -> dict[str, str]:
    if not rows:
        return {}
    relations: dict[str, dict[str, str | int | None]] = {}
    if more or not forwards:
        relations["next"] = {"after": f"{_MARK}{rows[-1]['id']}", "before": None}
    if (forwards and after is not None) or (not forwards and more):
        relations["prev"] = {"before": f"{_MARK}{rows[0]['id']}", "after": None}
    return {"Link": link(call, relations)} if relations else {}


async def export_lines(
    reader: Reader, selection: Selection, *, newest_first: bool = True, nothing: bool = False, hooks: bool = True
) -> AsyncIterator[bytes]:
    """Every entry that fits, a line of JSON each; with `nothing`, none."""
    if nothing:
        return
    async for rows in audit_queries.read_all(reader, selection, newest_first=newest_first):
        yield b"".join(line_of(row, hooks=hooks) for row in rows)


def _choice(call: Call, name: str, known: tuple[str, ...]) -> str:
    """The first is the default. Raises `Invalid`."""
    given = call.query_text(name) or known[0]
    if given not in known:
        raise Invalid(faults=[_fault(name, f"{name} must be one of {', '.join(known)}")])
    return given


def _cursor(call: Call, name: str) -> int | None:
    """An id. Raises `Malformed` for anything that no `Link` gave out."""
    text = call.query_text(name)
    if text is None:
        return None
    number = text.removeprefix(_MARK)
    if not text.startswith(_MARK) or not number.isascii() or not number.isdigit() or len(number) > 16:
        raise Malformed("The cursor is not one that a Link header gave out.", code="bad_cursor")
    return int(number)


def _fault(field: str, message: str) -> Fault:
    return Fault(resource="AuditLog", field=field, message=message)
