"""A letter as the message that is sent (RFC 5322): text and HTML, and what programs read of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime

import msgspec

from workhook.delivery.mail.smtp import Outgoing
from workhook.web.frame.render import html, plain
from workhook.web.mail.letters import Letter
from workhook.work.invoices.mailing import InvoiceFile


class Envelope(msgspec.Struct, frozen=True):
    """`name`: what tells the message from all others of this server. It is the same for each attempt."""

    sender: Address
    address: str
    name: str
    created_at: int


def write_message(letter: Letter, envelope: Envelope, files: Sequence[InvoiceFile] = ()) -> Outgoing:
    """In the language that is written in now (`texts.in_language`)."""
    domain = envelope.sender.domain
    # Seven bits pass every server; an address beyond ASCII needs one that takes UTF-8 in headers.
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit") if envelope.address.isascii() else SMTPUTF8)
    message["From"] = envelope.sender
    message["To"] = envelope.address
    message["Subject"] = " ".join(letter.subject.split())
    message["Date"] = format_datetime(datetime.fromtimestamp(envelope.created_at // 1000, UTC))
    message["Message-ID"] = f"<{envelope.name}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    if letter.thread is not None:  # the task itself is no message; programs gather by its name all the same
        message["In-Reply-To"] = message["References"] = f"<{letter.thread}@{domain}>"
    if letter.unsubscribe is not None:
        message["List-Unsubscribe"] = f"<{letter.unsubscribe}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(plain("mail/letter.txt", letter=letter))
    message.add_alternative(html("mail/letter.html", letter=letter), subtype="html")
    for each in files:
        message.add_attachment(each.content, maintype="application", subtype="pdf", filename=each.name)
    return Outgoing(envelope.sender.addr_spec, envelope.address, message.as_bytes())
