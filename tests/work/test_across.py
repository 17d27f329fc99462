"""Lists across projects: everything visible to the caller, with the filters of a project's lists."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.work.studio import Caller, JsonObject, Studio
from workhook.core.clock import DAY_MS, now_ms, parse_rfc3339
from workhook.work.history import trash

TITLES = ["first", "second", "third"]


class Across:
    """Two projects everyone in the studio sees, a private one, and objects of each kind in them."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.other = self._project("Other")
        self.hidden = self._project("Hidden", private=True)
        self.projects = [studio.project_id, self.other, self.hidden]
        self.columns = [studio.column(project=f"/projects/{each}") for each in self.projects]

    def _project(self, title: str, **more: Any) -> str:
        made = self.studio.owner.post(
            "/projects", json={"title": title, "organization": self.studio.world.organization, **more}
        )
        return str(made["project"]["id"])

    def add_tasks(self, **more: Any) -> list[str]:
        """Add one task to each project, the hidden one last."""
        pairs = zip(self.columns, TITLES, strict=True)
        return [self.studio.task(column, title, **more) for column, title in pairs]


@pytest.fixture
def across(studio: Studio) -> Across:
    return Across(studio)


def listed(caller: Caller, path: str, **query: Any) -> list[JsonObject]:
    answer = caller.get(path, params=query)
    assert answer["success"] is True
    found: list[JsonObject] = answer[path.split("/")[1]]
    return found


def titles(caller: Caller, **query: Any) -> list[str]:
    return [each["title"] for each in listed(caller, "/tasks", **query)]


def pages_of(caller: Caller, path: str, **query: Any) -> Iterator[list[JsonObject]]:
    """Yield the pages, following the `Link` header."""
    address = f"{path}?{urlencode(query)}"
    while address:
        response = caller.call("GET", address)
        assert response.status_code == 200, response.text
        yield next(each for each in response.json().values() if isinstance(each, list))
        address = response.links.get("next", {}).get("url", "").partition("/api/v1")[2]


def test_the_task_list_covers_every_project_visible_to_the_caller(across: Across) -> None:
    studio = across.studio
    ids = across.add_tasks()
    assert titles(studio.owner) == TITLES
    assert titles(studio.member) == TITLES[:2]
    assert titles(studio.client) == TITLES[:1]
    assert titles(studio.stranger) == []
    assert studio.nobody.call("GET", "/tasks").status_code == 401
    whole = [studio.owner.get(f"/tasks/{each}")["task"] for each in ids]
    assert listed(studio.owner, "/tasks") == whole


def test_deleted_tasks_are_not_listed_but_archived_ones_are(across: Across) -> None:
    studio = across.studio
    first, *_ = across.add_tasks()
    studio.owner.patch(f"/projects/{across.other}", json={"archive": True})
    studio.owner.delete(f"/tasks/{first}")
    assert titles(studio.owner) == TITLES[1:]
    studio.owner.delete(f"/projects/{across.hidden}")
    assert titles(studio.owner) == TITLES[1:2]


def test_a_list_can_be_narrowed_by_project_and_organization(across: Across) -> None:
    studio = across.studio
    across.add_tasks()
    own, other, hidden = across.projects
    assert titles(studio.owner, project_id=other) == ["second"]
    assert titles(studio.owner, project_id=f"{hidden}, {own}") == ["first", "third"]
    assert titles(studio.owner, organization=studio.world.organization.upper()) == TITLES
    assert titles(studio.owner, organization=studio.world.owner) == []
    assert titles(studio.member, project_id=f"{own},{hidden},prj_x") == ["first"]
    assert titles(studio.member, organization="nobody-at-all") == []
    assert studio.owner.faults("GET", "/tasks", params={"project_id": ""}) == {"project_id": "invalid"}
    assert studio.owner.faults("GET", "/tasks", params={"colour": "red"}) == {"colour": "unknown"}


