"""Comments on files, to the letter of the specification: the list and a new comment are answered bare."""

from __future__ import annotations

import httpx
import pytest

from tests.harness.receiver import Receiver
from tests.work.studio import Caller, JsonObject, Studio, without_addresses

KEYS = {"id", "created_at", "updated_at", "text", "private", "file", "user", "comments"}


@pytest.fixture
def file(studio: Studio) -> str:
    return f"/files/{studio.file()}"


def without_replies(comment: JsonObject) -> JsonObject:
    return {name: value for name, value in comment.items() if name != "comments"}


def _comment(caller: Caller, file: str, **more: object) -> int:
    return int(caller.post(f"{file}/file_comments", json={"text": "Said", **more})["id"])


def _reply(caller: Caller, comment_id: int, **more: object) -> JsonObject:
    made = caller.post(f"/file_comments/{comment_id}/comments", json={"body": "Answered", **more})
    reply: JsonObject = made["comment"]
    return reply


def _ids(caller: Caller, file: str) -> list[int]:
    return [each["id"] for each in caller.get(f"{file}/file_comments")]


def test_a_comment_is_made(studio: Studio, file: str) -> None:
    studio.happened()
    comment = studio.member.post(f"{file}/file_comments", json={"text": "Nice & <b>plain</b>", "private": True})
    assert set(comment) == KEYS
    assert isinstance(comment["id"], int)
    assert (comment["text"], comment["private"], comment["comments"]) == ("Nice & <b>plain</b>", True, [])
    assert set(comment["file"]) == {"id", "title", "link"}
    assert (comment["file"]["id"], comment["file"]["title"]) == (file.removeprefix("/files/"), "plan.txt")
    assert set(comment["user"]) == {"id", "login", "username", "email", "avatar"}
    assert httpx.get(comment["file"]["link"]).content == b"a file"
    listed = studio.owner.get(f"{file}/file_comments")
    assert listed == [comment]
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("file_comment", "created", comment)


def test_parameters_come_from_the_query_too(studio: Studio, file: str) -> None:
    made = studio.owner.post(f"{file}/file_comments", params={"text": "Asked", "private": "true"})
    assert (made["text"], made["private"]) == ("Asked", True)
    headers = {"Content-Type": "application/json"}
    bare = studio.owner.post(f"{file}/file_comments", params={"text": "No body"}, content=b"", headers=headers)
    assert (bare["text"], bare["private"]) == ("No body", False)


def test_what_is_wrong_is_named(studio: Studio, file: str) -> None:
    path = f"{file}/file_comments"
    assert studio.owner.faults("POST", path, json={"private": True}) == {"text": "missing"}
    assert studio.owner.faults("POST", path, json={"text": " ", "private": 1, "file": "x"}) == {
        "text": "invalid", "private": "invalid", "file": "unknown",
    }  # fmt: skip
    assert studio.owner.faults("POST", path, json={"text": "\u20ac" * 21_846}) == {"text": "invalid"}
    comment = f"/file_comments/{_comment(studio.owner, file, text='€' * 21_845)}"
    assert studio.owner.faults("PATCH", comment, json={"text": None, "comments": []}) == {
        "text": "invalid", "comments": "unknown",
    }  # fmt: skip


def test_replies_are_nested(studio: Studio, file: str) -> None:
    first, second = _comment(studio.owner, file), _comment(studio.owner, file)
    replies = [_reply(caller, first) for caller in (studio.member, studio.client, studio.owner) * 4]
    [one, two] = studio.client.get(f"{file}/file_comments")
    assert (one["id"], two["id"]) == (first, second)
    assert without_addresses(one["comments"]) == without_addresses(replies)  # by id
    assert two["comments"] == []


def test_an_edit(studio: Studio, file: str) -> None:
    before = studio.member.post(f"{file}/file_comments", json={"text": "One"})
    path = f"/file_comments/{before['id']}"
    reply = _reply(studio.member, before["id"])
    studio.happened()
    answer = studio.member.patch(path, json={"text": "Two", "private": True})
    assert set(answer) == {"success", "file_comment"}
    after = answer["file_comment"]
    expected = {"text": "Two", "private": True, "comments": [reply], "updated_at": after["updated_at"]}
    assert after == {**before, **expected}
    assert after["updated_at"] > before["updated_at"]
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == ("file_comment", "edited", without_replies(after))
    assert event.changes == {"text": {"from": "One", "to": "Two"}, "private": {"from": False, "to": True}}
    for nothing in ({}, {"text": "Two"}, {"private": True}):
        assert studio.member.patch(path, json=nothing)["file_comment"] == after
    assert studio.happened() == []


