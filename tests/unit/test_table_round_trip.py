"""The exported table of tasks, imported again, yields the same tasks."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workhook.core.text import one_line
from workhook.work.board.tasks.export import CELLS, cells_of
from workhook.work.board.tasks.inputs import ESTIMATE_MAX_MS, PLAIN_FIELDS
from workhook.work.board.tasks.schemas import Task
from workhook.work.kernel.csv_tables import encode_rows
from workhook.work.portability.imports.csv_tasks import read_rows
from workhook.work.portability.imports.json_file import InvalidFile
from workhook.work.portability.imports.plan import Choices

_ODD = st.sampled_from(["- bullet", "'- bullet", "=1", "a;=1", "\n'+1", "[x]", '["a"]', "a\nb", ", ;", "a, b", "\t@x"])
_ANY = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029\u0085") | st.sampled_from(
    "\n;'=-\t"
)
_TEXTS = _ODD | st.text(_ANY, max_size=20)
_TITLES = _TEXTS.map(one_line).filter(bool)
_KEYS = _TEXTS.map(str.strip).filter(bool)
_FILLED = _TEXTS.filter(lambda text: bool(text.strip()))
_NAMED = {"description", "priority", "deadline", "parent_id"}
_FURTHER = dict.fromkeys(sorted({*PLAIN_FIELDS} - _NAMED), "text") | {
    "repeat": "FREQ=DAILY",
    "cover_url": "https://a.example/=x",
}
_MOMENTS = st.integers(0, 253_370_764_799).map(lambda seconds: seconds * 1000)


@st.composite
def tasks(draw: st.DrawFn) -> list[SimpleNamespace]:
    ids = [f"tsk_{number:026}" for number in range(draw(st.integers(1, 5)))]
    made = []
    for at, each in enumerate(ids):
        made.append(
            SimpleNamespace(
                id=each, number=at + 1, title=draw(_TITLES), column=SimpleNamespace(title=draw(_TITLES)),
                priority=draw(st.sampled_from([None, "low", "medium", "high"])), deadline=draw(st.none() | _MOMENTS),
                assignees=[SimpleNamespace(login=login) for login in draw(st.sets(st.sampled_from(["ada", "bob-2"])))],
                labels=json.dumps(list(dict.fromkeys(draw(st.lists(_TITLES, max_size=3))))),
                estimate_ms=draw(st.none() | st.integers(1, ESTIMATE_MAX_MS // 1000).map(lambda s: s * 1000)),
                hourly_rate_minor=draw(st.none() | st.integers(0, 10**6)), project=SimpleNamespace(currency="EUR"),
                billable=draw(st.sampled_from([None, True, False])), completed_at=draw(st.none() | _MOMENTS),
                created_at=draw(_MOMENTS), updated_at=0, description=draw(st.none() | _FILLED),
                parent_id=None, **{name: draw(st.sampled_from([None, text])) for name, text in _FURTHER.items()},
                blocked_by=tuple(draw(st.sets(st.sampled_from(ids[:at])))) if at else (),
                fields=json.dumps(draw(st.dictionaries(_KEYS, _TEXTS, max_size=3)), separators=(",", ":")),
                sections=json.dumps(
                    draw(st.dictionaries(_KEYS, st.dictionaries(_KEYS, _TEXTS, max_size=2), max_size=2)),
                    separators=(",", ":"),
                ),
            )
        )  # fmt: skip
    return made


def _read(made: list[SimpleNamespace]) -> Any:
    return read_rows(encode_rows([tuple(CELLS), *map(cells_of, cast(list[Task], made))]), "again", Choices())


@given(tasks())
def test_an_exported_table_imports_the_same_tasks(made: list[SimpleNamespace]) -> None:
    found = _read(made)
    columns = {each.key: each.title for each in found.columns}
    keys = {each.id: f"task:again/id {each.id}" for each in made}
    by_key = {each.key: each for each in found.tasks}
    assert by_key.keys() == set(keys.values())
    for each in made:
        read = by_key[keys[each.id]]
        assert (read.title, read.description, columns[read.column_key]) == (
            each.title, each.description, each.column.title,
        )  # fmt: skip
        assert (read.priority, read.deadline, read.estimate_ms) == (each.priority, each.deadline, each.estimate_ms)
        assert (read.finished, read.finished_at) == (each.completed_at is not None, each.completed_at)
        assert read.created_at == each.created_at
        assert all(getattr(read, name) == getattr(each, name) for name in (*_FURTHER, "billable"))
        assert sorted(person.username for person in read.members) == sorted(one.login for one in each.assignees)
        assert read.labels == json.loads(each.labels)
        assert read.fields == json.loads(each.fields)
        assert read.sections == json.loads(each.sections)
        assert set(read.blocked_by) == {keys[one] for one in each.blocked_by}


@settings(max_examples=5)
@given(tasks())
def test_subtasks_survive_a_round_trip(made: list[SimpleNamespace]) -> None:
    one = made[0]
    other = SimpleNamespace(**{**vars(one), "id": "tsk_x", "parent_id": one.id, "blocked_by": ()})
    first, second = _read([one, other]).tasks
    assert second.parent_key == first.key
    assert "parent_id" not in second.fields


def test_cells_of_a_wrong_type_are_reported() -> None:
    cells = dict.fromkeys(CELLS, "") | {"title": "Title", "fields": "true", "sections": "[]", "billable": "Yes"}
    with pytest.raises(InvalidFile) as caught:
        read_rows(encode_rows([tuple(CELLS), list(cells.values())]), "again", Choices())
    found = [each.partition(": ")[0] for each in caught.value.faults]
    assert found == ["line 2, field fields", "line 2, field sections", "line 2, field billable"]
