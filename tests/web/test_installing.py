"""The page on which an owner installs an app: its content, its permissions, and where it redirects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

import httpx
import pytest

from tests.harness.apps import Registered, install, make_app, new_repository
from tests.harness.server import Server
from tests.harness.world import World, add_user
from tests.web.browser import PASSWORD, Browser, Form, add_person, forms
from tests.web.places_kit import age_sign_in, owner_of
from tests.web.test_problem_pages import is_page
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.apps.actions import edit_app
from workhook.identity.apps.app_schemas import AppEdit
from workhook.identity.apps.queries import find_app
from workhook.identity.signin import sessions
from workhook.web.signin.installing import LISTED_MAX

pytestmark = pytest.mark.one_database

CALLBACK = "https://client.example/setup?from=workhook"
SEES_TASKS = "View, create, edit, and delete projects, tasks, files"
OWNERS_ALONE = "Only an owner of an organization can install an app there."


class Ground:
    """Two worlds with an owner each, and a public app of the first that is installed nowhere."""

    def __init__(self, server: Server) -> None:
        self.server, self.here, self.there = server, server.world(), server.world()
        self.open: list[Browser] = []
        self.app = make_app(server, self.here, installed=False, public=True)
        self.owner = self.browser(self.there.owner)

    @property
    def path(self) -> str:
        return f"/apps/{self.app.slug}/installations/new"

    def browser(self, login: str) -> Browser:
        """Return a browser in which the user is signed in."""

        async def start(services: Services) -> str:
            async with services.database.transaction() as tx:
                user = await queries.find_account(tx, login)
                assert user is not None
                return (await sessions.start(tx, user, address="127.0.0.1", user_agent="test"))[1]

        browser = Browser(self.server)
        browser.client.cookies.set("workhook_session", self.server.run(start))
        self.open.append(browser)
        return browser

    def edit(self, app: Registered, **change: Any) -> None:
        async def run(services: Services) -> None:
            async with services.database.transaction() as tx:
                found = await find_app(tx, app.id)
                assert found is not None
                await edit_app(tx, None, found, AppEdit(**change))

        self.server.run(run)

    def join(self, world: World, login: str, role: Any) -> int:
        """Add the user to the world's organization and return the organization's number."""

        async def run(services: Services) -> int:
            async with services.database.transaction() as tx:
                place, user = [await queries.find_account(tx, each) for each in (world.organization, login)]
                assert place is not None
                assert user is not None
                await actions.set_member(tx, place, user, role)
                return place.id

        return int(self.server.run(run))

    def installations(self, world: World) -> list[dict[str, Any]]:
        with self.server.client(world.token) as client:
            answer = client.get(f"{world.org_path}/installations").raise_for_status()
            found: list[dict[str, Any]] = answer.json()["installations"]
            return found


@pytest.fixture
def ground(server: Server) -> Iterator[Ground]:
    ground = Ground(server)
    yield ground
    for each in ground.open:
        each.client.close()


def form_of(answer: httpx.Response, path: str) -> Form:
    assert answer.status_code in (200, 422), answer.text
    [found] = [each for each in forms(answer) if each.action == path]
    return found


def fields_of(ground: Ground, query: str = "") -> dict[str, str]:
    """Return the hidden fields, without anything that the user has yet to choose."""
    form = form_of(ground.owner.get(ground.path + query), ground.path)
    names = ("csrf", "asked", "target_id", "state")
    return {name: value for name, value in form.fields.items() if name in names}


def send(ground: Ground, fields: dict[str, str], **more: str) -> httpx.Response:
    return ground.owner.post(ground.path, {**fields, "decision": "install", **more})


def test_an_app_is_installed_for_all_projects(ground: Ground) -> None:
    shown = ground.owner.get(ground.path)
    for told in (ground.here.organization, ground.there.organization, SEES_TASKS, "the organization’s webhooks"):
        assert told in shown.text
    assert "form-action 'self';" in shown.headers["content-security-policy"]
    assert ground.installations(ground.there) == []
    answer = send(ground, fields_of(ground), selection="all")
    assert answer.status_code == 200
    assert "is installed</h1>" in answer.text
    [made] = ground.installations(ground.there)
    back = f"/{ground.there.organization}/settings/installations/{made['id']}"
    assert f'href="{back}"' in answer.text
    assert ground.owner.get(back).status_code == 200
    assert (made["app_slug"], made["repository_selection"], made["permissions"]) == (
        ground.app.slug,
        "all",
        made["app_permissions"],
    )
    assert ground.installations(ground.here) == []
    again = ground.owner.get(ground.path)
    assert f"Already installed on <strong>Acme ({ground.there.organization})</strong>." in again.text
    with ground.server.client(ground.there.token) as client:
        entries = client.get(f"{ground.there.org_path}/audit-log?phrase=action:installation.create").json()
    assert [(each["actor"], each["action"]) for each in entries] == [(ground.there.owner, "installation.create")]


def test_an_app_is_installed_for_selected_projects(ground: Ground) -> None:
    ids = {name: new_repository(ground.server, ground.there, name)[0] for name in ("shop", "blog")}
    fields = fields_of(ground)
    for nothing in ({}, {"selection": "selected"}, {"selection": "none"}, {"selection": "all "}):
        answer = send(ground, fields, **nothing)
        assert answer.status_code == 422
        assert "Choose all projects or select at least one." in answer.text
        assert "<title>Error: " in answer.text
    foreign, _ = new_repository(ground.server, ground.here, "foreign")
    answer = send(ground, fields, **{"selection": "selected", f"repository-{foreign}": "on"})
    assert answer.status_code == 422
    assert f"has no project with the ID {foreign}" in answer.text
    answer = send(ground, fields, **{"selection": "selected", f"repository-{ids['shop']}": "on", "others": "nope shop"})
    assert answer.status_code == 422
    assert "has no project nope." in answer.text
    assert f'name="repository-{ids["shop"]}" value="on" checked' in answer.text  # the selection is kept
    assert ground.installations(ground.there) == []
    # Selecting projects implies "Only these".
    chosen = {f"repository-{ids['shop']}": "on", "others": "Blog,website"}
    assert send(ground, fields, **chosen).status_code == 200
    [made] = ground.installations(ground.there)
    website = {made["repository_ids"][index] for index in range(3)} - set(ids.values())
    assert (made["repository_selection"], len(website)) == ("selected", 1)


def test_projects_beyond_the_listed_ones_are_entered_by_name(ground: Ground) -> None:
    assert "others" not in form_of(ground.owner.get(ground.path), ground.path).fields
    for number in range(LISTED_MAX):
        new_repository(ground.server, ground.there, f"more-{number}")
    form = form_of(ground.owner.get(ground.path), ground.path)
    assert "others" in form.fields
    assert len([name for name in form.boxes if name.startswith("repository-")]) == LISTED_MAX
    answer = send(ground, fields_of(ground), selection="selected", others=f"more-{LISTED_MAX - 1}")
    assert answer.status_code == 200
    assert len(ground.installations(ground.there)[0]["repository_ids"]) == 1


def test_installing_redirects_to_the_setup_address_of_the_app(ground: Ground) -> None:
    ground.edit(ground.app, callback_urls=(CALLBACK, "https://client.example/other"))
    shown = ground.owner.get(f"{ground.path}?state=a%20b%26c")
    assert "form-action 'self' https://client.example;" in shown.headers["content-security-policy"]
    assert "https://client.example/setup" in shown.text
    answer = send(ground, fields_of(ground, "?state=a%20b%26c"), selection="all")
    assert answer.status_code == 302
    assert (answer.headers["cache-control"], answer.headers["referrer-policy"]) == ("no-store", "no-referrer")
    leads_to = urlsplit(answer.headers["location"])
    assert f"{leads_to.scheme}://{leads_to.netloc}{leads_to.path}" == "https://client.example/setup"
    [made] = ground.installations(ground.there)
    assert parse_qs(leads_to.query) == {
        "from": ["workhook"],
        "installation_id": [str(made["id"])],
        "setup_action": ["install"],
        "state": ["a b&c"],
    }


def test_signing_in_returns_to_the_page(server: Server) -> None:
    person, world = add_person(server), server.world()
    ground = Ground(server)
    ground.join(world, person.login, "owner")
    with Browser(server) as browser:
        for path in (ground.path, f"{ground.path}?state=x", f"{ground.path}/permissions"):
            answer = browser.get(path)
            assert answer.status_code == 303
            assert dict(parse_qsl(urlsplit(answer.headers["location"]).query)) == {"return_to": path}
        # The answer must not reveal which apps exist.
        assert browser.get("/apps/no-such/installations/new").status_code == 303
        signing_in = browser.get(browser.get(f"{ground.path}?state=x").headers["location"])
        [form] = forms(signing_in)
        done = browser.post(form.action, {**form.fields, "login": person.login, "password": PASSWORD})
        assert (done.status_code, done.headers["location"]) == (303, f"{ground.path}?state=x")
        assert world.organization in browser.get(done.headers["location"]).text
        is_page(browser.post(ground.path, {"decision": "install"}), 403, "Access denied")
    for each in ground.open:
        each.client.close()


def test_installing_needs_the_owner_role(ground: Ground) -> None:
    number = int(fields_of(ground)["target_id"])
    token = ground.server.run(partial(add_user, world=ground.there, member="member"))
    with ground.server.client(token) as client:
        member = ground.browser(client.get("/user").json()["login"])
    for browser, world in ((member, ground.there), (ground.browser(add_person(ground.server).login), ground.there)):
        shown = browser.get(ground.path)
        assert shown.status_code == 200
        assert "You don’t own an organization where this app can be installed." in shown.text
        assert f"{ground.path}?target_id" not in shown.text
        csrf = forms(shown)[0].fields["csrf"]
        for target in (str(number), "0", "", "x", "9" * 400, "²"):
            fields = {"csrf": csrf, "target_id": target, "selection": "all", "decision": "install", "asked": "x"}
            answer = browser.post(ground.path, fields)
            is_page(answer, 403, "Access denied")
            assert OWNERS_ALONE in answer.text
        assert ground.installations(world) == []
    # An owner of one organization cannot install the app on another one by changing the address or the form.
    elsewhere = ground.join(ground.here, ground.there.owner, "member")
    form = form_of(ground.owner.get(f"{ground.path}?target_id={elsewhere}"), ground.path)
    assert form.fields["target_id"] == str(number)
    answer = send(ground, fields_of(ground), target_id=str(elsewhere), selection="all")
    is_page(answer, 403, "Access denied")
    assert ground.installations(ground.here) == []
    # A user who was an owner only when the page was opened cannot install it either.
    fields = fields_of(ground)
    ground.join(ground.there, ground.here.owner, "owner")
    ground.join(ground.there, ground.there.owner, "member")
    is_page(send(ground, fields, selection="all"), 403, "Access denied")
    ground.join(ground.there, ground.there.owner, "owner")
    assert ground.installations(ground.there) == []


def test_an_owner_of_several_organizations_selects_one(ground: Ground) -> None:
    third = ground.server.world()
    numbers = {each.organization: ground.join(each, ground.there.owner, "owner") for each in (ground.here, third)}
    shown = ground.owner.get(f"{ground.path}?state=x%26y")
    for number in numbers.values():
        assert f"{ground.path}?target_id={number}&amp;state=x%26y" in shown.text
    assert f'action="{ground.path}"' not in shown.text
    for name in ("target_id", "suggested_target_id"):
        query = f"?{name}={numbers[third.organization]}&state=x%26y"
        for path in (ground.path + query, f"{ground.path}/permissions{query}"):
            form = form_of(ground.owner.get(path), ground.path)
            assert (form.fields["target_id"], form.fields["state"]) == (str(numbers[third.organization]), "x&y")
    # Not an own organization, so the list appears.
    assert "<form" in ground.owner.get(f"{ground.path}?target_id=1").text
    install(ground.server, ground.app, third)
    shown = ground.owner.get(f"{ground.path}?target_id={numbers[third.organization]}")
    assert f"Already installed on <strong>Acme ({third.organization})</strong>." in shown.text
    fields = fields_of(ground, f"?target_id={numbers[ground.here.organization]}")
    answer = send(ground, fields, target_id=str(numbers[third.organization]), selection="all")
    assert "This page has changed" in answer.text  # the form was opened for another organization
    assert len(ground.installations(third)) == 1


def test_the_second_of_two_installations_is_refused(ground: Ground) -> None:
    fields = fields_of(ground)
    assert send(ground, fields, selection="all").status_code == 200
    answer = send(ground, fields, selection="all")
    assert answer.status_code == 422
    assert f"{ground.app.slug} is already installed on this organization" in answer.text


def test_permissions_added_after_opening_the_page_are_not_granted(ground: Ground) -> None:
    ground.edit(ground.app, permissions={"work": "read"})
    fields = fields_of(ground)
    ground.edit(ground.app, permissions={"work": "write", "organization_hooks": "write"})
    answer = send(ground, fields, selection="all")
    assert answer.status_code == 200
    assert "This page has changed" in answer.text
    assert SEES_TASKS in answer.text
    assert ground.installations(ground.there) == []
    assert send(ground, fields_of(ground), selection="all").status_code == 200


def test_another_app_with_the_same_name_is_not_installed(ground: Ground) -> None:
    """Another app with the same permissions has taken over the name in the meantime."""
    fields, slug = fields_of(ground), ground.app.slug
    ground.edit(ground.app, name=f"Renamed {slug}")
    other = make_app(ground.server, ground.server.world(), installed=False, public=True)
    ground.edit(other, name=slug)
    answer = send(ground, fields, selection="all")
    assert (answer.status_code, ground.installations(ground.there)) == (200, [])
    assert "This page has changed" in answer.text


@pytest.mark.parametrize(
    "spoil",
    [
        lambda fields: {**fields, "csrf": "x"},
        lambda fields: {name: value for name, value in fields.items() if name != "csrf"},
    ],
    ids=["wrong", "missing"],
)
def test_forged_forms_are_refused(ground: Ground, spoil: Callable[[dict[str, str]], dict[str, str]]) -> None:
    is_page(send(ground, spoil(fields_of(ground)), selection="all"), 403, "Access denied")
    cross = {**fields_of(ground), "decision": "install", "selection": "all"}
    is_page(ground.owner.post(ground.path, cross, Sec_Fetch_Site="cross-site"), 403, "Access denied")
    assert ground.installations(ground.there) == []


def test_canceling_installs_nothing(ground: Ground) -> None:
    ground.edit(ground.app, callback_urls=(CALLBACK,))
    for decision in ({"decision": "cancel"}, {"decision": ""}):
        answer = ground.owner.post(ground.path, {**fields_of(ground), "selection": "all", **decision})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert ground.installations(ground.there) == []


def test_unavailable_apps_are_not_found(ground: Ground) -> None:
    private = make_app(ground.server, ground.here, installed=False)
    with ground.server.client(ground.here.token) as client:
        body = {"name": f"Reader {private.id}", "callback_urls": ["http://127.0.0.1/back"]}
        oauth = client.post(f"{ground.here.org_path}/oauth-apps", json=body).json()["slug"]
    csrf = fields_of(ground)["csrf"]
    for slug in ("no-such", private.slug, oauth, "%00", "a%20b"):
        path = f"/apps/{slug}/installations/new"
        if slug != "%00":
            is_page(ground.owner.get(path), 404, "Page not found")
        assert ground.owner.get(path).status_code in (400, 404)
        answer = ground.owner.post(path, {"csrf": csrf, "decision": "install", "selection": "all"})
        assert answer.status_code in (400, 404)
    # The app's own organization can install it.
    ours = ground.browser(ground.here.owner)
    path = f"/apps/{private.slug}/installations/new"
    assert form_of(ours.get(path), path).fields["target_id"]
    ground.join(ground.there, ground.here.owner, "owner")
    # A private app can be installed only on its own organization.
    assert ground.there.organization not in ours.get(path).text


def test_the_address_of_an_app_redirects_browsers_to_the_page(ground: Ground) -> None:
    path = f"/apps/{ground.app.slug}"
    answer = ground.owner.get(path)
    assert (answer.status_code, answer.headers["location"], answer.headers["vary"]) == (303, ground.path, "Accept")
    evil = ground.owner.get("/apps/%0d%0aSet-Cookie:a=b%3f")
    assert "set-cookie" not in evil.headers
    for accept in ("application/json", "*/*"):
        told = ground.owner.get(path, headers={"Accept": accept})
        assert (told.status_code, told.json()["slug"]) == (200, ground.app.slug)
    assert ground.owner.get(f"/api/v3{path}").json()["html_url"].endswith(path)


def test_installing_needs_a_recent_sign_in(ground: Ground) -> None:
    fields = fields_of(ground, "?state=s")
    age_sign_in(ground.server, owner_of(ground.server, ground.there))
    asked = ground.owner.get(f"{ground.path}?state=s").headers["location"]
    assert asked == f"/login/confirm?return_to={quote(f'{ground.path}?state=s', safe='')}"
    sent = send(ground, fields, selection="all")
    assert sent.status_code == 303
    back = parse_qs(urlsplit(sent.headers["location"]).query)["return_to"]
    assert back == [f"{ground.path}?target_id={fields['target_id']}&state=s"]
    assert ground.installations(ground.there) == []