def test_the_task_list_has_the_filters_of_a_project(across: Across) -> None:
    studio = across.studio
    [a, b, c] = across.columns
    studio.task(a, "door", priority="High", labels=["home"], deadline="2026-12-01", assignees=[studio.member.login])
    studio.task(b, "Window", priority="low", deadline="2026-12-03", description="of the kitchen")
    studio.task(c, "roof", priority="low", labels=["home"], assignees=[studio.world.owner])
    owner = studio.owner
    assert titles(owner, priority="LOW") == ["Window", "roof"]
    assert titles(owner, label="home") == ["door", "roof"]
    assert titles(owner, deadline_before="2026-12-02") == ["door"]
    assert titles(owner, q="kitch") == ["Window"]
    assert titles(owner, q="kitch", priority="high") == []
    assert titles(owner, assignee="me") == ["roof"]
    assert titles(studio.member, assignee="me", finished="false") == ["door"]
    assert titles(owner, assignee=studio.member.login) == ["door"]
    assert titles(studio.member, q="roof") == []


@pytest.mark.parametrize("sort", ["title", "-title", "deadline", "-deadline", "created_at", "-updated_at", None])
def test_paging_continues_in_every_sort_order(across: Across, sort: str | None) -> None:
    studio = across.studio
    for number, column in enumerate(across.columns * 3):
        more = {"deadline": f"2026-12-0{number % 4 + 1}"} if number % 3 else {}
        studio.task(column, f"{number * 5 % 9}", **more)
    query = {"sort": sort} if sort else {}
    whole = [each["id"] for each in listed(studio.owner, "/tasks", **query)]
    assert len(set(whole)) == 9
    pages = list(pages_of(studio.owner, "/tasks", per_page=2, **query))
    assert [each["id"] for page in pages for each in page] == whole
    assert max(map(len, pages)) == 2
    of_each = [
        [each["id"] for each in studio.owner.get(f"/projects/{project}/tasks", params=query)["tasks"]]
        for project in across.projects
    ]
    for ids in of_each:
        assert [each for each in whole if each in ids] == ids


def test_a_client_sees_only_itself_and_the_team_on_tasks(across: Across) -> None:
    studio = across.studio
    other_client = studio.add_client()
    names = [studio.member.login, studio.client.login, other_client.login]
    studio.task(across.columns[0], "door", assignees=names)
    [task] = listed(studio.client, "/tasks")
    assert [each["username"] for each in task["assignees"]] == names[:2]
    assert titles(studio.client, assignee=studio.member.login) == ["door"]
    assert titles(studio.client, assignee="me") == ["door"]
    assert titles(studio.client, assignee=other_client.login) == []
    [task] = listed(studio.owner, "/tasks")
    assert {each["username"] for each in task["assignees"]} == set(names)


def test_a_client_does_not_see_the_address_of_a_team_member(across: Across) -> None:
    studio = across.studio
    studio.task(across.columns[0], "door", assignees=[studio.member.login])
    mine = studio.member.me["email"]
    for caller in (studio.owner, studio.member):
        [task] = listed(caller, "/tasks")
        assert task["assignees"][0]["email"] == mine
    [task] = listed(studio.client, "/tasks")
    assert task["assignees"][0]["email"] != mine


