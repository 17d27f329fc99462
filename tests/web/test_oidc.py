"""Signing in with an OpenID Connect provider: who is signed in as whom, and which attempts fail."""

from __future__ import annotations

import base64
import html
import re
import shlex
import subprocess
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit, urlunsplit

import httpx
import pytest
import sqlalchemy as sa

from tests.harness import forge
from tests.harness.databases import Databases
from tests.harness.server import Server, SharedServer
from tests.web.browser import Browser, Person, add_person
from tests.web.providers import CLIENT_ID, CLIENT_SECRET, Claims, Provider
from workhook.core import json
from workhook.core.config import SettingsError, load
from workhook.http.calls import Services
from workhook.identity import actions
from workhook.identity.queries import find_account
from workhook.identity.schemas import Account
from workhook.identity.tables import accounts, audit_log, identities
from workhook.storage import Transaction
from workhook.storage.metadata import bigint_param

NOT_BEGUN = "This sign-in was started in another browser"
NOT_VERIFIED = "response could not be verified"

_set_email = sa.update(accounts).where(accounts.c.id == bigint_param("id")).values(email=sa.bindparam("email"))
_entries = (
    sa.select(audit_log.c.action, audit_log.c.detail)
    .where(audit_log.c.account_id == bigint_param("account_id"))
    .order_by(audit_log.c.id)
)
_of_subject = sa.select(identities.c.user_id).where(identities.c.subject == sa.bindparam("subject"))


@dataclass
class Site:
    """A server that trusts a real provider."""

    server: Server
    provider: Provider

    def begin(self, browser: Browser, return_to: str = "") -> str:
        """Start a sign-in and return the provider's address that the browser is sent to."""
        answer = browser.get(f"/login/oidc{return_to and '?return_to='}{return_to}")
        assert (answer.status_code, answer.headers["referrer-policy"]) == (303, "no-referrer"), answer.text
        return answer.headers["location"]

    def back(self, browser: Browser, subject: str, return_to: str = "") -> str:
        """Start a sign-in and return the address that the provider redirects to after consent."""
        return self.provider.consent(self.begin(browser, return_to), subject)

    def sign_in(self, subject: str, browser: Browser | None = None) -> httpx.Response:
        with browser or Browser(self.server) as there:
            return there.get(self.back(there, subject))

    def user_of(self, subject: str) -> int | None:
        async def read(services: Services) -> int | None:
            row = await services.database.fetch_one(_of_subject, {"subject": subject})
            return row["user_id"] if row else None

        found: int | None = self.server.run(read)
        return found


