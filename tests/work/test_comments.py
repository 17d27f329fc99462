"""Comments on tasks and files, and replies: creating, changing and deleting them, privacy and authorship."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.work.studio import Caller, JsonObject, Studio, without_addresses
from tests.work.trello_importer import Importer, columns_of, comments_of, small, tasks_of
from tests.work.trello_importer import comment as card_comment

COMMON = {"id", "private", "user", "created_at", "updated_at"}
KEYS = {
    "task_comment": COMMON | {"text", "task", "imported_author"},
    "file_comment": COMMON | {"text", "file", "comments"},
    "file_comment_reply": COMMON | {"body", "file_comment_id"},
}
WORDS = {
    "task_comment": "  <b>As</b> it\n came & is ",
    "file_comment": "Nice & <b>plain</b>",
    "file_comment_reply": "Looks <b>good</b>",
}
EMPTY_HTML = ("<p> </p>", "<script>x</script>", "<!-- x -->", "<img src=x>", "&nbsp;", "<br>")
LONG_HTML = ("&" * 65_536, "<b>" * 5000 + "x")


class Comment:
    """A comment or reply by `author`. `list` is the path of its siblings."""

    def __init__(self, studio: Studio, kind: str, author: Caller, words: str = "Mine", **more: Any) -> None:
        self.field = "body" if kind == "file_comment_reply" else "text"
        self.kind = kind
        self.thing = f"/tasks/{studio.task()}" if kind == "task_comment" else f"/files/{studio.file()}"
        self.list = f"{self.thing}/{'task' if kind == 'task_comment' else 'file'}_comments"
        base = f"/{kind}s"
        if kind == "file_comment_reply":
            parent = studio.owner.post(self.list, json={"text": "Said"})["id"]
            self.list = base = f"/file_comments/{parent}/comments"
        studio.happened()
        self.made = self._record(author.post(self.list, json={self.field: words, **more}))
        self.path = f"{base}/{self.made['id']}"

    def _record(self, answer: JsonObject) -> JsonObject:
        """Return the record, which file comments have at the top level of the response."""
        found: JsonObject = next((answer[name] for name in ("comment", self.kind) if name in answer), answer)
        return found

    def edit(self, caller: Caller, **body: Any) -> JsonObject:
        return self._record(caller.patch(self.path, json=body))

    def listed(self, caller: Caller) -> list[JsonObject]:
        if self.kind == "task_comment":
            return list(caller.get(self.list)["task_comments"])
        found = caller.get(f"{self.thing}/file_comments")
        return list(found if self.kind == "file_comment" else found[0]["comments"])

    def words(self, caller: Caller) -> list[str]:
        return [each[self.field] for each in self.listed(caller)]


@pytest.fixture(params=KEYS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def without_replies(comment: JsonObject) -> JsonObject:
    return {name: value for name, value in comment.items() if name != "comments"}


# --- one -------------------------------------------------------------------------------------------------------------


def test_a_comment_can_be_created(studio: Studio, kind: str) -> None:
    said = Comment(studio, kind, studio.member, WORDS[kind])
    made, login = said.made, studio.member.login
    assert set(made) == KEYS[kind]
    assert isinstance(made["id"], int)
    assert (made[said.field], made["private"]) == (WORDS[kind], False)
    assert made["user"] == {
        "id": made["user"]["id"], "login": login, "username": login, "email": f"{login}@example.com", "avatar": None,
    }  # fmt: skip
    assert made["updated_at"] == made["created_at"]
    assert said.listed(studio.member) == [made]
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == (kind, "created", made)
    assert "changes" not in event.payload
    assert event.payload["sender"]["login"] == login
    assert event.payload["repository"]["full_name"] == studio.world.full_name
    if kind == "file_comment_reply":
        assert said.list == f"/file_comments/{made['file_comment_id']}/comments"
    else:
        assert said.thing.endswith(f"/{made[kind.partition('_')[0]]['id']}")
    if kind == "file_comment":
        assert made["comments"] == []
        assert made["file"]["title"] == "plan.txt"
        assert httpx.get(made["file"]["link"]).content == b"a file"


def test_comments_disappear_with_their_subject(studio: Studio, kind: str) -> None:
    said = Comment(studio, kind, studio.owner)
    studio.owner.delete(said.thing)
    studio.happened()
    body = {said.field: "x"}
    for method, path in (("POST", said.list), ("PATCH", said.path)):
        studio.owner.refused(404, method, path, json=body)
    studio.owner.refused(404, "DELETE", said.path)
    if kind != "file_comment_reply":
        studio.owner.refused(404, "GET", said.list)
    assert studio.happened() == []


def test_invalid_fields_are_named(studio: Studio, kind: str) -> None:
    said = Comment(studio, kind, studio.owner, "x" * 65_536)
    field, is_html = said.field, kind == "file_comment_reply"
    studio.happened()
    assert studio.owner.faults("POST", said.list, json={}) == {field: "missing"}
    other = (*EMPTY_HTML, *LONG_HTML) if is_html else ("\u00e9" * 32_769,)
    for words in ("", " \n\t", None, 5, "x" * 65_537, "a\0b", *other):
        assert studio.owner.faults("POST", said.list, json={field: words}) == {field: "invalid"}, words
    wrong = {field: "invalid", "private": "invalid", "id": "unknown"}
    assert studio.owner.faults("POST", said.list, json={field: 1, "private": "yes", "id": 1}) == wrong
    assert studio.owner.faults("PATCH", said.path, json={field: " ", "private": None, "id": 1}) == wrong
    assert studio.happened() == []


def test_a_comment_can_be_edited(studio: Studio, kind: str) -> None:
    said = Comment(studio, kind, studio.member, "One")
    before, field = said.made, said.field
    studio.happened()
    after = said.edit(studio.member, **{field: "Two", "private": True})
    assert after == {**before, field: "Two", "private": True, "updated_at": after["updated_at"]}
    assert after["updated_at"] > before["updated_at"]
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == (kind, "edited", without_replies(after))
    assert event.changes == {field: {"from": "One", "to": "Two"}, "private": {"from": False, "to": True}}
    for nothing in ({}, {field: "Two"}, {"private": True, field: "Two"}):
        assert said.edit(studio.member, **nothing) == after
    assert studio.happened() == []


def test_concurrent_edits_are_serialized(studio: Studio, kind: str) -> None:
    """Each event starts from the text the previous one ended with."""
    said = Comment(studio, kind, studio.owner, "0")
    studio.happened()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: said.edit(studio.owner, **{said.field: str(number)}), range(1, 13)))
    steps = [event.changes[said.field] for event in studio.happened()]
    assert [step["from"] for step in steps] == ["0", *(step["to"] for step in steps[:-1])]
    assert {step["to"] for step in steps} == {str(number) for number in range(1, 13)}


def test_a_comment_can_be_deleted(studio: Studio, kind: str) -> None:
    said = Comment(studio, kind, studio.member)
    studio.happened()
    assert studio.member.delete(said.path) == {"success": True}
    [event] = studio.happened()
    assert (event.name, event.action, event.record) == (kind, "deleted", said.made)
    assert said.listed(studio.member) == []
    studio.member.refused(404, "DELETE", said.path)
    studio.member.refused(404, "PATCH", said.path, json={said.field: "Two"})
    assert Comment(studio, kind, studio.member).made["id"] > said.made["id"], "no id is used twice"


def test_clients_see_public_comments_and_change_only_their_own(studio: Studio, kind: str) -> None:
    theirs, shown = Comment(studio, kind, studio.client), Comment(studio, kind, studio.member)
    hidden, field = Comment(studio, kind, studio.member, private=True), theirs.field
    studio.happened()
    assert [len(each.listed(studio.client)) for each in (theirs, shown, hidden)] == [1, 1, 0]
    for said, status, caller in (
        (hidden, 404, studio.client), (shown, 403, studio.client), (theirs, 403, studio.add_client()),
    ):  # fmt: skip
        caller.refused(status, "PATCH", said.path, json={field: "x"})
        caller.refused(status, "DELETE", said.path)
    studio.client.refused(403, "POST", theirs.list, json={field: "x", "private": True})
    studio.client.refused(403, "PATCH", theirs.path, json={"private": True})
    assert studio.happened() == []
    assert theirs.edit(studio.client, **{field: "Edited", "private": False})[field] == "Edited"
    # A comment made private by an admin disappears even for the client who wrote it.
    theirs.edit(studio.owner, private=True)
    studio.client.refused(404, "PATCH", theirs.path, json={field: "x"})
    studio.client.refused(404, "DELETE", theirs.path)
    theirs.edit(studio.owner, private=False)
    studio.client.delete(theirs.path)
    assert theirs.listed(studio.owner) == []


# --- a comment on a file and its replies -----------------------------------------------------------------------------


@pytest.fixture
def file(studio: Studio) -> str:
    return f"/files/{studio.file()}"


def _comment(caller: Caller, file: str, **more: object) -> int:
    return int(caller.post(f"{file}/file_comments", json={"text": "Said", **more})["id"])


def _reply(caller: Caller, comment_id: int, **more: object) -> JsonObject:
    made = caller.post(f"/file_comments/{comment_id}/comments", json={"body": "Answered", **more})
    reply: JsonObject = made["comment"]
    return reply


def test_replies_are_nested_but_not_in_the_event_of_an_edit(studio: Studio, file: str) -> None:
    first, second = _comment(studio.owner, file), _comment(studio.owner, file)
    replies = [_reply(caller, first) for caller in (studio.member, studio.client, studio.owner) * 4]
    [one, two] = studio.client.get(f"{file}/file_comments")
    assert (one["id"], two["id"]) == (first, second)
    assert without_addresses(one["comments"]) == without_addresses(replies)  # ordered by ID
    assert two["comments"] == []
    studio.happened()
    edited = studio.owner.patch(f"/file_comments/{first}", json={"text": "Other"})["file_comment"]
    assert len(edited["comments"]) == 12
    [event] = studio.happened()
    assert (event.action, "comments" in event.record) == ("edited", False)


def test_the_replies_to_a_comment_share_a_size_limit(studio: Studio, file: str) -> None:
    comment = _comment(studio.owner, file)
    replies = [_reply(studio.member, comment, body="x" * 60_000) for _ in range(4)]
    refused = studio.member.refused(409, "POST", f"/file_comments/{comment}/comments", json={"body": "x" * 30_000})
    assert refused["code"] == "too_many_replies"
    path = f"/file_comments/{comment}/comments"
    studio.member.refused(409, "PATCH", f"{path}/{_reply(studio.member, comment)['id']}", json={"body": "x" * 60_000})
    studio.member.patch(f"{path}/{replies[0]['id']}", json={"body": "short"})
    _reply(studio.member, comment, body="x" * 30_000)


def test_deleting_a_comment_deletes_its_replies(studio: Studio, file: str) -> None:
    comment_id = _comment(studio.owner, file)
    reply = _reply(studio.owner, comment_id)
    studio.happened()
    studio.owner.delete(f"/file_comments/{comment_id}")
    [event] = studio.happened()
    assert (event.name, event.action, event.record["comments"]) == ("file_comment", "deleted", [reply])
    studio.owner.refused(404, "DELETE", f"/file_comments/{comment_id}/comments/{reply['id']}")


def test_replies_during_a_deletion_are_deleted_or_refused(studio: Studio, file: str) -> None:
    """Each reply is either deleted along with the comment or refused with 404."""
    comment = f"/file_comments/{_comment(studio.owner, file)}"

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


def test_a_new_reply_changes_the_etag_of_the_list(studio: Studio, file: str) -> None:
    comment_id = _comment(studio.owner, file)
    tag = studio.owner.call("GET", f"{file}/file_comments").headers["etag"]
    condition = {"If-None-Match": tag}
    assert studio.owner.call("GET", f"{file}/file_comments", headers=condition).status_code == 304
    _reply(studio.owner, comment_id)
    assert studio.owner.call("GET", f"{file}/file_comments", headers=condition).status_code == 200


def test_clients_do_not_see_replies_to_private_comments_or_files(studio: Studio, file: str) -> None:
    mine, hidden = _comment(studio.client, file), _comment(studio.owner, file, private=True)
    _reply(studio.owner, mine, private=True)
    locked = f"/files/{studio.file(private='true')}"
    secret = _comment(studio.owner, locked)
    studio.client.refused(404, "GET", f"{locked}/file_comments")
    studio.client.refused(404, "POST", f"{locked}/file_comments", json={"text": "x"})
    edited = studio.client.patch(f"/file_comments/{mine}", json={"text": "Edited"})["file_comment"]
    assert edited["comments"] == [], "the reply is not for the client"
    for comment_id in (hidden, secret):
        path = f"/file_comments/{comment_id}"
        below = f"{path}/comments/{_reply(studio.owner, comment_id)['id']}"
        studio.client.refused(404, "POST", f"{path}/comments", json={"body": "x"})
        for where, body in ((path, {"text": "x"}), (below, {"body": "x"})):
            studio.client.refused(404, "PATCH", where, json=body)
            studio.client.refused(404, "DELETE", where)


def test_clients_do_not_see_a_comment_that_a_client_deleted(studio: Studio, file: str) -> None:
    """The comment remains for its private reply, which clients do not see."""
    mine = _comment(studio.client, file)
    _reply(studio.member, mine, private=True)
    studio.client.delete(f"/file_comments/{mine}")
    assert studio.client.get(f"{file}/file_comments") == []
    assert [each["id"] for each in studio.owner.get(f"{file}/file_comments")] == [mine]


def test_a_reply_can_be_reached_only_through_its_comment(studio: Studio, file: str) -> None:
    reply, other = _reply(studio.owner, _comment(studio.owner, file)), _comment(studio.owner, file)
    path = f"/file_comments/{other}/comments/{reply['id']}"
    studio.owner.refused(404, "PATCH", path, json={"body": "x"})
    studio.owner.refused(404, "DELETE", path)


def test_dangerous_html_is_removed_from_replies(studio: Studio, file: str) -> None:
    comment = _comment(studio.owner, file)
    body = '<p onclick="x()">Hi<script>steal()</script> <a href="javascript:x()">you</a><img src=x onerror=y()></p>'
    reply = _reply(studio.member, comment, body=body)
    assert reply["body"] == '<p>Hi <a rel="noopener noreferrer nofollow">you</a> </p>'
    path = f"/file_comments/{comment}/comments/{reply['id']}"
    edited = studio.member.patch(path, json={"body": "<b>x</b><span onload=y()>y</span> 1 < 2"})["comment"]
    assert edited["body"] == "<b>x</b>y 1 &lt; 2"
    assert studio.member.patch(path, json={"body": "<i>Two"})["comment"]["body"] == "<i>Two</i>"
    studio.happened()
    studio.member.patch(path, json={"body": "<i>Two"})
    assert studio.happened() == [], "it is the same once it is cleaned"


# --- authorship ------------------------------------------------------------------------------------------------------
# Only the author can change the text of a comment. Admins can hide and delete it, and a deletion remains visible.


@pytest.mark.parametrize("by", ["owner", "admin", "member", "client", "collaborator"])
@pytest.mark.parametrize("of", ["owner", "member", "client"])
def test_only_the_author_can_change_the_text(studio: Studio, kind: str, by: str, of: str) -> None:
    author = getattr(studio, of)
    others = {"admin": lambda: studio.add(role="admin"), "collaborator": lambda: studio.add(role="write")}
    caller = others[by]() if by in others else studio.add_client() if by == of == "client" else getattr(studio, by)
    said = Comment(studio, kind, author)
    if by != of or by == "client":
        studio.happened()
        for change in ({said.field: "Put in a mouth"}, {said.field: "Put in a mouth", "private": True}, {}):
            if change or by not in ("owner", "admin"):
                caller.refused(403, "PATCH", said.path, json=change)
        assert studio.happened() == []
    assert said.words(author) == ["Mine"]
    author.patch(said.path, json={said.field: "Still mine"})
    assert said.words(studio.owner) == ["Still mine"]


def test_an_admin_can_hide_and_show_comments_of_others(studio: Studio, kind: str) -> None:
    said = Comment(studio, kind, studio.member)
    assert studio.add(member="member").refused(403, "PATCH", said.path, json={"private": True})["code"] == "not_author"
    for admin in (studio.owner, studio.add(role="admin")):
        admin.patch(said.path, json={"private": True})
        assert said.words(studio.client) == []
        admin.patch(said.path, json={"private": False})
        assert said.words(studio.client) == ["Mine"]


def test_a_comment_deleted_by_an_admin_remains_as_deleted(studio: Studio, kind: str) -> None:
    for author, admin in ((studio.client, studio.owner), (studio.member, studio.add(role="admin"))):
        said = Comment(studio, kind, author)
        refused = studio.add(member="member").refused(403, "DELETE", said.path)
        assert refused["code"] == "not_author"
        studio.happened()
        assert admin.delete(said.path) == {"success": True}
        [event] = studio.happened()
        assert (event.name, event.action, event.changes) == (kind, "edited", {said.field: {"from": "Mine", "to": ""}})
        assert event.payload["sender"]["login"] == admin.login
        for reader in (studio.member, studio.client):
            [left] = said.listed(reader)
            assert (left[said.field], left["user"]["login"]) == ("", author.login)
        # The author can neither restore the comment nor remove the trace.
        for caller, change in ((author, {said.field: "Back"}), (admin, {"private": True})):
            assert caller.refused(409, "PATCH", said.path, json=change)["code"] == "deleted"
        assert author.delete(said.path) == {"success": True}
        assert said.words(admin) == [""]
        assert admin.delete(said.path) == {"success": True}
        assert said.words(admin) == []
        assert [each.action for each in studio.happened()] == ["deleted"]


@pytest.mark.parametrize("by", ["member", "owner"])
def test_replies_of_others_outlive_the_comment(studio: Studio, by: str) -> None:
    caller: Caller = getattr(studio, by)
    said = Comment(studio, "file_comment", caller)
    studio.client.post(f"{said.path}/comments", json={"body": "An answer"})
    assert caller.delete(said.path) == {"success": True}
    for reader in (studio.owner, studio.client):
        [left] = said.listed(reader)
        assert (left["text"], [each["body"] for each in left["comments"]]) == ("", ["An answer"])


def test_deleting_a_comment_withdraws_its_notifications(studio: Studio, kind: str) -> None:
    said = Comment(studio, kind, studio.client, f"Look, @{studio.member.login}")
    assert len(studio.member.get("/me/notifications")["notifications"]) == 1
    studio.owner.delete(said.path)
    assert studio.member.get("/me/notifications")["notifications"] == []


def test_a_notification_names_the_author_of_the_comment(studio: Studio, kind: str) -> None:
    said = Comment(studio, kind, studio.member, f"Look, @{studio.client.login}")
    studio.owner.patch(said.path, json={"private": True})
    assert studio.client.get("/me/notifications")["notifications"] == []
    studio.owner.patch(said.path, json={"private": False})
    told = studio.client.get("/me/notifications")["notifications"]
    assert {each["actor"]["login"] for each in told} == {studio.member.login}


def test_no_user_can_edit_an_imported_comment(studio: Studio, importer: Importer) -> None:
    made = importer.board(small({}, actions=[card_comment(1, "Words of Eve")]))
    [task] = tasks_of(studio, columns_of(studio, made["project_id"])[0])
    [imported] = comments_of(studio, task["id"])
    path = f"/task_comments/{imported['id']}"
    assert studio.owner.refused(403, "PATCH", path, json={"text": "Else"})["code"] == "not_author"
    studio.owner.patch(path, json={"private": True})
    assert studio.owner.delete(path) == {"success": True}
    [left] = comments_of(studio, task["id"])
    assert left["text"] == ""
