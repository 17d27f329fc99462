"""Reading a form that one of our own pages has sent, and nobody else's."""

from __future__ import annotations

import secrets
from typing import NamedTuple
from urllib.parse import parse_qsl

from workhook.core.errors import Forbidden, Malformed, UnsupportedMediaType
from workhook.http.calls import Call
from workhook.identity.signin import sessions
from workhook.web import cookies
from workhook.web.sessions import Session, signed_in

FORM_MAX_BYTES = 64 * 1024
FIELDS_MAX = 200
_MEDIA_TYPE = "application/x-www-form-urlencoded"
_STALE = "This form is out of date, or was not sent from a page of this server. Go back, reload the page and try again."


class FormKey(NamedTuple):
    """Of a form that is shown to somebody who has not signed in: its `csrf` field, and the headers that go with it."""

    csrf: str
    headers: dict[str, str]

    def __repr__(self) -> str:
        return "FormKey()"


def form_key(call: Call) -> FormKey:
    """So that nobody can sign another's browser in as themselves. The cookie stays while the browser is open, so that
    several windows do not take it from one another."""
    known = cookies.read(call, cookies.FORM)
    if known is not None:
        return FormKey(cookies.csrf_of(known), {})
    secret = secrets.token_urlsafe(32)
    return FormKey(cookies.csrf_of(secret), cookies.write(call, cookies.FORM, secret))


async def read_form(call: Call, session: Session | None) -> dict[str, str]:
    """The fields. None of our pages sends one twice.

    `session` None: the form was shown with `form_key`. Raises `Forbidden` for a form of another site, without the
    `csrf` field, or with another session's; `Malformed`, `TooLarge`, `UnsupportedMediaType` for what is no form.
    """
    if session is not None:
        call.record.touches(session.user.id)  # whoever sends this in the user's name: the audit log tells of it there
    _check_site(call)
    media_type = (call.header("content-type") or "").partition(";")[0].strip().lower()
    if media_type != _MEDIA_TYPE:
        raise UnsupportedMediaType(f"Send a form (Content-Type: {_MEDIA_TYPE}).")
    fields = _fields(await call.body(FORM_MAX_BYTES))
    expected = session.csrf if session is not None else _csrf_before_session(call)
    given = fields.get("csrf", "")
    if expected is None or not secrets.compare_digest(given.encode(), expected.encode()):
        raise Forbidden(_STALE, code="csrf")
    # The body may have taken its time: a session that was ended meanwhile finishes nothing.
    if session is not None and not await sessions.is_alive(call.database, session.id):
        raise Forbidden("You have been signed out. Sign in again.", code="signed_out")
    return fields


async def read_session_form(call: Call, again: str) -> tuple[Session, dict[str, str]]:
    """The session and the fields of a form. Raises what `read_form` does; `again` tells who has been signed out what to
    do."""
    session = await signed_in(call)
    if session is None:
        raise Forbidden(f"You have been signed out. {again}", code="signed_out")
    return session, await read_form(call, session)


def _csrf_before_session(call: Call) -> str | None:
    secret = cookies.read(call, cookies.FORM)
    return None if secret is None else cookies.csrf_of(secret)


def _check_site(call: Call) -> None:
    """Where the browser says which site the form is of, that has to be this one.

    `Origin: null` is what browsers send from our pages too, since these have the referrer policy `no-referrer` (Fetch
    Standard, "append a request Origin header"); `Sec-Fetch-Site` tells, and the field `csrf` in any case.
    """
    site, sender = call.header("sec-fetch-site"), call.header("origin")
    if site is not None and site not in ("same-origin", "none"):
        raise Forbidden(_STALE, code="cross_site")
    if site is None and sender not in (None, "null") and not cookies.is_own_origin(call, str(sender)):
        raise Forbidden(
            f"{_STALE} If this is the right address: whoever runs the server sets base_url, or trust_proxy behind a "
            "proxy.",
            code="cross_site",
        )


def _fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise Malformed("Problems parsing the form") from error
    fields = dict(pairs)
    if len(fields) < len(pairs) or any("\0" in name + value for name, value in pairs):
        raise Malformed("Problems parsing the form")
    return fields
