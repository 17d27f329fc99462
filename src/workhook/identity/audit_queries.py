"""Queries on the audit log, by a phrase like the following, and deletion by age.

    action:hook.create actor:octo repo:acme/website created:>=2026-11-01

Entries are read from one index range for each distinct action of the account (of the actor, in the repository, or of
the actor in the repository). The number of actions is limited.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from workhook.core import json
from workhook.core.clock import DAY_MS, MINUTE_MS, now_ms, parse_rfc3339
from workhook.core.errors import Fault, Invalid, shown
from workhook.identity.audit import operation_type
from workhook.identity.queries import key_of
from workhook.identity.tables import accounts, audit_log, projects, tokens
from workhook.identity.tokens.issue import KINDS
from workhook.storage import Database, Reader, Row
from workhook.storage.dialects import any_of, join_few
from workhook.storage.index_ranges import TimeIndex, index_range
from workhook.storage.metadata import bigint_param
from workhook.storage.statements import PerDialect
from workhook.storage.sweeping import in_order

QUALIFIERS = ("action", "actor", "repo", "created")
PHRASE_MAX_CHARS = 256
_OPERATORS = re.compile(r"(>=|<=|>|<)?(.*)", re.DOTALL)


class Selection(msgspec.Struct, frozen=True):
    """Filters, all of which must match. Times are in milliseconds; `since` is inclusive, `until` exclusive."""

    account_id: int | None = None  # None: every account, for the operator
    action: str | None = None  # complete, or the part before the period
    text: str | None = None  # part of the action
    actor: str | None = None
    owner: str | None = None
    repository: str | None = None
    since: int | None = None
    until: int | None = None


def parse_phrase(phrase: str, account_id: int | None) -> Selection:
    """Parse a phrase. Raises `Invalid` with all faults."""
    found: dict[str, str | int] = {}
    faults: list[str] = []
    words: list[str] = []
    if len(phrase) > PHRASE_MAX_CHARS:
        faults.append(f"phrase must have at most {PHRASE_MAX_CHARS} characters")
        phrase = ""
    for term in phrase.split():
        name, colon, value = term.partition(":")
        if not colon:
            words.append(term)
        elif name not in QUALIFIERS or not value:
            known = ", ".join(f"{each}:" for each in QUALIFIERS)
            faults.append(f"phrase contains {shown(term)}; use one of {known} with a value")
        elif fields := _fields(name, value.strip('"')):
            if found.keys() & fields.keys():
                faults.append(f"phrase contains {name}: more than once")
            found |= fields
        else:
            faults.append(f"phrase contains {shown(term)}: {_WANTED[name]}")
    if len(words) > 1:
        faults.append("phrase can have one word besides its qualifiers: a part of an action")
    if faults:
        raise Invalid(faults=[Fault(resource="AuditLog", field="phrase", message=each) for each in faults])
    text = words[0].lower() if words else None
    return msgspec.convert({**found, "account_id": account_id, "text": text}, Selection)


_WANTED = {
    "action": "use an action such as action:hook.create, or action:hook for all of these",
    "actor": "use a login such as actor:octo",
    "repo": "use an owner and a name such as repo:acme/website",
    "created": "use a day, a time, or a range such as created:>=2026-11-01 or created:2026-11-01..2026-11-30",
}


def _fields(name: str, value: str) -> Mapping[str, str | int]:
    """Return the fields that a qualifier sets, or an empty mapping for an invalid value."""
    if name == "action":
        return {"action": value.lower()}
    if name == "actor":
        return {"actor": key_of(value)}
    if name == "repo":
        owner, slash, repository = value.partition("/")
        named = slash and owner and repository
        return {"owner": key_of(owner), "repository": key_of(repository)} if named else {}
    return _range(value)


def _range(value: str) -> dict[str, int]:
    try:
        first, dots, last = value.partition("..")
        if dots:
            bounds = {} if first in ("", "*") else {"since": _span(first)[0]}
            return bounds if last in ("", "*") else {**bounds, "until": _span(last)[1]}
        operator, moment = _OPERATORS.fullmatch(value).groups()  # type: ignore[union-attr]  # matches any text
        begin, end = _span(moment)
    except (ValueError, OverflowError):
        return {}
    if operator in (">=", ">"):
        return {"since": begin if operator == ">=" else end}
    if operator in ("<", "<="):
        return {"until": begin if operator == "<" else end}
    return {"since": begin, "until": end}


def _span(text: str) -> tuple[int, int]:
    """Return the start and end of a day (UTC), or of the second of a time. Raises `ValueError`."""
    if len(text) == 10:
        day = date.fromisoformat(text)
        begin = round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
        return begin, begin + DAY_MS
    begin = parse_rfc3339(text)
    return begin, begin + (1000 if begin % 1000 == 0 else 1)


STREAM_PAGE = 500
PRUNE_BATCH = 1000

_actors, _places, _owners = (accounts.alias(name) for name in ("actors", "places", "owners"))
_logins = ((_actors, "actor"), (_places, "place"), (_owners, "owner"))
_entries = (
    sa.select(*audit_log.c, *(account.c.login.label(name) for account, name in _logins))
    .add_columns(projects.c.name.label("repository"), tokens.c.kind.label("token_kind"))
    .select_from(audit_log)
    .outerjoin(_actors, _actors.c.id == audit_log.c.actor_id)
    .outerjoin(_places, _places.c.id == audit_log.c.account_id)
    .outerjoin(projects, projects.c.repository_id == audit_log.c.repository_id)
    .outerjoin(_owners, _owners.c.id == projects.c.account_id)
    .outerjoin(tokens, tokens.c.id == audit_log.c.token_id)
)
_text = sa.bindparam("text", type_=sa.Text())
_action, _category = sa.bindparam("action", type_=sa.Text()), sa.bindparam("category", type_=sa.Text())


def _about_action(action: sa.ColumnElement[Any]) -> dict[str, sa.ColumnElement[bool]]:
    """Return the conditions that the action or its category matches, and that it contains the text."""
    beginning = sa.func.substr(action, 1, sa.func.length(_category))
    return {
        "action": sa.or_(action == _action, beginning == _category),
        "text": sa.func.replace(action, _text, "") != action,
    }


_CONDITIONS: Mapping[str, sa.ColumnElement[bool]] = {
    "account_id": audit_log.c.account_id == bigint_param("account_id"),
    **_about_action(audit_log.c.action),
    "actor": _actors.c.login_key == sa.bindparam("actor"),
    "owner": _owners.c.login_key == sa.bindparam("owner"),
    "repository": sa.func.lower(projects.c.name) == sa.bindparam("repository"),
    "since": audit_log.c.at >= bigint_param("since"),
    "until": audit_log.c.at < bigint_param("until"),
}
# In order of age, except for delayed refusals.
_by_age = (
    sa.select(audit_log.c.id, audit_log.c.at)
    .where(audit_log.c.id > bigint_param("after_id"))
    .order_by(audit_log.c.id)
    .limit(bigint_param("limit"))
)
_prune = sa.delete(audit_log).where(any_of(audit_log.c.id, "ids"))


moments = TimeIndex(audit_log, "at", slack_ms=5 * MINUTE_MS)  # refusals are delayed by at most a minute


@cache
def _statement(filters: frozenset[str], *, newest_first: bool, beyond: bool) -> sa.Select[Any]:
    """Return the statement for these filters, whatever their values. With `beyond`, it starts after `cursor`."""
    statement = _entries.where(*(_CONDITIONS[name] for name in sorted(filters)))
    number, cursor = audit_log.c.id, bigint_param("cursor")
    if beyond:
        statement = statement.where(number < cursor if newest_first else number > cursor)
    return statement.order_by(number.desc() if newest_first else number).limit(bigint_param("limit"))


@cache
def _of_account(filters: frozenset[str], newest_first: bool) -> PerDialect:
    def write(dialect: str) -> sa.Select[Any]:
        found = entry_ids(dialect, filters, newest_first).subquery("found")
        by_id = [each.desc() if newest_first else each for each in (found.c.id, audit_log.c.id)]
        first = sa.select(found.c.id).order_by(by_id[0]).limit(bigint_param("limit"))
        return _entries.where(audit_log.c.id.in_(first)).order_by(by_id[1])

    return PerDialect.made_by(write)


async def read(
    reader: Reader,
    selection: Selection,
    *,
    newest_first: bool = True,
    beyond: int | None = None,
    limit: int,
    patient: bool = False,
) -> Sequence[Row]:
    """Return at most `limit` entries after the ID `beyond`. Raises `QueryTooSlow` unless `patient` (for commands)."""
    filters = _given(selection)
    names, params = frozenset(filters), {**_params(filters), "limit": limit, "cursor": beyond}
    if "account_id" not in filters:
        return await reader.fetch_all(_statement(names, newest_first=newest_first, beyond=beyond is not None), params)
    within = await moments.bounds(reader, since=selection.since, until=selection.until)
    params["low"] = within.low if newest_first else max(within.low, beyond or 0)
    params["high"] = min(within.high, beyond) if newest_first and beyond is not None else within.high
    # With both filters, many other rows may be read (`entry_ids`).
    fetch = reader.fetch_slow if filters.keys() >= {"actor", "repository"} and not patient else reader.fetch_all
    return await fetch(_of_account(names, newest_first), params)


async def read_all(
    reader: Reader, selection: Selection, *, newest_first: bool = True, patient: bool = False
) -> AsyncIterator[Sequence[Row]]:
    """Yield all matches in batches, except entries that are added in the meantime."""
    if selection.until is None:
        selection = msgspec.structs.replace(selection, until=now_ms() + 1)
    beyond = None
    while True:
        rows = await read(
            reader, selection, newest_first=newest_first, beyond=beyond, limit=STREAM_PAGE, patient=patient
        )
        if rows:
            yield rows
        if len(rows) < STREAM_PAGE:
            return
        beyond = rows[-1]["id"]


async def count(reader: Reader, selection: Selection) -> int:
    filters = _given(selection)
    return int((await reader.fetch_row(_count(frozenset(filters)), _params(filters)))["number"])


def _given(selection: Selection) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(selection).items() if value is not None}


def _params(filters: Mapping[str, Any]) -> dict[str, Any]:
    return {**filters, "category": f"{filters['action'].rstrip('.')}."} if "action" in filters else dict(filters)


@cache
def _count(filters: frozenset[str]) -> sa.Select[Any]:
    chosen = _entries.where(*(_CONDITIONS[name] for name in sorted(filters)))
    return chosen.with_only_columns(sa.func.count().label("number"))


async def prune(database: Database, before: int) -> int:
    """Delete the entries before `before` (milliseconds). Returns their number."""

    async def following(last: Row | None, limit: int) -> Sequence[Row]:
        rows = await database.fetch_all(_by_age, {"after_id": last["id"] if last else 0, "limit": limit})
        return rows if any(row["at"] < before for row in rows) else []

    async def remove(last: Row | None, rows: Sequence[Row]) -> int:
        ids = [row["id"] for row in rows if row["at"] < before]
        return await database.in_transaction(lambda tx: tx.execute(_prune, {"ids": ids}))

    return await in_order("audit_log", PRUNE_BATCH, following, remove)


async def actions_of(reader: Reader, account_id: int) -> list[str]:
    return [row["action"] for row in await reader.fetch_all(_actions_of, {"account_id": account_id})]


_acting = accounts.alias("acting")
_actor = sa.select(_acting.c.id.label("place")).where(_acting.c.login_key == sa.bindparam("actor"))


def entry_ids(dialect: str, filters: frozenset[str], newest_first: bool) -> sa.Select[Any]:
    """Select the IDs of matches. Parameters: the fields named by `filters`, `category`, `low`, `high` and `limit`."""
    row = audit_log.alias("stretch")
    account_id = bigint_param("account_id")
    bounds = {"since": row.c.at >= bigint_param("since"), "until": row.c.at < bigint_param("until")}
    times = [bound for name, bound in bounds.items() if name in filters]
    if not filters & {"action", "text", "actor", "repository"}:
        first = index_range(dialect, [(row.c.account_id, account_id)], row.c.id, newest_first=newest_first)
        return sa.select(first.where(*times).subquery("first").c.id)
    each = _each(filters).subquery("each_action")
    conditions = [row.c.account_id == account_id, row.c.id > bigint_param("low"), row.c.id < bigint_param("high")]
    conditions += [*times, row.c.action == each.c.action, *_at(row, filters, each.c.place)]
    order = row.c.id.desc() if newest_first else row.c.id
    top = sa.select(row.c.id).where(*conditions).order_by(order).limit(bigint_param("limit"))
    joined, few = join_few(dialect, each, top.correlate(each), audit_log)
    return sa.select(few.c.id).select_from(joined)


def _at(row: sa.FromClause, filters: frozenset[str], place: sa.ColumnElement[Any]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions on the index columns after the account."""
    if "repository" not in filters:
        return [row.c.actor_id == place] if "actor" in filters else []
    conditions = [row.c.repository_id == place]
    return [*conditions, row.c.actor_id == _actor.scalar_subquery()] if "actor" in filters else conditions