def settings_for(issuer: str) -> dict[str, str]:
    return {"oidc_issuer": issuer, "oidc_client_id": CLIENT_ID, "oidc_client_secret": CLIENT_SECRET}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def site(backend: Databases, provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("oidc")
    server = SharedServer(folder, {**backend.new(folder), **settings_for(provider.url)}).start()
    yield Site(server, provider)
    server.close()


def refused(answer: httpx.Response, status: int, said: str) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8"), answer.text
    assert said in answer.text
    assert "workhook_session=" not in str(answer.headers.get_list("set-cookie"))


def _with(address: str, **changes: str | None) -> str:
    """Return the address with changed query parameters. None removes a parameter."""
    parts = urlsplit(address)
    query = {name: value for name, value in {**dict(parse_qsl(parts.query)), **changes}.items() if value is not None}
    return urlunsplit(parts._replace(query=urlencode(query)))


def new_subject() -> str:
    return f"sub-{uuid.uuid4().hex[:8]}"


# --- successful sign-ins -----------------------------------------------------------------------------------------


def test_a_verified_address_identifies_its_user_and_links_the_subject(site: Site) -> None:
    person, subject = add_person(site.server, password=None), new_subject()
    site.provider.know(subject, email=person.email.upper(), email_verified=True)
    with Browser(site.server) as browser:
        assert "/login/oidc" in browser.get("/login").text
        asked = site.begin(browser, quote("/settings/password?a=b", safe=""))
        query = {name: value for name, [value] in parse_qs(urlsplit(asked).query).items()}
        assert asked.startswith(f"{site.provider.url}/oauth2/authorize?")
        assert (query["response_type"], query["client_id"], query["code_challenge_method"]) == (
            "code",
            CLIENT_ID,
            "S256",
        )
        assert query["redirect_uri"] == f"{site.server.url}/login/oidc/callback"
        assert min(len(query[name]) for name in ("state", "nonce", "code_challenge")) >= 43
        before = browser.cookie
        answer = browser.get(site.provider.consent(asked, subject))
        assert (answer.status_code, answer.headers["location"]) == (303, "/settings/password?a=b"), answer.text
        set_cookies = dict(each.split("=", 1) for each in answer.headers.get_list("set-cookie"))
        assert set(set_cookies) == {"workhook_session", "workhook_oidc", "workhook_device"}
        assert "Max-Age=0" in set_cookies["workhook_oidc"]
        assert browser.is_signed_in()
        assert browser.cookie != before
        assert person.login in browser.get("/").text
    assert site.user_of(subject) == person.id
    site.provider.know(
        subject, email="other@example.com", email_verified=False
    )  # from now on, only the subject matters
    assert site.sign_in(subject).status_code == 303


def test_a_disabled_user_is_told_so_and_not_signed_in(site: Site) -> None:
    known, fresh = new_subject(), new_subject()
    person = add_person(site.server, password=None)
    site.provider.know(known, email=person.email, email_verified=True)
    site.provider.know(fresh, email=person.email, email_verified=True)
    assert site.sign_in(known).status_code == 303

    def turn(change: Callable[[Transaction, Account], Awaitable[object]]) -> None:
        async def run(services: Services) -> None:
            async with services.database.transaction() as tx:
                user = await find_account(tx, person.login)
                assert user is not None
                await change(tx, user)

        site.server.run(run)

    turn(lambda tx, user: actions.disable(tx, user, base=site.server.url))
    refused(site.sign_in(known), 403, "Your account is disabled. Ask your administrator.")
    refused(site.sign_in(fresh), 403, "signs in with another account of your provider")
    turn(actions.enable)
    assert site.sign_in(known).status_code == 303


def test_an_invitation_link_permits_a_new_user(site: Site) -> None:
    """Even if the server creates no users otherwise, but only with a valid link that is not for an existing account."""
    world, name = site.server.world(), uuid.uuid4().hex[:8]
    people = f"/{world.organization}/people"
    with Browser.of(site.server, world.owner) as owner:

        def link(who: str) -> str:
            page = owner.fill_csrf(people, who=who, role="member", link="1").text
            return "/invitations/links/" + page.partition('<code id="link">')[2].partition("</code>")[0].split("/")[-1]

        by_address, by_login = link(f"{name}@example.com"), link(add_person(site.server, password=None).login)
    fresh, later = new_subject(), new_subject()
    for subject in (fresh, later):
        site.provider.know(subject, email=f"{subject}@example.com", email_verified=True)
    with Browser(site.server) as browser:
        assert f'href="/login/oidc?return_to={by_address}"' in browser.get(by_address).text
        for elsewhere in ("/", by_login, by_address + "x", f"/x{by_address}"):
            refused(browser.get(site.back(browser, fresh, elsewhere)), 403, "No user has the e-mail address")
        answer = browser.get(site.back(browser, fresh, by_address))
        assert (answer.status_code, answer.headers["location"]) == (303, by_address), answer.text
        assert browser.fill(by_address, f"{by_address}/accept").status_code == 303
        assert browser.get(people).status_code == 200
    with Browser(site.server) as browser:
        refused(browser.get(site.back(browser, later, by_address)), 403, "No user has the e-mail address")
    assert by_address.rpartition("/")[2] not in site.server.log()


def test_no_secret_is_logged_or_readable_by_scripts(site: Site) -> None:
    person, subject = add_person(site.server), new_subject()
    site.provider.know(subject, email=person.email, email_verified=True)
    with Browser(site.server) as browser:
        asked = browser.get("/login/oidc")
        [cookie] = asked.headers.get_list("set-cookie")
        value, *attributes = cookie.split("; ")
        assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=600"}
        back = site.provider.consent(asked.headers["location"], subject)
        browser.get(back)
        code = parse_qs(urlsplit(back).query)["code"][0]
        for secret in (code, value.partition("=")[2], CLIENT_SECRET, browser.cookie):
            assert secret
            assert secret not in site.server.log()


def test_linking_and_signing_in_are_audited(site: Site) -> None:
    person, subject = add_person(site.server), new_subject()
    site.provider.know(subject, email=person.email, email_verified=True)
    for _ in range(2):
        assert site.sign_in(subject).status_code == 303

    async def read(services: Services) -> list[tuple[str, dict[str, Any]]]:
        rows = await services.database.fetch_all(_entries, {"account_id": person.id})
        return [(row["action"], json.decode(row["detail"])) for row in rows]

    entries = site.server.run(read)
    assert [action for action, _ in entries] == ["user.identity_linked", "user.sign_in", "user.sign_in"]
    assert entries[0][1].items() >= {"issuer": site.provider.url, "subject": subject}.items()
    assert entries[1][1]["how"] == "oidc"


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"email": "nobody@example.com", "email_verified": True}, "workhook user add --login LOGIN --email nobody@exa"),
        ({"email": "nobody@example.com", "email_verified": False}, "has not verified your e-mail address"),
        ({"email": "nobody@example.com"}, "has not verified your e-mail address"),
        ({"email": "nobody@example.com", "email_verified": "true"}, "has not verified your e-mail address"),
        ({}, "does not share your e-mail address"),
    ],
)
def test_a_user_without_an_account_is_told_what_to_do(site: Site, claims: Claims, said: str) -> None:
    subject = new_subject()
    site.provider.know(subject, **claims)
    refused(site.sign_in(subject), 403, said)
    assert site.user_of(subject) is None


