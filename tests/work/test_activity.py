"""`/projects/{id}/activity`: the project's events, newest first."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa

from tests.work.studio import Caller, Studio
from workhook.events.tables import events
from workhook.storage.metadata import bigint_param
from workhook.work.history.activity import queries

KEYS = {"id", "event", "action", "actor", "created_at", "payload", "published"}


@pytest.fixture
def path(studio: Studio) -> str:
    return f"{studio.project}/activity"


def _rename(caller: Caller, studio: Studio, *titles: str) -> None:
    for title in titles:
        caller.patch(studio.project, json={"title": title})


def _titles(answer: dict[str, Any]) -> list[str]:
    return [each["payload"]["project"]["title"] for each in answer["activity"]]


def _publish(studio: Studio, event: str = "push", **payload: object) -> None:
    body = {"event": event, "payload": payload}
    assert studio.owner.http.post(f"{studio.world.repo_path}/events", json=body).status_code == 202


def test_events_are_listed_newest_first(studio: Studio, path: str) -> None:
    assert studio.owner.get(path) == {"success": True, "activity": []}
    _rename(studio.member, studio, "First", "Second")
    answer = studio.owner.get(path)
    assert set(answer) == {"success", "activity"}
    assert _titles(answer) == ["Second", "First"]
    newest = answer["activity"][0]
    assert set(newest) == KEYS
    assert (newest["event"], newest["action"]) == ("project", "edited")
    assert newest["actor"] == studio.member.get("/me")["user"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", newest["created_at"])
    assert newest["payload"] == studio.happened()[-1].payload
    assert studio.member.get(path) == answer


def test_published_events_are_listed_but_hook_events_are_not(studio: Studio, path: str) -> None:
    hook = {"name": "web", "config": {"url": "http://127.0.0.1:9/secret"}, "events": ["push"]}
    made = studio.owner.http.post(f"{studio.world.repo_path}/hooks", json=hook)
    _publish(studio, "push", ref="refs/heads/main")
    assert studio.owner.http.post(made.json()["test_url"]).status_code == 204
    assert studio.owner.http.post(made.json()["ping_url"]).status_code == 204
    [pushed] = studio.owner.get(path)["activity"]
    assert (pushed["event"], pushed["action"], pushed["payload"]["ref"]) == ("push", None, "refs/heads/main")
    assert pushed["actor"]["username"] == studio.world.owner


def test_activity_can_be_filtered(studio: Studio, path: str) -> None:
    _rename(studio.owner, studio, "Owner's")
    _publish(studio)
    _rename(studio.member, studio, "Member's")
    member = studio.member.login

    def ids(**params: str) -> list[str]:
        return [each["event"] for each in studio.owner.get(path, params=params)["activity"]]

    assert ids(event="project") == ["project", "project"]
    assert ids(event="push") == ["push"]
    assert ids(event="none") == []
    assert _titles(studio.owner.get(path, params={"actor": member.upper()})) == ["Member's"]
    assert ids(actor="nobody") == []
    assert ids(actor=studio.world.owner, event="project") == ["project"]
    oldest, newest = studio.owner.get(path)["activity"][-1], studio.owner.get(path)["activity"][0]
    assert ids(since=oldest["created_at"]) == ["project", "push", "project"]
    assert newest["event"] in ids(since=newest["created_at"])
    assert ids(since="2999-01-01T00:00:00Z") == []
    assert studio.owner.faults("GET", path, params={"since": "yesterday", "user": "x", "per_page": "101"}) == {
        "since": "invalid",
        "user": "unknown",
        "per_page": "invalid",
    }


def test_paging_lists_every_event_once(studio: Studio, path: str) -> None:
    _rename(studio.owner, studio, *"abcde")
    answer = studio.owner.call("GET", path, params={"per_page": 2, "event": "project"})
    found = _titles(answer.json())
    assert len(found) == 2
    _rename(studio.owner, studio, "f")  # events added meanwhile do not shift the pages
    while "next" in answer.links:
        answer = studio.owner.http.get(answer.links["next"]["url"])
        found += _titles(answer.json())
    assert found == list("edcba")
    assert studio.owner.faults("GET", path, params={"cursor": "v1_x"}) == {"cursor": "invalid"}


def test_long_payloads_shorten_the_pages(studio: Studio, path: str) -> None:
    for number in range(5):
        _publish(studio, number=number, text="x" * (queries.PAGE_BYTES // 3))
    answer = studio.owner.call("GET", path)
    pages = [[each["payload"]["number"] for each in answer.json()["activity"]]]
    while "next" in answer.links:
        answer = studio.owner.http.get(answer.links["next"]["url"])
        pages.append([each["payload"]["number"] for each in answer.json()["activity"]])
    assert pages == [[4, 3, 2], [1, 0]]


def test_an_event_without_an_actor_is_listed(studio: Studio, path: str) -> None:
    """Workhook's own events have no actor, nor have events from before actors were recorded."""
    _rename(studio.owner, studio, "New")
    [event] = studio.owner.get(path)["activity"]

    statement = sa.update(events).where(events.c.id == bigint_param("event_id")).values(actor_id=None)
    studio.server.execute(statement, {"event_id": event["id"]})
    assert studio.owner.get(path)["activity"] == [{**event, "actor": None}]
