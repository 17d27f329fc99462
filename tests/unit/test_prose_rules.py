"""The patterns of translated prose: each finds its examples, and leaves ordinary sentences alone."""

from __future__ import annotations

import ast

import pytest

from scripts.prose_rules import PATTERNS, comments, counts, docstrings, paragraphs, subject_violations

EXAMPLES = {
    "starts with a relative clause or Of": ("What a text has to be.", "Of a position.", "Whoever cancels keeps it."),
    "nobody, whoever": ("Nobody got it.", "The list of whoever may write."),
    "is no, are none": ("`ff` is none.", "This is no address."),
    "preposition and pronoun": ("The lanes of which it has something.", "The user for whom it acts."),
    "any more, anew": ("It is not used any more.", "The order is made anew."),
    "stands, is told": ("The name stands in the settings.", "The caller is told."),
}
ORDINARY = (
    "Lock the columns of the board. Raise `NotFound` if one is missing.",
    "What happens when I delete a project?",
    "A token that is no longer valid is refused.",
)


def test_every_pattern_has_examples() -> None:
    assert EXAMPLES.keys() == {each.name for each in PATTERNS}


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.name)
def test_a_pattern_finds_its_examples(pattern: object) -> None:
    [chosen] = [each for each in PATTERNS if each is pattern]
    assert all(chosen.expression.search(text) for text in EXAMPLES[chosen.name])


def test_ordinary_sentences_match_no_pattern() -> None:
    found = {each.name: number for each, number in counts(ORDINARY).items() if number}
    assert found == {}


def test_code_and_quotations_are_not_prose() -> None:
    page = 'Run it.\n\n```sh\nnobody\n```\n\nThe user `nobody` and the text "is none".\n\n- An item\n- Another one\n'
    assert not any(counts(paragraphs(page)).values())
    assert "Another one" in list(paragraphs(page))


def test_docstrings_of_every_kind_are_found() -> None:
    tree = ast.parse(
        '"""M."""\nclass C:\n    """C."""\n    def f(self):\n        """F."""\n    async def g(self):\n        """G."""'
    )
    assert sorted(docstrings(tree)) == ["C.", "F.", "G.", "M."]


def test_commit_subjects_must_be_imperative_and_short() -> None:
    assert list(subject_violations(["Round invoice time after summing entries", "Bring back the filter"])) == []
    assert len(list(subject_violations(["Rounded the time", "Adding a filter", "A" * 73]))) == 3


def test_comment_lines_below_each_other_are_read_as_one() -> None:
    source = "# The lanes that\n# nobody owns.\nx = 1  # noqa: S105  # not a secret\n\n# Another one\n"
    assert [each for each in comments(source) if each] == [
        "The lanes that nobody owns.", "noqa: S105  # not a secret", "Another one",
    ]  # fmt: skip
