"""The table "Tokens and permissions" of the design, row by row: each kind of token and the message of each refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.api.wire import NOBODYS_ID, Api, Place, new_url, refused
from tests.harness.apps import Registered, make_app, user_token
from tests.harness.server import Server
from tests.harness.world import World, add_user
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.tokens.issue import OAUTH, issue

ADMIN = "Must have admin rights to Repository."
OWNER = "You must be an organization owner."
PERSONAL = "Resource not accessible by personal access token"
INTEGRATION = "Resource not accessible by integration"
HIDDEN = "Not Found"


class Row(NamedTuple):
    """An operation and its requirements.

    Each one of `scopes` suffices alone; `words` is how the refusal names them; `permission` is the equivalent for other
    tokens.
    """

    method: str
    path: str  # relative to the repository or organization; {hook} is replaced by a webhook's ID
    scopes: tuple[str, ...]
    words: str
    permission: tuple[str, str]


READ = ("read:repo_hook", "repo", "write:repo_hook", "admin:repo_hook")
WRITE = ("write:repo_hook", "repo", "admin:repo_hook")
READING, WRITING = ("repository_hooks", "read"), ("repository_hooks", "write")
ROWS = {
    "repository": (
        *(
            Row("GET", path, READ, "read:repo_hook or repo", READING)
            for path in ("/hooks", "/hooks/{hook}", "/hooks/{hook}/config", "/hooks/{hook}/deliveries")
        ),
        *(
            Row(method, path, WRITE, "write:repo_hook or repo", WRITING)
            for method, path in (
                ("POST", "/hooks"), ("PATCH", "/hooks/{hook}"), ("PATCH", "/hooks/{hook}/config"),
                ("POST", "/hooks/{hook}/pings"), ("POST", "/hooks/{hook}/tests"),
                ("POST", "/hooks/{hook}/deliveries/redeliver"),
            )
        ),
        Row("DELETE", "/hooks/{hook}", ("admin:repo_hook", "repo"), "admin:repo_hook or repo", WRITING),
    ),
    "organization": tuple(
        Row(method, path, ("admin:org_hook",), "admin:org_hook", ("organization_hooks", level))
        for method, path, level in (
            ("GET", "/hooks", "read"), ("GET", "/hooks/{hook}", "read"), ("GET", "/hooks/{hook}/config", "read"),
            ("GET", "/hooks/{hook}/deliveries", "read"), ("POST", "/hooks", "write"),
            ("PATCH", "/hooks/{hook}", "write"), ("POST", "/hooks/{hook}/pings", "write"),
            ("DELETE", "/hooks/{hook}", "write"),
        )
    ),
}  # fmt: skip
SCOPES = ("repo", "admin:repo_hook", "write:repo_hook", "read:repo_hook", "admin:org_hook", "work")


class Stand(NamedTuple):
    """A server, tokens and a webhook client.

    `tokens` are the owner's by what they grant; `people` are other users' tokens with every scope.
    """

    server: Server
    world: World
    api: Api
    app: Registered
    tokens: dict[str, str]
    people: dict[str, str]

    def ask(self, token: str, place: Place, row: Row) -> Any:
        """Send the row's request about a new webhook."""
        path = place.path + row.path.format(hook=self.api.hook(place)["id"])
        body: dict[str, Any] = {"ids": [NOBODYS_ID]} if path.endswith("/redeliver") else {}
        if path.endswith("/hooks"):
            body = {"name": "web", "config": {"url": new_url()}, "active": False}
        with self.server.client(token) as client:
            return client.request(row.method, path, json=body if row.method in ("POST", "PATCH") else None)


@pytest.fixture(scope="module")
def stand(server: Server) -> Iterator[Stand]:
    world = server.world()
    app = make_app(server, world)
    people = {
        "member": server.run(lambda services: add_user(services, world, member="member")),
        "admin": server.run(lambda services: add_user(services, world, role="admin")),
        "stranger": server.run(lambda services: add_user(services, world)),
    }
    with server.client(world.token) as client:
        tokens = {}
        for scope in SCOPES:
            made = client.post("/user/tokens", json={"scopes": [scope]})
            tokens[scope] = made.json()["token"]
        for name in ("repository_hooks", "organization_hooks", "work"):
            for level in ("read", "write"):
                tokens[f"fine-grained {name} {level}"] = _fine_grained(client, world, {name: level})
                tokens[f"installation {name} {level}"] = app.token(server, permissions={name: level})
        yield Stand(server, world, Api(client), app, tokens, people)


