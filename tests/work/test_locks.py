"""Lock ordering: concurrent changes are serialized without deadlocks or errors from the database.

The order is documented in `docs/contributors/decisions/0013-lock-order.md`. SQLite has a single writer, so there these
tests only check that the changes finish.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest
from msgspec.structs import replace

from tests.harness.concurrent_transactions import Beside
from tests.harness.world import World, make_world, must
from workhook.core import json
from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, NotFound
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.queries import find_account
from workhook.identity.schemas import Actor
from workhook.storage import Transaction
from workhook.work.board import columns
from workhook.work.board.columns import ColumnCreate
from workhook.work.board.projects import actions as projects_actions
from workhook.work.board.projects.schemas import ProjectCreate, ProjectEdit
from workhook.work.board.tasks import actions as tasks
from workhook.work.board.tasks.inputs import TaskCreate
from workhook.work.kernel.access import find_access
from workhook.work.money.checkouts import actions as checkouts
from workhook.work.money.checkouts.schemas import ServiceCheckoutCreate
from workhook.work.money.invoices import actions, queries
from workhook.work.money.invoices.drafts import OfferedTime
from workhook.work.money.invoices.queries import lock_times
from workhook.work.money.invoices.schemas import InvoiceCreate, InvoiceEdit, InvoiceItemInput
from workhook.work.money.invoices.time_lines import InvoicedTime
from workhook.work.money.services import actions as services_actions
from workhook.work.money.services.schemas import ServiceCreate, ServicePriceParameters
from workhook.work.time.timesheets import actions as timesheet_actions
from workhook.work.time.timesheets.schemas import TimesheetCreate

BASE = "http://work.example.com"


@pytest.fixture
async def world(services: Services) -> World:
    return await make_world(services)


@pytest.fixture
async def actor(services: Services, world: World) -> Actor:
    user = must(await find_account(services.database, world.owner))
    return Actor(user, token_id=0, token_kind="classic", scopes=frozenset())


async def _choose(services: Services, world: World, actor: Actor, *, granted: int | None = 1000) -> str:
    """Return the ID of a pending checkout that creates an invoice and credits when completed."""
    price = ServicePriceParameters(amount=Decimal(1200), currency="EUR", interval="month", credits=granted)
    offer = ServiceCreate(title="Design retainer", service_prices=[price])
    now = now_ms()
    async with services.database.transaction() as tx:
        write = Write(tx, actor, BASE, moment=now)
        service_id = _id_in(await services_actions.create_service(write, offer))
        create = ServiceCheckoutCreate(service_id=service_id)
        return _id_in(await checkouts.create_service_checkout(write, world.project_id, create))


def _id_in(answer: object) -> str:
    """Return the ID of the record in a response."""
    record, *_ = json.decode(json.encode(answer)).values()
    found: str = record["id"]
    return found


@pytest.mark.parametrize("granted", [None, 1000])
@pytest.mark.parametrize("deletes", [True, False], ids=["deleted", "renamed"])
async def test_completing_a_checkout_during_a_change_of_its_project(
    services: Services, world: World, actor: Actor, beside: Beside, deletes: bool, granted: int | None
) -> None:
    chosen = await _choose(services, world, actor, granted=granted)

    async def complete(tx: Transaction) -> object:
        return await checkouts.complete_service_checkout(Write(tx, actor, BASE, moment=now_ms()), chosen)

    async with services.database.transaction() as tx:
        if deletes:  # like a real project deletion, which stops the subscriptions
            await checkouts.lock_checkouts(tx, world.project_id)
        await projects_actions.lock_project(Write(tx, actor, BASE), world.project_id)
        completing = await beside.begin(complete)
        if deletes:
            await projects_actions.delete_project(Write(tx, actor, BASE), world.project_id)
        else:
            await projects_actions.edit_project(Write(tx, actor, BASE), world.project_id, ProjectEdit(name="another"))
    if deletes:
        with pytest.raises(NotFound):
            await completing
    else:
        await completing


async def _column(tx: Transaction, actor: Actor, project_id: str) -> str:
    return (await columns.add_column(Write(tx, actor, BASE), project_id, ColumnCreate(title="To do"))).id


async def test_a_timer_starting_while_its_owners_project_is_renamed_does_not_deadlock(
    services: Services, actor: Actor, beside: Beside
) -> None:
    """Bulk changes do the same: they lock the cards first, then the timer's user, who owns the project name."""
    async with services.database.transaction() as tx:
        own = ProjectCreate(title="Mine", organization=actor.user.login)
        mine = await projects_actions.add_project(Write(tx, actor, BASE), own)
        project_id = mine.repository.project_id
        column_id = await _column(tx, actor, project_id)

    async def rename(tx: Transaction) -> object:
        return await projects_actions.edit_project(Write(tx, actor, BASE), project_id, ProjectEdit(name="another"))

    async with services.database.transaction() as tx:
        task = await tasks.create_task(Write(tx, actor, BASE), column_id, TaskCreate(title="Draw"))
        renaming = await beside.begin(rename)
        timer = TimesheetCreate(task_id=task.id)
        await timesheet_actions.create_timesheet(Write(tx, actor, BASE, moment=now_ms()), project_id, timer)
    await renaming


