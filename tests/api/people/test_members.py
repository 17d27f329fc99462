"""Members of organizations and repositories through the requests of GitHub's clients, and what tokens reveal about
themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.api.app_kit import installation_token
from tests.api.wire import refused
from tests.harness.apps import make_app, new_repository, user_token
from tests.harness.server import Server
from tests.harness.world import World, add_client, add_user
from workhook.core.clock import now_ms
from workhook.http.calls import Services
from workhook.identity.actions import set_member
from workhook.identity.queries import find_account
from workhook.identity.tokens.issue import OAUTH, issue


@dataclass
class Cast:
    """Tokens and logins of an owner, a member, outside collaborators with write and read access, a client and a
    stranger."""

    server: Server
    world: World
    http: httpx.Client
    tokens: dict[str, str]
    logins: dict[str, str]

    def ask(self, who: str, path: str, method: str = "GET", **more: Any) -> httpx.Response:
        """Send a request as `who`, which is a name or a token."""
        token = self.tokens.get(who, who)
        return self.http.request(method, path, headers={"Authorization": f"Bearer {token}"}, **more)

    def read(self, who: str, path: str) -> Any:
        return self.ask(who, path).raise_for_status().json()

    def names(self, who: str, path: str) -> list[str]:
        """Return the users in a list in order: their names here, or else their logins."""
        known = {login: name for name, login in self.logins.items()}
        return [known.get(each["login"], each["login"]) for each in self.read(who, path)]

    def hide(self) -> None:
        """Make the project private."""
        path = f"/api/v1/projects/{self.world.project_id}"
        self.ask("owner", path, "PATCH", json={"private": True}).raise_for_status()


@pytest.fixture
def cast(server: Server, world: World) -> Iterator[Cast]:
    tokens = {
        "owner": world.token,
        "member": server.run(lambda services: add_user(services, world, member="member")),
        "writer": server.run(lambda services: add_user(services, world, role="write")),
        "reader": server.run(lambda services: add_user(services, world, role="read")),
        "client": server.run(lambda services: add_client(services, world)),
        "stranger": server.run(lambda services: add_user(services, world)),
    }
    with server.client(None) as client:
        cast = Cast(server, world, client, tokens, {})
        cast.logins = {name: str(cast.read(name, "/user")["login"]) for name in tokens}
        yield cast


@pytest.mark.parametrize("prefix", ["", "/api/v3"], ids=["root", "prefix"])
def test_members_of_an_organization_are_listed(server: Server, world: World, cast: Cast, prefix: str) -> None:
    app = make_app(server, world)  # its bot is not a member
    path = f"{prefix}{world.org_path}/members"
    place = cast.read("owner", prefix + world.org_path)
    assert place["members_url"] == f"{server.url}{path}{{/member}}"
    for who in ("owner", "member"):
        assert cast.names(who, path) == ["owner", "member"]
    assert cast.names("owner", f"{path}?role=all&filter=all") == ["owner", "member"]
    assert cast.names("owner", f"{path}?role=admin") == ["owner"]
    assert cast.names("owner", f"{path}?role=member") == ["member"]
    assert cast.names(installation_token(server, app.installation_id), path) == ["owner", "member"]
    assert cast.names(user_token(server, app, world.owner), path) == ["owner", "member"]
    first = cast.ask("member", f"{path}?per_page=1&role=all")
    assert first.links["next"]["url"] == f"{server.url}{path}?per_page=1&role=all&page=2"
    assert cast.names("member", first.links["next"]["url"]) == ["member"]
    beyond = cast.ask("member", f"{path}?per_page=1&page=9")
    assert (beyond.json(), beyond.links["prev"]["url"]) == ([], f"{server.url}{path}?per_page=1&page=2")
    for who in ("writer", "reader", "client", "stranger"):
        refused(cast.ask(who, path), 404, "Not Found")
    for wrong in ("role=owner", "filter=2fa_disabled", "per_page=x", "page=x"):
        assert cast.ask("owner", f"{path}?{wrong}").status_code == 422, wrong
    [shown] = cast.read("owner", f"{path}?role=admin")
    assert shown["organizations_url"] == f"{server.url}{prefix}/users/{world.owner}/orgs"
    assert cast.read("owner", shown["organizations_url"]) == [place]
    assert "email" not in shown


def test_memberships_of_the_caller_and_of_others(server: Server, cast: Cast) -> None:
    """Memberships appear in the caller's own list, which sign-in libraries read, and in the organization's."""
    second = server.world()
    place = cast.world.org_path
    for who, role in (("owner", "admin"), ("member", "member")):
        found = cast.read(who, "/user/memberships/orgs?state=active")
        assert found == [cast.read(who, f"/user/memberships/orgs/{cast.world.organization}")]
        assert (found[0]["role"], found[0]["state"]) == (role, "active")
        assert cast.read(who, "/user/memberships/orgs?state=pending") == []
        assert cast.ask(who, "/user/memberships/orgs?state=gone").status_code == 422
    for who in ("writer", "reader", "client", "stranger"):
        assert cast.read(who, "/user/memberships/orgs") == []
    # A user in two organizations: the members of each see the user only there.
    with_two = cast.logins["member"]
    server.run(lambda services: _join(services, second, with_two))
    both = [cast.world.organization, second.organization]
    assert [each["organization"]["login"] for each in cast.read("member", "/user/memberships/orgs")] == both
    paged = cast.ask("member", "/user/memberships/orgs?per_page=1")
    assert cast.read("member", paged.links["next"]["url"])[0]["organization"]["login"] == second.organization
    of_them = f"/users/{with_two.upper()}/orgs"
    assert cast.names("member", of_them) == both
    assert cast.names("owner", of_them) == [cast.world.organization]
    assert cast.names(second.token, of_them) == [second.organization]
    assert cast.read("owner", of_them) == [cast.read("owner", place)]
    assert cast.read("owner", f"/users/{cast.world.organization}/orgs") == []
    for who in ("writer", "client", "stranger"):
        refused(cast.ask(who, of_them), 404, "Not Found")
        assert cast.read(who, f"/users/{cast.logins[who]}/orgs") == []
    # A confined token reveals nothing outside its organization.
    given = {"kind": "fine_grained", "organization": second.organization, "permissions": {"work": "read"}}
    token = cast.ask("member", "/user/tokens", "POST", json=given).raise_for_status().json()["token"]
    assert [each["organization"]["login"] for each in cast.read(token, "/user/memberships/orgs")] == both[1:]
    assert cast.names(token, of_them) == both[1:]
    refused(cast.ask(token, f"{place}/members"), 404, "Not Found")
    refused(cast.ask(token, f"{cast.world.repo_path}/collaborators"), 404, "Not Found")
    bot = installation_token(server, make_app(server, cast.world).installation_id)
    refused(cast.ask(bot, "/user/memberships/orgs"), 403, "Resource not accessible by integration")
    assert cast.names(bot, of_them) == [cast.world.organization]


async def _join(services: Services, place: World, login: str) -> None:
    async with services.database.transaction() as tx:
        organization, user = await find_account(tx, place.organization), await find_account(tx, login)
        assert organization is not None
        assert user is not None
        await set_member(tx, organization, user, "member")


def test_repositories_of_an_account_are_listed(server: Server, world: World, cast: Cast) -> None:
    number, _ = new_repository(server, world, "shop")
    of_place, of_member = f"/users/{world.organization}/repos", f"/users/{cast.logins['member']}/repos"
    assert cast.read("member", of_place) == cast.read("member", f"{world.org_path}/repos")
    first = cast.ask("owner", f"{of_place}?per_page=1")
    assert [each["id"] for each in cast.read("owner", first.links["next"]["url"])] == [number]
    assert cast.read("owner", of_member) == []
    cast.hide()
    assert [each["name"] for each in cast.read("member", of_place)] == ["shop"]
    app = make_app(server, world, repositories=[world.repository])
    bot = installation_token(server, app.installation_id)
    assert [each["name"] for each in cast.read(bot, of_place)] == [world.repository]
    for who in ("writer", "reader", "client", "stranger"):
        refused(cast.ask(who, of_place), 404, "Not Found")
        refused(cast.ask(who, of_member), 404, "Not Found")
        assert cast.read(who, f"/users/{cast.logins[who]}/repos") == []


def test_a_user_without_an_organization_has_own_repositories(cast: Cast) -> None:
    made = cast.ask("stranger", "/api/v1/projects", "POST", json={"title": "Own"})
    assert made.status_code == 200, made.text
    login = cast.logins["stranger"]
    own = cast.read("stranger", f"/repos/{login}/own")
    for path in ("/user/repos", f"/users/{login}/repos"):
        assert cast.read("stranger", path) == [own], path
    path = f"/repos/{login}/own/collaborators"
    for query in ("", "?permission=admin"):
        [shown] = cast.read("stranger", path + query)
        assert (shown["login"], shown["role_name"]) == (login, "admin")
    assert cast.read("stranger", f"{path}?affiliation=outside") == []
    refused(cast.ask("owner", path), 404, "Not Found")
    refused(cast.ask("owner", f"/users/{login}/repos"), 404, "Not Found")


@pytest.mark.parametrize("prefix", ["", "/api/v3"], ids=["root", "prefix"])
def test_collaborators_are_listed_added_and_removed(server: Server, world: World, cast: Cast, prefix: str) -> None:
    app = make_app(server, world)  # its bot is not a collaborator
    path = f"{prefix}{world.repo_path}/collaborators"
    repository = cast.read("owner", prefix + world.repo_path)
    assert repository["collaborators_url"] == f"{server.url}{path}{{/collaborator}}"
    for who in ("owner", "member", "writer", installation_token(server, app.installation_id)):
        assert cast.names(who, path) == ["owner", "member", "writer", "reader"]
    found = {
        query: cast.names("owner", f"{path}?{query}")
        for query in (
            "affiliation=all", "affiliation=direct", "affiliation=outside", "permission=pull", "permission=triage",
            "permission=push", "permission=maintain", "permission=admin", "affiliation=direct&permission=push",
        )
    }  # fmt: skip
    assert found == {
        "affiliation=all": ["owner", "member", "writer", "reader"],
        "affiliation=direct": ["writer", "reader"],
        "affiliation=outside": ["writer", "reader"],
        "permission=pull": ["owner", "member", "writer", "reader"],
        "permission=triage": ["owner", "member", "writer"],
        "permission=push": ["owner", "member", "writer"],
        "permission=maintain": ["owner"],
        "permission=admin": ["owner"],
        "affiliation=direct&permission=push": ["writer"],
    }
    shown = {each["login"]: each for each in cast.read("owner", path)}
    roles = {name: shown[cast.logins[name]]["role_name"] for name in ("owner", "member", "writer", "reader")}
    assert roles == {"owner": "admin", "member": "write", "writer": "write", "reader": "read"}
    assert shown[cast.logins["writer"]]["permissions"] == {
        "admin": False, "maintain": False, "push": True, "triage": True, "pull": True,
    }  # fmt: skip
    first = cast.ask("owner", f"{path}?per_page=3")
    assert cast.names("owner", first.links["next"]["url"]) == ["reader"]
    for wrong in ("affiliation=none", "permission=write", "per_page=x"):
        assert cast.ask("owner", f"{path}?{wrong}").status_code == 422, wrong
    for suffix in ("", f"/{world.owner}", f"/{world.owner}/permission"):
        refused(cast.ask("reader", path + suffix), 403, "Must have write rights to Repository.")
        for who in ("client", "stranger"):
            refused(cast.ask(who, path + suffix), 404, "Not Found")
    for absent in (app.bot, world.organization, cast.logins["client"], cast.logins["stranger"], "no-such"):
        for suffix in (f"/{absent}", f"/{absent}/permission"):
            refused(cast.ask("owner", path + suffix), 404, "Not Found")


def test_the_permission_of_a_user_is_the_stronger_of_two_roles(world: World, cast: Cast) -> None:
    """Members have access to a private repository only if they were added to it."""
    path = f"{world.repo_path}/collaborators"

    def told(who: str, of: str) -> tuple[int, str]:
        login = cast.logins[of].upper()
        shown = cast.read(who, f"{path}/{login}/permission")
        assert shown["permission"] == shown["role_name"] == shown["user"]["role_name"]
        assert shown["user"]["login"] == cast.logins[of]
        assert shown["user"]["permissions"]["pull"] == (shown["permission"] != "none")
        return cast.ask(who, f"{path}/{login}").status_code, shown["permission"]

    everybody = ("owner", "member", "writer", "reader")
    expected = {"owner": (204, "admin"), "member": (204, "write"), "writer": (204, "write"), "reader": (204, "read")}
    assert {name: told("member", name) for name in everybody} == expected
    cast.hide()
    refused(cast.ask("member", path), 404, "Not Found")
    assert cast.names("owner", path) == ["owner", "writer", "reader"]
    assert told("owner", "member") == (404, "none")
    # Callers who cannot see the organization do not learn who its members are.
    refused(cast.ask("writer", f"{path}/{cast.logins['member']}/permission"), 404, "Not Found")
    refused(cast.ask("writer", f"{path}/{cast.logins['member']}"), 404, "Not Found")
    added = {"username": cast.logins["member"]}
    cast.ask("owner", f"/api/v1/projects/{world.project_id}/members", "POST", json=added).raise_for_status()
    assert cast.names("writer", path) == ["owner", "member", "writer", "reader"]
    assert cast.names("writer", f"{path}?affiliation=direct") == ["member", "writer", "reader"]
    assert cast.names("writer", f"{path}?affiliation=outside") == ["writer", "reader"]
    assert told("member", "member") == (204, "write")


EXPIRATION = "GitHub-Authentication-Token-Expiration"


def test_responses_state_when_the_token_expires(server: Server, world: World, cast: Cast) -> None:
    """`gh` and Octokit read this header, and go-github requires this format."""
    assert EXPIRATION not in cast.ask("owner", "/user").headers
    place = {"kind": "fine_grained", "organization": world.organization, "permissions": {"work": "read"}}
    for more in ({"scopes": ["repo"]}, place):
        made = cast.ask("owner", "/user/tokens", "POST", json={"expires_in_days": 30, **more})
        token, ends = (made.raise_for_status().json()[name] for name in ("token", "expires_at"))
        for path in ("/user", "/users/no-such", "/rate_limit", "/api/v3/zen", "/api/v1/me", "/api/v1/tasks/no-such"):
            told = cast.ask(token, path).headers[EXPIRATION]
            assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", told), path
            assert told == f"{ends[:10]} {ends[11:19]} UTC", path
        known = cast.ask(token, "/user").headers["etag"]
        unchanged = cast.http.get("/user", headers={"Authorization": f"Bearer {token}", "If-None-Match": known})
        assert (unchanged.status_code, EXPIRATION in unchanged.headers) == (304, True)
    bot = installation_token(server, make_app(server, world).installation_id)
    assert EXPIRATION in cast.ask(bot, world.repo_path).headers
    assert EXPIRATION not in cast.ask("nonsense", "/user").headers


def test_an_oauth_apps_token_names_its_client(server: Server, world: World, cast: Cast) -> None:
    """Other kinds of tokens reveal nothing."""
    body = {"name": f"Whose {world.organization}", "callback_urls": ["https://example.com/back"]}
    made = cast.ask("owner", f"{world.org_path}/oauth-apps", "POST", json=body).raise_for_status().json()

    async def give(services: Services) -> str:
        async with services.database.transaction() as tx:
            user = await find_account(tx, world.owner)
            assert user is not None
            ends = now_ms() + 3_600_000
            return (await issue(tx, OAUTH, user.id, scopes=["repo"], app_id=made["id"], expires_at=ends)).token

    token = str(server.run(give))
    for path in ("/user", "/users/no-such", "/api/v1/me"):
        headers = cast.ask(token, path).headers
        assert (headers["x-oauth-client-id"], headers["x-oauth-scopes"]) == (made["client_id"], "repo")
        assert EXPIRATION in headers
    app = make_app(server, world)
    for other in ("owner", user_token(server, app, world.owner), installation_token(server, app.installation_id)):
        assert "x-oauth-client-id" not in cast.ask(other, world.repo_path).headers
