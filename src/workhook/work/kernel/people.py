"""People as shown in records of the work API.

Everyone who sees a record sees its people, with a placeholder instead of the e-mail address. The address itself is
visible to the person, and to owners of the record's organization for its members (`core.disclosure`). `PersonShape` is
created only here, so that no record or event exposes an address to anyone else.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from workhook.core.disclosure import PrivateText
from workhook.core.mail_address import ADDRESS_MAX_CHARS, is_address
from workhook.http.parameters import Rule, Transform
from workhook.identity.schemas import Account, placeholder_address
from workhook.identity.tables import accounts, memberships, projects
from workhook.storage import Row

_project_of_record = projects.alias("place_of_record")
_belonging = memberships.alias("belonging")

ADDRESS_HIDDEN: sa.ColumnElement[Any] = sa.cast(sa.null(), sa.BigInteger)
"""For `person_columns`: only the person sees the address."""


class PersonShape(msgspec.Struct, dict=True):
    """A person in a record.

    `login` and `username` are identical. `email` is a placeholder unless the caller may see the address.
    """

    id: int
    login: str
    username: str
    email: str
    avatar: str | None

    @property
    def name(self) -> str | None:
        """The person's name, or None. Shown on pages only, never in the API or in events."""
        found: str | None = self.__dict__.get("called")
        return found


def person_to_response(account: Account, *, organization_id: int | None = None) -> PersonShape:
    """Return the shape of a person. Set `organization_id` if they are a member of the record's organization."""
    return person_of_values(account.id, account.login, account.email, account.avatar, organization_id, account.name)


def person_columns(
    organization_id: sa.ColumnElement[Any], people: sa.FromClause = accounts, prefix: str = "user_"
) -> list[sa.Label[Any]]:
    """Return the columns that `person_of_row` reads.

    `organization_id` is the organization whose owners see the address, such as `membership_of(…)`, or `ADDRESS_HIDDEN`.
    `people` is the accounts table, or an alias that the SELECT joins.
    """
    return [
        *(people.c[name].label(prefix + name) for name in ("id", "login", "email", "avatar")),
        organization_id.label(prefix + "organization_id"),
        people.c.name.label(prefix + "name"),
    ]


def membership_of(repository_id: sa.ColumnElement[int], people: sa.FromClause = accounts) -> sa.ScalarSelect[int]:
    """Select the ID of the organization that owns the project if the person is a member of it, or else null."""
    return (
        sa.select(_belonging.c.organization_id)
        .join_from(_project_of_record, _belonging, _belonging.c.organization_id == _project_of_record.c.account_id)
        .where(_project_of_record.c.repository_id == repository_id, _belonging.c.user_id == people.c.id)
        .correlate_except(_project_of_record, _belonging)
        .scalar_subquery()
    )


def person_of_row(row: Row, prefix: str = "user_") -> PersonShape:
    return person_of_values(*(row[prefix + name] for name in _COLUMNS))


_COLUMNS = ("id", "login", "email", "avatar", "organization_id", "name")


def person_of_values(
    person_id: int,
    login: str,
    email: str | None,
    avatar: str | None,
    organization_id: int | None,
    name: str | None = None,
) -> PersonShape:
    public = placeholder_address(login)
    address = PrivateText.about(person_id, public=public, private=email or "", organization_id=organization_id)
    person = PersonShape(person_id, login, login, address, avatar)
    if name:
        person.__dict__["called"] = name
    return person


Email = Annotated[
    str,
    Meta(max_length=ADDRESS_MAX_CHARS, extra_json_schema={"format": "email"}),
    Transform(str.strip),
    Rule.accepts(is_address, "an e-mail address"),
]
