"""Words used in tables and boards, recognized in every supported language by every source."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Collection

import pytest

from tests.work import test_import_asana as asana_files
from tests.work import test_import_github as github_files
from tests.work.trello import encoded
from tests.work.trello_importer import small
from workhook.work.portability.imports.plan import Choices, ImportPlan
from workhook.work.portability.imports.sources import SourceFile, plan_of_any
from workhook.work.portability.imports.words import (
    FIELDS,
    LEVELS,
    NO,
    STAGES,
    YES,
    StageNames,
    header_key,
    level_of,
    plain_name,
)

FINISHED = ["Fertig", "✅ Erledigt!", "Abgeschlossen", "Terminé", "Hecho", "Fatto", "Klaar", "Concluído", "Done"]


def planned(
    data: bytes, name: str = "x.json", *, done: Collection[str] = (), not_done: Collection[str] = ()
) -> ImportPlan:
    return plan_of_any(SourceFile(name, data), Choices(done=done, not_done=not_done))


def trello(column: str) -> bytes:
    lists = [{"id": "l1", "name": column, "pos": 1}]
    return encoded(small({}) | {"lists": lists})


def asana(column: str) -> bytes:
    return asana_files.encoded(asana_files.task("1", "Card 0", column))


def github(column: str) -> bytes:
    return github_files.encoded({"items": [github_files.item(1, "Card 0", column)], "totalCount": 1})


def table(column: str) -> bytes:
    return f"Title,Status\nCard 0,{column}\n".encode()


SOURCES = [trello, asana, github, table]


@pytest.mark.parametrize("write", SOURCES)
@pytest.mark.parametrize("name", FINISHED)
def test_cards_in_a_column_named_done_are_finished(write: Callable[[str], bytes], name: str) -> None:
    made = planned(write(name))
    assert [each.completes for each in made.columns] == [True]
    assert [each.finished for each in made.tasks] == [True]


@pytest.mark.parametrize("write", SOURCES)
def test_the_caller_can_override_the_stages(write: Callable[[str], bytes]) -> None:
    [undone] = planned(write("Fertig"), not_done=["fertig"]).tasks
    [done] = planned(write("Bezahlt"), done=["bezahlt"]).tasks
    assert (undone.finished, done.finished) == (False, True)


def test_stage_names_are_recognized_and_similar_words_are_not() -> None:
    stages = StageNames()
    assert [stages.stage_of(each) for each in ("In Arbeit", "En cours", "Bezig")] == ["in_progress"] * 3
    assert [stages.stage_of(each) for each in ("Zu tun", "À faire", "Te doen")] == ["in_queue"] * 3
    assert [stages.stage_of(each) for each in ("Termine", "Fast fertig", "Nicht erledigt", "")] == [None] * 4


def test_accents_may_be_combining_characters() -> None:
    apart = unicodedata.normalize("NFD", "Terminé")
    assert apart != "Terminé"
    assert StageNames().stage_of(apart) == "done"
    assert plain_name(unicodedata.normalize("NFD", "Priorität")) == "priorität"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("Hoch", "high"), ("MITTEL", "medium"), ("Niedrig", "low"), ("Haute", "high"), ("Media", "medium"),
        ("Laag", "low"), ("Baixa", "low"), ("Dringend", "high"), ("Urgent", "high"), ("Sofort", None), ("", None),
    ],
)  # fmt: skip
def test_priorities_are_recognized(text: str, level: str | None) -> None:
    assert level_of(text) == level


@pytest.mark.parametrize(("value", "fields"), [("Hoch", {}), ("Dringend", {"Priorität": "Dringend"})])
def test_a_priority_is_recognized_in_every_source_and_keeps_finer_distinctions(
    value: str, fields: dict[str, str]
) -> None:
    field = {"id": "f", "name": "Priorität", "type": "list", "options": [{"id": "o", "value": {"text": value}}]}
    item = {"idCustomField": "f", "idValue": "o"}
    custom = [{"name": "Priorität", "display_value": value}]
    files = (
        encoded(small({"customFieldItems": [item]}, customFields=[field])),
        asana_files.encoded(asana_files.task("1", "Card 0", "Ideas", custom_fields=custom)),
        github_files.encoded({"items": [github_files.item(1, "Card 0", "Ideas") | {"Priorität": value}]}),
        f"Titel;Priorität\nCard 0;{value}\n".encode(),
    )
    for data in files:
        [task] = planned(data).tasks
        assert task.priority == "high"
        assert {name: text for name, text in task.fields.items() if name == "Priorität"} == fields


@pytest.mark.parametrize(
    ("header", "finished"), [("Erledigt", "WAHR"), ("Terminé", "oui"), ("Hecho", "sí"), ("Voltooid", "ja")]
)
def test_yes_and_no_are_recognized_in_the_language_of_the_table(header: str, finished: str) -> None:
    tasks = planned(f"Titel;{header}\na;{finished}\nb;FALSCH\nc;\n".encode()).tasks
    assert [each.finished for each in tasks] == [True, False, False]


def test_no_word_is_ambiguous() -> None:
    for words in (STAGES, LEVELS):
        names = Counter(plain_name(name) for some in words.values() for name in some)
        assert [name for name, number in names.items() if number > 1] == []
    headers = Counter(header_key(name) for some in FIELDS.values() for name in some)
    assert [name for name, number in headers.items() if number > 1] == []
    assert not set(YES) & set(NO)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("plan.csv", "plan"), ("plan (1).csv", "plan"), ("plan(2).csv", "plan"), ("plan - Kopie.csv", "plan"),
        ("plan - Kopie (2).csv", "plan"), ("plan - Copy (3).csv", "plan"), ("plan copy.csv", "plan"),
        ("plan copy 2.csv", "plan"), ("Kopie von plan.csv", "plan"), ("Copy of plan (1).csv", "plan"),
        ("C:\\Users\\a\\plan (1).csv", "plan"), ("Budget (2026).csv", "Budget (2026)"), ("(1).csv", "(1)"),
        ("copy.csv", "copy"), ("Photocopy.csv", "Photocopy"),
    ],
)  # fmt: skip
def test_copy_numbers_are_removed_from_the_title(name: str, title: str) -> None:
    assert planned(b"Title\na\n", name).title == title
    assert plan_of_any(SourceFile(name, b"Title\na\n"), Choices(title="plan (1)")).title == "plan (1)"


def test_a_title_inside_the_file_is_kept() -> None:
    assert planned(encoded(small({}, name="Relaunch (2)")), "x (1).json").title == "Relaunch (2)"
