"""Texts of people as Markdown: CommonMark with tables, struck out text, task lists and web addresses as links.

`{{ prose(task.description) }}` in a template, where `prose` is the page's `Prose`. Raw HTML is shown as the text that
it is. The parser's result goes through nh3 all the same, so that a fault of the parser is no hole. Pictures become
links: a page loads nothing from outside.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import nh3

from workhook.web.frame.formats import linked

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token
    from markupsafe import Markup

NESTED_MAX = 40
"""nh3 takes time in the square of how deep elements are nested. What is deeper is shown as plain text."""

MARKS_MAX, LINKS_MAX, LINES_MAX = 12_000, 1_500, 4_000
"""Above these a text takes the parser too long: some hundred milliseconds, in which the process does nothing else."""

PAGE_CHARS_MAX = 200_000
"""The texts of a page that are shown as Markdown have so many characters together."""

KEPT_MAX, KEPT_CHARS_MAX = 256, 4_000
"""So many texts that are no longer than this are kept as HTML by a process: a few megabytes at most."""

_MARKS = "*_~`[]!<|:@"
_TAGS = frozenset(
    {"a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong"}
    | {"span", "table", "tbody", "td", "th", "thead", "tr", "ul"}
)
_ATTRIBUTES = {"a": {"href"}, "ol": {"start"}, "div": {"tabindex"}}
_CLASSES = {"span": {"mention", "mention-me"}, "div": {"scroll"}}
_SCHEMES = frozenset({"http", "https", "mailto"})
_MENTION = re.compile(r"(?<![\w@./-])@([A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?)(?![\w@-])")
_BOX = re.compile(r"\[([ xX])\](?=\s)")


class Prose:
    """Shows the texts of one page. `people`: the logins that are marked where a text mentions them, as in `@ada`; `me`
    is the reader's own. Texts that would take too long, or that come after very much text, are shown as they are."""

    def __init__(self, people: Collection[str] = (), me: str = "") -> None:
        self._people, self._me = frozenset(each.lower() for each in people), me.lower()
        self._chars_left = PAGE_CHARS_MAX

    def __call__(self, text: str) -> Markup:
        """The text as HTML."""
        self._chars_left -= len(text)
        if self._chars_left < 0 or _is_costly(text):
            return _plain(text)
        people, me = (self._people, self._me) if "@" in text else (frozenset[str](), "")
        return (_kept if len(text) <= KEPT_CHARS_MAX else _made)(text, people, me)


def _made(text: str, people: frozenset[str], me: str) -> Markup:
    from markupsafe import Markup

    parser = _parser()
    tokens = parser.parse(text, {"logins": people, "me": me})
    if _depth(tokens) > NESTED_MAX:
        return _plain(text)
    html = parser.renderer.render(tokens, parser.options, {})
    return Markup(_cleaner().clean(html))  # noqa: S704  # nh3 has cleaned it


# A page that is live is made again and again, and mostly of the same texts: they were half of a task's time.
_kept = lru_cache(KEPT_MAX)(_made)


def _plain(text: str) -> Markup:
    from markupsafe import Markup

    return Markup('<p class="written">{}</p>').format(linked(text))


def _is_costly(text: str) -> bool:
    """Whether the parser would take more than about a tenth of a second."""
    marks = sum(map(text.count, _MARKS))
    links = max(text.count("["), text.count("://"))
    return marks > MARKS_MAX or links > LINKS_MAX or text.count("\n") > LINES_MAX


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(_TAGS),
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes=set(_SCHEMES),
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )


def _depth(tokens: list[Token]) -> int:
    return max((each.level + max((one.level for one in each.children or ()), default=0) for each in tokens), default=0)


@cache
def _parser() -> MarkdownIt:
    # Few processes ever show a page: the others do not pay for the library.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": True, "breaks": True, "maxNesting": 20})
    parser.enable(["table", "strikethrough", "linkify"])
    assert parser.linkify is not None
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})  # `task.md` is no address
    parser.core.ruler.push("fitted", _fit)
    parser.add_render_rule("image", _picture_link)
    parser.add_render_rule("table_open", _constant('<div class="scroll" tabindex="0"><table>\n'))
    parser.add_render_rule("table_close", _constant("</table></div>\n"))
    return parser


def _constant(html: str) -> Any:
    return lambda *_: html


def _picture_link(renderer: Any, tokens: list[Token], index: int, options: Any, env: Any) -> str:
    """A link to a picture, with the words that describe it."""
    from markupsafe import Markup

    address = str(tokens[index].attrs.get("src", ""))
    words = renderer.renderInlineAsText(tokens[index].children or [], options, env)
    return Markup('<a href="{}">{}</a>').format(address, words or address)


def _fit(state: StateCore) -> None:
    """Headings stand below those of the page; boxes of task lists and mentions are made of plain text."""
    before: list[Token] = []
    for token in state.tokens:
        if token.tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        if token.type == "inline" and token.children:
            if [each.type for each in before[-2:]] == ["list_item_open", "paragraph_open"]:
                _tick(token.children[0])
            if state.env.get("logins"):
                token.children = list(_with_mentions(token.children, state.env))
        before = [*before[-1:], token]


def _tick(first: Token) -> None:
    if first.type == "text" and (box := _BOX.match(first.content)):
        first.content = ("☐" if box[1] == " " else "☑") + first.content[box.end() :]


def _with_mentions(tokens: list[Token], env: Any) -> Iterator[Token]:
    """Not in links; code is no text."""
    links = 0
    for token in tokens:
        links += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type != "text" or links or "@" not in token.content:
            yield token
        else:
            yield from _split(token, env)


def _split(token: Token, env: Any) -> Iterator[Token]:
    from markdown_it.token import Token

    at = 0
    for found in _MENTION.finditer(token.content):
        login = found[1].lower()
        if login not in env["logins"]:
            continue
        names = "mention mention-me" if login == env["me"] else "mention"
        yield Token("text", "", 0, content=token.content[at : found.start()])
        yield Token("mention_open", "span", 1, attrs={"class": names})
        yield Token("text", "", 0, content=found[0])
        yield Token("mention_close", "span", -1)
        at = found.end()
    yield Token("text", "", 0, content=token.content[at:])
