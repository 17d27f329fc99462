"""Invitations to organizations and repositories, as GitHub's clients ask for them.

Two organizations: `cast` has an owner and people of the first, `other` owns the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

from tests.harness.server import Server
from tests.harness.world import World, add_user, make_world
from workhook.http.calls import Services
from workhook.identity import actions
from workhook.identity.policy import SCOPES


@dataclass
class People:
    """Tokens, logins and profiles: an owner and a member of one organization, and an owner of another one."""

    server: Server
    world: World
    second: World
    http: httpx.Client
    tokens: dict[str, str]
    profiles: dict[str, Any]

    def ask(self, who: str, method: str, path: str, **more: Any) -> httpx.Response:
        return self.http.request(method, path, headers={"Authorization": f"Bearer {self.tokens[who]}"}, **more)

    def read(self, who: str, path: str) -> Any:
        return self.ask(who, "GET", path).raise_for_status().json()

    def login(self, who: str) -> str:
        return str(self.profiles[who]["login"])


@pytest.fixture
def people(server: Server) -> Iterator[People]:
    world, second = server.run(make_world), server.run(make_world)
    tokens = {
        "owner": world.token,
        "member": server.run(partial(add_user, world=world, member="member")),
        "other": server.run(partial(add_user, world=second, member="owner")),
        "third": server.run(partial(add_user, world=second, member="member")),
    }
    with server.client(None) as client:
        found = People(server, world, second, client, tokens, {})
        found.profiles = {name: found.read(name, "/user") for name in tokens}
        yield found


@pytest.mark.parametrize("by", ["login", "email"])
def test_the_invited_person_sees_the_membership_that_waits(people: People, by: str) -> None:
    org = people.world.organization
    path = f"/user/memberships/orgs/{org}"
    for who in ("third", "other"):
        assert people.ask(who, "GET", path).status_code == 404
    if by == "login":
        people.ask("owner", "PUT", f"{people.world.org_path}/memberships/{people.login('third')}", json={})
    else:
        email = people.read("third", "/user")["email"]
        people.ask("owner", "POST", f"{people.world.org_path}/invitations", json={"email": email}).raise_for_status()
    found = people.read("third", path)
    assert (found["state"], found["role"], found["organization"]["login"]) == ("pending", "member", org)
    assert found["organization"]["email"] is None
    assert [found] == people.read("third", "/user/memberships/orgs?state=pending")
    assert people.ask("other", "GET", path).status_code == 404, "it is for the invited person alone"
    assert people.ask("third", "PATCH", path, json={"state": "active"}).json()["state"] == "active"
    assert people.read("third", path)["state"] == "active"


@pytest.mark.parametrize("prefix", ["", "/api/v3"], ids=["root", "prefix"])
def test_an_organization_invites_and_the_invited_person_accepts(people: People, prefix: str) -> None:
    org, login = f"{prefix}{people.world.org_path}", people.login("other")
    made = people.ask("owner", "PUT", f"{org}/memberships/{login}", json={"role": "member"})
    assert (made.status_code, made.json()["state"], made.json()["user"]) == (200, "pending", None)
    assert people.profiles["other"]["email"] not in made.text
    assert login not in [each["login"] for each in people.read("owner", f"{org}/members")]
    assert people.ask("other", "GET", org).status_code == 404
    [listed] = people.read("owner", f"{org}/invitations")
    assert (listed["login"], listed["email"], listed["role"]) == (login, None, "direct_member")
    assert people.read("owner", f"{org}/memberships/{login}")["state"] == "pending"
    assert people.ask("member", "GET", f"{org}/memberships/{login}").status_code == 404
    own = f"{prefix}/user/memberships/orgs"
    assert [each["state"] for each in people.read("other", own)] == ["active", "pending"]
    [waiting] = people.read("other", f"{own}?state=pending")
    assert waiting["organization"]["login"] == people.world.organization
    accepting = f"{own}/{people.world.organization}"
    assert people.ask("third", "PATCH", accepting, json={"state": "active"}).status_code == 404
    assert people.ask("other", "PATCH", accepting, json={"state": "pending"}).status_code == 422
    accepted = people.ask("other", "PATCH", accepting, json={"state": "active"})
    assert (accepted.status_code, accepted.json()["state"], accepted.json()["role"]) == (200, "active", "member")
    assert people.read("owner", f"{org}/invitations") == []
    assert people.read("other", f"{own}?state=pending") == []
    # It has not put the person's colleagues anywhere, and again it changes nothing.
    assert people.ask("third", "GET", org).status_code == 404
    assert people.ask("other", "PATCH", accepting, json={"state": "active"}).status_code == 200


def test_everybody_leaves_but_the_last_owner(people: People) -> None:
    org = people.world.org_path
    for path in ("members", "memberships"):
        assert people.ask("member", "DELETE", f"{org}/{path}/{people.world.owner}").status_code == 403
        refused = people.ask("owner", "DELETE", f"{org}/{path}/{people.world.owner}")
        assert refused.status_code == 422
        assert "last owner" in refused.text
    assert people.ask("owner", "PUT", f"{org}/memberships/{people.world.owner}", json={}).status_code == 422
    assert people.ask("member", "DELETE", f"{org}/memberships/{people.login('member')}").status_code == 204
    assert people.ask("member", "GET", org).status_code == 404
    assert people.ask("other", "DELETE", f"{org}/members/{people.login('other')}").status_code == 404


def test_an_invitation_ends_with_the_right_of_who_made_it(people: People) -> None:
    org = people.world.org_path
    promote = people.ask("owner", "PUT", f"{org}/memberships/{people.login('member')}", json={"role": "admin"})
    assert promote.json()["role"] == "admin"
    invited = people.ask("member", "PUT", f"{org}/memberships/{people.login('other')}", json={"role": "member"})
    assert (invited.status_code, invited.json()["state"]) == (200, "pending")
    assert len(people.read("other", "/user/memberships/orgs?state=pending")) == 1
    people.ask("owner", "PUT", f"{org}/memberships/{people.login('member')}", json={"role": "member"})
    assert people.read("other", "/user/memberships/orgs?state=pending") == []
    accepting = f"/user/memberships/orgs/{people.world.organization}"
    assert people.ask("other", "PATCH", accepting, json={"state": "active"}).status_code == 404


def test_ids_of_strangers_are_like_ids_of_nobody(people: People) -> None:
    org = people.world.org_path
    refusals = []
    for invitee_id in (people.profiles["other"]["id"], 2**40):
        refused = people.ask("owner", "POST", f"{org}/invitations", json={"invitee_id": invitee_id})
        assert refused.status_code == 422
        refusals.append(refused.json()["errors"])
    assert refusals[0] == refusals[1]
    assert people.read("owner", f"{org}/invitations") == []


def test_an_invitation_by_address_tells_nothing_of_accounts(people: People) -> None:
    org, known = people.world.org_path, people.profiles["other"]["email"]
    shapes = []
    for email in (known, "nobody-at-all@example.com"):
        made = people.ask("owner", "POST", f"{org}/invitations", json={"email": email})
        assert made.status_code == 201, made.text
        shapes.append({name: each for name, each in made.json().items() if name not in ("id", "node_id", "created_at",
                       "invitation_teams_url")})  # fmt: skip
    assert shapes[0] == {**shapes[1], "email": known}
    assert shapes[0]["login"] is None
    accepting = f"/user/memberships/orgs/{people.world.organization}"
    assert people.ask("third", "PATCH", accepting, json={"state": "active"}).status_code == 404
    assert people.ask("other", "PATCH", accepting, json={"state": "active"}).status_code == 200
    assert [each["email"] for each in people.read("owner", f"{org}/invitations")] == ["nobody-at-all@example.com"]
    inside = people.ask("owner", "POST", f"{org}/invitations", json={"email": people.profiles["member"]["email"]})
    assert inside.status_code == 422


def test_a_collaborator_is_invited_changed_and_taken_back(people: People) -> None:
    repo, login = people.world.repo_path, people.login("other")
    path = f"{repo}/collaborators/{login}"
    made = people.ask("owner", "PUT", path, json={"permission": "pull"})
    assert (made.status_code, made.json()["permissions"], made.json()["invitee"]) == (201, "read", None)
    assert (made.json()["login"], made.json()["inviter"]["login"]) == (login, people.world.owner)
    assert str(people.profiles["other"]["id"]) not in [str(made.json().get(name)) for name in ("invitee", "login")]
    one = f"{repo}/invitations/{made.json()['id']}"
    changed = people.ask("owner", "PATCH", one, json={"permissions": "admin"})
    assert (changed.status_code, changed.json()["permissions"]) == (200, "admin")
    assert [each["id"] for each in people.read("owner", f"{repo}/invitations")] == [made.json()["id"]]
    assert people.ask("other", "GET", repo).status_code == 404
    assert people.ask("owner", "DELETE", one).status_code == 204
    assert people.read("other", "/user/repository_invitations") == []
    assert people.ask("owner", "PUT", f"{repo}/collaborators/nobody-at-all").status_code == 404
    assert people.ask("owner", "PUT", path, json={"permission": "maintain"}).status_code == 422
    # A colleague needs no invitation; everybody leaves.
    inside = f"{repo}/collaborators/{people.login('member')}"
    assert people.ask("owner", "PUT", inside, json={"permission": "admin"}).status_code == 204
    assert people.ask("member", "DELETE", inside).status_code == 204


def test_a_colleague_of_another_organization_is_asked_before_an_owner_sees_the_address(people: People) -> None:
    """`third` is a mere member where `other` owns: `other` adds them to a project at once, the first owner does not."""
    accepting = f"/user/memberships/orgs/{people.second.organization}"
    path = f"{people.second.org_path}/memberships/{people.world.owner}"
    people.ask("other", "PUT", path, json={"role": "member"}).raise_for_status()
    people.ask("owner", "PATCH", accepting, json={"state": "active"}).raise_for_status()
    mine = f"{people.world.org_path}/memberships/{people.login('third')}"
    asked = people.ask("owner", "PUT", mine, json={})
    assert (asked.json()["state"], asked.json()["user"]["login"]) == ("pending", people.login("third"))
    beside = f"{people.world.repo_path}/collaborators/{people.login('third')}"
    assert people.ask("owner", "PUT", beside).status_code == 204


@pytest.mark.parametrize(("address", "status"), [("KATE@Example.com", 200), ("\N{KELVIN SIGN}ate@example.com", 404)])
def test_an_address_is_that_of_another_case_and_not_of_another_letter(
    people: People, address: str, status: int
) -> None:
    number, org = people.profiles["owner"]["id"], people.world.org_path

    async def add(services: Services) -> str:
        async with services.database.transaction() as tx:
            user = await actions.create_account(tx, "user", f"kate-{number}", name=None, email=address)
            return (await actions.issue_token(tx, user, list(SCOPES))).token

    people.tokens["kate"] = people.server.run(add)
    made = people.ask("owner", "POST", f"{org}/invitations", json={"email": "kate@example.com", "role": "admin"})
    assert made.status_code == 201
    path = f"/user/memberships{org}"
    assert people.ask("kate", "PATCH", path, json={"state": "active"}).status_code == status
