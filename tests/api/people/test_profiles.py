"""Profiles of users and organizations as sign-in libraries, `gh` and strict clients request them, and their visibility
to others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.api.app_kit import installation_token
from tests.api.wire import refused
from tests.harness.apps import make_app, new_repository, user_token
from tests.harness.server import Server
from tests.harness.world import World, add_client, add_user

Call = Callable[..., httpx.Response]


@pytest.fixture
def call(server: Server) -> Iterator[Call]:
    """Return a function `call(token, path)` that sends a GET, or the request of another `method`."""
    with server.client(None) as client:
        yield lambda token, path, method="GET", **more: client.request(
            method, path, headers={"Authorization": f"Bearer {token}"}, **more
        )


def read(call: Call, token: str, path: str) -> Any:
    return call(token, path).raise_for_status().json()


@pytest.fixture
def member(server: Server, world: World) -> str:
    """Return a token of a member of the organization."""
    return str(server.run(lambda services: add_user(services, world, member="member")))


@pytest.fixture
def helper(server: Server, world: World) -> str:
    """Return a token of an outside collaborator who can read the repository."""
    return str(server.run(lambda services: add_user(services, world, role="read")))


@pytest.fixture
def client(server: Server, world: World) -> str:
    """Return a token of a client of the project."""
    return str(server.run(lambda services: add_client(services, world)))


def login_of(call: Call, token: str) -> str:
    return str(read(call, token, "/user")["login"])


@pytest.mark.parametrize("prefix", ["", "/api/v3"], ids=["root", "prefix"])
def test_the_caller_reads_their_profile_emails_and_organizations(
    server: Server, world: World, call: Call, prefix: str
) -> None:
    base = server.url + prefix
    new_repository(server, world, "shop")
    assert read(call, world.token, f"{prefix}/user/emails") == [
        {"email": "octo@example.com", "primary": True, "verified": True, "visibility": "private"}
    ]
    place = read(call, world.token, prefix + world.org_path)
    assert read(call, world.token, f"{prefix}/user/orgs") == [place]
    assert read(call, world.token, f"{prefix}/user/teams") == []
    for path in ("/user/repos", f"{world.org_path}/repos"):
        first = call(world.token, f"{prefix}{path}?per_page=1&sort=pushed&visibility=all")
        assert [each["name"] for each in first.json()] == [world.repository]
        assert first.links["next"]["url"] == f"{base}{path}?per_page=1&sort=pushed&visibility=all&page=2"
        assert [each["name"] for each in read(call, world.token, first.links["next"]["url"])] == ["shop"]
    [shown, _] = read(call, world.token, f"{prefix}/user/repos")
    assert shown == read(call, world.token, prefix + world.repo_path)
    own = read(call, world.token, f"{prefix}/user/memberships/orgs/{world.organization}")
    assert (own["state"], own["role"], own["organization"]) == ("active", "admin", place)
    assert own["user"]["login"] == world.owner
    assert read(call, world.token, own["url"]) == own
    # Links in responses lead to the accounts they describe.
    for url in (shown["owner"]["url"], place["repos_url"], own["user"]["url"], own["organization_url"]):
        assert url.startswith(f"{base}/")
        assert call(world.token, url).status_code == 200


def test_profiles_are_visible_only_to_colleagues(
    server: Server, world: World, call: Call, member: str, helper: str, client: str
) -> None:
    """GitHub sign-in libraries check membership of an organization by the status 204 or 404."""
    names = {token: login_of(call, token) for token in (world.token, member, helper, client)}
    inside = f"{world.org_path}/members/{{}}"
    for token in (world.token, member):
        for other, status in ((world.token, 204), (member, 204), (helper, 404), (client, 404)):
            answer = call(token, inside.format(names[other]))
            assert (answer.status_code, answer.content if status == 204 else b"") == (status, b"")
            seen = call(token, f"/users/{names[other].upper()}")
            assert seen.status_code == (200 if status == 204 else 404)
            if status == 204:
                assert seen.json()["login"] == names[other]
                assert (seen.json()["email"] is not None) == (token == other)
        assert read(call, token, f"/users/{world.organization}")["type"] == "Organization"
        listed = read(call, token, f"{world.org_path}/memberships/{names[member]}")
        assert (listed["role"], listed["user"]["login"]) == ("member", names[member])
    for token in (helper, client):
        for path in (inside.format(names[token]), f"/users/{world.owner}", f"/users/{world.organization}",
                     f"/user/memberships/orgs/{world.organization}", f"{world.org_path}/repos"):  # fmt: skip
            refused(call(token, path), 404, "Not Found")
        assert read(call, token, "/user/orgs") == []
        assert read(call, token, f"/users/{names[token]}")["email"].endswith("@example.com")
    assert [each["full_name"] for each in read(call, helper, "/user/repos")] == [world.full_name]
    assert read(call, client, "/user/repos") == []  # clients see their project only in the work management API


def test_a_confined_token_reveals_nothing_outside_its_limits(
    server: Server, world: World, call: Call, member: str
) -> None:
    number, hidden = new_repository(server, world, "hidden")
    assert call(world.token, f"/api/v1/projects/{hidden}", "PATCH", json={"private": True}).status_code == 200
    assert [each["name"] for each in read(call, member, "/user/repos")] == [world.repository]
    assert [each["name"] for each in read(call, member, f"{world.org_path}/repos")] == [world.repository]

    chosen = {"kind": "fine_grained", "organization": world.organization, "repositories": ["hidden"]}
    own = {"kind": "fine_grained", "organization": world.owner}
    for body, orgs, repositories in ((chosen, [world.organization], ["hidden"]), (own, [], [])):
        made = call(world.token, "/user/tokens", "POST", json={"permissions": {"work": "read"}, **body})
        token = made.raise_for_status().json()["token"]
        assert [each["login"] for each in read(call, token, "/user/orgs")] == orgs
        assert [each["name"] for each in read(call, token, "/user/repos")] == repositories
        assert call(token, f"/users/{world.owner}").status_code == 200
        assert call(token, f"/users/{login_of(call, member)}").status_code == (200 if orgs else 404)
        assert call(token, f"/users/{world.organization}").status_code == (200 if orgs else 404)

    new_repository(server, world, "other")
    app = make_app(server, world, repositories=[world.repository, "hidden"])
    bot = installation_token(server, app.installation_id, repository_ids=[number])
    assert [each["name"] for each in read(call, bot, f"{world.org_path}/repos")] == ["hidden"]
    shown = read(call, bot, f"/users/{app.bot}")  # programs look up the ID that their commits name
    assert (shown["login"], shown["type"], shown["email"]) == (app.bot, "Bot", None)
    assert call(bot, f"/users/{world.owner}").status_code == 200
    assert call(bot, f"{world.org_path}/members/{app.bot}").status_code == 404
    refused(call(bot, "/user/emails"), 403, "Resource not accessible by integration")
    for_user = user_token(server, app, world.owner)
    assert [each["name"] for each in read(call, for_user, "/user/repos")] == [world.repository, "hidden"]
    assert [each["login"] for each in read(call, for_user, "/user/orgs")] == [world.organization]


# The keys that github3.py 4.0 reads unconditionally: a missing one raises an error.
_LINKS = "events followers following gists organizations received_events repos starred subscriptions"
STRICT = {
    "user": f"avatar_url gravatar_id html_url id login site_admin type url bio blog company created_at email followers "
    f"following hireable location name public_gists public_repos updated_at {_LINKS.replace(' ', '_url ')}_url",
    "organization": "avatar_url description events_url hooks_url id issues_url login members_url public_members_url "
    "repos_url url created_at followers following html_url public_repos",
    "repository": "archived created_at default_branch description fork forks_count full_name has_downloads has_issues "
    "has_pages has_projects has_wiki homepage id language mirror_url name network_count open_issues_count private "
    "pushed_at size stargazers_count subscribers_count updated_at url watchers_count archive_url assignees_url "
    "blobs_url branches_url clone_url collaborators_url comments_url commits_url compare_url contents_url "
    "contributors_url deployments_url downloads_url events_url forks_url git_commits_url git_refs_url git_tags_url "
    "git_url hooks_url html_url issue_comment_url issue_events_url issues_url keys_url labels_url languages_url "
    "merges_url milestones_url notifications_url pulls_url releases_url ssh_url stargazers_url statuses_url "
    "subscribers_url subscription_url svn_url tags_url teams_url trees_url",
}


def test_responses_contain_all_keys_that_strict_clients_read(world: World, call: Call) -> None:
    user, place, one = (read(call, world.token, path) for path in ("/user", world.org_path, world.repo_path))
    owner = STRICT["user"].partition(" bio ")[0].split() + STRICT["user"].split("updated_at ")[1].split()
    found = {"user": user, "organization": place, "repository": one}
    missing = {kind: set(keys.split()) - set(found[kind]) for kind, keys in STRICT.items()}
    assert missing == {"user": set(), "organization": set(), "repository": set()}
    assert set(owner) <= set(one["owner"])
    assert set(STRICT["user"].split()) <= set(read(call, world.token, f"/users/{world.organization}"))


@pytest.mark.parametrize("path", ["/graphql", "/api/graphql"])
def test_graphql_answers_only_the_viewer(server: Server, world: World, call: Call, path: str) -> None:
    """`gh auth status`, `gh api graphql` and Octokit's `graphql` send these queries; other queries are refused."""
    for query in ("query UserCurrent{viewer{login}}", "{viewer{login}}", "query {\n  viewer { login, }\n} # me\n"):
        answer = call(world.token, path, "POST", json={"query": query, "variables": None})
        assert (answer.status_code, answer.json()) == (200, {"data": {"viewer": {"login": world.owner}}})
    whole = "query{viewer{__typename databaseId email id login name url avatarUrl createdAt}}"
    shown = call(world.token, path, "POST", json={"query": whole}).json()["data"]["viewer"]
    assert (shown["id"], shown["email"], shown["name"]) == (f"A_{shown['databaseId']}", "octo@example.com", "Octo")
    for query in (
        'query($owner:String!){repository(owner:$owner,name:"x"){id}}', "{viewer{login repositories{totalCount}}}",
        "{viewer{bio}}", "{viewer{}}", "mutation{addStar{clientMutationId}}", "", "{" * 5000,
    ):  # fmt: skip
        answer = call(world.token, path, "POST", json={"query": query, "variables": {"owner": "acme"}})
        [error] = answer.json()["errors"]
        assert (answer.status_code, answer.json()["data"], error["type"]) == (200, None, "NOT_SUPPORTED")
        assert error["message"].startswith("This server has no GraphQL API; it only answers { viewer {")
        assert error["message"].endswith(f"{server.url}/docs.")
    for body in ({}, {"query": 1}, {"query": None}):
        expected = "A query attribute must be specified and must be a string."
        refused(call(world.token, path, "POST", json=body), 400, expected)
    with server.client(None) as nobody:
        refused(nobody.post(path, json={"query": "{viewer{login}}"}), 401, "Requires authentication")


