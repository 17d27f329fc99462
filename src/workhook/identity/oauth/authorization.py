"""The request that a browser brings to `/login/oauth/authorize`, read and checked (RFC 6749 4.1.1). Pure.

Here is also where its answer may go (RFC 6749 3.1.2, RFC 8252, RFC 9700 4.1), and what PKCE asks of it: the Proof Key
for Code Exchange (RFC 7636), with the method S256 alone."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from workhook.core.errors import Fault, Malformed, NotFound
from workhook.core.urls import with_parameters
from workhook.identity.apps.schemas import App
from workhook.identity.oauth.grants import requested, wanted

METHOD = "S256"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")  # SHA-256 in base64url
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def challenge_of(verifier: str) -> str:
    """The SHA-256 of a verifier in base64url, without padding (RFC 7636 4.2)."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def challenge_fault(challenge: str | None, method: str | None) -> str | None:
    """What is wrong with the two parameters of an authorization request, in words; None: nothing."""
    if challenge is None:
        return "code_challenge_method came without code_challenge" if method is not None else None
    if method != METHOD:  # none at all means "plain" (RFC 7636 4.3), which protects from nothing
        return "code_challenge_method must be S256"
    if not _CHALLENGE.fullmatch(challenge):
        return "code_challenge must be the SHA-256 of the code_verifier in base64url: 43 characters, without padding"
    return None


def verifier_fault(verifier: str | None, challenge: str | None) -> str | None:
    """What is wrong with the verifier of a token request; None: nothing.

    A verifier for a code that was asked for without a challenge is refused too: whoever took the challenge away would
    otherwise have turned the protection off (RFC 9700 4.8.2).
    """
    if challenge is None:
        return None if verifier is None else "code_verifier came for a code that was asked for without code_challenge"
    if verifier is None:
        return "code_verifier is missing: the code was asked for with code_challenge"
    if not _VERIFIER.fullmatch(verifier):
        return "code_verifier must be 43 to 128 letters, digits, and -._~"
    if not hmac.compare_digest(challenge_of(verifier), challenge):
        return "code_verifier does not match code_challenge"
    return None


_LOOPBACK = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?((?:[/?].*)?)", re.DOTALL)
# A browser runs or shows these itself instead of handing them to an app.
_OF_THE_BROWSER = frozenset({"javascript", "data", "vbscript", "file", "blob", "about", "filesystem", "view-source"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")


def fits(asked: str, registered: Iterable[str]) -> bool:
    """Whether `asked` is, character by character, one that is registered.

    The one exception: the port of a loopback address, which a native app cannot know beforehand (RFC 8252 7.3).
    """
    return any(asked == each or _same_loopback(asked, each) for each in registered)


def _same_loopback(asked: str, registered: str) -> bool:
    one, other = _LOOPBACK.fullmatch(asked), _LOOPBACK.fullmatch(registered)
    return one is not None and other is not None and one.groups() == other.groups()


def is_native(uri: str) -> bool:
    """Whether it leads to a program on the user's own machine: a loopback address or a scheme of an app (RFC 8252).

    Such a program can keep no secret, and nobody knows which program it is.
    """
    scheme = _scheme(uri)
    return scheme not in ("http", "https") or _LOOPBACK.fullmatch(uri) is not None or _host(uri) == "localhost"


def can_be_sent_to(uri: str) -> bool:
    """Whether a browser may be sent there at all, whatever is registered."""
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


# What the page's form carries on, to be read and checked again.
PARAMETERS = (
    "client_id", "redirect_uri", "response_type", "scope", "state", "code_challenge", "code_challenge_method",
    "login", "prompt",
)  # fmt: skip


class Redirected(Exception):
    """The request is wrong, and its client can be told so: `uri` has `error`, `error_description` and `state`."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri


class AuthorizationRequest(msgspec.Struct, frozen=True):
    """A request that a person can decide about. `redirect_uri`: where the answer goes, given or registered."""

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
        """Where the browser goes with the answer. `iss` tells the client which server it comes from (RFC 9207)."""
        return with_parameters(self.redirect_uri, [*parameters, ("state", self.state), ("iss", issuer)])

    def refusal(self, issuer: str, error: str, description: str) -> str:
        return self.answer(issuer, ("error", error), ("error_description", description))


def read(app: App | None, given: Mapping[str, Sequence[str]], issuer: str) -> AuthorizationRequest:
    """`app`: whom `client_id` names. Raises `NotFound` and `Malformed` for what nobody may be redirected with, and
    `Redirected` for the rest."""
    if app is None:
        raise NotFound("No app has this client_id. The address that brought you here is wrong or out of date.")
    request = AuthorizationRequest(
        app=app,
        redirect_uri=_redirect_uri(app, given),
        scopes=requested(_one(given, "scope")) if app.is_oauth else frozenset(),
        state=_one(given, "state"),
        code_challenge=_one(given, "code_challenge") or None,
        login=_one(given, "login") or None,
        select_account=_one(given, "prompt") == "select_account",
    )
    fault = _fault(given, request)
    if fault is not None:
        raise Redirected(request.refusal(issuer, *fault))
    return request


def client_id_of(given: Mapping[str, Sequence[str]]) -> str:
    """Raises `Malformed` unless there is exactly one."""
    values = given.get("client_id", ())
    if len(values) != 1 or not values[0]:
        faults = [Fault(field="client_id", message="client_id must be there once")]
        raise Malformed("The address names no app.", faults=faults)
    return values[0]


def _redirect_uri(app: App, given: Mapping[str, Sequence[str]]) -> str:
    values = given.get("redirect_uri", ())
    problem = f"{app.name} may not send you where this address leads. Nothing was allowed."
    if len(values) > 1:
        raise Malformed(problem, faults=[Fault(field="redirect_uri", message="redirect_uri must be there once")])
    if not app.callback_urls:
        raise Malformed(problem, faults=[Fault(field="redirect_uri", message="the app has registered no callback URL")])
    asked = values[0] if values and values[0] else app.callback_urls[0]
    if not fits(asked, app.callback_urls) or not can_be_sent_to(asked):
        message = "redirect_uri must be, character by character, a callback URL that is registered for the app"
        raise Malformed(problem, faults=[Fault(field="redirect_uri", message=message)])
    return asked


def _one(given: Mapping[str, Sequence[str]], name: str) -> str | None:
    values = given.get(name)
    return values[0] if values else None


def _fault(given: Mapping[str, Sequence[str]], request: AuthorizationRequest) -> tuple[str, str] | None:
    """Code and description of RFC 6749 4.1.2.1, or None."""
    repeated = [name for name in PARAMETERS if len(given.get(name, ())) > 1]
    if repeated:
        return "invalid_request", f"{', '.join(repeated)}: name each parameter once"
    if _one(given, "response_type") not in (None, "", "code"):
        return "unsupported_response_type", "response_type must be code"
    fault = challenge_fault(request.code_challenge, _one(given, "code_challenge_method") or None)
    return ("invalid_request", fault) if fault else None
