"""The Markdown of comments and descriptions: CommonMark with tables, strikethrough and autolinks.

The parser runs in the process of the event loop, and a short text can be expensive: a table pads every row to the
columns of its header, and brackets and quotes are read again at each nesting level. The parser therefore counts steps,
and a text that needs too many is shown as plain text. A step is a position that the parser tried, a table cell, or a
unit of output.

Mentions (`@ada`) and references to tasks of the project (`#12`) are found here as well. Pages use the same functions to
highlight stored names. Replies are HTML sanitized by `discussion.markup`. In both, names in code and links are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from workhook.core.caching import TextCache

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

STEPS_MAX = 40_000
"""Maximum number of steps for one text, which take about a quarter of a second."""

STEPS_BASE, STEPS_PER_CHAR = 1_000, 10

NESTED_MAX = 40
"""nh3 takes quadratic time in the nesting depth. Text nested more deeply is shown as plain text."""

OUTPUT_CHARS_PER_STEP = 64
"""Characters of output per step. A link definition is written once, but output wherever it is referenced."""

ADDRESS_CHARS_MAX = 2_000

_METER = "meter"
_LABEL_STEPS = 12  # a possible link label is read again at each level of brackets
_SKIPPED_STEPS = 0.5  # for each token of such a label, which the parser may have cached
_WEB = re.compile(rf"""://[^\s<>"'\\|`]{{1,{ADDRESS_CHARS_MAX}}}""")
_MAILBOX = re.compile(r":[A-Za-z0-9.+_-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,8}")
_CLOSING_MARKS = frozenset(".,;:!?*_~]}")
_SCHEME = re.compile(r"(?:^|[^a-zA-Z0-9.+-])(https?|mailto)\Z", re.IGNORECASE)
_UNSAFE = re.compile(r"[^A-Za-z0-9;/?:@&=+$,\-_.!~*'()#%]+|%(?![0-9A-Fa-f]{2})")


class TooCostly(Exception):
    """A text takes too many steps to process, or is nested too deeply."""


class Meter:
    """A step counter for one text. `columns` belongs to the table being parsed."""

    def __init__(self, steps: int) -> None:
        self.allowed, self.left = steps, float(steps)
        self.columns = 0

    @property
    def spent(self) -> int:
        return math.ceil(self.allowed - self.left)

    def count(self, steps: float) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooCostly


def steps_for(text: str) -> int:
    return min(STEPS_MAX, STEPS_BASE + STEPS_PER_CHAR * len(text))


def parse(text: str, meter: Meter) -> list[Token]:
    tokens = markdown_parser().parse(text, {_METER: meter})
    depths = (each.level + max((one.level for one in each.children or ()), default=0) for each in tokens)
    if max(depths, default=0) > NESTED_MAX:
        raise TooCostly
    for token in tokens:
        meter.count(1)
        for each in token.children or ():
            size = len(each.content) + sum(len(str(value)) for value in each.attrs.values())
            meter.count(1 + size // OUTPUT_CHARS_PER_STEP)
    return tokens


@cache
def markdown_parser() -> MarkdownIt:
    # Imported late, because few processes ever parse Markdown.
    from markdown_it import MarkdownIt
    from markdown_it.parser_inline import ParserInline

    class Inline(ParserInline):
        def skipToken(self, state: StateInline) -> None:  # noqa: N802  # the library's name
            state.env[_METER].count(_SKIPPED_STEPS)
            super().skipToken(state)

    class Parser(MarkdownIt):
        """Keeps addresses as they were written, apart from invalid characters."""

        def normalizeLink(self, url: str) -> str:  # noqa: N802  # the library's name
            return _UNSAFE.sub(lambda found: quote(found[0], errors="replace"), url)

        def normalizeLinkText(self, link: str) -> str:  # noqa: N802  # the library's name
            return link

    parser = Parser()
    parser.inline = Inline()
    parser.configure("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
    parser.enable(["table", "strikethrough"])
    for rule in parser.block.ruler.__rules__:
        rule.fn = _counted(rule.fn, _steps_of_table if rule.name == "table" else _steps_of_block)
    parser.inline.ruler.at("linkify", _link_address)
    parser.inline.ruler.enable("linkify")
    first = parser.inline.ruler.__rules__[0]
    first.fn = _counted(first.fn, lambda state, _: _LABEL_STEPS if state.src[state.pos] in "[!" else 2)
    pairs = parser.inline.ruler2.__rules__[0]
    pairs.fn = _counted(pairs.fn, lambda state: 1 + 2 * len(state.delimiters))
    return parser


def _counted(rule: Callable[..., Any], steps: Callable[..., float]) -> Callable[..., Any]:
    """Count the steps of a rule, computed from its arguments, before it runs."""

    def counted(state: StateBlock | StateInline, *rest: Any) -> Any:
        state.env[_METER].count(steps(state, *rest))
        return rule(state, *rest)

    return counted


def _steps_of_block(state: StateBlock, start: int, end: int, silent: bool) -> int:
    columns: int = state.env[_METER].columns
    return 1 + columns if state.parentType == "table" else 1  # a table tries the other block rules before each row


def _steps_of_table(state: StateBlock, start: int, end: int, silent: bool) -> int:
    state.env[_METER].columns = columns = 1 + state.src.count("|", state.bMarks[start], state.eMarks[start])
    return 1 + columns


def _link_address(state: StateInline, silent: bool) -> bool:
    """Link `https://…`, `http://…` and `mailto:…` in plain text."""
    if state.src[state.pos] != ":" or state.linkLevel > 0:
        return False
    scheme = _SCHEME.search(state.pending[-7:])
    if scheme is None:
        return False
    pattern = _MAILBOX if scheme[1].lower() == "mailto" else _WEB
    found = pattern.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    state.env[_METER].count(len(found[0]) // OUTPUT_CHARS_PER_STEP)
    rest = _without_closing_marks(found[0])
    if len(rest) <= len("://"):
        return False
    if not silent:
        url = scheme[1] + rest
        state.pending = state.pending[: -len(scheme[1])]
        opened = state.push("link_open", "a", 1)
        opened.attrs = {"href": state.md.normalizeLink(url)}
        opened.markup, opened.info = "linkify", "auto"
        state.push("text", "", 0).content = url
        closed = state.push("link_close", "a", -1)
        closed.markup, closed.info = "linkify", "auto"
    state.pos += len(rest)
    return True


def _without_closing_marks(address: str) -> str:
    """Remove trailing punctuation from an address, including `)` unless the address contains its opening bracket."""
    end, open_brackets = len(address), address.count("(") - address.count(")")
    while end and (address[end - 1] in _CLOSING_MARKS or (address[end - 1] == ")" and open_brackets < 0)):
        open_brackets += address[end - 1] == ")"
        end -= 1
    return address[:end]


# --- names of people and tasks, and plain words -----------------------------------------------------------------------

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