def test_the_timesheet_list_covers_every_project(across: Across) -> None:
    studio = across.studio
    for caller, task, more in (
        (studio.owner, across.add_tasks()[0], {"duration": 1000}),
        (studio.owner, across.add_tasks()[1], {"duration": 2000, "billable": True}),
        (studio.owner, across.add_tasks()[2], {"duration": 3000}),
        (studio.member, across.add_tasks()[1], {"duration": 4000, "start_time": "2026-01-02T00:00:00Z"}),
    ):
        project = caller.get(f"/tasks/{task}")["task"]["project"]["id"]
        caller.post(f"/projects/{project}/timesheets", json={"task_id": task, **more})

    def durations(caller: Caller, **query: Any) -> list[int]:
        return [each["duration"] for each in listed(caller, "/timesheets", **query)]

    assert durations(studio.owner) == [1000, 2000, 3000, 4000]
    assert durations(studio.member) == [1000, 2000, 4000]
    assert durations(studio.client) == durations(studio.stranger) == []
    assert durations(studio.owner, user="me") == [1000, 2000, 3000]
    assert durations(studio.owner, user=studio.member.login, finished="true") == [4000]
    assert durations(studio.owner, billable="true") == [2000]
    assert durations(studio.owner, to="2026-02-01") == [4000]
    assert durations(studio.owner, project_id=f"{across.other},{across.hidden}") == [2000, 3000, 4000]
    of_task = listed(studio.owner, "/timesheets")[3]
    assert durations(studio.owner, task_id=of_task["task"]["id"]) == [4000]
    assert studio.owner.get(f"/timesheets/{of_task['id']}")["timesheet"] == of_task


def _tables(caller: Caller, **query: Any) -> Iterator[tuple[list[dict[str, str]], bool]]:
    """Yield the rows of each page and whether another page follows."""
    address = f"/timesheets?{urlencode(query)}"
    while address:
        answer = caller.http.get(f"/api/v1{address}" if address.startswith("/t") else address, headers=AS_TABLE)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8"), answer.text
        assert 'filename="timesheets.csv"' in answer.headers["content-disposition"]
        address = answer.links.get("next", {}).get("url", "")
        yield list(csv.DictReader(io.StringIO(answer.text, newline=""))), bool(address)


AS_TABLE = {"Accept": "text/csv"}


def test_timesheets_of_every_project_can_be_read_as_csv(across: Across, monkeypatch: pytest.MonkeyPatch) -> None:
    studio = across.studio
    studio.owner.patch(f"/projects/{across.other}/billing", json={"currency": "JPY", "hourly_rate": 6000})
    for number, task in enumerate(across.add_tasks(), 1):
        project = studio.owner.get(f"/tasks/{task}")["task"]["project"]["id"]
        body = {"task_id": task, "duration": number * 3_600_000, "billable": True, "notes": f"=note {number}"}
        studio.owner.post(f"/projects/{project}/timesheets", json=body)
    [(rows, more)] = list(_tables(studio.owner))
    assert not more
    assert [each["project"] for each in rows][1:] == ["Other", "Hidden"]
    assert {each["organization"] for each in rows} == {studio.world.organization}
    assert [(each["hours"], each["notes"]) for each in rows] == [(f"{n}.00", f"'=note {n}") for n in (1, 2, 3)]
    assert (rows[1]["billable_rate"], rows[1]["amount"], rows[1]["currency"]) == ("6000", "12000", "JPY")
    pages = list(_tables(studio.owner, per_page=1))
    assert [row for page, _ in pages for row in page] == rows
    assert [row["project"] for page, _ in _tables(studio.member) for row in page][1:] == ["Other"]
    for caller in (studio.client, studio.stranger):
        assert list(_tables(caller)) == [([], False)]
    assert listed(studio.owner, "/timesheets")[0]["id"] == rows[0]["id"]


def test_running_timers_are_listed_across_projects(across: Across) -> None:
    studio = across.studio
    tasks = across.add_tasks()
    assert listed(studio.owner, "/timesheets/running") == []
    studio.owner.post(f"/projects/{across.hidden}/timesheets", json={"task_id": tasks[2]})
    studio.member.post(f"/projects/{across.other}/timesheets", json={"task_id": tasks[1]})
    running = listed(studio.owner, "/timesheets/running")
    assert [each["task"]["title"] for each in running] == ["third", "second"]
    assert [each["task"]["title"] for each in listed(studio.owner, "/timesheets/running", user="me")] == ["third"]
    assert [each["task"]["title"] for each in listed(studio.member, "/timesheets/running")] == ["second"]
    assert listed(studio.client, "/timesheets/running") == []
    pages = list(pages_of(studio.owner, "/timesheets/running", per_page=1))
    assert [each["id"] for page in pages for each in page] == [each["id"] for each in running]


