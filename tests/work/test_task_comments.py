"""Comments on tasks."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.receiver import Receiver
from tests.work.studio import Caller, Studio, without_addresses

KEYS = {"id", "text", "private", "task", "user", "created_at", "updated_at", "imported_author"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def task(studio: Studio) -> str:
    return f"/tasks/{studio.task(title='Landing page')}"


def _comment(caller: Caller, task: str, **more: object) -> int:
    return int(caller.post(f"{task}/task_comments", json={"text": "Said", **more})["task_comment"]["id"])


def _ids(caller: Caller, task: str) -> list[int]:
    return [each["id"] for each in caller.get(f"{task}/task_comments")["task_comments"]]


def test_a_comment_is_made(studio: Studio, task: str) -> None:
    answer = studio.member.post(f"{task}/task_comments", json={"text": "  <b>As</b> it\n came & is "})
    assert set(answer) == {"success", "task_comment"}
    assert answer["success"] is True
    comment = answer["task_comment"]
    assert set(comment) == KEYS
    assert isinstance(comment["id"], int)
    assert comment["text"] == "  <b>As</b> it\n came & is "
    assert comment["private"] is False
    assert comment["task"] == {"id": task.removeprefix("/tasks/"), "title": "Landing page"}
    login = studio.member.login
    assert comment["user"] == {
        "id": comment["user"]["id"], "login": login, "username": login, "email": f"{login}@example.com", "avatar": None,
    }  # fmt: skip
    assert TIME.fullmatch(comment["created_at"])
    assert comment["updated_at"] == comment["created_at"]
    assert studio.member.get(f"{task}/task_comments") == {"success": True, "task_comments": [comment]}
    event = studio.happened()[-1]
    assert (event.name, event.action, event.record) == ("task_comment", "created", comment)
    assert "changes" not in event.payload
    assert event.payload["sender"]["login"] == login
    assert event.payload["repository"]["full_name"] == studio.world.full_name


def test_parameters_come_from_the_query_too(studio: Studio, task: str) -> None:
    made = studio.owner.post(f"{task}/task_comments", params={"text": "Asked", "private": "true"})["task_comment"]
    assert (made["text"], made["private"]) == ("Asked", True)
    edited = studio.owner.patch(f"/task_comments/{made['id']}", params={"private": "false"})["task_comment"]
    assert (edited["text"], edited["private"]) == ("Asked", False)


def test_what_is_wrong_is_named(studio: Studio, task: str) -> None:
    path = f"{task}/task_comments"
    assert studio.owner.faults("POST", path, json={}) == {"text": "missing"}
    for text in ("", " \n\t", None, 5, "x" * 65_537, "\u00e9" * 32_769, "a\0b"):
        assert studio.owner.faults("POST", path, json={"text": text}) == {"text": "invalid"}
    assert studio.owner.faults("POST", path, json={"text": 1, "private": "yes", "body": "x"}) == {
        "text": "invalid", "private": "invalid", "body": "unknown",
    }  # fmt: skip
    comment = f"/task_comments/{_comment(studio.owner, task, text='x' * 65_536)}"
    studio.happened()
    assert studio.owner.faults("PATCH", comment, json={"text": " ", "private": None, "task_id": "tsk_x"}) == {
        "text": "invalid", "private": "invalid", "task_id": "unknown",
    }  # fmt: skip
    assert studio.happened() == []


def test_an_edit(studio: Studio, task: str) -> None:
    before = studio.member.post(f"{task}/task_comments", json={"text": "One"})["task_comment"]
    studio.happened()
    after = studio.member.patch(f"/task_comments/{before['id']}", json={"text": "Two", "private": True})["task_comment"]
    assert after == {**before, "text": "Two", "private": True, "updated_at": after["updated_at"]}
    assert after["updated_at"] > before["updated_at"]
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("task_comment", "edited", after)
    assert event.changes == {"text": {"from": "One", "to": "Two"}, "private": {"from": False, "to": True}}
    for nothing in ({}, {"text": "Two"}, {"private": True, "text": "Two"}):
        assert studio.member.patch(f"/task_comments/{before['id']}", json=nothing)["task_comment"] == after
    assert studio.happened() == []


def test_a_deletion(studio: Studio, task: str) -> None:
    made = studio.member.post(f"{task}/task_comments", json={"text": "One"})["task_comment"]
    studio.happened()
    assert studio.member.delete(f"/task_comments/{made['id']}") == {"success": True}
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("task_comment", "deleted", made)
    assert _ids(studio.member, task) == []
    studio.member.refused(404, "DELETE", f"/task_comments/{made['id']}")
    studio.member.refused(404, "PATCH", f"/task_comments/{made['id']}", json={"text": "Two"})
    assert _comment(studio.member, task) > made["id"]


def test_if_match(studio: Studio, task: str) -> None:
    path = f"/task_comments/{_comment(studio.owner, task)}"
    studio.owner.refused(412, "PATCH", path, json={"text": "x"}, headers={"If-Match": '"else"'})
    studio.owner.refused(412, "DELETE", path, headers={"If-Match": '"else"'})
    studio.owner.patch(path, json={"text": "x"}, headers={"If-Match": "*"})


def test_pages(studio: Studio, task: str) -> None:
    made = [_comment(studio.owner, task, private=number % 2 == 1) for number in range(5)]
    path = f"{task}/task_comments"
    assert _ids(studio.owner, task) == made
    assert _ids(studio.client, task) == made[::2]
    seen: list[list[int]] = []
    response = studio.client.call("GET", path, params={"per_page": "2"})
    while True:
        seen.append([each["id"] for each in response.json()["task_comments"]])
        if "next" not in response.links:
            break
        response = studio.client.http.get(response.links["next"]["url"])
    assert seen == [made[:4:2], made[4:]]
    for wrong in ({"per_page": "101"}, {"cursor": "v1_WzEwMDAwMDAwMDAwMDAwMDAwMDAwMF0"}, {"user": "x"}):
        assert set(studio.owner.faults("GET", path, params=wrong)) == set(wrong)


def test_clients(studio: Studio, task: str) -> None:
    """They see what is not private, and change what is their own."""
    theirs = studio.client.post(f"{task}/task_comments", json={"text": "Mine", "private": False})["task_comment"]
    hidden, shown = _comment(studio.member, task, private=True), _comment(studio.member, task)
    studio.happened()
    assert _ids(studio.client, task) == [theirs["id"], shown]
    for path, status in ((f"/task_comments/{hidden}", 404), (f"/task_comments/{shown}", 403)):
        studio.client.refused(status, "PATCH", path, json={"text": "x"})
        studio.client.refused(status, "DELETE", path)
    path = f"/task_comments/{theirs['id']}"
    studio.client.refused(403, "POST", f"{task}/task_comments", json={"text": "x", "private": True})
    studio.client.refused(403, "PATCH", path, json={"private": True})
    assert studio.happened() == []
    assert studio.client.patch(path, json={"text": "Edited", "private": False})["task_comment"]["text"] == "Edited"
    studio.client.delete(path)
    assert [event.action for event in studio.happened()] == ["edited", "deleted"]
    # What an admin made private is gone for the client who wrote it.
    taken = _comment(studio.client, task)
    studio.owner.patch(f"/task_comments/{taken}", json={"private": True})
    studio.client.refused(404, "PATCH", f"/task_comments/{taken}", json={"text": "x"})


def test_who_may_not(studio: Studio, task: str) -> None:
    path = f"/task_comments/{_comment(studio.owner, task)}"
    reader = studio.add(role="read")
    assert len(_ids(reader, task)) == 1
    for caller, status in ((studio.stranger, 404), (studio.nobody, 401), (reader, 403)):
        if status != 403:
            caller.refused(status, "GET", f"{task}/task_comments")
        caller.refused(status, "POST", f"{task}/task_comments", json={"text": "x"})
        caller.refused(status, "PATCH", path, json={"text": "x"})
        caller.refused(status, "DELETE", path)


def test_what_is_not_there(studio: Studio, task: str) -> None:
    comment_id = _comment(studio.owner, task)
    studio.owner.delete(task)
    studio.happened()
    for path in (task, "/tasks/tsk_none"):
        studio.owner.refused(404, "GET", f"{path}/task_comments")
        studio.owner.refused(404, "POST", f"{path}/task_comments", json={"text": "x"})
    for number in (comment_id, "0", "x", "-1", "9" * 40):
        studio.owner.refused(404, "PATCH", f"/task_comments/{number}", json={"text": "x"})
        studio.owner.refused(404, "DELETE", f"/task_comments/{number}")
    assert studio.happened() == []


def test_an_archived_project(studio: Studio, task: str) -> None:
    comment_id = _comment(studio.owner, task)
    studio.owner.patch(studio.project, json={"archive": True})
    assert _ids(studio.owner, task) == [comment_id]
    for method, path in (
        ("POST", f"{task}/task_comments"),
        ("PATCH", f"/task_comments/{comment_id}"),
        ("DELETE", f"/task_comments/{comment_id}"),
    ):
        more = {} if method == "DELETE" else {"json": {"text": "x"}}
        assert studio.owner.refused(409, method, path, **more)["code"] == "archived"


def test_edits_at_once_are_each_whole(studio: Studio, task: str) -> None:
    """Every event begins where the one before ended."""
    path = f"/task_comments/{_comment(studio.owner, task, text='0')}"
    studio.happened()
    with ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda n: studio.owner.call("PATCH", path, json={"text": str(n)}), range(1, 13)):
            assert answer.status_code == 200
    steps = [event.changes["text"] for event in studio.happened()]
    assert [step["from"] for step in steps] == ["0", *(step["to"] for step in steps[:-1])]
    assert {step["to"] for step in steps} == {str(number) for number in range(1, 13)}


def test_a_deletion_at_once_happens_once(studio: Studio, task: str) -> None:
    path = f"/task_comments/{_comment(studio.owner, task)}"
    studio.happened()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: studio.owner.call("DELETE", path).status_code, range(4)))
    assert sorted(answers) == [200, 404, 404, 404]
    assert [event.action for event in studio.happened()] == ["deleted"]


def test_it_is_delivered(studio: Studio, task: str, receiver: Receiver) -> None:
    hook = {"config": {"url": receiver.url, "content_type": "json"}, "events": ["task_comment"]}
    studio.owner.http.post(f"{studio.world.repo_path}/hooks", json=hook).raise_for_status()
    made = studio.client.post(f"{task}/task_comments", json={"text": "Done?"})["task_comment"]
    receiver.wait_for(lambda requests: any(each.event == "task_comment" for each in requests))
    [received] = receiver.events("task_comment")
    payload = received.payload()
    assert (payload["action"], payload["task_comment"]) == ("created", without_addresses(made))
    assert payload["sender"]["login"] == made["user"]["login"]
