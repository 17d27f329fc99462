"""Signing in with a password and signing out: the cookie, and what a form must contain."""

from __future__ import annotations

import re

import pytest

from tests.harness.server import Server
from tests.web.browser import PASSWORD, Browser, add_person, forms, policy_of
from workhook.web.frame import assets

pytestmark = pytest.mark.one_database


def test_login_or_email_with_the_password_signs_in(server: Server) -> None:
    person = add_person(server)
    for name in (person.login, person.login.upper(), person.email, person.email.upper(), f" {person.login} "):
        with Browser(server) as browser:
            assert browser.get("/").headers["location"] == "/login"
            answer = browser.fill("/login", login=name, password=PASSWORD)
            assert (answer.status_code, answer.headers["location"]) == (303, "/"), answer.text
            home = browser.get("/")
            assert home.status_code == 200
            assert person.login in home.text
            assert home.headers["content-type"] == "text/html; charset=utf-8"


def test_differently_composed_passwords_are_equal(server: Server) -> None:
    person = add_person(server, password="zwo\u0308lf Boxka\u0308mpfer")
    with Browser(server) as browser:
        assert browser.sign_in(person, "zw\u00f6lf Boxk\u00e4mpfer").status_code == 303


def test_api_clients_still_get_json_at_the_root(server: Server) -> None:
    with Browser(server, Accept="*/*") as browser:
        answer = browser.get("/")
        assert answer.json()["current_user_url"] == f"{server.url}/user"
        assert answer.headers["vary"] == "Accept"


def test_failed_sign_ins_are_indistinguishable(server: Server) -> None:
    known, without = add_person(server), add_person(server, password=None)
    seen = set()
    for name in (known.login, without.login, "nobody-at-all", "nobody@example.com", known.email, "a\\b<c>"):
        with Browser(server) as browser:
            answer = browser.fill("/login", login=name, password="not the right one")
            text = re.sub(r'name="csrf" value="[^"]+"', "", answer.text)
            text = re.sub(r'name="login" value="[^"]*"', "", text)
            names = sorted(each for each in answer.headers if each not in ("x-request-id", "content-length", "date"))
            seen.add((answer.status_code, text, *names))
            assert not browser.is_signed_in()
    assert len(seen) == 1
    assert "Wrong login or password." in text


def test_the_cookie_is_restricted_and_renewed_at_every_sign_in(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        answer = browser.sign_in(person)
        [set_cookie] = [each for each in answer.headers.get_list("set-cookie") if each.startswith("workhook_session=")]
        value, *attributes = set_cookie.split("; ")
        assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=7776000"}
        assert len(value.removeprefix("workhook_session=")) == 43  # 32 bytes
        first = browser.cookie
        # Signing in again starts a new session and ends the old one.
        browser.client.cookies.clear()
        form = browser.form("/login")
        browser.client.cookies.set("workhook_session", str(first), domain="127.0.0.1", path="/")
        assert browser.is_signed_in()
        assert browser.post("/login", {**form.fields, "login": person.login, "password": PASSWORD}).status_code == 303
    with Browser(server) as other:
        other.client.cookies.set("workhook_session", str(first))
        assert not other.is_signed_in()


def test_a_planted_cookie_is_not_adopted(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        planted = "A" * 43
        browser.client.cookies.set("workhook_session", planted, domain="127.0.0.1", path="/")
        answer = browser.sign_in(person)
        assert answer.status_code == 303
        assert planted not in answer.headers["set-cookie"]
    with Browser(server) as attacker:
        attacker.client.cookies.set("workhook_session", planted)
        assert not attacker.is_signed_in()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "null", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "null", "Sec_Fetch_Site": "same-site"},
        {"Origin": "http://evil.example", "Sec_Fetch_Site": None},
        {"Origin": "http://127.0.0.1:1", "Sec_Fetch_Site": None},
        {"Origin": "https://{host}", "Sec_Fetch_Site": None},
        {"Origin": "http://{host}.evil.example", "Sec_Fetch_Site": None},
        {"Origin": "http://evil.example/{host}", "Sec_Fetch_Site": None},
    ],
    ids=str,
)
def test_a_cross_site_form_is_refused(server: Server, headers: dict[str, str | None]) -> None:
    person = add_person(server)
    host = server.url.removeprefix("http://")
    with Browser(server) as browser:
        browser.sign_in(person)
        form = browser.form("/", "/logout")
        given = {name.replace("_", "-"): text.format(host=host) for name, text in headers.items() if text}
        answer = browser.client.post("/logout", data=form.fields, headers=given)
        assert (answer.status_code, answer.headers["content-type"]) == (403, "text/html; charset=utf-8")
        assert browser.is_signed_in()
        # Old browsers, and all browsers on plain HTTP to another machine, omit these headers, so the token decides.
        assert browser.client.post("/logout", data=form.fields, headers={"Origin": server.url}).status_code == 303
        assert not browser.is_signed_in()


def test_a_form_needs_the_token_of_its_own_session(server: Server) -> None:
    one, other = add_person(server), add_person(server)
    with Browser(server) as browser, Browser(server) as stranger:
        before = browser.form("/login").fields["csrf"]
        browser.sign_in(one)
        stranger.sign_in(other)
        own = browser.form("/", "/logout").fields["csrf"]
        foreign = stranger.form("/", "/logout").fields["csrf"]
        for wrong in (
            {"other": "x"},
            {"csrf": ""},
            {"csrf": "x"},
            {"csrf": foreign},
            {"csrf": before},
            {"csrf": own + "x"},
        ):
            assert browser.post("/logout", wrong).status_code == 403, wrong
        assert browser.is_signed_in()
        assert own != foreign
        assert str(browser.cookie) not in own


