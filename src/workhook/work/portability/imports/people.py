"""Matching of people in another service with members of the organization that receives the import."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from workhook.core.errors import say
from workhook.identity.mail.recipients import mail_address
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, account_of
from workhook.identity.tables import accounts, memberships
from workhook.storage import Reader, Row
from workhook.storage.metadata import bigint_param
from workhook.work.portability.imports.plan import Person, PlannedComment, PlannedTask, name_some
from workhook.work.portability.imports.texts import truncate_bytes

_members = (
    sa.select(*(accounts.c[name] for name in Account.__struct_fields__))
    .join_from(accounts, memberships, memberships.c.user_id == accounts.c.id)
    .where(memberships.c.organization_id == bigint_param("organization_id"), accounts.c.kind == "user")
    .order_by(accounts.c.id)
)


async def members_of(reader: Reader, organization_id: int) -> list[Account]:
    """Return the members of the organization, oldest accounts first."""
    return [account_of(row) for row in await reader.fetch_all(_members, {"organization_id": organization_id})]


_addresses = _members.with_only_columns(accounts.c.id, mail_address.label("address")).where(mail_address.is_not(None))


async def addresses_of(reader: Reader, organization_id: int) -> dict[str, int]:
    """Return the members' IDs by confirmed e-mail address, except addresses shared by several members."""
    return by_address(await reader.fetch_all(_addresses, {"organization_id": organization_id}))


def by_address(rows: Iterable[Row]) -> dict[str, int]:
    """Return the `id` of each row by its `address`, except shared addresses."""
    found: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        found[_key(row["address"] or "")].add(row["id"])
    return {address: min(ids) for address, ids in found.items() if address and len(ids) == 1}


class People:
    """The members of the organization, to be found by login, e-mail address, name, or the names given by the caller."""

    def __init__(self, members: Iterable[Account], named: Mapping[str, str], addresses: Mapping[str, int] = {}) -> None:
        """Index the members.

        `named` contains logins by user name, full name or ID in the other service. `addresses` contains IDs of members
        by confirmed e-mail address. Raises `KeyError` with a login that is not a member's.
        """
        by_login = {key_of(each.login): each for each in members}
        by_id = {each.id: each for each in by_login.values()}
        by_address = {address: by_id[user_id] for address, user_id in addresses.items() if user_id in by_id}
        self._by_login = by_address | by_login
        for login in named.values():
            if key_of(login) not in by_login:
                raise KeyError(login)
        self._named = {_key(name): by_login[key_of(login)] for name, login in named.items()}
        by_name: dict[str, list[Account]] = defaultdict(list)
        for each in by_login.values():
            by_name[_key(each.name or "")].append(each)
        self._by_name = by_address | {name: some[0] for name, some in by_name.items() if name and len(some) == 1}

    def find(self, member: Person, source: str) -> Account | None:
        """Return the matching account, or None.

        A match given by the caller comes first, then one by user name or confirmed e-mail address, then one by a unique
        full name. Full names are not compared for sources where anyone can have an account, such as GitHub.
        """
        names = (_key(each) for each in (member.username, member.full_name, member.id) if each.strip())
        named = next((self._named[each] for each in names if each in self._named), None)
        found = named or self._by_login.get(_key(member.username))
        if found is None and (source in _OF_A_TEAM or member.username in ("", member.full_name)):
            found = self._by_name.get(_key(member.full_name))
        return found


_OF_A_TEAM = ("trello",)
"""Sources with logins whose users were invited to a team."""


def _key(name: str) -> str:
    return name.strip().casefold()


def field_of(source: str) -> str:
    """Return the name of the field that lists the strangers of a task."""
    return f"{source}_members"


def add_strangers_field(task: PlannedTask, strangers: Sequence[Person], source: str) -> dict[str, str]:
    names = ", ".join(each.display_name for each in strangers)
    return {**task.fields, field_of(source): truncate_bytes(names)} if strangers else task.fields


def without_name(fields: Mapping[str, str], stranger: Person, source: str) -> dict[str, str] | None:
    """Return the fields without the name of a stranger, or None if they do not contain it."""
    field, name = field_of(source), stranger.display_name
    names = f", {fields.get(field, '')}, "  # names may contain commas
    if f", {name}, " not in names:
        return None
    left = names.replace(f", {name}, ", ", ", 1).removeprefix(", ").removesuffix(", ")
    if left:
        return {**fields, field: left}
    return {each: value for each, value in fields.items() if each != field}


class UnmatchedPerson(msgspec.Struct, frozen=True):
    """A person without an account.

    `known_as` is the name for `--member`. `assigned` is false for people who only wrote comments.
    """

    name: str
    known_as: str
    assigned: bool


def strangers_of(
    tasks: Sequence[PlannedTask], comments: Sequence[PlannedComment], people: People, source: str
) -> list[UnmatchedPerson]:
    """Return each person without an account once."""
    found: dict[str, UnmatchedPerson] = {}
    members = [member for task in tasks for member in task.members]
    authors = [each.author for each in (*comments, *(each for task in tasks for each in task.comments))]
    for some, assigned in ((members, True), (authors, False)):
        for each in some:
            if each.display_name not in found and people.find(each, source) is None:
                found[each.display_name] = UnmatchedPerson(each.display_name, each.known_as, assigned)
    return list(found.values())


def unknown_people(strangers: Sequence[UnmatchedPerson], hint: str) -> list[str]:
    """Return a warning that lists the strangers. `hint` explains how to match them."""
    names = [each.name for each in strangers]
    remark = say("no user matches {}", name_some(names))
    return [f"{remark}: {hint}" if hint else remark] if names else []
