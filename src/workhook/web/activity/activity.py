"""The page of what happened in a project."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec

from workhook.core import json
from workhook.core.clock import parse_rfc3339
from workhook.core.errors import NotFound
from workhook.http import parameters
from workhook.http.calls import Answer
from workhook.web.activity.sentences import KINDS, ProjectNames, sentence
from workhook.web.frame import paging
from workhook.web.frame.names import Names
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.listing.people import logins_of
from workhook.work.board.columns import api as columns
from workhook.work.history.activity import api, queries
from workhook.work.history.activity.api import ActivityQuery, ActivityShape
from workhook.work.kernel.people import PersonShape

places = Places("activity")
ROWS = 50
_FIELDS = frozenset(("event", "actor", "since", "cursor"))


class ActivityEntry(msgspec.Struct, frozen=True):
    """A line of the page. `sentence` is HTML."""

    id: int
    who: PersonShape | None
    sentence: Any
    event: str
    action: str | None
    at: int


@places.get("/{owner}/{project}/activity")
async def activity(visit: Visit) -> Answer:
    """Show what happened in a project, the newest first."""
    access = await visit.follow()
    access.require_member("see what happens in a project")
    given = paging.given(visit)
    fields = {name: [value] for name, value in given.items() if name in _FIELDS}
    query = parameters.gather(ActivityQuery, fields, {"per_page": ROWS})
    listed = await api.list_activity(visit.call, access.repository.project_id, query)
    titles = {each.id: each.title for each in await columns.list_all(visit.database, access.repository.id)}
    people = await logins_of(visit.database, access)
    place = ProjectNames(f"/{access.repository.full_name}", titles, people)
    names = Names(each.actor for each in listed.body.activity if each.actor)
    return visit.page(
        "activity/activity.html",
        access=access,
        entries=[_entry(place, names, each) for each in listed.body.activity],
        given=defaultdict(str, given),
        kinds={name: gettext(label) for name, label in KINDS.items()},
        people=people,
        more=paging.next_page(listed.headers),
        first=paging.with_query(visit, cursor=None),
    )


def _entry(place: ProjectNames, names: Names, each: ActivityShape) -> ActivityEntry:
    who, payload = each.actor, json.decode_stored(bytes(each.payload))
    named = names(who) if who else None
    words = sentence(place, named, each.event, each.action, payload, published=each.published)
    return ActivityEntry(each.id, who, words, each.event, each.action, parse_rfc3339(each.created_at))


@places.get("/{owner}/{project}/activity/{event_id}")
async def payload(visit: Visit) -> Answer:
    """Show what webhooks get of an event: a part of the page, or a page of its own without JavaScript."""
    access = await visit.access()
    access.require_member("see what happens in a project")
    event_id = visit.call.path_integer("event_id")
    rows = await queries.list_activity(
        visit.database, access.repository.id, before=event_id + 1, limit=1, event=None, actor=None, since=None
    )
    if not rows or rows[0]["id"] != event_id:
        raise NotFound()
    stored = bytes(rows[0]["payload"])
    text = json.indented(stored) or stored.decode("utf-8", "replace")
    return visit.page("activity/payload.html", access=access, event_id=event_id, row=rows[0], text=text)