def _select_places(filters: frozenset[str]) -> sa.Select[Any]:
    """Select the repository or else the actor, or a placeholder row."""
    if "repository" in filters:
        owners = accounts.alias("owners")
        named = sa.func.lower(projects.c.name) == sa.bindparam("repository")
        return (
            sa.select(projects.c.repository_id.label("place"))
            .join_from(projects, owners, owners.c.id == projects.c.account_id)
            .where(owners.c.login_key == sa.bindparam("owner"), named)
        )
    return _actor if "actor" in filters else sa.select(sa.literal_column("0", sa.BigInteger).label("place"))


def _each(filters: frozenset[str]) -> sa.Select[Any]:
    """Select the distinct matching actions, with one index lookup each."""
    place = _select_places(filters).subquery("each_place")

    def next_action(name: str, at: sa.ColumnElement[Any], after: sa.ColumnElement[Any] | None) -> Any:
        row = audit_log.alias(name)
        mine = [row.c.account_id == bigint_param("account_id"), *_at(row, filters, at)]
        found = sa.select(sa.func.min(row.c.action)).where(*mine)
        return found if after is None else found.where(row.c.action > after)

    first = next_action("first_action", place.c.place, None).correlate(place).scalar_subquery()
    walk = sa.select(place.c.place, first.label("action")).cte("walk", recursive=True)
    later = next_action("later_action", walk.c.place, walk.c.action).correlate(walk).scalar_subquery()
    walk = walk.union_all(sa.select(walk.c.place, later).where(walk.c.action.is_not(None)))
    found = sa.select(walk.c.place, walk.c.action).where(walk.c.action.is_not(None))
    return found.where(*(each for name, each in _about_action(walk.c.action).items() if name in filters))


