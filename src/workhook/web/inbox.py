"""The inbox: the visitor's notifications from all projects."""

from __future__ import annotations

from collections.abc import Mapping

from workhook.core.errors import NotFound
from workhook.http.calls import Response
from workhook.web.frame import formats
from workhook.web.frame.names import called
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, text
from workhook.work.history import notifications as queries
from workhook.work.history.notifications import ID_MAX, Notification, path_of

_SENTENCES: Mapping[str, str] = {
    "mention": text("%(who)s mentioned you in “%(what)s”."),
    "assignment": text("%(who)s assigned “%(what)s” to you."),
    "deadline": text("“%(what)s” is due soon."),
    "sent": text("%(who)s issued invoice %(what)s."),
    "voided": text("%(who)s voided invoice %(what)s."),
    "credited": text("%(who)s issued a credit note for invoice %(what)s."),
    "issued": text("Invoice %(what)s was issued."),
    "payment": text("A payment of %(amount)s was recorded for invoice %(what)s."),
    "refund": text("%(amount)s was refunded for invoice %(what)s."),
    "invitation": text("%(who)s invited you to %(what)s."),
    "hook_disabled": text("Webhook %(what)s was disabled."),
}
KINDS: Mapping[str, tuple[str, str, str]] = {
    "mention": ("message-square", text("Mentions"), text("Someone mentions you in a comment")),
    "assignment": ("user", text("Assignments"), text("Someone assigns a task to you")),
    "deadline": ("calendar", text("Due dates"), text("One of your tasks is due within a day")),
    "invoice": ("receipt", text("Invoices"), text("An invoice for your project is issued, voided, or credited")),
    "payment": ("coins", text("Payments"), text("A payment is recorded or refunded")),
    "invitation": ("mail", text("Invitations"), text("Someone invites you to an organization or project")),
    "hook_disabled": ("webhook", text("Webhooks"), text("Workhook disables a webhook you manage")),
}
"""The icon of each kind, and its label and description in the settings."""


def sentence(each: Notification) -> str:
    """Describe a notification in the reader's language."""
    key = each.action if each.kind in ("invoice", "payment") and each.action else each.kind
    if key == "sent" and each.actor is None:
        key = "issued"
    amount = "" if each.amount_minor is None else formats.amount(abs(each.amount_minor), each.currency or "")
    who = called(each.actor) if each.actor else "Workhook"
    return gettext(_SENTENCES[key], who=who, what=each.title, amount=amount)


places = Places("inbox")

ROWS = 50


@places.get("/inbox")
async def inbox(visit: Visit) -> Response:
    unread, before = visit.query("unread") == "1", visit.query_id("before")
    found = await queries.find_notifications(
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
        notifications=[(each, sentence(each), path_of(each), KINDS[each.kind][0]) for each in shown],
        newest=shown[0].id if shown else 0,
        only_unread=unread,
        begins=before is None,
        more=_query({**further, "before": str(shown[-1].id)}) if len(found) > ROWS else None,
        query=_query(further),
    )


def _query(query: dict[str, str]) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else ""


@places.post("/inbox/{notification_id}/read", action="notification.mark_read")
async def read_one(visit: Visit) -> Response:
    number = visit.call.path_integer("notification_id")
    if not await visit.change(lambda write: queries.mark_read(write.tx, write.actor, number, write.now)):
        raise NotFound()
    return visit.done(_back(visit))


@places.post("/inbox/read", action="notification.mark_read")
async def read_all(visit: Visit) -> Response:
    """Mark all notifications up to the newest shown one as read."""
    upto = visit.fields.get("upto", "")
    number = int(upto) if upto.isascii() and upto.isdigit() and len(upto) <= 15 else 0
    await visit.change(lambda write: queries.mark_all_read(write.tx, write.actor, write.now, number))
    return visit.done(_back(visit), gettext("All notifications were marked as read."))


def _back(visit: Visit) -> str:
    return "/inbox?unread=1" if visit.fields.get("unread") == "1" else "/inbox"
