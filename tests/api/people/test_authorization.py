"""Authorization of the webhook endpoints by kind of caller and by scope, including the error messages.

`tests/identity/test_matrix.py` tests every operation with every kind of token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

from tests.api.wire import NOBODYS_ID, Api, Place, new_url, refused
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, add_token, add_user
from workhook.asgi import described
from workhook.core.ids import new_token
from workhook.http.calls import Services
from workhook.http.operations import WEBHOOK_API, Operation
from workhook.identity import actions, queries
from workhook.identity.policy import SCOPES
from workhook.identity.tokens.issue import IssuedToken
from workhook.identity.tokens.issue import revoke as revoke_all

ABOUT = ("user", "organization", "repository", "organization_hooks", "repository_hooks")
# Endpoints for apps, and for people, which `tests.identity.test_matrix` covers.
ELSEWHERE = ("organization.admin", "user.installations", "organization.people", "organization.leave",
             "organization.decline", "repository.people", "repository.leave", "user.memberships",
             "user.invitations")  # fmt: skip
DECLARED = [
    each
    for each in described()
    if each.area is WEBHOOK_API and str(each.access).partition(".")[0] in ABOUT and each.access not in ELSEWHERE
]

# The group of each operation. The tables below state who may use each group.
GROUPS = {
    **dict.fromkeys(("user_get", "user_emails", "user_organizations", "user_repositories", "user_teams",
                     "user_memberships"), "user"),
    **dict.fromkeys(
        ("organization_get", "organization_repositories", "organization_members", "organization_member_check",
         "organization_membership",
         "user_membership", "organization_get_by_number"),
        "organization",
    ),
    **dict.fromkeys(("repository_get", "repository_get_by_number"), "repository"),
    **dict.fromkeys(
        ("repository_collaborators", "repository_collaborator_check", "repository_collaborator_permission"),
        "collaborators",
    ),
    **dict.fromkeys(
        ("hooks_list", "hooks_get", "hooks_get_config", "hooks_get_health", "deliveries_list", "deliveries_get",
         "redeliveries_get"),
        "read",
    ),
    **dict.fromkeys(
        ("hooks_create", "hooks_update", "hooks_update_config", "hooks_ping", "hooks_test", "hooks_test_old",
         "deliveries_redeliver", "deliveries_redeliver_many"),
        "write",
    ),
    "hooks_delete": "delete",
    "events_publish": "publish",
    "dispatch": "publish",
}  # fmt: skip
OK = "done"
ADMIN = "403 Must have admin rights to Repository."
WRITE = "403 Must have write rights to Repository."
OWNER = "403 You must be an organization owner."
HIDDEN = "404 Not Found"

HOOKS = ("read", "write", "delete")
# caller → group of repository operations → outcome
REPOSITORY = {
    "owner": dict.fromkeys((*HOOKS, "publish", "repository", "collaborators"), OK),
    "member": {**dict.fromkeys(HOOKS, ADMIN), "publish": OK, "repository": OK, "collaborators": OK},
    "collaborator who is an admin": dict.fromkeys((*HOOKS, "publish", "repository", "collaborators"), OK),
    "collaborator who writes": {**dict.fromkeys(HOOKS, ADMIN), "publish": OK, "repository": OK, "collaborators": OK},
    "collaborator who reads": {
        **dict.fromkeys(HOOKS, ADMIN),
        "publish": WRITE,
        "repository": OK,
        "collaborators": WRITE,
    },
    "stranger": dict.fromkeys((*HOOKS, "publish", "repository", "collaborators"), HIDDEN),
    "owner of another organization": dict.fromkeys((*HOOKS, "publish", "repository", "collaborators"), HIDDEN),
}
ORGANIZATION = {
    "owner": dict.fromkeys((*HOOKS, "publish", "organization"), OK),
    "member": {**dict.fromkeys((*HOOKS, "publish"), OWNER), "organization": OK},
    **{
        caller: dict.fromkeys((*HOOKS, "publish", "organization"), HIDDEN)
        for caller in (
            "collaborator who is an admin", "collaborator who writes", "collaborator who reads", "stranger",
            "owner of another organization",
        )
    },
}  # fmt: skip
# Scopes; a token needs one of them. The first element is the wording of the refusal.
REPOSITORY_SCOPES = {
    "read": ("read:repo_hook or repo", {"repo", "admin:repo_hook", "write:repo_hook", "read:repo_hook"}),
    "write": ("write:repo_hook or repo", {"repo", "admin:repo_hook", "write:repo_hook"}),
    "delete": ("admin:repo_hook or repo", {"repo", "admin:repo_hook"}),
    "publish": ("repo or write:repo_hook", {"repo", "admin:repo_hook", "write:repo_hook"}),
}
ORGANIZATION_SCOPES = {group: ("admin:org_hook", {"admin:org_hook"}) for group in (*HOOKS, "publish")}


@dataclass
class Site:
    """A world, a webhook with a delivery for each owner, and tokens by caller and by scope."""

    server: Server
    world: World
    api: Api
    nobody: httpx.Client  # a client without a token
    ids: dict[str, dict[str, int]]  # kind of owner → hook_id, delivery_id and the owner's ID
    callers: dict[str, str]
    scopes: dict[str, str]  # by scope, or "" for a token without scopes

    def place(self, operation: Operation) -> Place:
        of_organization = "/orgs/" in operation.path or operation.path.startswith("/organizations/")
        return Place("organization" if of_organization else "repository", self.world)

    @property
    def names(self) -> dict[str, str]:
        """Return the values of the names in paths."""
        organization = self.world.organization
        return {"org": organization, "owner": organization, "repo": self.world.repository, "username": self.world.owner}

    def call(self, operation: Operation, token: str | None, path: str | None = None) -> httpx.Response:
        """Send the operation's request with the token. A webhook to be deleted is created first."""
        place = self.place(operation)
        ids: dict[str, Any] = dict(self.ids[place.kind])
        if operation.name.endswith("hooks_delete"):
            ids["hook_id"] = self.api.hook(place)["id"]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        body = self.body(operation)
        address = path or operation.path.format(**self.names, **ids)
        return self.nobody.request(operation.method, address, headers=headers, json=body)

    def body(self, operation: Operation) -> dict[str, Any] | None:
        bodies: dict[str, dict[str, Any]] = {
            "hooks_create": {"name": "web", "config": {"url": new_url()}, "active": False},
            "hooks_update": {},
            "hooks_update_config": {},
            "deliveries_redeliver_many": {"ids": [NOBODYS_ID]},
            "events_publish": {"event": "fork", "payload": {}},
            "dispatch": {"event_type": "x"},
        }
        return bodies.get(short(operation))


