"""The audit log: one entry for each write and each refused attempt, visible to the owners of the affected account."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.api.app_kit import CALLBACK, new_name
from tests.api.people.tokens_kit import issue_for
from tests.api.wire import Api, Place, refused
from tests.cli.cli_kit import Cli
from tests.harness.apps import make_app
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, add_token, add_user
from tests.web.browser import Browser, add_person
from tests.work.requests_kit import TABLE
from tests.work.scene import Scene
from tests.work.studio import Studio
from workhook.chores import CHORES, run_once
from workhook.core import json
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.config import load
from workhook.http.calls import Services
from workhook.identity import audit, audit_queries
from workhook.identity.audit import ROWS_A_MINUTE, ROWS_OF_ONE_A_MINUTE, Budget
from workhook.identity.policy import SCOPES
from workhook.identity.tables import audit_log
from workhook.identity.tokens.issue import OAUTH
from workhook.storage import Row
from workhook.storage.metadata import bigint_param

_entries = sa.select(audit_log).order_by(audit_log.c.id)

_older = (
    sa.update(audit_log).where(audit_log.c.id <= bigint_param("until")).values(at=audit_log.c.at - bigint_param("days"))
)

SECRETS = ("s3cret-of-the-hook", "s3cret-of-basic", "s3cret-next", "s3cret-key")


def entries(server: Server) -> list[Row]:
    async def read(services: Services) -> list[Row]:
        return list(await services.database.fetch_all(_entries))

    found: list[Row] = server.run(read)
    return found


def by_request(server: Server) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in entries(server):
        found.setdefault(row["request_id"], []).append(row)
    return found


def log_of(api: Api | httpx.Client, world: World, **params: Any) -> list[dict[str, Any]]:
    response = api.get(f"{world.org_path}/audit-log", params={"per_page": 100, **params})
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()
    return found


def refusals(api: Api, world: World, number: int) -> list[dict[str, Any]]:
    """Wait for `number` refusals, which are written a moment later, and return their entries."""

    def enough() -> list[dict[str, Any]]:
        found = [each for each in log_of(api, world) if each["status"] is not None]
        return found if sum(each["times"] for each in found) >= number else []

    return until(enough)


@pytest.fixture
def scene(studio: Studio) -> Scene:
    login = studio.add(member="member").login
    return Scene(studio.owner, studio.project_id, studio.world.organization, login)


# --- writes --------------------------------------------------------------------------------------------------------


def test_each_write_of_webhooks_creates_one_entry(api: Api, place: Place, receiver: Receiver, server: Server) -> None:
    secret, basic, following, key = SECRETS
    done: list[tuple[str, httpx.Response]] = []
    config = {"url": receiver.url, "secret": secret, "username": "u", "password": basic}
    done.append(("hook.create", api.create(place, config=config, active=True, events=["push"])))
    hook = done[0][1].json()
    done.append(("hook.update", api.patch(hook["url"], json={"events": ["push", "fork"]})))
    done.append(("hook.update", api.patch(f"{hook['url']}/config", json={"secret": following})))
    done.append(("hook.ping", api.post(hook["ping_url"])))
    if place.kind == "repository":
        done.append(("hook.test", api.post(f"{hook['url']}/tests")))
        done.append(("event.dispatch", api.post(f"{place.path}/dispatches", json={"event_type": "go"})))
    done.append(("event.publish", api.post(f"{place.path}/events", json={"event": "fork", "payload": {"a": key}})))
    delivery = until(lambda: api.read(hook["deliveries_url"]))[0]
    done.append(("delivery.redeliver", api.post(f"{hook['url']}/deliveries/{delivery['id']}/attempts")))
    failed = api.post(f"{hook['url']}/deliveries/redeliver", json={"event": "fork"})
    done.append(("delivery.redeliver_many", failed))
    unchanged = api.patch(hook["url"], json={})
    done.append(("hook.delete", api.delete(hook["url"])))
    assert all(response.is_success for _, response in done), done

    found = by_request(server)
    for action, response in done:
        [entry] = found[response.headers["x-request-id"]]
        assert (entry["action"], entry["status"], entry["times"]) == (action, None, 1)
        assert (entry["address"], entry["token_id"] is not None) == ("127.0.0.1", True)
        assert entry["repository_id"] == (hook_id(api, place) if place.kind == "repository" else None)
    assert unchanged.headers["x-request-id"] not in found
    assert found[done[0][1].headers["x-request-id"]][0]["target"] == f"hook/{hook['id']}"
    listed = [each["action"] for each in reversed(log_of(api, place.world))]
    assert [each for each in listed if each != "hook.deactivate"] == [action for action, _ in done]


def hook_id(api: Api, place: Place) -> int:
    """Return the ID of the webhook's owner as recorded in the log."""
    return int(api.read(place.path)["id"])


