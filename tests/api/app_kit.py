"""Helpers that create OAuth apps, apps and their tokens."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.harness.server import Server
from workhook.core.clock import HOUR_MS, now_ms
from workhook.http.calls import Services
from workhook.identity.apps import queries
from workhook.identity.queries import find_account
from workhook.identity.tokens.issue import INSTALLATION, Kind, issue

CALLBACK = "https://example.com/callback"
_numbers = itertools.count(1)


def new_name(word: str = "App") -> str:
    """Return a name that no other app has."""
    return f"{word} {next(_numbers)} {uuid.uuid4().hex[:6]}"


def signed(client_id: str, pem: str, *, lifetime_s: int = 300) -> str:
    """Return a JWT signed with the app's key, as the app's own code would create it."""
    now = int(time.time())
    claims = {"iss": client_id, "iat": now - 30, "exp": now + lifetime_s}
    return jwt.encode({"alg": "RS256"}, claims, RSAKey.import_key(pem))


def fault(resource: str, field: str, code: str, message: str) -> dict[str, Any]:
    """Return an entry of `errors`."""
    return {"resource": resource, "field": field, "code": code, "message": message}


def installation_token(
    server: Server,
    installation_id: int,
    *,
    permissions: Mapping[str, str] | None = None,
    repository_ids: Collection[int] | None = None,
) -> str:
    """Return an installation access token that is valid for an hour."""

    async def work(services: Services) -> str:
        async with services.database.transaction() as tx:
            installation = await queries.find_installation(tx, installation_id)
            assert installation is not None
            assert installation.app.bot_id is not None
            issued = await issue(
                tx,
                INSTALLATION,
                installation.app.bot_id,
                permissions=permissions,
                account_id=installation.account.id,
                repository_ids=repository_ids,
                app_id=installation.app.id,
                installation_id=installation_id,
                expires_at=now_ms() + HOUR_MS,
            )
        return issued.token

    token: str = server.run(work)
    return token


def user_token(server: Server, client_id: str, login: str, kind: Kind, *, scopes: Collection[str] = ()) -> str:
    """Return a token of the app for the user, as if the user had authorized the app."""

    async def work(services: Services) -> str:
        async with services.database.transaction() as tx:
            app, user = await queries.find_client(tx, client_id), await find_account(tx, login)
            assert app is not None
            assert user is not None
            return (await issue(tx, kind, user.id, scopes=scopes, app_id=app.id)).token

    token: str = server.run(work)
    return token
