"""Users as the records of Area A show them."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.identity.schemas import Account
from workhook.identity.tables import accounts
from workhook.storage import Row


class PersonShape(msgspec.Struct):
    """A person in a record. `login` and `username` are the same."""

    id: int
    login: str
    username: str
    email: str
    avatar: str | None


def person_shape(account: Account) -> PersonShape:
    return PersonShape(account.id, account.login, account.login, account.email or "", account.avatar)


def person_columns(people: sa.FromClause = accounts, prefix: str = "user_") -> list[sa.Label[Any]]:
    """What `person_of_row` reads; `people` is the accounts table or an alias of it that the SELECT joins."""
    return [people.c[name].label(prefix + name) for name in ("id", "login", "email", "avatar")]


def person_values(account: Account | None) -> dict[str, object]:
    """What `person_columns` would select of the account, but for its id; nothing for nobody."""
    return {f"user_{name}": getattr(account, name) for name in ("login", "email", "avatar")} if account else {}


def person_of_row(row: Row, prefix: str = "user_") -> PersonShape:
    login = row[prefix + "login"]
    return PersonShape(row[prefix + "id"], login, login, row[prefix + "email"] or "", row[prefix + "avatar"])
