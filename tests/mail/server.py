"""A real mail server on a free port, which stores what it receives and answers as a test requires."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import threading
from collections.abc import Callable
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.harness.waiting import WAIT_S, until

Answer = Callable[[str, int], str | bytes]
"""The answer to RCPT or DATA, from the recipient's address and the number of the request for it, starting at 1."""

USER, PASSWORD = "studio", "k5-Zange:7/@"


class Received:
    """A received message."""

    def __init__(self, envelope: Envelope) -> None:
        assert isinstance(envelope.content, bytes)
        self.sender = envelope.mail_from
        [self.address] = envelope.rcpt_tos
        parsed = message_from_bytes(envelope.content, policy=default)
        assert isinstance(parsed, EmailMessage)
        self.message = parsed

    def __getitem__(self, header: str) -> str:
        return str(self.message[header])

    def part(self, kind: str) -> str:
        """Return the text of the part `plain` or `html`."""
        found = self.message.get_body((kind,))
        assert found is not None
        return str(found.get_content())

    @property
    def text(self) -> str:
        return self.part("plain")

    @property
    def files(self) -> dict[str, bytes]:
        return {each.get_filename() or "": each.get_content() for each in self.message.iter_attachments()}


class MailServer:
    """A mail server that answers with `rcpt` and `data`. By default it accepts everything."""

    def __init__(self, *, tls: Path | None = None, implicit: bool = False, login: bool = False) -> None:
        """Start the server.

        `tls` is the folder of a certificate (see `make_certificate`), for STARTTLS or `implicit` TLS.
        """
        self.received: list[Received] = []
        self.encrypted: list[bool] = []
        self.rcpt: Answer = lambda address, times: "250 OK"
        self.data: Answer = lambda address, times: "250 OK"
        self._times: dict[tuple[str, str], int] = {}
        context = None
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "server.pem")
        options: dict[str, Any] = {"enable_SMTPUTF8": True, "hostname": "localhost", "loop": None}
        if login:
            options |= {"authenticator": self._authenticate, "auth_required": True, "auth_require_tls": True}
        if tls is not None and not implicit:
            options["tls_context"] = context
        self._implicit = implicit
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def listen() -> asyncio.Server:
            options["loop"] = self._loop
            return await self._loop.create_server(
                lambda: SMTP(self, **options), "127.0.0.1", 0, ssl=context if implicit else None
            )

        self._server = asyncio.run_coroutine_threadsafe(listen(), self._loop).result(WAIT_S)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Refuse connections from now on."""

        async def stop() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for each in others:
                each.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(WAIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def url(self, scheme: str = "smtp", account: str = "") -> str:
        return f"{scheme}://{account}localhost:{self.port}"

    def to(self, address: str) -> list[Received]:
        return [each for each in list(self.received) if each.address == address]

    def wait_for(self, address: str, number: int = 1) -> list[Received]:
        """Return the messages to an address, once there are at least `number`."""
        return until(lambda: found if len(found := self.to(address)) >= number else None) or []

    def _count(self, what: str, address: str) -> int:
        self._times[what, address] = self._times.get((what, address), 0) + 1
        return self._times[what, address]

    def times(self, what: str, address: str) -> int:
        """Return how many `rcpt` or `data` requests there were for the address."""
        return self._times.get((what, address), 0)

    @staticmethod
    def _authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: Any) -> AuthResult:
        assert isinstance(given, LoginPassword)
        good = given.login == USER.encode() and given.password == PASSWORD.encode()
        return AuthResult(success=good, handled=good)

    async def handle_RCPT(  # noqa: N802  # aiosmtpd calls it
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str | bytes:
        answer = self.rcpt(address, self._count("rcpt", address))
        if answer[:1] in ("2", b"2"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str | bytes:  # noqa: N802
        answer = self.data(envelope.rcpt_tos[0], self._count("data", envelope.rcpt_tos[0]))
        if answer[:1] in ("2", b"2"):
            self.encrypted.append(self._implicit or session.ssl is not None)
            self.received.append(Received(envelope))
        return answer


def make_certificate(folder: Path) -> Path:
    """Create a self-signed certificate for localhost: `server.pem`, with its key, and `trusted.pem`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "trusted.pem").write_bytes(public)
    (folder / "server.pem").write_bytes(private + public)
    return folder
