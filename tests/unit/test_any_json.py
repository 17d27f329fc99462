"""Arbitrary JSON, and arbitrary text that is not JSON, through every parser and everything that displays it."""

from __future__ import annotations

import json as standard
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workhook.core import json
from workhook.core.errors import Malformed, Problem
from workhook.core.json import DEPTH_MAX
from workhook.events.catalog import CATALOG
from workhook.hooks.publishing import parse_publication
from workhook.http.lists import ListQuery
from workhook.web.activity import ProjectNames, mention_sentence, sentence
from workhook.web.hooks.payloads import SHOWN_MAX, body_text, difference, pretty
from workhook.work.board.pushes import closed_by_push
from workhook.work.history.activity.queries import mentions_task
from workhook.work.portability.imports.json_file import InvalidFile, parse_json
from workhook.work.portability.transfer.kinds import KINDS
from workhook.work.portability.transfer.lines import BadLine, line_type, reader_of

NAMES = st.sampled_from(
    [
        "id",
        "title",
        "text",
        "body",
        "changes",
        "from",
        "to",
        "action",
        "commits",
        "message",
        "task",
        "file",
        "column",
        "column_id",
        "commit",
        "repository",
        "sender",
        "description",
        "created_at",
        "payload",
        "event",
        "a",
        "é",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(["created", "edited", "moved", "completed", "closes #1", "#1", "2026-01-01T00:00:00Z"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6), max_leaves=25
)
DATA = VALUES.map(lambda value: standard.dumps(value).encode())
PARTS = st.sampled_from([
    "[", "]", "{", "}", '"', ":", ",", "1", "1E400", "9" * 400, "-", "null", "NaN", "\\ud800", '"\\ud800"', '"a":', " ",
    "[" * 120, "]" * 120, '{"a":' * 120, "}" * 120, "\ufeff", "\\", "\0", "é",
])  # fmt: skip
BROKEN = st.lists(PARTS, max_size=12).map(lambda parts: "".join(parts).encode()) | st.binary(max_size=40)
LINES = [line_type(kind) for kind in KINDS[:6]]
DEEP = [b"[" * levels + b"]" * levels for levels in (DEPTH_MAX, DEPTH_MAX + 1, 975, 6_000)]
HIDDEN = b'["]",' * 500 + b"1" + b',"["]' * 500


def nested(levels: int) -> bytes:
    return b'{"a":[' * (levels // 2) + b"]}" * (levels // 2)


@pytest.mark.parametrize("levels", [2, 50, DEPTH_MAX])
def test_json_with_a_hundred_levels_is_parsed(levels: int) -> None:
    assert standard.dumps(json.decode_untrusted(nested(levels)), separators=(",", ":")).encode() == nested(levels)


@pytest.mark.parametrize("data", [nested(DEPTH_MAX + 2), nested(975), nested(100_000), HIDDEN, b"[" * 101 + b"]" * 101])
def test_deeper_json_is_refused_everywhere(data: bytes) -> None:
    with pytest.raises(Malformed, match="100 levels"):
        json.decode_untrusted(data)
    with pytest.raises(InvalidFile, match="nested too deeply"):
        parse_json(data)
    with pytest.raises(Malformed, match="100 levels"):
        json.decode_untrusted(b'{"other":' + data + b"}", tuple[int])
    with pytest.raises(BadLine):
        reader_of(LINES[0])(b'{"other":' + data + b"}")
    assert json.indented(data) is None
    assert json.decode_stored(data) is None
    assert body_text(data.decode()).text


@pytest.mark.parametrize("number", ["1E400", "-1E400", "1e309", "9" * 309, "-" + "9" * 400, "9" * 5_000])
def test_a_number_too_large_for_a_double_is_refused_with_a_remedy(number: str) -> None:
    with pytest.raises(Malformed, match="Send it as text"):
        json.decode_untrusted(f'{{"a":[{number}]}}'.encode())
    assert json.decode_untrusted(f'{{"a":"{number}"}}'.encode()) == {"a": number}


@given(DATA | BROKEN)
@example(DEEP[1])
@example(DEEP[3])
@example(HIDDEN)
def test_every_parser_accepts_or_refuses_arbitrary_bytes(data: bytes) -> None:
    with suppress(Malformed):
        json.repeated_names(data, json.decode_untrusted(data))
    with suppress(Problem):
        value = json.decode_untrusted(data)
        if isinstance(value, dict):
            parse_publication(value)
    with suppress(InvalidFile):
        parse_json(data)
    for line in LINES:
        with suppress(BadLine):
            reader_of(line)(data)
    for struct in (tuple[int], ListQuery):
        with suppress(Malformed):
            json.decode_untrusted(data, struct)


@given(DATA | BROKEN)
@example(DEEP[0])
@example(DEEP[2])
@example(DEEP[3])
@example(b'"' + b"\xff" * 10)
def test_arbitrary_stored_bytes_can_be_displayed(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    assert len(body_text(text).text) >= min(len(text), 1)
    json.indented(data)
    difference(text, text[::-1])
    value = json.decode_stored(data)
    pretty(value)


@given(st.sampled_from(sorted(CATALOG)), st.sampled_from([None, "created", "edited", "moved", "completed"]), VALUES)
def test_every_payload_has_a_sentence(event: str, action: str | None, payload: Any) -> None:
    place = ProjectNames("/acme/website", {"col_1": "To do"})
    for published in (True, False):
        for among in (True, False):
            assert sentence(place, "Ada", event, action, payload, published=published, among_itself=among)


@given(VALUES, VALUES)
def test_arbitrary_texts_can_be_searched_for_task_numbers(record: Any, change: Any) -> None:
    texts = {"text": record} if isinstance(record, str) else {"text": "#1"}
    changes = {"text": {"from": change}} if isinstance(change, str) else None
    payload = {"action": "edited", "task_comment": texts, "changes": changes}
    assert mentions_task("task_comment", payload, 1) in (True, False)
    assert mention_sentence(ProjectNames("/acme/website", {}), "Ada", "task_comment", payload)


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_arbitrary_pushes_can_be_parsed(payload: dict[str, Any]) -> None:
    closed_by_push(payload, "acme/website")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("[1]", "[2]"),
        ("\n".join("ab" * 200), "\n".join("ba" * 200)),
        ("x\n" * 400, "x\ny\n" * 200),
        ("a\nb\nc", "b\nc\nd"),
        ("", "a"),
    ],
)
def test_a_diff_contains_both_texts_completely(first: str, second: str) -> None:
    lines = difference(first, second)
    assert [each.text for each in lines if each.kind != "second"] == _shown(first)
    assert [each.text for each in lines if each.kind != "first"] == _shown(second)


def _shown(text: str) -> list[str]:
    return (json.indented(text.encode()) or text[:SHOWN_MAX]).split("\n")[:400]


def test_a_diff_finds_common_lines() -> None:
    lines = [(each.kind, each.text) for each in difference("a\nb\nc\nd", "a\nx\nc\nd\ne")]
    assert lines == [
        ("same", "a"), ("first", "b"), ("second", "x"), ("same", "c"), ("same", "d"), ("second", "e")
    ]  # fmt: skip
