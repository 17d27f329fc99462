"""Tables: how rows are converted, and that errors name the line and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.work.studio import Studio
from tests.work.trello_importer import Importer, board_of, columns_of, logins, tasks_of
from workhook.cli.imports import TABLE_FIELDS
from workhook.core.clock import parse_rfc3339
from workhook.web.frame.refusals import in_words
from workhook.work.portability.imports import tables
from workhook.work.portability.imports.csv_tasks import day_or_moment, read_rows
from workhook.work.portability.imports.json_file import InvalidFile
from workhook.work.portability.imports.plan import Choices, ImportPlan, PlannedTask
from workhook.work.portability.imports.tables import read_table
from workhook.work.portability.imports.words import FIELDS, StageNames

TABLE = """Id;Name;Status;Assignee;Due;Tags;Estimate;Priority;Budget;Parent;Blocked by;Completed;Notes
A1;Write text;Doing;{member};2026-12-01;draft, web;1h 30m;High;300;;;;"Two
lines; really"
A2;Publish;To do;;01.12.2026;;;Urgent;;;Write text;;
A3;Proofread;Doing;nobody@example.com;;;;;;A1;;2026-01-02;
A4;Announce;Done;;;;;;;;A2, A1;yes;
"""


def plan(text: str | bytes, title: str = "Relaunch", **more: Any) -> ImportPlan:
    data = text if isinstance(text, bytes) else text.encode()
    return read_rows(data, title, Choices(**more))


def only(text: str) -> PlannedTask:
    [task] = plan(text).tasks
    return task


def faults(text: str | bytes, **more: Any) -> list[str]:
    with pytest.raises(InvalidFile) as raised:
        plan(text, **more)
    return raised.value.faults


def test_asana_subtasks_are_in_the_column_of_their_task() -> None:
    table = (
        "Task ID,Name,Section/Column,Parent task\n1,Launch,Doing,\n2,Write,,Launch\n3,Read,,Write\n4,Later,Backlog,\n"
    )
    found = plan(table)
    assert [each.title for each in found.columns] == ["Doing", "Backlog"]
    launch, write, read, later = found.tasks
    assert write.parent_key == read.parent_key == launch.key
    assert write.column_key == read.column_key == launch.column_key != later.column_key


def test_a_circular_parent_puts_no_row_into_a_column() -> None:
    assert [each.title for each in plan("Id,Title,Parent\n1,a,2\n2,b,1\n").columns] == ["Tasks"]


@pytest.mark.parametrize("cell", ["'-1", "'=1+1", "'+49", "'@x"])
def test_a_formula_guard_of_another_program_is_removed(cell: str) -> None:
    assert plan(f"Title\n{cell}\n").tasks[0].title == cell[1:]


@pytest.mark.parametrize("cell", ["'a'", "it's", "''"])
def test_other_apostrophes_are_kept(cell: str) -> None:
    assert plan(f"Title\n{cell}\n").tasks[0].title == cell


# --- fields ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_table_formats_of_common_programs_are_read(delimiter: str, encoding: str, end: str) -> None:
    lines = ["Title|Notes|Status", 'Über|"a;b,c\td ""e"""|Läuft', "", "Zweite"]
    [first, second] = plan(end.join(lines).replace("|", delimiter).encode(encoding)).tasks
    assert (first.title, first.description, first.column_key) == (
        "Über", 'a;b,c\td "e"', "column:project:Relaunch/Läuft",
    )  # fmt: skip
    assert (second.title, second.description, second.column_key) == ("Zweite", None, "column:project:Relaunch/Tasks")


def test_english_and_german_field_names_are_recognized() -> None:
    english = "Task,Notes,Section/Column,Assignee,Due Date,Tags,Completed At,Created At\n"
    german = "Titel;Beschreibung;Abschnitt;Zuständig;Fällig am;Etiketten;Erledigt am;Erstellt am\n"
    values = ["x", "y", "z", "ada", "2026-01-02", "web", "2026-01-03", "2026-01-01"]
    for table in (english + ",".join(values), german + ";".join(values)):
        task = only(table)
        assert (task.title, task.description, task.labels) == ("x", "y", ["web"])
        assert task.column_key == "column:project:Relaunch/z"
        assert [each.display_name for each in task.members] == ["ada"]
        days = task.created_at, task.deadline, task.finished_at
        assert days == tuple(parse_rfc3339(f"2026-01-0{day}T00:00:00Z") for day in (1, 2, 3))
        assert (task.finished, task.fields) == (True, {})


