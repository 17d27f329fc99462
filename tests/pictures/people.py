"""The members of the studio in the pictures, and its client."""

from __future__ import annotations

from typing import Any

import httpx

from tests.browser.people import Insider
from workhook.http.calls import Services
from workhook.identity import actions
from workhook.identity.policy import SCOPES

ORGANIZATION = ("northlight", "Northlight Studio")
PEOPLE = {"ada": "Ada Lindqvist", "jonas": "Jonas Weber", "mei": "Mei Tanaka", "sam": "Sam Okafor"}
CLIENT = ("ines", "Ines Moreau", "ines@harborfestival.example")


async def add_people(services: Services) -> dict[str, Insider]:
    """Create an organization with its members, the first of whom owns it, and a future client. For `Server.run`."""
    found: dict[str, Insider] = {}
    async with services.database.transaction() as tx:
        login, name = ORGANIZATION
        organization = await actions.create_account(tx, "organization", login, name=name, email=None)
        everybody = [(login, name, f"{login}@northlight.example") for login, name in PEOPLE.items()]
        for login, name, email in [*everybody, CLIENT]:
            user = await actions.create_account(tx, "user", login, name=name, email=email)
            if login in PEOPLE:
                await actions.set_member(tx, organization, user, "member" if found else "owner")
            token = await actions.issue_token(tx, user, list(SCOPES), note="Command line of my laptop")
            found[login] = Insider(user.id, login, email, token.token)
    return found


def call(api: httpx.Client, method: str, path: str, **body: Any) -> Any:
    """Return the API's answer to a request that must succeed."""
    answer = api.request(method, path, json=body or None)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def make(api: httpx.Client, path: str, **body: Any) -> Any:
    """Return the resource that the work API has created."""
    return next(each for each in call(api, "POST", f"/api/v1{path}", **body).values() if isinstance(each, dict))
