"""Every event and action of the work API: each operation runs and its webhook arrives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from tests.harness.receiver import Receiver
from tests.work.requests_kit import TABLE
from tests.work.scene import Scene
from tests.work.studio import Studio
from workhook.core.clock import DAY_MS, now_ms, to_millis_text
from workhook.events.catalog import CATALOG
from workhook.work.money.credits.actions import expire_credits

pytestmark = pytest.mark.usual

# The actions that work API operations trigger according to the catalog. `hook` is about webhooks themselves.
_OWN = json.loads(resources.files("workhook.events").joinpath("own_names.json").read_bytes())
WANTED = {(name, action) for name, row in _OWN.items() if name != "hook" for action in row["actions"]}

Pair = tuple[str, str]
"""The name and the action of an event."""

Request = tuple[Pair, str, str, dict[str, Any]]
"""An event the request triggers, its method, its path and the request options."""

DONE = {"POST": "created", "PATCH": "edited", "DELETE": "deleted"}
STEPS = {
    "restore": "created", "complete": "completed", "pause": "paused", "unpause": "unpaused", "cancel": "canceled",
    "send": "sent", "pay": "paid", "void": "voided", "resume": "resumed", "finish": "finished",
}  # fmt: skip
OTHERS = {
    "POST /projects/{}/members": ("member", "added"),
    "DELETE /projects/{}/members/{}": ("member", "removed"),
    "DELETE /clients/{}": ("client", "removed"),
    "POST /tasks/bulk": ("task", "created"),
    "POST /projects/{}/task_credits": ("task_credit", "granted"),
    "DELETE /task_credits/{}": ("task_credit", "reversed"),
    "POST /invoices/{}/payments": ("invoice", "partially_paid"),
    "POST /payments/{}/refund": ("invoice", "refunded"),
    "POST /invoices/{}/credit_notes": ("invoice", "credited"),
    "POST /projects/{}/timesheets": ("timesheet", "finished"),
}
"""Events that cannot be derived from the method and the path."""


def _made_by(key: str) -> Pair:
    method, path = key.split()
    parts = [each for each in path.split("/") if each not in ("", "{}")]
    step = STEPS.get(parts[-1])
    noun = (
        "file_comment_reply" if path.startswith("/file_comments/{}/c") else parts[-2 if step else -1].removesuffix("s")
    )
    return OTHERS.get(key) or (noun, step or DONE[method])


@pytest.fixture
def scene(studio: Studio) -> Scene:
    return Scene(studio.owner, studio.project_id, studio.world.organization, studio.member.login)


SILENT = re.compile("GET |notification|/billing|/organizations/|POST /projects/{}/clients")


def _of_table(scene: Scene) -> Iterator[Request]:
    """Yield the valid request of each operation that triggers events."""
    for key, (_, make, body) in TABLE.items():
        if SILENT.search(key):
            continue
        method, pattern = key.split()
        ids, given = make(scene), body(scene) if callable(body) else body
        path = pattern.format(*(ids if isinstance(ids, tuple) else (ids,)))
        yield _made_by(key), method, path, given if "files" in given else {"json": given}


def _others(scene: Scene) -> Iterator[Request]:
    """Yield requests for the further events of operations with several."""
    yield ("project", "archived"), "PATCH", f"/projects/{scene.project()}", {"json": {"archive": True}}
    archived = scene.project()
    scene.owner.patch(f"/projects/{archived}", json={"archive": True})
    yield ("project", "unarchived"), "PATCH", f"/projects/{archived}", {"json": {"archive": False}}
    yield ("column", "moved"), "PATCH", f"/columns/{scene.column()}", {"json": {"position": 0}}
    task_id, done = scene.task(), scene.column(stage="done")
    for action, column_id in (("moved", scene.column()), ("completed", done), ("reopened", scene.column())):
        yield ("task", action), "PATCH", f"/tasks/{task_id}", {"json": {"column_id": column_id}}
    spend = {"kind": "spend", "amount": 1, "task_id": task_id}
    yield ("task_credit", "spent"), "POST", f"{scene.project_path}/task_credits", {"json": spend}
    budget = scene.time_for_its_budget()
    yield ("project", "budget_reached"), "POST", f"{scene.project_path}/timesheets", {"json": budget}
    yield ("timesheet", "started"), "POST", f"{scene.project_path}/timesheets", {"json": {"task_id": task_id}}


def _pairs(events: Any) -> set[Pair]:
    return {(each.name, str(each.action)) for each in events}


def test_every_event_arrives(studio: Studio, scene: Scene, receiver: Receiver) -> None:
    studio.hook(receiver.url, place=studio.world.org_path)
    receiver.wait_for(lambda requests: any(each.event == "ping" for each in requests))
    made, wrong = set[Pair](), list[str]()
    for requests in (_of_table(scene), _others(scene)):
        for wanted, method, path, more in requests:
            studio.happened()
            studio.owner.answer(method, path, **more)
            found = _pairs(studio.happened())
            if wanted not in found:
                wrong.append(f"{method} {path}: {wanted}, not {found}")
            made |= found
    assert wrong == []
    made |= _accepted(studio) | _expired(studio, scene)
    assert made == WANTED
    studio._seen = set()
    stored = [each for each in studio.happened() if each.name != "ping"]
    receiver.wait_for(lambda requests: len(requests) > len(stored))
    received = [each for each in receiver.requests if each.event != "ping"]
    sent = sorted((each.event, json.dumps(each.payload(), sort_keys=True)) for each in received)
    assert sent == sorted((each.name, json.dumps(each.payload, sort_keys=True)) for each in stored)
    for each in received:
        schema = CATALOG[each.event].schema
        assert schema is not None
        Draft202012Validator(schema, format_checker=FormatChecker()).validate(each.payload())


def _accepted(studio: Studio) -> set[Pair]:
    """Accept a client invitation."""
    stranger = studio.stranger
    invited = studio.owner.post(f"{studio.project}/clients", json={"email": stranger.me["email"]})["invitation"]
    studio.happened()
    assert stranger.http.patch(f"/user/repository_invitations/{invited['id']}").status_code == 204
    return _pairs(studio.happened())


def _expired(studio: Studio, scene: Scene) -> set[Pair]:
    """Let a grant expire, moving only the chore's clock forward."""
    scene.credit(expires_at=to_millis_text(now_ms() + DAY_MS))
    studio.happened()
    assert studio.server.run(lambda services: expire_credits(services, now_ms() + 2 * DAY_MS)) >= 1
    return _pairs(studio.happened())


def test_refused_and_ineffective_requests_send_no_events(studio: Studio, scene: Scene) -> None:
    ready = [*_of_table(scene), *_others(scene)]
    studio.happened()
    for _, method, path, more in ready:
        refused = studio.stranger.call(method, path, **more)
        # A stranger can create projects of their own, whose events are not the studio's.
        assert refused.status_code in (403, 404, 422) or path == "/projects", (method, path, refused.text)
        if method == "PATCH":
            assert studio.owner.call("PATCH", path, json={}).status_code == 200
            assert studio.owner.call("PATCH", path, json={"no_such_field": 1}).status_code == 422
    assert studio.happened() == []
