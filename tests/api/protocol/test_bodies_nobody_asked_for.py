"""Bodies sent to webhook API operations that declare none: they are ignored, but must be JSON."""

from __future__ import annotations

import re

import pytest

from tests.api.wire import Api, Place, refused
from workhook.asgi import described
from workhook.http.operations import WEBHOOK_API, Operation

pytestmark = pytest.mark.one_database

BARE = [each for each in described() if each.area is WEBHOOK_API and each.body is None]


def _path(operation: Operation, place: Place) -> str:
    world = place.world
    known = {"org": world.organization, "owner": world.organization, "repo": world.repository}
    return re.sub(r"\{(\w+)\}", lambda name: known.get(name[1], "1"), operation.path)


@pytest.mark.parametrize("operation", BARE, ids=lambda operation: operation.name)
def test_an_unexpected_body_must_be_json(api: Api, place: Place, operation: Operation) -> None:
    response = api.request(operation.method, _path(operation, place), content=b'{"a"')
    if response.status_code in (401, 403) or operation.name.endswith("_by_number"):
        assert operation.access is not None, "the guard comes first, where there is one; no place has the number 1"
        return
    refused(response, 400, "Problems parsing JSON")


@pytest.mark.parametrize("body", [b"", b" ", b"null", b"{}", b'{"no_such_parameter": 1}'])
def test_an_unexpected_json_body_is_ignored(api: Api, place: Place, body: bytes) -> None:
    hook = api.hook(place)
    assert api.get(hook["url"]).status_code == 200
    assert api.request("GET", hook["url"], content=body).status_code == 200
    assert api.post(hook["ping_url"], content=body).status_code == 204
    assert api.request("DELETE", hook["url"], content=body).status_code == 204


@pytest.mark.parametrize("body", [b"[]", b"1"])
def test_an_unexpected_body_must_be_an_object(api: Api, place: Place, body: bytes) -> None:
    hook = api.hook(place)
    refused(api.post(hook["ping_url"], content=body), 400, "Body should be a JSON object")
    refused(api.request("DELETE", hook["url"], content=body), 400, "Body should be a JSON object")
