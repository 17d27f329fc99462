"""Behavior common to all import sources.

Broken files are reported, people are matched only within the organization, and interrupted imports can be completed.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.docs.pages import Shell, blocks, new_machine
from tests.harness import forge
from tests.harness.world import add_user
from tests.work import test_import_asana as asana_files
from tests.work import test_import_csv as csv_files
from tests.work import test_import_github as github_files
from tests.work.studio import Studio
from tests.work.trello import encoded, make_export
from tests.work.trello_importer import Importer, columns_of, logins, small, tasks_of
from workhook.cli.imports import ImportTarget, import_boards
from workhook.http.calls import Services
from workhook.identity.tables import accounts
from workhook.work.portability.imports import apply
from workhook.work.portability.imports.apply import Imported
from workhook.work.portability.imports.json_file import InvalidFile, parse_json
from workhook.work.portability.imports.plan import Choices, ImportPlan, Person
from workhook.work.portability.imports.sources import SourceFile, detect, plan_of_any, plans_of

BOARD = make_export(3, lists=3, closed_lists=1, cards=6, closed=2, actions=9, comments=6, checklists=3)
FILES: dict[str, bytes] = {
    "trello": encoded(BOARD),
    "asana": asana_files.encoded(*asana_files.project_with()),
    "github": github_files.encoded(github_files.issues_with("bob")),
    "csv": csv_files.TABLE.encode(),
}
ITEMS = github_files.encoded({"items": [github_files.item(1, "First", "Doing")], "totalCount": 1})


def plan(data: bytes, name: str = "Relaunch.json") -> ImportPlan:
    return plan_of_any(SourceFile(name, data), Choices())


@pytest.mark.parametrize("source", FILES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_source_of_a_file_is_detected(source: str, encoding: str) -> None:
    data = FILES[source].decode().encode(encoding)
    assert detect(data) == source
    assert plan(data) == plan(FILES[source])
    assert plan(data).source == source


def test_unknown_files_are_treated_as_trello_which_reports_what_is_missing() -> None:
    assert detect(ITEMS) == "github"
    assert [detect(each) for each in (b"{}", b"[]", b'{"data": 1}', b"[1]", b'[{"a": 1}]')] == ["trello"] * 5
    assert detect(b"") == "csv"
    with pytest.raises(InvalidFile, match="the file is not valid JSON"):
        detect(b'{"data": [')


# --- broken files ----------------------------------------------------------------------------------------------------

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def planned_or_reported(data: bytes) -> None:
    """Check that a file is either planned or reported as invalid, and nothing else."""
    told: list[str] | None = None
    try:
        made = plan(data)
    except InvalidFile as problem:
        told = problem.faults
    if told is not None:
        assert told
        assert all(told)
        return
    keys = [made.key, *(each.key for each in made.columns), *(each.key for each in made.tasks)]
    assert len(set(keys)) == len(keys)
    assert {each.column_key for each in made.tasks} <= {each.key for each in made.columns}
    seen: dict[str, str | None] = {}
    for task in made.tasks:
        assert task.parent_key is None or seen[task.parent_key] is None
        seen[task.key] = task.parent_key
    json.dumps([each.title for each in made.tasks]).encode()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.integers(0), st.integers(0, 40), st.binary(max_size=8))
def test_a_damaged_file_is_not_an_internal_error(source: str, at: int, gone: int, instead: bytes) -> None:
    data = FILES[source]
    at %= len(data)
    planned_or_reported(data[:at] + instead + data[at + gone :])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@example(b"\xff\xfe")
@example(b"Title\x00\n\x00")
@example(b"Title,Title\n\n,\n")
@example(b"Title,Estimate (h)\nx,999999\n")
@example(b"Title,Due\nx,99.99.9999\n")
def test_arbitrary_bytes_are_planned_or_reported(data: bytes) -> None:
    planned_or_reported(data)
    planned_or_reported(b"Id,Title,Due,Estimate,Parent,Blocked by,Completed\n" + data)
    planned_or_reported(b'[{"title": ' + data)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["trello", "asana", "github", "items"]), st.data())
def test_arbitrary_values_are_planned_or_reported(source: str, data: st.DataObject) -> None:
    found = json.loads(FILES.get(source, ITEMS))
    at: Any = found
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.integers(0, 3)) == 0:
            break
        at = at[key]
    at[key] = data.draw(_VALUES)
    planned_or_reported(json.dumps(found).encode())


# --- in a studio -----------------------------------------------------------------------------------------------------


def _trello(login: str) -> bytes:
    member = {"id": "m", "username": login, "fullName": ""}
    return encoded(small({"idMembers": ["m"]}, members=[member]))


def _asana(login: str) -> bytes:
    return asana_files.encoded(asana_files.task("1", "Card 0", "To do", assignee={"gid": "7", "name": login}))


def _github(login: str) -> bytes:
    return github_files.encoded([github_files.issue(1, "Card 0", assignees=[{"login": login, "name": ""}])])


def _csv(login: str) -> bytes:
    return f"Title,Assignee\nCard 0,{login}\n".encode()


@pytest.mark.parametrize("write", [_trello, _github, _csv])
def test_people_are_matched_only_within_the_organization(
    studio: Studio, importer: Importer, write: Callable[[str], bytes]
) -> None:
    """Two organizations share a person. Each import matches only people of its target organization."""
    other = studio.server.world()
    token = studio.server.run(lambda services: add_user(services, other, member="member"))
    with studio.server.client(token) as client:
        theirs = client.get("/user").json()["login"]
    shared = logins(studio)["member"]
    added = forge.run(
        ["member", "add", "--organization", other.organization, "--user", shared], importer.environment, timeout_s=60
    )
    assert added.returncode == 0, added.stderr

    def assigned(login: str) -> list[str]:
        made = importer.plan(plan(write(login), f"{login}.json"))
        [task] = [
            each
            for column in columns_of(studio, made["project_id"])
            for each in tasks_of(studio, column)
            if each["title"] == "Card 0"
        ]
        studio.owner.delete(f"/projects/{made['project_id']}")
        return [each["username"] for each in task["assignees"]]

    assert assigned(shared.upper()) == [shared]
    assert assigned(theirs) == []


def test_without_logins_a_unique_name_is_matched(studio: Studio, importer: Importer) -> None:
    renamed = sa.update(accounts).where(accounts.c.login == studio.member.login).values(name="Ada Lovelace")

    def assigned(data: bytes) -> list[str]:
        made = importer.plan(plan(data, "named.json"))
        tasks = [each for column in columns_of(studio, made["project_id"]) for each in tasks_of(studio, column)]
        return [person["username"] for each in tasks for person in each["assignees"]]

    studio.server.execute(renamed)
    for write in (_asana, _csv):
        assert assigned(write("ada lovelace")) == [studio.member.login]
    member = {"id": "m", "username": "ada1815", "fullName": "Ada Lovelace"}
    assert assigned(encoded(small({"idMembers": ["m"]}, members=[member]))) == [studio.member.login]
    # On GitHub, anyone can choose any name.
    stranger = {"login": "ada1815", "name": "Ada Lovelace"}
    assert assigned(github_files.encoded([github_files.issue(1, "Card 0", assignees=[stranger])])) == []


class _Stop(Exception):
    pass


def _stopping(what: str, number: int) -> Callable[[str, int, int], None]:
    def progress(now: str, done: int, total: int) -> None:
        if (now, done) == (what, number):
            raise _Stop

    return progress


@pytest.mark.parametrize(("what", "number"), [("tasks", 3), ("tasks", 20), ("dependencies", 3)])
def test_an_interrupted_import_can_be_completed(
    studio: Studio, importer: Importer, monkeypatch: pytest.MonkeyPatch, what: str, number: int
) -> None:
    monkeypatch.setattr(apply, "BATCH", 5)
    lines = [
        f"{at},Task {at},{(at - 1) // 10 * 10 if at % 10 else ''},{at - 1 if at % 4 == 0 else ''}"
        for at in range(1, 41)
    ]
    made = plan("\n".join(["Id,Title,Parent,Blocked by", *lines]).encode(), f"{what}{number}.csv")
    waiting = sum(bool(each.blocked_by) for each in made.tasks)
    place = ImportTarget(studio.world.organization)

    async def write(services: Services) -> list[Imported]:
        return await import_boards(services.database, [made], place, studio.server.url, _stopping(what, number))

    with pytest.raises(_Stop):
        studio.server.run(write)
    again = importer.plan(made)
    found = {
        each["title"]: each for column in columns_of(studio, again["project_id"]) for each in tasks_of(studio, column)
    }
    assert len(found) == 40
    titles = {each["id"]: title for title, each in found.items()}
    keys = {each.key: each.title for each in made.tasks}
    for task in made.tasks:
        there = found[task.title]
        assert titles.get(there["parent_id"]) == (keys[task.parent_key] if task.parent_key else None)
        assert [titles[each] for each in there["blocked_by"]] == [keys[each] for each in task.blocked_by]
    assert waiting == sum(bool(each["blocked_by"]) for each in found.values()) > 5
    studio.happened()
    importer.plan(made)
    assert studio.happened() == []


@pytest.mark.whole
@pytest.mark.one_database
def test_the_import_guide_works(studio: Studio, importer: Importer) -> None:
    """Run the code blocks of docs/team/import.md as a reader would."""
    importer.file(b"Title,Due\nWrite,2026-11-20\n", "plan.csv")
    importer.file(asana_files.encoded(*asana_files.project_with()), "project.json")
    importer.file(github_files.encoded(github_files.issues_with()), "issues.json")
    importer.file(ITEMS, "items.json")
    table, asana, github, mapped = blocks("docs/team/import.md", "sh")
    shell = Shell(importer.folder, importer.environment | new_machine(importer.folder) | importer.environment)

    def run(block: str) -> str:
        ours = block.replace("--organization acme", f"--organization {studio.world.organization}")
        ours = ours.replace("=ada", f"={logins(studio)['member']}")
        return shell.run(ours.replace("workhook ", f"{sys.executable} -m workhook "))

    try:
        said = run(table)
        assert "would create 1 column, 1 task" in said
        assert "created 1 column, 1 task" in said
        assert "created 3 columns, 5 tasks" in run(asana)
        assert "created 2 columns, 2 tasks, 2 comments" in run(github)
        importer.file(b"Subject,Status\nWrite,Open\n", "plan.csv")
        assert "created 1 column, 1 task" in run(mapped)
    finally:
        shell.stop()


def test_a_person_has_one_display_name() -> None:
    assert Person("1", "ada", "ada").display_name == "ada"
    assert Person("1", "", "").display_name == "1"
    assert Person("", "", "").display_name == "somebody unknown"


# --- import other files ----------------------------------------------------------------------------------------------
# Files of other programs that are not text: the error says what to do.


def packed(*names: str) -> bytes:
    """Return a zip file with these entries.

    A name may be followed by `=` and the content. Entries are stored uncompressed.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            name, _, content = name.partition("=")
            archive.writestr(name, content, zipfile.ZIP_STORED)
    return out.getvalue()


