"""Installations of apps on an organization: granted permissions, token access, and the limits of the app's bot."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import pytest

from tests.api.app_kit import fault, installation_token, new_name, signed, user_token
from tests.api.wire import Api, invalid, refused
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, add_user
from workhook.core.errors import Invalid
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.schemas import Account
from workhook.identity.tables import audit_log, memberships
from workhook.identity.tokens.issue import APP_USER

EVERYTHING = {"organization_hooks": "write", "repository_hooks": "write", "work": "write"}


@pytest.fixture
def installations(world: World) -> str:
    return f"{world.org_path}/installations"


def registered(api: Api, world: World, **body: Any) -> dict[str, Any]:
    response = api.post(f"{world.org_path}/apps", json={"name": new_name(), "permissions": EVERYTHING, **body})
    assert response.status_code == 201, response.text
    app: dict[str, Any] = response.json()
    return app


def installed(api: Api, world: World, app: dict[str, Any], **body: Any) -> dict[str, Any]:
    response = api.post(f"{world.org_path}/installations", json={"app": app["slug"], **body})
    assert response.status_code == 201, response.text
    installation: dict[str, Any] = response.json()
    return installation


def another_repository(api: Api, world: World, name: str) -> int:
    """Create a repository and return its ID."""
    project = {"title": name, "name": name, "organization": world.organization}
    assert api.post("/api/v1/projects", json=project).status_code == 200
    number: int = api.read(f"/repos/{world.organization}/{name}")["id"]
    return number


def test_an_installation_grants_everything_the_app_requests_by_default(
    server: Server, world: World, api: Api, installations: str
) -> None:
    app = registered(api, world)
    response = api.post(installations, json={"app": app["client_id"]})
    found = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"{server.url}{installations}/{found['id']}"
    assert (found["app_id"], found["app_slug"], found["client_id"]) == (app["id"], app["slug"], app["client_id"])
    assert (found["permissions"], found["app_permissions"]) == (EVERYTHING, EVERYTHING)
    assert (found["repository_selection"], found["repository_ids"], found["suspended_at"]) == ("all", None, None)
    assert (found["account"]["login"], found["target_type"]) == (world.organization, "Organization")
    assert api.read(f"{installations}/{found['id']}") == found
    assert api.read(installations) == {"total_count": 1, "installations": [found]}
    again = f"{app['slug']} is already installed on this organization"
    invalid(api.post(installations, json={"app": app["slug"]}), fault("Installation", "app", "already_exists", again))
    with server.client(installation_token(server, found["id"])) as itself:
        assert itself.get(f"{world.repo_path}/hooks").status_code == 200
        assert itself.get(f"{world.org_path}/hooks").status_code == 200


def test_an_owner_can_select_repositories_and_permissions(
    server: Server, world: World, api: Api, installations: str
) -> None:
    app = registered(api, world)
    chosen = {"repositories": [world.repository.upper()], "permissions": {"repository_hooks": "read"}}
    found = installed(api, world, app, **chosen)
    website = api.read(world.repo_path)["id"]
    assert (found["repository_selection"], found["repository_ids"]) == ("selected", [website])
    assert (found["permissions"], found["app_permissions"]) == ({"repository_hooks": "read"}, EVERYTHING)
    other = another_repository(api, world, "other")
    path = f"{installations}/{found['id']}"
    with server.client(installation_token(server, found["id"])) as itself:

        def hooks(repository: str) -> int:
            return itself.get(f"/repos/{world.organization}/{repository}/hooks").status_code

        assert (hooks("website"), hooks("other")) == (200, 404)
        assert itself.post(f"{world.repo_path}/hooks", json={}).status_code == 403
        assert api.patch(path, json={"repositories": ["other"]}).json()["repository_ids"] == [other]
        until(lambda: (hooks("website"), hooks("other")) == (404, 200))
        assert api.patch(path, json={"repository_selection": "selected"}).json()["repository_ids"] == [other]
        changed = api.patch(path, json={"repository_selection": "all", "permissions": EVERYTHING}).json()
        assert (changed["repository_ids"], changed["permissions"]) == (None, EVERYTHING)
        until(lambda: (hooks("website"), hooks("other")) == (200, 200))
        until(lambda: itself.post(f"{world.repo_path}/hooks", json={}).status_code == 422)


def test_invalid_grants_are_refused(world: World, api: Api, server: Server, installations: str) -> None:
    app = registered(api, world, permissions={"work": "read"})
    more = {"app": app["slug"], "permissions": {"work": "write", "repository_hooks": "read"}, "repositories": []}
    invalid(
        api.post(installations, json=more),
        fault("Installation", "permissions", "custom", "the app does not request work: write"),
        fault("Installation", "permissions", "custom", "the app does not request repository_hooks: read"),
        fault("Installation", "repositories", "custom", "repositories must list 1 to 500 repositories"),
    )
    elsewhere = server.world()
    with server.client(elsewhere.token) as client:
        another_repository(Api(client), elsewhere, "theirs")
    named = {"app": app["slug"], "repositories": ["website", "theirs"]}
    absent = f"{world.organization} has no repository theirs"
    invalid(api.post(installations, json=named), fault("Installation", "repositories", "invalid", absent))
    beyond = fault("Installation", "permissions", "custom", "the app does not request work: write")
    all_at_once = {**named, "permissions": {"work": "write"}}
    invalid(api.post(installations, json=all_at_once), fault("Installation", "repositories", "invalid", absent), beyond)
    no_app = api.post(installations, json={**named, "app": "no-such-app"}).json()["errors"]
    assert [each["field"] for each in no_app] == ["repositories", "app"]
    missing = "repositories is required if repository_selection is selected"
    nothing = {"app": app["slug"], "repository_selection": "selected"}
    invalid(api.post(installations, json=nothing), fault("Installation", "repositories", "missing_field", missing))
    unclear = "repositories must be omitted if repository_selection is all"
    both = {"app": app["slug"], "repository_selection": "all", "repositories": ["website"]}
    invalid(api.post(installations, json=both), fault("Installation", "repositories", "custom", unclear))
    assert api.read(installations)["total_count"] == 0

    found = installed(api, world, app)
    path = f"{installations}/{found['id']}"
    invalid(api.patch(path, json={"permissions": {"work": "write"}}), beyond)
    both = {"permissions": {"work": "write"}, "repositories": ["theirs"]}
    invalid(api.patch(path, json=both), fault("Installation", "repositories", "invalid", absent), beyond)
    assert api.read(path) == found


def test_a_private_app_can_be_installed_only_in_its_own_organization(
    server: Server, world: World, api: Api, installations: str
) -> None:
    other = server.world()
    with server.client(other.token) as client:
        theirs = registered(Api(client), other)
        message = "app must be the slug or client ID of an app that is public or the organization's own"
        hidden = fault("Installation", "app", "invalid", message)
        oauth = api.post(f"{world.org_path}/oauth-apps", json={"name": new_name(), "device_flow": True}).json()
        for name in (theirs["slug"], theirs["client_id"], "no-such-app", oauth["client_id"], oauth["slug"]):
            invalid(api.post(installations, json={"app": name}), hidden)
        their_path = f"{other.org_path}/apps/{theirs['slug']}"
        assert client.patch(their_path, json={"public": True}).status_code == 200
        found = installed(api, world, theirs)
        used = "other organizations have installed the app, so it cannot become private"
        invalid(client.patch(their_path, json={"public": False}), fault("App", "public", "custom", used))
        refused(client.get(f"{other.org_path}/installations/{found['id']}"), 404, "Not Found")
        assert client.delete(f"{other.org_path}/installations/{found['id']}").status_code == 404
        assert api.delete(f"{installations}/{found['id']}").status_code == 204
        assert client.patch(their_path, json={"public": False}).json()["public"] is False


def test_an_app_cannot_impersonate_another_by_its_name(server: Server, world: World, api: Api) -> None:
    """Slugs are case-insensitive, and an app's name can equal another app's client ID."""
    wanted = registered(api, world, public=True)
    registered(api, world, public=True, name=wanted["client_id"])
    other = server.world()
    with server.client(other.token) as client:
        answer = Api(client).post(f"{other.org_path}/installations", json={"app": wanted["client_id"]})
        assert (answer.status_code, answer.json()["app_slug"]) == (201, wanted["slug"])


def test_narrowed_permissions_apply_at_once_and_wider_ones_after_an_owner_accepts(
    server: Server, world: World, api: Api, installations: str
) -> None:
    app = registered(api, world, permissions={"repository_hooks": "write"})
    found = installed(api, world, app)
    path, app_path = f"{installations}/{found['id']}", f"{world.org_path}/apps/{app['slug']}"
    own = installation_token(server, found["id"], permissions={"repository_hooks": "write"})
    users = user_token(server, app["client_id"], world.owner, APP_USER)

    def writes(client: Any) -> int:
        """Return the status of an invalid write: only callers with write access get validation errors."""
        status: int = client.post(f"{world.repo_path}/hooks", json={}).status_code
        return status

    with server.client(own) as itself, server.client(users) as user:
        assert (writes(itself), writes(user)) == (422, 422)
        assert api.patch(app_path, json={"permissions": {"repository_hooks": "read"}}).status_code == 200
        until(lambda: (writes(itself), writes(user)) == (403, 403))
        assert itself.get(f"{world.repo_path}/hooks").status_code == 200
        assert api.read(path)["permissions"] == {"repository_hooks": "read"}

        wide = {"repository_hooks": "write", "work": "read"}
        api.patch(app_path, json={"permissions": wide})
        waiting = api.read(path)
        assert (waiting["permissions"], waiting["app_permissions"]) == ({"repository_hooks": "read"}, wide)
        assert (writes(itself), writes(user)) == (403, 403)
        assert api.patch(path, json={"permissions": wide}).json()["permissions"] == wide
        until(lambda: (writes(itself), writes(user)) == (422, 422))
        # A token that was narrowed on creation keeps its permissions.
        assert itself.get("/api/v1/projects").status_code == 403


def test_suspension_and_uninstallation_end_access(server: Server, world: World, api: Api, installations: str) -> None:
    app = registered(api, world)
    found = installed(api, world, app)
    path = f"{installations}/{found['id']}"
    users = user_token(server, app["client_id"], world.owner, APP_USER)
    with server.client(installation_token(server, found["id"])) as itself, server.client(users) as user:

        def states() -> tuple[int, int]:
            hooks = f"{world.repo_path}/hooks"
            return itself.get(hooks).status_code, user.get(hooks).status_code

        hook = Api(itself).post(f"{world.repo_path}/hooks", json={"config": {"url": "http://127.0.0.1:9/a"}}).json()
        assert states() == (200, 200)
        for _ in range(2):  # suspending is idempotent
            assert api.request("PUT", f"{path}/suspended").status_code == 204
        until(lambda: states() == (403, 404))
        assert api.read(path)["suspended_at"]
        assert api.read(path)["permissions"] == EVERYTHING
        for _ in range(2):
            assert api.delete(f"{path}/suspended").status_code == 204
        until(lambda: states() == (200, 200))
        assert api.read(path)["suspended_at"] is None

        assert api.patch(path, json={"permissions": EVERYTHING, "repository_selection": "all"}).status_code == 200
        wrong = {"resource": "Installation", "field": "remove_webhooks", "code": "invalid"}
        said = {**wrong, "message": "remove_webhooks must be true or false"}
        invalid(api.delete(f"{path}?remove_webhooks=yes"), said)
        assert api.delete(path).status_code == 204
        until(lambda: states() == (401, 404))
    assert server.run(lambda services: _roles(services, app["bot_id"])) == []
    refused(api.get(path), 404, "Not Found")
    refused(api.delete(path), 404, "Not Found")
    assert api.get(f"{world.repo_path}/hooks/{hook['id']}").status_code == 200  # it belongs to the organization
    done = server.run(lambda services: _entries(services, f"installation/{found['id']}"))
    assert done == [f"installation.{each}" for each in ("create", "suspend", "unsuspend", "delete")]
    [told] = api.read(f"{world.org_path}/audit-log?phrase=action:installation.delete")
    assert told["data"] == {"app": app["slug"], "webhooks_left": 1}

    again = installed(api, world, app)
    with server.client(installation_token(server, again["id"])) as itself:
        config = {"url": "http://127.0.0.1:9/b"}
        second = Api(itself).post(f"{world.org_path}/hooks", json={"name": "web", "config": config}).json()
    assert api.delete(f"{installations}/{again['id']}?remove_webhooks=true").status_code == 204
    assert [api.get(each["url"]).status_code for each in (hook, second)] == [200, 404]
    log = f"{world.org_path}/audit-log?phrase=action"
    assert api.read(f"{log}:installation.delete")[0]["data"] == {"app": app["slug"], "webhooks_removed": 1}
    assert [each["data"] for each in api.read(f"{log}:hook.delete")] == [{"reason": "uninstalled"}]


def test_an_app_cannot_lift_a_suspension_by_an_owner(
    server: Server, world: World, api: Api, installations: str
) -> None:
    app = registered(api, world)
    number = installed(api, world, app)["id"]
    theirs, own = f"{installations}/{number}/suspended", f"/app/installations/{number}/suspended"
    with server.client(signed(app["client_id"], app["pem"])) as client:
        as_app = Api(client)
        assert api.request("PUT", theirs).status_code == 204
        refused(as_app.delete(own), 403, f"An owner of {world.organization} has suspended this installation.")
        # Nor does it become the app's own suspension, which the app could lift.
        assert as_app.request("PUT", own).status_code == 204
        refused(as_app.delete(own), 403, f"An owner of {world.organization} has suspended this installation.")
        assert api.delete(theirs).status_code == 204
        for suspended_by in (own, theirs):  # an owner's suspension replaces the app's
            assert (as_app if suspended_by == own else api).request("PUT", suspended_by).status_code == 204
        assert as_app.delete(own).status_code == 403
        assert api.delete(theirs).status_code == 204
        assert as_app.request("PUT", own).status_code == 204
        assert as_app.delete(own).status_code == 204
        assert api.read(f"{installations}/{number}")["suspended_at"] is None


def test_deleting_an_app_ends_its_installations(server: Server, world: World, api: Api, installations: str) -> None:
    app = registered(api, world, public=True)
    here = installed(api, world, app)
    other = server.world()
    with server.client(other.token) as client:
        there = installed(Api(client), other, app)
        users = user_token(server, app["client_id"], world.owner, APP_USER)
        tokens = [installation_token(server, each["id"]) for each in (here, there)]
        assert api.delete(f"{world.org_path}/apps/{app['slug']}").status_code == 204
        assert client.get(f"{other.org_path}/installations").json() == {"total_count": 0, "installations": []}
    with server.client(None) as gone:
        for token in (users, *tokens):
            headers = {"Authorization": f"Bearer {token}"}
            until(partial(_is_refused, gone, headers))
    assert api.read(installations)["total_count"] == 0
    assert server.run(lambda services: _roles(services, app["bot_id"])) == []


def test_installations_are_paginated(world: World, api: Api, installations: str) -> None:
    ids = [installed(api, world, registered(api, world))["id"] for _ in range(3)]
    first = api.get(installations, params={"per_page": 2})
    assert (first.json()["total_count"], [each["id"] for each in first.json()["installations"]]) == (3, ids[:2])
    assert 'rel="next"' in first.headers["link"]
    second = api.get(installations, params={"per_page": 2, "page": 2})
    assert [each["id"] for each in second.json()["installations"]] == ids[2:]


@pytest.fixture
def bot(world: World, api: Api) -> str:
    """Return the login of an installed app's bot."""
    app = registered(api, world)
    installed(api, world, app)
    login: str = app["bot_login"]
    return login