def short(operation: Operation) -> str:
    """Return the operation's name without its owner, such as `hooks_list` for `repository_hooks_list`."""
    name = operation.name
    return name if name in GROUPS else name.partition("_")[2]


@pytest.fixture(scope="module")
def site(server: Server) -> Iterator[Site]:
    world: World = server.world()
    callers = {
        "owner": world.token,
        "member": server.run(lambda services: add_user(services, world, member="member")),
        "collaborator who is an admin": server.run(lambda services: add_user(services, world, role="admin")),
        "collaborator who writes": server.run(lambda services: add_user(services, world, role="write")),
        "collaborator who reads": server.run(lambda services: add_user(services, world, role="read")),
        "stranger": server.run(lambda services: add_user(services, world)),
        "owner of another organization": server.world().token,
    }
    scopes = {}
    for scope in ("", *SCOPES):
        given = [scope] if scope else []
        scopes[scope] = server.run(partial(add_token, world=world, scopes=given, member="owner"))
    with server.client(world.token) as client, server.client(None) as nobody:
        api, ids = Api(client), {}
        for kind in ("repository", "organization"):
            hook = api.hook(Place(kind, world), config={"retries": "0"}, events=["status"], active=True)
            [delivery] = until(partial(api.read, hook["deliveries_url"]))
            number = api.read(world.repo_path if kind == "repository" else world.org_path)["id"]
            job = api.post(f"{hook['deliveries_url']}/redeliver", json={"ids": [NOBODYS_ID]}).json()["job"]
            made = {"hook_id": hook["id"], "delivery_id": delivery["id"], "redelivery_id": job["id"]}
            ids[kind] = {**made, f"{kind}_id": number}
        yield Site(server, world, api, nobody, ids, callers, scopes)


def outcome(response: httpx.Response, operation: Operation) -> str:
    if response.status_code in operation.answers:
        return OK
    refused(response, response.status_code, response.json()["message"])
    return f"{response.status_code} {response.json()['message']}"


