"""The search page, with matches highlighted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from workhook.core.clock import parse_rfc3339
from workhook.core.errors import require_found
from workhook.http import parameters
from workhook.http.calls import Response
from workhook.identity import queries
from workhook.identity.schemas import Repository
from workhook.web.frame import paging
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.board.projects import listing
from workhook.work.board.projects.schemas import Project
from workhook.work.board.tasks.matching import PART_MIN, QUERY_MAX_CHARS, fold_text, words_of
from workhook.work.board.tasks.search_indexes import MARK
from workhook.work.history.search import DRAFT, KINDS, SearchQuery, SearchResult, fold
from workhook.work.history.search import search as search_api

_EMPHASIS = re.compile(r"(\*\*|\*|`|~~)(?=\S)(.+?)(?<=\S)\1")
_LINE_SIGNS = re.compile(r"(?<!\S)(?:#{1,6}|>|\||:?-{3,}:?|[-*] \[[ x]\])(?!\S)")

Part = tuple[str, bool]
"""A piece of a text and whether it is a match."""


def marked(text: str, words: str, *, inside: bool = False) -> list[Part]:
    """Split a text into matches of `words` (from `words_of`) and other parts. `inside`: also match within words."""
    wanted = sorted({fold_text(word.removeprefix(MARK)) for word in words.split()}, key=len, reverse=True)
    if not wanted or not text:
        return [(text, False)]
    parts: list[Part] = []
    at = 0
    letters, places = fold(text)
    # Short words match only at the beginning of a word.
    each = (("" if len(word) >= PART_MIN and inside else r"(?<!\w)") + re.escape(word) for word in wanted)
    for found in re.finditer("|".join(each), letters):
        start, end = places[found.start()], places[found.end() - 1] + 1
        if start < at:  # the second letter of a character that is spelled with two
            continue
        parts += [(text[at:start], False), (text[start:end], True)]
        at = end
    return [part for part in [*parts, (text[at:], False)] if part[0]]


def without_signs(text: str) -> str:
    """Return Markdown as one line, without the markup of emphasis, headings, checklists and tables."""
    plain = _EMPHASIS.sub(r"\2", text)
    return " ".join(_LINE_SIGNS.sub(" ", plain).split())


places = Places("search")
PROJECTS = "project"  # a kind of result that only this page has
_ANCHORS = {"task_comment": "comment", "file_comment": "comment", "file_comment_reply": "reply"}


@places.get("/search")
async def search(visit: Visit) -> Response:
    text, kind = visit.query("q")[:QUERY_MAX_CHARS], visit.query("type")
    within = await _project(visit)
    words = words_of(text)
    found: dict[str, object] = {"hits": (), "incomplete": False, "more": None}
    named: Sequence[Project] = []
    if words:
        listed, named = await asyncio.gather(_find(visit, within, text, kind), _named(visit, within, words, kind))
        found |= listed
    return visit.page(
        "search/search.html",
        q=text,
        words=words,
        kind=kind,
        within=within,
        found=found,
        named=[(each, marked(each.title, words, inside=True)) for each in named],
        kinds={name: paging.with_query(visit, type=name, cursor=None) for name in ("", PROJECTS, *KINDS)},
        everywhere=paging.with_query(visit, project=None, cursor=None),
    )


async def _project(visit: Visit) -> Repository | None:
    """Return the project in the query (`project=owner/name`), or None. Raises `NotFound`."""
    if not visit.query("project"):
        return None
    owner, _, name = visit.query("project").partition("/")
    return require_found(await queries.find_repository(visit.database, owner, name, visit.actor.user.id))


async def _find(visit: Visit, within: Repository | None, text: str, kind: str) -> dict[str, object]:
    if kind == PROJECTS:
        return {}
    given = {"q": text, "type": kind, "cursor": visit.query("cursor")}
    fields = {name: [value] for name, value in given.items() if value}
    query = parameters.gather(SearchQuery, fields, {} if within is None else {"project_id": within.project_id})
    listed = await search_api(visit.call, query)
    results = listed.body.results
    ids = {each.project.id for each in results}
    projects = await listing.find_visible(visit.database, visit.actor, ids)
    hits = [_hit(each, projects[each.project.id], words_of(text)) for each in results if each.project.id in projects]
    return {"hits": hits, "incomplete": listed.body.incomplete_results, "more": paging.next_page(listed.headers)}


async def _named(visit: Visit, within: Repository | None, words: str, kind: str) -> Sequence[Project]:
    """Return the projects with the words in their titles; empty after the first page."""
    if within is not None or kind not in ("", PROJECTS) or visit.query("cursor"):
        return []
    return await listing.search_by_title(visit.database, visit.actor, words)


def _hit(result: SearchResult, project: Project, words: str) -> dict[str, object]:
    base = "/" + project.full_name
    title = gettext(DRAFT) if result.type == "invoice" and result.title == DRAFT else result.title
    return {
        "kind": result.type,
        "address": base + _address(result),
        "number": result.number,
        "title": marked(title, words, inside="comment" not in result.type),
        "excerpt": marked(without_signs(result.excerpt or ""), words, inside=result.type == "invoice"),
        "base": base,
        "project": project.title,
        "at": parse_rfc3339(result.created_at),
    }


def _address(result: SearchResult) -> str:
    if result.invoice:
        return f"/billing/{result.invoice.id}"
    found = result.task or result.file
    assert found is not None, "all other results belong to a task or a file"
    place = f"/{'tasks' if result.task else 'files'}/{found.id}"
    return f"{place}#{_ANCHORS[result.type]}-{result.id}" if result.type in _ANCHORS else place
