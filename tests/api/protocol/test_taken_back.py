"""Writes that PostgreSQL rolls back at commit are retried and take effect once.

The returned secret is the stored one, events are not sent twice, and the audit log has one entry.
"""

from __future__ import annotations

from collections.abc import Iterator

import asyncpg
import httpx
import pytest

from tests.api.app_kit import CALLBACK, new_name
from tests.api.oauth_kit import Site
from tests.api.running.test_audit import by_request
from tests.api.wire import Api
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import finish, until
from tests.harness.world import World

# A sequence is not rolled back, so it keeps the number of the request that was refused last.
_REFUSE_ONCE = """
    CREATE SEQUENCE refused MINVALUE 0 START 0;
    CREATE FUNCTION refuse_once() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE this bigint := hashtext(NEW.request_id)::bigint + 2147483648;
    BEGIN
        IF (SELECT last_value FROM refused) <> this THEN
            PERFORM setval('refused', this);
            RAISE serialization_failure;
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse_once BEFORE INSERT ON audit_log FOR EACH ROW
    WHEN (NEW.request_id IS NOT NULL AND NEW.status IS NULL) EXECUTE FUNCTION refuse_once();
"""


@pytest.fixture
def taken_back(server: Server, world: World) -> Iterator[bool]:
    """Return whether the first attempt of each request that writes an entry is rolled back, which SQLite's single
    writer never is."""
    url = server.settings.get("database_url")

    async def run(script: str) -> None:
        other = await asyncpg.connect(url)
        await other.execute(script)
        await other.close()

    if url is not None:
        finish(lambda: run(_REFUSE_ONCE))
    yield url is not None
    if url is not None:
        finish(lambda: run("DROP FUNCTION refuse_once CASCADE; DROP SEQUENCE refused"))


def count_retries(server: Server) -> float:
    mine = 'workhook_database_rolled_back_total{outcome="again",reason="serialization"}'
    lines = httpx.get(f"{server.url}/metrics", timeout=60).text.splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(mine)), 0)


def entries(server: Server, answer: httpx.Response) -> list[str]:
    return [row["action"] for row in by_request(server).get(answer.headers["x-request-id"], [])]


def test_the_response_matches_the_stored_data(
    server: Server, world: World, api: Api, receiver: Receiver, taken_back: bool
) -> None:
    before, org, done = count_retries(server), world.org_path, dict[str, httpx.Response]()
    done["token.create"] = made = api.post("/user/tokens", json={"kind": "classic", "scopes": ["work"], "note": "one"})
    with server.client(made.json()["token"]) as mine:
        assert mine.get("/user").status_code == 200
        done["token.revoke"] = api.delete(f"/user/tokens/{made.json()['id']}")
        until(lambda: mine.get("/user").status_code == 401)
    done["oauth_app.create"] = app = api.post(
        f"{org}/oauth-apps", json={"name": new_name(), "callback_urls": [CALLBACK]}
    )
    client_id = app.json()["client_id"]
    done["oauth_app.create_secret"] = second = api.post(f"{org}/oauth-apps/{client_id}/secrets")
    for each in (app, second):
        given = {"client_id": client_id, "client_secret": each.json()["client_secret"], "code": "none"}
        answer = httpx.post(
            f"{server.url}/login/oauth/access_token", data=given, headers={"Accept": "application/json"}, timeout=60
        )
        assert answer.json()["error"] == "bad_verification_code"
    hook = {"config": {"url": receiver.url, "secret": "a secret of some length"}, "events": ["push"]}
    done["hook.create"] = created = api.post(f"{world.repo_path}/hooks", json={"name": "web", **hook})
    done["hook.ping"] = api.post(f"{world.repo_path}/hooks/{created.json()['id']}/pings")
    assert {name: each.status_code for name, each in done.items() if not each.is_success} == {}
    published = api.post(f"{world.repo_path}/events", json={"event": "push", "payload": {}, "id": "once"})
    assert published.json()["deliveries"] == 1
    receiver.wait_for(lambda _: len(receiver.events("push")) == 1 and len(receiver.events("ping")) >= 2)
    assert len(receiver.events("ping")) == 2
    assert {name: entries(server, each) for name, each in done.items()} == {name: [name] for name in done}
    assert count_retries(server) >= before + len(done) * taken_back


def test_an_authorization_code_is_exchanged_once(server: Server, taken_back: bool) -> None:
    site = Site(server)
    try:
        before, code = count_retries(server), site.ada.code(site.oauth)
        token = site.token(site.oauth, code=code)["access_token"]
        assert site.user_of(token) == site.ada.user.login
        assert count_retries(server) >= before + 2 * taken_back  # her consent and the token
        site.refused(site.oauth, "bad_verification_code", code=code)
        assert site.user_of(token) is None  # it was used twice
    finally:
        site.close()
