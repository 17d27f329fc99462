"""What can be done with services: authorise, decide, write, append the event.

Who is in an organization reads its services; its owners create, change and delete them. A user's own are the user's
alone.
"""

from __future__ import annotations

import msgspec
from msgspec import UnsetType

from workhook.core.errors import NotFound
from workhook.core.ids import new_id
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.identity.tokens.lookup import check_whole_account
from workhook.storage import Reader, Transaction
from workhook.work.invoices import issued
from workhook.work.owners import Owner, choose_owner
from workhook.work.record_events import differences, publish_account_event
from workhook.work.services import queries
from workhook.work.services.rules import ServicePrice, replaced
from workhook.work.services.schemas import Service, ServiceCreate, ServiceEdit, with_prices

_NOUN = "service"


async def get_service(reader: Reader, actor: Actor, service_id: str) -> Service:
    """Raises `NotFound`."""
    return _found(await queries.find_service(reader, service_id, actor))


async def lock_service(tx: Transaction, actor: Actor, service_id: str) -> Service:
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
    last = isinstance(create.position, UnsetType)
    said = {name: getattr(create, name) for name in queries.CONTENT} | ({"position": 0} if last else {})
    blank = Service(
        **said,
        id=new_id("svc"),
        organization=owner.account.login,
        service_prices=(),
        default_price=None,
        checkout_link=None,
        created_at=write.now,
        updated_at=write.now,
        owner=owner.account,
        role=owner.role,
    )
    service = await queries.insert_service(write.tx, with_prices(blank, prices), last=last)
    await queries.insert_prices(write.tx, service.id, prices)
    await publish_account_event(write, service.owner, _NOUN, "created", to_response(service))
    return service


async def edit_service(write: Write, service: Service, edit: ServiceEdit) -> Service:
    """The service after the change. `service` is what `lock_service` gave.

    An edit that changes nothing writes nothing and has no event.
    """
    said = {name: value for name in queries.CONTENT if not isinstance(value := getattr(edit, name), UnsetType)}
    edited = with_prices(msgspec.structs.replace(service, **said), _prices_after(service, edit))
    if edited == service:
        return service
    edited = msgspec.structs.replace(edited, updated_at=max(write.now, service.updated_at + 1))
    await queries.update_service(write.tx, edited)
    had = service.service_prices
    await queries.insert_prices(write.tx, service.id, [each for each in edited.service_prices if each not in had])
    after = to_response(edited)
    changes = differences(to_response(service), after)
    await publish_account_event(write, service.owner, _NOUN, "edited", after, changes=changes)
    return edited


async def delete_service(write: Write, service: Service) -> None:
    """Checkouts of it go on. `service` is what `lock_service` gave. Raises `Conflict` for one on issued invoices."""
    await issued.require_none_of_service(write.tx, service.id)
    await queries.delete_service(write.tx, service.id, write.now)
    await publish_account_event(write, service.owner, _NOUN, "deleted", to_response(service))


def _found(service: Service | None) -> Service:
    if service is None:
        raise NotFound()
    return service


def _prices_after(service: Service, edit: ServiceEdit) -> tuple[ServicePrice, ...]:
    if isinstance(edit.service_prices, UnsetType):
        return service.service_prices
    return replaced(service.service_prices, [each.offer() for each in edit.service_prices])
