"""An app's management of the tokens issued to it, and the discovery of the server's endpoints."""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import Any

import httpx
import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

from tests.api.oauth_kit import Client, Site
from tests.api.wire import SECONDS
from tests.harness.world import make_world
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps import actions as app_actions
from workhook.identity.apps.app_schemas import AppCreate
from workhook.identity.oauth.grants import Refusal, TokenAnswer, allow, issue_to, renew, revoke_grant
from workhook.identity.tokens.lookup import find_actor


def _ask(
    site: Site, client: Client, method: str, token: object, what: str = "token", path: str | None = None
) -> httpx.Response:
    return site.http.request(
        method,
        f"/applications/{path or client.id}/{what}",
        auth=(client.id, client.secret),
        json={} if token is None else {"access_token": token},
    )


def _new(site: Site, client: Client, **parameters: Any) -> str:
    return str(site.token(client, code=site.octo.code(client, **parameters))["access_token"])


def test_an_app_can_check_its_token(site: Site) -> None:
    token = _new(site, site.oauth, scope="work repo")
    response = _ask(site, site.oauth, "POST", token)
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert re.fullmatch(SECONDS, body["created_at"])
    home = f"{site.server.url}/apps/{site.oauth.app.slug}"  # typed clients require an address
    expected = {
        "token": token,
        "token_last_eight": token[-8:],
        "hashed_token": hashlib.sha256(token.encode()).hexdigest(),
        "scopes": ["repo", "work"],
        "expires_at": None,
        "app": {"client_id": site.oauth.id, "name": site.oauth.app.name, "url": home},
    }
    assert {name: body[name] for name in expected} == expected
    user = f"{site.server.url}/users/{site.octo.user.login}"
    assert (body["user"]["url"], body["user"]["followers_url"]) == (user, f"{user}/followers")

    of_app = _new(site, site.app)
    body = _ask(site, site.app, "POST", of_app).json()
    assert body["scopes"] == []
    assert re.fullmatch(SECONDS, body["expires_at"])


def test_tokens_of_other_apps_are_not_found(site: Site) -> None:
    token, theirs = _new(site, site.oauth), _new(site, site.rival)
    for method, what in (("POST", "token"), ("PATCH", "token"), ("DELETE", "token"), ("DELETE", "grant")):
        for wrong in (theirs, site.octo_token, "who_" + "0" * 36, "", token + "x"):
            response = _ask(site, site.oauth, method, wrong, what)
            assert response.status_code == (422 if wrong == "" else 404), (method, what, wrong)
        assert _ask(site, site.oauth, method, token, what, path=site.rival.id).status_code == 404
        assert _ask(site, site.rival, method, token, what, path=site.oauth.id).status_code == 404
        assert _ask(site, site.oauth, method, 7, what).status_code == 422
        assert _ask(site, site.oauth, method, None, what).json()["errors"][0]["field"] == "access_token"
        mixed = Client(site.oauth.app, site.rival.secret)
        assert _ask(site, mixed, method, token, what).status_code == 401
        path = f"/applications/{site.oauth.id}/{what}"
        for auth in ({}, {"Authorization": f"Bearer {site.octo_token}"}, {"Authorization": f"Bearer {token}"}):
            assert site.http.request(method, path, headers=auth, json={"access_token": token}).status_code == 401
    for mine in (token, theirs, site.octo_token):
        assert site.user_of(mine) == site.octo.user.login


def test_a_token_can_be_reset_or_revoked(site: Site) -> None:
    token = _new(site, site.oauth, scope="repo")
    response = _ask(site, site.oauth, "PATCH", token)
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    fresh = response.json()["token"]
    assert fresh != token
    assert response.json()["scopes"] == ["repo"]
    assert site.user_of(token) is None
    assert site.scopes_of(fresh) == "repo"
    assert _ask(site, site.oauth, "PATCH", token).status_code == 404

    assert _ask(site, site.oauth, "DELETE", fresh).status_code == 204
    assert site.user_of(fresh) is None
    assert _ask(site, site.oauth, "DELETE", fresh).status_code == 404
    assert site.octo.authorize(site.oauth, scope="repo").status_code == 302  # the consent remains


