"""Bodies with very many small values: other requests are served while one is parsed."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from workhook.core.errors import Invalid, Malformed
from workhook.http.calls import Call, Services
from workhook.http.messages import Request
from workhook.work.operations import OPERATIONS

OPERATION = next(each for each in OPERATIONS if each.body is not None)


def arrived(data: bytes) -> Call:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": data, "more_body": False}

    scope = {"type": "http", "method": "POST", "headers": []}
    return Call(Request(scope, receive), OPERATION, cast(Services, None), "", "")


async def turns_of_others(data: bytes) -> int:
    """Return how often the event loop runs other tasks until the body is parsed."""
    parsing, turns = asyncio.create_task(arrived(data).json_object()), 0
    while not parsing.done():
        await asyncio.sleep(0)
        turns += 1
    await parsing
    return turns


@pytest.mark.parametrize(
    "body",
    [
        b'{"title": "a", "sections": {%s}}' % b",".join(b'"k%d": {}' % each for each in range(60_000)),
        b'{"a": [%s {}]}' % (b"{}," * 90_000),
        b'{"a": [%s 1]}' % (b"1," * 190_000),
    ],
)
def test_parsing_a_large_body_does_not_block_the_event_loop(body: bytes) -> None:
    assert asyncio.run(turns_of_others(body)) > 1  # parsed on the event loop, it would be 1


def test_an_invalid_large_body_is_refused_like_a_small_one() -> None:
    filler = b'"a": "%s"' % (b"x" * 100_000)
    for body, problem in ((b'{"t": 1, "t": 2, %s}', Invalid), (b"[{%s}]", Malformed), (b"{%s", Malformed)):
        with pytest.raises(problem):
            asyncio.run(arrived(body % filler).json_object())
