"""The audit log of an organization, for its owners: a page of it, or all of it as JSON lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from workhook.core.errors import Fault, Invalid, Malformed
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.lists import PER_PAGE, link, per_page_of
from workhook.http.operations import WEBHOOK_API, Query
from workhook.identity import audit_queries
from workhook.identity.audit_phrase import PHRASE_MAX_CHARS, Selection, parse_phrase
from workhook.identity.audit_schemas import AuditEntry, entry_of, line_of
from workhook.identity.authenticator import actor_of, named_organization
from workhook.identity.tokens.kinds import OAUTH
from workhook.storage import Reader, Row

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
        Query("after", "Entries that come after this one, as a `Link` header gave it.", _CURSOR),
        Query("before", "Entries that come before this one, likewise.", _CURSOR),
        Query("order", "`desc` begins with the newest.", {"enum": ["desc", "asc"], "default": "desc"}),
        PER_PAGE,
    ),
    answers={200: list[AuditEntry]},
    other_media_types=(LINES,),
)
async def organization_audit_log_list(call: Call) -> Answer:
    """List the audit log of an organization.

    With `Accept: application/x-ndjson` everything that fits, one line of JSON an entry, without pages.
    """
    selection = parse_phrase(call.query_text("phrase") or "", named_organization(call).account.id)
    include, order = _choice(call, "include", ("web", "git", "all")), _choice(call, "order", ("desc", "asc"))
    newest_first, nothing = order == "desc", include == "git"
    # An OAuth app sees its own webhooks only (the specification, Authentication 3); of those no settings are kept here.
    hooks = actor_of(call).token_kind != OAUTH.name
    if _wants_lines(call.header("accept")):
        body = _lines(call.database, selection, newest_first=newest_first, nothing=nothing, hooks=hooks)
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
    shown = rows if forwards else rows[::-1]
    return Answer(
        [entry_of(row, hooks=hooks) for row in shown], headers=_VARY | _link(call, shown, more, after, forwards)
    )


def _link(call: Call, rows: Sequence[Row], more: bool, after: int | None, forwards: bool) -> dict[str, str]:
    if not rows:
        return {}
    relations: dict[str, dict[str, str | int | None]] = {}
    if more or not forwards:
        relations["next"] = {"after": f"{_MARK}{rows[-1]['id']}", "before": None}
    if (forwards and after is not None) or (not forwards and more):
        relations["prev"] = {"before": f"{_MARK}{rows[0]['id']}", "after": None}
    return {"Link": link(call, relations)} if relations else {}


async def _lines(
    reader: Reader, selection: Selection, *, newest_first: bool, nothing: bool, hooks: bool
) -> AsyncIterator[bytes]:
    if nothing:
        return
    async for rows in audit_queries.read_all(reader, selection, newest_first=newest_first):
        yield b"".join(line_of(row, hooks=hooks) for row in rows)


def _wants_lines(accept: str | None) -> bool:
    return any(each.partition(";")[0].strip().lower() == LINES for each in (accept or "").split(","))


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
