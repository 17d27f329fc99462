"""Browser sessions, and reading forms with CSRF protection."""

from __future__ import annotations

import secrets
from contextvars import ContextVar
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import structlog

from workhook.core.clock import HOUR_MS, now_ms
from workhook.core.errors import Forbidden, Malformed, Problem, UnsupportedMediaType, say
from workhook.http.calls import Call, Response
from workhook.identity import audit
from workhook.identity.mail import recipients
from workhook.identity.mail.recipients import record_language
from workhook.identity.schemas import Account, Actor
from workhook.identity.signin import passwords, sessions
from workhook.storage import Transaction
from workhook.web.frame import cookies
from workhook.web.frame.texts import language, text

log = structlog.get_logger(__name__)

RETURN_TO_MAX_CHARS = 8000
QUERY_MAX_CHARS = 7500  # must fit in the next request's line
_DECODED_AT_MOST = 4

_seen: ContextVar[Session | None] = ContextVar("session", default=None)

RECENT_MS = HOUR_MS
"""How long after a sign-in secrets, tokens and deletion need no new confirmation."""


class Session(NamedTuple):
    """The session of a signed-in user.

    `csrf` is the unmasked `csrf` field of its forms. `began_at` is the time of the last sign-in or confirmation, in
    milliseconds since the epoch; both begin a new session (`renew_session`). `is_administrator` is the right to
    administer the server.
    """

    id: int
    user: Account
    csrf: str
    began_at: int
    is_administrator: bool = False

    @property
    def is_recent(self) -> bool:
        return now_ms() - self.began_at < RECENT_MS

    def __repr__(self) -> str:
        return f"Session(id={self.id}, user={self.user.login!r})"


async def signed_in(call: Call) -> Session | None:
    """Return the session of the request's cookie, or None if it is invalid."""
    secret = cookies.read(call, cookies.SESSION)
    found = await sessions.find(call.database, secret) if secret else None
    if secret is None or found is None:
        return None
    try:
        await sessions.record_last_seen(call.database, found)
    except Problem as problem:
        log.warning("session_last_use_not_recorded", session_id=found.id, error=problem.message)
    session = Session(found.id, found.user, cookies.csrf_of(secret), found.created_at, found.is_administrator)
    _seen.set(session)
    return session


def seen() -> Session | None:
    """Return the session that `signed_in` found for the current request."""
    return _seen.get()


async def start_session(tx: Transaction, call: Call, user: Account, *, how: str = "password") -> FormKey:
    """Sign the browser in.

    The request's cookie is not reused, because an attacker may have planted it (session fixation, RFC 9700 and OWASP).
    `how` is recorded in the audit log.
    """
    key = await renew_session(tx, call, user)
    if recipients.sends_mail():
        record_language(tx, user.id, language())
    await record(tx, call, user, "user.sign_in", {"how": how})
    return key


