"""`/docs`: the way into the guide, and every operation of the API. Anybody may read it, without signing in."""

from __future__ import annotations

from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.web.frame import render
from workhook.web.frame.places import visit_of
from workhook.web.frame.sessions import signed_in

routes = Routes(PAGES, "pages", etag=False)


@routes.get("/docs")
async def page_docs(call: Call) -> Answer:
    """Show the sections of the guide and the operations of the API."""
    return await show(call, "docs/reference.html")


async def show(call: Call, template: str, **context: object) -> Answer:
    """A page for everybody; who has signed in sees it among their places."""
    session = await signed_in(call)
    if session is None:
        return render.page(template, session=None, **context)
    visit = visit_of(call, session)
    await visit.load_timer()
    return visit.page(template, **context)