def _fine_grained(client: Any, world: World, permissions: dict[str, str]) -> str:
    body = {"kind": "fine_grained", "organization": world.organization, "permissions": permissions}
    made = client.post("/user/tokens", json={**body, "repositories": "all"})
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


CELLS = [(kind, row) for kind, rows in ROWS.items() for row in rows]


@pytest.mark.parametrize(("kind", "row"), CELLS, ids=[f"{kind} {row.method} {row.path}" for kind, row in CELLS])
def test_each_row_of_the_table_is_enforced(stand: Stand, kind: str, row: Row) -> None:
    place = Place(kind, stand.world)
    for scope in SCOPES:
        answer = stand.ask(stand.tokens[scope], place, row)
        if scope in row.scopes:
            assert answer.is_success, f"{scope}: {answer.text}"
        else:
            refused(answer, 403, f"The token needs the scope {row.words}.")
    for sort, words in (("fine-grained", PERSONAL), ("installation", INTEGRATION)):
        for name in ("repository_hooks", "organization_hooks", "work"):
            for level in ("read", "write"):
                answer = stand.ask(stand.tokens[f"{sort} {name} {level}"], place, row)
                if name == row.permission[0] and level in (row.permission[1], "write"):
                    assert answer.is_success, f"{sort} {name} {level}: {answer.text}"
                else:
                    refused(answer, 403, words)
    repository = kind == "repository"
    refused(stand.ask(stand.people["member"], place, row), 403, ADMIN if repository else OWNER)
    refused(stand.ask(stand.people["stranger"], place, row), 404, HIDDEN)
    answer = stand.ask(stand.people["admin"], place, row)
    assert answer.is_success if repository else answer.status_code == 404


def test_an_app_user_token_needs_the_apps_permission_and_the_users_role(stand: Stand) -> None:
    """The permission does not replace the role, nor the role the permission."""
    place = Place("repository", stand.world)
    listing = ROWS["repository"][0]
    owner = user_token(stand.server, stand.app, stand.world.owner)
    assert stand.ask(owner, place, listing).is_success
    with stand.server.client(stand.people["member"]) as client:
        login = client.get("/user").json()["login"]
    refused(stand.ask(user_token(stand.server, stand.app, login), place, listing), 403, ADMIN)
    weak = make_app(stand.server, stand.world, permissions={"work": "write"})
    refused(stand.ask(user_token(stand.server, weak, stand.world.owner), place, listing), 403, INTEGRATION)


def test_an_oauth_apps_organization_webhooks_are_hidden_from_users(server: Server) -> None:
    world = server.world()

    async def issued(services: Services) -> str:
        async with services.database.transaction() as tx:
            organization = await queries.find_account(tx, world.organization)
            owner = await queries.find_account(tx, world.owner)
            assert organization is not None
            assert owner is not None
            app, _, _ = await create_app(
                tx,
                None,
                organization,
                OauthAppCreate(name=f"Lister {organization.id}", callback_urls=["http://127.0.0.1:9/back"]),
            )
            return (await issue(tx, OAUTH, owner.id, scopes=["repo", "admin:org_hook"], app_id=app.id)).token

    token = server.run(issued)
    with server.client(token) as client, server.client(world.token) as owners:
        place = Place("organization", world)
        mine, theirs = Api(client).hook(place), Api(owners).hook(place)
        for api, own, other in ((Api(client), mine, theirs), (Api(owners), theirs, mine)):
            assert [each["id"] for each in api.read(place.hooks)] == [own["id"]]
            assert api.read(f"{place.hooks}/{own['id']}")["id"] == own["id"]
            refused(api.get(f"{place.hooks}/{other['id']}"), 404, HIDDEN)
        place = Place("repository", world)
        both = [Api(each).hook(place)["id"] for each in (client, owners)]
        for each in (client, owners):
            assert [hook["id"] for hook in Api(each).read(place.hooks)] == both
