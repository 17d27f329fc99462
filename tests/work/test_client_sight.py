"""What a client learns of others, and what it can do to what is theirs: nothing of other clients, no addresses."""

from __future__ import annotations

import pytest

from tests.work.studio import Caller, JsonObject, Studio


@pytest.fixture
def other(studio: Studio) -> Caller:
    """Another client of the same project."""
    return studio.add_client()


def _names(task: JsonObject) -> list[str]:
    return [each["username"] for each in task["assignees"]]


# --- assignees -------------------------------------------------------------------------------------------------------


def test_a_client_assigns_the_team_and_itself_alone(studio: Studio, other: Caller) -> None:
    column = studio.column()
    member, foreign, stranger = studio.member.login, other.login, studio.stranger.login
    said = set()
    for name in (foreign, stranger, "nobody-of-this-name"):
        body = {"title": "Task", "assignees": [name]}
        [error] = studio.client.refused(422, "POST", f"/columns/{column}/tasks", json=body)["errors"]
        assert error["field"] == "assignees"
        said.add(error["message"].replace(name, "…"))
        operation = {"action": "create", "column_id": column, **body}
        wrong = studio.client.faults("POST", "/tasks/bulk", json={"operations": [operation]})
        assert wrong == {"operations[0].assignees": "invalid"}
    assert len(said) == 1, "another client is not told apart from nobody"
    task = studio.client.new_task(column, assignees=[member, studio.client.login])
    assert set(_names(task)) == {member, studio.client.login}
    assert studio.owner.new_task(column, assignees=[foreign])["assignees"]


def test_a_client_sees_no_other_client_on_a_task(studio: Studio, other: Caller) -> None:
    task = studio.client.new_task(studio.column())
    path, column = f"/tasks/{task['id']}", task["column"]["id"]
    everybody = {each.login for each in (studio.member, studio.client, other)}
    assert set(_names(studio.owner.patch(path, json={"assignees": sorted(everybody)})["task"])) == everybody
    seen = everybody - {other.login}
    client = studio.client
    edit = {"action": "edit", "id": task["id"], "title": "Bulk"}
    answers = {
        "get": client.get(path)["task"],
        "column": client.get(f"/columns/{column}/tasks")["tasks"][0],
        "project": client.get(f"{studio.project}/tasks")["tasks"][0],
        "edit": client.patch(path, json={"title": "New"})["task"],
        "move": client.patch(path, json={"position": 0})["task"],
        "bulk": client.post("/tasks/bulk", json={"operations": [edit]})["tasks"][0],
    }
    client.delete(path)
    answers["restore"] = client.post(f"{path}/restore")["task"]
    assert {how: set(_names(each)) for how, each in answers.items()} == dict.fromkeys(answers, seen)
    assert set(_names(studio.owner.get(path)["task"])) == everybody, "nobody was taken off by that"


def test_what_a_client_sets_leaves_whom_it_does_not_see(studio: Studio, other: Caller) -> None:
    task = studio.client.new_task(studio.column())
    path, member = f"/tasks/{task['id']}", studio.member.login
    studio.owner.patch(path, json={"assignees": [other.login, member]})
    studio.happened()
    assert _names(studio.client.patch(path, json={"assignees": [member]})["task"]) == [member]
    assert studio.happened() == [], "what it sees is what it said"
    assert _names(studio.client.patch(path, json={"assignees": []})["task"]) == []
    operation = {"action": "edit", "id": task["id"], "assignees": [member]}
    [bulk] = studio.client.post("/tasks/bulk", json={"operations": [operation]})["tasks"]
    assert _names(bulk) == [member]
    assert _names(studio.client.patch(path, json={"assignees": None})["task"]) == []
    assert _names(studio.owner.get(path)["task"]) == [other.login]


def test_a_client_reads_and_changes_under_one_tag(studio: Studio, other: Caller) -> None:
    task = studio.client.new_task(studio.column())
    path = f"/tasks/{task['id']}"
    studio.owner.patch(path, json={"assignees": [other.login]})
    tag = studio.client.call("GET", path).headers["etag"]
    studio.client.patch(path, json={"title": "New"}, headers={"If-Match": tag})
    tag = studio.client.call("GET", path).headers["etag"]
    studio.client.delete(path, headers={"If-Match": tag})


def test_a_filter_confirms_no_other_client(studio: Studio, other: Caller) -> None:
    member, path = studio.member.login, f"{studio.project}/tasks"
    task_id = studio.task(assignees=[other.login, member, studio.client.login])

    def found(caller: Caller, name: str) -> list[str]:
        return [each["id"] for each in caller.get(path, params={"assignee": name})["tasks"]]

    assert found(studio.client, other.login) == []
    assert found(studio.client, member) == found(studio.client, studio.client.login.upper()) == [task_id]
    assert found(studio.owner, other.login) == found(studio.member, other.login) == [task_id]