def test_the_invoice_list_covers_every_project(across: Across) -> None:
    studio = across.studio
    for project, due in zip(across.projects, ("2026-01-01", "2031-01-01", None), strict=True):
        items = [{"description": "Work", "qty": 1, "unit_price": 10}]
        body = {"bill_to": project, "invoice_items": items, "due": due}
        made = studio.owner.post(f"/projects/{project}/invoices", json=body)["invoice"]
        if due:
            studio.owner.post(f"/invoices/{made['id']}/send")
    draft = studio.owner.post(f"{studio.project}/invoices", json={"bill_to": "draft"})["invoice"]

    def named(caller: Caller, **query: Any) -> list[str]:
        return [each["bill_to"] for each in listed(caller, "/invoices", **query)]

    assert named(studio.owner) == [*across.projects, "draft"]
    assert named(studio.member) == [*across.projects[:2], "draft"]
    assert named(studio.client) == across.projects[:1]
    assert named(studio.stranger) == []
    assert named(studio.owner, status="draft") == [across.hidden, "draft"]
    assert named(studio.client, status="draft") == []
    assert named(studio.owner, overdue="true") == across.projects[:1]
    assert named(studio.owner, overdue="false") == [across.other, across.hidden, "draft"]
    assert named(studio.owner, overdue="true", status="sent") == across.projects[:1]
    assert named(studio.owner, user="me") == [*across.projects, "draft"]
    assert named(studio.owner, q="DRAFT") == named(studio.member, q="raf") == ["draft"]
    assert named(studio.client, q="draft") == named(studio.owner, q="draft", status="sent") == []
    assert named(studio.member, q=across.hidden) == named(studio.owner, q="?!") == []
    number = listed(studio.client, "/invoices")[0]["invoice_number"]
    assert across.projects[0] in named(studio.owner, q=number)
    assert named(studio.owner, user=studio.member.login) == []
    found = listed(studio.owner, "/invoices")[-1]
    assert found.pop("project") == {
        "id": studio.project_id,
        "title": studio.owner.get(studio.project)["project"]["title"],
    }
    assert studio.owner.get(f"/invoices/{draft['id']}")["invoice"] == found


def test_the_file_list_covers_every_project(across: Across) -> None:
    studio = across.studio
    for number, project in enumerate(across.projects):
        for private in (False, True):
            files = {"file": ("plan.txt", b"a file", "text/plain")}
            form = {"title": f"{number}{private}", "private": str(private).lower()}
            studio.owner.post(f"/projects/{project}/files", files=files, data=form)

    def named(caller: Caller, **query: Any) -> list[str]:
        return [each["title"] for each in listed(caller, "/files", **query)]

    every = [f"{number}{private}" for number in range(3) for private in (False, True)]
    assert named(studio.owner) == every
    assert named(studio.member) == every[:4]
    assert named(studio.client) == every[:1]
    assert named(studio.stranger) == []
    assert named(studio.owner, user="me") == every
    assert named(studio.owner, user=studio.member.login) == []
    first = listed(studio.owner, "/files")[0]
    assert studio.owner.get(f"/files/{first['id']}")["file"] == first
    folder = studio.owner.post(f"/projects/{across.other}/folders", json={"title": "Plans"})["folder"]["id"]
    studio.owner.patch(f"/files/{listed(studio.owner, '/files')[2]['id']}", json={"folder": folder})
    assert named(studio.owner, folder=folder) == ["1False"]
    studio.owner.delete(f"/files/{first['id']}")
    assert named(studio.owner) == every[1:]


