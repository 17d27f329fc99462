"""Translation of error messages into the wording of pages and the reader's language.

API errors are in English and name the API's fields and values. The English catalog maps each API message to its wording
on pages, and each field name (in the context `field`) to its label. In these messages, `{0}` is the first value and
`{0:label}` the label of the field it names. Messages without an entry are shown unchanged.
"""

from __future__ import annotations

import msgspec

from workhook.core.errors import Message, Number, Problem
from workhook.web.frame.formats import whole
from workhook.web.frame.texts import gettext, pgettext


def in_words(message: str) -> str:
    """Return the wording of a message on pages, in the reader's language."""
    if isinstance(message, Message):
        return gettext(message.id).format(*map(_Value, message.values))
    return gettext(message)


def translate(problem: Problem) -> None:
    """Translate the messages of a problem in place, for responses that a script shows."""
    problem.message = in_words(problem.message)
    problem.faults = tuple(
        msgspec.structs.replace(each, message=in_words(each.message)) if each.message else each
        for each in problem.faults
    )


class _Value:
    """A value in a message. Phrases are translated, and numbers are formatted for the reader."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __format__(self, spec: str) -> str:
        value = self._value
        if spec == "label":
            return pgettext("field", str(value))
        if isinstance(value, Number):
            return whole(value)
        return in_words(value) if isinstance(value, Message) else str(value)
