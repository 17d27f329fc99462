"""Clients: inviting and removing them, and what they see."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.apps import make_app
from tests.harness.world import must
from tests.work.studio import Caller, JsonObject, Studio
from workhook.http.calls import Services
from workhook.identity.actions import issue_token
from workhook.identity.queries import find_account
from workhook.identity.schemas import placeholder_address

KEYS = {"id", "username", "email", "created_at", "updated_at"}


@pytest.fixture
def clients(studio: Studio) -> str:
    return f"{studio.project}/clients"


def _token(studio: Studio, username: str) -> Caller:
    """Return a caller for a client, with a token as created by `workhook token create`."""

    async def issue(services: Services) -> str:
        async with services.database.transaction() as tx:
            user = must(await find_account(tx, username))
            return (await issue_token(tx, user, ["work"])).token

    return studio.caller(studio.server.run(issue))


def _unique(studio: Studio, name: str) -> str:
    return f"{name}.{studio.world.owner}"


# --- invite ----------------------------------------------------------------------------------------------------------


def test_an_invited_person_becomes_a_client_on_acceptance(studio: Studio, clients: str) -> None:
    email = f"{_unique(studio, 'Jo')}@Customer.example"
    answer = studio.owner.post(clients, json={"email": f" {email} "})
    assert (answer["client"], answer["invitation"]["email"]) == (None, email)
    assert set(answer["invitation"]) == {"id", "email", "created_at", "expires_at"}
    assert studio.owner.get(clients)["clients"] == []
    assert studio.happened() == []
    client = studio.new_client(email)
    assert set(client) == KEYS
    assert re.fullmatch(r"cli_[0-9a-z]{26}", client["id"])
    assert client["email"] == email
    [added] = studio.happened()
    assert (added.name, added.action, added.record) == ("client", "added", client)
    invited = _token(studio, client["username"])
    assert invited.get(studio.project)["project"]["id"] == studio.project_id
    assert invited.get(f"/clients/{client['id']}")["client"] == client
    assert studio.owner.post(clients, json={"email": email.upper()}) == {
        "success": True, "client": client, "invitation": None,
    }  # fmt: skip


def test_a_user_with_the_invited_address_accepts_through_the_api(studio: Studio, clients: str) -> None:
    stranger = studio.stranger.me
    invitation = studio.owner.post(clients, json={"email": stranger["email"].upper()})["invitation"]
    assert studio.stranger.get("/projects")["projects"] == []
    [waiting] = studio.stranger.http.get("/user/repository_invitations").json()
    assert (waiting["id"], waiting["permissions"]) == (invitation["id"], "read")
    path = f"/user/repository_invitations/{invitation['id']}"
    assert studio.client.http.patch(path).status_code == 404
    assert studio.stranger.http.patch(path).status_code == 204
    [client] = [each for each in studio.owner.get(clients)["clients"] if each["username"] == stranger["username"]]
    assert client["email"] == stranger["email"].upper()
    assert [each["id"] for each in studio.stranger.get("/projects")["projects"]] == [studio.project_id]
    assert studio.stranger.refused(403, "PATCH", studio.project, json={"title": "Mine"})["code"] == "missing_role"
    assert [(each.name, each.action) for each in studio.happened()] == [("client", "added")]


def test_a_person_already_in_the_project_keeps_their_role(studio: Studio, clients: str) -> None:
    for caller in (studio.member, studio.add(role="read")):
        studio.owner.post(clients, json={"email": caller.me["email"]})
        [waiting] = caller.http.get("/user/repository_invitations").json()
        assert caller.http.patch(f"/user/repository_invitations/{waiting['id']}").status_code == 204
    assert studio.owner.get(clients)["clients"] == []
    assert studio.happened() == []


def test_an_invitation_can_be_withdrawn_or_declined(studio: Studio, clients: str) -> None:
    stranger = studio.stranger.me
    for caller, path in (
        (studio.owner, f"{studio.world.repo_path}/invitations/"),
        (studio.stranger, "/user/repository_invitations/"),
    ):
        invitation = studio.owner.post(clients, json={"email": stranger["email"]})["invitation"]
        assert caller.http.delete(f"{path}{invitation['id']}").status_code == 204
        assert studio.stranger.http.get("/user/repository_invitations").json() == []


def test_no_response_reveals_whether_an_address_has_an_account(studio: Studio, elsewhere: Studio, clients: str) -> None:
    """Try all roles of another organization, a member of the studio, a stranger and an unknown address."""
    people = [
        elsewhere.add(member="owner"), elsewhere.add(member="member"), elsewhere.add(role="admin"),
        elsewhere.add_client(), studio.member, studio.stranger,
    ]  # fmt: skip
    addresses = [each.me["email"] for each in people] + [f"{_unique(studio, 'new')}@a.example"]
    before = {each.login: each.get("/projects")["projects"] for each in people}
    for email in addresses:
        answer = studio.owner.post(clients, json={"email": email})
        assert (answer["client"], answer["invitation"].pop("email")) == (None, email)
        assert set(answer["invitation"]) == {"id", "created_at", "expires_at"}
    assert {each.login: each.get("/projects")["projects"] for each in people} == before
    assert elsewhere.happened() == studio.happened() == []


def test_an_invitation_takes_no_username(studio: Studio, clients: str) -> None:
    """No account and no login is created before the invitation is accepted."""
    body = {"email": f"{_unique(studio, 'sam')}@a.example", "username": studio.stranger.login}
    assert studio.owner.faults("POST", clients, json=body) == {"username": "unknown"}


# --- strangers -------------------------------------------------------------------------------------------------------


def test_a_user_without_an_organization_cannot_invite_by_address(studio: Studio) -> None:
    """Nor can such a user find out which logins exist, even with a project of their own."""
    person, stranger = studio.add(), studio.stranger.login
    own = person.post("/projects", json={"title": "Mine"})["project"]
    path, repo = f"/projects/{own['id']}", f"/repos/{person.login}/{own['name']}"
    for email in (studio.stranger.me["email"], f"{_unique(studio, 'new')}@a.example"):
        refused = person.refused(403, "POST", f"{path}/clients", json={"email": email})
        assert refused["message"].startswith("On this server, only owners of an organization can invite people")
    unknown = f"nobody-{_unique(studio, '')}"[:30].replace(".", "")
    answers = [
        [
            person.http.put(f"{repo}/collaborators/{login}", json={"permission": "push"}),
            person.call("POST", f"{path}/members", json={"username": login}),
            person.http.delete(f"{repo}/collaborators/{login}"),
            person.http.get(f"{repo}/collaborators/{login}"),
            person.call("DELETE", f"{path}/members/{login}"),
        ]
        for login in (stranger, unknown)
    ]
    said = [
        [(each.status_code, re.sub(r'"request_id":"[^"]*"', "", each.text.replace(login, "?"))) for each in some]
        for some, login in zip(answers, (stranger, unknown), strict=True)
    ]
    assert said[0] == said[1]
    assert all(each.status_code in (404, 422) for some in answers for each in some)
    assert studio.stranger.http.get("/user/repository_invitations").json() == []


def test_a_project_admin_who_is_not_an_organization_owner_can_add_only_colleagues(studio: Studio, clients: str) -> None:
    admin = studio.add(member="member", role="admin")
    assert admin.refused(403, "POST", clients, json={"email": "a@b.example"})["code"] == "missing_role"
    repo = studio.world.repo_path
    body = {"permission": "pull"}
    assert admin.http.put(f"{repo}/collaborators/{studio.member.login}", json=body).status_code == 204
    assert admin.http.put(f"{repo}/collaborators/{studio.stranger.login}", json=body).status_code == 404
    assert studio.owner.http.put(f"{repo}/collaborators/{studio.stranger.login}", json=body).status_code == 201


def test_an_invalid_address_is_refused(studio: Studio, clients: str) -> None:
    cases: list[object] = ["", "jo", "@", "jo@", "a b@c.example", "a@b@c", f"{'a' * 250}@b.example", None, 7]
    for email in cases:
        assert studio.owner.faults("POST", clients, json={"email": email}) == {"email": "invalid"}, email


def test_concurrent_invitations_create_one_invitation(studio: Studio, clients: str) -> None:
    body = {"email": f"{_unique(studio, 'kim')}@a.example"}
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: studio.owner.call("POST", clients, json=body), range(6)))
    assert {each.status_code for each in answers} == {200}
    assert len({each.json()["invitation"]["id"] for each in answers}) == 1


# --- permissions -----------------------------------------------------------------------------------------------------


def test_a_client_cannot_see_or_remove_other_clients(studio: Studio, clients: str) -> None:
    other = studio.new_client(f"{_unique(studio, 'ed')}@a.example")
    name = studio.client.me["username"]
    [own] = [each for each in studio.owner.get(clients)["clients"] if each["username"] == name]
    studio.client.refused(404, "GET", f"/clients/{other['id']}")
    studio.client.refused(404, "DELETE", f"/clients/{other['id']}")
    assert studio.client.get(f"/clients/{own['id']}")["client"] == own
    studio.client.delete(f"/clients/{own['id']}")  # everyone can leave
    studio.client.refused(404, "GET", studio.project)


def test_an_app_on_its_own_cannot_change_who_is_in_a_project(studio: Studio, clients: str) -> None:
    """The same holds for members. On behalf of a user, an app may do what the user may, as the consent page says."""
    client = studio.new_client(f"{_unique(studio, 'bo')}@a.example")
    bot = studio.caller(make_app(studio.server, studio.world).token(studio.server))
    assert bot.get(clients)["clients"] == [client]
    member = f"{studio.project}/members"
    for method, path, body in (
        ("POST", clients, {"email": "a@b.example"}),
        ("DELETE", f"/clients/{client['id']}", None),
        ("POST", member, {"username": client["username"]}),
    ):
        assert bot.refused(403, method, path, json=body)["code"] == "missing_role"
    said = bot.refused(403, "POST", clients, json={"email": "a@b.example"})["message"]
    assert said.startswith("Apps acting on their own cannot invite clients")
    assert studio.owner.get(clients)["clients"] == [client]


def test_readers_see_clients_without_their_addresses(studio: Studio, clients: str) -> None:
    client = studio.new_client(f"{_unique(studio, 'al')}@a.example")
    reader = studio.add(role="read")
    hidden = {**client, "email": placeholder_address(client["username"])}
    assert reader.get(clients)["clients"] == [hidden]
    assert reader.get(f"/clients/{client['id']}")["client"] == hidden
    assert studio.member.get(clients)["clients"] == [client]


def test_a_client_sees_only_their_own_projects(studio: Studio) -> None:
    hidden = studio.owner.post("/projects", json={"title": "Other"})["project"]
    project = studio.client.get(studio.project)["project"]
    assert project == studio.owner.get(studio.project)["project"]
    assert studio.client.get("/projects")["projects"] == [project]
    studio.client.refused(404, "GET", f"/projects/{hidden['id']}")
    studio.owner.patch(studio.project, json={"private": True})
    assert studio.client.get(studio.project)["project"]["private"] is True


# --- remove ----------------------------------------------------------------------------------------------------------


def test_a_client_can_be_removed(studio: Studio, clients: str) -> None:
    client = studio.new_client(f"{_unique(studio, 'bo')}@a.example")
    path = f"/clients/{client['id']}"
    studio.happened()
    invited = _token(studio, client["username"])
    assert studio.member.delete(path) == {"success": True}
    [removed] = studio.happened()
    assert (removed.name, removed.action, removed.record) == ("client", "removed", client)
    invited.refused(404, "GET", studio.project)
    assert invited.get("/projects")["projects"] == []
    for method in ("GET", "DELETE"):
        studio.owner.refused(404, method, path)


@pytest.mark.parametrize("archived", [False, True])
def test_a_client_leaves_by_username(studio: Studio, archived: bool) -> None:
    """Clients are never shown the ID of their client record."""
    name = studio.client.me["username"]
    [record] = studio.owner.get(f"{studio.project}/clients")["clients"]
    studio.owner.patch(studio.project, json={"archive": archived})
    studio.happened()
    assert studio.client.delete(f"{studio.project}/members/{name.upper()}") == {"success": True}
    [removed] = studio.happened()
    assert (removed.name, removed.action, removed.record) == ("client", "removed", record)
    assert removed.payload["sender"]["username"] == name
    studio.client.refused(404, "GET", studio.project)
    assert studio.owner.get(f"{studio.project}/clients")["clients"] == []
    studio.client.refused(404, "DELETE", f"{studio.project}/members/{name}")
    entries = studio.owner.http.get(f"{studio.world.org_path}/audit-log").json()
    assert [each["target"] for each in entries if each["action"] == "client.remove"] == [record["id"]]


def test_no_other_user_can_remove_a_client_by_username(studio: Studio) -> None:
    name = studio.client.me["username"]
    path = f"{studio.project}/members/{name}"
    assert studio.add_client().refused(403, "DELETE", path)["code"] == "missing_role"
    for caller, status in ((studio.owner, 404), (studio.member, 403), (studio.stranger, 404)):
        caller.refused(status, "DELETE", path)
    assert studio.client.get(studio.project)["project"]["id"] == studio.project_id


def test_a_client_who_is_also_a_member_leaves_in_both_roles(studio: Studio, clients: str) -> None:
    name = studio.client.me["username"]
    collaborator = f"{studio.world.repo_path}/collaborators/{name}"
    added = studio.owner.http.put(collaborator, json={"permission": "push"})
    assert added.status_code == 201, added.text
    [invitation] = studio.client.http.get("/user/repository_invitations").json()
    assert studio.client.http.patch(f"/user/repository_invitations/{invitation['id']}").status_code == 204
    studio.happened()
    studio.client.delete(f"{studio.project}/members/{name}")
    assert sorted((each.name, each.action) for each in studio.happened()) == [
        ("client", "removed"),
        ("member", "removed"),
    ]
    studio.client.refused(404, "GET", studio.project)


# --- client sight ----------------------------------------------------------------------------------------------------
# What clients learn about other people, and what they can do to other people's work.


@pytest.fixture
def other(studio: Studio) -> Caller:
    """Return another client of the same project."""
    return studio.add_client()


def _names(task: JsonObject) -> list[str]:
    return [each["username"] for each in task["assignees"]]


# --- assignees -------------------------------------------------------------------------------------------------------


def test_a_client_can_assign_only_the_team_and_itself(studio: Studio, other: Caller) -> None:
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
    assert len(said) == 1, "another client looks like an unknown user"
    task = studio.client.new_task(column, assignees=[member, studio.client.login])
    assert set(_names(task)) == {member, studio.client.login}
    assert studio.owner.new_task(column, assignees=[foreign])["assignees"]


def test_a_client_does_not_see_other_clients_on_a_task(studio: Studio, other: Caller) -> None:
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
    assert set(_names(studio.owner.get(path)["task"])) == everybody, "no one was unassigned by that"


def test_a_client_changing_assignees_keeps_the_hidden_ones(studio: Studio, other: Caller) -> None:
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


def test_a_client_reads_and_changes_a_task_under_the_same_etag(studio: Studio, other: Caller) -> None:
    task = studio.client.new_task(studio.column())
    path = f"/tasks/{task['id']}"
    studio.owner.patch(path, json={"assignees": [other.login]})
    tag = studio.client.call("GET", path).headers["etag"]
    studio.client.patch(path, json={"title": "New"}, headers={"If-Match": tag})
    tag = studio.client.call("GET", path).headers["etag"]
    studio.client.delete(path, headers={"If-Match": tag})


def test_the_assignee_filter_reveals_no_other_client(studio: Studio, other: Caller) -> None:
    member, path = studio.member.login, f"{studio.project}/tasks"
    task_id = studio.task(assignees=[other.login, member, studio.client.login])

    def found(caller: Caller, name: str) -> list[str]:
        return [each["id"] for each in caller.get(path, params={"assignee": name})["tasks"]]

    assert found(studio.client, other.login) == []
    assert found(studio.client, member) == found(studio.client, studio.client.login.upper()) == [task_id]
    assert found(studio.owner, other.login) == found(studio.member, other.login) == [task_id]


def test_a_person_who_left_is_no_longer_shown_as_team(studio: Studio) -> None:
    writer = studio.add(role="write")
    task_id = studio.task(assignees=[writer.login])
    assert _names(studio.client.get(f"/tasks/{task_id}")["task"]) == [writer.login]
    studio.owner.delete(f"{studio.project}/members/{writer.login}")
    assert _names(studio.client.get(f"/tasks/{task_id}")["task"]) == []
    assert _names(studio.owner.get(f"/tasks/{task_id}")["task"]) == [writer.login]


def test_a_client_of_two_organizations_sees_only_the_team_of_each(studio: Studio, elsewhere: Studio) -> None:
    """A team member of one organization is a stranger in the other, even to a client of both."""
    email = studio.client.me["email"]
    elsewhere.new_client(email)
    column = elsewhere.column()
    faults = studio.client.faults(
        "POST", f"/columns/{column}/tasks", json={"title": "T", "assignees": [studio.member.login]}
    )
    assert faults == {"assignees": "invalid"}
    assert _names(studio.client.new_task(column, assignees=[elsewhere.owner.login])) == [elsewhere.owner.login]


def test_a_client_sees_no_address_but_its_own(studio: Studio, other: Caller) -> None:
    """Other clients appear with their usernames only, next to their comments and uploads."""
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


# --- work of others --------------------------------------------------------------------------------------------------


def _timer(studio: Studio, caller: Caller, task_id: str) -> str:
    made = caller.post(f"{studio.project}/timesheets", json={"task_id": task_id})["timesheet"]
    return f"/timesheets/{made['id']}"


@pytest.mark.parametrize("how", ["edit", "bulk"])
def test_a_client_moving_a_card_stops_no_running_timer(studio: Studio, how: str) -> None:
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


SAID = "others have worked on it, so a client cannot delete it; ask a team member to delete it."


def _refused_deletion(studio: Studio, path: str, what: str) -> None:
    """Check that the message does not depend on the reason and that nothing was deleted."""
    studio.happened()
    refused = studio.client.refused(409, "DELETE", path)
    assert (refused["code"], refused["message"]) == ("worked_on", f"{what}: {SAID}")
    assert studio.happened() == []
    studio.client.get(path)
    studio.member.delete(path)


@pytest.mark.parametrize("why", ["comment", "private comment", "time", "timer"])
def test_a_client_cannot_delete_a_task_others_have_worked_on(studio: Studio, why: str) -> None:
    task = studio.client.new_task(studio.column())
    comments = f"/tasks/{task['id']}/task_comments"
    studio.client.post(comments, json={"text": "Mine"})
    if why.startswith("time"):
        timer = _timer(studio, studio.member, task["id"])
        if why == "time":
            studio.member.post(f"{timer}/finish")
    else:
        studio.member.post(comments, json={"text": "Ours", "private": why == "private comment"})
    _refused_deletion(studio, f"/tasks/{task['id']}", "The task")


def test_a_bulk_request_cannot_delete_a_task_others_have_worked_on(studio: Studio) -> None:
    """The whole request is refused, including the client's other tasks. Members are not restricted."""
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


