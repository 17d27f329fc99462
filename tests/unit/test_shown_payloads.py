"""Payloads as shown on pages, and samples from the catalog."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from workhook.events.catalog import CATALOG
from workhook.events.samples import AROUND, sample
from workhook.hooks.health import HealthBucket
from workhook.identity.schemas import placeholder_address
from workhook.web.hooks import charts
from workhook.web.hooks.payloads import SHOWN_MAX, body_text, difference, pretty, visible

_TAG = re.compile(r"</?span[^<>]*>")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


def plain(markup: str) -> str:
    """Return the text that is displayed and copied."""
    return unescape(_TAG.sub("", markup))


@given(_JSON)
def test_displayed_json_is_equivalent(value: Any) -> None:
    shown = pretty(value)
    text = plain(shown.text)
    assert json.loads(text) == value
    assert not shown.cut
    assert "<" not in _TAG.sub("", shown.text)
    assert not re.search(
        "[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]", text
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\u202eb", "a\\u202eb"),
        ("\u2066\u2069\u200b\u200f\ufeff", "\\u2066\\u2069\\u200b\\u200f\\ufeff"),
        ("\x00\x1b[31m\x7f", "\\u0000\\u001b[31m\\u007f"),
        ("tag \U000e0041", "tag \\udb40\\udc41"),
        ("👩‍👩‍👧 ü ʘ", "👩‍👩‍👧 ü ʘ"),
        ("two\nlines\tand", "two\nlines\tand"),
    ],
)
def test_invisible_characters_are_escaped(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_long_texts_are_truncated() -> None:
    for value in ({"list": list(range(20_000))}, {"text": "x" * 100_000}, {"text": "\u202e" * 900_000}):
        shown = pretty(value)
        assert shown.cut
        assert len(plain(shown.text)) <= SHOWN_MAX * 6
        assert shown.size == len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
    assert body_text("y" * (SHOWN_MAX + 1)).cut
    assert not body_text("y" * SHOWN_MAX).cut


def test_a_body_that_is_not_json_is_shown_unchanged() -> None:
    assert plain(body_text("{not json}<b>").text) == "{not json}<b>"
    assert body_text("<b>").text == "&lt;b&gt;"
    assert plain(body_text(' {"a":1}').text) == '{\n  "a": 1\n}'


def test_a_diff_shows_both_sides() -> None:
    lines = difference('{"same": 1, "n": 2}', '{"same": 1, "n": 3}')
    assert [(each.kind, each.text.strip()) for each in lines] == [
        ("same", "{"), ("same", '"same": 1,'), ("first", '"n": 2'), ("second", '"n": 3'), ("same", "}"),
    ]  # fmt: skip
    assert [each.kind for each in difference("", "new")] == ["first", "second"]
    assert len(difference("a\n" * 100_000, "b\n" * 100_000)) <= 800


@pytest.mark.parametrize("name", CATALOG)
def test_a_sample_fits_the_schema_of_its_event(name: str) -> None:
    event = CATALOG[name]
    known = event.schema["properties"]["action"]["enum"] if event.schema and event.actions else event.actions  # type: ignore[index]
    for action in known or (None,):
        payload = sample(name, action)
        assert payload.get("action") == action
        if event.schema is not None:
            Draft202012Validator(event.schema).validate(payload)
        assert set(payload) >= set(AROUND)
        assert sample(name, action, around=False) == {key: payload[key] for key in payload if key not in AROUND}


def test_a_sample_has_plausible_values() -> None:
    hook, file, column = (sample(name)[name] for name in ("hook", "file", "column"))
    assert (hook["active"], hook["events"], hook["last_response"]["code"]) == (False, ["push"], 410), "deactivated"
    assert sample("ping")["hook"]["active"] is True
    assert (file["content_type"], column["stage"]) == ("image/png", "in_progress")
    assert sample("task")["task"]["assignees"][0]["email"] == placeholder_address("ada"), "as in every event"
    assert len(sample("push")["head_commit"]["id"]) == 40
    assert sample("task")["task"]["priority"] == "low", "a value of the enumeration, not its null"


def test_the_chart_shows_a_single_failure_among_thousands() -> None:
    at = "2026-11-24T09:00:00Z"
    busy, quiet, idle = charts.bars([HealthBucket(at, 9999, 1), HealthBucket(at, 1, 0), HealthBucket(at, 0, 0)])
    assert (busy.bad, quiet.good, idle.good + idle.bad) == (2, 2, 0)
    assert busy.good + busy.bad <= charts.HEIGHT
    assert (busy.bad_y + busy.bad, busy.good_y + busy.good) == (busy.good_y, charts.HEIGHT)
    assert charts.bars([HealthBucket(at, 0, 0)])[0].good == 0


@pytest.mark.parametrize(
    ("rate", "words"),
    [(None, "\u2013"), (1.0, "100%"), (0.9999, "99.9%"), (0.5, "50%"), (0, "0%")],
)
def test_a_rate_is_never_rounded_up_to_100_percent(rate: float | None, words: str) -> None:
    assert charts.share(rate) == words


def test_durations_are_shown_with_units() -> None:
    assert (charts.took(None), charts.took(80), charts.took(1234)) == ("\u2013", "80\u202fms", "1.2\u202fs")
    assert (charts.took(3), charts.took(7)) == (charts.lasted(0), charts.lasted(0.01)), "as in the list of deliveries"
    assert (charts.lasted(0), charts.lasted(0.12)) == ("<\u202f10\u202fms", "120\u202fms")
