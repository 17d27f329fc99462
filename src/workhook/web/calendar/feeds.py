"""Calendars for other programs: the address that one subscribes to, and the page that makes and ends it."""

from __future__ import annotations

from workhook.core.clock import now_ms
from workhook.core.errors import NotFound
from workhook.http.calls import Answer, Call
from workhook.http.disposition import disposition
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity import policy
from workhook.identity.schemas import Actor
from workhook.web.frame import paging
from workhook.web.frame.names import called
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.history.feeds import feeds, ical, queries
from workhook.work.kernel.access import Access, find_access

routes = Routes(PAGES, "pages")
places = Places("calendar_feeds")

PROJECT, ASSIGNED = "project", "assigned"
_FEED = "/{owner}/{project}/calendar/feed"


@routes.get("/calendar/{key}/calendar.ics")
async def page_calendar_feed(call: Call) -> Answer:
    """The deadlines of a project, or of what is assigned to somebody, for whoever has the address."""
    found = await feeds.require_feed(call.database, call.path("key"))
    # With what this person may do now. A calendar that goes on asking is no refusal for the audit log.
    actor = Actor(found.user, 0, "session", frozenset(policy.SCOPES), address=call.address)
    if found.project_id is not None:
        access = await find_access(call.database, actor, found.project_id)
        name, tasks = access.repository.title, await queries.list_project_due(call.database, access, now_ms())
    else:
        name = gettext("Deadlines of %(person)s") % {"person": called(found.user)}
        tasks = await queries.list_own_due(call.database, found.user, now_ms())
    body = ical.calendar_bytes(name, tasks, base=call.base_for_others)
    headers = {"Cache-Control": "private, no-cache", **disposition("calendar.ics")}
    return Answer(body, headers=headers, media_type=ical.MEDIA_TYPE)


@places.get(_FEED)
async def show_feeds(visit: Visit) -> Answer:
    """Show which calendars somebody has for other programs."""
    return await _page(visit, await visit.access())


@places.post(f"{_FEED}/renew")
async def renew_feed(visit: Visit) -> Answer:
    """Make an address, in place of the one that there was. This page alone shows it."""
    visit.require_recent(paging.project_address(visit, "calendar", "feed"))
    access = await visit.access()
    repository_id = _chosen(visit, access)
    key = await visit.change(lambda write: feeds.renew_feed(write, repository_id))
    address = f"{visit.call.base_for_others}/calendar/{key}/calendar.ics"
    return await _page(visit, access, address=address, made=visit.fields["feed"])


@places.post(f"{_FEED}/end")
async def end_feed(visit: Visit) -> Answer:
    """Turn an address off."""
    access = await visit.access()
    repository_id = _chosen(visit, access)
    was_there = await visit.change(lambda write: feeds.end_feed(write, repository_id))
    text = gettext("The address is turned off: programs that have it get nothing any more.") if was_there else ""
    return visit.done(paging.project_address(visit, "calendar", "feed"), text)


async def _page(visit: Visit, access: Access, *, address: str = "", made: str = "") -> Answer:
    """`address`: of the feed `made`, which was made just now."""
    of_project, assigned = await feeds.find_feeds(visit.database, visit.actor.user, access.repository.id)
    return visit.page(
        "calendar/feed.html",
        has_secret=bool(address),
        access=access,
        feeds=[(PROJECT, of_project), (ASSIGNED, assigned)],
        address=address,
        made=made,
    )


def _chosen(visit: Visit, access: Access) -> int | None:
    """The project whose feed the form is about; None: it is about what is assigned. Raises `NotFound`."""
    which = visit.fields.get("feed")
    if which not in (PROJECT, ASSIGNED):
        raise NotFound()
    return access.repository.id if which == PROJECT else None
