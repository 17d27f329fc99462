"""Losing a permission ends everything that it allowed, on every process, and changes nothing else.

Two servers share one database. For each way to lose a permission, a user has it in one organization and is a member of
another. Afterwards, they can do in the first exactly what a user can who never had more than the remaining permission,
and in the second what they could before. Whatever is checked in the database per request ends at once. Cached tokens
and open streams end shortly afterwards, so the tests wait for them.

A disabled user loses everything everywhere and regains it when enabled. A signed link to a file works for everyone who
has it until it expires."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.harness.apps import Registered, make_app
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.walls.possible import Side
from tests.work.listener import Listener
from tests.work.rights_kit import (
    change_by_hand,
    disable,
    enable,
    make_member,
    make_reader,
    remove_client,
    remove_collaborator,
    remove_member,
)
from tests.work.studio import Caller, JsonObject
from workhook.core.clock import now_ms
from workhook.hooks.tables import dispatches, hooks
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.context import Write
from workhook.identity.oauth.grants import allow, revoke_grant
from workhook.identity.policy import SCOPES
from workhook.identity.tables import accounts, tokens
from workhook.identity.tokens.issue import OAUTH, digest_of, issue
from workhook.storage.metadata import bigint_param
from workhook.work.people import membership

BASE = "http://work.example.com"
_expire = sa.update(tokens).where(tokens.c.digest == sa.bindparam("of")).values(expires_at=bigint_param("now"))


@pytest.fixture(scope="module")
def second_server(server: Server) -> Iterator[Server]:
    second = Server(server.data, server.settings).start()
    yield second
    second.close()


@dataclass
class Walls:
    """`here` is where the permission is lost, `there` the other organization."""

    servers: tuple[Server, Server]
    here: Side
    there: Side
    stack: ExitStack

    def caller(self, token: str) -> Caller:
        caller = Caller(self.servers[0], token)
        self.stack.callback(caller.http.close)
        return caller

    def join_there(self, caller: Caller) -> None:
        change_by_hand(
            self.there.studio,
            caller,
            lambda tx, place, _, who: membership.set_member(Write(tx, None, BASE), place, who, "member"),
        )

    def listen(self, side: Side, token: str) -> list[Listener]:
        """Open a stream on each process."""
        path = f"{side.studio.project}/stream"
        return [self.stack.enter_context(Listener(each.url, path, token)) for each in self.servers]


@pytest.fixture
def walls(server: Server, second_server: Server, request: pytest.FixtureRequest) -> Iterator[Walls]:
    with ExitStack() as stack:
        here = Side(server, issued=getattr(request, "param", True))
        found = Walls((server, second_server), here, Side(server), stack)
        stack.callback(found.here.close)
        stack.callback(found.there.close)
        yield found


# --- permissions of people -------------------------------------------------------------------------------------------

Place = dict[str, str]


@dataclass(frozen=True)
class Loss:
    """One way to lose a permission. `place` is what the user has before (arguments of `Studio.add`, or None for a
    client), and `take` removes it. `left` is the place of a user with the remaining permissions, or None for a stranger
    who joins after the loss. `ends` names some of the probes that must end."""

    place: Place | None
    take: Callable[[Walls, Caller], object]
    ends: frozenset[str]
    left: Place | None = None


def _api(method: str, path: str, **body: Any) -> Callable[[Walls, Caller], object]:
    return lambda walls, caller: walls.here.studio.owner.answer(
        method, path.format(walls.here.studio.project), **({"json": body} if body else {})
    )


SEEN = frozenset({"GET /projects/{}", "GET /tasks/{}", "GET /files/{}/content", "GET /projects/{}/tasks"})
LISTED = frozenset(f"listed: {each}" for each in ("project", "search", "task", "file", "comment"))
TEAM = SEEN | LISTED | {
    "GET /projects/{}/activity", "GET /timesheets/{}", "repository: read", "listed: repository", "listed: time",
}  # fmt: skip
WRITTEN = frozenset({"write: task", "write: column", "write: time", "write: title", "repository: publishing"})
ADMIN = frozenset({"repository: webhooks", "repository: new webhook"})
OWNER = frozenset(
    {"organization: webhooks", "organization: new webhook", "organization: publishing", "organization: audit log",
     "organization: installations", "write: service"}
)  # fmt: skip
INSIDE = frozenset({"organization: members", "listed: organization", "listed: service", "GET /services/{}"})

DELETED = "project deleted"
LOSSES = {
    "membership removed": Loss(
        {"member": "member"}, lambda walls, who: remove_member(walls.here.studio, who), TEAM | WRITTEN | INSIDE
    ),
    "ownership removed": Loss(
        {"member": "owner"},
        lambda walls, who: remove_member(walls.here.studio, who),
        TEAM | WRITTEN | ADMIN | OWNER | INSIDE,
    ),
    "membership removed, with a role in the project": Loss(
        {"member": "member", "role": "admin"},
        lambda walls, who: remove_member(walls.here.studio, who),
        TEAM | WRITTEN | ADMIN | INSIDE,
    ),
    "role lowered in the organization": Loss(
        {"member": "owner"},
        lambda walls, who: make_member(walls.here.studio, who),
        ADMIN | OWNER,
        {"member": "member"},
    ),
    "collaborator removed": Loss(
        {"role": "admin"}, lambda walls, who: remove_collaborator(walls.here.studio, who), TEAM | WRITTEN | ADMIN
    ),
    "collaborator lowered": Loss(
        {"role": "admin"},
        lambda walls, who: make_reader(walls.here.studio, who),
        WRITTEN | ADMIN,
        {"role": "read"},
    ),
    "client removed": Loss(None, lambda walls, who: remove_client(walls.here.studio, who), SEEN | LISTED),
    "project made private": Loss(
        {"member": "member"}, _api("PATCH", "{}", private=True), TEAM | WRITTEN, {"member": "member"}
    ),
    DELETED: Loss({"member": "member"}, _api("DELETE", "{}"), TEAM | WRITTEN, {"member": "member"}),
}


def _fine_grained(walls: Walls, caller: Caller) -> str | None:
    """Return a token confined to the organization, or None if the user may not have one."""
    body = {
        "kind": "fine_grained",
        "account": walls.here.world.organization,
        "permissions": {"work": "write", "repository_hooks": "write", "organization_hooks": "write"},
    }
    answer = caller.http.post("/user/tokens", json=body)
    return str(answer.json()["token"]) if answer.status_code == 201 else None


def _hears(stream: Listener, text: str) -> bool:
    """Return whether the next event contains the text."""
    return text in str(stream.events(1)[0].data)


def _is_over(side: Side, http: httpx.Client) -> bool:
    return not side.probes["GET /projects/{}"](http)


class Before:
    """Everything a user has in progress in both organizations when the permission is lost."""

    def __init__(self, walls: Walls, caller: Caller) -> None:
        assert caller.token is not None
        self.walls, self.token, self.caller = walls, caller.token, caller
        self.key = {"Idempotency-Key": "again"}
        self.timer = self._start()
        self.post_here, self.post_there = (f"/columns/{each.column_id}/tasks" for each in (walls.here, walls.there))
        for path in (self.post_here, self.post_there):
            caller.post(path, json={"title": "Once"}, headers=self.key | {"Idempotency-Key": path})
        self.here = walls.here.possible(self.token)
        self.there = walls.there.possible(self.token)
        self.fine = _fine_grained(walls, caller)
        self.streams_here = walls.listen(walls.here, self.token) if "GET /projects/{}/activity" in self.here else []
        self.streams_there = walls.listen(walls.there, self.token)
        assert {each.status for each in (*self.streams_here, *self.streams_there)} == {200}

    def _start(self) -> JsonObject | None:
        """Start a timer if the user may have one."""
        side = self.walls.here
        body = {"task_id": side.task_id}
        answer = self.caller.call("POST", f"{side.studio.project}/timesheets", json=body)
        return answer.json()["timesheet"] if answer.status_code == 200 else None

    def repeat(self, path: str, server: Server) -> httpx.Response:
        with server.client(self.token) as http:
            headers = {"Idempotency-Key": path}
            return http.post(f"/api/v1{path}", json={"title": "Once"}, headers=headers)

    def timer_runs(self) -> bool:
        assert self.timer is not None
        found = self.walls.here.studio.owner.get(f"/timesheets/{self.timer['id']}")["timesheet"]
        return bool(found["is_active"])

    def nothing_changed_there(self) -> None:
        for server in self.walls.servers:
            assert self.walls.there.possible(self.token, server) == self.there
            again = self.repeat(self.post_there, server)
            assert (again.status_code, "idempotent-replayed" in again.headers) == (200, True)
        self.walls.there.studio.owner.patch(self.walls.there.studio.project, json={"title": "Later"})
        for stream in self.streams_there:
            until(partial(_hears, stream, "Later"))


@pytest.mark.variants("walls", "name")
@pytest.mark.parametrize(
    ("walls", "name"), [(name != DELETED, name) for name in LOSSES], ids=LOSSES, indirect=["walls"]
)
def test_losing_a_permission_ends_what_it_allowed(walls: Walls, name: str) -> None:
    loss, studio = LOSSES[name], walls.here.studio
    caller = studio.add_client() if loss.place is None else studio.add(**loss.place)
    walls.join_there(caller)
    had = Before(walls, caller)
    assert loss.ends <= had.here
    loss.take(walls, caller)
    like = studio.add(**(loss.left or {})).token
    assert like is not None
    left = walls.here.possible(like)
    assert left.isdisjoint(loss.ends)
    for server in walls.servers:
        assert walls.here.possible(had.token, server) == left  # at once, because each request checks the place
        if had.fine is not None:
            assert walls.here.possible(had.fine, server) <= left
        again = had.repeat(had.post_here, server)
        assert (again.status_code == 200) == ("write: task" in left)
        assert httpx.get(walls.here.file_link).status_code == (404 if name == DELETED else 200)
    if name != DELETED and had.timer is not None:
        assert had.timer_runs() == ("write: time" in left)
    if "GET /projects/{}/activity" not in left:
        for stream in had.streams_here:
            stream.rest()  # the stream ends
    had.nothing_changed_there()


# --- permissions of tokens and apps ----------------------------------------------------------------------------------


def _run(walls: Walls, work: Callable[[Services], Any]) -> Any:
    return walls.servers[0].run(work)


def _wait_for_end(walls: Walls, side: Side, token: str) -> None:
    """Wait on each process until the token has ended, then check that nothing is possible with it."""
    for server in walls.servers:
        with server.client(token) as http:
            until(partial(_is_over, side, http))
        assert side.possible(token, server) == set()


@pytest.mark.variants("how")
@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_token_ends_with_everything_created_through_it(walls: Walls, how: str) -> None:
    person = walls.here.studio.add(member="owner")
    walls.join_there(person)
    made = person.http.post("/user/tokens", json={"kind": "classic", "scopes": list(SCOPES), "note": "first"}).json()
    first = walls.caller(made["token"])
    had = Before(walls, first)
    second = first.http.post("/user/tokens", json={"kind": "classic", "scopes": ["work"], "note": "second"}).json()
    streams = [*had.streams_here, *had.streams_there]
    own = walls.here.possible(str(person.token))
    if how == "revoked":
        assert person.http.delete(f"/user/tokens/{made['id']}").status_code == 204
    else:

        async def expire(services: Services) -> None:
            async with services.database.transaction() as tx:
                await tx.execute(_expire, {"of": digest_of(made["token"]), "now": now_ms() - 1})

        _run(walls, expire)
    for side in (walls.here, walls.there):
        _wait_for_end(walls, side, made["token"])
        if how == "revoked":
            _wait_for_end(walls, side, second["token"])
    for server in walls.servers:
        assert had.repeat(had.post_here, server).status_code == 401
    for stream in streams:
        stream.rest()
    assert walls.here.possible(str(person.token)) == own  # the user has lost nothing
    assert had.timer_runs()  # including the permission to stop the timer


@dataclass
class _OauthApp:
    app_id: int
    person: Caller
    token: str
    other_token: str  # of another user, an owner of the other organization
    hooks: dict[str, str]


def _oauth_app(walls: Walls) -> _OauthApp:
    """Create an app with the consent of two users: an owner here who is a member there, and the owner there."""
    person = walls.here.studio.add(member="owner")
    walls.join_there(person)
    login = person.login

    async def make(services: Services) -> tuple[int, str, str]:
        async with services.database.transaction() as tx:
            place = await queries.find_account(tx, walls.here.world.organization)
            people = [await queries.find_account(tx, each) for each in (login, walls.there.world.owner)]
            assert place is not None
            app, _, _ = await create_app(
                tx,
                None,
                place,
                OauthAppCreate(name=f"Viewer {place.id}", callback_urls=["https://client.example/callback"]),
            )
            issued = []
            for each in people:
                assert each is not None
                await allow(tx, app, each.id, frozenset(SCOPES))
                issued.append((await issue(tx, OAUTH, each.id, scopes=SCOPES, app_id=app.id)).token)
        return app.id, issued[0], issued[1]

    app_id, token, other_token = _run(walls, make)
    made = _OauthApp(app_id, person, token, other_token, {})
    for side, by in ((walls.here, token), (walls.there, other_token)):
        with walls.servers[0].client(by) as http:
            for path in (side.world.repo_path, side.world.org_path):
                hook = {"name": "web", "config": {"url": "http://127.0.0.1:9/"}, "events": ["push"]}
                answer = http.post(f"{path}/hooks", json=hook)
                assert answer.status_code == 201, answer.text
                made.hooks[path] = f"{path}/hooks/{answer.json()['id']}"
    return made


_queued = (
    sa.select(sa.func.count().label("number"))
    .select_from(
        dispatches.join(hooks, hooks.c.id == dispatches.c.hook_id).join(accounts, accounts.c.id == hooks.c.account_id)
    )
    .where(accounts.c.login == sa.bindparam("login"), hooks.c.app_id.is_not(None))
)


def _deliveries(side: Side) -> int:
    """Return the number of apps' webhooks that receive an event, which is decided when the event is stored."""

    async def queued(services: Services) -> int:
        row = await services.database.fetch_one(_queued, {"login": side.world.organization})
        return int(row["number"]) if row else 0

    before = side.server.run(queued)
    push = {"event": "push", "payload": {"ref": "refs/heads/main"}}
    assert side.studio.owner.http.post(f"{side.world.repo_path}/events", json=push).is_success
    return int(side.server.run(queued) - before)


