"""`/{owner}/people` and the invitations on `/`: who may view and change the people of an organization."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import httpx
import pytest

from tests.harness.server import Server
from tests.harness.world import World
from tests.web.browser import Browser, Person, add_person, forms
from tests.web.places_kit import add_in, age_sign_in, join, owner_of
from tests.web.studio import text_of
from workhook.http.calls import Services
from workhook.identity import actions, queries


@dataclass
class Crew:
    """An organization, and the browsers of people visiting its people page."""

    server: Server
    world: World
    closing: ExitStack
    owner: Person = field(init=False)

    def __post_init__(self) -> None:
        self.owner = owner_of(self.server, self.world)

    @property
    def path(self) -> str:
        return f"/{self.world.organization}/people"

    def browser(self, person: Person) -> Browser:
        return self.closing.enter_context(Browser.of(self.server, person.login))

    def add(self, place: str) -> Person:
        return add_in(self.server, self.world, place)

    def roles(self) -> dict[str, str]:
        with self.server.client(self.world.token) as api:
            found = {}
            for role in ("admin", "member"):
                for each in api.get(f"/orgs/{self.world.organization}/members", params={"role": role}).json():
                    found[each["login"]] = role
            return found


@pytest.fixture
def crew(server: Server) -> Iterator[Crew]:
    with ExitStack() as closing:
        yield Crew(server, server.world(), closing)


def after(browser: Browser, answer: httpx.Response) -> str:
    """Return the page that the change redirects to."""
    assert answer.status_code == 303, answer.text
    shown = browser.get(answer.headers["location"])
    assert shown.status_code == 200, shown.text
    return shown.text


def test_members_see_each_other_and_only_owners_can_change_people(crew: Crew) -> None:
    member = crew.add("member")
    owner, page = crew.browser(crew.owner), crew.browser(member).get(crew.path).text
    for login in (crew.owner.login, member.login):
        assert login in page
    assert f'action="{crew.path}"' not in page
    assert f"{crew.path}/{crew.owner.login}/remove" not in page
    assert f"{crew.path}/{member.login}/remove" in page, "anybody can leave"
    assert "Invitations" not in text_of(page)
    page = owner.get(crew.path).text
    assert f'action="{crew.path}/{member.login}/role"' in page
    assert "No pending invitations." in page
    assert f'href="{crew.path}"' in owner.get(f"/{crew.world.organization}").text


@pytest.mark.parametrize("place", ["read", "client", "nowhere"])
def test_non_members_cannot_open_the_page(crew: Crew, place: str) -> None:
    person = add_person(crew.server) if place == "nowhere" else crew.add(place)
    browser = crew.browser(person)
    assert browser.get(crew.path).status_code == 404
    assert browser.get(f"{crew.path}/{crew.owner.login}/remove").status_code == 404
    for action in ("", f"/{crew.owner.login}/role", f"/{crew.owner.login}/remove", "/invitations/1/cancel"):
        answer = browser.fill_csrf(crew.path + action, who=person.login, role="owner")
        assert answer.status_code == 404, action
    assert crew.roles() == {crew.owner.login: "admin"}


def test_a_member_cannot_change_people(crew: Crew) -> None:
    member, other = crew.add("member"), crew.add("member")
    browser = crew.browser(member)
    assert browser.get(f"{crew.path}/{other.login}/remove").status_code == 404
    for action in ("", f"/{member.login}/role", f"/{other.login}/remove", "/invitations/1/cancel"):
        answer = browser.fill_csrf(crew.path + action, who=add_person(crew.server).login, role="owner")
        assert answer.status_code == 403, action
    assert crew.roles() == {crew.owner.login: "admin", member.login: "member", other.login: "member"}


def test_an_invited_user_accepts_on_the_start_page(crew: Crew) -> None:
    person = add_person(crew.server)
    owner, browser = crew.browser(crew.owner), crew.browser(person)
    page = after(owner, owner.fill(crew.path, who=f" {person.login.upper()} ", role="owner"))
    assert f"{person.login} invited." in page
    assert "owner" in text_of(page).partition("Invitations")[2].partition("Revoke")[0]
    assert person.login not in crew.roles()
    shown = browser.get("/")
    assert "You’re invited" in shown.text
    assert "Invited by Octo" in shown.text
    assert browser.get(crew.path).status_code == 404, "it gives nothing until it is accepted"
    page = after(browser, browser.fill("/", f"/invitations/organizations/{crew.world.organization}/accept"))
    assert f"Welcome to {crew.world.organization}." in page
    assert crew.roles()[person.login] == "admin"
    assert "You’re invited" not in browser.get("/").text


def test_an_invitation_is_declined_or_revoked_and_restored(crew: Crew) -> None:
    person, stranger = add_person(crew.server), add_person(crew.server)
    owner, browser = crew.browser(crew.owner), crew.browser(person)
    owner.fill(crew.path, who=person.login)
    action = f"/invitations/organizations/{crew.world.organization}/decline"
    for each in (action, action.replace("decline", "accept")):
        assert crew.browser(stranger).fill_csrf(each).status_code == 404
    assert "Invitation declined." in after(browser, browser.fill("/", action))
    assert "No pending invitations." in owner.get(crew.path).text
    owner.fill(crew.path, who=person.email, role="owner")
    [form] = [each for each in forms(owner.get(crew.path)) if each.action.endswith("/cancel")]
    answer = owner.post(form.action, form.fields)
    shown = owner.get(answer.headers["location"])
    assert f"Invitation for {person.email} revoked." in shown.text
    assert "You’re invited" not in browser.get("/").text
    [undo] = [each for each in forms(shown) if "Undo" in each.buttons]
    assert owner.post(undo.action, undo.fields).status_code == 303
    assert "You’re invited" in browser.get("/").text
    assert "as an owner" in browser.get("/").text
    assert owner.post(form.action, form.fields).status_code == 404, "it has gone"


def test_an_invitation_is_revoked_only_in_its_organization(crew: Crew) -> None:
    person, other = add_person(crew.server), Crew(crew.server, crew.server.world(), crew.closing)
    owner = crew.browser(crew.owner)
    owner.fill(crew.path, who=person.login)
    [form] = [each for each in forms(owner.get(crew.path)) if each.action.endswith("/cancel")]
    theirs = form.action.replace(crew.path, other.path)
    assert other.browser(other.owner).fill_csrf(theirs).status_code == 404
    assert "You’re invited" in crew.browser(person).get("/").text


def test_errors_are_reported_and_input_is_kept(crew: Crew) -> None:
    member, owner = crew.add("member"), crew.browser(crew.owner)
    hostile = "<b>x</b>\u202e\U0001f419"
    for who, said in (
        (hostile, "No user has the login"),
        (crew.world.organization, "No user has the login"),
        ("", "No user has the login"),
        (member.login, "is already in Acme."),
        (member.email, "is already in the organization"),
        ("a b@c", "Enter a valid e-mail address"),
    ):
        answer = owner.fill(crew.path, who=who, role="owner")
        assert answer.status_code == 422, who
        assert said in text_of(answer.text), who
        assert "<b>x" not in answer.text
        assert '<option value="owner" selected>' in answer.text
    assert "&lt;b&gt;x" in owner.fill(crew.path, who=hostile).text
    assert crew.roles()[member.login] == "member"


def test_a_role_is_changed_and_the_change_undone(crew: Crew) -> None:
    member, owner = crew.add("member"), crew.browser(crew.owner)
    answer = owner.fill(crew.path, f"{crew.path}/{member.login}/role")
    shown = owner.get(answer.headers["location"])
    assert "Ada is now an owner." in shown.text
    assert crew.roles()[member.login] == "admin"
    [undo] = [each for each in forms(shown) if "Undo" in each.buttons]
    assert "Ada is no longer an owner." in after(owner, owner.post(undo.action, undo.fields))
    assert crew.roles()[member.login] == "member"
    assert owner.fill_csrf(f"{crew.path}/{member.login}/role", role="king").status_code == 404
    assert owner.fill_csrf(f"{crew.path}/{add_person(crew.server).login}/role", role="owner").status_code == 404


def test_the_last_owner_cannot_leave(crew: Crew) -> None:
    owner = crew.browser(crew.owner)
    refused = owner.fill(crew.path, f"{crew.path}/{crew.owner.login}/role")
    assert refused.status_code == 422
    assert f"{crew.owner.login} is the last owner of {crew.world.organization}" in text_of(refused.text)
    refused = owner.fill(f"{crew.path}/{crew.owner.login}/remove")
    assert refused.status_code == 422
    assert "is the last owner" in text_of(refused.text)
    assert crew.roles() == {crew.owner.login: "admin"}
    join(crew.server, crew.world, crew.add("member"), "owner")
    assert "You’ve left" in after(owner, owner.fill(f"{crew.path}/{crew.owner.login}/remove"))
    assert crew.owner.login not in text_of(owner.get("/").text)
    assert owner.get(crew.path).status_code == 404


def test_a_member_is_removed_or_leaves(crew: Crew) -> None:
    first, second = crew.add("member"), crew.add("member")
    owner, browser = crew.browser(crew.owner), crew.browser(second)
    page = after(owner, owner.fill(f"{crew.path}/{first.login}/remove"))
    assert "Ada removed." in page
    assert owner.get(f"{crew.path}/{first.login}/remove").status_code == 404
    assert "Leave Acme?" in browser.get(f"{crew.path}/{second.login}/remove").text
    assert "You’ve left" in after(browser, browser.fill(f"{crew.path}/{second.login}/remove"))
    assert crew.roles() == {crew.owner.login: "admin"}


def test_changing_people_needs_a_recent_sign_in(crew: Crew) -> None:
    member, person = crew.add("member"), add_person(crew.server)
    owner = crew.browser(crew.owner)
    owner.fill(crew.path, who=person.login)
    [invited] = [each.action for each in forms(owner.get(crew.path)) if each.action.endswith("/cancel")]
    age_sign_in(crew.server, crew.owner)
    answers = [
        owner.fill_csrf(crew.path, who=add_person(crew.server).login),
        owner.fill_csrf(f"{crew.path}/{member.login}/role", role="owner"),
        owner.fill_csrf(f"{crew.path}/{member.login}/remove"),
        owner.get(f"{crew.path}/{member.login}/remove"),
        owner.fill_csrf(invited),
    ]
    for each in answers:
        assert each.status_code == 303
        assert each.headers["location"].startswith(f"/login/confirm?return_to=%2F{crew.world.organization}%2Fpeople")
    assert crew.roles() == {crew.owner.login: "admin", member.login: "member"}
    page = owner.get(crew.path).text
    assert person.login in page
    assert 'id="who"' not in page, "nothing is typed in vain"
    assert f'href="/login/confirm?return_to={crew.path}"' in page


def test_people_are_paginated(crew: Crew) -> None:
    async def fill(services: Services) -> None:
        async with services.database.transaction() as tx:
            organization = await queries.find_account(tx, crew.world.organization)
            assert organization is not None
            for number in range(52):
                login = f"{crew.world.organization[:20]}-{number}".replace("--", "-")
                user = await actions.create_account(tx, "user", login, name="<i>" + "W" * 252, email=None)
                await actions.set_member(tx, organization, user, "member")

    crew.server.run(fill)
    owner = crew.browser(crew.owner)
    page = owner.get(crew.path).text
    assert (page.count('id="person-'), 'href="?page=2"' in page, "<i>" in page) == (50, True, False)
    page = owner.get(f"{crew.path}?page=2").text
    assert (page.count('id="person-'), 'href="?page=3"' in page) == (3, False)
    assert owner.get(f"{crew.path}?page=x").status_code == 422
