"""Control characters are made visible: the function, the streams, the table and the log."""

from __future__ import annotations

import io
import json
import sys

import pytest
import structlog

from workhook.core import log
from workhook.core.text import guard_streams, visible, visible_json

OBEYED = [*map(chr, range(0x20)), "\x7f", *map(chr, range(0x80, 0xA0))]
HIDING = list("\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\ud800")
LEFT_ALONE = "Ärger, 漢字, \U0001f600 [red]x[/red] \\ 'quoted'"


@pytest.mark.parametrize("character", [*OBEYED, *HIDING], ids=ascii)
def test_control_characters_are_escaped(character: str) -> None:
    shown = visible(f"a{character}b", keep="")
    assert shown.isprintable()
    assert shown == f"a{character.encode('unicode_escape').decode()}b"
    written = visible_json(json.dumps(f"a{character}b", ensure_ascii=False))
    assert written.isprintable()
    assert json.loads(written) == f"a{character}b"


def test_other_text_is_unchanged() -> None:
    assert visible(LEFT_ALONE) == LEFT_ALONE
    assert visible("two\n\tlines\r") == "two\n\tlines\\r"
    assert json.loads(visible_json(json.dumps("\U000e0041", ensure_ascii=False))) == "\U000e0041"


def test_printed_text_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True))
    guard_streams()
    guard_streams()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        print("a\x1b[2Jb\u202e", file=stream)
        stream.writelines(["c\x07\n"])
        assert stream.buffer.getvalue().decode() == "a\\x1b[2Jb\\u202e\nc\\x07\n"


@pytest.mark.parametrize("style", ["text", "json"])
def test_logged_control_characters_are_escaped(monkeypatch: pytest.MonkeyPatch, style: str) -> None:
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    before = structlog.get_config()
    log.configure("info", style)
    hostile = "x\x1b]0;owned\x07\u202e\x9b31m"
    try:
        try:
            raise ValueError(hostile)
        except ValueError:
            structlog.get_logger("t").exception("failed", reason=hostile, many=[hostile], **{hostile: 1})
    finally:
        structlog.configure(**before)
    plain = stream.getvalue()
    for styled in ("\x1b[0m", "\x1b[1m", "\x1b[2m", *(f"\x1b[{number}m" for number in range(22, 50))):
        plain = plain.replace(styled, "")
    assert "owned" in plain
    assert [each for each in plain if not each.isprintable() and each not in "\n\t"] == []