@pytest.fixture(params=DECLARED, ids=lambda operation: operation.name)
def operation(request: pytest.FixtureRequest) -> Operation:
    found: Operation = request.param
    return found


def test_each_caller_is_allowed_or_refused_as_documented(site: Site, operation: Operation) -> None:
    group = GROUPS[short(operation)]
    table = REPOSITORY if site.place(operation).kind == "repository" else ORGANIZATION
    expected = {caller: OK if group == "user" else table[caller][group] for caller in site.callers}
    found = {caller: outcome(site.call(operation, token), operation) for caller, token in site.callers.items()}
    assert found == expected


def test_each_scope_is_allowed_or_refused_as_documented(site: Site, operation: Operation) -> None:
    group = GROUPS[short(operation)]
    table = REPOSITORY_SCOPES if site.place(operation).kind == "repository" else ORGANIZATION_SCOPES
    words, fitting = table.get(group, ("", {*SCOPES, ""}))
    lacking = f"403 The token needs the scope {words}."
    expected = {scope: OK if scope in fitting else lacking for scope in site.scopes}
    responses = {scope: site.call(operation, token) for scope, token in site.scopes.items()}
    assert {scope: outcome(each, operation) for scope, each in responses.items()} == expected
    for scope, response in responses.items():
        assert response.headers["x-oauth-scopes"] == scope
        named = set(filter(None, response.headers["x-accepted-oauth-scopes"].split(", ")))
        assert named == (fitting if words else set())


def test_a_token_that_cannot_see_the_object_gets_no_scope_error(site: Site, operation: Operation) -> None:
    if GROUPS[short(operation)] == "user":
        return
    token = site.server.run(lambda services: add_token(services, site.world, []))
    assert outcome(site.call(operation, token), operation) == HIDDEN


def test_a_hidden_object_looks_like_a_missing_one(site: Site, operation: Operation) -> None:
    if GROUPS[short(operation)] == "user":
        return
    token = site.callers["stranger"]
    nowhere_named = dict.fromkeys(("org", "owner", "repo"), "no-such")
    if operation.name.endswith("_by_number"):
        nowhere_named = dict.fromkeys(("repository_id", "organization_id"), "999999999")
    names = {**site.names, **site.ids["repository"], **nowhere_named}
    there, nowhere = site.call(operation, token), site.call(operation, token, operation.path.format(**names))
    assert there.json() == nowhere.json()
    differing = {"date", "x-request-id", "x-github-request-id", "x-ratelimit-reset"}
    assert {name: there.headers[name] for name in there.headers if name not in differing} == {
        name: nowhere.headers[name] for name in nowhere.headers if name not in differing
    }


BAD_TOKENS = {
    "wrong checksum": "whp_000000000000000000000000000000000000",
    "unknown": new_token("whp_"),
    "another prefix": new_token("ghp_"),
    "too short": "whp_1",
    "of another script": "whp_" + "٣" * 36,
    "a word": "nonsense",
}


def test_a_missing_or_invalid_token_is_refused(site: Site, operation: Operation) -> None:
    response = site.call(operation, None)
    refused(response, 401, "Requires authentication")
    assert response.headers["www-authenticate"] == "Bearer"
    path = operation.path.format(**site.names, **site.ids[site.place(operation).kind])
    for name, token in BAD_TOKENS.items():
        headers = {b"Authorization": f"Bearer {token}".encode()}
        refused_for = site.nobody.request(operation.method, path, headers=headers)
        refused(refused_for, 401, "Bad credentials")
        assert refused_for.headers["www-authenticate"] == "Bearer", name


def test_every_operation_has_a_group() -> None:
    assert {short(each) for each in DECLARED} == set(GROUPS)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer {}", 200), ("bearer {}", 200), ("BEARER   {}", 200), ("token {}", 200), ("Token {}", 200),
        ("{}", 401), ("Bearer", 401), ("Bearer {}x", 401), ("Bearer x{}", 401), ("Basic {}", 401),
        ("Bearer {} {}", 401),
        ("Bearer {},", 401), ('Bearer "{}"', 401), ("Digest {}", 401), ("Bearer\t{}", 401),
    ],
)  # fmt: skip
def test_the_accepted_forms_of_the_authorization_header(site: Site, header: str, status: int) -> None:
    with site.server.client(None) as client:
        response = client.get("/user", headers={"Authorization": header.replace("{}", site.world.token)})
        assert response.status_code == status
        assert client.get(f"/user?access_token={site.world.token}").status_code == 401


