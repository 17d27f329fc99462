"""Users' tokens that are issued without going through the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
import sqlalchemy as sa

from tests.harness.server import Server
from workhook.http.calls import Services
from workhook.identity.tables import tokens
from workhook.identity.tokens.issue import digest_of, issue

_user_of = sa.select(tokens.c.user_id).where(tokens.c.digest == sa.bindparam("digest"))


@dataclass
class Person:
    """A user with a token."""

    server: Server
    token: str

    def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        with self.server.client(self.token) as client:
            return client.request(method, path, **more)

    def get(self, path: str) -> Any:
        response = self.call("GET", path)
        assert response.status_code == 200, response.text
        return response.json()

    def make(self, **body: Any) -> dict[str, Any]:
        response = self.call("POST", "/user/tokens", json=body)
        assert response.status_code == 201, response.text
        made: dict[str, Any] = response.json()
        assert response.headers["location"] == made["url"] == f"{self.server.url}/user/tokens/{made['id']}"
        assert response.headers["cache-control"] == "no-store"
        return made

    def faults(self, **body: Any) -> dict[str, str]:
        """Return the messages of a 422 response by field, after checking the webhook API's format."""
        response = self.call("POST", "/user/tokens", json=body)
        answer = response.json()
        assert (response.status_code, answer["message"], answer["status"]) == (422, "Validation Failed", "422"), answer
        assert all(each["resource"] == "Token" for each in answer["errors"])
        return {each["field"]: each["message"] for each in answer["errors"]}

    def is_good(self) -> bool:
        return self.call("GET", "/user").status_code == 200

    def other(self, token: str) -> Person:
        return Person(self.server, token)


async def user_id_of(services: Services, token: str) -> int:
    row = await services.database.fetch_one(_user_of, {"digest": digest_of(token)})
    assert row is not None
    user_id: int = row["user_id"]
    return user_id


async def issue_for(services: Services, token: str, kind: Any, **more: Any) -> tuple[int, str]:
    """Issue a token of any kind for the user of another token."""
    async with services.database.transaction() as tx:
        issued = await issue(tx, kind, await user_id_of(services, token), **more)
    return issued.id, issued.token
