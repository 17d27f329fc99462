"""Connections to a mail server: plain, encrypted, with a password, and the messages when they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mail.server import MailServer, make_certificate
from workhook.core.mail_address import SmtpServer, parse_sender, parse_smtp_url
from workhook.delivery.mail import smtp
from workhook.delivery.mail.smtp import MailOutcome, Outgoing, SmtpConnection

TO = "ada@example.com"
ACCOUNT = "studio:k5-Zange%3A7%2F%40@"
MESSAGE = Outgoing("work@studio.example", TO, b"Subject: Hello\r\n\r\nWorld\r\n")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def new_mail() -> Iterator[Callable[..., MailServer]]:
    made: list[MailServer] = []

    def make(**options: object) -> MailServer:
        made.append(MailServer(**options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the system trust the certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "trusted.pem"))
    smtp._context.cache_clear()
    yield
    smtp._context.cache_clear()


def send(url: str, *messages: Outgoing) -> list[MailOutcome]:
    async def run() -> list[MailOutcome]:
        connection = SmtpConnection(parse_smtp_url(url), 20)
        try:
            return [await connection.send(each) for each in messages or (MESSAGE,)]
        finally:
            await connection.close()

    return asyncio.run(run())


def test_messages_are_sent_over_a_plain_connection(new_mail: Callable[..., MailServer]) -> None:
    mail = new_mail()
    assert [each.result for each in send(mail.url(), MESSAGE, MESSAGE)] == ["sent", "sent"]
    assert [each.address for each in mail.received] == [TO, TO]
    assert mail.encrypted == [False, False]


def test_encryption_is_used_if_the_server_offers_it(new_mail: Callable[..., MailServer], certificate: Path) -> None:
    mail = new_mail(tls=certificate)
    assert [each.result for each in send(mail.url())] == ["sent"]  # it is as untrusted as a plain connection
    assert mail.encrypted == [True]


@pytest.mark.usefixtures("trusted")
def test_a_password_is_sent_over_an_encrypted_connection(
    new_mail: Callable[..., MailServer], certificate: Path
) -> None:
    mail = new_mail(tls=certificate, login=True)
    assert [each.result for each in send(mail.url(account=ACCOUNT))] == ["sent"]
    assert mail.encrypted == [True]
    [refused] = send(mail.url())
    assert refused.result == "retry"  # the server requires a password


def test_a_password_is_not_sent_to_a_server_without_encryption(new_mail: Callable[..., MailServer]) -> None:
    mail = new_mail()
    [outcome] = send(mail.url(account=ACCOUNT))
    assert (outcome.result, outcome.is_trouble) == ("retry", True)
    assert mail.received == []
    assert "STARTTLS" in outcome.reply


def test_a_password_is_not_sent_to_an_untrusted_server(new_mail: Callable[..., MailServer], certificate: Path) -> None:
    mail = new_mail(tls=certificate, login=True)
    [outcome] = send(mail.url(account=ACCOUNT))
    assert "certificate that is not trusted" in outcome.reply
    assert mail.received == []


@pytest.mark.usefixtures("trusted")
def test_a_wrong_password_is_reported_as_trouble(new_mail: Callable[..., MailServer], certificate: Path) -> None:
    mail = new_mail(tls=certificate, login=True)
    [outcome] = send(mail.url(account="studio:wrong@"))
    assert (outcome.result, outcome.is_trouble) == ("retry", True)
    assert "rejected the username and password: 535" in outcome.reply
    assert "wrong@" not in outcome.reply


@pytest.mark.usefixtures("trusted")
def test_messages_are_sent_over_smtps(new_mail: Callable[..., MailServer], certificate: Path) -> None:
    mail = new_mail(tls=certificate, implicit=True)
    assert [each.result for each in send(mail.url("smtps"), MESSAGE, MESSAGE)] == ["sent", "sent"]
    assert mail.encrypted == [True, True]


def test_smtps_requires_a_trusted_certificate(new_mail: Callable[..., MailServer], certificate: Path) -> None:
    mail = new_mail(tls=certificate, implicit=True)
    [outcome] = send(mail.url("smtps"))
    assert (outcome.result, outcome.is_trouble) == ("retry", True)
    assert "certificate that is not trusted" in outcome.reply


def test_a_server_without_encryption_cannot_be_used_as_smtps(new_mail: Callable[..., MailServer]) -> None:
    [outcome] = send(new_mail().url("smtps"))
    assert "does not speak TLS as expected" in outcome.reply


def test_addresses_may_contain_non_ascii_characters(new_mail: Callable[..., MailServer]) -> None:
    mail = new_mail()
    [outcome] = send(mail.url(), Outgoing("work@studio.example", "grüße@example.com", "Subject: Ü\r\n\r\nÜ".encode()))
    assert outcome.result == "sent"
    assert mail.to("grüße@example.com")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("smtp://mail.example.com", SmtpServer("mail.example.com", 25, False)),
        ("smtp://mail.example.com:2525", SmtpServer("mail.example.com", 2525, False)),
        ("smtp://u:p%40@mail.example.com", SmtpServer("mail.example.com", 587, False, "u", "p@")),
        ("smtps://u:p@[::1]", SmtpServer("::1", 465, True, "u", "p")),
    ],
)
def test_an_smtp_url_is_parsed(url: str, found: SmtpServer) -> None:
    assert parse_smtp_url(url) == found
    assert "p" not in repr(found).removeprefix("SmtpServer")


@pytest.mark.parametrize(
    "url", ["mail.example.com", "http://mail.example.com", "smtp://", "smtp://u@host", "smtp://host/path", "smtp://h:x"]
)
def test_an_invalid_smtp_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_smtp_url(url)


@pytest.mark.parametrize("text", ["", "Acme", "work@", "@studio.example", "a\n@b.example"])
def test_an_invalid_sender_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_sender(text)


def test_a_sender_may_have_a_name() -> None:
    assert parse_sender("work@studio.example").addr_spec == "work@studio.example"
    assert parse_sender("Büro Ö <work@studio.example>").display_name == "Büro Ö"