def test_a_field_can_be_mapped_and_ignored() -> None:
    table = "Nr,What,Name,Status\n7,Write,Ada,open\n"
    made = plan(table, mapping={"title": "what", "id": "Nr", "column": "", "assignee": "NAME"})
    [task] = made.tasks
    assert (task.key, task.title, task.fields) == ("task:Relaunch/id 7", "Write", {"Status": "open"})
    assert [each.title for each in made.columns] == ["Tasks"]
    assert [each.full_name for each in task.members] == ["Ada"]
    assert faults(table, mapping={"title": "Wat"}) == [
        "line 1 has no field “Wat”; its fields are Nr, What, Name, Status"
    ]


def test_the_command_has_an_option_for_every_field() -> None:
    assert tuple(FIELDS) == TABLE_FIELDS


def test_unknown_fields_and_values_are_kept_as_custom_fields() -> None:
    task = only("Title,Budget,Empty,Priority,Parent,Budget\nx,300,,Urgent,Nobody,400\n")
    assert task.fields == {"Budget": "300", "Priority": "Urgent", "Parent": "Nobody", "Budget (2)": "400"}


def test_the_plan_shows_what_each_field_becomes() -> None:
    table = "Titel;Kunde;Fällig am;Priorität;Leer;Parent;Kunde\na;Müller;;Hoch;;b;\nb;;1.2.2026;Sofort;;Nobody;\n"
    assert [(each.name, each.becomes, each.kept) for each in plan(table).fields] == [
        ("Titel", "title", []),
        ("Kunde", "field", []),
        ("Fällig am", "due", []),
        ("Priorität", "priority", ["Sofort"]),
        ("Leer", "nothing", []),
        ("Parent", "parent", ["Nobody"]),
        ("Kunde (2)", "nothing", []),
    ]


def test_columns_are_in_order_of_appearance() -> None:
    made = plan("Title,Status\na,Later\nb,Done\nc,\nd,Shipped\n", done=["shipped", "Gone"])
    assert [(each.title, each.stage) for each in made.columns] == [
        ("Later", None), ("Done", "done"), ("Tasks", None), ("Shipped", "done"),
    ]  # fmt: skip
    assert [each.finished for each in made.tasks] == [False, True, False, True]
    assert made.warnings == ["unknown column “Gone”"]


@pytest.mark.parametrize(
    ("name", "text", "minutes"),
    [
        ("Estimate", "1h 30m", 90), ("estimate", "1:30", 90), ("Estimate (h)", "1,5", 90),
        ("estimate_hours", "2", 120), ("Estimate minutes", "45", 45), ("Estimate", "", None),
    ],
)  # fmt: skip
def test_estimates_are_parsed(name: str, text: str, minutes: int | None) -> None:
    assert only(f"Title;{name}\nx;{text}\n").estimate_ms == (minutes and minutes * 60_000)


def test_a_row_is_identified_by_its_id_or_else_by_its_title() -> None:
    def keys(text: str) -> list[str]:
        return sorted(each.key for each in plan(text).tasks)

    assert keys("Id,Title\n1,a\n2,a\n") == ["task:Relaunch/id 1", "task:Relaunch/id 2"]
    assert keys("Title\na\nb\na\n") == keys("Title\nb\na\na\n")
    assert keys("Title\na\nb\na\n") == ["task:Relaunch/a", "task:Relaunch/a (2)", "task:Relaunch/b"]


def test_subtasks_and_dependencies_are_resolved() -> None:
    made = plan("Id,Title,Parent,Blocked by\n1,a,4,\n2,b,,a;3;gone\n3,c,1,2\n4,d,,\n5,e,5,5\n")
    assert [each.title for each in made.tasks] == ["b", "d", "a", "c", "e"]
    parents = {each.title: each.parent_key for each in made.tasks}
    top = "task:Relaunch/id 4"
    assert parents == {"a": top, "b": None, "c": top, "d": None, "e": None}
    waits = {each.title: each.blocked_by for each in made.tasks if each.blocked_by}
    assert waits == {"b": ["task:Relaunch/id 1", "task:Relaunch/id 3"]}
    assert {each.what: each.count for each in made.lost} == {
        "deep_subtasks": 1, "dependencies": 1, "circular_dependencies": 2,
    }  # fmt: skip


# --- errors ---------------------------------------------------------------------------------------------------------