_actions_of = _each(frozenset({"account_id"})).order_by("action")


class AuditEntry(msgspec.Struct):
    """An entry of the audit log: an action or a refused request."""

    timestamp: Annotated[int, Meta(description="Milliseconds since the epoch.")] = msgspec.field(name="@timestamp")
    document_id: Annotated[str, Meta(description="ID of this entry.")] = msgspec.field(name="_document_id")
    action: Annotated[str, Meta(examples=["hook.create", "task.edit"])]
    operation_type: Annotated[str, Meta(examples=["create", "access", "modify", "remove", "restore"])]
    created_at: Annotated[int, Meta(description="The same as `@timestamp`.")]
    actor: Annotated[str | None, Meta(description="Null for Workhook itself and the command line.")]
    actor_id: int | None
    actor_ip: str | None
    org: Annotated[str | None, Meta(description="Organization the entry is about.")]
    org_id: int | None
    repo: Annotated[str | None, Meta(description="`owner/name`.")]
    repo_id: int | None
    user: Annotated[str | None, Meta(description="User the entry is about, if any.")]
    token_id: int | None
    programmatic_access_type: Annotated[str | None, Meta(examples=["classic personal access token"])]
    app_id: Annotated[int | None, Meta(description="App that made the request, or that the token was issued to.")]
    request_id: Annotated[str | None, Meta(description="The `X-Request-Id` of the request.")]
    status: Annotated[
        int | None,
        Meta(description="Null if the action succeeded; otherwise the status of the response that denied it."),
    ]
    times: Annotated[int, Meta(ge=1, description="Number of similar denied attempts around that time.")]
    target: Annotated[
        str, Meta(examples=["hook/7"], description="Target of the action; for a denied attempt, the path.")
    ]
    data: Annotated[dict[str, Any], Meta(description="Further details, never a secret.")]


def entry_of(row: Row, *, hooks: bool = True) -> AuditEntry:
    """Read a row of `read`. `hooks=False` omits webhook settings, for callers who cannot see others' webhooks."""
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
    return json.on_one_line(json.encode(entry_of(row, hooks=hooks))) + b"\n"


LINES = "application/x-ndjson"


async def export_lines(
    reader: Reader, selection: Selection, *, newest_first: bool = True, nothing: bool = False, hooks: bool = True
) -> AsyncIterator[bytes]:
    """Yield the matches as lines of JSON, or nothing if `nothing`."""
    if nothing:
        return
    async for rows in read_all(reader, selection, newest_first=newest_first):
        yield b"".join(line_of(row, hooks=hooks) for row in rows)
