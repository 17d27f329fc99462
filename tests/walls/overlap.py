"""The overlap of two tenants: people, an app, and a third organization in which nobody acts meanwhile.

`both` is a member of each tenant and of the third organization, where their timer runs. Each tenant has one of the
wanderers as a member, and each invites both wanderers as clients. The app belongs to the third organization. People of
each tenant grant and withdraw consent to it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx

from tests.harness.clients import become_client
from tests.harness.server import Server
from tests.harness.world import World, add_client, add_user, make_world
from tests.identity.asking import basic
from tests.identity.cast import SCOPES
from tests.walls.said import Said, said
from tests.work.scene import Scene
from tests.work.studio import Caller
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.apps.queries import find_client
from workhook.identity.oauth.grants import allow
from workhook.identity.tokens.issue import CLASSIC, OAUTH, issue

WANDERERS = ("wanderer-0", "wanderer-1")
Step = Callable[[random.Random], list[Said]]


@dataclass(frozen=True)
class Third:
    """An organization with an app, and the token of `both`."""

    world: World
    client_id: str
    secret: str = field(repr=False)
    both_token: str = field(repr=False)


async def _make_third(services: Services) -> Third:
    world = await make_world(services)
    async with services.database.transaction() as tx:
        place = await queries.find_account(tx, world.organization)
        assert place is not None
        both = await actions.create_account(tx, "user", "both", name=None, email="both@example.com")
        await actions.set_member(tx, place, both, "member")
        for login in WANDERERS:
            await actions.create_account(tx, "user", login, name=None, email=f"{login}@example.com")
        app, secret, _ = await create_app(
            tx, None, place, OauthAppCreate(name="Shared", callback_urls=["https://a.example/"])
        )
        token = await issue(tx, CLASSIC, both.id, scopes=SCOPES)
    return Third(world, app.client_id, secret, token.token)


class Shared:
    """State created before the tenants. Once they exist, `both` starts a timer in the third organization."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.third: Third = server.run(_make_third)
        self.both = Caller(server, self.third.both_token)

    def begin(self) -> None:
        with_owner = Caller(self.server, self.third.world.token)
        task = Scene(with_owner, self.third.world.project_id, self.third.world.organization).task()
        self.both.post(f"/projects/{self.third.world.project_id}/timesheets", json={"task_id": task})
        with_owner.http.close()

    def accounts(self) -> frozenset[int]:
        with self.server.client(self.third.world.token) as client:
            return frozenset(client.get(path).json()["id"] for path in (self.third.world.org_path, "/user"))

    def close(self) -> None:
        self.both.http.close()


async def _consent(services: Services, client_id: str, login: str) -> str:
    async with services.database.transaction() as tx:
        app, user = await find_client(tx, client_id), await queries.find_account(tx, login)
        assert app is not None
        assert user is not None
        await allow(tx, app, user.id, frozenset(SCOPES))
        return (await issue(tx, OAUTH, user.id, scopes=SCOPES, app_id=app.id)).token


async def _put_in(services: Services, organization: str, logins: tuple[str, ...]) -> None:
    async with services.database.transaction() as tx:
        place = await queries.find_account(tx, organization)
        assert place is not None
        for login in logins:
            user = await queries.find_account(tx, login)
            assert user is not None
            await actions.set_member(tx, place, user, "member")