def test_an_attacker_cannot_sign_another_browser_in_as_themselves(server: Server) -> None:
    """Sign-in forms are bound to the browser that requested them."""
    person = add_person(server)
    with Browser(server) as attacker, Browser(server) as victim:
        form = attacker.form("/login")
        fields = {**form.fields, "login": person.login, "password": PASSWORD}
        assert victim.post("/login", fields).status_code == 403
        victim.form("/login")  # now it has its own form
        assert victim.post("/login", fields).status_code == 403
        assert victim.cookie is None


def test_malformed_forms_are_refused(server: Server) -> None:
    with Browser(server) as browser:
        form = browser.form("/login")
        assert browser.client.post("/login", json=form.fields).status_code == 415
        assert browser.client.post("/login", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
        assert browser.post("/login", {**form.fields, "login": "a\0b"}).status_code == 400
        assert browser.post("/login", {**form.fields, "login": "a" * 70_000}).status_code == 413
        many = {**form.fields, **{f"field{number}": "" for number in range(300)}}
        assert browser.post("/login", many).status_code == 400
        urlencoded = {"Content-Type": "application/x-www-form-urlencoded"}
        assert browser.client.post("/login", content=b"login=%ff", headers=urlencoded).status_code == 400


def test_signing_out_ends_the_session_on_the_server(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        browser.sign_in(person)
        kept = str(browser.cookie)
        answer = browser.fill("/", "/logout")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert "workhook_session=;" in answer.headers["set-cookie"]
        browser.client.cookies.clear()
        browser.client.cookies.set("workhook_session", kept)
        assert not browser.is_signed_in()
        # Already signed out, so there is nothing to end.
        assert browser.post("/logout", {"csrf": "x"}).status_code == 303


@pytest.mark.parametrize("path", ["/login", "/", "/settings/password", "/login/link/none", "/login/continue?to=/"])
def test_no_page_can_be_framed_cached_or_leak_its_address(server: Server, path: str) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        if path in ("/", "/settings/password"):
            browser.sign_in(person)
        answer = browser.get(path)
        headers = answer.headers
        assert policy_of(answer) == {
            "default-src": "'none'",
            "script-src": f"'self' {assets.import_map_source()}",
            "style-src": "'self' NONCE",
            "img-src": "'self' data:",
            "media-src": "'self'",
            "connect-src": "'self'",
            "frame-src": "'self'",
            "form-action": "'self'",
            "frame-ancestors": "'none'",
            "base-uri": "'none'",
        }
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("place", ["login", "return_to", "name"])
def test_user_input_is_escaped(server: Server, place: str) -> None:
    nasty = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{6007*7001}}"

    def page_with(text: str) -> str:
        person = add_person(server, name=text if place == "name" else None)
        with Browser(server) as browser:
            if place == "name":
                browser.sign_in(person)
                return browser.get("/").text
            if place == "return_to":
                return browser.get("/login", params={"return_to": "/x?" + text}).text
            page = browser.fill("/login", login=text, password="x" * 12)
            [form] = forms(page)
            assert form.fields["login"] == text  # echoed as text
            return page.text

    page = page_with(nasty)
    assert re.findall(r"<\w+", page) == re.findall(r"<\w+", page_with("harmless"))
    assert "42055007" not in re.sub(r'value="[^"]*"', "", page).split("<main")[1].split("Where you")[0]


def test_signing_in_returns_to_the_requested_page(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        answer = browser.get("/settings/password?a=%2F%2Fb&c=d")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/login?return_to=%2Fsettings%2Fpassword%3Fa%3D%252F%252Fb%26c%3Dd"
        answer = browser.fill(answer.headers["location"], "/login", login=person.login, password=PASSWORD)
        assert answer.headers["location"] == "/settings/password?a=%2F%2Fb&c=d"
        assert browser.get("/login?return_to=/docs").headers["location"] == "/docs"  # already signed in


@pytest.mark.parametrize(
    "elsewhere", ["//evil.example", "https://evil.example/", "/\\evil.example", "/%2Fevil.example", "/\tevil//x"]
)
def test_signing_in_never_redirects_to_another_site(server: Server, elsewhere: str) -> None:
    person = add_person(server)
    with Browser(server) as browser:
        form = browser.form("/login")
        fields = {**form.fields, "login": person.login, "password": PASSWORD, "return_to": elsewhere}
        assert browser.post("/login", fields).headers["location"] == "/"
        assert browser.get("/login", params={"return_to": elsewhere}).headers["location"] == "/"
        page = browser.get("/login/continue", params={"to": elsewhere})
        assert "evil" not in page.text
        assert 'content="0; url=/"' in page.text


def test_returning_to_an_app_takes_an_intermediate_page(server: Server) -> None:
    """The `form-action` of the sign-in page would block redirects that end at another site."""
    person = add_person(server)
    wanted = "/login/oauth/authorize?client_id=x&redirect_uri=https%3A%2F%2Fapp.example%2Fcb"
    with Browser(server) as browser:
        form = browser.form("/login")
        fields = {**form.fields, "login": person.login, "password": PASSWORD, "return_to": wanted}
        answer = browser.post("/login", fields)
        assert answer.headers["location"].startswith("/login/continue?to=%2Flogin%2Foauth%2Fauthorize%3F")
        page = browser.get(answer.headers["location"])
        assert page.status_code == 200
        assert f'url={wanted.replace("&", "&amp;")}"' in page.text
