"""Connections through a proxy that fails count as what they are, so the bound on all of them holds."""

from __future__ import annotations

import asyncio

from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.send import Sender, SendSettings
from workhook.delivery.sign import SignedRequest

MOST = 10


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A proxy that forwards nothing: it answers plain requests itself, and ends whoever asks for a tunnel."""
    try:
        while not (await reader.readuntil(b"\r\n\r\n")).startswith(b"CONNECT"):
            await reader.readexactly(2)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def test_tunnels_that_fail_do_not_lift_the_bound() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = SendSettings(proxy=f"http://127.0.0.1:{port}", timeout_s=30.0, connections_max=MOST)
    sender = Sender(AddressPolicy(("127.0.0.0/8",)), settings)
    prepared = SignedRequest(body=b"{}", headers={"Content-Length": "2"})
    try:
        for _ in range(30):
            refused = await sender.send("https://127.0.0.1:9/x", prepared, insecure_ssl=True)
            assert not refused.ok
        for number in range(1, 41):
            assert (await sender.send(f"http://127.0.0.{number}/x", prepared, insecure_ssl=True)).ok
            assert len(sender._connections._idle) <= MOST  # counted here: the proxy sees an end only later
    finally:
        await sender.close()
        server.close()
