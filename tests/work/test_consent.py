"""Consent and privacy: people join projects only by consent, can always leave, and keep their addresses private.

Two organizations with a common member: the studio's, and another one with an owner of its own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.harness.world import World, add_user, make_world, must
from tests.work.scene import Scene
from tests.work.studio import Caller, Studio
from workhook.http.calls import Services
from workhook.identity import actions, queries


class Neighbor:
    """Another organization on the same server. `both` is a member of it and of the studio's organization."""

    def __init__(self, studio: Studio) -> None:
        self.world: World = studio.server.run(make_world)
        self.owner, self.both = (
            Caller(studio.server, studio.server.run(partial(add_user, world=self.world, member=role)))
            for role in ("owner", "member")
        )
        studio._callers += [self.owner, self.both]
        login = self.both.login

        async def join(services: Services) -> None:
            async with services.database.transaction() as tx:
                place = must(await queries.find_account(tx, studio.world.organization))
                user = must(await queries.find_account(tx, login))
                await actions.set_member(tx, place, user, "member")

        studio.server.run(join)


@pytest.fixture
def neighbor(studio: Studio) -> Neighbor:
    return Neighbor(studio)


@pytest.fixture
def members(studio: Studio) -> str:
    return f"{studio.project}/members"


def invitations(caller: Caller) -> list[dict[str, Any]]:
    """Return the caller's pending repository invitations."""
    found: list[dict[str, Any]] = caller.http.get("/user/repository_invitations").raise_for_status().json()
    return found


# --- projects --------------------------------------------------------------------------------------------------------


def test_a_person_outside_the_organization_is_invited_without_revealing_id_or_address(
    studio: Studio, neighbor: Neighbor, members: str
) -> None:
    stranger = neighbor.owner.me
    answer = studio.owner.post(members, json={"username": stranger["username"].upper()})
    assert answer["pending"] is True
    assert set(answer["member"]) == {"login", "username", "email", "avatar"}
    assert answer["member"]["username"] == stranger["username"]
    assert answer["member"]["email"] != stranger["email"]
    text = str(answer)
    assert stranger["email"] not in text
    # Nothing changed, and the invited person cannot see the project yet.
    assert studio.happened() == []
    neighbor.owner.refused(404, "GET", studio.project)
    assert stranger["username"] not in studio_text(studio.owner, members)


def test_an_invitation_can_be_accepted(studio: Studio, neighbor: Neighbor, members: str) -> None:
    stranger = neighbor.owner.me
    studio.owner.post(members, json={"username": stranger["username"]})
    [waiting] = invitations(neighbor.owner)
    assert (waiting["repository"]["full_name"], waiting["permissions"]) == (studio.world.full_name, "write")
    assert studio.owner.http.patch(f"/user/repository_invitations/{waiting['id']}").status_code == 404
    assert neighbor.owner.http.patch(f"/user/repository_invitations/{waiting['id']}").status_code == 204
    assert neighbor.owner.get(studio.project)["project"]["id"] == studio.project_id
    [added] = studio.happened()
    assert (added.name, added.action, added.record["username"]) == ("member", "added", stranger["username"])
    assert added.payload["sender"]["login"] == stranger["username"]
    assert stranger["email"] not in str(added.payload)
    assert invitations(neighbor.owner) == []
    assert neighbor.owner.http.patch(f"/user/repository_invitations/{waiting['id']}").status_code == 404


def test_an_invitation_can_be_declined(studio: Studio, neighbor: Neighbor, members: str) -> None:
    studio.owner.post(members, json={"username": neighbor.owner.login})
    [waiting] = invitations(neighbor.owner)
    assert neighbor.owner.http.delete(f"/user/repository_invitations/{waiting['id']}").status_code == 204
    assert invitations(neighbor.owner) == []
    neighbor.owner.refused(404, "GET", studio.project)
    assert studio.happened() == []


def test_a_person_in_the_same_organization_is_added_at_once(studio: Studio, neighbor: Neighbor, members: str) -> None:
    answer = studio.owner.post(members, json={"username": neighbor.both.login})
    assert (answer["pending"], answer["member"]["username"]) == (False, neighbor.both.login)
    # `both` also belongs to the other organization; the studio's owner does not.
    theirs = f"/projects/{neighbor.world.project_id}/members"
    assert neighbor.owner.post(theirs, json={"username": neighbor.both.login})["pending"] is False
    assert neighbor.owner.post(theirs, json={"username": studio.world.owner})["pending"] is True
    neighbor.owner.refused(404, "GET", studio.project)


