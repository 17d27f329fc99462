"""Lists across organizations show exactly what the caller has access to, each object once, in pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.server import Server
from tests.harness.world import World, add_user, make_world, must
from tests.work.studio import Caller
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.tokens.issue import FINE_GRAINED, issue
from workhook.identity.tokens.lookup import find_actor

KINDS = ("open", "private", "gone", "private-gone")


@pytest.fixture(scope="module")
def two(server: Server) -> Iterator[tuple[dict[str, Caller], dict[str, str]]]:
    """Yield the callers by their roles in the two organizations, and the project IDs by titles such as `first open`."""
    first, second = server.run(make_world), server.run(make_world)
    tokens: dict[str, str] = {"owner": first.token, "other owner": second.token}

    async def people(services: Services) -> None:
        for name, in_first, in_second in (
            ("owner and member", "owner", "member"), ("member of both", "member", "member"),
            ("stranger", None, None), ("by hand", None, None),
        ):  # fmt: skip
            tokens[name] = token = await add_user(services, first, member=in_first)
            async with services.database.transaction() as tx:
                actor, place = must(await find_actor(tx, token)), await queries.find_account(tx, second.organization)
                assert place is not None
                if in_second is not None:
                    await actions.set_member(tx, place, actor.user, in_second)

    server.run(people)
    callers = {name: Caller(server, token) for name, token in tokens.items()}
    ids = dict[str, str]()
    for name, world, owner in (("first", first, "owner"), ("second", second, "other owner")):
        ids |= _create_projects(callers[owner], name, world)
    server.run(lambda services: _add_roles(services, tokens["by hand"], (first, second)))
    for kind, some in (("fine", None), ("chosen", "private")):
        token = server.run(lambda services, some=some: _confined(services, tokens["owner and member"], first, some))
        callers[kind] = Caller(server, str(token))
    for title in ids:
        if title.endswith("gone"):
            callers["owner" if title.startswith("first") else "other owner"].delete(f"/projects/{ids[title]}")
    yield callers, ids
    for each in callers.values():
        each.http.close()


def _create_projects(owner: Caller, name: str, world: World) -> dict[str, str]:
    ids = {f"{name} website": world.project_id}
    for kind in KINDS:
        body = {"title": kind, "name": kind, "private": kind.startswith("private"), "organization": world.organization}
        ids[f"{name} {kind}"] = owner.post("/projects", json=body)["project"]["id"]
    for active in (True, False):
        owner.post("/services", json={"title": name, "active": active, "organization": world.organization})
    return ids


async def _add_roles(services: Services, token: str, worlds: tuple[World, ...]) -> None:
    """Make the user an admin of a private and of a deleted project, and a reader of an open one."""
    async with services.database.transaction() as tx:
        actor = must(await find_actor(tx, token))
        for world, names in zip(worlds, (("private",), ("gone", "open")), strict=True):
            for name in names:
                repository = must(await queries.find_repository(tx, world.organization, name))
                await actions.set_collaborator(tx, repository, actor.user, "admin" if name != "open" else "read")


async def _confined(services: Services, token: str, world: World, name: str | None) -> str:
    """Issue a token of the same user for the first organization, or only its repositories `name` and `name-gone`."""
    async with services.database.transaction() as tx:
        actor, place = must(await find_actor(tx, token)), must(await queries.find_account(tx, world.organization))
        names = (name, f"{name}-gone") if name else ()
        found = [await queries.find_repository(tx, world.organization, each) for each in names]
        chosen = None if name is None else [each.id for each in found if each is not None]
        more: dict[str, Any] = {"permissions": {"work": "write"}, "account_id": place.id, "repository_ids": chosen}
        return (await issue(tx, FINE_GRAINED, actor.user.id, **more)).token


FIRST, SECOND = ("first website", "first open"), ("second website", "second open")
SEEN = {
    "owner": ((*FIRST, "first private"), ("first private-gone", "first gone")),
    "other owner": ((*SECOND, "second private"), ("second private-gone", "second gone")),
    "owner and member": ((*FIRST, "first private", *SECOND), ("first private-gone", "first gone")),
    "member of both": ((*FIRST, *SECOND), ()),
    "stranger": ((), ()),
    "by hand": (("first private", "second open"), ("second gone",)),
    "fine": ((*FIRST, "first private"), ("first private-gone", "first gone")),
    "chosen": (("first private",), ("first private-gone",)),
}
SERVICES = {
    "owner": "first",
    "other owner": "second",
    "fine": "first",
    "chosen": "first",
    "stranger": "",
    "by hand": "",
}


def _pages(caller: Caller, path: str, what: str, **query: object) -> list[dict[str, Any]]:
    """Return all rows of a list, read with one row per page."""
    shown, response = [], caller.call("GET", path, params={"per_page": 1, **query})
    while True:
        assert response.status_code == 200, response.text
        shown += response.json()[what]
        if "next" not in response.links:
            return shown
        response = caller.http.get(response.links["next"]["url"])


@pytest.mark.parametrize("name", SEEN)
def test_projects_and_trash_show_only_accessible_ones(two: tuple[dict[str, Caller], dict[str, str]], name: str) -> None:
    callers, ids = two
    there, gone = ([ids[title] for title in titles] for titles in SEEN[name])
    for path, what, wanted in (("/projects", "projects", there), ("/trash", "trash", gone)):
        whole = callers[name].get(path)[what]
        assert sorted(each["id"] for each in whole) == sorted(wanted)
        assert _pages(callers[name], path, what) == whole
    whole = callers[name].get("/projects")["projects"]
    assert [each["repository_id"] for each in whole] == sorted(each["repository_id"] for each in whole)


@pytest.mark.parametrize("name", SEEN)
def test_services_show_only_accessible_ones(two: tuple[dict[str, Caller], dict[str, str]], name: str) -> None:
    caller, wanted = two[0][name], SERVICES.get(name, "first second").split()
    for query, each_has in (({}, [True, False]), ({"active": "true"}, [True]), ({"active": "false"}, [False])):
        shown = caller.get("/services", params=query)["services"]
        assert sorted((each["title"], each["active"]) for each in shown) == sorted(
            (at, on) for at in wanted for on in each_has
        )
        assert [each["id"] for each in shown] == sorted(each["id"] for each in shown)
        assert _pages(caller, "/services", "services", **query) == shown
