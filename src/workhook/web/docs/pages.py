"""`/docs`: the guide, the API reference, and their search, without sign-in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workhook.core.errors import require_found
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES, Operation, is_for_programs
from workhook.web.docs import guide
from workhook.web.frame import render
from workhook.web.frame.places import visit_of
from workhook.web.frame.sessions import signed_in

HITS_MAX = 20

_known: list[Operation] = []


def register_operations(operations: Sequence[Operation]) -> None:
    """Register the operations to be found by the search."""
    _known[:] = [each for each in operations if is_for_programs(each.area)]


def search(words: str) -> list[Operation]:
    """Return the operations with all words in their method, path, name, or summary, or else with most of them."""
    wanted = dict.fromkeys(words.lower().split())
    counted = [(sum(word in _text(each) for word in wanted), each) for each in _known]
    most = max((count for count, _ in counted), default=0)
    if not most or most * 2 < len(wanted):
        return []
    return [each for count, each in counted if count == most][:HITS_MAX]


def _text(each: Operation) -> str:
    return f"{each.method} {each.area.prefixes[0]}{each.path} {each.name} {each.tag} {each.summary}".lower()


QUERY_MAX_CHARS = 255

routes = Routes(PAGES, "pages", etag=False)


@routes.get("/docs")
async def page_docs(call: Call) -> Response:
    """Show the sections of the guide and the operations of the API."""
    return await show(call, "docs/reference.html")


WORDS_MAX = 12
"""Maximum number of words in a search, which needs no account."""


@routes.get("/docs/search")
async def page_docs_search(call: Call) -> Response:
    """Search the guide and the operations of the API."""
    words = (call.query_text("q") or "")[:QUERY_MAX_CHARS]
    wanted = " ".join(words.split()[:WORDS_MAX])
    return await show(call, "docs/search.html", words=words, hits=guide.search(wanted), operations=search(wanted))


@routes.get("/docs/guide/{name}")
async def page_guide(call: Call, name: str) -> Response:
    return await _guide_page(call, name)


@routes.get("/docs/guide/{folder}/{name}")
async def page_guide_in_folder(call: Call, folder: str, name: str) -> Response:
    return await _guide_page(call, f"{folder}/{name}")


async def _guide_page(call: Call, name: str) -> Response:
    return await show(call, "docs/guide.html", guide_page=require_found(guide.pages().get(name)))


async def show(call: Call, template: str, **context: Any) -> Response:
    """Show a public page, with the navigation for signed-in users."""
    session = await signed_in(call)
    context |= {"contents": guide.contents()}
    if session is None:
        return render.page(template, session=None, **context)
    visit = visit_of(call, session)
    await visit.load_frame()
    return visit.page(template, **context)
