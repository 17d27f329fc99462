"""A parent is archived, deleted or leaves: nothing below it counts or bills on, and nothing below it is stuck.

Each case makes the things below, changes the parent, looks for what still goes on, and then does what somebody wants to
do with each thing: at once, or after the step back that the refusal names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.work.rights_kit import disable, enable, remove_member
from tests.work.scene import Scene
from tests.work.shop import MONTHLY, Shop
from tests.work.studio import Caller, JsonObject, Studio

FAR = "2041-01-01T00:00"

Call = tuple[Caller, str, str, JsonObject]


class Family:
    """A project with a task, and below them all that a parent can leave behind."""

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
        """The timers that are not finished."""
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


# What the parent's change finishes: of running timers and of those that are paused, each with its event.
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
def test_nothing_goes_on_in_a_project_that_is_archived_or_deleted(family: Family, change: str) -> None:
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


def test_the_step_back_that_a_refusal_names_is_possible_in_an_archived_project(family: Family) -> None:
    family.owner.patch(family.studio.project, json={"archive": True})
    for group in (family.time_calls(), family.task_calls(), family.comment_calls(), family.money_calls()):
        for caller, method, path, body in group:
            if path.endswith("/restore"):
                continue  # nothing is deleted yet
            refused = caller.refused(409, method, path, json=body)
            assert (refused["code"], "archive: false" in refused["message"]) == ("archived", True)
    family.owner.patch(family.studio.project, json={"archive": False, "title": "Again"})
    do_all(family.time_calls(), family.task_calls(), family.comment_calls(), family.money_calls())


def test_a_pause_by_the_archive_is_not_one_of_the_customers(studio: Studio, shop: Shop) -> None:
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
def test_nothing_counts_on_a_deleted_task(family: Family, delete: Step) -> None:
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


def test_a_deleted_column_takes_nothing_with_it(family: Family) -> None:
    family.owner.delete(f"/tasks/{family.task}")
    family.owner.delete(f"/columns/{family.column}")
    family.owner.post(f"/tasks/{family.task}/restore")
    do_all(family.task_calls(), family.time_calls(), family.comment_calls())


def test_a_completed_task_keeps_what_is_below_it(family: Family) -> None:
    family.owner.patch(f"/tasks/{family.task}", json={"column_id": family.done})
    assert family.counting() == [family.timers[1]], "a paused timer counts nothing"
    do_all(family.task_calls(), family.time_calls(), family.comment_calls())


def _disabled(family: Family) -> None:
    disable(family.studio, family.member)


def _removed(family: Family) -> None:
    remove_member(family.studio, family.member)


@pytest.mark.parametrize("leave", [_disabled, _removed])
def test_a_person_who_leaves_holds_nothing_up(family: Family, leave: Step) -> None:
    login = family.member.login
    leave(family)
    assert family.counting() == [family.timers[0], family.timers[1]]
    refused = family.owner.refused(409, "POST", f"/timesheets/{family.timers[1]}/resume")
    assert refused["code"] == "not_in_project"
    read = family.owner.get(f"/tasks/{family.task}")["task"]
    assert [each["username"] for each in read["assignees"]] == [login]
    # Whoever sends back what they have read, with another title, may do so.
    family.owner.patch(f"/tasks/{family.task}", json={"title": "New", "assignees": [login, family.owner.login]})
    family.owner.patch(f"/tasks/{family.task}", json={"column_id": family.done})
    tasks = family.owner.get(f"{family.studio.project}/tasks")["tasks"]
    following = next(each for each in tasks if each["title"] == "New" and each["id"] != family.task)
    if leave is _removed:
        assert [each["username"] for each in following["assignees"]] == [family.owner.login]
    else:
        enable(family.studio, login)
    do_all(family.time_calls(), family.task_calls(), family.comment_calls(), family.money_calls())


def test_the_subscriptions_of_a_disabled_freelancer_stand_still(studio: Studio, shop: Shop) -> None:
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
def test_a_service_that_is_withdrawn_leaves_its_subscriptions_whole(family: Family, withdraw: str) -> None:
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


def test_a_client_who_leaves_takes_nothing_with_them(family: Family, studio: Studio) -> None:
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
