"""An ended session gives no access on any process: pages, and forms opened before, are answered as for a stranger.

Covers all pages, and all ways in which a session ends early."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.api.oauth_kit import CALLBACK, Site
from tests.harness.apps import Registered, make_app
from tests.harness.server import Server
from tests.walls.walk import OPERATIONS
from tests.web.browser import PASSWORD, Browser, Form, Person, add_link, add_person, forms, without_keys
from workhook.http.calls import Services
from workhook.http.operations import PAGES
from workhook.identity import actions, queries
from workhook.identity.oauth.grants import allow
from workhook.identity.schemas import Account
from workhook.identity.signin import passwords as signin
from workhook.identity.signin import sessions
from workhook.storage import Transaction

NEW = "quite another string of words"
# For holders of a link (including a calendar's), after the provider's redirect, public assets, and a webhook.
NOT_OF_A_SESSION = {
    "GET /static/{name}", "GET /login/link/{token}", "POST /login/link/{token}", "POST /login", "GET /login/forgotten",
    "POST /login/forgotten", "GET /login/oidc",
    "GET /login/oidc/callback", "GET /login/continue", "POST /receive/{key}",
    "GET /invitations/links/{token}", "POST /invitations/links/{token}", "GET /calendar/{key}/calendar.ics",
    "GET /mail/unsubscribe/{token}", "POST /mail/unsubscribe/{token}",
}  # fmt: skip


class Places:
    """The objects that the pages show: an OAuth app, and an app that can be installed on the user's organization."""

    def __init__(self, server: Server, second: Server) -> None:
        self.server, self.second = server, second
        self.site = Site(server)
        self.app: Registered = make_app(server, self.site.world, installed=False)

    def by_hand(self, person: Person, change: Callable[[Transaction, Account], Any]) -> None:
        """Apply the change as a command line tool would."""

        async def run(services: Services) -> None:
            async with services.database.transaction() as tx:
                user = await queries.find_account(tx, person.login)
                assert user is not None
                await change(tx, user)

        self.server.run(run)

    def person(self) -> Person:
        """Create an owner of the organization with consent to the OAuth app, and an app that is not installed yet."""
        made = add_person(self.server)
        self.app = make_app(self.server, self.site.world, installed=False)

        async def place(tx: Transaction, user: Account) -> None:
            organization = await queries.find_account(tx, self.site.world.organization)
            assert organization is not None
            await actions.set_member(tx, organization, user, "owner")
            await allow(tx, self.site.oauth.app, user.id, frozenset({"work"}))

        self.by_hand(made, place)
        return made

    @property
    def authorize(self) -> str:
        client = self.site.oauth.id
        return f"/login/oauth/authorize?client_id={client}&redirect_uri={CALLBACK}&scope=repo&prompt=select_account"

    @property
    def install(self) -> str:
        return f"/apps/{self.app.slug}/installations/new"

    def user_code(self) -> str:
        given = {"client_id": self.site.oauth.id, "scope": "repo"}
        answer = self.site.http.post("/login/device/code", data=given, headers={"Accept": "application/json"})
        return str(answer.json()["user_code"])

    def pages(self) -> dict[str, str]:
        return {
            "GET /": "/",
            "GET /login": "/login?return_to=/settings/password",
            "GET /settings/password": "/settings/password",
            "GET /login/device": "/login/device",
            "GET /login/oauth/authorize": self.authorize,
            "GET /apps/{slug}/installations/new": self.install,
            "GET /apps/{slug}/installations/new/permissions": f"{self.install}/permissions",
            "GET /docs": "/docs",
            "GET /docs/search": "/docs/search?q=webhook",
            "GET /docs/guide/{name}": "/docs/guide/team",
            "GET /docs/guide/{folder}/{name}": "/docs/guide/team/web-app",
        }

    def close(self) -> None:
        self.site.close()


@pytest.fixture(scope="module")
def places(server: Server, second_server: Server) -> Iterator[Places]:
    places = Places(server, second_server)
    yield places
    places.close()


def _own(browser: Browser, suffix: str) -> Form:
    return next(each for each in forms(browser.get("/settings")) if each.action.endswith(suffix))


def _password(places: Places, browser: Browser) -> Form:
    form = browser.form("/settings/password")
    return Form(form.action, {**form.fields, "current": PASSWORD, "password": NEW, "again": NEW})


def _shown(page: httpx.Response, action: str, **fields: str) -> Form:
    [form] = [each for each in forms(page) if each.action == action]
    return Form(action, {**form.fields, **fields})


def _enter(places: Places, browser: Browser) -> Form:
    return _shown(browser.get("/login/device"), "/login/device", user_code=places.user_code())


def _decide(places: Places, browser: Browser) -> Form:
    entered = _enter(places, browser)
    return _shown(browser.post(entered.action, entered.fields), "/login/device/decide", decision="approve")


def _install(places: Places, browser: Browser) -> Form:
    return _shown(browser.get(places.install), places.install, selection="all", decision="install")


def _authorize(places: Places, browser: Browser) -> Form:
    return _shown(browser.get(places.authorize), "/login/oauth/authorize", decision="approve")


FORMS: dict[str, Callable[[Places, Browser], Form]] = {
    "POST /logout": lambda _, browser: _own(browser, "/logout"),
    "POST /settings/password": _password,
    "POST /settings/sessions/{session_id}/end": lambda _, browser: _own(browser, "/end"),
    "POST /settings/sessions/end-others": lambda _, browser: _own(browser, "/end-others"),
    "POST /settings/grants/{grant_id}/revoke": lambda _, browser: _own(browser, "/revoke"),
    "POST /login/oauth/authorize": _authorize,
    "POST /login/device": _enter,
    "POST /login/device/decide": _decide,
    "POST /apps/{slug}/installations/new": _install,
}


