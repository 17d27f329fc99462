"""`/{owner}/audit`: the audit log of an organization in words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from workhook.core.errors import Invalid
from workhook.http import parameters
from workhook.http.calls import Response
from workhook.http.messages import disposition
from workhook.identity import audit_queries
from workhook.identity.audit import VIEW
from workhook.identity.audit_queries import LINES, AuditEntry, Selection, entry_of, export_lines, parse_phrase
from workhook.identity.invitations import BY_EMAIL
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Organization
from workhook.storage import Row
from workhook.web.frame import paging
from workhook.web.frame.names import Names
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, text
from workhook.work.people.members import find_accounts_of
from workhook.work.portability.imports.people import members_of

_SECRETS: Mapping[str, Mapping[str | None, str]] = {
    "config.secret": {
        "removed": text("Secret removed. Deliveries are no longer signed."),
        "set": text("Secret set."),
        None: text("Secret changed."),
    },
    "config.password": {
        "removed": text("Password removed."),
        "set": text("Password set."),
        None: text("Password changed."),
    },
}


def changes(entry: AuditEntry) -> list[str]:
    """Return a sentence for each changed field of a webhook update; empty for other entries."""
    names = entry.data.get("changed")
    if entry.action != "hook.update" or not isinstance(names, list):
        return []
    return [_sentence(str(name), entry.data) for name in names]


def _sentence(name: str, data: dict[str, Any]) -> str:
    if sentences := _SECRETS.get(name):
        return gettext(sentences.get(data.get("secrets", {}).get(name), sentences[None]))
    if name == "config.previous_secret":
        return gettext("The previous secret is no longer used.")
    if name == "active":
        return gettext("Enabled.") if data.get("active") else gettext("Disabled.")
    before = data.get("before", {})
    if name not in before:  # a webhook of an app, whose settings are not shown
        return gettext("%(setting)s: changed", setting=_label(name))
    plain, _, key = name.partition(".")
    after = data.get(plain, {}).get(key) if key else data.get(plain)
    setting, first, last = _label(name), _shown(before[name]), _shown(after)
    return gettext("%(setting)s: %(before)s → %(after)s", setting=setting, before=first, after=last)


def _label(name: str) -> str:
    known = {
        "events": gettext("Events"),
        "config.url": gettext("Payload URL"),
        "config.content_type": gettext("Content type"),
        "config.insecure_ssl": gettext("SSL verification"),
        "config.header_style": gettext("Header names"),
        "config.username": gettext("Username (basic authentication)"),
        "config.retries": gettext("Retries"),
        "config.max_concurrency": gettext("Concurrent deliveries"),
        "config.rate_limit": gettext("Maximum deliveries per second"),
    }
    return known.get(name, name)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return gettext("none") if value in (None, "") else str(value)


places = Places("audit")

ROWS = 50
SUGGESTED = 500  # members; others can be typed
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_Short = Annotated[str, Meta(max_length=100)]


class AuditFilter(msgspec.Struct):
    """The fields of the form. Days are UTC and inclusive."""

    actor: _Short = ""
    action: _Short = ""
    project: _Short = ""
    since: _Short = ""
    until: _Short = ""

    @property
    def is_set(self) -> bool:
        return any(msgspec.structs.astuple(self))


@places.get("/{owner}/audit")
async def audit_log(visit: Visit) -> Response:
    """Show the audit log of an organization, newest entries first."""
    place = await visit.organization("audit_log.read")
    cursor = visit.call.query_integer("cursor", 0, low=0, high=2**53)
    reader, account_id = visit.database, place.account.id
    rows: Sequence[Row] = []
    faults: Sequence[str] = []
    try:
        chosen = _chosen(visit)
        selection = await _select(visit, place, chosen)
    except Invalid as problem:
        chosen, faults = AuditFilter(**_given(visit)), problem.reasons
    else:
        rows = await audit_queries.read(reader, selection, beyond=cursor or None, limit=ROWS + 1)
    more = paging.with_query(visit, cursor=str(rows[ROWS - 1]["id"])) if len(rows) > ROWS else None
    rows = rows[:ROWS]
    ids = {row["actor_id"] for row in rows} - {None}
    people, actions, members = await asyncio.gather(
        find_accounts_of(reader, account_id, ids),
        audit_queries.actions_of(reader, account_id),
        members_of(reader, account_id),
    )
    return visit.page(
        "audit/entries.html",
        status=422 if faults else 200,
        place=place,
        chosen=chosen,
        names=Names(people.values()),
        lines=[_line(entry_of(row), people.get(row["actor_id"])) for row in rows],
        actions=sorted({*actions, *(each.partition(".")[0] for each in actions)}),
        members=members[:SUGGESTED],
        by_email=BY_EMAIL,
        query=paging.with_query(visit, cursor=None),
        more=more,
        begins=bool(faults) or not cursor,
        faults=faults,
    )


@places.get("/{owner}/audit/entries.jsonl", head=False)
async def export(visit: Visit) -> Response:
    """Download all matching entries as JSON lines."""
    place = await visit.organization("audit_log.read")
    selection = await _select(visit, place, _chosen(visit))
    if not await audit_queries.read(visit.database, selection, limit=1):
        address = f"/{place.account.login}/audit{paging.with_query(visit, cursor=None)}"
        return visit.done(address, gettext("No matching entries to download."))
    headers = {**disposition(f"{place.account.login}-audit.jsonl"), "Cache-Control": "no-store"}
    return Response(export_lines(visit.database, selection), media_type=LINES, headers=headers)


def _given(visit: Visit) -> dict[str, str]:
    names = AuditFilter.__struct_fields__
    return {name: value.strip() for name, value in paging.given(visit).items() if name in names}


def _chosen(visit: Visit) -> AuditFilter:
    return parameters.gather(AuditFilter, {name: [value] for name, value in _given(visit).items()}, {})


async def _select(visit: Visit, place: Organization, chosen: AuditFilter) -> Selection:
    found = Selection(account_id=place.account.id)
    if chosen.since or chosen.until:
        try:
            if not all(_DAY.fullmatch(day) for day in (chosen.since, chosen.until) if day):
                raise Invalid()
            found = parse_phrase(f"created:{chosen.since or '*'}..{chosen.until or '*'}", place.account.id)
        except Invalid:
            message = gettext("Enter dates as YYYY-MM-DD, for example 2026-11-24.")
            raise Invalid.at("since", message) from None
    actor = await _login_of(visit, place, chosen.actor) or chosen.actor
    return msgspec.structs.replace(
        found,
        text=chosen.action.lower() or None,
        actor=key_of(actor) if actor else None,
        owner=key_of(place.account.login) if chosen.project else None,
        repository=key_of(chosen.project) if chosen.project else None,
    )


async def _login_of(visit: Visit, place: Organization, typed: str) -> str | None:
    """Return the login of the only member with this name, or None if several or none have it, or if it is a login."""
    members = await members_of(visit.database, place.account.id) if typed else []
    if any(key_of(each.login) == key_of(typed) for each in members):
        return None
    named = [each.login for each in members if (each.name or "").casefold() == typed.casefold()]
    return named[0] if len(named) == 1 else None


def _line(entry: AuditEntry, person: Account | None) -> dict[str, object]:
    known = {
        "actor_ip": entry.actor_ip,
        "token": entry.programmatic_access_type,
        "token_id": entry.token_id,
        "app_id": entry.app_id,
        "request_id": entry.request_id,
        **entry.data,
    }
    values = {name: value for name, value in known.items() if value is not None}
    details = msgspec.json.format(msgspec.json.encode(values), indent=2).decode() if values else ""
    return {
        "entry": entry,
        "person": person,
        "details": details,
        "is_refused_page": entry.status is not None and entry.action == VIEW,
        "changes": changes(entry),
    }