async def renew_session(tx: Transaction, call: Call, user: Account) -> FormKey:
    """Replace the browser's session by a new one, without a sign-in."""
    old = cookies.read(call, cookies.SESSION)
    if old is not None:
        await sessions.end_by_secret(tx, old)
    _, secret = await sessions.start(tx, user, address=call.address, user_agent=call.header("user-agent"))
    session = cookies.write(call, cookies.SESSION, secret, max_age_s=sessions.ABSOLUTE_MS // 1000)
    device = cookies.remember_device(call, user.id, await passwords.changed_at(tx, user.id))
    return FormKey(cookies.csrf_of(secret), {**session, **device})


async def record(
    tx: Transaction, call: Call, user: Account, action: str, detail: dict[str, object] | None = None
) -> None:
    """Write to the audit log of the user's account, with address and browser. `detail` must not contain secrets."""
    entry = {**(detail or {}), **_browser(call)}
    await audit.record(tx, as_actor(call, user), action, user.login, account_id=user.id, detail=entry)


async def record_failure(tx: Transaction, call: Call, user: Account | None) -> None:
    """Record a failed sign-in. The typed login isn't stored, because people sometimes type their password there."""
    login, account_id = (user.login, user.id) if user else ("", 0)
    await audit.record(tx, None, "user.sign_in_failed", login, account_id=account_id, detail=_browser(call))


def _browser(call: Call) -> dict[str, object]:
    agent = (call.header("user-agent") or "")[: sessions.AGENT_MAX_CHARS]
    return {"user_agent": agent} if agent else {}


def as_actor(call: Call, user: Account) -> Actor:
    """Return the actor of a page for the audit log, without a token and scopes."""
    return Actor(user, 0, "session", frozenset(), address=call.address, request=call.record)


def sign_in_redirect(call: Call) -> Response:
    """Redirect to the sign-in page, which then returns to the current page."""
    return _redirect_and_back("/login", target_of(call))


def confirm_redirect(return_to: str) -> Response:
    """Redirect to the page that confirms the password (`web/signin/login`) and then leads to the path `return_to`."""
    return _redirect_and_back("/login/confirm", return_to)


def _redirect_and_back(page: str, return_to: str) -> Response:
    query = f"?return_to={quote(return_to, safe='')}"
    return redirect(f"{page}{query if return_to != '/' and len(query) <= QUERY_MAX_CHARS else ''}")


def redirect(location: str, headers: dict[str, str] | None = None) -> Response:
    """Redirect with 303 (GET) to `location`, a path of this server."""
    return Response(None, 303, {"Location": location, "Cache-Control": "no-store", **(headers or {})})


def target_of(call: Call) -> str:
    """Return the path and query of the request, as sent."""
    scope = call.request.scope
    raw = scope.get("raw_path")
    path = raw.decode("latin-1").partition("?")[0] if isinstance(raw, bytes) else quote(scope["path"])
    query = scope["query_string"].decode("latin-1")
    return safe_return_to(f"{path}?{query}" if query else path)


def safe_return_to(text: str | None) -> str:
    """Return `text` if it is a path of this server, with its query, or `/` otherwise: never another host.

    Browsers read `\\` as `/` and drop tabs and line breaks, and some proxies decode paths, so the decoded path is
    checked as well.
    """
    if not text or len(text) > RETURN_TO_MAX_CHARS or not text.isascii() or not text.isprintable():
        return "/"
    path = text.partition("?")[0].partition("#")[0]
    for _ in range(_DECODED_AT_MOST):
        if not _is_plain_path(path):
            return "/"
        path, before = unquote(path, errors="replace"), path
        if path == before:
            break
    else:
        return "/"  # too many levels of encoding
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    bad = parts.scheme or parts.netloc or "\\" in text or " " in text
    return "/" if bad else text


def _is_plain_path(path: str) -> bool:
    segments = path.split("/")
    return (
        path.startswith("/")
        and "//" not in path
        and "\\" not in path
        and path.isprintable()
        and not {".", ".."} & set(segments)
    )


# --- forms -----------------------------------------------------------------------------------------------------------

FORM_MAX_BYTES = 64 * 1024
FIELDS_MAX = 200
_MEDIA_TYPE = "application/x-www-form-urlencoded"
_STALE = text("This form has expired or was sent from another site. Go back, reload the page, and try again.")
_ELSEWHERE = say(
    "This form has expired or was sent from another site. Go back, reload the page, and try again. If this address is "
    "correct, an administrator must set base_url, or trust_proxy behind a proxy."
)


class FormKey(NamedTuple):
    """The `csrf` field of forms without a session or of a new session, and the headers that set its cookies."""

    csrf: str
    headers: dict[str, str]

    def __repr__(self) -> str:
        return "FormKey()"


def form_key(call: Call) -> FormKey:
    """Return the key of forms without a session, against login CSRF. Windows share it until the browser closes."""
    known = cookies.read(call, cookies.FORM)
    if known is not None:
        return FormKey(cookies.csrf_of(known), {})
    secret = secrets.token_urlsafe(32)
    return FormKey(cookies.csrf_of(secret), cookies.write(call, cookies.FORM, secret))


async def read_form(call: Call, session: Session | None) -> dict[str, str]:
    """Return the fields of a form, each of which may occur only once.

    Without a session, the form must have the `csrf` field of `form_key`. Raises `Forbidden` for forms of other sites
    and for a missing or wrong `csrf` field; `Malformed`, `TooLarge` or `UnsupportedMediaType` for invalid bodies.
    """
    check_sender(call, session)
    media_type = (call.header("content-type") or "").partition(";")[0].strip().lower()
    if media_type != _MEDIA_TYPE:
        raise UnsupportedMediaType(f"Send a form (Content-Type: {_MEDIA_TYPE}).")
    fields = _fields(await call.body(FORM_MAX_BYTES))
    check_key(call, session, fields.get("csrf", ""))
    await check_alive(call, session)
    return fields


def check_sender(call: Call, session: Session | None) -> None:
    """Raise `Forbidden` for a form of another site, before its body is read.

    Our own pages also send `Origin: null`, because of their referrer policy `no-referrer` (Fetch Standard, "append a
    request Origin header"). `Sec-Fetch-Site` distinguishes them, and the field `csrf` protects regardless of both.
    """
    if session is not None:
        call.record.set_subject(session.user.id)  # attempts by other sites appear in the user's audit log
    site, sender = call.header("sec-fetch-site"), call.header("origin")
    if site is not None and site not in ("same-origin", "none"):
        raise Forbidden(_STALE, code="cross_site")
    if site is None and sender not in (None, "null") and not cookies.is_own_origin(call, str(sender)):
        raise Forbidden(_ELSEWHERE, code="cross_site")


def check_key(call: Call, session: Session | None, key: str) -> None:
    """Raise `Forbidden` unless `key` is the right `csrf` field."""
    secret = cookies.read(call, cookies.FORM)
    expected = session.csrf if session is not None else secret and cookies.csrf_of(secret)
    if expected is None or not secrets.compare_digest(cookies.unmasked(key).encode(), expected.encode()):
        raise Forbidden(_STALE, code="csrf")


async def check_alive(call: Call, session: Session | None) -> None:
    """Raise `Forbidden` if the session ended while the body was received."""
    if session is not None and not await sessions.is_alive(call.database, session.id):
        raise Forbidden(say("You have been signed out. {}", say("Sign in again.")), code="signed_out")


async def read_session_form(call: Call, again: str) -> tuple[Session, dict[str, str]]:
    """Return the session and form fields. Raises the errors of `read_form`; if signed out, `Forbidden` with `again`."""
    session = await signed_in(call)
    if session is None:
        raise Forbidden(say("You have been signed out. {}", again), code="signed_out")
    return session, await read_form(call, session)


def _fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise Malformed("Problems parsing the form") from error
    fields = dict(pairs)
    if len(fields) < len(pairs) or any("\0" in name + value for name, value in pairs):
        raise Malformed("Problems parsing the form")
    return fields
