"""HTML in replies, sanitized when it is written so that it can be shown as it is.

A body may contain a small set of HTML elements. Plain text works too: a `<` that does not start an HTML element is
treated as a literal character. nh3 does the sanitizing; the preceding steps only simplify its input.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

from workhook.core.errors import Message, Number, compose, phrase
from workhook.http.parameters import TEXT_MAX_BYTES

INLINE = frozenset({"a", "b", "code", "em", "i", "s", "strong", "u"})
BLOCKS = frozenset({"blockquote", "br", "h1", "h2", "h3", "h4", "li", "ol", "p", "pre", "ul"})
SCHEMES = frozenset({"http", "https", "mailto"})
LINK_REL = "noopener noreferrer nofollow"
TAGS_MAX = 4000
"""The parser takes quadratic time in the nesting depth."""

# Removed with their content.
_SILENT = frozenset({"script", "style"})
# Other HTML elements: their tags are removed and their text is kept. Any other name is plain text.
_WITHIN_WORDS = frozenset("abbr big del font ins mark small span strike sub sup tt wbr".split())  # noqa: SIM905  # words read better
_BETWEEN_WORDS = frozenset(
    """
    acronym address applet area article aside audio base basefont bdi bdo body button canvas caption center cite col
    colgroup data datalist dd details dfn dialog dir dl dt embed fieldset figcaption figure footer form frame frameset
    h5 h6 head header hgroup hr html iframe img input kbd label legend link main map marquee math menu meta meter nav
    noembed noframes noscript object optgroup option output param picture plaintext progress q rp rt ruby samp search
    section select slot source summary svg table tbody td template textarea tfoot th thead time title tr track var
    video xmp
    """.split()  # noqa: SIM905  # a string of words reads better
)

_TAG = re.compile(r"<(?:(/?)([A-Za-z][A-Za-z0-9]*)((?:[\s/][^<>]*)?)>)?")
_HREF = re.compile(r"""(?:^|[\s/])href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=`]+))""", re.IGNORECASE)
_FIRST_LINES = re.compile(r"<pre>\n+")  # HTML ignores the first line break, each time it is parsed
_SPACES = re.compile(r"\s+")


def read_markup(raw: object) -> str:
    """Return the body in its stored form. Raises `ValueError` with the accepted format."""
    if not isinstance(raw, str):
        raise ValueError("text")
    _require_size(raw, phrase(""))
    cleaned = clean(raw)
    _require_size(cleaned, phrase(", including the markup as stored"))
    if not plain(cleaned):
        raise ValueError("text, not only markup")
    return cleaned


def _require_size(text: str, counted: Message) -> None:
    if len(text.encode()) > TEXT_MAX_BYTES:
        raise ValueError(compose("at most {} KiB of text{}", TEXT_MAX_BYTES // 1024, counted))


def clean(text: str) -> str:
    """Keep only the elements above, and `href` as the only attribute. Idempotent. Raises `ValueError`."""
    import nh3  # an idle server does not need its 1.5 MiB

    if text.count("<") > TAGS_MAX:
        raise ValueError(compose("text with at most {} tags", Number(TAGS_MAX)))
    cleaned = nh3.clean(
        _TAG.sub(_plainer, _without_comments(text)),
        tags=set(INLINE | BLOCKS),
        clean_content_tags=set(_SILENT),
        attributes={"a": {"href"}},
        url_schemes=set(SCHEMES),
        url_relative="deny",
        link_rel=LINK_REL,
    )
    return _FIRST_LINES.sub("<pre>", cleaned)


def _plainer(tag: re.Match[str]) -> str:
    """Keep only known tags, with `href` as the only attribute, and escape a literal `<`."""
    slash, name, attributes = tag[1], (tag[2] or "").lower(), tag[3]
    if name == "a" and not slash:
        href = _HREF.search(attributes)
        address = (href[1] or href[2] or href[3] or "") if href else ""
        return '<a href="' + address.replace('"', "&quot;") + '">'
    if name == "div":  # a line, in the output of browsers' editors
        return f"<{slash}p>"
    if name in INLINE or name in BLOCKS or name in _SILENT:
        return f"<{slash}{name}>"
    if name in _WITHIN_WORDS:
        return ""
    return " " if name in _BETWEEN_WORDS else "&lt;" + tag[0][1:]


def _without_comments(text: str) -> str:
    """Remove every terminated comment (`<!-- … -->`)."""
    parts, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[at:start])
        at = end + 3
    return "".join([*parts, text[at:]])


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in BLOCKS:
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self.handle_starttag(tag, ())


def plain(cleaned: str) -> str:
    """Return the text of sanitized markup on one line, for searching and quoting."""
    words = _Words()
    words.feed(cleaned)
    words.close()
    return _SPACES.sub(" ", "".join(words.parts)).strip()
