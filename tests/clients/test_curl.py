"""The real `curl`: what somebody with a terminal sees, down to the status line and the headers."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.clients.support import SECRET, arrived, history, pinged, signed_with
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import Server
from tests.harness.world import World

NOWHERE = "http://127.0.0.1:9/"


@dataclass
class Said:
    """What curl printed."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json; charset=utf-8"
        return json.loads(self.body)


@dataclass
class Curl:
    """`curl` with the header of a token, as the examples of every API show it."""

    program: str
    url: str
    token: str | None
    scheme: str = "Bearer"
    data: str | None = None  # how a body is given: --data-binary when None

    def __call__(self, method: str, path: str, *arguments: str, body: object = None) -> Said:
        command = [self.program, "--silent", "--show-error", "--include", "--max-time", "30", *arguments]
        command += ["--head"] if method == "HEAD" else ["--request", method]
        if self.token:
            command += ["--header", f"Authorization: {self.scheme} {self.token}"]
        if body is not None:
            text = body if isinstance(body, str) else json.dumps(body)
            command += ["--data-binary", text]
        url = path if path.startswith("http") else self.url + path
        done = subprocess.run([*command, url], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 100 "):  # curl asks first whether a large body is welcome
            head, _, rest = rest.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return Said(int(status.split()[1]), headers, rest)


@pytest.fixture
def curl(server: Server, world: World) -> Curl:
    program = shutil.which("curl")
    assert program, "these tests need the program curl (Debian and Ubuntu: apt-get install curl)"
    return Curl(program, server.url, world.token)


@pytest.fixture(params=["repository", "organization"])
def root(request: pytest.FixtureRequest, world: World) -> str:
    return world.repo_path if request.param == "repository" else world.org_path


def create(curl: Curl, root: str, url: str, **more: Any) -> dict[str, Any]:
    config = {"url": url, **more.pop("config", {})}
    said = curl("POST", f"{root}/hooks", body={"name": "web", "config": config, **more})
    assert said.status == 201, said.body
    hook: dict[str, Any] = said.json
    assert said.headers["location"] == hook["url"]
    return hook


def hook_path(root: str, hook: dict[str, Any]) -> str:
    return f"{root}/hooks/{hook['id']}"


def test_config(curl: Curl, root: str, receiver: Receiver) -> None:
    hook = create(curl, root, receiver.url, config={"content_type": "json", "secret": SECRET})
    config = f"{hook_path(root, hook)}/config"
    shown = {"url": receiver.url, "content_type": "json", "insecure_ssl": "0", "secret": "********"}
    assert curl("GET", config).json == shown
    changed = curl("PATCH", config, body={"insecure_ssl": 1})
    assert (changed.status, changed.json) == (200, {**shown, "insecure_ssl": "1"})
    # What is not mentioned stays; the mask sent back is no secret.
    assert curl("PATCH", config, body={"secret": "********", "url": f"{receiver.url}/x"}).json["secret"] == "********"
    assert curl("POST", f"{hook_path(root, hook)}/pings").status == 204
    received = receiver.wait_for(2)
    assert [each.path for each in received] == ["/hook", "/hook/x"]
    assert all(signed_with(each, SECRET) for each in received)
    cleared = curl("PATCH", config, body={"secret": "", "content_type": ""}).json
    assert cleared == {"url": f"{receiver.url}/x", "content_type": "form", "insecure_ssl": "1"}
    refused = curl("PATCH", config, body={"content-type": "json", "insecure_ssl": "2", "url": " "})
    assert refused.status == 422
    assert [each["message"] for each in refused.json["errors"]] == [
        "Invalid config attribute: content-type",
        "insecure_ssl must be 0 or 1",
        "url cannot be blank",
    ]
    assert curl("GET", config).json == cleared


def test_redelivery(curl: Curl, root: str, server: Server, world: World, receiver: Receiver) -> None:
    hook = create(curl, root, receiver.url, config={"content_type": "json", "secret": SECRET})
    path = hook_path(root, hook)
    first = history(server, world, path, 1)[0]
    said = curl("POST", f"{path}/deliveries/{first['id']}/attempts")
    assert (said.status, said.body) == (202, b"{}")
    assert said.headers["content-type"].startswith("application/json")
    assert said.headers["content-length"] == "2"
    received = receiver.wait_for(2)
    assert received[0].guid == received[1].guid
    assert received[0].body == received[1].body
    second, original = history(server, world, path, 2)
    assert original == first
    assert (second["guid"], second["redelivery"], first["redelivery"]) == (first["guid"], True, False)
    assert second["id"] > first["id"]
    missing = curl("POST", f"{path}/deliveries/{2**50}/attempts")
    assert (missing.status, missing.json["message"]) == (404, "Not Found")
    assert "etag" not in missing.headers


def test_bulk_redelivery(curl: Curl, root: str, server: Server, world: World, receiver: Receiver) -> None:
    failing = {"fork"}
    receiver.reply = lambda received: Reply(500 if received.event in failing else 200)
    hook = create(curl, root, receiver.url, events=["fork", "star"], config={"content_type": "json", "retries": "0"})
    path = hook_path(root, hook)
    for event in ("fork", "fork", "star"):
        said = curl("POST", f"{world.repo_path}/events", body={"event": event, "payload": {}})
        assert (said.status, said.json["deliveries"]) == (202, 1)
    failed = [each for each in history(server, world, path, 4) if each["status_code"] == 500]
    assert [each["event"] for each in failed] == ["fork", "fork"]
    assert {each["status"] for each in failed} == {"Invalid HTTP Response: 500"}
    failing.clear()
    again = partial(curl, "POST", f"{path}/deliveries/redeliver")
    assert again(body={"event": "star", "status": "failure"}).json == {"queued": 0}
    queued = again()  # without a filter: all that failed
    assert (queued.status, queued.json) == (202, {"queued": 2})
    repeated = history(server, world, path, 6)[:2]
    assert {each["guid"] for each in repeated} == {each["guid"] for each in failed}
    assert all(each["redelivery"] and each["status"] == "OK" for each in repeated)
    assert again(body={"ids": [failed[0]["id"]]}).json == {"queued": 1}
    assert history(server, world, path, 7)[0]["guid"] == failed[0]["guid"]
    wrong = again(body={"status": "odd", "since": "yesterday"})
    assert wrong.status == 422
    assert {each["field"] for each in wrong.json["errors"]} == {"status", "since"}


def test_filters_of_deliveries(curl: Curl, root: str, server: Server, world: World, receiver: Receiver) -> None:
    receiver.reply = lambda received: Reply(403 if received.event == "fork" else 204, body=b"")
    hook = create(curl, root, receiver.url, events=["*"], config={"retries": "0"})
    path = hook_path(root, hook)
    curl("POST", f"{world.repo_path}/events", body={"event": "fork", "payload": {}})
    curl("POST", f"{world.repo_path}/events", body={"event": "star", "action": "created", "payload": {}})
    items = {each["event"]: each for each in history(server, world, path, 3)}

    def listed(query: str) -> list[str]:
        return [each["event"] for each in curl("GET", f"{path}/deliveries?{query}").json]

    assert sorted(listed("status=success")) == ["ping", "star"]
    assert listed("status=failure") == ["fork"]
    assert listed("event=star") == ["star"]
    assert listed("action=created") == ["star"]
    assert listed(f"guid={items['fork']['guid']}") == ["fork"]
    assert sorted(listed("redelivery=false")) == ["fork", "ping", "star"]
    assert listed("redelivery=true") == []
    assert listed("since=2199-01-01T00:00:00Z") == []
    assert curl("GET", f"{path}/deliveries?status=odd").status == 422
    bad = curl("GET", f"{path}/deliveries?cursor=v2_x")
    assert (bad.status, bad.json["status"]) == (400, "400")


def test_publish(curl: Curl, world: World, receiver: Receiver) -> None:
    create(curl, world.repo_path, receiver.url, events=["issues"], config={"content_type": "json"})
    create(curl, world.org_path, receiver.url, events=["*"], config={"content_type": "json"})
    receiver.wait_for(2)  # the pings
    event = {"event": "issues", "payload": {"action": "opened", "note": "Grüße, 世界 \u2028"}, "id": "ticket-1"}
    said = curl("POST", f"{world.repo_path}/events", body=event)
    assert (said.status, said.json) == (202, {"id": "ticket-1", "deliveries": 2})
    again = curl("POST", f"{world.repo_path}/events", body=event)
    assert (again.status, again.json) == (202, {"id": "ticket-1", "deliveries": 0})
    other = curl("POST", f"{world.repo_path}/events", body={**event, "payload": {}})
    assert other.status == 422
    elsewhere = curl("POST", f"{world.org_path}/events", body=event)
    assert elsewhere.json == {"id": "ticket-1", "deliveries": 1}, "an id belongs to its repository or organization"
    published = [each for each in receiver.wait_for(5) if each.event == "issues"]
    assert len(published) == 3
    for each in published:
        payload = each.payload()
        assert payload["note"] == "Grüße, 世界 \u2028"
        assert payload["sender"]["login"] == world.owner
        assert "Grüße, 世界".encode() in each.body, "characters are not escaped"
    assert [each.payload().get("repository", {}).get("full_name") for each in published].count(world.full_name) == 2
    unknown = curl("POST", f"{world.repo_path}/events", body={"event": "nothing", "payload": {}})
    assert unknown.json["errors"][0]["message"] == "nothing is not a valid event name"
    wrong = curl("POST", f"{world.repo_path}/events", body={"event": "issues", "payload": []})
    assert wrong.json["message"] == "Invalid request.\n\nFor 'properties/payload', [] is not an object."


def test_large_payloads(curl: Curl, world: World, receiver: Receiver, tmp_path: Path) -> None:
    create(curl, world.repo_path, receiver.url, events=["push"], config={"content_type": "json", "secret": SECRET})
    file = tmp_path / "event.json"
    text = "x" * 3_000_000
    file.write_text(json.dumps({"event": "push", "payload": {"text": text}}))
    assert curl("POST", f"{world.repo_path}/events", body=f"@{file}").json["deliveries"] == 1
    push = arrived(receiver, "push")
    assert signed_with(push, SECRET)
    assert push.payload()["text"] == text
    file.write_text(json.dumps({"event": "push", "payload": {"text": "x" * (25 * 1024 * 1024)}}))
    assert curl("POST", f"{world.repo_path}/events", body=f"@{file}").status == 413


def test_dispatches(curl: Curl, world: World, receiver: Receiver) -> None:
    hook = create(curl, world.repo_path, receiver.url, events=["*"], config={"content_type": "json"})
    pinged(receiver, hook["id"])
    body = {"event_type": "deploy", "client_payload": {"environment": "test"}}
    said = curl("POST", f"{world.repo_path}/dispatches", body=body)
    assert (said.status, said.body) == (204, b"")
    payload = receiver.wait_for(2)[1].payload()
    assert (payload["action"], payload["client_payload"]) == ("deploy", {"environment": "test"})
    assert payload["repository"]["full_name"] == world.full_name
    long = curl("POST", f"{world.repo_path}/dispatches", body={"event_type": "x" * 101})
    assert long.status == 422
    many = {"event_type": "x", "client_payload": {str(number): 0 for number in range(11)}}
    assert curl("POST", f"{world.repo_path}/dispatches", body=many).status == 422


def test_json_and_form(curl: Curl, root: str, receiver: Receiver) -> None:
    hooks = {
        name: create(curl, root, f"{receiver.url}/{number}", config={"content_type": name, "secret": SECRET})
        for number, name in enumerate(("json", "form", "application/json", "application/x-www-form-urlencoded"))
    }
    assert [hook["config"]["content_type"] for hook in hooks.values()] == ["json", "form", "json", "form"]
    for name, hook in hooks.items():
        ping = pinged(receiver, hook["id"])
        form = name in ("form", "application/x-www-form-urlencoded")
        assert ping.headers["content-type"] == ("application/x-www-form-urlencoded" if form else "application/json")
        assert ping.body.startswith(b"payload=%7B%22zen%22" if form else b'{"zen":')
        assert signed_with(ping, SECRET)
        assert ping.payload()["hook_id"] == hook["id"]
    other = curl("POST", f"{root}/hooks", body={"name": "web", "config": {"url": NOWHERE, "content_type": "xml"}})
    assert (other.status, other.json["errors"][0]["field"]) == (422, "content_type")


def test_headers_of_deliveries(curl: Curl, server: Server, world: World, receiver: Receiver) -> None:
    config = {"content_type": "json", "secret": SECRET, "username": "ada", "password": "pass:word"}
    hook = create(curl, world.repo_path, receiver.url, config=config)
    assert hook["config"]["password"] == "********"
    assert hook["config"]["username"] == "ada"
    headers = pinged(receiver, hook["id"]).headers
    repository = curl("GET", world.repo_path).json
    assert headers["user-agent"].startswith("Service-Hookshot/")
    assert headers["accept"] == "*/*"
    assert headers["authorization"] == "Basic YWRhOnBhc3M6d29yZA=="
    assert headers["x-service-hook-installation-target-id"] == str(repository["id"])
    assert headers["x-service-hook-installation-target-type"] == "repository"
    assert not [name for name in headers if name.startswith(("x-github", "webhook-"))]
    path = hook_path(world.repo_path, hook)
    delivery = history(server, world, path, 1)[0]
    kept = curl("GET", f"{path}/deliveries/{delivery['id']}").json["request"]["headers"]
    assert {name.lower(): value for name, value in kept.items()}["authorization"] == "********"


def test_conditional_get(curl: Curl, root: str) -> None:
    created = curl("POST", f"{root}/hooks", body={"name": "web", "active": False, "config": {"url": NOWHERE}})
    assert created.headers["etag"].startswith('"'), "strong on 201"
    path = hook_path(root, created.json)
    fresh = curl("GET", path)
    tag = fresh.headers["etag"]
    assert tag.startswith('W/"')
    for condition in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        same = curl("GET", path, "--header", f"If-None-Match: {condition}")
        assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
        assert "content-type" not in same.headers
    other = curl("GET", path, "--header", 'If-None-Match: W/"other"')
    assert (other.status, other.body) == (200, fresh.body)
    curl("PATCH", path, body={"events": ["fork"]})
    changed = curl("GET", path, "--header", f"If-None-Match: {tag}")
    assert changed.status == 200
    assert changed.headers["etag"] != tag
    assert changed.json["events"] == ["fork"]
    for listing in (f"{root}/hooks", f"{path}/config", f"{path}/deliveries"):
        tag = curl("GET", listing).headers["etag"]
        assert curl("GET", listing, "--header", f"If-None-Match: {tag}").status == 304


def links(said: Said) -> dict[str, str]:
    """`Link` by relation."""
    parts = [part.split("; rel=") for part in said.headers.get("link", "").split(", ") if part]
    return {relation.strip('"'): address.strip("<>") for address, relation in parts}


@pytest.mark.parametrize("prefix", ["", "/api/v3"])
def test_links(curl: Curl, root: str, prefix: str) -> None:
    hooks = f"{prefix}{root}/hooks"
    assert links(curl("GET", hooks)) == {}
    for number in range(5):
        create(curl, root, f"{NOWHERE}{number}", active=False)
    first = curl("GET", f"{hooks}?per_page=2")
    assert links(first) == {
        "next": f"{curl.url}{hooks}?per_page=2&page=2",
        "last": f"{curl.url}{hooks}?per_page=2&page=3",
    }
    second = curl("GET", links(first)["next"])
    assert set(links(second)) == {"prev", "next", "last", "first"}
    last = curl("GET", links(first)["last"])
    assert set(links(last)) == {"prev", "first"}
    seen = [each["config"]["url"] for page in (first, second, last) for each in page.json]
    assert seen == [f"{NOWHERE}{number}" for number in range(5)]
    assert all(each["url"].startswith(f"{curl.url}{hooks}/") for each in first.json)
    assert links(curl("GET", f"{hooks}?per_page=5")) == {}
    assert curl("GET", f"{hooks}?per_page=2&page=9").json == []
    assert len(curl("GET", f"{hooks}?per_page=1000").json) == 5
    assert curl("GET", f"{hooks}?per_page=x").status == 422


def test_links_of_deliveries(curl: Curl, root: str, server: Server, world: World, receiver: Receiver) -> None:
    hook = create(curl, root, receiver.url)
    path = hook_path(root, hook)
    for _ in range(4):
        curl("POST", f"{path}/pings")
    ids = [each["id"] for each in history(server, world, path, 5)]
    first = curl("GET", f"{path}/deliveries?per_page=2&status=success")
    assert set(links(first)) == {"next"}
    assert links(first)["next"].startswith(f"{curl.url}{path}/deliveries?")
    second = curl("GET", links(first)["next"])
    assert set(links(second)) == {"next", "prev"}
    third = curl("GET", links(second)["next"])
    assert set(links(third)) == {"prev"}
    assert [[each["id"] for each in page.json] for page in (first, second, third)] == [ids[:2], ids[2:4], ids[4:]]
    back = curl("GET", links(third)["prev"])
    assert back.json == second.json
    assert curl("GET", links(back)["prev"]).json == first.json


def test_head(curl: Curl, root: str) -> None:
    hook = create(curl, root, NOWHERE, active=False)
    full = curl("GET", hook_path(root, hook))
    head = curl("HEAD", hook_path(root, hook))
    assert (head.status, head.body) == (200, b"")
    for name in ("etag", "content-type", "content-length"):
        assert head.headers[name] == full.headers[name]
    assert curl("HEAD", f"{root}/hooks/{2**30}").status == 404


@pytest.mark.parametrize("header", ["X-Service-Api-Version", "X-GitHub-Api-Version"])
def test_versions(curl: Curl, root: str, header: str) -> None:
    for version in ("2022-11-28", "2026-03-10"):
        assert curl("GET", f"{root}/hooks", "--header", f"{header}: {version}").status == 200
    said = curl("GET", f"{root}/hooks", "--header", f"{header}: 1999-01-01")
    assert said.status == 400
    body = said.json
    assert (body["message"], body["status"]) == ("Bad Request", "400")
    assert body["errors"] == (
        f'The version you specified in the "{header}" request header, "1999-01-01", is not a supported version. '
        'The following versions are currently supported: "2026-03-10" (most recent) and "2022-11-28".'
    )


def test_accept(curl: Curl, root: str) -> None:
    for kind in ("application/vnd.service+json", "application/vnd.github.v3+json", "application/json", "*/*"):
        assert curl("GET", f"{root}/hooks", "--header", f"Accept: {kind}").json == []


def test_authorization(curl: Curl, root: str, world: World) -> None:
    for scheme in ("Bearer", "bearer", "token", "Token"):
        curl.scheme = scheme
        assert curl("GET", f"{root}/hooks").status == 200
    curl.scheme = "Basic"
    assert curl("GET", f"{root}/hooks").json["message"] == "Bad credentials"
    curl.token = None
    said = curl("GET", f"{root}/hooks")
    assert said.status == 401
    assert (said.json["message"], said.json["status"]) == ("Requires authentication", "401")
    assert "bearer" in said.headers["www-authenticate"].lower()
    for path in ("/zen", "/meta", "/rate_limit", "/", "/api/v3/", "/webhook-events"):
        assert curl("GET", path).status == 200, path


def test_headers_of_answers(curl: Curl, root: str, world: World) -> None:
    said = curl("GET", f"{root}/hooks")
    repository = root == world.repo_path
    accepted = "admin:repo_hook, read:repo_hook, repo, write:repo_hook" if repository else "admin:org_hook"
    assert said.headers["x-accepted-oauth-scopes"] == accepted
    assert "admin:org_hook" in said.headers["x-oauth-scopes"].split(", ")
    for name in ("limit", "remaining", "reset", "used"):
        assert said.headers[f"x-ratelimit-{name}"].isdigit()
    assert said.headers["x-ratelimit-remaining"] != "0"
    assert said.headers["x-ratelimit-resource"] == "core"
    assert said.headers["x-request-id"] != curl("GET", f"{root}/hooks").headers["x-request-id"]
    hook = create(curl, root, NOWHERE, active=False)
    gone = curl("DELETE", hook_path(root, hook))
    assert (gone.status, gone.body) == (204, b"")
    assert "content-type" not in gone.headers
    missing = curl("GET", hook_path(root, hook))
    assert missing.status == 404
    assert {"message": "Not Found", "status": "404"}.items() <= missing.json.items()
    assert missing.json["documentation_url"].startswith(f"{curl.url}/docs")
    assert "etag" not in missing.headers


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("{", 400, "Problems parsing JSON"),
        ("\xff", 400, "Problems parsing JSON"),
        ("[]", 400, "Body should be a JSON object"),
        ('"text"', 400, "Body should be a JSON object"),
        ('{"name":"web","config":[]}', 422, "Invalid request.\n\nFor 'properties/config', [] is not an object."),
        (
            '{"name":"web","config":{"url":"http://127.0.0.1:9/"},"events":null}',
            422,
            "Invalid request.\n\nFor 'properties/events', nil is not an array.",
        ),
        (
            '{"name":"web","config":{"url":"http://127.0.0.1:9/"},"active":"yes","events":[1]}',
            422,
            "Invalid request.\n\nFor 'properties/events/items', 1 is not a string."
            "\n\nFor 'properties/active', \"yes\" is not a boolean.",
        ),
    ],
)
def test_bodies_that_cannot_be_read(curl: Curl, root: str, body: str, status: int, message: str) -> None:
    said = curl("POST", f"{root}/hooks", body=body)
    assert (said.status, said.json["message"], said.json["status"]) == (status, message, str(status))


