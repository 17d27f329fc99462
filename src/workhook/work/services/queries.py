"""The SQL of services. Reads are confined to the accounts that the caller is in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core import json
from workhook.http.lists import Found
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor, account_of
from workhook.identity.tables import accounts, memberships
from workhook.identity.tokens.lookup import check_reach, check_whole_account, reach_params
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.storage.statements import PerDialect
from workhook.work.pages import bounded, fetch, length
from workhook.work.places import Columns, first_of, first_of_each, places, with_flag, written
from workhook.work.services.rules import ServicePrice
from workhook.work.services.schemas import Service, ServiceQuery
from workhook.work.services.tables import service_prices, services

CONTENT = stored_names(Service, without=("id", "created_at", "updated_at"))
"""What an owner says of a service, but for its prices."""

_WRITTEN = (*CONTENT, "prices", "updated_at")
_read = row_reader(Service)


def _prices_text(prices: Sequence[ServicePrice]) -> str:
    return json.encode_text([list(msgspec.structs.astuple(each)) for each in prices])


def prices_of_text(text: str) -> tuple[ServicePrice, ...]:
    return tuple(ServicePrice(*columns) for columns in json.decode(text))


_role = (
    sa.select(memberships.c.role)
    .where(memberships.c.organization_id == services.c.account_id, memberships.c.user_id == big("user_id"))
    .scalar_subquery()
    .label("role")
)
_existing = (
    sa.select(
        *selected(Service, services),
        services.c.account_id,
        services.c.prices,
        _role,
        *(accounts.c[name].label("owner_" + name) for name in Account.__struct_fields__),
    )
    .join_from(services, accounts, accounts.c.id == services.c.account_id)
    .where(services.c.deleted_at.is_(None))
)
_one = _existing.where(services.c.id == sa.bindparam("id"))
_locked = _one.with_for_update(of=services)

_behind_the_others = sa.select(sa.func.coalesce(sa.func.max(services.c.position) + 1, 0)).where(
    services.c.account_id == big("account_id"), services.c.deleted_at.is_(None)
)
_insert = (
    sa.insert(services)
    .values(assigned(("id", "account_id", *_WRITTEN, "created_at")))
    .values(position=sa.func.coalesce(big("position"), _behind_the_others.scalar_subquery()))
    .returning(services.c.position)
)
_update = sa.update(services).where(services.c.id == sa.bindparam("id")).values(assigned(_WRITTEN))
_delete = sa.update(services).where(services.c.id == sa.bindparam("id")).values(deleted_at=big("now"))
_insert_prices = insert_into(service_prices, "service_id", *stored_names(ServicePrice))


async def find_service(reader: Reader, service_id: str, actor: Actor) -> Service | None:
    """Raises `NotFound` outside the token's reach, and `Forbidden` where its permissions are not enough."""
    service = _seen(await reader.fetch_one(_one, {"id": service_id, "user_id": actor.user.id}), actor)
    if service is not None:
        check_reach(actor, service.owner.id)
    return service


def _seen(row: Row | None, actor: Actor) -> Service | None:
    """None for one of an account that the caller is not in: it is not told apart from one that is not there."""
    if row is None:
        return None
    hidden = row["role"] is None and row["account_id"] != actor.user.id
    actor.request.touches(row["account_id"], hidden=hidden)
    return None if hidden else _service_of(row, actor.user.id)


async def lock_service(tx: Transaction, service_id: str, actor: Actor) -> Service | None:
    """`find_service`; until the transaction ends nobody else changes or deletes it. Of a token of chosen repositories
    it raises `Forbidden`."""
    service = _seen(await tx.fetch_one(_locked, {"id": service_id, "user_id": actor.user.id}), actor)
    if service is not None:
        check_whole_account(actor, service.owner.id)
    return service


async def list_services(reader: Reader, actor: Actor, query: ServiceQuery, *, after: str | None) -> Found[Service]:
    """What the caller sees and the filters let through, by id behind `after`; one more than the page shows."""
    params: dict[str, object] = {"user_id": actor.user.id, "limit": query.limit + 1, **reach_params(actor)}
    given = {"after": after} if after is not None else {}
    if not isinstance(query.organization, UnsetType):
        given["login_key"] = key_of(query.organization)
    active = None if isinstance(query.active, UnsetType) else query.active
    statement = _listed(actor.grants is not None, frozenset(given), active)
    return await fetch(reader, statement, {**params, **given}, lambda row: _service_of(row, actor.user.id))


@cache
def _listed(confined: bool, given: frozenset[str], active: bool | None) -> PerDialect:
    """`given`: `after`, `login_key`. Each place of the caller has a stretch of what is active, and one of the rest."""
    place = places(within="reach_accounts" if confined else None)
    each = with_flag(place, "active")
    if "login_key" in given:
        named = accounts.alias("named")
        account = sa.select(named.c.id).where(named.c.login_key == sa.bindparam("login_key")).scalar_subquery()
        each = sa.select(each).where(each.c.account_id == account).subquery("of_one")

    def fits(row: sa.FromClause) -> Columns:
        here = [row.c.account_id == each.c.account_id, row.c.active == each.c.active, row.c.deleted_at.is_(None)]
        if active is not None:
            here.append(each.c.active if active else sa.not_(each.c.active))
        return [*here, row.c.id > sa.bindparam("after")] if "after" in given else here

    def by_id(found: sa.FromClause) -> Columns:
        return [found.c.id]

    def make(dialect: str) -> sa.Select[Any]:
        first = first_of([first_of_each(dialect, services, "id", each, fits, by_id, ["id"])], ["id"], by_id)
        some = _existing.where(services.c.id.in_(first)).order_by(services.c.id)
        return bounded(_existing, some, services.c.id, length(services.c.description, services.c.prices))

    return written(make)


async def insert_service(tx: Transaction, service: Service, *, last: bool) -> Service:
    """The service with its position: behind the others if it is `last`."""
    values = {**_values(service), "account_id": service.owner.id}
    row = await tx.fetch_one(_insert, {**values, "position": None} if last else values)
    assert row is not None
    return msgspec.structs.replace(service, position=row["position"])


def _values(service: Service) -> dict[str, object]:
    return {**values_of(service), "prices": _prices_text(service.service_prices)}


async def insert_prices(tx: Transaction, service_id: str, prices: Sequence[ServicePrice]) -> None:
    rows = [{**values_of(each), "service_id": service_id} for each in prices]
    await tx.execute_many(_insert_prices, rows)


async def update_service(tx: Transaction, service: Service) -> None:
    tx.defer(_update, [_values(service)])


async def delete_service(tx: Transaction, service_id: str, now: int) -> None:
    """Its row stays, out of everybody's sight: checkouts go on to use it."""
    tx.defer(_delete, [{"id": service_id, "now": now}])


def _service_of(row: Row, user_id: int) -> Service:
    owner, prices = account_of(row, "owner_"), prices_of_text(row["prices"])
    return _read(
        row,
        organization=owner.login,
        service_prices=prices,
        default_price=next(iter(prices), None),
        checkout_link=None,
        owner=owner,
        role="owner" if owner.id == user_id else row["role"],
    )
