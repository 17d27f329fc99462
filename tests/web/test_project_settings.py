"""`/{owner}/{project}/settings`: the changes available to project admins, hidden from everyone else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.harness.server import Server
from tests.web.browser import Browser, Person, add_person, forms
from tests.web.places_kit import add_in, age_sign_in, join
from tests.web.studio import Studio, open_studio, page_of, send, text_of, undo
from workhook.http.calls import Services
from workhook.identity import actions, queries

HOSTILE = "<b>Bold</b> \u202egnp.exe \U0001f419 " + "W" * 200


class Office:
    """A studio, the address of its settings, and browsers of other people."""

    def __init__(self, server: Server, studio: Studio, closing: ExitStack) -> None:
        self.server, self.studio, self._closing = server, studio, closing
        self.path = f"{studio.base}/settings"

    def browser(self, person: Person) -> Browser:
        return self._closing.enter_context(Browser.of(self.server, person.login))

    def add(self, place: str) -> Person:
        return add_in(self.server, self.studio.team.world, place)

    def roles(self) -> dict[str, str]:
        path = f"{self.studio.team.world.repo_path}/collaborators"
        found = self.studio.api.get(path, params={"affiliation": "direct"}).json()
        return {each["login"]: each["role_name"] for each in found}

    def clients(self) -> dict[str, str]:
        found = self.studio.call("GET", f"{self.studio.project}/clients")["clients"]
        return {each["username"]: each["id"] for each in found}


@pytest.fixture
def office(server: Server) -> Iterator[Office]:
    with ExitStack() as closing:
        yield Office(server, closing.enter_context(open_studio(server)), closing)


def after(browser: Browser, answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    shown = browser.get(answer.headers["location"])
    assert shown.status_code == 200, shown.text
    return shown.text


def test_only_admins_can_open_the_settings(server: Server, office: Office) -> None:
    studio, reader = office.studio, office.browser(office.add("read"))
    assert f'href="{office.path}"' in page_of(studio.owner, f"{studio.base}/list")
    assert f'href="{office.path}"' in page_of(office.browser(office.add("admin")), office.path)
    with open_studio(server) as other:
        for browser, status in ((studio.member, 403), (reader, 403), (studio.client, 404), (other.owner, 404)):
            assert browser.get(office.path).status_code == status
            if browser is not other.owner:
                assert f'href="{office.path}"' not in page_of(browser, f"{studio.base}/list")
            for action in ("", "/labels", "/archive", "/delete", "/people", "/people/x/role", "/people/x/remove",
                           "/clients", "/clients/x/remove", "/invitations/1/cancel"):  # fmt: skip
                answer = send(browser, office.path + action, title="Mine", name="website", archive="1", role="admin")
                assert answer.status_code == status, action
    found = studio.call("GET", studio.project)["project"]
    assert (found["title"], found["archive"]) == ("Website", False)


def test_title_address_and_visibility_are_changed(office: Office) -> None:
    owner, studio = office.studio.owner, office.studio
    answer = owner.fill(office.path, title=f"  {HOSTILE} ", name="site", private="on")
    assert answer.headers["location"] == f"/{studio.team.world.organization}/site/settings"
    page = after(owner, answer)
    assert "The project was saved." in page
    assert "<b>Bold" not in page
    found = studio.call("GET", studio.project)["project"]
    assert (found["title"], found["name"], found["private"]) == (HOSTILE.strip(), "site", True)
    assert studio.member.get(answer.headers["location"]).status_code == 404
    assert owner.get(office.path).status_code == 404
    form = owner.form(answer.headers["location"])
    del form.fields["private"]
    owner.post(form.action, form.fields)
    assert studio.call("GET", studio.project)["project"]["private"] is False


def test_label_colors_are_set_and_removed(office: Office) -> None:
    owner, studio = office.studio.owner, office.studio
    studio.add_task(studio.add_column("Doing"), "A card", labels=["Urgent"])
    assert '<option value="Urgent">' in page_of(owner, office.path)
    for label, color in (("Urgent", "red"), (f" {HOSTILE} ", "sky"), ("Urgent", "pink")):
        page = after(owner, send(owner, f"{office.path}/labels", label=label, color=color))
        assert "The label colors were saved." in page
    assert "<b>Bold" not in page
    assert '<span class="chip hue-11" dir="auto">Urgent</span>' in page
    assert studio.call("GET", studio.project)["project"]["label_colors"] == {"Urgent": "pink", HOSTILE: "sky"}
    for label, color in (("", "red"), ("Urgent", "plaid"), ("x" * 256, "red")):
        refused = send(owner, f"{office.path}/labels", label=label, color=color)
        assert (refused.status_code, 'id="problems"' in refused.text) == (422, True), label
    after(owner, send(owner, f"{office.path}/labels", label="Urgent"))
    assert studio.call("GET", studio.project)["project"]["label_colors"] == {HOSTILE: "sky"}


def test_errors_are_shown_in_the_form(office: Office) -> None:
    owner, studio = office.studio.owner, office.studio
    studio.call("POST", "/projects", title="Other", name="other")
    for fields, said in (
        ({"title": " ", "name": "website"}, "Title must have 1 to 255 characters"),
        ({"title": "New", "name": "people"}, "is reserved for a page of the server"),
        ({"title": "New", "name": "a b"}, "The address must have 1 to"),
        ({"title": "New", "name": "other"}, "The address other is taken"),
    ):
        answer = owner.fill(office.path, **fields)
        assert answer.status_code == 422, fields
        assert said in text_of(answer.text).partition("People with direct access")[0]
        assert f'value="{fields["title"].strip() or " "}"' in answer.text, "what was typed is kept"
    assert studio.call("GET", studio.project)["project"]["title"] == "Website"


def test_an_archived_project_is_read_only_until_unarchived(office: Office) -> None:
    owner, studio = office.studio.owner, office.studio
    answer = owner.fill(office.path, f"{office.path}/archive")
    assert studio.call("GET", studio.project)["project"]["archive"] is True
    page = owner.get(office.path).text
    assert f'action="{office.path}"' not in page
    assert f'action="{office.path}/clients/invite"' not in page
    assert send(owner, office.path, title="Other", name="website").status_code == 422
    assert send(owner, f"{office.path}/clients/invite", email="a@example.com").status_code == 422
    assert undo(owner, owner.fill(office.path, f"{office.path}/archive")).status_code == 303
    assert studio.call("GET", studio.project)["project"]["archive"] is True, "unarchived, and that undone"
    assert send(owner, f"{office.path}/archive", archive="1").status_code == 303, "it is already"
    assert answer.headers["location"] == office.path


def test_a_project_is_deleted_by_typing_its_title_and_restored(office: Office) -> None:
    owner, studio = office.studio.owner, office.studio
    for typed in ("", "Websites", "websit"):
        answer = owner.fill(f"{office.path}/delete", name=typed)
        assert answer.status_code == 422, typed
        assert "Nothing was deleted." in text_of(answer.text)
    assert studio.call("GET", studio.project)["project"]["title"] == "Website"
    asked = text_of(owner.get(f"{office.path}/delete").text)
    assert "type the project’s title: Website" in asked
    assert "Or type its address: website" in asked
    answer = owner.fill(f"{office.path}/delete", name=" Website ")
    assert answer.headers["location"] == f"/{studio.team.world.organization}"
    assert owner.get(studio.base).status_code == 404
    restore = f"/{studio.team.world.organization}/-{studio.project}/restore"
    assert send(studio.member, restore).status_code == 404
    assert send(studio.client, restore).status_code == 404
    back = undo(owner, answer)
    assert back.headers["location"] == studio.base
    assert "The project was restored." in after(owner, back)


def test_an_outside_admin_deletes_the_project_and_undoes_it(office: Office) -> None:
    browser = office.browser(office.add("admin"))
    answer = browser.fill(f"{office.path}/delete", name="website")
    assert answer.headers["location"] == "/"
    assert undo(browser, answer).headers["location"] == office.studio.base


def test_people_are_added_changed_and_removed(office: Office) -> None:
    owner, studio, person = office.studio.owner, office.studio, office.studio.team.member
    assert after(owner, owner.fill(office.path, f"{office.path}/people", who=person.login, role="read"))
    assert person.login in office.roles()
    stranger = add_person(office.server, name=HOSTILE[:255])
    page = after(owner, owner.fill(office.path, f"{office.path}/people", who=stranger.login, role="read"))
    assert f"{stranger.login} invited." in page
    assert stranger.login not in office.roles()
    browser = office.browser(stranger)
    shown = browser.get("/")
    assert "You’re invited" in shown.text
    assert "with read access" in shown.text
    [accept] = [each.action for each in forms(shown) if each.action.endswith("/accept")]
    assert "You’ve joined the project." in after(browser, browser.fill("/", accept))
    assert office.roles()[stranger.login] == "read"
    page = after(owner, send(owner, f"{office.path}/people/{stranger.login}/role", role="admin"))
    assert f"The role of {stranger.login} was changed." in page
    assert "<b>Bold" not in page
    assert office.roles()[stranger.login] == "admin"
    assert "Leave Website?" in browser.get(f"{office.path}/people/{stranger.login}/remove").text
    page = after(owner, owner.fill(f"{office.path}/people/{stranger.login}/remove"))
    assert f"{stranger.login} removed." in page
    assert browser.get(studio.base).status_code == 404
    assert owner.get(f"{office.path}/people/{stranger.login}/remove").status_code == 404
    assert send(owner, f"{office.path}/people/{stranger.login}/remove").status_code == 404
    assert send(owner, f"{office.path}/people/{stranger.login}/role", role="read").status_code == 404


def test_an_admin_who_gives_up_the_role_leaves_the_settings(office: Office) -> None:
    person = office.add("admin")
    browser = office.browser(person)
    assert send(browser, f"{office.path}/people/{person.login}/role", role="read").headers["location"] == "/"
    assert browser.get(office.path).status_code == 403


def test_an_owner_does_not_need_to_be_added(office: Office) -> None:
    owner, login = office.studio.owner, office.studio.team.owner.login
    page = after(owner, owner.fill(office.path, f"{office.path}/people", who=login, role="read"))
    assert "already has full access" in page
    assert office.roles() == {}
    person = office.add("write")
    join(office.server, office.studio.team.world, person, "owner")
    page = after(owner, send(owner, f"{office.path}/people/{person.login}/role", role="read"))
    assert f"{person.login} is an owner of the organization" in page
    assert office.roles() == {person.login: "admin"}


def test_an_unknown_user_cannot_be_added(office: Office) -> None:
    owner = office.studio.owner
    for who in (HOSTILE, "", office.studio.team.world.organization):
        answer = owner.fill(office.path, f"{office.path}/people", who=who, role="admin")
        assert answer.status_code == 422
        assert "No user has the login" in text_of(answer.text)
        assert "<b>Bold" not in answer.text
    assert send(owner, f"{office.path}/people", who=office.studio.team.member.login, role="king").status_code == 404


def test_an_invitation_is_declined_or_revoked(office: Office) -> None:
    owner, person = office.studio.owner, add_person(office.server)
    browser = office.browser(person)

    def invitation(*, end: str) -> str:
        [found] = [each.action for each in forms(browser.get("/")) if each.action.endswith(end)]
        return found

    owner.fill(office.path, f"{office.path}/people", who=person.login)
    assert "Invitation declined." in after(browser, browser.fill("/", invitation(end="/decline")))
    owner.fill(office.path, f"{office.path}/people", who=person.login)
    accept = invitation(end="/accept")
    assert send(office.browser(add_person(office.server)), accept).status_code == 404
    [cancel] = [each.action for each in forms(owner.get(office.path)) if each.action.endswith("/cancel")]
    with open_studio(office.server) as other:
        assert send(other.owner, cancel.replace(office.path, f"{other.base}/settings")).status_code == 404
    answer = owner.fill(office.path, cancel)
    assert send(browser, accept).status_code == 404
    undo(owner, answer)
    assert invitation(end="/accept")


def test_a_truncated_list_says_so(office: Office) -> None:
    async def fill(services: Services) -> None:
        async with services.database.transaction() as tx:
            here = await queries.find_repository(tx, office.studio.team.world.organization, "website")
            assert here is not None
            for number in range(101):
                user = await actions.create_account(tx, "user", f"p{number}-{here.id}", name=None, email=None)
                await actions.set_collaborator(tx, here, user, "read")

    office.server.run(fill)
    page = text_of(page_of(office.studio.owner, office.path))
    assert page.count("Showing the first 100.") == 1


def test_clients_are_invited_and_removed(office: Office) -> None:
    owner, studio = office.studio.owner, office.studio
    known = add_person(office.server)
    page = text_of(owner.get(office.path).text)
    assert page.count("E-mail isn’t set up on this server. “Invite by link” creates") == 2, "for people and clients"
    page = after(owner, owner.fill(office.path, f"{office.path}/clients/invite", email=known.email))
    assert f"{known.email} invited." in page
    browser = office.browser(known)
    assert browser.get(studio.base).status_code == 404
    accept = re.search(r'action="(/invitations/projects/\d+/accept)"', browser.get("/").text)
    assert accept is not None
    assert browser.fill("/", accept[1]).status_code == 303
    assert browser.get(studio.base).status_code == 200
    client = office.clients()[known.login]
    answer = owner.fill(office.path, f"{office.path}/clients/{client}/remove")
    assert browser.get(studio.base).status_code == 404
    undo(owner, answer)
    assert browser.get(studio.base).status_code == 200
    assert len(office.clients()) == 2
    answer = owner.fill(office.path, f"{office.path}/clients/invite", email="nobody")
    assert answer.status_code == 422
    assert "Enter a valid e-mail address" in text_of(answer.text)
    assert 'value="nobody"' in answer.text


def test_a_personal_project_cannot_invite_by_address(office: Office) -> None:
    person = add_person(office.server)
    browser = office.browser(person)

    async def issue(services: Services) -> str:
        async with services.database.transaction() as tx:
            user = await queries.find_account(tx, person.login)
            assert user is not None
            return (await actions.issue_token(tx, user, ["work"])).token

    with office.server.client(office.server.run(issue)) as api:
        made = api.post("/api/v1/projects", json={"title": "Mine"}).raise_for_status().json()["project"]
    path = f"/{made['full_name']}/settings"
    page = browser.get(path).text
    assert "Only projects of an organization can have clients." in text_of(page)
    assert f'action="{path}/clients/invite"' not in page
    for login in (office.studio.team.owner.login, "nobody-at-all"):
        answer = send(browser, f"{path}/people", who=login, role="write")
        assert answer.status_code == 422
        assert f"No user has the login “{login}”." in text_of(answer.text)
    assert send(browser, f"{path}/people", who="a@b.example", role="write").status_code == 403
    assert send(browser, f"{path}/clients/invite", email="a@b.example").status_code == 403


def test_a_client_is_removed_only_from_their_own_project(office: Office) -> None:
    studio = office.studio
    [client] = office.clients().values()
    title = "Second"
    second = studio.call("POST", "/projects", title=title)["project"]
    assert send(studio.owner, f"/{second['full_name']}/settings/clients/{client}/remove").status_code == 404
    assert list(office.clients().values()) == [client]


def test_sensitive_changes_need_a_recent_sign_in(office: Office) -> None:
    owner, team = office.studio.owner, office.studio.team
    [client] = office.clients().values()
    age_sign_in(office.server, team.owner)
    before = office.roles()
    answers = [
        send(owner, f"{office.path}/people", who=team.member.login, role="admin"),
        send(owner, f"{office.path}/clients", email="new@example.com"),
        send(owner, f"{office.path}/clients/{client}/remove"),
        send(owner, f"{office.path}/delete", name="website"),
        owner.get(f"{office.path}/delete"),
    ]
    assert {each.headers["location"].partition("?")[0] for each in answers} == {"/login/confirm"}
    assert (office.roles(), list(office.clients().values())) == (before, [client])
    page = owner.get(office.path).text
    assert 'id="who"' not in page, "nothing is typed in vain"
    assert f'href="/login/confirm?return_to={office.path}"' in page
