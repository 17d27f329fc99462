"""The note that a change leaves for the next page: a sentence and, perhaps, an undo.

It is stored in a signed cookie that the page which shows it deletes.
"""

from __future__ import annotations

import msgspec

from workhook.http.calls import Call
from workhook.web.frame import cookies
from workhook.web.frame.sessions import Session, safe_return_to

COOKIE = "workhook_note"
_PURPOSE = "workhook note"
_LENGTH_MAX = 3000
_KEPT_S = 60


class Undo(msgspec.Struct, frozen=True):
    """A form that undoes a change: its action, a path of this server, and its fields."""

    action: str
    fields: dict[str, str] = {}


class Note(msgspec.Struct, frozen=True):
    """`text` is in the reader's language."""

    text: str
    undo: Undo | None = None


def left(call: Call, csrf: str, note: Note) -> dict[str, str]:
    """Return the header that leaves a note for the next page of the session whose forms have `csrf`, in which alone it
    counts: another session would run its undo. A note that is too long for a cookie is not left."""
    assert note.undo is None or safe_return_to(note.undo.action) == note.undo.action, "undo leads to a path of ours"
    value = cookies.seal(call, _PURPOSE, note, csrf)
    return cookies.write(call, COOKIE, value, max_age_s=_KEPT_S) if len(value) <= _LENGTH_MAX else {}


def taken(call: Call, session: Session) -> tuple[Note | None, dict[str, str]]:
    """Return the note and the header that deletes it. It is kept for the next page if this one is only prefetched, or
    requested with HEAD."""
    value = cookies.read(call, COOKIE, length_max=_LENGTH_MAX)
    purposes = [call.header(name) or "" for name in ("sec-purpose", "x-sec-purpose")]  # the browser's, and Turbo's
    if value is None or call.request.method == "HEAD" or any("prefetch" in each for each in purposes):
        return None, {}
    return cookies.unseal(call, _PURPOSE, value, Note, session.csrf), cookies.write(call, COOKIE, "", max_age_s=0)
