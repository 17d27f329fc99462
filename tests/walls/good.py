"""Requests that succeed, for operations whose usual request in the permission tests is refused or changes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.api.wire import new_url
from tests.identity.asking import Request, basic
from tests.identity.cast import SCOPES
from tests.identity.model import HERE, OTHER_REPOSITORY, Credential
from tests.walls.spares import Asked
from tests.walls.world import Walls
from workhook.http.calls import Services
from workhook.identity import administrators
from workhook.identity.apps.queries import find_client
from workhook.identity.oauth.grants import allow
from workhook.identity.queries import find_account
from workhook.identity.tokens.issue import CLASSIC, OAUTH, issue

Good = Callable[[Walls], Asked]


def _owner(walls: Walls, method: str, path: str, **more: Any) -> Asked:
    return Asked(Request(method, path, more), walls.caller("owner"))


def _robot(walls: Walls, method: str, path: str, **more: Any) -> Asked:
    return Asked(Request(method, path, more), walls.caller("app"))


def _hook(walls: Walls, place: str, ending: str, body: dict[str, Any]) -> Asked:
    site = walls.site
    at = site.here.repo_path if place == "repository" else site.here.org_path
    return _owner(walls, "PATCH", f"{at}/hooks/{site.hooks[place, 'classic']['hook_id']}{ending}", json=body)


def _edited(place: str) -> Good:
    return lambda walls: _hook(walls, place, "", {"events": ["push"], "active": False})


def _configured(place: str) -> Good:
    return lambda walls: _hook(walls, place, "/config", {"url": new_url()})


def _edit_app(kind: str) -> Good:
    return lambda walls: _owner(walls, "PATCH", f"{_app(walls, kind)}", json={"description": "Edited"})


def _app(walls: Walls, kind: str) -> str:
    """Return the path of an app of A."""
    name = walls.site.cast.oauth_app.client_id if kind == "oauth-apps" else walls.site.apps["spare"].slug
    return f"{walls.site.here.org_path}/{kind}/{name}"


def _delete_of_app(kind: str, part: str) -> Good:
    """Delete a secret or key created for this purpose."""

    def good(walls: Walls) -> Asked:
        at = f"{_app(walls, kind)}/{part}"
        walls.site.owners["classic"].post(at)  # refused if the app already has two
        names = {walls.site.cast.oauth_app.client_id} if kind == "oauth-apps" else {walls.site.apps["spare"].slug}
        dump = walls.reader.dump()
        app = next(row["id"] for row in dump["apps"].values() if names & {row["client_id"], row["slug"]})
        newest = max(row["id"] for row in dump[f"app_{part}"].values() if row["app_id"] == app)
        return _owner(walls, "DELETE", f"{at}/{newest}")

    return good


def _consented(walls: Walls) -> str:
    """Return an OAuth token that acts for the client of A, who has given consent."""

    async def make(services: Services) -> str:
        async with services.database.transaction() as tx:
            app = await find_client(tx, walls.site.cast.oauth_app.client_id)
            assert app is not None
            user = walls.site.cast.people["client"].id
            await allow(tx, app, user, frozenset(SCOPES))
            return (await issue(tx, OAUTH, user, scopes=SCOPES, app_id=app.id)).token

    token: str = walls.server.run(make)
    return token


def _of_client(method: str, ending: str, **more: Any) -> Good:
    def good(walls: Walls) -> Asked:
        app = walls.site.cast.oauth_app
        by = Credential("the app's secret", "client", header=basic(*app))
        body = {"access_token": _consented(walls), **more}
        return Asked(Request(method, f"/applications/{app.client_id}/{ending}", {"json": body}), by)

    return good


def _scoped(walls: Walls) -> Asked:
    """Request a scoped token from the app installed in both organizations."""
    app, person = walls.site.apps[HERE], walls.site.tokens.by["owner", "app_user", HERE]
    body = {"access_token": person, "target": walls.site.here.organization, "permissions": {"work": "read"}}
    by = Credential("the app's secret", "client", header=basic(app.client_id, app.secret))
    return Asked(Request("POST", f"/applications/{app.client_id}/token/scoped", {"json": body}), by)


def _installation(method: str, ending: str = "") -> Good:
    return lambda walls: _robot(walls, method, f"/app/installations/{walls.site.cast.thrown_away}{ending}")


def _new_token(walls: Walls) -> Asked:
    installation = walls.site.apps[HERE].installation_id
    return _robot(walls, "POST", f"/app/installations/{installation}/access_tokens", json={})


def _token_ends(walls: Walls) -> Asked:
    header = f"Bearer {walls.site.tokens.by['app', 'installation', 'thrown away']}"
    return Asked(Request("DELETE", "/installation/token"), Credential("an installation", "installation", header=header))


def _project(walls: Walls) -> Asked:
    """Create a project in A. The owner belongs to two organizations and must name one."""
    return _owner(
        walls, "POST", "/api/v1/projects", json={"title": "New", "organization": walls.site.here.organization}
    )


def _repository(walls: Walls, method: str) -> Asked:
    """Add or remove a repository of the installation that covers another repository of A."""
    site = walls.site
    at = f"/user/installations/{site.apps[OTHER_REPOSITORY].installation_id}/repositories"
    return _owner(walls, method, f"{at}/{site.cast.numbers.repository}")


def _installed(walls: Walls) -> Asked:
    at = f"{walls.site.here.org_path}/installations/{walls.site.apps['spare'].installation_id}"
    return _owner(
        walls, "PATCH", at, json={"repository_selection": "selected", "repositories": [walls.site.here.repository]}
    )


def _redeliver(walls: Walls, place: str) -> Asked:
    site = walls.site
    hook = site.hooks[place, "classic"]
    at = site.here.repo_path if place == "repository" else site.here.org_path
    return _owner(
        walls, "POST", f"{at}/hooks/{hook['hook_id']}/deliveries/redeliver", json={"ids": [hook["delivery_id"]]}
    )


class _Administrator:
    """An owner of A who is also a server administrator."""

    def __init__(self, walls: Walls) -> None:
        async def appoint(services: Services) -> str:
            async with services.database.transaction() as tx:
                owner = await find_account(tx, walls.site.here.owner)
                assert owner is not None
                await administrators.appoint(tx, owner)
                return (await issue(tx, CLASSIC, owner.id, scopes=("site_admin",))).token

        token: str = walls.server.run(appoint)
        self.walls, self.token = walls, token
        self.by = Credential("an administrator", "classic", "owner", f"Bearer {token}", frozenset({"site_admin"}))

    def add(self) -> str:
        """Add a user and return their login."""
        login = f"new-{uuid.uuid4().hex[:8]}"
        self.post("/admin/users", {"login": login, "email": f"{login}@example.com"})
        return login

    def post(self, path: str, body: dict[str, str] | None = None) -> None:
        with self.walls.server.client(self.token) as http:
            made = http.post(path, json=body)
        assert made.is_success, made.text


def _administered(method: str, ending: str, *before: str) -> Good:
    """Return a request about a user added for this purpose."""

    def good(walls: Walls) -> Asked:
        administrator = _Administrator(walls)
        login = administrator.add()
        for each in before:
            administrator.post(f"/admin/users/{login}/{each}")
        return Asked(Request(method, f"/admin/users/{login}{ending}"), administrator.by)

    return good


def _add_user(walls: Walls) -> Asked:
    login = f"new-{uuid.uuid4().hex[:8]}"
    body = {"login": login, "email": f"{login}@example.com"}
    return Asked(Request("POST", "/admin/users", {"json": body}), _Administrator(walls).by)


def _add_organization(walls: Walls) -> Asked:
    administrator = _Administrator(walls)
    body = {"login": f"place-{uuid.uuid4().hex[:8]}", "admin": administrator.add()}
    return Asked(Request("POST", "/admin/organizations", {"json": body}), administrator.by)


def _delete_organization(walls: Walls) -> Asked:
    administrator = _Administrator(walls)
    login = f"place-{uuid.uuid4().hex[:8]}"
    administrator.post("/admin/organizations", {"login": login, "admin": administrator.add()})
    return Asked(Request("DELETE", f"/admin/organizations/{login}"), administrator.by)


GOOD: dict[str, Good] = {
    "POST /admin/users": _add_user,
    "POST /admin/organizations": _add_organization,
    "POST /admin/users/{}/disable": _administered("POST", "/disable"),
    "POST /admin/users/{}/enable": _administered("POST", "/enable", "disable"),
    "DELETE /admin/users/{}": _administered("DELETE", ""),
    "DELETE /admin/organizations/{}": _delete_organization,
    "POST /projects": _project,
    "PATCH /repos/{}/{}/hooks/{}": _edited("repository"),
    "PATCH /orgs/{}/hooks/{}": _edited("organization"),
    "PATCH /repos/{}/{}/hooks/{}/config": _configured("repository"),
    "PATCH /orgs/{}/hooks/{}/config": _configured("organization"),
    "POST /repos/{}/{}/hooks/{}/deliveries/redeliver": partial(_redeliver, place="repository"),
    "POST /orgs/{}/hooks/{}/deliveries/redeliver": partial(_redeliver, place="organization"),
    "PATCH /orgs/{}/oauth-apps/{}": _edit_app("oauth-apps"),
    "PATCH /orgs/{}/apps/{}": _edit_app("apps"),
    "DELETE /orgs/{}/oauth-apps/{}/secrets/{}": _delete_of_app("oauth-apps", "secrets"),
    "DELETE /orgs/{}/apps/{}/secrets/{}": _delete_of_app("apps", "secrets"),
    "DELETE /orgs/{}/apps/{}/keys/{}": _delete_of_app("apps", "keys"),
    "POST /applications/{}/token": _of_client("POST", "token"),
    "PATCH /applications/{}/token": _of_client("PATCH", "token"),
    "DELETE /applications/{}/token": _of_client("DELETE", "token"),
    "DELETE /applications/{}/grant": _of_client("DELETE", "grant"),
    "POST /applications/{}/token/scoped": _scoped,
    "DELETE /app/installations/{}": _installation("DELETE"),
    "PUT /app/installations/{}/suspended": _installation("PUT", "/suspended"),
    "DELETE /app/installations/{}/suspended": _installation("DELETE", "/suspended"),
    "POST /app/installations/{}/access_tokens": _new_token,
    "DELETE /installation/token": _token_ends,
    "PATCH /orgs/{}/installations/{}": _installed,
    "PUT /user/installations/{}/repositories/{}": partial(_repository, method="PUT"),
    "DELETE /user/installations/{}/repositories/{}": partial(_repository, method="DELETE"),
}
