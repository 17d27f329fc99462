"""Only the author changes what a comment says; admins hide and delete, which is shown."""

from __future__ import annotations

import pytest

from tests.work.studio import Caller, JsonObject, Studio
from tests.work.trello_importer import Importer, columns_of, comments_of, small, tasks_of
from tests.work.trello_importer import comment as card_comment

KINDS = ("task_comment", "file_comment", "file_comment_reply")


class Said:
    """A comment or reply of `author`."""

    def __init__(self, studio: Studio, kind: str, author: Caller, words: str = "Mine") -> None:
        self.field = "body" if kind == "file_comment_reply" else "text"
        self._kind = kind
        if kind == "task_comment":
            self._list = f"/tasks/{studio.task()}/task_comments"
            self.made: JsonObject = author.post(self._list, json={"text": words})["task_comment"]
            self.path = f"/task_comments/{self.made['id']}"
            return
        self._list = f"/files/{studio.file()}/file_comments"
        if kind == "file_comment":
            self.made = author.post(self._list, json={"text": words})
            self.path = f"/file_comments/{self.made['id']}"
            return
        parent = studio.owner.post(self._list, json={"text": "Said"})["id"]
        self.made = author.post(f"/file_comments/{parent}/comments", json={"body": words})["comment"]
        self.path = f"/file_comments/{parent}/comments/{self.made['id']}"

    def listed(self, caller: Caller) -> list[JsonObject]:
        found = caller.get(self._list)
        if self._kind == "task_comment":
            return list(found["task_comments"])
        return list(found if self._kind == "file_comment" else found[0]["comments"])

    def words(self, caller: Caller) -> list[str]:
        return [each[self.field] for each in self.listed(caller)]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("by", ["owner", "admin", "member", "client", "collaborator"])
@pytest.mark.parametrize("of", ["owner", "member", "client"])
def test_nobody_but_the_author_changes_the_words(studio: Studio, kind: str, by: str, of: str) -> None:
    author = getattr(studio, of)
    others = {"admin": lambda: studio.add(role="admin"), "collaborator": lambda: studio.add(role="write")}
    caller = others[by]() if by in others else studio.add_client() if by == of == "client" else getattr(studio, by)
    said = Said(studio, kind, author)
    if by != of or by == "client":
        studio.happened()
        for change in ({said.field: "Put in a mouth"}, {said.field: "Put in a mouth", "private": True}, {}):
            if change or by not in ("owner", "admin"):
                caller.refused(403, "PATCH", said.path, json=change)
        assert studio.happened() == []
    assert said.words(author) == ["Mine"]
    author.patch(said.path, json={said.field: "Still mine"})
    assert said.words(studio.owner) == ["Still mine"]


def test_an_admin_hides_and_shows_what_others_wrote(studio: Studio, kind: str) -> None:
    said = Said(studio, kind, studio.member)
    assert studio.add(member="member").refused(403, "PATCH", said.path, json={"private": True})["code"] == "not_author"
    for admin in (studio.owner, studio.add(role="admin")):
        admin.patch(said.path, json={"private": True})
        assert said.words(studio.client) == []
        admin.patch(said.path, json={"private": False})
        assert said.words(studio.client) == ["Mine"]


def test_what_an_admin_deletes_stays_as_deleted(studio: Studio, kind: str) -> None:
    for author, admin in ((studio.client, studio.owner), (studio.member, studio.add(role="admin"))):
        said = Said(studio, kind, author)
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
        # The author does not bring it back, nor take the trace away.
        for caller, change in ((author, {said.field: "Back"}), (admin, {"private": True})):
            assert caller.refused(409, "PATCH", said.path, json=change)["code"] == "deleted"
        assert author.delete(said.path) == {"success": True}
        assert said.words(admin) == [""]
        assert admin.delete(said.path) == {"success": True}
        assert said.words(admin) == []
        assert [each.action for each in studio.happened()] == ["deleted"]


def test_what_the_author_deletes_is_gone(studio: Studio, kind: str) -> None:
    for author in (studio.client, studio.member, studio.owner):
        said = Said(studio, kind, author)
        author.delete(said.path)
        assert said.words(studio.owner) == []


@pytest.mark.parametrize("by", ["member", "owner"])
def test_replies_of_others_outlive_the_comment(studio: Studio, by: str) -> None:
    caller: Caller = getattr(studio, by)
    said = Said(studio, "file_comment", caller)
    studio.client.post(f"{said.path}/comments", json={"body": "An answer"})
    assert caller.delete(said.path) == {"success": True}
    for reader in (studio.owner, studio.client):
        [left] = said.listed(reader)
        assert (left["text"], [each["body"] for each in left["comments"]]) == ("", ["An answer"])


def test_nobody_is_told_of_what_was_deleted(studio: Studio, kind: str) -> None:
    said = Said(studio, kind, studio.client, f"Look, @{studio.member.login}")
    assert len(studio.member.get("/me/notifications")["notifications"]) == 1
    studio.owner.delete(said.path)
    assert studio.member.get("/me/notifications")["notifications"] == []


def test_a_notification_names_the_author_of_the_words(studio: Studio, kind: str) -> None:
    said = Said(studio, kind, studio.member, f"Look, @{studio.client.login}")
    studio.owner.patch(said.path, json={"private": True})
    assert studio.client.get("/me/notifications")["notifications"] == []
    studio.owner.patch(said.path, json={"private": False})
    told = studio.client.get("/me/notifications")["notifications"]
    assert {each["actor"]["login"] for each in told} == {studio.member.login}


def test_what_was_imported_is_nobodys_to_edit(studio: Studio, importer: Importer) -> None:
    made = importer.board(small({}, actions=[card_comment(1, "Words of Eve")]))
    [task] = tasks_of(studio, columns_of(studio, made["project_id"])[0])
    [imported] = comments_of(studio, task["id"])
    path = f"/task_comments/{imported['id']}"
    assert studio.owner.refused(403, "PATCH", path, json={"text": "Else"})["code"] == "not_author"
    studio.owner.patch(path, json={"private": True})
    assert studio.owner.delete(path) == {"success": True}
    [left] = comments_of(studio, task["id"])
    assert left["text"] == ""
