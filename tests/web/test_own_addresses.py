"""A self-assigned e-mail address signs in where the user is known, and has no effect for anyone else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.web.browser import PASSWORD, Browser, Person, add_person, without_keys
from tests.web.pauses import lengthen_pauses
from tests.web.places_kit import age_sign_in
from tests.web.studio import text_of
from tests.web.test_invitation_links import Place, address, join, new_login
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.signin import identities, oidc
from workhook.identity.tables import accounts, passwords

WRONG = "Wrong login or password."
OTHER_PASSWORD = "other words of one's own"
_emails = sa.select(accounts.c.email).where(accounts.c.login_key == sa.bindparam("login_key"))
_own = (
    sa.select(passwords.c.email)
    .join_from(passwords, accounts, passwords.c.user_id == accounts.c.id)
    .where(accounts.c.login_key == sa.bindparam("login_key"))
)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def place(server: Server, closing: ExitStack) -> Place:
    return Place(server, server.world(), closing)


def newcomer(place: Place, email: str, *, invited: str | None = None, **more: str) -> tuple[str, Browser]:
    """Create an account with this address through a link and sign out. Return the login and the browser."""
    login, browser = new_login(), place.stranger()
    answer = join(browser, place.link(invited or address()), login, email=email, **more)
    assert answer.status_code == 303, text_of(answer.text)
    assert browser.fill("/settings", "/logout").status_code == 303
    return login, browser


def sign_in(browser: Browser, name: str, password: str = PASSWORD) -> str | None:
    """Return who is signed in afterwards, or None if the sign-in failed."""
    answer = browser.fill("/login", login=name, password=password)
    if answer.status_code != 303:
        assert answer.status_code == 422
        assert WRONG in text_of(answer.text)
        return None
    page = text_of(browser.get("/settings").text)
    assert browser.fill("/settings", "/logout").status_code == 303
    return page.partition("next to your login, ")[2].partition(".")[0]


def test_the_address_signs_in_where_the_user_is_known(place: Place) -> None:
    email = address()
    login, browser = newcomer(place, f" {email.upper()} ")
    assert sign_in(browser, email) == login
    assert sign_in(browser, email, OTHER_PASSWORD) is None
    new = place.stranger()
    assert sign_in(new, email) is None
    assert sign_in(new, login) == login
    assert sign_in(new, email) == login


def test_without_an_own_address_the_invited_one_is_neither_used_nor_shown(place: Place) -> None:
    invited = address()
    link = place.link(invited)
    page = place.stranger().get(link)
    assert invited not in page.text
    login, browser = newcomer(place, "")
    assert place.rows(_own, login_key=login) == place.rows(sa.select(sa.null().label("email")))
    assert sign_in(browser, invited) is None
    assert sign_in(browser, login) == login


def test_an_invalid_address_is_refused(place: Place) -> None:
    link, stranger = place.link(address()), place.stranger()
    for wrong, said in (
        ("ada", "Enter a valid e-mail address"),
        ("a@" + "b" * 300, "can have at most 254 characters"),
    ):
        answer = join(stranger, link, new_login(), email=wrong)
        assert answer.status_code == 422
        assert said in text_of(answer.text)
    email = address()
    answer = join(stranger, link, new_login(), email=email, password=email, again=email)
    assert "must not be your login, your name, your e-mail address" in text_of(answer.text)


def test_a_duplicate_address_is_not_revealed(place: Place, server: Server, closing: ExitStack) -> None:
    """In two organizations, one of which has a user with this address, all answers are identical."""
    known = add_person(server)
    elsewhere = Place(server, server.world(), closing)
    pages = []
    for email in (known.email, address()):
        for there in (place, elsewhere):
            stranger, login = there.stranger(), new_login()
            answer = join(stranger, there.link(address()), login, email=email)
            assert answer.status_code == 303
            own = stranger.get("/settings").text
            assert email in own
            pages.append(without_keys(own).count("\n"))
            assert stranger.fill("/settings", "/logout").status_code == 303
            assert sign_in(stranger, email) == login
    assert len(set(pages)) == 1
    assert sign_in(there.stranger(), known.email) == known.login, "whose it is signs in everywhere, as before"


def test_the_owner_of_an_address_can_always_sign_in_with_it(place: Place, server: Server) -> None:
    """Even in a browser that knows both users."""
    person = add_person(server)
    other, browser = newcomer(place, person.email, password=OTHER_PASSWORD, again=OTHER_PASSWORD)
    assert sign_in(browser, person.email, OTHER_PASSWORD) == other
    assert sign_in(browser, person.email) is None
    assert sign_in(browser, person.login) == person.login
    assert sign_in(browser, person.email) == person.login
    assert sign_in(browser, person.email, OTHER_PASSWORD) is None


def test_the_address_receives_no_invitations_meant_for_its_owner(
    place: Place, server: Server, closing: ExitStack
) -> None:
    elsewhere = Place(server, server.world(), closing)
    email = address()
    login, browser = newcomer(place, email)
    assert [row["email"] for row in place.rows(_emails, login_key=login)] == [None]
    for path in (place.people, place.settings, f"/{place.world.organization}/audit"):
        assert email not in place.owner.get(path).text
    with server.client(place.world.token) as api:
        added = api.post(f"/api/v1/projects/{place.world.project_id}/clients", json={"email": email})
        assert added.json()["invitation"]["email"] == email
    assert elsewhere.owner.fill_csrf(elsewhere.people, who=email, role="owner").status_code == 303
    assert browser.fill("/login", login=email, password=PASSWORD).status_code == 303
    assert "/invitations/" not in browser.get("/").text
    assert browser.fill_csrf(f"/invitations/organizations/{elsewhere.world.organization}/accept").status_code == 404
    assert (place.role(login), elsewhere.role(login)) == ("member", None)


def test_a_provider_does_not_link_by_the_address(place: Place, server: Server) -> None:
    email = address()
    login, _ = newcomer(place, email)
    claims = oidc.Claims("https://id.example.com", new_login(), email=email)

    async def arrive(services: Services) -> Any:
        async with services.database.transaction() as tx:
            return await identities.find_or_add(tx, claims, create=True)

    user, done = server.run(arrive)
    assert (done, user.email) == ("created", email)
    assert user.login != login


def test_the_api_does_not_expose_the_address(place: Place, server: Server) -> None:
    email = address()
    login, browser = newcomer(place, email)
    assert browser.fill("/login", login=login, password=PASSWORD).status_code == 303
    made = browser.fill("/settings/tokens/new", note="see", **{"scope admin:org": "on"})
    token = made.text.partition('<code id="token">')[2].partition("</code>")[0]
    assert token
    with server.client(token) as api:
        for path in ("/user", "/user/emails", f"/users/{login}", f"/orgs/{place.world.organization}/members"):
            assert email not in api.get(f"/api/v3{path}").text


def test_attempts_by_address_and_by_login_are_counted_together(place: Place, server: Server) -> None:
    email = address()
    login, browser = newcomer(place, email)
    for name in (email, login, email, login, email):
        assert sign_in(browser, name, OTHER_PASSWORD) is None
    server.run(lengthen_pauses)
    for name in (email, login):
        assert browser.fill("/login", login=name, password=PASSWORD).status_code == 429


def test_a_new_password_forgets_other_known_browsers(place: Place, server: Server) -> None:
    email = address()
    login, browser = newcomer(place, email)
    new = place.stranger()
    assert new.fill("/login", login=login, password=PASSWORD).status_code == 303
    changed = new.fill("/settings/password", current=PASSWORD, password=OTHER_PASSWORD, again=OTHER_PASSWORD)
    assert changed.status_code == 303
    assert new.fill("/settings", "/logout").status_code == 303
    assert sign_in(new, email, OTHER_PASSWORD) == login
    assert sign_in(browser, email, OTHER_PASSWORD) is None


def test_the_address_is_changed_and_removed_in_the_settings(place: Place, server: Server) -> None:
    first, second = address(), address()
    login, browser = newcomer(place, first)
    assert browser.fill("/login", login=login, password=PASSWORD).status_code == 303
    assert browser.fill("/settings", "/settings/profile", name="Guest", email=second).status_code == 303
    assert f'value="{second}"' in browser.get("/settings").text
    assert browser.fill("/settings", "/logout").status_code == 303
    assert sign_in(browser, first) is None
    assert sign_in(browser, second) == login
    assert browser.fill("/login", login=login, password=PASSWORD).status_code == 303
    age_sign_in(server, person_of(server, login))
    asked = browser.fill("/settings", "/settings/profile", name="Guest", email=first)
    assert asked.headers["location"].startswith("/login/confirm"), "who finds the browser open changes no way in"
    assert browser.fill("/settings", "/settings/profile", name="Someone", email=second).status_code == 303
    assert "Someone" in browser.get("/settings").text
    assert browser.fill("/settings", "/logout").status_code == 303
    assert browser.fill("/login", login=login, password=PASSWORD).status_code == 303
    assert browser.fill("/settings", "/settings/profile", name="Guest", email="").status_code == 303
    assert browser.fill("/settings", "/logout").status_code == 303
    assert sign_in(browser, second) is None


def test_a_verified_address_cannot_be_changed(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        assert browser.sign_in(person).status_code == 303
        form = browser.form("/settings", "/settings/profile")
        assert "email" not in form.fields
        assert browser.post(form.action, {**form.fields, "email": address()}).status_code == 303
        assert person.email in browser.get("/settings").text
        assert browser.fill("/settings", "/logout").status_code == 303
        assert sign_in(browser, person.email) == person.login


def person_of(server: Server, login: str) -> Person:
    async def read(services: Services) -> Person:
        found = await queries.find_account(services.database, login)
        assert found is not None
        return Person(found.id, found.login, found.email or "")

    person: Person = server.run(read)
    return person
