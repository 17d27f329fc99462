"""Account settings: the password, sessions and permissions of apps."""

from __future__ import annotations

import json

import sqlalchemy as sa

from tests.harness.server import Server
from tests.web.browser import PASSWORD, Browser, add_link, add_person, forms
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.identity.queries import find_account
from workhook.identity.signin.passwords import hash_of
from workhook.identity.tables import apps, audit_log, grants, passwords, sessions
from workhook.identity.tokens import issue
from workhook.identity.tokens.issue import OAUTH
from workhook.storage.metadata import bigint_param, insert_into

NEW = "quite another string of words"

_audit = sa.select(audit_log.c.action, audit_log.c.actor_id, audit_log.c.address, audit_log.c.detail).where(
    audit_log.c.account_id == bigint_param("account_id")
)
_audit = _audit.order_by(audit_log.c.id)
_age = (
    sa.update(sessions)
    .where(sessions.c.user_id == bigint_param("user_id"))
    .values(
        created_at=sessions.c.created_at - bigint_param("by_age"),
        seen_at=sessions.c.seen_at - bigint_param("by_seen"),
        expires_at=sessions.c.expires_at - bigint_param("by_end"),
    )
)
_session = sa.select(sessions.c.created_at, sessions.c.seen_at, sessions.c.expires_at).where(
    sessions.c.user_id == bigint_param("user_id")
)
_insert_app = insert_into(
    apps, "kind", "account_id", "client_id", "slug", "name", "callback_urls", "device_flow", "public", "permissions",
    "created_at", "updated_at",
).returning(apps.c.id)  # fmt: skip
_insert_grant = insert_into(grants, "app_id", "user_id", "scopes", "created_at", "updated_at").returning(grants.c.id)
_set_hash = sa.update(passwords).where(passwords.c.user_id == bigint_param("user_id")).values(hash=sa.bindparam("hash"))


def test_changing_the_password_ends_all_other_sessions_immediately(server: Server) -> None:
    person = add_person(server)
    link = add_link(server, person)
    with Browser(server) as here, Browser(server) as there:
        here.sign_in(person)
        there.sign_in(person)
        before = here.cookie
        for wrong, said in (
            ({"current": "not this one", "password": NEW, "again": NEW}, "The current password is incorrect."),
            ({"current": PASSWORD, "password": NEW, "again": "x" * 12}, "don’t match"),
            ({"current": PASSWORD, "password": "workhook1!", "again": "workhook1!"}, "must not be your login"),
        ):
            answer = here.fill("/settings/password", **wrong)
            assert answer.status_code == 422, wrong
            assert said in answer.text
        assert there.is_signed_in()
        form = there.form("/settings/password")
        answer = here.fill("/settings/password", current=PASSWORD, password=NEW, again=NEW)
        assert "Password changed." in here.get("/settings").text
        assert (answer.status_code, answer.headers["location"]) == (303, "/settings")
        assert not there.is_signed_in()
        late = there.post(
            "/settings/password", {**form.fields, "current": NEW, "password": PASSWORD, "again": PASSWORD}
        )
        assert late.headers["location"].startswith("/login")
        assert here.is_signed_in()
        assert here.cookie != before
        assert there.sign_in(person).status_code == 422
        assert there.sign_in(person, NEW).status_code == 303
        assert there.get(link).status_code == 404


def test_a_user_without_a_password_sets_one(server: Server) -> None:
    person = add_person(server, password=None)
    with Browser(server) as browser:
        browser.fill(add_link(server, person))
        assert browser.fill("/settings/password", password=NEW, again=NEW).status_code == 303
        assert "current" in browser.form("/settings/password").fields
    with Browser(server) as browser:
        assert browser.sign_in(person, NEW).status_code == 303


def test_a_session_is_ended_from_another_one_of_the_same_user_only(server: Server) -> None:
    person, stranger = add_person(server), add_person(server)
    with Browser(server) as here, Browser(server, **{"User-Agent": "<b>Phone</b>"}) as there, Browser(server) as other:
        here.sign_in(person)
        there.sign_in(person)
        other.sign_in(stranger)
        page = here.get("/settings")
        assert "&lt;b&gt;Phone&lt;/b&gt;" in page.text
        [form] = [each for each in forms(page) if each.buttons == ["Sign out"]]
        token = other.form("/", "/logout").fields["csrf"]
        assert other.post(form.action, {"csrf": token}).status_code == 404
        assert there.is_signed_in()
        assert here.post(form.action, form.fields).status_code == 303
        assert not there.is_signed_in()
        assert here.post(form.action, form.fields).status_code == 404  # already ended
        there.sign_in(person)
        assert here.fill("/settings", "/settings/sessions/end-others").status_code == 303
        assert not there.is_signed_in()
        assert here.is_signed_in()
        assert other.is_signed_in()