def test_revoking_a_token_revokes_its_refresh_token(site: Site) -> None:
    pair = site.token(site.app, code=site.octo.code(site.app))
    reset = _ask(site, site.app, "PATCH", pair["access_token"]).json()
    assert reset["token"].startswith("whu_")
    assert reset["expires_at"]
    assert _ask(site, site.app, "DELETE", reset["token"]).status_code == 204
    site.refused(site.app, "bad_refresh_token", grant_type="refresh_token", refresh_token=pair["refresh_token"])


def test_deleting_a_grant_revokes_everything_issued_under_it(site: Site) -> None:
    first, second = (site.token(site.app, code=site.octo.code(site.app)) for _ in range(2))
    code = site.octo.code(site.app)
    theirs = site.token(site.app, code=site.ada.code(site.app))
    assert _ask(site, site.app, "DELETE", first["access_token"], "grant").status_code == 204
    for each in (first, second):
        assert site.user_of(each["access_token"]) is None
        site.refused(site.app, "bad_refresh_token", grant_type="refresh_token", refresh_token=each["refresh_token"])
    site.refused(site.app, "bad_verification_code", code=code)
    assert site.user_of(theirs["access_token"]) == site.ada.user.login

    # A new consent revives nothing.
    page = site.octo.authorize(site.app)
    assert page.status_code == 200
    fresh = site.octo.answer(site.octo.submit(page, decision="approve"))["code"]
    site.refused(site.app, "bad_verification_code", code=code)
    site.refused(site.app, "bad_refresh_token", grant_type="refresh_token", refresh_token=second["refresh_token"])
    assert site.token(site.app, code=fresh)["access_token"]


async def test_a_revocation_includes_a_token_that_is_being_renewed(services: Services) -> None:
    """The consent is revoked during a renewal.

    The revocation waits for the renewal and then revokes the new token too.
    """
    world = await make_world(services)
    async with services.database.transaction() as tx:
        place, user = [await queries.find_account(tx, login) for login in (world.organization, world.owner)]
        assert place is not None
        assert user is not None
        app, _, _ = await app_actions.create_app(tx, None, place, AppCreate(name=world.owner, permissions={}))
        await allow(tx, app, user.id, frozenset())
        first = await issue_to(tx, app, user.id, frozenset(), family="family", public=False)

    async def take_back() -> bool:
        async with services.database.transaction() as tx:
            return await revoke_grant(tx, app.id, user.id)

    async with services.database.transaction() as tx:
        second = await renew(tx, app, str(first.refresh_token), secret_shown=True)
        taking_back = asyncio.create_task(take_back())
        done, _ = await asyncio.wait({taking_back}, timeout=0.3)
        assert not done
    assert await taking_back
    assert isinstance(second, TokenAnswer)
    for each in (first, second):
        assert await find_actor(services.database, str(each.access_token)) is None
    async with services.database.transaction() as tx:
        await allow(tx, app, user.id, frozenset())  # a new consent revives nothing
        again = await renew(tx, app, str(second.refresh_token), secret_shown=True)
    assert isinstance(again, Refusal)


def test_grants_and_their_tokens_are_in_the_audit_log(site: Site) -> None:
    token = _new(site, site.rival, scope="repo")
    _ask(site, site.rival, "DELETE", token)
    stored = site.stored()
    for action in ("grant.authorize", "oauth_token.issue", "oauth_token.revoke"):
        assert action in stored


def test_the_metadata_conforms_to_the_rfc(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")  # the test server has no certificate
    response = site.http.get("/.well-known/oauth-authorization-server")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("application/json")
    metadata = AuthorizationServerMetadata(response.json())
    metadata.validate()
    assert metadata["issuer"] == site.server.url
    for name in ("authorization_endpoint", "token_endpoint", "device_authorization_endpoint"):
        assert site.http.options(str(metadata[name])).status_code == 204