def test_expired_and_revoked_tokens_are_refused(site: Site) -> None:
    async def issue(services: Services, days: float | None) -> IssuedToken:
        async with services.database.transaction() as tx:
            user = await queries.find_account(tx, site.world.owner)
            assert user is not None
            return await actions.issue_token(tx, user, ["repo"], expires_in_days=days)

    async def revoke(services: Services, token_id: int) -> int:
        async with services.database.transaction() as tx:
            return await revoke_all(tx, [token_id])

    lasting: IssuedToken = site.server.run(lambda services: issue(services, 1))
    expired: IssuedToken = site.server.run(lambda services: issue(services, -1))
    for path in ("/user", site.world.repo_path, f"{site.world.repo_path}/hooks"):
        with site.server.client(expired.token) as client:
            refused(client.get(path), 401, "Bad credentials")
        with site.server.client(lasting.token) as client:
            assert client.get(path).status_code == 200
    assert site.server.run(lambda services: revoke(services, lasting.id)) == 1
    # Another process revoked it, so this process's cache entry must expire.
    with site.server.client(lasting.token) as client:
        until(lambda: client.get("/user").status_code == 401)
        refused(client.get("/user"), 401, "Bad credentials")


def test_members_see_repositories_that_are_not_private(site: Site, server: Server) -> None:
    world: World = server.world()
    tokens = {
        "owner": world.token,
        "member": server.run(lambda services: add_user(services, world, member="member")),
        "added member": server.run(lambda services: add_user(services, world, member="member", role="read")),
    }
    with server.client(world.token) as client:
        project = client.get("/api/v1/projects").json()["projects"][0]
        assert client.patch(f"/api/v1/projects/{project['id']}", json={"private": True}).status_code == 200
    found = {}
    for name, token in tokens.items():
        with server.client(token) as client:
            found[name] = [client.get(f"{world.repo_path}{path}").status_code for path in ("", "/hooks")]
    assert found == {"owner": [200, 200], "member": [404, 404], "added member": [200, 403]}


def test_a_removed_user_loses_access_at_once(site: Site, server: Server) -> None:
    world: World = server.world()
    token = server.run(lambda services: add_user(services, world, role="admin"))

    async def remove(services: Services, login: str) -> None:
        async with services.database.transaction() as tx:
            user = await queries.find_account(tx, login)
            repository = await queries.find_repository(tx, world.organization, world.repository)
            assert user is not None
            assert repository is not None
            assert await actions.remove_collaborator(tx, repository, user)

    with server.client(token) as client:
        login = client.get("/user").json()["login"]
        assert client.get(f"{world.repo_path}/hooks").status_code == 200
        server.run(lambda services: remove(services, login))
        refused(client.get(f"{world.repo_path}/hooks"), 404, "Not Found")


def test_webhooks_of_another_organization_are_not_found(site: Site, server: Server) -> None:
    """The attacker owns another organization and guesses IDs."""
    attacker: World = server.world()
    with server.client(attacker.token) as client:
        for kind, ids in site.ids.items():
            path = Place(kind, attacker).hooks + f"/{ids['hook_id']}"
            for method, more in (
                ("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/config"), ("PATCH", "/config"),
                ("GET", "/health"),
                ("POST", "/pings"), ("GET", "/deliveries"), ("GET", f"/deliveries/{ids['delivery_id']}"),
                ("POST", f"/deliveries/{ids['delivery_id']}/attempts"), ("POST", "/deliveries/redeliver"),
                ("GET", f"/redeliveries/{ids['redelivery_id']}"),
            ):  # fmt: skip
                refused(client.request(method, path + more, json={} if method != "GET" else None), 404, "Not Found")
            mine = Api(client).hook(Place(kind, attacker))
            stolen = {"ids": [ids["delivery_id"]]}
            assert client.post(f"{mine['deliveries_url']}/redeliver", json=stolen).json()["queued"] == 0
            refused(client.get(f"{mine['deliveries_url']}/{ids['delivery_id']}"), 404, "Not Found")
            refused(client.get(f"{mine['url']}/redeliveries/{ids['redelivery_id']}"), 404, "Not Found")
