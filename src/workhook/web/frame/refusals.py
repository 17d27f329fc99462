"""What the server says where it refuses something, in the words of pages and in the reader's language.

The API answers in English alone, and names its fields and values. `api_sentences` has what pages say instead, and
`api_fields` what they call the fields. A sentence that is in neither is shown as the API says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

import msgspec

from workhook.core.errors import Problem
from workhook.web.frame.api_fields import LABELS
from workhook.web.frame.api_sentences import PHRASES, WORDING
from workhook.web.frame.texts import gettext

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_FORMS = {
    "field": r"[\w.\[\]]+",  # also `invoice_items[0].qty`
    **dict.fromkeys(("line", "column", "first"), r"[\d,]+"),
}
# To find where one text ends and the next begins takes time that grows with a power of their length, and some texts are
# those of files that strangers send.
_CHARS_MAX = 1_000


def in_words(message: str) -> str:
    """The sentence of pages in the reader's language, or as it is where it is not known."""
    if message in WORDING:
        return gettext(WORDING[message])
    if (translated := gettext(message)) != message:  # a page's own sentence
        return translated
    fitting = [each for each in _fitting(message, WORDING) if None not in each[1].values()]
    if not fitting:
        return message
    sentence, values = max(fitting, key=lambda each: len(_PLACEHOLDER.sub("", each[0])))  # the most specific one
    return gettext(WORDING[sentence]) % values


def translate(problem: Problem) -> None:
    """All that it says to a person, for answers that are no page: a script shows them."""
    problem.message = in_words(problem.message)
    problem.faults = tuple(
        msgspec.structs.replace(each, message=in_words(each.message)) if each.message else each
        for each in problem.faults
    )


def _fitting(message: str, sentences: Iterable[str]) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Those that the message is, with what stands for their placeholders in the reader's language."""
    for sentence in sentences if len(message) <= _CHARS_MAX else ():
        if "%(" in sentence and (match := pattern_of(sentence).fullmatch(message)):
            yield sentence, {name: _value(name, value) for name, value in match.groupdict().items()}


def _value(name: str, value: str) -> str | None:
    """None: it is not known, so that the sentence is another."""
    if name == "field":
        label = LABELS.get(value)
        return gettext(label) if label else value
    if name in ("what", "wait", "again"):
        return _phrase(value)
    return value


def _phrase(text: str) -> str | None:
    if text in PHRASES:
        return gettext(text)
    return next((gettext(sentence) % values for sentence, values in _fitting(text, PHRASES)), None)


@cache
def pattern_of(sentence: str) -> re.Pattern[str]:
    """What fits the sentence, whatever stands for its placeholders."""
    parts = _PLACEHOLDER.split(sentence)  # the names are at the odd places
    pieces = (f"(?P<{part}>{_FORMS.get(part, '.+?')})" if at % 2 else re.escape(part) for at, part in enumerate(parts))
    return re.compile("".join(pieces), re.DOTALL)
