"""Display untrusted text safely, on one line or on a terminal.

Characters that control a terminal or hide other text are shown as escapes. `guard_streams` applies this to standard
output and standard error, so no `print` can forget it.
"""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

# Control characters (C0, DEL, C1), line and paragraph separators, and surrogates.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def one_line(text: str) -> str:
    r"""Replace each run of control characters and line breaks with one space, and strip the ends.

    >>> one_line("Invoice\r\nReply-To: evil@example.com\0")
    'Invoice Reply-To: evil@example.com'
    """
    return _BREAKS.sub(" ", text).strip()


def is_one_line(text: str) -> bool:
    """Return whether the text has no control characters or line breaks."""
    return _BREAKS.search(text) is None


def visible(text: str, *, keep: str = "\n\t") -> str:
    r"""Escape every character that is not printable: `\x1b`, `\u202e`.

    Such characters are control characters (C0, DEL, C1), text direction marks, other invisible characters, line
    separators and lone surrogates. Those in `keep` are left unchanged.

    >>> visible("a\x1b[31m")
    'a\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode() for each in text
    )


def visible_json(text: str) -> str:
    r"""Return equivalent JSON on one line, with these characters escaped as `\uXXXX`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _json_escaped(each) for each in text)


def guard_streams() -> None:
    """Make everything that this process prints `visible` from now on. Calling it again has no effect."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _VisibleStream):
            if (stream.encoding or "ascii").lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"):
                stream.reconfigure(encoding="utf-8")  # as Typer does for its own stream
            setattr(sys, name, _VisibleStream(stream))


def underlying_stream(stream: TextIO) -> TextIO:
    """Return the underlying stream, for callers that style their output and escape its contents themselves."""
    return stream.unguarded if isinstance(stream, _VisibleStream) else stream


class _VisibleStream:
    """A text stream that escapes its output with `visible` and delegates everything else."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        self.unguarded.write(visible(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def _json_escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return the number with its noun, such as `1 file` or `1,200 deliveries`. The plural ends in `s` by default."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
