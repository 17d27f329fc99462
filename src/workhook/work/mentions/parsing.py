"""Where a text names somebody, as in `@ada`, or a task of its project, as in `#12`. Pages mark what is stored: both use
these functions.

Comments are Markdown: CommonMark with tables, struck out text and web addresses as links. Replies are HTML that
`comments.markup` has cleaned. In either, code and links name nobody and nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

NESTED_MAX = 40
"""nh3 takes time in the square of how deep elements are nested. What is deeper is shown as plain text."""

MARKS_MAX, LINKS_MAX, LINES_MAX = 12_000, 1_500, 4_000
"""Above these a text takes the parser too long: some hundred milliseconds, in which the process does nothing else."""

NAMED_MAX = 200
"""A text mentions so many people at most, the first."""

MENTION = re.compile(r"(?<![\w@./-])@([A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?)(?![\w@-])")
"""In a piece of text without markup; not within an e-mail address."""

TASK_NUMBER = re.compile(r"(?<![\w#&/.-])#([1-9]\d{0,8})(?![\w-])")
"""In a piece of text without markup: the number of a task. An entity of HTML such as `&#12;` is none."""

NAME = re.compile(f"{MENTION.pattern}|{TASK_NUMBER.pattern}")
"""Either: the first group is a login, the second a number."""

_MARKS = "*_~`[]!<|:@"
_TAG = re.compile(r'(<(/?)([a-z0-9]+)(?:[^<>"]|"[^"]*")*>)')
_SILENT = frozenset({"a", "code", "pre"})


@cache
def markdown_parser() -> MarkdownIt:
    # Few processes ever read such a text: the others do not pay for the library.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": True, "breaks": True, "maxNesting": 20})
    parser.enable(["table", "strikethrough", "linkify"])
    assert parser.linkify is not None
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})  # `task.md` is no address
    return parser


def parse_markdown(text: str) -> list[Token] | None:
    """The tokens of a text; None for one that is plain text to everybody, since anything else would take too long."""
    if _is_costly(text):
        return None
    tokens = markdown_parser().parse(text)
    return tokens if _depth(tokens) <= NESTED_MAX else None


def _is_costly(text: str) -> bool:
    """Whether the parser would take more than about a tenth of a second."""
    marks = sum(map(text.count, _MARKS))
    links = max(text.count("["), text.count("://"))
    return marks > MARKS_MAX or links > LINKS_MAX or text.count("\n") > LINES_MAX


def _depth(tokens: list[Token]) -> int:
    return max((each.level + max((one.level for one in each.children or ()), default=0) for each in tokens), default=0)


def naming_tokens(children: Sequence[Token]) -> Iterator[tuple[Token, bool]]:
    """The tokens of one paragraph, each with whether `NAME` is looked for in it."""
    links = 0
    for token in children:
        links += token.nesting if token.type in ("link_open", "link_close") else 0
        yield token, token.type == "text" and not links and may_name(token.content)


def naming_pieces(body: str) -> Iterator[tuple[str, bool]]:
    """Cleaned HTML in pieces, which are all of it, each with whether `NAME` is looked for in it."""
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


def logins_in_markdown(text: str) -> list[str]:
    """The logins that a comment names, in small letters, each once; whether anybody has them is not known here."""
    return _logins(_naming_texts(text)) if "@" in text else []


def logins_in_markup(body: str) -> list[str]:
    """`logins_in_markdown` of a reply."""
    return _logins(piece for piece, names in naming_pieces(body) if names) if "@" in body else []


def numbers_in_markdown(text: str) -> set[int]:
    """The numbers of tasks that a description or comment names; whether there are such tasks is not known here."""
    return _numbers(_naming_texts(text)) if "#" in text else set()


def numbers_in_markup(body: str) -> set[int]:
    """`numbers_in_markdown` of a reply."""
    return _numbers(piece for piece, names in naming_pieces(body) if names) if "#" in body else set()


def _naming_texts(text: str) -> Iterator[str]:
    children = (each.children for each in parse_markdown(text) or () if each.type == "inline" and each.children)
    return (token.content for each in children for token, names in naming_tokens(each) if names)


def _numbers(texts: Iterable[str]) -> set[int]:
    return {int(each[1]) for text in texts for each in TASK_NUMBER.finditer(text)}


def _logins(texts: Iterable[str]) -> list[str]:
    found = (each[1].lower() for text in texts for each in MENTION.finditer(text))
    return list(islice(dict.fromkeys(found), NAMED_MAX))


def plain_words(text: str) -> str:
    """What a reader reads of Markdown, in one line: to be quoted."""
    words = " ".join(map(_words, parse_markdown(text) or ()))
    return " ".join((words.strip() or text).split())


def _words(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return " "
    return "".join(map(_words, token.children)) if token.children else token.content