def test_a_client_can_delete_a_task_only_it_has_worked_on(studio: Studio) -> None:
    task = studio.client.new_task(studio.column())
    studio.client.post(f"/tasks/{task['id']}/task_comments", json={"text": "Mine"})
    other = studio.client.new_task(studio.column())
    studio.member.post(f"/tasks/{other['id']}/task_comments", json={"text": "Elsewhere"})
    assert studio.client.delete(f"/tasks/{task['id']}") == {"success": True}


@pytest.mark.parametrize("why", ["comment", "private comment", "reply", "private reply"])
def test_a_client_cannot_delete_a_file_others_have_worked_on(studio: Studio, why: str) -> None:
    file = f"/files/{_file_of(studio.client, studio)}"
    mine = studio.client.post(f"{file}/file_comments", json={"text": "Mine"})
    private = why.startswith("private")
    if why.endswith("comment"):
        studio.member.post(f"{file}/file_comments", json={"text": "Ours", "private": private})
    else:
        studio.member.post(f"/file_comments/{mine['id']}/comments", json={"body": "Ours", "private": private})
    _refused_deletion(studio, file, "The file")


def test_a_client_can_delete_a_file_only_it_has_worked_on(studio: Studio) -> None:
    file, other = (f"/files/{_file_of(studio.client, studio)}" for _ in range(2))
    mine = studio.client.post(f"{file}/file_comments", json={"text": "Mine"})
    studio.client.post(f"/file_comments/{mine['id']}/comments", json={"body": "Mine too"})
    studio.member.post(f"{other}/file_comments", json={"text": "Elsewhere"})
    assert studio.client.delete(file) == {"success": True}


def _file_of(caller: Caller, studio: Studio) -> str:
    upload = {"file": ("a.txt", b"a file", "text/plain")}
    return str(caller.post(f"{studio.project}/files", files=upload)["file"]["id"])


def _commented(studio: Studio) -> tuple[str, str]:
    """Return the path of a file's comments and that of the client's comment in it."""
    path = f"/files/{studio.file()}/file_comments"
    return path, f"/file_comments/{studio.client.post(path, json={'text': 'Mine'})['id']}"


@pytest.mark.parametrize("private", [True, False])
def test_a_client_deleting_its_comment_keeps_the_replies_of_others(studio: Studio, private: bool) -> None:
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


def test_a_client_deleting_its_comment_without_replies_of_others_leaves_nothing(studio: Studio) -> None:
    path, comment = _commented(studio)
    studio.client.post(f"{comment}/comments", json={"body": "And mine"})
    studio.happened()
    assert studio.client.delete(comment) == {"success": True}
    assert studio.member.get(path) == []
    assert [(each.name, each.action) for each in studio.happened()] == [("file_comment", "deleted")]