def test_every_page_is_covered(places: Places) -> None:
    known = {f"{each.method} {each.path}" for each in OPERATIONS if each.area is PAGES}
    assert known | {"GET /"} == {*places.pages(), *FORMS, *NOT_OF_A_SESSION}


def _comparable(answer: httpx.Response) -> tuple[object, ...]:
    """Return an answer without the parts that differ in every response."""
    text = re.sub(r"(?<![\w-])[\w-]{43}(?![\w-])|(?<=<code>)[\w-]+(?=</code>)", "…", without_keys(answer.text))
    return answer.status_code, answer.headers.get("location"), text


def _signed_in(server: Server, person: Person) -> Browser:
    browser = Browser(server)
    assert browser.sign_in(person).status_code == 303
    return browser


WAYS: dict[str, Callable[[Places, Person, Browser], object]] = {}
"""Functions that end a session, given the user's browser with that session. They all act through the other process."""


def _way(name: str) -> Callable[[Callable[[Places, Person, Browser], object]], None]:
    return lambda work: WAYS.update({name: work})


@_way("signed out in another window")
def _(places: Places, person: Person, victim: Browser) -> None:
    with Browser(places.server) as window:
        window.client.cookies.set("workhook_session", str(victim.cookie))
        assert window.fill("/", "/logout").status_code == 303


@_way("ended from another browser")
def _(places: Places, person: Person, victim: Browser) -> None:
    with _signed_in(places.server, person) as other:
        for each in [each for each in forms(other.get("/settings")) if each.buttons == ["End"]]:
            assert other.post(each.action, each.fields).status_code == 303


@_way("all others ended")
def _(places: Places, person: Person, victim: Browser) -> None:
    with _signed_in(places.server, person) as other:
        assert other.fill("/settings", "/settings/sessions/end-others").status_code == 303


@_way("password changed")
def _(places: Places, person: Person, victim: Browser) -> None:
    with _signed_in(places.server, person) as other:
        changed = other.fill("/settings/password", current=PASSWORD, password=NEW, again=NEW)
        assert changed.status_code == 303


@_way("password set by a link")
def _(places: Places, person: Person, victim: Browser) -> None:
    link = add_link(places.server, person, sessions.SET_PASSWORD)
    with Browser(places.server) as other:
        assert other.fill(link, password=NEW, again=NEW).status_code == 303


@_way("password set by command")
def _(places: Places, person: Person, victim: Browser) -> None:
    async def set_password(tx: Transaction, user: Account) -> None:
        await signin.set_password(tx, user, await signin.new_hash(NEW, user))

    places.by_hand(person, set_password)


def _disable(places: Places, person: Person) -> None:
    places.by_hand(person, lambda tx, user: actions.disable(tx, user, base=places.server.url))


@_way("user disabled")
def _(places: Places, person: Person, victim: Browser) -> None:
    _disable(places, person)


def test_signed_in_users_get_different_answers_than_strangers(places: Places) -> None:
    """Otherwise, the comparisons below would prove nothing."""
    with Browser(places.second) as stranger:
        for name, prepare in FORMS.items():
            person = places.person()
            with _signed_in(places.server, person), _signed_in(places.second, person) as browser:
                for page in places.pages().values():
                    assert _comparable(browser.get(page)) != _comparable(stranger.get(page)), page
                form = prepare(places, browser)
                answer = browser.post(form.action, form.fields)
                assert answer.status_code in (200, 302, 303), (name, answer.text)
                refused = stranger.post(form.action, form.fields)
                assert name == "POST /logout" or _comparable(answer) != _comparable(refused), name


@pytest.mark.parametrize("way", WAYS)
def test_an_ended_session_is_answered_like_a_stranger(places: Places, way: str) -> None:
    person = places.person()
    with (
        _signed_in(places.server, person),  # so there is another session to end
        _signed_in(places.second, person) as victim,
        Browser(places.second) as stranger,
    ):
        opened = {name: prepare(places, victim) for name, prepare in FORMS.items()}
        cookie = str(victim.cookie)
        WAYS[way](places, person, victim)
        for name, form in opened.items():
            victim.client.cookies.set("workhook_session", cookie)  # signing out removes it
            answer, refused = (each.post(form.action, form.fields) for each in (victim, stranger))
            assert _comparable(answer) == _comparable(refused), name
        victim.client.cookies.set("workhook_session", cookie)
        for name, page in places.pages().items():
            assert _comparable(victim.get(page)) == _comparable(stranger.get(page)), name


def test_a_disabled_user_can_sign_in_only_after_being_enabled(places: Places) -> None:
    person = places.person()
    link = add_link(places.server, person)
    with _signed_in(places.second, person) as browser, Browser(places.second) as stranger:
        cookie = str(browser.cookie)
        _disable(places, person)
        for there in (browser, stranger):  # the first is a known browser of this user
            there.client.cookies.delete("workhook_session")
            refused = there.sign_in(person)
            unknown = there.fill("/login", login=f"{person.login}-x", password=PASSWORD)
            assert refused.status_code == 422
            assert _comparable(refused)[2] == str(_comparable(unknown)[2]).replace(f"{person.login}-x", person.login)
            assert there.get(link).status_code == 404
        places.by_hand(person, lambda tx, user: actions.enable(tx, user))
        browser.client.cookies.set("workhook_session", cookie)
        assert not browser.is_signed_in()
        assert browser.get(link).status_code == 404
        assert browser.sign_in(person).status_code == 303
        assert browser.is_signed_in()
