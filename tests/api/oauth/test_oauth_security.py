"""The attacks that RFC 9700 and RFC 6749 section 10 describe, against a real server.

PKCE, replays and the binding of codes are tested in `test_oauth_code.py`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest

from tests.api.oauth_kit import CALLBACK, LOOPBACK, Browser, Site, form_of, new_pkce
from tests.web.browser import Person
from tests.web.places_kit import age_sign_in
from workhook.http.calls import Services
from workhook.identity.actions import set_member
from workhook.identity.queries import find_account

pytestmark = pytest.mark.one_database

ELSEWHERE = [
    "https://evil.example/callback",
    "http://client.example/callback",
    "https://client.example",
    "https://client.example/",
    "https://client.example/callback/",
    "https://client.example/callback?",
    "https://client.example/callback?next=https://evil.example",
    "https://client.example/callback#",
    "https://client.example/callback#fragment",
    "https://client.example/callback/../evil",
    "https://client.example/callback/..",
    "https://client.example/callback/%2e%2e/evil",
    "https://client.example/./callback",
    "https://client.example//callback",
    "https://client.example/Callback",
    "https://client.example/callback%20",
    "https://client.example/callback%00",
    "https://client.example/%63allback",
    "https://client.example%2fcallback",
    "https://client.example/callback.evil.example",
    "https://client.example:443/callback",
    "https://client.example:8443/callback",
    "https://client.example./callback",
    "https://client.example.evil.example/callback",
    "https://evil-client.example/callback",
    "https://sub.client.example/callback",
    "https://client.example@evil.example/callback",
    "https://user@client.example/callback",
    "https://user:password@client.example/callback",
    "https://evil.example\\@client.example/callback",
    "https://evil.example%09@client.example/callback",
    "https:client.example/callback",
    "https:/client.example/callback",
    "https:///client.example/callback",
    "//client.example/callback",
    "/callback",
    "callback",
    "HTTPS://client.example/callback",
    "https://CLIENT.example/callback",
    "https://cl\u0131ent.example/callback",
    "https://xn--client.example/callback",
    " https://client.example/callback",
    "https://client.example/callback ",
    "https://client.example/callback\n",
    "https://client.example/callback\r\nSet-Cookie: a=b",
    "https://client.example\t/callback",
    "javascript:alert(document.domain)",
    "javascript://client.example/callback%0aalert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "http://127.0.0.1.evil.example/callback",
    "http://127.0.0.1:80@evil.example/callback",
    "http://127.0.0.1/callback/",
    "http://localhost/callback",
    "http://[::1]/callback",
    "https://127.0.0.1/callback",
    "http://0.0.0.0/callback",
]


def _is_an_error_page(response: httpx.Response, status: int) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("text/html")
    assert "location" not in response.headers
    assert "http-equiv" not in response.text


def test_a_browser_is_never_redirected_to_an_unregistered_uri(site: Site) -> None:
    """RFC 9700 4.1. URIs are compared exactly: before and after signing in, and in the form as well."""
    page = site.octo.authorize(site.oauth, prompt="select_account")
    for uri in ELSEWHERE:
        for browser in (site.octo.http, site.http):
            asked = {"client_id": site.oauth.id, "redirect_uri": uri, "response_type": "code", "state": "s"}
            _is_an_error_page(browser.get("/login/oauth/authorize", params=asked), 400)
        for decision in ("approve", "deny"):
            _is_an_error_page(site.octo.submit(page, decision=decision, redirect_uri=uri), 400)
    # Nor if the request is also invalid, which is otherwise reported by a redirect.
    asked = {"client_id": site.oauth.id, "redirect_uri": "https://evil.example/", "response_type": "token"}
    _is_an_error_page(site.octo.http.get("/login/oauth/authorize", params=asked), 400)


def test_an_unknown_or_repeated_client_leads_to_an_error_page(site: Site) -> None:
    path = "/login/oauth/authorize"
    for client_id in ("nobody", site.oauth.id.lower(), site.oauth.id + " "):
        asked = {"client_id": client_id, "redirect_uri": CALLBACK}
        _is_an_error_page(site.octo.http.get(path, params=asked), 404)
    _is_an_error_page(site.octo.http.get(path), 400)
    twice: list[tuple[str, str | int | float | bool | None]]
    twice = [("client_id", site.oauth.id), ("client_id", site.rival.id)]
    _is_an_error_page(site.octo.http.get(path, params=twice), 400)
    twice = [("client_id", site.oauth.id), ("redirect_uri", CALLBACK), ("redirect_uri", LOOPBACK)]
    _is_an_error_page(site.octo.http.get(path, params=twice), 400)


def test_only_the_users_own_form_can_consent(site: Site) -> None:
    page = site.octo.authorize(site.oauth, prompt="select_account")
    action, fields = form_of(page)
    theirs = form_of(site.ada.authorize(site.oauth, prompt="select_account"))[1]
    approving = {**fields, "decision": "approve"}
    for wrong in ({"csrf": ""}, {"csrf": theirs["csrf"]}, {"csrf": fields["csrf"] + "x"}):
        _is_an_error_page(site.octo.http.post(action, data={**approving, **wrong}), 403)
    without = {name: value for name, value in approving.items() if name != "csrf"}
    _is_an_error_page(site.octo.http.post(action, data=without), 403)
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        _is_an_error_page(site.octo.http.post(action, data=approving, headers=headers), 403)
    _is_an_error_page(site.http.post(action, data=approving), 403)
    # A GET never decides, whatever parameters it has.
    assert site.octo.http.get(action, params=approving | {"prompt": "select_account"}).status_code == 200
    assert site.octo.http.post(action, data=approving).status_code == 302


def test_a_form_shown_to_one_user_cannot_consent_for_another(site: Site) -> None:
    """A different user signs in with the same browser between the page and the answer."""
    page = site.octo.authorize(site.oauth, prompt="select_account", state="s")
    csrf = form_of(site.ada.authorize(site.oauth, prompt="select_account"))[1]["csrf"]
    asked_again = site.ada.submit(page, decision="approve", csrf=csrf)
    assert asked_again.status_code == 200
    assert "This page has changed" in asked_again.text
    code = site.ada.answer(site.ada.submit(asked_again, decision="approve"))["code"]
    token = site.token(site.oauth, code=code)["access_token"]
    assert site.user_of(token) == site.ada.user.login


def test_only_the_scopes_on_the_page_are_granted(site: Site) -> None:
    page = site.octo.authorize(site.oauth, prompt="select_account", scope="read:repo_hook")
    for more in ({"scope": "repo admin:org_hook"}, {"client_id": site.app.id}):
        asked_again = site.octo.submit(page, decision="approve", **more)
        assert asked_again.status_code == 200
        assert "This page has changed" in asked_again.text
    verifier, pkce = new_pkce()
    # With a PKCE challenge added by the user.
    code = site.octo.answer(site.octo.submit(page, decision="approve", **pkce))["code"]
    assert site.token(site.oauth, code=code, code_verifier=verifier)["scope"] == "read:repo_hook"


def test_pages_cannot_be_framed_cached_or_leaked_as_referrer(site: Site) -> None:
    here = "http://127.0.0.1:5123/callback"
    page = site.octo.authorize(site.oauth, prompt="select_account", redirect_uri=here)
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert "form-action 'self' http://127.0.0.1:5123;" in policy
    assert page.headers["x-frame-options"] == "DENY"
    redirect = site.octo.submit(page, decision="approve")
    for response in (page, redirect, site.octo.authorize(site.oauth, redirect_uri="https://evil.example")):
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cache-control"] == "no-store"
    assert redirect.status_code == 302  # never 307, which would forward the form (RFC 9700 4.12)
    assert redirect.content == b""


def test_request_parameters_are_never_markup(site: Site) -> None:
    attack = '"><script>alert(1)</script>'
    page = site.octo.authorize(site.oauth, state=attack, login=attack, scope=attack, prompt="select_account")
    assert page.status_code == 200
    assert "<script" not in page.text
    assert site.octo.answer(site.octo.submit(page, decision="approve"))["state"] == attack
    forged = site.octo.authorize(site.oauth, state="s\r\nSet-Cookie: a=b", prompt="select_account")
    answer = site.octo.submit(forged, decision="approve")
    assert "set-cookie" not in answer.headers
    assert site.octo.answer(answer)["state"] == "s\r\nSet-Cookie: a=b"


def test_every_response_names_the_issuer(site: Site) -> None:
    """RFC 9207, against mix-up attacks: the issuer is the one in the metadata, even if the Host header is forged."""
    metadata = site.http.get("/.well-known/oauth-authorization-server").json()
    assert metadata["issuer"] == site.server.url
    for decision in ("approve", "deny"):
        page = site.octo.authorize(site.oauth, prompt="select_account")
        assert site.octo.answer(site.octo.submit(page, decision=decision))["iss"] == site.server.url


def test_secrets_in_the_query_are_ignored(site: Site) -> None:
    """A URL must not contain secrets (RFC 6749 2.3.1)."""
    code = site.octo.code(site.oauth)
    query = {**site.oauth.credentials, "code": code}
    answer = site.http.post("/login/oauth/access_token", params=query, headers={"Accept": "application/json"})
    assert answer.json()["error"] == "incorrect_client_credentials"
    assert site.http.get("/login/oauth/access_token", params=query).status_code == 405
    token = site.token(site.oauth, code=code)["access_token"]
    assert site.http.get("/user", params={"access_token": token}).status_code == 401


def test_conflicting_client_credentials_are_refused(site: Site) -> None:
    code = site.octo.code(site.oauth)
    mixed = [
        ({"client_id": site.rival.id, "code": code}, (site.oauth.id, site.oauth.secret)),
        ({"client_secret": site.rival.secret, "code": code}, (site.oauth.id, site.oauth.secret)),
        ({"code": code}, (site.oauth.id, site.rival.secret)),
        ({"code": code}, (site.rival.id, site.oauth.secret)),
    ]
    for fields, auth in mixed:
        answer = site.http.post(
            "/login/oauth/access_token", data=fields, auth=auth, headers={"Accept": "application/json"}
        )
        assert answer.json()["error"] == "incorrect_client_credentials"
    assert site.token(site.oauth, code=code)["access_token"]


def test_an_apps_webhooks_are_deactivated_when_its_last_owner_revokes_consent(site: Site) -> None:
    """No one else could deactivate them, and the app would keep receiving every event after consent was revoked."""

    def call(token: str, method: str, path: str, **body: Any) -> httpx.Response:
        return site.http.request(method, path, headers={"Authorization": f"Bearer {token}"}, **body)

    def token_of(browser: Browser) -> str:
        code = browser.code(site.oauth, scope="admin:org_hook admin:repo_hook")
        return str(site.token(site.oauth, code=code)["access_token"])

    def states(token: str) -> list[bool]:
        return [each["active"] for path in paths for each in call(token, "GET", path).json()]

    def take_back(token: str) -> None:
        path = f"/applications/{site.oauth.id}/grant"
        answer = site.http.request(
            "DELETE", path, json={"access_token": token}, auth=(site.oauth.id, site.oauth.secret)
        )
        assert answer.status_code == 204

    async def promote(services: Services) -> None:
        async with services.database.transaction() as tx:
            place = await find_account(tx, site.world.organization)
            assert place is not None
            await set_member(tx, place, site.ada.user, "owner")

    paths = [f"{site.world.org_path}/hooks", f"{site.world.repo_path}/hooks"]
    hook = {"name": "web", "config": {"url": "http://127.0.0.1:9/"}, "events": ["*"]}
    strangers, octos = token_of(site.ada), token_of(site.octo)
    for path in paths:
        made = call(octos, "POST", path, json=hook)
        assert made.status_code == 201, made.text
    site.server.run(promote)
    assert states(strangers) == [True, True]
    take_back(octos)
    assert states(strangers) == [True, True]  # another owner still authorizes it
    take_back(strangers)
    octos = token_of(site.octo)
    assert states(octos) == [False, False]
    [found] = call(octos, "GET", paths[0]).json()
    assert call(octos, "PATCH", f"{paths[0]}/{found['id']}", json={"active": True}).json()["active"]
    registration = f"{site.world.org_path}/oauth-apps/{site.oauth.id}"
    assert call(site.octo_token, "DELETE", f"{registration}/tokens").status_code == 204  # revokes all consents at once
    assert states(token_of(site.octo)) == [False, False]
    log = call(site.octo_token, "GET", f"{site.world.org_path}/audit-log", params={"phrase": "action:hook.deactivate"})
    assert [each["data"]["reason"] for each in log.json()] == ["consent_taken_back"] * 3


def test_a_replay_that_revokes_nothing_is_not_recorded(site: Site) -> None:
    """An app knows its old codes and could flood its user's audit log with them."""

    def entries() -> int:
        return site.stored().count("replay_of")

    code = site.octo.code(site.app)
    refresh_token = site.token(site.app, code=code)["refresh_token"]
    before = entries()
    for _ in range(5):
        site.refused(site.app, "bad_verification_code", code=code)
    assert entries() == before + 1
    for _ in range(5):  # it was revoked with the others
        site.refused(site.app, "bad_refresh_token", grant_type="refresh_token", refresh_token=refresh_token)
    assert entries() == before + 1


