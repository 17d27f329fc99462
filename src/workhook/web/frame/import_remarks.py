"""What an import remarks about a file, in the words of pages and in the reader's language.

Remarks hold names that strangers have chosen, and there may be thousands. So each is compared with the few sentences of
imports alone, and the name of a card, which stands in quotation marks, is found without looking for where it may end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from workhook.web.frame.import_sentences import OF_IMPORTS
from workhook.web.frame.refusals import in_words, pattern_of
from workhook.web.frame.texts import gettext, language, text

_CHARS_MAX = 2_000  # ten names of 80 characters, some of which are written as `\U0001f600`

OF_REMARKS: Mapping[str, str] = {
    "nobody here is %(names)s": text("Nobody here is %(names)s."),
    "1 task has changed there since, and stayed as here: %(names)s": text(
        "1 card has changed there since, and stayed as it is here: %(names)s"
    ),
    "%(number)s tasks have changed there since, and stayed as here: %(names)s": text(
        "%(number)s cards have changed there since, and stayed as they are here: %(names)s"
    ),
    "imported to another project before, and left there: %(names)s": text(
        "These cards were imported to another project before, and stay there: %(names)s"
    ),
    "tasks that cannot be subtasks here stand by themselves: %(names)s": text(
        "These cards cannot be subtasks here and stand by themselves: %(names)s"
    ),
    "task %(name)s does not wait for others here: %(reason)s": text(
        "Card %(name)s does not wait for others here: %(reason)s"
    ),
    "there is no %(kind)s %(name)s": text("There is no column %(name)s."),
    "the tasks of %(number)s columns share the column %(name)s": text(
        "The cards of %(number)s columns share the column %(name)s."
    ),
    "the cards of the last %(number)s lists share the column %(name)s": text(
        "The cards of the last %(number)s lists share the column %(name)s."
    ),
    "the export has 1,000 actions, the most that Trello puts into one: older comments are missing": text(
        "The export has 1,000 actions, the most that Trello puts into one. Older comments are missing."
    ),
    "the board's name is cut to 255 characters": text("The name of the board is cut to 255 characters."),
    "the project's name is cut to 255 characters": text("The name of the project is cut to 255 characters."),
    "it is not UTF-8 and was read as Windows-1252: %(words)s": OF_IMPORTS[
        "it is not UTF-8 and was read as Windows-1252: %(words)s"
    ],
}
OF_A_CARD: Mapping[str, str] = {
    "its %(kind)s is cut to %(most)s characters; the description begins with all of it": text(
        "its name is cut to %(most)s characters. The description begins with all of it."
    ),
    "its name is cut to 255 characters": text("its name is cut to 255 characters."),
    "its description is cut to %(most)s KiB": text("its description is cut to %(most)s KiB."),
    "its due date %(value)s is no time; the field %(name)s keeps it": text(
        "its deadline %(value)s is no time. The field %(name)s keeps it."
    ),
    "%(number)s of its comments cut to %(most)s KiB": text("%(number)s of its comments are cut to %(most)s KiB."),
    "items of its checklists are cut to %(most)s characters": text(
        "items of its checklists are cut to %(most)s characters."
    ),
    "items of its checklists beyond %(most)s KiB are left out": text(
        "items of its checklists beyond %(most)s KiB are left out."
    ),
    "the address of its cover cannot be used": text("the address of its cover cannot be used."),
    "the field %(name)s is cut": text("the field %(name)s is cut."),
    "only %(most)s of its %(things)s are kept": text("only %(most)s of its %(things)s are kept."),
}
"""What stands behind the name of a card, or of a list."""
THINGS: Mapping[str, str] = {
    "labels": text("labels"),
    "tags": text("tags"),
    "people": text("people"),
    "members": text("members"),
    "assignees": text("people"),
    "fields": text("fields"),
    "checklists": text("checklists"),
}
"""What a card has too many of."""

# A name as `repr` writes it.
_OF_A_THING = re.compile(r"""(card|task|issue|list) ('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"): (.+)""", re.DOTALL)
_AND_MORE = re.compile(r" and ([\d,]+) more$")


def remark_in_words(remark: str) -> str:
    """The sentence of pages in the reader's language, or the remark as it is where it is not known."""
    if len(remark) > _CHARS_MAX:
        return remark
    if found := _OF_A_THING.fullmatch(remark):
        kind, name, what = found.groups()
        if (said := _said(what, OF_A_CARD)) is not None:
            whole = gettext("Column %(name)s: %(remark)s") if kind == "list" else gettext("Card %(name)s: %(remark)s")
            return whole % {"name": name, "remark": said}
    said = _said(remark, OF_REMARKS)
    return remark if said is None else said


def _said(remark: str, sentences: Mapping[str, str]) -> str | None:
    for sentence, words in sentences.items():
        if found := pattern_of(sentence).fullmatch(remark):
            values = {name: _VALUES.get(name, str)(value) for name, value in found.groupdict().items()}
            return gettext(words) % values
    return None


def _number(value: str) -> str:
    return value.replace(",", ".") if language() == "de" and re.fullmatch(r"[\d,]+", value) else value


def _names(value: str) -> str:
    found = _AND_MORE.search(value)
    if found is None:
        return value
    more = {"names": value[: found.start()], "number": _number(found[1])}
    return gettext("%(names)s and %(number)s more") % more


def _things(value: str) -> str:
    return gettext(THINGS[value]) if value in THINGS else value


_VALUES: Mapping[str, Callable[[str], str]] = {
    "names": _names,
    "number": _number,
    "most": _number,
    "things": _things,
    "reason": in_words,
}