@pytest.mark.parametrize("prefix", ["", "/api/v3"], ids=["root", "prefix"])
def test_accounts_and_repositories_are_found_by_id(
    server: Server, world: World, call: Call, member: str, helper: str, prefix: str
) -> None:
    """Clients store IDs because names change. Responses and visibility are the same as by name."""
    ids = {path: read(call, world.token, path)["id"] for path in (world.repo_path, world.org_path)}
    people = {token: read(call, token, "/user") for token in (world.token, member, helper)}
    numbered = {
        world.repo_path: f"/repositories/{ids[world.repo_path]}",
        world.org_path: f"/organizations/{ids[world.org_path]}",
        f"/users/{world.organization}": f"/user/{ids[world.org_path]}",
        **{f"/users/{person['login']}": f"/user/{person['id']}" for person in people.values()},
    }
    stranger = str(server.run(lambda services: add_user(services, world)))
    for token in (world.token, member, helper, stranger):
        for path, by_number in numbered.items():
            named, found = call(token, prefix + path), call(token, prefix + by_number)
            assert (found.status_code, named.status_code) in ((200, 200), (404, 404)), (path, by_number)
            assert found.json().get("id") == named.json().get("id")
            if found.status_code == 200:
                assert found.json() == named.json()
                assert found.headers["etag"] == named.headers["etag"]
    refused(call(helper, numbered[world.org_path]), 404, "Not Found")
    refused(call(stranger, numbered[world.repo_path]), 404, "Not Found")
    for wrong in ("0", "999999999", "x", "-1", "1.0", "9" * 30):
        for path in ("/repositories", "/organizations", "/user"):
            refused(call(world.token, f"{prefix}{path}/{wrong}"), 404, "Not Found")
    # The ID of another kind of object is not found.
    refused(call(world.token, f"/organizations/{people[world.token]['id']}"), 404, "Not Found")


def test_an_installation_is_found_by_the_id_of_a_repository(server: Server, world: World, call: Call) -> None:
    number, _ = new_repository(server, world, "shop")
    app = make_app(server, world, repositories=["shop"])
    shop = read(call, app.jwt(), f"/repositories/{number}/installation")
    assert shop == read(call, app.jwt(), f"/repos/{world.organization}/shop/installation")
    beyond = read(call, world.token, world.repo_path)["id"]
    refused(call(app.jwt(), f"/repositories/{beyond}/installation"), 404, "Not Found")
    refused(
        call(make_app(server, world, installed=False).jwt(), f"/repositories/{number}/installation"), 404, "Not Found"
    )
    assert read(call, app.jwt(), "/app/installation-requests") == []
    token = installation_token(server, app.installation_id)
    assert read(call, token, f"/repositories/{number}")["name"] == "shop"
    refused(call(token, f"/repositories/{beyond}"), 404, "Not Found")
