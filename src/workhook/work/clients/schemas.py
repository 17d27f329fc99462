"""Clients, people from outside who may look into a project: the record, its table, and what a caller may say."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.records import COMPUTED, HIDDEN, EventSchema, Millis, Record, Wire, resource_id
from workhook.http.parameters import Checked, Prepared
from workhook.storage.metadata import in_project, metadata
from workhook.storage.record_rows import table_columns

EMAIL_MAX_CHARS = 254
LOGIN_MAX_CHARS = 39

# Only whoever is given a token can use an account, so this checks no more than the form of an address.
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


class Client(Record, frozen=True):
    """`email` is the address that they were invited by."""

    id: Annotated[str, resource_id("cli")]
    username: Annotated[str, COMPUTED, EventSchema({"type": ["string", "null"]})]
    email: Annotated[str, EventSchema({"format": "email"})]
    created_at: Millis
    updated_at: Millis
    user_id: Annotated[int, HIDDEN]


clients = sa.Table(
    "clients",
    metadata,
    in_project(),
    *table_columns(Client, user_id=sa.ForeignKey("accounts.id")),
    sa.UniqueConstraint("repository_id", "user_id"),
    sa.Index("ix_clients_user", "user_id", "repository_id"),
)


class ClientAnswer(msgspec.Struct):
    client: Wire[Client]
    success: bool = True


class ClientsAnswer(msgspec.Struct):
    clients: list[Wire[Client]]
    success: bool = True


def login_from(email: str) -> str:
    """Make a login from what stands before the `@`: `Jo.Müller+x@…` gives `jo-muller-x`."""
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
