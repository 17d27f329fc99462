"""Receivers that follow a script byte by byte, and a certificate for receivers that speak TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Request:
    def __init__(self, head: bytes, body: bytes) -> None:
        line, *fields = head.decode().split("\r\n")
        self.line = line
        self.headers = dict(field.split(": ", 1) for field in fields)
        self.body = body


class Connection:
    """The receiver's side of one connection."""

    def __init__(self, receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.receiver = receiver
        self.number = len(receiver.connections) + 1
        self.closed = asyncio.Event()
        self._reader = reader
        self._writer = writer

    async def request(self) -> Request:
        """Return the next complete request, or end the script if the sender has closed the connection."""
        head = (await self._reader.readuntil(b"\r\n\r\n"))[:-4]
        length = next(int(line[15:]) for line in head.decode().split("\r\n") if line.startswith("Content-Length:"))
        request = Request(head, await self._reader.readexactly(length))
        self.receiver.requests.append(request)
        return request

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, data: bytes = OK) -> None:
        await self.request()
        await self.send(data)

    async def wait_closed_by_sender(self) -> None:
        while await self._reader.read(65536):
            pass

    def half_close(self) -> None:
        self._writer.write_eof()

    def reset(self) -> None:
        """End with RST instead of FIN."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def run(self, script: Script) -> None:
        try:
            await script(self)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the sender closed the connection, which is how many scripts end
        except Exception as error:  # noqa: BLE001 - it is asserted on at the end of the test
            self.receiver.faults.append(error)
        finally:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
            self.closed.set()


Script = Callable[[Connection], Awaitable[None]]


class Receiver:
    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.port = 0
        self.connections: list[Connection] = []
        self.requests: list[Request] = []
        self.faults: list[Exception] = []

    @property
    def url(self) -> str:
        return self.url_for("127.0.0.1")

    def url_for(self, host: str) -> str:
        return f"{self.scheme}://{host}:{self.port}/hook?x=1"


@contextlib.asynccontextmanager
async def receiver(
    script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Receiver]:
    """Run `script` for every connection. An exception in the script fails the test at the end."""
    made = Receiver("http" if tls is None else "https")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(made, reader, writer)
        made.connections.append(connection)
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await connection.run(script)

    server = await asyncio.start_server(serve, host, port, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        await server.wait_closed()
    assert made.faults == []


def forever(data: bytes = OK) -> Script:
    """Answer every request of a connection with `data`."""

    async def script(connection: Connection) -> None:
        while True:
            await connection.answer(data)

    return script


def once(data: bytes) -> Script:
    """Answer the first request with `data`, then close the connection."""

    async def script(connection: Connection) -> None:
        await connection.answer(data)

    return script


class Names(AbstractResolver):
    """A resolver that returns the given answers one after the other and then repeats the last one."""

    def __init__(self, *answers: list[str] | OSError) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, OSError):
            raise answer
        return [
            ResolveResult(hostname=host, host=each, port=port, family=socket.AF_INET, proto=0, flags=0)
            for each in answer
        ]

    async def close(self) -> None:
        pass


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """Reserve a port on 127.0.0.1 on which nothing can listen in the meantime."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


class Certificate:
    """A self-signed certificate for `host`, which is also the authority that verifies it."""

    def __init__(self, folder: Path, host: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver")])
        now = datetime.datetime.now(datetime.UTC)
        alternative: x509.GeneralName
        try:
            alternative = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            alternative = x509.DNSName(host)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        folder.mkdir(exist_ok=True)
        self.file = folder / "receiver.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file)
        return context
