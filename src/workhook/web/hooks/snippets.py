"""Code for receivers: a delivery as a `curl` command, and signature verification."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from workhook.core import json
from workhook.delivery.sign import REDACTED, form_encode
from workhook.hooks.schemas import DeliveryDetail
from workhook.web.hooks.payloads import unseen

LANGUAGES: Mapping[str, str] = {
    "python": "Python",
    "javascript": "JavaScript",
    "go": "Go",
    "ruby": "Ruby",
    "php": "PHP",
    "java": "Java",
}
SECRET_PLACE = "YOUR_WEBHOOK_SECRET"  # noqa: S105  # a placeholder for the reader's secret
_PREFIX = "@PREFIX@"


class Snippet(msgspec.Struct, frozen=True):
    """The code of one language. The webhook's secret belongs between `before` and `after`."""

    name: str
    title: str
    before: str
    after: str
    place: str = SECRET_PLACE

    def code(self, secret: str = SECRET_PLACE) -> str:
        return self.before + secret + self.after


@cache
def get_snippets(header_prefix: str) -> tuple[Snippet, ...]:
    """Return the snippets of all languages. `header_prefix` is the prefix of the server's own headers."""
    return tuple(_snippet(name, title, header_prefix) for name, title in LANGUAGES.items())


def _snippet(name: str, title: str, header_prefix: str) -> Snippet:
    text = files(__package__).joinpath("verify", f"{name}.txt").read_text("utf-8").replace(_PREFIX, header_prefix)
    before, _, after = text.partition(SECRET_PLACE)
    return Snippet(name, title, before, after)


BODY_MAX = 32 * 1024  # bytes; a longer body is read from a file
PASSWORD_PLACE = "YOUR_CREDENTIALS"  # noqa: S105  # placeholders for the reader's secrets
FILE = "payload.json"

_NEEDS_ESCAPES = re.compile(r"[\\']")


def body_of(delivery: DeliveryDetail) -> bytes:
    """Return the bytes that were sent and signed."""
    payload = json.encode(delivery.request.payload)
    types = [value for name, value in delivery.request.headers.items() if name.lower() == "content-type"]
    is_form = any(each.startswith("application/x-www-form-urlencoded") for each in types)
    return form_encode(payload) if is_form else payload


def command(delivery: DeliveryDetail) -> str:
    """Return the command for bash, with the signatures as sent and a placeholder for the credentials."""
    lines = [f"curl {_quoted(delivery.url)}"]
    for name, value in delivery.request.headers.items():
        shown = value.replace(REDACTED, PASSWORD_PLACE) if name.lower().endswith("authorization") else value
        lines.append(f"-H {_quoted(f'{name}: {shown}')}")
    body = body_of(delivery)
    lines.append(f"--data-binary {_quoted(body.decode()) if len(body) <= BODY_MAX else f'@{FILE}'}")
    return " \\\n  ".join(lines)


def _quoted(text: str) -> str:
    """Quote a shell word, escaping invisible characters."""
    if "'" not in text and not unseen().search(text):
        return f"'{text}'"
    escaped = unseen().sub(lambda found: f"\\U{ord(found[0]):08x}", _NEEDS_ESCAPES.sub(r"\\\g<0>", text))
    return f"$'{escaped}'"
