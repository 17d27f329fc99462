"""Authorization requests, authorization codes and device codes.

A request (RFC 6749, section 4.1.1) is validated with its redirect URI (RFC 6749, section 3.1.2, RFC 8252, RFC 9700,
section 4.1) and its PKCE challenge (RFC 7636, S256 only). The user's consent creates a code. In the device flow (RFC
8628), a device shows a code for the user to enter elsewhere, and polls for the decision.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec
import sqlalchemy as sa

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.core.errors import Conflict, Fault, Malformed, NotFound, say
from workhook.core.ids import new_guid
from workhook.core.urls import with_parameters
from workhook.identity.apps.queries import find_app
from workhook.identity.apps.schemas import App
from workhook.identity.oauth import grants
from workhook.identity.oauth.grants import requested, wanted
from workhook.identity.tables import authorization_codes, device_codes
from workhook.identity.tokens import one_time
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import bigint_param

# --- PKCE -------------------------------------------------------------------------------------------------------------

METHOD = "S256"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")  # SHA-256 in base64url
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def challenge_of(verifier: str) -> str:
    """Return the SHA-256 of a verifier in base64url, without padding (RFC 7636, section 4.2)."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def challenge_fault(challenge: str | None, method: str | None) -> str | None:
    """Return what is wrong with the PKCE parameters of an authorization request, or None."""
    if challenge is None:
        return "code_challenge_method requires code_challenge" if method is not None else None
    if method != METHOD:  # None means "plain" (RFC 7636, section 4.3), which protects nothing
        return "code_challenge_method must be S256"
    if not _CHALLENGE.fullmatch(challenge):
        return "code_challenge must be the SHA-256 of the code_verifier in base64url: 43 characters, without padding"
    return None


def verifier_fault(verifier: str | None, challenge: str | None) -> str | None:
    """Return what is wrong with the verifier of a token request, or None.

    A verifier without a challenge is wrong: an attacker may have removed the challenge (RFC 9700, section 4.8.2).
    """
    if challenge is None and verifier is not None:
        return "code_verifier was sent for a code that was requested without code_challenge"
    if challenge is None:
        return None
    if verifier is None:
        return "code_verifier is required because the code was requested with code_challenge"
    if not _VERIFIER.fullmatch(verifier):
        return "code_verifier must be 43 to 128 letters, digits, and -._~"
    if not hmac.compare_digest(challenge_of(verifier), challenge):
        return "code_verifier does not match code_challenge"
    return None


# --- redirect URIs ----------------------------------------------------------------------------------------------------

