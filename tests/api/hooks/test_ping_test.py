"""POST …/hooks/{hook_id}/pings, and …/tests with its old name …/test."""

from __future__ import annotations

import pytest

from tests.api.wire import Api, Place, refused
from tests.harness.receiver import Receiver


def test_a_ping(api: Api, place: Place, receiver: Receiver) -> None:
    hook = api.hook(place, config={"url": receiver.url, "content_type": "json"}, events=["fork"])
    response = api.post(hook["ping_url"])
    assert (response.status_code, response.content) == (204, b"")
    assert "content-type" not in response.headers
    [ping] = receiver.wait_for(1)
    assert ping.event == "ping"
    assert ping.payload()["hook"] == hook
    assert ping.payload()["hook_id"] == hook["id"]
    assert ping.payload()["zen"]


def test_a_ping_reaches_one_hook(api: Api, place: Place, receiver: Receiver) -> None:
    api.hook(place, config={"url": receiver.url + "/other"}, events=["*"], active=True)
    api.hook(place.other, config={"url": receiver.url + "/other"}, events=["*"], active=True)
    receiver.wait_for(2)
    hook = api.hook(place, config={"url": receiver.url + "/mine"}, events=["push"])
    api.post(hook["ping_url"])
    receiver.wait_for(lambda requests: any(each.path == "/hook/mine" for each in requests))
    assert [each.path for each in receiver.requests].count("/hook/other") == 2


@pytest.mark.parametrize("name", ["tests", "test"])
def test_a_test_sends_the_latest_push(api: Api, repository: Place, receiver: Receiver, name: str) -> None:
    hook = api.hook(repository, config={"url": receiver.url, "content_type": "json"}, events=["push"])
    for number in range(2):
        api.post(f"{repository.path}/events", json={"event": "push", "payload": {"number": number}})
    api.post(f"{repository.path}/events", json={"event": "fork", "payload": {}})
    response = api.post(f"{hook['url']}/{name}")
    assert (response.status_code, response.content) == (204, b"")
    [sent] = receiver.wait_for(1)
    assert (sent.event, sent.payload()["number"]) == ("push", 1)
    assert sent.payload()["repository"]["full_name"] == repository.world.full_name


@pytest.mark.parametrize("events", [["*"], ["fork"]], ids=str)
def test_a_test_without_a_push(api: Api, repository: Place, events: list[str], receiver: Receiver) -> None:
    hook = api.hook(repository, config={"url": receiver.url}, events=events)
    if events == ["fork"]:
        api.post(f"{repository.path}/events", json={"event": "push", "payload": {}})
    assert api.post(f"{hook['url']}/tests").status_code == 204
    api.post(hook["ping_url"])
    assert [each.event for each in receiver.wait_for(1)] == ["ping"]


def test_an_organization_has_no_test(api: Api, organization: Place) -> None:
    hook = api.hook(organization)
    for name in ("tests", "test"):
        refused(api.post(f"{hook['url']}/{name}"), 404, "Not Found")


def test_only_where_it_belongs(api: Api, place: Place) -> None:
    hook = api.hook(place)
    refused(api.post(f"{place.other.hooks}/{hook['id']}/pings"), 404, "Not Found")
    refused(api.post(f"{place.hooks}/999999999/pings"), 404, "Not Found")
    if place.kind == "organization":
        refused(api.post(f"{place.other.hooks}/{hook['id']}/tests"), 404, "Not Found")
