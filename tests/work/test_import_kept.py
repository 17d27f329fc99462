"""Data kept from another service, which the team sees and which is not attributed to local users."""

from __future__ import annotations

import pytest

from tests.harness.clients import become_client
from tests.work.studio import Studio
from tests.work.trello_importer import Importer, columns_of, comment, comments_of, small, tasks_of
from workhook.core import json
from workhook.work.board.tasks.imported_fields import SOURCES, imported_of, own_fields_text, source_of
from workhook.work.portability.imports import asana, github, trello


def test_every_importer_field_is_recognized() -> None:
    modules = {trello: "Trello", asana: "Asana", github: "GitHub"}
    names = {
        value: source
        for module, source in modules.items()
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and value.startswith(f"{source.lower()}_")
    }
    assert len(names) > 15
    names |= {f"{source}_members": shown for source, shown in SOURCES.items()}
    for name, source in names.items():
        assert source_of(name) == source


@pytest.mark.parametrize(
    "name", ["trello", "Trello_url", "my_trello_url", "trello_", "Budget", "asana url", "github_repo"]
)
def test_custom_fields_of_users_are_not_importer_fields(name: str) -> None:
    text = json.encode_text({name: "1", "csv_members": "Eve"})
    assert json.decode(own_fields_text(text)) == {name: "1"}


@pytest.mark.parametrize("url", ["javascript:alert(1)", "", "ftp://example.com"])
def test_only_a_web_address_becomes_a_link(url: str) -> None:
    found = imported_of({"asana_url": url, "Budget": "1"})
    assert found is not None
    assert (found.source, found.url, found.fields) == ("Asana", None, {})
    assert imported_of({"Budget": "1"}) is None


def test_a_client_neither_sees_nor_overwrites_imported_data(studio: Studio, importer: Importer) -> None:
    card = {"url": "https://trello.com/c/abc", "start": "2024-01-01T00:00:00.000Z", "idMembers": ["m9"]}
    members = [{"id": "m9", "fullName": "Eve", "username": "eve"}]
    made = importer.board(small(card, members=members))
    project_id = made["project_id"]
    client = studio.stranger
    email = client.me["email"]

    studio.server.run(lambda services: become_client(services, project_id, email))
    column = columns_of(studio, project_id)[0]
    [task] = tasks_of(studio, column)
    assert set(task["fields"]) == {"trello_url", "trello_start", "trello_members"}
    path = f"/tasks/{task['id']}"
    studio.owner.patch(path, json={"fields": {**task["fields"], "Budget": "100"}})
    seen = [client.get(path)["task"], *client.get(f"/columns/{column['id']}/tasks")["tasks"]]
    seen += client.get(f"/projects/{project_id}/tasks")["tasks"]
    seen += [each for each in client.get("/tasks")["tasks"] if each["id"] == task["id"]]
    assert [each["fields"] for each in seen] == [{"Budget": "100"}] * 4
    table = client.http.get(f"/api/v1/projects/{project_id}/tasks", headers={"Accept": "text/csv"}).text
    assert "Budget" in table
    assert "trello" not in table
    mine = client.new_task(column["id"], fields={"Budget": "1"})["id"]
    studio.owner.patch(f"/tasks/{mine}", json={"fields": {"Budget": "1", "trello_url": "https://trello.com/c/1"}})
    client.patch(f"/tasks/{mine}", json={"fields": {"Budget": "2"}})
    kept = studio.owner.get(f"/tasks/{mine}")["task"]["fields"]
    assert kept == {"Budget": "2", "trello_url": "https://trello.com/c/1"}


def test_a_comment_keeps_its_author_and_time(studio: Studio, importer: Importer) -> None:
    author = {"id": "m9", "fullName": "Jane Doe", "username": "jane"}
    made = importer.board(small({}, actions=[comment(3, "Please make it red", author=author)]))
    [task] = tasks_of(studio, columns_of(studio, made["project_id"])[0])
    [said] = comments_of(studio, task["id"])
    expected = ("Please make it red", "Jane Doe (jane)", "2024-01-03T10:00:00.000Z")
    assert (said["text"], said["imported_author"], said["created_at"]) == expected
    [told] = [each.record for each in studio.happened() if each.name == "task_comment"]
    assert told["imported_author"] == "Jane Doe (jane)"
    path = f"/task_comments/{said['id']}"
    assert studio.owner.refused(403, "PATCH", path, json={"text": "Blue"})["code"] == "not_author"
    body = {"text": "Mine", "imported_author": "Jane Doe"}
    assert studio.owner.faults("POST", f"/tasks/{task['id']}/task_comments", json=body) == {
        "imported_author": "unknown"
    }
    mine = studio.owner.post(f"/tasks/{task['id']}/task_comments", json={"text": "Mine"})["task_comment"]
    assert mine["imported_author"] is None
