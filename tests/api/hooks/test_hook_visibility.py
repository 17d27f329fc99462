"""Visibility of webhooks by caller (section Authentication 3 of the specification), and the installation that
deliveries name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from tests.api.wire import Api, Place, custom, invalid, refused
from tests.harness.apps import PERMISSIONS, Registered, make_app, user_token
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World
from workhook.hooks.tables import hooks
from workhook.http.calls import Services
from workhook.identity import queries
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.policy import SCOPES
from workhook.identity.tokens.issue import FINE_GRAINED, OAUTH, issue

LIMIT = 4
_numbers = itertools.count(1)


@dataclass
class Callers:
    """API clients with every kind of token of the same owner, each with all its permissions, including two OAuth
    apps."""

    server: Server
    world: World
    app: Registered
    client_ids: dict[str, str]
    by: dict[str, Api]

    OAUTH = ("oauth", "other oauth")
    OTHERS = ("classic", "fine-grained", "app user", "installation")

    def own(self, caller: str, place: Place) -> set[str]:
        """Return the callers whose webhooks the caller sees: all in a repository, but in an organization not those of
        other apps."""
        if place.kind == "repository":
            return {*self.OAUTH, *self.OTHERS}
        return {caller} if caller in self.OAUTH else set(self.OTHERS)


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {"hooks_per_event": LIMIT}


@pytest.fixture
def callers(server: Server) -> Iterator[Callers]:
    world = server.world()
    app = make_app(server, world)

    async def make(services: Services) -> tuple[dict[str, str], dict[str, str]]:
        clients, tokens = {}, {}
        async with services.database.transaction() as tx:
            owner, place = (
                await queries.find_account(tx, world.owner),
                await queries.find_account(tx, world.organization),
            )
            assert owner is not None
            assert place is not None
            for name in Callers.OAUTH:
                made, _, _ = await create_app(
                    tx,
                    None,
                    place,
                    OauthAppCreate(name=f"Viewer {next(_numbers)} {place.id}", callback_urls=["https://example.com/"]),
                )
                clients[name] = made.client_id
                tokens[name] = (await issue(tx, OAUTH, owner.id, scopes=SCOPES, app_id=made.id)).token
            fine = await issue(tx, FINE_GRAINED, owner.id, permissions=PERMISSIONS, account_id=place.id)
            tokens["fine-grained"] = fine.token
        return clients, tokens

    ids, tokens = server.run(make)
    tokens |= {
        "classic": world.token,
        "app user": user_token(server, app, world.owner),
        "installation": app.token(server),
    }
    clients = {name: server.client(token) for name, token in tokens.items()}
    yield Callers(server, world, app, ids, {name: Api(client) for name, client in clients.items()})
    for client in clients.values():
        client.close()


@pytest.fixture(params=("repository", "organization"))
def place(request: pytest.FixtureRequest, callers: Callers) -> Place:
    return Place(request.param, callers.world)


def operations(place: Place, hook: dict[str, Any], delivery_id: int) -> Iterator[tuple[str, str, Any]]:
    """Yield every operation on a webhook as method, path and body."""
    at = f"{place.hooks}/{hook['id']}"
    yield "GET", at, None
    yield "PATCH", at, {"active": False}
    yield "GET", f"{at}/config", None
    yield "PATCH", f"{at}/config", {"secret": "stolen"}
    yield "GET", f"{at}/health", None
    yield "POST", f"{at}/pings", None
    if place.kind == "repository":
        yield "POST", f"{at}/test", None
        yield "POST", f"{at}/tests", None
    yield "GET", f"{at}/deliveries", None
    yield "GET", f"{at}/deliveries/{delivery_id}", None
    yield "POST", f"{at}/deliveries/{delivery_id}/attempts", None
    yield "POST", f"{at}/deliveries/redeliver", {"status": "success"}
    yield "DELETE", at, None


def delivered(api: Api, hook: dict[str, Any], count: int = 1) -> list[dict[str, Any]]:
    return until(lambda: found if len(found := api.read(hook["deliveries_url"])) >= count else [])


def test_organization_webhooks_of_an_oauth_app_are_visible_only_to_that_app(
    callers: Callers, place: Place, receiver: Receiver
) -> None:
    made = {}
    for name in ("classic", "installation", *callers.OAUTH):
        config = {"url": f"{receiver.url}?{name.replace(' ', '-')}", "retries": "0"}
        made[name] = callers.by[name].hook(place, config=config, events=["status"], active=True)
    deliveries = {name: delivered(callers.by[name], hook)[0]["id"] for name, hook in made.items()}
    before = {name: callers.by[name].read(hook["url"]) for name, hook in made.items()}
    for caller, api in callers.by.items():
        seen = {name for name in made if name in callers.own(caller, place)}
        wanted = [hook["id"] for name, hook in made.items() if name in seen]
        assert [each["id"] for each in api.read(place.hooks)] == wanted, caller
        page = api.get(f"{place.hooks}?per_page=1")
        pages = page.links["last"]["url"].endswith(f"page={len(wanted)}") if len(wanted) > 1 else not page.links
        assert pages, (caller, page.headers.get("link"))
        for name, hook in made.items():
            if name in seen:
                assert api.read(hook["url"])["id"] == hook["id"]
                assert api.read(f"{hook['deliveries_url']}/{deliveries[name]}")["event"] == "ping"
                continue
            for method, path, body in operations(place, hook, deliveries[name]):
                refused(api.request(method, path, json=body), 404, "Not Found")
    for name, hook in made.items():
        assert callers.by[name].read(hook["url"]) == before[name]
        assert len(callers.by[name].read(hook["deliveries_url"])) == 1
    assert len(receiver.requests) == len(made), "only the pings of creation were sent"


def test_duplicates_and_limits_do_not_reveal_hidden_webhooks(callers: Callers) -> None:
    """In an organization each OAuth app has its own limit; all other callers share one."""
    place = Place("organization", callers.world)
    config = {"url": "http://127.0.0.1:9/the-same"}
    exists = custom(f"Hook already exists on this {place.kind}")
    full = custom(f'The "fork" event cannot have more than {LIMIT} hooks')
    for name in ("classic", *callers.OAUTH):
        api = callers.by[name]
        first = api.hook(place, config=config, events=["fork"])
        invalid(api.create(place, config=config, events=["fork"]), exists)
        assert api.patch(first["url"], json={"events": ["fork", "push"]}).status_code == 200
        assert api.patch(first["url"], json={"events": ["fork"]}).status_code == 200
        for _ in range(LIMIT - 1):
            api.hook(place, events=["fork"])
        invalid(api.create(place, events=["fork"]), full)
    for name in callers.OTHERS:
        invalid(callers.by[name].create(place, config=config, events=["fork"]), exists)
        invalid(callers.by[name].create(place, events=["fork"]), full)


def test_a_repository_shares_duplicates_and_limits_among_all_callers(callers: Callers) -> None:
    place = Place("repository", callers.world)
    config = {"url": "http://127.0.0.1:9/the-same"}
    exists = custom(f"Hook already exists on this {place.kind}")
    full = custom(f'The "fork" event cannot have more than {LIMIT} hooks')
    by_user = callers.by["classic"].hook(place, config=config, events=["fork"])
    by_app = callers.by["oauth"].hook(place, events=["fork"])
    more = [callers.by["other oauth"].hook(place, events=["fork"]) for _ in range(LIMIT - 2)]
    for api in callers.by.values():
        assert api.read(place.hooks) == [by_user, by_app, *more]
        invalid(api.create(place, config=config, events=["fork", "push"]), exists)
        invalid(api.create(place, events=["fork"]), full)
        invalid(api.patch(f"{by_app['url']}/config", json={"url": config["url"]}), exists)
    assert callers.by["classic"].patch(by_app["url"], json={"active": True}).status_code == 200
    assert callers.by["other oauth"].delete(by_app["url"]).status_code == 204


def test_events_about_a_webhook_are_sent_only_to_callers_who_see_it(
    callers: Callers, place: Place, receiver: Receiver
) -> None:
    receiver.reply = lambda received: Reply(410) if received.path.endswith("gone") else Reply()
    for name in ("classic", "oauth"):
        listening = {"url": f"{receiver.url}?{name}", "content_type": "json"}
        callers.by[name].hook(place, config=listening, events=["hook"], active=True)
    off = {}
    for name in ("oauth", "classic"):
        api = callers.by[name]
        hook = api.hook(place, config={"url": f"{receiver.url}?{name}-gone"}, events=["fork"], active=True)
        until(lambda api=api, hook=hook: api.read(hook["url"])["active"] is False)  # type: ignore[misc]  # called immediately
        off[name] = hook["id"]
    is_shared = place.kind == "repository"
    expected = {(told, off[name]) for told in off for name in off if is_shared or told == name}
    told = receiver.wait_for(lambda requests: sum(each.event == "hook" for each in requests) >= len(expected))
    heard = {(each.path.partition("?")[2], each.payload()["hook"]["id"]) for each in told if each.event == "hook"}
    assert heard == expected
    publish = {"event": "hook", "payload": {}}
    counts = (2, 2, 2, 2) if is_shared else (1, 1, 0, 1)
    for name, seen in zip(("classic", "oauth", "other oauth", "app user"), counts, strict=True):
        answer = callers.by[name].post(f"{place.path}/events", json=publish).json()
        assert answer["deliveries"] == seen, name


def test_an_apps_organization_webhook_gets_no_events_about_repository_webhooks(
    callers: Callers, receiver: Receiver
) -> None:
    """An app with only `admin:org_hook` cannot read the webhooks of a repository."""
    receiver.reply = lambda received: Reply(410) if received.path.endswith("gone") else Reply()
    above, inside = Place("organization", callers.world), Place("repository", callers.world)
    for name in ("classic", "oauth"):
        config = {"url": f"{receiver.url}?{name}", "content_type": "json"}
        callers.by[name].hook(above, config=config, events=["hook"], active=True)
    gone = {}
    for name in ("classic", "other oauth", "oauth"):
        config = {"url": f"{receiver.url}?{name.replace(' ', '-')}-gone"}
        hook = gone[name] = callers.by[name].hook(inside, config=config, events=["fork"], active=True)
        until(lambda hook=hook: callers.by["classic"].read(hook["url"])["active"] is False)  # type: ignore[misc]  # called immediately
    expected = {("classic", each["id"]) for each in gone.values()} | {("oauth", gone["oauth"]["id"])}
    told = receiver.wait_for(lambda requests: sum(each.event == "hook" for each in requests) >= len(expected))
    heard = {(each.path.partition("?")[2], each.payload()["hook"]["id"]) for each in told if each.event == "hook"}
    assert heard == expected


def test_the_audit_log_shows_a_webhooks_url_only_to_callers_who_see_it(callers: Callers, place: Place) -> None:
    where = {"classic": "http://127.0.0.1:9/place-of-people", "oauth": "http://127.0.0.1:9/place-of-an-app"}
    made = {name: callers.by[name].hook(place, config={"url": url})["id"] for name, url in where.items()}
    people_see = [*where] if place.kind == "repository" else ["classic"]
    for kind in ("application/json", "application/x-ndjson"):
        for name, seen in (("classic", people_see), ("oauth", []), ("other oauth", [])):
            log = callers.by[name].get(f"{callers.world.org_path}/audit-log", headers={"Accept": kind})
            assert log.status_code == 200
            assert [each for each, url in where.items() if url in log.text] == seen, name
            assert all(f"hook/{hook_id}" in log.text for hook_id in made.values())


def test_deliveries_name_the_installation(callers: Callers, receiver: Receiver) -> None:
    """A delivery names the installation that caused the event or else created the webhook, also when it is
    redelivered."""
    place, number = Place("repository", callers.world), callers.app.installation_id
    people, app = callers.by["classic"], callers.by["installation"]
    config = {"content_type": "json", "retries": "0"}
    ours = people.hook(place, config={**config, "url": f"{receiver.url}?people"}, events=["push"], active=True)
    theirs = app.hook(place, config={**config, "url": f"{receiver.url}?app"}, events=["push"], active=True)
    count = itertools.count(1)

    def newest(expected: int | None, of_app: int | None = number) -> list[dict[str, Any]]:
        """Wait until both webhooks have one more delivery, and return the newest of each."""
        wanted = next(count)
        found = [delivered(people, hook, wanted)[0] for hook in (ours, theirs)]
        assert [each["installation_id"] for each in found] == [expected, of_app]
        return found

    newest(None)  # the pings sent on creation: the user's and the app's
    publish = {"event": "push", "payload": {"ref": "refs/heads/main"}}
    people.post(f"{place.path}/events", json=publish)
    newest(None)
    app.post(f"{place.path}/events", json=publish)
    pushed = newest(number)
    for hook in (ours, theirs):
        people.post(f"{hook['url']}/test")
    newest(number)  # the push that the app published, redelivered
    for hook, each in zip((ours, theirs), pushed, strict=True):
        assert people.post(f"{hook['deliveries_url']}/{each['id']}/attempts").status_code == 202
    newest(number)
    for hook, each in zip((ours, theirs), pushed, strict=True):
        body = {"ids": [each["id"]]}
        assert people.post(f"{hook['deliveries_url']}/redeliver", json=body).json()["queued"] == 1
    again = newest(number)
    shown = [
        people.read(f"{hook['deliveries_url']}/{each['id']}") for hook, each in zip((ours, theirs), again, strict=True)
    ]
    assert [each["installation_id"] for each in shown] == [number, number]
    assert all(each["redelivery"] for each in shown)
    for hook in (ours, theirs):
        assert app.post(f"{hook['url']}/pings").status_code == 204
    newest(number)
    for hook in (ours, theirs):
        assert people.post(f"{hook['url']}/pings").status_code == 204
    newest(None)


def test_deleting_an_app_deletes_its_webhooks(callers: Callers, place: Place, receiver: Receiver) -> None:
    app, people = callers.by["oauth"], callers.by["classic"]
    others = [callers.by[name].hook(place, events=["fork"]) for name in ("classic", "other oauth")]
    gone = app.hook(place, config={"url": receiver.url}, events=["fork"], active=True)
    receiver.wait_for(1)
    path = f"{callers.world.org_path}/oauth-apps/{callers.client_ids['oauth']}"
    assert people.delete(path).status_code == 204
    refused(app.get(gone["url"]), 401, "Bad credentials")
    rows = callers.server.run(_hook_ids)
    assert gone["id"] not in rows
    assert {each["id"] for each in others} <= rows
    answer = people.post(f"{place.path}/events", json={"event": "fork", "payload": {}})
    assert answer.json()["deliveries"] == 0
    assert len(receiver.requests) == 1


async def _hook_ids(services: Services) -> set[int]:
    return {row["id"] for row in await services.database.fetch_all(sa.select(hooks.c.id))}


def test_a_publisher_cannot_forge_the_installation(callers: Callers, receiver: Receiver) -> None:
    """Payloads for the app's webhook name the app's installation, whatever the publisher sent.

    Payloads for other webhooks are unchanged.
    """
    place, number = Place("repository", callers.world), callers.app.installation_id
    people, app = callers.by["classic"], callers.by["installation"]
    own, forged = {"id": number, "node_id": f"I_{number}"}, {"id": number + 1}
    hooks_made = [
        by.hook(place, config={"content_type": "form", "url": f"{receiver.url}?{n}"}, events=["release"], active=True)
        for n, by in enumerate((people, app))
    ]
    payload = {"installation": forged, "release": {"installation": forged}}
    people.post(f"{place.path}/events", json={"event": "release", "payload": payload})
    for hook, wanted in zip(hooks_made, (forged, own), strict=True):
        [recorded] = [each for each in delivered(people, hook, 2) if each["event"] == "release"]
        shown = people.read(f"{hook['deliveries_url']}/{recorded['id']}")
        [sent] = [each for each in receiver.events("release") if each.headers["x-service-hook-id"] == str(hook["id"])]
        for told in (sent.payload(), shown["request"]["payload"]):
            assert (told["installation"], told["release"]) == (wanted, payload["release"])
