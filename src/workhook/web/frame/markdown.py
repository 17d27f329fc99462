"""Texts of people as Markdown: CommonMark with tables, struck out text, task lists and web addresses as links.

`{{ prose(task.description) }}` in a template, where `prose` is the page's `Prose`. Raw HTML is shown as the text that
it is. The parser's result goes through nh3 all the same, so that a fault of the parser is no hole. Pictures become
links: a page loads nothing from outside. Whom a text mentions, and which tasks, `work.mentions.parsing` finds, for
pages as for what is stored.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import nh3

from workhook.storage import Reader
from workhook.web.frame.formats import linked
from workhook.work.access import Access
from workhook.work.mentions.parsing import (
    NAME,
    TASK_NUMBER,
    markdown_parser,
    may_name,
    naming_pieces,
    naming_tokens,
    parse_markdown,
)
from workhook.work.tasks.numbers import find_numbered

if TYPE_CHECKING:
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markupsafe import Markup

PAGE_CHARS_MAX = 200_000
"""The texts of a page that are shown as Markdown have so many characters together."""

KEPT_MAX, KEPT_CHARS_MAX = 256, 4_000
"""So many texts that are no longer than this are kept as HTML by a process: a few megabytes at most."""

NAMED_TASKS_MAX = 500
"""So many tasks at most are linked on a page."""

_TAGS = frozenset(
    {"a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong"}
    | {"span", "table", "tbody", "td", "th", "thead", "tr", "ul"}
)
_ATTRIBUTES = {"a": {"href"}, "ol": {"start"}, "div": {"tabindex"}}
_TASK = "task-link"
_CLASSES = {"span": {"mention", "mention-me", _TASK}, "div": {"scroll"}}
_SCHEMES = frozenset({"http", "https", "mailto"})
_BOX = re.compile(r"\[([ xX])\](?=\s)")


_TASK_SPAN = re.compile(f'<span class="{_TASK}">#([0-9]+)</span>')  # no text of a person makes such an element


class _Readers(NamedTuple):
    """The logins that are marked, in small letters, and the reader's own; the addresses of tasks by their numbers."""

    people: frozenset[str] = frozenset()
    me: str = ""
    tasks: frozenset[tuple[int, str]] = frozenset()


async def find_named_tasks(reader: Reader, access: Access, texts: Iterable[str | None]) -> Mapping[int, str]:
    """The addresses of the tasks that the texts of a page name, by their numbers: one statement for all of them."""
    numbers = {int(each) for text in texts if text and "#" in text for each in TASK_NUMBER.findall(text)}
    some = sorted(numbers)[:NAMED_TASKS_MAX]
    found = await find_numbered(reader, access.repository.id, some)
    return {number: f"/{access.repository.full_name}/tasks/{task_id}" for number, task_id in found.items()}


