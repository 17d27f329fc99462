"""The guide: the pages of `docs/`, which `hatch_build.py` turns into HTML, and their search."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from markupsafe import Markup

from workhook.web.frame.assets import AssetsMissing
from workhook.web.frame.texts import text

HITS_MAX = 40
EXCERPT_CHARS = 220

SECTIONS = (
    (text("For your team"), "team"),
    (text("For clients"), "clients"),
    (text("For integrators"), "integrators"),
    (text("For operators"), "operators"),
)
"""The title of each section, and the folder of `docs/` that it shows. `contributors` is not part of the guide."""


class GuideSection(NamedTuple):
    """The text below a heading, without markup."""

    anchor: str
    heading: str
    text: str


class GuidePage(NamedTuple):
    """A page of the guide. `name` is its address below `/docs/guide/`."""

    name: str
    title: str
    html: Markup
    sections: tuple[GuideSection, ...]


class GuideHit(NamedTuple):
    """A section, with an excerpt around the first word. `missing`: the words that it does not have."""

    page: GuidePage
    section: GuideSection
    excerpt: str
    missing: tuple[str, ...] = ()


@cache
def pages() -> dict[str, GuidePage]:
    """Return the pages by name. Raises `AssetsMissing`."""
    source = files("workhook.web.docs").joinpath("guide.json")
    if not source.is_file():
        raise AssetsMissing("web/docs/guide.json is missing: install the package again (`make install`)")
    found = json.loads(source.read_text("utf-8"))
    return {
        each["name"]: GuidePage(
            each["name"],
            each["title"],
            Markup(each["html"]),  # noqa: S704  # our own pages, rendered with HTML disabled
            tuple(GuideSection(**section) for section in each["sections"]),
        )
        for each in found
    }


@cache
def contents() -> tuple[tuple[str, tuple[GuidePage, ...]], ...]:
    """Return the title of each section, in English, with its pages, the index first."""
    return tuple(
        (title, tuple(each for name, each in pages().items() if name.partition("/")[0] == folder))
        for title, folder in SECTIONS
    )


def search(words: str) -> list[GuideHit]:
    """Return at most `HITS_MAX` sections with all words, first those with words in their headings.

    If no section has all of the words, return those with the most, provided that is at least half.
    """
    wanted = list(dict.fromkeys(words.lower().split()))
    everything = [(page, section) for page in pages().values() for section in page.sections] if wanted else []
    missed = [(page, section, _missing(page, section, wanted)) for page, section in everything]
    fewest = min((len(missing) for _, _, missing in missed), default=0)
    if fewest * 2 > len(wanted):
        return []
    found = [each for each in missed if len(each[2]) == fewest]
    found.sort(key=lambda each: _rank(each[1], wanted))
    return [
        GuideHit(page, section, _excerpt(section.text, wanted), missing) for page, section, missing in found[:HITS_MAX]
    ]


def _missing(page: GuidePage, section: GuideSection, wanted: list[str]) -> tuple[str, ...]:
    everything = _searched(page.title, section.heading, section.text)
    return tuple(word for word in wanted if word not in everything)


@cache
def _searched(*texts: str) -> str:
    return " ".join(texts).lower()


def _rank(section: GuideSection, wanted: list[str]) -> int:
    """Return the number of words that the heading lacks."""
    heading = section.heading.lower()
    return sum(word not in heading for word in wanted)


def _excerpt(whole: str, wanted: list[str]) -> str:
    first = min((at for word in wanted if (at := whole.lower().find(word)) >= 0), default=0)
    begin = max(0, whole.rfind(" ", 0, max(0, first - EXCERPT_CHARS // 3)) + 1)
    end = begin + EXCERPT_CHARS
    if len(whole) > end:
        end = max(whole.rfind(" ", begin, end), begin + EXCERPT_CHARS // 2)  # not in the middle of a word
    return f"{'… ' if begin else ''}{whole[begin:end].strip()}{' …' if len(whole) > end else ''}"
