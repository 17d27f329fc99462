"""Endpoints that issue tokens, and the server metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import Malformed, Unauthenticated
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import OAUTH
from workhook.http.wire_types import Url
from workhook.identity.apps.credentials import authenticate_client, basic_credentials
from workhook.identity.apps.queries import find_client
from workhook.identity.apps.schemas import App
from workhook.identity.authenticator import caller_of
from workhook.identity.oauth import codes, grants
from workhook.identity.oauth.grants import Refusal, TokenAnswer, requested
from workhook.identity.policy import OAUTH_SCOPES
from workhook.storage import Transaction

BODY_MAX_BYTES = 64 * 1024
FIELDS_MAX = 100
INVALID_REQUEST = "invalid_request"
FORM = "application/x-www-form-urlencoded"
# RFC 6749, section 5.1: tokens must not be cached.
NOT_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}


async def read(call: Call, known: Collection[str]) -> dict[str, str] | Refusal:
    """Return the known, non-empty fields of a form or JSON object (RFC 6749, section 3.2).

    Returns a refusal if a parameter is repeated. Raises `Malformed` for other bodies and for values that are not
    strings.
    """
    data = await call.body(BODY_MAX_BYTES)
    media_type = (call.header("content-type") or "").partition(";")[0].strip().lower()
    if media_type.endswith("json") or data.lstrip().startswith(b"{"):
        value = json.decode_untrusted(data) if data.strip() else {}
        if not isinstance(value, dict):
            raise Malformed("Body should be a JSON object")
        twice = json.repeated_names(data, value)
        pairs = [(name, each) for name, each in value.items() if each is not None]
    else:
        pairs = _form(data)
        twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    if repeated := [name for name in known if name in twice]:
        return Refusal(INVALID_REQUEST, f"{', '.join(repeated)}: send each parameter only once.")
    pairs = [(name, each) for name, each in pairs if name in known]
    if wrong := [name for name, each in pairs if not isinstance(each, str) or "\0" in each]:
        raise Malformed(f"{', '.join(sorted(wrong))}: send text without NUL characters")
    return {name: each for name, each in pairs if each}


def _form(data: bytes) -> list[tuple[str, str]]:
    try:
        text = data.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise Malformed("Problems parsing the form") from error


def answer(call: Call, body: msgspec.Struct, status: int = 200) -> Response:
    """Respond with JSON if requested, otherwise with a form, as GitHub does."""
    if "json" in (call.header("accept") or "").lower():
        return Response(body, status, NOT_KEPT)
    fields = {name: each for name, each in msgspec.structs.asdict(body).items() if each is not msgspec.UNSET}
    return Response(urlencode(fields).encode(), status, NOT_KEPT, media_type=f"{FORM}; charset=utf-8")


def refusal(call: Call, why: Refusal, shape: type[msgspec.Struct]) -> Response:
    """Respond with status 200 as GitHub does, whose clients check the body for `error`."""
    status = 400 if why.error == INVALID_REQUEST else 200  # RFC 6749, section 5.2, for requests that no client sends
    where = f"{call.public_base}/docs#{call.operation.name}"
    fields = {"error": why.error, "error_description": why.description, "error_uri": where}
    return answer(call, shape(**fields, **({} if why.interval is None else {"interval": why.interval})), status)


class DeviceAnswer(HiddenRepr, msgspec.Struct, omit_defaults=True):
    """The two codes of the device flow, or `error`."""

    device_code: str | UnsetType = UNSET
    user_code: Annotated[str | UnsetType, Meta(examples=["WDJB-MJHT"])] = UNSET
    verification_uri: Annotated[Url | UnsetType, Meta(description="Page to enter `user_code` on.")] = UNSET
    expires_in: Annotated[int | UnsetType, Meta(description="Seconds.")] = UNSET
    interval: Annotated[int | UnsetType, Meta(description="Seconds between polls.")] = UNSET
    error: str | UnsetType = UNSET
    error_description: str | UnsetType = UNSET
    error_uri: Url | UnsetType = UNSET


class ServerMetadata(msgspec.Struct):
    """OAuth metadata of this server (RFC 8414)."""

    issuer: Url
    authorization_endpoint: Url
    token_endpoint: Url
    device_authorization_endpoint: Url
    scopes_supported: list[str]
    response_types_supported: list[str]
    response_modes_supported: list[str]
    grant_types_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]
    code_challenge_methods_supported: list[str]
    authorization_response_iss_parameter_supported: Annotated[bool, Meta(description="RFC 9207.")]
    service_documentation: Url


log = structlog.get_logger(__name__)

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_WRONG_CLIENT = Refusal("incorrect_client_credentials", "The client_id and/or client_secret passed are incorrect.")
_NO_CLIENT = Refusal(
    _WRONG_CLIENT.error, "client_id is missing: send it in the body, or with the secret by HTTP Basic authentication."
)
_NO_DEVICE_FLOW = Refusal(
    "device_flow_disabled", "The device flow is not enabled for this app: its owner can enable it."
)

# Errors for invalid credentials. All others are steps of a flow or programming errors.
_NOT_GOOD = {
    _WRONG_CLIENT.error, "bad_verification_code", "bad_refresh_token", "incorrect_device_code", "redirect_uri_mismatch",
}  # fmt: skip

Fields = Mapping[str, str]

# The required field of each grant type, and GitHub's error code if it is invalid.
_TAKEN = {
    "authorization_code": ("code", "bad_verification_code"),
    "refresh_token": ("refresh_token", "bad_refresh_token"),
    DEVICE_GRANT: ("device_code", "incorrect_device_code"),
}


def _texts(described: Mapping[str, str]) -> dict[str, object]:
    properties = {name: {"type": ["string", "null"], "description": text} for name, text in described.items()}
    return {"type": "object", "properties": properties}


_CLIENT = {
    "client_id": "Client ID of the app; it can be sent with HTTP Basic authentication instead.",
    "client_secret": "Client secret of the app; absent for a native app with PKCE, and in the device flow.",
}
_TOKEN_FIELDS = dict(
    _CLIENT,
    grant_type=f"`authorization_code` (or absent), `refresh_token`, or `{DEVICE_GRANT}`.",
    code="The code from the redirect.",
    redirect_uri="If sent, it must be the same as in the request for the code.",
    code_verifier="The verifier for the `code_challenge` of the request for the code.",
    refresh_token="The refresh token to exchange for a new pair.",  # noqa: S106  # not a secret
    device_code="The `device_code` from `/login/device/code`.",
)
_DEVICE_FIELDS = dict(_CLIENT, scope="Scopes, separated by spaces or commas.")
_BOTH = (
    "Accepts a form or JSON. Returns JSON if `Accept` requests it, and otherwise a form. A repeated parameter returns "
    "400 with the error `invalid_request`. "
)
_FORMS: dict[str, Any] = {"problems": (400, 413, 429, 503), "etag": False, "other_media_types": (FORM,)}

routes = Routes(OAUTH, "OAuth")


class OauthClient(NamedTuple):
    """The client of a request. Its identity is not proven unless `secret_shown`."""

    app: App
    secret_shown: bool


async def _read_request(
    call: Call, known: Mapping[str, str], shape: type[msgspec.Struct]
) -> tuple[Fields, OauthClient] | Response:
    """Return the fields of the body and the client that sent it, or the response that rejects it."""
    fields = await read(call, known)
    if isinstance(fields, Refusal):
        return refusal(call, fields, shape)
    client = await _client(call, fields)
    if client is None:
        named = "client_id" in fields or call.header("authorization") is not None
        return _refuse(call, _WRONG_CLIENT if named else _NO_CLIENT, shape)
    return fields, client


async def _client(call: Call, fields: Fields) -> OauthClient | None:
    """Identify the client by HTTP Basic or the body (RFC 6749, 2.3.1). Returns None for wrong or conflicting values."""
    client_id, secret = fields.get("client_id", ""), fields.get("client_secret")
    basic = basic_credentials(call.header("authorization"))
    if basic is not None:
        if client_id not in ("", basic[0]) or (secret is not None and basic[1] not in ("", secret)):
            return None
        client_id, secret = basic[0], basic[1] or secret
    if "\0" in client_id:
        return None
    if secret is None:
        app = await find_client(call.database, client_id)
    else:
        app = await authenticate_client(call.database, client_id, secret)
    return OauthClient(app, secret_shown=secret is not None) if app else None


def _refuse(call: Call, why: Refusal, shape: type[msgspec.Struct], client: OauthClient | None = None) -> Response:
    """Respond with a refusal, and record invalid credentials in the audit log.

    Only a client that presented its secret gets an entry in its owner's log; otherwise anyone could write to it.
    """
    if why.error in _NOT_GOOD and why is not _NO_CLIENT:
        call.refused = Unauthenticated(why.description, code=why.error)
        if client is not None and client.secret_shown:
            call.actor = msgspec.structs.replace(caller_of(call), app=client.app)
            call.record.set_subject(client.app.account_id)
    return refusal(call, why, shape)


@routes.post(
    "/login/oauth/access_token",
    body=_texts(_TOKEN_FIELDS),
    answers={200: TokenAnswer},
    description=_BOTH
    + "All other errors have status 200: check for `error`. Using a code or refresh token twice revokes "
    "the tokens issued with it.",
    **_FORMS,
    action="oauth_token.issue",
)
async def oauth_access_token(call: Call) -> Response:
    """Create an access token."""
    asked = await _read_request(call, _TOKEN_FIELDS, TokenAnswer)
    if isinstance(asked, Response):
        return asked
    fields, client = asked
    outcome = await call.database.in_transaction(partial(_grant, client=client, fields=fields))
    if isinstance(outcome, Refusal):
        return _refuse(call, outcome, TokenAnswer, client)
    return answer(call, outcome)


async def _grant(tx: Transaction, client: OauthClient, fields: Fields) -> TokenAnswer | Refusal:
    # GitHub's clients send no grant type with a code.
    grant_type = fields.get("grant_type", "authorization_code")
    if grant_type not in _TAKEN:
        return Refusal("unsupported_grant_type", f"grant_type must be {', '.join(_TAKEN)}.")
    name, error = _TAKEN[grant_type]
    if name not in fields:
        return Refusal(error, f"{name} is missing.")
    if grant_type == "authorization_code":
        return await codes.redeem_code(
            tx,
            client.app,
            fields["code"],
            redirect_uri=fields.get("redirect_uri"),
            verifier=fields.get("code_verifier"),
            secret_shown=client.secret_shown,
        )
    if grant_type == "refresh_token":
        return await grants.renew(tx, client.app, fields["refresh_token"], secret_shown=client.secret_shown)
    if not client.app.device_flow:
        return _NO_DEVICE_FLOW
    return await codes.poll(tx, client.app, fields["device_code"])


@routes.post(
    "/login/device/code",
    body=_texts(_DEVICE_FIELDS),
    answers={200: DeviceAnswer},
    description=_BOTH + "Show `user_code` and `verification_uri` to the user, then poll for the token. The error "
    f"`slow_down` means that {codes.WAITING_MAX} codes of the app are already pending.",
    **_FORMS,
    action="device_code.create",
)
async def oauth_device_code(call: Call) -> Response:
    """Start the device flow."""
    asked = await _read_request(call, _DEVICE_FIELDS, DeviceAnswer)
    if isinstance(asked, Response):
        return asked
    fields, client = asked
    app = client.app
    if not app.device_flow:
        return refusal(call, _NO_DEVICE_FLOW, DeviceAnswer)
    scopes = requested(fields.get("scope")) if app.is_oauth else frozenset[str]()
    made = await call.database.in_transaction(lambda tx: codes.create_device_code(tx, app, scopes))
    if isinstance(made, Refusal):
        return refusal(call, made, DeviceAnswer)
    code, user_code = made
    uri = f"{call.public_base}/login/device"
    return answer(call, DeviceAnswer(code, user_code, uri, codes.EXPIRES_S, codes.INTERVAL_S))


@routes.get("/.well-known/oauth-authorization-server", problems=(429,), etag=False)
async def oauth_metadata(call: Call) -> ServerMetadata:
    """Get the OAuth server metadata.

    See RFC 8414.
    """
    base = call.public_base
    return ServerMetadata(
        issuer=base,
        authorization_endpoint=f"{base}/login/oauth/authorize",
        token_endpoint=f"{base}/login/oauth/access_token",
        device_authorization_endpoint=f"{base}/login/device/code",
        scopes_supported=list(OAUTH_SCOPES),
        response_types_supported=["code"],
        response_modes_supported=["query"],
        grant_types_supported=["authorization_code", "refresh_token", DEVICE_GRANT],
        token_endpoint_auth_methods_supported=["client_secret_basic", "client_secret_post", "none"],
        code_challenge_methods_supported=["S256"],
        authorization_response_iss_parameter_supported=True,
        service_documentation=f"{base}/docs",
    )
