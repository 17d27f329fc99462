"""Authentication of an app by JSON Web Token: valid tokens and every kind of invalid one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from tests.api.wire import refused
from tests.harness.apps import Registered, make_app, signed
from tests.harness.server import Server
from tests.harness.world import World
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps import actions, credentials
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.apps.queries import find_app, list_keys

pytestmark = pytest.mark.one_database

UNDECODABLE = "A JSON web token could not be decoded"
NOT_FOUND = "Integration not found"
ISSUER = "'Issuer' claim ('iss') must be the ID or the client ID of the app"
ISSUED = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
FUTURE = "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion "
EXPIRED = FUTURE + "expires"
TOO_FAR = "'Expiration time' claim ('exp') is too far in the future"
NOT_YET = "'Not before' claim ('nbf') must be a numeric value representing a time that has come"


@pytest.fixture(scope="module")
def world(server: Server) -> World:
    return server.world()


@pytest.fixture(scope="module")
def app(server: Server, world: World) -> Registered:
    return make_app(server, world)


@pytest.fixture(scope="module")
def other(server: Server, world: World) -> Registered:
    return make_app(server, world, own_key=True)


def ask(server: Server, token: str) -> httpx.Response:
    with server.client(token) as client:
        return client.get("/app")


def now() -> int:
    return int(time.time())


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def claims(app: Registered, **more: Any) -> dict[str, Any]:
    return {"iat": now() - 60, "exp": now() + 540, "iss": str(app.id), **more}


def raw(app: Registered, payload: str, header: str = '{"alg":"RS256","typ":"JWT"}') -> str:
    """Return a JWT with `payload` as it is, even if it is not JSON.

    `ISS`, `IAT` and `EXP` are replaced by valid values.
    """
    for name, value in (("ISS", app.id), ("IAT", now() - 60), ("EXP", now() + 540)):
        payload = payload.replace(name, str(value))
    first = f"{encoded(header.encode())}.{encoded(payload.encode())}"
    key = RSAKey.import_key(app.private_key)
    signature = jws.JWSRegistry.algorithms["RS256"].sign(first.encode(), key)
    return f"{first}.{encoded(signature)}"


def public_pem(app: Registered) -> bytes:
    return RSAKey.import_key(app.private_key).as_pem(private=False)


def unsigned(app: Registered, name: str) -> str:
    header = encoded(f'{{"alg":"{name}","typ":"JWT"}}'.encode())
    return f"{header}.{encoded(repr(claims(app)).replace(chr(39), chr(34)).encode())}."


def hmac_with_public_key(app: Registered) -> str:
    """Return a token that is signed with the public key as an HMAC secret (CVE-2015-9235)."""
    first = unsigned(app, "HS256").rstrip(".")
    return f"{first}.{encoded(hmac.new(public_pem(app), first.encode(), hashlib.sha256).digest())}"


def with_curve(app: Registered) -> str:
    key = ECKey.generate_key("P-256")
    return jws.serialize_compact({"alg": "ES256"}, repr(claims(app)).replace("'", '"').encode(), key)


def tampered(app: Registered) -> str:
    header, _, signature = app.jwt().split(".")
    return f"{header}.{encoded(repr(claims(app, exp=now() + 500)).replace(chr(39), chr(34)).encode())}.{signature}"


def with_own_key_in_header(app: Registered, stranger: Registered) -> str:
    """Return a token that carries its own key. Such a key must be ignored."""
    key = RSAKey.import_key(stranger.private_key)
    header = {"jwk": key.as_dict(private=False), "kid": "1", "x5u": "http://127.0.0.1:1/", "jku": "http://127.0.0.1:1/"}
    return signed(stranger.private_key, claims(app), **header)


Make = Callable[[Registered, Registered], str]
ROUND = '{"iss":"ISS","iat":IAT,"exp":EXP%s}'

WRONG: dict[str, tuple[Make, str]] = {
    "alg none": (lambda app, other: unsigned(app, "none"), UNDECODABLE),
    "alg none with a signature": (lambda app, other: unsigned(app, "none") + "AA", UNDECODABLE),
    "alg nOnE": (lambda app, other: unsigned(app, "nOnE") + "AA", UNDECODABLE),
    "RS256 without a signature": (lambda app, other: unsigned(app, "RS256"), UNDECODABLE),
    "HS256 with the public key": (lambda app, other: hmac_with_public_key(app), UNDECODABLE),
    "ES256": (lambda app, other: with_curve(app), UNDECODABLE),
    "RS512": (lambda app, other: raw(app, ROUND % "", '{"alg":"RS512"}'), UNDECODABLE),
    "PS256": (lambda app, other: raw(app, ROUND % "", '{"alg":"PS256"}'), UNDECODABLE),
    "alg is a list": (lambda app, other: raw(app, ROUND % "", '{"alg":["RS256"]}'), UNDECODABLE),
    "no alg": (lambda app, other: raw(app, ROUND % "", '{ "typ":"JWT"}'), UNDECODABLE),
    "crit": (lambda app, other: raw(app, ROUND % "", '{"alg":"RS256","crit":["b64"],"b64":false}'), UNDECODABLE),
    "another app's key": (lambda app, other: signed(other.private_key, claims(app)), UNDECODABLE),
    "its own key in the header": (with_own_key_in_header, UNDECODABLE),
    "tampered": (lambda app, other: tampered(app), UNDECODABLE),
    "truncated": (lambda app, other: app.jwt()[:-4], UNDECODABLE),
    "signature too long": (lambda app, other: app.jwt() + "AAAA", UNDECODABLE),
    "characters outside base64url": (lambda app, other: app.jwt().replace(".", ".!", 1), UNDECODABLE),
    "padding": (lambda app, other: app.jwt() + "==", UNDECODABLE),
    "claims are not an object": (lambda app, other: raw(app, "[1]"), UNDECODABLE),
    "claims are not JSON": (lambda app, other: raw(app, "{"), UNDECODABLE),
    "claims with a lone surrogate": (lambda app, other: raw(app, '{"iss":"\\ud800"}'), UNDECODABLE),
    "a bomb of brackets": (lambda app, other: raw(app, '{"a":' + "[" * 1400 + "]" * 1400 + "}"), UNDECODABLE),
    "a bomb in the header": (lambda app, other: raw(app, "{}", '{"a":' + "[" * 1300 + "]" * 1300 + "}"), UNDECODABLE),
    "huge": (lambda app, other: app.jwt(padding="x" * 4096), UNDECODABLE),
    "NaN": (lambda app, other: raw(app, '{"iss":"ISS","iat":IAT,"exp":NaN}'), UNDECODABLE),
    "Infinity": (lambda app, other: raw(app, '{"iss":"ISS","iat":IAT,"exp":Infinity}'), UNDECODABLE),
    "too large for a double": (lambda app, other: raw(app, '{"iss":"ISS","iat":IAT,"exp":1e999}'), UNDECODABLE),
    "no iss": (lambda app, other: raw(app, '{"iat":IAT,"exp":EXP}'), ISSUER),
    "iss true": (lambda app, other: app.jwt(issuer=True), ISSUER),
    "iss a list": (lambda app, other: app.jwt(issuer=[app.id]), ISSUER),
    "iss a float": (lambda app, other: app.jwt(issuer=float(app.id)), ISSUER),
    "iss unknown": (lambda app, other: app.jwt(issuer=10**14), NOT_FOUND),
    "iss beyond 64 bits": (lambda app, other: app.jwt(issuer=str(2**64 + app.id)), NOT_FOUND),
    "iss negative": (lambda app, other: app.jwt(issuer=-app.id), NOT_FOUND),
    "iss with NUL": (lambda app, other: app.jwt(issuer=f"{app.client_id}\0"), NOT_FOUND),
    "iss in other digits": (lambda app, other: app.jwt(issuer="\u0661"), NOT_FOUND),
    "iss empty": (lambda app, other: app.jwt(issuer=""), NOT_FOUND),
    "iss the name": (lambda app, other: app.jwt(issuer=app.slug), NOT_FOUND),
    "iss another app": (lambda app, other: app.jwt(issuer=other.id), UNDECODABLE),
    "expired": (lambda app, other: app.jwt(exp=now() - 1), EXPIRED),
    "exp negative": (lambda app, other: app.jwt(exp=-1), EXPIRED),
    "exp is text": (lambda app, other: app.jwt(exp=str(now() + 60)), EXPIRED),
    "exp true": (lambda app, other: app.jwt(exp=True), EXPIRED),
    "exp null": (lambda app, other: app.jwt(exp=None), EXPIRED),
    "no exp": (lambda app, other: raw(app, '{"iss":"ISS","iat":IAT}'), EXPIRED),
    "exp in twelve minutes": (lambda app, other: app.jwt(exp=now() + 720), TOO_FAR),
    "exp in milliseconds": (lambda app, other: app.jwt(exp=(now() + 60) * 1000), TOO_FAR),
    "exp has too many digits": (
        lambda app, other: raw(app, f'{{"iss":"ISS","iat":IAT,"exp":{"9" * 2000}}}'),
        UNDECODABLE,
    ),
    "exp a large float": (lambda app, other: app.jwt(exp=1e300), TOO_FAR),
    "iat in the future": (lambda app, other: app.jwt(iat=now() + 120), ISSUED),
    "iat is text": (lambda app, other: app.jwt(iat=str(now())), ISSUED),
    "iat false": (lambda app, other: app.jwt(iat=False), ISSUED),
    "no iat": (lambda app, other: raw(app, '{"iss":"ISS","exp":EXP}'), ISSUED),
    "nbf in the future": (lambda app, other: app.jwt(nbf=now() + 120), NOT_YET),
    "nbf is text": (lambda app, other: app.jwt(nbf="now"), NOT_YET),
    "claims are not read before verification": (
        lambda app, other: signed(other.private_key, claims(app, exp=1)),
        UNDECODABLE,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_token_is_refused(server: Server, app: Registered, other: Registered, name: str) -> None:
    make, message = WRONG[name]
    answer = ask(server, make(app, other))
    refused(answer, 401, message)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "date" in answer.headers  # clients correct their clock with it


def test_valid_tokens_are_accepted(server: Server, app: Registered) -> None:
    for token in (
        app.jwt(),
        app.jwt(issuer=app.id),
        app.jwt(issuer=app.client_id),
        app.jwt(iat=now() + 30),  # tolerated clock skew
        app.jwt(exp=now() + 600, iat=float(now())),
        app.jwt(exp=now() + 59.5, nbf=now() - 5, aud="anything", jti="1"),
        raw(app, ROUND % "", '{"alg":"RS256","kid":"no such key","typ":"at+jwt"}'),
        # Shell scripts write multi-line JSON, so a token need not begin with "ey".
        raw(app, '{\n    "iss":"ISS",\n    "iat":IAT,\n    "exp":EXP\n}', '{\n    "typ":"JWT",\n    "alg":"RS256"\n}'),
        raw(app, ROUND % "", '\r\n\t {"alg":"RS256"}'),
    ):
        assert ask(server, token).json()["id"] == app.id
    with server.client(None) as client:
        for scheme in ("Bearer", "bearer", "token"):
            assert client.get("/app", headers={"Authorization": f"{scheme} {app.jwt()}"}).status_code == 200


def test_credentials_other_than_a_jwt_are_refused(server: Server, world: World, app: Registered) -> None:
    refused(ask(server, world.token), 401, UNDECODABLE)
    refused(ask(server, app.token(server)), 401, UNDECODABLE)
    refused(ask(server, "ghs_abc"), 401, "Bad credentials")
    for three_parts in ("a.b.c", "..", "whp_1.2.3"):
        refused(ask(server, three_parts), 401, UNDECODABLE)
    with server.client(None) as client:
        for auth, message in (
            (None, UNDECODABLE),
            ((app.client_id, app.secret), "Bad credentials"),
            (("ada.b.lovelace", "a password"), "Bad credentials"),
        ):
            answer = client.get("/app", auth=auth)
            refused(answer, 401, message)
            assert answer.headers["www-authenticate"] == "Bearer"


def test_an_oauth_app_cannot_authenticate_by_jwt(server: Server, world: World, app: Registered) -> None:
    async def make(services: Services) -> tuple[int, str]:
        async with services.database.transaction() as tx:
            organization = await queries.find_account(tx, world.organization)
            assert organization is not None
            made, _, _ = await actions.create_app(
                tx,
                None,
                organization,
                OauthAppCreate(name=f"Clock {app.id}", callback_urls=["https://example.com/back"]),
            )
        return made.id, made.client_id

    for issuer in server.run(make):
        refused(ask(server, app.jwt(issuer=issuer)), 401, NOT_FOUND)


def test_a_deleted_key_no_longer_authenticates(server: Server, world: World) -> None:
    app = make_app(server, world, own_key=True)
    second = make_app(server, world, own_key=True)

    async def rotate(services: Services) -> None:
        async with services.database.transaction() as tx:
            found = await find_app(tx, app.id)
            assert found is not None
            [old] = await list_keys(tx, app.id)
            await actions.add_key(tx, None, found, credentials.own_key(public_pem(other_app).decode()))
            await actions.remove_key(tx, None, found, old.id)

    other_app = make_app(server, world, own_key=True)
    assert ask(server, app.jwt()).status_code == 200
    server.run(rotate)
    refused(ask(server, app.jwt()), 401, UNDECODABLE)
    assert ask(server, signed(other_app.private_key, claims(app))).status_code == 200
    assert ask(server, second.jwt()).status_code == 200
