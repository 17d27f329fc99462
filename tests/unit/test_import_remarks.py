"""What an import remarks about a file, in the words of pages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.work.trello import encoded
from tests.work.trello_importer import small
from workhook.web.frame import texts
from workhook.web.frame.import_remarks import OF_A_CARD, OF_REMARKS, THINGS, remark_in_words
from workhook.work.portability.imports.apply import remarks_of
from workhook.work.portability.imports.people import Stranger, unknown_people
from workhook.work.portability.imports.remaining import Counts, Remaining
from workhook.work.portability.imports.sources import Choices, SourceFile, plan_of_any

HOSTILE = (
    "' \" <b>",
    "': its description is cut to 64 KiB",
    "\\'",
    "\\",
    "%(name)s %s",
    "a and 3 more",
    "\U000e0001" * 90,
)


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "language", lambda: "de")
    monkeypatch.setattr("workhook.web.frame.import_remarks.language", lambda: "de")


def _remarks_of(board: dict[str, Any]) -> list[str]:
    return plan_of_any(SourceFile("x.json", encoded(board)), Choices(done=["Nowhere"])).warnings


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize("name", HOSTILE)
def test_every_remark_about_a_card_is_translated_whatever_its_name(name: str) -> None:
    custom = [{"id": f"f{at}", "name": f"Field {at}"} for at in range(120)]
    card = {
        "name": name + "n" * 300,
        "desc": "ä" * 40_000,
        "due": "soon",
        "cover": {"sharedSourceUrl": "javascript:x"},
        "customFieldItems": [{"idCustomField": each["id"], "value": {"text": "y"}} for each in custom],
    }
    lists = [{"id": f"l{at}", "name": f"{name} {at} " + "x" * 300} for at in range(3)]
    remarks = _remarks_of(small(card, name="b" * 300, customFields=custom, lists=lists))
    assert len(remarks) >= 7
    said = [remark_in_words(each) for each in remarks]
    assert [each for each, was in zip(said, remarks, strict=True) if each == was] == []
    of_cards = [each for each in said if each.startswith("Karte ")]
    assert "Die Beschreibung ist auf 64 KiB gekürzt." in " ".join(of_cards)
    assert all(repr((name + "n" * 300)[:77])[1:-1] in each for each in of_cards)


@pytest.mark.usefixtures("german")
def test_people_who_are_nobody_here() -> None:
    some = [Stranger(f"Person {at}", f"p{at}", assigned=True) for at in range(2_012)]
    [said] = map(remark_in_words, unknown_people(some, ""))
    assert said.startswith("Niemand hier ist Person 0, Person 1, ")
    assert said.endswith("Person 9 und 2.002 weitere.")


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, "1 Karte hat sich dort seither geändert und blieb hier, wie sie ist: Card 0"),
        (2, "2 Karten haben sich dort seither geändert und blieben hier, wie sie sind: Card 0, Card 1"),
    ],
)
def test_what_has_changed_in_the_other_program(number: int, expected: str) -> None:
    changed = [f"Card {at}" for at in range(number)]
    rest = Remaining(None, {}, [], [], [], [], Counts(0, 0, 0), changed, {}, [], ["Far"], ["Lone"])
    assert [remark_in_words(each) for each in remarks_of(rest)] == [
        expected,
        "Diese Karten wurden schon in ein anderes Projekt importiert und bleiben dort: Far",
        "Diese Karten können hier keine Unteraufgaben sein und stehen für sich: Lone",
    ]


@pytest.mark.usefixtures("german")
def test_the_reason_why_a_card_does_not_wait_is_translated_too() -> None:
    remark = "task 'b' does not wait for others here: Not Found"
    said = "Karte 'b' wartet hier nicht auf andere: Das gibt es hier nicht, oder Sie dürfen es nicht sehen."
    assert remark_in_words(remark) == said


@pytest.mark.parametrize("length", [100, 1_000, 100_000])
def test_texts_of_strangers_that_look_like_remarks_are_left_as_they_are(length: int) -> None:
    """Where a pattern went through all ways to part them, this would not end."""
    for piece in ("card '", "card '\\", "'x': ", " is no time; the field ", " and 1 more", ": "):
        for start in ("", "card '", "nobody was ", "card 'a': its due date "):
            text = start + piece * (length // len(piece))
            assert remark_in_words(text) == text


def test_a_sentence_of_a_card_is_not_also_one_of_the_whole() -> None:
    assert not set(OF_A_CARD) & set(OF_REMARKS)
    assert {"labels", "fields", "checklists"} <= set(THINGS)
