"""An app has a token of a user narrowed: to one organization, some repositories, some permissions; and never more."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import httpx
import pytest

from tests.api.app_kit import fault
from tests.api.wire import refused
from tests.harness.apps import Registered, install, make_app, new_repository
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import add_user, make_world
from workhook.core.errors import NotFound
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import AppCreate
from workhook.identity.apps.installer import install as app_install
from workhook.identity.apps.installer import suspend, uninstall
from workhook.identity.apps.queries import find_app, find_installation
from workhook.identity.oauth.applications import ScopedTokenBody, find_issued, narrow
from workhook.identity.oauth.grants import allow, issue_to
from workhook.identity.tables import audit_log
from workhook.identity.tokens.issue import revoke
from workhook.identity.tokens.lookup import find_actor

NOT_ACCESSIBLE = "Resource not accessible by integration"


class Ground:
    """A world with the repositories website, shop and hidden (private), a public app on it, and its owner's token."""

    def __init__(self, server: Server, **more: Any) -> None:
        self.server, self.world = server, server.world()
        self.numbers = {"website": self.get(self.world.token, self.world.repo_path).json()["id"]}
        for name in ("shop", "hidden"):
            self.numbers[name], project_id = new_repository(server, self.world, name)
            if name == "hidden":
                path = f"/api/v1/projects/{project_id}"
                assert self.call("PATCH", path, self.world.token, json={"private": True}).status_code == 200
        self.app = make_app(server, self.world, public=True, **more)
        self.pair = self.consent(self.world.owner)
        self.token = str(self.pair["access_token"])

    def call(self, method: str, path: str, token: str, **more: Any) -> httpx.Response:
        with self.server.client(token) as client:
            return client.request(method, path, **more)

    def get(self, token: str, path: str) -> httpx.Response:
        return self.call("GET", path, token)

    def consent(self, login: str) -> dict[str, Any]:
        """What the app gets of a user who has let it."""

        async def make(services: Services) -> dict[str, Any]:
            async with services.database.transaction() as tx:
                user, app = await queries.find_account(tx, login), await find_app(tx, self.app.id)
                assert user is not None
                assert app is not None
                await allow(tx, app, user.id, frozenset())
                made = await issue_to(tx, app, user.id, frozenset(), family=f"{app.id}-{login}", public=False)
                return {"access_token": made.access_token, "refresh_token": made.refresh_token}

        pair: dict[str, Any] = self.server.run(make)
        return pair

    def ask(self, method: str, what: str, **body: Any) -> httpx.Response:
        return self.ask_as(self.app, method, what, **body)

    def ask_as(self, app: Registered, method: str, what: str, **body: Any) -> httpx.Response:
        with self.server.client(None) as client:
            path = f"/applications/{app.client_id}/{what}"
            return client.request(method, path, auth=(app.client_id, app.secret), json=body)

    def narrow(self, token: str | None = None, **wanted: Any) -> httpx.Response:
        target = {} if {"target", "target_id"} & set(wanted) else {"target": self.world.organization}
        return self.ask("POST", "token/scoped", access_token=token or self.token, **target, **wanted)

    def narrowed(self, token: str | None = None, **wanted: Any) -> str:
        answer = self.narrow(token, **wanted)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["token"])

    def repositories(self, token: str) -> list[str]:
        answer = self.get(token, "/user/repos")
        assert answer.status_code == 200, answer.text
        return [each["name"] for each in answer.json()]

    def is_good(self, token: str) -> bool:
        answer = self.get(token, "/user")
        assert answer.status_code in (200, 401), answer.text
        return answer.status_code == 200


@pytest.fixture
def ground(server: Server) -> Ground:
    return Ground(server)


