"""Flash messages: a sentence for the next page, with an optional undo, in a signed cookie that the page deletes."""

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
    """A form that undoes a change. `action` is a path of this server."""

    action: str
    fields: dict[str, str] = {}


class Note(msgspec.Struct, frozen=True):
    """A flash message in the reader's language."""

    text: str
    undo: Undo | None = None


def left(call: Call, csrf: str, note: Note) -> dict[str, str]:
    """Return the header that leaves a note for the session's next page; empty if the note is too long for a cookie.

    The note is bound to the session by its `csrf`, because another session must not run the undo.
    """
    assert note.undo is None or safe_return_to(note.undo.action) == note.undo.action, (
        "the undo must stay on this server"
    )
    value = cookies.seal(call, _PURPOSE, note, csrf)
    return cookies.write(call, COOKIE, value, max_age_s=_KEPT_S) if len(value) <= _LENGTH_MAX else {}


def taken(call: Call, session: Session) -> tuple[Note | None, dict[str, str]]:
    """Return the note and the header that deletes it. Prefetches and HEAD requests leave it for the next page."""
    value = cookies.read(call, COOKIE, length_max=_LENGTH_MAX)
    purposes = [call.header(name) or "" for name in ("sec-purpose", "x-sec-purpose")]  # the browser's, and Turbo's
    if value is None or call.request.method == "HEAD" or any("prefetch" in each for each in purposes):
        return None, {}
    return cookies.unseal(call, _PURPOSE, value, Note, session.csrf), cookies.write(call, COOKIE, "", max_age_s=0)