@pytest.mark.parametrize(
    "url", ["http://10.0.0.8/", "http://localhost.:1/x y", "ftp://example.com/", "http://user:pw@127.0.0.1/", "nowhere"]
)
def test_urls_that_can_never_be_reached(curl: Curl, root: str, url: str) -> None:
    said = curl("POST", f"{root}/hooks", body={"name": "web", "config": {"url": url}})
    assert said.status == 422
    fault = said.json["errors"][0]
    assert (fault["resource"], fault["field"], fault["code"]) == ("Hook", "url", "custom")
    assert fault["message"]
    assert curl("GET", f"{root}/hooks").json == []


def test_too_many_by_hand(curl: Curl, root: str, receiver: Receiver) -> None:
    hook = create(curl, root, receiver.url)
    pings = f"{curl.url}{hook_path(root, hook)}/pings"
    # One curl with many URLs: the limit is 60 a minute, of which a new minute may begin meanwhile.
    urls = [argument for _ in range(125) for argument in ("--url", pings)]
    command = [curl.program, "--silent", "--request", "POST", "--header", f"Authorization: Bearer {curl.token}"]
    command += ["--write-out", "%{http_code}\n", "--output", "/dev/null"]
    outputs = [argument for _ in range(124) for argument in ("--output", "/dev/null")]
    done = subprocess.run([*command, *outputs, *urls], capture_output=True, text=True, timeout=60, check=True)
    codes = done.stdout.split()
    assert len(codes) == 125
    assert set(codes) == {"204", "422"}
    assert 60 <= codes.count("204") <= 120
    said = curl("POST", f"{hook_path(root, hook)}/pings")
    assert (said.status, "spammed" in said.json["message"]) == (422, True)
