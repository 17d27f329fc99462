"""Text that people typed, as one line: for a header, a line of a calendar, a name in a sentence."""

from __future__ import annotations

import re

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
