"""Services that organizations and users offer: `/services`.

Members of an organization can read its services; its owners create, change and delete them. A user's own services are
visible only to that user.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core import json
from workhook.core.errors import NotFound, require_found
from workhook.core.ids import new_id
from workhook.core.records import Wire, to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import Rows
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor, account_of
from workhook.identity.tables import accounts, memberships
from workhook.identity.tokens.lookup import check_reach, check_whole_account, reach_params
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.record_rows import assigned, row_reader, selected, stored_names, values_of
from workhook.storage.statements import PerDialect
from workhook.work.kernel.access import Owner, choose_owner
from workhook.work.kernel.list_statements import (
    Columns,
    caller_accounts,
    length,
    select_first,
    select_first_per_group,
    with_flag,
)
from workhook.work.kernel.lists import BY_ID, cut_to_size, is_cut
from workhook.work.kernel.record_events import differences, publish_event
from workhook.work.kernel.schemas import Done, if_set
from workhook.work.money import issued
from workhook.work.money.services.schemas import (
    Service,
    ServiceAnswer,
    ServiceCreate,
    ServiceEdit,
    ServicePrice,
    ServiceQuery,
    prices_of_text,
    replaced_prices,
    service_prices,
    services,
)

_CONTENT = stored_names(Service, without=("id", "created_at", "updated_at"))  # set by requests, without prices
_WRITTEN = (*_CONTENT, "prices", "updated_at")
_role = (
    sa.select(memberships.c.role)
    .where(memberships.c.organization_id == services.c.account_id, memberships.c.user_id == bigint_param("user_id"))
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
_service_by_id = _existing.where(services.c.id == sa.bindparam("id"))
_locked = _service_by_id.with_for_update(of=services)
_behind_the_others = sa.select(sa.func.coalesce(sa.func.max(services.c.position) + 1, 0)).where(
    services.c.account_id == bigint_param("account_id"), services.c.deleted_at.is_(None)
)
_insert = (
    sa.insert(services)
    .values(assigned(("id", "account_id", *_WRITTEN, "created_at")))
    .values(position=sa.func.coalesce(bigint_param("position"), _behind_the_others.scalar_subquery()))
    .returning(services.c.position)
)
_update = sa.update(services).where(services.c.id == sa.bindparam("id")).values(assigned(_WRITTEN))
# The row is kept, hidden from all users, because its checkouts refer to it.
_delete = sa.update(services).where(services.c.id == sa.bindparam("id")).values(deleted_at=bigint_param("now"))
_insert_prices = insert_into(service_prices, "service_id", *stored_names(ServicePrice))
_read = row_reader(Service)

routes = Routes(WORK_API, "Services")


class ServicesAnswer(msgspec.Struct):
    services: list[Wire[Service]]
    success: bool = True


@routes.get("/services")
async def list_services(call: Call, query: ServiceQuery) -> Listed[ServicesAnswer]:
    """List the services of the caller's organizations."""
    found = await find_services(call.database, actor_of(call), query)
    shown, headers = lists.page(call, found, query, lambda service: (service.id,))
    return Listed(ServicesAnswer([to_response(each) for each in shown]), headers)


async def find_services(reader: Reader, actor: Actor, query: ServiceQuery) -> Rows[Service]:
    """Return the services by ID, one more than fits on the page. Raises `Invalid` for an invalid cursor."""
    key = lists.after(query, tuple[str])
    params: dict[str, object] = {"user_id": actor.user.id, "limit": query.limit + 1, **reach_params(actor)}
    filters = {"after": key[0]} if key else {}
    if not isinstance(query.organization, UnsetType):
        filters["login_key"] = key_of(query.organization)
    statement = _listed(actor.grants is not None, frozenset(filters), if_set(query.active))
    rows = await reader.fetch_all(statement, {**params, **filters})
    return Rows([_service_of(row, actor.user.id) for row in rows], truncated=is_cut(rows))


@routes.post("/services")
async def create_service(write: Write, create: ServiceCreate) -> ServiceAnswer:
    """Create a service.

    Only owners of the organization can call this.
    """
    owner = await choose_owner(write.tx, write.actor, create.organization)
    check_whole_account(write.actor, owner.account.id)
    owner.require_owner("change its services")
    prices = replaced_prices((), create.service_prices)
    values = {name: getattr(create, name) for name in _CONTENT}
    if last := isinstance(create.position, UnsetType):
        values["position"] = 0
    service = Service(
        **values,
        id=new_id("svc"),
        organization=owner.account.login,
        service_prices=prices,
        default_price=next(iter(prices), None),
        checkout_link=None,
        created_at=write.now,
        updated_at=write.now,
        owner=owner.account,
        role=owner.role,
    )
    columns = {**_columns_of(service), "account_id": owner.account.id}
    row = await write.tx.fetch_row(_insert, {**columns, "position": None} if last else columns)
    service = msgspec.structs.replace(service, position=row["position"])
    await _insert_new_prices(write.tx, service, ())
    await publish_event(write, service.owner, "service", "created", to_response(service))
    return ServiceAnswer(to_response(service))


