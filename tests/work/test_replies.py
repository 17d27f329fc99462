"""Replies to comments on files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.work.studio import Caller, JsonObject, Studio

KEYS = {"id", "created_at", "updated_at", "body", "file_comment_id", "private", "user"}


@pytest.fixture
def comment(studio: Studio) -> str:
    made = studio.owner.post(f"/files/{studio.file()}/file_comments", json={"text": "Said"})
    return f"/file_comments/{made['id']}"


def _reply(caller: Caller, comment: str, **more: object) -> JsonObject:
    answer = caller.post(f"{comment}/comments", json={"body": "Answered", **more})
    reply: JsonObject = answer["comment"]
    return reply


def test_a_reply_is_made(studio: Studio, comment: str) -> None:
    studio.happened()
    answer = studio.client.post(f"{comment}/comments", json={"body": "Looks <b>good</b>"})
    assert set(answer) == {"success", "comment"}
    assert answer["success"] is True
    reply = answer["comment"]
    assert set(reply) == KEYS
    assert isinstance(reply["id"], int)
    assert reply["file_comment_id"] == int(comment.rpartition("/")[2])
    assert (reply["body"], reply["private"]) == ("Looks <b>good</b>", False)
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("file_comment_reply", "created", reply)
    asked = studio.owner.post(f"{comment}/comments", params={"body": "1 < 2", "private": "true"})["comment"]
    assert (asked["body"], asked["private"]) == ("1 &lt; 2", True)


def test_what_is_dangerous_is_taken_out(studio: Studio, comment: str) -> None:
    body = '<p onclick="x()">Hi<script>steal()</script> <a href="javascript:x()">you</a><img src=x onerror=y()></p>'
    reply = _reply(studio.member, comment, body=body)
    assert reply["body"] == '<p>Hi <a rel="noopener noreferrer nofollow">you</a> </p>'
    edited = studio.member.patch(
        f"{comment}/comments/{reply['id']}", json={"body": "<b>x</b><span onload=y()>y</span>"}
    )
    assert edited["comment"]["body"] == "<b>x</b>y"


def test_what_is_wrong_is_named(studio: Studio, comment: str) -> None:
    path = f"{comment}/comments"
    assert studio.owner.faults("POST", path, json={}) == {"body": "missing"}
    nothing = ("", "  ", "<p> </p>", "<script>x</script>", "<!-- x -->", "<img src=x>", "&nbsp;")
    too_long = ("x" * 65_537, "&" * 65_536, "<b>" * 5000 + "x")
    for body in (*nothing, *too_long, None, 5, "a\0b"):
        assert studio.owner.faults("POST", path, json={"body": body}) == {"body": "invalid"}
    assert studio.owner.faults("POST", path, json={"body": "", "private": "x", "text": "x"}) == {
        "body": "invalid", "private": "invalid", "text": "unknown",
    }  # fmt: skip
    reply = _reply(studio.owner, comment, body="x" * 65_536)
    assert studio.owner.faults("PATCH", f"{path}/{reply['id']}", json={"body": "<br>", "private": None}) == {
        "body": "invalid", "private": "invalid",
    }  # fmt: skip


def test_an_edit(studio: Studio, comment: str) -> None:
    before = _reply(studio.member, comment, body="One")
    path = f"{comment}/comments/{before['id']}"
    studio.happened()
    after = studio.member.patch(path, json={"body": "<i>Two</i>", "private": True})["comment"]
    assert after == {**before, "body": "<i>Two</i>", "private": True, "updated_at": after["updated_at"]}
    assert after["updated_at"] > before["updated_at"]
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("file_comment_reply", "edited", after)
    assert event.changes == {"body": {"from": "One", "to": "<i>Two</i>"}, "private": {"from": False, "to": True}}
    for nothing in ({}, {"body": "<i>Two"}, {"body": "<i>Two</i>", "private": True}):
        assert studio.member.patch(path, json=nothing)["comment"] == after
    assert studio.happened() == []


def test_a_deletion(studio: Studio, comment: str) -> None:
    made = _reply(studio.member, comment)
    path = f"{comment}/comments/{made['id']}"
    studio.happened()
    assert studio.member.delete(path) == {"success": True}
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("file_comment_reply", "deleted", made)
    studio.member.refused(404, "DELETE", path)
    studio.member.refused(404, "PATCH", path, json={"body": "x"})


def test_a_reply_belongs_to_its_comment(studio: Studio, comment: str) -> None:
    reply = _reply(studio.owner, comment)
    other = studio.owner.post(f"/files/{studio.file()}/file_comments", json={"text": "Else"})["id"]
    for path in (f"/file_comments/{other}/comments/{reply['id']}", f"{comment}/comments/x"):
        studio.owner.refused(404, "PATCH", path, json={"body": "x"})
        studio.owner.refused(404, "DELETE", path)
    studio.owner.refused(404, "POST", "/file_comments/999999999/comments", json={"body": "x"})


def test_clients_change_their_own(studio: Studio, comment: str) -> None:
    mine = _reply(studio.client, comment)
    path = f"{comment}/comments/{mine['id']}"
    others = studio.add_client()
    others.refused(403, "PATCH", path, json={"body": "x"})
    others.refused(403, "DELETE", path)
    studio.client.refused(403, "POST", f"{comment}/comments", json={"body": "x", "private": True})
    studio.client.refused(403, "PATCH", path, json={"private": True})
    assert studio.client.patch(path, json={"body": "Edited"})["comment"]["body"] == "Edited"
    studio.owner.patch(path, json={"private": True})
    studio.client.refused(404, "DELETE", path)
    studio.owner.patch(path, json={"private": False})
    studio.client.delete(path)


def test_who_may_not(studio: Studio, comment: str) -> None:
    path = f"{comment}/comments/{_reply(studio.owner, comment)['id']}"
    for caller, status in ((studio.stranger, 404), (studio.nobody, 401), (studio.add(role="read"), 403)):
        caller.refused(status, "POST", f"{comment}/comments", json={"body": "x"})
        caller.refused(status, "PATCH", path, json={"body": "x"})
        caller.refused(status, "DELETE", path)


def test_if_match_and_archived(studio: Studio, comment: str) -> None:
    path = f"{comment}/comments/{_reply(studio.owner, comment)['id']}"
    studio.owner.refused(412, "PATCH", path, json={"body": "x"}, headers={"If-Match": '"else"'})
    studio.owner.refused(412, "DELETE", path, headers={"If-Match": '"else"'})
    studio.owner.patch(studio.project, json={"archive": True})
    assert studio.owner.refused(409, "PATCH", path, json={"body": "x"})["code"] == "archived"
    assert studio.owner.refused(409, "DELETE", path)["code"] == "archived"


def test_replying_to_what_is_being_deleted(studio: Studio, comment: str) -> None:
    """Each reply is there when the comment goes, or is told that it went."""

    def answer(_: int) -> int:
        return studio.owner.call("POST", f"{comment}/comments", json={"body": "x"}).status_code

    studio.happened()
    with ThreadPoolExecutor(6) as pool:
        replies = [pool.submit(answer, number) for number in range(10)]
        deleted = pool.submit(studio.owner.delete, comment)
        replies += [pool.submit(answer, number) for number in range(10)]
        statuses = [each.result() for each in replies]
        deleted.result()
    assert set(statuses) <= {200, 404}
    [gone] = [event for event in studio.happened() if event.name == "file_comment"]
    assert len(gone.record["comments"]) == statuses.count(200)
