"""A studio for work API tests: one project and its people on a real server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import httpx
import sqlalchemy as sa
from jsonschema import Draft202012Validator, FormatChecker

from tests.harness.clients import become_client
from tests.harness.server import Server
from tests.harness.world import World, add_client, add_user
from workhook.core import json
from workhook.events.catalog import CATALOG
from workhook.events.payloads import from_stored
from workhook.events.tables import events
from workhook.identity.schemas import placeholder_address
from workhook.identity.tables import projects

JsonObject = dict[str, Any]

_events = (
    sa.select(events.c.id, events.c.name, events.c.action, events.c.payload)
    .join_from(events, projects, projects.c.account_id == events.c.account_id)
    .where(projects.c.id == sa.bindparam("project_id"))
    .order_by(events.c.id)
)


def without_addresses(value: Any) -> Any:
    """Return a response in the form used in events, with placeholders for e-mail addresses."""
    if isinstance(value, list | tuple):
        return [without_addresses(each) for each in value]
    if not isinstance(value, dict):
        return value
    plain = {name: without_addresses(each) for name, each in value.items()}
    name = plain.get("login", plain.get("username"))  # client records have `username`
    return {**plain, "email": placeholder_address(name)} if name and "email" in plain else plain


class Told(dict[str, Any]):
    """Part of an event. Equals the API's record apart from e-mail addresses, which events omit."""

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self, without_addresses(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # unhashable, like dict

    @classmethod
    def of(cls, value: Any) -> Any:
        """Wrap `value` and everything nested in it."""
        if isinstance(value, list):
            return [cls.of(each) for each in value]
        return cls({name: cls.of(each) for name, each in value.items()}) if isinstance(value, dict) else value


@cache
def _validator(event: str) -> Draft202012Validator:
    schema = CATALOG[event].schema
    assert schema is not None, event
    return Draft202012Validator(schema, format_checker=FormatChecker())


@dataclass(frozen=True)
class Happened:
    """A stored event whose payload matches its schema in the catalog."""

    name: str
    action: str | None
    payload: JsonObject

    @property
    def record(self) -> JsonObject:
        found: JsonObject = Told.of(self.payload[self.name])
        return found

    @property
    def changes(self) -> JsonObject:
        found: JsonObject = Told.of(self.payload.get("changes", {}))
        return found


class Caller:
    """A person with a token. `path` arguments are relative to `/api/v1`."""

    def __init__(self, server: Server, token: str | None) -> None:
        self.server, self.token = server, token
        self.http = server.client(token)

    @property
    def me(self) -> JsonObject:
        user: JsonObject = self.get("/me")["user"]
        return user

    @cached_property
    def login(self) -> str:
        return str(self.me["username"])

    def new_task(self, column_id: str, title: str = "Task", **more: Any) -> JsonObject:
        made: JsonObject = self.post(f"/columns/{column_id}/tasks", json={"title": title, **more})["task"]
        return made

    def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self.http.request(method, f"/api/v1{path}", **more)

    def answer(self, method: str, path: str, **more: Any) -> Any:
        """Return the response body of a call that must succeed."""
        response = self.call(method, path, **more)
        assert response.status_code == 200, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    def get(self, path: str, **more: Any) -> Any:
        return self.answer("GET", path, **more)

    def post(self, path: str, **more: Any) -> Any:
        return self.answer("POST", path, **more)

    def patch(self, path: str, **more: Any) -> Any:
        return self.answer("PATCH", path, **more)

    def delete(self, path: str, **more: Any) -> Any:
        return self.answer("DELETE", path, **more)

    def refused(self, status: int, method: str, path: str, **more: Any) -> JsonObject:
        """Return the error body of a call that must fail, checking its exact shape."""
        response = self.call(method, path, **more)
        assert response.status_code == status, f"{method} {path}: {response.status_code} {response.text}"
        body: JsonObject = response.json()
        assert set(body) == {"success", "code", "message", "errors", "request_id"}
        assert body["success"] is False
        assert body["request_id"] == response.headers["x-request-id"]
        return body

    def faults(self, method: str, path: str, **more: Any) -> dict[str, str]:
        """Return the error codes of a 422 response by field."""
        return {each["field"]: each["code"] for each in self.refused(422, method, path, **more)["errors"]}


class Studio:
    """A project and its people.

    `owner`, `member`, `client` and `stranger` are callers with every scope; `nobody` has no token.
    """

    def __init__(self, server: Server, world: World) -> None:
        self.server = server
        self.world = world
        self.project_id = world.project_id
        self.project = f"/projects/{world.project_id}"
        self.owner = Caller(server, world.token)
        self._callers = [self.owner]
        self._seen = set[int]()

    def add(self, **place: Any) -> Caller:
        """Add another person, such as `member="member"` or `role="read"`, as in `tests.harness.world.add_user`."""

        return self.caller(self.server.run(lambda services: add_user(services, self.world, **place)))

    def add_client(self) -> Caller:
        return self.caller(self.server.run(lambda services: add_client(services, self.world)))

    def new_client(self, email: str) -> JsonObject:
        """Return the record of a new client who has accepted the invitation sent to `email`."""
        made = self.server.run(lambda services: become_client(services, self.project_id, email))
        client: JsonObject = self.owner.get(f"/clients/{made.id}")["client"]
        return client

    @cached_property
    def member(self) -> Caller:
        return self.add(member="member")

    @cached_property
    def client(self) -> Caller:
        return self.add_client()

    @cached_property
    def stranger(self) -> Caller:
        return self.add()

    @cached_property
    def nobody(self) -> Caller:
        return self.caller(None)

    def column(self, title: str = "To do", *, project: str | None = None, **more: Any) -> str:
        """Return the ID of a new column in the project with the path `project`, by default the studio's."""
        body = {"title": title, **more}
        return str(self.owner.post(f"{project or self.project}/columns", json=body)["column"]["id"])

    def task(self, column_id: str | None = None, title: str = "Task", **more: Any) -> str:
        """Return the ID of a new task of the owner."""
        return str(self.owner.new_task(column_id or self.column(), title, **more)["id"])

    def file(self, title: str = "plan.txt", **more: Any) -> str:
        """Return the ID of a new file of the owner."""
        files = {"file": ("plan.txt", b"a file", "text/plain")}
        return str(self.owner.post(f"{self.project}/files", files=files, data={"title": title, **more})["file"]["id"])

    def invoice(self, *steps: str, **body: Any) -> JsonObject:
        """Return an invoice of the owner, of 100 EUR by default, after the given steps: `invoice("send", "pay")`."""
        line = {"description": "Design", "qty": 1, "unit_price": 100}
        whole = {"invoice_items": [line], "currency": "EUR", **body}
        made: JsonObject = self.owner.post(f"{self.project}/invoices", json=whole)["invoice"]
        for step in steps:
            made = self.owner.post(f"/invoices/{made['id']}/{step}")["invoice"]
        return made

    def hook(self, url: str, *events: str, place: str | None = None, **more: Any) -> None:
        """Create a webhook for `events`, or for all, on the repository or on `place`."""
        config = {"url": url, "content_type": "json"}
        hook = {"name": "web", "events": events or ["*"], "config": config, **more}
        made = self.owner.http.post(f"{place or self.world.repo_path}/hooks", json=hook)
        assert made.status_code == 201, made.text

    def happened(self) -> list[Happened]:
        """Return the organization's events since the previous call, each validated against its schema."""

        rows = self.server.fetch(_events, {"project_id": self.project_id})
        found = [row for row in rows if row["id"] not in self._seen]  # lower IDs may be committed later
        self._seen |= {row["id"] for row in found}
        new = [Happened(row["name"], row["action"], json.decode(from_stored(row["payload"]) or b"")) for row in found]
        for each in new:
            _validator(each.name).validate(each.payload)
        return new

    def close(self) -> None:
        for each in self._callers:
            each.http.close()

    def caller(self, token: str | None) -> Caller:
        caller = Caller(self.server, token)
        self._callers.append(caller)
        return caller
