"""An event is sent to a URL once: webhooks with the same URL and content type may not share an event."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.wire import Api, Place, custom, invalid, new_url
from tests.harness.server import Server
from workhook.core import json
from workhook.hooks.tables import hooks
from workhook.http.calls import Services

EVENTS = ("push", "pull_request", "issues", "*")


def exists(place: Place) -> dict[str, Any]:
    return custom(f"Hook already exists on this {place.kind}")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["push"], ["push"]),
        (["push"], ["push", "pull_request"]),
        (["push", "issues"], ["pull_request", "issues"]),
        (["push"], ["*"]),
        (["*"], ["push"]),
        (["*"], ["*"]),
        (["push", "*"], ["issues"]),
        ([], ["push"]),  # an empty list means push
    ],
    ids=str,
)
def test_a_shared_event_is_refused(api: Api, place: Place, first: list[str], second: list[str]) -> None:
    url = new_url()
    made = api.hook(place, config={"url": url}, events=first)
    invalid(api.create(place, config={"url": url}, events=second), exists(place))
    other = api.hook(place, events=second)
    invalid(api.patch(other["url"], json={"config": {"url": url}}), exists(place))
    invalid(api.patch(f"{other['url']}/config", json={"url": url}), exists(place))
    assert api.read(other["url"]) == other
    assert [each["id"] for each in api.read(place.hooks)] == [made["id"], other["id"]]


def test_webhooks_with_one_url_may_have_different_events(api: Api, place: Place) -> None:
    url = new_url()
    one = api.hook(place, config={"url": url}, events=["push"])
    two = api.hook(place, config={"url": url}, events=["issues"])
    json_one = api.hook(place, config={"url": url, "content_type": "json"}, events=["push"])
    assert api.create(place.other, config={"url": url}, events=["*"], active=False).status_code == 201
    for events in (["push", "issues"], ["*"], ["issues"]):
        invalid(api.patch(one["url"], json={"events": events}), exists(place))
    if place.kind == "repository":
        invalid(api.patch(one["url"], json={"add_events": ["issues"]}), exists(place))
        invalid(api.patch(one["url"], json={"remove_events": ["push"], "add_events": ["*"]}), exists(place))
        assert api.patch(two["url"], json={"remove_events": ["issues"]}).json()["events"] == []
        assert api.patch(one["url"], json={"add_events": ["issues"]}).json()["events"] == ["push", "issues"]
        invalid(api.patch(two["url"], json={"add_events": ["issues"]}), exists(place))
    for body in ({"content_type": "form"}, {"content_type": "application/x-www-form-urlencoded"}):
        invalid(api.patch(f"{json_one['url']}/config", json=body), exists(place))
        invalid(api.patch(json_one["url"], json={"config": {"url": url, **body}}), exists(place))


def test_webhooks_that_differ_only_in_other_settings_overlap(api: Api, place: Place) -> None:
    url = new_url()
    api.hook(place, config={"url": url, "secret": "one"}, events=["push"])
    for more in ({"secret": "two"}, {"insecure_ssl": "1"}, {"header_style": "service"}, {"retries": "0"}):
        invalid(api.create(place, config={"url": url, **more}, events=["push", "fork"]), exists(place))


def test_different_spellings_of_a_url_overlap(api: Api, place: Place) -> None:
    api.hook(place, config={"url": "https://ci.example/"}, events=["push"], active=False)
    other = api.hook(place, events=["push"])
    for url in ("https://ci.example", "HTTPS://CI.Example:443/", "https://ci.example/#staging", "https://ci.example#"):
        invalid(api.create(place, config={"url": url}, events=["*"]), exists(place))
        invalid(api.patch(f"{other['url']}/config", json={"url": url}), exists(place))
    for url in ("https://ci.example/?", "https://ci.example/A", "https://ci.example/a", "https://ci.example:80/"):
        assert api.create(place, config={"url": url}, events=["push"], active=False).status_code == 201


def test_concurrent_changes_leave_no_overlap(api: Api, place: Place) -> None:
    url = new_url()
    waiting = [api.hook(place, events=["push", name]) for name in ("issues", "fork", "watch", "release")]
    with ThreadPoolExecutor(8) as threads:
        made = [threads.submit(api.create, place, config={"url": url}, events=["*"], active=False) for _ in range(4)]
        moved = [threads.submit(api.patch, f"{each['url']}/config", json={"url": url}) for each in waiting]
    statuses = [each.result().status_code for each in (*made, *moved)]
    assert sorted(statuses)[-7:] == [422] * 7
    assert sum(each["config"]["url"] == url for each in api.read(place.hooks)) == 1


@pytest.fixture
def overlapping_hooks(server: Server, api: Api, place: Place) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two inactive webhooks that overlap, as an imported archive may contain them."""
    one, two = (api.hook(place, events=[name]) for name in ("push", "issues"))

    async def overlap(services: Services) -> None:
        async with services.database.transaction() as tx:
            same = {"config": json.encode_text({"url": one["config"]["url"]}), "events": '["push"]'}
            await tx.execute(sa.update(hooks).where(hooks.c.id == two["id"]).values(**same))

    server.run(overlap)
    return one, two


