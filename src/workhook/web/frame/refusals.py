"""Error messages of the server in the words of pages and in the reader's language.

The API answers in English only, and names its fields and values. The English catalogue maps each sentence of the API to
that of pages, and the name of a field (in the context `field`) to its label. In those sentences `{0}` is the first
value, and `{0:label}` the label of the field that it names. A sentence without an entry is shown as it is.
"""

from __future__ import annotations

import msgspec

from workhook.core.errors import Message, Number, Problem
from workhook.web.frame.formats import whole
from workhook.web.frame.texts import gettext, pgettext


def in_words(message: str) -> str:
    """Return the sentence of pages in the reader's language."""
    if isinstance(message, Message):
        return gettext(message.id).format(*map(_Value, message.values))
    return gettext(message)


def translate(problem: Problem) -> None:
    """Translate the texts of a problem, for answers that a script shows."""
    problem.message = in_words(problem.message)
    problem.faults = tuple(
        msgspec.structs.replace(each, message=in_words(each.message)) if each.message else each
        for each in problem.faults
    )


class _Value:
    """A value in a sentence: phrases are translated, and numbers formatted in the reader's language."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __format__(self, spec: str) -> str:
        value = self._value
        if spec == "label":
            return pgettext("field", str(value))
        if isinstance(value, Number):
            return whole(value)
        return in_words(value) if isinstance(value, Message) else str(value)
