"""`/{owner}/settings` and `/{owner}/-/trash`: an organization's name, apps, installations and deleted projects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.harness.apps import make_app, new_repository
from tests.harness.server import Server
from tests.harness.world import World
from tests.web.browser import Browser, Person, add_person, forms
from tests.web.places_kit import add_in, age_sign_in, owner_of
from tests.web.studio import HOSTILE, text_of, undo
from workhook.http.calls import Services
from workhook.identity.apps.actions import edit_app
from workhook.identity.apps.app_schemas import AppEdit
from workhook.identity.apps.credentials import authenticate_client
from workhook.identity.apps.queries import find_app

CALLBACK = "https://client.example/callback"
_SECRET = re.compile(r'id="client-secret">([0-9a-f]{40})<')
_PEM = re.compile(r"-----BEGIN RSA PRIVATE KEY-----.+?-----END RSA PRIVATE KEY-----", re.DOTALL)
PUBLIC_KEY = """-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA
-----END PUBLIC KEY-----"""


@dataclass
class House:
    """An organization, and the browsers of its owner and of others."""

    server: Server
    world: World
    closing: ExitStack
    owner: Browser = field(init=False)
    person: Person = field(init=False)

    def __post_init__(self) -> None:
        self.person = owner_of(self.server, self.world)
        self.owner = self.browser(self.person)

    @property
    def path(self) -> str:
        return f"/{self.world.organization}/settings"

    def browser(self, person: Person) -> Browser:
        return self.closing.enter_context(Browser.of(self.server, person.login))

    def api(self, path: str) -> Any:
        with self.server.client(self.world.token) as client:
            answer = client.get(f"{self.world.org_path}{path}")
            assert answer.status_code == 200, answer.text
            return answer.json()

    def name(self, what: str) -> str:
        """Return an app name that no other test uses."""
        return f"{what} {self.person.id}"

    def is_good(self, client_id: str, secret: str) -> bool:
        async def check(services: Services) -> bool:
            return await authenticate_client(services.database, client_id, secret) is not None

        return bool(self.server.run(check))


@pytest.fixture
def house(server: Server) -> Iterator[House]:
    with ExitStack() as closing:
        yield House(server, server.world(), closing)


def after(browser: Browser, answer: httpx.Response) -> str:
    """Return the text of the page that a change redirects to, including its message."""
    assert answer.status_code == 303, answer.text
    shown = browser.get(answer.headers["location"])
    assert shown.status_code == 200, shown.text
    return text_of(shown.text[: shown.text.index("</main>")] + "</main>") + " " + _note(shown.text)


def _note(page: str) -> str:
    return page.partition('id="toasts"')[2]


PAGES = (
    "", "/oauth-apps", "/new-oauth-app", "/apps", "/new-app", "/installations", "/export",
)  # fmt: skip
FORMS = ("", "/new-oauth-app", "/new-app", "/installations", "/export")


@pytest.mark.parametrize(("place", "status"), [("member", 403), ("read", 404), ("client", 404), ("nowhere", 404)])
def test_access_without_the_owner_role_is_refused_as_in_the_api(house: House, place: str, status: int) -> None:
    app = make_app(house.server, house.world)
    [oauth] = [_register(house, "oauth-apps", house.name("For nobody"))]
    person = add_person(house.server) if place == "nowhere" else add_in(house.server, house.world, place)
    browser = house.browser(person)
    below = [f"/oauth-apps/{oauth['client_id']}", f"/apps/{app.slug}", f"/installations/{app.installation_id}"]
    asked = [*below, below[0] + "/delete", below[1] + "/delete", below[2] + "/uninstall"]
    for path in (*PAGES, *asked):
        assert browser.get(house.path + path).status_code == status, path
    parts = ("", "/secrets", "/secrets/1/delete", "/revoke-tokens", "/delete")
    sent = [each + part for each in below[:2] for part in parts]
    sent += [below[1] + "/keys", below[1] + "/keys/1/delete"]
    sent += [below[2] + part for part in ("/repositories", "/permissions", "/suspended", "/uninstall")]
    for path in (*FORMS, *sent):
        assert browser.fill_csrf(house.path + path, name=app.slug).status_code == status, path
    if place != "nowhere":
        assert f'href="{house.path}' not in browser.get(f"/{house.world.organization}").text
    assert len(house.api("/oauth-apps")) == len(house.api("/apps")) == len(house.api("/installations")) - 1 == 1


def _register(house: House, part: str, name: str, **more: Any) -> Any:
    with house.server.client(house.world.token) as client:
        answer = client.post(f"{house.world.org_path}/{part}", json={"name": name, "callback_urls": [CALLBACK], **more})
        assert answer.status_code == 201, answer.text
        return answer.json()


def test_the_pages_need_a_recent_sign_in(house: House) -> None:
    app = make_app(house.server, house.world)
    page = f"{house.path}/apps/{app.slug}"
    age_sign_in(house.server, house.person)
    for path in (*(house.path + each for each in PAGES), page, page + "/delete"):
        answer = house.owner.get(path)
        assert answer.status_code == 303, path
        assert answer.headers["location"] == f"/login/confirm?return_to={path.replace('/', '%2F')}"
    for path, back in (
        (f"{page}/secrets", page),
        (f"{page}/keys", page),
        (f"{page}/delete", page),
        (f"{house.path}/new-app", f"{house.path}/new-app"),
        (house.path, house.path),
    ):
        answer = house.owner.fill_csrf(path, name=house.name("Late"))
        assert answer.headers["location"] == f"/login/confirm?return_to={back.replace('/', '%2F')}", path
    assert len(house.api(f"/apps/{app.slug}")["secrets"]) == 1


def test_the_name_is_changed(house: House) -> None:
    assert f'href="{house.path}"' in house.owner.get(f"/{house.world.organization}").text
    assert "Organization saved." in after(house.owner, house.owner.fill(house.path, name=HOSTILE))
    shown = house.owner.get(house.path).text
    assert "<img" not in shown.partition("<main")[2]
    assert HOSTILE in text_of(shown)
    assert house.api("")["name"] == HOSTILE
    refused = house.owner.fill(house.path, name="x" * 256)
    assert (refused.status_code, "x" * 256 in refused.text) == (422, True)
    house.owner.fill(house.path, name="")
    assert house.api("")["name"] is None
    assert house.world.organization in text_of(house.owner.get(house.path).text)


def test_an_oauth_app_is_created_changed_and_deleted(house: House) -> None:
    name, path = house.name("Reports"), f"{house.path}/oauth-apps"
    assert "No OAuth apps yet." in house.owner.get(path).text
    made = house.owner.fill(
        f"{house.path}/new-oauth-app", name=f" {name} ", callback_urls=f"{CALLBACK}\r\n\r\n {CALLBACK}/2 ",
        homepage_url="https://client.example", description="It\r\ncounts.", device_flow="on",
    )  # fmt: skip
    assert made.status_code == 201, made.text
    assert made.headers["cache-control"] == "no-store"
    assert "content-encoding" not in made.headers, "how long it is compressed tells of a secret"
    [secret] = _SECRET.findall(made.text)
    [app] = house.api("/oauth-apps")
    assert (app["name"], app["callback_urls"], app["device_flow"]) == (name, [CALLBACK, f"{CALLBACK}/2"], True)
    assert (app["homepage_url"], app["description"]) == ("https://client.example", "It\ncounts.")
    assert house.is_good(app["client_id"], secret)
    page = f"{path}/{app['client_id']}"
    for each in (path, page):
        shown = house.owner.get(each).text
        assert name in shown
        assert secret not in shown, "it is shown this once"
    assert secret[-8:] in house.owner.get(page).text
    answer = house.owner.fill(page, page, name=f"{name} 2", homepage_url="", description="")
    assert "App saved." in after(house.owner, answer)
    changed = house.api(f"/oauth-apps/{app['client_id']}")
    assert (changed["name"], changed["homepage_url"], changed["description"]) == (f"{name} 2", None, None)
    refused = house.owner.fill(f"{page}/delete", name=name)
    assert (refused.status_code, "That isn’t the app’s name." in refused.text) == (422, True)
    assert "was deleted." in after(house.owner, house.owner.fill(f"{page}/delete", name=f"{name} 2"))
    assert house.api("/oauth-apps") == []
    assert house.owner.get(page).status_code == 404


def test_secrets_are_rotated_without_interruption(house: House) -> None:
    app = _register(house, "oauth-apps", house.name("Rotating"))
    page = f"{house.path}/oauth-apps/{app['client_id']}"
    made = house.owner.fill(page, f"{page}/secrets")
    [second] = _SECRET.findall(made.text)
    assert house.is_good(app["client_id"], app["client_secret"])
    assert house.is_good(app["client_id"], second)
    refused = house.owner.fill_csrf(f"{page}/secrets")
    assert (refused.status_code, "An app can have at most 2 secrets" in refused.text) == (422, True)
    assert f'action="{page}/secrets"' not in house.owner.get(page).text
    first = next(each.action for each in forms(house.owner.get(page)) if each.action.startswith(f"{page}/secrets/"))
    assert "Client secret deleted." in after(house.owner, house.owner.fill(page, first))
    assert not house.is_good(app["client_id"], app["client_secret"])
    assert house.is_good(app["client_id"], second)
    assert house.owner.fill_csrf(first).status_code == 404
    assert "All of the app’s tokens were revoked." in after(
        house.owner, house.owner.fill(page, f"{page}/revoke-tokens")
    )


def test_errors_are_shown_next_to_their_fields_and_input_is_kept(house: House) -> None:
    taken = _register(house, "apps", house.name("Taken"))
    path = f"{house.path}/new-app"
    for fields, where in (
        ({"name": ""}, "name"),
        ({"name": HOSTILE[:34]}, ""),
        ({"name": "\U0001f419"}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": taken["name"]}, "name"),
        ({"name": "x" * 255}, "name"),
        ({"homepage_url": "javascript:alert(1)"}, "homepage_url"),
        ({"callback_urls": "https://ok.example\nhttp://client.example"}, "callback_urls"),
        ({"callback_urls": "\n".join(f"https://{n}.example" for n in range(11))}, "callback_urls"),
        ({"description": "x" * 1001}, "description"),
        ({"permission.work": "everything"}, ""),
        ({"public_key": PUBLIC_KEY}, "public_key"),
        ({"public_key": PUBLIC_KEY.replace("PUBLIC", "PRIVATE")}, "public_key"),
    ):
        given = {"name": house.name("Typed"), "homepage_url": "https://kept.example", "public": "on", **fields}
        answer = house.owner.fill(path, **given)
        if not where and answer.status_code == 201:  # unusual but valid as a name
            assert "<img" not in answer.text.partition("<main")[2]
            continue
        assert answer.status_code == 422, fields
        if where:
            assert f'id="{where}-fault"' in answer.text, (fields, text_of(answer.text))
        shown = next(each for each in forms(answer) if each.action == path)
        assert shown.fields["homepage_url"] == given["homepage_url"]
        assert shown.fields["public"] == "on"
        assert "PRIVATE KEY" not in answer.text
    page = f"{house.path}/apps/{taken['slug']}"
    refused = house.owner.fill(page, page, name="", homepage_url="ftp://x.example")
    assert refused.status_code == 422
    assert 'id="name-fault"' in refused.text
    assert "ftp://x.example" in refused.text
    assert house.api(f"/apps/{taken['slug']}")["name"] == taken["name"]


def test_an_app_is_created_with_a_key_that_is_shown_once(house: House) -> None:
    name = house.name("Keeper")
    made = house.owner.fill(f"{house.path}/new-app", **{"name": name, "permission.work": "read", "public": "on"})
    assert made.status_code == 201, made.text
    [pem] = _PEM.findall(made.text)
    assert _SECRET.search(made.text)
    [app] = house.api("/apps")
    assert (app["name"], app["public"]) == (name, True)
    assert {key: level for key, level in app["permissions"].items() if level in ("read", "write")} == {"work": "read"}
    page = f"{house.path}/apps/{app['slug']}"
    shown = house.owner.get(page).text
    assert pem not in shown
    assert f"/apps/{app['slug']}/installations/new" in shown
    assert "The last key can’t be deleted." in shown
    [first] = house.api(f"/apps/{app['slug']}/keys")
    refused = house.owner.fill_csrf(f"{page}/keys/{first['id']}/delete")
    assert (refused.status_code, "last key" in refused.text) == (422, True)
    second = house.owner.fill_csrf(f"{page}/keys", public_key="")
    assert second.status_code == 201
    assert _PEM.findall(second.text) != [pem]
    assert not _SECRET.search(second.text)
    refused = house.owner.fill_csrf(f"{page}/keys", public_key=first["public_key"])
    assert (refused.status_code, "already has this key" in refused.text) == (422, True)
    assert first["public_key"].split("\n")[1] in refused.text, "what was typed is kept"
    gone = house.owner.fill(page, f"{page}/keys/{first['id']}/delete")
    assert "Key deleted." in after(house.owner, gone)
    again = house.owner.fill_csrf(f"{page}/keys", public_key=first["public_key"].replace("\n", "\r\n"))
    assert "Key added." in after(house.owner, again)
    assert house.owner.fill_csrf(f"{page}/keys/{first['id']}/delete").status_code == 404


def test_apps_of_other_organizations_are_not_found(house: House) -> None:
    other = House(house.server, house.server.world(), house.closing)
    app, oauth = make_app(house.server, other.world), _register(other, "oauth-apps", other.name("Theirs"))
    for path in (f"/apps/{app.slug}", f"/oauth-apps/{oauth['client_id']}", f"/installations/{app.installation_id}"):
        assert house.owner.get(house.path + path).status_code == 404
    for path in (f"/apps/{app.slug}/delete", f"/apps/{app.slug}/keys", f"/apps/{app.slug}/secrets",
                 f"/oauth-apps/{oauth['client_id']}", f"/installations/{app.installation_id}/uninstall",
                 f"/apps/{oauth['slug']}", f"/oauth-apps/{app.client_id}"):  # fmt: skip
        assert house.owner.fill_csrf(house.path + path, name=app.slug).status_code == 404, path
    for name in (app.slug, oauth["slug"], oauth["client_id"], "no-such", HOSTILE, ""):
        refused = house.owner.fill(f"{house.path}/installations", app=name)
        assert (refused.status_code, "No app with this name" in refused.text) == (422, True), name
        assert HOSTILE not in refused.text
    assert len(other.api("/installations")["installations"]) == 1


def test_an_app_is_installed_suspended_and_uninstalled(house: House) -> None:
    app = make_app(house.server, house.world, installed=False)
    path = f"{house.path}/installations"
    assert "No apps installed." in house.owner.get(path).text
    begun = house.owner.fill(path, app=f" https://any.example/apps/{app.slug}/installations/new ")
    assert begun.status_code == 303
    where = begun.headers["location"]
    assert where.startswith(f"/apps/{app.slug}/installations/new?target_id=")
    form = house.owner.form(where, where.partition("?")[0])
    answer = house.owner.post(form.action, {**form.fields, "selection": "all", "decision": "install"})
    assert answer.status_code == 200, answer.text
    [made] = house.api("/installations")["installations"]
    page = f"{path}/{made['id']}"
    assert f'href="{page}"' in house.owner.get(path).text
    assert f'href="{page}"' in house.owner.get(f"{house.path}/apps/{app.slug}").text
    assert "Work: read and write" in text_of(house.owner.get(page).text)
    suspended = house.owner.fill(page, f"{page}/suspended")
    assert house.api(f"/installations/{made['id']}")["suspended_at"] is not None
    undo(house.owner, suspended)
    assert house.api(f"/installations/{made['id']}")["suspended_at"] is None
    assert "uninstalled." in after(house.owner, house.owner.fill(f"{page}/uninstall", remove_webhooks="on"))
    assert house.api("/installations")["installations"] == []
    assert house.owner.get(page).status_code == 404


def test_the_projects_of_an_installation_are_selected(house: House) -> None:
    second, _ = new_repository(house.server, house.world, "Second")
    app = make_app(house.server, house.world)
    page = f"{house.path}/installations/{app.installation_id}"
    answer = house.owner.fill(page, f"{page}/repositories", **{"selection": "selected", f"repository-{second}": "on"})
    assert "Project access saved." in after(house.owner, answer)
    assert house.api(f"/installations/{app.installation_id}")["repository_ids"] == [second]
    for fields in ({"selection": "selected"}, {"selection": ""}, {"selection": "selected", "others": HOSTILE},
                   {"selection": "selected", "repository-999999999": "on"}):  # fmt: skip
        refused = house.owner.fill_csrf(f"{page}/repositories", **fields)
        assert refused.status_code == 422, fields
        assert "<img" not in refused.text.partition("<main")[2]
    house.owner.fill(page, f"{page}/repositories", selection="all")
    assert house.api(f"/installations/{app.installation_id}")["repository_ids"] is None


def test_added_permissions_are_approved_only_as_displayed(house: House) -> None:
    app = make_app(house.server, house.world, permissions={"work": "read"})
    page = f"{house.path}/installations/{app.installation_id}"
    assert f"{page}/permissions" not in house.owner.get(page).text
    _ask_for(house, app.id, {"work": "write"})
    assert "requests more permissions" in text_of(house.owner.get(f"{house.path}/installations").text)
    form = house.owner.form(page, f"{page}/permissions")
    _ask_for(house, app.id, {"work": "write", "organization_hooks": "write"})
    refused = house.owner.post(form.action, form.fields)
    assert (refused.status_code, "The requested permissions have changed" in refused.text) == (422, True)
    assert "Permissions approved." in after(house.owner, house.owner.fill(page, form.action))
    granted = house.api(f"/installations/{app.installation_id}")["permissions"]
    assert (granted["work"], granted["organization_hooks"]) == ("write", "write")
    assert f"{page}/permissions" not in house.owner.get(page).text


def _ask_for(house: House, app_id: int, permissions: dict[str, Any]) -> None:
    async def run(services: Services) -> None:
        async with services.database.transaction() as tx:
            app = await find_app(tx, app_id)
            assert app is not None
            await edit_app(tx, None, app, AppEdit(permissions=permissions))

    house.server.run(run)


def test_deleted_projects_are_restored_by_owners_only(house: House) -> None:
    member, outside = add_in(house.server, house.world, "member"), add_person(house.server)
    _, project = new_repository(house.server, house.world, "Gone")
    with house.server.client(house.world.token) as client:
        client.patch(f"/api/v1/projects/{project}", json={"title": HOSTILE}).raise_for_status()
        client.delete(f"/api/v1/projects/{project}").raise_for_status()
    path = f"/{house.world.organization}/-/trash"
    assert f'href="{path}"' in house.owner.get(f"/{house.world.organization}").text
    shown = house.owner.get(path).text
    assert HOSTILE in text_of(shown)
    assert "<img" not in shown.partition("<main")[2]
    assert project not in house.browser(member).get(path).text, "a member cannot restore it"
    assert house.browser(outside).get(path).status_code == 404
    restore = f"/{house.world.organization}/-/projects/{project}/restore"
    for person in (member, outside):
        assert house.browser(person).fill_csrf(restore).status_code == 404
    assert "The project was restored." in after(house.owner, house.owner.fill(path, restore))
    assert "No deleted projects" in house.owner.get(path).text
    assert house.owner.get(f"/{house.world.organization}/gone").status_code == 200


def test_the_trash_of_another_account_is_separate(house: House) -> None:
    own = house.person
    with house.server.client(house.world.token) as client:
        made = client.post("/api/v1/projects", json={"title": "Private things", "organization": own.login}).json()
        client.delete(f"/api/v1/projects/{made['project']['id']}").raise_for_status()
    assert "Private things" in house.owner.get(f"/{own.login}/-/trash").text
    assert "Private things" not in house.owner.get(f"/{house.world.organization}/-/trash").text
    stranger = house.browser(add_person(house.server))
    assert stranger.get(f"/{own.login}/-/trash").status_code == 404
    assert stranger.get("/nobody-at-all/-/trash").status_code == 404


def test_the_name_of_a_new_app_is_focused_and_its_app_id_shown(house: House) -> None:
    for path in (f"{house.path}/new-app", f"{house.path}/new-oauth-app"):
        [name] = re.findall(r'<input id="name"[^>]*>', house.owner.get(path).text)
        assert "autofocus" in name
    assert house.owner.fill(f"{house.path}/new-app", name=house.name("Keeper")).status_code == 201
    [app] = re.findall(rf'href="({house.path}/apps/[^"/]+)"', house.owner.get(f"{house.path}/apps").text)
    assert "<dt>App ID</dt>" in house.owner.get(app).text


def test_an_organization_is_deleted_after_typing_its_name(house: House) -> None:
    login = house.world.organization
    page = house.owner.get(house.path).text
    assert f'href="{house.path}/delete"' in page
    asked = house.owner.get(f"{house.path}/delete")
    assert asked.status_code == 200
    assert f'href="{house.path}/export"' in asked.text
    refused = house.owner.fill(f"{house.path}/delete", name="another")
    assert (refused.status_code, "Nothing was deleted" in refused.text) == (422, True)
    assert house.owner.get(house.path).status_code == 200
    done = house.owner.fill(f"{house.path}/delete", name=f" {login.upper()} ")
    assert "was deleted." in after(house.owner, done)
    for place in (f"/{login}", house.path, f"/{login}/people"):
        assert house.owner.get(place).status_code == 404
