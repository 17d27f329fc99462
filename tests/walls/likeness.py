"""Rows of a tenant, comparable across databases: without times, and with IDs reduced to "own" or "another's"."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tests.walls.dump import SUMMED, TABLES, Dump, Row
from tests.walls.owners import rows_of
from workhook.events.payloads import from_stored

_ID = re.compile(r"\b([a-z]{2,4})_[0-9a-hjkmnp-tv-z]{26}\b")
_NUMBER = re.compile(r"(?<![\w.])1[3-6]\d{8}(?!\w)")
_MILLIS = re.compile(r"(?<![\w.])1[6-9]\d{11}(?!\w)")
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?")
_SIGNED = re.compile(r"\?[\w=&.-]*(?:expires|signature|sig)[\w=&.%-]*")
_DRAWN = re.compile(r"\b(\w+-\d+)-[0-9a-f]{6}\b")  # the login of a person created by a test
_URL = re.compile(r"http://127\.0\.0\.1:\d+(?=/)")
_COUNTED = re.compile(
    r'"(duration|elapsed_time|formatted_duration|short_formatted_duration|size|node_id|email|username|login|zen)":'
    r'("[^"]*"|[\d.]+|null|\{[^}]*\})'
)

# Random values, durations and secrets, and values that depend on the length of a port or a name.
_LEFT_OUT = {
    "rank", "blob", "duration_ms", "digest", "fingerprint", "secret", "previous_secret", "password", "family", "size",
    "revision", "request_id", "address", "last_eight",
}  # fmt: skip
_ABOUT_TIMES = re.compile(r".*(_at|_time|_since|_until|_date|_end|_by|^at|^issued|^due|^anchor|^since)$")
_UNTIL_LATER = {"lanes", "workers", "worker_generation", "deliveries", "probe", "key_check", "rate_windows"} | SUMMED


class Likeness:
    """`names` maps logins and other random words to placeholders."""

    def __init__(self, dump: Dump, accounts: frozenset[int], names: dict[str, str]) -> None:
        self._rows = rows_of(dump, accounts)
        self._names = sorted(names.items(), key=lambda each: -len(each[0]))
        self.ids = {str(value) for rows in self._rows.values() for row in rows.values() for value in _keys_of(row)}
        self._tables = [table.name for table in TABLES if table.name not in _UNTIL_LATER]

    def rows(self) -> Counter[str]:
        """Count the rows by their comparable form."""
        return Counter(
            f"{table}: {self._row(row)}"
            for table in self._tables
            for row in self._rows[table].values()
            if not self._depends_on_others(table, row)
        )

    def _depends_on_others(self, table: str, row: Row) -> bool:
        """Refusals are counted together per minute. A user of the other tenant can be invited and notified only where
        that tenant exists."""
        if table == "audit_log":
            strange = row["action"] == "invitation.create" and row["target"] not in dict(self._names)
            return bool(row["status"]) or strange
        is_about_one = table in ("invitations", "notifications") and row["user_id"] is not None
        return is_about_one and str(row["user_id"]) not in self.ids

    def _row(self, row: Row) -> dict[str, Any]:
        return {name: self._value(name, value) for name, value in row.items() if name not in _LEFT_OUT}

    def _value(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if _ABOUT_TIMES.match(name):
            return "time"
        if isinstance(value, int):
            return self._mark(str(value)) if name.endswith("id") else value
        if name == "payload":
            value = from_stored(value) or b""
        text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        if name == "place":  # of an invitation: a letter followed by a number
            return text[:1] + self._mark(text[1:])
        return self._text(text)

    def _text(self, text: str) -> str:
        text = _COUNTED.sub(r'"\1":…', _TIME.sub("time", _SIGNED.sub("", _URL.sub("", text))))
        text = _MILLIS.sub("time", text)
        text = _NUMBER.sub(lambda found: self._mark(found[0]), _GUID.sub("guid", text))
        text = _ID.sub(lambda found: f"{found[1]} {self._mark(found[0])}", text)
        for name, word in self._names:
            text = text.replace(name, word)
        return _DRAWN.sub(r"\1", text)

    def _mark(self, name: str) -> str:
        return "own" if name in self.ids else "another's"


def _keys_of(row: Row) -> list[Any]:
    """Return the numbers and IDs that belong to the row itself."""
    return [row[name] for name in ("id", "repository_id", "guid") if row.get(name) is not None]


def differences(alone: Counter[str], beside: Counter[str]) -> list[str]:
    return [f"missing {count} of: {row}" for row, count in (alone - beside).items()] + [
        f"new {count} of: {row}" for row, count in (beside - alone).items()
    ]