OPEN_DOCUMENT = packed("mimetype=application/vnd.oasis.opendocument.spreadsheet", "content.xml")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (packed("[Content_Types].xml", "xl/workbook.xml"), "this is an Excel file; save it as CSV (UTF-8)"),
        (packed("[Content_Types].xml", "xl/workbook.bin"), "this is an Excel file; save it as CSV (UTF-8)"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(500), "this is an Excel file; save it as CSV (UTF-8)"),
        (OPEN_DOCUMENT, "this is an OpenDocument file; save it as CSV (UTF-8)"),
        (packed("Index/Document.iwa", "Metadata/Properties.plist"), "this is a Numbers file; export it as CSV (UTF-8)"),
        (packed("plan.csv"), "this is a ZIP file; unzip it"),
        (b"%PDF-1.7\n", "this is a PDF; export"),
    ],
)
def test_a_file_of_another_program_is_identified(data: bytes, said: str) -> None:
    for choose in (
        lambda: plan_of_any(SourceFile("plan.csv", data), Choices()),
        lambda: plans_of("csv", [SourceFile("plan.csv", data)], Choices()),
        lambda: plans_of("trello", [SourceFile("plan.csv", data)], Choices()),
    ):
        with pytest.raises(InvalidFile) as raised:
            choose()
        [fault] = raised.value.faults
        assert said in fault


def test_a_table_starting_like_a_zip_file_is_a_table() -> None:
    assert plan_of_any(SourceFile("x.csv", b"PK,Title\n1,a\n"), Choices()).tasks[0].title == "a"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 100_000, "the file is nested too deeply"),
        (b"[" + b"9" * 5_000 + b"]", "a number has more than 4,300 digits"),
        (b'["\xff"]', "the file is not UTF-8, UTF-16, or UTF-32; save it as UTF-8"),
        (b"[NaN]", "the file is not valid JSON: NaN is not valid in JSON"),
    ],
)
def test_parser_limits_are_reported_in_plain_words(data: bytes, said: str) -> None:
    with pytest.raises(InvalidFile) as raised:
        parse_json(data)
    assert raised.value.faults == [said]
