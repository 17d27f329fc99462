"""Every operation of the work API by owner, member, client, stranger and nobody: may, may not, sees nothing."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.work.requests_kit import TABLE
from tests.work.scene import Scene
from tests.work.studio import Caller, Studio
from workhook.http.operations import WORK_API
from workhook.work.operations import OPERATIONS

CALLERS = ("owner", "member", "client", "stranger")


@pytest.fixture
def scene(studio: Studio) -> Scene:
    login = studio.add(member="member").login
    return Scene(studio.owner, studio.project_id, studio.world.organization, login)


# A stream does not end by itself: test_stream.py asks who may follow one.
ELSEWHERE = {"GET /projects/{}/stream"}


def _key(operation: Any) -> str:
    return f"{operation.method} " + re.sub(r"\{\w+\}", "{}", operation.path)


def test_every_operation_stands_in_the_table() -> None:
    assert {_key(each) for each in OPERATIONS} == set(TABLE) | ELSEWHERE
    assert all(each.area is WORK_API for each in OPERATIONS)


def _call(caller: Caller, key: str, ids: Any, body: Any) -> httpx.Response:
    method, pattern = key.split()
    path = pattern.format(*(ids if isinstance(ids, tuple) else (ids,)))
    more = body if {"params", "files"} & set(body) else {"json": body} if method in ("POST", "PATCH") else {}
    return caller.call(method, path, **more)


def test_who_may(studio: Studio, scene: Scene) -> None:
    """Those who may least come first: a refusal leaves the thing to the next."""
    wrong = []
    for key, (expected, made, body) in TABLE.items():
        used = True
        for name, status in zip(("nobody", *reversed(CALLERS)), (401, *reversed(expected)), strict=True):
            if used:
                ids, given = made(scene), body(scene) if callable(body) else body
            response = _call(getattr(studio, name), key, ids, given)
            if response.status_code != status:
                wrong.append(f"{key} as {name}: {response.status_code}, not {status}: {response.text[:200]}")
            if name == "nobody" and response.headers.get("www-authenticate") != "Bearer":
                wrong.append(f"{key} as {name}: {response.headers}")
            used = response.is_success and not key.startswith("GET ")
    assert wrong == [], "\n".join(wrong)
