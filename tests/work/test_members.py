"""Members of projects and organizations: listing, adding and removing them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness.clients import become_client
from tests.work.rights_kit import change_by_hand, remove_member
from tests.work.studio import Caller, Studio
from workhook.identity.context import Write
from workhook.work.people import membership

KEYS = {"id", "login", "username", "email", "avatar"}


def _names(caller: Caller, path: str, **more: Any) -> list[str]:
    return [each["username"] for each in caller.get(path, **more)["members"]]


@pytest.fixture
def members(studio: Studio) -> str:
    return f"{studio.project}/members"


def _make_private(studio: Studio) -> None:
    studio.owner.patch(studio.project, json={"private": True})
    studio.happened()


# --- list ------------------------------------------------------------------------------------------------------------


def test_me_is_the_caller(studio: Studio) -> None:
    answer = studio.owner.get("/me")
    assert set(answer) == {"success", "user"}
    assert set(answer["user"]) == KEYS
    assert answer["success"] is True
    assert answer["user"]["username"] == answer["user"]["login"] == studio.world.owner
    assert answer["user"]["email"] == "octo@example.com"
    assert studio.client.get("/me")["user"]["id"] != answer["user"]["id"]
    studio.nobody.refused(401, "GET", "/me")


def test_a_project_lists_each_of_its_people_once_ordered_by_id(studio: Studio, members: str) -> None:
    owner, member = studio.owner.login, studio.member.login
    reader = studio.add(role="read").login
    both = studio.add(member="member", role="admin").login
    _ = studio.client, studio.stranger
    answer = studio.owner.get(members)
    assert set(answer) == {"success", "members"}
    assert all(set(each) == KEYS for each in answer["members"])
    assert [each["username"] for each in answer["members"]] == [owner, member, reader, both]
    assert _names(studio.member, members) == [owner, member, reader, both]
    _make_private(studio)
    assert _names(studio.owner, members) == [owner, reader, both]


def test_only_members_can_list_the_members_of_an_organization(studio: Studio) -> None:
    path = f"/organizations/{studio.world.organization}/members"
    owner, member = studio.owner.login, studio.member.login
    collaborator = studio.add(role="admin")
    answer = studio.member.get(path)
    assert set(answer) == {"success", "members"}
    assert set(answer["members"][0]) == KEYS
    assert _names(studio.owner, path.replace("acme", "ACME")) == [owner, member]
    for other in (collaborator, studio.client, studio.stranger):
        other.refused(404, "GET", path)
    studio.owner.refused(404, "GET", f"/organizations/{studio.world.owner}/members")
    studio.owner.refused(404, "GET", "/organizations/none/members")


# --- add -------------------------------------------------------------------------------------------------------------


def test_a_member_can_be_added(studio: Studio, members: str) -> None:
    name = studio.member.login
    _make_private(studio)
    answer = studio.owner.post(members, json={"username": name.upper()})
    assert set(answer) == {"success", "member", "pending"}
    assert answer["pending"] is False
    assert set(answer["member"]) == KEYS
    assert answer["member"]["username"] == name
    assert name in _names(studio.owner, members)
    assert studio.member.patch(studio.project, json={"title": "Ours"})["project"]["title"] == "Ours"
    [added, _] = studio.happened()
    assert (added.name, added.action, added.record["username"]) == ("member", "added", name)
    assert added.payload["repository"]["full_name"] == studio.world.full_name
    assert added.payload["sender"]["username"] == studio.world.owner


def test_adding_a_member_again_changes_nothing(studio: Studio, members: str) -> None:
    admin, owner = studio.add(role="admin"), studio.owner.login
    for name in (admin.login, owner):
        assert studio.owner.post(members, params={"username": name})["member"]["username"] == name
    assert studio.happened() == []
    # They are still an admin.
    assert admin.post(members, json={"username": studio.member.login})
    assert [each.action for each in studio.happened()] == ["added"]


def test_an_organization_member_can_be_added_in_case_the_project_becomes_private(studio: Studio, members: str) -> None:
    name = studio.member.login
    studio.owner.post(members, json={"username": name})
    assert [each.action for each in studio.happened()] == ["added"]
    _make_private(studio)
    assert studio.member.get(studio.project)["project"]["private"] is True


def test_people_who_cannot_be_added_are_refused(studio: Studio, members: str) -> None:
    for name in ("nobody-at-all", studio.world.organization, "ä", ""):
        assert studio.owner.faults("POST", members, json={"username": name}) == {"username": "invalid"}
    assert studio.owner.faults("POST", members, json={"username": studio.client.login}) == {"username": "is_client"}
    assert studio.owner.faults("POST", members, json={"role": "admin"}) == {"username": "missing", "role": "unknown"}
    assert studio.happened() == []


def test_writers_cannot_change_members(studio: Studio, members: str) -> None:
    added = studio.add(role="write")
    name = added.login
    assert added.refused(403, "POST", members, json={"username": name})["code"] == "missing_role"
    assert added.refused(403, "DELETE", f"{members}/{studio.add(role='read').login}")["code"] == "missing_role"
    assert studio.happened() == []


def test_concurrent_additions_add_a_member_once(studio: Studio, members: str) -> None:
    name = studio.member.login
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: studio.owner.call("POST", members, json={"username": name}), range(6)))
    assert {each.status_code for each in answers} == {200}
    assert [(each.name, each.action) for each in studio.happened()] == [("member", "added")]


# --- remove ----------------------------------------------------------------------------------------------------------


def test_a_member_can_be_removed(studio: Studio, members: str) -> None:
    added = studio.add(role="write")
    name = added.login
    assert studio.owner.delete(f"{members}/{name.upper()}") == {"success": True}
    added.refused(404, "GET", studio.project)
    [removed] = studio.happened()
    assert (removed.name, removed.action, removed.record["username"]) == ("member", "removed", name)
    studio.owner.refused(404, "DELETE", f"{members}/{name}")
    studio.owner.refused(404, "DELETE", f"{members}/nobody-at-all")
    assert studio.happened() == []


def test_access_through_the_organization_cannot_be_removed_from_a_project(studio: Studio, members: str) -> None:
    name = studio.add(member="member", role="write").login
    assert studio.owner.delete(f"{members}/{name}") == {"success": True}
    assert name in _names(studio.owner, members)
    for each in (name, studio.owner.login):
        assert studio.owner.refused(409, "DELETE", f"{members}/{each}")["code"] == "not_added"
    _make_private(studio)
    studio.owner.refused(404, "DELETE", f"{members}/{name}")


@pytest.mark.parametrize("how", ["members", "memberships", "leaves", "by hand"])
def test_a_former_organization_member_loses_all_roles_in_its_projects(
    studio: Studio, elsewhere: Studio, how: str
) -> None:
    """This includes projects they created and restored ones. Roles elsewhere and access as a client remain."""
    caller = studio.add(member="member", role="admin")
    name, email = caller.login, caller.get("/me")["user"]["email"]
    _make_private(studio)
    made = [caller.post("/projects", json={"title": title, "private": True})["project"]["id"] for title in ("A", "B")]
    studio.owner.delete(f"/projects/{made[1]}")
    shown = studio.owner.post("/projects", json={"title": "Shown", "private": True})["project"]["id"]
    studio.server.run(lambda services: become_client(services, shown, email))
    change_by_hand(
        elsewhere, caller, lambda tx, _, here, who: membership.set_collaborator(Write(tx, None, ""), here, who, "write")
    )
    if how == "by hand":
        remove_member(studio, caller)
    else:
        by = caller if how == "leaves" else studio.owner
        path = f"{studio.world.org_path}/{'members' if how == 'members' else 'memberships'}/{name}"
        assert by.http.delete(path).status_code == 204
    studio.owner.post(f"/projects/{made[1]}/restore")
    for project in (studio.project_id, *made):
        caller.refused(404, "GET", f"/projects/{project}")
    assert caller.get(f"/projects/{shown}")["project"]["id"] == shown
    assert caller.get(elsewhere.project)["project"]["id"] == elsewhere.project_id
