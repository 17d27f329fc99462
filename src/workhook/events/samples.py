"""A sample payload for each event in the catalog, generated from its schema, and the quotes sent with pings.

A sample shows the structure, with invented IDs and names. If the catalog has no schema because others publish the
event, the sample has the fields common to all events.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from workhook.events.catalog import CATALOG, CatalogEvent

AROUND = ("repository", "organization", "sender")  # added on publishing to a payload that lacks them

_MOMENT = "2026-11-24T09:00:00Z"
_SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
_FORMATS = {
    "date-time": _MOMENT,
    "date": "2026-11-24",
    "uri": "https://example.com/sample",
}
_NAMED: Mapping[str, Any] = {
    "login": "ada",
    "username": "ada",
    "name": "Ada",
    "email": "ada@users.noreply.example",  # events never contain the addresses of accounts
    "author.email": "ada@example.com",
    "committer.email": "ada@example.com",
    "pusher.email": "ada@example.com",
    "buyer.email": "billing@client.example",
    "seller.email": "billing@acme.example",
    "repository.name": "website",
    "repository.description": "Website",
    "repository.owner.login": "acme",
    "repository.owner.type": "Organization",
    "organization.login": "acme",
    "organization.description": "Acme Studio",
    "service.organization": "acme",
    "column.title": "In progress",
    "column.stage": "in_progress",
    "project.title": "Website",
    "folder.title": "Drafts",
    "service.title": "Care plan",
    "addons_purchased.title": "Extra hours",
    "title": "Homepage draft",
    "full_name": "acme/website",
    "description": "The first draft for the client",
    "service.description": "Updates and backups, every month",
    "invoice_item.description": "Design",
    "recurring_invoice_item.description": "Care plan",
    "body": "Looks good!",
    "text": "Looks good!",
    "notes": "Photos",
    "sections": {"Launch": {"Domain": "complete", "Certificate": "incomplete"}},
    "fields": {"Budget": "2000"},
    "blocked_by": ["tsk_" + "0" * 26],
    "timesheet_ids": ["tms_" + "0" * 26],
    "repeat": "FREQ=WEEKLY",
    "size": 48213,
    "content_type": "image/png",
    "duration": 5_400_000,
    "elapsed_time": 5_400_000,
    "formatted_duration": "1h 30m",
    "short_formatted_duration": {"display": "1:30", "decimal": 1.5},
    "hook.name": "web",
    "hook.events": ["push"],
    "config.url": "https://example.com/webhook",
    "config.content_type": "json",
    "secret": "********",
    "last_response": {"code": 200, "status": "active", "message": "OK"},
    "zen": "Small steps leave short logs.",
    "ref": "refs/heads/main",
    "default_branch": "main",
    "commit.id": _SHA,
    "message": "Fix the contact form",
    "added": ["form.html"],
    "modified": ["README.md"],
    "removed": [],
    "label": "design",
    "currency": "EUR",
    "number": "2026-0001",
    "invoice_number": "2026-0001",
    "credit_note_number": "CN-00001",
    "invoice.name": "Invoice 2026-0001",
    "invoice.payment.id": "pay_" + "0" * 26,
    "invoice.credit_note.id": "crn_" + "0" * 26,
    "buyer.name": "Client AG",
    "address": "Ring 2\n1010 Wien",
    "vat_id": "ATU12345678",
    "country": "AT",
    "seller.name": "Acme Studio GmbH",
    "seller.address": "Lindenstr. 1\n10969 Berlin",
    "seller.vat_id": "DE123456789",
    "seller.country": "DE",
    "tax_number": "21/815/08150",
    "iban": "DE89370400440532013000",
    "bic": "COBADEFFXXX",
    "timezone": "Europe/Berlin",
    "method": "Bank transfer",
    "payment_method": "Bank transfer",
    "payment_terms": "Payable within 14 days.",
    "reference": "2026-0001",
    "reason": "Hosting began late",
}
_PATTERNS = {
    "{40}": _SHA,
    "{64}": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    r"\d\d$": "80.00",
    r"\d{2,3})?$": "80.00",
}
_GONE = {"code": 410, "status": "failure", "message": "Invalid HTTP Response: 410"}
_ID = "{26}"  # pattern of the part after an ID's prefix
_UNSET = frozenset(  # null in the common case
    {
        "avatar",
        "base_ref",
        "bill_from",
        "bill_to",
        "completed_at",
        "credit_type",
        "deleted_at",
        "imported_author",
        "invoice.address",
        "payment_customer_id",
        "payment_subscription_id",
        "refund_of",
        "reverses",
        "unsubscribe_reason",
        "unsubscribed_feedback",
    }
)
_FLAGS_SET = frozenset({"active", "distinct", "billable"})
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def sample(name: str, action: str | None = None, *, around: bool = True) -> dict[str, Any]:
    """Return the payload of the event `name` with this action, or with its first action.

    `around` includes repository, organization and sender. Raises `KeyError` for an unknown name.
    """
    actions = CATALOG[name].actions
    made = dict(_sample(name, action or (actions[0] if actions else None)))
    return made if around else {key: value for key, value in made.items() if key not in AROUND}


@lru_cache(maxsize=1024)
def _sample(name: str, action: str | None) -> Mapping[str, Any]:
    event = CATALOG[name]
    payload: dict[str, Any] = {} if action is None else {"action": action}
    if event.schema is None:
        common = CATALOG["task"].schema
        assert common is not None, "it is one of Workhook's own events"
        return payload | {each: _value(each, _properties(common)[each]) for each in AROUND}
    for key, schema in _properties(event.schema).items():
        if key == "action" or (key == "changes" and action != "edited"):
            continue
        payload[key] = _changes(event) if key == "changes" else _value(key, schema)
    if name == "hook":
        payload["hook"] |= {"active": False, "last_response": _GONE}
    return payload


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema.get("properties", {})
    return found


def _changes(event: CatalogEvent) -> dict[str, Any]:
    assert event.schema is not None
    fields = _properties(_properties(event.schema).get(event.name, {}))
    changed = next((each for each in ("title", "name", "body", "description") if each in fields), "updated_at")
    return {changed: {"from": "Before", "to": _value(changed, fields.get(changed, {"type": "string"}))}}


def _value(path: str, schema: Mapping[str, Any]) -> Any:
    """Return a sample value. `path` contains the names of the enclosing fields, separated by dots."""
    if "anyOf" in schema:
        return _value(path, schema["anyOf"][0])
    if "const" in schema:
        return schema["const"]
    kinds = schema.get("type", "string")
    key = path.rpartition(".")[2]
    names = (path, ".".join(path.split(".")[-2:]), key)
    if isinstance(kinds, list) and "null" in kinds and not _UNSET.isdisjoint(names):
        return None
    known = next((_NAMED[each] for each in names if each in _NAMED), None)
    if schema.get("enum"):
        return known if known is not None and known in schema["enum"] else schema["enum"][0]
    kind = kinds if isinstance(kinds, str) else next(each for each in kinds if each != "null")
    if kind == "string":
        return _text(schema, known)
    if isinstance(known, _TYPES[kind]):
        return known
    if kind == "object":
        if isinstance(free := schema.get("additionalProperties"), Mapping):
            return {"sample": _value("sample", free)}
        return {each: _value(f"{path}.{each}", inner) for each, inner in _properties(schema).items()}
    if kind == "array":
        return [_value(path.removesuffix("s"), schema.get("items", {}))]
    if kind == "boolean":
        return key in _FLAGS_SET
    return max(1, schema.get("minimum", 1))


def _text(schema: Mapping[str, Any], known: Any) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    pattern = str(schema.get("pattern", ""))
    for part, text in _PATTERNS.items():
        if part in pattern:
            return text
    if _ID in pattern:
        return pattern.removeprefix("^").partition("[")[0] + "0" * 26
    return known if isinstance(known, str) else "sample"


# --- pings -----------------------------------------------------------------------------------------------------------

PING_QUOTES: tuple[str, ...] = (
    "Say it once, and say it signed.",
    "What is written down can be replayed.",
    "A slow receiver delays only its own deliveries.",
    "Promise little, deliver at least once.",
    "Name things the way their users do.",
    "An error that explains itself is half fixed.",
    "Make it durable first, then make it known.",
    "The best retry is the one nobody notices.",
    "Every door has two sides. Check both.",
    "Small steps leave short logs.",
    "Silence from a receiver is an answer, too.",
    "Leave the desk the way you would like to find it.",
)


def random_quote() -> str:
    return random.choice(PING_QUOTES)  # noqa: S311 - nothing is kept secret by it
