"""Values that are strange but legal, or that only look legal: what a program sends that nobody wrote by hand."""

from __future__ import annotations

import pytest

from tests.work.studio import JsonObject, Studio

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def column(studio: Studio) -> str:
    return studio.column()


def faults(error: JsonObject) -> list[str]:
    return sorted(each["field"] for each in error["errors"])


def test_a_whole_number_of_a_query_is_digits(studio: Studio) -> None:
    for text in ("1e1", "1.0", "1E0", "+5", "05", "0x5", "\u0665"):
        assert faults(studio.owner.refused(422, "GET", "/projects", params={"per_page": text})) == ["per_page"], text


def test_a_number_that_is_no_number_does_not_clear_what_may_be_null(studio: Studio) -> None:
    made = studio.owner.post("/services", json={"title": "Care", "limit_pausing": 2})["service"]
    address = f"/services/{made['id']}"
    assert faults(studio.owner.refused(422, "PATCH", address, params={"limit_pausing": "1e0"})) == ["limit_pausing"]
    assert studio.owner.get(address)["service"]["limit_pausing"] == 2
    assert studio.owner.patch(address, params={"limit_pausing": "3"})["service"]["limit_pausing"] == 3


def test_a_number_of_a_body_is_whole_however_it_is_written(studio: Studio, column: str) -> None:
    last = studio.owner.get(f"/columns/{column}")["column"]["position"]
    studio.owner.post(f"{studio.project}/columns", json={"title": "Done"})
    moved = studio.owner.patch(f"/columns/{column}", content=f'{{"position": {last + 1}.0}}', headers=JSON)
    assert moved["column"]["position"] == last + 1


def test_what_is_no_whole_number_is_refused(studio: Studio, column: str) -> None:
    for value in (0.5, -1.0, 1e300, True, "1", "1.0", [1]):
        wrong = studio.owner.refused(422, "PATCH", f"/columns/{column}", json={"position": value})
        assert faults(wrong) == ["position"], value


def test_a_wrong_cursor_is_named_with_what_else_is_wrong(studio: Studio) -> None:
    for cursor in ("", "!!", "v1_", "v1_!!", "v1_e30", "page2"):
        query = {"per_page": 500, "cursor": cursor, "colour": "red"}
        assert faults(studio.owner.refused(422, "GET", "/projects", params=query)) == ["colour", "cursor", "per_page"]
        assert faults(studio.owner.refused(422, "GET", "/projects", params={"cursor": cursor})) == ["cursor"], cursor


def test_the_plus_of_an_offset_need_not_be_escaped(studio: Studio, column: str) -> None:
    for offset in ("+02:00", "%2B02:00", "%2b02:00"):
        made = studio.owner.post(f"/columns/{column}/tasks?title=Door&deadline=2030-05-01T10:00:00{offset}")
        assert made["task"]["deadline"] == "2030-05-01T08:00:00.000Z", offset
        due = f"deadline_after=2030-05-01T09:59:59{offset}&deadline_before=2030-05-01T10:00:01{offset}"
        assert made["task"] in studio.owner.get(f"{studio.project}/tasks?{due}")["tasks"], offset


def test_a_space_is_a_plus_only_in_a_query_and_only_before_an_offset(studio: Studio, column: str) -> None:
    address = f"/columns/{column}/tasks"
    wrong: JsonObject = {"title": "Door", "deadline": "2030-05-01T10:00:00 02:00"}
    assert faults(studio.owner.refused(422, "POST", address, json=wrong)) == ["deadline"]
    for naive in ("2030-05-01 10:00", "2030-05-01 10:00:00", "2030-05-01  02:00"):
        wrong = {"title": "Door", "deadline": naive}
        assert faults(studio.owner.refused(422, "POST", address, params=wrong)) == ["deadline"]


def test_labels_are_trimmed_and_never_blank(studio: Studio, column: str) -> None:
    address = f"/columns/{column}/tasks"
    made = studio.owner.post(address, json={"title": "Door", "labels": [" home ", "home", "front door"]})["task"]
    assert made["labels"] == ["home", "front door"]
    assert studio.owner.get(f"{studio.project}/tasks", params={"label": " front door "})["tasks"] == [made]
    for blank in ("", "  ", "\t"):
        wrong = {"title": "Door", "labels": ["home", blank]}
        assert faults(studio.owner.refused(422, "POST", address, json=wrong)) == ["labels"]


def test_a_label_with_spaces_around_it_is_no_change(studio: Studio, column: str) -> None:
    made = studio.owner.post(f"/columns/{column}/tasks", json={"title": "Door", "labels": ["home"]})["task"]
    studio.happened()
    assert studio.owner.patch(f"/tasks/{made['id']}", json={"labels": [" home"]})["task"] == made
    assert studio.happened() == []