@routes.get("/services/{id}")
async def get_service(call: Call, service_id: str) -> ServiceAnswer:
    """Get a service."""
    return ServiceAnswer(to_response(await find_service(call.database, actor_of(call), service_id)))


@routes.patch("/services/{id}", without=(409,))
async def edit_service(write: Write, service_id: str, edit: ServiceEdit) -> ServiceAnswer:
    """Update a service.

    `service_prices` replaces all prices. Existing checkouts keep their price.
    """
    service = await lock_service(write, service_id)
    prices = service.service_prices
    if not isinstance(edit.service_prices, UnsetType):
        prices = replaced_prices(prices, edit.service_prices)
    values = {name: value for name in _CONTENT if not isinstance(value := getattr(edit, name), UnsetType)}
    edited = msgspec.structs.replace(service, **values, service_prices=prices, default_price=next(iter(prices), None))
    if edited == service:
        return ServiceAnswer(to_response(service))
    edited = msgspec.structs.replace(edited, updated_at=max(write.now, service.updated_at + 1))
    write.tx.defer(_update, [_columns_of(edited)])
    await _insert_new_prices(write.tx, edited, service.service_prices)
    after = to_response(edited)
    changes = differences(to_response(service), after)
    await publish_event(write, service.owner, "service", "edited", after, changes=changes)
    return ServiceAnswer(after)


@routes.delete("/services/{id}")
async def delete_service(write: Write, service_id: str) -> Done:
    """Delete a service.

    Its checkouts continue. A service on issued invoices cannot be deleted (409 `has_invoices`); set `active` to false
    instead.
    """
    service = await lock_service(write, service_id)
    await issued.require_service_unbilled(write.tx, service.id)
    write.tx.defer(_delete, [{"id": service.id, "now": write.now}])
    await publish_event(write, service.owner, "service", "deleted", to_response(service))
    return Done()


async def find_service(reader: Reader, actor: Actor, service_id: str) -> Service:
    """Find a service, or raise `NotFound`."""
    service = await _find(reader, _service_by_id, service_id, actor)
    check_reach(actor, service.owner.id)
    return service


async def lock_service(write: Write, service_id: str) -> Service:
    """Lock a service for a change.

    Raises `NotFound`, `PreconditionFailed`, or `Forbidden`, also for a token limited to selected repositories.
    """
    service = await _find(write.tx, _locked, service_id, write.actor)
    check_whole_account(write.actor, service.owner.id)
    Owner(service.owner, service.role).require_owner("change its services")
    write.require_match(ServiceAnswer(to_response(service)))
    return service


async def _find(reader: Reader, statement: sa.Select[Any], service_id: str, actor: Actor) -> Service:
    """Find a service. Raises `NotFound` if it does not exist or the caller does not belong to its account."""
    row = require_found(await reader.fetch_one(statement, {"id": service_id, "user_id": actor.user.id}))
    hidden = row["role"] is None and row["account_id"] != actor.user.id
    actor.request.set_subject(row["account_id"], hidden=hidden)
    if hidden:
        raise NotFound()
    return _service_of(row, actor.user.id)


@cache
def _listed(confined: bool, filters: frozenset[str], active: bool | None) -> PerDialect:
    """Build the statement that lists services. `filters` names the set filters: `after`, `login_key`.

    In the index, each account has one range of active and one of inactive services.
    """
    place = caller_accounts(within="reach_accounts" if confined else None)
    each = with_flag(place, "active")
    if "login_key" in filters:
        named = accounts.alias("named")
        account = sa.select(named.c.id).where(named.c.login_key == sa.bindparam("login_key")).scalar_subquery()
        each = sa.select(each).where(each.c.account_id == account).subquery("of_one")

    def fits(row: sa.FromClause) -> Columns:
        conditions = [row.c.account_id == each.c.account_id, row.c.active == each.c.active, row.c.deleted_at.is_(None)]
        if active is not None:
            conditions.append(each.c.active if active else sa.not_(each.c.active))
        return [*conditions, row.c.id > sa.bindparam("after")] if "after" in filters else conditions

    def by_id(found: sa.FromClause) -> Columns:
        return [found.c.id]

    def make(dialect: str) -> sa.Select[Any]:
        first = select_first(
            [select_first_per_group(dialect, services, "id", each, fits, by_id, ["id"])], ["id"], by_id
        )
        weight = length(services.c.description, services.c.prices).label("weight")
        page = cut_to_size(sa.select(services.c.id, weight).where(services.c.id.in_(first)), BY_ID, ["id"])
        return _existing.join(page, page.c.id == services.c.id).add_columns(page.c.page_found).order_by(services.c.id)

    return PerDialect.made_by(make)


async def _insert_new_prices(tx: Transaction, service: Service, old: Sequence[ServicePrice]) -> None:
    rows = [{**values_of(each), "service_id": service.id} for each in service.service_prices if each not in old]
    await tx.execute_many(_insert_prices, rows)


def _columns_of(service: Service) -> dict[str, object]:
    prices = json.encode_text([list(msgspec.structs.astuple(each)) for each in service.service_prices])
    return {**values_of(service), "prices": prices}


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
