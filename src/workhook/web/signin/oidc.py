"""Sign-in with an OpenID Connect provider.

A cookie for ten minutes, signed with the vault's key, binds the provider's response to this browser, so nothing is
stored and any process can continue. It is deleted with the first response, because the provider accepts a code only
once.
"""

from __future__ import annotations

import secrets

import msgspec

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.core.errors import Forbidden, Malformed, NotFound, Problem, Unavailable
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.invitations import PATH, find_by_link
from workhook.identity.signin import identities, throttle
from workhook.identity.signin.oidc import Claims, Provider, SignInAttempt, SignInRefused
from workhook.storage import Transaction
from workhook.storage.database import UniqueViolation
from workhook.web.frame import cookies
from workhook.web.frame.sessions import record, redirect, safe_return_to, start_session
from workhook.web.frame.texts import text
from workhook.web.signin.login import onwards

COOKIE = "workhook_oidc"
LASTS_MS = 10 * MINUTE_MS
RETURN_TO_MAX_CHARS = 1000  # a browser keeps 4 KB of a cookie
CODE_MAX_CHARS = 4096
_COOKIE_MAX_CHARS = 3500
_TRIES = 3
_PURPOSE = "oidc sign-in"

_ANSWER = ("state", "code", "iss", "error")

_providers: dict[tuple[str, str], Provider] = {}

routes = Routes(PAGES, "pages", etag=False)


class _Begun(msgspec.Struct, frozen=True):
    """The content of the cookie."""

    attempt: SignInAttempt
    return_to: str
    expires_at: int

    def __repr__(self) -> str:
        return f"_Begun(return_to={self.return_to!r})"


@routes.get("/login/oidc", head=False, action="user.sign_in")
async def page_oidc(call: Call) -> Response:
    """Send the browser to the identity provider. Raises `NotFound` without one, `Unavailable` if it is unreachable."""
    provider = _provider(call)
    return_to = safe_return_to(call.query_text("return_to"))
    attempt = SignInAttempt.new()
    address = await provider.authorization_url(attempt, _redirect_uri(call))
    kept = _Begun(attempt, return_to if len(return_to) <= RETURN_TO_MAX_CHARS else "/", now_ms() + LASTS_MS)
    cookie = cookies.write(call, COOKIE, cookies.seal(call, _PURPOSE, kept), max_age_s=LASTS_MS // 1000)
    return redirect(address, {**cookie, "Referrer-Policy": "no-referrer"})


@routes.get("/login/oidc/callback", head=False, action="user.sign_in")
async def page_oidc_callback(call: Call) -> Response:
    """Sign in the user returning from the identity provider.

    Raises `NotFound`, `SignInRefused`, `Forbidden`, `Malformed`, `TooManyRequests` and `Unavailable`.
    """
    provider = _provider(call)
    if any(len(call.query.get(name, ())) > 1 for name in _ANSWER):  # RFC 6749 3.1
        raise Malformed(text("The identity provider’s response repeats a parameter. Start again at /login."))
    begun = _begun(call)
    spent = cookies.write(call, COOKIE, "", max_age_s=0)
    try:
        claims = await _identify(call, provider, begun.attempt)
        headers = await _let_in(call, claims, begun.return_to)
    except Problem as problem:
        problem.headers.update(spent)
        raise
    return onwards(begun.return_to, {**headers, **spent})


def _provider(call: Call) -> Provider:
    settings = call.services.settings
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        raise NotFound(text("No identity provider is set up on this server. Sign in with your password."))
    key = (settings.oidc_issuer, settings.oidc_client_id)
    if key not in _providers:
        _providers[key] = Provider(*key, settings.oidc_client_secret)
    return _providers[key]


def _redirect_uri(call: Call) -> str:
    return f"{call.public_base}/login/oidc/callback"


def _begun(call: Call) -> _Begun:
    """Return the sign-in that this browser started, if its `state` matches. Raises `Forbidden`."""
    cookie = cookies.read(call, COOKIE, length_max=_COOKIE_MAX_CHARS)
    begun = cookies.unseal(call, _PURPOSE, cookie, _Begun) if cookie else None
    state = (call.query_text("state") or "").encode()
    is_ours = begun is not None and secrets.compare_digest(state, begun.attempt.state.encode())
    if begun is None or not is_ours or begun.expires_at <= now_ms():
        raise Forbidden(
            text("This sign-in was started in another browser or more than ten minutes ago. Start again at /login.")
        )
    return begun


async def _identify(call: Call, provider: Provider, attempt: SignInAttempt) -> Claims:
    issuer = call.query_text("iss")
    metadata = await provider.metadata()
    if issuer != provider.issuer and (issuer is not None or metadata.authorization_response_iss_parameter_supported):
        raise SignInRefused(
            text("The response came from a different identity provider (RFC 9207). Start again at /login.")
        )
    if call.query_text("error") is not None:
        raise SignInRefused(
            text("The identity provider didn’t sign you in. Start again at /login, or use your password.")
        )
    code = call.query_text("code")
    if not code or len(code) > CODE_MAX_CHARS:
        raise SignInRefused(text("The identity provider’s response has no code. Start again at /login."))
    # A request to the provider counts as a password attempt, which limits the requests that visitors can cause.
    tried = await throttle.begin(call.database, f"\0oidc {attempt.state}", call.address)  # no form takes NUL
    try:
        claims = await provider.identify(code, attempt, _redirect_uri(call))
    except Unavailable:
        await call.database.in_transaction(lambda tx: throttle.undo_attempt(tx, tried))
        raise
    await call.database.in_transaction(lambda tx: throttle.undo_attempt(tx, tried, succeeded=True))
    return claims


async def _let_in(call: Call, claims: Claims, return_to: str) -> dict[str, str]:
    create = call.services.settings.oidc_create_users or await _is_invited(call, return_to)

    async def step(tx: Transaction) -> dict[str, str]:
        user, done = await identities.find_or_add(tx, claims, create=create)
        if done is not None:
            detail: dict[str, object] = {"issuer": claims.issuer, "subject": claims.subject}
            await record(tx, call, user, f"user.identity_{done}", detail)
        return (await start_session(tx, call, user, how="oidc")).headers

    for _ in range(_TRIES):
        try:
            return await call.database.in_transaction(step)
        except UniqueViolation:  # concurrent sign-ins in two tabs, or a concurrent request took the login
            continue
    raise Unavailable(text("Another user is signing in for the first time right now. Try again."))


async def _is_invited(call: Call, return_to: str) -> bool:
    """Return whether the user came from an unbound invitation link, and so may be new."""
    before, _, secret = return_to.partition(PATH)
    if before or not secret or not call.services.settings.link_create_users:
        return False
    invitation = await find_by_link(call.database, secret, None)
    return invitation is not None and invitation.invitee is None
