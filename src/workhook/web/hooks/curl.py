"""A delivery as a command for `curl`: the same address, headers and bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from workhook.core import json
from workhook.delivery.sign import REDACTED, form_encode
from workhook.hooks.records import DeliveryDetail
from workhook.web.hooks.payloads import unseen

BODY_MAX = 32 * 1024  # bytes; a longer body is read from a file
PASSWORD_PLACE = "YOUR_CREDENTIALS"  # noqa: S105  # where the reader puts them
FILE = "payload.json"

_NEEDS_ESCAPES = re.compile(r"[\\']")


def body_of(delivery: DeliveryDetail) -> bytes:
    """The bytes that were sent and signed."""
    payload = json.encode(delivery.request.payload)
    return form_encode(payload) if _is_form(delivery.request.headers) else payload


def _is_form(headers: Mapping[str, str]) -> bool:
    return any(
        name.lower() == "content-type" and value.startswith("application/x-www-form-urlencoded")
        for name, value in headers.items()
    )


def command(delivery: DeliveryDetail) -> str:
    """The command, for a POSIX shell with the quoting `$'…'` of bash. Credentials are not kept: their place is marked.
    The signatures are those that were sent."""
    lines = [f"curl {_quoted(delivery.url)}"]
    for name, value in delivery.request.headers.items():
        shown = value.replace(REDACTED, PASSWORD_PLACE) if name.lower().endswith("authorization") else value
        lines.append(f"-H {_quoted(f'{name}: {shown}')}")
    body = body_of(delivery)
    lines.append(f"--data-binary {_quoted(body.decode()) if len(body) <= BODY_MAX else f'@{FILE}'}")
    return " \\\n  ".join(lines)


def _quoted(text: str) -> str:
    """One word of a shell. What cannot be seen is written as an escape."""
    if "'" not in text and not unseen().search(text):
        return f"'{text}'"
    escaped = unseen().sub(lambda found: f"\\U{ord(found[0]):08x}", _NEEDS_ESCAPES.sub(r"\\\g<0>", text))
    return f"$'{escaped}'"