@pytest.mark.whole
def test_withdrawing_consent_ends_what_the_app_did_with_it(walls: Walls) -> None:
    app = _oauth_app(walls)
    had = Before(walls, walls.caller(app.token))
    own = [side.possible(str(app.person.token)) for side in (walls.here, walls.there)]
    theirs = walls.there.possible(app.other_token)
    assert [_deliveries(side) for side in (walls.here, walls.there)] == [2, 2]
    person_id = app.person.http.get("/user").json()["id"]

    async def withdraw(services: Services) -> None:
        async with services.database.transaction() as tx:
            await revoke_grant(tx, app.app_id, person_id)

    _run(walls, withdraw)
    assert [_deliveries(side) for side in (walls.here, walls.there)] == [0, 2]  # at once
    for side in (walls.here, walls.there):
        _wait_for_end(walls, side, app.token)
    for server in walls.servers:
        assert had.repeat(had.post_here, server).status_code == 401
        assert walls.there.possible(app.other_token, server) == theirs
    for stream in (*had.streams_here, *had.streams_there):
        stream.rest()
    assert [side.possible(str(app.person.token)) for side in (walls.here, walls.there)] == own
    assert had.timer_runs()  # it belongs to the user, who has lost nothing


@pytest.mark.parametrize("name", ["ownership removed", "role lowered in the organization"])
def test_webhooks_of_an_app_end_with_the_role_of_the_consenting_user(walls: Walls, name: str) -> None:
    app = _oauth_app(walls)
    assert [_deliveries(side) for side in (walls.here, walls.there)] == [2, 2]
    LOSSES[name].take(walls, app.person)
    assert [_deliveries(side) for side in (walls.here, walls.there)] == [0, 2]  # at once


