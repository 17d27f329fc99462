"""What somebody is told of, in words: “Ada mentioned you in “Logo””."""

from __future__ import annotations

from collections.abc import Mapping

from workhook.web.frame import formats
from workhook.web.frame.names import called
from workhook.web.frame.texts import gettext, text
from workhook.work.discussion.notifications.reading import Notification

_SENTENCES: Mapping[str, str] = {
    "mention": text("%(who)s mentioned you in “%(what)s”."),
    "assignment": text("%(who)s assigned “%(what)s” to you."),
    "deadline": text("“%(what)s” is due soon."),
    "sent": text("%(who)s sent the invoice %(what)s."),
    "voided": text("%(who)s voided the invoice %(what)s."),
    "credited": text("%(who)s credited the invoice %(what)s."),
    "issued": text("The invoice %(what)s was issued."),
    "payment": text("A payment of %(amount)s was booked for the invoice %(what)s."),
    "refund": text("%(amount)s was given back of the invoice %(what)s."),
    "invitation": text("%(who)s invites you to %(what)s."),
    "hook_disabled": text("The webhook %(what)s was turned off."),
}
ICONS: Mapping[str, str] = {
    "mention": "message-square",
    "assignment": "user",
    "deadline": "calendar",
    "invoice": "receipt",
    "payment": "coins",
    "invitation": "mail",
    "hook_disabled": "webhook",
}
KINDS: Mapping[str, tuple[str, str]] = {
    "mention": (text("Mentions"), text("Somebody names you in a comment")),
    "assignment": (text("Assignments"), text("Somebody assigns a task to you")),
    "deadline": (text("Deadlines"), text("A task of yours is due within a day")),
    "invoice": (text("Invoices"), text("An invoice of your project is sent, voided or credited")),
    "payment": (text("Payments"), text("A payment is booked, or given back")),
    "invitation": (text("Invitations"), text("Somebody invites you to an organization or a project")),
    "hook_disabled": (text("Webhooks"), text("Workhook turns off a webhook that you look after")),
}
"""What the settings call each kind, and when somebody is told of it."""


def sentence(each: Notification) -> str:
    """In the reader's language."""
    key = each.action if each.kind in ("invoice", "payment") and each.action else each.kind
    if key == "sent" and each.actor is None:
        key = "issued"
    amount = "" if each.amount_minor is None else formats.amount(abs(each.amount_minor), each.currency or "")
    who = called(each.actor) if each.actor else "Workhook"
    return gettext(_SENTENCES[key]) % {"who": who, "what": each.title, "amount": amount}