@pytest.mark.parametrize("how", ["void", "delete"])
async def test_releasing_invoiced_time_while_another_invoice_claims_it_does_not_deadlock(
    services: Services, world: World, actor: Actor, beside: Beside, how: str
) -> None:
    hour = TimesheetCreate(task_id="", duration=3_600_000, billable=True, billable_rate=Decimal(80))
    async with services.database.transaction() as tx:
        column_id = await _column(tx, actor, world.project_id)
        task = await tasks.create_task(Write(tx, actor, BASE), column_id, TaskCreate(title="Draw"))
        hour = replace(hour, task_id=task.id)
        made = [
            await timesheet_actions.create_timesheet(Write(tx, actor, BASE, moment=now_ms()), world.project_id, hour)
            for _ in range(2)
        ]
        first, second = sorted(_id_in(each.body) for each in made)
        # Claimed in this order, the database finds the second entry before the first.
        drawn = InvoiceCreate(timesheet_ids=[second])
        invoice_id = _id_in(await actions.create_invoice(Write(tx, actor, BASE), world.project_id, drawn))
        edit = InvoiceEdit(timesheet_ids=[first, second])
        await actions.edit_invoice(Write(tx, actor, BASE), invoice_id, edit)
        if how == "void":
            await actions.send_invoice(Write(tx, actor, BASE), invoice_id)

    async def free(tx: Transaction) -> object:
        end = actions.void_invoice if how == "void" else actions.delete_invoice
        return await end(Write(tx, actor, BASE), invoice_id)

    async with services.database.transaction() as tx:
        repository_id = (await find_access(tx, actor, world.project_id)).repository.id
        await lock_times(tx, repository_id, [first])
        freeing = await beside.begin(free)
        await lock_times(tx, repository_id, [first, second])
    await freeing


async def test_time_is_locked_once_when_it_is_invoiced(
    services: Services, world: World, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks: list[Sequence[str]] = []

    async def lock(tx: Transaction, repository_id: int, ids: Sequence[str], invoice_id: str) -> list[InvoicedTime]:
        locks.append(ids)
        return await lock_times(tx, repository_id, ids, invoice_id)

    async def find(*_: object) -> list[InvoicedTime]:
        raise AssertionError("time is read without a lock")

    monkeypatch.setattr(queries, "lock_times", lock)
    monkeypatch.setattr(queries, "find_times", find)
    async with services.database.transaction() as tx:
        write = Write(tx, actor, BASE, moment=now_ms())
        task = await tasks.create_task(write, await _column(tx, actor, world.project_id), TaskCreate(title="Draw"))
        notes = "w" * 20_000
        hour = TimesheetCreate(task_id=task.id, duration=1, billable=True, billable_rate=Decimal(80), notes=notes)
        ids = [_id_in((await timesheet_actions.create_timesheet(write, world.project_id, hour)).body) for _ in range(4)]
        offer = OfferedTime(ids)
        much = InvoiceItemInput(description="w" * 4000, qty=Decimal(1), unit_price=Decimal(1))
        create = InvoiceCreate(invoice_items=[much] * 24, bill_to="w" * 3200)
        draft = await actions.draft_invoice(write, world.project_id, create, offer)
        assert (offer.taken, locks) == (2, [ids])
        await actions.change_draft(write, draft.id, InvoiceEdit(invoice_items=[]), OfferedTime(ids))
        assert locks == [ids, ids]


async def _drafted(services: Services, world: World, actor: Actor) -> str:
    async with services.database.transaction() as tx:
        item = InvoiceItemInput(description="Work", qty=Decimal(1), unit_price=Decimal(100))
        create = InvoiceCreate(invoice_items=[item])
        return _id_in(await actions.create_invoice(Write(tx, actor, BASE), world.project_id, create))


async def test_sending_an_invoice_of_a_project_deleted_concurrently(
    services: Services, world: World, actor: Actor, beside: Beside
) -> None:
    """The deletion comes first, so there is no invoice left to send."""
    draft = await _drafted(services, world, actor)

    async def send(tx: Transaction) -> object:
        return await actions.send_invoice(Write(tx, actor, BASE), draft)

    async with services.database.transaction() as tx:
        await projects_actions.lock_project(Write(tx, actor, BASE), world.project_id)
        sending = await beside.begin(send)
        await projects_actions.delete_project(Write(tx, actor, BASE), world.project_id)
    with pytest.raises(NotFound):
        await sending


async def test_deleting_a_project_whose_invoice_is_sent_concurrently(
    services: Services, world: World, actor: Actor, beside: Beside
) -> None:
    """The invoice is sent first, so the project cannot be deleted."""
    draft = await _drafted(services, world, actor)

    async def delete(tx: Transaction) -> None:
        await projects_actions.delete_project(Write(tx, actor, BASE), world.project_id)

    async with services.database.transaction() as tx:
        await actions.send_invoice(Write(tx, actor, BASE), draft)
        deleting = await beside.begin(delete)
    with pytest.raises(Conflict) as refused:
        await deleting
    assert refused.value.code == "has_invoices"


@pytest.mark.parametrize("granted", [None, 1000])
async def test_deleting_a_project_while_a_subscription_period_starts(
    services: Services, world: World, actor: Actor, beside: Beside, granted: int | None
) -> None:
    chosen = await _choose(services, world, actor, granted=granted)

    async def delete(tx: Transaction) -> None:
        await projects_actions.delete_project(Write(tx, actor, BASE), world.project_id)

    async with services.database.transaction() as tx:
        await checkouts.complete_service_checkout(Write(tx, actor, BASE, moment=now_ms()), chosen)
        deleting = await beside.begin(delete)
    with pytest.raises(Conflict) as refused:
        await deleting
    assert refused.value.code == "has_invoices"