def test_head_does_not_grant_consent(site: Site) -> None:
    """HEAD must not change anything (RFC 9110, 9.2.1).

    Servers that treated it as the form's answer have authorized apps that way.
    """
    site.ada.consent(site.oauth, scope="repo")
    before = site.stored(refusals=False)  # refusals of earlier tests may still be pending
    for parameters in ({"scope": "repo"}, {"scope": "work"}):
        looked = site.ada.http.head("/login/oauth/authorize", params={"client_id": site.oauth.id, **parameters})
        assert (looked.status_code, looked.headers["allow"]) == (405, "GET, OPTIONS, POST")
    assert site.stored(refusals=False) == before


def test_consent_requires_a_recent_sign_in(site: Site) -> None:
    """As for a personal token, an open browser session is not enough an hour after the sign-in."""
    browser, client = site.new_browser(site.ada.user), site.oauth
    wanted = {"scope": "repo", "state": "a b/ä"}
    page = browser.authorize(client, prompt="select_account", **wanted)
    begun = site.http.post("/login/device/code", data={"client_id": client.id}, headers={"Accept": "application/json"})
    entered = browser.submit(browser.http.get("/login/device"), user_code=begun.json()["user_code"])
    age_sign_in(site.server, Person(site.ada.user.id, site.ada.user.login, ""))

    def asked(response: httpx.Response) -> dict[str, str]:
        """Return the path and query to which the confirmation page returns."""
        assert response.status_code == 303, response.text
        assert response.headers["location"].startswith("/login/confirm?")
        at, _, query = parse_qs(urlsplit(response.headers["location"]).query)["return_to"][0].partition("?")
        return {"at": at, **dict(parse_qsl(query))}

    again = browser.authorize(client, prompt="select_account", **wanted)
    for response in (again, browser.submit(page, decision="approve")):
        found = asked(response)
        assert (found["at"], found["client_id"]) == ("/login/oauth/authorize", client.id)
        assert (found["scope"], found["state"]) == (wanted["scope"], wanted["state"])
    assert browser.answer(browser.submit(page, decision="deny"))["error"] == "access_denied"
    for response in (browser.http.get("/login/device?user_code=x"), browser.submit(entered, decision="approve")):
        assert asked(response)["at"] == "/login/device"

    site.new_browser(site.ada.user).code(client, **wanted)
    assert "code" in browser.answer(browser.authorize(client, **wanted)), "it was allowed before"
