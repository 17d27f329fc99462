"""The detection of repeated names in JSON objects, which is exact and rarely parses the text again."""

from __future__ import annotations

import json as standard
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.core import json
from workhook.core.errors import FAULTS_MAX, SHOWN_MAX_CHARS, Malformed


def repeated(data: bytes) -> list[str]:
    return json.repeated_names(data, json.decode_untrusted(data))


def written(value: Any, escape: bool) -> str:
    """Encode a value as JSON. An object is a tuple of pairs, which may repeat a name."""
    if isinstance(value, tuple):
        members = [f"{written(name, escape)}: {written(each, escape)}" for name, each in value]
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(each, escape) for each in value) + "]"
    text = standard.dumps(value, ensure_ascii=False)
    return text.replace(":", "\\u003a") if escape else text


def has_repeated(value: Any) -> bool:
    if isinstance(value, tuple):
        names = [name for name, _ in value]
        return len(set(names)) < len(names) or any(has_repeated(each) for _, each in value)
    return isinstance(value, list) and any(map(has_repeated, value))


TEXTS = st.text(alphabet='ab:"\\ {}u03é', max_size=4)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.lists(st.tuples(TEXTS, inner), max_size=4).map(tuple),
)


@given(st.lists(st.tuples(TEXTS, VALUES), max_size=5).map(tuple), st.booleans())
def test_repeated_names_are_detected_exactly(value: Any, escape: bool) -> None:
    assert bool(repeated(written(value, escape).encode())) is has_repeated(value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{}", []),
        ('{"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 1}]}', []),
        ('{"a": 1, "a": 1, "a": 1}', ["a"]),
        ('{"a": {"b": 1, "b": 2}, "c": [[{"d": 1, "d": ":"}]], "c": 1, "c": [{"e": 1, "e": 2}]}',
         ["c", "a.b", "c[0].e", "c[0][0].d"]),
        ('{"\\u0061": 1, "a": 2}', ["a"]),
        ('{"a": ":", "a": "\\u003a"}', ["a"]),
        ('{"a": "\\u003A", "b": ":::"}', []),
        ('{"": 1, "": 2}', [""]),
        ('{"a": 1e999999, "a": ' + "9" * 5000 + "}", ["a"]),
    ],
)  # fmt: skip
def test_each_repeated_name_is_reported_once_with_its_path(text: str, names: list[str]) -> None:
    data = text.encode()
    value = standard.loads(text, parse_int=float)
    assert json.repeated_names(data, value) == names


def test_the_size_of_the_report_is_bounded() -> None:
    many = "{" + ",".join(f'"{number}": 1, "{number}": 2' for number in range(1000)) + "}"
    assert len(repeated(many.encode())) == FAULTS_MAX
    long = '{"' + "x" * 5000 + '": 1, "' + "x" * 5000 + '": 2}'
    assert [len(each) for each in repeated(long.encode())] == [SHOWN_MAX_CHARS]


@pytest.mark.parametrize("depth", [50, 500, 100_000])
def test_deep_nesting_does_not_crash_the_check(depth: int) -> None:
    try:
        assert repeated(b'{"a": 1, "a":' + b"[" * depth + b"]" * depth + b"}") == ["a"]
    except Malformed:
        assert depth > 400, "deeper than calls can be"
