"""A push to the default branch completes the tasks its commits close, once, and records the commit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from tests.harness.world import must
from tests.work.studio import Caller, JsonObject, Studio
from tests.work.test_positions import run_concurrently
from workhook.hooks.publishing import parse_publication, publish
from workhook.hooks.schemas import HookOwner
from workhook.http.calls import Services
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import OauthAppCreate
from workhook.identity.queries import find_account, find_repository
from workhook.identity.tokens.issue import CLASSIC, FINE_GRAINED, OAUTH, Kind, issue


class Pushes:
    """A board with a column for finished tasks. Pushes are made by the member unless stated otherwise."""

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


def test_a_push_completes_a_task_and_records_the_commit(pushes: Pushes) -> None:
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


def test_the_publisher_is_the_actor_whatever_the_committer_address(pushes: Pushes) -> None:
    """Try the addresses of an owner, a member and a stranger, one in capital letters, and an unknown one."""
    studio = pushes.studio
    people = [studio.owner, studio.add(role="write"), studio.stranger]
    emails = [f"{each.login}@example.com" for each in people]
    for number, email in enumerate([*emails, emails[0].upper(), "none@example.com"], 1):
        task = pushes.task()
        studio.happened()
        assert pushes.push(commit(str(number), f"fixes #{number}", email)).status_code == 202
        assert pushes.is_done(task)
        done, pushed = studio.happened()
        assert (done.action, done.payload["sender"]["login"]) == ("completed", studio.member.login)
        assert pushed.payload["sender"]["login"] == studio.member.login
        assert pushed.payload["commits"][0]["committer"]["email"] == email


def test_repeating_a_push_changes_nothing(pushes: Pushes) -> None:
    task, said = pushes.task(), commit("a", "Closes #1")
    pushes.push(said, id="one")
    reopened = pushes.studio.owner.patch(f"/tasks/{task['id']}", json={"column_id": pushes.todo})["task"]
    assert pushes.push(said, id="one").status_code == 202
    assert pushes.push(said, id="two").status_code == 202
    assert pushes.push(said).status_code == 202
    assert pushes.now(task) == reopened
    pushes.push(commit("b", "closes #1"))
    assert pushes.is_done(task)


def test_a_completed_task_is_left_alone(pushes: Pushes) -> None:
    task, said = pushes.task(), commit("a", "Closes #1")
    before = pushes.studio.owner.patch(f"/tasks/{task['id']}", json={"column_id": pushes.done})["task"]
    pushes.studio.happened()
    pushes.push(said)
    assert [each.name for each in pushes.studio.happened()] == ["push"]
    assert pushes.now(task) == before
    pushes.studio.owner.patch(f"/tasks/{task['id']}", json={"column_id": pushes.todo})
    pushes.push(said)
    assert not pushes.is_done(task), "it was an old commit"


def test_a_push_that_closes_nothing_is_only_published(pushes: Pushes) -> None:
    task, gone = pushes.task(), pushes.task()
    pushes.studio.owner.delete(f"/tasks/{gone['id']}")
    for said in ("see #1", "closes #2", "closes #99", "closes other/place#1"):
        assert pushes.push(commit("a", said)).status_code == 202
    assert pushes.push(commit("b", "closes #1"), ref="refs/heads/topic").status_code == 202
    assert not pushes.is_done(task)
    pushes.push(commit("b", "closes #1"))
    assert pushes.is_done(task)


def test_a_push_without_permission_completes_nothing(pushes: Pushes) -> None:
    task, studio = pushes.task(), pushes.studio
    said = commit("a", "closes #1", f"{studio.owner.login}@example.com")
    for caller, status in ((studio.client, 404), (studio.stranger, 404), (studio.add(role="read"), 403)):
        assert pushes.push(said, by=caller).status_code in (status, 403, 404)
    assert not pushes.is_done(task)


def token_of(studio: Studio, kind: Kind, scopes: Collection[str], permissions: dict[str, str] | None) -> Caller:
    """Return the owner as a caller with such a token."""

    async def make(services: Services) -> str:
        place = await find_account(services.database, studio.world.organization)
        owner = await find_account(services.database, studio.owner.login)
        assert place is not None and owner is not None  # noqa: PT018
        confined = {"permissions": permissions, "account_id": place.id} if permissions is not None else {}
        async with services.database.transaction() as tx:
            app_id = None
            if kind is OAUTH:
                wanted = OauthAppCreate(name=f"Pusher {place.id} {len(scopes)}", callback_urls=["https://example.com/"])
                app_id = (await create_app(tx, None, place, wanted))[0].id
            issued = await issue(tx, kind, owner.id, scopes=scopes, app_id=app_id, **confined)  # type: ignore[arg-type]
        return issued.token

    return Caller(studio.server, studio.server.run(make))


@pytest.mark.parametrize(
    ("kind", "scopes", "permissions", "completes"),
    [
        (CLASSIC, ["write:repo_hook"], None, False),
        (CLASSIC, ["repo"], None, False),
        (CLASSIC, ["repo", "admin:repo_hook", "admin:org_hook", "admin:org", "site_admin"], None, False),
        (CLASSIC, ["write:repo_hook", "work:read"], None, False),
        (CLASSIC, ["write:repo_hook", "work"], None, True),
        (OAUTH, ["write:repo_hook", "work:read"], None, False),
        (OAUTH, ["write:repo_hook", "work"], None, True),
        (FINE_GRAINED, [], {"repository_hooks": "write"}, False),
        (FINE_GRAINED, [], {"repository_hooks": "write", "work": "read"}, False),
        (FINE_GRAINED, [], {"repository_hooks": "write", "work": "write"}, True),
    ],
    ids=str,
)
def test_a_push_completes_tasks_only_if_its_token_permits_it(
    pushes: Pushes, kind: Kind, scopes: list[str], permissions: dict[str, str] | None, completes: bool
) -> None:
    task, studio = pushes.task(), pushes.studio
    said = commit("a", "closes #1", f"{studio.member.login}@example.com")
    caller = token_of(studio, kind, scopes, permissions)
    studio.happened()
    assert pushes.push(said, by=caller).status_code == 202
    assert pushes.is_done(task) is completes
    happened = studio.happened()
    assert [each.name for each in happened] == [*(["task"] if completes else []), "push"]
    assert {each.payload["sender"]["login"] for each in happened} == {studio.owner.login}
    assert pushes.push(said).status_code == 202
    assert pushes.is_done(task), "the same commit, published by a token that may"
    caller.http.close()


def test_a_push_published_by_a_command_completes_nothing(pushes: Pushes) -> None:
    task, studio = pushes.task(), pushes.studio
    said = payload_of(commit("a", "closes #1", f"{studio.owner.login}@example.com"))

    async def publish_it(services: Services) -> None:
        place = must(await find_repository(services.database, studio.world.organization, studio.world.repository))
        publication = parse_publication({"event": "push", "payload": said})
        await publish(services.database, HookOwner(place.owner, place), publication, actor=None, base="http://x")

    studio.server.run(publish_it)
    assert not pushes.is_done(task)


def test_a_board_without_a_done_column_completes_nothing(studio: Studio) -> None:
    task = studio.owner.new_task(studio.column())
    body = {"event": "push", "payload": payload_of(commit("a", "closes #1"))}
    answer = studio.member.http.post(f"/repos/{studio.world.full_name}/events", json=body)
    assert answer.status_code == 202
    assert studio.owner.get(f"/tasks/{task['id']}")["task"] == task


def test_a_push_to_an_archived_project_completes_nothing(pushes: Pushes) -> None:
    task = pushes.task()
    pushes.studio.owner.patch(pushes.studio.project, json={"archive": True})
    assert pushes.push(commit("a", "closes #1")).status_code == 202
    assert not pushes.is_done(task)


def test_concurrent_pushes_complete_a_task_once(pushes: Pushes) -> None:
    tasks = [pushes.task() for _ in range(4)]
    pushes.studio.happened()
    said = [commit("a", "closes #1, #3"), commit("b", "closes #4, #2, #1")]

    def push(number: int) -> int:
        return int(pushes.push(*(said if number % 2 else reversed(said)), id=f"push-{number // 2}").status_code)

    statuses = run_concurrently(push, range(12))
    assert set(statuses) <= {202, 422}, "the same id with the commits in another order is refused"
    assert all(map(pushes.is_done, tasks))
    told = [each.record["number"] for each in pushes.studio.happened() if each.action == "completed"]
    assert sorted(told) == [1, 2, 3, 4]
