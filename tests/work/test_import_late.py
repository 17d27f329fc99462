"""People who join after an import are assigned their imported tasks."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.server import Server
from tests.harness.world import must
from tests.work.studio import Caller, Studio
from tests.work.trello_importer import Importer, columns_of, small, tasks_of
from workhook.chores import CHORES, run_once
from workhook.core.clock import now_ms
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.tables import accounts
from workhook.work.portability.imports import people as imported_people
from workhook.work.portability.imports.csv_tasks import read_rows
from workhook.work.portability.imports.people import add_strangers_field, without_name
from workhook.work.portability.imports.plan import Choices, Person, PlannedTask

EVE = {"id": "m9", "fullName": "Eve Example", "username": "eve"}


def assign_newcomers(server: Server) -> int:
    [chore] = [each for each in CHORES if each.name == "imported_assignees"]
    done: int = server.run(partial(run_once, chore=chore, now=now_ms()))
    return done


def join(studio: Studio, person: Caller, *, project_id: str | None = None) -> None:
    """Add the person to the organization, or only to one project."""

    async def add(services: Services) -> None:
        async with services.database.transaction() as tx:
            user = must(await queries.find_account(tx, person.login))
            place = must(await queries.find_account(tx, studio.world.organization))
            if project_id is None:
                await actions.set_member(tx, place, user, "member")
            else:
                repository = must(await queries.find_project(tx, project_id, user.id))
                await actions.set_collaborator(tx, repository, user, "read")

    studio.server.run(add)


def call(studio: Studio, person: Caller, name: str) -> None:
    statement = sa.update(accounts).where(accounts.c.login == person.login).values(name=name)

    studio.server.execute(statement, {})


def shown(studio: Studio, project_id: str) -> list[tuple[str, list[str], dict[str, str]]]:
    """Return the title, assignees and fields of each task."""
    found = [task for column in columns_of(studio, project_id) for task in tasks_of(studio, column)]
    return [(each["title"], [one["username"] for one in each["assignees"]], each["fields"]) for each in found]


def test_a_new_member_is_assigned_their_tasks(studio: Studio, importer: Importer) -> None:
    person, owner = studio.stranger, studio.owner
    known = {"id": "m1", "fullName": "Somebody", "username": person.login.upper()}
    cards: list[dict[str, Any]] = [
        {"idMembers": ["m1", "m9"]},
        {"idMembers": ["m9"]},
        {"idMembers": ["m1"], "url": "https://trello.com/c/a"},
    ]
    project_id = importer.board(small(*cards, members=[known, EVE]))["project_id"]
    name = f"Somebody ({person.login.upper()})"
    assert assign_newcomers(studio.server) == 0
    assert [each[1] for each in shown(studio, project_id)] == [[], [], []]
    join(studio, person)
    studio.happened()
    assert assign_newcomers(studio.server) == 2
    assert shown(studio, project_id) == [
        ("Card 0", [person.login], {"trello_members": "Eve Example (eve)"}),
        ("Card 1", [], {"trello_members": "Eve Example (eve)"}),
        ("Card 2", [person.login], {"trello_url": "https://trello.com/c/a"}),
    ]
    events = [each for each in studio.happened() if each.name == "task"]
    assert [(each.action, each.payload["sender"], set(each.changes)) for each in events] == [
        ("edited", None, {"assignees", "fields"})
    ] * 2
    assert events[0].changes["fields"]["from"] == {"trello_members": f"{name}, Eve Example (eve)"}
    assert person.get("/me/notifications")["notifications"] == []
    task = events[0].record["id"]
    owner.patch(f"/tasks/{task}", json={"assignees": []})
    assert assign_newcomers(studio.server) == 0
    assert owner.get(f"/tasks/{task}")["task"]["assignees"] == []


def test_a_person_is_matched_by_address_or_name(studio: Studio, importer: Importer) -> None:
    person, other = studio.stranger, studio.add()
    call(studio, other, "Zoë Quinn")
    table = f"Name,Assignee\nWrite,{person.me['email'].upper()}\nRead,zoë quinn\nPrint,nobody@example.com\n"
    project_id = importer.plan(read_rows(table.encode(), "Book", Choices()))["project_id"]
    join(studio, person)
    join(studio, other)
    assert assign_newcomers(studio.server) == 2
    assert shown(studio, project_id) == [
        ("Write", [person.login], {}),
        ("Read", [other.login], {}),
        ("Print", [], {"csv_members": "nobody@example.com"}),
    ]
    again = importer.plan(read_rows(f"Name,Assignee\nBind,{person.me['email']}\n".encode(), "Second book", Choices()))
    assert again["unmatched"] == []
    assert [each[1] for each in shown(studio, again["project_id"])] == [[person.login]]


def test_only_people_who_see_the_project_are_assigned(studio: Studio, importer: Importer) -> None:
    person, elsewhere = studio.stranger, studio.add()
    members = [{"id": f"m{at}", "fullName": "", "username": each.login} for at, each in enumerate((person, elsewhere))]
    made = importer.board(small({"idMembers": ["m0", "m1"]}, members=members))
    project_id = made["project_id"]
    studio.owner.patch(f"/projects/{project_id}", json={"private": True})
    join(studio, person)
    join(studio, elsewhere, project_id=studio.project_id)
    assert assign_newcomers(studio.server) == 0
    join(studio, person, project_id=project_id)
    studio.owner.patch(f"/projects/{project_id}", json={"archive": True})
    assert assign_newcomers(studio.server) == 0
    studio.owner.patch(f"/projects/{project_id}", json={"archive": False})
    assert assign_newcomers(studio.server) == 1
    assert shown(studio, project_id) == [("Card 0", [person.login], {"trello_members": elsewhere.login})]


def test_tasks_changed_in_the_meantime_are_left_alone(
    studio: Studio, importer: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imported_people, "_tasks_of", imported_people._tasks_of.limit(2))
    person = studio.stranger
    members = [{"id": "m1", "fullName": "", "username": person.login}]
    project_id = importer.board(small(*[{"idMembers": ["m1"]}] * 5, members=members))["project_id"]
    [column, *_] = columns_of(studio, project_id)
    tasks: list[dict[str, Any]] = tasks_of(studio, column)
    studio.owner.patch(f"/tasks/{tasks[0]['id']}", json={"fields": {"trello_members": "settled"}})
    studio.owner.delete(f"/tasks/{tasks[1]['id']}")
    join(studio, person)
    assert assign_newcomers(studio.server) == 4
    studio.owner.post(f"/tasks/{tasks[1]['id']}/restore")
    assert assign_newcomers(studio.server) == 1
    found = shown(studio, project_id)
    assert found[0] == ("Card 0", [], {"trello_members": "settled"})
    assert all(each[1:] == ([person.login], {}) for each in found[1:])
    assert len(found) == 5


names = st.text("ab ()", max_size=5) | st.just("Doe, Jane")
people = st.lists(st.builds(Person, st.just(""), names, names), max_size=4, unique_by=lambda one: one.display_name)


@given(people, st.randoms())
def test_removing_a_name_keeps_the_others(strangers: list[Person], order: Any) -> None:
    task = PlannedTask(
        key="t", column_key="c", title="T", description=None, deadline=None, labels=[], fields={"csv_url": "u"},
        members=[], finished=False, finished_at=None, created_at=None,
    )  # fmt: skip
    fields: dict[str, str] | None = add_strangers_field(task, strangers, "csv")
    for each in order.sample(strangers, len(strangers)):
        assert fields is not None
        fields = without_name(fields, each, "csv")
    assert fields == {"csv_url": "u"}