def test_the_comment_list_covers_every_project_and_includes_replies(across: Across) -> None:
    studio, owner = across.studio, across.studio.owner
    tasks, file = across.add_tasks(), studio.file("seen.txt")
    secret = studio.file("secret.txt", private="true")
    owner.post(f"/tasks/{tasks[0]}/task_comments", json={"text": "on a task"})
    comment = owner.post(f"/files/{file}/file_comments", json={"text": "on a file"})
    body = "<p>a <b>reply</b></p>"
    reply = studio.member.post(f"/file_comments/{comment['id']}/comments", json={"body": body})["comment"]
    owner.post(f"/tasks/{tasks[0]}/task_comments", json={"text": "private", "private": True})
    owner.post(f"/files/{secret}/file_comments", json={"text": "on a secret"})
    owner.post(f"/tasks/{tasks[2]}/task_comments", json={"text": "hidden"})

    def texts(caller: Caller, **query: Any) -> list[str]:
        return [each["text"] for each in listed(caller, "/comments", **query)]

    every = ["on a task", "on a file", "a reply", "private", "on a secret", "hidden"]
    assert texts(owner) == every
    assert texts(studio.member) == every[:5]
    assert texts(studio.client) == every[:3]
    assert texts(studio.stranger) == []
    assert texts(owner, user=studio.member.login) == ["a reply"]
    assert texts(studio.member, user="me") == ["a reply"]
    assert texts(owner, project_id=across.hidden) == ["hidden"]
    [first, second, third] = listed(studio.client, "/comments")
    assert (first["kind"], first["task"], first["file"]) == (
        "task_comment", {"id": tasks[0], "title": "first"}, None,
    )  # fmt: skip
    assert (second["kind"], second["id"], second["task"]) == ("file_comment", comment["id"], None)
    assert second["file"]["title"] == "seen.txt"
    assert studio.nobody.http.get(second["file"]["link"]).text == "a file"
    assert (third["kind"], third["id"], third["file_comment_id"]) == ("reply", reply["id"], comment["id"])
    assert third["user"]["username"] == studio.member.login
    assert {each["project"]["id"] for each in (first, second, third)} == {studio.project_id}
    owner.delete(f"/files/{file}")
    owner.delete(f"/tasks/{tasks[2]}")
    assert texts(owner) == ["on a task", "private", "on a secret"]


def test_a_column_has_the_filters_of_a_project(studio: Studio) -> None:
    column, done = studio.column(), studio.column("Done", stage="done")
    member = studio.member.login
    studio.task(column, "door", priority="high", labels=["home"], assignees=[member], deadline="2026-12-01")
    studio.task(column, "window", priority="low", description="of the kitchen")
    studio.task(column, "roof", priority="high", position=0)
    studio.task(done, "floor", priority="high")
    path = f"/columns/{column}/tasks"

    def found(**query: Any) -> list[str]:
        return [each["title"] for each in studio.owner.get(path, params=query)["tasks"]]

    assert found(priority="high") == ["roof", "door"]
    assert found(assignee=member, priority="high") == ["door"]
    assert found(label="home") == found(deadline_before="2026-12-02") == found(deadline_after="2026-11-30") == ["door"]
    assert found(finished="true") == []
    assert found(q="kitch") == ["window"]
    whole = studio.owner.get(path)["tasks"]
    assert studio.owner.get(path, params={"finished": "false"})["tasks"] == whole
    pages = list(pages_of(studio.owner, path, per_page=1, finished="false"))
    assert [each["title"] for page in pages for each in page] == ["roof", "door", "window"]
    assert studio.owner.faults("GET", path, params={"sort": "title"}) == {"sort": "unknown"}
    assert studio.owner.refused(404, "GET", path, params={"priority": "high", "project_id": "prj_x"})
    studio.stranger.refused(404, "GET", path, params={"priority": "high"})
    assert [each["title"] for each in studio.client.get(path, params={"assignee": member})["tasks"]] == ["door"]


# --- tasks list ------------------------------------------------------------------------------------------------------
# A project's task list: filters, sorting, paging and the trash.