def _refused_as(server: Server, token: str) -> tuple[object, ...]:
    """Return everything in the answer to a request with the token that could distinguish it from another answer."""
    with server.client(token) as http:
        answer = http.get("/user")
    told = {name: answer.headers.get(name) for name in ("www-authenticate", "x-oauth-scopes", "content-type")}
    return answer.status_code, answer.json(), told


PLACES: dict[str, Place | None] = {"owner": {"member": "owner"}, "collaborator": {"role": "admin"}, "client": None}


@pytest.mark.variants("place")
@pytest.mark.parametrize("place", PLACES)
def test_a_disabled_user_has_no_access_until_enabled(walls: Walls, place: str) -> None:
    given, studio = PLACES[place], walls.here.studio
    caller = studio.add_client() if given is None else studio.add(**given)
    colleague = str((studio.add_client() if given is None else studio.add(**given)).token)
    walls.join_there(caller)
    had = Before(walls, caller)
    made = caller.http.post("/user/tokens", json={"kind": "classic", "scopes": list(SCOPES), "note": "revoked"}).json()
    assert caller.http.delete(f"/user/tokens/{made['id']}").status_code == 204
    of_colleague, login = walls.here.possible(colleague), caller.login
    disable(studio, login)
    for token in (had.token, had.fine):
        for side in (walls.here, walls.there):
            if token is not None:
                _wait_for_end(walls, side, token)
    for server in walls.servers:
        assert had.repeat(had.post_here, server).status_code == 401
        assert _refused_as(server, had.token) == _refused_as(server, made["token"])
        assert walls.here.possible(colleague, server) == of_colleague
    for stream in (*had.streams_here, *had.streams_there):
        stream.rest()
    assert had.timer is None or not had.timer_runs()
    enable(studio, login)
    for server in walls.servers:
        assert walls.here.possible(had.token, server) == had.here
        assert walls.there.possible(had.token, server) == had.there
    assert had.timer is None or not had.timer_runs()


