"""A push to the default branch completes the tasks that its commits close: once, and in its own commit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.work.studio import Caller, JsonObject, Studio
from tests.work.test_positions import at_once
from workhook.http.calls import Services
from workhook.identity.queries import find_account
from workhook.identity.tokens.issue import FINE_GRAINED, issue


class Pushes:
    """A board with a column of finished tasks, and commits that are pushed by the member."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.todo, self.done = studio.column(), studio.column(stage="done")
        self.path = f"/repos/{studio.world.full_name}/events"

    def task(self) -> JsonObject:
        return self.studio.owner.new_task(self.todo)

    def push(self, *commits: JsonObject, by: Caller | None = None, ref: str = "refs/heads/main", **more: Any) -> Any:
        body = {"event": "push", "payload": payload_of(*commits, ref=ref), **more}
        return (by or self.studio.member).http.post(self.path, json=body)

    def now(self, task: JsonObject) -> JsonObject:
        found: JsonObject = self.studio.owner.get(f"/tasks/{task['id']}")["task"]
        return found

    def is_done(self, task: JsonObject) -> bool:
        return self.now(task)["completed_at"] is not None


@pytest.fixture
def pushes(studio: Studio) -> Pushes:
    return Pushes(studio)


def commit(number: str, message: str, email: str = "nobody@example.com") -> JsonObject:
    oid, person = number * 40, {"name": "x", "email": email}
    files: JsonObject = {"added": [], "removed": [], "modified": []}
    more = {"tree_id": oid, "distinct": True, "timestamp": "2026-03-02T11:30:00+02:00", "url": "https://example.com/a"}
    return {"id": oid, "message": message, "author": person, "committer": person, **more, **files}


def payload_of(*commits: JsonObject, ref: str = "refs/heads/main") -> JsonObject:
    head = commits[-1]
    return {
        "ref": ref,
        "before": "0" * 40,
        "after": head["id"],
        "created": True,
        "deleted": False,
        "forced": False,
        "base_ref": None,
        "compare": "https://example.com/compare",
        "commits": list(commits),
        "head_commit": head,
        "pusher": {"name": "x", "email": None},
    }


def test_a_push_completes_a_task_with_its_commit_in_the_history(pushes: Pushes) -> None:
    task, other = pushes.task(), pushes.task()
    pushes.studio.happened()
    assert pushes.push(commit("a", "Paint it\n\nCloses #1.")).status_code == 202
    assert pushes.now(task)["column"]["id"] == pushes.done
    assert not pushes.is_done(other)
    done, pushed = pushes.studio.happened()
    assert (done.name, done.action, pushed.name) == ("task", "completed", "push")
    assert done.payload["commit"] == {"id": "a" * 40, "message": "Paint it"}
    assert done.payload["sender"]["login"] == pushed.payload["sender"]["login"] == pushes.studio.member.login
    assert done.changes["column_id"] == {"from": pushes.todo, "to": pushes.done}


def test_it_is_the_committers_doing_if_the_address_is_one_s(pushes: Pushes) -> None:
    """The address of somebody on the team; that of somebody who is not; then nobody's."""
    studio = pushes.studio
    writer = studio.add(role="write")
    emails = [f"{each.login}@example.com" for each in (writer, studio.stranger)]
    whose = [writer.login, studio.member.login, studio.member.login]
    for number, (email, login) in enumerate(
        zip([emails[0].upper(), emails[1], "none@example.com"], whose, strict=True), 1
    ):
        pushes.task()
        studio.happened()
        pushes.push(commit(str(number), f"fixes #{number}", email))
        [done, _] = studio.happened()
        assert (done.action, done.payload["sender"]["login"]) == ("completed", login)


def test_the_same_push_again_changes_nothing(pushes: Pushes) -> None:
    task, said = pushes.task(), commit("a", "Closes #1")
    pushes.push(said, id="one")
    reopened = pushes.studio.owner.patch(f"/tasks/{task['id']}", json={"column_id": pushes.todo})["task"]
    assert pushes.push(said, id="one").json()["deliveries"] == 0
    assert pushes.push(said, id="two").status_code == 202
    assert pushes.push(said).status_code == 202
    assert pushes.now(task) == reopened
    pushes.push(commit("b", "closes #1"))
    assert pushes.is_done(task)