def test_each_error_names_its_line_and_field() -> None:
    table = (
        "Id,Title,Due,Estimate,Completed\n"
        '1,"a\nb",1/2/2026,90,maybe\n'
        "1,c,2026-02-30,1h 30m,no\n"
    )  # fmt: skip
    assert faults(table) == [
        "line 4, field Id: “1” is also the ID of line 2",
        "line 2, field Completed: “maybe” is not yes, no, or a date such as 2026-11-20 or 20.11.2026",
        "line 2, field Due: “1/2/2026” is not a date; use 2026-11-20, 20.11.2026, or 2026-11-20T17:00:00Z",
        "line 2, field Estimate: “90” is not a valid estimate; use 1h 30m or 1:30",
        "line 4, field Due: “2026-02-30” is not a date; use 2026-11-20, 20.11.2026, or 2026-11-20T17:00:00Z",
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty; its first line must contain the field names"),
        (b"\n \n", "the file is empty; its first line must contain the field names"),
        (b"A,B\n1,2\n", "line 1 has no field named Title or Name; its fields are A, B"),
        (b"Title,B\n1,2\n3,4,5\n", "line 3: 3 fields, but the first line has 2; “5” does not belong to any field"),
        (b'Title\nok\n"never ends\n', "line 3, column 1: the quotation mark that opens here is never closed"),
        (b'Title,B\r\n"a",b\r\nc, "d"\r\ne,"', "line 4, column 3: the quotation mark that opens here is never closed"),
        (
            b'Title\n"a"b\n',
            "line 2, column 4: “b” follows a closing quotation mark; double each quotation mark inside a field",
        ),
        (b"Title\n" + b"x" * 200_000, "line 2, column 1: the field that starts here has more than 131,072 characters"),
        (
            b'A,Title\n"two\nlines",b\n"c","' + b"x\n" * 100_000,
            "line 4, column 5: the field that starts here has more than 131,072 characters; a closing "
            "quotation mark may be missing",
        ),
        (b"Title\na\nb\0\n", "line 3, column 2: NUL character; save the file as CSV in UTF-8"),
        (b"Title\nGr\x81\xe1e\n", "line 2: this is not valid UTF-8; save the file as CSV (UTF-8)"),
        (b"\xff\xfeT", "line 1: this is not valid UTF-8; save the file as CSV (UTF-8)"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused_with_a_reason(data: bytes, said: str) -> None:
    assert faults(data) == [said]


@pytest.mark.parametrize(
    "text",
    ["Grüße, Straße, Köln", "„Öl“ für 5 € \u2013 cœur de l\u2019été", "Año, señal, às três", "Ångström ½ °C"],
)
def test_unambiguous_windows_1252_is_read_with_a_warning(text: str) -> None:
    made = plan(f'Title\n"{text}"\n'.encode("cp1252"))
    assert [each.title for each in made.tasks] == [text]
    assert made.warnings[0].startswith("the file is not UTF-8 and was read as Windows-1252: ")
    assert plan(f'Title\n"{text}"\n').warnings == []


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Straße über Köln", "mac_roman"), ("Straße über Köln", "cp850"), ("ähnlich", "cp850"), ("été", "cp850"),
        ("Привет", "cp1251"), ("Привет", "koi8-r"), ("Zażółć gęślą", "cp1250"), ("año nuevo", "mac_roman"),
        ("日本語", "shift-jis"), ("10 €", "cp1252"), ("Başla", "cp1254"), ("Užduotis ą", "cp1257"),
        ("Időpont ütem", "cp1250"),
    ],
)  # fmt: skip
def test_ambiguous_code_pages_are_refused(text: str, encoding: str) -> None:
    assert faults(f"Title\n{text}\n".encode(encoding)) == [
        "line 2: this is not valid UTF-8; save the file as CSV (UTF-8)"
    ]


def test_damaged_utf_8_is_not_read_as_windows_1252() -> None:
    assert faults("Title\nCafé\nMenü\nCafé".encode()[:-1]) == [
        "line 4: this is not valid UTF-8; save the file as CSV (UTF-8)"
    ]


def test_empty_cells_are_omitted() -> None:
    table = read_table(b"Title,Due,Note\na\nb,,x\n")
    assert [each.cells for each in table.rows] == [{"Title": "a"}, {"Title": "b", "Note": "x"}]


def test_the_number_of_lines_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS_MAX", 2)
    assert len(plan("Title\na\nb\n").tasks) == 2
    assert faults("Title\na\nb\nc\n") == ["line 4: a file can have at most 2 lines; split it into several files"]


def test_a_header_with_the_words_of_other_errors_is_reported_quickly() -> None:
    names = ",".join(f'"x{each}, column : stands behind a: , field :"' for each in range(400))
    [fault] = faults(f"{names}\n")
    assert fault.startswith("line 1 has no field named Title or Name; its fields are x0, column")
    assert fault.endswith("and 390 more")
    assert in_words(fault) != fault


