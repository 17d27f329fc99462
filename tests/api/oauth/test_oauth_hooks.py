"""Organization owners see and delete the webhooks that OAuth apps created in their organization, and no others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.api.wire import HOOK_KEYS, REPOSITORY_KEYS, Api, Place
from tests.harness.apps import make_app, user_token
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, add_token
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.policy import SCOPES
from workhook.identity.tokens.issue import FINE_GRAINED, OAUTH, issue

_numbers = itertools.count(1)
Calling = Callable[[str], Api]


@pytest.fixture
def calling(server: Server) -> Iterator[Calling]:
    clients = []

    def make(token: str) -> Api:
        clients.append(server.client(token))
        return Api(clients[-1])

    yield make
    for each in clients:
        each.close()


def _app(server: Server, *worlds: World) -> tuple[dict[str, str], list[str]]:
    """Create an OAuth app outside these worlds.

    Returns its description as lists show it, and a token for the owner of each world.
    """

    async def make(services: Services) -> tuple[dict[str, str], list[str]]:
        async with services.database.transaction() as tx:
            owners = [await queries.find_account(tx, each.owner) for each in worlds]
            assert owners[0] is not None
            name = f"Reader {next(_numbers)} {owners[0].id}"
            app, _, _ = await create_app(
                tx, None, owners[0], OauthAppCreate(name=name, callback_urls=["https://example.com/"])
            )
            issued = [await issue(tx, OAUTH, each.id, scopes=SCOPES, app_id=app.id) for each in owners if each]
        return {"client_id": app.client_id, "name": name}, [each.token for each in issued]

    made: tuple[dict[str, str], list[str]] = server.run(make)
    return made


def _hook(api: Api, world: World, kind: str, url: str = "http://127.0.0.1:9", **more: Any) -> dict[str, Any]:
    config = {"url": f"{url}/{next(_numbers)}", "secret": "never shown", "content_type": "json", "retries": "0"}
    return api.hook(Place(kind, world), config=config, **more)


def test_owners_see_webhooks_that_apps_created_in_their_organization(
    server: Server, world: World, calling: Calling
) -> None:
    elsewhere = server.world()
    app, (token, other_token) = _app(server, world, elsewhere)
    second, (second_token,) = _app(server, world)
    by_app, by_second, owner = calling(token), calling(second_token), calling(world.token)
    own = _hook(by_app, world, "organization")
    inside = _hook(by_second, world, "repository")
    _hook(owner, world, "organization")  # the owner's own webhook is in the ordinary list
    strange = _hook(calling(other_token), elsewhere, "organization")

    listed = owner.read(f"{world.org_path}/oauth-hooks")
    assert [(each["id"], each["app"], each["repository"]) for each in listed] == [
        (own["id"], app, None),
        (inside["id"], second, world.full_name),
    ]
    assert set(listed[0]) == {*HOOK_KEYS, "app", "repository"}
    assert set(listed[1]) == {*REPOSITORY_KEYS, "app", "repository"}
    assert {name: listed[0][name] for name in own} == own
    assert listed[0]["config"]["secret"] == "********"
    page = owner.get(f"{world.org_path}/oauth-hooks?per_page=1&page=2")
    assert [each["id"] for each in page.json()] == [inside["id"]]
    assert page.links["prev"]["url"].endswith("per_page=1&page=1")
    assert owner.read(f"{world.org_path}/oauth-hooks?page=3") == []
    theirs = calling(elsewhere.token).read(f"{elsewhere.org_path}/oauth-hooks")
    assert [each["id"] for each in theirs] == [strange["id"]]


@pytest.mark.parametrize("kind", ["organization", "repository"])
def test_owners_delete_webhooks_that_apps_created(
    server: Server, world: World, calling: Calling, receiver: Receiver, kind: str
) -> None:
    _, (token,) = _app(server, world)
    by_app, owner = calling(token), calling(world.token)
    hook = _hook(by_app, world, kind, receiver.url, events=["status"], active=True)
    until(lambda: by_app.read(hook["deliveries_url"]))  # the ping
    path = f"{world.org_path}/oauth-hooks/{hook['id']}"
    assert owner.delete(path).status_code == 204
    assert owner.delete(path).status_code == 404
    assert by_app.get(hook["url"]).status_code == 404
    assert owner.read(f"{world.org_path}/oauth-hooks") == []
    answer = owner.post(f"{Place(kind, world).path}/events", json={"event": "status", "payload": {}})
    assert answer.json()["deliveries"] == 0
    assert len(receiver.requests) == 1
    [entry] = owner.read(f"{world.org_path}/audit-log?phrase=action:hook.delete")
    assert entry["target"] == f"hook/{hook['id']}"


def test_other_webhooks_are_not_found(server: Server, world: World, calling: Calling) -> None:
    elsewhere = server.world()
    _, (_, other_token) = _app(server, world, elsewhere)
    owner = calling(world.token)
    strange = [_hook(calling(other_token), elsewhere, kind) for kind in ("organization", "repository")]
    for hook in (_hook(owner, world, "organization"), _hook(owner, world, "repository"), *strange):
        assert owner.delete(f"{world.org_path}/oauth-hooks/{hook['id']}").status_code == 404
    assert owner.get(f"{elsewhere.org_path}/oauth-hooks").status_code == 404
    assert len(calling(elsewhere.token).read(f"{elsewhere.org_path}/oauth-hooks")) == 2


def test_other_callers_are_refused(server: Server, world: World, calling: Calling) -> None:
    _, (token,) = _app(server, world)
    hook = _hook(calling(token), world, "organization")
    app = make_app(server, world)

    async def confined(services: Services) -> dict[str, str]:
        async with services.database.transaction() as tx:
            user = await queries.find_account(tx, world.owner)
            place = await queries.find_account(tx, world.organization)
            here = await queries.find_repository(tx, world.organization, world.repository)
            assert user is not None
            assert place is not None
            assert here is not None
            reading, writing = {"organization_hooks": "read"}, {"organization_hooks": "write"}
            made = {
                "reads": await issue(tx, FINE_GRAINED, user.id, permissions=reading, account_id=place.id),
                "writes": await issue(tx, FINE_GRAINED, user.id, permissions=writing, account_id=place.id),
                "chosen": await issue(
                    tx, FINE_GRAINED, user.id, permissions=writing, account_id=place.id, repository_ids=[here.id]
                ),
            }
        return {name: each.token for name, each in made.items()}

    fine = server.run(confined)
    member = server.run(lambda services: add_token(services, world, list(SCOPES), member="member"))
    outside = server.run(lambda services: add_token(services, world, list(SCOPES), role="admin"))
    narrow = server.run(lambda services: add_token(services, world, ["repo", "admin:org"], member="owner"))
    expected = {
        token: (403, 403),  # an OAuth app, even the one that created it: the app has its own list
        app.token(server): (403, 403),
        user_token(server, app, world.owner): (403, 403),
        fine["chosen"]: (403, 403),
        member: (403, 403),
        narrow: (403, 403),
        outside: (404, 404),
        fine["reads"]: (200, 403),
        fine["writes"]: (200, 204),
    }
    for number, (each, statuses) in enumerate(expected.items()):
        api = calling(each)
        listing = api.get(f"{world.org_path}/oauth-hooks").status_code
        assert (listing, api.delete(f"{world.org_path}/oauth-hooks/{hook['id']}").status_code) == statuses, number