EXPORT = "GET /organizations/{}/export"  # owners must know who has exported everything


def test_each_write_of_work_is_one_entry(studio: Studio, scene: Scene) -> None:
    """Each operation of the work API that changes something leaves one entry; the others leave none."""
    written, read = {}, []
    for key, (_, made, body) in TABLE.items():
        given: Any = body(scene) if callable(body) else body
        ids = made(scene)
        method, pattern = key.split()
        path = pattern.format(*(ids if isinstance(ids, tuple) else (ids,)))
        more = given if {"params", "files"} & set(given) else {"json": given} if method in ("POST", "PATCH") else {}
        response = studio.owner.call(method, path, **more)
        assert response.status_code == 200, f"{key}: {response.text}"
        is_own = key.partition(" ")[2].startswith("/me/")
        if (method == "GET" and key != EXPORT) or is_own:  # neither reads nor a user's own settings are recorded
            read.append(response.headers["x-request-id"])
        else:
            written[key] = response.headers["x-request-id"]
    task_id = scene.task()
    nothing = studio.owner.call("PATCH", f"/tasks/{task_id}", json={})
    wrong = studio.owner.call("PATCH", f"/tasks/{task_id}", json={"title": 1})
    read += [each.headers["x-request-id"] for each in (nothing, wrong)]

    found = by_request(studio.server)
    of_each = {key: [row["action"] for row in found.get(request_id, [])] for key, request_id in written.items()}
    assert {key: actions for key, actions in of_each.items() if len(actions) != 1} == {}
    assert [each for each in read if each in found] == []
    assert of_each["POST /columns/{}/tasks"] == ["task.create"]
    assert of_each["POST /service_checkouts/{}/complete"] == ["service_checkout.complete"]
    assert of_each["PATCH /file_comments/{}/comments/{}"] == ["file_comment_reply.edit"]
    assert of_each["DELETE /projects/{}"] == ["project.delete"]
    assert of_each["POST /tasks/bulk"] == ["task.bulk"]
    [completed] = found[written["POST /service_checkouts/{}/complete"]]
    assert len(json.decode(completed["detail"])["events"]) == 3
    for key, request_id in written.items():
        [entry] = found[request_id]
        assert entry["actor_id"] is not None, key
        assert entry["account_id"] == completed["account_id"], key


