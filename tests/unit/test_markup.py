"""The sanitizing of markup, and the preservation of plain text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workhook.http.parameters import TEXT_MAX_BYTES
from workhook.work.discussion.markup import BLOCKS, INLINE, TAGS_MAX, clean, plain, read_markup

REL = 'rel="noopener noreferrer nofollow"'


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("<p>One</p><p>Two</p>", "<p>One</p><p>Two</p>"),
        ("<h1>T</h1><ul><li>a</li></ul><pre>x</pre>", "<h1>T</h1><ul><li>a</li></ul><pre>x</pre>"),
        ("<B>Loud</B><br/>", "<b>Loud</b><br>"),
        ("<b>open", "<b>open</b>"),
        ('<b class="x" onclick=y()>b</b>', "<b>b</b>"),
        ('<a href="https://e.org/?a=1&copy=2">x</a>', f'<a href="https://e.org/?a=1&amp;copy=2" {REL}>x</a>'),
        ("<a href='mailto:a@e.org' target=_blank>x</a>", f'<a href="mailto:a@e.org" {REL}>x</a>'),
        ("<a class=x href=http://e.org>x</a>", f'<a href="http://e.org" {REL}>x</a>'),
        ("<div>a</div><div>b</div>", "<p>a</p><p>b</p>"),
        ("w<span style='color:red'>or</span>d", "word"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "   a  b   "),
        ("a<!-- <b> -->b", "ab"),
    ],
)
def test_allowed_markup_is_kept(body: str, kept: str) -> None:
    assert clean(body) == kept


@pytest.mark.parametrize(
    "body",
    [
        "<script>alert(1)</script>",
        "<ScRiPt src=//e.org/x.js></sCrIpT>",
        "<scr<script>ipt>alert(1)</script>",
        "<style>*{background:url(//e.org)}</style>",
        "<img src=x onerror=alert(1)>",
        "<svg/onload=alert(1)><p>",
        "<svg><style><img src=x onerror=alert(1)></style></svg>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
        "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
        "<iframe src=javascript:alert(1)></iframe>",
        "<textarea><b></textarea><img src=x onerror=alert(1)>",
        "<a href='javascript:alert(1)'>x</a>",
        "<a href=' java\nscript:alert(1)'>x</a>",
        "<a href='&#106;avascript:alert(1)'>x</a>",
        "<a href='data:text/html,<b onclick=x>'>x</a>",
        "<a href='//e.org'>x</a>",
        "<a href='/api'>x</a>",
        "<a href='x' style='position:fixed' onmouseover=y()>x</a>",
        '<a href="https://e.org" href="javascript:x">x</a>',
        "<form action=//e.org><input name=q><button>x</button></form>",
        "<base href=//e.org><meta http-equiv=refresh content=0><link rel=stylesheet href=//e.org>",
        "<!--><img src=x onerror=alert(1)>-->",
        "<p/onclick=alert(1)//>x",
    ],
)
def test_dangerous_markup_is_removed(body: str) -> None:
    _require_harmless(clean(body))


@pytest.mark.parametrize(
    "text",
    [
        "1 < 2 && 3 > 2",
        "if x<y then z",
        "List<String> and <T>",
        "see <https://e.org> or <me@e.org>",
        "i <3 you",
        "a <b",
        "x <- y; y -> z",
        "<!-- not closed",
        "AT&T &c.",
    ],
)
def test_plain_text_stays_readable(text: str) -> None:
    assert plain(clean(text)) == text
    assert "<" not in clean(text)


def test_markup_is_converted_to_plain_text() -> None:
    assert plain("<h1>Title</h1><p>One<br>two</p><ul><li>a</li><li>b</li></ul>") == "Title One two a b"
    assert plain("w<b>or</b>d &lt;b&gt; &amp;&nbsp;x") == "word <b> & x"


@pytest.mark.parametrize("body", ["", " \n", "<p></p>", "<br><br>", "<script>x</script>", "&nbsp;", "<img>"])
def test_markup_without_text_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match="not only markup"):
        read_markup(body)


def test_the_size_limit_applies_before_and_after_cleaning() -> None:
    assert read_markup("x" * TEXT_MAX_BYTES)
    assert read_markup("&" * (TEXT_MAX_BYTES // 5))
    for body in ("x" * (TEXT_MAX_BYTES + 1), "é" * TEXT_MAX_BYTES, "&" * (TEXT_MAX_BYTES // 5 + 1)):
        with pytest.raises(ValueError, match="64 KiB"):
            read_markup(body)
    assert read_markup("<br>" * TAGS_MAX + "x")
    with pytest.raises(ValueError, match="tags"):
        read_markup("<br>" * (TAGS_MAX + 1) + "x")
    for other in (None, 5, True, ["x"]):
        with pytest.raises(ValueError, match="text"):
            read_markup(other)


_PIECES = st.sampled_from(
    [
        *(f"<{slash}{name}{more}>" for name in ("p", "a", "b", "div", "script", "ul", "li", "pre", "x", "svg", "table")
          for slash in ("", "/") for more in ("", " href='http://e.org'", ' onclick="x"', "/")),
        "<", ">", "&", "&lt;", "<!--", "-->", "<!", "<?", '"', "'", "=", " ", "\n", "javascript:", "text", "]]>", "é",
    ]
)  # fmt: skip


@settings(deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(_PIECES, max_size=25).map("".join)))
@example("<pre>\n\nx</pre>")
@example("<p><a href='http://e.org'><div>x</a></div>")
def test_cleaned_markup_is_harmless_and_stable(body: str) -> None:
    once = clean(body)
    _require_harmless(once)
    assert clean(once) == once


class _Reader(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in INLINE | BLOCKS
        given = dict(attrs)
        assert len(given) == len(attrs)
        assert set(given) <= ({"href", "rel"} if tag == "a" else set())
        if tag == "a":
            assert given["rel"] == "noopener noreferrer nofollow"
            address = given.get("href")
            assert address is None or re.match(r"\s*(https?:|mailto:)", address, re.IGNORECASE)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)


def _require_harmless(cleaned: str) -> None:
    reader = _Reader()
    reader.feed(cleaned)
    reader.close()
