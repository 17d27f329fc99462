"""Requests of Terraform's GitHub provider, and the responses it needs. Otherwise a plan would never be empty."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.wire import Api, Place, new_url
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.world import World, add_client, add_user

pytestmark = pytest.mark.one_database

# The provider uses go-github, which adds this prefix to `base_url`.
HEADERS = {
    "Accept": "application/vnd.github.v3+json,application/vnd.github.stone-crop-preview+json",
    "X-Github-Api-Version": "2022-11-28",
}
PREFIX = "/api/v3"


def sent(**config: str) -> dict[str, Any]:
    """Return a webhook as the provider sends it, with omitted settings as empty values."""
    whole = {"content_type": "", "insecure_ssl": "0", "url": new_url(), "secret": "", **config}
    return {"name": "web", "config": whole, "events": ["push"], "active": False}


@pytest.mark.parametrize(
    "content_type", ["json", "form", "application/json", "application/x-www-form-urlencoded"], ids=str
)
def test_a_content_type_is_shown_as_it_was_written(api: Api, place: Place, content_type: str) -> None:
    body = sent(content_type=content_type)
    made = api.post(f"{PREFIX}{place.hooks}", json=body, headers=HEADERS)
    assert made.status_code == 201
    wanted = {"url": body["config"]["url"], "content_type": content_type, "insecure_ssl": "0"}
    assert made.json()["config"] == wanted
    url = made.json()["url"]
    seen = {"If-None-Match": made.headers["etag"], **HEADERS}
    assert api.get(url, headers=seen).status_code == 304  # this is how the provider checks for changes
    changed = api.patch(url, json=sent(content_type="form", url=wanted["url"]), headers=HEADERS)
    assert changed.json()["config"]["content_type"] == "form"
    back = api.patch(url, json=body, headers=HEADERS)
    assert back.json()["config"] == wanted
    for listed in api.read(f"{PREFIX}{place.hooks}"):
        assert listed["config"] == wanted or listed["url"] != url


def test_spellings_of_a_content_type_are_equivalent(api: Api, place: Place) -> None:
    """This applies to duplicates of webhooks as well as to delivery."""
    url = new_url()
    for first, second in (("application/json", "json"), ("", "form"), ("application/x-www-form-urlencoded", "")):
        made = api.post(place.hooks, json=sent(content_type=first, url=url)).raise_for_status().json()
        again = api.post(place.hooks, json=sent(content_type=second, url=url))
        assert (again.status_code, again.json()["errors"][0]["message"]) == (
            422, f"Hook already exists on this {place.kind}"
        )  # fmt: skip
        assert api.delete(made["url"]).status_code == 204


@pytest.mark.parametrize(
    ("content_type", "header"),
    [
        ("application/json", "application/json"),
        ("application/x-www-form-urlencoded", "application/x-www-form-urlencoded"),
        ("", "application/x-www-form-urlencoded"),
    ],
    ids=str,
)
def test_deliveries_have_the_configured_content_type(
    api: Api, place: Place, receiver: Receiver, content_type: str, header: str
) -> None:
    body = sent(content_type=content_type, url=receiver.url)
    assert api.post(place.hooks, json={**body, "active": True}).status_code == 201
    [ping] = receiver.wait_for(1)
    assert ping.headers["content-type"] == header


def test_every_response_names_the_request(api: Api, world: World) -> None:
    """The data source `github_rest_api` uses the request ID as its ID and is empty without one, even for a 404."""
    hooks = f"{PREFIX}{world.repo_path}/hooks"
    known = api.get(hooks, headers=HEADERS)
    answers = {
        200: known,
        304: api.get(hooks, headers={"If-None-Match": known.headers["etag"], **HEADERS}),
        401: httpx.get(known.url, headers=HEADERS),
        404: api.get(f"{PREFIX}{world.repo_path}-/hooks", headers=HEADERS),
    }
    assert [each.status_code for each in answers.values()] == list(answers)
    nowhere = api.get(f"{PREFIX}/no/such/path", headers=HEADERS)
    assert nowhere.status_code == 404
    named = [each.headers["x-github-request-id"] for each in (*answers.values(), nowhere)]
    assert named == [each.headers["x-request-id"] for each in (*answers.values(), nowhere)]
    assert len(set(named)) == len(named)


def test_users_have_no_keys(server: Server, world: World, api: Api) -> None:
    """The data source `github_user` requests both kinds. Hidden users are not found here either."""
    member = server.run(lambda services: add_user(services, world, member="member"))
    outside = server.run(lambda services: add_client(services, world))
    for kind in ("keys", "gpg_keys"):
        path = f"{PREFIX}/users/{world.owner}/{kind}"
        assert api.read(path) == []
        for token, status in ((member, 200), (outside, 404)):
            with server.client(str(token), verify=False) as client:
                assert client.get(path, headers=HEADERS).status_code == status
        assert api.get(f"{PREFIX}/users/no-such-user/{kind}").status_code == 404