class Overlap:
    """One tenant's share of the overlap. Two random numbers decide each step: which step, and on what."""

    def __init__(self, shared: Shared, world: World, owner: Caller, client: Caller, place: int) -> None:
        self.server, self.third, self.world = shared.server, shared.third, world
        self.owner, self.client = owner, client
        run = self.server.run
        self.mate = Caller(self.server, run(partial(add_user, world=world, member="member")))
        self.other_client = Caller(self.server, run(partial(add_client, world=world)))
        self.logins = [each.login for each in (self.mate, self.other_client)]
        run(partial(_put_in, organization=world.organization, logins=("both", WANDERERS[place])))
        self.tokens = {login: self._allow(login) for login in (world.owner, self.logins[0])}
        project = f"/projects/{world.project_id}"
        scene = Scene(owner, world.project_id, world.organization)
        self.columns = [scene.column(), scene.column(stage="done")]
        self.task = scene.task(self.columns[0])
        self.timer = shared.both.post(f"{project}/timesheets", json={"task_id": self.task})["timesheet"]["id"]
        shared.both.post(f"/timesheets/{self.timer}/pause")
        self.clients: list[str] = ["cli_none"]
        self.made = 0
        self._name = ""
        self.steps: list[Step] = [
            self._resume, self._invite, self._invite, self._uninvite, self._hook, self._withdraw, self._consent,
            self._begin_and_end, self._begin_and_end, self._rise_and_fall, self._rise_and_fall, self._start,
            self._start, self._role, self._accept, self._remove, self._assign, self._assign, self._move,
        ]  # fmt: skip

    def step(self, drawn: random.Random) -> list[Said]:
        chosen = drawn.choice(self.steps)
        self._name = chosen.__name__
        return chosen(drawn)

    def close(self) -> None:
        self.mate.http.close()
        self.other_client.http.close()

    def _allow(self, login: str) -> str:
        token: str = self.server.run(partial(_consent, client_id=self.third.client_id, login=login))
        return token

    def _ask(self, by: Caller, method: str, path: str, json: Any = None) -> Said:
        answer = by.http.request(method, path, json=json)
        return self._said(f"{method} {path} {json}", answer, by)

    def _said(self, title: str, answer: httpx.Response, by: Caller | None = None) -> Said:
        return said(self._name, title, answer, by_client=by is self.client)

    # --- the timer of a user that runs elsewhere ---

    def _resume(self, drawn: random.Random) -> list[Said]:
        return [self._ask(self.owner, "POST", f"/api/v1/timesheets/{self.timer}/resume")]

    # --- people who may belong to the other tenant ---

    def _invite(self, drawn: random.Random) -> list[Said]:
        path, email = f"/api/v1/projects/{self.world.project_id}/clients", f"{drawn.choice(WANDERERS)}@example.com"
        answer = self.owner.http.post(path, json={"email": email})
        if answer.is_success and answer.json()["client"] is None:
            made = self.owner.server.run(lambda services: become_client(services, self.world.project_id, email))
            self.clients.append(made.id)
        return [self._said(f"POST {path} {email}", answer)]

    def _uninvite(self, drawn: random.Random) -> list[Said]:
        return [self._ask(self.owner, "DELETE", f"/api/v1/clients/{drawn.choice(self.clients)}")]

    # --- the app that acts for people of both tenants ---

    def _hook(self, drawn: random.Random) -> list[Said]:
        return [self._hook_of(drawn, drawn.choice(list(self.tokens)))]

    def _hook_of(self, drawn: random.Random, login: str) -> Said:
        """Create a webhook through the app on behalf of this user."""
        token, place = self.tokens[login], drawn.choice([self.world.repo_path, self.world.org_path])
        self.made += 1
        body = {"name": "web", "events": ["*"], "config": {"url": f"http://127.0.0.1:9/app/{self.made}"}}
        with self.server.client(token) as client:
            answer = client.post(f"{place}/hooks", json=body)
        return self._said(f"POST {place}/hooks, the app", answer)

    def _withdraw(self, drawn: random.Random) -> list[Said]:
        return [self._withdraw_of(drawn.choice(list(self.tokens)))]

    def _withdraw_of(self, login: str) -> Said:
        third = self.third
        header = {"Authorization": basic(third.client_id, third.secret)}
        with self.server.client(None, headers=header) as client:
            path = f"/applications/{third.client_id}/grant"
            answer = client.request("DELETE", path, json={"access_token": self.tokens[login]})
        return self._said(f"DELETE {path}", answer)

    def _consent(self, drawn: random.Random) -> list[Said]:
        self._consent_of(drawn.choice(list(self.tokens)))
        return []

    def _consent_of(self, login: str) -> None:
        self.tokens[login] = self._allow(login)

    def _begin_and_end(self, drawn: random.Random) -> list[Said]:
        """Create a webhook through the app, then withdraw every consent to the app."""
        self._consent_of(self.world.owner)
        return [self._hook_of(drawn, self.world.owner), *(self._withdraw_of(login) for login in self.tokens)]

    def _rise_and_fall(self, drawn: random.Random) -> list[Said]:
        """Promote the colleague to owner, create a webhook with only their consent left, and demote them."""
        mate, path = self.logins[0], f"{self.world.org_path}/memberships/{self.logins[0]}"
        came = self._accept(drawn)
        self._consent_of(mate)
        return [
            *came,
            self._ask(self.owner, "PUT", path, {"role": "admin"}),
            self._hook_of(drawn, mate),
            self._withdraw_of(self.world.owner),
            self._ask(self.owner, "PUT", path, {"role": "member"}),
        ]

    # --- a colleague who joins, leaves and tracks time ---

    def _start(self, drawn: random.Random) -> list[Said]:
        path = f"/api/v1/projects/{self.world.project_id}/timesheets"
        return [self._ask(self.mate, "POST", path, {"task_id": self.task})]

    def _role(self, drawn: random.Random) -> list[Said]:
        path = f"{self.world.org_path}/memberships/{self.logins[0]}"
        return [self._ask(self.owner, "PUT", path, {"role": drawn.choice(["admin", "member"])})]

    def _accept(self, drawn: random.Random) -> list[Said]:
        path = f"/user/memberships/orgs/{self.world.organization}"
        return [self._ask(self.owner, "PUT", f"{self.world.org_path}/memberships/{self.logins[0]}", {"role": "member"}),
                self._ask(self.mate, "PATCH", path, {"state": "active"})]  # fmt: skip

    def _remove(self, drawn: random.Random) -> list[Said]:
        return [self._ask(self.owner, "DELETE", f"{self.world.org_path}/members/{self.logins[0]}")]

    # --- a client beside another client, and beside people who track time ---

    def _assign(self, drawn: random.Random) -> list[Said]:
        """Assign a task to a colleague, or to the other client, whom this client cannot see."""
        login = drawn.choice([*self.logins, self.logins[1]])
        body, path = {"title": "Task", "assignees": [login]}, f"/api/v1/columns/{self.columns[0]}/tasks"
        return [replace(self._ask(self.client, "POST", path, body), foreign=login == self.logins[1])]

    def _move(self, drawn: random.Random) -> list[Said]:
        """Complete one of the client's tasks, on which a timer may be running."""
        made = self.client.post(f"/columns/{self.columns[0]}/tasks", json={"title": "Task"})["task"]["id"]
        path = f"/api/v1/projects/{self.world.project_id}/timesheets"
        return [self._ask(self.mate, "POST", path, {"task_id": made}),
                self._ask(self.client, "PATCH", f"/api/v1/tasks/{made}", {"column_id": self.columns[1]})]  # fmt: skip
