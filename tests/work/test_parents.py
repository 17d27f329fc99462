"""Effects of archiving or deleting a parent, or of a person leaving.

Nothing below keeps running or being billed, and nothing below gets stuck.

Each test creates child objects, changes the parent, checks what still runs, and then performs the usual operations on
each child, immediately or after the step that the error suggests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work.rights_kit import disable, enable, remove_member
from tests.work.scene import Scene
from tests.work.shop import MONTHLY, Shop
from tests.work.studio import Caller, JsonObject, Studio
from workhook.work.board.tasks.inputs import BLOCKERS_MAX
from workhook.work.board.tasks.relations import SUBTASKS_MAX, find_circle

FAR = "2041-01-01T00:00"

Call = tuple[Caller, str, str, JsonObject]


class Family:
    """A project with a task and every kind of object below them."""

    def __init__(self, studio: Studio, scene: Scene, shop: Shop) -> None:
        self.studio, self.scene, self.shop = studio, scene, shop
        self.owner, self.member = studio.owner, studio.member
        self.column, self.done = scene.column(), scene.column(stage="done")
        self.task = scene.task(self.column, assignees=[self.member.login], repeat="FREQ=DAILY", deadline="2031-01-01")
        self.timers = [self._timer(self.owner, pause=False), self._timer(self.member, pause=True)]
        self.timers.append(self._timer(self.member, pause=False))
        self.child, self.waiting = scene.task(parent_id=self.task), scene.task(blocked_by=[self.task])
        self.comment = self.owner.post(f"/tasks/{self.task}/task_comments", json={"text": "Said"})["task_comment"]["id"]
        self.service = shop.service({**MONTHLY, "amount": 0})
        self.subscription = self._subscription("complete")
        self.waits = self._subscription()
        self.draft, self.credit = scene.invoice(), scene.credit()
        studio.happened()

    def _timer(self, caller: Caller, *, pause: bool) -> str:
        timer = str(caller.post(f"{self.studio.project}/timesheets", json={"task_id": self.task})["timesheet"]["id"])
        if pause:
            caller.post(f"/timesheets/{timer}/pause")
        return timer

    def _subscription(self, *steps: str) -> str:
        made = str(self.shop.choose(self.service)["id"])
        for step in steps:
            self.owner.post(f"/service_checkouts/{made}/{step}")
        return made

    def counting(self) -> list[str]:
        """Return the IDs of the unfinished timers."""
        found = self.owner.get(f"{self.studio.project}/timesheets")["timesheets"]
        return [each["id"] for each in found if not each["finished"]]

    def told(self) -> list[tuple[str, str | None, str]]:
        return [(each.name, each.action, str(each.record["id"])) for each in self.studio.happened()]

    def time_calls(self) -> Iterator[Call]:
        for timer in self.timers:
            yield self.owner, "POST", f"/timesheets/{timer}/finish", {}
            yield self.owner, "PATCH", f"/timesheets/{timer}", {"notes": "Late"}
            yield self.owner, "DELETE", f"/timesheets/{timer}", {}

    def task_calls(self) -> Iterator[Call]:
        for task_id in (self.child, self.waiting):
            read = self.owner.get(f"/tasks/{task_id}")["task"]
            yield self.owner, "PATCH", f"/tasks/{task_id}", {"title": "New", "parent_id": read["parent_id"]}
            yield self.owner, "PATCH", f"/tasks/{task_id}", {"blocked_by": read["blocked_by"], "description": "New"}
            yield self.owner, "PATCH", f"/tasks/{task_id}", {"column_id": self.done}
            yield self.owner, "DELETE", f"/tasks/{task_id}", {}
            yield self.owner, "POST", f"/tasks/{task_id}/restore", {}

    def money_calls(self) -> Iterator[Call]:
        yield self.owner, "POST", f"/service_checkouts/{self.subscription}/unpause", {}
        yield self.owner, "POST", f"/service_checkouts/{self.subscription}/pause", {}
        yield self.owner, "POST", f"/service_checkouts/{self.subscription}/cancel", {}
        yield self.owner, "DELETE", f"/service_checkouts/{self.subscription}", {}
        yield self.owner, "DELETE", f"/service_checkouts/{self.waits}", {}
        yield self.owner, "PATCH", f"/invoices/{self.draft}", {"payment_terms": "Soon"}
        yield self.owner, "DELETE", f"/invoices/{self.draft}", {}
        yield self.owner, "DELETE", f"/task_credits/{self.credit}", {}

    def comment_calls(self) -> Iterator[Call]:
        yield self.owner, "PATCH", f"/task_comments/{self.comment}", {"text": "Corrected"}
        yield self.owner, "DELETE", f"/task_comments/{self.comment}", {}


@pytest.fixture
def family(studio: Studio, scene: Scene, shop: Shop) -> Family:
    return Family(studio, scene, shop)


def do_all(*groups: Iterator[Call]) -> None:
    for group in groups:
        for caller, method, path, body in group:
            caller.answer(method, path, json=body)


# Ways to end a project and to bring it back.
Step = Callable[[Family], object]
ENDED: dict[str, tuple[Step, Step]] = {
    "project archived": (
        lambda family: family.owner.patch(family.studio.project, json={"archive": True}),
        lambda family: family.owner.patch(family.studio.project, json={"archive": False}),
    ),
    "project deleted": (
        lambda family: family.owner.delete(family.studio.project),
        lambda family: family.owner.post(f"{family.studio.project}/restore"),
    ),
}


@pytest.mark.parametrize("change", ENDED)
def test_an_archived_or_deleted_project_stops_timers_and_subscriptions(family: Family, change: str) -> None:
    end, back = ENDED[change]
    balance = family.shop.balance()
    end(family)
    told = family.told()
    assert {each for each in told if each[0] == "timesheet"} == {
        ("timesheet", "finished", each) for each in family.timers
    }
    assert [each for each in told if each[0] == "service_checkout"] == [
        ("service_checkout", "paused", family.subscription)
    ]
    family.shop.schedule(FAR)
    back(family)
    family.shop.schedule(FAR)
    assert family.shop.balance() == balance, "a period began meanwhile, or all of them afterwards"
    assert family.counting() == []
    found = family.shop.checkout({"id": family.subscription})
    assert (found["status"], found["paused"]) == ("paused", True)
    do_all(family.time_calls(), family.task_calls(), family.comment_calls(), family.money_calls())


def test_a_pause_by_archiving_does_not_count_against_the_pause_limit(studio: Studio, shop: Shop) -> None:
    service = shop.service({**MONTHLY, "amount": 0}, limit_pausing=1)
    checkout = shop.buy("2031-01-31T10:00", service)
    studio.owner.patch(studio.project, json={"archive": True})
    studio.owner.patch(studio.project, json={"archive": False})
    assert shop.checkout(checkout)["paused"]
    for step in ("unpause", "pause", "unpause"):
        studio.owner.post(f"/service_checkouts/{checkout['id']}/{step}")
    refused = studio.owner.refused(409, "POST", f"/service_checkouts/{checkout['id']}/pause")
    assert refused["code"] == "pause_limit_reached"


def _one_by_one(family: Family) -> None:
    family.owner.delete(f"/tasks/{family.task}")


def _in_bulk(family: Family) -> None:
    operations = [{"action": "delete", "id": family.task}]
    family.owner.post("/tasks/bulk", json={"operations": operations})


@pytest.mark.parametrize("delete", [_one_by_one, _in_bulk])
def test_deleting_a_task_finishes_its_timers(family: Family, delete: Step) -> None:
    delete(family)
    told = family.told()
    assert {each for each in told if each[0] == "timesheet"} == {
        ("timesheet", "finished", each) for each in family.timers
    }
    assert family.counting() == []
    assert not family.owner.get(f"/tasks/{family.waiting}")["task"]["blocked"]
    do_all(family.task_calls(), family.time_calls())
    family.owner.post(f"/tasks/{family.task}/restore")
    do_all(family.comment_calls())


def test_deleting_a_column_loses_nothing(family: Family) -> None:
    family.owner.delete(f"/tasks/{family.task}")
    family.owner.delete(f"/columns/{family.column}")
    family.owner.post(f"/tasks/{family.task}/restore")
    do_all(family.task_calls(), family.time_calls(), family.comment_calls())


def test_completing_a_task_keeps_its_children(family: Family) -> None:
    family.owner.patch(f"/tasks/{family.task}", json={"column_id": family.done})
    assert family.counting() == [family.timers[1]], "a paused timer counts nothing"
    do_all(family.task_calls(), family.time_calls(), family.comment_calls())


def _disabled(family: Family) -> None:
    disable(family.studio, family.member)


def _removed(family: Family) -> None:
    remove_member(family.studio, family.member)


@pytest.mark.parametrize("leave", [_disabled, _removed])
def test_a_person_who_leaves_blocks_nothing(family: Family, leave: Step) -> None:
    login = family.member.login
    leave(family)
    assert family.counting() == [family.timers[0], family.timers[1]]
    refused = family.owner.refused(409, "POST", f"/timesheets/{family.timers[1]}/resume")
    assert refused["code"] == "not_in_project"
    read = family.owner.get(f"/tasks/{family.task}")["task"]
    assert [each["username"] for each in read["assignees"]] == [login]
    # Sending back the assignees as read, along with another change, is allowed.
    family.owner.patch(f"/tasks/{family.task}", json={"title": "New", "assignees": [login, family.owner.login]})
    family.owner.patch(f"/tasks/{family.task}", json={"column_id": family.done})
    tasks = family.owner.get(f"{family.studio.project}/tasks")["tasks"]
    following = next(each for each in tasks if each["title"] == "New" and each["id"] != family.task)
    if leave is _removed:
        assert [each["username"] for each in following["assignees"]] == [family.owner.login]
    else:
        enable(family.studio, login)
    do_all(family.time_calls(), family.task_calls(), family.comment_calls(), family.money_calls())


def test_the_subscriptions_of_a_disabled_freelancer_are_paused(studio: Studio, shop: Shop) -> None:
    caller = studio.member
    login = caller.login
    project = caller.post("/projects", json={"title": "Own", "organization": login})["project"]["id"]
    price = {**MONTHLY, "amount": 0}
    body = {"title": "Care", "organization": login, "service_prices": [price]}
    service = caller.post("/services", json=body)["service"]["id"]
    path = f"/projects/{project}"
    made = caller.post(f"{path}/service_checkouts", json={"service_id": service})["service_checkout"]["id"]
    caller.post(f"/service_checkouts/{made}/complete")
    disable(studio, caller)
    shop.schedule(FAR)
    enable(studio, login)
    shop.schedule(FAR)
    assert caller.get(f"{path}/task_credits/balance")["balance"] == 10
    assert caller.get(f"/service_checkouts/{made}")["service_checkout"]["paused"]
    for step in ("unpause", "cancel"):
        caller.post(f"/service_checkouts/{made}/{step}")


@pytest.mark.parametrize("withdraw", ["deactivate", "delete"])
def test_a_withdrawn_service_leaves_its_subscriptions_intact(family: Family, withdraw: str) -> None:
    path = f"/services/{family.service['id']}"
    if withdraw == "delete":
        family.owner.delete(path)
    else:
        family.owner.patch(path, json={"active": False})
    assert family.owner.faults("POST", f"/service_checkouts/{family.waits}/complete") == {"service_id": "not_offered"}
    for step in ("pause", "unpause", "cancel"):
        refused = family.owner.refused(409, "POST", f"/service_checkouts/{family.waits}/{step}")
        assert "delete it" in refused["message"], "what is never completed can be deleted"
    do_all(family.money_calls())


def test_a_client_who_leaves_loses_nothing(family: Family, studio: Studio) -> None:
    client = studio.client
    body: dict[str, Any] = {"title": "Theirs", "assignees": [client.login]}
    theirs = client.post(f"/columns/{family.column}/tasks", json=body)["task"]["id"]
    said = client.post(f"/tasks/{theirs}/task_comments", json={"text": "Please"})["task_comment"]["id"]
    invoice = family.scene.invoice("send")
    [place] = family.owner.get(f"{studio.project}/clients")["clients"]
    family.owner.delete(f"/clients/{place['id']}")
    read = family.owner.get(f"/tasks/{theirs}")["task"]
    names = [each["username"] for each in read["assignees"]]
    family.owner.patch(f"/tasks/{theirs}", json={"title": "Still", "assignees": names})
    family.owner.patch(f"/tasks/{theirs}", json={"assignees": []})
    family.owner.delete(f"/task_comments/{said}")
    family.owner.delete(f"/tasks/{theirs}")
    family.owner.post(f"/invoices/{invoice}/pay")
    do_all(family.money_calls())


# --- subtasks --------------------------------------------------------------------------------------------------------
# Subtasks: one level below a task of the same project, which counts them. Each is a task of its own.


NOT_FOUND = "parent_id: the task's project has no such task"
NO_LEVELS = "parent_id: a subtask cannot have subtasks; use its parent task instead"
HAS_SUBTASKS = (
    "parent_id: a task with subtasks cannot be a subtask; detach its subtasks first, including those in the trash"
)


def _counts(studio: Studio, task: str) -> tuple[int, int]:
    counts = studio.owner.get(f"/tasks/{task}")["task"]["subtasks"]
    return counts["total"], counts["completed"]


def _ids(caller: Caller, path: str, **query: str) -> list[str]:
    return [each["id"] for each in caller.get(path, params=query)["tasks"]]


def _parent_error(studio: Studio, path: str, **body: Any) -> str:
    method = "POST" if "/columns/" in path else "PATCH"
    (fault,) = studio.owner.refused(422, method, path, json=body)["errors"]
    assert fault["field"] == "parent_id"
    return str(fault["message"])


def test_a_task_counts_its_subtasks(studio: Studio) -> None:
    column, done = studio.column(), studio.column("Done", finished=True)
    parent = studio.task(column, "Website")
    first, second = (studio.task(column, each, parent_id=parent) for each in ("Texts", "Pictures"))
    assert _counts(studio, parent) == (2, 0)
    studio.happened()
    moved = studio.owner.patch(f"/tasks/{first}", json={"column_id": done})["task"]
    assert (moved["parent_id"], _counts(studio, parent)) == (parent, (2, 1))
    (event,) = studio.happened()
    assert (event.action, event.record["parent_id"]) == ("completed", parent)
    assert studio.owner.get(f"/tasks/{parent}")["task"]["completed_at"] is None, "each completes by itself"
    lists = (f"/columns/{column}/tasks", f"{studio.project}/tasks", "/tasks")
    for path in lists:
        found = {each["id"]: each for each in studio.owner.get(path)["tasks"]}
        assert found[parent]["subtasks"] == {"total": 2, "completed": 1}
        assert found[second]["parent_id"] == parent
    for path in lists[1:]:
        assert _ids(studio.owner, path, parent_id=parent) == [first, second]
        assert _ids(studio.owner, path, parent_id=parent, finished="true") == [first]
        assert _ids(studio.owner, path, parent_id=parent, sort="title") == [second, first]
    assert _ids(studio.owner, lists[0], parent_id=parent) == [second]
    assert _ids(studio.client, lists[1], parent_id=parent) == [first, second]


def test_a_task_can_become_a_subtask_and_a_task_again(studio: Studio) -> None:
    column = studio.column()
    parent, task = studio.task(column), studio.task(column)
    studio.happened()
    assert studio.owner.patch(f"/tasks/{task}", json={"parent_id": parent})["task"]["parent_id"] == parent
    (event,) = studio.happened()
    assert (event.action, event.changes) == ("edited", {"parent_id": {"from": None, "to": parent}})
    studio.owner.patch(f"/tasks/{task}", json={"parent_id": parent})
    assert studio.happened() == []
    assert studio.owner.patch(f"/tasks/{task}", json={"parent_id": None})["task"]["parent_id"] is None
    assert _counts(studio, parent) == (0, 0)


def test_subtasks_cannot_have_subtasks(studio: Studio) -> None:
    column = studio.column()
    parent = studio.task(column)
    child = studio.task(column, parent_id=parent)
    other = studio.task(column)
    assert _parent_error(studio, f"/columns/{column}/tasks", title="Below", parent_id=child) == NO_LEVELS
    assert _parent_error(studio, f"/tasks/{other}", parent_id=child) == NO_LEVELS
    assert _parent_error(studio, f"/tasks/{parent}", parent_id=other) == HAS_SUBTASKS
    assert (
        _parent_error(studio, f"/tasks/{other}", parent_id=other) == "parent_id: a task cannot be a subtask of itself"
    )
    studio.owner.delete(f"/tasks/{child}")
    assert _parent_error(studio, f"/tasks/{parent}", parent_id=other) == HAS_SUBTASKS, "the subtask can be restored"


def test_the_parent_must_be_a_task_of_the_same_project(studio: Studio) -> None:
    column = studio.column()
    elsewhere = studio.owner.post("/projects", json={"title": "Elsewhere"})["project"]["id"]
    theirs = studio.task(studio.column(project=f"/projects/{elsewhere}"))
    deleted, task = studio.task(column), studio.task(column)
    studio.owner.delete(f"/tasks/{deleted}")
    for wrong in (theirs, deleted, "tsk_nothing"):
        assert _parent_error(studio, f"/tasks/{task}", parent_id=wrong) == NOT_FOUND
        assert _parent_error(studio, f"/columns/{column}/tasks", title="New", parent_id=wrong) == NOT_FOUND
    assert _ids(studio.owner, f"{studio.project}/tasks", parent_id=theirs) == []


def test_deleting_and_restoring_keeps_the_relation(studio: Studio) -> None:
    column = studio.column()
    parent = studio.task(column)
    child = studio.task(column, parent_id=parent)
    studio.owner.delete(f"/tasks/{parent}")
    shown = studio.owner.get(f"/tasks/{child}")["task"]
    assert shown["parent_id"] == parent, "it stays where it is"
    studio.owner.patch(f"/tasks/{child}", json={"title": "Else"})
    studio.owner.post(f"/tasks/{parent}/restore")
    assert _counts(studio, parent) == (1, 0)
    studio.owner.delete(f"/tasks/{child}")
    assert _counts(studio, parent) == (0, 0)
    studio.owner.post(f"/tasks/{child}/restore")
    assert _counts(studio, parent) == (1, 0)


def test_bulk_requests_enforce_the_rules_of_subtasks(studio: Studio) -> None:
    column = studio.column()
    parent, first, second = (studio.task(column, each) for each in ("Parent", "First", "Second"))

    def bulk(status: int, *operations: Any) -> Any:
        response = studio.owner.call("POST", "/tasks/bulk", json={"operations": operations})
        assert response.status_code == status, response.text
        return response.json()

    create = {"action": "create", "column_id": column, "title": "New", "parent_id": parent}
    made, edited = bulk(200, create, {"action": "edit", "id": first, "parent_id": parent})["tasks"]
    assert made["parent_id"] == edited["parent_id"] == parent
    assert _counts(studio, parent) == (2, 0)
    below = {"action": "edit", "id": second, "parent_id": parent}
    faults = bulk(422, below, {"action": "edit", "id": parent, "parent_id": second})["errors"]
    assert [each["field"] for each in faults] == ["operations[0].parent_id", "operations[1].parent_id"]
    (fault,) = bulk(422, below, {"action": "delete", "id": parent})["errors"]
    assert fault["code"] == "not_found"
    # Only the final state of each task counts.
    out = [{"action": "edit", "id": each, "parent_id": None} for each in (made["id"], first)]
    bulk(200, *out, {"action": "edit", "id": parent, "parent_id": second})
    assert _counts(studio, second) == (1, 0)


def test_the_number_of_subtasks_is_limited(studio: Studio) -> None:
    column = studio.column()
    parent = studio.task(column)
    create = {"action": "create", "column_id": column, "title": "New", "parent_id": parent}
    studio.owner.post("/tasks/bulk", json={"operations": [create] * SUBTASKS_MAX})
    (fault,) = studio.owner.refused(422, "POST", f"/columns/{column}/tasks", json={"title": "X", "parent_id": parent})[
        "errors"
    ]
    assert fault["code"] == "too_many"
    assert _counts(studio, parent) == (SUBTASKS_MAX, 0)


def test_concurrent_changes_create_no_second_level(studio: Studio) -> None:
    column = studio.column()
    tasks = [studio.task(column, str(number)) for number in range(10)]

    def put(number: int) -> int:
        below = {"parent_id": tasks[(number + 1) % len(tasks)]}
        return studio.owner.call("PATCH", f"/tasks/{tasks[number]}", json=below).status_code

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(put, range(10))) <= {200, 422}
    found = {each["id"]: each["parent_id"] for each in studio.owner.get(f"{studio.project}/tasks")["tasks"]}
    levels = [task for task, parent in found.items() if parent is not None and found[parent] is not None]
    assert levels == []
    assert any(found.values())


@pytest.mark.parametrize("value", ["", "x" * 65])
def test_an_invalid_id_is_refused(studio: Studio, value: str) -> None:
    studio.owner.refused(422, "POST", f"/columns/{studio.column()}/tasks", json={"title": "New", "parent_id": value})


# --- dependencies ----------------------------------------------------------------------------------------------------
# Blocked tasks: they depend on tasks of the same project, never in a cycle, and are blocked while one of those is open.


NO_SUCH_TASK = "blocked_by: the task's project has no such task"


def _task(studio: Studio, task: str) -> JsonObject:
    found: JsonObject = studio.owner.get(f"/tasks/{task}")["task"]
    return found


def _wait(studio: Studio, task: str, *blockers: str) -> JsonObject:
    edited: JsonObject = studio.owner.patch(f"/tasks/{task}", json={"blocked_by": list(blockers)})["task"]
    return edited


def _fault(studio: Studio, task: str, *blockers: str) -> JsonObject:
    path, body = f"/tasks/{task}", {"blocked_by": list(blockers)}
    (fault,) = studio.owner.refused(422, "PATCH", path, json=body)["errors"]
    assert fault["field"] == "blocked_by"
    return dict(fault)


def test_a_task_is_blocked_while_a_blocker_is_open(studio: Studio) -> None:
    column, done = studio.column(), studio.column("Done", finished=True)
    first, second = studio.task(column, "First"), studio.task(column, "Second")
    task = studio.task(column, "Task")
    studio.happened()
    edited = _wait(studio, task, second, first, second)
    assert (edited["blocked_by"], edited["blocked"]) == ([first, second], True)
    (event,) = studio.happened()
    assert event.action == "edited"
    assert event.changes["blocked_by"] == {"from": [], "to": [first, second]}
    _wait(studio, task, first, second)
    assert studio.happened() == []
    for path in (f"/columns/{column}/tasks", f"{studio.project}/tasks", "/tasks"):
        found = {each["id"]: each["blocked"] for each in studio.owner.get(path)["tasks"]}
        assert found == {first: False, second: False, task: True}
        assert _ids(studio.owner, path, blocked="true") == [task]
        assert _ids(studio.client, path, blocked="false") == [first, second]
    studio.owner.patch(f"/tasks/{first}", json={"column_id": done})
    assert _task(studio, task)["blocked"], "the second is open"
    assert not _wait(studio, task, first)["blocked"]
    assert _wait(studio, task, first, second)["blocked"]
    studio.owner.delete(f"/tasks/{second}")
    shown = _task(studio, task)
    assert (shown["blocked_by"], shown["blocked"]) == ([first, second], False), "what is in the trash does not block"
    studio.owner.post(f"/tasks/{second}/restore")
    assert _task(studio, task)["blocked"]
    finished = studio.owner.patch(f"/tasks/{task}", json={"column_id": done})["task"]
    assert finished["completed_at"] is not None, "a blocked task can be completed"
    assert studio.owner.patch(f"/tasks/{task}", json={"blocked_by": None})["task"]["blocked_by"] == []


def test_a_task_can_be_created_with_blockers(studio: Studio) -> None:
    column = studio.column()
    first = studio.task(column)
    made = studio.owner.new_task(column, blocked_by=[first])
    assert (made["blocked_by"], made["blocked"]) == ([first], True)
    operation = {"action": "create", "column_id": column, "title": "New", "blocked_by": [first, made["id"]]}
    (bulk,) = studio.owner.post("/tasks/bulk", json={"operations": [operation]})["tasks"]
    assert bulk["blocked_by"] == sorted([first, made["id"]])
    assert _task(studio, bulk["id"]) == bulk


def test_blockers_must_be_tasks_of_the_same_project(studio: Studio) -> None:
    column = studio.column()
    elsewhere = studio.owner.post("/projects", json={"title": "Elsewhere"})["project"]["id"]
    theirs = studio.task(studio.column(project=f"/projects/{elsewhere}"))
    deleted, task, first = (studio.task(column) for _ in range(3))
    studio.owner.delete(f"/tasks/{deleted}")
    for wrong in (theirs, deleted, "tsk_nothing"):
        assert _fault(studio, task, first, wrong)["message"] == NO_SUCH_TASK
    assert _fault(studio, task, task)["message"] == "blocked_by: a task cannot be blocked by itself"
    _fault(studio, task, *(f"tsk_{number}" for number in range(BLOCKERS_MAX + 1)))


def test_a_cycle_is_refused_and_named(studio: Studio) -> None:
    column = studio.column()
    a, b, c = (studio.task(column, title) for title in "ABC")
    _wait(studio, b, a)
    _wait(studio, c, b)
    fault = _fault(studio, a, c)
    names = f"A ({a}) → C ({c}) → B ({b}) → A ({a})"
    assert (fault["code"], fault["message"]) == (
        "circle",
        f"blocked_by: these tasks would block each other: {names}",
    )
    studio.owner.delete(f"/tasks/{b}")
    assert _fault(studio, a, c)["code"] == "circle", "it can be restored"
    edit = {"action": "edit", "id": a, "blocked_by": [c]}
    loose = {"action": "edit", "id": c, "blocked_by": None}
    assert studio.owner.call("POST", "/tasks/bulk", json={"operations": [edit]}).status_code == 422
    studio.owner.post("/tasks/bulk", json={"operations": [edit, loose]})
    assert _task(studio, a)["blocked_by"] == [c]


def test_fifty_concurrent_changes_create_no_cycle(studio: Studio) -> None:
    column = studio.column()
    tasks = [studio.task(column, str(number)) for number in range(10)]

    def put(number: int) -> int:
        task, blocker = tasks[number % 10], tasks[(number * 3 + 1 + number // 10) % 10]
        return studio.owner.call("PATCH", f"/tasks/{task}", json={"blocked_by": [blocker]}).status_code

    def bulk(number: int) -> int:
        chosen = [tasks[(number + each) % 10] for each in range(3)]
        edits: list[Any] = [
            {"action": "edit", "id": task, "blocked_by": [tasks[(number + 5) % 10]]} for task in reversed(chosen)
        ]
        return studio.owner.call("POST", "/tasks/bulk", json={"operations": edits}).status_code

    with ThreadPoolExecutor(10) as pool:
        statuses = set(pool.map(lambda number: put(number) if number % 5 else bulk(number), range(50)))
    assert statuses <= {200, 422}
    found = {each["id"]: each["blocked_by"] for each in studio.owner.get(f"{studio.project}/tasks")["tasks"]}
    assert find_circle(found, found) == []
    assert any(found.values())


def _has_circle(graph: dict[str, list[str]]) -> bool:
    """Return whether the graph has a cycle, by repeatedly removing tasks without remaining blockers."""
    left = {each: set(blockers) for each, blockers in graph.items()}
    while free := [each for each, blockers in left.items() if not blockers & left.keys()]:
        for each in free:
            del left[each]
    return bool(left)


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3)))
def test_a_cycle_is_found_if_there_is_one(graph: dict[str, list[str]]) -> None:
    circle = find_circle(graph, graph)
    assert bool(circle) == _has_circle(graph)
    assert circle[:1] == circle[-1:]
    assert all(after in graph[before] for before, after in pairwise(circle))