def test_an_edit_is_told_without_the_replies(studio: Studio, file: str) -> None:
    comment = _comment(studio.owner, file)
    for _ in range(3):
        _reply(studio.member, comment, body="x" * 1_000)
    studio.happened()
    made = studio.owner.patch(f"/file_comments/{comment}", json={"text": "Other"})["file_comment"]
    assert len(made["comments"]) == 3
    [event] = studio.happened()
    assert event.action == "edited"
    assert "comments" not in event.record
    assert len(str(event.record)) < 1_000


def test_replies_have_a_limit_together(studio: Studio, file: str) -> None:
    comment = _comment(studio.owner, file)
    replies = [_reply(studio.member, comment, body="x" * 60_000) for _ in range(4)]
    refused = studio.member.refused(409, "POST", f"/file_comments/{comment}/comments", json={"body": "x" * 30_000})
    assert refused["code"] == "too_many_replies"
    path = f"/file_comments/{comment}/comments"
    studio.member.refused(409, "PATCH", f"{path}/{_reply(studio.member, comment)['id']}", json={"body": "x" * 60_000})
    studio.member.patch(f"{path}/{replies[0]['id']}", json={"body": "short"})
    _reply(studio.member, comment, body="x" * 30_000)


def test_a_deletion_takes_the_replies_along(studio: Studio, file: str) -> None:
    comment_id, other = _comment(studio.owner, file), _comment(studio.owner, file)
    reply = _reply(studio.owner, comment_id)
    studio.happened()
    assert studio.owner.delete(f"/file_comments/{comment_id}") == {"success": True}
    [event] = studio.happened()
    assert (event.name, event.action, event.record["comments"]) == ("file_comment", "deleted", [reply])
    assert _ids(studio.owner, file) == [other]
    for path in (f"/file_comments/{comment_id}", f"/file_comments/{comment_id}/comments/{reply['id']}"):
        studio.owner.refused(404, "DELETE", path)


def test_pages(studio: Studio, file: str) -> None:
    made = [_comment(studio.owner, file, private=number == 1) for number in range(4)]
    shown = [made[0], made[2], made[3]]
    first = studio.client.call("GET", f"{file}/file_comments", params={"per_page": "2"})
    rest = studio.client.http.get(first.links["next"]["url"])
    assert [each["id"] for page in (first, rest) for each in page.json()] == shown
    assert "next" not in rest.links
    assert set(studio.owner.faults("GET", f"{file}/file_comments", params={"per_page": "0", "x": "1"})) == {
        "per_page", "x",
    }  # fmt: skip


def test_an_unchanged_list_is_not_sent_again(studio: Studio, file: str) -> None:
    comment_id = _comment(studio.owner, file)
    tag = studio.owner.call("GET", f"{file}/file_comments").headers["etag"]
    condition = {"If-None-Match": tag}
    assert studio.owner.call("GET", f"{file}/file_comments", headers=condition).status_code == 304
    _reply(studio.owner, comment_id)
    assert studio.owner.call("GET", f"{file}/file_comments", headers=condition).status_code == 200


def test_what_is_private_is_not_there_for_clients(studio: Studio, file: str) -> None:
    hidden, shown = _comment(studio.owner, file, private=True), _comment(studio.owner, file)
    open_reply, private_reply = _reply(studio.owner, shown), _reply(studio.owner, shown, private=True)
    below = _reply(studio.owner, hidden)
    [comment] = studio.client.get(f"{file}/file_comments")
    assert comment["id"] == shown
    assert comment["comments"] == without_addresses([open_reply])
    studio.happened()
    for comment_id, reply_id, status in (
        (shown, open_reply["id"], 403),
        (shown, private_reply["id"], 404),
        (hidden, below["id"], 404),
    ):
        path = f"/file_comments/{comment_id}/comments/{reply_id}"
        studio.client.refused(status, "PATCH", path, json={"body": "x"})
        studio.client.refused(status, "DELETE", path)
    studio.client.refused(404, "POST", f"/file_comments/{hidden}/comments", json={"body": "x"})
    for comment_id, status in ((shown, 403), (hidden, 404)):
        studio.client.refused(status, "PATCH", f"/file_comments/{comment_id}", json={"text": "x"})
        studio.client.refused(status, "DELETE", f"/file_comments/{comment_id}")
    assert studio.happened() == []


def test_a_private_file_is_not_there_for_clients(studio: Studio) -> None:
    file = f"/files/{studio.file(private='true')}"
    comment_id = _comment(studio.owner, file)
    reply = _reply(studio.owner, comment_id)
    assert _ids(studio.member, file) == [comment_id]
    studio.client.refused(404, "GET", f"{file}/file_comments")
    studio.client.refused(404, "POST", f"{file}/file_comments", json={"text": "x"})
    studio.client.refused(404, "PATCH", f"/file_comments/{comment_id}", json={"text": "x"})
    studio.client.refused(404, "DELETE", f"/file_comments/{comment_id}")
    studio.client.refused(404, "POST", f"/file_comments/{comment_id}/comments", json={"body": "x"})
    studio.client.refused(404, "DELETE", f"/file_comments/{comment_id}/comments/{reply['id']}")


