"""A user's access to the installations of an app, through the app's token for that user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.api.app_kit import fault
from tests.api.wire import refused
from tests.harness.apps import install, make_app, new_repository, user_token
from tests.harness.server import Server
from tests.harness.world import World, add_token, add_user
from workhook.http.calls import Services
from workhook.identity import actions, queries

NOT_ACCESSIBLE = "Resource not accessible by integration"


@pytest.fixture
def call(server: Server) -> Iterator[Callable[[str, str, str], httpx.Response]]:
    """Return a function `call(token, method, path)` that sends a request."""
    with server.client(None) as client:
        yield lambda token, method, path: client.request(method, path, headers={"Authorization": f"Bearer {token}"})


def test_a_user_sees_installations_with_accessible_repositories(
    server: Server, world: World, call: Callable[[str, str, str], httpx.Response]
) -> None:
    new_repository(server, world, "shop")
    _, hidden = new_repository(server, world, "hidden")
    with server.client(world.token) as client:
        assert client.patch(f"/api/v1/projects/{hidden}", json={"private": True}).status_code == 200
    app = make_app(server, world, repositories=["website", "hidden"], public=True)
    second = server.world()
    install(server, app, second)

    async def people(services: Services) -> dict[str, str]:
        logins = {}
        async with services.database.transaction() as tx:
            organization = await queries.find_account(tx, world.organization)
            website = await queries.find_repository(tx, world.organization, "website")
            shop = await queries.find_repository(tx, world.organization, "shop")
            assert organization is not None
            assert website is not None
            assert shop is not None
            for name in ("member", "helper", "beside", "stranger"):
                login = f"{name}-{app.id}-{organization.id}"
                user = await actions.create_account(tx, "user", login, name=None, email=None)
                logins[name] = login
                if name == "member":
                    await actions.set_member(tx, organization, user, "member")
                if name in ("helper", "beside"):
                    await actions.set_collaborator(tx, website if name == "helper" else shop, user, "read")
        return logins

    logins = {"owner": world.owner, **server.run(people)}
    one = f"/user/installations/{app.installation_id}/repositories"
    for who, sees in (("owner", True), ("member", True), ("helper", True), ("beside", False), ("stranger", False)):
        token = user_token(server, app, logins[who])
        listed = call(token, "GET", "/user/installations").raise_for_status().json()
        ids = [each["id"] for each in listed["installations"]]
        assert (ids, listed["total_count"]) == (([app.installation_id], 1) if sees else ([], 0)), who
        answer = call(token, "GET", one)
        if sees:
            found = answer.raise_for_status().json()
            names = ["website", "hidden"] if who == "owner" else ["website"]
            assert [each["name"] for each in found["repositories"]] == names
            assert (found["total_count"], found["repository_selection"]) == (len(names), "selected")
            first = call(token, "GET", f"{one}?per_page=1").raise_for_status()
            assert ("next" in first.links) == (len(names) == 2)
        else:
            refused(answer, 404, "Not Found")
    refused(call(user_token(server, app, world.owner), "GET", "/installation/repositories"), 403, NOT_ACCESSIBLE)
    message = "This operation does not accept classic personal access tokens."
    refused(call(world.token, "GET", "/user/installations"), 403, message)
    refused(call(world.token, "DELETE", "/installation/token"), 403, message)


def test_repositories_are_added_and_removed_one_by_one(
    server: Server, world: World, call: Callable[[str, str, str], httpx.Response]
) -> None:
    """go-github's AddRepository and Octokit's addRepoToInstallation send these requests."""
    shop, _ = new_repository(server, world, "shop")
    website = call(world.token, "GET", world.repo_path).json()["id"]
    app = make_app(server, world, repositories=["website"], public=True)
    one = f"/user/installations/{app.installation_id}/repositories"

    def chosen() -> list[int] | None:
        path = f"{world.org_path}/installations/{app.installation_id}"
        ids: list[int] | None = call(world.token, "GET", path).raise_for_status().json()["repository_ids"]
        return ids

    for _ in range(2):  # adding is idempotent
        assert call(world.token, "PUT", f"{one}/{shop}").status_code == 204
        assert chosen() == [website, shop]
    assert call(world.token, "DELETE", f"{one}/{website}").status_code == 204
    assert chosen() == [shop]
    refused(call(world.token, "DELETE", f"{one}/{website}"), 404, "Not Found")
    said = "repository_id: this is the last repository; uninstall the app instead"
    refused(
        call(world.token, "DELETE", f"{one}/{shop}"),
        422, "Validation Failed", fault("Installation", "repository_id", "invalid", said),
    )  # fmt: skip

    elsewhere = server.world()
    beyond = call(elsewhere.token, "GET", elsewhere.repo_path).json()["id"]
    for method in ("PUT", "DELETE"):
        for path in (f"{one}/{beyond}", f"{one}/999999999", f"/user/installations/999999999/repositories/{shop}"):
            refused(call(world.token, method, path), 404, "Not Found")
        refused(call(elsewhere.token, method, f"{one}/{shop}"), 404, "Not Found")
        member = str(server.run(lambda services: add_user(services, world, member="member")))
        refused(call(member, method, f"{one}/{shop}"), 403, "You must be an organization owner.")
        token = str(server.run(lambda services: add_token(services, world, ["repo"], member="owner")))
        refused(call(token, method, f"{one}/{shop}"), 403, "The token needs the scope admin:org.")
        refused(call(user_token(server, app, world.owner), method, f"{one}/{shop}"), 403, NOT_ACCESSIBLE)
    assert chosen() == [shop]

    whole = make_app(server, world)
    one = f"/user/installations/{whole.installation_id}/repositories"
    assert call(world.token, "PUT", f"{one}/{shop}").status_code == 204
    said = "repository_id: the app is installed on all repositories; select repositories first"
    refused(
        call(world.token, "DELETE", f"{one}/{shop}"),
        422, "Validation Failed", fault("Installation", "repository_id", "invalid", said),
    )  # fmt: skip
    path = f"{world.org_path}/installations/{whole.installation_id}"
    assert call(world.token, "GET", path).json()["repository_selection"] == "all"


def test_a_selected_repository_in_the_trash_stays_selected(
    server: Server, world: World, call: Callable[[str, str, str], httpx.Response]
) -> None:
    """The repository may be restored, and it does not prevent changes to the selection."""
    made = {name: new_repository(server, world, name) for name in ("shop", "blog")}
    (shop, project_id), (blog, _) = made["shop"], made["blog"]
    app = make_app(server, world, repositories=["website", "shop"])
    website = call(world.token, "GET", world.repo_path).json()["id"]
    one = f"/user/installations/{app.installation_id}/repositories"

    def chosen() -> list[int]:
        path = f"{world.org_path}/installations/{app.installation_id}"
        ids: list[int] = call(world.token, "GET", path).json()["repository_ids"]
        return ids

    assert call(world.token, "DELETE", f"/api/v1/projects/{project_id}").status_code == 200
    answer = call(world.token, "PUT", f"{one}/{blog}")
    assert (answer.status_code, chosen()) == (204, sorted([website, shop, blog])), answer.text
    assert call(world.token, "DELETE", f"{one}/{website}").status_code == 204
    for method in ("PUT", "DELETE"):
        refused(call(world.token, method, f"{one}/{shop}"), 404, "Not Found")
    assert chosen() == sorted([shop, blog])


async def test_concurrent_additions_are_all_kept(server: Server, world: World) -> None:
    numbers = [new_repository(server, world, f"shop-{number}")[0] for number in range(6)]
    app = make_app(server, world, repositories=["website"])
    paths = [f"/user/installations/{app.installation_id}/repositories/{number}" for number in numbers]
    async with httpx.AsyncClient(base_url=server.url, headers={"Authorization": f"Bearer {world.token}"}) as client:
        answers = await asyncio.gather(*(client.put(path, timeout=60) for path in paths))
        assert [each.status_code for each in answers] == [204] * len(numbers)
        found = await client.get(f"{world.org_path}/installations/{app.installation_id}")
    assert set(numbers) < set(found.json()["repository_ids"])