def test_a_session_expires_when_idle_or_old(server: Server) -> None:
    person = add_person(server)

    def age(**by: int) -> None:
        async def run(services: Services) -> None:
            async with services.database.transaction() as tx:
                params = {"by_age": by.get("created", 0), "by_seen": by.get("seen", 0), "by_end": by.get("end", 0)}
                await tx.execute(_age, {"user_id": person.id, **params})

        server.run(run)

    def times() -> tuple[int, int, int]:
        async def run(services: Services) -> tuple[int, int, int]:
            [row] = await services.database.fetch_all(_session, {"user_id": person.id})
            return row["created_at"], row["seen_at"], row["expires_at"]

        found: tuple[int, int, int] = server.run(run)
        return found

    with Browser(server) as browser:
        browser.sign_in(person)
        first = times()
        assert browser.is_signed_in()
        assert times() == first  # viewing a page does not write
        age(created=13 * DAY_MS, seen=13 * DAY_MS, end=13 * DAY_MS)
        assert browser.is_signed_in()  # which extends the idle expiry
        assert times()[2] > now_ms() + 13 * DAY_MS
        age(created=70 * DAY_MS, seen=DAY_MS, end=DAY_MS)
        assert browser.is_signed_in()
        created, _, ends = times()
        assert ends == created + 90 * DAY_MS  # but never beyond ninety days
        age(created=8 * DAY_MS, seen=8 * DAY_MS, end=8 * DAY_MS)
        assert not browser.is_signed_in()
        browser.sign_in(person)
        age(seen=15 * DAY_MS, end=15 * DAY_MS)
        assert not browser.is_signed_in()


def test_revoking_an_app_ends_its_tokens(server: Server) -> None:
    person, stranger, world = add_person(server), add_person(server), server.world()

    async def allow(services: Services) -> tuple[int, str]:
        owner = await find_account(services.database, world.organization)
        assert owner is not None
        now = {"created_at": now_ms(), "updated_at": now_ms()}
        async with services.database.transaction() as tx:
            values = {
                "kind": "oauth", "account_id": owner.id, "client_id": f"Ov{world.organization}",
                "slug": f"app-{world.organization}", "name": "Deploy <i>", "callback_urls": "[]", "device_flow": False,
                "public": True, "permissions": "{}",
            }  # fmt: skip
            app = await tx.fetch_one(_insert_app, {**values, **now})
            assert app is not None
            params = {"app_id": app["id"], "user_id": person.id, "scopes": "repo work:read", **now}
            grant = await tx.fetch_one(_insert_grant, params)
            assert grant is not None
            made = await issue.issue(tx, OAUTH, person.id, scopes=["work:read"], app_id=app["id"])
        return grant["id"], made.token

    grant_id, token = server.run(allow)
    with Browser(server) as browser, Browser(server) as other, server.client(token) as program:
        browser.sign_in(person)
        other.sign_in(stranger)
        assert program.get("/user").status_code == 200
        page = browser.get("/settings")
        assert "Deploy &lt;i&gt;" in page.text
        assert "repo, work:read" in page.text
        csrf = other.form("/", "/logout").fields["csrf"]
        assert other.post(f"/settings/grants/{grant_id}/revoke", {"csrf": csrf}).status_code == 404
        assert program.get("/user").status_code == 200
        assert browser.fill("/settings", f"/settings/grants/{grant_id}/revoke").status_code == 303
        assert program.get("/user").status_code == 401
        assert "Deploy" not in browser.get("/settings").text


def test_account_changes_are_audited_without_secrets(server: Server) -> None:
    person = add_person(server)
    link = add_link(server, person)
    with Browser(server) as browser:
        browser.sign_in(person, "the wrong password")
        browser.sign_in(person)
        browser.fill("/settings/password", current=PASSWORD, password=NEW, again=NEW)
        browser.fill("/", "/logout")
        browser.fill("/login", login=person.email, password="the wrong password")
        browser.fill(add_link(server, person))
        cookie, home = str(browser.cookie), browser.address

    async def read(services: Services) -> list[tuple[str, bool, str, str]]:
        rows = await services.database.fetch_all(_audit, {"account_id": person.id})
        return [(row["action"], row["actor_id"] == person.id, row["address"], row["detail"]) for row in rows]

    entries = server.run(read)
    assert [(action, by_user) for action, by_user, _, _ in entries] == [
        ("user.sign_in_failed", False),
        ("user.sign_in", True),
        ("user.password_change", True),
        ("user.sign_out", True),
        ("user.sign_in_failed", False),
        ("user.sign_in", True),
    ]
    details = [json.loads(detail) for *_, detail in entries]
    assert [each.get("how") for each in details] == [None, "password", "settings", None, None, "link"]
    for (*_, address, _), detail in zip(entries, details, strict=True):
        assert address == home
        assert detail["user_agent"] == "Tester/1.0"
    for secret in (PASSWORD, NEW, "the wrong password", cookie, link.rpartition("/")[2]):
        assert secret not in str(entries)
        assert secret not in server.log()


def test_a_hash_with_outdated_parameters_is_replaced_at_the_next_sign_in(server: Server) -> None:
    from argon2 import PasswordHasher, Type

    person = add_person(server)
    old = PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1, type=Type.ID).hash(PASSWORD)

    async def weaken(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_set_hash, {"user_id": person.id, "hash": old})

    def stored() -> str:
        found: str = server.run(lambda services: hash_of(services.database, person.id))
        return found

    server.run(weaken)
    with Browser(server) as browser:
        assert browser.sign_in(person, "the wrong password").status_code == 422
        assert stored() == old
        assert browser.sign_in(person).status_code == 303
        new = stored()
        assert new.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
        browser.client.cookies.clear()
        assert browser.sign_in(person).status_code == 303
        assert stored() == new
