"""What the last change has left to say on the next page: a sentence and, perhaps, a way back.

It travels in a cookie that is signed and used up by the page that shows it.
"""

from __future__ import annotations

import base64

import msgspec

from workhook.http.calls import Call
from workhook.web.frame import cookies

COOKIE = "workhook_note"
_PURPOSE = "workhook note"
_LENGTH_MAX = 3000
_KEPT_S = 60


class Undo(msgspec.Struct, frozen=True):
    """A form that takes a change back: where it leads, and its fields."""

    action: str
    fields: dict[str, str] = {}


class Note(msgspec.Struct, frozen=True):
    """`text` is in the reader's language."""

    text: str
    undo: Undo | None = None


def left(call: Call, note: Note) -> dict[str, str]:
    """The header that leaves a note for the next page. One that is too long for a cookie is not left."""
    body = base64.urlsafe_b64encode(msgspec.json.encode(note)).decode()
    value = f"{body}.{cookies.sign(call, _PURPOSE, body)}"
    return cookies.write(call, COOKIE, value, max_age_s=_KEPT_S) if len(value) <= _LENGTH_MAX else {}


def taken(call: Call) -> tuple[Note | None, dict[str, str]]:
    """The note, and the header that uses it up."""
    value = cookies.read(call, COOKIE, length_max=_LENGTH_MAX)
    if value is None:
        return None, {}
    gone = cookies.write(call, COOKIE, "", max_age_s=0)
    body, _, signature = value.rpartition(".")
    if not cookies.is_signed(call, _PURPOSE, body, signature):
        return None, gone
    return msgspec.json.decode(base64.urlsafe_b64decode(body), type=Note), gone
