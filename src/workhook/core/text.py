"""Text of strangers as it can be shown: in one line, and on a terminal.

What a terminal would obey, or what would hide other text, is shown as an escape. `guard_streams` puts this between a
program and its standard output and error, so that no `print` can forget it.
"""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

# Controls (C0, DEL, C1), the separators of lines and paragraphs, and halves of a surrogate pair.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def one_line(text: str) -> str:
    r"""Return the text with each run of control characters and line breaks as one space, without white space at the
    ends.

    >>> one_line("Invoice\r\nReply-To: evil@example.com\0")
    'Invoice Reply-To: evil@example.com'
    """
    return _BREAKS.sub(" ", text).strip()


def is_one_line(text: str) -> bool:
    """Return whether the text has neither control characters nor line breaks."""
    return _BREAKS.search(text) is None


def visible(text: str, *, keep: str = "\n\t") -> str:
    r"""The text with each character that is not printable as an escape: `\x1b`, `\u202e`.

    These are control characters (C0, DEL, C1), marks of text direction, other invisible characters, line separators and
    lone surrogates. Those in `keep` stay.

    >>> visible("a\x1b[31m")
    'a\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode() for each in text
    )


def visible_json(text: str) -> str:
    r"""Return equal JSON in one line, with these characters as `\uXXXX`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _json_escaped(each) for each in text)


def guard_streams() -> None:
    """From now on whatever this process prints is `visible`. A second call changes nothing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _VisibleStream):
            if (stream.encoding or "ascii").lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"):
                stream.reconfigure(encoding="utf-8")  # as Typer would, in a stream of its own beside this one
            setattr(sys, name, _VisibleStream(stream))


def unguarded(stream: TextIO) -> TextIO:
    """The stream itself, for a caller that styles its own text and has made what it shows `visible`."""
    return stream.unguarded if isinstance(stream, _VisibleStream) else stream


class _VisibleStream:
    """A text stream that writes what is `visible`. Everything else is the stream's own."""

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
