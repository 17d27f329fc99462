"""The other endpoints of the webhook API: /, /user, /orgs/{org}, /repos/{owner}/{repo}, /rate_limit, /zen, /meta and
/webhook-events.

`test_profiles.py` has more about users and organizations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.api.wire import SECONDS, Api, Place, refused
from tests.harness.server import Server
from workhook import __version__

pytestmark = pytest.mark.one_database

PUBLIC = ("/", "/rate_limit", "/zen", "/meta", "/versions", "/webhook-events")


@pytest.mark.parametrize("prefix", ["", "/api/v3"])
def test_the_root_lists_the_endpoints(api: Api, server: Server, prefix: str) -> None:
    base = server.url + prefix
    links = api.read(prefix or "/")
    assert (
        links.items()
        >= {
            "current_user_url": f"{base}/user",
            "emails_url": f"{base}/user/emails",
            "organization_url": f"{base}/orgs/{{org}}",
            "repository_url": f"{base}/repos/{{owner}}/{{repo}}",
            "repository_search_url": f"{base}/search/repositories?q={{query}}",
            "rate_limit_url": f"{base}/rate_limit",
            "webhook_events_url": f"{base}/webhook-events",
            "openapi_url": f"{server.url}/openapi.json",
            "documentation_url": f"{server.url}/docs",
        }.items()
    )
    served = {name: link for name, link in links.items() if name.startswith(("current_user_rep", "emails", "user_org"))}
    assert [api.get(link.partition("{")[0]).status_code for link in served.values()] == [200, 200, 200]


def test_the_supported_versions_are_listed(api: Api) -> None:
    versions = api.read("/versions")
    assert versions == ["2026-03-10", "2022-11-28"]
    assert [api.get("/meta", headers={"X-GitHub-Api-Version": each}).status_code for each in versions] == [200, 200]


def without_filler(shown: dict[str, Any]) -> dict[str, Any]:
    """Remove keys that only strict clients need: links below the object's own URL, and constant values."""
    links = (f"{shown['url']}/",)
    plain = {name for name, value in shown.items() if value in (None, 0, False, "") and name not in TOLD}
    below = {name for name, value in shown.items() if str(value).startswith(links) and name not in TOLD}
    assert plain
    assert below
    return {name: value for name, value in shown.items() if name not in plain | below}


TOLD = {
    "avatar_url", "site_admin", "email", "description", "repos_url", "hooks_url", "fork", "private", "archived",
    "disabled", "pushed_at",
}  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "/api/v3"])
def test_the_user_is_described(api: Api, organization: Place, server: Server, prefix: str) -> None:
    user = api.read(f"{prefix}/user")
    login = organization.world.owner
    assert re.fullmatch(SECONDS, user["created_at"])
    url = f"{server.url}{prefix}/users/{login}"
    assert without_filler(user) == {
        "login": login,
        "username": login,
        "repos_url": f"{url}/repos",
        "id": user["id"],
        "node_id": f"A_{user['id']}",
        "avatar_url": f"{server.url}/static/icon.svg",
        "url": url,
        "html_url": f"{server.url}/{login}",
        "type": "User",
        "site_admin": False,
        "name": "Octo",
        "email": "octo@example.com",
        "created_at": user["created_at"],
        "updated_at": user["created_at"],
    }


def test_an_organization_is_described(api: Api, organization: Place, server: Server) -> None:
    shown = api.read(organization.path)
    login, url = organization.world.organization, f"{server.url}{organization.path}"
    assert shown["members_url"] == f"{url}/members{{/member}}"
    assert without_filler(shown) == {
        "login": login,
        "id": shown["id"],
        "node_id": f"A_{shown['id']}",
        "url": url,
        "repos_url": f"{url}/repos",
        "hooks_url": f"{url}/hooks",
        "avatar_url": f"{server.url}/static/icon.svg",
        "html_url": f"{server.url}/{login}",
        "name": "Acme",
        "email": None,
        "description": None,
        "type": "Organization",
        "created_at": shown["created_at"],
        "updated_at": shown["created_at"],
    }
    assert api.read(shown["hooks_url"]) == []
    with server.client(None) as anyone:
        assert anyone.get(shown["avatar_url"]).headers["content-type"] == "image/svg+xml"