def test_only_one_of_two_overlapping_webhooks_can_be_active(
    api: Api, place: Place, overlapping_hooks: tuple[dict[str, Any], ...]
) -> None:
    one, two = overlapping_hooks
    assert api.patch(f"{one['url']}/config", json={"secret": "changed"}).status_code == 200
    assert api.patch(one["url"], json={"active": True}).status_code == 200
    invalid(api.patch(two["url"], json={"active": True}), exists(place))
    assert api.patch(one["url"], json={"active": False}).status_code == 200
    assert api.patch(two["url"], json={"active": True}).status_code == 200


_events = st.lists(st.sampled_from(EVENTS), unique=True, max_size=3)
_content_types = st.sampled_from(("json", "form"))
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.integers(0, 1), _events, _content_types),
        st.tuples(st.sampled_from(("events", "add", "remove")), st.integers(0, 3), _events, st.just("")),
        st.tuples(st.just("config"), st.integers(0, 3), st.integers(0, 1), _content_types),
        st.tuples(st.just("active"), st.integers(0, 3), st.booleans(), st.just("")),
    ),
    max_size=12,
)


_FIELDS = {
    "events": "events", "add": "add_events", "remove": "remove_events", "active": "active", "config": "config",
}  # fmt: skip


def _pairs_overlap(found: list[dict[str, Any]]) -> bool:
    for at, one in enumerate(found):
        for other in found[at + 1 :]:
            same = [one["config"][key] for key in ("url", "content_type")] == [
                other["config"][key] for key in ("url", "content_type")
            ]
            both = set(one["events"]), set(other["events"])
            if same and all(both) and ("*" in both[0] | both[1] or both[0] & both[1]):
                return True
    return False


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=_steps)
def test_no_sequence_of_changes_leads_to_an_overlap(api: Api, place: Place, steps: list[tuple[Any, ...]]) -> None:
    for each in api.read(place.hooks):
        api.delete(each["url"])
    urls = [new_url(), new_url()]
    made: list[dict[str, Any]] = []
    for what, number, value, content_type in steps:
        if what == "create":
            config = {"url": urls[number], "content_type": content_type}
            answer = api.create(place, config=config, events=value, active=False)
            made += [answer.json()] if answer.status_code == 201 else []
        elif number < len(made):
            address = made[number]["url"]
            body = {_FIELDS[what]: value}
            if what == "config":
                body = {"config": {"url": urls[value], "content_type": content_type}}
            answer = api.patch(address, json=body)
        else:
            continue
        assert answer.status_code in (200, 201, 422), answer.text
        if answer.status_code == 422:
            invalid(answer, exists(place))
    assert not _pairs_overlap(api.read(place.hooks))
