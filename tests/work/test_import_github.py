"""GitHub issues and projects as printed by `gh`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.work.studio import Studio
from tests.work.trello_importer import Importer, board_of, columns_of, comments_of, logins, tasks_of
from workhook.core.clock import parse_rfc3339
from workhook.work.portability.imports import github
from workhook.work.portability.imports.github import plan_of_files, title_in
from workhook.work.portability.imports.json_file import InvalidFile
from workhook.work.portability.imports.plan import Choices, ImportPlan

Object = dict[str, Any]

REPOSITORY = "https://github.com/acme/website"


def issue(number: int, title: str, **more: Any) -> Object:
    """Return an issue with the fields that docs/team/import.md requests."""
    return {
        "assignees": [], "author": {"id": "U_1", "is_bot": False, "login": "ada", "name": "Ada Lovelace"}, "body": "",
        "closedAt": None, "comments": [], "createdAt": "2026-01-01T10:00:00Z", "labels": [], "milestone": None,
        "number": number, "state": "OPEN", "title": title, "url": f"{REPOSITORY}/issues/{number}", **more,
    }  # fmt: skip


def item(number: int, title: str, status: str | None = None, kind: str = "Issue", **more: Any) -> Object:
    place = "pull" if kind == "PullRequest" else "issues"
    content: Object = {
        "body": "", "number": number, "repository": "acme/website", "title": title, "type": kind,
        "url": f"{REPOSITORY}/{place}/{number}",
    }  # fmt: skip
    if kind == "DraftIssue":
        content = {"body": "", "title": title, "type": kind, "id": f"DI_{number}"}
    found = {"content": content, "id": f"PVTI_{number}", "repository": REPOSITORY, "title": title, **more}
    return found if status is None else {**found, "status": status}


def comment(number: int, login: str, body: str) -> Object:
    return {
        "id": f"IC_{number}", "author": {"login": login}, "authorAssociation": "MEMBER", "body": body,
        "createdAt": f"2026-01-0{number}T10:00:00Z", "includesCreatedEdit": False, "isMinimized": False,
        "minimizedReason": "", "reactionGroups": [{"content": "HEART", "users": {"totalCount": 2}}],
        "url": f"{REPOSITORY}/issues/1#issuecomment-{number}", "viewerDidAuthor": False,
    }  # fmt: skip


def encoded(found: Any) -> bytes:
    return json.dumps(found).encode()


def plan(*files: Any, title: str = "Website", **more: Any) -> ImportPlan:
    return plan_of_files([github.read_file(encoded(each)) for each in files], title, Choices(**more))


def issues_with(*logins: str) -> list[Object]:
    return [
        issue(3, "Third", state="CLOSED", closedAt="2026-01-03T10:00:00Z", stateReason="NOT_PLANNED"),
        issue(
            1, "First", body="What to *do*", assignees=[{"id": "U_2", "login": each, "name": ""} for each in logins],
            labels=[{"id": "LA", "name": "bug", "description": "", "color": "d73a4a"}],
            milestone={"number": 1, "title": "v1.0", "description": "", "dueOn": None},
            comments=[comment(1, "ada", "Said"), comment(2, "bob", "Answered")],
        ),
    ]  # fmt: skip


def test_issues_are_open_or_closed() -> None:
    made = plan(issues_with("bob"))
    assert [(each.title, each.stage) for each in made.columns] == [("Open", None), ("Closed", "done")]
    third, first = made.tasks
    assert (third.key, third.finished, third.finished_at) == (
        f"task:Website/{REPOSITORY}/issues/3", True, parse_rfc3339("2026-01-03T10:00:00Z"),
    )  # fmt: skip
    assert third.fields == {
        "github_url": f"{REPOSITORY}/issues/3", "github_number": "3", "github_author": "Ada Lovelace (ada)",
        "github_reason": "not_planned",
    }  # fmt: skip
    assert (first.description, first.labels, first.finished) == ("What to *do*", ["bug"], False)
    assert first.created_at == parse_rfc3339("2026-01-01T10:00:00Z")
    assert first.fields["github_milestone"] == "v1.0"
    assert made.label_colors == {"bug": "red"}
    assert [each.username for each in first.members] == ["bob"]
    assert [(each.author.username, each.text) for each in first.comments] == [("ada", "Said"), ("bob", "Answered")]
    assert {each.what: (each.count, each.names, each.kept) for each in made.lost} == {
        "milestones": (1, ["v1.0"], "the field github_milestone"),
        "reactions": (4, ["First"], None),
    }


def test_project_columns_are_the_status_values() -> None:
    items: Object = {
        "items": [
            item(1, "First", "In progress", assignees=["bob"], labels=["bug"], priority="High", size="M", estimate=3,
                 **{"target date": "2026-02-01"}),
            item(9, "A pull request", "Done", kind="PullRequest"),
            item(10, "An idea", kind="DraftIssue", iteration={"title": "Sprint 1", "startDate": "2026-01-01"}),
        ],
        "totalCount": 3,
    }  # fmt: skip
    made = plan(issues_with("bob"), items)
    titles = {each.key: each.title for each in made.columns}
    assert [(each.title, titles[each.column_key], each.finished) for each in made.tasks] == [
        ("First", "In progress", False), ("A pull request", "Done", True), ("An idea", "No status", False),
        ("Third", "Closed", True),
    ]  # fmt: skip
    first, pull, idea, _ = made.tasks
    assert (first.description, first.priority, len(first.comments)) == ("What to *do*", "high", 2)
    assert first.deadline == parse_rfc3339("2026-02-01T00:00:00Z")
    assert {name: text for name, text in first.fields.items() if "github" not in name} == {"size": "M", "estimate": "3"}
    assert (first.labels, [each.username for each in first.members]) == (["bug"], ["bob"])
    assert pull.fields["github_type"] == "pull request"
    assert idea.fields == {"github_type": "draft", "iteration": "Sprint 1"}
    assert idea.key == "task:Website/PVTI_10"
    assert [each.key for each in plan({"items": items["items"][:1]}).tasks] == [first.key], "with issues and without"


def test_issues_without_urls_are_matched_by_number() -> None:
    bare = [{"number": 1, "title": "First", "body": "Whole"}, {"number": 2, "title": "Second"}]
    made = plan(bare, {"items": [item(1, "First", "Doing")]})
    assert [(each.title, each.description) for each in made.tasks] == [("First", "Whole"), ("Second", None)]
    with pytest.raises(InvalidFile, match="two issues have the number 1; add the field url to gh's output"):
        plan(bare, [{"number": 1, "title": "Of another repository"}])


def test_the_title_is_the_name_of_the_repository() -> None:
    one, other = issue(1, "a"), issue(2, "b", url="https://github.com/acme/blog/issues/2")
    read = [github.read_file(encoded([one])), github.read_file(encoded([other]))]
    assert title_in(read[:1], "file") == "acme/website"
    assert title_in(read, "file") == "file"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"issues": []}, ["this is neither a list of issues nor the items of a project, but an object"]),
        (
            [{"title": "a"}, {"number": 1, "title": 2, "labels": {}}, 3],
            [
                "[2] must be an object, but is the number 3",
                "[0].number must be there, but is null",
                "[1].labels must be a list, but is an object",
                "[1].title must be text, but is the number 2",
            ],
        ),
        ({"items": [{"content": 1, "status": 2}]}, [
            "items[0].content must be an object, but is the number 1",
            "items[0].status must be text, but is the number 2",
        ]),
    ],
)  # fmt: skip
def test_errors_name_the_location(found: Any, said: list[str]) -> None:
    with pytest.raises(InvalidFile) as raised:
        github.read_file(encoded(found))
    assert sorted(raised.value.faults) == sorted(said)


# --- in a studio ---------------------------------------------------------------------------------------------------


def test_issues_are_imported_once(studio: Studio, importer: Importer) -> None:
    member = logins(studio)["member"]
    issues = importer.file(encoded(issues_with(member.upper(), "nobody")), "issues.json")
    items = importer.file(encoded({"items": [item(1, "First", "Doing")], "totalCount": 1}), "items.json")
    words = (issues, items, "--title", "The website", "--member", f"ada={member}", "--json")
    studio.happened()
    made = json.loads(importer.run(*words, source="github").stdout)
    assert (made["title"], made["file"]) == ("The website", f"{issues}, {items}")
    assert board_of(studio, made["project_id"]) == {"Doing": ["First"], "Closed": ["Third"]}
    doing, _ = columns_of(studio, made["project_id"])
    [first] = tasks_of(studio, doing)
    assert [each["username"] for each in first["assignees"]] == [member]
    assert first["fields"]["github_members"] == "nobody"
    comments = comments_of(studio, first["id"])
    assert [(each["text"], each["user"]["username"], each["imported_author"]) for each in comments] == [
        ("Said", member, None), ("Answered", logins(studio)["owner"], "bob"),
    ]  # fmt: skip
    assert len(studio.happened()) == 1 + 2 + 2 + 2
    again = json.loads(importer.run(*words, source="github").stdout)
    assert again["created"] == {"projects": 0, "columns": 0, "tasks": 0, "comments": 0, "labels": 0}
    assert studio.happened() == []


@pytest.mark.one_database
def test_a_file_not_printed_by_gh_imports_nothing(studio: Studio, importer: Importer) -> None:
    studio.happened()
    good, wrong = importer.file(encoded(issues_with()), "good.json"), importer.file(b'[{"number": 1}]', "wrong.json")
    said = importer.refused(good, wrong, source="github")
    assert f"{wrong}: [0].title must be there, but is null" in said
    assert "Nothing was imported." in said
    assert studio.happened() == []
