"""OpenID Connect 1.0 client: discovery, and the exchange of a code for verified claims.

Uses the authorization code flow with PKCE (RFC 7636, S256), `state` and `nonce`. Claims are accepted only with a valid
signature, issuer, audience, authorized party, times and nonce (Core, section 3.1.3.7). Never call this within a
transaction, because it uses the network.
"""

from __future__ import annotations

import asyncio
import base64
import json as builtin_json
import math
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec
import structlog

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import Forbidden, Malformed, Unavailable, say, shown
from workhook.core.mail_address import is_address
from workhook.core.urls import with_parameters
from workhook.identity.oauth.codes import challenge_of

if TYPE_CHECKING:
    from aiohttp import ClientSession
    from joserfc.jwk import KeySet

ALGORITHMS = ("RS256", "ES256")  # fixed, so that a token cannot choose a weaker one or none
SCOPE = "openid profile email"
SKEW_S = 60
TOKEN_AGE_MAX_S = 600
TIMEOUT_S = 10
ANSWER_MAX_BYTES = 256 * 1024
KEYS_MAX = 64  # providers have a few; each costs up to a millisecond
KNOWN_FOR_S = 3600.0  # how long the provider's endpoints and keys are cached
KEYS_AGAIN_S = 10.0  # minimum time between refreshes because of unknown keys
FAILED_FOR_S = 3.0  # until a failed provider is retried

log = structlog.get_logger(__name__)


class SignInRefused(Forbidden):
    """The provider's response does not identify a user who may sign in. The message explains what to do."""

    code = "oidc_refused"


class Claims(msgspec.Struct, frozen=True):
    """A person, according to the provider. `email` is set only if it is verified."""

    issuer: str
    subject: str
    email: str | None = None
    unverified_email: bool = False
    username: str | None = None
    name: str | None = None


class SignInAttempt(HiddenRepr, msgspec.Struct, frozen=True):
    """Binds the provider's response to the browser that started the sign-in."""

    state: str
    nonce: str
    verifier: str  # the provider sees only its digest

    @classmethod
    def new(cls) -> SignInAttempt:
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))


