"""Clients on the wire, and what a caller may say about one."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.http.parameters import Checked, Prepared
from workhook.identity.schemas import Account
from workhook.storage import Row
from workhook.work.access import Access

EMAIL_MAX_CHARS = 254
LOGIN_MAX_CHARS = 39

# Who may have an account is who gets a token; this only tells an address from what is none.
_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f,;<>()]+@[^@\s\x00-\x1f\x7f,;<>()]+")
_LOGIN = r"[A-Za-z0-9](?:-?[A-Za-z0-9])*"


def _not_an_address(text: str) -> str | None:
    return None if _EMAIL.fullmatch(text) else "an e-mail address"


def _not_a_login(text: str) -> str | None:
    if len(text) <= LOGIN_MAX_CHARS and re.fullmatch(_LOGIN, text):
        return None
    return f"1 to {LOGIN_MAX_CHARS} letters, digits and single hyphens"


Email = Annotated[
    str,
    Meta(max_length=EMAIL_MAX_CHARS, extra_json_schema={"format": "email"}),
    Prepared(str.strip),
    Checked(_not_an_address),
]
Username = Annotated[
    str,
    Meta(
        description="Of the account that is made if there is none for the e-mail address.",
        extra_json_schema={"pattern": f"^{_LOGIN}$", "maxLength": LOGIN_MAX_CHARS},
    ),
    Checked(_not_a_login),
]


class ClientCreate(msgspec.Struct):
    """Whoever has an account with this e-mail address (in any case) is given the project; else one is made."""

    email: Email
    username: Username | UnsetType = UNSET


class ClientShape(msgspec.Struct):
    """`email` is the address that they were invited by."""

    id: str
    username: str
    email: str
    created_at: str
    updated_at: str


class ClientAnswer(msgspec.Struct):
    client: ClientShape
    success: bool = True


class ClientsAnswer(msgspec.Struct):
    clients: list[ClientShape]
    success: bool = True


class Client(msgspec.Struct, frozen=True):
    """A client with the place of the caller in the project."""

    access: Access
    user_id: int
    shape: ClientShape


class Person(msgspec.Struct, frozen=True):
    """Somebody who may be meant by an invitation. `client` is their record in this project."""

    account: Account
    has_place: bool
    client: ClientShape | None


class Invitation(msgspec.Struct, frozen=True):
    """What is known when somebody is invited: who fits the address or the name, and which logins are taken."""

    access: Access
    people: list[Person]
    taken: set[str]


def client_shape(row: Row, prefix: str = "") -> ClientShape:
    return ClientShape(
        id=row[prefix + "id"],
        username=row[prefix + "username"],
        email=row[prefix + "email"],
        created_at=to_millis_text(row[prefix + "created_at"]),
        updated_at=to_millis_text(row[prefix + "updated_at"]),
    )


def login_from(email: str) -> str:
    """A login out of what stands before the `@`: `Jo.Müller+x@…` gives `jo-muller-x`."""
    plain = unicodedata.normalize("NFKD", email.partition("@")[0]).casefold()
    ascii_only = "".join(each for each in plain if not unicodedata.combining(each))
    words = re.findall(r"[a-z0-9]+", ascii_only)
    return "-".join(words)[:LOGIN_MAX_CHARS].strip("-") or "client"


def first_free(login: str, taken: set[str]) -> str:
    """`login`, or with the first suffix `-2`, `-3` … that is not taken."""
    if login not in taken:
        return login
    number = 2
    while (numbered := login[: LOGIN_MAX_CHARS - len(f"-{number}")].rstrip("-") + f"-{number}") in taken:
        number += 1
    return numbered
