"""Writes a message (RFC 5322, MIME), so that it says exactly what it was given.

No library parses the texts. `email.message` decodes encoded words in what is assigned to a header, and would take
`=?utf-8?q?=0D=0AReply-To:…?=` in a title for headers.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from workhook.core.text import is_one_line, one_line

LINE_CHARS = 76
_WORD_BYTES = 39
"""Bytes of UTF-8 in one encoded word: with the name of a header before it, its line has less than `LINE_CHARS`."""
_IN_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 !#$%&'*+-/=^_`{|}~.,@:;()<>[]")


class Attachment(msgspec.Struct, frozen=True):
    """A file. `kind` is its media type."""

    name: str
    kind: str
    content: bytes


def text_header(name: str, text: str) -> str:
    """Return a header that holds a text: as it is if that is plain ASCII of one line, else in encoded words (RFC 2047).

    Control characters and line breaks become spaces.
    """
    plain = one_line(text)
    if _is_plain(plain) and len(name) + 2 + len(plain) <= LINE_CHARS:
        return raw_header(name, plain)
    return f"{name}: {_encoded(plain)}"


def mailbox_header(name: str, shown: str, address: str) -> str:
    """Return a header that holds one address, which `is_address`, and the name that mail programs show for it."""
    plain = one_line(shown)
    if not plain:
        return raw_header(name, address)
    whole = f'{name}: "{plain}" <{_checked(address)}>'
    if _is_plain(plain) and _IN_NAME.issuperset(plain) and len(whole) <= LINE_CHARS:
        return whole
    return f"{name}: {_encoded(plain)}\r\n <{address}>"


def raw_header(name: str, value: str) -> str:
    """Return a header whose value Workhook made. Raises `ValueError` for one that would not stay in its line."""
    return f"{name}: {_checked(value)}"


def _checked(value: str) -> str:
    if not is_one_line(value):
        raise ValueError("a header has one line")
    return value


def _is_plain(text: str) -> bool:
    """Return whether the text survives as it is: nothing in it is read as an encoded word, and no space is lost."""
    return text.isascii() and text.isprintable() and "=?" not in text and "  " not in text


def _encoded(text: str) -> str:
    """Return encoded words, one a line. A character is never cut in two (RFC 2047, 5)."""
    words, word = list[bytes](), b""
    for each in text:
        data = each.encode()
        if len(word) + len(data) > _WORD_BYTES:
            words.append(word)
            word = b""
        word += data
    words.append(word)
    return "\r\n ".join(f"=?utf-8?b?{base64.b64encode(each).decode()}?=" for each in words)


def message_bytes(headers: Sequence[str], text: str, html: str, files: Sequence[Attachment] = ()) -> bytes:
    """Return a message with a plain and an HTML body, and files beside them."""
    body = _multipart("alternative", [_text_part("plain", text), _text_part("html", html)])
    if files:
        body = _multipart("mixed", [body, *map(_file_part, files)])
    return "\r\n".join([*headers, "MIME-Version: 1.0"]).encode() + b"\r\n" + body


def _multipart(kind: str, parts: Sequence[bytes]) -> bytes:
    boundary = f"=_{secrets.token_hex(16)}"  # neither of the encodings of the parts can hold `=_`
    head = f'Content-Type: multipart/{kind};\r\n boundary="{boundary}"\r\n\r\n'.encode()
    inside = b"".join(b"--%b\r\n%b\r\n" % (boundary.encode(), part) for part in parts)
    return head + inside + f"--{boundary}--\r\n".encode()


def _text_part(kind: str, text: str) -> bytes:
    """Return lines of ASCII (quoted-printable), which every server passes on."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").encode(errors="replace")
    head = f'Content-Type: text/{kind}; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n'
    return head.encode() + binascii.b2a_qp(lines).replace(b"\n", b"\r\n")


def _file_part(file: Attachment) -> bytes:
    head = [
        raw_header("Content-Type", file.kind),
        "Content-Transfer-Encoding: base64",
        f"Content-Disposition: attachment;\r\n filename*=utf-8''{quote(one_line(file.name), safe='')}",
    ]
    lines = base64.encodebytes(file.content).replace(b"\n", b"\r\n")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + lines
