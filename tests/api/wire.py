"""Helpers that read responses as a strict client does."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import httpx

from tests.harness.world import World

_numbers = itertools.count(1)

HOOK_KEYS = (
    "type", "id", "name", "active", "events", "config", "updated_at", "created_at", "url", "ping_url", "deliveries_url",
)  # fmt: skip
REPOSITORY_KEYS = (*HOOK_KEYS, "test_url", "last_response")
ITEM_KEYS = (
    "id", "guid", "delivered_at", "redelivery", "duration", "status", "status_code", "event", "action",
    "installation_id", "repository_id", "throttled_at", "url", "dispatch_state", "attempt", "attempts_max",
    "next_attempt_at",
)  # fmt: skip
UNUSED = {"code": None, "status": "unused", "message": None}
SECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
MILLISECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
NOBODYS_ID = 2**53 - 1  # an ID that no object has
BAD_URL = "The URL you've entered is not valid. Please make sure that you encode all special characters first"


@dataclass(frozen=True)
class Place:
    """A repository or an organization as named in paths and errors."""

    kind: str
    world: World

    @property
    def path(self) -> str:
        return self.world.repo_path if self.kind == "repository" else self.world.org_path

    @property
    def hooks(self) -> str:
        return f"{self.path}/hooks"

    @property
    def other(self) -> Place:
        return Place("organization" if self.kind == "repository" else "repository", self.world)


def new_url() -> str:
    """Return a unique URL on which nothing listens."""
    return f"http://127.0.0.1:9/{next(_numbers)}"


class Api:
    """A client with shortcuts for frequent requests."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.get, self.post, self.patch, self.delete = client.get, client.post, client.patch, client.delete
        self.request, self.head, self.options = client.request, client.head, client.options

    def create(self, place: Place, *, config: dict[str, Any] | None = None, **body: Any) -> httpx.Response:
        """Create a webhook, with a unique URL unless `config` contains one, and return the response."""
        return self.post(place.hooks, json={"name": "web", "config": {"url": new_url(), **(config or {})}, **body})

    def hook(self, place: Place, *, config: dict[str, Any] | None = None, **body: Any) -> dict[str, Any]:
        """Create a webhook and return it. It is inactive, so nothing is sent to it, unless `active=True`."""
        response = self.create(place, config=config, **{"active": False, **body})
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created

    def read(self, address: str) -> Any:
        response = self.get(address)
        assert response.status_code == 200, response.text
        return response.json()


def refused(response: httpx.Response, status: int, message: str, *errors: dict[str, Any]) -> None:
    """Check that the response is exactly this error of the webhook API."""
    body = response.json()
    assert (response.status_code, body["message"], body.get("errors", [])) == (status, message, list(errors))
    assert body.pop("documentation_url").startswith(str(response.url.copy_with(path="/docs", query=None)))
    body.pop("errors", None)
    assert body == {"message": message, "status": str(status)}
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert "etag" not in response.headers


def invalid(response: httpx.Response, *errors: dict[str, Any]) -> None:
    refused(response, 422, "Validation Failed", *errors)


def unknown_event(name: str) -> str:
    return f'Unknown event "{name}". List events with GET /webhook-events; publish your own with POST …/dispatches.'


def custom(message: str, field: str | None = None) -> dict[str, Any]:
    """Return an entry of `errors`."""
    named = {"field": field} if field else {}
    return {"resource": "Hook", **named, "code": "custom", "message": message}


def envelope(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that the response is exactly this error of the work API, and return its body."""
    body: dict[str, Any] = response.json()
    assert (response.status_code, body["code"], body["success"]) == (status, code, False)
    assert set(body) == {"success", "code", "message", "errors", "request_id"}
    assert body["request_id"] == response.headers["x-request-id"]
    return body