def test_the_stage_of_a_column_can_be_overridden() -> None:
    names = StageNames(done=["✅", "Shipped", "Done?"], not_done=["🔥", "Done", "To do", "Review"])
    said = {
        each: names.stage_of(each) for each in ("✅", "🔥", "shipped!", "Done?", "Done", "To do", "Review", "Fertig")
    }
    assert said == {
        "✅": "done", "🔥": None, "shipped!": "done", "Done?": "done", "Done": None, "To do": "in_queue",
        "Review": None, "Fertig": "done",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-04", "2026-12-04T00:00:00Z"), ("04.12.2026", "2026-12-04T00:00:00Z"),
        ("4.12.26", "2026-12-04T00:00:00Z"), ("4. 12. 2026", "2026-12-04T00:00:00Z"),
        ("1.1.99", "2099-01-01T00:00:00Z"), ("31.12.00", "2000-12-31T00:00:00Z"),
        ("4.12.26 17:05", "2026-12-04T17:05:00Z"), ("04.12.2026, 7:05:09", "2026-12-04T07:05:09Z"),
        ("2026-12-04 17:05", "2026-12-04T17:05:00Z"), ("4/12/26", None), ("4.12", None), ("4.13.26", None),
        ("4.12.126", None), ("4.12.26 25:00", None), ("31.2.2026", None),
    ],
)  # fmt: skip
def test_dates_are_parsed(text: str, moment: str | None) -> None:
    assert day_or_moment(text) == (moment and parse_rfc3339(moment))


def test_only_the_first_errors_are_listed() -> None:
    assert len(faults("Title,Due\n" + "x,soon\n" * 50)) == 20
    assert len(faults("Title\n" + "x,y\n" * 50)) == 20


# --- in a studio ----------------------------------------------------------------------------------------------------


def table_of(studio: Studio) -> bytes:
    return TABLE.format(member=logins(studio)["member"].upper()).encode()


def test_a_table_becomes_a_project_once(studio: Studio, importer: Importer) -> None:
    file = importer.file(table_of(studio), "Launch plan.csv")
    studio.happened()
    would = json.loads(importer.run(file, "--dry-run", "--json", source="csv").stdout)
    assert would["created"] == {"projects": 1, "columns": 3, "tasks": 4, "comments": 0, "labels": 2}
    assert (would["project_id"], studio.happened()) == (None, [])
    columns = {each["title"]: each["finished"] for each in would["columns"]}
    assert columns == {"Doing": False, "To do": False, "Done": True}
    became = {each["name"]: each["becomes"] for each in would["fields"]}
    assert (became["Name"], became["Tags"], became["Budget"]) == ("title", "labels", "field")
    nobody = "nobody@example.com"
    assert would["unmatched"] == [{"name": nobody, "known_as": nobody, "assigned": True}]
    said = importer.run(file, "--dry-run", source="csv").stdout
    assert "\n  field Tags: labels\n" in said
    assert "\n  field Priority: priority (kept as text: Urgent)\n" in said
    assert said.endswith("\n  columns whose tasks are finished: Done\n")
    made = json.loads(importer.run(file, "--json", source="csv").stdout)
    assert made["created"] == would["created"]
    assert (made["title"], made["lost"]) == ("Launch plan", [])
    assert any("nobody@example.com" in each for each in made["warnings"])
    project_id = made["project_id"]
    assert board_of(studio, project_id) == {
        "Doing": ["Write text", "Proofread"], "To do": ["Publish"], "Done": ["Announce"],
    }  # fmt: skip
    tasks = {each["title"]: each for column in columns_of(studio, project_id) for each in tasks_of(studio, column)}
    first = tasks["Write text"]
    assert [each["username"] for each in first["assignees"]] == [logins(studio)["member"]]
    assert {name: first[name] for name in ("description", "deadline", "labels", "estimate", "priority", "fields")} == {
        "description": "Two\nlines; really",
        "deadline": "2026-12-01T00:00:00.000Z",
        "labels": ["draft", "web"],
        "estimate": 5_400_000,
        "priority": "high",
        "fields": {"Budget": "300"},
    }
    assert tasks["Proofread"]["parent_id"] == first["id"]
    assert tasks["Proofread"]["completed_at"] == "2026-01-02T00:00:00.000Z"
    assert tasks["Proofread"]["fields"] == {"csv_members": "nobody@example.com"}
    assert tasks["Publish"]["blocked_by"] == [first["id"]]
    assert tasks["Announce"]["blocked_by"] == sorted([first["id"], tasks["Publish"]["id"]])
    happened = [f"{each.name} {each.action}" for each in studio.happened()]
    assert happened == ["project created", *["column created"] * 3, *["task created"] * 4, *["task edited"] * 2]

    again = json.loads(importer.run(file, "--json", source="csv").stdout)
    assert again["created"] == {"projects": 0, "columns": 0, "tasks": 0, "comments": 0, "labels": 0}
    assert again["skipped"] == {"columns": 3, "tasks": 4, "comments": 0}
    assert studio.happened() == []


