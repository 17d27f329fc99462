"""A provider under the control of the test: which of its answers are believed."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest

from tests.harness.databases import Databases
from tests.harness.server import Server, SharedServer
from tests.web.browser import Browser, add_person
from tests.web.pauses import lengthen_pauses
from tests.web.providers import CLIENT_ID, CLIENT_SECRET, FORGERIES, Claims, Forger
from tests.web.test_oidc import NOT_VERIFIED, new_subject, refused, settings_for
from workhook.core.errors import Unavailable
from workhook.http.calls import Services
from workhook.identity.queries import find_account
from workhook.identity.schemas import Account
from workhook.identity.signin import oidc, throttle

pytestmark = pytest.mark.one_database


@dataclass
class Forged:
    """A server that creates users and trusts a provider under the control of the test."""

    server: Server
    forger: Forger

    def sign_in(self, make: Any, **changes: Any) -> httpx.Response:
        """Sign in with the ID token `make(forger, claims)`. `changes` modify otherwise valid claims."""
        with Browser(self.server) as browser:
            asked = browser.get("/login/oidc").headers["location"]
            code = self.forger.issue(asked, make(self.forger, self.forger.claims(asked, **changes)))
            state = parse_qs(urlsplit(asked).query)["state"][0]
            return browser.get(f"/login/oidc/callback?state={state}&code={code}")

    def account(self, login: str) -> Account | None:
        async def read(services: Services) -> Account | None:
            return await find_account(services.database, login)

        found: Account | None = self.server.run(read)
        return found


@pytest.fixture(scope="module")
def forged(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forged]:
    folder, forger = tmp_path_factory.mktemp("forged"), Forger()
    settings = {**backend.new(folder), **settings_for(forger.url), "oidc_create_users": "true"}
    settings["trust_proxy"] = "true"  # each browser has its own address
    server = SharedServer(folder, settings).start()
    yield Forged(server, forger)
    server.close()
    forger.close()


def _signed(forger: Forger, claims: Claims) -> str:
    return forger.sign(claims)


def test_the_code_is_redeemed_with_verifier_and_secret_and_a_user_is_created(forged: Forged) -> None:
    name = f"Ada-{uuid.uuid4().hex[:6]}"
    claims = {"preferred_username": f"{name}@example.com", "name": "Ada L.", "email": f"{name}@example.com"}
    assert forged.sign_in(_signed, **claims, email_verified=True).headers["location"] == "/"
    asked = forged.forger.asked[-1]
    scheme, _, encoded = asked.authorization.partition(" ")
    pair = base64.b64decode(encoded).decode().split(":")
    assert (scheme, [unquote(each) for each in pair]) == ("Basic", [CLIENT_ID, CLIENT_SECRET])
    assert "client_secret" not in asked.form
    assert asked.form["redirect_uri"] == f"{forged.server.url}/login/oidc/callback"
    made = forged.account(name)
    assert made is not None
    assert (made.kind, made.name, made.email) == ("user", "Ada L.", f"{name}@example.com")
    assert forged.sign_in(_signed, preferred_username=name, email=f"{name}@example.com").status_code == 303
    second = forged.account(f"{name}-2")
    assert second is not None
    assert second.email is None  # because it was not verified


def test_an_address_from_userinfo_is_valid_only_for_its_own_subject(forged: Forged) -> None:
    person, subject = add_person(forged.server), new_subject()
    forged.forger.userinfo = {"sub": "somebody else", "email": person.email, "email_verified": True}
    refused(forged.sign_in(_signed, sub=subject, email=None), 403, NOT_VERIFIED)
    forged.forger.userinfo["sub"] = subject
    assert forged.sign_in(_signed, sub=subject, email=None).status_code == 303
    # The user is identified by the subject alone. Another subject with the same address is refused.
    forged.forger.userinfo["sub"] = other = new_subject()
    refused(forged.sign_in(_signed, sub=other, email=None), 403, "signs in with another account")


@pytest.mark.parametrize(
    ("signed", "told", "believed"),
    [
        ({"email": None, "email_verified": True}, {"email": "told@example.com"}, False),
        ({"email": None, "email_verified": True}, {"email": "told@example.com", "email_verified": False}, False),
        ({"email": None, "email_verified": False}, {"email": "told@example.com", "email_verified": True}, True),
        ({"email": "signed@example.com"}, {"email": "told@example.com", "email_verified": True}, False),
        ({"email": "signed@example.com", "email_verified": True}, {"email": "told@example.com"}, True),
        ({"email": None, "email_verified": True}, {}, False),
    ],
)
async def test_an_address_is_verified_only_by_the_document_that_contains_it(
    signed: Claims, told: Claims, believed: bool
) -> None:
    """The ID token cannot verify an address that only the userinfo contains, nor vice versa."""
    forger = Forger()
    try:
        provider, attempt = oidc.Provider(forger.url, CLIENT_ID, None), oidc.SignInAttempt.new()
        asked = await provider.authorization_url(attempt, "http://127.0.0.1/back")
        forger.userinfo = {"sub": "s", "name": "Ada", **told}
        code = forger.issue(asked, forger.sign(forger.claims(asked, sub="s", **signed)))
        claims = await provider.identify(code, attempt, "http://127.0.0.1/back")
        email = signed["email"] or told.get("email")
        assert (claims.email, claims.unverified_email) == ((email, False) if believed else (None, email is not None))
        assert claims.name == (None if signed["email"] else "Ada")
    finally:
        forger.close()


def test_a_token_nested_deeper_than_the_stack_is_refused(forged: Forged) -> None:
    def nested(forger: Forger, claims: Claims) -> str:
        return forger.sign_text(json.dumps(claims).removesuffix("}") + f', "more": {"[" * depth}{"]" * depth}' + "}")

    forged.forger.userinfo = {}
    for depth, statuses in [(50, {303}), *((each, {303, 403}) for each in range(800, 1000, 10)), (5000, {403})]:
        answer = forged.sign_in(nested)  # the current depth of the stack varies
        assert answer.status_code in statuses, (depth, answer.text)
    refused(answer, 403, NOT_VERIFIED)


@pytest.mark.parametrize("forgery", FORGERIES, ids=range(len(FORGERIES)))
def test_a_token_not_signed_by_the_provider_is_refused(forged: Forged, forgery: Any) -> None:
    forged.forger.userinfo = {}
    refused(forged.sign_in(forgery, email="ada@example.com", email_verified=True), 403, NOT_VERIFIED)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://evil.example"}, {"iss": None}, {"aud": "another"}, {"aud": None}, {"aud": ["another"]},
        {"aud": [CLIENT_ID, "another"]}, {"aud": [CLIENT_ID, "another"], "azp": "another"}, {"azp": "another"},
        {"aud": {CLIENT_ID: 1}}, {"exp": 1}, {"exp": None}, {"exp": "9999999999"}, {"exp": True},
        {"iat": 1}, {"iat": None}, {"iat": 9_999_999_999}, {"nbf": 9_999_999_999}, {"nonce": "another"},
        {"nonce": None}, {"nonce": ["x"]}, {"sub": None}, {"sub": ""}, {"sub": 7}, {"sub": "x" * 256}, {"sub": "a\0b"},
        {"sub": "\ud800"}, {"nonce": "\udfff"}, {"preferred_username": "\ud800"}, {"name": "\ud83d"},
        {"more": {"x": "\ud800"}}, {"email": "\ud800@example.com", "email_verified": True},
        {"iat": 10**400}, {"nbf": 10**400},
    ],
    ids=lambda changes: ascii(changes)[:60],
)  # fmt: skip
def test_a_token_signed_for_another_purpose_is_refused(forged: Forged, changes: Claims) -> None:
    refused(forged.sign_in(_signed, **changes), 403, NOT_VERIFIED)


def test_a_number_too_large_for_a_float_is_compared_exactly(forged: Forged) -> None:
    forged.forger.userinfo = {}
    assert forged.sign_in(_signed, exp=10**400, nbf=-(10**400)).status_code == 303


def test_several_audiences_are_accepted_if_we_are_the_authorized_party(forged: Forged) -> None:
    forged.forger.userinfo = {}
    assert forged.sign_in(_signed, aud=[CLIENT_ID, "another"], azp=CLIENT_ID).status_code == 303


@pytest.mark.parametrize("name", ["state", "code", "iss", "error"])
def test_an_answer_with_a_repeated_parameter_is_refused(forged: Forged, name: str) -> None:
    """RFC 6749 section 3.1: otherwise, the result would depend on which of the two values is read."""
    with Browser(forged.server) as browser:
        asked = browser.get("/login/oidc").headers["location"]
        claims = forged.forger.claims(asked, preferred_username=f"once-{name}")
        code = forged.forger.issue(asked, forged.forger.sign(claims))
        state = parse_qs(urlsplit(asked).query)["state"][0]
        good = f"/login/oidc/callback?state={state}&code={code}"
        value = {"state": state, "code": code}.get(name, "x")
        twice = good + f"&{name}={value}" * (1 if name in ("state", "code") else 2)
        assert browser.get(twice).status_code == 400
        assert not browser.is_signed_in()
        assert browser.get(good).status_code == 303


def test_repeated_failures_from_one_address_are_throttled(forged: Forged) -> None:
    def come_back(browser: Browser) -> httpx.Response:
        asked = browser.get("/login/oidc").headers["location"]
        state, code = parse_qs(urlsplit(asked).query)["state"][0], forged.forger.issue(asked, "nonsense")
        return browser.get(f"/login/oidc/callback?state={state}&code={code}")

    with Browser(forged.server) as browser, Browser(forged.server) as elsewhere:
        answers = [come_back(browser) for _ in range(throttle.FREE_BY_ADDRESS)]
        assert {answer.status_code for answer in answers} == {403}
        forged.server.run(lengthen_pauses)
        before = len(forged.forger.asked)
        answer = come_back(browser)
        refused(answer, 429, "Too many failed sign-in attempts")
        assert 0 < int(answer.headers["retry-after"]) <= 10 * 60
        assert len(forged.forger.asked) == before
        refused(come_back(elsewhere), 403, NOT_VERIFIED)


async def test_a_new_key_of_the_provider_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "KEYS_AGAIN_S", 0.0)
    forger = Forger()
    try:
        provider, attempt = oidc.Provider(forger.url, CLIENT_ID, None), oidc.SignInAttempt.new()
        asked = await provider.authorization_url(attempt, "http://127.0.0.1/back")
        assert asked.startswith(f"{forger.url}/authorize?tenant=7&response_type=code&")
        for kid in ("two", "three", "three"):  # "one" was the first key, and the last is another key of the same name
            forger.key = type(forger.key).generate_key(2048, {"kid": kid})
            forger.userinfo = {"sub": "s"}
            token = forger.sign(forger.claims(asked, sub="s", email=None), kid=kid)
            claims = await provider.identify(forger.issue(asked, token), attempt, "http://127.0.0.1/back")
            assert claims == oidc.Claims(forger.url, "s")
        assert "Authorization" not in forger.asked[-1].form
        assert forger.asked[-1].authorization == ""
    finally:
        forger.close()


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": "ftp://evil.example"},
        {"authorization_endpoint": None},
    ],
    ids=str,
)
async def test_a_provider_with_invalid_metadata_is_not_used(said: Claims) -> None:
    forger = Forger()
    try:
        good = forger.metadata()
        forger.metadata = lambda: {**good, **said}  # type: ignore[method-assign]  # the attack under test
        with pytest.raises(Unavailable, match="not set up"):
            await oidc.Provider(forger.url, CLIENT_ID, None).metadata()
    finally:
        forger.close()


async def test_an_oversized_answer_is_not_read_completely() -> None:
    forger = Forger()
    try:
        forger.jwks = lambda: b" " * (oidc.ANSWER_MAX_BYTES + 1)  # type: ignore[method-assign]  # likewise
        provider = oidc.Provider(forger.url, CLIENT_ID, None)
        with pytest.raises(Unavailable, match="cannot be reached"):
            await provider.metadata()
    finally:
        forger.close()


async def test_malformed_keys_are_skipped_and_the_number_of_keys_is_limited() -> None:
    forger = Forger()
    try:
        odd = [{"kty": ["RSA"]}, {"kty": {}}, {"kty": "EC", "crv": 5}, {"kty": "RSA", "n": 1, "e": []}, "RSA", None]
        good = forger.jwks()["keys"][-1:]
        forger.jwks = lambda: {"keys": [*odd, *good * 300]}  # type: ignore[method-assign]  # likewise
        provider = oidc.Provider(forger.url, CLIENT_ID, None)
        await provider.metadata()
        assert provider._keys is not None
        assert len(provider._keys.keys) == oidc.KEYS_MAX - len(odd)
    finally:
        forger.close()
