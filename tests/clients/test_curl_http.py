"""Status lines, headers and errors through the real `curl`."""

from __future__ import annotations

import pytest

from tests.clients.curl import NOWHERE, Curl, Said, create, curl, hook_path, root
from tests.clients.support import history
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.world import World

pytestmark = pytest.mark.one_database

__all__ = ["curl", "root"]  # fixtures


def test_a_matching_etag_returns_304(curl: Curl, root: str) -> None:
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
    """Return the URLs in the `Link` header by relation."""
    parts = [part.split("; rel=") for part in said.headers.get("link", "").split(", ") if part]
    return {relation.strip('"'): address.strip("<>") for address, relation in parts}


@pytest.mark.parametrize("prefix", ["", "/api/v3"])
def test_links_lead_through_the_pages(curl: Curl, root: str, prefix: str) -> None:
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


def test_links_lead_through_the_deliveries(
    curl: Curl, root: str, server: Server, world: World, receiver: Receiver
) -> None:
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


def test_head_equals_get_without_a_body(curl: Curl, root: str) -> None:
    hook = create(curl, root, NOWHERE, active=False)
    full = curl("GET", hook_path(root, hook))
    head = curl("HEAD", hook_path(root, hook))
    assert (head.status, head.body) == (200, b"")
    for name in ("etag", "content-type", "content-length"):
        assert head.headers[name] == full.headers[name]
    assert curl("HEAD", f"{root}/hooks/{2**30}").status == 404


@pytest.mark.parametrize("header", ["X-Service-Api-Version", "X-GitHub-Api-Version"])
def test_unsupported_api_versions_are_refused(curl: Curl, root: str, header: str) -> None:
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


def test_every_json_media_type_is_accepted(curl: Curl, root: str) -> None:
    for kind in ("application/vnd.service+json", "application/vnd.github.v3+json", "application/json", "*/*"):
        assert curl("GET", f"{root}/hooks", "--header", f"Accept: {kind}").json == []


def test_the_accepted_authorization_schemes(curl: Curl, root: str, world: World) -> None:
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


def test_responses_have_scope_and_rate_limit_headers(curl: Curl, root: str, world: World) -> None:
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
def test_unreadable_bodies_are_refused(curl: Curl, root: str, body: str, status: int, message: str) -> None:
    said = curl("POST", f"{root}/hooks", body=body)
    assert (said.status, said.json["message"], said.json["status"]) == (status, message, str(status))
