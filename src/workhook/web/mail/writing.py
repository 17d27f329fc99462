"""A letter as a message (RFC 5322): text and HTML, and the headers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from email.headerregistry import Address
from email.utils import format_datetime

import msgspec

from workhook.core.text import one_line
from workhook.delivery.mail.mime import Attachment, mailbox_header, message_bytes, raw_header, text_header
from workhook.delivery.mail.smtp import Outgoing
from workhook.web.frame.render import html, plain
from workhook.web.mail.letters import Letter
from workhook.work.money.invoices.documents import PDF
from workhook.work.money.invoices.mail import InvoiceFile


class Envelope(msgspec.Struct, frozen=True):
    """The addressing of a message. `name` is unique among the messages of this server, and stable across attempts."""

    sender: Address
    address: str
    name: str
    created_at: int


def write_message(letter: Letter, envelope: Envelope, files: Sequence[InvoiceFile] = ()) -> Outgoing:
    """Write the message in the current language (`texts.in_language`)."""
    letter = _on_single_lines(letter)
    sender, domain = envelope.sender, envelope.sender.domain
    headers = [
        mailbox_header("From", sender.display_name, sender.addr_spec),
        mailbox_header("To", "", envelope.address),
        text_header("Subject", letter.subject),
        raw_header("Date", format_datetime(datetime.fromtimestamp(envelope.created_at // 1000, UTC))),
        raw_header("Message-ID", f"<{envelope.name}@{domain}>"),
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
    return Outgoing(sender.addr_spec, envelope.address, content)


def _on_single_lines(letter: Letter) -> Letter:
    """Replace line breaks, so that a title cannot add lines to the message, such as a link."""
    return msgspec.structs.replace(
        letter,
        subject=one_line(letter.subject),
        intro=one_line(letter.intro),
        notes=[one_line(each) for each in letter.notes],
    )