_LOOPBACK = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?((?:[/?].*)?)", re.DOTALL)
# Browsers handle these schemes themselves.
_OF_THE_BROWSER = frozenset({"javascript", "data", "vbscript", "file", "blob", "about", "filesystem", "view-source"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")


def fits(asked: str, registered: Collection[str]) -> bool:
    """Return whether `asked` matches a registered URI, except for the port of a loopback address (RFC 8252, 7.3)."""
    found = _LOOPBACK.fullmatch(asked)
    loopbacks = [each.groups() for each in map(_LOOPBACK.fullmatch, registered) if each is not None]
    return asked in registered or (found is not None and found.groups() in loopbacks)


def is_native(uri: str) -> bool:
    """Return whether the URI belongs to a local program, which can neither keep a secret nor prove its identity."""
    scheme = _scheme(uri)
    return scheme not in ("http", "https") or _LOOPBACK.fullmatch(uri) is not None or _host(uri) == "localhost"


def can_be_sent_to(uri: str) -> bool:
    """Return whether a browser may be redirected to this URI, registered or not."""
    scheme = _scheme(uri)
    if not scheme or scheme in _OF_THE_BROWSER or not uri.isprintable() or "#" in uri:
        return False
    return scheme not in ("http", "https") or bool(_host(uri))


def _scheme(uri: str) -> str:
    found = _SCHEME.match(uri)
    return found[1].lower() if found else ""


def _host(uri: str) -> str:
    try:
        return urlsplit(uri).hostname or ""
    except ValueError:
        return ""


# --- requests ---------------------------------------------------------------------------------------------------------

# Submitted by the page's form to be validated again.
PARAMETERS = (
    "client_id", "redirect_uri", "response_type", "scope", "state", "code_challenge", "code_challenge_method",
    "login", "prompt",
)  # fmt: skip


class Redirected(Exception):
    """An invalid request whose client is notified: `uri` contains `error`, `error_description` and `state`."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri


class AuthorizationRequest(msgspec.Struct, frozen=True):
    """A valid request that awaits the user's decision. `redirect_uri` is the requested or else the registered one."""

    app: App
    redirect_uri: str
    scopes: frozenset[str]
    state: str | None
    code_challenge: str | None
    login: str | None
    select_account: bool

    @property
    def wanted(self) -> frozenset[str]:
        return wanted(self.app, self.scopes)

    @property
    def is_native(self) -> bool:
        return is_native(self.redirect_uri)

    def answer(self, issuer: str, *parameters: tuple[str, str | None]) -> str:
        """Return the redirect URI with the parameters. `iss` names the issuing server (RFC 9207)."""
        return with_parameters(self.redirect_uri, [*parameters, ("state", self.state), ("iss", issuer)])

    def refusal(self, issuer: str, error: str, description: str) -> str:
        return self.answer(issuer, ("error", error), ("error_description", description))


def read_request(app: App | None, query: Mapping[str, Sequence[str]], issuer: str) -> AuthorizationRequest:
    """Parse and validate an authorization request.

    Raises `NotFound` and `Malformed` for requests that must not redirect, and `Redirected` for other invalid ones.
    """
    if app is None:
        raise NotFound("No app has this client_id. The link you followed may be wrong or out of date.")
    request = AuthorizationRequest(
        app=app,
        redirect_uri=_redirect_uri(app, query),
        scopes=requested(_single_value(query, "scope")) if app.is_oauth else frozenset(),
        state=_single_value(query, "state"),
        code_challenge=_single_value(query, "code_challenge") or None,
        login=_single_value(query, "login") or None,
        select_account=_single_value(query, "prompt") == "select_account",
    )
    fault = _fault(query, request)
    if fault is not None:
        raise Redirected(request.refusal(issuer, *fault))
    return request


def client_id_of(query: Mapping[str, Sequence[str]]) -> str:
    """Return the client ID. Raises `Malformed` unless it is given exactly once."""
    values = query.get("client_id", ())
    if len(values) != 1 or not values[0]:
        faults = [Fault(field="client_id", message="client_id is required, exactly once")]
        raise Malformed(say("This link does not identify an app."), faults=faults)
    return values[0]


def _redirect_uri(app: App, query: Mapping[str, Sequence[str]]) -> str:
    values = query.get("redirect_uri", ())
    asked = next(iter((*filter(None, values), *app.callback_urls)), "")
    if len(values) > 1:
        message = "redirect_uri is required, exactly once"
    elif not app.callback_urls:
        message = "the app has no registered callback URL"
    elif not fits(asked, app.callback_urls) or not can_be_sent_to(asked):
        message = "redirect_uri must exactly match a callback URL registered for the app"
    else:
        return asked
    problem = f"{app.name} requested a redirect to an address that is not registered for it. Nothing was authorized."
    raise Malformed(problem, faults=[Fault(field="redirect_uri", message=message)])


def _single_value(query: Mapping[str, Sequence[str]], name: str) -> str | None:
    values = query.get(name)
    return values[0] if values else None


def _fault(query: Mapping[str, Sequence[str]], request: AuthorizationRequest) -> tuple[str, str] | None:
    """Return the code and description of an error (RFC 6749, section 4.1.2.1), or None."""
    if repeated := [name for name in PARAMETERS if len(query.get(name, ())) > 1]:
        return "invalid_request", f"{', '.join(repeated)}: send each parameter only once"
    if _single_value(query, "response_type") not in (None, "", "code"):
        return "unsupported_response_type", "response_type must be code"
    fault = challenge_fault(request.code_challenge, _single_value(query, "code_challenge_method") or None)
    return ("invalid_request", fault) if fault else None


# --- authorization codes ----------------------------------------------------------------------------------------------

CODE_MS = 10 * MINUTE_MS


async def create_code(
    tx: Transaction, app: App, user_id: int, *, redirect_uri: str, scopes: frozenset[str], challenge: str | None
) -> str:
    """Create an authorization code of 40 hexadecimal digits, valid for ten minutes."""
    code = secrets.token_hex(20)
    asked = {"redirect_uri": redirect_uri, "scopes": " ".join(sorted(scopes)), "code_challenge": challenge}
    owner = {"app_id": app.id, "user_id": user_id, "family": new_guid()}
    await one_time.store(tx, authorization_codes, code, CODE_MS, **owner, **asked)
    return code


async def redeem_code(
    tx: Transaction, app: App, code: str, *, redirect_uri: str | None, verifier: str | None, secret_shown: bool
) -> grants.TokenAnswer | grants.Refusal:
    """Exchange a code for a token. Reuse revokes its tokens (RFC 6749, 4.1.2); other errors leave it valid."""
    bad = grants.Refusal("bad_verification_code", "The code passed is incorrect or expired.")
    row = await one_time.find(tx, authorization_codes, app.id, code)
    if row is None:
        return bad
    if (refusal := _code_fault(row, redirect_uri, verifier, secret_shown)) is not None:
        return refusal
    if not await grants.lock_grant(tx, app.id, row["user_id"]):
        return bad
    if not await one_time.use(tx, authorization_codes, code):
        await grants.end_stolen(tx, app, row, "code")
        return bad
    if row["expires_at"] <= now_ms():
        return bad
    scopes = grants.parse_stored(row["scopes"])
    return await grants.issue_to(tx, app, row["user_id"], scopes, family=row["family"], public=not secret_shown)


def _code_fault(row: Row, redirect_uri: str | None, verifier: str | None, secret_shown: bool) -> grants.Refusal | None:
    # Not all of GitHub's clients repeat `redirect_uri` here. It was matched exactly before.
    if redirect_uri is not None and redirect_uri != row["redirect_uri"]:
        return grants.Refusal("redirect_uri_mismatch", "redirect_uri must be the one that the code was requested with.")
    if not secret_shown:
        if not is_native(row["redirect_uri"]):
            text = "client_secret is required unless the redirect_uri is a loopback address."
            return grants.Refusal("incorrect_client_credentials", text)
        if row["code_challenge"] is None:
            text = "Without client_secret, the code must have been requested with code_challenge (PKCE)."
            return grants.Refusal("incorrect_client_credentials", text)
    fault = verifier_fault(verifier, row["code_challenge"])
    return grants.Refusal("bad_verification_code", f"{fault}.") if fault else None


# --- device codes -----------------------------------------------------------------------------------------------------

EXPIRES_S = 900
INTERVAL_S = 5
SLOWER_S = 5
WAITING_MAX = 1000
"""Maximum number of undecided codes per app. They can be requested with its client ID alone."""
HEARD_OF_MS = MINUTE_MS
"""How long a code counts after its device last polled. The request limit keeps an attacker from polling for many."""
# No vowels, which could spell words, and no similar characters (RFC 8628, section 6.1): 20⁸ codes.
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_USER_CODE = re.compile(f"[{_LETTERS}]{{8}}")

_waiting = (
    sa.select(device_codes.c.digest)
    .where(
        device_codes.c.app_id == bigint_param("app_id"),
        device_codes.c.expires_at > bigint_param("now"),
        device_codes.c.decision.is_(None),
        sa.func.coalesce(device_codes.c.polled_at, device_codes.c.created_at) > bigint_param("heard_after"),
    )
    .limit(bigint_param("most"))
)
_count_waiting = sa.select(sa.func.count().label("number")).select_from(_waiting.subquery())
_is_open = (device_codes.c.decision.is_(None), device_codes.c.expires_at > bigint_param("now"))
_open_request = sa.select(device_codes.c.app_id, device_codes.c.scopes, device_codes.c.user_code)
_open_request = _open_request.where(device_codes.c.user_code == sa.bindparam("user_code"), *_is_open)
_decide = sa.update(device_codes).where(device_codes.c.user_code == sa.bindparam("code"), *_is_open)
_decide = _decide.values(decision=sa.bindparam("outcome"), user_id=bigint_param("who"))
_polled = sa.update(device_codes).where(device_codes.c.digest == sa.bindparam("of"))
_polled = _polled.values(polled_at=bigint_param("now"), interval_s=sa.bindparam("seconds", type_=sa.Integer()))


class DeviceRequest(msgspec.Struct, frozen=True):
    """A request that awaits the user's decision. `user_code` has no hyphen."""

    app: App
    user_code: str
    scopes: frozenset[str]


async def create_device_code(tx: Transaction, app: App, scopes: frozenset[str]) -> tuple[str, str] | grants.Refusal:
    """Return the device code and the user code. Concurrent requests take no lock and may exceed `WAITING_MAX`."""
    device_code, now = secrets.token_hex(20), now_ms()
    waiting = {"app_id": app.id, "now": now, "heard_after": now - HEARD_OF_MS, "most": WAITING_MAX}
    row = await tx.fetch_one(_count_waiting, waiting)
    if row is not None and row["number"] >= WAITING_MAX:
        text = f"{WAITING_MAX} codes of this app are already pending. Try again in a minute."
        return grants.Refusal("slow_down", text, 60)
    user_code = "".join(secrets.choice(_LETTERS) for _ in range(8))
    asked = {"app_id": app.id, "scopes": " ".join(sorted(scopes)), "user_code": user_code}
    await one_time.store(tx, device_codes, device_code, EXPIRES_S * 1000, **asked, interval_s=INTERVAL_S)
    return device_code, format_user_code(user_code)


def format_user_code(user_code: str) -> str:
    return f"{user_code[:4]}-{user_code[4:]}"


def parse_user_code(text: str) -> str | None:
    """Normalize a user code, typed in any case and with any separators. Returns None if it is invalid."""
    letters = re.sub(r"[\W_]", "", text).upper()
    return letters if _USER_CODE.fullmatch(letters) else None


async def find_request(reader: Reader, text: str) -> DeviceRequest | None:
    user_code = parse_user_code(text)
    row = await reader.fetch_one(_open_request, {"user_code": user_code, "now": now_ms()}) if user_code else None
    app = await find_app(reader, row["app_id"]) if row else None
    if row is None or app is None or not app.device_flow:
        return None
    return DeviceRequest(app, row["user_code"], grants.parse_stored(row["scopes"]))


async def decide(tx: Transaction, request: DeviceRequest, user_id: int, *, approved: bool) -> None:
    """Store the user's decision. Raises `Conflict` if the code has expired or was already decided."""
    if approved:
        await grants.allow(tx, request.app, user_id, grants.wanted(request.app, request.scopes))
    outcome = "approved" if approved else "denied"
    params = {"code": request.user_code, "outcome": outcome, "who": user_id, "now": now_ms()}
    if await tx.execute(_decide, params) == 0:
        raise Conflict(say("This code has expired or has already been used. Request a new one on the device."))


async def poll(tx: Transaction, app: App, device_code: str) -> grants.TokenAnswer | grants.Refusal:
    """Respond to a device that polls for the decision (RFC 8628, section 3.5)."""
    row = await one_time.find(tx, device_codes, app.id, device_code)
    invalid = grants.Refusal("incorrect_device_code", "The device_code provided is not valid.")
    if row is None or row["used_at"] is not None:
        return invalid
    now = now_ms()
    if row["expires_at"] <= now:
        return grants.Refusal("expired_token", "The device_code has expired. Request a new one.")
    if row["decision"] is None:
        return await _wait(tx, row, now)
    allowed = row["decision"] == "approved" and await grants.lock_grant(tx, app.id, row["user_id"])
    if not await one_time.use(tx, device_codes, device_code):  # by a concurrent poll
        return invalid
    if not allowed:
        return grants.Refusal("access_denied", "The user denied access.")
    scopes = grants.parse_stored(row["scopes"])
    return await grants.issue_to(tx, app, row["user_id"], scopes, family=new_guid(), public=True)


async def _wait(tx: Transaction, row: Row, now: int) -> grants.Refusal:
    polled_at, interval_s = row["polled_at"], row["interval_s"]
    too_soon = polled_at is not None and now - polled_at < interval_s * 1000
    if too_soon:
        interval_s += SLOWER_S
    await tx.execute(_polled, {"of": bytes(row["digest"]), "now": now, "seconds": interval_s})
    if too_soon:
        return grants.Refusal("slow_down", f"Wait {interval_s} seconds between polls.", interval_s)
    return grants.Refusal("authorization_pending", "The user_code has not been entered and approved yet.")
