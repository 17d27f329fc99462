"""`/settings`: name, language, theme, personal tokens, and confirming the password."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.web.browser import PASSWORD, Browser, Person, add_link, add_person, forms
from tests.web.places_kit import age_sign_in
from workhook.http.calls import Services
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.queries import find_account, find_repository
from workhook.identity.tables import audit_log
from workhook.identity.tokens.issue import FINE_GRAINED, OAUTH, issue
from workhook.storage.metadata import bigint_param
from workhook.web.account.settings import browser_name

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe \U0001f419"
SCOPE = "scope "

_actions = (
    sa.select(audit_log.c.action).where(audit_log.c.account_id == bigint_param("account_id")).order_by(audit_log.c.id)
)


def audited(server: Server, person: Person) -> list[str]:
    async def run(services: Services) -> list[str]:
        rows = await services.database.fetch_all(_actions, {"account_id": person.id})
        return [row["action"] for row in rows]

    found: list[str] = server.run(run)
    return found


def make_token(browser: Browser, **fields: str) -> str:
    answer = browser.fill("/settings/tokens/new", **{"note": "script", **fields})
    assert answer.status_code == 200, answer.text
    [token] = re.findall(r'<code id="token">([^<]+)</code>', answer.text)
    return str(token)


def test_the_name_is_changed_and_escaped(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        browser.sign_in(person)
        answer = browser.fill("/settings", "/settings/profile", name=f"  {HOSTILE} ")
        assert (answer.status_code, answer.headers["location"]) == (303, "/settings")
        page = browser.get("/settings")
        assert "<img src=x" not in page.text
        assert browser.form("/settings", "/settings/profile").fields["name"] == HOSTILE
        assert "Profile saved." in page.text
        assert "Profile saved." not in browser.get("/settings").text
        assert browser.fill("/settings", "/settings/profile", name="x" * 256).status_code == 422
        assert browser.fill("/settings", "/settings/profile", name="").status_code == 303
        assert browser.form("/settings", "/settings/profile").fields["name"] == ""
    assert audited(server, person).count("user.edit") == 2


def test_an_unchanged_name_is_not_audited(server: Server) -> None:
    person = add_person(server, name="Ada")
    with Browser(server) as browser:
        browser.sign_in(person)
        assert browser.fill("/settings", "/settings/profile", name="Ada").status_code == 303
    assert "user.edit" not in audited(server, person)


def test_language_and_theme_are_stored_in_the_browser(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        browser.sign_in(person)
        assert '<html lang="en">' in browser.get("/settings").text
        browser.fill("/settings", "/settings/appearance", language="de", theme="dark")
        assert '<html lang="de" data-theme="dark">' in browser.get("/settings").text
        form = browser.form("/settings", "/settings/appearance")
        assert (form.fields["language"], form.fields["theme"]) == ("de", "dark")
        browser.fill("/settings", "/settings/appearance", language="", theme="")
        assert '<html lang="en">' in browser.get("/settings").text
        assert browser.fill("/settings", "/settings/appearance", language="tlh").status_code == 404


def test_a_token_is_shown_once_and_has_the_selected_scopes(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        browser.sign_in(person)
        assert "No tokens yet." in browser.get("/settings/tokens").text
        answer = browser.fill(
            "/settings/tokens/new", note=HOSTILE, days="7", **{f"{SCOPE}work:read": "on", f"{SCOPE}repo": "on"}
        )
        [token] = re.findall(r'<code id="token">([^<]+)</code>', answer.text)
        assert "content-encoding" not in answer.headers  # secrets are not compressed
        page = browser.get("/settings/tokens").text
        assert token not in page
        assert "<img src=x" not in page
        assert "never used" in page
        assert "repo, work:read" in page
        with server.client(token) as program:
            answer = program.get("/user")
            assert answer.json()["login"] == person.login
            assert answer.headers["X-OAuth-Scopes"] == "repo, work:read"
            # A token created on a page has no parent token.
            [told] = [each for each in program.get("/user/tokens").json() if each["current"]]
            assert told["expires_at"] is not None
    assert audited(server, person).count("token.create") == 1


def test_a_token_is_revoked_only_by_its_own_user(server: Server) -> None:
    person, stranger = add_person(server), add_person(server)
    with Browser(server) as browser, Browser(server) as other:
        browser.sign_in(person)
        other.sign_in(stranger)
        token = make_token(browser)
        page = browser.get("/settings/tokens")
        [form] = [each for each in forms(page) if each.action.endswith("/revoke")]
        assert form.buttons == ["Revoke token"]
        assert page.text.index('<details class="sure">') < page.text.index(form.action), "it asks first"
        csrf = other.form("/settings", "/settings/profile").fields["csrf"]
        with server.client(token) as program:
            assert other.post(form.action, {"csrf": csrf}).status_code == 404
            assert program.get("/user").status_code == 200
            assert browser.post(form.action, form.fields).status_code == 303
            assert program.get("/user").status_code == 401
        assert browser.post(form.action, form.fields).status_code == 404
        assert "Token revoked." in browser.get("/settings/tokens").text


def test_app_tokens_are_listed_separately_and_confined_tokens_name_their_projects(server: Server) -> None:
    world = server.world()

    async def make(services: Services) -> None:
        async with services.database.transaction() as tx:
            owner, place = await find_account(tx, world.owner), await find_account(tx, world.organization)
            here = await find_repository(tx, world.organization, world.repository)
            assert owner is not None
            assert place is not None
            assert here is not None
            wanted = OauthAppCreate(name=f"Deploy bot {owner.id}", callback_urls=["https://example.com/"])
            app, _, _ = await create_app(tx, None, owner, wanted)
            await issue(tx, OAUTH, owner.id, scopes=["work"], app_id=app.id)
            reads = {"repository_hooks": "read"}
            await issue(tx, FINE_GRAINED, owner.id, permissions=reads, account_id=place.id, repository_ids=[here.id])
            await issue(tx, FINE_GRAINED, owner.id, permissions=reads, account_id=place.id)

    server.run(make)
    with Browser.of(server, world.owner) as browser:
        own, _, of_apps = browser.get("/settings/tokens").text.partition("App tokens")
    assert f"repository_hooks: read · {world.full_name}" in own
    assert f"repository_hooks: read · all projects of {world.organization}" in own
    assert "Deploy bot" not in own
    assert "<strong>Deploy bot" in of_apps
    assert "Unnamed token" not in of_apps


@pytest.mark.parametrize(
    ("fields", "said"), [({"note": " "}, "Note must have"), ({"note": "n" * 256}, "Note must have")]
)
def test_a_refused_token_explains_why(server: Server, fields: dict[str, str], said: str) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        browser.sign_in(person)
        answer = browser.fill("/settings/tokens/new", **fields, **{f"{SCOPE}work": "on"})
        assert (answer.status_code, said in answer.text) == (422, True)
        [form] = [each for each in forms(answer) if each.action == "/settings/tokens/new"]
        assert f"{SCOPE}work" in form.fields  # the selection is kept
        assert "No tokens yet." in browser.get("/settings/tokens").text
        assert browser.fill("/settings/tokens/new", note="x", days="8").status_code == 404


def test_after_an_hour_the_password_must_be_confirmed(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        browser.sign_in(person)
        make_token(browser)
        form = browser.form("/settings/tokens/new")
        [revoke] = [each for each in forms(browser.get("/settings/tokens")) if each.action.endswith("/revoke")]
        age_sign_in(server, person)
        asked = "/login/confirm?return_to=%2Fsettings%2Ftokens%2Fnew"
        assert browser.get("/settings/tokens/new").headers["location"] == asked
        assert browser.post(form.action, {**form.fields, "note": "belated"}).headers["location"] == asked
        assert browser.post(revoke.action, revoke.fields).headers["location"].startswith("/login/confirm")
        assert "belated" not in browser.get("/settings/tokens").text
        before = browser.cookie
        wrong = browser.fill(asked, "/login/confirm", password="not this one")
        assert (wrong.status_code, browser.cookie) == (422, before)
        assert "Wrong password." in wrong.text
        right = browser.fill(asked, "/login/confirm", password=PASSWORD)
        assert (right.status_code, right.headers["location"]) == (303, "/settings/tokens/new")
        assert browser.cookie != before
        make_token(browser, note="belated")
        assert browser.get(asked).headers["location"] == "/settings/tokens/new"  # no second confirmation
        browser.client.cookies.set("workhook_session", str(before), domain="127.0.0.1", path="/")
        assert not browser.is_signed_in()  # the previous session has ended


def test_confirming_returns_to_an_app_through_an_intermediate_page(server: Server) -> None:
    """Browsers block a form from redirecting to an address that its page's policy does not allow."""
    person = add_person(server)
    with Browser(server) as browser:
        browser.sign_in(person)
        age_sign_in(server, person)
        page = "/login/confirm?return_to=%2Flogin%2Foauth%2Fauthorize%3Fclient_id%3Dx"
        answer = browser.fill(page, "/login/confirm", password=PASSWORD)
        assert answer.headers["location"] == "/login/continue?to=%2Flogin%2Foauth%2Fauthorize%3Fclient_id%3Dx"


