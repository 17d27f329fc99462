"""Times and amounts of money as parameters."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import DAY_MS, to_millis_text
from workhook.core.errors import Invalid
from workhook.http.parameters import DayOrMoment, Moment, Money, Title, documented, gather
from workhook.http.wire_types import read_day_or_moment, read_moment


@given(st.integers(min_value=0, max_value=253_370_764_799_999))
def test_a_displayed_time_is_parsed_to_the_same_value(at_ms: int) -> None:
    assert read_moment(to_millis_text(at_ms)) == at_ms


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-02T00:00:00Z", DAY_MS),
        ("1970-01-02T02:00:00+02:00", DAY_MS),
        ("1970-01-01T23:30:00.5-00:30", DAY_MS + 500),
        ("1970-01-02t00:00:00z", DAY_MS),
    ],
)
def test_times_with_an_offset_are_parsed(text: str, at_ms: int) -> None:
    assert read_moment(text) == read_day_or_moment(text) == at_ms


@pytest.mark.parametrize(
    "raw",
    [
        "1970-01-02T00:00:00", "1970-01-02T00:00Z", "1970-02-30T00:00:00Z", "1969-12-31T23:59:59Z", "soon", "", 0, None,
        "9999-12-31T23:59:59Z", "1970-01-02T25:00:00Z", True, ["1970-01-02T00:00:00Z"],
    ],
)  # fmt: skip
def test_an_invalid_time_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="a time"):
        read_moment(raw)


def test_a_bare_date_is_midnight_in_utc() -> None:
    assert read_day_or_moment("1970-01-02") == DAY_MS
    with pytest.raises(ValueError, match="a date that exists"):
        read_day_or_moment("2026-02-30")
    with pytest.raises(ValueError, match="a time"):
        read_moment("1970-01-02")


class Item(msgspec.Struct):
    description: Title
    unit_price: Money


class Bill(msgspec.Struct):
    items: Annotated[list[Item], Meta(min_length=1, max_length=2)]
    due: DayOrMoment | UnsetType | None = UNSET
    at: Moment | UnsetType = UNSET
    notes: Annotated[dict[str, str], Meta(max_length=1)] | UnsetType | None = UNSET


def _faults(body: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(Invalid) as raised:
        gather(Bill, {}, body)
    return {str(each.field): each.code for each in raised.value.faults}


def test_every_fault_of_every_item_is_reported() -> None:
    items = [{"unit_price": -1, "colour": "red"}, {"description": " ", "unit_price": 1}]
    assert _faults({"items": items, "due": "never"}) == {
        "items[0].description": "missing",
        "items[0].unit_price": "invalid",
        "items[0].colour": "unknown",
        "items[1].description": "invalid",
        "due": "invalid",
    }


@pytest.mark.parametrize("items", [[], [{}] * 3, [1], "x", {}, None])
def test_a_list_of_objects_is_validated_as_a_list(items: object) -> None:
    assert _faults({"items": items}) == {"items": "invalid"}


def test_items_are_parsed_by_the_same_rules() -> None:
    bill = gather(Bill, {}, {"items": [{"description": " Logo ", "unit_price": 12.5}], "due": None})
    assert (bill.items, bill.due, bill.at) == ([Item("Logo", Decimal("12.5"))], None, UNSET)


def test_objects_in_a_query_are_json_and_an_empty_value_clears() -> None:
    query = {"items": ['[{"description": "Logo", "unit_price": 12.5}]'], "due": [""], "notes": ['{"a": "b"}']}
    bill = gather(Bill, query, {})
    assert (bill.items, bill.due, bill.notes) == ([Item("Logo", Decimal("12.5"))], None, {"a": "b"})
    with pytest.raises(Invalid, match="Validation Failed"):
        gather(Bill, {"items": ["[{"]}, {})


def test_an_amount_is_a_number_in_json_and_text_in_a_query() -> None:
    class Price(msgspec.Struct):
        amount: Money

    assert (
        gather(Price, {"amount": ["12.50"]}, {}).amount == gather(Price, {}, {"amount": 12.5}).amount == Decimal("12.5")
    )
    with pytest.raises(Invalid, match="Validation Failed"):
        gather(Price, {}, {"amount": "12.50"})


def test_the_number_of_keys_in_an_object_is_limited() -> None:
    assert _faults({"items": [{"description": "x", "unit_price": 1}], "notes": {"a": "1", "b": "2"}}) == {
        "notes": "invalid"
    }


def test_the_document_describes_json_values() -> None:
    schemas = {each.name: each.schema for each in documented(Bill)}
    assert schemas["at"]["type"] == "string"
    day_or_moment, nothing = schemas["due"]["anyOf"]
    assert (day_or_moment["type"], nothing) == ("string", {"type": "string", "const": ""})  # clears it in a query


def test_a_nullable_parameter_keeps_its_description_and_a_plain_type() -> None:
    class Shown(msgspec.Struct):
        text: Annotated[str, Meta(description="Any text.", max_length=9)] | UnsetType | None = UNSET
        level: Literal["high", "low"] | UnsetType | None = UNSET
        name: Annotated[str, Meta(description="Not empty.", min_length=1)] | UnsetType | None = UNSET

    text, level, name = documented(Shown)
    assert (text.description, text.schema) == ("Any text.", {"type": "string", "maxLength": 9})
    assert level.schema == {"type": "string", "enum": ["high", "low", ""]}
    assert (name.description, name.schema["anyOf"][1]) == ("Not empty.", {"type": "string", "const": ""})


def test_null_in_a_query_is_an_ordinary_word() -> None:
    class Said(msgspec.Struct):
        text: str | UnsetType | None = UNSET
        private: bool | UnsetType | None = UNSET

    assert gather(Said, {"text": ["null"]}, {}).text == "null"
    assert gather(Said, {"text": [""], "private": [""]}, {}) == Said(None, None)
    with pytest.raises(Invalid, match="Validation Failed"):
        gather(Said, {"private": ["null"]}, {})


def test_the_document_describes_objects_in_a_query_as_json() -> None:
    items = next(each for each in documented(Bill) if each.name == "items")
    assert items.json
    assert "$ref" not in str(items.schema)
    assert items.schema["items"]["additionalProperties"] is False
    assert items.schema["items"]["properties"]["unit_price"]["type"] == "number"
