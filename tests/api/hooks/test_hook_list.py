"""GET …/hooks and …/hooks/{hook_id}."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.api.wire import UNUSED, Api, Place, invalid, refused
from tests.harness.receiver import Receiver, Reply
from tests.harness.waiting import until


def pages(response: httpx.Response) -> dict[str, dict[str, str]]:
    """Return the query of each link, by relation."""
    found = re.findall(r'<([^>]+)>; rel="(\w+)"', response.headers.get("link", ""))
    assert all(url.startswith(str(response.url.copy_with(query=None))) for url, _ in found)
    return {rel: {name: each[0] for name, each in parse_qs(urlsplit(url).query).items()} for url, rel in found}


def test_the_list_is_empty_without_webhooks(api: Api, place: Place) -> None:
    response = api.get(place.hooks)
    assert (response.status_code, response.json()) == (200, [])
    assert "link" not in response.headers


def test_the_oldest_webhook_is_listed_first(api: Api, place: Place) -> None:
    made = [api.hook(place) for _ in range(3)]
    api.hook(place.other)
    assert api.read(place.hooks) == made
    assert [api.read(each["url"]) for each in made] == made


def test_links_lead_through_the_pages(api: Api, place: Place) -> None:
    ids = [api.hook(place)["id"] for _ in range(5)]
    per_page = {"per_page": "2"}
    expected = {
        1: {"next": {**per_page, "page": "2"}, "last": {**per_page, "page": "3"}},
        2: {
            "prev": {**per_page, "page": "1"},
            "next": {**per_page, "page": "3"},
            "last": {**per_page, "page": "3"},
            "first": {**per_page, "page": "1"},
        },
        3: {"prev": {**per_page, "page": "2"}, "first": {**per_page, "page": "1"}},
    }
    for page, links in expected.items():
        response = api.get(place.hooks, params={**per_page, "page": page})
        assert [each["id"] for each in response.json()] == ids[2 * page - 2 : 2 * page]
        assert pages(response) == links
    beyond = api.get(place.hooks, params={**per_page, "page": 9})
    assert beyond.json() == []
    assert pages(beyond)["prev"] == {**per_page, "page": "3"}


def test_a_page_has_thirty_webhooks_by_default_and_at_most_a_hundred(api: Api, place: Place) -> None:
    for _ in range(101):
        api.hook(place)
    assert len(api.read(place.hooks)) == 30
    for much in ("100", "101", "999999999999999999999"):
        assert len(api.get(place.hooks, params={"per_page": much}).json()) == 100
    assert api.get(place.hooks, params={"per_page": 100, "page": "9" * 30}).json() == []


@pytest.mark.parametrize("value", ["0", "-1", "00", "-0", "-" + "9" * 30])
def test_values_below_one_mean_the_default(api: Api, place: Place, value: str) -> None:
    hooks = [api.hook(place)["id"] for _ in range(31)]
    assert [each["id"] for each in api.read(f"{place.hooks}?page={value}&per_page=2")] == hooks[:2]
    first = api.get(f"{place.hooks}?per_page={value}")
    assert [each["id"] for each in first.json()] == hooks[:30]
    assert [each["id"] for each in api.read(first.links["next"]["url"])] == hooks[30:]


@pytest.mark.parametrize("name", ["page", "per_page"])
@pytest.mark.parametrize("value", ["abc", "", "1.5", "٣", "0x1", " 1", "-", "--1", "-1.5"])
def test_an_invalid_page_is_refused(api: Api, place: Place, name: str, value: str) -> None:
    fault = {"field": name, "code": "invalid", "message": f"{name} must be a whole number of at least 1"}
    invalid(api.get(place.hooks, params={name: value}), fault)


def test_links_keep_other_query_parameters(api: Api, place: Place) -> None:
    for _ in range(2):
        api.hook(place)
    response = api.get(place.hooks, params={"per_page": 1, "x": "ö&<>"})
    assert pages(response)["next"] == {"per_page": "1", "x": "ö&<>", "page": "2"}
    assert "\r" not in response.headers["link"]


def test_unknown_webhooks_are_not_found(api: Api, place: Place) -> None:
    hook = api.hook(place)
    for path in (
        f"{place.hooks}/{hook['id'] + 1_000_000}",
        f"{place.other.hooks}/{hook['id']}",
        f"{place.hooks}/0",
        f"{place.hooks}/-1",
        f"{place.hooks}/abc",
        f"{place.hooks}/{hook['id']}.0",
        f"{place.hooks}/2147483648",
        f"{place.hooks}/9223372036854775808",
        f"{place.hooks}/{'9' * 400}",
        f"{place.hooks}/%00",
        f"{place.hooks}/{hook['id']}%00",
        f"{place.hooks}/{hook['id']}%20",
        f"{place.hooks}/٣",
    ):
        refused(api.get(path), 404, "Not Found")


def test_a_webhook_shows_its_last_response(api: Api, repository: Place, receiver: Receiver) -> None:
    hook = api.hook(repository, config={"url": receiver.url, "retries": "0"})
    assert hook["last_response"] == api.read(hook["url"])["last_response"] == UNUSED
    answers = {200: ("active", "OK"), 204: ("active", "OK"), 500: ("failure", "Invalid HTTP Response: 500")}
    for code, (status, message) in answers.items():
        receiver.reply = lambda received, code=code: Reply(code, body=b"")  # type: ignore[misc]  # called immediately
        api.post(hook["ping_url"])
        expected = {"code": code, "status": status, "message": message}
        until(lambda expected=expected: api.read(hook["url"])["last_response"] == expected)  # type: ignore[misc]
        assert api.read(repository.hooks)[0]["last_response"] == expected
