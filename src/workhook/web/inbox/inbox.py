"""The inbox: what the visitor was told of in all projects, and what they have read of it."""

from __future__ import annotations

from workhook.core.errors import NotFound
from workhook.http.calls import Answer
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.inbox.sentences import ICONS, sentence
from workhook.work.discussion.notifications import queries
from workhook.work.discussion.notifications.api import ID_MAX, path_of

places = Places("inbox")

ROWS = 50


@places.get("/inbox")
async def inbox(visit: Visit) -> Answer:
    """Show what the visitor was told of."""
    unread, before = visit.query("unread") == "1", visit.query_id("before")
    found = await queries.list_notifications(
        visit.database,
        visit.actor,
        unread=True if unread else None,
        before=ID_MAX if before is None else before,
        limit=ROWS + 1,
    )
    shown = found[:ROWS]
    further = {"unread": "1"} if unread else {}
    return visit.page(
        "inbox/inbox.html",
        notifications=[(each, sentence(each), path_of(each), ICONS[each.kind]) for each in shown],
        newest=shown[0].id if shown else 0,
        only_unread=unread,
        begins=before is None,
        more=_query({**further, "before": str(shown[-1].id)}) if len(found) > ROWS else None,
        query=_query(further),
    )


def _query(given: dict[str, str]) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in given.items()) if given else ""


@places.post("/inbox/{notification_id}/read")
async def read_one(visit: Visit) -> Answer:
    """Mark a notification as read."""
    number = visit.call.path_integer("notification_id")
    if not await visit.change(lambda write: queries.mark_read(write.tx, write.actor, number, write.now)):
        raise NotFound()
    return visit.done(_back(visit))


@places.post("/inbox/read")
async def read_all(visit: Visit) -> Answer:
    """Mark what the visitor has seen, and what is older, as read."""
    upto = visit.fields.get("upto", "")
    number = int(upto) if upto.isascii() and upto.isdigit() and len(upto) <= 15 else 0
    await visit.change(lambda write: queries.mark_all_read(write.tx, write.actor, write.now, number))
    return visit.done(_back(visit), gettext("Everything is marked as read."))


def _back(visit: Visit) -> str:
    return "/inbox?unread=1" if visit.fields.get("unread") == "1" else "/inbox"
