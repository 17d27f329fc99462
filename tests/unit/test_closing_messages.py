"""Which tasks the messages of commits close."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.work.board.pushes.messages import CLOSED_MAX, closed_by_push, closed_in

NAME = "acme/website"


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        *((f"{word} #12", [12]) for word in ("close", "closes", "closed", "fix", "fixes", "fixed")),
        *((f"{word} #12", [12]) for word in ("resolve", "resolves", "resolved", "CLOSES", "Fixes")),
        ("Closes: #12", [12]),
        ("closes :#12", [12]),
        ("Closes #12, #3 and #4 & #5, and #6 #7", [12, 3, 4, 5, 6, 7]),
        ("Closes #12, fixes #3\n\nResolves #12.", [12, 3]),
        ("(fixes #12)", [12]),
        ("closes acme/website#12 and ACME/Website#3", [12, 3]),
        ("closes other/website#12, #3", [3]),
        ("closes\n#12", [12]),
        ("See #12", []),
        ("closes #12a, closes #0, closes #012, closes ##12, closes 12", []),
        ("encloses #12, un-fixes #12, closes#12, prefix #12, fixing #12", []),
        ("closes the door of #12", []),
        ("closes #1234567890", []),
        ("", []),
    ],
)
def test_a_message_closes(message: str, numbers: list[int]) -> None:
    assert closed_in(message, NAME) == numbers


def commit(number: str, message: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "message": message, "committer": {"email": "ada@example.com"}, **more}


def numbers(**payload: Any) -> list[tuple[int, str]]:
    return [(number, each.id) for number, each in closed_by_push({"ref": "refs/heads/main", **payload}, NAME)]


def test_a_push_closes_what_its_commits_say() -> None:
    commits = [commit("a", "closes #1, #2"), commit("b", "fixes #1"), commit("a", "closes #9")]
    assert numbers(commits=commits) == [(1, "a"), (2, "a"), (1, "b")]
    assert numbers(commits=commits, head_commit=commit("c", "fixes #3"))[-1] == (3, "c")
    many = " ".join(f"closes #{number}" for number in range(1, CLOSED_MAX + 9))
    assert len(numbers(commits=[commit("a", many)])) == CLOSED_MAX


def test_only_the_default_branch_counts() -> None:
    commits = [commit("a", "closes #1")]
    for ref in ("refs/heads/topic", "refs/tags/main", "main", None, 7):
        assert numbers(ref=ref, commits=commits) == []
    named = {"commits": commits, "repository": {"default_branch": "trunk"}}
    assert numbers(**named) == []
    assert numbers(ref="refs/heads/trunk", **named) == [(1, "a")]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["closes #1", "a", "", "refs/heads/main"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "message", "committer", "email"]), inner),
)


@given(st.dictionaries(st.sampled_from(["ref", "commits", "head_commit", "repository"]), _VALUES))
def test_whatever_is_published_is_read(payload: dict[str, Any]) -> None:
    closed_by_push(payload, NAME)
