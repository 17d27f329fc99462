"""A connection to the mail server, and the classification of its replies."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Literal

import aiosmtplib
import msgspec
from aiosmtplib import errors

from workhook.core.disclosure import HiddenRepr
from workhook.core.mail_address import SmtpServer
from workhook.core.text import one_line
from workhook.identity.mail.recipients import ASCII_ONLY

TIMEOUT_S = 30.0  # per server reply; RFC 5321 (4.5.3.2) allows longer, which would block a connection
SAID_MAX_CHARS = 500
TROUBLE = (errors.SMTPException, OSError)
"""Errors of a mail server. `describe_error` describes them."""
_CLOSING, _PERMANENT = 421, 500
_STATUS = re.compile(r"\s*#?[245]\.(\d{1,3})\.(\d{1,3})\b")
_OF_ADDRESSES = frozenset({550, 551, 553})
"""Reply codes that concern the address if no enhanced status code is more specific (RFC 5321, 4.2.3)."""

_OF_THE_SENDER = (("1", "7"), ("1", "8"))


class Outgoing(HiddenRepr, msgspec.Struct, frozen=True):
    """A message as it is sent. `address` is the recipient; bounces are returned to `sender`."""

    sender: str
    address: str
    content: bytes


class MailOutcome(msgspec.Struct, frozen=True):
    """The outcome of an attempt.

    `bounced`: the server rejects mail for this address; `refused`: it rejects this message; `retry`: it may accept the
    message later. `reply`: the server's text. `is_trouble`: the server is unusable, so other messages would fail too.
    """

    result: Literal["sent", "retry", "bounced", "refused"]
    reply: str = ""
    is_trouble: bool = False


class SmtpConnection:
    """A connection opened with its first message and kept for the next. Sends one message at a time."""

    def __init__(self, server: SmtpServer, timeout_s: float = TIMEOUT_S) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._client: aiosmtplib.SMTP | None = None

    async def send(self, outgoing: Outgoing) -> MailOutcome:
        """Send a message. Raises nothing but `CancelledError`."""
        was_open = self._client is not None
        outcome = await self._try(outgoing)
        if was_open and outcome is _CLOSED_MEANWHILE:  # the server closes idle connections
            outcome = await self._try(outgoing)
        if outcome.result != "sent":
            await self.close()
        return outcome

    async def _try(self, outgoing: Outgoing) -> MailOutcome:
        try:
            client = await self._connected()
        except TROUBLE as error:
            await self.close()
            return MailOutcome("retry", describe_error(error, self._server), is_trouble=True)
        try:
            return await self._talk(client, outgoing)
        except TROUBLE as error:
            return MailOutcome("retry", describe_error(error, self._server), is_trouble=True)

    async def _talk(self, client: aiosmtplib.SMTP, outgoing: Outgoing) -> MailOutcome:
        options, encoding = list[str](), "ascii"
        if not outgoing.address.isascii():
            if not client.supports_extension("smtputf8"):
                return MailOutcome("bounced", ASCII_ONLY)
            options, encoding = ["SMTPUTF8", "BODY=8BITMIME"], "utf-8"
        try:
            await client.mail(outgoing.sender, options=options, encoding=encoding)
        except errors.SMTPServerDisconnected:
            await self.close()
            return _CLOSED_MEANWHILE
        except errors.SMTPSenderRefused as error:  # all messages have this sender
            return MailOutcome("retry", _reply(error.code, error.message), is_trouble=True)
        try:
            await client.rcpt(outgoing.address, encoding=encoding)
            await client.data(outgoing.content)
        except errors.SMTPRecipientRefused as error:
            return _refusal(error.code, error.message, of_address=True)
        except errors.SMTPDataError as error:
            return _refusal(error.code, error.message, of_address=False)
        return MailOutcome("sent")

    async def check(self) -> None:
        """Connect, encrypt and log in without sending. Raises errors that `describe_error` describes."""
        try:
            client = await self._connected()
            await client.noop()
        finally:
            await self.close()

    async def _connected(self) -> aiosmtplib.SMTP:
        if self._client is not None:
            return self._client
        server = self._server
        has_password = server.password is not None
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            local_hostname=_own_name(),
            timeout=self._timeout_s,
            use_tls=server.implicit_tls,
            # None: opportunistically.
            start_tls=False if server.implicit_tls else True if has_password else None,
            tls_context=_context(is_checked=server.implicit_tls or has_password),
        )
        self._client = client
        await client.connect()
        if server.user is not None and server.password is not None:
            await client.login(server.user, server.password)
        return client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        try:
            if client.is_connected:
                await client.quit(timeout=1)
        except TROUBLE:
            pass
        finally:
            client.close()


_CLOSED_MEANWHILE = MailOutcome("retry", "The mail server closed the connection.", is_trouble=True)


def _refusal(code: int, reply: str, *, of_address: bool) -> MailOutcome:
    words = _reply(code, reply)
    if code < _PERMANENT:
        return MailOutcome("retry", words, is_trouble=code == _CLOSING)
    if not of_address:
        return MailOutcome("refused", words)
    status = _STATUS.match(reply)
    # The subject digit (RFC 3463): 1 is the address, 2 the mailbox, 7 a server policy that may change.
    concerns_address = code in _OF_ADDRESSES
    if status is not None:
        concerns_address = status[1] in ("0", "1", "2") and status.groups() not in _OF_THE_SENDER
    return MailOutcome("bounced" if concerns_address else "refused", words)


def _reply(code: int, reply: str) -> str:
    return _in_line(f"{code} {reply}")


def _in_line(reply: str) -> str:
    """Return a server's text on one line, without the lone surrogates of invalid UTF-8, which databases reject."""
    return " ".join(one_line(reply.encode("utf-8", "replace").decode()).split())[:SAID_MAX_CHARS]


def describe_error(error: Exception, server: SmtpServer) -> str:
    place = f"{server.host}:{server.port}"
    if isinstance(error, errors.SMTPAuthenticationError):
        return f"{place} rejected the username and password: {_reply(error.code, error.message)}"
    if isinstance(error, errors.SMTPTimeoutError | TimeoutError):
        return f"{place} did not answer in time."
    if isinstance(error, errors.SMTPResponseException):
        return f"{place} answered {_reply(error.code, error.message)}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"{place} has a certificate that is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"{place} does not speak TLS as expected: {cause.reason or 'handshake failed'}"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, errors.SMTPConnectError | OSError):
        return f"{place} cannot be reached: {_in_line(str(error))}"
    return f"{place}: {_in_line(str(error))}"


@cache
def _context(*, is_checked: bool) -> ssl.SSLContext:
    """Return the TLS context.

    For opportunistic TLS, the certificate is not checked: an attacker could just as well hide STARTTLS (RFC 7435).
    """
    context = ssl.create_default_context()
    if not is_checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@cache
def _own_name() -> str:
    """Return the host name for the greeting. Resolving the full name could take long."""
    name = socket.gethostname()
    return name if name.isascii() and name else "localhost"


WORDS: Mapping[str, str] = {
    "bounced": "The mail server does not accept mail for this address.",
    "refused": "The mail server does not accept this message.",
    "retry": "The mail server is not accepting the message right now.",
}
"""The meaning of each result except `sent`."""
