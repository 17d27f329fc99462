"""The audit log of an organization, for its owners, in pages or as a whole in JSON lines."""

from __future__ import annotations

from collections.abc import Sequence

from workhook.core.errors import Fault, Invalid, say
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.lists import ID_CURSOR, PER_PAGE, cursor_at, link, parse_cursor, per_page_of
from workhook.http.negotiation import weighted
from workhook.http.operations import WEBHOOK_API, Query
from workhook.identity import audit_queries
from workhook.identity.authenticator import actor_of, named_organization
from workhook.identity.tokens.issue import OAUTH
from workhook.storage import Row

_VARY = {"Vary": "Accept"}
_INCLUDED = {"enum": ["web", "git", "all"]}

routes = Routes(WEBHOOK_API, "audit log", read="audit_log.read")


@routes.get(
    "/orgs/{org}/audit-log",
    query=(
        Query(
            "phrase",
            "Which entries: `action:hook.create` (or `action:hook`), `actor:octo`, `repo:acme/website`, "
            "`created:>=2026-11-01` (a day, a time, or a range with `..`), and a word that the action contains.",
            {"type": "string", "maxLength": audit_queries.PHRASE_MAX_CHARS},
        ),
        Query("include", "`web` and `all` include all entries; `git` is accepted and always empty.", _INCLUDED),
        Query("after", "Entries after this cursor from a `Link` header.", ID_CURSOR),
        Query("before", "Entries before this cursor from a `Link` header.", ID_CURSOR),
        Query("order", "`desc`: newest first.", {"enum": ["desc", "asc"], "default": "desc"}),
        PER_PAGE,
    ),
    answers={200: list[audit_queries.AuditEntry]},
    other_media_types=(audit_queries.LINES,),
)
async def organization_audit_log_list(call: Call) -> Response:
    """List the audit log of an organization.

    With `Accept: application/x-ndjson`, all matching entries are returned without pagination, one JSON object per line.
    """
    selection = audit_queries.parse_phrase(call.query_text("phrase") or "", named_organization(call).account.id)
    include, order = _choice(call, "include", ("web", "git", "all")), _choice(call, "order", ("desc", "asc"))
    newest_first, nothing = order == "desc", include == "git"
    # An OAuth app sees only its own webhooks (`hooks.schemas.HookViewer`), whose settings are not stored here.
    hooks = actor_of(call).token_kind != OAUTH.name
    if any(name == audit_queries.LINES for name, _ in weighted(call.header("accept"))):
        body = audit_queries.export_lines(
            call.database, selection, newest_first=newest_first, nothing=nothing, hooks=hooks
        )
        return Response(body, media_type=audit_queries.LINES, headers=_VARY)
    per_page = per_page_of(call)
    after, before = (parse_cursor(call.query_text(name)) for name in ("after", "before"))
    if after is not None and before is not None:
        raise Invalid(faults=[_fault("before", "before and after cannot be combined")])
    if nothing:
        return Response([], headers=_VARY)
    forwards = before is None
    beyond, newest_first = after if forwards else before, newest_first is forwards
    rows = await audit_queries.read(
        call.database, selection, newest_first=newest_first, beyond=beyond, limit=per_page + 1
    )
    more, rows = len(rows) > per_page, rows[:per_page]
    page = rows if forwards else rows[::-1]
    headers = _VARY | _link(call, page, more, after, forwards)
    return Response([audit_queries.entry_of(row, hooks=hooks) for row in page], headers=headers)


def _link(call: Call, rows: Sequence[Row], more: bool, after: int | None, forwards: bool) -> dict[str, str]:
    if not rows:
        return {}
    relations: dict[str, dict[str, str | int | None]] = {}
    if more or not forwards:
        relations["next"] = {"after": cursor_at(rows[-1]), "before": None}
    if (forwards and after is not None) or (not forwards and more):
        relations["prev"] = {"before": cursor_at(rows[0]), "after": None}
    return {"Link": link(call, relations)} if relations else {}


def _choice(call: Call, name: str, known: tuple[str, ...]) -> str:
    """Return a query parameter, by default its first choice. Raises `Invalid`."""
    value = call.query_text(name) or known[0]
    if value not in known:
        raise Invalid(faults=[_fault(name, say("{} must be one of {}", name, ", ".join(known)))])
    return value


def _fault(field: str, message: str) -> Fault:
    return Fault(resource="AuditLog", field=field, message=message)
