"""Pages that show arbitrary JSON: published events, answers of receivers, and requests to the built-in receiver."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.receiver import Received, Reply
from tests.unit.test_any_json import DATA, NAMES, PARTS, VALUES
from tests.web.webhooks import Office, listening, office

__all__ = ["office"]
DEPTHS = (99, 101, 975, 6_000)
BODIES = [
    *(b"[" * levels for levels in DEPTHS),
    *(b"[" * levels + b"]" * levels for levels in DEPTHS),
    *(b'{"action":' * levels + b"1" + b"}" * levels for levels in DEPTHS),
    b'{"x":' + b"[" * 975 + b"]" * 975 + b',"action":"opened"}',
    b'{"action":1E400}',
    b'{"action":"\\ud800"}',
    b"\xff\xfe{}",
    b'["]",' * 500 + b"1" + b',"["]' * 500,
    b"9" * 5_000,
]


def examples(count: int, strategy: st.SearchStrategy[Any]) -> list[Any]:
    found: list[Any] = []

    @settings(max_examples=count, database=None)
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def test_any_request_to_the_receiver_is_shown(office: Office) -> None:
    owner = office.visitor()
    owner.send("/receiver")
    [hook] = office.api("GET", f"{office.world.repo_path}/hooks")
    url = office.server.url + urlsplit(hook["config"]["url"]).path
    parts = st.lists(PARTS, max_size=12).map(lambda each: "".join(each).encode())
    bodies = [*BODIES, *examples(30, DATA | parts)]
    for at in range(0, len(bodies), 10):
        for body in bodies[at : at + 10]:
            assert httpx.post(url, content=body, headers={"X-GitHub-Event": "push"}, timeout=60).status_code == 200
        owner.get("/receiver")


def test_any_answer_of_a_receiver_is_shown(office: Office) -> None:
    hook, owner = listening(office), office.visitor()
    waiting = [*BODIES, *examples(20, DATA)]
    answers = dict(enumerate(waiting))

    def reply(received: Received) -> Reply:
        return Reply(200, {}, answers.get(received.payload().get("number"), b"{}"))

    office.receiver.reply = reply
    sent = office.publish(hook, *({"number": number} for number in answers))
    for each, other in zip(sent, [*sent[1:], sent[0]], strict=True):
        owner.get(f"/{hook}/deliveries/{each['id']}")
        owner.get(f"/{hook}/deliveries/{each['id']}?with={other['id']}")
        owner.get(f"/{hook}/deliveries/{each['id']}/response.txt")
        office.api("GET", f"{office.world.repo_path}/hooks/{hook}/deliveries/{each['id']}")


def test_any_published_event_is_shown(office: Office) -> None:
    hook, owner = listening(office), office.visitor()
    path = f"{office.world.repo_path}/events"
    payloads = examples(30, st.dictionaries(NAMES, VALUES, max_size=6))
    with office.server.client(office.world.token) as client:
        answered = [
            client.post(path, json={"event": event, "payload": payload}).status_code
            for event, payload in zip(["push", "task", "issues", "file", "invoice"] * 6, payloads, strict=False)
        ]
        deep = [
            client.post(path, content=f'{{"event":"push","payload":{{"a":{"[" * levels}{"]" * levels}}}}}').status_code
            for levels in (98, 99, 101, 975)
        ]
    assert set(answered) == {202}
    assert deep == [202, 400, 400, 400]
    base = f"/{office.world.full_name}"
    page = owner.get(f"{base}/activity").text
    for event in set(re.findall(rf"{base}/activity/(\d+)", page)):
        owner.get(f"{base}/activity/{event}")
    for each in office.deliveries(hook, len(answered)):
        owner.get(f"/{hook}/deliveries/{each['id']}")
        detail = office.api("GET", f"{office.world.repo_path}/hooks/{hook}/deliveries/{each['id']}")
        json.dumps(detail)
