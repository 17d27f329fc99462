"""What the visitor wants to be told of, and how."""

from __future__ import annotations

from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.identity.mail import switch
from workhook.identity.mail.recipients import find_recipient, forget_bounce, note_language
from workhook.identity.notifications.schemas import KINDS
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, language
from workhook.web.inbox.sentences import KINDS as WORDS
from workhook.work.notifications.settings import Choice, choose, find_settings

places = Places("notification_settings")

INBOX, EMAIL = "inbox ", "email "  # before the kind, in the names of its checkboxes
ADDRESS = "/settings/notifications"


@places.get("/settings/notifications")
async def notification_settings(visit: Visit) -> Answer:
    """Show what the visitor is told of."""
    chosen = await find_settings(visit.database, visit.actor.user.id)
    kinds = [(kind, *map(gettext, WORDS[kind]), choice) for kind, choice in chosen.items()]
    recipient = await find_recipient(visit.database, visit.actor.user.id)
    return visit.page("account/notifications.html", kinds=kinds, has_mail=switch.is_on(), recipient=recipient)


@places.post("/settings/notifications")
async def edit_notification_settings(visit: Visit) -> Answer:
    """Choose what the visitor is told of."""
    # The page offers a choice of mail only where some can be sent. Otherwise what was chosen before stays.
    has_email = "email" in visit.fields

    async def save(write: Write) -> None:
        user_id = write.actor.user.id
        before = await find_settings(write.tx, user_id)
        wanted = {
            kind: Choice(
                inbox=visit.fields.get(INBOX + kind) == "on",
                email=visit.fields.get(EMAIL + kind) == "on" if has_email else before[kind].email,
            )
            for kind in KINDS
        }
        if has_email:
            note_language(write.tx, user_id, language())
        await choose(write.tx, user_id, wanted)

    await visit.change(save)
    return visit.done(ADDRESS, gettext("Your choice was saved."))


@places.post("/settings/notifications/address")
async def trust_address(visit: Visit) -> Answer:
    """Send to the visitor's address again, which a mail server had refused."""

    async def save(write: Write) -> None:
        await forget_bounce(write.tx, write.actor.user.id)

    await visit.change(save)
    return visit.done(ADDRESS, gettext("E-mail is sent to your address again."))