def test_an_unverified_address_does_not_identify_a_user(site: Site) -> None:
    person, subject = add_person(site.server), new_subject()
    site.provider.know(subject, email=person.email, email_verified=False)
    refused(site.sign_in(subject), 403, "has not verified your e-mail address")


def test_an_address_shared_by_two_users_identifies_neither(site: Site) -> None:
    one, other = add_person(site.server), add_person(site.server)

    async def same(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_set_email, {"id": other.id, "email": one.email})

    site.server.run(same)
    subject = new_subject()
    site.provider.know(subject, email=one.email, email_verified=True)
    refused(site.sign_in(subject), 403, "Several users have the e-mail address")


def test_an_address_that_looks_alike_is_a_different_one(site: Site) -> None:
    """U+212A, the Kelvin sign, becomes a `k` in lower case, but belongs to a different mailbox."""
    person, subject, name = add_person(site.server), new_subject(), uuid.uuid4().hex[:8]

    async def call_kate(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_set_email, {"id": person.id, "email": f"Kate-{name}@example.com"})

    site.server.run(call_kate)
    site.provider.know(subject, email=f"\u212aate-{name}@example.com", email_verified=True)
    refused(site.sign_in(subject), 403, "No user has the e-mail address")
    site.provider.know(subject, email=f"kATE-{name}@Example.com", email_verified=True)
    assert site.sign_in(subject).status_code == 303
    assert site.user_of(subject) == person.id


def test_a_later_owner_of_an_address_does_not_get_the_account(site: Site) -> None:
    person, first, second = add_person(site.server), new_subject(), new_subject()
    for subject in (first, second):
        site.provider.know(subject, email=person.email, email_verified=True)
    assert site.sign_in(first).status_code == 303
    refused(site.sign_in(second), 403, "signs in with another account of your provider")


# --- refused sign-ins --------------------------------------------------------------------------------------------


@pytest.fixture
def known(site: Site) -> tuple[Person, str]:
    """Return a person known to the provider, and their subject."""
    person, subject = add_person(site.server), new_subject()
    site.provider.know(subject, email=person.email, email_verified=True)
    return person, subject


