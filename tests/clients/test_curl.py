"""Webhooks and their deliveries through the real `curl`."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.clients.curl import NOWHERE, Curl, create, curl, hook_path, root
from tests.clients.support import SECRET, arrived, history, pinged, signed_with
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import MANUAL_MOST, Server
from tests.harness.world import World

pytestmark = pytest.mark.one_database

__all__ = ["curl", "root"]  # fixtures


def test_the_configuration_can_be_read_and_changed(curl: Curl, root: str, receiver: Receiver) -> None:
    hook = create(curl, root, receiver.url, config={"content_type": "json", "secret": SECRET})
    config = f"{hook_path(root, hook)}/config"
    pinged(receiver, hook["id"])  # a delivery that is not sent yet would use the webhook's new URL
    shown = {"url": receiver.url, "content_type": "json", "insecure_ssl": "0", "secret": "********"}
    assert curl("GET", config).json == shown
    changed = curl("PATCH", config, body={"insecure_ssl": 1})
    assert (changed.status, changed.json) == (200, {**shown, "insecure_ssl": "1"})
    # Omitted keys are unchanged, and the mask is not taken for a secret.
    assert curl("PATCH", config, body={"secret": "********", "url": f"{receiver.url}/x"}).json["secret"] == "********"
    assert curl("POST", f"{hook_path(root, hook)}/pings").status == 204
    received = receiver.wait_for(2)
    assert sorted(each.path for each in received) == ["/hook", "/hook/x"]
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


def test_a_delivery_can_be_redelivered(curl: Curl, root: str, server: Server, world: World, receiver: Receiver) -> None:
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
    # A redelivery restarts the retry schedule after the previous attempts.
    assert original == {**first, "attempts_max": first["attempts_max"] + 1}
    assert (second["guid"], second["redelivery"], first["redelivery"]) == (first["guid"], True, False)
    assert second["id"] > first["id"]
    missing = curl("POST", f"{path}/deliveries/{2**50}/attempts")
    assert (missing.status, missing.json["message"]) == (404, "Not Found")
    assert "etag" not in missing.headers


def test_failed_deliveries_can_be_redelivered_in_bulk(
    curl: Curl, root: str, server: Server, world: World, receiver: Receiver
) -> None:
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
    assert again(body={"event": "star", "status": "failure"}).json["queued"] == 0
    queued = again()  # without a filter, all failed deliveries are redelivered
    assert (queued.status, queued.json["queued"]) == (202, 2)
    repeated = history(server, world, path, 6)[:2]
    assert {each["guid"] for each in repeated} == {each["guid"] for each in failed}
    assert all(each["redelivery"] and each["status"] == "OK" for each in repeated)
    assert again(body={"ids": [failed[0]["id"]]}).json["queued"] == 1
    assert history(server, world, path, 7)[0]["guid"] == failed[0]["guid"]
    wrong = again(body={"status": "odd", "since": "yesterday"})
    assert wrong.status == 422
    assert {each["field"] for each in wrong.json["errors"]} == {"status", "since"}


def test_deliveries_can_be_filtered(curl: Curl, root: str, server: Server, world: World, receiver: Receiver) -> None:
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


def test_a_published_event_reaches_repository_and_organization_webhooks(
    curl: Curl, world: World, receiver: Receiver
) -> None:
    create(curl, world.repo_path, receiver.url, events=["issues"], config={"content_type": "json"})
    create(curl, world.org_path, receiver.url, events=["*"], config={"content_type": "json"})
    receiver.wait_for(2)  # the pings
    event = {"event": "issues", "payload": {"action": "opened", "note": "Grüße, 世界 \u2028"}, "id": "ticket-1"}
    said = curl("POST", f"{world.repo_path}/events", body=event)
    assert (said.status, said.json) == (202, {"id": "ticket-1", "deliveries": 2})
    again = curl("POST", f"{world.repo_path}/events", body=event)
    assert (again.status, again.json) == (202, {"id": "ticket-1", "deliveries": 2})
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
    assert unknown.json["errors"][0]["message"].startswith('Unknown event "nothing".')
    wrong = curl("POST", f"{world.repo_path}/events", body={"event": "issues", "payload": []})
    assert wrong.json["message"] == "Invalid request.\n\nFor 'properties/payload', [] is not an object."


def test_a_large_payload_can_be_published(curl: Curl, world: World, receiver: Receiver, tmp_path: Path) -> None:
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


def test_a_dispatch_is_sent_as_repository_dispatch(curl: Curl, world: World, receiver: Receiver) -> None:
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


def test_deliveries_are_sent_as_json_or_form(curl: Curl, root: str, receiver: Receiver) -> None:
    hooks = {
        name: create(curl, root, f"{receiver.url}/{number}", config={"content_type": name, "secret": SECRET})
        for number, name in enumerate(("json", "form", "application/json", "application/x-www-form-urlencoded"))
    }
    assert [hook["config"]["content_type"] for hook in hooks.values()] == list(hooks)
    for name, hook in hooks.items():
        ping = pinged(receiver, hook["id"])
        form = name in ("form", "application/x-www-form-urlencoded")
        assert ping.headers["content-type"] == ("application/x-www-form-urlencoded" if form else "application/json")
        assert ping.body.startswith(b"payload=%7B%22zen%22" if form else b'{"zen":')
        assert signed_with(ping, SECRET)
        assert ping.payload()["hook_id"] == hook["id"]
    other = curl("POST", f"{root}/hooks", body={"name": "web", "config": {"url": NOWHERE, "content_type": "xml"}})
    assert (other.status, other.json["errors"][0]["field"]) == (422, "content_type")


def test_deliveries_have_all_documented_headers(curl: Curl, server: Server, world: World, receiver: Receiver) -> None:
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
    assert {f"x-github-{each.removeprefix('x-service-')}" for each in headers if each.startswith("x-service-")} <= set(
        headers
    )
    assert not [name for name in headers if name.startswith("webhook-")]
    path = hook_path(world.repo_path, hook)
    delivery = history(server, world, path, 1)[0]
    kept = curl("GET", f"{path}/deliveries/{delivery['id']}").json["request"]["headers"]
    assert {name.lower(): value for name, value in kept.items()}["authorization"] == "********"


@pytest.mark.parametrize(
    "url", ["http://10.0.0.8/", "http://localhost.:1/x y", "ftp://example.com/", "http://user:pw@127.0.0.1/", "nowhere"]
)
def test_unreachable_urls_are_refused(curl: Curl, root: str, url: str) -> None:
    said = curl("POST", f"{root}/hooks", body={"name": "web", "config": {"url": url}})
    assert said.status == 422
    fault = said.json["errors"][0]
    assert (fault["resource"], fault["field"], fault["code"]) == ("Hook", "url", "custom")
    assert fault["message"]
    assert curl("GET", f"{root}/hooks").json == []


def test_manual_pings_are_limited_per_minute(curl: Curl, root: str, receiver: Receiver, tmp_path: Path) -> None:
    hook = create(curl, root, receiver.url)
    pings = f"{curl.url}{hook_path(root, hook)}/pings"
    # One curl with many URLs. The limit applies per minute, and a new minute may begin in between.
    urls = [argument for _ in range(2 * MANUAL_MOST + 5) for argument in ("--url", pings)]
    command = [curl.program, "--silent", "--request", "POST", "--header", f"Authorization: Bearer {curl.token}"]
    command += ["--write-out", "%{http_code}\n"]
    outputs = [
        argument for number in range(2 * MANUAL_MOST + 5) for argument in ("--output", str(tmp_path / f"{number}.json"))
    ]
    done = subprocess.run([*command, *outputs, *urls], capture_output=True, text=True, timeout=60, check=True)
    codes = done.stdout.split()
    assert len(codes) == 2 * MANUAL_MOST + 5
    assert set(codes) == {"204", "403"}
    assert MANUAL_MOST <= codes.count("204") <= 2 * MANUAL_MOST
    # No further ping is sent here, because it would be allowed if a new minute has just begun.
    refused = json.loads((tmp_path / f"{codes.index('403')}.json").read_text())
    assert "secondary rate limit" in refused["message"]