def test_who_left_is_on_the_team_no_more(studio: Studio) -> None:
    writer = studio.add(role="write")
    task_id = studio.task(assignees=[writer.login])
    assert _names(studio.client.get(f"/tasks/{task_id}")["task"]) == [writer.login]
    studio.owner.delete(f"{studio.project}/members/{writer.login}")
    assert _names(studio.client.get(f"/tasks/{task_id}")["task"]) == []
    assert _names(studio.owner.get(f"/tasks/{task_id}")["task"]) == [writer.login]


def test_a_client_of_two_places_sees_the_team_of_each(studio: Studio) -> None:
    """Who is on the team of one organization is a stranger in the other, though the client meets both."""
    away = Studio(studio.server, studio.server.world())
    try:
        email = studio.client.me["email"]
        away.new_client(email)
        column = away.column()
        faults = studio.client.faults(
            "POST", f"/columns/{column}/tasks", json={"title": "T", "assignees": [studio.member.login]}
        )
        assert faults == {"assignees": "invalid"}
        assert _names(studio.client.new_task(column, assignees=[away.owner.login])) == [away.owner.login]
    finally:
        away.close()


def test_a_client_is_shown_no_address_but_its_own(studio: Studio, other: Caller) -> None:
    """Other clients who wrote or uploaded something are known by their names, as their words are."""
    task_id, file_id = studio.task(assignees=[studio.member.login, other.login]), studio.file()
    studio.owner.patch(f"/tasks/{task_id}", json={"assignees": [each.login for each in (studio.member, studio.client)]})
    mine = other.post(f"/files/{file_id}/file_comments", json={"text": "Seen"})
    studio.member.post(f"/file_comments/{mine['id']}/comments", json={"body": "Good"})
    other.post(f"/tasks/{task_id}/task_comments", json={"text": "Done"})
    column = studio.client.get(f"/tasks/{task_id}")["task"]["column"]["id"]
    paths = (f"/tasks/{task_id}", f"{studio.project}/tasks", f"/columns/{column}/tasks")
    texts = [studio.client.call("GET", path).text for path in paths]
    for caller in (studio.owner, studio.member, other):
        assert [text for text in texts if str(caller.me["email"]) in text] == []
    assert all(studio.client.me["email"] in text for text in texts)
    for path in (f"/tasks/{task_id}/task_comments", f"/files/{file_id}/file_comments"):
        assert other.login in studio.client.call("GET", path).text


# --- what is not theirs ----------------------------------------------------------------------------------------------


def _timer(studio: Studio, caller: Caller, task_id: str) -> str:
    made = caller.post(f"{studio.project}/timesheets", json={"task_id": task_id})["timesheet"]
    return f"/timesheets/{made['id']}"


@pytest.mark.parametrize("how", ["edit", "bulk"])
def test_a_client_that_moves_a_card_ends_nobodys_timer(studio: Studio, how: str) -> None:
    task = studio.client.new_task(studio.column())
    timer = _timer(studio, studio.member, task["id"])
    done = studio.owner.post(f"{studio.project}/columns", json={"title": "Done", "stage": "done"})["column"]["id"]
    studio.happened()
    if how == "edit":
        studio.client.patch(f"/tasks/{task['id']}", json={"column_id": done})
    else:
        operation = {"action": "edit", "id": task["id"], "column_id": done}
        studio.client.post("/tasks/bulk", json={"operations": [operation]})
    assert studio.client.get(f"/tasks/{task['id']}")["task"]["completed_at"] is not None
    assert studio.member.get(timer)["timesheet"]["is_active"] is True
    assert [each.action for each in studio.happened() if each.name == "timesheet"] == []
    studio.member.post(f"{timer}/finish")


SAID = "others have worked on it, so a client cannot delete it; ask a member of the team to delete it."


def _refused_deletion(studio: Studio, path: str, what: str) -> None:
    """Whatever the reason is, the client is told the same, and nothing has happened."""
    studio.happened()
    refused = studio.client.refused(409, "DELETE", path)
    assert (refused["code"], refused["message"]) == ("worked_on", f"{what}: {SAID}")
    assert studio.happened() == []
    studio.client.get(path)
    studio.member.delete(path)


@pytest.mark.parametrize("why", ["comment", "private comment", "time"])
def test_a_client_does_not_delete_a_task_with_work_of_others(studio: Studio, why: str) -> None:
    task = studio.client.new_task(studio.column())
    comments = f"/tasks/{task['id']}/task_comments"
    studio.client.post(comments, json={"text": "Mine"})
    if why == "time":
        studio.member.post(f"{_timer(studio, studio.member, task['id'])}/finish")
    else:
        studio.member.post(comments, json={"text": "Ours", "private": why == "private comment"})
    _refused_deletion(studio, f"/tasks/{task['id']}", "The task")


def test_a_client_that_deletes_its_task_ends_nobodys_timer(studio: Studio) -> None:
    task = studio.client.new_task(studio.column())
    timer = _timer(studio, studio.member, task["id"])
    studio.client.refused(409, "DELETE", f"/tasks/{task['id']}")
    assert studio.member.get(timer)["timesheet"]["is_active"] is True
    studio.member.post(f"{timer}/finish")