def test_new_rows_are_added_to_the_project_of_the_same_title(studio: Studio, importer: Importer) -> None:
    made = importer.plan(plan("Id,Title\n1,a\n"))
    project_id = made["project_id"]
    [column] = columns_of(studio, project_id)
    [task] = tasks_of(studio, column)
    newer = plan("Id,Title,Parent,Status\n1,a (new),,\n2,b,1,\n3,c,,Later\n")
    again = importer.plan(newer)
    assert (again["project_id"], again["created"]["tasks"], again["changed"]) == (project_id, 2, 1)
    assert board_of(studio, project_id) == {"Tasks": ["a", "b"], "Later": ["c"]}
    assert tasks_of(studio, column)[1]["parent_id"] == task["id"]
    other = importer.plan(plan("Id,Title\n1,a\n", title="Another"))
    assert other["project_id"] != project_id
    assert other["created"]["tasks"] == 1


def test_a_subtask_is_separate_if_its_parent_is_a_subtask(studio: Studio, importer: Importer) -> None:
    project_id = importer.plan(plan("Id,Title\n1,a\n2,b\n"))["project_id"]
    [column] = columns_of(studio, project_id)
    first, second = tasks_of(studio, column)
    studio.owner.patch(f"/tasks/{second['id']}", json={"parent_id": first["id"]})
    made = importer.plan(plan("Id,Title,Parent\n1,a,\n2,b,\n3,c,2\n4,d,1\n"))
    assert "tasks that cannot be subtasks here were imported as separate tasks: c" in made["warnings"]
    parents = {each["title"]: each["parent_id"] for each in tasks_of(studio, column)}
    assert parents == {"a": None, "b": first["id"], "c": None, "d": first["id"]}


def test_a_dependency_that_would_close_a_cycle_is_skipped(studio: Studio, importer: Importer) -> None:
    project_id = importer.plan(plan("Id,Title\n1,a\n2,b\n"))["project_id"]
    [column] = columns_of(studio, project_id)
    first, second = tasks_of(studio, column)
    studio.owner.patch(f"/tasks/{first['id']}", json={"blocked_by": [second["id"]]})
    studio.happened()
    made = importer.plan(plan("Id,Title,Blocked by\n1,a,\n2,b,1\n"))
    assert [each for each in made["warnings"] if each.startswith("task “b” was imported without its blockers")]
    assert studio.happened() == []


@pytest.mark.one_database
def test_an_invalid_table_imports_nothing(studio: Studio, importer: Importer) -> None:
    studio.happened()
    good, wrong = importer.file(b"Title\na\n", "good.csv"), importer.file(b"Title,Due\na,soon\n", "wrong.csv")
    said = importer.refused(good, wrong, source="csv")
    assert f"{wrong}: line 2, field Due: “soon” is not a date" in said
    assert "Nothing was imported." in said
    assert "The first line" not in said
    assert "--title names one project" in importer.refused(good, wrong, "--title", "x", source="csv", status=2)
    assert "not of the form FIELD=NAME" in importer.refused(good, "--map", "color=x", source="csv", status=2)
    assert studio.happened() == []
    done = importer.run(good, "--title", "Named", "--map", "title=Title", source="csv")
    assert done.stdout.endswith("/named: created 1 column, 1 task, 0 comments, 0 labels\n")


def test_each_option_of_the_command_changes_the_plan(importer: Importer, tmp_path: Path) -> None:
    table = tmp_path / "plan.csv"
    table.write_text("Title,Foo,Status\nA,B,Shipped\n")

    def would(*more: str) -> Any:
        return json.loads(importer.run(str(table), "--dry-run", "--json", *more, source="csv").stdout)

    usual = would()
    assert usual["title"] == "plan"
    assert would("--title", "Named")["title"] == "Named"
    assert {each["name"]: each["becomes"] for each in would("--map", "title=Foo")["fields"]} == {
        "Title": "field", "Foo": "title", "Status": "column",
    }  # fmt: skip
    assert [each["finished"] for each in usual["columns"]] == [False]
    assert [each["finished"] for each in would("--done", "Shipped")["columns"]] == [True]
