"""The request limit: one count for all processes, with few writes."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial

import asyncpg
import httpx
import sqlalchemy as sa

from tests.api.people.tokens_kit import Person, issue_for
from tests.harness.apps import make_app
from tests.harness.server import Server
from tests.harness.waiting import finish, until
from tests.harness.world import add_user
from tests.web.browser import Browser
from workhook.http.calls import Services
from workhook.identity.actions import issue_token
from workhook.identity.queries import find_account
from workhook.identity.rate import TAKEN_BACK_TIMES, RateLimiter
from workhook.identity.tables import rate_windows
from workhook.identity.tokens.issue import APP_USER, OAUTH
from workhook.storage import Row

LIMIT = 20
_windows = sa.select(rate_windows).order_by(rate_windows.c.caller)
_over = sa.update(rate_windows).values(resets_at=rate_windows.c.resets_at - sa.literal(3_600_000, sa.BigInteger))


def _stored(server: Server) -> list[Row]:
    async def read(services: Services) -> list[Row]:
        return list(await services.database.fetch_all(_windows))

    found: list[Row] = server.run(read)
    return found


def _end_windows(server: Server) -> None:
    """End every window by moving it an hour into the past."""

    async def move(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_over)

    server.run(move)


def _send_requests(clients: list[httpx.Client], number: int) -> list[httpx.Response]:
    """Send `number` requests concurrently through all clients."""
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda each: clients[each % len(clients)].get("/user"), range(number)))


def test_two_processes_share_one_count(new_server: Callable[..., Server]) -> None:
    servers = [new_server(api_rate_limit=LIMIT), new_server(api_rate_limit=LIMIT, log_level="warning")]
    world, other = servers[0].world(), servers[0].world()
    clients = [each.client(world.token) for each in servers]
    answers = _send_requests(clients, 3 * LIMIT)
    assert Counter(each.status_code for each in answers) == {200: LIMIT, 403: 2 * LIMIT}
    used = sorted(int(each.headers["x-ratelimit-used"]) for each in answers if each.status_code == 200)
    assert used[-1] == LIMIT
    refused = next(each for each in answers if each.status_code == 403)
    assert refused.json()["message"].startswith("API rate limit exceeded")
    assert refused.headers["x-ratelimit-remaining"] == "0"
    assert 3500 < int(refused.headers["retry-after"]) <= 3600
    work = clients[0].get("/api/v1/me")
    assert (work.status_code, work.json()["code"]) == (429, "rate_limited")
    assert work.headers["retry-after"]
    for client in clients:  # reading the limit is free and always answered
        rate = client.get("/rate_limit").json()["rate"]
        assert (rate["limit"], rate["used"], rate["remaining"]) == (LIMIT, LIMIT, 0)
    with servers[1].client(other.token) as another:  # this caller has a window of its own
        assert another.get("/user").headers["x-ratelimit-remaining"] == str(LIMIT - 1)

    _end_windows(servers[0])
    until(lambda: clients[0].get("/user").status_code == 200)
    again = _send_requests(clients[::-1], 3 * LIMIT)
    assert sum(each.status_code == 200 for each in again) == LIMIT - 1
    for client in clients:
        client.close()


def test_not_modified_responses_are_free(new_server: Callable[..., Server]) -> None:
    server = new_server(api_rate_limit=3)
    world = server.world()
    with server.client(world.token) as client, server.client(None) as nobody:
        tag = {"If-None-Match": client.get("/user").headers["etag"]}
        for path, number in (("/user", 304), ("/user", 304), ("/user", 304), ("/user", 304), ("/orgs/nowhere", 404)):
            answer = client.get(path, headers=tag)
            used = "1" if number == 304 else "2"
            assert (answer.status_code, answer.headers["x-ratelimit-used"]) == (number, used)
            assert int(answer.headers["x-ratelimit-remaining"]) == 3 - int(used)
        assert client.get("/user").headers["x-ratelimit-remaining"] == "0"
        assert client.get("/user", headers=tag).status_code == 403
        nobody.get("/meta")
        spent = [nobody.get("/meta", headers={"If-None-Match": "*"}).headers["x-ratelimit-used"] for _ in range(2)]
        assert spent == ["2", "3"]  # as with GitHub, only authenticated callers get them free


async def test_the_number_of_free_responses_is_limited(services: Services) -> None:
    """Determining that nothing has changed also takes work. The count does not restart when a caller has been idle."""
    limiter = RateLimiter(2, services.database)
    for number in range(2 * TAKEN_BACK_TIMES):
        assert (await limiter.hit("app:7"))[1], number
        usage = limiter.undo("app:7")
        assert usage is not None
        assert usage.remaining == 2, number
        if number % 5 == 0:
            await limiter.close()
    assert (await limiter.hit("app:7"))[1]
    assert limiter.undo("app:7") is None
    usage, _ = await limiter.hit("app:7", count=0)
    assert usage.remaining == 1
    assert (await limiter.hit("app:8"))[1]
    assert limiter.undo("app:8") is not None
    await limiter.close()


def test_new_tokens_share_the_limit_of_their_parent(new_server: Callable[..., Server]) -> None:
    """Tokens share the limit of the token that created them, over two generations.

    Independent tokens have their own.
    """
    servers = [new_server(api_rate_limit=LIMIT), new_server(api_rate_limit=LIMIT)]
    world = servers[0].world()
    owner = Person(servers[0], world.token)
    child = owner.other(owner.make(scopes=["work"])["token"])
    grandchild = Person(servers[1], child.make(scopes=["work:read"])["token"])
    own = {"kind": "fine_grained", "organization": world.organization, "permissions": {"work": "read"}}
    confined = child.other(child.make(**own)["token"])
    used = 3  # the requests that created them
    for turn in range(3):
        for person in (owner, child, confined):
            used += 1
            headers = person.call("GET", "/user").headers
            assert (headers["x-ratelimit-used"], headers["x-ratelimit-remaining"]) == (str(used), str(LIMIT - used))
        rate = confined.get("/rate_limit")["rate"]
        assert (rate["used"], rate["remaining"]) == (used, LIMIT - used), turn
    rest = [person.call("GET", "/user").status_code for person in (grandchild, child, owner) * LIMIT]
    assert rest.count(200) == LIMIT - used
    assert {each.call("GET", "/user").status_code for each in (owner, child, grandchild, confined)} == {403}
    assert {each.get("/rate_limit")["rate"]["remaining"] for each in (owner, child, grandchild, confined)} == {0}

    async def root(services: Services) -> str:
        async with services.database.transaction() as tx:
            user = await find_account(tx, world.owner)
            assert user is not None
            return (await issue_token(tx, user, ["work"])).token

    assert owner.other(servers[0].run(root)).call("GET", "/user").headers["x-ratelimit-used"] == "1"


def test_an_app_gains_no_requests_by_creating_tokens(new_server: Callable[..., Server]) -> None:
    """All tokens of an installation share one limit, and so do all tokens of an app for one user."""
    server = new_server(api_rate_limit=LIMIT)
    world = server.world()
    app, others = make_app(server, world), make_app(server, world)

    def used(token: str) -> int:
        with server.client(token) as client:
            return int(client.get("/rate_limit").headers["x-ratelimit-used"])

    tokens = [each.token(server) for each in (app, app, others)]
    with server.client(tokens[0]) as client:
        assert client.get("/installation/repositories").headers["x-ratelimit-used"] == "1"
    assert [used(each) for each in tokens] == [1, 1, 0]

    async def consented(services: Services, family: str) -> str:
        return (await issue_for(services, world.token, APP_USER, app_id=app.id, family=family))[1]

    first, renewed, later = (server.run(partial(consented, family=each)) for each in ("f-1", "f-1", "f-2"))
    with server.client(first) as client:
        assert client.get("/user").headers["x-ratelimit-used"] == "1"
    assert [used(each) for each in (first, renewed, later)] == [1, 1, 1]

    async def of(services: Services, token: str, app_id: int) -> str:
        return (await issue_for(services, token, OAUTH, app_id=app_id, family="f-3"))[1]

    another = server.run(partial(add_user, world=world))
    of_another, of_others = (
        server.run(partial(of, token=token, app_id=number))
        for token, number in ((another, app.id), (world.token, others.id))
    )
    assert [used(each) for each in (of_another, of_others, world.token)] == [0, 0, 0]


def test_requests_are_reserved_in_blocks_and_unused_ones_returned(new_server: Callable[..., Server]) -> None:
    limit = 5000
    server = new_server(api_rate_limit=limit)
    with server.client(server.world().token) as client:
        used = [int(client.get("/user").headers["x-ratelimit-used"]) for _ in range(10)]
        assert used == list(range(1, 11))
        [window] = _stored(server)
        assert window["used"] == limit // 50  # a block, reserved at once
        bad = {"Authorization": "Bearer whp_nobodys"}
        assert client.get("/user", headers=bad).status_code == 401
        assert len(_stored(server)) == 1  # a stranger causes no write
    server.stop()
    [window] = _stored(server)
    assert window["used"] == 10
    server.start()
    with server.client(server.world().token) as fresh:
        assert fresh.get("/user").headers["x-ratelimit-used"] == "1"


@contextmanager
def _read_only(server: Server) -> Iterator[None]:
    """Make the database read-only: lock the SQLite file, or forbid writes on PostgreSQL."""
    url = server.settings.get("database_url")
    if url is None:
        with closing(sqlite3.connect(server.data / "workhook.db", isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            yield
    else:
        finish(lambda: _allow_writes(url, allow=False))
        yield
        finish(lambda: _allow_writes(url, allow=True))


async def _allow_writes(url: str, *, allow: bool) -> None:
    """Allow or forbid writes, and close the existing connections to apply it to them too."""
    name = re.findall(r"t[0-9a-f]{32}", url)[0]
    connection = await asyncpg.connect(url.replace(name, "postgres"))
    try:
        await connection.execute(
            f'ALTER DATABASE "{name}" SET default_transaction_read_only = {str(not allow).lower()}'
        )
        await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    finally:
        await connection.close()


def test_a_read_only_database_still_serves_reads(new_server: Callable[..., Server]) -> None:
    server = new_server(api_rate_limit=1000)
    with server.client(server.world().token) as client:
        assert client.get("/user").status_code == 200
        with _read_only(server):
            until(lambda: client.get("/rate_limit").status_code == 200)  # the connections have been reopened
            answers = [client.get("/user") for _ in range(25)]
        assert {each.status_code for each in answers} == {200}
        left = [int(each.headers["x-ratelimit-remaining"]) for each in answers]
        assert left == list(range(998, 973, -1))  # the remaining 19 of its block, then counted by the process alone
        metrics = client.get("/metrics").text
        assert re.search(r"^workhook_rate_limit_local_total [1-9]", metrics, re.MULTILINE)
    until(lambda: "rate_limit_counted_locally" in server.log())


async def test_addresses_are_counted_per_process_up_to_a_limit(services: Services) -> None:
    limiter = RateLimiter(2, services.database)
    within = [(await limiter.hit("address:10.0.0.1"))[1] for _ in range(3)]
    assert within == [True, True, False]
    assert (await limiter.hit("address:10.0.0.2"))[1]
    # An IPv6 subscriber has an entire network.
    same = [(await limiter.hit(f"address:2001:db8::{each:x}"))[1] for each in range(3)]
    assert same == [True, True, False]
    assert (await limiter.hit("address:2001:db8:0:1::1"))[1]
    for each in range(11_000):
        await limiter.hit(f"address:10.{each >> 16}.{each >> 8 & 255}.{each & 255}")
    assert len(limiter._addresses._counts) <= 10_000
    assert await services.database.fetch_all(_windows) == []


async def test_a_block_never_exceeds_the_remaining_requests(services: Services) -> None:
    """Three processes together use exactly the limit."""
    limiters = [RateLimiter(230, services.database) for _ in range(3)]

    async def use(limiter: RateLimiter) -> int:
        count = 0
        while (await limiter.hit("app:7"))[1]:
            count += 1
        return count

    assert sum(await asyncio.gather(*map(use, limiters))) == 230
    usage, within = await limiters[0].hit("app:7", count=0)
    assert (usage.used, usage.remaining, within) == (230, 0, True)
    for limiter in limiters:
        await limiter.close()
    [window] = await services.database.fetch_all(_windows)
    assert (window["caller"], window["used"]) == ("app:7", 230)


def test_page_forms_share_one_limit_across_sessions(new_server: Callable[..., Server]) -> None:
    server = new_server(api_rate_limit=3)
    world = server.world()
    with Browser.of(server, world.owner) as here, Browser.of(server, world.owner) as there:
        for number, browser in enumerate((here, there, here)):
            sent = browser.fill_csrf(f"/{world.full_name}/columns", title=f"Column {number}")
            assert sent.status_code == 303, sent.text
        refused = there.fill_csrf(f"/{world.full_name}/columns", title="One too many")
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= 3600
        assert "submitted 3 forms within an hour" in refused.text
        assert here.get(f"/{world.full_name}").status_code == 200, "who only looks is not counted"
        with server.client(world.token) as api:
            assert api.get("/user").status_code == 200, "a token has a limit of its own"