def test_what_is_answered(ground: Ground) -> None:
    answer = ground.narrow(repositories=["Shop"], permissions={"work": "read"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    parent = ground.ask("POST", "token", access_token=ground.token).json()
    assert "installation" not in parent
    assert body["token"].startswith("whu_")
    assert body["token"] not in (ground.token, "")
    assert {name: body[name] for name in ("scopes", "app", "user", "expires_at")} == {
        "scopes": [],
        "app": parent["app"],
        "user": parent["user"],
        "expires_at": parent["expires_at"],
    }
    place = body["installation"]
    assert place["account"]["login"] == ground.world.organization
    assert (place["permissions"], place["repository_selection"]) == ({"work": "read"}, "selected")
    assert place["repositories_url"].endswith(f"/user/installations/{ground.app.installation_id}/repositories")
    # It is shown in the same way later on.
    assert ground.ask("POST", "token", access_token=body["token"]).json() == body
    whole = ground.narrow(target_id=place["account"]["id"]).json()["installation"]
    assert (whole["permissions"], whole["repository_selection"]) == (
        {"organization_hooks": "write", "repository_hooks": "write", "work": "write"},
        "all",
    )


def test_what_it_reaches(ground: Ground) -> None:
    other = ground.server.world()
    second = install(ground.server, ground.app, other)
    pair = ground.consent(other.owner)  # who is in the other organization alone
    assert ground.repositories(ground.token) == ["website", "shop", "hidden"]
    some = ground.narrowed(repository_ids=[ground.numbers["shop"]])
    every = ground.narrowed(permissions={"work": "write"})
    assert ground.repositories(some) == ["shop"]
    assert ground.repositories(every) == ["website", "shop", "hidden"]
    refused(ground.get(some, ground.world.repo_path), 404, "Not Found")
    refused(ground.get(some, f"/repositories/{ground.numbers['website']}"), 404, "Not Found")
    assert ground.get(some, f"/repositories/{ground.numbers['shop']}").json()["name"] == "shop"
    # Permissions: work alone.
    assert ground.get(some, f"/repos/{ground.world.organization}/shop/hooks").status_code == 200
    refused(ground.get(every, f"{ground.world.repo_path}/hooks"), 403, NOT_ACCESSIBLE)
    reading = ground.narrowed(permissions={"work": "read"})
    assert ground.get(reading, f"/api/v1/projects/{ground.world.project_id}").status_code == 200
    body = {"title": "Home"}
    refused_change = ground.call("PATCH", f"/api/v1/projects/{ground.world.project_id}", reading, json=body)
    assert refused_change.status_code == 403
    # Installations: the one that it was narrowed to, and its repositories.
    one = f"/user/installations/{ground.app.installation_id}/repositories"
    assert [each["name"] for each in ground.get(some, one).json()["repositories"]] == ["shop"]
    assert ground.get(some, one).json()["repository_selection"] == "selected"
    theirs = ground.ask(
        "POST", "token/scoped", access_token=pair["access_token"], target=other.organization
    ).json()["token"]  # fmt: skip
    assert [each["id"] for each in ground.get(theirs, "/user/installations").json()["installations"]] == [second]


def test_a_user_of_two_organizations(ground: Ground) -> None:
    """Narrowed to one of them, the token knows nothing of the other."""
    other = ground.server.world()
    second = install(ground.server, ground.app, other)

    async def join(services: Services) -> None:
        async with services.database.transaction() as tx:
            place, user = [await queries.find_account(tx, each) for each in (other.organization, ground.world.owner)]
            assert place is not None
            assert user is not None
            await actions.set_member(tx, place, user, "owner")

    ground.server.run(join)
    listed = ground.get(ground.token, "/user/installations").json()
    assert [each["id"] for each in listed["installations"]] == [ground.app.installation_id, second]
    here = ground.narrowed()
    shown = ground.get(here, "/user/installations").json()
    assert ([each["id"] for each in shown["installations"]], shown["total_count"]) == ([ground.app.installation_id], 1)
    refused(ground.get(here, f"/user/installations/{second}/repositories"), 404, "Not Found")
    refused(ground.get(here, other.repo_path), 404, "Not Found")
    assert ground.get(ground.token, other.repo_path).status_code == 200
    assert [each["login"] for each in ground.get(here, "/user/orgs").json()] == [ground.world.organization]


def test_no_more_than_the_user_has(ground: Ground) -> None:
    """A member sees nothing private, manages no webhooks, and is told of neither."""
    token = ground.server.run(partial(add_user, world=ground.world, member="member"))
    login = ground.get(token, "/user").json()["login"]
    mine = str(ground.consent(login)["access_token"])
    answer = ground.narrow(mine, repositories=["website", "hidden"])
    message = "There is at least one repository that does not exist or is not accessible to the parent installation."
    said = "hidden is not a repository of this installation"
    refused(answer, 422, message, fault("Installation", "repositories", "invalid", said))
    assert ground.narrow(mine, repository_ids=[ground.numbers["hidden"]]).status_code == 422
    made = ground.narrowed(mine)
    assert ground.repositories(made) == ["website", "shop"]
    refused(ground.get(made, f"{ground.world.repo_path}/hooks"), 403, "Must have admin rights to Repository.")


def test_no_more_than_the_installation_has(server: Server) -> None:
    ground = Ground(server, granted={"work": "read"}, repositories=["website"])
    answer = ground.narrow(permissions={"work": "write", "repository_hooks": "read"}, repositories=["shop"])
    assert answer.status_code == 422
    assert [(each["field"], each["message"]) for each in answer.json()["errors"]] == [
        ("permissions", "repository_hooks: read is not granted"),
        ("permissions", "work: write is not granted"),
        ("repositories", "shop is not a repository of this installation"),
    ]
    answer = ground.narrow()
    assert answer.json()["installation"]["permissions"] == {"work": "read"}
    assert answer.json()["installation"]["repository_selection"] == "selected"
    assert ground.repositories(answer.json()["token"]) == ["website"]


def test_what_the_installation_loses_it_loses(ground: Ground) -> None:
    token = ground.narrowed(repositories=["shop"])

    async def change(services: Services, what: str) -> None:
        async with services.database.transaction() as tx:
            found = await find_installation(tx, ground.app.installation_id)
            assert found is not None
            if what == "suspend":
                await suspend(tx, None, found)
            else:
                await uninstall(tx, None, found)

    ground.server.run(partial(change, what="suspend"))
    until(lambda: ground.repositories(token) == [])
    refused(ground.narrow(), 403, "This installation has been suspended")
    ground.server.run(partial(change, what="uninstall"))
    assert ground.is_good(token)  # it still tells who the user is, as the one that it came of
    assert ground.ask("POST", "token", access_token=token).json()["installation"] is None
    answer = ground.narrow()
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "target")


@pytest.mark.parametrize("how", ["token", "grant", "renewed", "reset", "by its user"])
def test_it_ends_with_the_one_that_it_came_of(ground: Ground, how: str) -> None:
    token = ground.narrowed()
    assert ground.is_good(token)
    if how in ("token", "grant"):
        assert ground.ask("DELETE", how, access_token=ground.token).status_code == 204
    elif how == "reset":
        assert ground.ask("PATCH", "token", access_token=ground.token).status_code == 200
    elif how == "renewed":
        with ground.server.client(None) as client:
            fields = {"client_id": ground.app.client_id, "client_secret": ground.app.secret}
            fields |= {"grant_type": "refresh_token", "refresh_token": ground.pair["refresh_token"]}
            answer = client.post("/login/oauth/access_token", data=fields, headers={"Accept": "application/json"})
            assert ground.is_good(answer.json()["access_token"])
    else:
        listed = ground.get(ground.world.token, "/user/tokens").json()
        first = min(each["id"] for each in listed if each["kind"] == "app_user")
        assert ground.call("DELETE", f"/user/tokens/{first}", ground.world.token).status_code == 204
    assert not ground.is_good(ground.token)
    assert not ground.is_good(token)


@pytest.mark.parametrize("how", ["the app", "its user"])
def test_it_ends_alone(ground: Ground, how: str) -> None:
    token, other = ground.narrowed(), ground.narrowed()
    if how == "the app":
        assert ground.ask("DELETE", "token", access_token=token).status_code == 204
    else:
        [newest, *_] = ground.get(ground.world.token, "/user/tokens?per_page=2").json()
        assert ground.call("DELETE", f"/user/tokens/{newest['id'] - 1}", ground.world.token).status_code == 204
    assert [ground.is_good(each) for each in (token, other, ground.token)] == [False, True, True]


def test_exchanged_it_is_as_narrow_and_ends_as_soon(ground: Ground) -> None:
    before = ground.narrow(repositories=["shop"], permissions={"work": "read"}).json()
    answer = ground.ask("PATCH", "token", access_token=before["token"])
    assert answer.status_code == 200
    after = answer.json()
    assert not ground.is_good(before["token"])
    assert (after["expires_at"], after["installation"]) == (before["expires_at"], before["installation"])
    assert ground.repositories(after["token"]) == ["shop"]
    refused(ground.get(after["token"], f"/repos/{ground.world.organization}/shop/hooks"), 403, NOT_ACCESSIBLE)
    assert ground.ask("DELETE", "token", access_token=ground.token).status_code == 204
    assert not ground.is_good(after["token"])


def test_its_user_sees_what_it_is(ground: Ground) -> None:
    ground.narrowed(repositories=["shop"], permissions={"work": "read"})
    [newest, *_] = ground.get(ground.world.token, "/user/tokens").json()
    told = {name: newest[name] for name in ("kind", "permissions", "organization", "repositories")}
    assert told == {
        "kind": "app_user",
        "permissions": {"work": "read"},
        "organization": ground.world.organization,
        "repositories": [f"{ground.world.organization}/shop"],
    }
    assert newest["app"]["slug"] == ground.app.slug


def test_what_is_refused(ground: Ground) -> None:
    unknown = "whu_" + "0" * 36
    for wrong in (unknown, ground.world.token, ground.token + "x", str(ground.pair["refresh_token"])):
        refused(ground.narrow(wrong), 404, "Not Found")
    rival = make_app(ground.server, ground.world)
    place = ground.world.organization
    theirs = ground.ask_as(rival, "POST", "token/scoped", access_token=ground.token, target=place)
    refused(theirs, 404, "Not Found")
    answer = ground.narrow(ground.narrowed())
    said = "access_token must be a token that has not been scoped before"
    refused(answer, 422, "Validation Failed", fault("OauthAccess", "access_token", "invalid", said))
    other = ground.server.world()
    install(ground.server, ground.app, other)  # the user has no part in it
    number = ground.get(other.token, other.org_path).json()["id"]
    for field, body in (
        ("target", {"target": "no-such"}),
        ("target", {"target": other.organization}),
        ("target", {"target": ground.world.owner}),
        ("target", {"target": ""}),
        ("target", {"target": "a\0b"}),
        ("target", {"target": 7}),
        ("target_id", {"target_id": number}),
        ("target_id", {"target_id": 999_999_999}),
        ("target_id", {"target_id": 0}),
        ("target_id", {"target_id": "1"}),
        ("target_id", {"target": place, "target_id": number}),
        ("repository_ids", {"repositories": ["shop"], "repository_ids": [1]}),
        ("repositories", {"repositories": []}),
        ("repositories", {"repositories": "shop"}),
        ("repositories", {"repositories": ["no\0ne"]}),
        ("permissions", {"permissions": {"work": "admin"}}),
        ("permissions", {"permissions": {"issues": "read"}}),
    ):
        answer = ground.narrow(**body)
        assert (answer.status_code, answer.json()["errors"][0]["field"].partition("[")[0].partition(".")[0]) == (
            422,
            field,
        ), (body, answer.text)
        assert ground.token not in answer.text
    for body in ({"access_token": ground.token}, {"target": place}):
        [missing] = ground.ask("POST", "token/scoped", **body).json()["errors"]
        assert missing["field"] == ("target" if "access_token" in body else "access_token")
    with ground.server.client(None) as client:
        path = f"/applications/{ground.app.client_id}/token/scoped"
        sent = {"access_token": ground.token, "target": place}
        assert client.post(path, json=sent).status_code == 401
        assert client.post(path, json=sent, auth=(ground.app.client_id, rival.secret)).status_code == 401
        assert client.post(path, json=sent, auth=(rival.client_id, rival.secret)).status_code == 404
    assert ground.is_good(ground.token)


def test_nobody_is_told_which_logins_there_are(ground: Ground) -> None:
    """Not by a number that is wrong, either: that is told only where the user has a part."""
    other = ground.server.world()
    said = "is not an organization that the user can access and that has installed the app"
    for login in (other.organization, other.owner, "no-such"):
        [told] = ground.narrow(target=login, target_id=1).json()["errors"]
        assert (told["field"], told["message"]) == ("target", f"{login} {said}")
    [told] = ground.narrow(target=ground.world.organization, target_id=999_999_999).json()["errors"]
    assert (told["field"], told["message"]) == ("target_id", "target_id does not match target")


def test_an_oauth_app_has_none(ground: Ground) -> None:
    with ground.server.client(ground.world.token) as client:
        body = {"name": f"Reader {ground.app.id}", "callback_urls": ["http://127.0.0.1/back"]}
        made = client.post(f"{ground.world.org_path}/oauth-apps", json=body).json()
    with ground.server.client(None) as client:
        answer = client.post(
            f"/applications/{made['client_id']}/token/scoped",
            auth=(made["client_id"], made["client_secret"]),
            json={"access_token": ground.token, "target": ground.world.organization},
        )
    refused(answer, 404, "Not Found")


def test_it_shares_the_request_limit(ground: Ground) -> None:
    async def counted(services: Services, token: str) -> str:
        actor = await find_actor(services.database, token)
        assert actor is not None
        return actor.counted_as

    both = {ground.server.run(partial(counted, token=each)) for each in (ground.token, ground.narrowed())}
    assert len(both) == 1


def test_it_is_in_the_audit_log(ground: Ground) -> None:
    token = ground.narrowed(repositories=["shop"], permissions={"work": "read"})

    async def read(services: Services) -> list[str]:
        rows = await services.database.fetch_all(audit_log.select().where(audit_log.c.action == "oauth_token.scope"))
        return [row["detail"] for row in rows]

    found = [each for each in ground.server.run(read) if ground.app.client_id in each]
    assert len(found) == 1
    assert str(ground.numbers["shop"]) in found[0]
    assert token not in found[0]


async def test_nothing_is_narrowed_behind_the_back_of_a_revocation(services: Services) -> None:
    """The user ends the token while it is narrowed, and what came of that while it is exchanged: who ends it waits, and
    ends the new one too."""
    world = await make_world(services)
    async with services.database.transaction() as tx:
        place, user = [await queries.find_account(tx, login) for login in (world.organization, world.owner)]
        assert place is not None
        assert user is not None
        app, _, _ = await create_app(tx, None, place, AppCreate(name=world.owner, permissions={"work": "read"}))
        await app_install(tx, None, app, place)
        await allow(tx, app, user.id, frozenset())
        first = str((await issue_to(tx, app, user.id, frozenset(), family="f", public=False)).access_token)
        row = await find_issued(tx, app.id, first)
        assert row is not None

    async def take_back() -> int:
        async with services.database.transaction() as tx:
            return await revoke(tx, [row["id"]])

    async with services.database.transaction() as tx:
        _, second = await narrow(tx, app, ScopedTokenBody(access_token=first, target=world.organization))
        taking_back = asyncio.create_task(take_back())
        done, _ = await asyncio.wait({taking_back}, timeout=0.3)
        assert not done
    assert await taking_back == 2
    for each in (first, second):
        assert await find_actor(services.database, each) is None
    async with services.database.transaction() as tx:
        with pytest.raises(NotFound):
            await narrow(tx, app, ScopedTokenBody(access_token=first, target=world.organization))