def test_a_repository_is_described(api: Api, repository: Place, server: Server) -> None:
    shown = api.read(repository.path)
    url = f"{server.url}{repository.path}"
    assert shown["owner"]["url"] == f"{server.url}{repository.world.org_path}"
    assert shown["owner"]["type"] == "Organization"
    own = {
        name: value
        for name, value in without_filler(shown).items()
        if name not in ("id", "node_id", "owner", "project_id")
    }
    assert own == {
        "name": "website",
        "full_name": repository.world.full_name,
        "private": False,
        "html_url": f"{server.url}/{repository.world.full_name}",
        "description": "Website",
        "fork": False,
        "url": url,
        "hooks_url": f"{url}/hooks",
        "archived": False,
        "disabled": False,
        "visibility": "internal",
        "default_branch": "main",
        "created_at": shown["created_at"],
        "updated_at": shown["updated_at"],
        "pushed_at": shown["created_at"],
        "permissions": {"admin": True, "maintain": True, "push": True, "triage": True, "pull": True},
        "topics": [],
        "custom_properties": {},
    }


def test_names_are_case_insensitive(api: Api, place: Place) -> None:
    hook = api.hook(place)
    shouted = place.path.upper().replace("/REPOS/", "/repos/").replace("/ORGS/", "/orgs/")
    assert shouted != place.path
    assert api.read(shouted) == api.read(place.path)
    assert api.read(f"{shouted}/hooks") == [hook]
    assert api.read(f"{shouted}/hooks/{hook['id']}") == hook  # links contain the names in their original case


@pytest.mark.parametrize(
    "path",
    [
        "/orgs/nobody", "/orgs/{owner}", "/orgs/{organization}x", "/orgs/%00", "/orgs/{organization}%00", "/orgs/%FF",
        "/orgs/..%2F..", "/repos/{organization}/nothing", "/repos/{owner}/website",
        "/repos/{organization}/website.git", "/repos/{organization}/%00", "/repos/%20/website",
        "/repos/{organization}/web%25site", "/repos/{organization}/web_ite", "/orgs/%25",
    ],
)  # fmt: skip
def test_unknown_names_are_not_found(api: Api, organization: Place, path: str) -> None:
    world = organization.world
    refused(api.get(path.format(organization=world.organization, owner=world.owner)), 404, "Not Found")


def test_the_default_rate_limit_is_very_high(api: Api) -> None:
    limit = api.read("/rate_limit")
    core = limit["resources"]["core"]
    assert set(core) == {"limit", "used", "remaining", "reset", "resource"}
    assert set(limit["resources"]) == {"core", "search", "graphql", "integration_manifest"}
    assert limit["rate"] == core
    assert core["remaining"] > 1_000_000


def test_responses_state_the_rate_limit(new_server: Callable[..., Server]) -> None:
    server = new_server(api_rate_limit=100)
    with server.client(server.world().token) as client:
        for used in range(1, 4):
            answer = client.get("/user")
            expected = {"limit": "100", "used": str(used), "remaining": str(100 - used), "resource": "core"}
            assert {name: answer.headers[f"x-ratelimit-{name}"] for name in expected} == expected
        rate = client.get("/rate_limit").json()["rate"]  # reading the limit is free
        assert (rate["limit"], rate["used"], rate["remaining"]) == (100, 3, 97)
        assert str(rate["reset"]) == answer.headers["x-ratelimit-reset"]


def test_zen_is_one_line_of_plain_text(api: Api) -> None:
    response = api.get("/zen")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert 3 < len(response.text) < 200
    assert "\n" not in response.text


def test_meta_states_the_version(api: Api) -> None:
    assert api.read("/meta") == {
        "verifiable_password_authentication": False,
        "installed_version": __version__,
        "hooks": [],
    }


def test_the_event_catalog_describes_every_event(api: Api) -> None:
    events: list[dict[str, Any]] = api.read("/webhook-events")
    names = [each["name"] for each in events]
    assert names == sorted(set(names))
    assert {"push", "pull_request", "issues", "ping", "task", "timesheet", "invoice"} <= set(names)
    for each in events:
        assert set(each) == {"name", "actions", "description", "targets", "schema"}
        assert each["description"]
        assert all(isinstance(target, str) for target in each["targets"])
        if each["schema"] is not None:
            Draft202012Validator.check_schema(each["schema"])
    own = next(each for each in events if each["name"] == "task")
    assert own["schema"] is not None
    assert "completed" in own["actions"]


@pytest.mark.parametrize("path", PUBLIC)
def test_public_endpoints_need_no_token(server: Server, path: str) -> None:
    with server.client(None) as client:
        response = client.get(path)
        assert response.status_code == 200
        assert "x-oauth-scopes" not in response.headers
        # A token that is sent must be valid nevertheless.
        refused(client.get(path, headers={"Authorization": "Bearer whp_nonsense"}), 401, "Bad credentials")


def test_responses_list_the_tokens_scopes(api: Api) -> None:
    for path in (*PUBLIC, "/user"):
        assert "repo" in api.get(path).headers["x-oauth-scopes"].split(", ")
