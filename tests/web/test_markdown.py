"""User texts as Markdown: their rendering, escaping, and limits against slow input."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workhook.web.frame.markdown import PAGE_CHARS_MAX, Prose

HARMLESS = {
    "a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "span",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"href", "rel", "start", "class", "tabindex"}
TEXT_CHARS_MAX = 65_536
SOME = 3_000


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def elements(html: str) -> list[tuple[str, dict[str, str]]]:
    parser = _Elements()
    parser.feed(html)
    parser.close()
    return parser.found


def require_harmless(html: str) -> None:
    for tag, attributes in elements(html):
        assert tag in HARMLESS, html
        assert set(attributes) <= ATTRIBUTES, html
        if tag == "a":
            assert attributes["rel"] == "noopener noreferrer nofollow", html
            assert re.match(r"(https?|mailto):", attributes.get("href", "http:"), re.IGNORECASE), html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**a** *b* `c` ~~d~~", "<p><strong>a</strong> <em>b</em> <code>c</code> <s>d</s></p>"),
        ("# A", "<h3>A</h3>"),
        ("###### A", "<h6>A</h6>"),
        ("a\nb", "<p>a<br>\nb</p>"),
        ("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>"),
        ("3. a", '<ol start="3">\n<li>a</li>\n</ol>'),
        ("- [ ] a\n- [x] b", "<ul>\n<li>☐ a</li>\n<li>☑ b</li>\n</ul>"),
        ("[x] a", "<p>[x] a</p>"),
        ("> a", "<blockquote>\n<p>a</p>\n</blockquote>"),
        ("```py\n<b>\n```", "<pre><code>&lt;b&gt;\n</code></pre>"),
        ("task.md and www.example.com", "<p>task.md and www.example.com</p>"),
        (
            "(see https://example.com/a?b=c&d).",
            '<p>(see <a href="https://example.com/a?b=c&amp;d" rel="noopener noreferrer nofollow">'
            "https://example.com/a?b=c&amp;d</a>).</p>",
        ),
        (
            "![a *cat*](https://example.com/cat.png)",
            '<p><a href="https://example.com/cat.png" rel="noopener noreferrer nofollow">a cat</a></p>',
        ),
    ],
)
def test_markdown_is_rendered(text: str, html: str) -> None:
    assert str(Prose()(text)).strip() == html


def test_a_table_is_scrollable_by_keyboard() -> None:
    html = Prose()("| a | b |\n| --- | ---: |\n| 1 | 2 |")
    assert html.startswith('<div class="scroll" tabindex="0"><table>')
    assert "style" not in html


def test_mentions_of_project_members_are_marked() -> None:
    prose = Prose(["ada", "Bob-2"], "ada")
    assert prose("@Ada, ask @bob-2!") == (
        '<p><span class="mention mention-me">@Ada</span>, ask <span class="mention">@bob-2</span>!</p>\n'
    )
    for text in ("`@ada`", "[@ada](https://example.com)", "x@ada.example", "@adam", "@ada-", "@@ada", "/@ada", "@eve"):
        assert "mention" not in prose(text), text


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<a href='javascript:alert(1)' style='position:fixed'>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)",
    "[x](/logout)",
    "[x](//example.com)",
    "<javascript:alert(1)>",
    "![x](javascript:alert(1))",
    '![x](https://example.com/x.png "title\' onload=alert(1)")',
    "[![x](https://example.com/x.png)](https://example.com)",
    "[x]: javascript:alert(1)\n\n[x]",
    "```<b onmouseover=alert(1)>\nx\n```",
    '```" onmouseover="alert(1)\nx\n```',
    "| a<script> |\n| :-: |\n| <b> |",
    "https://example.com/\"onmouseover='alert(1)",
    "@<script>",
    "\u202e[x](https://example.com)",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "&lt;script&gt;",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_is_harmless(text: str) -> None:
    html = Prose(["ada"])(text)
    require_harmless(html)
    assert "<script" not in html
    assert "<img" not in html


@given(
    st.lists(
        st.sampled_from(
            [*HOSTILE, "@ada", "*", "**", "_", "`", "[", "](", ")", "\n", "\n\n", "> ", "- ", "|", " ", "a"]
        )
    )
)
def test_combined_hostile_markdown_is_harmless(parts: list[str]) -> None:
    require_harmless(Prose(["ada"])("".join(parts)))


_COSTLY = {
    "quotations": "> " * TEXT_CHARS_MAX,
    "lists": "- " * TEXT_CHARS_MAX,
    "open brackets": "[" * TEXT_CHARS_MAX,
    "some open brackets": "[" * SOME,
    "pictures": "![" * SOME,
    "links": "[a](" * SOME,
    "emphasis": "*a **b " * TEXT_CHARS_MAX,
    "some emphasis": "*a **b " * SOME,
    "balanced emphasis": "*" * SOME + "a" + "*" * SOME,
    "deep emphasis": "*a **b " * 100 + "c** d* " * 100,
    "code": "`" * TEXT_CHARS_MAX,
    "addresses": "http://" * TEXT_CHARS_MAX,
    "tables": "|a" * 200 + "\n" + "|-" * 200 + "\n" + ("|b" * 200 + "\n") * 300,
    "lines": "a\n" * TEXT_CHARS_MAX,
    "references": "[a]: x\n\n" + "[a]" * TEXT_CHARS_MAX,
    "mentions": "@ada " * TEXT_CHARS_MAX,
    "entities": "&amp;" * TEXT_CHARS_MAX,
    "tags": "<a" * TEXT_CHARS_MAX,
}


@pytest.mark.parametrize("text", _COSTLY.values(), ids=_COSTLY)
def test_no_text_is_slow_to_render(text: str) -> None:
    prose = Prose(["ada"])
    prose("warm")
    before = time.thread_time()
    html = prose(text[:TEXT_CHARS_MAX])
    assert time.thread_time() - before < 2, "a fifth of a second is usual; the parser alone took many"
    require_harmless(html)


def test_too_deeply_nested_text_is_shown_as_plain_text() -> None:
    text = "*a **b " * 60 + "c** d* " * 60
    assert Prose()(text) == f'<p class="written">{text}</p>'


def test_text_beyond_the_limit_of_a_page_is_shown_as_plain_text() -> None:
    prose = Prose()
    assert prose("**a** " + "b" * (PAGE_CHARS_MAX - 100)).startswith("<p><strong>")
    assert prose("**a**\n<b>" + "b" * 100) == f'<p class="written">**a**\n&lt;b&gt;{"b" * 100}</p>'
