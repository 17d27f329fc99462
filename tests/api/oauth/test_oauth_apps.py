"""OAuth apps of an organization: registration, changes, secret rotation and token revocation."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import httpx
import pytest

from tests.api.app_kit import CALLBACK, fault, new_name, user_token
from tests.api.wire import SECONDS, Api, Place, invalid, refused
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World
from workhook.hooks.tables import hooks
from workhook.http.calls import Services
from workhook.identity.apps import queries, schemas
from workhook.identity.apps.credentials import authenticate_client
from workhook.identity.queries import find_account
from workhook.identity.tables import app_secrets, audit_log, authorization_codes, device_codes, grants, refresh_tokens
from workhook.identity.tokens.issue import OAUTH
from workhook.storage.metadata import insert_into

KEYS = {
    "id", "client_id", "slug", "name", "description", "homepage_url", "callback_urls", "device_flow", "owner", "url",
    "created_at", "updated_at", "secrets",
}  # fmt: skip


def made(api: Api, world: World, **body: Any) -> dict[str, Any]:
    response = api.post(f"{world.org_path}/oauth-apps", json={"name": new_name(), "callback_urls": [CALLBACK], **body})
    assert response.status_code == 201, response.text
    created: dict[str, Any] = response.json()
    return created


def path(world: World, app: dict[str, Any]) -> str:
    return f"{world.org_path}/oauth-apps/{app['client_id']}"


def accepts_secret(server: Server, client_id: str, secret: str) -> bool:
    """Return whether a new process accepts the secret."""

    async def work(services: Services) -> bool:
        return await authenticate_client(services.database, client_id, secret) is not None

    good: bool = server.run(work)
    return good


def test_the_secret_is_shown_once_and_stored_as_a_digest(server: Server, world: World, api: Api) -> None:
    name = new_name("Zeit-Messer é")
    response = api.post(
        f"{world.org_path}/oauth-apps",
        json={"name": name, "callback_urls": [CALLBACK, CALLBACK, "http://[::1]:8080/"], "description": "Counts."},
    )
    app = response.json()
    assert response.status_code == 201
    assert set(app) == KEYS | {"client_secret"}
    assert response.headers["location"] == app["url"] == f"{server.url}{path(world, app)}"
    assert re.fullmatch(r"Ov23li[A-Za-z0-9]{14}", app["client_id"])
    assert re.fullmatch("[0-9a-f]{40}", app["client_secret"])
    assert app["slug"] == name.lower().replace(" ", "-").replace("é", "e")
    assert app["callback_urls"] == [CALLBACK, "http://[::1]:8080/"]
    assert app["owner"]["login"] == world.organization
    assert re.fullmatch(SECONDS, app["created_at"])
    (secret,) = app["secrets"]
    assert set(secret) == {"id", "last_eight", "created_at", "last_used_at"}
    assert secret["last_eight"] == app["client_secret"][-8:]

    shown = api.read(path(world, app))
    assert shown == {key: value for key, value in app.items() if key != "client_secret"}
    listed = api.read(f"{world.org_path}/oauth-apps")
    assert [each["client_id"] for each in listed] == [app["client_id"]]
    assert set(listed[0]) == KEYS - {"secrets"}

    async def digests(services: Services) -> list[bytes]:
        found = await queries.find_client(services.database, app["client_id"])
        assert found is not None
        assert app["client_secret"] not in repr(found)
        rows = await services.database.fetch_all(app_secrets.select().where(app_secrets.c.app_id == found.id))
        assert app["client_secret"] not in repr([dict(row) for row in rows])
        return [bytes(row["digest"]) for row in rows]

    assert server.run(digests) == [hashlib.sha256(app["client_secret"].encode()).digest()]
    assert not accepts_secret(server, app["client_id"], "0" * 40)
    assert [each["last_used_at"] for each in api.read(path(world, app))["secrets"]] == [None]
    assert accepts_secret(server, app["client_id"], app["client_secret"])
    (used,) = [each["last_used_at"] for each in api.read(path(world, app))["secrets"]]
    assert re.fullmatch(SECONDS, used)


def test_all_errors_are_reported_together(world: World, api: Api) -> None:
    app = made(api, world)
    response = api.post(
        f"{world.org_path}/oauth-apps",
        json={"name": app["name"].upper(), "callback_urls": ["ftp://a", "https://b/#c"], "homepage_url": "x"},
    )
    begins = "begin with https:// (http:// only for 127.0.0.1, [::1], and localhost)"
    invalid(
        response,
        fault(
            "OauthApp", "homepage_url", "custom", "homepage_url must be an http or https URL of at most 2000 characters"
        ),
        fault("OauthApp", "callback_urls", "custom", f"callback_urls: ftp://a must {begins}"),
        fault("OauthApp", "callback_urls", "custom", "callback_urls: https://b/#c must not contain a fragment"),
        fault("OauthApp", "name", "already_exists", f"an app named {app['slug']} already exists"),
    )
    needed = "callback_urls must have at least one URL, unless the app uses the device flow"
    invalid(
        api.post(f"{world.org_path}/oauth-apps", json={"name": "日本"}),
        fault(
            "OauthApp",
            "name",
            "custom",
            "name must contain an ASCII letter or digit, and can have at most 34 characters when written in ASCII",
        ),
        fault("OauthApp", "callback_urls", "missing_field", needed),
    )
    wrong = api.patch(path(world, app), json={"device_flow": "yes", "callback_urls": "x", "public": True})
    assert {(each["resource"], each["field"], each["code"]) for each in wrong.json()["errors"]} == {
        ("OauthApp", "device_flow", "invalid"),
        ("OauthApp", "callback_urls", "invalid"),
        ("OauthApp", "public", "unknown"),
    }
    assert made(api, world, callback_urls=[], device_flow=True)["device_flow"] is True
    assert api.read(path(world, app))["name"] == app["name"]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com", "https://example.com:8443/a/b?c=d&e=%20", "http://127.0.0.1:3000/cb", "http://[::1]/",
        "http://localhost/cb", "https://" + "a" * 1992,
    ],
)  # fmt: skip
def test_a_valid_callback_url_is_accepted(url: str) -> None:
    assert schemas.callback_complaint(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com/cb", "//example.com/cb", "/cb", "http://example.com/cb", "http://127.0.0.1.example.com/",
        "http://localhost.example.com/", "http://127.0.0.2/", "javascript:alert(1)", "data:text/html,x", "ftp://example.com/",
        "https://user@example.com/", "https://user:word@example.com/", "https://@example.com/", "https://example.com/#",
        "https://example.com/#a", "https://*.example.com/", "https://example.com/*", "https://exa mple.com/",
        "https://example.com/\t", "https://example.com/\n", "\thttps://example.com/", "https://example.com/\0",
        "https://example.com\\@evil.example/", "https://bücher.example/", "https://example.com/%zz", "https:///cb",
        "https://:443/", "https://example.com:0/", "https://example.com:99999/", "https://[::1", "https:example.com",
        "https://" + "a" * 1993,
    ],
)  # fmt: skip
def test_an_invalid_callback_url_is_refused(url: str) -> None:
    assert schemas.callback_complaint(url)


def test_an_app_has_at_most_ten_callback_urls(world: World, api: Api) -> None:
    ten = [f"{CALLBACK}/{number}" for number in range(10)]
    app = made(api, world, callback_urls=ten)
    assert app["callback_urls"] == ten
    response = api.patch(path(world, app), json={"callback_urls": [*ten, CALLBACK]})
    assert [(each["field"], each["code"]) for each in response.json()["errors"]] == [("callback_urls", "invalid")]


def test_omitted_fields_are_unchanged(world: World, api: Api) -> None:
    app, other = made(api, world, description="One", homepage_url="https://example.com"), made(api, world)
    name = new_name("New")
    changed = api.patch(path(world, app), json={"name": name, "description": None, "device_flow": True}).json()
    assert changed["slug"] == name.lower().replace(" ", "-")
    kept = {key: value for key, value in app.items() if key not in ("client_secret", "updated_at")}
    wanted = {**kept, "name": name, "slug": changed["slug"], "description": None, "device_flow": True}
    assert {key: value for key, value in changed.items() if key != "updated_at"} == wanted
    taken = fault("OauthApp", "name", "already_exists", f"an app named {other['slug']} already exists")
    invalid(api.patch(path(world, app), json={"name": other["name"]}), taken)
    assert api.read(path(world, app)) == changed


def test_a_secret_can_be_rotated_without_downtime(server: Server, world: World, api: Api) -> None:
    app = made(api, world)
    secrets, client_id = f"{path(world, app)}/secrets", app["client_id"]
    second = api.post(secrets)
    assert second.status_code == 201
    known = {name: value for name, value in second.json().items() if name != "client_secret"}
    assert api.read(second.headers["location"]) == known
    assert second.json()["last_eight"] == second.json()["client_secret"][-8:]
    assert accepts_secret(server, client_id, app["client_secret"])
    assert accepts_secret(server, client_id, second.json()["client_secret"])
    message = "an app can have at most 2 secrets; delete an unused one first"
    invalid(api.post(secrets), fault("OauthApp", "secrets", "custom", message))

    assert api.delete(f"{secrets}/{app['secrets'][0]['id']}").status_code == 204
    assert not accepts_secret(server, client_id, app["client_secret"])
    assert accepts_secret(server, client_id, second.json()["client_secret"])
    assert [each["id"] for each in api.read(path(world, app))["secrets"]] == [second.json()["id"]]
    refused(api.delete(f"{secrets}/{app['secrets'][0]['id']}"), 404, "Not Found")
    assert api.delete(f"{secrets}/{second.json()['id']}").status_code == 204
    assert not accepts_secret(server, client_id, second.json()["client_secret"])

    other = made(api, world)
    refused(api.delete(f"{secrets}/{other['secrets'][0]['id']}"), 404, "Not Found")
    assert accepts_secret(server, other["client_id"], other["client_secret"])


def test_revoking_the_tokens_also_revokes_grants_and_codes(server: Server, world: World, api: Api) -> None:
    app, other = made(api, world), made(api, world)
    tokens = [user_token(server, each["client_id"], world.owner, OAUTH, scopes=["repo"]) for each in (app, other)]
    with server.client(tokens[0]) as revoked, server.client(tokens[1]) as kept:
        assert revoked.get("/user").status_code == kept.get("/user").status_code == 200
        server.run(lambda services: _insert_consent(services, app["client_id"], world.owner))
        assert api.delete(f"{path(world, app)}/tokens").status_code == 204
        until(lambda: revoked.get("/user").status_code == 401)
        assert kept.get("/user").status_code == 200
    assert server.run(lambda services: _left(services, app["id"])) == [0, 0, 0, 0]
    assert accepts_secret(server, app["client_id"], app["client_secret"])


def test_deleting_an_app_deletes_its_tokens_and_webhooks(server: Server, world: World, api: Api) -> None:
    app = made(api, world)
    token = user_token(server, app["client_id"], world.owner, OAUTH, scopes=["repo"])
    place = Place("repository", world)
    own = api.hook(place)
    with server.client(token) as client:
        of_app = Api(client).hook(place)
        assert {each["id"] for each in client.get(place.hooks).json()} == {own["id"], of_app["id"]}
        server.run(lambda services: _insert_consent(services, app["client_id"], world.owner))
        assert api.delete(path(world, app)).status_code == 204
        until(lambda: client.get("/user").status_code == 401)
    refused(api.get(path(world, app)), 404, "Not Found")
    assert not accepts_secret(server, app["client_id"], app["client_secret"])
    assert server.run(lambda services: _left(services, app["id"])) == [0, 0, 0, 0]
    assert server.run(_hook_ids) >= {own["id"]}
    assert of_app["id"] not in server.run(_hook_ids)
    again = made(api, world, name=app["name"])
    assert again["slug"] == app["slug"]
    assert again["client_id"] != app["client_id"]


def test_the_audit_log_records_each_write_without_secrets(server: Server, world: World, api: Api) -> None:
    app = made(api, world)
    secret = api.post(f"{path(world, app)}/secrets").json()
    api.patch(path(world, app), json={"callback_urls": ["https://example.com/other"]})
    api.delete(f"{path(world, app)}/secrets/{secret['id']}")
    api.delete(f"{path(world, app)}/tokens")
    api.delete(path(world, app))

    async def entries(services: Services) -> list[tuple[Any, ...]]:
        rows = await services.database.fetch_all(
            audit_log.select().where(audit_log.c.target == app["slug"]).order_by(audit_log.c.id)
        )
        return [(row["action"], row["actor_id"], row["detail"]) for row in rows]

    found = server.run(entries)
    done = ["create", "create_secret", "update", "delete_secret", "revoke_tokens", "delete"]
    assert [action for action, _, _ in found] == [f"oauth_app.{each}" for each in done]
    assert all(actor for _, actor, _ in found)
    assert "https://example.com/other" in found[2][2]
    for hidden in (app["client_secret"], secret["client_secret"]):
        assert hidden not in str(found)
        assert hidden not in server.log()


def test_oauth_apps_are_paginated(world: World, api: Api) -> None:
    apps = [made(api, world)["client_id"] for _ in range(3)]
    first: httpx.Response = api.get(f"{world.org_path}/oauth-apps", params={"per_page": 2})
    assert [each["client_id"] for each in first.json()] == apps[:2]
    assert 'rel="next"' in first.headers["link"]
    second = api.get(f"{world.org_path}/oauth-apps", params={"per_page": 2, "page": 2})
    assert [each["client_id"] for each in second.json()] == apps[2:]


async def _insert_consent(services: Services, client_id: str, login: str) -> None:
    """Insert the rows that a user's consent and unfinished flows create."""
    app, user = await queries.find_client(services.database, client_id), await find_account(services.database, login)
    assert app is not None
    assert user is not None
    known: dict[str, Any] = {"app_id": app.id, "user_id": user.id, "digest": client_id.encode()}
    async with services.database.transaction() as tx:
        for table in (grants, authorization_codes, device_codes, refresh_tokens):
            columns = [each for each in table.columns if not each.nullable and each.name != "id"]
            values = {each.name: known.get(each.name, each.type.python_type(1)) for each in columns}
            await tx.execute(insert_into(table, *values), values)


async def _left(services: Services, app_id: int) -> list[int]:
    tables = (grants, authorization_codes, device_codes, refresh_tokens)
    return [len(await services.database.fetch_all(each.select().where(each.c.app_id == app_id))) for each in tables]


async def _hook_ids(services: Services) -> set[int]:
    return {row["id"] for row in await services.database.fetch_all(hooks.select())}