def test_clients_make_nothing_private(studio: Studio, file: str) -> None:
    mine = studio.client.post(f"{file}/file_comments", json={"text": "Mine", "private": False})
    path = f"/file_comments/{mine['id']}"
    _reply(studio.member, mine["id"], private=True)
    studio.happened()
    studio.client.refused(403, "POST", f"{file}/file_comments", json={"text": "x", "private": True})
    studio.client.refused(403, "PATCH", path, json={"private": True})
    edited = studio.client.patch(path, json={"text": "Edited"})["file_comment"]
    assert (edited["text"], edited["comments"]) == ("Edited", [])  # the reply is not for the client
    [event] = studio.happened()
    assert "comments" not in event.record
    studio.client.delete(path)
    assert _ids(studio.client, file) == []
    assert _ids(studio.owner, file) == [mine["id"]]  # for the reply, which is not the client's to delete


def test_who_may_not(studio: Studio, file: str) -> None:
    path = f"/file_comments/{_comment(studio.owner, file)}"
    reader = studio.add(role="read")
    assert len(_ids(reader, file)) == 1
    for caller, status in ((studio.stranger, 404), (studio.nobody, 401), (reader, 403)):
        if status != 403:
            caller.refused(status, "GET", f"{file}/file_comments")
        caller.refused(status, "POST", f"{file}/file_comments", json={"text": "x"})
        caller.refused(status, "PATCH", path, json={"text": "x"})
        caller.refused(status, "DELETE", path)


def test_what_is_not_there(studio: Studio, file: str) -> None:
    comment_id = _comment(studio.owner, file)
    reply = _reply(studio.owner, comment_id)
    studio.owner.delete(file)
    studio.happened()
    for path in (file, "/files/fil_none"):
        studio.owner.refused(404, "GET", f"{path}/file_comments")
        studio.owner.refused(404, "POST", f"{path}/file_comments", json={"text": "x"})
    for each in (comment_id, "x"):
        studio.owner.refused(404, "PATCH", f"/file_comments/{each}", json={"text": "x"})
        studio.owner.refused(404, "DELETE", f"/file_comments/{each}")
        studio.owner.refused(404, "POST", f"/file_comments/{each}/comments", json={"body": "x"})
        studio.owner.refused(404, "DELETE", f"/file_comments/{each}/comments/{reply['id']}")
    assert studio.happened() == []


def test_an_archived_project(studio: Studio, file: str) -> None:
    comment = f"/file_comments/{_comment(studio.owner, file)}"
    studio.owner.patch(studio.project, json={"archive": True})
    assert len(_ids(studio.owner, file)) == 1
    for method, path, body in (
        ("POST", f"{file}/file_comments", {"text": "x"}),
        ("PATCH", comment, {"text": "x"}),
        ("DELETE", comment, None),
        ("POST", f"{comment}/comments", {"body": "x"}),
    ):
        assert studio.owner.refused(409, method, path, json=body)["code"] == "archived"


def test_if_match(studio: Studio, file: str) -> None:
    path = f"/file_comments/{_comment(studio.owner, file)}"
    studio.owner.refused(412, "PATCH", path, json={"text": "x"}, headers={"If-Match": '"else"'})
    studio.owner.refused(412, "DELETE", path, headers={"If-Match": '"else"'})
    studio.owner.delete(path, headers={"If-Match": "*"})


def test_it_is_delivered(studio: Studio, file: str, receiver: Receiver) -> None:
    hook = {"config": {"url": receiver.url, "content_type": "json"}, "events": ["file_comment", "file_comment_reply"]}
    studio.owner.http.post(f"{studio.world.repo_path}/hooks", json=hook).raise_for_status()
    made = studio.client.post(f"{file}/file_comments", json={"text": "Done?"})
    reply = _reply(studio.member, made["id"], body="<p>Yes</p>")
    # A webhook has several deliveries under way at once, so the reply may come before the comment.
    receiver.wait_for(lambda requests: {"file_comment", "file_comment_reply"} <= {each.event for each in requests})
    [comment] = [each.payload() for each in receiver.events("file_comment")]
    assert (comment["action"], comment["file_comment"]) == ("created", without_addresses(made))
    [answer] = [each.payload() for each in receiver.events("file_comment_reply")]
    assert (answer["action"], answer["file_comment_reply"]) == ("created", without_addresses(reply))
    assert answer["file_comment_reply"]["file_comment_id"] == made["id"]
    assert answer["sender"]["login"] == reply["user"]["login"]