class Metadata(msgspec.Struct, frozen=True):
    """Provider metadata (OpenID Connect Discovery 1.0, section 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class Provider:
    def __init__(self, issuer: str, client_id: str, client_secret: str | None) -> None:
        self.issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._lock = asyncio.Lock()
        self._metadata: Metadata | None = None
        self._keys: KeySet | None = None
        self._known_since = self._failed_at = -math.inf  # on the monotonic clock

    def __repr__(self) -> str:
        return f"Provider({self.issuer!r})"

    async def authorization_url(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        """Return the URL to redirect the browser to. Raises `Unavailable`."""
        metadata = await self.metadata()
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": SCOPE,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge_of(attempt.verifier),
            "code_challenge_method": "S256",
        }
        return with_parameters(metadata.authorization_endpoint, query.items())

    async def identify(self, code: str, attempt: SignInAttempt, redirect_uri: str) -> Claims:
        """Redeem the code. Raises `SignInRefused` and `Unavailable`."""
        metadata = await self.metadata()
        async with _session() as session:
            tokens = await self._redeem(session, metadata, code, attempt, redirect_uri)
            claims = await self._verified(tokens.get("id_token"), attempt.nonce)
            if "email" not in claims and metadata.userinfo_endpoint and isinstance(tokens.get("access_token"), str):
                claims = await _with_userinfo(session, metadata.userinfo_endpoint, tokens["access_token"], claims)
        return _claims(self.issuer, claims)

    async def metadata(self) -> Metadata:
        """Return the metadata, from the cache if possible. Raises `Unavailable`."""
        now = time.monotonic()
        if now - self._known_since >= KNOWN_FOR_S:
            await self._discover(now)
        assert self._metadata is not None, "discovery raises where it finds nothing"
        return self._metadata

    async def _discover(self, wanted_at: float) -> None:
        """Fetch endpoints and keys, unless they were fetched since `wanted_at`."""
        async with self._lock:
            if self._known_since >= wanted_at:
                return
            if time.monotonic() - self._failed_at < FAILED_FOR_S:
                raise _unavailable()
            try:
                async with _session() as session:
                    found = await _metadata(session, self.issuer)
                    keys = _key_set(await _json(session, "GET", found.jwks_uri))
            except Unavailable:
                self._failed_at = time.monotonic()
                raise
            self._metadata, self._keys, self._known_since = found, keys, time.monotonic()

    async def _redeem(
        self, session: ClientSession, metadata: Metadata, code: str, attempt: SignInAttempt, redirect_uri: str
    ) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
            "client_id": self._client_id,
        }
        headers = {"Accept": "application/json"}
        if self._client_secret is not None:
            if "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
                # RFC 6749, section 2.3.1: both are form-encoded first.
                pair = f"{quote(self._client_id, safe='')}:{quote(self._client_secret, safe='')}"
                headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            else:
                form["client_secret"] = self._client_secret
        return await _json(session, "POST", metadata.token_endpoint, data=form, headers=headers)

    async def _verified(self, token: object, nonce: str) -> dict[str, Any]:
        if not isinstance(token, str) or len(token) > ANSWER_MAX_BYTES:
            raise _refused("no_id_token")
        try:
            claims = _signed_claims(token, self._keys)
        except LookupError as error:  # the provider may have a new key, even with the same name
            now = time.monotonic()
            if now - self._known_since < KEYS_AGAIN_S:
                raise _refused(str(error)) from None
            await self._discover(now)
            try:
                claims = _signed_claims(token, self._keys)
            except LookupError as again:
                raise _refused(str(again)) from None
        check_claims(claims, issuer=self.issuer, client_id=self._client_id, nonce=nonce, now_s=now_ms() // 1000)
        return claims


def _signed_claims(token: str, keys: KeySet | None) -> dict[str, Any]:
    """Return the claims of a token. Raises `LookupError` if no key matches, and `SignInRefused` if it is invalid."""
    # Few servers need the library.
    from joserfc import jws, jwt
    from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError

    strict = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
    try:
        claims = jwt.decode(token, keys or _key_set({"keys": []}), algorithms=list(ALGORITHMS), registry=strict).claims
        builtin_json.dumps(claims, ensure_ascii=False).encode()  # no lone surrogates, which databases reject
    except InvalidKeyIdError:
        raise LookupError("unknown_key") from None
    except BadSignatureError as error:
        raise LookupError(type(error).__name__) from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:  # RecursionError: nested too deeply
        raise _refused(type(error).__name__) from None
    return claims


def check_claims(claims: Mapping[str, Any], *, issuer: str, client_id: str, nonce: str, now_s: int) -> None:
    """Validate claims (OpenID Connect Core 1.0, sections 3.1.3.7 and 3.1.2.1). Raises `SignInRefused`."""
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    party = claims.get("azp")
    times: list[Any] = [claims.get(name) for name in ("exp", "iat", "nbf")]
    expires, issued, begins = times
    subject, nonce_claim = claims.get("sub"), claims.get("nonce")
    wrong = {
        "iss": claims.get("iss") != issuer,
        "aud": not isinstance(audiences, list) or client_id not in audiences,
        "azp": party != client_id if party is not None else isinstance(audiences, list) and len(audiences) > 1,
        "exp": not _is_time(expires) or expires <= now_s - SKEW_S,
        "iat": not _is_time(issued) or not now_s - TOKEN_AGE_MAX_S <= issued <= now_s + SKEW_S,
        "nbf": begins is not None and (not _is_time(begins) or begins > now_s + SKEW_S),
        "nonce": not isinstance(nonce_claim, str) or not secrets.compare_digest(nonce_claim.encode(), nonce.encode()),
        "sub": not isinstance(subject, str) or not 0 < len(subject) <= 255 or "\0" in subject,
    }
    if any(wrong.values()):
        raise _refused(", ".join(name for name, is_wrong in wrong.items() if is_wrong))


def _is_time(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _claims(issuer: str, claims: Mapping[str, Any]) -> Claims:
    def text(name: str) -> str | None:
        value = claims.get(name)
        return value.strip() if isinstance(value, str) and 0 < len(value) <= 320 and value.isprintable() else None

    email = text("email")
    verified = claims.get("email_verified") is True and email is not None and is_address(email)
    return Claims(
        issuer=issuer,
        subject=claims["sub"],
        email=email if verified else None,
        unverified_email=email is not None and not verified,
        username=text("preferred_username"),
        name=text("name"),
    )


async def _with_userinfo(
    session: ClientSession, address: str, access_token: str, claims: dict[str, Any]
) -> dict[str, Any]:
    """Add the address, which some providers return only here (Core, section 5.3).

    Signed claims take precedence, but do not verify this address.
    """
    more = await _json(session, "GET", address, headers={"Authorization": f"Bearer {access_token}"})
    if more.get("sub") != claims["sub"]:
        raise _refused("userinfo_sub")
    return {**more, **{name: value for name, value in claims.items() if name != "email_verified"}}


async def _metadata(session: ClientSession, issuer: str) -> Metadata:
    """Fetch the metadata. Raises `Unavailable`, also for the document of another issuer (Discovery, section 4.3)."""
    document = await _json(session, "GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    try:
        found = msgspec.convert(document, Metadata)
    except msgspec.ValidationError:
        raise _unusable(issuer, "its configuration has no valid endpoint or key address") from None
    if found.issuer != issuer:
        raise _unusable(issuer, f"its issuer is {shown(found.issuer)}")
    for address in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri, found.userinfo_endpoint):
        if address is not None and not _is_safe(address):
            raise _unusable(issuer, f"{shown(address)} is not an https address")
    return found


def _is_safe(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    local = parts.hostname in ("127.0.0.1", "::1", "localhost")
    return parts.scheme == "https" or (parts.scheme == "http" and local)


def _key_set(document: Mapping[str, Any]) -> KeySet:
    """Return the supported signing keys among the first `KEYS_MAX`."""
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, KeySet, RSAKey

    kinds: Mapping[str, type[RSAKey | ECKey]] = {"RSA": RSAKey, "EC": ECKey}
    listed = document.get("keys")
    keys: list[Any] = []
    for each in listed[:KEYS_MAX] if isinstance(listed, list) else []:
        kind = kinds.get(str(each.get("kty"))) if isinstance(each, dict) and each.get("use", "sig") == "sig" else None
        if kind is not None:
            try:
                keys.append(kind.import_key(each))
            except (JoseError, ValueError, TypeError, KeyError):
                log.warning("oidc_key_ignored", kid=shown(str(each.get("kid"))))
    return KeySet(keys)


def _session() -> ClientSession:
    from aiohttp import ClientSession, ClientTimeout, DummyCookieJar

    return ClientSession(timeout=ClientTimeout(total=TIMEOUT_S), cookie_jar=DummyCookieJar())


async def _json(session: ClientSession, method: str, address: str, **more: Any) -> dict[str, Any]:
    """Fetch a JSON object. Raises `SignInRefused` if the provider refuses, and otherwise `Unavailable`."""
    from aiohttp import ClientError
    from yarl import URL

    try:
        async with session.request(method, URL(address, encoded=True), allow_redirects=False, **more) as response:
            body, status = await _bounded(response), response.status
    except (ClientError, TimeoutError, OSError, ValueError) as error:
        log.warning("oidc_provider_unreachable", address=_without_query(address), error=type(error).__name__)
        raise _unavailable() from None
    try:
        document = json.decode_untrusted(body)
    except Malformed:
        document = None
    if status == 200 and isinstance(document, dict):
        return document
    reason = shown(str(document.get("error"))) if isinstance(document, dict) else None
    log.warning("oidc_provider_refused", address=_without_query(address), status=status, error=reason)
    if method == "POST" and status in (400, 401, 403):
        raise _refused(f"{status} {reason}")
    raise _unavailable()


async def _bounded(response: Any) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_chunked(64 * 1024):
        size += len(part)
        if size > ANSWER_MAX_BYTES:
            raise ValueError("too much")
        parts.append(part)
    return b"".join(parts)


def _without_query(address: str) -> str:
    return address.partition("?")[0]


def _unavailable() -> Unavailable:
    return Unavailable(
        say("The identity provider cannot be reached. Try again, or sign in with your password."),
        code="oidc_unavailable",
    )


def _unusable(issuer: str, why: str) -> Unavailable:
    log.error("oidc_provider_unusable", issuer=issuer, error=why)
    return Unavailable(
        say(
            "Sign-in with the identity provider is not set up correctly. Ask your administrator; the reason is "
            "in the server log."
        ),
        code="oidc_unusable",
    )


def _refused(reason: str) -> SignInRefused:
    """Return the error, and log the exact reason for the operator."""
    log.warning("oidc_token_refused", error=reason)
    return SignInRefused(
        say("The identity provider's response could not be verified. Start again at the sign-in page.")
    )
