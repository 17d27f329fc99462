"""Finding mentions (`@ada`) and references to tasks of the project (`#12`) in text.

Pages use the same functions to highlight stored names. Comments are Markdown: CommonMark with tables, strikethrough and
autolinks. Replies are HTML sanitized by `discussion.markup`. In both, names within code and links are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from workhook.core.caching import TextCache
from workhook.work.discussion.markdown import Meter, TooCostly, parse, steps_for

if TYPE_CHECKING:
    from markdown_it.token import Token

QUOTE_STEPS_MAX = 6_000
"""Maximum number of parser steps for a quoted excerpt, since a list quotes many comments."""

NAMED_MAX = 200

MENTION = re.compile(r"(?<![\w@./-])@([A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?)(?![\w@-])")
"""In plain text, but not within an e-mail address."""

TASK_NUMBER = re.compile(r"(?<![\w#&/.-])#([1-9]\d{0,8})(?![\w-])")
"""A task number in plain text, but not an HTML entity such as `&#12;`."""

NAME = re.compile(f"{MENTION.pattern}|{TASK_NUMBER.pattern}")
"""Either of them: the first group is a login, the second one a number."""

_TAG = re.compile(r'(<(/?)([a-z0-9]+)(?:[^<>"]|"[^"]*")*>)')
_SILENT = frozenset({"a", "code", "pre"})


def naming_tokens(children: Sequence[Token]) -> Iterator[tuple[Token, bool]]:
    """Yield the tokens of one paragraph, each with whether it may contain a `NAME`."""
    links = 0
    for token in children:
        links += token.nesting if token.type in ("link_open", "link_close") else 0
        yield token, token.type == "text" and not links and may_name(token.content)


def naming_pieces(body: str) -> Iterator[tuple[str, bool]]:
    """Split sanitized HTML into pieces, each with whether it may contain a `NAME`."""
    inside = at = 0
    for tag in _TAG.finditer(body):
        if tag.start() > at:
            yield body[at : tag.start()], not inside
        if tag[3] in _SILENT:
            inside += -1 if tag[2] else 1
        yield tag[0], False
        at = tag.end()
    if at < len(body):
        yield body[at:], not inside


def may_name(text: str) -> bool:
    return "@" in text or "#" in text


class Names(NamedTuple):
    """The logins mentioned in a text, in lower case, and the task numbers it references. They need not exist."""

    logins: tuple[str, ...] = ()
    numbers: frozenset[int] = frozenset()


def names_in_markdown(text: str) -> Names:
    """Return the names in a comment or description, from the cache if possible."""
    return _names_in_markdown.get(text) if may_name(text) else Names()


def names_in_markup(body: str) -> Names:
    return _names(piece for piece, names in naming_pieces(body) if names) if may_name(body) else Names()


async def prepare_names(text: str) -> None:
    """Parse the text in a thread before a transaction, so that `names_in_markdown` finds it in the cache."""
    if may_name(text):
        await _names_in_markdown.prepare(text)


def _read_names(text: str) -> Names:
    try:
        tokens = parse(text, Meter(steps_for(text)))
    except TooCostly:
        return Names()
    children = (each.children for each in tokens if each.type == "inline" and each.children)
    return _names(token.content for each in children for token, names in naming_tokens(each) if names)


def _names(texts: Iterable[str]) -> Names:
    pieces = list(texts)
    logins = dict.fromkeys(each[1].lower() for piece in pieces for each in MENTION.finditer(piece))
    numbers = frozenset(int(each[1]) for piece in pieces for each in TASK_NUMBER.finditer(piece))
    return Names(tuple(islice(logins, NAMED_MAX)), numbers)


def plain_words(text: str) -> str:
    """Return Markdown as plain text on one line, from the cache if possible."""
    return _plain_words.get(text)


async def prepare_words(texts: Iterable[str | None]) -> None:
    for text in texts:
        if text:
            await _plain_words.prepare(text)


def _read_words(text: str) -> str:
    try:
        words = " ".join(map(_words, parse(text, Meter(min(QUOTE_STEPS_MAX, steps_for(text))))))
    except TooCostly:
        words = ""
    return " ".join((words.strip() or text).split())


def _words(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return " "
    return "".join(map(_words, token.children)) if token.children else token.content


_names_in_markdown = TextCache(_read_names, 2 << 20, lambda names: 64 * (len(names.logins) + len(names.numbers)))
_plain_words = TextCache(_read_words, 2 << 20, len)
