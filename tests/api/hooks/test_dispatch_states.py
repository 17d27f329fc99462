"""The dispatch fields of a delivery: the dispatch's state, the attempt's number, and when the next attempt is due."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.api.wire import Api, Place
from tests.harness.receiver import Receiver, Reply
from tests.harness.server import Server
from tests.harness.waiting import until
from workhook.core.clock import HOUR_MS, now_ms, parse_rfc3339
from workhook.hooks import history
from workhook.hooks.tables import dispatches
from workhook.http.calls import Services

TOLD = ("dispatch_state", "attempt", "attempts_max")


def read_dispatch_fields(api: Api, hook: dict[str, Any], count: int = 1) -> list[tuple[Any, ...]]:
    """Return the dispatch fields of `count` deliveries, newest first.

    The single deliveries must agree with the list.
    """
    found = until(lambda: rows if len(rows := api.read(hook["deliveries_url"])) >= count else [])
    for each in found:
        detail = api.read(f"{hook['deliveries_url']}/{each['id']}")
        assert {name: detail[name] for name in (*TOLD, "next_attempt_at")} == {
            name: each[name] for name in (*TOLD, "next_attempt_at")
        }
    return [tuple(each[name] for name in TOLD) for each in found]


def test_a_failed_delivery_shows_its_next_retry(api: Api, place: Place, receiver: Receiver) -> None:
    receiver.reply = lambda received: Reply(500)
    hook = api.hook(place, config={"url": receiver.url}, active=True)
    assert read_dispatch_fields(api, hook) == [("retrying", 1, 9)]
    [item] = api.read(hook["deliveries_url"])
    waits = parse_rfc3339(item["next_attempt_at"]) - parse_rfc3339(item["delivered_at"])
    assert 9_000 <= waits <= 20_000


def test_the_webhook_sets_the_number_of_attempts(api: Api, place: Place, receiver: Receiver) -> None:
    receiver.reply = lambda received: Reply(500)
    hook = api.hook(place, config={"url": receiver.url, "retries": "2"}, active=True)
    assert read_dispatch_fields(api, hook) == [("retrying", 1, 3)]


def test_every_attempt_shows_the_current_state_of_its_event(api: Api, place: Place, receiver: Receiver) -> None:
    receiver.reply = lambda received: Reply(500)
    hook = api.hook(place, config={"url": receiver.url, "retries": "0"}, active=True)
    assert read_dispatch_fields(api, hook) == [("given_up", 1, 1)]
    [first] = api.read(hook["deliveries_url"])
    assert first["next_attempt_at"] is None
    again = f"{hook['deliveries_url']}/{first['id']}/attempts"
    assert api.post(again).status_code == 202
    assert read_dispatch_fields(api, hook, 2) == [("given_up", 2, 2), ("given_up", 1, 2)]
    receiver.reply = lambda received: Reply(204)
    assert api.post(again).status_code == 202
    assert read_dispatch_fields(api, hook, 3) == [("delivered", 3, 3), ("delivered", 2, 3), ("delivered", 1, 3)]


def test_a_pending_redelivery_shows_when_it_is_due(api: Api, place: Place, receiver: Receiver, server: Server) -> None:
    hook = api.hook(place, config={"url": receiver.url, "retries": "0"}, active=True)
    assert read_dispatch_fields(api, hook) == [("delivered", 1, 1)]
    later = now_ms() + HOUR_MS

    async def postpone(services: Services) -> None:
        """Request a redelivery that is due in an hour."""
        change = sa.update(dispatches).where(dispatches.c.hook_id == hook["id"])
        change = change.values(wanted=1, retries=0, next_attempt_at=sa.literal(later, sa.BigInteger))
        await services.database.write(change, [{}])

    server.run(postpone)
    assert read_dispatch_fields(api, hook) == [("pending", 1, 2)]
    assert parse_rfc3339(api.read(hook["deliveries_url"])[0]["next_attempt_at"]) == later


def test_each_event_counts_its_own_attempts(api: Api, place: Place, receiver: Receiver) -> None:
    receiver.reply = lambda received: Reply(500 if received.event == "ping" else 200)
    hook = api.hook(place, config={"url": receiver.url}, active=True)
    read_dispatch_fields(api, hook)
    assert api.post(f"{place.path}/events", json={"event": "push", "payload": {}}).json()["deliveries"] == 1
    assert read_dispatch_fields(api, hook, 2) == [("delivered", 1, 9), ("retrying", 1, 9)]


NOW = 1_800_000_000_000
LATE = NOW - history.HELD_MS


@pytest.mark.parametrize(
    ("dispatch", "made", "expected"),
    [
        ((2, 2, 0, None), (0, 200), ("delivered", 2, 9)),
        ((2, 2, 0, None), (0, 502), ("given_up", 2, 9)),
        ((2, 2, 0, None), (0, 302), ("given_up", 2, 9)),
        ((2, 2, 0, None), (1, 299), ("delivered", 1, 9)),
        ((2, 2, 0, None), (2, 200), ("delivered", 1, 9)),  # one was recorded too late and is not counted
        ((40, 1, 0, None), (0, 200), ("delivered", 40, 48)),
        ((20, 20, 0, None), (0, 200), ("delivered", 20, 20)),  # the webhook's number of retries was reduced since
        ((2, 2, 0, NOW + 1), (0, 200), ("retrying", 2, 9)),
        ((2, 2, 0, LATE), (0, 500), ("retrying", 2, 9)),
        ((2, 2, 0, LATE - 1), (0, 500), ("held", 2, 9)),
        ((2, 0, 1, NOW), (0, 500), ("pending", 2, 11)),
        ((2, 0, 1, LATE - 1), (0, 200), ("held", 2, 11)),
        (None, (0, 200), ("delivered", 1, None)),
    ],
    ids=str,
)
def test_the_dispatch_fields_of_every_state(
    dispatch: tuple[int, int, int, int | None] | None, made: tuple[int, int], expected: tuple[Any, ...]
) -> None:
    later, code = made
    newest = 7 * history.CODES + code
    row: Any = {"dispatch": json.dumps([dispatch] if dispatch else []), "attempts_made": json.dumps([[later, newest]])}
    found = history.dispatch_fields(row, 8, NOW)
    assert tuple(found[name] for name in TOLD) == expected
    assert history.dispatch_fields(row, None, NOW)["attempts_max"] is None
