"""Unusual values that are valid, or that only appear so, as sent by generated clients."""

from __future__ import annotations

import pytest

from tests.work.studio import JsonObject, Studio

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def column(studio: Studio) -> str:
    return studio.column()


def faults(error: JsonObject) -> list[str]:
    return sorted(each["field"] for each in error["errors"])


def test_an_integer_in_a_query_must_be_written_in_digits(studio: Studio) -> None:
    for text in ("1e1", "1.0", "1E0", "+5", "05", "0x5", "\u0665"):
        assert faults(studio.owner.refused(422, "GET", "/projects", params={"per_page": text})) == ["per_page"], text


def test_an_invalid_integer_does_not_clear_a_nullable_field(studio: Studio) -> None:
    made = studio.owner.post("/services", json={"title": "Care", "limit_pausing": 2})["service"]
    address = f"/services/{made['id']}"
    assert faults(studio.owner.refused(422, "PATCH", address, params={"limit_pausing": "1e0"})) == ["limit_pausing"]
    assert studio.owner.get(address)["service"]["limit_pausing"] == 2
    assert studio.owner.patch(address, params={"limit_pausing": "3"})["service"]["limit_pausing"] == 3


def test_an_integer_in_a_body_may_be_written_as_a_float(studio: Studio, column: str) -> None:
    last = studio.owner.get(f"/columns/{column}")["column"]["position"]
    studio.owner.post(f"{studio.project}/columns", json={"title": "Done"})
    moved = studio.owner.patch(f"/columns/{column}", content=f'{{"position": {last + 1}.0}}', headers=JSON)
    assert moved["column"]["position"] == last + 1


def test_a_value_that_is_not_an_integer_is_refused(studio: Studio, column: str) -> None:
    for value in (0.5, -1.0, 1e300, True, "1", "1.0", [1]):
        wrong = studio.owner.refused(422, "PATCH", f"/columns/{column}", json={"position": value})
        assert faults(wrong) == ["position"], value


def test_an_invalid_cursor_is_reported_along_with_other_errors(studio: Studio) -> None:
    for cursor in ("", "!!", "v1_", "v1_!!", "v1_e30", "page2"):
        query = {"per_page": 500, "cursor": cursor, "colour": "red"}
        assert faults(studio.owner.refused(422, "GET", "/projects", params=query)) == ["colour", "cursor", "per_page"]
        assert faults(studio.owner.refused(422, "GET", "/projects", params={"cursor": cursor})) == ["cursor"], cursor


def test_the_plus_sign_of_an_offset_need_not_be_escaped(studio: Studio, column: str) -> None:
    for offset in ("+02:00", "%2B02:00", "%2b02:00"):
        made = studio.owner.post(f"/columns/{column}/tasks?title=Door&deadline=2030-05-01T10:00:00{offset}")
        assert made["task"]["deadline"] == "2030-05-01T08:00:00.000Z", offset
        due = f"deadline_after=2030-05-01T09:59:59{offset}&deadline_before=2030-05-01T10:00:01{offset}"
        assert made["task"] in studio.owner.get(f"{studio.project}/tasks?{due}")["tasks"], offset


def test_a_space_counts_as_a_plus_sign_only_before_an_offset_in_a_query(studio: Studio, column: str) -> None:
    address = f"/columns/{column}/tasks"
    wrong: JsonObject = {"title": "Door", "deadline": "2030-05-01T10:00:00 02:00"}
    assert faults(studio.owner.refused(422, "POST", address, json=wrong)) == ["deadline"]
    for naive in ("2030-05-01 10:00", "2030-05-01 10:00:00", "2030-05-01  02:00"):
        wrong = {"title": "Door", "deadline": naive}
        assert faults(studio.owner.refused(422, "POST", address, params=wrong)) == ["deadline"]


def test_labels_are_trimmed_and_must_not_be_blank(studio: Studio, column: str) -> None:
    address = f"/columns/{column}/tasks"
    made = studio.owner.post(address, json={"title": "Door", "labels": [" home ", "home", "front door"]})["task"]
    assert made["labels"] == ["home", "front door"]
    assert studio.owner.get(f"{studio.project}/tasks", params={"label": " front door "})["tasks"] == [made]
    for blank in ("", "  ", "\t"):
        wrong = {"title": "Door", "labels": ["home", blank]}
        assert faults(studio.owner.refused(422, "POST", address, json=wrong)) == ["labels"]


def test_surrounding_spaces_do_not_change_a_label(studio: Studio, column: str) -> None:
    made = studio.owner.post(f"/columns/{column}/tasks", json={"title": "Door", "labels": ["home"]})["task"]
    studio.happened()
    assert studio.owner.patch(f"/tasks/{made['id']}", json={"labels": [" home"]})["task"] == made
    assert studio.happened() == []
