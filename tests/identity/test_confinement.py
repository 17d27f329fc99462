"""Limits of confined tokens where they could be bypassed: lists, timers, streams, and the roles of apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.api.wire import envelope
from tests.harness.apps import Registered, make_app
from tests.harness.server import Server
from tests.harness.world import World, add_user
from tests.work.listener import Listener
from tests.work.scene import Scene
from tests.work.studio import Caller


class Ground(NamedTuple):
    """A project, another one in the same organization, and the owner of both."""

    server: Server
    world: World
    owner: Caller
    other: dict[str, Any]
    callers: list[Caller]

    def token(
        self,
        user: Caller | None = None,
        *,
        repositories: list[str] | None = None,
        permissions: dict[str, str] | None = None,
    ) -> Caller:
        """Return a caller with a fine-grained token of the user or the owner.

        If `repositories` is None, the token covers all repositories.
        """
        body = {
            "kind": "fine_grained",
            "organization": self.world.organization,
            "permissions": permissions or {"work": "write"},
            "repositories": repositories or "all",
        }
        made = (user or self.owner).http.post("/user/tokens", json=body)
        assert made.status_code == 201, made.text
        return self.caller(made.json()["token"])

    def caller(self, token: str) -> Caller:
        self.callers.append(Caller(self.server, token))
        return self.callers[-1]

    def app(self, **more: Any) -> tuple[Registered, Caller]:
        app = make_app(self.server, self.world, **more)
        return app, self.caller(app.token(self.server))

    def scene(self, project_id: str | None = None) -> Scene:
        return Scene(self.owner, project_id or self.world.project_id, self.world.organization)


@pytest.fixture
def ground(server: Server) -> Iterator[Ground]:
    world = server.world()
    owner = Caller(server, world.token)
    other = owner.post("/projects", json={"title": "Other", "private": True})["project"]
    ground = Ground(server, world, owner, other, [owner])
    yield ground
    for caller in ground.callers:
        caller.http.close()


def test_lists_contain_only_accessible_projects_in_full_pages(ground: Ground) -> None:
    titles = [f"Project {number}" for number in range(6)]
    made = [ground.owner.post("/projects", json={"title": title})["project"] for title in titles]
    chosen = [each["name"] for each in made[::2]]
    token = ground.token(repositories=chosen)
    first = token.call("GET", "/projects?per_page=2")
    assert [each["name"] for each in first.json()["projects"]] == chosen[:2]
    rest = token.http.get(first.links["next"]["url"])
    assert [each["name"] for each in rest.json()["projects"]] == chosen[2:]
    assert "next" not in rest.links
    for each in made:
        ground.owner.delete(f"/projects/{each['id']}")
    trash = token.get("/trash")["trash"]
    assert {each["id"] for each in trash} == {each["id"] for each in made[::2]}
    envelope(token.call("POST", f"/projects/{made[1]['id']}/restore"), 404, "not_found")
    assert token.post(f"/projects/{made[0]['id']}/restore")["project"]["id"] == made[0]["id"]


def test_read_permissions_do_not_allow_changes(ground: Ground) -> None:
    token = ground.token(permissions={"work": "read"})
    task_id = ground.scene().task()
    assert token.get(f"/tasks/{task_id}")["task"]["id"] == task_id
    refused = envelope(token.call("PATCH", f"/tasks/{task_id}", json={"title": "x"}), 403, "missing_permission")
    assert refused["message"] == "Resource not accessible by personal access token"


def test_a_repository_outside_the_tokens_limits_is_not_found(ground: Ground) -> None:
    """Although the user can see it, a 403 would reveal its existence to the holder of the token."""
    there = ground.owner.post("/projects", json={"title": "Seen by members"})["project"]
    member = ground.caller(ground.server.run(lambda services: add_user(services, ground.world, member="member")))
    permissions = {"repository_hooks": "write", "work": "write"}
    for user in (ground.owner, member):
        assert user.http.get(f"/repos/{there['full_name']}").status_code == 200
        token = ground.token(user, repositories=[ground.world.repository], permissions=permissions)
        assert token.http.get(ground.world.repo_path).status_code == 200
        for path in ("", "/hooks", "/collaborators", "/nothing"):
            answer = token.http.get(f"/repos/{there['full_name']}{path}")
            assert (answer.status_code, answer.json()["message"]) == (404, "Not Found"), path
        event = {"event": "push", "payload": {}}
        assert token.http.post(f"/repos/{there['full_name']}/events", json=event).status_code == 404


def test_columns_of_other_projects_are_not_found(ground: Ground) -> None:
    token = ground.token(repositories=[ground.world.repository])
    task_id, elsewhere = ground.scene().task(), ground.scene(ground.other["id"]).column()
    faults = token.faults("PATCH", f"/tasks/{task_id}", json={"column_id": elsewhere})
    assert faults == {"column_id": "not_found"}
    operations = [{"action": "create", "column_id": elsewhere, "title": "New"}]
    assert token.faults("POST", "/tasks/bulk", json={"operations": operations}) == {
        "operations[0].column_id": "not_found"
    }


def test_a_timer_outside_the_tokens_limits_is_not_paused(ground: Ground) -> None:
    running = ground.scene(ground.other["id"]).running()
    token = ground.token(repositories=[ground.world.repository])
    scene = ground.scene()
    task_id, path = scene.task(), f"/projects/{ground.world.project_id}/timesheets"
    envelope(token.call("POST", path, json={"task_id": task_id}), 409, "timer_elsewhere")
    starting = scene.column(start_timer=True)
    assert token.patch(f"/tasks/{task_id}", json={"column_id": starting})["task"]["column"]["id"] == starting
    assert token.get(path)["timesheets"] == []
    assert ground.owner.get(f"/timesheets/{running}")["timesheet"]["is_active"] is True
    ground.owner.post(f"/timesheets/{running}/pause")
    assert token.post(path, json={"task_id": task_id})["timesheet"]["is_active"] is True


def test_a_token_for_selected_repositories_creates_nothing_outside_them(ground: Ground) -> None:
    everything = {"work": "write", "organization_hooks": "write"}
    chosen = ground.token(repositories=[ground.world.repository], permissions=everything)
    envelope(chosen.call("POST", "/projects", json={"title": "New"}), 403, "missing_permission")
    envelope(chosen.call("POST", "/services", json={"title": "New"}), 403, "missing_permission")
    answer = chosen.http.get(f"{ground.world.org_path}/audit-log")
    assert (answer.status_code, answer.json()["message"]) == (403, "Resource not accessible by personal access token")
    # An organization permission applies to the organization, whichever repositories are selected.
    hook = {"name": "web", "config": {"url": "http://127.0.0.1:9/"}, "active": False}
    assert chosen.http.post(f"{ground.world.org_path}/hooks", json=hook).status_code == 201
    whole = ground.token(permissions=everything)
    assert (
        whole.post("/projects", json={"title": "Next"})["project"]["full_name"] == f"{ground.world.organization}/next"
    )
    assert whole.http.get(f"{ground.world.org_path}/audit-log").status_code == 200


def test_a_stream_ends_when_the_installation_loses_the_project(ground: Ground) -> None:
    app, robot = ground.app(repositories=[ground.world.repository])
    path = f"/projects/{ground.world.project_id}/stream"
    listener, owners = (Listener(ground.server.url, path, token) for token in (robot.token, ground.owner.token))
    assert (listener.status, owners.status) == (200, 200)
    installation = f"/orgs/{ground.world.organization}/installations/{app.installation_id}"
    edited = ground.owner.http.patch(installation, json={"repositories": ["other"]})
    assert edited.status_code == 200, edited.text
    assert listener.rest() == []
    ground.owner.patch(f"/projects/{ground.world.project_id}", json={"title": "After"})
    assert owners.events(1)[0].data["payload"]["project"]["title"] == "After"
    listener.close()
    owners.close()


def test_an_app_acts_as_a_member_but_is_not_listed_as_one(ground: Ground) -> None:
    app, robot = ground.app()
    me = robot.get("/me")["user"]["username"]
    assert me == app.bot
    private = f"/projects/{ground.other['id']}"
    assert robot.get(private)["project"]["private"] is True
    column = ground.scene(ground.other["id"]).column()
    task = robot.post(f"/columns/{column}/tasks", json={"title": "Of a robot"})["task"]
    comment = robot.post(f"/tasks/{task['id']}/task_comments", json={"text": "Done"})["task_comment"]
    assert comment["user"]["username"] == me
    for path in (f"{private}/members", f"/organizations/{ground.world.organization}/members"):
        for caller in (robot, ground.owner):
            assert me not in {each["username"] for each in caller.get(path)["members"]}
    assert set(robot.faults("PATCH", f"/tasks/{task['id']}", json={"assignees": [me]})) == {"assignees"}
    assert set(ground.owner.faults("POST", f"{private}/members", json={"username": me})) == {"username"}


def test_an_app_cannot_become_an_owner(ground: Ground) -> None:
    _, robot = ground.app()
    made = robot.post("/projects", json={"title": "Of a robot", "private": True})["project"]
    assert robot.patch(f"/projects/{made['id']}", json={"title": "Renamed"})["project"]["title"] == "Renamed"
    refusals = [
        ("DELETE", f"/projects/{made['id']}", None),
        ("POST", f"/projects/{made['id']}/members", {"username": ground.world.owner}),
        ("POST", "/services", {"title": "Care"}),
        ("DELETE", f"/services/{ground.scene().service()}", None),
    ]
    for method, path, body in refusals:
        envelope(robot.call(method, path, json=body), 403, "missing_role")