def test_an_answer_is_valid_only_in_the_browser_that_started(site: Site, known: tuple[Person, str]) -> None:
    with Browser(site.server) as attacker, Browser(site.server) as victim:
        back = site.back(attacker, known[1])
        refused(victim.get(back), 403, NOT_BEGUN)  # without any cookie
        site.begin(victim)
        refused(victim.get(back), 403, NOT_BEGUN)  # with the cookie of its own sign-in
        for state in (None, "", "x", "\u00e9"):
            refused(attacker.get(_with(back, state=state)), 403, NOT_BEGUN)
        assert attacker.get(back).status_code == 303  # a wrong state does not use up the attempt


def test_an_answer_is_valid_once(site: Site, known: tuple[Person, str]) -> None:
    with Browser(site.server) as browser:
        back = site.back(browser, known[1])
        stolen = {"Cookie": f"workhook_oidc={browser.client.cookies['workhook_oidc']}"}
        assert browser.get(back).status_code == 303
        refused(browser.get(back), 403, NOT_BEGUN)  # the cookie is gone
    with Browser(site.server) as thief:
        refused(thief.get(back, headers=stolen), 403, NOT_VERIFIED)  # the provider accepts a code once


def test_a_cookie_with_a_forged_signature_is_ignored(site: Site, known: tuple[Person, str]) -> None:
    with Browser(site.server) as browser:
        back = site.back(browser, known[1])
        body, _, signature = browser.client.cookies["workhook_oidc"].partition(".")
        browser.client.cookies.clear()
        forged = base64.urlsafe_b64encode(
            re.sub(rb'"return_to":"[^"]*"', b'"return_to":"//evil.example"', base64.urlsafe_b64decode(body + "=="))
        )
        for value in (
            f"{forged.decode().rstrip('=')}.{signature}",
            f"{body}.",
            body,
            f"{body}.x",
            ".",
            f".{signature}",
        ):
            refused(browser.get(back, headers={"Cookie": f"workhook_oidc={value}"}), 403, NOT_BEGUN)


def test_a_code_for_another_nonce_or_client_is_refused(site: Site, known: tuple[Person, str]) -> None:
    with Browser(site.server) as browser:
        for change in ({"nonce": "mine"}, {"client_id": "another"}):
            asked = site.begin(browser)
            back = site.provider.consent(_with(asked, **change), known[1])
            refused(browser.get(back), 403, NOT_VERIFIED)


def test_a_refusal_by_the_provider_is_reported(site: Site) -> None:
    with Browser(site.server) as browser:
        state = parse_qs(urlsplit(site.begin(browser)).query)["state"][0]
        answer = browser.get(f"/login/oidc/callback?state={state}&error=access_denied&error_description=%3Cb%3E")
        refused(answer, 403, "The identity provider didn’t sign you in.")
        assert "<b>" not in answer.text
        for wrong in ("", "&code=", "&code=unknown", "&code=x&iss=https://evil.example", f"&code={'x' * 5000}"):
            state = parse_qs(urlsplit(site.begin(browser)).query)["state"][0]
            answer = browser.get(f"/login/oidc/callback?state={state}{wrong}")
            assert answer.status_code == 403, wrong


def test_returning_to_an_app_takes_an_intermediate_page(site: Site, known: tuple[Person, str]) -> None:
    """Browsers check redirects against the `form-action` of the provider's form, so redirects alone would fail."""
    asked = quote("/login/oauth/authorize?client_id=x&state=a%20b", safe="")
    with Browser(site.server) as browser:
        answer = browser.get(site.back(browser, known[1], asked))
        assert (answer.status_code, answer.headers["location"]) == (303, f"/login/continue?to={asked}")


@pytest.mark.parametrize(
    "return_to",
    ["https://evil.example", "//evil.example", "/\\evil.example", "/%2f%2fevil.example", "javascript:alert(1)",
     "/\t/evil.example", "https:evil.example", "/" + "a" * 1500],
)  # fmt: skip
def test_signing_in_never_redirects_to_another_site(site: Site, known: tuple[Person, str], return_to: str) -> None:
    with Browser(site.server) as browser:
        answer = browser.get(site.back(browser, known[1], quote(return_to, safe="")))
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        back = site.back(browser, known[1])
        answer = browser.get(f"{back}&return_to={quote(return_to, safe='')}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")


