"""How tokens are looked up, ended and forgotten: in every process, exactly, and without a statement a request."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.api.people.tokens_kit import Person, issue_for, user_id_of
from tests.harness.beside import held, opened
from tests.harness.databases import Databases
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, make_world
from tests.work.counted import CountedServer
from workhook.core.clock import DAY_MS, HOUR_MS, now_ms
from workhook.core.ids import new_token
from workhook.http.calls import Services
from workhook.identity.tables import (
    apps,
    authorization_codes,
    device_codes,
    rate_windows,
    refresh_tokens,
    sessions,
    sign_in_failures,
    sign_in_links,
    tokens,
)
from workhook.identity.tokens.issue import CLASSIC, digest_of, issue, prune, revoke
from workhook.identity.tokens.lookup import find_actor
from workhook.identity.tokens.personal import lock_living
from workhook.storage import Transaction
from workhook.storage.metadata import big, insert_into

_last_used = sa.select(tokens.c.last_used_at).where(tokens.c.digest == sa.bindparam("digest"))
_set_last_used = sa.update(tokens).where(tokens.c.digest == sa.bindparam("digest")).values(last_used_at=big("at"))
_set_revoked = sa.update(tokens).where(tokens.c.id == big("id")).values(revoked_at=big("at"))


@pytest.fixture
def owner(server: Server, world: World) -> Person:
    return Person(server, world.token)


def test_revocation_reaches_every_process_within_a_second(backend: Databases, tmp_path: Path) -> None:
    database = backend.new(tmp_path)
    first = Server(tmp_path, database).start()
    second = Server(tmp_path, database).start()
    try:
        world = first.world()
        owner = Person(first, world.token)
        made = owner.make(scopes=["work"])
        with second.client(made["token"]) as there, first.client(made["token"]) as here:
            assert there.get("/user").status_code == here.get("/user").status_code == 200  # both remember it now
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


def _ask_until_it_ends(server: Server, owner: Person, life_ms: int) -> tuple[int, list[tuple[int, int, int]]]:
    """When a token of so long a life ends; and its requests: before, after, status."""

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


def test_a_token_ends_at_its_time_also_where_it_is_remembered(server: Server, owner: Person) -> None:
    for life_ms in (2_500, 10_000, 30_000):  # a longer one where the machine did not come to ask in time
        expires_at, asked = _ask_until_it_ends(server, owner, life_ms)
        for before, after, status in asked:  # decided at a moment between the two
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


def test_what_is_no_token_costs_no_statement(counted: CountedServer) -> None:
    good = counted.world.token
    wrong = good[:-1] + ("0" if good[-1] != "0" else "1")
    assert new_token("whp_")[:4] == good[:4]
    for token in (wrong, good[:-1], f"{good}0", "whp_", "ghp_" + good[4:], good.upper(), "nonsense"):
        with counted.client(token) as client:
            counted.forget()
            assert client.get("/user").status_code == 401
            assert counted.statements == [], token
    with counted.client(new_token("whp_")) as client:  # it has a checksum: only the table knows that there is none
        counted.forget()
        assert client.get("/user").status_code == 401
        assert [each[:6] for each in counted.statements] == ["SELECT"]


def test_a_token_is_looked_up_once_and_its_use_noted_now_and_then(counted: CountedServer) -> None:
    with counted.client(counted.member_token) as client:
        counted.forget()
        assert client.get("/user").status_code == 200
        assert any(each.startswith("SELECT tokens.id") for each in counted.statements)
        until(lambda: [each for each in counted.statements if each.startswith("UPDATE tokens")])
        asked = 0

        def several_from_memory() -> bool:
            """Five in a row within the time that the last look-up stands."""
            nonlocal asked
            client.get("/user")
            counted.forget()
            for _ in range(5):
                assert client.get("/user").status_code == 200
            asked += 5
            return counted.statements == []

        until(several_from_memory)
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
    server.start()  # it has noted nothing itself: only the row says when
    for _ in range(3):
        owner.get("/user")
    server.stop()
    assert server.run(last_used) == recent
    server.run(partial(back_date, minutes=11))
    server.start()
    owner.get("/user")
    assert until(lambda: (server.run(last_used) or 0) >= first)


def test_a_use_that_is_being_noted_is_written_at_the_stop(new_server: Any) -> None:
    server: Server = new_server(command=("serve", "--port", "0", "--no-worker"))  # nothing else keeps it
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
    assert "token_use_not_noted" not in server.log()


async def test_what_is_made_while_its_maker_is_revoked_does_not_stay(services: Services) -> None:
    """On PostgreSQL the revoking transaction waits for the making one, and finds what it made."""
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


# --- what is over goes -------------------------------------------------------------------------------------------


async def test_what_is_over_is_deleted_some_time_later(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workhook.identity.tokens.issue.BATCH", 1)  # so that what is over needs several
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
            await _leave_behind(tx, user_id, number, now - 3 * DAY_MS if over else now + DAY_MS)
    assert await prune(database, now) == 2 + len(LEFT)
    rows = await database.fetch_all(sa.select(tokens.c.note).where(tokens.c.note.is_not(None)))
    assert {row["note"] for row in rows} == {"expired lately", "for ever", "revoked lately"}
    for table in LEFT:
        assert len(await database.fetch_all(sa.select(table))) == 1, table.name
    assert await prune(database, now) == 0
    await prune(database, now + DAY_MS + HOUR_MS + 1)  # what is left has ended: codes of devices go first
    left = [len(await database.fetch_all(sa.select(table))) for table in LEFT]
    assert left == [0 if table is device_codes else 1 for table in LEFT]
    await prune(database, now + 3 * DAY_MS + 1)
    assert [await database.fetch_all(sa.select(table)) for table in LEFT] == [[]] * len(LEFT)


LEFT = (
    authorization_codes, device_codes, refresh_tokens, sessions, sign_in_links, sign_in_failures, rate_windows,
)  # fmt: skip


async def _leave_behind(tx: Transaction, user_id: int, number: int, at: int) -> None:
    """A row of each kind, over at `at`."""
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
