"""What the server says where it refuses something, in the words of pages and in the reader's language.

The API answers in English alone, and names its fields and values. The catalogue of English has what pages say instead:
the page's sentence by that of the API, and by the name of a field (in the context `field`) the label that stands at it.
In those sentences `{0}` is the first value, and `{0:label}` the label of the field that it names. A sentence that is in
no catalogue is shown as the API says it.
"""

from __future__ import annotations

import msgspec

from workhook.core.errors import Message, Number, Problem
from workhook.web.frame.formats import whole
from workhook.web.frame.texts import gettext, pgettext


def in_words(message: str) -> str:
    """The sentence of pages in the reader's language."""
    if isinstance(message, Message):
        return gettext(message.id).format(*map(_Value, message.values))
    return gettext(message)


def translate(problem: Problem) -> None:
    """All that it says to a person, for answers that are no page: a script shows them."""
    problem.message = in_words(problem.message)
    problem.faults = tuple(
        msgspec.structs.replace(each, message=in_words(each.message)) if each.message else each
        for each in problem.faults
    )


class _Value:
    """What stands in a sentence: a phrase is translated, and a number written, as the reader's language does."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __format__(self, spec: str) -> str:
        value = self._value
        if spec == "label":
            return pgettext("field", str(value))
        if isinstance(value, Number):
            return whole(value)
        return in_words(value) if isinstance(value, Message) else str(value)
