"""Rendering of users' Markdown: CommonMark with tables, strikethrough, task lists and linked URLs.

Templates call `{{ prose(task.description) }}` with the page's `Prose`. Raw HTML is shown as text, and nh3 sanitizes the
parser's output in case of a parser bug. Images become links, because pages load nothing from other origins.
`discussion.markdown` finds the people and tasks that a text mentions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from workhook.core.caching import TextCache
from workhook.storage import Reader
from workhook.web.frame.formats import linked
from workhook.work.board.tasks.queries import find_numbered
from workhook.work.discussion.markdown import (
    NAME,
    TASK_NUMBER,
    Meter,
    TooCostly,
    markdown_parser,
    may_name,
    naming_pieces,
    naming_tokens,
    parse,
    steps_for,
)
from workhook.work.kernel.access import Access

if TYPE_CHECKING:
    import nh3
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token

PAGE_CHARS_MAX = 200_000
"""Maximum number of characters on a page that are rendered as Markdown."""

PAGE_STEPS_MAX = 120_000
"""Maximum number of parser steps for a page, about half a second of a thread."""

KEPT_BYTES = 16 << 20
"""Size of the process's cache of rendered HTML."""

NAMED_TASKS_MAX = 500
"""Maximum number of tasks that are linked on a page."""

_TAGS = frozenset(
    {"a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong"}
    | {"span", "table", "tbody", "td", "th", "thead", "tr", "ul"}
)
_ATTRIBUTES = {"a": {"href"}, "ol": {"start"}, "div": {"tabindex"}}
_NAME = "name"
_CLASSES = {"span": {_NAME}, "div": {"scroll"}}
_SCHEMES = frozenset({"http", "https", "mailto"})
_BOX = re.compile(r"\[([ xX])\](?=\s)")
_NAME_SPAN = re.compile(f'<span class="{_NAME}">([@#][A-Za-z0-9-]+)</span>')  # users' texts can't produce this element


class _Shown(NamedTuple):
    """The HTML of a text, with each name in its own element; None if shown unrendered. `steps` counts parser steps."""

    html: str | None
    steps: int


async def find_named_tasks(reader: Reader, access: Access, texts: Iterable[str | None]) -> Mapping[int, str]:
    """Return the paths of the tasks that the texts mention, by number, with one statement."""
    numbers = {int(each) for text in texts if text and "#" in text for each in TASK_NUMBER.findall(text)}
    some = sorted(numbers)[:NAMED_TASKS_MAX]
    found = await find_numbered(reader, access.repository.id, some)
    return {number: f"/{access.repository.full_name}/tasks/{task_id}" for number, task_id in found.items()}


class Prose:
    """Renders the texts of one page.

    `people` are the logins whose mentions (`@ada`) are marked, `me` is the reader's. `tasks` is the result of
    `find_named_tasks`, to which `#12` links. Texts that take too long, or that exceed the page's limits, are shown
    unrendered.
    """

    def __init__(
        self, people: Collection[str] = (), me: str = "", tasks: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        self._people, self._me = frozenset(each.lower() for each in people), me.lower()
        self._tasks = tasks
        self._chars_left, self._steps_left = PAGE_CHARS_MAX, PAGE_STEPS_MAX

    async def prepare(self, texts: Iterable[str | None]) -> Prose:
        """Render the texts into the cache in a thread, in the order of the page."""
        chars, steps = PAGE_CHARS_MAX, PAGE_STEPS_MAX
        for text in texts:
            chars -= len(text or "")
            if chars < 0 or steps < 0:
                break
            steps -= (await _shown.prepare(text)).steps if text else 0
        return self

    def __call__(self, text: str) -> Markup:
        """Render a text as HTML."""
        self._chars_left -= len(text)
        if self._chars_left < 0 or self._steps_left < 0:
            return _plain(text)
        shown = _shown.get(text)
        self._steps_left -= shown.steps
        if shown.html is None:
            return _plain(text)
        return Markup(_NAME_SPAN.sub(lambda found: self._named(found[1]), shown.html))  # noqa: S704  # sanitized by nh3

    def reply(self, body: str) -> Markup:
        """Return a reply, whose HTML was sanitized when it was written, with its mentions marked."""
        pieces = naming_pieces(body) if may_name(body) else [(body, False)]
        marked = (NAME.sub(lambda found: self._named(found[0]), piece) if names else piece for piece, names in pieces)
        return Markup("".join(marked))  # noqa: S704  # adds only our own markup

    def _named(self, name: str) -> str:
        """Return `@ada` or `#12` marked or linked, or unchanged if unknown."""
        if name[0] == "#":
            address = self._tasks.get(int(name[1:]))
            return name if address is None else f'<a class="task-link" href="{address}">{name}</a>'
        login = name[1:].lower()
        if login not in self._people:
            return name
        return f'<span class="mention{" mention-me" if login == self._me else ""}">{name}</span>'


def _show(text: str) -> _Shown:
    meter = Meter(steps_for(text))
    try:
        tokens = parse(text, meter)
        _fit(tokens, meter)
    except TooCostly:
        return _Shown(None, meter.spent)
    html = _renderer().render(tokens, markdown_parser().options, {})
    return _Shown(_cleaner().clean(html), meter.spent)


_shown = TextCache(_show, KEPT_BYTES, lambda shown: len((shown.html or "").encode()))


def _plain(text: str) -> Markup:
    return Markup('<p class="written">{}</p>').format(linked(text))


@cache
def _cleaner() -> nh3.Cleaner:
    import nh3

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
        "table_open": lambda *_: '<div class="scroll" tabindex="0"><table>\n',
        "table_close": lambda *_: "</table></div>\n",
    }
    renderer.rules |= rules
    return renderer


def _picture_link(renderer: Any, tokens: list[Token], index: int, options: Any, env: Any) -> str:
    """Render an image as a link with its alternative text."""
    address = str(tokens[index].attrs.get("src", ""))
    words = renderer.renderInlineAsText(tokens[index].children or [], options, env)
    return Markup('<a href="{}">{}</a>').format(address, words or address)


def _fit(tokens: list[Token], meter: Meter) -> None:
    """Lower headings below those of the page, and convert task list items and names. Raises `TooCostly`."""
    before: list[Token] = []
    for token in tokens:
        if token.tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        if token.type == "inline" and token.children:
            first = token.children[0]
            is_item = [each.type for each in before[-2:]] == ["list_item_open", "paragraph_open"]
            if is_item and first.type == "text" and (box := _BOX.match(first.content)):
                first.content = ("☐" if box[1] == " " else "☑") + first.content[box.end() :]
            if may_name(token.content):
                token.children = list(_with_names(token.children, meter))
        before = [*before[-1:], token]


def _with_names(tokens: list[Token], meter: Meter) -> Iterator[Token]:
    for token, names in naming_tokens(tokens):
        if names:
            yield from _split(token, meter)
        else:
            yield token


def _split(token: Token, meter: Meter) -> Iterator[Token]:
    from markdown_it.token import Token

    at = 0
    for found in NAME.finditer(token.content):
        meter.count(2)
        yield Token("text", "", 0, content=token.content[at : found.start()])
        yield Token("name_open", "span", 1, attrs={"class": _NAME})
        yield Token("text", "", 0, content=found[0])
        yield Token("name_close", "span", -1)
        at = found.end()
    yield Token("text", "", 0, content=token.content[at:])