def test_a_bot_is_not_a_member_and_cannot_become_one(server: Server, world: World, api: Api, bot: str) -> None:
    member = server.run(lambda services: add_user(services, world, member="member"))
    with server.client(member) as client:
        people = client.get(f"/api/v1/organizations/{world.organization}/members").json()["members"]
        assert people
        assert bot not in [each["login"] for each in people]
    project = api.post("/api/v1/projects", json={"title": "Shop"}).json()["project"]
    members = f"/api/v1/projects/{project['id']}/members"
    answer = api.post(members, json={"username": bot})
    assert [each["field"] for each in answer.json()["errors"]] == ["username"], answer.text
    assert bot not in api.get(members).text
    column = api.post(f"/api/v1/projects/{project['id']}/columns", json={"title": "To do"}).json()["column"]
    task = api.post(f"/api/v1/columns/{column['id']}/tasks", json={"title": "T", "assignees": [bot]})
    assert [each["field"] for each in task.json()["errors"]] == ["assignees"], task.text


def test_a_bot_cannot_sign_in_or_have_tokens(server: Server, world: World, bot: str) -> None:
    async def work(services: Services) -> None:
        async with services.database.transaction() as tx:
            account = await queries.find_account(tx, bot)
            assert account is not None
            assert (account.kind, account.type) == ("bot", "Bot")
            with pytest.raises(Invalid, match="Validation Failed"):
                await actions.issue_token(tx, account, ["repo"])
            with pytest.raises(Invalid, match="Validation Failed"):
                await actions.create_account(tx, "user", bot, name=None, email=None)
            assert await queries.find_member_role(tx, await _organization_id(tx, world), account.id) == "app"

    server.run(work)


def _is_refused(client: httpx.Client, headers: dict[str, str]) -> bool:
    return client.get("/rate_limit", headers=headers).status_code == 401


async def _organization_id(tx: Any, world: World) -> int:
    found: Account | None = await queries.find_account(tx, world.organization)
    assert found is not None
    return found.id


async def _roles(services: Services, bot_id: int) -> list[str]:
    rows = await services.database.fetch_all(memberships.select().where(memberships.c.user_id == bot_id))
    return [row["role"] for row in rows]


async def _entries(services: Services, target: str) -> list[str]:
    rows = await services.database.fetch_all(
        audit_log.select().where(audit_log.c.target == target).order_by(audit_log.c.id)
    )
    return [row["action"] for row in rows]
