"""An HTTP transport for ten thousand requests. httpx's own transport takes longer for these than the server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import httpx
import yarl


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._response.content.iter_any():
            yield piece

    async def aclose(self) -> None:
        self._response.release()


class ManyRequests(httpx.AsyncBaseTransport):
    """An httpx transport based on aiohttp, with the given number of connections."""

    def __init__(self, connections: int) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._session.request(
            request.method,
            yarl.URL(str(request.url), encoded=True),
            headers=request.headers.multi_items(),
            data=await request.aread() or None,
            allow_redirects=False,
        )
        return httpx.Response(answer.status, headers=answer.raw_headers, stream=_Body(answer))

    async def aclose(self) -> None:
        await self._session.close()
