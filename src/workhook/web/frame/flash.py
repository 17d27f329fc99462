"""What the last change has left to say on the next page: a sentence and, perhaps, a way back.

It travels in a cookie that is signed and used up by the page that shows it.
"""

from __future__ import annotations

import base64

import msgspec

from workhook.core import json
from workhook.core.errors import Malformed
from workhook.http.calls import Call
from workhook.web.frame import cookies
from workhook.web.frame.sessions import Session, safe_return_to

COOKIE = "workhook_note"
_PURPOSE = "workhook note"
_LENGTH_MAX = 3000
_KEPT_S = 60


class Undo(msgspec.Struct, frozen=True):
    """A form that takes a change back: where it leads, a path of this server, and its fields."""

    action: str
    fields: dict[str, str] = {}


class Note(msgspec.Struct, frozen=True):
    """`text` is in the reader's language."""

    text: str
    undo: Undo | None = None


def left(call: Call, csrf: str, note: Note) -> dict[str, str]:
    """The header that leaves a note for the next page of the session whose forms have `csrf`. One that is too long for
    a cookie is not left."""
    assert note.undo is None or safe_return_to(note.undo.action) == note.undo.action, "undo leads to a path of ours"
    body = base64.urlsafe_b64encode(msgspec.json.encode(note)).decode()
    value = f"{body}.{cookies.sign(call, _PURPOSE, _signed(csrf, body))}"
    return cookies.write(call, COOKIE, value, max_age_s=_KEPT_S) if len(value) <= _LENGTH_MAX else {}


def taken(call: Call, session: Session) -> tuple[Note | None, dict[str, str]]:
    """The note, and the header that uses it up. It stays for the next page where nobody looks at this one yet: a
    browser may ask ahead, and HEAD shows nothing."""
    value = cookies.read(call, COOKIE, length_max=_LENGTH_MAX)
    if value is None or call.request.method == "HEAD" or _is_ahead(call):
        return None, {}
    gone = cookies.write(call, COOKIE, "", max_age_s=0)
    body, _, signature = value.rpartition(".")
    if not cookies.is_signed(call, _PURPOSE, _signed(session.csrf, body), signature):
        return None, gone
    try:
        return json.decode_untrusted(base64.urlsafe_b64decode(body), Note), gone
    except Malformed:  # another version of the server has left it
        return None, gone


def _signed(csrf: str, body: str) -> str:
    """A note that somebody got for themselves is none in another's session: its undo would be theirs, too."""
    return f"{csrf}.{body}"


def _is_ahead(call: Call) -> bool:
    """The first header is the browser's, the second Turbo's."""
    return any("prefetch" in (call.header(name) or "") for name in ("sec-purpose", "x-sec-purpose"))
