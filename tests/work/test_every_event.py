"""Every event and action of the work API: the operation is done, and its webhook arrives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from tests.harness.receiver import Receiver
from tests.work.scene import Scene
from tests.work.studio import Caller, Studio
from workhook.core.clock import DAY_MS, now_ms, to_millis_text
from workhook.events.catalog import CATALOG
from workhook.http.calls import Services
from workhook.work.money.credits.ledger import expire_credits

# What the catalogue says that operations of the work API make: `hook` is about webhooks themselves.
_OWN = json.loads(resources.files("workhook.events").joinpath("own_names.json").read_bytes())
WANTED = {(name, action) for name, row in _OWN.items() if name != "hook" for action in row["actions"]}

Request = tuple[str, str, dict[str, Any]]


def _requests(scene: Scene) -> Iterator[tuple[str, str, Callable[[], Request]]]:
    """Event, action, and what makes the thing ready and gives the request."""
    path = scene.project_path

    def to(method: str, where: str, **body: Any) -> Request:
        return method, where, {"json": body}

    def at(method: str, pattern: str, made: Callable[[], Any], **body: Any) -> Callable[[], Request]:
        return lambda: to(method, pattern.format(made()), **body)

    yield "project", "created", lambda: to("POST", "/projects", title="New", organization=scene.organization)
    yield "project", "edited", at("PATCH", "/projects/{}", scene.project, title="Edited")
    yield "project", "archived", at("PATCH", "/projects/{}", scene.project, archive=True)
    yield "project", "unarchived", lambda: to("PATCH", f"/projects/{_archived(scene)}", archive=False)
    yield "project", "deleted", at("DELETE", "/projects/{}", scene.project)
    yield "column", "created", lambda: to("POST", f"{path}/columns", title="New")
    yield "column", "edited", at("PATCH", "/columns/{}", scene.column, title="Edited")
    yield "column", "moved", at("PATCH", "/columns/{}", scene.column, position=0)
    yield "column", "deleted", at("DELETE", "/columns/{}", scene.column)
    yield "task", "created", lambda: ("POST", f"/columns/{scene.column()}/tasks", {"params": {"title": "New"}})
    yield "task", "edited", at("PATCH", "/tasks/{}", scene.task, priority="High")
    yield "task", "moved", lambda: to("PATCH", f"/tasks/{scene.task()}", column_id=scene.column())
    yield "task", "completed", lambda: to("PATCH", f"/tasks/{scene.task()}", column_id=scene.column(stage="done"))
    yield "task", "reopened", lambda: to("PATCH", f"/tasks/{_completed(scene)}", column_id=scene.column())
    yield "task", "deleted", at("DELETE", "/tasks/{}", scene.task)
    yield "task_comment", "created", at("POST", "/tasks/{}/task_comments", scene.task, text="Said")
    yield "task_comment", "edited", at("PATCH", "/task_comments/{}", scene.task_comment, text="Else")
    yield "task_comment", "deleted", at("DELETE", "/task_comments/{}", scene.task_comment)
    yield "folder", "created", lambda: to("POST", f"{path}/folders", title="Folder")
    yield "folder", "edited", at("PATCH", "/folders/{}", scene.folder, title="Edited")
    yield "folder", "deleted", at("DELETE", "/folders/{}", scene.folder)
    yield "file", "created", lambda: ("POST", f"{path}/files", {"files": {"file": ("a.txt", b"a file")}})
    yield "file", "edited", at("PATCH", "/files/{}", scene.file, title="Edited")
    yield "file", "deleted", at("DELETE", "/files/{}", scene.file)
    yield "file_comment", "created", at("POST", "/files/{}/file_comments", scene.file, text="Said")
    yield "file_comment", "edited", at("PATCH", "/file_comments/{}", scene.file_comment, text="Else")
    yield "file_comment", "deleted", at("DELETE", "/file_comments/{}", scene.file_comment)
    yield "file_comment_reply", "created", at("POST", "/file_comments/{}/comments", scene.file_comment, body="Yes")
    yield "file_comment_reply", "edited", at("PATCH", "/file_comments/{}", lambda: _reply(scene), body="No")
    yield "file_comment_reply", "deleted", at("DELETE", "/file_comments/{}", lambda: _reply(scene))
    yield "timesheet", "started", lambda: to("POST", f"{path}/timesheets", task_id=scene.task())
    yield "timesheet", "paused", at("POST", "/timesheets/{}/pause", scene.running)
    yield "timesheet", "resumed", at("POST", "/timesheets/{}/resume", scene.paused)
    yield "timesheet", "finished", at("POST", "/timesheets/{}/finish", scene.running)
    yield "timesheet", "edited", at("PATCH", "/timesheets/{}", scene.timesheet, notes="Photos")
    yield "timesheet", "deleted", at("DELETE", "/timesheets/{}", scene.timesheet)
    yield "service", "created", lambda: to("POST", "/services", title="New", organization=scene.organization)
    yield "service", "edited", at("PATCH", "/services/{}", scene.service, title="Edited")
    yield "service", "deleted", at("DELETE", "/services/{}", scene.service)
    yield "service_checkout", "created", lambda: to("POST", f"{path}/service_checkouts", service_id=scene.service())
    yield "service_checkout", "completed", at("POST", "/service_checkouts/{}/complete", scene.checkout)
    yield from _checkouts(scene, at)
    yield "task_credit", "granted", lambda: to("POST", f"{path}/task_credits", amount=5)
    yield (
        "task_credit",
        "spent",
        lambda: to("POST", f"{path}/task_credits", kind="spend", amount=1, task_id=scene.task()),
    )
    yield "task_credit", "reversed", lambda: to("DELETE", f"/task_credits/{_spent(scene)}")
    yield "project", "budget_reached", lambda: to("POST", f"{path}/timesheets", **scene.time_for_its_budget())
    yield "invoice", "created", lambda: to("POST", f"{path}/invoices", bill_to="Client")
    yield "invoice", "edited", at("PATCH", "/invoices/{}", scene.invoice, bill_to="Else")
    yield "invoice", "sent", at("POST", "/invoices/{}/send", scene.invoice)
    yield "invoice", "paid", at("POST", "/invoices/{}/pay", lambda: scene.invoice("send"))
    yield "invoice", "partially_paid", at("POST", "/invoices/{}/payments", lambda: scene.invoice("send"), amount=0.01)
    yield "invoice", "refunded", at("POST", "/payments/{}/refund", scene.payment)
    yield "invoice", "credited", at("POST", "/invoices/{}/credit_notes", lambda: scene.invoice("send"), reason="Late")
    yield "invoice", "voided", at("POST", "/invoices/{}/void", lambda: scene.invoice("send"))
    yield "invoice", "deleted", at("DELETE", "/invoices/{}", scene.invoice)
    yield "client", "removed", at("DELETE", "/clients/{}", scene.client)


def _checkouts(
    scene: Scene, at: Callable[..., Callable[[], Request]]
) -> Iterator[tuple[str, str, Callable[[], Request]]]:
    for action, path, steps in (
        ("paused", "/pause", ("complete",)),
        ("unpaused", "/unpause", ("complete", "pause")),
        ("canceled", "/cancel", ("complete",)),
    ):
        made = lambda steps=steps: scene.checkout(*steps)  # noqa: E731  # bound at once
        yield "service_checkout", action, at("POST", "/service_checkouts/{}" + path, made)
    yield "service_checkout", "deleted", at("DELETE", "/service_checkouts/{}", scene.checkout)


def _archived(scene: Scene) -> str:
    project_id = scene.project()
    scene.owner.patch(f"/projects/{project_id}", json={"archive": True})
    return project_id


def _completed(scene: Scene) -> str:
    return scene.task(scene.column(stage="done"))


def _reply(scene: Scene) -> str:
    comment_id = scene.file_comment()
    return f"{comment_id}/comments/{scene.reply(comment_id)}"


def _spent(scene: Scene) -> str:
    return scene.credit(kind="spend", amount=1, task_id=scene.task())


def _listen(studio: Studio, receiver: Receiver) -> None:
    hook = {"name": "web", "events": ["*"], "config": {"url": receiver.url, "content_type": "json"}}
    assert studio.owner.http.post(f"{studio.world.org_path}/hooks", json=hook).status_code == 201
    receiver.wait_for(lambda requests: any(each.event == "ping" for each in requests))


def _pairs(receiver: Receiver) -> Counter[tuple[str, str]]:
    return Counter(
        (each.event, each.payload().get("action")) for each in list(receiver.requests) if each.event != "ping"
    )


def _did(caller: Caller, request: Request) -> None:
    method, path, more = request
    caller.answer(method, path, **more)


def test_every_event_arrives(studio: Studio, scene: Scene, receiver: Receiver) -> None:
    _listen(studio, receiver)
    scene.credit(amount=1000)
    tried = set()
    for name, action, ready in _requests(scene):
        request = ready()
        studio.happened()
        _did(studio.owner, request)
        assert (name, action) in [(each.name, each.action) for each in studio.happened()], request
        tried.add((name, action))
    tried |= _members(studio) | _client(studio) | _expiry(studio, scene)
    assert tried == WANTED
    every = Counter((each.name, each.action) for each in _all(studio))
    receiver.wait_for(lambda requests: len(requests) > every.total())
    assert _pairs(receiver) == every
    for each in receiver.requests:
        schema = CATALOG[each.event].schema
        assert schema is not None
        Draft202012Validator(schema, format_checker=FormatChecker()).validate(each.payload())


def _members(studio: Studio) -> set[tuple[str, str]]:
    login = studio.member.login
    studio.happened()
    studio.owner.post(f"{studio.project}/members", json={"username": login})
    studio.owner.delete(f"{studio.project}/members/{login}")
    found = {(each.name, str(each.action)) for each in studio.happened()}
    assert found == {("member", "added"), ("member", "removed")}
    return found


def _client(studio: Studio) -> set[tuple[str, str]]:
    """The invited person accepts."""
    stranger = studio.stranger
    invited = studio.owner.post(f"{studio.project}/clients", json={"email": stranger.me["email"]})["invitation"]
    studio.happened()
    assert stranger.http.patch(f"/user/repository_invitations/{invited['id']}").status_code == 204
    found = {(each.name, str(each.action)) for each in studio.happened()}
    assert found == {("client", "added")}
    return found


def _expiry(studio: Studio, scene: Scene) -> set[tuple[str, str]]:
    """A grant that is not spent in time. The clock is put forward for the chore alone."""
    scene.credit(expires_at=to_millis_text(now_ms() + DAY_MS))
    studio.happened()

    async def later(services: Services) -> int:
        return await expire_credits(services, now_ms() + 2 * DAY_MS)

    assert studio.server.run(later) >= 1
    found = {(each.name, str(each.action)) for each in studio.happened()}
    assert found == {("task_credit", "expired")}
    return found


def _all(studio: Studio) -> list[Any]:
    studio._seen = set()
    return [each for each in studio.happened() if each.name != "ping"]


def test_what_is_refused_or_changes_nothing_sends_nothing(studio: Studio, scene: Scene) -> None:
    ready = [request() for _, _, request in _requests(scene)]
    studio.happened()
    for method, path, more in ready:
        refused = studio.stranger.call(method, path, **more)
        # A stranger makes projects and services of its own, which are other people's business.
        assert refused.status_code in (403, 404, 422) or path == "/projects", (method, path, refused.text)
        if method == "PATCH":
            assert studio.owner.call("PATCH", path, json={}).status_code == 200
            assert studio.owner.call("PATCH", path, json={"no_such_field": 1}).status_code == 422
    assert studio.happened() == []
