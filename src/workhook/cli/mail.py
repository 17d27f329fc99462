"""`workhook mail`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from workhook.cli.common import Context, base_address, command, new_app
from workhook.cli.error_messages import CliError, Misuse
from workhook.cli.options import Argument
from workhook.core.clock import now_ms
from workhook.core.mail_address import is_address

if TYPE_CHECKING:
    from workhook.core.config import Settings

app = new_app("E-mail that the server sends.")

NOT_SET = "Set WORKHOOK_SMTP_URL and WORKHOOK_MAIL_FROM, such as smtps://USER:PASSWORD@mail.example.com."
_REMEDIES = {
    "bounced": "Check the address, or ask who runs the mail server.",
    "refused": "Ask who runs the mail server why. Often WORKHOOK_MAIL_FROM is not one of its addresses.",
    "retry": "Check WORKHOOK_SMTP_URL and WORKHOOK_MAIL_FROM, and run the command again.",
}


@command(app, "test")
async def send_trial(
    context: Context, *, address: Annotated[str, Argument("ADDRESS", "Where the message is sent.")]
) -> None:
    """Send a message to try out the settings of e-mail, and show what the mail server says."""
    settings = context.settings
    if settings.smtp_url is None or settings.mail_from is None:
        raise CliError("no mail server is set.", NOT_SET)
    if not is_address(address):
        raise Misuse(f"{address!r} is no e-mail address.", "Give one such as ada@example.com.")
    await _send(settings, settings.smtp_url, settings.mail_from, address)
    data = {"address": address, "sent": True}
    context.answer(data, f"the mail server took a message to {address}: look whether it arrives, also among spam")


async def _send(settings: Settings, url: str, sender: str, address: str) -> None:
    """Raises `CliError`."""
    from workhook.core.mail_address import sender_of, smtp_server
    from workhook.delivery.mail.smtp import WORDS, SmtpConnection
    from workhook.web.mail.letters import trial_letter
    from workhook.web.mail.writing import Envelope, write_message

    now = now_ms()
    envelope = Envelope(sender_of(sender), address, f"workhook.test.{now}", now)
    connection = SmtpConnection(smtp_server(url))
    try:
        outcome = await connection.send(write_message(trial_letter(base_address(settings)), envelope))
    finally:
        await connection.close()
    if outcome.result != "sent":
        what = "The mail server cannot be used." if outcome.is_trouble else WORDS[outcome.result]
        raise CliError(f"{what} {outcome.said}", _REMEDIES[outcome.result])
