"""The SQL of clients. Each query is confined to one project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import json_rows, upsert
from workhook.storage.metadata import big
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.work.access import Access, access_of, with_access
from workhook.work.clients.schemas import LOGIN_MAX_CHARS, Client
from workhook.work.clients.tables import clients


class FoundClient(msgspec.Struct, frozen=True):
    """A client with the place of the caller in the project."""

    access: Access
    client: Client


class Person(msgspec.Struct, frozen=True):
    """Somebody who may be meant by an invitation. `client` is their record in this project."""

    account: Account
    has_place: bool
    client: Client | None


class Invitation(msgspec.Struct, frozen=True):
    """What is known when somebody is invited: who fits the address or the name, and which logins are taken."""

    access: Access
    people: list[Person]
    taken: set[str]


_person = accounts.alias("person")
_each = sa.select(*selected(Client, clients, "client_"), _person.c.login.label("client_username")).select_from(
    clients.join(_person, _person.c.id == clients.c.user_id)
)
_read = row_reader(Client)
_one = with_access(_each.where(clients.c.id == sa.bindparam("id")), clients.c.repository_id)
_locked = _one.with_for_update(of=clients)
_own_locked = with_access(
    _each.where(clients.c.repository_id == big("repository_id"), clients.c.user_id == big("user_id")),
    clients.c.repository_id,
).with_for_update(of=clients)
_page = (
    _each.where(clients.c.repository_id == big("repository_id"), clients.c.id > sa.bindparam("after"))
    .order_by(clients.c.id)
    .limit(big("limit"))
)

# Who fits an address or a name, and what they are in the project.
_place = projects.alias("place")
_here = clients.alias("here")
# Both are in a subquery themselves: what is correlated has to be said, or they look at every project there is.
_owner = (
    sa.exists()
    .where(
        memberships.c.organization_id == _place.c.account_id,
        memberships.c.user_id == _person.c.id,
        sa.or_(memberships.c.role == "owner", _place.c.private.is_(sa.false())),
    )
    .correlate(_place, _person)
)
_added = (
    sa.exists()
    .where(collaborators.c.repository_id == _place.c.repository_id, collaborators.c.user_id == _person.c.id)
    .correlate(_place, _person)
)
_people = (
    sa.select(
        json_rows(
            *(_person.c[name] for name in Account.__struct_fields__),
            sa.case((sa.or_(_person.c.id == _place.c.account_id, _owner, _added), 1), else_=0),
            *selected(Client, _here),
        )
    )
    .select_from(
        _person.outerjoin(
            _here, sa.and_(_here.c.repository_id == _place.c.repository_id, _here.c.user_id == _person.c.id)
        )
    )
    .where(
        _person.c.kind == "user",
        sa.or_(
            # The database's own `lower` on both sides: what each does with letters beyond ASCII differs.
            sa.func.lower(_person.c.email) == sa.func.lower(sa.bindparam("email", type_=sa.Text)),
            _person.c.login_key == sa.bindparam("login_key", type_=sa.Text),
        ),
    )
    .correlate(_place)
    .scalar_subquery()
)
_other = accounts.alias("other")
_taken = (
    sa.select(json_rows(_other.c.login_key))
    .where(_other.c.login_key.like(sa.bindparam("pattern", type_=sa.Text)))
    .scalar_subquery()
)
_invitation = with_access(
    sa.select(_people.label("people"), _taken.label("taken"))
    .select_from(_place)
    .where(_place.c.id == sa.bindparam("project_id")),
    _place.c.repository_id,
)

_insert = (
    upsert(clients)
    .values(assigned(("repository_id", *stored_names(Client))))
    .on_conflict_do_nothing(index_elements=["repository_id", "user_id"])
)
_delete = sa.delete(clients).where(clients.c.id == sa.bindparam("id"))


async def list_clients(reader: Reader, repository_id: int, *, after: str, limit: int) -> list[Client]:
    """By id, behind `after`."""
    rows = await reader.fetch_all(_page, {"repository_id": repository_id, "after": after, "limit": limit})
    return [_read(row, row["client_username"]) for row in rows]


async def find_client(reader: Reader, actor: Actor, client_id: str) -> FoundClient:
    """Raises `NotFound`."""
    return _client_of(await reader.fetch_one(_one, {"id": client_id, "user_id": actor.user.id}), actor)


async def lock_client(tx: Transaction, actor: Actor, client_id: str) -> FoundClient:
    """The client, whom nobody else removes until the transaction ends. Raises `NotFound`."""
    return _client_of(await tx.fetch_one(_locked, {"id": client_id, "user_id": actor.user.id}), actor)


async def lock_own(tx: Transaction, actor: Actor, repository_id: int) -> FoundClient | None:
    """The caller as a client, whom nobody else removes until the transaction ends; None: the caller is no client."""
    row = await tx.fetch_one(_own_locked, {"repository_id": repository_id, "user_id": actor.user.id})
    return _client_of(row, actor) if row else None


def _client_of(row: Row | None, actor: Actor) -> FoundClient:
    access = access_of(row, actor)
    assert row is not None, "access_of raises for no row"
    return FoundClient(access, _read(row, row["client_username"]))


async def find_invitation(
    reader: Reader, actor: Actor, project_id: str, *, email: str, username: str | None, login: str
) -> Invitation:
    """Who has the address or the name, and the logins that begin like `login`. Raises `NotFound` for the project."""
    params = {
        "project_id": project_id,
        "user_id": actor.user.id,
        "email": email,
        "login_key": None if username is None else key_of(username),
        # A suffix can replace the last characters of a login of full length.
        "pattern": login[: LOGIN_MAX_CHARS - 8] + "%",
    }
    row = await reader.fetch_one(_invitation, params)
    access = access_of(row, actor)
    assert row is not None, "access_of raises for no row"
    people = sorted((_person_of(each) for each in json.decode(row["people"])), key=lambda person: person.account.id)
    return Invitation(access, people, {login_key for (login_key,) in json.decode(row["taken"])})


_OF_ACCOUNT = len(Account.__struct_fields__)
_read_linked = row_reader(Client, _OF_ACCOUNT + 1)


def _person_of(row: Sequence[Any]) -> Person:
    account, has_place, client_id = Account(*row[:_OF_ACCOUNT]), *row[_OF_ACCOUNT : _OF_ACCOUNT + 2]
    return Person(account, bool(has_place), None if client_id is None else _read_linked(row, account.login))


async def insert_client(tx: Transaction, repository_id: int, client: Client) -> bool:
    """False: the user is a client there."""
    return await tx.execute(_insert, {"repository_id": repository_id, **values_of(client)}) > 0


async def delete_client(tx: Transaction, client_id: str) -> None:
    await tx.execute(_delete, {"id": client_id})