def test_a_client_does_not_delete_such_a_task_among_many(studio: Studio) -> None:
    """Nor the others of the same request. What somebody deletes as a member elsewhere is nobody's concern."""
    tasks = [studio.client.new_task(studio.column())["id"] for _ in range(2)]
    studio.client.post(f"/tasks/{tasks[0]}/task_comments", json={"text": "Mine"})
    studio.member.post(f"/tasks/{tasks[1]}/task_comments", json={"text": "Ours", "private": True})
    operations = [{"action": "delete", "id": each} for each in tasks]
    studio.happened()
    refused = studio.client.refused(409, "POST", "/tasks/bulk", json={"operations": operations})
    assert (refused["code"], refused["message"]) == ("worked_on", f"operations[1]: the task: {SAID}")
    assert studio.happened() == []
    assert studio.client.post("/tasks/bulk", json={"operations": operations[:1]})["tasks"] == [None]
    assert studio.member.post("/tasks/bulk", json={"operations": operations[1:]})["tasks"] == [None]


def test_a_client_deletes_a_task_that_only_it_has_worked_on(studio: Studio) -> None:
    task = studio.client.new_task(studio.column())
    studio.client.post(f"/tasks/{task['id']}/task_comments", json={"text": "Mine"})
    other = studio.client.new_task(studio.column())
    studio.member.post(f"/tasks/{other['id']}/task_comments", json={"text": "Elsewhere"})
    assert studio.client.delete(f"/tasks/{task['id']}") == {"success": True}


@pytest.mark.parametrize("why", ["comment", "private comment", "reply", "private reply"])
def test_a_client_does_not_delete_a_file_with_work_of_others(studio: Studio, why: str) -> None:
    file = f"/files/{_file_of(studio.client, studio)}"
    mine = studio.client.post(f"{file}/file_comments", json={"text": "Mine"})
    private = why.startswith("private")
    if why.endswith("comment"):
        studio.member.post(f"{file}/file_comments", json={"text": "Ours", "private": private})
    else:
        studio.member.post(f"/file_comments/{mine['id']}/comments", json={"body": "Ours", "private": private})
    _refused_deletion(studio, file, "The file")


def test_a_client_deletes_a_file_that_only_it_has_worked_on(studio: Studio) -> None:
    file, other = (f"/files/{_file_of(studio.client, studio)}" for _ in range(2))
    mine = studio.client.post(f"{file}/file_comments", json={"text": "Mine"})
    studio.client.post(f"/file_comments/{mine['id']}/comments", json={"body": "Mine too"})
    studio.member.post(f"{other}/file_comments", json={"text": "Elsewhere"})
    assert studio.client.delete(file) == {"success": True}


def _file_of(caller: Caller, studio: Studio) -> str:
    upload = {"file": ("a.txt", b"a file", "text/plain")}
    return str(caller.post(f"{studio.project}/files", files=upload)["file"]["id"])


def _commented(studio: Studio) -> tuple[str, str]:
    """The paths of a file's comments and of the client's comment there."""
    path = f"/files/{studio.file()}/file_comments"
    return path, f"/file_comments/{studio.client.post(path, json={'text': 'Mine'})['id']}"


@pytest.mark.parametrize("private", [True, False])
def test_a_client_that_deletes_its_comment_keeps_the_replies_of_others(studio: Studio, private: bool) -> None:
    """The client cannot tell whether there were any."""
    path, comment = _commented(studio)
    reply = studio.member.post(f"{comment}/comments", json={"body": "Ours", "private": private})["comment"]
    studio.client.post(f"{comment}/comments", json={"body": "And mine"})
    studio.happened()
    assert studio.client.delete(comment) == {"success": True}
    assert studio.client.get(path) == []
    studio.client.refused(404, "DELETE", comment)
    studio.client.refused(404, "POST", f"{comment}/comments", json={"body": "More"})
    [kept] = studio.member.get(path)
    assert (kept["text"], kept["private"], len(kept["comments"])) == ("", True, 2)
    assert kept["comments"][0] == reply
    [told] = studio.happened()
    assert (told.name, told.action) == ("file_comment", "edited")
    assert set(told.changes) == {"text", "private"}
    found = studio.member.get("/search", params={"q": "Mine", "project_id": studio.project_id})["results"]
    assert [each["type"] for each in found] == ["file_comment_reply"]
    studio.owner.delete(comment)
    assert studio.member.get(path) == []


def test_a_client_that_deletes_its_comment_without_replies_of_others_leaves_nothing(studio: Studio) -> None:
    path, comment = _commented(studio)
    studio.client.post(f"{comment}/comments", json={"body": "And mine"})
    studio.happened()
    assert studio.client.delete(comment) == {"success": True}
    assert studio.member.get(path) == []
    assert [(each.name, each.action) for each in studio.happened()] == [("file_comment", "deleted")]