def test_each_write_of_tokens_and_apps_creates_one_entry(api: Api, world: World, server: Server) -> None:
    done: dict[str, httpx.Response] = {}
    org = world.org_path
    done["token.create"] = api.post("/user/tokens", json={"kind": "classic", "scopes": ["work"], "note": "for a test"})
    token_id = done["token.create"].json()["id"]
    done["token.revoke"] = api.delete(f"/user/tokens/{token_id}")
    oauth_app = api.post(f"{org}/oauth-apps", json={"name": new_name(), "callback_urls": [CALLBACK]})
    one = f"{org}/oauth-apps/{oauth_app.json()['client_id']}"
    done["oauth_app.create"] = oauth_app
    done["oauth_app.update"] = api.patch(one, json={"description": "Else"})
    done["oauth_app.create_secret"] = api.post(f"{one}/secrets")
    done["oauth_app.revoke_tokens"] = api.delete(f"{one}/tokens")
    done["oauth_app.delete"] = api.delete(one)
    app = make_app(server, world)
    done["app.create_key"] = api.post(f"{org}/apps/{app.slug}/keys")
    done["app.update"] = api.patch(f"{org}/apps/{app.slug}", json={"description": "Else"})
    installation = f"{org}/installations/{app.installation_id}"
    done["installation.suspend"] = api.request("PUT", f"{installation}/suspended")
    done["installation.unsuspend"] = api.delete(f"{installation}/suspended")
    with app.client(server) as itself:
        done["installation.create_token"] = itself.post(f"/app/installations/{app.installation_id}/access_tokens")
    with server.client(done["installation.create_token"].json()["token"]) as bot:
        done["hook.create"] = Api(bot).create(Place("repository", world), active=False)
        done["installation.revoke_token"] = bot.delete("/installation/token")
    done["installation.delete"] = api.delete(installation)
    done["app.delete"] = api.delete(f"{org}/apps/{app.slug}")
    assert {name: response.status_code for name, response in done.items() if not response.is_success} == {}

    found = by_request(server)
    of_each = {name: found.get(response.headers["x-request-id"], []) for name, response in done.items()}
    assert {name: [row["action"] for row in rows] for name, rows in of_each.items()} == {name: [name] for name in done}
    of_the_app = [of_each[name][0]["app_id"] for name in ("installation.create_token", "hook.create")]
    assert of_the_app == [app.id, app.id]


def test_an_entry_describes_the_write(studio: Studio, scene: Scene, api: Api) -> None:
    column_id = scene.column()
    made = studio.owner.call("POST", f"/columns/{column_id}/tasks", json={"title": "Logo"}, headers={"Accept": "*/*"})
    [entry] = log_of(api, studio.world, phrase="action:task.create")
    token_id, org_id = entry.pop("token_id"), entry.pop("org_id")
    assert (token_id > 0, org_id > 0, entry["@timestamp"] > 0) == (True, True, True)
    assert entry == {
        "@timestamp": entry["created_at"],
        "_document_id": entry["_document_id"],
        "action": "task.create",
        "operation_type": "create",
        "created_at": entry["created_at"],
        "actor": studio.world.owner,
        "actor_id": entry["actor_id"],
        "actor_ip": "127.0.0.1",
        "org": studio.world.organization,
        "repo": studio.world.full_name,
        "repo_id": entry["repo_id"],
        "user": None,
        "programmatic_access_type": "classic personal access token",
        "app_id": None,
        "request_id": made.headers["x-request-id"],
        "status": None,
        "times": 1,
        "target": f"task/{made.json()['task']['id']}",
        "data": {"events": {"task.created": 1}},
    }


def test_a_bulk_write_creates_one_entry_with_counts(studio: Studio, scene: Scene, api: Api) -> None:
    column_id, task_id = scene.column(), scene.task()
    create = {"action": "create", "column_id": column_id, "title": "New"}
    edit = {"action": "edit", "id": task_id, "title": "Else"}
    studio.owner.post("/tasks/bulk", json={"operations": [create, create, edit]})
    [entry] = log_of(api, studio.world, phrase="action:task.bulk")
    assert entry["data"] == {"events": {"task.created": 2, "task.edited": 1}}
    refused_whole = studio.owner.call("POST", "/tasks/bulk", json={"operations": [create, {**edit, "id": "tsk_none"}]})
    assert refused_whole.status_code == 422
    assert len(log_of(api, studio.world, phrase="action:task.bulk")) == 1


def test_a_repeated_request_creates_one_entry(studio: Studio, scene: Scene, api: Api) -> None:
    path, key = f"/columns/{scene.column()}/tasks", {"Idempotency-Key": "once"}
    for _ in range(2):
        studio.owner.post(path, json={"title": "Once"}, headers=key)
    assert len(log_of(api, studio.world, phrase="action:task.create")) == 1


