"""GET and PATCH …/hooks/{hook_id}/config."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from tests.api.wire import BAD_URL, Api, Place, custom, invalid, new_url, refused
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.world import World


def test_the_answer(api: Api, place: Place) -> None:
    url = new_url()
    hook = api.hook(place, config={"url": url, "content_type": "json", "secret": "s"})
    response = api.get(f"{hook['url']}/config")
    assert response.status_code == 200
    assert response.json() == {"url": url, "content_type": "json", "insecure_ssl": "0", "secret": "********"}


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        ({}, {}),
        ({"content_type": "form"}, {"content_type": "form"}),
        ({"content_type": ""}, {"content_type": "form"}),
        ({"content_type": None}, {"content_type": "form"}),
        ({"insecure_ssl": True}, {"insecure_ssl": "1"}),
        ({"secret": "other"}, {}),
        ({"secret": "********"}, {}),
        ({"secret": ""}, {"secret": None}),
        ({"secret": None}, {"secret": None}),
        ({"retries": "0"}, {"retries": "0"}),
        ({"max_concurrency": None}, {"max_concurrency": None}),
        ({"password": ""}, {"password": None}),
        ({"header_style": "service"}, {"header_style": "service"}),
        ({"header_style": "standard", "secret": "whsec_c2VjcmV0"}, {"header_style": "standard"}),
    ],
    ids=str,
)
def test_only_what_is_given_changes(api: Api, place: Place, body: dict[str, Any], changes: dict[str, Any]) -> None:
    config = {"content_type": "json", "secret": "s", "password": "p", "max_concurrency": "2"}
    before = api.hook(place, config=config)["config"]
    hook = api.read(place.hooks)[0]
    expected = {name: value for name, value in {**before, **changes}.items() if value is not None}
    response = api.patch(f"{hook['url']}/config", json=body)
    assert (response.status_code, response.json()) == (200, expected)
    assert api.read(hook["url"]) == {**hook, "config": expected, "updated_at": api.read(hook["url"])["updated_at"]}


def test_the_url(api: Api, place: Place) -> None:
    hook, url = api.hook(place, config={"secret": "s"}), new_url()
    assert api.patch(f"{hook['url']}/config", json={"url": url}).json() == {**hook["config"], "url": url}


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({"url": ""}, [custom("url cannot be blank", "url")]),
        ({"url": None}, [custom("url cannot be blank", "url")]),
        ({"url": 5}, [custom("url must be a string", "url")]),
        ({"url": "nope"}, [custom(BAD_URL, "url")]),
        ({"content_type": "xml"}, [custom("content_type must be json or form", "content_type")]),
        ({"config": {}}, [custom("Invalid config attribute: config")]),
        (
            {"a": 1, "insecure_ssl": 7},
            [custom("Invalid config attribute: a"), custom("insecure_ssl must be 0 or 1", "insecure_ssl")],
        ),
    ],
    ids=str,
)
def test_what_is_refused_changes_nothing(
    api: Api, place: Place, body: dict[str, Any], faults: list[dict[str, Any]]
) -> None:
    hook = api.hook(place)
    invalid(api.patch(f"{hook['url']}/config", json={"secret": "new", **body}), *faults)
    assert api.read(hook["url"]) == hook


def test_the_same_as_another(api: Api, place: Place) -> None:
    one, two = api.hook(place), api.hook(place)
    again = custom(f"Hook already exists on this {place.kind}")
    invalid(api.patch(f"{two['url']}/config", json={"url": one["config"]["url"]}), again)


def test_a_new_secret_signs_at_once(api: Api, place: Place, receiver: Receiver) -> None:
    hook = api.hook(place, config={"url": receiver.url, "secret": "one"}, active=True)
    first = receiver.wait_for(1)[0]
    api.patch(f"{hook['url']}/config", json={"secret": "two"})
    api.post(hook["ping_url"])
    second = receiver.wait_for(2)[1]
    for received, secret in ((first, b"one"), (second, b"two")):
        expected = hmac.new(secret, received.body, hashlib.sha256).hexdigest()
        assert received.headers["x-hub-signature-256"] == f"sha256={expected}"


def test_two_secrets_while_one_expires(api: Api, place: Place, receiver: Receiver) -> None:
    one, two, three = (f"whsec_{name}" for name in ("b25l", "dHdv", "dGhyZWVz"))
    config = {"url": receiver.url, "secret": one, "header_style": "standard"}
    hook = api.hook(place, config=config, active=True)
    assert len(receiver.wait_for(1)[0].headers["webhook-signature"].split()) == 1
    api.patch(f"{hook['url']}/config", json={"secret": two, "previous_secret_expires_in": 600})
    api.post(hook["ping_url"])
    assert len(receiver.wait_for(2)[1].headers["webhook-signature"].split()) == 2
    api.patch(f"{hook['url']}/config", json={"secret": three})
    api.post(hook["ping_url"])
    assert len(receiver.wait_for(3)[2].headers["webhook-signature"].split()) == 1


@pytest.mark.one_database
@pytest.mark.parametrize("secret", [None, "", "plain", "whsec_", "whsec_!!!", "whsec_abc", "WHSEC_c2VjcmV0"])
def test_standard_webhooks_need_a_secret_of_their_form(api: Api, place: Place, secret: str | None) -> None:
    expected = custom("secret must be whsec_ and a key in base64 where header_style is standard", "secret")
    standard = {"url": new_url(), "header_style": "standard"}
    made = {**standard, "secret": secret}
    refused(api.create(place, config=made), 422, "Validation Failed", expected)
    hook = api.hook(place, config={"url": new_url(), "secret": "plain"})
    refused(api.patch(f"{hook['url']}/config", json={"header_style": "standard"}), 422, "Validation Failed", expected)
    for config in (made, {**standard, "secret": "********"}):
        refused(api.patch(hook["url"], json={"config": config}), 422, "Validation Failed", expected)
    good = api.hook(place, config={**standard, "secret": "whsec_c2VjcmV0"})
    refused(api.patch(f"{good['url']}/config", json={"secret": secret}), 422, "Validation Failed", expected)
    assert api.patch(f"{good['url']}/config", json={"retries": 1}).status_code == 200
    assert api.patch(good["url"], json={"config": {**standard, "secret": "********"}}).status_code == 200
    assert api.patch(f"{good['url']}/config", json={"header_style": "", "secret": secret}).status_code == 200


def test_only_where_it_belongs(api: Api, place: Place) -> None:
    hook = api.hook(place)
    elsewhere = f"{place.other.hooks}/{hook['id']}/config"
    refused(api.get(elsewhere), 404, "Not Found")
    refused(api.patch(elsewhere, json={"secret": "x"}), 404, "Not Found")


def test_a_password_does_not_follow_the_url_to_another_server(server: Server, world: World) -> None:
    config = {"url": "http://127.0.0.1:9/a", "username": "ci", "password": "s3cret"}
    with server.client(world.token) as client:
        made = client.post(f"{world.repo_path}/hooks", json={"config": config}).json()
        path = f"{world.repo_path}/hooks/{made['id']}"
        for answer in (
            client.patch(f"{path}/config", json={"url": "http://127.0.0.1:10/a"}),
            client.patch(path, json={"config": {**config, "url": "http://127.0.0.2:9/a", "password": "********"}}),
        ):
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"] == "password"
        assert client.patch(f"{path}/config", json={"url": "http://127.0.0.1:9/b"}).status_code == 200
        moved = client.patch(f"{path}/config", json={"url": "http://127.0.0.1:10/a", "password": "new"})
        assert moved.status_code == 200


def test_a_rotation_needs_a_new_secret(server: Server, world: World) -> None:
    with server.client(world.token) as client:
        made = client.post(f"{world.repo_path}/hooks", json={"config": {"url": "http://127.0.0.1:9/r"}}).json()
        path = f"{world.repo_path}/hooks/{made['id']}/config"
        answer = client.patch(path, json={"previous_secret_expires_in": 60})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "previous_secret_expires_in"


@pytest.mark.parametrize("name", ["secret", "password"])
def test_a_mask_where_nothing_is_stored_is_refused(api: Api, place: Place, name: str) -> None:
    """It would leave payloads unsigned, or without a password, and nobody would notice."""
    message = f"{name} is ********, which stands for a stored {name}, and none is stored."
    wrong = custom(f"{message} Send the {name} itself or leave it out.", name)
    for more in ({}, {"header_style": "service"}, {"username": "ada"}):
        invalid(api.create(place, config={name: "********", **more}), wrong)
    for mask in ("***", "*", "••••••", "●●●●", " ******** ", "* * *", "∙∙∙", "····", "⬤⬤⬤"):
        invalid(api.create(place, config={name: mask}), wrong)
    hook = api.hook(place)
    url = hook["config"]["url"]
    invalid(api.patch(hook["url"], json={"config": {"url": url, name: "********"}}), wrong)
    invalid(api.patch(f"{hook['url']}/config", json={name: "********"}), wrong)
    assert api.read(hook["url"]) == hook
    api.patch(f"{hook['url']}/config", json={name: "a stored one"})
    for body in ({"secret": "********", "password": "********"}, {name: "********"}):
        answer = api.patch(f"{hook['url']}/config", json=body)
        other = {"secret": "password", "password": "secret"}[name]
        assert answer.status_code == (422 if other in body else 200), answer.text
    assert api.patch(f"{hook['url']}/config", json={name: "•••"}).status_code == 200
    assert api.read(f"{hook['url']}/config")[name] == "********"
    api.patch(f"{hook['url']}/config", json={name: ""})
    invalid(api.patch(f"{hook['url']}/config", json={name: "********"}), wrong)
