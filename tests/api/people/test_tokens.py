"""Personal tokens through the API and the command line.

A token never grants more than the token that creates it has.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.api.people.tokens_kit import Person, issue_for, user_id_of
from tests.cli.cli_kit import Cli
from tests.harness.apps import make_app
from tests.harness.concurrent_transactions import held, opened
from tests.harness.databases import Databases
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, add_token, make_world
from tests.work.counted import CountedServer
from workhook.core.clock import DAY_MS, HOUR_MS, now_ms
from workhook.core.ids import new_token
from workhook.http.calls import Services
from workhook.identity.policy import SCOPES
from workhook.identity.tables import (
    apps,
    audit_log,
    authorization_codes,
    device_codes,
    rate_windows,
    refresh_tokens,
    sessions,
    sign_in_failures,
    sign_in_links,
    tokens,
)
from workhook.identity.tokens.issue import APP_USER, CLASSIC, FINE_GRAINED, OAUTH, digest_of, issue, prune, revoke
from workhook.identity.tokens.lookup import find_actor
from workhook.identity.tokens.personal import LIVING_MAX, lock_living
from workhook.storage import Transaction
from workhook.storage.metadata import bigint_param, insert_into

PERMISSIONS = ("repository_hooks", "organization_hooks", "work")
_entries = sa.select(audit_log.c.action, audit_log.c.target, audit_log.c.detail).order_by(audit_log.c.id)


@pytest.fixture
def owner(server: Server, world: World) -> Person:
    return Person(server, world.token)


def _person_with_scopes(server: Server, world: World, *scopes: str, **place: Any) -> Person:
    token: str = server.run(partial(add_token, world=world, scopes=list(scopes), **place))
    return Person(server, token)


# --- personal tokens by API --------------------------------------------------------------------------------------


def test_a_classic_token_is_created_shown_once_listed_and_revoked(owner: Person, world: World) -> None:
    made = owner.make(note="deploys", scopes=["work:read", "repo", "repo"], expires_in_days=1.5)
    secret = made.pop("token")
    assert re.fullmatch(r"whp_[0-9A-Za-z]{36}", secret)
    assert {**made, "created_at": "", "expires_at": ""} == {
        "id": made["id"], "url": made["url"], "kind": "classic", "note": "deploys", "scopes": ["repo", "work:read"],
        "permissions": None, "organization": None, "repositories": None, "app": None, "current": False,
        "created_at": "", "expires_at": "", "last_used_at": None,
    }  # fmt: skip
    listed = owner.get("/user/tokens")
    assert [each["id"] for each in listed] == sorted((each["id"] for each in listed), reverse=True)
    assert listed[0] == made == owner.get(f"/user/tokens/{made['id']}")
    assert [each["current"] for each in listed] == [False, True]
    assert secret not in owner.call("GET", "/user/tokens").text
    child = owner.other(secret)
    assert child.is_good()
    assert child.get("/user/tokens")[0]["current"] is True
    assert owner.call("DELETE", f"/user/tokens/{made['id']}").status_code == 204
    assert not child.is_good()
    for method in ("GET", "DELETE"):
        assert owner.call(method, f"/user/tokens/{made['id']}").status_code == 404
    [mine] = owner.get("/user/tokens")
    assert owner.call("DELETE", f"/user/tokens/{mine['id']}").status_code == 204  # itself
    assert not owner.is_good()


def test_a_token_cannot_see_or_revoke_more_powerful_tokens(server: Server, owner: Person, world: World) -> None:
    [mine] = owner.get("/user/tokens")
    confined: dict[str, Any] = {"kind": "fine_grained", "organization": world.organization}
    stronger, equal = [owner.make(**confined, permissions={"work": level}) for level in ("write", "read")]
    hooks = owner.make(scopes=["read:repo_hook"])
    app = make_app(server, world, permissions={"work": "write"})
    of_app, _ = server.run(partial(issue_for, token=owner.token, kind=APP_USER, app_id=app.id))
    made = owner.make(scopes=["work:read"])
    weak = owner.other(made["token"])
    less = [weak.make(scopes=scopes) for scopes in (["work:read"], [])]
    seen = [each["id"] for each in (*less[::-1], made, equal)]
    assert [each["id"] for each in weak.get("/user/tokens")] == seen
    assert [each["id"] for each in weak.get("/user/tokens?per_page=3&page=2")] == seen[3:]
    assert weak.call("GET", "/user/tokens?per_page=3").links["last"]["url"].endswith("page=2")
    hidden = [each["id"] for each in (mine, stronger, hooks)] + [of_app]
    for method in ("GET", "DELETE"):
        assert [weak.call(method, f"/user/tokens/{each}").status_code for each in hidden] == [404] * 4
    assert [each["id"] for each in owner.get("/user/tokens")] == sorted(seen + hidden, reverse=True)
    assert weak.call("DELETE", f"/user/tokens/{less[0]['id']}").status_code == 204
    nothing = owner.other(less[1]["token"])
    assert [each["id"] for each in nothing.get("/user/tokens")] == [less[1]["id"]]
    assert owner.call("DELETE", f"/user/tokens/{stronger['id']}").status_code == 204


def test_the_number_of_personal_tokens_per_user_is_limited(server: Server, owner: Person) -> None:
    """Of two concurrent requests for the last one, only one succeeds."""

    async def fill(services: Services) -> int:
        user_id = await user_id_of(services, owner.token)
        async with services.database.transaction() as tx:
            for _ in range(LIVING_MAX - 2):
                last = await issue(tx, FINE_GRAINED, user_id, permissions={}, expires_at=now_ms() + DAY_MS)
            await issue(tx, CLASSIC, user_id, expires_at=1)  # expired tokens and tokens of apps do not count
            await issue(tx, OAUTH, user_id, app_id=7)
        return last.id

    last = server.run(fill)
    with ThreadPoolExecutor(2) as threads:
        calls = list(threads.map(lambda _: owner.call("POST", "/user/tokens", json={}), range(2)))
    assert sorted(each.status_code for each in calls) == [201, 422]
    said = owner.faults()["user"]
    assert said.startswith(f"octo-{said[5:].split()[0]} has 100 personal tokens, the maximum; revoke unused ones ")
    assert owner.call("DELETE", f"/user/tokens/{last}").status_code == 204
    owner.make()


def test_a_fine_grained_token_is_confined_to_its_permissions_and_repositories(
    server: Server, owner: Person, world: World
) -> None:
    full = {"work": "write", "repository_hooks": "write", "organization_hooks": "read"}
    place = {"kind": "fine_grained", "organization": world.organization.upper()}
    made = owner.make(**place, permissions=full, repositories=["website", world.full_name])
    assert re.fullmatch(r"workhook_pat_[0-9A-Za-z]{36}", made["token"])
    assert (made["permissions"], made["scopes"]) == (full, [])
    assert (made["organization"], made["repositories"]) == (world.organization, [world.full_name])
    narrow = owner.other(made["token"])
    assert narrow.call("GET", f"{world.repo_path}/hooks").status_code == 200
    assert narrow.call("POST", f"{world.org_path}/hooks", json={"name": "web"}).status_code == 403
    assert narrow.call("GET", "/user/tokens").json()["message"] == ("Resource not accessible by personal access token")
    everywhere = owner.make(**place, permissions={"work": "read"}, repositories="all", expires_in_days=366)
    assert everywhere["repositories"] == "all" == owner.make(**place, permissions={"work": "read"})["repositories"]
    own = owner.make(kind="fine_grained", organization=world.owner, permissions={"work": "read"})
    assert (own["organization"], own["repositories"]) == (world.owner, "all")
    life_s = _seconds(own["expires_at"]) - _seconds(own["created_at"])
    assert (
        30 * 86_400 - 60 < life_s <= 30 * 86_400
    )  # it expires 30 days after the request was sent, which is before the token is created
    other = server.world()
    assert owner.other(own["token"]).call("GET", other.repo_path).status_code == 404


def _seconds(text: str) -> int:
    from workhook.core.clock import parse_rfc3339

    return parse_rfc3339(text) // 1000


def test_all_errors_are_reported_together(server: Server, owner: Person, world: World) -> None:
    assert owner.faults(kind="king", note=7, scopes="repo", nonsense=1, expires_in_days=0, repositories=[]) == {
        "nonsense": "unknown parameter nonsense",
        "kind": "kind must be one of classic, fine_grained",
        "note": "note must be text of at most 255 characters or null",
        "scopes": "scopes must be a list of text",
        "repositories": 'repositories must be a list of text, at least one, or "all"',
        "expires_in_days": "expires_in_days must be a number from 0.001 to 36500 or null",
    }  # fmt: skip


def test_all_errors_of_a_kind_of_token_are_reported_together(server: Server, owner: Person, world: World) -> None:
    assert owner.faults(
        scopes=["king", "repo"], permissions={"work": "read"}, organization="x", repositories="all"
    ) == {
        "permissions": "permissions: only a fine-grained token has it; a classic one has scopes",
        "organization": "organization: only a fine-grained token has it; a classic one has scopes",
        "repositories": "repositories: only a fine-grained token has it; a classic one has scopes",
        "scopes": f"king: unknown; use {', '.join(SCOPES)}",
    }
    other = server.world()
    names = ", ".join(PERMISSIONS)
    assert owner.faults(kind="fine_grained", scopes=["repo"], organization=other.organization, expires_in_days=367) == {
        "expires_in_days": "expires_in_days must be at most 366 for a fine-grained token",
        "scopes": "scopes: only a classic token has them; a fine-grained one has permissions",
        "permissions": f"permissions must contain at least one of {names}",
        "organization": f"organization {other.organization}: {world.owner} is not in an organization with this login",
    }
    place = {"kind": "fine_grained", "organization": world.organization}
    assert owner.faults(**place, permissions={"king": "read"}, repositories=["website", "none", other.full_name]) == {
        "permissions": f"king: unknown; use {names}",
        "repositories": (
            f"none, {other.full_name}: {world.organization} has no such repository that {world.owner} can see"
        ),
    }
    assert owner.faults(kind="fine_grained", permissions={"work": "admin"}) == {
        "permissions": "work must be read or write",
        "organization": "organization is required for a fine-grained token: an organization you are in, or your own "
        "login",
    }
    assert len(owner.get("/user/tokens")) == 1


def test_only_members_create_tokens_for_an_organization(server: Server, world: World) -> None:
    body = {"kind": "fine_grained", "organization": world.organization, "permissions": {"work": "read"}}
    member = _person_with_scopes(server, world, *SCOPES, member="member")
    assert member.make(**body)["organization"] == world.organization
    for place in ({}, {"role": "admin"}):
        assert set(_person_with_scopes(server, world, *SCOPES, **place).faults(**body)) == {"organization"}


@pytest.mark.parametrize(
    ("scopes", "gives", "refuses"),
    [
        (["repo"], ["repo", "admin:repo_hook", "write:repo_hook", "read:repo_hook"], ["work", "admin:org_hook"]),
        (["write:repo_hook"], ["read:repo_hook"], ["admin:repo_hook", "repo"]),
        (["work"], ["work:read", "work"], ["repo", "admin:org"]),
        ([], [], ["work:read"]),
    ],
)
def test_a_token_cannot_grant_a_scope_that_it_lacks(
    server: Server, world: World, scopes: list[str], gives: list[str], refuses: list[str]
) -> None:
    person = _person_with_scopes(server, world, *scopes)
    assert person.make(scopes=gives)["scopes"] == sorted(gives)
    missing = ", ".join(sorted(refuses))
    said = person.faults(scopes=[*gives, *refuses])
    assert said == {"scopes": f"{missing}: the requesting token does not have it, so it cannot grant it"}


@pytest.mark.parametrize(
    ("scope", "given"),
    [
        ("repo", {"repository_hooks": "write"}),
        ("admin:repo_hook", {"repository_hooks": "write"}),
        ("write:repo_hook", {"repository_hooks": "read"}),
        ("read:repo_hook", {"repository_hooks": "read"}),
        ("admin:org_hook", {"organization_hooks": "write"}),
        ("work", {"work": "write"}),
        ("work:read", {"work": "read"}),
        ("admin:org", {}),
    ],
)
def test_a_token_cannot_grant_a_permission_outside_its_scopes(
    server: Server, world: World, scope: str, given: dict[str, str]
) -> None:
    person = _person_with_scopes(server, world, scope, member="owner")
    body = {"kind": "fine_grained", "organization": world.organization}
    for name in PERMISSIONS:
        for level in ("read", "write"):
            covered = given.get(name) == level or given.get(name) == "write"
            response = person.call("POST", "/user/tokens", json={**body, "permissions": {name: level}})
            assert response.status_code == (201 if covered else 422), (name, level, response.text)
            if not covered:
                assert response.json()["errors"][0]["message"].startswith(
                    f"{name}: {level} requires a token with the scope"
                )


def test_a_token_does_not_outlive_the_token_that_created_it(owner: Person, world: World) -> None:
    parent = owner.other((first := owner.make(scopes=["work"], expires_in_days=2))["token"])
    assert parent.make(scopes=["work"])["expires_at"] == first["expires_at"]
    confined = {"kind": "fine_grained", "organization": world.organization, "permissions": {"work": "read"}}
    assert parent.make(**confined)["expires_at"] == first["expires_at"]
    assert parent.faults(scopes=["work"], expires_in_days=3) == {
        "expires_in_days": "expires_in_days: the requesting token expires sooner"
    }
    child = parent.other(parent.make(scopes=["work"], expires_in_days=1)["token"])
    grandchild = child.other(child.make(**confined)["token"])
    assert (child.is_good(), grandchild.is_good()) == (True, True)
    assert owner.call("DELETE", f"/user/tokens/{first['id']}").status_code == 204
    assert (parent.is_good(), child.is_good(), grandchild.is_good(), owner.is_good()) == (False, False, False, True)


def test_a_user_cannot_see_or_revoke_tokens_of_others(server: Server, owner: Person, world: World) -> None:
    made = owner.make(scopes=["work"])
    stranger = _person_with_scopes(server, world, *SCOPES, member="owner")
    assert [each["current"] for each in stranger.get("/user/tokens")] == [True]
    for method in ("GET", "DELETE"):
        for token_id in (made["id"], 10**15 - 1, "x", "0"):
            assert stranger.call(method, f"/user/tokens/{token_id}").status_code == 404
    assert owner.other(made["token"]).is_good()
    with server.client(None) as nobody:
        assert nobody.get("/user/tokens").status_code == nobody.post("/user/tokens", json={}).status_code == 401


def test_tokens_of_apps_are_listed_and_revoked_with_their_refresh_tokens(server: Server, owner: Person) -> None:
    oauth_id, oauth = server.run(partial(issue_for, token=owner.token, kind=OAUTH, scopes=["work"], app_id=77))
    user_id, user = server.run(partial(issue_for, token=owner.token, kind=APP_USER, app_id=78, family="f-1"))
    again_id, again = server.run(partial(issue_for, token=owner.token, kind=APP_USER, app_id=78, family="f-1"))
    listed = {each["id"]: each["kind"] for each in owner.get("/user/tokens")}
    assert (listed[oauth_id], listed[user_id], listed[again_id]) == ("oauth", "app_user", "app_user")
    assert owner.call("DELETE", f"/user/tokens/{oauth_id}").status_code == 204
    assert not owner.other(oauth).is_good()
    assert owner.other(again).is_good()
    assert owner.call("DELETE", f"/user/tokens/{user_id}").status_code == 204
    assert not owner.other(user).is_good()
    assert not owner.other(again).is_good()
    for kind, scopes in ((OAUTH, SCOPES), (APP_USER, ())):
        _, token = server.run(partial(issue_for, token=owner.token, kind=kind, scopes=scopes, app_id=78))
        assert owner.other(token).call("POST", "/user/tokens", json={"scopes": []}).status_code == 403
        assert owner.other(token).call("GET", "/user/tokens").status_code == 403


def test_tokens_are_paginated(server: Server, owner: Person) -> None:
    ids = [owner.make(note=str(number))["id"] for number in range(4)]
    first = owner.call("GET", "/user/tokens?per_page=2")
    assert [each["id"] for each in first.json()] == ids[:1:-1]
    assert first.links["next"]["url"].startswith(f"{server.url}/user/tokens?")
    assert [each["id"] for each in owner.get("/user/tokens?per_page=2&page=2")] == ids[1::-1]
    assert owner.call("GET", "/user/tokens?per_page=2").links["last"]["url"].endswith("page=3")
    assert owner.get("/user/tokens?page=9") == []
    assert owner.call("GET", "/user/tokens?page=x").status_code == 422


def test_creation_and_revocation_are_in_the_audit_log_without_the_secret(
    server: Server, owner: Person, world: World
) -> None:
    made = owner.make(kind="fine_grained", organization=world.organization, permissions={"work": "read"})
    owner.call("DELETE", f"/user/tokens/{made['id']}")

    async def read(services: Services) -> list[tuple[str, str]]:
        rows = await services.database.fetch_all(_entries)
        return [(row["action"], row["detail"]) for row in rows if row["target"] == f"token {made['id']}"]

    entries = server.run(read)
    assert [action for action, _ in entries] == ["token.create", "token.revoke"]
    assert '"work":"read"' in entries[0][1]
    assert made["token"] not in str(entries)
    assert made["token"] not in server.log()


# --- the command line --------------------------------------------------------------------------------------------


def test_the_command_creates_lists_and_revokes_every_kind_of_token(tmp_path: Path, backend: Databases) -> None:
    data = tmp_path / "data"
    cli = Cli(data, backend.new(data))
    cli.setup("--project", "Website")
    words = ("token", "create", "--user", "octo", "--kind", "fine-grained")
    made = cli.json(
        *words, "--permissions", "work=read, repository_hooks:write", "--organization", "acme",
        "--repositories", "website", "--note", "reports",
    )  # fmt: skip
    assert made["token"].startswith("workhook_pat_")
    assert {**made, "token": "", "id": 0, "expires_at": ""} == {
        "token": "", "id": 0, "user": "octo", "scopes": [], "expires_at": "",
        "permissions": {"work": "read", "repository_hooks": "write"}, "organization": "acme",
        "repositories": ["acme/website"],
    }  # fmt: skip
    listed = cli.json("token", "list", "--user", "octo")[-1]
    assert (listed["id"], listed["kind"], listed["app"]) == (made["id"], "fine_grained", None)
    assert listed["permissions"] == made["permissions"]
    assert "repository_hooks=write" in (table := cli.text("token", "list"))
    assert made["token"] not in table
    assert "revoked the token" in cli.text("token", "revoke", str(made["id"]))
    assert cli.json("token", "list")[-1]["revoked_at"] is not None
    said = cli.refused(*words, "--permissions", "work=read", "--organization", "umbrella", "--expires-in", "400")
    assert "organization umbrella: octo is not in an organization with this login" in said
    assert "at most 366" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--kind fine-grained --scopes repo", "--scopes is only for classic tokens."),
        ("--kind fine-grained --permissions work=read", "a fine-grained token needs --organization."),
        ("--kind fine-grained", "a fine-grained token needs --permissions and --organization."),
        ("--kind fine-grained --permissions work=admin", "'work=admin' is not one of repository_hooks, "),
        ("--scopes repo --organization acme", "--organization: only for a fine-grained token."),
        ("--kind classic", "a classic token needs --scopes"),
    ],
)
def test_conflicting_options_are_named(tmp_path: Path, words: str, said: str) -> None:
    assert said in Cli(tmp_path, {}).refused("token", "create", "--user", "octo", *words.split(), status=2)


# --- lookup and expiration ---------------------------------------------------------------------------------------
# Tokens are looked up, ended and forgotten in every process, on time, and without a statement per request.


_last_used = sa.select(tokens.c.last_used_at).where(tokens.c.digest == sa.bindparam("digest"))
_set_last_used = (
    sa.update(tokens).where(tokens.c.digest == sa.bindparam("digest")).values(last_used_at=bigint_param("at"))
)
_set_revoked = sa.update(tokens).where(tokens.c.id == bigint_param("id")).values(revoked_at=bigint_param("at"))


def test_revocation_reaches_every_process_within_a_second(backend: Databases, tmp_path: Path) -> None:
    database = backend.new(tmp_path)
    first = Server(tmp_path, database).start()
    second = Server(tmp_path, database).start()
    try:
        world = first.world()
        owner = Person(first, world.token)
        made = owner.make(scopes=["work"])
        with second.client(made["token"]) as there, first.client(made["token"]) as here:
            assert there.get("/user").status_code == here.get("/user").status_code == 200  # both have cached it now
            assert owner.call("DELETE", f"/user/tokens/{made['id']}").status_code == 204
            revoked_at = now_ms()
            assert here.get("/user").status_code == 401  # the process that revoked it knows at once
            asked: list[tuple[int, int]] = []

            def refused() -> bool:
                began = now_ms()
                asked.append((began, there.get("/user").status_code))
                return asked[-1][1] == 401

            until(refused)
            assert [began for began, status in asked if status == 200 and began > revoked_at + 1000] == []
            assert there.get("/user").status_code == 401
    finally:
        first.close()
        second.close()


def _use_until_expired(server: Server, owner: Person, life_ms: int) -> tuple[int, list[tuple[int, int, int]]]:
    """Create a token that lives for `life_ms` and use it until it ends.

    Returns its expiration, and the times before and after each request with its status.
    """

    async def make(services: Services) -> tuple[str, int]:
        expires_at = now_ms() + life_ms
        _, token = await issue_for(services, owner.token, CLASSIC, expires_at=expires_at)
        return token, expires_at

    token, expires_at = server.run(make)
    asked: list[tuple[int, int, int]] = []
    with server.client(token) as client:

        def ended() -> bool:
            before = now_ms()
            status = client.get("/user").status_code
            asked.append((before, now_ms(), status))
            return status == 401

        until(ended)
    return expires_at, asked


def test_a_cached_token_expires_on_time(server: Server, owner: Person) -> None:
    for life_ms in (2_500, 10_000, 30_000):  # longer lives for machines that are too slow to send a request in time
        expires_at, asked = _use_until_expired(server, owner, life_ms)
        for before, after, status in asked:  # the decision was made between the two times
            assert status == 200 or after >= expires_at
            assert status == 401 or before < expires_at
        if asked[0][2] == 200:
            return
    raise AssertionError("the token was never seen to be good")


@pytest.fixture(scope="module")
def counted(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountedServer]:
    folder: Path = tmp_path_factory.mktemp("counted")
    server = CountedServer({"data": str(folder), **backend.new(folder)}).start()
    yield server
    server.close()


def test_a_malformed_token_needs_no_statement(counted: CountedServer) -> None:
    good = counted.world.token
    wrong = good[:-1] + ("0" if good[-1] != "0" else "1")
    assert new_token("whp_")[:4] == good[:4]
    for token in (wrong, good[:-1], f"{good}0", "whp_", "ghp_" + good[4:], good.upper(), "nonsense"):
        with counted.client(token) as client:
            counted.forget()
            assert client.get("/user").status_code == 401
            assert counted.statements == [], token
    with counted.client(new_token("whp_")) as client:  # its checksum is valid, so only the table can tell
        counted.forget()
        assert client.get("/user").status_code == 401
        assert [each[:6] for each in counted.statements] == ["SELECT"]


def test_a_token_is_looked_up_once_and_its_use_recorded_occasionally(counted: CountedServer) -> None:
    with counted.client(counted.member_token) as client:
        counted.forget()
        assert client.get("/user").status_code == 200
        assert any(each.startswith("SELECT tokens.id") for each in counted.statements)
        until(lambda: [each for each in counted.statements if each.startswith("UPDATE tokens")])
        asked = 0

        def several_from_cache() -> bool:
            """Return whether five requests in a row were served from the cache."""
            nonlocal asked
            client.get("/user")
            counted.forget()
            for _ in range(5):
                assert client.get("/user").status_code == 200
            asked += 5
            return counted.statements == []

        until(several_from_cache)
        noted = [each for each in counted.statements if "UPDATE" in each]
        assert noted == []


def test_last_use_is_written_again_after_ten_minutes(new_server: Any) -> None:
    server: Server = new_server()
    world = server.world()
    digest = {"digest": digest_of(world.token)}

    async def last_used(services: Services) -> int | None:
        row = await services.database.fetch_one(_last_used, digest)
        return row["last_used_at"] if row else None

    async def back_date(services: Services, minutes: int) -> int:
        at = now_ms() - minutes * 60_000
        async with services.database.transaction() as tx:
            await tx.execute(_set_last_used, {**digest, "at": at})
        return at

    owner = Person(server, world.token)
    assert server.run(last_used) is None
    owner.get("/user")
    first = until(lambda: server.run(last_used))
    server.stop()
    recent = server.run(partial(back_date, minutes=9))
    server.start()  # the new process has recorded nothing, so only the row states the last use
    for _ in range(3):
        owner.get("/user")
    server.stop()
    assert server.run(last_used) == recent
    server.run(partial(back_date, minutes=11))
    server.start()
    owner.get("/user")
    assert until(lambda: (server.run(last_used) or 0) >= first)


def test_a_pending_last_use_is_written_on_shutdown(new_server: Any) -> None:
    server: Server = new_server(command=("serve", "--port", "0", "--no-worker"))  # nothing else delays its shutdown
    world = server.world()

    def serves() -> bool:
        try:
            return httpx.get(f"{server.url}/healthz", timeout=60).is_success
        except httpx.TransportError:
            return False

    with held(server, "SELECT id FROM tokens FOR UPDATE"):
        Person(server, world.token).get("/user")
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not serves())
    assert server.process.wait(60) == 0

    async def last_used(services: Services) -> int | None:
        row = await services.database.fetch_one(_last_used, {"digest": digest_of(world.token)})
        return row["last_used_at"] if row else None

    assert server.run(last_used) is not None
    assert "last_use_not_recorded" not in server.log()


async def test_a_token_created_while_its_parent_is_revoked_is_revoked_too(services: Services) -> None:
    """On PostgreSQL the revoking transaction waits for the creating one, and then finds the new token."""
    world = await make_world(services)
    actor = await find_actor(services.database, world.token)
    assert actor is not None
    async with opened(services) as beside:
        async with services.database.transaction() as tx:
            assert await lock_living(tx, actor.token_id)
            child = await issue(tx, CLASSIC, actor.user.id, parent_id=actor.token_id)
            revoking = await beside.begin(lambda other: revoke(other, [actor.token_id]))
        count = await revoking
    assert count == 2
    assert await find_actor(services.database, child.token) is None


# --- deletion of expired rows ------------------------------------------------------------------------------------


async def test_expired_rows_are_deleted_after_a_grace_period(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workhook.identity.tokens.issue.BATCH", 1)  # several batches are needed
    database, now = services.database, now_ms()
    world = await make_world(services)
    user_id = await user_id_of(services, world.token)
    ended: dict[str, dict[str, int | None]] = {
        "expired long ago": {"expires_at": now - 91 * DAY_MS},
        "expired lately": {"expires_at": now - 89 * DAY_MS},
        "for ever": {"expires_at": None},
        "revoked long ago": {"expires_at": now + DAY_MS, "revoked_at": now - 91 * DAY_MS},
        "revoked lately": {"expires_at": now - 200 * DAY_MS, "revoked_at": now - 89 * DAY_MS},
    }
    async with database.transaction() as tx:
        for note, times in ended.items():
            made = await issue(tx, CLASSIC, user_id, note=note, expires_at=times["expires_at"])
            if "revoked_at" in times:
                await tx.execute(_set_revoked, {"id": made.id, "at": times["revoked_at"]})
        for number, over in enumerate((True, False)):
            await _insert_expired(tx, user_id, number, now - 3 * DAY_MS if over else now + DAY_MS)
    assert await prune(database, now) == 2 + len(LEFT)
    rows = await database.fetch_all(sa.select(tokens.c.note).where(tokens.c.note.is_not(None)))
    assert {row["note"] for row in rows} == {"expired lately", "for ever", "revoked lately"}
    for table in LEFT:
        assert len(await database.fetch_all(sa.select(table))) == 1, table.name
    assert await prune(database, now) == 0
    # The remaining rows have expired, and device codes are deleted earliest.
    await prune(database, now + DAY_MS + HOUR_MS + 1)
    left = [len(await database.fetch_all(sa.select(table))) for table in LEFT]
    assert left == [0 if table is device_codes else 1 for table in LEFT]
    await prune(database, now + 3 * DAY_MS + 1)
    assert [await database.fetch_all(sa.select(table)) for table in LEFT] == [[]] * len(LEFT)


LEFT = (
    authorization_codes, device_codes, refresh_tokens, sessions, sign_in_links, sign_in_failures, rate_windows,
)  # fmt: skip


async def _insert_expired(tx: Transaction, user_id: int, number: int, at: int) -> None:
    """Insert a row of each kind that expired at `at`."""
    app = {
        "kind": "oauth", "account_id": user_id, "client_id": f"c{number}", "slug": f"s{number}", "name": "App",
        "callback_urls": "[]", "device_flow": False, "public": False, "permissions": "{}", "created_at": at,
        "updated_at": at,
    }  # fmt: skip
    made = await tx.fetch_one(insert_into(apps, *app).returning(apps.c.id), app)
    assert made is not None
    issued = {"digest": bytes([number]) * 32, "user_id": user_id, "created_at": at, "expires_at": at}
    of_app = {**issued, "app_id": made["id"]}
    rows: tuple[dict[str, object], ...] = (
        {**of_app, "redirect_uri": "", "scopes": "", "family": "f"},
        {**of_app, "scopes": "", "user_code": f"ABCD{number}", "interval_s": 5},
        {**of_app, "family": "f", "public": False},
        {**issued, "seen_at": at},
        {**issued, "purpose": "sign_in"},
        {"key": f"login:{number}", "failures": 1, "since": at, "blocked_until": at},
        {"caller": f"token:{number}", "resets_at": at, "used": 1, "granted": 0},
    )
    for table, row in zip(LEFT, rows, strict=True):
        await tx.execute(insert_into(table, *row), row)