def test_no_entry_contains_a_secret(api: Api, world: World, server: Server, studio: Studio, scene: Scene) -> None:
    secret, basic, following, key = SECRETS
    place = Place("organization", world)
    hook = api.hook(place, config={"secret": secret, "username": "u", "password": basic})
    api.patch(f"{hook['url']}/config", json={"secret": following, "password": following})
    api.patch(hook["url"], json={"config": {"url": hook["config"]["url"], "secret": key}})
    for each in (secret, world.token, f"{world.token[:-1]}0"):  # secrets in the wrong places
        with server.client(each) as somebody:
            somebody.get("/user", params={"access_token": each})
            somebody.post(f"{world.org_path}/hooks", json={"name": each})
            somebody.get(f"/orgs/{each}")
            somebody.get(f"/api/v1/projects/{each}")
    scene.task()
    until(lambda: any(row["status"] == 401 for row in entries(server)))
    stored = repr([tuple(row[name] for name in row.keys()) for row in entries(server)])  # noqa: SIM118  # a Row is not a dict
    assert "hook.update" in stored
    assert [each for each in (*SECRETS, world.token) if each in stored] == []


# --- refusals ------------------------------------------------------------------------------------------------------


def test_refused_attempts_are_recorded(api: Api, studio: Studio, world: World, server: Server) -> None:
    narrow = server.run(lambda services: add_token(services, world, ["read:repo_hook"], member="owner"))
    other = server.world()
    with server.client(narrow) as somebody, server.client(studio.member.token) as member:
        assert somebody.post(f"{world.repo_path}/hooks", json={}).status_code == 403  # lacks the scope
        assert member.get(f"{world.org_path}/hooks").status_code == 403  # lacks the role
        for _ in range(3):
            assert studio.client.call("GET", f"{studio.project}/activity").status_code == 403
        assert studio.stranger.call("GET", studio.project).status_code == 404
        with server.client(other.token) as stranger:
            assert stranger.get(f"{world.repo_path}/hooks").status_code == 404
            assert stranger.get(f"{world.org_path}/audit-log").status_code == 404
        # The webhook does not exist, so nothing was refused.
        assert api.get(f"{world.repo_path}/hooks/99999999").status_code == 404
        assert studio.stranger.call("GET", "/tasks/tsk_none").status_code == 404
    found = refusals(api, world, 8)
    counted = Counter((each["action"], each["status"]) for each in found for _ in range(each["times"]))
    assert counted == {
        ("hook.create", 403): 1,
        ("hook.list", 403): 1,
        ("activity.list", 403): 3,
        ("project.get", 404): 1,
        ("hook.list", 404): 1,
        ("audit_log.list", 404): 1,
    }
    scope = next(each for each in found if each["action"] == "hook.create")
    assert scope["data"] == {"reason": "missing_scope"}
    assert (scope["repo"], scope["target"]) == (world.full_name, f"{world.repo_path}/hooks")
    stranger_entry = next(each for each in found if (each["action"], each["status"]) == ("hook.list", 404))
    assert (stranger_entry["actor"], stranger_entry["actor_ip"]) == (other.owner, "127.0.0.1")
    with server.client(other.token) as theirs:  # owners of another organization cannot see them
        assert log_of(theirs, other) == []


