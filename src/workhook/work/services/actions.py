"""What can be done with services: authorise, decide, write, append the event.

Who is in an organization reads its services; its owners create, change and delete them. A user's own are the user's
alone.
"""

from __future__ import annotations

import msgspec
from msgspec import UnsetType

from workhook.core.errors import NotFound
from workhook.core.ids import new_id
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.identity.tokens.reach import check_whole_account
from workhook.storage import Reader, Transaction
from workhook.work.announce import announce_in_account, differences
from workhook.work.invoices import issued
from workhook.work.owners import Owner, choose_owner
from workhook.work.services import queries
from workhook.work.services.rules import Price, replaced
from workhook.work.services.schemas import Content, Service, ServiceCreate, ServiceEdit, service_shape

_NOUN = "service"


async def get_service(reader: Reader, actor: Actor, service_id: str) -> Service:
    """Raises `NotFound`."""
    return _found(await queries.find_service(reader, service_id, actor))


async def take_service(tx: Transaction, actor: Actor, service_id: str) -> Service:
    """For a change: nobody else changes it until the transaction ends. Raises `NotFound`, `Forbidden`."""
    service = _found(await queries.lock_service(tx, service_id, actor))
    Owner(service.owner, service.role).require_owner("change its services")
    return service


async def create_service(write: Write, create: ServiceCreate) -> Service:
    """Raises `Invalid`, `Forbidden`."""
    owner = await choose_owner(write.tx, write.actor, create.organization)
    check_whole_account(write.actor, owner.account.id)
    owner.require_owner("change its services")
    prices = replaced((), [each.offer() for each in create.service_prices])
    service_id, position = new_id("svc"), None if isinstance(create.position, UnsetType) else create.position
    values = {name: getattr(create, name) for name in Content.__struct_fields__} | {"position": position}
    written = {**values, "prices": queries.prices_text(prices), "created_at": write.now, "updated_at": write.now}
    values["position"] = await queries.insert_service(write.tx, service_id, owner.account.id, written)
    await queries.insert_prices(write.tx, service_id, prices)
    service = Service(service_id, owner.account, owner.role, Content(**values), prices, write.now, write.now)
    await announce_in_account(write, service.owner, _NOUN, "created", service_shape(service))
    return service


async def edit_service(write: Write, service: Service, edit: ServiceEdit) -> Service:
    """The service after the change. `service` is what `take_service` gave.

    An edit that changes nothing writes nothing and has no event.
    """
    given = {name: getattr(edit, name) for name in Content.__struct_fields__}
    content = msgspec.structs.replace(
        service.content, **{name: value for name, value in given.items() if not isinstance(value, UnsetType)}
    )
    prices = _prices_after(service, edit)
    if content == service.content and prices == service.prices:
        return service
    edited = msgspec.structs.replace(
        service, content=content, prices=prices, updated_at=max(write.now, service.updated_at + 1)
    )
    values = {**msgspec.structs.asdict(content), "prices": queries.prices_text(prices)}
    await queries.update_service(write.tx, service.id, {**values, "updated_at": edited.updated_at})
    await queries.insert_prices(write.tx, service.id, [each for each in prices if each not in service.prices])
    after = service_shape(edited)
    changes = differences(service_shape(service), after)
    await announce_in_account(write, service.owner, _NOUN, "edited", after, changes=changes)
    return edited


async def delete_service(write: Write, service: Service) -> None:
    """Checkouts of it go on. `service` is what `take_service` gave. Raises `Conflict` for one on issued invoices."""
    await issued.require_none_of_service(write.tx, service.id)
    await queries.delete_service(write.tx, service.id, write.now)
    await announce_in_account(write, service.owner, _NOUN, "deleted", service_shape(service))


def _found(service: Service | None) -> Service:
    if service is None:
        raise NotFound()
    return service


def _prices_after(service: Service, edit: ServiceEdit) -> tuple[Price, ...]:
    if isinstance(edit.service_prices, UnsetType):
        return service.prices
    return replaced(service.prices, [each.offer() for each in edit.service_prices])