# --- settings ----------------------------------------------------------------------------------------------------


def test_a_missing_or_unreachable_provider_is_reported(server: Server, tmp_path: Path) -> None:
    with Browser(server) as browser:
        for path in ("/login/oidc", "/login/oidc/callback?state=x&code=y"):
            refused(browser.get(path), 404, "No identity provider is set up on this server.")
        assert "/login/oidc" not in browser.get("/login").text
    away = Server(tmp_path, settings_for("http://127.0.0.1:9")).start()
    try:
        with Browser(away) as browser:
            for _ in range(3):
                refused(browser.get("/login/oidc"), 503, "The identity provider cannot be reached.")
    finally:
        away.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"OIDC_ISSUER": "http://id.example.com", "OIDC_CLIENT_ID": "x"}, "WORKHOOK_OIDC_ISSUER: 'http://id"),
        ({"OIDC_ISSUER": "https://id.example.com?x=1", "OIDC_CLIENT_ID": "x"}, "expected an https URL without a query"),
        ({"OIDC_ISSUER": "https://id.example.com"}, "oidc_issuer: requires oidc_client_id"),
        ({"OIDC_CLIENT_SECRET": "hush"}, "oidc_client_secret: requires oidc_issuer"),
    ],
)  # fmt: skip
def test_inconsistent_settings_are_refused(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    environment = {"WORKHOOK_DATA": str(tmp_path), **{f"WORKHOOK_{name}": value for name, value in settings.items()}}
    with pytest.raises(SettingsError) as refused:
        load({}, environment)
    assert said in str(refused.value)
    assert "hush" not in str(refused.value)


def test_a_head_request_does_not_sign_in(site: Site) -> None:
    with Browser(site.server) as browser:
        back = site.back(browser, "only-looks")
        kept = dict(browser.client.cookies)
        looked = browser.client.head(back)
        assert (looked.status_code, looked.headers["allow"]) == (405, "GET, OPTIONS")
        assert browser.client.head("/login/oidc").status_code == 405
        assert dict(browser.client.cookies) == kept


def test_a_user_without_a_verified_address_is_linked_by_command(site: Site) -> None:
    person, other, subject = add_person(site.server), add_person(site.server), f"{new_subject()} o'hara"
    site.provider.know(subject, email=person.email)
    told = site.sign_in(subject)
    refused(told, 403, "has not verified your e-mail address")
    [said] = re.findall(r"workhook (user link-identity --login )LOGIN (--subject=[^<]+)", html.unescape(told.text))
    words = [*shlex.split(said[0]), person.login, *shlex.split(said[1])]

    def link(words: list[str], *more: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return forge.run([*words, *more, "--json"], {**site.server.environment(), **settings})

    done = [json.decode(link(words).stdout) for _ in range(2)]
    linked = {"login": person.login, "issuer": site.provider.url, "subject": subject}
    assert done == [{**linked, "changed": True}, {**linked, "changed": False}]
    assert site.sign_in(subject).status_code == 303
    assert site.user_of(subject) == person.id

    taken = link([other.login if word == person.login else word for word in words], "--issuer", site.provider.url)
    assert (taken.returncode, person.login in taken.stderr, "already" in taken.stderr) == (1, True, True)
    assert site.user_of(subject) == person.id
    for faulty, option in (
        (link(words, "--subject", "a\nb"), "--subject"),
        (link(words, "--subject", ""), "--subject"),
        (link(words, WORKHOOK_OIDC_ISSUER="", WORKHOOK_OIDC_CLIENT_ID="", WORKHOOK_OIDC_CLIENT_SECRET=""), "--issuer"),
    ):
        assert (faulty.returncode, faulty.stdout) == (2, "")
        assert option in faulty.stderr

    log = json.decode(link(["audit", "list", "--action", "user.identity_linked"]).stdout)
    mine = [each for each in log if each["target"] == person.login]
    assert len(mine) == 1, "what changes nothing leaves none"
    assert mine[0]["data"].items() >= {"issuer": site.provider.url, "subject": subject, "how": "command"}.items()