def test_attempts_to_reach_hidden_objects_are_visible_to_their_owners(
    api: Api, studio: Studio, world: World, server: Server
) -> None:
    """Hidden objects are organization webhooks of OAuth apps; services, apps and installations of other organizations;
    and tokens of others or with more permissions."""
    _, oauth = server.run(lambda services: issue_for(services, world.token, OAUTH, scopes=SCOPES, app_id=7))
    other, place = server.world(), Place("organization", world)
    app, oauth_app = (
        make_app(server, world),
        api.post(f"{world.org_path}/oauth-apps", json={"name": new_name(), "callback_urls": [CALLBACK]}).json(),
    )
    service = studio.owner.post("/services", json={"title": "Logo", "organization": world.organization})["service"][
        "id"
    ]
    theirs = api.post("/user/tokens", json={"scopes": ["work"]}).json()["id"]
    weak = api.post("/user/tokens", json={"scopes": []}).json()
    with server.client(oauth) as its_own:
        hook = Api(its_own).create(place, active=False).json()["url"]
    tried = [
        ("hook.get", api.get(hook)),
        ("hook.get_config", api.get(f"{hook}/config")),
        ("hook.get_health", api.get(f"{hook}/health")),
        ("hook.update", api.patch(hook, json={"active": True})),
        ("hook.ping", api.post(f"{hook}/pings")),
        ("delivery.list", api.get(f"{hook}/deliveries")),
        ("hook.delete", api.delete(hook)),
        ("service.get", studio.stranger.call("GET", f"/services/{service}")),
        ("service.edit", studio.stranger.call("PATCH", f"/services/{service}", json={"title": "x"})),
    ]
    with server.client(other.token) as theirs_alone:
        for action, path in (
            ("app.get", f"apps/{app.slug}"),
            ("oauth_app.get", f"oauth-apps/{oauth_app['client_id']}"),
            ("installation.get", f"installations/{app.installation_id}"),
        ):
            tried.append((action, theirs_alone.get(f"{other.org_path}/{path}")))
        tried.append(("installation.delete", theirs_alone.delete(f"{other.org_path}/{path}")))
    about_tokens = []
    with server.client(studio.stranger.token) as stranger, server.client(weak["token"]) as weaker:
        about_tokens.append(("token.get", stranger.get(f"/user/tokens/{theirs}")))
        about_tokens.append(("token.revoke", stranger.delete(f"/user/tokens/{theirs}")))
        about_tokens.append(("token.revoke", weaker.delete(f"/user/tokens/{theirs}")))
    nothing = [
        api.get(f"{hook}9999"), studio.stranger.call("GET", "/services/svc_none"), api.get("/user/tokens/999999999"),
    ]  # fmt: skip
    everything = [each for _, each in tried + about_tokens] + nothing
    assert {each.status_code for each in everything} == {404}
    organization_id, owner_id = api.read(world.org_path)["id"], api.read("/user")["id"]
    wanted = [[(action, 404, organization_id)] for action, _ in tried]
    wanted += [[(action, 404, owner_id)] for action, _ in about_tokens]
    told = refused_as(server, [each for _, each in tried + about_tokens])
    assert told == wanted
    assert refused_as(server, nothing, wait=False) == [[], [], []]


def refused_as(
    server: Server, responses: Sequence[httpx.Response], *, wait: bool = True
) -> list[list[tuple[str, int, int]]]:
    """Return action, status and account of each request's entries; with `wait`, wait until every request has one."""

    def read() -> list[list[tuple[str, int, int]]]:
        found = by_request(server)
        rows = [found.get(each.headers["x-request-id"], []) for each in responses]
        return [[(row["action"], row["status"], row["account_id"]) for row in each] for each in rows]

    return until(lambda: found if all(found := read()) else []) if wait else read()


def test_a_form_of_another_site_is_an_entry_of_its_user(server: Server) -> None:
    person = add_person(server)
    with Browser(server) as browser, Browser(server) as stranger:
        browser.sign_in(person)
        signed_in = browser.post("/logout", {"csrf": "x"})
        cross = browser.post("/logout", browser.form("/", "/logout").fields, Sec_Fetch_Site="cross-site")
        before = stranger.post("/login", {"login": person.login, "password": "x"})
    assert [each.status_code for each in (signed_in, cross, before)] == [403] * 3
    assert refused_as(server, [signed_in, cross, before]) == [
        [("user.sign_out", 403, person.id)], [("user.sign_out", 403, person.id)], [("user.sign_in", 403, 0)],
    ]  # fmt: skip


def test_bad_credentials_and_rate_limiting_belong_to_no_account(new_server: Any) -> None:
    server = new_server(api_rate_limit=3)
    world = server.world()
    with (
        server.client("whp_nobodys") as nobody,
        server.client(world.token) as owner,
        server.client(None) as anybody,
    ):
        assert nobody.get("/user").status_code == 401
        assert nobody.get("/user").status_code == 401
        for _ in range(3):
            owner.get("/user")
        assert owner.get("/user").status_code == 403
        assert owner.get("/api/v1/me").status_code == 429
        anybody.get("/user")  # without credentials nothing was attempted
    server.stop()  # pending entries are written
    # Identical refusals share an entry only if they arrive close together.
    found: Counter[tuple[int, str, int]] = Counter()
    for row in entries(server):
        if row["status"] is not None:
            found[row["account_id"], row["action"], row["status"]] += row["times"]
    assert found == {(0, "me.get", 429): 1, (0, "user.get", 401): 2, (0, "user.get", 403): 1}


