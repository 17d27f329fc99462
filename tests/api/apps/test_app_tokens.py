"""Requests that an app authenticates with its key, and the permissions of its installation access tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.api.wire import SECONDS, invalid, new_url, refused
from tests.harness.apps import PERMISSIONS, Registered, install, make_app, new_repository
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World
from workhook.http.calls import Services
from workhook.identity.apps import installer
from workhook.identity.apps import queries as app_queries
from workhook.identity.tables import audit_log
from workhook.storage.metadata import bigint_param

NOT_GRANTED = "The permissions requested are not granted to this installation."
NOT_REACHED = "There is at least one repository that does not exist or is not accessible to the parent installation."
NOT_ACCESSIBLE = "Resource not accessible by integration"
NO_JWT = "Only operations of the app itself accept its JSON web token. Use an installation access token instead."
_entries = (
    sa.select(audit_log.c.action, audit_log.c.actor_id, audit_log.c.detail)
    .where(audit_log.c.app_id == bigint_param("app_id"), audit_log.c.status.is_(None))
    .order_by(audit_log.c.id)
)
SUSPENDED = "This installation has been suspended"


@pytest.mark.parametrize("prefix", ["", "/api/v3"], ids=["root", "prefix"])
def test_an_app_reads_itself_and_its_installations(
    server: Server, world: World, app: Registered, as_app: httpx.Client, prefix: str
) -> None:
    base = server.url + prefix
    shown = as_app.get(f"{prefix}/app").raise_for_status().json()
    assert (shown["id"], shown["slug"], shown["client_id"]) == (app.id, app.slug, app.client_id)
    assert (shown["permissions"], shown["events"], shown["installations_count"]) == (PERMISSIONS, [], 1)
    assert (shown["owner"]["login"], shown["owner"]["type"]) == (world.organization, "Organization")
    assert shown["html_url"] == shown["external_url"] == f"{server.url}/apps/{app.slug}"

    installation = as_app.get(f"{prefix}/app/installations/{app.installation_id}").raise_for_status().json()
    assert (installation["app_id"], installation["app_slug"]) == (app.id, app.slug)
    assert (installation["target_type"], installation["account"]["login"]) == ("Organization", world.organization)
    assert installation["target_id"] == installation["account"]["id"]
    assert (installation["permissions"], installation["repository_selection"]) == (PERMISSIONS, "all")
    assert (installation["suspended_at"], installation["suspended_by"]) == (None, None)
    assert installation["access_tokens_url"] == f"{base}/app/installations/{app.installation_id}/access_tokens"
    assert installation["repositories_url"] == f"{base}/installation/repositories"
    for path in (f"/orgs/{world.organization}", world.repo_path, f"/users/{world.organization.upper()}"):
        assert as_app.get(f"{prefix}{path}/installation").raise_for_status().json() == installation
    assert as_app.get(f"{prefix}/app/installations").raise_for_status().json() == [installation]


def test_installations_are_paginated(server: Server, world: World) -> None:
    app = make_app(server, world, public=True)
    ids = [app.installation_id, *(install(server, app, server.world()) for _ in range(2))]
    with app.client(server) as client:
        first = client.get("/app/installations?per_page=2").raise_for_status()
        assert [each["id"] for each in first.json()] == ids[:2]
        second = client.get(first.links["next"]["url"]).raise_for_status()
        assert [each["id"] for each in second.json()] == ids[2:]
        assert "next" not in second.links
        assert client.get("/app").json()["installations_count"] == 3
        invalid(
            client.get("/app/installations?page=x"),
            {"field": "page", "code": "invalid", "message": "page must be a whole number of at least 1"},
        )


def test_installations_of_other_apps_are_not_found(server: Server, world: World, as_app: httpx.Client) -> None:
    elsewhere = server.world()
    other = make_app(server, elsewhere, repositories=["website"])
    nowhere = make_app(server, world, installed=False)
    new_repository(server, elsewhere, "shop")
    theirs = f"/app/installations/{other.installation_id}"
    for method, path in (
        ("GET", theirs),
        ("DELETE", theirs),
        ("POST", f"{theirs}/access_tokens"),
        ("PUT", f"{theirs}/suspended"),
        ("DELETE", f"{theirs}/suspended"),
        ("GET", "/app/installations/999999999999999"),
        ("GET", "/app/installations/0x1"),
        ("GET", f"/orgs/{elsewhere.organization}/installation"),
        ("GET", f"/orgs/{world.owner}/installation"),
        ("GET", f"{elsewhere.repo_path}/installation"),
        ("GET", f"{world.org_path.replace('orgs', 'repos')}/absent/installation"),
        ("GET", f"/users/{world.owner}/installation"),
        ("GET", "/users/nobody/installation"),
    ):
        refused(as_app.request(method, path), 404, "Not Found")
    with other.client(server) as client:
        assert client.get(f"{elsewhere.repo_path}/installation").status_code == 200
        refused(client.get(f"/repos/{elsewhere.organization}/shop/installation"), 404, "Not Found")
    with nowhere.client(server) as client:
        assert client.get("/app/installations").json() == []
        refused(client.get(f"{world.repo_path}/installation"), 404, "Not Found")


def test_a_token_can_be_narrowed_to_permissions_and_repositories(
    server: Server, world: World, call: Callable[..., httpx.Response]
) -> None:
    shop_id, _ = new_repository(server, world, "shop")
    app = make_app(
        server, world, granted={"repository_hooks": "write", "work": "read"}, repositories=["website", "shop"]
    )
    path = f"/app/installations/{app.installation_id}/access_tokens"

    def made(**body: Any) -> Any:
        answer = call(app.jwt(), "POST", path, json=body)
        assert answer.status_code == 201, answer.text
        assert answer.headers["cache-control"] == "no-store"
        return answer.json()

    def reached(token: str) -> list[str]:
        answer = call(token, "GET", "/installation/repositories").raise_for_status().json()
        names = [each["name"] for each in answer["repositories"]]
        assert (answer["total_count"], answer["repository_selection"]) == (len(names), "selected")
        return names

    whole = made()
    assert whole["token"].startswith("whs_")
    assert set(whole) == {"token", "expires_at", "permissions", "repository_selection"}
    assert whole["permissions"] == {"repository_hooks": "write", "work": "read"}
    assert whole["repository_selection"] == "selected"
    ends = datetime.strptime(whole["expires_at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert timedelta(minutes=58) < ends - datetime.now(UTC) <= timedelta(hours=1)
    assert made(permissions={}) | {"token": whole["token"], "expires_at": whole["expires_at"]} == whole
    assert reached(whole["token"]) == ["website", "shop"]

    less = made(repositories=["Shop"], permissions={"repository_hooks": "read"}, unknown=1)
    assert less["permissions"] == {"repository_hooks": "read"}
    assert [each["full_name"] for each in less["repositories"]] == [f"{world.organization}/shop"]
    assert less["repositories"][0]["permissions"] == {
        "admin": False, "maintain": False, "push": True, "triage": True, "pull": True,
    }  # fmt: skip
    assert reached(less["token"]) == ["shop"]
    assert reached(made(repository_ids=[shop_id])["token"]) == ["shop"]
    assert [each["id"] for each in made(repository_ids=[shop_id], repositories=["website"])["repositories"]][1:] == [
        shop_id
    ]
    hook = {"config": {"url": new_url()}, "active": False}
    refused(call(less["token"], "POST", f"/repos/{world.organization}/shop/hooks", json=hook), 403, NOT_ACCESSIBLE)
    assert call(less["token"], "GET", f"/repos/{world.organization}/shop/hooks").status_code == 200
    refused(call(less["token"], "GET", f"{world.repo_path}/hooks"), 404, "Not Found")


def test_a_token_cannot_exceed_the_granted_permissions(server: Server, world: World) -> None:
    shop_id, _ = new_repository(server, world, "shop")
    theirs = server.world()
    app = make_app(server, world, granted={"repository_hooks": "read"}, repositories=["website"])

    def fault(field: str, message: str) -> dict[str, str]:
        return {"resource": "Installation", "field": field, "code": "invalid", "message": message}

    with app.client(server) as client:

        def ask(**body: Any) -> httpx.Response:
            return client.post(f"/app/installations/{app.installation_id}/access_tokens", json=body)

        wanted = {"repository_hooks": "write", "organization_hooks": "read", "administration": "write"}
        faults = [
            fault("permissions", "administration: write is not granted"),
            fault("permissions", "organization_hooks: read is not granted"),
            fault("permissions", "repository_hooks: write is not granted"),
        ]
        refused(ask(permissions=wanted), 422, NOT_GRANTED, *faults)
        names = [
            fault("repositories", "shop is not a repository of this installation"),
            fault("repositories", f"{theirs.full_name} is not a repository of this installation"),
        ]
        refused(ask(repositories=["website", "shop", theirs.full_name]), 422, NOT_REACHED, *names)
        unknown = fault("repository_ids", f"{shop_id} is not a repository of this installation")
        refused(ask(repository_ids=[shop_id]), 422, NOT_REACHED, unknown)
        refused(
            ask(repository_ids=[shop_id], permissions=wanted), 422, f"{NOT_GRANTED} {NOT_REACHED}", *faults, unknown
        )
        malformed = ask(repositories=[], repository_ids="1", permissions={"work": "admin"})
        assert {each["field"] for each in malformed.json()["errors"]} == {
            "repositories",
            "repository_ids",
            "permissions",
        }
        assert (malformed.status_code, malformed.json()["message"]) == (422, "Validation Failed")
        assert ask(repositories=["a\0b"]).status_code == 422
        refused(
            client.post(f"/app/installations/{app.installation_id}/access_tokens", content=b"{"),
            400,
            "Problems parsing JSON",
        )


def test_a_token_manages_webhooks_and_work(server: Server, world: World, call: Callable[..., httpx.Response]) -> None:
    token = make_app(server, world).token(server)
    for place in (world.repo_path, world.org_path):
        hook = {"name": "web", "config": {"url": new_url()}, "active": False}
        made = call(token, "POST", f"{place}/hooks", json=hook)
        assert made.status_code == 201, made.text
        path = f"{place}/hooks/{made.json()['id']}"
        assert [each["id"] for each in call(token, "GET", f"{place}/hooks").json()] == [made.json()["id"]]
        assert call(token, "PATCH", path, json={"active": True}).status_code == 200
        assert call(token, "POST", f"{path}/pings").status_code == 204
        assert call(token, "DELETE", path).status_code == 204
    columns = f"/api/v1/projects/{world.project_id}/columns"
    assert call(token, "POST", columns, json={"title": "To do"}).status_code == 200
    assert [each["title"] for each in call(token, "GET", columns).json()["columns"]] == ["To do"]
    for path in ("/user", "/user/installations", "/user/tokens", f"{world.org_path}/apps"):
        refused(call(token, "GET", path), 403, NOT_ACCESSIBLE)


def test_a_token_is_refused_outside_its_installation(
    server: Server, world: World, call: Callable[..., httpx.Response]
) -> None:
    _, shop = new_repository(server, world, "shop")
    elsewhere = server.world()
    app = make_app(server, world, repositories=["website"])
    token = app.token(server)
    hook = {"name": "web", "config": {"url": new_url()}, "active": False}
    assert call(token, "POST", f"{world.repo_path}/hooks", json=hook).status_code == 201
    for place in (f"/repos/{world.organization}/shop", elsewhere.repo_path, elsewhere.org_path):
        refused(call(token, "GET", f"{place}/hooks"), 404, "Not Found")
        refused(call(token, "POST", f"{place}/hooks", json=hook), 404, "Not Found")
    # Organization permissions do not depend on repositories, but the audit log covers all repositories and is refused
    # to a token for selected ones.
    assert call(token, "POST", f"{world.org_path}/hooks", json=hook).status_code == 201
    refused(call(token, "GET", f"{world.org_path}/audit-log"), 403, NOT_ACCESSIBLE)
    assert call(token, "GET", f"/api/v1/projects/{world.project_id}/columns").status_code == 200
    for project in (shop, elsewhere.project_id):
        assert call(token, "GET", f"/api/v1/projects/{project}/columns").status_code == 404
        assert call(token, "POST", f"/api/v1/projects/{project}/columns", json={"title": "x"}).status_code == 404
    # Endpoints that require the JWT, and endpoints that refuse it.
    refused(call(token, "GET", "/app"), 401, "A JSON web token could not be decoded")
    refused(call(app.jwt(), "GET", world.repo_path), 401, NO_JWT)


def test_each_endpoint_requires_its_own_permission(
    server: Server, world: World, call: Callable[..., httpx.Response]
) -> None:
    app = make_app(server, world)
    uses = {
        "repository_hooks": f"{world.repo_path}/hooks",
        "organization_hooks": f"{world.org_path}/hooks",
        "work": f"/api/v1/projects/{world.project_id}/tasks",
    }
    for held in uses:
        token = app.token(server, permissions={held: "read"})
        for needed, path in uses.items():
            answer = call(token, "GET", path)
            assert answer.status_code == (200 if needed == held else 403), (held, path, answer.text)
            if needed != held:
                assert answer.json()["message"] == NOT_ACCESSIBLE


def test_deliveries_name_the_installation(
    server: Server, world: World, app: Registered, receiver: Receiver, call: Callable[..., httpx.Response]
) -> None:
    token = app.token(server)
    config = {"url": receiver.url, "content_type": "json"}
    made = call(token, "POST", f"{world.repo_path}/hooks", json={"config": config, "events": ["*"]})
    assert made.status_code == 201, made.text
    hook = f"{world.repo_path}/hooks/{made.json()['id']}"
    column = call(token, "POST", f"/api/v1/projects/{world.project_id}/columns", json={"title": "To do"})
    assert column.status_code == 200, column.text
    received = receiver.wait_for(lambda requests: {"ping", "column"} <= {each.event for each in requests})
    for each in received:
        sender = each.payload()["sender"]
        assert (sender["login"], sender["type"]) == (app.bot, "Bot"), each.event
    recorded = until(lambda: shown if len(shown := call(token, "GET", f"{hook}/deliveries").json()) == 2 else None)
    assert recorded
    assert {each["installation_id"] for each in recorded} == {app.installation_id}
    # A webhook of the owner: only events that the app caused name the installation.
    own = call(
        world.token,
        "POST",
        f"{world.repo_path}/hooks",
        json={"config": {"url": receiver.url + "/own"}, "events": ["column"]},
    )
    place = f"/api/v1/projects/{world.project_id}/columns"
    for who in (token, world.token):
        assert call(who, "POST", place, json={"title": "Done"}).status_code == 200

    def told() -> list[Any]:
        answer = call(world.token, "GET", f"{world.repo_path}/hooks/{own.json()['id']}/deliveries?event=column")
        return [each["installation_id"] for each in answer.json()]

    until(lambda: len(told()) == 2)
    assert Counter(told()) == {app.installation_id: 1, None: 1}, (
        "in either order: deliveries to one hook go side by side"
    )


def test_suspending_uninstalling_and_revoking_end_a_token(
    server: Server, world: World, app: Registered, as_app: httpx.Client, call: Callable[..., httpx.Response]
) -> None:
    one = f"/app/installations/{app.installation_id}"
    token, other = app.token(server), app.token(server)
    assert call(other, "DELETE", "/installation/token").status_code == 204
    refused(call(other, "GET", "/installation/repositories"), 401, "Bad credentials")
    hooks = f"{world.repo_path}/hooks"
    assert call(token, "GET", hooks).status_code == 200
    for _ in range(2):
        assert as_app.put(f"{one}/suspended").status_code == 204
    refused(call(token, "GET", hooks), 403, SUSPENDED)
    refused(as_app.post(f"{one}/access_tokens"), 403, SUSPENDED)
    assert re.fullmatch(SECONDS, as_app.get(one).json()["suspended_at"])
    for _ in range(2):
        assert as_app.delete(f"{one}/suspended").status_code == 204
    assert as_app.get(one).json()["suspended_at"] is None
    assert call(token, "GET", hooks).status_code == 200
    assert as_app.delete(one).status_code == 204
    refused(call(token, "GET", hooks), 401, "Bad credentials")
    refused(as_app.delete(one), 404, "Not Found")
    refused(as_app.get(f"{world.org_path}/installation"), 404, "Not Found")
    assert as_app.get("/app/installations").json() == []
    logged = server.run(lambda services: services.database.fetch_all(_entries, {"app_id": app.id}))
    assert [(each["action"], each["actor_id"] is None) for each in logged] == [
        ("installation.create_token", True),
        ("installation.create_token", True),
        ("installation.revoke_token", False),
        ("installation.suspend", True),
        ("installation.unsuspend", True),
        ("installation.delete", True),
    ]
    assert not [each for each in logged if token in each["detail"] or other in each["detail"]]


def test_a_token_does_not_gain_permissions_granted_later(
    server: Server, world: World, call: Callable[..., httpx.Response]
) -> None:
    app = make_app(server, world, granted={"repository_hooks": "write"})
    token, hooks = app.token(server), f"{world.repo_path}/hooks"

    def grant(permissions: dict[str, str]) -> None:
        async def edit(services: Services) -> None:
            async with services.database.transaction() as tx:
                installation = await app_queries.find_installation(tx, app.installation_id)
                assert installation is not None
                await installer.edit_installation(tx, None, installation, permissions=permissions)

        server.run(edit)

    hook = {"config": {"url": new_url()}, "active": False}
    grant(PERMISSIONS)
    refused(call(token, "GET", f"{world.org_path}/hooks"), 403, NOT_ACCESSIBLE)
    assert call(app.token(server), "GET", f"{world.org_path}/hooks").status_code == 200
    grant({"repository_hooks": "read"})

    def write() -> httpx.Response:
        return call(token, "POST", hooks, json={**hook, "config": {"url": new_url()}})

    until(lambda: write().status_code == 403)
    refused(write(), 403, NOT_ACCESSIBLE)
    assert call(token, "GET", hooks).status_code == 200