def test_a_task_that_is_completed_stays_as_it_is(pushes: Pushes) -> None:
    task, said = pushes.task(), commit("a", "Closes #1")
    before = pushes.studio.owner.patch(f"/tasks/{task['id']}", json={"column_id": pushes.done})["task"]
    pushes.studio.happened()
    pushes.push(said)
    assert [each.name for each in pushes.studio.happened()] == ["push"]
    assert pushes.now(task) == before
    pushes.studio.owner.patch(f"/tasks/{task['id']}", json={"column_id": pushes.todo})
    pushes.push(said)
    assert not pushes.is_done(task), "it was an old commit"


def test_what_closes_nothing_is_published_as_ever(pushes: Pushes) -> None:
    task, gone = pushes.task(), pushes.task()
    pushes.studio.owner.delete(f"/tasks/{gone['id']}")
    for said in ("see #1", "closes #2", "closes #99", "closes other/place#1"):
        assert pushes.push(commit("a", said)).status_code == 202
    assert pushes.push(commit("b", "closes #1"), ref="refs/heads/topic").status_code == 202
    assert not pushes.is_done(task)
    pushes.push(commit("b", "closes #1"))
    assert pushes.is_done(task)


def test_who_may_not_push_completes_nothing(pushes: Pushes) -> None:
    task, studio = pushes.task(), pushes.studio
    said = commit("a", "closes #1", f"{studio.owner.login}@example.com")
    for caller, status in ((studio.client, 404), (studio.stranger, 404), (studio.add(role="read"), 403)):
        assert pushes.push(said, by=caller).status_code in (status, 403, 404)
    assert not pushes.is_done(task)


def test_a_token_that_may_publish_but_not_write_tasks_completes_nothing(pushes: Pushes) -> None:
    task, studio = pushes.task(), pushes.studio
    writer = studio.add(role="write")
    said = commit("a", "closes #1", f"{writer.login}@example.com")

    def confined(**permissions: str) -> Caller:
        async def make(services: Services) -> str:
            place = await find_account(services.database, studio.world.organization)
            owner = await find_account(services.database, studio.owner.login)
            assert place is not None and owner is not None  # noqa: PT018
            async with services.database.transaction() as tx:
                issued = await issue(tx, FINE_GRAINED, owner.id, permissions=permissions, account_id=place.id)
            return issued.token

        return Caller(studio.server, studio.server.run(make))

    hooks_alone = confined(repository_hooks="write")
    assert pushes.push(said, by=hooks_alone).status_code == 202
    hooks_alone.http.close()
    assert not pushes.is_done(task)
    both = confined(repository_hooks="write", work="write")
    studio.happened()
    assert pushes.push({**said, "id": "b" * 40}, by=both).status_code == 202
    both.http.close()
    assert pushes.is_done(task)
    assert studio.happened()[0].payload["sender"]["login"] == writer.login


def test_a_board_without_finished_tasks_completes_none(studio: Studio) -> None:
    task = studio.owner.new_task(studio.column())
    body = {"event": "push", "payload": payload_of(commit("a", "closes #1"))}
    answer = studio.member.http.post(f"/repos/{studio.world.full_name}/events", json=body)
    assert answer.status_code == 202
    assert studio.owner.get(f"/tasks/{task['id']}")["task"] == task


def test_an_archived_project_takes_the_push_and_completes_nothing(pushes: Pushes) -> None:
    task = pushes.task()
    pushes.studio.owner.patch(pushes.studio.project, json={"archive": True})
    assert pushes.push(commit("a", "closes #1")).status_code == 202
    assert not pushes.is_done(task)


def test_pushes_at_once_complete_a_task_once(pushes: Pushes) -> None:
    tasks = [pushes.task() for _ in range(4)]
    pushes.studio.happened()
    said = [commit("a", "closes #1, #3"), commit("b", "closes #4, #2, #1")]

    def push(number: int) -> int:
        return int(pushes.push(*(said if number % 2 else reversed(said)), id=f"push-{number // 2}").status_code)

    statuses = at_once(push, range(12))
    assert set(statuses) <= {202, 422}, "the same id with the commits in another order is refused"
    assert all(map(pushes.is_done, tasks))
    told = [each.record["number"] for each in pushes.studio.happened() if each.action == "completed"]
    assert sorted(told) == [1, 2, 3, 4]