def test_strangers_cannot_fill_the_disk() -> None:
    budget = Budget()
    unknown = sum(budget.take(0.0, known=False, caller=number) for number in range(2 * ROWS_A_MINUTE))
    known = sum(budget.take(59.0, known=True, caller=number) for number in range(2 * ROWS_A_MINUTE))
    assert (unknown, known) == (ROWS_A_MINUTE // 2, ROWS_A_MINUTE // 2)
    assert budget.take(60.0, known=False, caller=0)


def test_a_caller_cannot_hide_others_refusals_behind_their_own() -> None:
    budget = Budget()
    taken = sum(budget.take(0.0, known=True, caller="one") for _ in range(2 * ROWS_A_MINUTE))
    assert taken == ROWS_OF_ONE_A_MINUTE < ROWS_A_MINUTE // 4
    assert budget.take(59.0, known=True, caller="another")
    assert not budget.take(59.0, known=True, caller="one")
    assert budget.take(60.0, known=True, caller="one")


# --- reading -------------------------------------------------------------------------------------------------------


def test_the_log_can_be_paged_filtered_and_exported(api: Api, studio: Studio, scene: Scene, world: World) -> None:
    for _ in range(7):
        scene.column()
    hook = api.hook(Place("repository", world))
    member = studio.member
    member.post(f"{studio.project}/columns", json={"title": "Theirs"})
    address, everything = f"{world.org_path}/audit-log", log_of(api, world)
    assert [each["action"] for each in everything] == ["column.create", "hook.create", *["column.create"] * 7]

    pages, url = [], address
    params: dict[str, str] | None = {"per_page": "4"}
    while url:
        page = api.get(url, params=params)
        pages.append(page.json())
        url, params = page.links.get("next", {}).get("url", ""), None
    assert [len(each) for each in pages] == [4, 4, 1]
    assert [each for page in pages for each in page] == everything
    back = api.get(page.links["prev"]["url"])
    assert back.json() == pages[1]
    first = api.get(back.links["prev"]["url"])
    assert (first.json(), "prev" in first.links) == (pages[0], False)
    assert api.get(first.links["next"]["url"]).json() == pages[1]
    assert log_of(api, world, order="asc") == everything[::-1]
    assert len(log_of(api, world, per_page=1000)) == 9

    def actions(phrase: str) -> list[str]:
        return [each["action"] for each in log_of(api, world, phrase=phrase)]

    owner, day = world.owner, "1990-01-01"
    assert actions("action:hook") == actions("action:HOOK.create") == actions("hook") == ["hook.create"]
    assert actions(f"actor:{owner.upper()} action:column.create") == ["column.create"] * 7
    assert actions(f"repo:{world.full_name} hook") == ["hook.create"]
    assert actions("repo:somebody/else") == actions("actor:nobody") == actions("hoo%") == []
    assert actions(f"created:{day}") == actions(f"created:<{day}") == actions(f"created:{day}..1990-02-01") == []
    assert len(actions(f"created:>={day}")) == len(actions(f"created:{day}..*")) == 9
    assert log_of(api, world, include="git") == []
    assert log_of(api, world, include="all") == everything

    lines = api.get(address, headers={"Accept": "application/x-ndjson"}, params={"order": "asc", "per_page": "2"})
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.decode(each) for each in lines.text.splitlines()] == everything[::-1]
    one = api.get(address, headers={"Accept": "application/x-ndjson"}, params={"phrase": "action:hook"})
    assert json.decode(one.text)["target"] == f"hook/{hook['id']}"