@pytest.mark.whole
def test_an_app_cannot_act_for_a_disabled_user(walls: Walls) -> None:
    app = _oauth_app(walls)
    login = app.person.login
    there = walls.there.possible(app.other_token)
    streams, others = walls.listen(walls.here, app.token), walls.listen(walls.there, app.other_token)
    assert [_deliveries(side) for side in (walls.here, walls.there)] == [2, 2]
    disable(walls.here.studio, login)
    assert [_deliveries(side) for side in (walls.here, walls.there)] == [0, 2]  # at once
    _wait_for_end(walls, walls.here, app.token)
    for server in walls.servers:
        assert walls.there.possible(app.other_token, server) == there
    for stream in streams:
        stream.rest()
    walls.there.studio.owner.patch(walls.there.studio.project, json={"title": "Later"})
    for stream in others:
        assert stream.events(1)
    enable(walls.here.studio, login)
    assert _deliveries(walls.here) == 0, "the app may turn them on again"
    with walls.servers[0].client(app.token) as http:
        for path in (walls.here.world.repo_path, walls.here.world.org_path):
            assert http.patch(app.hooks[path], json={"active": True}).status_code == 200
    assert _deliveries(walls.here) == 2


@pytest.mark.whole
def test_an_installation_survives_the_disabling_of_its_installer(walls: Walls) -> None:
    app = make_app(walls.servers[0], walls.here.world, public=True, installed=False)
    person = walls.here.studio.add(member="owner")
    installed = person.http.post(f"{walls.here.world.org_path}/installations", json={"app": app.slug})
    assert installed.status_code == 201, installed.text
    app.installation_id = installed.json()["id"]
    token = app.token(walls.servers[0])
    possible = walls.here.possible(token)
    disable(walls.here.studio, person)
    _wait_for_end(walls, walls.here, str(person.token))
    for server in walls.servers:
        assert walls.here.possible(token, server) == possible
        app.token(server)


