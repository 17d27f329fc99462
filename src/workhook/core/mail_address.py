"""E-mail addresses, and the settings for sending mail: the server and the sender.

An address is `name@host`, without quotes or comments. The rule is deliberately narrower than RFC 5322: libraries and
mail servers interpret addresses such as `a:b@host` or `"a@b"@host` differently, and could reach another mailbox.
"""

from __future__ import annotations

import re
import unicodedata
from email.errors import HeaderParseError
from email.utils import parseaddr
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from workhook.core.disclosure import HiddenRepr

if TYPE_CHECKING:
    from email.headerregistry import Address

ADDRESS_MAX_CHARS = 254  # RFC 5321, 4.5.3.1

_NAME = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.\u00a1-\U0010ffff-]{1,}"
_HOST = r"[A-Za-z0-9_\u00a1-\U0010ffff](?:[A-Za-z0-9._\u00a1-\U0010ffff-]*[A-Za-z0-9_\u00a1-\U0010ffff])?"
_ADDRESS = re.compile(f"{_NAME}@{_HOST}")


def is_address(text: str) -> bool:
    """Return whether the text is an e-mail address, both as written and in NFKC, which mail servers apply."""
    if len(text) > ADDRESS_MAX_CHARS or not text.isprintable() or "=?" in text:
        return False
    return all(_ADDRESS.fullmatch(each) for each in {text, unicodedata.normalize("NFKC", text)})


_PORTS = {"smtp": 25, "smtps": 465}
_SUBMISSION_PORT = 587


class SmtpServer(HiddenRepr, msgspec.Struct, frozen=True):
    """A mail server. `implicit_tls` means encrypted from the first byte (`smtps`).

    Otherwise STARTTLS is used if the server offers it, and required if there is a password.
    """

    host: str
    port: int
    implicit_tls: bool
    user: str | None = None
    password: str | None = None


def parse_smtp_url(url: str) -> SmtpServer:
    """Parse `smtp://[USER:PASSWORD@]HOST[:PORT]` or `smtps://…`, percent-encoded.

    The default port is 465 for `smtps`, 587 with a password, and 25 otherwise. Raises `ValueError`.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("not the URL of a mail server")
    if (parts.username is None) != (not parts.password):
        raise ValueError("a user requires a password, and a password a user")
    is_tls = parts.scheme == "smtps"
    default = _SUBMISSION_PORT if parts.password and not is_tls else _PORTS[parts.scheme]
    return SmtpServer(
        host=parts.hostname,
        port=default if parts.port is None else parts.port,
        implicit_tls=is_tls,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )


def smtp_url(value: Any) -> str:
    """smtp://HOST or smtps://HOST, with percent-encoded USER:PASSWORD@ before the host and :PORT after it if needed"""
    parse_smtp_url(str(value))
    return str(value)


def parse_sender(text: str) -> Address:
    """Parse `work@example.com` or `Workhook <work@example.com>`. Raises `ValueError`."""
    from email.headerregistry import Address  # a server that sends no mail does not need its 1 MiB

    name, spec = parseaddr(text)
    if not spec.isascii() or not is_address(spec) or not text.isprintable():
        raise ValueError("not an e-mail address")
    try:
        address = Address(display_name=name, addr_spec=spec)
    except (HeaderParseError, IndexError) as error:
        raise ValueError("not an e-mail address") from error
    if not address.username or not address.domain:
        raise ValueError("an address has a name and a domain")
    return address


def mail_from(value: Any) -> str:
    """an e-mail address, such as work@example.com or "Acme Studio <work@example.com>\""""
    parse_sender(str(value))
    return str(value)