def test_a_user_without_a_password_signs_in_again(server: Server) -> None:
    person = add_person(server, password=None)
    with Browser(server) as browser:
        browser.fill(add_link(server, person))
        make_token(browser)
        age_sign_in(server, person)
        # Setting a first password is as sensitive as a secret.
        for path in ("/settings/tokens/new", "/settings/password"):
            assert browser.get(path).headers["location"].startswith("/login/confirm"), path
        answer = browser.fill("/login/confirm?return_to=/settings/tokens/new", "/login/again")
        assert answer.headers["location"] == "/login?return_to=%2Fsettings%2Ftokens%2Fnew"
        assert not browser.is_signed_in()


@pytest.mark.parametrize("to", ["https://evil.example", "//evil.example", "/\\evil.example"])
def test_confirming_never_redirects_to_another_site(server: Server, to: str) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        browser.sign_in(person)
        age_sign_in(server, person)
        form = browser.form("/login/confirm")
        answer = browser.post(form.action, {**form.fields, "return_to": to, "password": PASSWORD})
        assert answer.headers["location"] == "/"


@pytest.mark.parametrize("path", ["/settings", "/settings/tokens", "/settings/tokens/new", "/login/confirm"])
def test_strangers_are_redirected_to_the_sign_in_page(server: Server, path: str) -> None:
    with Browser(server) as browser:
        assert browser.get(path).headers["location"].startswith("/login?return_to=")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
         "Chrome on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/141.0 Safari/537.36 Edg/141.0",
         "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.0 Safari/605.1.15",
         "Safari on macOS"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Version/17.0 Mobile Safari/604.1",
         "Safari on iPhone"),
        ("Mozilla/5.0 (Android 14; Mobile; rv:130.0) Gecko/130.0 Firefox/130.0", "Firefox on Android"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_browser_gets_its_common_name(agent: str, said: str) -> None:
    assert browser_name(agent) == said
