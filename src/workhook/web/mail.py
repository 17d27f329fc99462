"""Mail: letters in the language of the recipient or invoice, messages with headers (RFC 5322), and their composer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.headerregistry import Address
from email.utils import format_datetime

import msgspec
import structlog

from workhook.core.clock import now_ms
from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import NotFound
from workhook.core.mail_address import is_address
from workhook.core.text import one_line
from workhook.core.vault import VaultError
from workhook.core.zones import day_in, is_day
from workhook.delivery.mail.mime import Attachment, mailbox_header, message_bytes, raw_header, text_header
from workhook.delivery.mail.queue import MailMessage
from workhook.delivery.mail.smtp import Outgoing
from workhook.http.calls import Services
from workhook.identity.invitations import Invitation
from workhook.identity.mail.links import Subscription, confirm_path, mailbox_of, unsubscribe_path
from workhook.identity.mail.recipients import Recipient, find_recipient
from workhook.identity.queries import find_account_by_id
from workhook.identity.tables import NOTIFICATION_KINDS, NotificationKind
from workhook.web.frame.names import called
from workhook.web.frame.render import html, plain
from workhook.web.frame.texts import gettext, in_language, language, text
from workhook.web.inbox import sentence
from workhook.work.history.notifications import (
    Notification,
    find_invitation,
    find_mail_notification,
    find_settings,
    path_of,
)
from workhook.work.money.invoices.documents import PDF
from workhook.work.money.invoices.mail import InvoiceFile, find_mailed_invoice
from workhook.work.money.invoices.paper import DocumentLocale
from workhook.work.money.invoices.rules import OPEN
from workhook.work.money.invoices.schemas import Invoice


class Letter(HiddenRepr, msgspec.Struct, frozen=True):
    """The content of a message.

    `button` is its text and URL. `thread` is a key by which mail programs group messages. `reason` explains why the
    recipient gets the message. `unsubscribe` is the URL to unsubscribe from this kind of message.
    """

    subject: str
    intro: str
    button: tuple[str, str] | None = None
    quote: str = ""
    notes: Sequence[str] = ()
    reason: str = ""
    thread: str | None = None
    unsubscribe: str | None = None
    settings: str | None = None


_BUTTONS: Mapping[str, str] = {
    "task": text("View task"),
    "file": text("View file"),
    "invoice": text("View invoice"),
    "webhook": text("View webhook"),
    "invitation": text("View invitation"),
}


def notification_letter(
    notification: Notification, base: str, unsubscribe: str, *, invoice: Invoice | None, has_pdf: bool
) -> Letter:
    """Return the letter for a notification.

    `base` is the address of this server. `invoice` is set if the notification is about an
    invoice, and the letter is in its language.
    """
    notes = [] if invoice is None else _due_notes(invoice)
    if notification.deadline is not None:
        is_bare = is_day(notification.deadline)
        at = _paper().day(day_in(notification.deadline, UTC)) if is_bare else _moment(notification.deadline)
        notes.append(gettext("Due: %(at)s", at=at))
    if has_pdf:
        notes.append(gettext("The invoice is attached as a PDF."))
    button = gettext("View comment") if notification.comment else gettext(_BUTTONS[notification.subject])
    is_discussed, intro = notification.subject in ("task", "file", "invoice"), sentence(notification)
    subject = intro.rstrip(".")
    if notification.subject in ("task", "file"):  # constant, so that mail programs group the messages
        subject = f"[{notification.project_title}] {notification.title}"
    return Letter(
        subject=subject,
        intro=intro,
        button=(button, base + path_of(notification)),
        quote=notification.words or "",
        notes=notes,
        reason=gettext("You’re receiving this because of your notification settings."),
        thread=f"{notification.subject}.{notification.subject_id}" if is_discussed else None,
        unsubscribe=base + unsubscribe,
        settings=f"{base}/settings/notifications",
    )


def _moment(at_ms: int) -> str:
    """Format a moment such as `4 Dec 2026, 15:30 UTC`. The recipient's time zone is unknown."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{_paper().day(at.date())}, {at:%H:%M} UTC"


def _paper() -> DocumentLocale:
    return DocumentLocale("de" if language() == "de" else "en")