def titles_of(studio: Studio, **query: Any) -> list[str]:
    tasks = studio.owner.get(f"{studio.project}/tasks", params=query)["tasks"]
    return [each["title"] for each in tasks]


@pytest.fixture
def board(studio: Studio) -> Studio:
    todo, done = studio.column(), studio.column("Done", stage="done")
    member = studio.member.login
    studio.task(todo, "door", priority="High", labels=["home", "a,b"], deadline="2026-12-01", assignees=[member])
    studio.task(todo, "Window", priority="low", labels=["home"], deadline="2026-12-03", description="of the kitchen")
    studio.task(done, "roof", priority="low", assignees=[member, studio.world.owner])
    studio.task(todo, "attic", labels=['"home"', ","], deadline="2026-12-02T12:00:00Z")
    return studio


def test_tasks_can_be_filtered(board: Studio) -> None:
    cases: list[tuple[JsonObject, list[str]]] = [
        ({}, ["door", "Window", "roof", "attic"]),
        ({"priority": "LOW"}, ["Window", "roof"]),
        ({"label": "home"}, ["door", "Window"]),
        ({"label": "Home"}, []),
        ({"label": "a,b"}, ["door"]),
        ({"label": ","}, ["attic"]),
        ({"label": '"home"'}, ["attic"]),
        ({"deadline_before": "2026-12-03"}, ["door", "attic"]),
        ({"deadline_after": "2026-12-01"}, ["Window", "attic"]),
        ({"deadline_after": "2026-12-02"}, ["Window"]),
        ({"deadline_after": "2026-12-02", "timezone": "Pacific/Auckland"}, ["Window", "attic"]),
        ({"deadline_before": "2026-12-02"}, ["door"]),
        ({"deadline_before": "2026-12-02", "timezone": "Etc/GMT+12"}, ["door"]),
        ({"deadline_before": "2026-12-03", "timezone": "Pacific/Auckland"}, ["door"]),
        ({"deadline_after": "2026-12-01", "timezone": "Pacific/Pago_Pago"}, ["Window", "attic"]),
        ({"deadline_after": "2026-12-02T00:00:00Z"}, ["Window", "attic"]),
        ({"deadline_after": "2026-12-01", "deadline_before": "2026-12-02T12:00:00+00:00"}, []),
        ({"finished": "true"}, ["roof"]),
        ({"finished": "false"}, ["door", "Window", "attic"]),
        ({"q": "window"}, ["Window"]),
        ({"q": "kitch"}, ["Window"]),
        ({"q": "!!"}, []),
        ({"priority": "low", "finished": "false"}, ["Window"]),
        ({"assignee": board.member.login.upper()}, ["door", "roof"]),
        ({"assignee": board.world.owner}, ["roof"]),
        ({"assignee": "nobody-at-all"}, []),
    ]
    for query, wanted in cases:
        assert titles_of(board, **query) == wanted, query


def test_listed_records_are_complete(board: Studio) -> None:
    listed = board.owner.get(f"{board.project}/tasks")["tasks"]
    for each in listed:
        assert board.owner.get(f"/tasks/{each['id']}")["task"] == each
    for column_id in {each["column"]["id"] for each in listed}:  # full columns and pages take different code paths
        path = f"/columns/{column_id}/tasks"
        found = board.owner.get(path)["tasks"]
        by_id = sorted(found, key=lambda each: str(each["id"]))
        assert by_id == [each for each in listed if each["column"]["id"] == column_id]
        assert board.owner.get(path, params={"per_page": 1})["tasks"] == found[:1]


SORTED = {
    "created_at": ["door", "Window", "roof", "attic", "late"],
    "updated_at": ["Window", "roof", "attic", "late", "door"],
    "deadline": ["door", "attic", "Window", "roof", "late"],
}


