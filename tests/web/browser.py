"""A minimal browser for page tests: it keeps cookies, fills in forms, and sends the headers that a browser would."""

from __future__ import annotations

import itertools
import re
import uuid
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.harness.server import Server
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.schemas import Account
from workhook.identity.signin import passwords as signin
from workhook.identity.signin import sessions
from workhook.web.frame.cookies import masked, unmasked

PASSWORD = "a horse, a battery and a staple"


@dataclass
class Form:
    """A form of a page, with its hidden fields and its current or empty other fields. `boxes` lists unchecked
    checkboxes, which are sent only if a test fills them in."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[str] = field(default_factory=list)
    boxes: list[str] = field(default_factory=list)


class _Forms(HTMLParser):
    """Collects POST forms only, skipping the search (GET) and buttons that close dialogs."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._form: Form | None = None
        self._select = ""
        self._in_button = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = Form(given.get("action", "")) if given.get("method") == "post" else None
            self.forms += [self._form] if self._form else []
        elif self._form is not None and "name" in given and tag in ("input", "select", "textarea"):
            if given.get("type") in ("checkbox", "radio") and "checked" not in given:
                self._form.boxes.append(given["name"])
            else:
                self._form.fields[given["name"]] = given.get("value", "")
            self._select = given["name"] if tag == "select" else ""
        elif self._form is not None and tag == "option" and self._select and "selected" in given:
            self._form.fields[self._select] = given["value"]
        self._in_button = tag == "button"

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None

    def handle_data(self, data: str) -> None:
        if self._in_button and self._form is not None and data.strip():
            self._form.buttons.append(data.strip())


def forms(response: httpx.Response) -> list[Form]:
    parser = _Forms()
    parser.feed(response.text)
    return parser.forms


_KEYS = re.compile(r"""(?<=name="csrf" value=")[\w-]{115}(?=")|(?<=name="csp-nonce" content=")[\w-]{22}(?=")""")


def without_keys(text: str) -> str:
    """Replace the values that differ in each rendering: the `csrf` field of forms, and the nonce of the policy."""
    return _KEYS.sub("…", text)


def policy_of(response: httpx.Response) -> dict[str, str]:
    """Return the content security policy, with `NONCE` in place of the nonce."""
    parts = re.sub(r"'nonce-[\w-]{22}'", "NONCE", response.headers["content-security-policy"]).split("; ")
    policy = {name: value for name, _, value in (each.partition(" ") for each in parts)}
    assert len(policy) == len(parts), "a browser takes the first of two"
    return policy


_numbers = itertools.count(1)


class Browser:
    """Does not follow redirects. Has its own IP address on servers that trust a proxy."""

    def __init__(self, server: Server, **headers: str) -> None:
        number = next(_numbers)
        self.form_key: str | None = None
        self.address = f"10.0.{number >> 8}.{number & 255}"
        accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        headers = {"Accept": accept, "User-Agent": "Tester/1.0", "X-Forwarded-For": self.address, **headers}
        self.client = httpx.Client(base_url=server.url, headers=headers, timeout=60, verify=False)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.client.get(path, **more)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """Post like our own pages do: under the referrer policy `no-referrer`, the origin is `null`."""
        sent = {"Origin": "null", "Sec-Fetch-Site": "same-origin", **headers}
        return self.client.post(
            path, data=fields, headers={name.replace("_", "-"): text for name, text in sent.items()}
        )

    def form(self, path: str, action: str | None = None) -> Form:
        """Return the form of a page that posts to `action`, or to the page itself."""
        response = self.get(path)
        assert response.status_code == 200, response.text
        [found] = [each for each in forms(response) if each.action == (action or urlsplit(path).path)]
        return found

    def fill(self, path: str, action: str | None = None, **fields: str) -> httpx.Response:
        """Open a page, fill in one of its forms and send it."""
        form = self.form(path, action)
        assert set(fields) <= {*form.fields, *form.boxes}, form
        return self.post(form.action, {**form.fields, **fields})

    def fill_csrf(self, action: str, **fields: str) -> httpx.Response:
        """Send a form for signed-in users without opening its page. Each call uses a new form."""
        if self.form_key is None:
            self.form_key = next(each.fields["csrf"] for each in forms(self.get("/")) if "csrf" in each.fields)
        return self.post(action, {"csrf": masked(unmasked(self.form_key)), **fields})

    def sign_in(self, person: Person, password: str = PASSWORD) -> httpx.Response:
        return self.fill("/login", login=person.login, password=password)

    def is_signed_in(self) -> bool:
        response = self.get("/settings/password")
        assert response.status_code in (200, 303), response.text
        return response.status_code == 200

    @property
    def cookie(self) -> str | None:
        """The value of the session cookie."""
        return self.client.cookies.get("workhook_session")

    @classmethod
    def of(cls, server: Server, login: str, **headers: str) -> Browser:
        """Return a browser in which the user is signed in. The user needs no password."""

        async def start(services: Services) -> str:
            async with services.database.transaction() as tx:
                user = await queries.find_account(tx, login)
                assert user is not None
                return (await sessions.start(tx, user, address="127.0.0.1", user_agent="test"))[1]

        browser = cls(server, **headers)
        browser.client.cookies.set("workhook_session", server.run(start))
        return browser

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


@dataclass(frozen=True)
class Person:
    id: int
    login: str
    email: str


def add_person(server: Server, *, password: str | None = PASSWORD, name: str | None = "Ada") -> Person:
    """Create a user, with or without a password."""

    async def make(services: Services) -> Account:
        unique = uuid.uuid4().hex[:8]
        async with services.database.transaction() as tx:
            user = await actions.create_account(tx, "user", f"ada-{unique}", name=name, email=f"{unique}@example.com")
        if password is not None:
            hashed = await signin.new_hash(password, user)
            async with services.database.transaction() as tx:
                await signin.set_password(tx, user, hashed)
        return user

    user: Account = server.run(make)
    return Person(user.id, user.login, user.email or "")


def add_link(server: Server, person: Person, purpose: str = sessions.SIGN_IN, *, minutes: float = 15) -> str:
    """Create a link and return its path."""

    async def make(services: Services) -> str:
        async with services.database.transaction() as tx:
            return (await sessions.create_link(tx, person.id, purpose, minutes=minutes)).path

    path: str = server.run(make)
    return path
