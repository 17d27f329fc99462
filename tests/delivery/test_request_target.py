"""The request target of a delivery is the configured one, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workhook.core.urls import request_target, with_parameters
from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.send import Sender, SendSettings
from workhook.delivery.sign import SignedRequest

PREPARED = SignedRequest(body=b"{}", headers={"Content-Length": "2"})
TARGETS = (
    "/", "/hook", "/a%2Fb", "/a%2fb", "/q?sig=ab%2Fcd%3D&se=2026%3A01", "/q?sig=ab%2Fcd%3d", "/q?a=%28b%29&c=(d)",
    "/./a", "/a/../b", "/a/./b/..", "//a", "/a//b", "/q?", "/?", "/q?a", "/q?a=", "/q?=a", "/q?a&&b", "/q?a+b", "/a+b",
    "/a%20b?c%20d", "/q?a=%2B", "/Gr%C3%B6%C3%9Fe?q=%E2%82%AC", "/%7Euser", "/~user", "/a;b=c,d", "/a:b@c",
    "/q?url=https://x/?a=b", "/q?a[]=1&a%5B%5D=2", "/%41?%41=%61", "/a%25b", "/q?a=%00", "/!$&'()*+,;=:@", "/q?a?b/c",
)  # fmt: skip


@asynccontextmanager
async def request_line_server() -> AsyncIterator[tuple[int, list[str]]]:
    """Run a server, which may also act as a proxy, and yield its port and the request lines it receives."""
    found: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                found.append(head.decode("latin-1").partition("\r\n")[0])
                await reader.readexactly(2)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], found
    finally:
        server.close()


async def sent_targets(*targets: str, through_proxy: bool = False) -> list[str]:
    async with request_line_server() as (port, found):
        base = "http://127.0.0.1:9" if through_proxy else f"http://127.0.0.1:{port}"
        proxy = f"http://127.0.0.1:{port}" if through_proxy else None
        sender = Sender(AddressPolicy(("127.0.0.0/8",)), SendSettings(proxy=proxy, timeout_s=30.0))
        try:
            for target in targets:
                assert (await sender.send(base + target, PREPARED, insecure_ssl=False)).ok, target
        finally:
            await sender.close()
        return [
            line.removeprefix("POST ").removesuffix(" HTTP/1.1").removeprefix("http://127.0.0.1:9") for line in found
        ]


@pytest.mark.parametrize("through_proxy", [False, True])
async def test_the_target_is_sent_unchanged(through_proxy: bool) -> None:
    assert await sent_targets(*TARGETS, through_proxy=through_proxy) == [*TARGETS]


async def test_an_empty_path_becomes_the_root_and_a_fragment_is_dropped() -> None:
    assert await sent_targets("", "?a=b", "#c", "/a#b?c", "/a?b#c/d") == ["/", "/?a=b", "/", "/a", "/a?b"]


_pieces = st.one_of(
    st.sampled_from(("/", "//", "/./", "/../", "?", "&", "=", "+", ";", ":", "@", "%2F", "%2f", "%3D", "%3A", "%28")),
    st.text(st.sampled_from("abzAZ09-._~!$&'()*+,;=:@"), max_size=4),
    st.integers(1, 255).map(lambda byte: f"%{byte:02X}"),
    st.integers(1, 255).map(lambda byte: f"%{byte:02x}"),
)
_targets = st.lists(_pieces, max_size=8).map(lambda pieces: "/" + "".join(pieces))


@settings(max_examples=10, deadline=None)
@given(st.lists(_targets, min_size=20, max_size=20))
def test_arbitrary_targets_are_sent_unchanged(targets: list[str]) -> None:
    assert asyncio.run(sent_targets(*targets)) == targets


@given(_targets, st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.text(max_size=5))), max_size=3))
def test_added_parameters_leave_the_rest_unchanged(target: str, parameters: list[tuple[str, str | None]]) -> None:
    url = f"https://Example.com:443{target}"
    longer = with_parameters(url, parameters)
    assert longer.startswith(url)
    assert longer.isascii()
    assert request_target(longer).startswith(request_target(url))
    if all(value is None for _, value in parameters):
        assert longer == url
    assert longer.count("?") == max(
        url.count("?"), min(1, len([value for _, value in parameters if value is not None]))
    )


@pytest.mark.parametrize(
    ("uri", "longer"),
    [
        ("https://a.test/cb", "https://a.test/cb?code=x"),
        ("https://a.test/cb?", "https://a.test/cb?code=x"),
        ("https://a.test/cb?a=%2F+b%20&c", "https://a.test/cb?a=%2F+b%20&c&code=x"),
        ("HTTPS://A.test/./cb?a&", "HTTPS://A.test/./cb?a&code=x"),
        ("app.example:/cb", "app.example:/cb?code=x"),
        ("https://a.test/Grö?ß=1", "https://a.test/Gr%C3%B6?%C3%9F=1&code=x"),
        ("https://a.test/cb#part", "https://a.test/cb?code=x#part"),
    ],
)
def test_parameters_are_appended_to_a_callback_url(uri: str, longer: str) -> None:
    assert with_parameters(uri, [("code", "x"), ("state", None)]) == longer