def _installed(walls: Walls) -> tuple[Registered, str, str]:
    """Install an app on both organizations and return it with a token for each installation."""
    app = make_app(walls.servers[0], walls.here.world, public=True)
    token = app.token(walls.servers[0])
    body = {"app": app.slug}
    answer = walls.there.studio.owner.http.post(f"{walls.there.world.org_path}/installations", json=body)
    assert answer.status_code == 201, answer.text
    here, app.installation_id = app.installation_id, answer.json()["id"]
    other = app.token(walls.servers[0])
    app.installation_id = here
    return app, token, other


@pytest.mark.whole
@pytest.mark.variants("how")
@pytest.mark.parametrize("how", ["deleted", "suspended", "repository taken", "permission taken"])
def test_removing_an_installation_ends_its_tokens(walls: Walls, how: str) -> None:
    app, token, other = _installed(walls)
    here, there = walls.here.possible(token), walls.there.possible(other)
    assert here >= SEEN | WRITTEN
    assert "listed: repository of the installation" in here
    owner, path = walls.here.studio.owner.http, f"{walls.here.world.org_path}/installations/{app.installation_id}"
    post = f"/api/v1/columns/{walls.here.column_id}/tasks"
    request = {"json": {"title": "Once"}, "headers": {"Idempotency-Key": "once"}}
    with walls.servers[0].client(token) as http:
        assert http.post(post, **request).status_code == 200  # type: ignore[arg-type]  # httpx accepts both
        timer = http.post(f"/api/v1{walls.here.studio.project}/timesheets", json={"task_id": walls.here.task_id})
        assert timer.json()["timesheet"]["is_active"]
    streams = walls.listen(walls.here, token)
    streams_there = walls.listen(walls.there, other)
    if how == "deleted":
        assert owner.delete(path).status_code == 204
    elif how == "suspended":
        assert owner.put(f"{path}/suspended").status_code == 204
    elif how == "repository taken":
        body = {"title": "Other", "name": "other", "organization": walls.here.world.organization}
        walls.here.studio.owner.post("/projects", json=body)
        chosen = {"repository_selection": "selected", "repositories": ["other"]}
        assert owner.patch(path, json=chosen).status_code == 200
    else:
        permissions = {"repository_hooks": "read"}
        assert owner.patch(path, json={"permissions": permissions}).status_code == 200
    for server in walls.servers:
        with server.client(token) as http:
            until(partial(_is_over, walls.here, http))
            assert http.post(post, **request).status_code in (401, 403, 404)  # type: ignore[arg-type]  # as above
        left = walls.here.possible(token, server)
        assert left.isdisjoint(SEEN | LISTED | WRITTEN)
        assert how in ("repository taken", "permission taken") or left == set()
        assert walls.there.possible(other, server) == there
    ended = walls.here.studio.owner.get(f"/timesheets/{timer.json()['timesheet']['id']}")["timesheet"]
    assert (ended["is_active"], ended["finished"]) == (False, True)  # otherwise other users might be there to stop it
    for stream in streams:
        stream.rest()
    walls.there.studio.owner.patch(walls.there.studio.project, json={"title": "Later"})
    for stream in streams_there:
        assert stream.events(1)
