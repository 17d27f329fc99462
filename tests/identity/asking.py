"""Valid requests for every operation, about existing and about missing objects."""

from __future__ import annotations

import base64
import itertools
import re
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.api.wire import NOBODYS_ID, Place, new_url
from tests.identity.kit import Site
from tests.identity.model import HERE, STREAM, Credential
from tests.work.requests_kit import TABLE as WORK
from tests.work.scene import Scene
from workhook.http.calls import Services
from workhook.http.operations import WORK_API, Operation
from workhook.identity import actions, queries

_numbers = itertools.count(1)
NOWHERE = {"org": "no-such", "owner": "no-such", "repo": "no-such", "username": "no-such", "slug": "no-such"}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    more: dict[str, Any] = field(default_factory=dict)


def key_of(operation: Operation) -> str:
    """Return the key of a work API operation in `tests.work.test_matrix.TABLE`."""
    return f"{operation.method} " + re.sub(r"\{\w+\}", "{}", operation.path)


def is_destructive(operation: Operation) -> bool:
    """Return whether the operation can be done only once per object, so that each call needs a new one."""
    return operation.method == "DELETE" or operation.path.endswith(("/restore", "/resume", "/unpause", "/pay", "/void"))


# --- work management -------------------------------------------------------------------------------------------------


def work_request(site: Site, operation: Operation, scene: Scene | None = None) -> Request:
    """Return a request about newly created objects, in the site's project or in another scene."""
    key = key_of(operation)
    if key == STREAM:
        return Request("GET", f"/api/v1/projects/{site.here.project_id}/stream")
    _, made, body = WORK[key]
    scene = scene or site.scene
    ids, given = made(scene), body(scene) if callable(body) else body
    method, pattern = key.split()
    path = "/api/v1" + pattern.format(*(ids if isinstance(ids, tuple) else (ids,)))
    special = {"params", "files"} & set(given)
    return Request(method, path, given if special else {"json": given} if method in ("POST", "PATCH") else {})


def nowhere_in_work(operation: Operation, request: Request) -> Request:
    """Return the same request about a missing object."""
    integers = {"task_comments", "file_comments", "comments"}
    parts = operation.path.split("/")
    filled = [
        ("999999999" if parts[index - 1] in integers else "no-such") if part.startswith("{") else part
        for index, part in enumerate(parts)
    ]
    return Request(request.method, "/api/v1" + "/".join(filled), request.more)


# --- webhooks, accounts, apps ----------------------------------------------------------------------------------------


def webhook_request(site: Site, operation: Operation, by: Credential, *, fresh: bool = False) -> Request:
    """Return a request. If `fresh`, an object that the operation ends is created for it."""
    path = operation.path.format(**_names(site, operation, by, fresh))
    return Request(operation.method, path, _body(site, operation))


def nowhere_in_webhooks(site: Site, operation: Operation, by: Credential) -> Request:
    """Return a request whose path names a missing object first."""
    names = _names(site, operation, by, fresh=False)
    named = re.findall(r"\{(\w+)\}", operation.path)[:1]
    wrong: dict[str, Any] = {first: NOWHERE.get(first, 999_999_999) for first in named}
    return Request(operation.method, operation.path.format(**{**names, **wrong}), _body(site, operation))


def _names(site: Site, operation: Operation, by: Credential, fresh: bool) -> dict[str, Any]:
    here = site.here
    kind = "oauth" if by.kind == "oauth" or "/oauth-hooks/" in operation.path else "classic"
    place = "organization" if operation.path.startswith("/orgs") else "repository"
    names: dict[str, Any] = {
        **site.hooks[place, kind],
        "org": here.organization,
        "owner": here.organization,
        "repo": here.repository,
        "username": here.owner if re.search("/member|/collaborator", operation.path) else here.organization,
        "slug": site.apps[HERE if operation.path.startswith("/apps/") else "spare"].slug,
        "client_id": site.cast.oauth_app.client_id,
        "installation_id": _installation(site, operation),
        "account_id": site.cast.numbers.organization,
        "organization_id": site.cast.numbers.organization,
        "repository_id": site.cast.numbers.repository,
        "secret_id": 0,
        "key_id": 0,
        "token_id": site.cast.spare_tokens[0],
        "invitation_id": 0,
    }
    if fresh and operation.path.endswith(("/hooks/{hook_id}", "/oauth-hooks/{hook_id}")):
        names["hook_id"] = site.owners[kind].hook(Place(place, here))["id"]
    if fresh and "{token_id}" in operation.path:
        names["token_id"] = site.cast.spare_tokens.pop()
    if fresh and by.caller == "owner" and key_of(operation) == "DELETE /orgs/{}":
        names["org"] = site.server.run(partial(_new_organization, owner_login=here.owner))
    return names


async def _new_organization(services: Services, owner_login: str) -> str:
    async with services.database.transaction() as tx:
        owner = await queries.find_account(tx, owner_login)
        assert owner is not None
        made = await actions.create_account(tx, "organization", f"ended-{uuid.uuid4().hex[:8]}", name=None, email=None)
        await actions.set_member(tx, made, owner, "owner")
        return made.login


def _installation(site: Site, operation: Operation) -> int:
    if operation.path.startswith("/user/") and operation.method == "GET":
        return site.apps[HERE].installation_id
    return site.cast.thrown_away if operation.path.startswith("/app/") else site.apps["spare"].installation_id


def _body(site: Site, operation: Operation) -> dict[str, Any]:
    number = next(_numbers)
    named: dict[str, dict[str, Any]] = {
        "/hooks": {"name": "web", "config": {"url": new_url()}, "active": False},
        "/deliveries/redeliver": {"ids": [NOBODYS_ID]},
        "/events": {"event": "fork", "payload": {}},
        "/dispatches": {"event_type": "x"},
        "/user/memberships/orgs/{org}": {"state": "active"},
        "/admin/users": {"login": f"new-{number}", "email": "new@example.com"},
        "/admin/organizations": {"login": f"place-{number}", "admin": site.here.owner},
        "/graphql": {"query": "{viewer{login}}"},
        "/user/tokens": {"note": "New"},
        "/oauth-apps": {"name": f"Reader {number}", "callback_urls": ["http://127.0.0.1:9/back"]},
        "/apps": {"name": f"Worker {number}", "permissions": {"work": "read"}},
        "/orgs/{org}/installations": {"app": site.apps["idle"].slug},
    }
    if operation.path.startswith("/applications/"):
        return {"json": {"access_token": "who_unknown", "target": site.here.organization}}
    found = (body for ending, body in named.items() if operation.path.endswith(ending))
    return {"json": next(found, {})} if operation.method in ("POST", "PATCH", "PUT") else {}


def basic(client_id: str, secret: str) -> str:
    """Return an Authorization header with basic credentials (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()


def is_work(operation: Operation) -> bool:
    return operation.area is WORK_API
