"""The JSON form, columns and rows derived from the declaration of a record."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import sqlalchemy as sa

from workhook.core import json
from workhook.core.records import HIDDEN, NOT_STORED, JsonForm, JsonName, Record, Stored, Timestamp, to_response
from workhook.storage.record_rows import form_reader, row_reader, shown_names, stored_names, table_columns, values_of


class Line(Record, frozen=True):
    """A line of a letter."""

    number: int
    at: Timestamp | None


class Letter(Record, frozen=True):
    """A letter."""

    id: str
    kind: Literal["bill", "note"] | None
    position: Annotated[int, NOT_STORED]
    read: bool
    words: Annotated[str, JsonForm(list[str], json.decode), JsonName("tags")]
    lines: tuple[Line, ...]
    sent_at: Timestamp | None
    rank: Annotated[int, HIDDEN, Stored("sort_key")]


LETTER = Letter("a", None, 3, True, '["x"]', (Line(1, 0), Line(2, None)), 1_000, 7)
JSON: dict[str, Any] = {
    "id": "a",
    "kind": None,
    "position": 3,
    "read": True,
    "tags": ["x"],
    "lines": [{"number": 1, "at": "1970-01-01T00:00:00.000Z"}, {"number": 2, "at": None}],
    "sent_at": "1970-01-01T00:00:01.000Z",
}
ROW = ("a", None, 1, '["x"]', 1_000, 7)  # as returned by SQLite


def _json(form: object) -> Any:
    return json.decode(json.encode(form))


def test_json_has_the_visible_fields_in_order() -> None:
    found = _json(to_response(LETTER))
    assert found == JSON
    assert list(found) == list(JSON)


def test_a_row_is_converted_to_the_record_or_directly_to_json() -> None:
    assert row_reader(Letter)(ROW, position=3, lines=LETTER.lines) == LETTER
    assert row_reader(Letter, 2)((0, 0, *ROW), position=3, lines=LETTER.lines) == LETTER
    assert shown_names(Letter) == ("id", "kind", "read", "words", "sent_at")
    assert _json(form_reader(Letter, 1)([None, *ROW[:-1]], position=3, lines=LETTER.lines)) == JSON


def test_stored_values_have_column_names() -> None:
    assert stored_names(Letter, without=("id",)) == ("kind", "read", "words", "sent_at", "sort_key")
    assert values_of(LETTER) == dict(zip(stored_names(Letter), ("a", None, True, '["x"]', 1_000, 7), strict=True))


def test_column_types_are_derived_from_field_types() -> None:
    columns = {each.name: each for each in table_columns(Letter)}
    assert [name for name, each in columns.items() if each.primary_key] == ["id"]
    assert [name for name, each in columns.items() if each.nullable] == ["kind", "sent_at"]
    kinds = [type(each.type) for each in columns.values()]
    assert kinds == [sa.Text, sa.Text, sa.Boolean, sa.Text, sa.BigInteger, sa.BigInteger]