def test_a_collaborator_can_leave(studio: Studio, members: str) -> None:
    for role in ("read", "write", "admin"):
        added = studio.add(role=role)
        name = added.login
        studio.owner.patch(studio.project, json={"archive": True})
        added.delete(f"{members}/{name}")
        studio.owner.patch(studio.project, json={"archive": False})
        added.refused(404, "GET", studio.project)
        assert [each.action for each in studio.happened() if each.name == "member"] == ["removed"]


def test_an_organization_member_cannot_leave_a_single_project(studio: Studio, members: str) -> None:
    path = f"{members}/{studio.member.login}"
    assert studio.member.refused(409, "DELETE", path)["code"] == "not_added"


def test_a_client_can_leave(studio: Studio) -> None:
    other, login = studio.add_client(), studio.client.login
    own = next(
        each["id"] for each in studio.owner.get(f"{studio.project}/clients")["clients"] if each["username"] == login
    )
    other.refused(404, "DELETE", f"/clients/{own}")
    studio.client.delete(f"/clients/{own}")
    studio.client.refused(404, "GET", studio.project)
    other.get(studio.project)


# --- addresses -------------------------------------------------------------------------------------------------------


def _records(studio: Studio, scene: Scene) -> list[str]:
    """Return the paths of records that show people, with `both` as an assignee."""
    task_id = scene.task(assignees=[scene.somebody])
    return [f"{studio.project}/members", f"/tasks/{task_id}", f"{studio.project}/tasks", f"{studio.project}/activity",
            f"/organizations/{studio.world.organization}/members"]  # fmt: skip


def test_addresses_are_shown_to_the_person_and_to_owners(studio: Studio, neighbor: Neighbor) -> None:
    both, colleague, owner = neighbor.both.me, studio.member.me, studio.owner.me
    scene = Scene(studio.owner, studio.project_id, studio.world.organization, both["username"])
    paths = _records(studio, scene)
    assert all(each["email"].endswith("@example.com") for each in (both, colleague, owner))
    for path in paths:
        seen = {caller: studio_text(each, path) for caller, each in
                {"owner": studio.owner, "both": neighbor.both, "member": studio.member}.items()}  # fmt: skip
        assert both["username"] in seen["member"], path
        assert both["email"] not in seen["member"], path
        if "activity" not in path:
            assert both["email"] in seen["both"], path
            assert both["email"] in seen["owner"], path
        if owner["username"] in seen["member"]:
            assert owner["email"] not in seen["member"], path
            assert owner["email"] not in seen["both"], path


def test_owners_do_not_see_addresses_of_outsiders(studio: Studio, neighbor: Neighbor, members: str) -> None:
    stranger = neighbor.owner.me
    studio.owner.post(members, json={"username": stranger["username"]})
    [waiting] = invitations(neighbor.owner)
    neighbor.owner.http.patch(f"/user/repository_invitations/{waiting['id']}").raise_for_status()
    scene = Scene(neighbor.owner, studio.project_id, studio.world.organization)
    path = f"/tasks/{scene.task()}/task_comments"
    neighbor.owner.post(path, json={"text": "Said"})
    assert stranger["email"] in studio_text(neighbor.owner, path)
    assert stranger["username"] in studio_text(studio.owner, path)
    assert stranger["email"] not in studio_text(studio.owner, path)
    assert stranger["email"] not in studio_text(studio.owner, members)


def test_no_payload_contains_an_address(studio: Studio, neighbor: Neighbor) -> None:
    both, owner = neighbor.both.me, studio.owner.me
    scene = Scene(studio.owner, studio.project_id, studio.world.organization, both["username"])
    task_id = scene.task(assignees=[scene.somebody])
    studio.owner.post(f"/tasks/{task_id}/task_comments", json={"text": "Said"})
    scene.timesheet()
    scene.invoice()
    text = str([each.payload for each in studio.happened()])
    assert both["username"] in text
    assert both["email"] not in text
    assert owner["email"] not in text


def studio_text(caller: Caller, path: str) -> str:
    response = caller.call("GET", path)
    assert response.status_code == 200, response.text
    return response.text
