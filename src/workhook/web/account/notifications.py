"""What the visitor wants to be told of."""

from __future__ import annotations

from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.identity.notifications.schemas import KINDS
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.inbox.sentences import KINDS as WORDS
from workhook.work.notifications.settings import choose, find_settings

places = Places("notification_settings")

FIELD = "inbox "  # before the kind, in the name of its checkbox


@places.get("/settings/notifications")
async def notification_settings(visit: Visit) -> Answer:
    """Show what the visitor is told of."""
    chosen = await find_settings(visit.database, visit.actor.user.id)
    kinds = [(f"{FIELD}{kind}", *map(gettext, WORDS[kind]), inbox) for kind, inbox in chosen.items()]
    return visit.page("account/notifications.html", kinds=kinds)


@places.post("/settings/notifications")
async def edit_notification_settings(visit: Visit) -> Answer:
    """Choose what the visitor is told of."""
    wanted = {kind: visit.fields.get(f"{FIELD}{kind}") == "on" for kind in KINDS}

    async def save(write: Write) -> None:
        await choose(write.tx, write.actor.user.id, wanted)

    await visit.change(save)
    return visit.done("/settings/notifications", gettext("Your choice was saved."))
