"""The request that a browser brings to `/login/oauth/authorize`, read and checked (RFC 6749 4.1.1). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from workhook.core.errors import Fault, Malformed, NotFound
from workhook.identity.apps.schemas import App
from workhook.identity.oauth import pkce, redirects
from workhook.identity.oauth.scopes import requested, wanted

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
        return redirects.is_native(self.redirect_uri)

    def answer(self, issuer: str, *parameters: tuple[str, str | None]) -> str:
        """Where the browser goes with the answer. `iss` tells the client which server it comes from (RFC 9207)."""
        return redirects.with_parameters(self.redirect_uri, [*parameters, ("state", self.state), ("iss", issuer)])

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
    if not redirects.fits(asked, app.callback_urls) or not redirects.can_be_sent_to(asked):
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
    fault = pkce.challenge_fault(request.code_challenge, _one(given, "code_challenge_method") or None)
    return ("invalid_request", fault) if fault else None
