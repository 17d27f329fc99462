"""Messages contain exactly the given text, whatever people type, and no text becomes a header."""

from __future__ import annotations

from email import message_from_bytes
from email.header import decode_header, make_header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import compat32, default

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workhook.core.mail_address import is_address
from workhook.core.text import one_line
from workhook.delivery.mail.mime import LINE_CHARS, Attachment, mailbox_header, message_bytes, raw_header, text_header
from workhook.delivery.mail.smtp import Outgoing
from workhook.web.frame.texts import in_language
from workhook.web.mail import Letter, write_message
from workhook.work.money.invoices.mail import InvoiceFile

HEADERS = {
    "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "In-Reply-To", "References", "List-Unsubscribe",
    "List-Unsubscribe-Post", "MIME-Version", "Content-Type",
}  # fmt: skip
ATTACK = "=?utf-8?q?Invoice=0D=0AReply-To:_evil@evil.test=0D=0AContent-Type:_text/html=0D=0A=0D=0A<h1>Pay_here</h1>?="
_CHARSETS = st.sampled_from(["utf-8", "utf-7", "raw_unicode_escape", "us-ascii", "x-none", "utf-16", "punycode"])
_BREAKS = ["=0D=0A", "\r\n", "\n", "\0", " ", "\t", "\x0b", "\x85", "\u2028", "\ud800"]
_SNIPPETS = st.sampled_from([*_BREAKS, "=?", "?=", "Reply-To: e@evil.test", "ü", "🎉", '"', "\\", "<a@b.test>", ","])
_WORDS = st.builds(
    "=?{}?{}?{}?=".format, _CHARSETS, st.sampled_from("qQbB"), st.one_of(st.text(), st.lists(_SNIPPETS).map("".join))
)
TEXTS = st.one_of(
    st.text(st.characters(), max_size=300), st.lists(st.one_of(_WORDS, _SNIPPETS, st.text(max_size=9))).map("".join)
)


def parsed(content: bytes) -> EmailMessage:
    message = message_from_bytes(content, policy=default)
    assert isinstance(message, EmailMessage)
    assert not message.defects
    return message


def write(letter: Letter, *, name: str = "Acme Studio", files: list[InvoiceFile] | None = None) -> Outgoing:
    sender = Address(display_name=name, username="work", domain="studio.example")
    with in_language("en"):
        return write_message(letter, sender, "ada@example.com", "workhook.1.2", 0, files or [])


def head_of(content: bytes) -> list[bytes]:
    return content.partition(b"\r\n\r\n")[0].split(b"\r\n")


@given(TEXTS, TEXTS)
@example(ATTACK, ATTACK)
@example("=?utf-7?q?+AA0ACg-Bcc:_evil@evil.test?=", "=?raw_unicode_escape?q?=5Cu000aBcc:_e?=")
@example("", "0  0")
@example("a  b", " =?utf-8?q?x?= =?utf-8?q?y?= ")
def test_subject_and_sender_name_are_kept_as_typed(subject: str, name: str) -> None:
    content = write(Letter(subject=subject, intro="Hello"), name=one_line(name)).content
    message = parsed(content)
    assert message["Subject"] == one_line(subject)
    [sender] = message["From"].addresses
    assert sender.addr_spec == "work@studio.example"
    if len(name.encode(errors="replace")) < 40:  # between encoded words of a name, Python's own parser leaves a space
        assert sender.display_name.split() == one_line(name).split()  # and merges several spaces
    assert set(message.keys()) <= HEADERS
    assert len(message.keys()) == len(set(message.keys()))
    assert (message["Reply-To"], message["Bcc"], message.get_content_type()) == (None, None, "multipart/alternative")
    older = message_from_bytes(content, policy=compat32)
    assert str(make_header(decode_header(older["Subject"]))) == one_line(subject)
    shown = str(make_header(decode_header(older["From"]))).removesuffix("<work@studio.example>").rstrip(" ")
    if one_line(name):
        assert shown in (one_line(name), f'"{one_line(name)}"')
    for line in head_of(content):
        assert len(line) <= LINE_CHARS + 2
        assert line.isascii()


