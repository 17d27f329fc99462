"""Third-party OAuth client libraries complete their flows against a real server process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from github import Auth, BadCredentialsException, Github
from requests_oauthlib import OAuth2Session

from tests.api.oauth_kit import CALLBACK, DEVICE_GRANT, Site
from tests.clients import octokit
from tests.docs.pages import Shell, blocks, new_machine
from tests.harness.server import Server

pytestmark = pytest.mark.one_database


@pytest.fixture(scope="module")
def site(server: Server) -> Iterator[Site]:
    site = Site(server)
    yield site
    site.close()


@pytest.fixture(autouse=True)
def _without_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("OAUTHLIB", "AUTHLIB"):
        monkeypatch.setenv(f"{library}_INSECURE_TRANSPORT", "1")


def _endpoints(site: Site) -> tuple[str, str]:
    metadata = requests.get(f"{site.server.url}/.well-known/oauth-authorization-server", timeout=60).json()
    return metadata["authorization_endpoint"], metadata["token_endpoint"]


def _visit(site: Site, url: str) -> str:
    """Return the URL that the browser is redirected to after the user has consented."""
    page = site.octo.http.get(url)
    redirect = page if page.status_code == 302 else site.octo.submit(page, decision="approve")
    assert redirect.status_code == 302, redirect.text
    return str(redirect.headers["location"])


def test_requests_oauthlib_completes_the_code_flow(site: Site) -> None:
    authorize, token_url = _endpoints(site)
    with OAuth2Session(site.oauth.id, redirect_uri=CALLBACK, scope=["work"], pkce="S256") as session:
        url, state = session.authorization_url(authorize)
        back = _visit(site, url)
        assert parse_qs(urlsplit(back).query)["state"] == [state]
        token = session.fetch_token(token_url, authorization_response=back, client_secret=site.oauth.secret)
        assert token["scope"] == ["work"]
        assert session.get(f"{site.server.url}/user").json()["login"] == site.octo.user.login


def test_requests_oauthlib_renews_a_token(site: Site) -> None:
    authorize, token_url = _endpoints(site)
    with OAuth2Session(site.app.id, redirect_uri=CALLBACK, pkce="S256") as session:
        back = _visit(site, session.authorization_url(authorize)[0])
        first = session.fetch_token(token_url, authorization_response=back, client_secret=site.app.secret)
        second = session.refresh_token(token_url, client_id=site.app.id, client_secret=site.app.secret)
        assert second["access_token"] != first["access_token"]
        assert session.get(f"{site.server.url}/user").json()["login"] == site.octo.user.login


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_authlib_completes_the_code_flow(site: Site, method: str) -> None:
    authorize, token_url = _endpoints(site)
    with AuthlibSession(
        site.app.id,
        site.app.secret,
        redirect_uri=CALLBACK,
        code_challenge_method="S256",
        token_endpoint=token_url,
        token_endpoint_auth_method=method,
    ) as session:
        verifier = "v" * 64
        url, state = session.create_authorization_url(authorize, code_verifier=verifier)
        back = _visit(site, url)
        first = session.fetch_token(authorization_response=back, state=state, code_verifier=verifier)
        assert first["expires_in"] == 28800
        assert session.refresh_token()["access_token"] != first["access_token"]
        assert session.get(f"{site.server.url}/user").json()["login"] == site.octo.user.login


def test_authlib_completes_the_code_flow_as_a_native_app(site: Site) -> None:
    authorize, token_url = _endpoints(site)
    here, verifier = "http://127.0.0.1:49152/callback", "w" * 50
    with AuthlibSession(
        site.oauth.id, redirect_uri=here, scope="repo", code_challenge_method="S256", token_endpoint_auth_method="none"
    ) as session:
        url, state = session.create_authorization_url(authorize, code_verifier=verifier)
        back = _visit(site, url)
        session.fetch_token(token_url, authorization_response=back, state=state, code_verifier=verifier)
        assert session.get(f"{site.server.url}/user").json()["login"] == site.octo.user.login


def test_authlib_completes_the_device_flow(site: Site) -> None:
    _, token_url = _endpoints(site)
    with AuthlibSession(site.oauth.id, token_endpoint_auth_method="none") as session:
        fields, accept = {"client_id": site.oauth.id}, {"Accept": "application/json"}
        begun = site.http.post("/login/device/code", data=fields, headers=accept).json()
        entered = site.octo.submit(site.octo.http.get("/login/device"), user_code=begun["user_code"])
        site.octo.submit(entered, decision="approve")
        session.fetch_token(token_url, grant_type=DEVICE_GRANT, device_code=begun["device_code"])
        assert session.get(f"{site.server.url}/user").json()["login"] == site.octo.user.login


def test_pygithub_completes_the_code_flow(site: Site) -> None:
    with Github(base_url=site.server.url, timeout=60) as github:
        app = github.get_oauth_application(site.app.id, site.app.secret)
        code = parse_qs(urlsplit(_visit(site, app.get_login_url(CALLBACK, "s", site.octo.user.login))).query)["code"][0]
        token = app.get_access_token(code)
        assert token.type == "bearer"
        assert token.expires_in == 28800
        with Github(base_url=site.server.url, auth=Auth.Token(token.token), timeout=60) as user:
            assert user.get_user().login == site.octo.user.login
        with pytest.raises(BadCredentialsException):
            app.get_access_token(code)

        # The replay revoked everything issued for the first exchange.
        code = parse_qs(urlsplit(_visit(site, app.get_login_url(CALLBACK))).query)["code"][0]
        refresh_token = app.get_access_token(code).refresh_token
        assert refresh_token is not None
        renewed = app.refresh_access_token(refresh_token)
        with Github(base_url=site.server.url, auth=app.get_app_user_auth(renewed), timeout=60) as user:
            assert user.get_user().login == site.octo.user.login


def test_octokit_completes_the_code_and_device_flows(site: Site) -> None:
    cookie = "; ".join(f"{name}={value}" for name, value in site.octo.http.cookies.items())
    said = octokit.run(
        "oauth.mjs",
        base_url=site.server.url,
        login=site.octo.user.login,
        cookie=cookie,
        client_id=site.oauth.id,
        client_secret=site.oauth.secret,
        code=site.octo.code(site.oauth, scope="repo"),
        app_id=site.app.id,
        app_secret=site.app.secret,
        app_code=site.octo.code(site.app),
        organization=site.world.organization,
        repository=site.world.repository,
    )
    assert said == "done\n"


def test_every_block_of_the_oauth_page_works(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register, begin, poll, renew, check, narrow = blocks("docs/integrators/oauth.md", "sh")
    [example] = blocks("docs/integrators/oauth.md", "python")
    named = {"ID": site.app.id, "SECRET": site.app.secret, "W": site.server.url, "BASH_ENV": ""}
    settings = {name: value for name, value in site.server.environment().items() if name.startswith("WORKHOOK_")}
    shell = Shell(tmp_path, {**new_machine(tmp_path), **settings, **named})
    try:
        mine = register.replace("acme", site.world.organization).replace("Time report", f"Report {site.world.owner}")
        client_id, secret = re.findall(r"Ov23li\w+|\b[0-9a-f]{40}\b", shell.run(mine))[:2]

        before, after = re.split(r"^# .*\n", example, flags=re.M)
        told: dict[str, Any] = {"client_id": client_id, "client_secret": secret, "server": site.server.url}
        exec(before, told)  # the page's own example
        told["came_back"] = _visit(site, told["url"])
        exec(after, told)
        assert capsys.readouterr().out.strip() == site.octo.user.login
        told["session"].close()

        begun = _said(shell.run(begin))
        entered = site.octo.submit(site.octo.http.get("/login/device"), user_code=begun["user_code"])
        site.octo.submit(entered, decision="approve")
        pair = _said(shell.run(f"DEVICE={begun['device_code']}\n{poll}"))
        pair = _said(shell.run(f"REFRESH={pair['refresh_token']}\n{renew}"))
        found = _said(shell.run(f"TOKEN={pair['access_token']}\n{check}"))
        assert found["user"]["login"] == site.octo.user.login
        less = _said(shell.run(narrow.replace("acme", site.world.organization)))
        assert (less["installation"]["permissions"], less["scopes"]) == ({"work": "read"}, [])
    finally:
        shell.stop()


def _said(output: str) -> Any:
    """Return the JSON in the output of curl, which also prints its progress."""
    return json.loads(output[output.index("{") : output.rindex("}") + 1])