def test_an_invalid_query_is_explained(api: Api, world: World) -> None:
    address = f"{world.org_path}/audit-log"
    answer = api.get(address, params={"phrase": "user:x created:yesterday repo:acme two words"})
    assert answer.status_code == 422
    said = [each["message"] for each in answer.json()["errors"]]
    assert [each["field"] for each in answer.json()["errors"]] == ["phrase"] * 4
    assert any("created:yesterday" in each and "2026-11-01" in each for each in said)
    for params in ({"include": "everything"}, {"order": "up"}, {"per_page": "x"}, {"after": "v1_1", "before": "v1_1"}):
        assert api.get(address, params=params).status_code == 422, params
    refused(api.get(address, params={"after": "1"}), 400, "The cursor does not come from a Link header.")


def test_only_owners_read_the_log(studio: Studio, world: World, server: Server) -> None:
    narrow = server.run(lambda services: add_token(services, world, ["repo", "work"], member="owner"))
    owner = server.run(lambda services: add_user(services, world, member="owner"))
    callers = {owner: 200, narrow: 403, studio.member.token: 403, studio.client.token: 404, studio.stranger.token: 404}
    for token, status in callers.items():
        with server.client(token) as client:
            assert client.get(f"{world.org_path}/audit-log").status_code == status
    assert studio.nobody.http.get(f"{world.org_path}/audit-log").status_code == 401


# --- the command line ----------------------------------------------------------------------------------------------


def test_list_and_export(api: Api, studio: Studio, scene: Scene, world: World, server: Server, tmp_path: Path) -> None:
    cli = Cli(server.data, {name: text for name, text in server.settings.items() if name == "database_url"})
    scene.task()
    other = server.world()
    with server.client(other.token) as theirs:
        Api(theirs).hook(Place("organization", other))
    of_world = ("--organization", world.organization)
    everything = log_of(api, world)
    listed = cli.json("audit", "list", *of_world)
    assert [each.pop("at")[-1] for each in listed] == ["Z", "Z"]
    assert listed == everything
    assert [each["action"] for each in cli.json("audit", "list", *of_world, "--action", "column")] == ["column.create"]
    assert len(cli.json("audit", "list", *of_world, "--limit", "1")) == 1
    assert cli.json("audit", "list", *of_world, "--until", "1990-01-01T00:00:00Z") == []
    table = cli.text("audit", "list", *of_world)
    assert ("task.create" in table, other.organization in table) == (True, False)

    lines = [json.decode(each) for each in cli.run("audit", "export", *of_world).stdout.splitlines()]
    assert lines == everything[::-1]
    file = tmp_path / "log.jsonl"
    file.write_text("what was there before")
    assert cli.json("audit", "export", str(file)) == {"file": str(file), "entries": len(file.read_text().splitlines())}
    assert file.stat().st_mode & 0o777 == 0o600
    assert other.organization in file.read_text()  # the server's operator sees every entry
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".log")] == []
    said = cli.refused("audit", "export", str(tmp_path / "none" / "log.jsonl"))
    assert "cannot be written" in said
    assert "organization nobody does not exist" in cli.refused("audit", "list", "--organization", "nobody")


# --- retention -----------------------------------------------------------------------------------------------------


async def test_only_old_entries_are_deleted(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_queries, "PRUNE_BATCH", 3)
    for account_id in range(1, 11):
        async with services.database.transaction() as tx:
            await audit.record(tx, None, "task.create", f"task/{account_id}", account_id=account_id)
    async with services.database.transaction() as tx:
        await tx.execute(_older, {"until": 7, "days": 366 * DAY_MS})
    [chore] = [each for each in CHORES if each.name == "audit_log"]
    assert await run_once(services, chore, now_ms()) == 7
    left = await services.database.fetch_all(_entries)
    assert [row["account_id"] for row in left] == [8, 9, 10]
    for_ever = dataclasses.replace(services, settings=load({"audit_retention_days": 0}, {}))
    assert await run_once(for_ever, chore, now_ms() + 10_000 * DAY_MS) == 0
    assert await run_once(services, chore, now_ms() + 366 * DAY_MS) == 3
