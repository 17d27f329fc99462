"""Composes queued messages: recipient, language, and current content."""

from __future__ import annotations

from email.headerregistry import Address

import structlog

from workhook.core.clock import now_ms
from workhook.core.errors import NotFound
from workhook.core.mail_address import is_address
from workhook.core.vault import VaultError
from workhook.delivery.mail.queue import MailMessage
from workhook.delivery.mail.smtp import Outgoing
from workhook.http.calls import Services
from workhook.identity.mail.links import Subscription, confirm_path, is_queued_for, unsubscribe_path
from workhook.identity.mail.recipients import Recipient, find_recipient
from workhook.identity.queries import find_account_by_id
from workhook.identity.tables import NOTIFICATION_KINDS, NotificationKind
from workhook.web.frame.texts import in_language
from workhook.web.mail.letters import (
    Letter,
    confirmation_letter,
    invitation_letter,
    notification_letter,
    own_link_letter,
    write_message,
)
from workhook.work.history.notifications.queries import find_invitation, find_mail_notification
from workhook.work.history.notifications.settings import find_settings
from workhook.work.money.invoices.mail import InvoiceFile, MailedInvoice, find_mailed_invoice, print_for

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
        invoice: MailedInvoice | None = None
        files: list[InvoiceFile] = []
        if message.invoice_id is not None:
            try:
                invoice = await find_mailed_invoice(self._services, user, message.invoice_id)
            except NotFound:
                return None
            if kind == "invoice" and message.detail == "sent":
                files.append(await print_for(self._services, invoice, self._base))
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
        if recipient.own is None or not is_queued_for(message.detail, recipient.own):
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