def _due_notes(invoice: Invoice) -> list[str]:
    if invoice.status not in OPEN:
        return []
    paper, due = DocumentLocale(invoice.language), invoice.days.due
    notes = [gettext("Amount due: %(amount)s", amount=paper.money(invoice.books.due, invoice.currency))]
    if due is not None:
        notes.append(gettext("Due date: %(day)s", day=paper.day(due)))
    return notes


def invitation_letter(invitation: Invitation, link: str) -> Letter:
    """Return the letter. `link` is an absolute URL."""
    place = invitation.repository.title if invitation.repository else called(invitation.account)
    who = called(invitation.inviter)
    until = gettext("This link expires on %(at)s.", at=_moment(invitation.expires_at))
    return Letter(
        subject=gettext("%(who)s invited you to %(what)s", who=who, what=place),
        intro=gettext("%(who)s invited you to %(what)s.", who=who, what=place),
        button=(gettext("View invitation"), link),
        notes=[until, gettext("The link works once, for anyone who has it. Don’t forward it.")],
        reason=gettext(
            "You’re receiving this because someone invited you by e-mail. If you don’t know them, ignore this message."
        ),
    )


_OWN = {
    "sign_in_link": (text("Your sign-in link"), text("Use this link to sign in. It works once."), text("Sign in")),
    "password_link": (
        text("Set your password"),
        text("Use this link to set a new password. It works once, and you’ll be signed out everywhere else."),
        text("Set password"),
    ),
}


def own_link_letter(kind: str, link: str, expires_at: int) -> Letter:
    """Return the letter with a link for the recipient's account. `kind`: `sign_in_link` or `password_link`."""
    subject, intro, button = map(gettext, _OWN[kind])
    until = gettext("This link expires on %(at)s.", at=_moment(expires_at))
    return Letter(
        subject=subject,
        intro=intro,
        button=(button, link),
        notes=[until, gettext("Anyone with this link can use it. Don’t forward it.")],
        reason=gettext("You’re receiving this because a link was requested for your account."),
    )


def confirmation_letter(link: str) -> Letter:
    """Return the letter. `link` is an absolute URL."""
    return Letter(
        subject=gettext("Confirm your e-mail address"),
        intro=gettext("Confirm that you want to receive e-mail from Workhook at this address."),
        button=(gettext("Confirm address"), link),
        notes=[gettext("This link expires in 24 hours.")],
        reason=gettext(
            "You’re receiving this because someone entered your address. If it wasn’t you, ignore this message."
        ),
    )


def trial_letter(base: str) -> Letter:
    """Return the letter that `workhook mail test` sends."""
    return Letter(
        subject=gettext("Test e-mail"),
        intro=gettext("This Workhook server can send e-mail."),
        button=(gettext("Open Workhook"), f"{base}/"),
        reason=gettext("You’re receiving this because an administrator sent a test."),
    )


# --- messages ---------------------------------------------------------------------------------------------------------


