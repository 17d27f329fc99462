"""Replaces values that differ between records of the same tree by stable placeholders."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime
from typing import Any

NEAR_S = 500 * 86_400  # seconds from now; times further away come from a request
_LARGE = 1_000_000_000  # numbers of at least this size are times or random
VOLATILE_HEADERS = {
    "date", "etag", "last-modified", "x-request-id", "x-service-request-id", "x-github-request-id", "server-timing",
    "x-ratelimit-remaining", "x-ratelimit-used", "x-ratelimit-reset",
}  # fmt: skip
_DURATIONS = {"duration", "elapsed_time", "formatted_duration", "p50_ms", "p95_ms"}
_LONG_MS = 600_000  # a record takes less time
VOLATILE_FIELDS = {
    "remaining",
    "used",
    "reset",
    "throttled_at",
    "last_eight",
    "token_last_eight",
    "zen",
    "bytes",
    "last_used_at",
}

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_HTTP_TIME = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
_CURSOR = re.compile(r"\b(cursor|after|before)=[\w.~%-]+")
_SIGNED = re.compile(r"\b(signature|expires|t|v1)=[\w.~%+/-]+")
_COOKIE = re.compile(r"\b(workhook_\w+)=[\w.-]+")
_FINGERPRINT = re.compile(r"SHA256:[\w+/]{43}=?")
_BOUNDARY = re.compile(r"boundary=\w+")
_PEM = re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----\n?", re.DOTALL)
_NAMED = re.compile(
    r"(?P<uuid>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    r"|\b(?P<prefix>[a-z]{2,8}_)[0-9A-Za-z_-]{20,}"
    r"|(?P<client>\b(?:Iv|Ov)[0-9A-Za-z.]{12,}\b)"
    r"|(?P<device>\b[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}\b)"
    r"|(?P<random>(?<![\w+-])[0-9A-Za-z_+-]{32,}={0,2}(?![\w+-]))"
)


class Placeholders:
    """Names random values by their kind and the operation that returned them first."""

    def __init__(self, addresses: dict[str, str]) -> None:
        """`addresses` maps the server's address and others to their replacements."""
        self._addresses = addresses
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self.operation = "setup"

    def _name(self, kind: str, value: str) -> str:
        if value not in self._names:
            stem = f"{kind} of {self.operation}"
            self._counts[stem] = self._counts.get(stem, 0) + 1
            self._names[value] = f"<{stem}, {self._counts[stem]}>"
        return self._names[value]

    def _named(self, match: re.Match[str]) -> str:
        kind = next(name for name, value in match.groupdict().items() if value is not None)
        if kind != "device" and not re.search(r"\d", match[0]):
            return match[0]  # words or a path
        return self._name(match["prefix"] or kind, match[0])

    def text(self, value: str) -> str:
        for address, word in self._addresses.items():
            value = value.replace(address, word)
        value = _PEM.sub("<pem>", value)
        value = _HTTP_TIME.sub("<time>", _TIME.sub(_mask_near, value))
        value = _DATE.sub(_mask_near, value)
        value = _SIGNED.sub(r"\1=<value>", _CURSOR.sub(r"\1=<cursor>", value))
        value = _FINGERPRINT.sub("SHA256:<fingerprint>", value)
        value = _BOUNDARY.sub("boundary=<value>", _COOKIE.sub(r"\1=<value>", value))
        return _NAMED.sub(self._named, value)

    def value(self, value: Any, field: str = "") -> Any:
        """Return a JSON value with its volatile parts replaced."""
        if isinstance(value, dict):
            return {self.text(name): self.value(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self.value(each, field) for each in value]
        if field in VOLATILE_FIELDS:
            return f"<{field}>"
        if isinstance(value, str):
            return self._text_field(value, field)
        if field in _DURATIONS:
            return _without_measured_part(value)
        if isinstance(value, int) and abs(value) >= _LARGE:
            return self._large(value)
        return value

    def _text_field(self, value: str, field: str) -> str:
        if field in ("etag", "next_cursor", "cursor"):
            return f"<{field}>"
        if value[:1] in "{[" and len(value) > 1:
            try:
                return json.dumps(self.value(json.loads(value)), ensure_ascii=False)
            except ValueError:
                pass  # it only looks like JSON
        return self.text(value)

    def _large(self, value: int) -> str | int:
        if any(abs(value / unit - time.time()) < NEAR_S for unit in (1, 1000)):
            return "<time>"
        return self._name("number", str(value)) if value < 1 << 53 and value % 1000 else value

    def headers(self, headers: list[tuple[str, str]], length: int) -> list[list[str]]:
        """Return the headers, sorted by name. A correct content length is replaced by `<length>`."""
        found = []
        for name, value in sorted((name.lower(), value) for name, value in headers):
            if name in VOLATILE_HEADERS:
                found.append([name, f"<{name}>"])
            elif name == "content-length" and value == str(length):
                found.append([name, "<length>"])
            else:
                found.append([name, self.text(value)])
        return found


def _mask_near(match: re.Match[str]) -> str:
    """Return `<time>` for a time near the present."""
    try:
        at = datetime.fromisoformat(match[0].replace("Z", "+00:00")).timestamp()
    except ValueError:
        return match[0]
    return "<time>" if abs(at - time.time()) < NEAR_S else match[0]


def _without_measured_part(value: Any) -> Any:
    """Return a duration without measured parts: nothing of seconds, multiples of ten minutes for milliseconds, hours of
    a text."""
    if isinstance(value, float):
        return "<duration>"
    if isinstance(value, int):
        return value - value % _LONG_MS
    return re.sub(r"\b\d+(?:m|s)\b", "…", value) if isinstance(value, str) else value
