"""The authorization code flow as a client and its user see it, successful and not."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.api.oauth_kit import CALLBACK, LOOPBACK, OTHER_CALLBACK, TOKEN_PATH, Site, form_of, new_pkce
from tests.web.browser import PASSWORD, add_person, forms
from tests.web.browser import Browser as PersonsBrowser


def test_consent_leads_to_a_token(site: Site) -> None:
    verifier, pkce = new_pkce()
    page = site.octo.authorize(site.oauth, scope="work:read,nonsense repo read:repo_hook", state="a b&c=1", **pkce)
    assert page.status_code == 200
    for told in (site.oauth.app.name, site.world.organization, site.octo.user.login, "https://client.example/callback"):
        assert told in page.text
    assert "View projects, tasks, files" in page.text
    assert "nonsense" not in page.text

    answer = site.octo.answer(site.octo.submit(page, decision="approve"))
    assert answer.keys() == {"code", "state", "iss"}
    assert (answer["state"], answer["iss"]) == ("a b&c=1", site.server.url)
    assert re.fullmatch("[0-9a-f]{40}", answer["code"])

    token = site.token(site.oauth, code=answer["code"], redirect_uri=CALLBACK, code_verifier=verifier)
    assert token == {"access_token": token["access_token"], "token_type": "bearer", "scope": "repo,work:read"}
    assert token["access_token"].startswith("who_")
    assert site.user_of(token["access_token"]) == site.octo.user.login
    assert site.scopes_of(token["access_token"]) == "repo, work:read"


def test_the_token_endpoint_accepts_and_returns_forms_and_json(site: Site) -> None:
    form = site.http.post(TOKEN_PATH, data={**site.oauth.credentials, "code": site.octo.code(site.oauth)})
    assert form.headers["content-type"].startswith("application/x-www-form-urlencoded")
    assert dict(parse_qsl(form.text))["access_token"].startswith("who_")

    in_json = {**site.oauth.credentials, "code": site.octo.code(site.oauth), "state": None, "more": [1]}
    answer = site.http.post(TOKEN_PATH, json=in_json, headers={"Accept": "application/json"})
    assert answer.json()["access_token"]

    basic = (site.oauth.id, site.oauth.secret)
    fields = {"grant_type": "authorization_code", "code": site.octo.code(site.oauth)}
    answer = site.http.post(TOKEN_PATH, data=fields, auth=basic, headers={"Accept": "application/json"})
    assert answer.json()["access_token"]

    refused = site.http.post(TOKEN_PATH, data={"client_id": site.oauth.id, "client_secret": "wrong"})
    assert refused.status_code == 200
    assert dict(parse_qsl(refused.text))["error"] == "incorrect_client_credentials"
    for body, media_type in ((b"{", "json"), (b"[]", "json"), (b'{"code":1}', "json"), (b"code=1&code=2", "x")):
        answer = site.http.post(TOKEN_PATH, content=body, headers={"Content-Type": f"application/{media_type}"})
        assert answer.status_code == 400


def test_consent_is_requested_again_only_for_more_access(site: Site) -> None:
    browser, client = site.ada, site.rival
    site.token(client, code=browser.code(client, scope="repo"))
    for less in ("repo", "read:repo_hook", "", "write:repo_hook,read:repo_hook"):
        straight_on = browser.answer(browser.authorize(client, scope=less, state="s"))
        assert straight_on["code"]
        granted = site.token(client, code=straight_on["code"])
        assert granted["scope"] == ("write:repo_hook" if "," in less else less)
    for more in ("work:read", "repo admin:org_hook"):
        assert browser.authorize(client, scope=more).status_code == 200
    # A different user may be meant, or a native program may have been replaced by another.
    other = ({"prompt": "select_account"}, {"login": "somebody"}, {"redirect_uri": LOOPBACK})
    for parameters in other:
        assert browser.authorize(client, scope="repo", **parameters).status_code == 200
    assert browser.authorize(client, scope="repo", login=browser.user.login.upper()).status_code == 302
    assert site.octo.authorize(client, scope="repo").status_code == 200


def test_a_refused_consent_grants_nothing(site: Site) -> None:
    page = site.ada.authorize(site.oauth, scope="work", state="s1", redirect_uri=OTHER_CALLBACK)
    answer = site.ada.answer(site.ada.submit(page, decision="deny"))
    assert answer.pop("error_description")
    assert answer == {"from": "workhook", "error": "access_denied", "state": "s1", "iss": site.server.url}
    assert site.ada.authorize(site.oauth, scope="work").status_code == 200


def test_signing_in_returns_to_the_consent_page(site: Site) -> None:
    asked = {"client_id": site.oauth.id, "scope": "repo", "state": "x y&z"}
    person = add_person(site.server)
    with PersonsBrowser(site.server) as browser:
        away = browser.get("/login/oauth/authorize", params=asked)
        assert away.status_code == 303
        assert away.headers["location"].startswith("/login?return_to=%2Flogin%2Foauth%2Fauthorize%3Fclient_id%3D")
        back = browser.fill(away.headers["location"], login=person.login, password=PASSWORD)
        [address] = re.findall('url=([^"]+)"', browser.get(back.headers["location"]).text)
        page = browser.get(unescape(address))
        [form] = [each for each in forms(page) if each.action.endswith("authorize")]
        assert person.login in page.text
        answer = site.octo.answer(browser.post(form.action, {**form.fields, "decision": "approve"}))
    assert answer["state"] == "x y&z"
    assert site.user_of(site.token(site.oauth, code=answer["code"])["access_token"]) == person.login
    # Nor is anyone redirected with an error before signing in (RFC 9700 4.11.2).
    wrong = site.http.get("/login/oauth/authorize", params={**asked, "response_type": "token"})
    assert wrong.headers["location"].startswith("/login?")


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code id_token"}, "unsupported_response_type"),
        ({"code_challenge": "a" * 43}, "invalid_request"),
        ({"code_challenge": "a" * 43, "code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "a" * 42, "code_challenge_method": "S256"}, "invalid_request"),
        ({"code_challenge_method": "S256"}, "invalid_request"),
        ({"scope": ["repo", "work"]}, "invalid_request"),
    ],
)
def test_an_invalid_request_is_redirected_to_the_client(
    site: Site, parameters: dict[str, str | list[str]], error: str
) -> None:
    answer = site.octo.answer(site.octo.authorize(site.oauth, state="s", **parameters))
    assert (answer["error"], answer["state"], answer["iss"]) == (error, "s", site.server.url)
    assert answer["error_description"]
    assert "code" not in answer


def test_using_a_code_twice_revokes_its_token(site: Site) -> None:
    code = site.octo.code(site.oauth)
    token = site.token(site.oauth, code=code)["access_token"]
    other = site.token(site.oauth, code=site.octo.code(site.oauth))["access_token"]
    site.refused(site.rival, "bad_verification_code", code=code)  # another client's attempt revokes nothing
    assert site.user_of(token) == site.octo.user.login
    site.refused(site.oauth, "bad_verification_code", code=code)
    assert site.user_of(token) is None
    assert site.user_of(other) == site.octo.user.login


def test_concurrent_uses_of_a_code_issue_one_token(site: Site) -> None:
    code = site.octo.code(site.oauth)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: site.token(site.oauth, code=code), range(8)))
    [token] = [each["access_token"] for each in answers if "access_token" in each]
    assert {each["error"] for each in answers if "error" in each} == {"bad_verification_code"}
    assert site.user_of(token) is None  # seven other requests had the code


def test_a_code_is_bound_to_its_client_redirect_and_challenge(site: Site) -> None:
    verifier, pkce = new_pkce()
    other_verifier, _ = new_pkce()
    code = site.octo.code(site.oauth, redirect_uri=OTHER_CALLBACK, **pkce)
    good = {"code": code, "code_verifier": verifier}
    site.refused(site.rival, "bad_verification_code", **good)
    site.refused(site.app, "bad_verification_code", **good)
    for uri in (CALLBACK, OTHER_CALLBACK + "/", OTHER_CALLBACK.upper()):
        site.refused(site.oauth, "redirect_uri_mismatch", redirect_uri=uri, **good)
    for wrong in (None, other_verifier, verifier + "\n", verifier[:42], pkce["code_challenge"], "é" * 43):
        site.refused(site.oauth, "bad_verification_code", code=code, code_verifier=wrong)
    # The URL is not that of a native app.
    site.refused(site.oauth, "incorrect_client_credentials", client_secret=None, **good)
    site.refused(site.oauth, "incorrect_client_credentials", client_secret=site.rival.secret, **good)
    for nothing in ("", "0" * 40, code.upper(), code[:-1]):
        site.refused(site.oauth, "bad_verification_code", code=nothing, code_verifier=verifier)
    # None of these attempts has used up the code.
    assert site.token(site.oauth, redirect_uri=OTHER_CALLBACK, **good)["access_token"]

    plain = site.octo.code(site.oauth)
    site.refused(site.oauth, "bad_verification_code", code=plain, code_verifier=verifier)  # RFC 9700 4.8.2
    assert site.token(site.oauth, code=plain)["access_token"]


def test_a_native_app_needs_pkce_instead_of_a_secret(site: Site) -> None:
    verifier, pkce = new_pkce()
    here = "http://127.0.0.1:54321/callback"
    code = site.octo.code(site.oauth, redirect_uri=here, **pkce)
    site.refused(site.oauth, "bad_verification_code", code=code, client_secret=None)
    token = site.token(site.oauth, code=code, client_secret=None, redirect_uri=here, code_verifier=verifier)
    assert token["access_token"]

    unprotected = site.octo.code(site.oauth, redirect_uri=here)
    site.refused(site.oauth, "incorrect_client_credentials", code=unprotected, client_secret=None)
    assert site.token(site.oauth, code=unprotected)["access_token"]


def test_an_apps_tokens_expire_and_can_be_renewed(site: Site) -> None:
    page = site.octo.authorize(site.app, scope="repo admin:org")
    assert "Only in organizations that have installed the app" in page.text
    assert "View webhooks in projects" in page.text
    first = site.token(site.app, code=site.octo.answer(site.octo.submit(page, decision="approve"))["code"])
    assert first["access_token"].startswith("whu_")
    assert first["refresh_token"].startswith("whr_")
    assert (first["scope"], first["expires_in"], first["refresh_token_expires_in"]) == ("", 28800, 15897600)
    actor = site.actor_of(first["access_token"])
    assert [each.permissions for each in actor.grants] == [{"work": "write", "repository_hooks": "read"}]
    assert site.octo.authorize(site.app, scope="").status_code == 302  # the app is authorized already

    def renew(token: str, **more: str | None) -> dict[str, object]:
        return site.token(site.app, grant_type="refresh_token", refresh_token=token, **more)

    assert renew(first["refresh_token"], client_secret=None)["error"] == "incorrect_client_credentials"
    site.refused(site.oauth, "bad_refresh_token", grant_type="refresh_token", refresh_token=first["refresh_token"])
    second = renew(first["refresh_token"], scope="repo admin:org work")
    assert second["scope"] == ""
    assert site.actor_of(str(second["access_token"])).scopes == frozenset()
    assert site.user_of(first["access_token"]) is None
    assert site.user_of(str(second["access_token"])) == site.octo.user.login

    assert renew(first["refresh_token"])["error"] == "bad_refresh_token"  # one of its two holders must have stolen it
    assert site.user_of(str(second["access_token"])) is None
    assert renew(str(second["refresh_token"]))["error"] == "bad_refresh_token"
    for wrong in ("", "whr_" + "0" * 36, str(second["access_token"])):
        assert renew(wrong)["error"] == "bad_refresh_token"


def test_concurrent_uses_of_a_refresh_token_issue_one_pair(site: Site) -> None:
    first = site.token(site.app, code=site.octo.code(site.app))
    fields = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: site.token(site.app, **fields), range(6)))
    [pair] = [each for each in answers if "access_token" in each]
    assert {each["error"] for each in answers if "error" in each} == {"bad_refresh_token"}
    assert site.user_of(pair["access_token"]) is None


def test_an_app_keeps_ten_tokens_per_user_and_scope(site: Site) -> None:
    made = [
        site.token(site.oauth, code=site.octo.code(site.oauth, scope="work:read"))["access_token"] for _ in "0" * 11
    ]
    other = site.token(site.oauth, code=site.octo.code(site.oauth, scope="read:repo_hook"))["access_token"]
    assert site.user_of(made[0]) is None
    assert {site.user_of(each) for each in (*made[1:], other)} == {site.octo.user.login}


def test_other_grant_types_are_refused(site: Site) -> None:
    for grant_type in ("password", "client_credentials", "implicit"):
        site.refused(site.oauth, "unsupported_grant_type", grant_type=grant_type, username="octo", password="x")
    for client_id in ("nobody", "", site.oauth.id + "\n"):
        site.refused(site.oauth, "incorrect_client_credentials", client_id=client_id, code="0" * 40)


def test_errors_name_missing_parameters(site: Site) -> None:
    def why(error: str, **fields: str | None) -> str:
        return str(site.refused(site.oauth, error, **fields)["error_description"])

    assert why("incorrect_client_credentials", client_id=None, client_secret=None).startswith("client_id is missing")
    assert why("incorrect_client_credentials", client_id="").startswith("client_id is missing")
    assert why("bad_verification_code") == "code is missing."
    assert why("bad_refresh_token", grant_type="refresh_token") == "refresh_token is missing."
    device = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "client_secret": None}
    assert why("incorrect_device_code", **device) == "device_code is missing."
    code = site.octo.code(site.oauth)  # for a URL that is not a native program's
    assert why("incorrect_client_credentials", code=code, client_secret=None).startswith("client_secret is required")
    begun = site.http.post("/login/device/code", headers={"Accept": "application/json"}).json()
    assert begun["error_description"].startswith("client_id is missing")


def test_the_page_carries_no_secret_and_the_server_keeps_none(site: Site) -> None:
    page = site.octo.authorize(site.oauth, prompt="select_account", state="kept-by-the-client")
    fields = form_of(page)[1]
    code = site.octo.answer(site.octo.submit(page, decision="approve"))["code"]
    token = site.token(site.app, code=site.octo.code(site.app))
    site.token(site.oauth, code=code)
    secrets = [code, token["access_token"], token["refresh_token"], site.oauth.secret, fields["csrf"]]
    log, stored = site.server.log(), site.stored()
    assert "oauth_token.issue" in stored  # the storage really was searched
    for secret in secrets:
        assert secret not in log
        assert secret not in stored


@pytest.mark.parametrize("path", [TOKEN_PATH, "/login/device/code"])
def test_a_repeated_parameter_is_an_invalid_request(site: Site, path: str) -> None:
    """RFC 6749 3.2. A repeated parameter in a page's form, which no client sends, leads to an error page instead."""
    client = site.oauth.id
    headers = {"Accept": "application/json"}
    bodies: list[dict[str, Any]] = [
        {"data": {"client_id": [client, client]}},
        {"data": {"client_id": client, "client_secret": ["wrong", site.oauth.secret]}},
        {"content": f'{{"client_id": "{client}", "client_id": "{client}"}}'.encode()},
        {"content": f'{{"client_id": null, "cl\\u0069ent_id": "{client}"}}'.encode()},
    ]
    for body in bodies:
        refused = site.http.post(path, headers=headers, **body)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
        assert refused.json()["error_description"].endswith(": send each parameter only once.")
    unknown = {"client_id": client, "resource": ["https://a.example", "https://b.example"]}  # RFC 8707 allows several
    assert site.http.post(path, headers=headers, data=unknown).status_code == 200


def test_the_consent_form_refuses_repeated_fields(site: Site) -> None:
    page = site.octo.authorize(site.oauth, prompt="select_account")
    action, fields = form_of(page)
    for name in ("client_id", "redirect_uri", "scope", "decision"):
        sent = {**fields, "decision": "approve", name: [fields.get(name, "approve"), fields.get(name, "approve")]}
        assert site.octo.http.post(action, data=sent).status_code == 400, name
    assert site.octo.http.post(action, data={**fields, "decision": "approve"}).status_code == 302