def write_message(
    letter: Letter, sender: Address, address: str, name: str, created_at: int, files: Sequence[InvoiceFile] = ()
) -> Outgoing:
    """Write the message in the current language. `name` is unique on this server, and stable across attempts."""
    letter, domain = _on_single_lines(letter), sender.domain
    headers = [
        mailbox_header("From", sender.display_name, sender.addr_spec),
        mailbox_header("To", "", address),
        text_header("Subject", letter.subject),
        raw_header("Date", format_datetime(datetime.fromtimestamp(created_at // 1000, UTC))),
        raw_header("Message-ID", f"<{name}@{domain}>"),
        raw_header("Auto-Submitted", "auto-generated"),
    ]
    if letter.thread is not None:  # the task itself is not a message, but mail programs group by this ID nevertheless
        headers += [raw_header(name, f"<{letter.thread}@{domain}>") for name in ("In-Reply-To", "References")]
    if letter.unsubscribe is not None:
        headers.append(raw_header("List-Unsubscribe", f"<{letter.unsubscribe}>"))
        headers.append(raw_header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"))
    content = message_bytes(
        headers,
        plain("mail/letter.txt", letter=letter),
        html("mail/letter.html", letter=letter),
        [Attachment(each.name, PDF, each.content) for each in files],
    )
    return Outgoing(sender.addr_spec, address, content)


def _on_single_lines(letter: Letter) -> Letter:
    """Replace line breaks, so that a title cannot add lines to the message, such as a link."""
    return msgspec.structs.replace(
        letter,
        subject=one_line(letter.subject),
        intro=one_line(letter.intro),
        notes=[one_line(each) for each in letter.notes],
    )


# --- queued messages --------------------------------------------------------------------------------------------------

log = structlog.get_logger(__name__)


class Composer:
    """Composes queued messages from `sender`. Every link starts with `base`, the address of this server."""

    def __init__(self, services: Services, base: str, sender: Address) -> None:
        self._services = services
        self._base = base
        self._sender = sender

    async def __call__(self, message: MailMessage) -> Outgoing | None:
        """Return the message, or None if it is obsolete or has no recipient. Raises `Unavailable`."""
        recipient: Recipient | None = None
        if message.user_id is not None:
            recipient = await find_recipient(self._services.database, message.user_id)
            if recipient is not None and message.kind == "address_link":
                return self._ask_to_confirm(message, message.user_id, recipient)
            if recipient is None or not recipient.can_be_mailed:
                return None
        kind = next((each for each in NOTIFICATION_KINDS if each == message.kind), None)
        if kind is not None:
            return await self._tell(message, kind, recipient)
        if message.kind == "invitation_link":
            return await self._invite(message, recipient)
        return self._own_link(message, recipient)

    async def _tell(self, message: MailMessage, kind: NotificationKind, recipient: Recipient | None) -> Outgoing | None:
        database = self._services.database
        user = None if message.user_id is None else await find_account_by_id(database, message.user_id)
        if user is None or recipient is None or not (await find_settings(database, user.id))[kind].email:
            return None
        notification = await find_mail_notification(database, user, message.id)
        if notification is None:
            return None
        invoice: Invoice | None = None
        files: list[InvoiceFile] = []
        if (invoice_id := message.invoice_id) is not None:
            prints = kind == "invoice" and message.detail == "sent"
            try:
                invoice, files = await find_mailed_invoice(self._services, user, invoice_id, self._base, prints=prints)
            except NotFound:
                return None
        unsubscribe = unsubscribe_path(self._services.vault, Subscription(user.id, kind))
        with in_language(invoice.language if invoice else message.language or recipient.language):
            letter = notification_letter(notification, self._base, unsubscribe, invoice=invoice, has_pdf=bool(files))
            return self._written(letter, message, recipient.address, files)

    async def _invite(self, message: MailMessage, recipient: Recipient | None) -> Outgoing | None:
        if message.invitation_id is None or (path := self._opened(message)) is None:
            return None
        invitation = await find_invitation(self._services.database, message.invitation_id)
        if invitation is None:
            return None
        address = recipient.address if recipient else invitation.email
        with in_language((recipient and recipient.language) or message.language):
            return self._written(invitation_letter(invitation, self._base + path), message, address)

    def _ask_to_confirm(self, message: MailMessage, user_id: int, recipient: Recipient) -> Outgoing | None:
        if recipient.own is None or message.detail != mailbox_of(recipient.own):  # the user has changed the address
            return None
        path = confirm_path(self._services.vault, user_id, recipient.own, now_ms())
        with in_language(message.language):
            return self._written(confirmation_letter(self._base + path), message, recipient.own)

    def _own_link(self, message: MailMessage, recipient: Recipient | None) -> Outgoing | None:
        path, expires_at = self._opened(message), int(message.detail or 0)
        if path is None or recipient is None or expires_at <= now_ms():
            return None
        with in_language(recipient.language):
            return self._written(
                own_link_letter(message.kind, self._base + path, expires_at), message, recipient.address
            )

    def _opened(self, message: MailMessage) -> str | None:
        """Return the path of the message's link, or None if it can no longer be decrypted."""
        try:
            return self._services.vault.open(message.sealed)
        except VaultError:
            log.error("mail_link_unreadable", id=message.id, kind=message.kind)
            return None

    def _written(
        self, letter: Letter, message: MailMessage, address: str | None, files: list[InvoiceFile] | None = None
    ) -> Outgoing | None:
        if not address or not is_address(address):
            return None
        name = f"workhook.{message.id}.{message.created_at}"
        return write_message(letter, self._sender, address, name, message.created_at, files or [])