@pytest.mark.parametrize("per_page", [1, 3])
@pytest.mark.parametrize("name", ["created_at", "updated_at", "deadline", "title"])
def test_sorting_is_stable_across_pages(board: Studio, name: str, per_page: int) -> None:
    [column_id] = {each["column"]["id"] for each in board.owner.get(f"{board.project}/tasks")["tasks"][:1]}
    board.task(column_id, "late")
    first = board.owner.get(f"{board.project}/tasks")["tasks"][0]
    board.owner.patch(f"/tasks/{first['id']}", json={"description": "changed last"})
    for sort in (name, f"-{name}"):
        listed = list(pages_of(board.owner, f"{board.project}/tasks", sort=sort, per_page=per_page))
        assert {len(page) for page in listed[:-1]} <= {per_page}
        found = [each["title"] for page in listed for each in page]
        if name == "title":  # uppercase sorts first or next to its lowercase letter, depending on the database
            assert sorted(found) == sorted(titles_of(board))
            lower = [each for each in found if each.islower()]
            assert lower == sorted(lower, reverse=sort.startswith("-"))
        elif name == "deadline" and sort.startswith("-"):
            assert found == ["Window", "attic", "door", "late", "roof"]  # no deadline: last in both directions
        else:
            assert found == (SORTED[name][::-1] if sort.startswith("-") else SORTED[name])


def test_invalid_query_parameters_are_refused(studio: Studio) -> None:
    path = f"{studio.project}/tasks"
    wrong = {
        "sort": "position", "priority": "urgent", "finished": "maybe", "deadline_before": "soon", "per_page": "0",
    }  # fmt: skip
    assert studio.owner.faults("GET", path, params=wrong) == dict.fromkeys(wrong, "invalid")
    for cursor in ({"cursor": "v1_WzEsMl0"}, {"cursor": "v1_WyJhIiwiYiJd", "sort": "deadline"}):
        assert studio.owner.faults("GET", path, params=cursor) == {"cursor": "invalid"}


# --- the trash --------------------------------------------------------------------------------------------------------


def in_the_trash(studio: Studio) -> list[JsonObject]:
    found: list[JsonObject] = studio.owner.get(f"{studio.project}/trash")["trash"]
    return found


def purged(studio: Studio, days: int) -> int:
    count: int = studio.server.run(lambda services: trash.purge_tasks(services, now_ms() + days * DAY_MS))
    return count


def test_a_deleted_task_stays_in_the_trash_for_a_month(studio: Studio) -> None:
    column_id = studio.column()
    made = [studio.task(column_id, title) for title in "ABC"]
    for each in made[:2]:
        studio.owner.delete(f"/tasks/{each}")
    found = in_the_trash(studio)
    shown = [(each["type"], each["id"], each["title"]) for each in found]
    assert shown == [("task", made[1], "B"), ("task", made[0], "A")]
    assert abs(parse_rfc3339(found[0]["deleted_at"]) - now_ms()) < DAY_MS
    assert purged(studio, 29) == 0
    studio.owner.post(f"/tasks/{made[0]}/restore")
    assert purged(studio, 31) >= 1
    assert in_the_trash(studio) == []
    studio.owner.refused(404, "POST", f"/tasks/{made[1]}/restore")
    assert titles_of(studio) == ["A", "C"]


def test_a_task_with_recorded_time_is_not_purged(studio: Studio) -> None:
    column_id = studio.column()
    made = [studio.task(column_id, str(number)) for number in range(130)]  # more than one batch
    body = {"task_id": made[0], "duration": 60_000}
    timesheet = studio.owner.post(f"{studio.project}/timesheets", json=body)["timesheet"]
    operations = [{"action": "delete", "id": each} for each in made]
    studio.owner.post("/tasks/bulk", json={"operations": operations})
    assert purged(studio, 31) >= 129
    assert [each["id"] for each in in_the_trash(studio)] == [made[0]]
    kept = studio.owner.get(f"/timesheets/{timesheet['id']}")["timesheet"]
    assert kept["task"] == {"id": made[0], "title": "0"}
