"""What of the audit log is asked for: `action:hook.create actor:octo repo:acme/website created:>=2026-11-01`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import msgspec

from workhook.core.clock import DAY_MS, parse_rfc3339
from workhook.core.errors import Fault, Invalid, shown
from workhook.identity.queries import key_of

QUALIFIERS = ("action", "actor", "repo", "created")
PHRASE_MAX_CHARS = 256
_OPERATORS = re.compile(r"(>=|<=|>|<)?(.*)", re.DOTALL)


class Selection(msgspec.Struct, frozen=True):
    """Entries that fit all that is given. Times in milliseconds; `since` is included, `until` is not."""

    account_id: int | None = None  # None: every account, for who runs the server
    action: str | None = None  # a whole one, or the part before the full stop
    text: str | None = None  # a part of the action
    actor: str | None = None
    owner: str | None = None
    repository: str | None = None
    since: int | None = None
    until: int | None = None

    @property
    def bounded(self) -> bool:
        """Whether what fits is found by looking at little else (`identity.audit_stretches`)."""
        return self.actor is None or self.repository is None


def parse_phrase(phrase: str, account_id: int | None) -> Selection:
    """Raises `Invalid` with every fault."""
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
            faults.append(f"phrase has {shown(term)}, which is none of {known} with a value")
        elif fields := _fields(name, value.strip('"')):
            twice = found.keys() & fields.keys()
            if twice:
                faults.append(f"phrase names {name}: twice")
            found |= fields
        else:
            faults.append(f"phrase has {shown(term)}: {_WANTED[name]}")
    if len(words) > 1:
        faults.append("phrase must have one word besides its qualifiers, a part of an action")
    if faults:
        raise Invalid(faults=[Fault(resource="AuditLog", field="phrase", message=each) for each in faults])
    text = words[0].lower() if words else None
    return msgspec.convert({**found, "account_id": account_id, "text": text}, Selection)


_WANTED = {
    "action": "write an action such as action:hook.create, or action:hook for all of these",
    "actor": "write a login such as actor:octo",
    "repo": "write an owner and a name such as repo:acme/website",
    "created": "write a day, a time, or a range such as created:>=2026-11-01 or created:2026-11-01..2026-11-30",
}


def _fields(name: str, value: str) -> dict[str, str | int]:
    """What a qualifier confines; empty for a value that it cannot have."""
    if name == "action":
        return {"action": value.lower()}
    if name == "actor":
        return {"actor": key_of(value)}
    if name == "repo":
        owner, slash, repository = value.partition("/")
        named = slash and owner and repository
        return {"owner": key_of(owner), "repository": key_of(repository)} if named else {}
    return _range(value)


def _range(value: str) -> dict[str, str | int]:
    try:
        first, dots, last = value.partition("..")
        if dots:
            return _between(None if first in ("", "*") else first, None if last in ("", "*") else last)
        operator, moment = _OPERATORS.fullmatch(value).groups()  # type: ignore[union-attr]  # it fits any text
        begin, end = _span(moment)
    except (ValueError, OverflowError):
        return {}
    if operator in (">=", ">"):
        return {"since": begin if operator == ">=" else end}
    if operator in ("<", "<="):
        return {"until": begin if operator == "<" else end}
    return {"since": begin, "until": end}


def _between(first: str | None, last: str | None) -> dict[str, str | int]:
    fields: dict[str, str | int] = {}
    if first is not None:
        fields["since"] = _span(first)[0]
    if last is not None:
        fields["until"] = _span(last)[1]
    return fields


def _span(text: str) -> tuple[int, int]:
    """A day (UTC), or the second of a time. Raises `ValueError`."""
    if len(text) == 10:
        day = date.fromisoformat(text)
        begin = round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
        return begin, begin + DAY_MS
    begin = parse_rfc3339(text)
    return begin, begin + (1000 if begin % 1000 == 0 else 1)