class Prose:
    """Shows the texts of one page. `people`: the logins that are marked where a text mentions them, as in `@ada`; `me`
    is the reader's own. `tasks`: what `find_named_tasks` found, to which `#12` is a link. Texts that would take too
    long, or that come after very much text, are shown as they are."""

    def __init__(
        self, people: Collection[str] = (), me: str = "", tasks: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        self._readers = _Readers(frozenset(each.lower() for each in people), me.lower())
        self._tasks = tasks
        self._chars_left = PAGE_CHARS_MAX

    def __call__(self, text: str) -> Markup:
        """The text as HTML."""
        self._chars_left -= len(text)
        if self._chars_left < 0:
            return _plain(text)
        readers = self._readers_of(text)
        return (_kept if len(text) <= KEPT_CHARS_MAX else _made)(text, readers)

    def reply(self, body: str) -> Markup:
        """The HTML of a reply, which was cleaned when it was written, with its mentions marked."""
        from markupsafe import Markup

        readers = self._readers_of(body)
        pieces = naming_pieces(body) if may_name(body) else [(body, False)]
        marked = (_marked(piece, readers) if names else piece for piece, names in pieces)
        return Markup(_linked_tasks("".join(marked), readers))  # noqa: S704  # what is added to it is markup of ours

    def _readers_of(self, text: str) -> _Readers:
        """Only what can be in the text, so that it is kept for other pages, too."""
        numbers = {int(each) for each in TASK_NUMBER.findall(text)} if self._tasks and "#" in text else set[int]()
        tasks = frozenset((number, self._tasks[number]) for number in numbers if number in self._tasks)
        return (self._readers if "@" in text else _Readers())._replace(tasks=tasks)


def _made(text: str, readers: _Readers) -> Markup:
    from markupsafe import Markup

    tokens = parse_markdown(text)
    if tokens is None:
        return _plain(text)
    _fit(tokens, readers)
    html = _renderer().render(tokens, markdown_parser().options, {})
    return Markup(_linked_tasks(_cleaner().clean(html), readers))  # noqa: S704  # nh3 has cleaned it


# A page that is live is made again and again, and mostly of the same texts: they were half of a task's time.
_kept = lru_cache(KEPT_MAX)(_made)


def _plain(text: str) -> Markup:
    from markupsafe import Markup

    return Markup('<p class="written">{}</p>').format(linked(text))


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


@cache
def _renderer() -> RendererHTML:
    from markdown_it.renderer import RendererHTML

    renderer = RendererHTML()
    rules: dict[str, Any] = {
        "image": partial(_picture_link, renderer),
        "table_open": _constant('<div class="scroll" tabindex="0"><table>\n'),
        "table_close": _constant("</table></div>\n"),
    }
    renderer.rules |= rules
    return renderer


def _constant(html: str) -> Any:
    return lambda *_: html


def _picture_link(renderer: Any, tokens: list[Token], index: int, options: Any, env: Any) -> str:
    """A link to a picture, with the words that describe it."""
    from markupsafe import Markup

    address = str(tokens[index].attrs.get("src", ""))
    words = renderer.renderInlineAsText(tokens[index].children or [], options, env)
    return Markup('<a href="{}">{}</a>').format(address, words or address)


def _fit(tokens: list[Token], readers: _Readers) -> None:
    """Headings stand below those of the page; boxes of task lists and mentions are made of plain text."""
    before: list[Token] = []
    for token in tokens:
        if token.tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        if token.type == "inline" and token.children:
            if [each.type for each in before[-2:]] == ["list_item_open", "paragraph_open"]:
                _tick(token.children[0])
            if readers.people or readers.tasks:
                token.children = list(_with_mentions(token.children, readers))
        before = [*before[-1:], token]


def _tick(first: Token) -> None:
    if first.type == "text" and (box := _BOX.match(first.content)):
        first.content = ("☐" if box[1] == " " else "☑") + first.content[box.end() :]


def _with_mentions(tokens: list[Token], readers: _Readers) -> Iterator[Token]:
    for token, names in naming_tokens(tokens):
        if names:
            yield from _split(token, readers)
        else:
            yield token


def _split(token: Token, readers: _Readers) -> Iterator[Token]:
    from markdown_it.token import Token

    at = 0
    for found in NAME.finditer(token.content):
        names = _class_of(found, readers)
        if not names:
            continue
        yield Token("text", "", 0, content=token.content[at : found.start()])
        yield Token("mention_open", "span", 1, attrs={"class": names})
        yield Token("text", "", 0, content=found[0])
        yield Token("mention_close", "span", -1)
        at = found.end()
    yield Token("text", "", 0, content=token.content[at:])


def _marked(piece: str, readers: _Readers) -> str:
    """A piece of HTML without tags. Logins and numbers are the same in HTML."""

    def mark(found: re.Match[str]) -> str:
        names = _class_of(found, readers)
        return f'<span class="{names}">{found[0]}</span>' if names else found[0]

    return NAME.sub(mark, piece)


def _linked_tasks(html: str, readers: _Readers) -> str:
    """With links where numbers of tasks are marked. They lead to this server, whose addresses nh3 takes for none."""
    if not readers.tasks:
        return html
    tasks = _tasks_of(readers)
    return _TASK_SPAN.sub(lambda found: f'<a class="{_TASK}" href="{tasks[int(found[1])]}">#{found[1]}</a>', html)


@lru_cache(KEPT_MAX)
def _tasks_of(readers: _Readers) -> Mapping[int, str]:
    return dict(readers.tasks)


def _class_of(found: re.Match[str], readers: _Readers) -> str:
    """Of a `NAME`; empty for one that is not marked."""
    if found[1] is None:
        return _TASK if int(found[2]) in _tasks_of(readers) else ""
    login = found[1]
    if login.lower() not in readers.people:
        return ""
    return "mention mention-me" if login.lower() == readers.me else "mention"