@given(TEXTS, TEXTS, TEXTS)
def test_the_bodies_contain_exactly_the_given_text(intro: str, quote: str, button: str) -> None:
    letter = Letter("Hello", intro, button=(button, "https://work.studio.example/a"), quote=quote, notes=[intro])
    content = write(letter, files=[InvoiceFile("ü\r\nX: y.pdf", b"%PDF\r\n.\r\n")]).content
    message = parsed(content)
    assert [part.get_content_type() for part in message.walk()] == [
        "multipart/mixed", "multipart/alternative", "text/plain", "text/html", "application/pdf",
    ]  # fmt: skip
    plain = message.get_body(("plain",))
    assert plain is not None
    assert plain.get_content().split("\r\n")[0] == one_line(intro)
    [file] = message.iter_attachments()
    assert (file.get_filename(), file.get_content()) == ("ü X: y.pdf", b"%PDF\r\n.\r\n")
    assert content.isascii()
    assert b"\n" not in content.replace(b"\r\n", b"")
    assert max(map(len, content.split(b"\r\n"))) <= 78


@given(TEXTS)
def test_a_title_with_line_breaks_adds_no_lines_to_the_text(title: str) -> None:
    plain = parsed(write(Letter("Hello", title)).content).get_body(("plain",))
    ordinary = parsed(write(Letter("Hello", "x")).content).get_body(("plain",))
    assert plain is not None
    assert ordinary is not None
    assert plain.get_content().count("\n") == ordinary.get_content().count("\n")


@pytest.mark.parametrize("value", ["a\r\nb", "a\nb", "a\0b", "a\x85b", "a\u2028b"])
def test_a_raw_header_must_be_one_line(value: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        raw_header("List-Unsubscribe", value)
    with pytest.raises(ValueError, match="one line"):
        mailbox_header("To", "Ada", value)


def test_ascii_text_is_not_encoded() -> None:
    assert text_header("Subject", "[Website] Logo, by Friday?") == "Subject: [Website] Logo, by Friday?"
    assert mailbox_header("From", "Acme Studio", "a@b.example") == 'From: "Acme Studio" <a@b.example>'
    content = message_bytes([], "Hello", "<p>Hello", [Attachment("a.pdf", "application/pdf", b"")])
    assert b"\r\n\r\nHello\r\n--" in content


@given(st.one_of(st.text(max_size=80), st.from_regex(r"[^@]{1,20}@[^@]{1,20}", fullmatch=True)))
def test_an_accepted_address_is_parsed_unchanged(text: str) -> None:
    if not is_address(text):
        return
    content = message_bytes([mailbox_header("To", "", text)], "", "")
    assert head_of(content)[0] == f"To: {text}".encode()
    if text.isascii() and ".." not in text and not text.startswith(".") and ".@" not in text:
        [found] = parsed(content)["To"].addresses
        assert found.addr_spec == text


@pytest.mark.parametrize(
    "address",
    [
        "ada@example.com", "ada+list@example.com", "o'hara@example.co.uk", "a..b@docomo.example", "ada@localhost",
        "jörg@example.com", "ada@müller.example", "pelé@xn--bcher-kva.example", "bounce-a=b.example@example.com",
        "用户@例子.example", "a_b@sub_domain.example",
    ],
)  # fmt: skip
def test_common_addresses_are_accepted(address: str) -> None:
    assert is_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "a:ada@example.com", '"a b"@example.com', '"ada"@example.com', "a\\b@example.com", "[ada@example.com", "a@b@c",
        "=?utf-8?q?ada=40evil.test?=@example.com", "ada\uff20evil.test@example.com", "ada@example.com,b",
        "ada@[127.0.0.1]", "ada@exa mple.com", "ada@example.com\n", "\u202eada@example.com", "ada@example.com.", "ada@",
        "@example.com", "ada@-example.com", "ada@ex℀mple.com", "ada@example.com\u200b", "ada@example.com(x)",
        f"{'a' * 250}@b.de", "",
    ],
)  # fmt: skip
def test_ambiguous_addresses_are_refused(address: str) -> None:
    assert not is_address(address)
