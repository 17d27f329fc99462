"""The audit log of an organization, for its owners, in pages or as a whole in JSON lines."""

from __future__ import annotations

from collections.abc import Sequence

from workhook.core.errors import Fault, Invalid, Malformed, say
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.lists import PER_PAGE, link, per_page_of
from workhook.http.negotiation import weighted
from workhook.http.operations import WEBHOOK_API, Query
from workhook.identity import audit_queries
from workhook.identity.authenticator import actor_of, named_organization
from workhook.identity.tokens.issue import OAUTH
from workhook.storage import Row

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
            {"type": "string", "maxLength": audit_queries.PHRASE_MAX_CHARS},
        ),
        Query(
            "include",
            "`web` and `all` include all entries; `git` is accepted and always empty.",
            {"enum": ["web", "git", "all"]},
        ),
        Query("after", "Entries after this cursor from a `Link` header.", _CURSOR),
        Query("before", "Entries before this cursor from a `Link` header.", _CURSOR),
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
    # An OAuth app sees only its own webhooks (specification, Authentication 3), whose settings are not stored here.
    hooks = actor_of(call).token_kind != OAUTH.name
    if any(name == audit_queries.LINES for name, _ in weighted(call.header("accept"))):
        body = audit_queries.export_lines(
            call.database, selection, newest_first=newest_first, nothing=nothing, hooks=hooks
        )
        return Response(body, media_type=audit_queries.LINES, headers=_VARY)
    per_page = per_page_of(call)
    after, before = _cursor(call, "after"), _cursor(call, "before")
    if after is not None and before is not None:
        raise Invalid(faults=[_fault("before", "before and after cannot be combined")])
    if nothing:
        return Response([], headers=_VARY)
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
    return Response([audit_queries.entry_of(row, hooks=hooks) for row in page], headers=headers)


def _link(call: Call, rows: Sequence[Row], more: bool, after: int | None, forwards: bool) -> dict[str, str]:
    if not rows:
        return {}
    relations: dict[str, dict[str, str | int | None]] = {}
    if more or not forwards:
        relations["next"] = {"after": f"{_MARK}{rows[-1]['id']}", "before": None}
    if (forwards and after is not None) or (not forwards and more):
        relations["prev"] = {"before": f"{_MARK}{rows[0]['id']}", "after": None}
    return {"Link": link(call, relations)} if relations else {}


def _choice(call: Call, name: str, known: tuple[str, ...]) -> str:
    """Return a query parameter, by default its first choice. Raises `Invalid`."""
    value = call.query_text(name) or known[0]
    if value not in known:
        raise Invalid(faults=[_fault(name, say("{} must be one of {}", name, ", ".join(known)))])
    return value


def _cursor(call: Call, name: str) -> int | None:
    """Return the ID in a cursor. Raises `Malformed` for values that do not come from a `Link` header."""
    text = call.query_text(name)
    if text is None:
        return None
    number = text.removeprefix(_MARK)
    if not text.startswith(_MARK) or not number.isascii() or not number.isdigit() or len(number) > 16:
        raise Malformed("The cursor does not come from a Link header.", code="bad_cursor")
    return int(number)


def _fault(field: str, message: str) -> Fault:
    return Fault(resource="AuditLog", field=field, message=message)
