"""An organization with OAuth apps and an app, signed-in users, and a browser for each."""

from __future__ import annotations

import base64
import hashlib
import itertools
import secrets
import uuid
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import httpx
import sqlalchemy as sa

from tests.harness.server import Server
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.apps import actions as app_actions
from workhook.identity.apps import installer
from workhook.identity.apps.app_schemas import AppCreate, OauthAppCreate
from workhook.identity.apps.schemas import App
from workhook.identity.schemas import Account
from workhook.identity.signin import sessions
from workhook.identity.tables import audit_log, authorization_codes, device_codes, grants, refresh_tokens, tokens
from workhook.identity.tokens.lookup import find_actor

CALLBACK = "https://client.example/callback"
OTHER_CALLBACK = "https://client.example/other?from=workhook"
LOOPBACK = "http://127.0.0.1/callback"
TOKEN_PATH = "/login/oauth/access_token"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"

_numbers = itertools.count(1)


@dataclass
class Client:
    """A registered app with the credentials its developer has."""

    app: App
    secret: str = field(repr=False)

    @property
    def id(self) -> str:
        return self.app.client_id

    @property
    def credentials(self) -> dict[str, str]:
        return {"client_id": self.id, "client_secret": self.secret}


class _Fields(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.action = ""
        self._current = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self._current = given.get("action") or ""
        elif tag == "input" and given.get("name") and self._current != "/logout":
            self.action = self._current
            self.fields[str(given["name"])] = given.get("value") or ""


@dataclass
class Browser:
    """The browser of a signed-in user. It does not follow redirects."""

    http: httpx.Client
    user: Account

    def authorize(self, client: Client, **parameters: Any) -> httpx.Response:
        given = {"client_id": client.id, **parameters}
        return self.http.get("/login/oauth/authorize", params=given)

    def submit(self, page: httpx.Response, **fields: str) -> httpx.Response:
        """Submit the page's form with `fields` added or replaced."""
        action, shown = form_of(page)
        return self.http.post(action, data={**shown, **fields})

    def consent(self, client: Client, **parameters: Any) -> dict[str, str]:
        """Approve the request and return the parameters that the client receives."""
        page = self.authorize(client, **parameters)
        assert page.status_code == 200, page.text
        return self.answer(self.submit(page, decision="approve"))

    def code(self, client: Client, **parameters: Any) -> str:
        return self.consent(client, **{"prompt": "select_account", **parameters})["code"]

    @staticmethod
    def answer(response: httpx.Response) -> dict[str, str]:
        """Return the query that a redirect to the client carries."""
        assert response.status_code == 302, response.text
        return dict(parse_qsl(urlsplit(response.headers["location"]).query, keep_blank_values=True))


def form_of(page: httpx.Response) -> tuple[str, dict[str, str]]:
    assert page.headers["content-type"].startswith("text/html"), page.text
    parser = _Fields()
    parser.feed(page.text)
    return parser.action, parser.fields


class Site:
    """An organization with two OAuth apps, `oauth` and `rival`, and an app, `app`.

    `octo` owns the organization; `ada` has no role in it.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.http = server.client(None)
        self._open = [self.http]
        self.world = server.world()
        made = server.run(self._make)
        self.oauth, self.rival, self.app = (Client(*each) for each in made["apps"])
        self.octo, self.ada = (self.browser(*each) for each in made["sessions"])
        self.octo_token = self.world.token

    async def _make(self, services: Services) -> dict[str, Any]:
        unique = f"{next(_numbers)}{uuid.uuid4().hex[:6]}"
        async with services.database.transaction() as tx:
            place = await queries.find_account(tx, self.world.organization)
            octo = await queries.find_account(tx, self.world.owner)
            assert place is not None
            assert octo is not None
            ada = await actions.create_account(tx, "user", f"ada-{unique}", name="Ada", email="ada@example.com")
            urls = [CALLBACK, OTHER_CALLBACK, LOOPBACK]
            oauth = await app_actions.create_app(
                tx, None, place, OauthAppCreate(name=f"Tool {unique}", callback_urls=urls, device_flow=True)
            )
            rival = await app_actions.create_app(
                tx, None, place, OauthAppCreate(name=f"Rival {unique}", callback_urls=urls)
            )
            levels: dict[str, Literal["read", "write"]] = {"work": "write", "repository_hooks": "read"}
            create = AppCreate(name=f"App {unique}", permissions=levels, callback_urls=urls, device_flow=True)
            app, secret, _ = await app_actions.create_app(tx, None, place, create)
            await installer.install(tx, None, app, place)
            signed_in = [(each, await _session(tx, each)) for each in (octo, ada)]
        return {"apps": [oauth[:2], rival[:2], (app, secret)], "sessions": signed_in}

    def browser(self, user: Account, secret: str) -> Browser:
        http = self.server.client(None, cookies={"workhook_session": secret})
        self._open.append(http)
        return Browser(http, user)

    def new_browser(self, user: Account) -> Browser:
        async def start(services: Services) -> str:
            async with services.database.transaction() as tx:
                return await _session(tx, user)

        return self.browser(user, self.server.run(start))

    def token(self, client: Client, **fields: str | None) -> dict[str, Any]:
        """Return the response of the token endpoint. Fields that are None are omitted."""
        given = {**client.credentials, **fields}
        sent = {name: value for name, value in given.items() if value is not None}
        response = self.http.post(TOKEN_PATH, data=sent, headers={"Accept": "application/json"})
        assert response.status_code == 200, response.text
        assert response.headers["cache-control"] == "no-store"
        answer: dict[str, Any] = response.json()
        return answer

    def refused(self, client: Client, error: str, **fields: str | None) -> dict[str, Any]:
        answer = self.token(client, **fields)
        assert answer.get("error") == error, answer
        assert answer["error_description"]
        assert "access_token" not in answer
        return answer

    def user_of(self, token: str) -> str | None:
        """Return the login of the token's user, or None if the token is invalid."""
        response = self.http.get("/user", headers={"Authorization": f"Bearer {token}"})
        assert response.status_code in (200, 401), response.text
        return str(response.json()["login"]) if response.status_code == 200 else None

    def scopes_of(self, token: str) -> str:
        return str(self.http.get("/user", headers={"Authorization": f"Bearer {token}"}).headers["x-oauth-scopes"])

    def actor_of(self, token: str) -> Any:
        async def find(services: Services) -> Any:
            return await find_actor(services.database, token)

        return self.server.run(find)

    def stored(self, *, refusals: bool = True) -> str:
        """Return everything the database contains about codes and tokens.

        Refused attempts are written a moment later.
        """
        done = sa.select(audit_log).where(audit_log.c.status.is_(None))

        async def read(services: Services) -> str:
            rows: list[Any] = []
            for table in (tokens, authorization_codes, device_codes, refresh_tokens, grants):
                rows += await services.database.fetch_all(sa.select(table))
            rows += await services.database.fetch_all(sa.select(audit_log) if refusals else done)
            return repr([[row[index] for index in range(len(row))] for row in rows])

        return str(self.server.run(read))

    def close(self) -> None:
        for each in self._open:
            each.close()


async def _session(tx: Any, user: Account) -> str:
    _, secret = await sessions.start(tx, user, address="127.0.0.1", user_agent="test")
    return secret


def new_pkce() -> tuple[str, dict[str, str]]:
    """Return a verifier and its request parameters (RFC 7636)."""
    verifier = secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return verifier, {"code_challenge": challenge, "code_challenge_method": "S256"}
