"""Invitations to organizations and repositories through the requests of GitHub's clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, add_user, make_world
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.policy import SCOPES
from workhook.identity.tables import accounts, invitations
from workhook.storage.metadata import insert_into


@dataclass
class People:
    """Tokens, logins and profiles of an owner and a member of one organization, and of an owner of another one."""

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
def test_an_invited_user_sees_the_pending_membership(people: People, by: str) -> None:
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
def test_an_invited_user_accepts_an_organization_invitation(people: People, prefix: str) -> None:
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
    # The user's colleagues did not join, and accepting again changes nothing.
    assert people.ask("third", "GET", org).status_code == 404
    assert people.ask("other", "PATCH", accepting, json={"state": "active"}).status_code == 200


def test_every_member_except_the_last_owner_can_leave(people: People) -> None:
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


def test_an_invitation_ends_when_the_inviter_loses_the_right_to_invite(people: People) -> None:
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


def test_ids_of_strangers_look_like_unknown_ids(people: People) -> None:
    org = people.world.org_path
    refusals = []
    for invitee_id in (people.profiles["other"]["id"], 2**40):
        refused = people.ask("owner", "POST", f"{org}/invitations", json={"invitee_id": invitee_id})
        assert refused.status_code == 422
        refusals.append(refused.json()["errors"])
    assert refusals[0] == refusals[1]
    assert people.read("owner", f"{org}/invitations") == []


def test_an_invitation_by_address_does_not_reveal_accounts(people: People) -> None:
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


def test_an_invitation_of_a_collaborator_can_be_changed_and_withdrawn(people: People) -> None:
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
    # A colleague needs no invitation, and every collaborator can leave.
    inside = f"{repo}/collaborators/{people.login('member')}"
    assert people.ask("owner", "PUT", inside, json={"permission": "admin"}).status_code == 204
    assert people.ask("member", "DELETE", inside).status_code == 204


def test_a_colleague_from_another_organization_must_accept_before_an_owner_sees_the_address(people: People) -> None:
    """`third` is an ordinary member of the organization `other` owns.

    `other` adds them to a project at once; the first organization's owner can only invite them.
    """
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
def test_addresses_ignore_the_case_but_not_similar_letters(people: People, address: str, status: int) -> None:
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


# --- the end of invitations ------------------------------------------------------------------------------------------
# An invitation ends when its inviter loses the right to invite, when the invited user leaves, when it is declined, and
# when it expires. An ended invitation never becomes valid again.


__all__ = ["people"]

OWN = "/user/memberships/orgs"


@pytest.fixture
def overlapping(people: People) -> People:
    """Return `people` with `member` as an owner of both organizations and `stranger` in neither."""
    theirs = f"{people.second.org_path}/memberships/{people.login('member')}"
    assert people.ask("other", "PUT", theirs, json={"role": "admin"}).json()["state"] == "pending"
    accepted = people.ask("member", "PATCH", f"{OWN}/{people.second.organization}", json={"state": "active"})
    assert accepted.json()["role"] == "admin"
    set_member(people, "admin")
    people.tokens["stranger"] = people.server.run(partial(add_user, world=people.world))
    people.profiles["stranger"] = people.read("stranger", "/user")
    return people


def run(people: People, statement: Any, **params: object) -> None:
    async def work(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(statement, params)

    people.server.run(work)


def set_member(people: People, role: str) -> None:
    path = f"{people.world.org_path}/memberships/{people.login('member')}"
    people.ask("owner", "PUT", path, json={"role": role}).raise_for_status()


def set_admin(people: People, permission: str) -> None:
    path = f"{people.world.repo_path}/collaborators/{people.login('member')}"
    people.ask("owner", "PUT", path, json={"permission": permission}).raise_for_status()


def invite(people: People, by: str = "member", *, second: bool = False, who: str = "stranger") -> None:
    """Invite a user to an organization and to its project."""
    world = people.second if second else people.world
    login = people.login(who)
    assert people.ask(by, "PUT", f"{world.org_path}/memberships/{login}", json={}).json()["state"] == "pending"
    assert people.ask(by, "PUT", f"{world.repo_path}/collaborators/{login}").status_code == 201


def waiting(people: People, who: str = "stranger") -> list[str]:
    """Return the organizations and repositories that the user has pending invitations to."""
    organizations = [each["organization"]["login"] for each in people.read(who, f"{OWN}?state=pending")]
    return organizations + [
        each["repository"]["full_name"] for each in people.read(who, "/user/repository_invitations")
    ]


def listed(people: People, by: str = "owner") -> int:
    places = (people.world.org_path, people.world.repo_path)
    return sum(len(people.read(by, f"{place}/invitations")) for place in places)


def audited(people: People, action: str) -> list[dict[str, Any]]:
    found = people.read("owner", f"{people.world.org_path}/audit-log?phrase=action:{action}&order=asc")
    assert isinstance(found, list)
    return found


# --- the inviter loses the right to invite ---------------------------------------------------------------------------


def _member_path(people: People, kind: str = "memberships") -> str:
    return f"{people.world.org_path}/{kind}/{people.login('member')}"


def _collaborator_path(people: People) -> str:
    return f"{people.world.repo_path}/collaborators/{people.login('member')}"


OWNER_LOSES: dict[str, Callable[[People], object]] = {
    "lowered": lambda people: set_member(people, "member"),
    "removed": lambda people: people.ask("owner", "DELETE", _member_path(people)).raise_for_status(),
    "removed as member": lambda people: people.ask("owner", "DELETE", _member_path(people, "members")),
    "leaves": lambda people: people.ask("member", "DELETE", _member_path(people)).raise_for_status(),
}


@pytest.mark.parametrize("how", OWNER_LOSES)
def test_an_owners_invitations_do_not_return_with_the_role(overlapping: People, how: str) -> None:
    people = overlapping
    invite(people)
    invite(people, second=True)
    invite(people, "owner", who="third")
    elsewhere = [people.second.organization, people.second.full_name]
    OWNER_LOSES[how](people)
    assert waiting(people) == elsewhere
    set_member(people, "admin")
    people.ask("member", "PATCH", f"{OWN}/{people.world.organization}", json={"state": "active"})
    assert people.read("member", f"{people.world.org_path}/memberships/{people.login('member')}")["role"] == "admin"
    assert waiting(people) == elsewhere
    assert waiting(people, "third") == [people.world.organization, people.world.full_name], "another owner's stay"
    assert listed(people) == 2
    accepting = f"{OWN}/{people.world.organization}"
    assert people.ask("stranger", "PATCH", accepting, json={"state": "active"}).status_code == 404
    ended = [each for each in audited(people, "invitation.delete") if each["data"].get("reason") == "right_lost"]
    assert len(ended) == 2


def _leave_project(people: People) -> object:
    return people.ask("member", "DELETE", _collaborator_path(people)).raise_for_status()


ADMIN_LOSES: dict[str, Callable[[People], object]] = {
    "lowered": lambda people: set_admin(people, "push"),
    "removed": lambda people: people.ask("owner", "DELETE", _collaborator_path(people)).raise_for_status(),
    "leaves": _leave_project,
}


@pytest.mark.parametrize("how", ADMIN_LOSES)
def test_an_admins_invitations_do_not_return_with_the_role(overlapping: People, how: str) -> None:
    people = overlapping
    set_member(people, "member")
    set_admin(people, "admin")
    set_member(people, "admin")  # only owners invite strangers; the invitation then depends on the admin role alone
    path = f"{people.world.repo_path}/collaborators/{people.login('stranger')}"
    assert people.ask("member", "PUT", path).status_code == 201
    set_member(people, "member")
    invite(people, second=True)
    ADMIN_LOSES[how](people)
    set_admin(people, "admin")
    assert waiting(people) == [people.second.organization, people.second.full_name]
    assert listed(people) == 0


def test_an_invitation_remains_while_one_sufficient_role_remains(overlapping: People) -> None:
    """The inviter is an owner and an admin; either role suffices for the project."""
    people = overlapping
    set_member(people, "member")
    set_admin(people, "admin")
    set_member(people, "admin")
    invite(people)
    set_member(people, "member")
    assert waiting(people) == [people.world.full_name]
    set_member(people, "admin")
    assert waiting(people) == [people.world.full_name]
    assert people.ask("owner", "DELETE", _collaborator_path(people)).status_code == 204
    assert waiting(people) == [people.world.full_name], "an owner may invite to it as well"
    set_member(people, "member")
    assert waiting(people) == []
    set_member(people, "admin")
    assert waiting(people) == []


def test_invitations_to_a_deleted_project_do_not_return_with_it(overlapping: People) -> None:
    people = overlapping
    invite(people)
    invite(people, second=True)
    project = f"/api/v1/projects/{people.world.project_id}"
    assert people.ask("owner", "DELETE", project).status_code == 200
    assert people.ask("owner", "POST", f"{project}/restore").status_code == 200
    elsewhere = [people.second.organization, people.second.full_name]
    assert sorted(waiting(people)) == sorted([people.world.organization, *elsewhere])


# --- the invited user leaves -----------------------------------------------------------------------------------------


def test_removing_a_member_ends_their_other_invitations(overlapping: People) -> None:
    """`stranger` joins by login while an invitation by e-mail and one to the project are pending as well."""
    people = overlapping
    invite(people)
    invite(people, second=True)
    email = {"email": people.profiles["stranger"]["email"]}
    for org in (people.world.org_path, people.second.org_path):
        assert people.ask("member", "POST", f"{org}/invitations", json=email).status_code == 201
    accepting = f"{OWN}/{people.world.organization}"
    assert people.ask("stranger", "PATCH", accepting, json={"state": "active"}).json()["state"] == "active"
    beyond = [people.second.organization] * 2 + [people.second.full_name]
    assert sorted(waiting(people)) == sorted([people.world.full_name, *beyond]), (
        "users are not invited to places they belong to"
    )
    path = f"{people.world.org_path}/members/{people.login('stranger')}"
    assert people.ask("owner", "DELETE", path).status_code == 204
    assert sorted(waiting(people)) == sorted(beyond)
    assert listed(people) == 0
    assert people.ask("stranger", "PATCH", accepting, json={"state": "active"}).status_code == 404


def test_removing_a_member_ends_invitations_to_an_address_acquired_later(overlapping: People) -> None:
    """The address was invited before the user had it."""
    people = overlapping
    email = f"new-{people.login('third')}@example.com"
    assert people.ask("owner", "POST", f"{people.world.org_path}/invitations", json={"email": email}).status_code == 201
    login = people.login("third")
    assert people.ask("member", "PUT", f"{people.world.org_path}/memberships/{login}").json()["state"] == "active"
    change = sa.update(accounts).where(accounts.c.login == sa.bindparam("of")).values(email=sa.bindparam("address"))
    run(people, change, of=login, address=email)
    assert people.ask("owner", "DELETE", f"{people.world.org_path}/memberships/{login}").status_code == 204
    assert listed(people) == 0


# --- declining -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/api/v3"], ids=["root", "prefix"])
@pytest.mark.parametrize("by", ["login", "e-mail", "both"])
def test_an_organization_invitation_can_be_declined(overlapping: People, by: str, prefix: str) -> None:
    people = overlapping
    org, login = f"{prefix}{people.world.org_path}", people.login("stranger")
    mine = f"{org}/memberships/{login.upper()}"
    assert people.ask("stranger", "DELETE", mine).status_code == 404
    for path in (people.world.org_path, people.second.org_path):
        if by != "e-mail":
            people.ask("owner" if path == people.world.org_path else "other", "PUT", f"{path}/memberships/{login}")
        if by != "login":
            body = {"email": people.profiles["stranger"]["email"]}
            people.ask("member", "POST", f"{path}/invitations", json=body).raise_for_status()
    number = 2 if by == "both" else 1
    assert people.ask("stranger", "DELETE", f"{org}/members/{login}").status_code == 404, "not yet a member"
    assert people.ask("third", "DELETE", mine).status_code == 404
    assert people.ask("stranger", "DELETE", f"{org}/memberships/{people.world.owner}").status_code == 404
    assert people.ask("stranger", "DELETE", f"{org}/memberships/no-such").status_code == 404
    declined = people.ask("stranger", "DELETE", mine)
    assert (declined.status_code, declined.content) == (204, b"")
    assert waiting(people) == [people.second.organization] * number
    assert listed(people) == 0
    assert people.ask("stranger", "DELETE", mine).status_code == 404
    accepting = f"{OWN}/{people.world.organization}"
    assert people.ask("stranger", "PATCH", accepting, json={"state": "active"}).status_code == 404
    entries = audited(people, "invitation.delete")
    assert [each["actor"] for each in entries] == [login] * number
    told = {"login": {login}, "e-mail": {"(by e-mail)"}, "both": {login, "(by e-mail)"}}[by]
    assert {each["target"] for each in entries} == told


def test_an_owner_cannot_learn_whose_address_was_invited(overlapping: People) -> None:
    """Otherwise an owner could find out by withdrawing an invitation that the login never received."""
    people = overlapping
    body = {"email": people.profiles["stranger"]["email"]}
    people.ask("owner", "POST", f"{people.world.org_path}/invitations", json=body).raise_for_status()
    path = f"{people.world.org_path}/memberships/{people.login('stranger')}"
    assert people.ask("owner", "DELETE", path).status_code == 404
    assert listed(people) == 1


def test_a_token_without_the_scope_declines_nothing(overlapping: People) -> None:
    people = overlapping
    invite(people)
    made = people.ask("stranger", "POST", "/user/tokens", json={"scopes": ["repo", "work"]}).json()
    people.tokens["narrow"] = made["token"]
    path = f"{people.world.org_path}/memberships/{people.login('stranger')}"
    refused = people.ask("narrow", "DELETE", path)
    assert (refused.status_code, "admin:org" in refused.json()["message"]) == (403, True)
    assert listed(people) == 2


# --- expiration ------------------------------------------------------------------------------------------------------

_expire = sa.update(invitations).values(expires_at=sa.bindparam("at", type_=sa.BigInteger))


def _expired(people: People) -> int:
    """Expire all invitations, and return the ID of the one to the project."""
    number: int = people.read("owner", f"{people.world.repo_path}/invitations")[0]["id"]
    run(people, _expire, at=now_ms() - 1)
    return number


def test_an_expired_invitation_is_not_listed_and_cannot_be_accepted(overlapping: People) -> None:
    people = overlapping
    invite(people)
    org, repo, login = people.world.org_path, people.world.repo_path, people.login("stranger")
    number_there = people.read("owner", f"{org}/invitations")[0]["id"]
    number = _expired(people)
    assert (waiting(people), listed(people)) == ([], 0)
    assert people.ask("owner", "GET", f"{org}/memberships/{login}").status_code == 404
    refused = [
        people.ask("stranger", "PATCH", f"{OWN}/{people.world.organization}", json={"state": "active"}),
        people.ask("stranger", "DELETE", f"{org}/memberships/{login}"),
        people.ask("stranger", "PATCH", f"/user/repository_invitations/{number}"),
        people.ask("stranger", "DELETE", f"/user/repository_invitations/{number}"),
        people.ask("owner", "PATCH", f"{repo}/invitations/{number}", json={"permissions": "admin"}),
        people.ask("owner", "DELETE", f"{repo}/invitations/{number}"),
        people.ask("owner", "DELETE", f"{org}/invitations/{number_there}"),
    ]
    assert [each.status_code for each in refused] == [404] * len(refused)
    assert people.ask("stranger", "GET", org).status_code == 404


def test_an_expired_invitation_is_renewed_by_inviting_again(overlapping: People) -> None:
    people = overlapping
    invite(people)
    number = _expired(people)
    invite(people, "owner")
    assert waiting(people) == [people.world.organization, people.world.full_name]
    assert people.ask("stranger", "PATCH", f"/user/repository_invitations/{number}").status_code == 204
    # The other owner is now the inviter, so they no longer depend on the role of `member`.
    set_member(people, "member")
    assert waiting(people) == [people.world.organization]


def test_an_invitation_by_address_is_for_the_user_who_has_it_on_acceptance(overlapping: People) -> None:
    people = overlapping
    email = str(people.profiles["stranger"]["email"])
    people.ask("owner", "POST", f"{people.world.org_path}/invitations", json={"email": email}).raise_for_status()
    assert waiting(people) == [people.world.organization]
    change = sa.update(accounts).where(accounts.c.login == sa.bindparam("of")).values(email=sa.bindparam("address"))
    run(people, change, of=people.login("stranger"), address=f"other-{email}")
    until(lambda: waiting(people) == [])  # the token's account is cached for a moment
    accepting = f"{OWN}/{people.world.organization}"
    assert people.ask("stranger", "PATCH", accepting, json={"state": "active"}).status_code == 404
    run(people, change, of=people.login("third"), address=email)
    until(lambda: waiting(people, "third") == [people.world.organization])
    assert people.ask("third", "PATCH", accepting, json={"state": "active"}).status_code == 200


# --- concurrency -----------------------------------------------------------------------------------------------------


def test_concurrent_acceptances_take_effect_once(overlapping: People) -> None:
    """Two processes accept. For an organization, the second one finds that the user is already a member."""
    people = overlapping
    invite(people)
    number = people.read("owner", f"{people.world.repo_path}/invitations")[0]["id"]
    asked: list[tuple[str, dict[str, Any]]] = [
        (f"/user/repository_invitations/{number}", {}),
        (f"{OWN}/{people.world.organization}", {"json": {"state": "active"}}),
    ]
    second = Server(people.server.data, people.server.settings).start()
    try:
        token = people.tokens["stranger"]
        with people.server.client(token) as one, second.client(token) as two, ThreadPoolExecutor(2) as threads:
            answers = [sorted(_at_once(threads, (one, two), path, more)) for path, more in asked]
    finally:
        second.close()
    assert answers == [[204, 404], [200, 200]]
    assert [each["actor"] for each in audited(people, "member.add")][-2:] == [people.login("stranger")] * 2
    assert waiting(people) == []


def _at_once(
    threads: ThreadPoolExecutor, clients: tuple[httpx.Client, ...], path: str, more: dict[str, Any]
) -> list[int]:
    asking = [threads.submit(each.patch, path, **more) for each in clients]
    return [each.result().status_code for each in asking]


# --- limits ----------------------------------------------------------------------------------------------------------


def test_the_number_of_pending_invitations_is_limited(overlapping: People) -> None:
    people = overlapping
    run_fill(people, 999)
    org, repo, login = people.world.org_path, people.world.repo_path, people.login("stranger")
    invite(people)
    for path, body, field in (
        (f"{org}/invitations", {"email": "one-more@example.com"}, "email"),
        (f"{org}/memberships/{people.login('third')}", {}, "username"),
        (f"{repo}/collaborators/{people.login('third')}", {}, "username"),
    ):
        refused = people.ask("owner", "POST" if field == "email" else "PUT", path, json=body)
        assert refused.status_code == 422, refused.text
        [fault] = refused.json()["errors"]
        assert fault["field"] == field
        assert "1,000 pending invitations" in fault["message"]
        assert "Revoke some" in fault["message"]
    members = f"/api/v1/projects/{people.world.project_id}/members"
    refused = people.ask("owner", "POST", members, json={"username": people.login("third")})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "username")
    invite(people)  # repeated: renewed
    invite(people, second=True)  # the other organization has its own limit
    # Withdrawing one or letting one expire makes room again.
    assert people.ask("owner", "DELETE", f"{org}/memberships/{login}").status_code == 204
    made = people.ask("owner", "POST", f"{org}/invitations", json={"email": "one-more@example.com"})
    assert made.status_code == 201
    assert people.ask("owner", "POST", f"{org}/invitations", json={"email": "more@example.com"}).status_code == 422
    run(people, _expire.where(invitations.c.email == "w1@example.com"), at=now_ms() - 1)
    assert people.ask("owner", "POST", f"{org}/invitations", json={"email": "more@example.com"}).status_code == 201


def run_fill(people: People, number: int) -> None:
    """Insert `number` invitations by e-mail to the organization and, though the API does not offer it, to its
    project."""

    async def work(services: Services) -> None:
        async with services.database.transaction() as tx:
            repository = await queries.find_repository(tx, people.world.organization, people.world.repository)
            inviter = await queries.find_account(tx, people.world.owner)
            assert repository is not None
            assert inviter is not None
            now = now_ms()
            common = {
                "account_id": repository.owner.id, "inviter_id": inviter.id, "role": "member", "created_at": now,
                "expires_at": now + DAY_MS,
            }  # fmt: skip
            rows = [
                {**common, "repository_id": repository_id, "place": place, "email": f"w{each}@example.com",
                 "invitee": f"ew{each}@example.com"}
                for repository_id, place in ((None, f"o{repository.owner.id}"), (repository.id, f"r{repository.id}"))
                for each in range(number)
            ]  # fmt: skip
            await tx.execute_many(insert_into(invitations, *rows[0]), rows)

    people.server.run(work)
