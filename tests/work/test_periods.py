"""Periods of subscriptions: each is billed once, whoever is at it and however long nobody was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import WAIT_S
from tests.work.shop import MONTHLY, Shop, millis, names
from tests.work.studio import Happened, JsonObject, Studio
from workhook.core.clock import now_ms, parse_rfc3339
from workhook.core.errors import Conflict, Unavailable
from workhook.http.calls import Services
from workhook.storage.metadata import big
from workhook.storage.statements import PerDialect
from workhook.work.money.checkouts import billing
from workhook.work.money.checkouts.schemas import service_checkouts

WEEKLY = {**MONTHLY, "amount": 100, "interval": "week"}
PERIOD = ["invoice created", "task_credit granted"]


def _billed(events: list[Happened]) -> list[str]:
    """The first and the last day of the items of the invoices."""
    invoices = [each.record for each in events if each.name == "invoice"]
    items = [item for each in invoices for item in each["recurring_invoice_items"]]
    return [f"{each['service_from']} to {each['service_to']}" for each in items]


def _path(checkout: JsonObject, step: str) -> str:
    return f"/service_checkouts/{checkout['id']}/{step}"


# --- the calendar ----------------------------------------------------------------------------------------------------


def test_a_period_that_ends_brings_the_next_one(studio: Studio, shop: Shop) -> None:
    checkout = shop.buy("2031-01-31T10:00", qty=2)
    assert checkout["period_end"] == "2031-02-28T10:00:00.000Z"
    assert shop.schedule("2031-02-28T09:59") == 0
    assert studio.happened() == []
    assert shop.schedule("2031-02-28T10:00") == 1
    events = studio.happened()
    assert names(events) == PERIOD
    invoice, credit = (each.record for each in events)
    assert all(each.payload["sender"] is None for each in events)
    assert (invoice["status"], invoice["amount"], invoice["user"]) == ("sent", 2400, None)
    assert invoice["invoice_number"] == "INV-00002"
    assert invoice["issued"] == "2031-02-28T10:00:00.000Z"
    assert _billed(events) == ["2031-02-28 to 2031-03-30"]
    assert (credit["amount"], credit["user"], credit["expires_at"]) == (20, None, None)
    assert shop.balance() == 40
    renewed = shop.checkout(checkout)
    assert (renewed["period_end"], renewed["status"]) == ("2031-03-31T10:00:00.000Z", "active")
    assert renewed["updated_at"] > checkout["updated_at"]
    assert shop.schedule("2031-02-28T10:00") == 0
    assert studio.happened() == []


def test_each_period_of_a_long_downtime_is_billed(studio: Studio, shop: Shop) -> None:
    checkout = shop.buy("2031-01-31T10:00")
    assert shop.schedule("2031-07-15T00:00") == 5
    events = studio.happened()
    assert names(events) == PERIOD * 5
    assert _billed(events) == [
        "2031-02-28 to 2031-03-30",
        "2031-03-31 to 2031-04-29",
        "2031-04-30 to 2031-05-30",
        "2031-05-31 to 2031-06-29",
        "2031-06-30 to 2031-07-30",
    ]
    assert [number for number, *_ in shop.periods(checkout)] == [1, 2, 3, 4, 5, 6]
    assert shop.balance() == 60
    assert shop.schedule("2031-07-15T00:00") == 0


def test_weeks(studio: Studio, shop: Shop) -> None:
    shop.buy("2031-02-24T00:00", shop.service(WEEKLY))
    assert shop.schedule("2031-03-10T00:00") == 2
    assert _billed(studio.happened()) == ["2031-03-03 to 2031-03-09", "2031-03-10 to 2031-03-16"]


def test_a_price_that_went_goes_on_for_who_has_it(studio: Studio, shop: Shop) -> None:
    service = shop.service()
    shop.buy("2031-01-01T00:00", service)
    prices = [{**MONTHLY, "amount": 9999, "credits": None}]
    studio.owner.patch(f"/services/{service['id']}", json={"service_prices": prices, "active": False})
    studio.happened()
    assert shop.schedule("2031-02-01T00:00") == 1
    invoice, credit = (each.record for each in studio.happened())
    assert (invoice["amount"], credit["amount"]) == (1200, 10)


def test_a_service_that_was_deleted_goes_on_for_who_has_it(studio: Studio, shop: Shop) -> None:
    """It costs nothing: one with invoices cannot be deleted."""
    service = shop.service({**MONTHLY, "amount": 0})
    shop.buy("2031-01-01T00:00", service)
    studio.owner.delete(f"/services/{service['id']}")
    studio.happened()
    assert shop.schedule("2031-02-01T00:00") == 1
    assert [each.record["amount"] for each in studio.happened()] == [10]


# --- pauses and ends -------------------------------------------------------------------------------------------------


def test_a_pause_in_a_period_moves_its_end_by_exactly_its_time(studio: Studio, shop: Shop) -> None:
    checkout = shop.buy("2031-01-10T08:00")
    shop.at("2031-01-20T20:00", "pause", checkout)
    assert shop.checkout(checkout)["days_left"] == 21  # 20 and a half
    assert shop.schedule("2031-05-01T00:00") == 0
    shop.at("2031-05-01T06:30", "unpause", checkout)
    assert names(studio.happened()) == ["service_checkout paused", "service_checkout unpaused"]
    assert shop.checkout(checkout)["period_end"] == "2031-05-21T18:30:00.000Z"  # 100 days and 10:30 later
    assert shop.schedule("2031-05-21T18:29") == 0
    assert shop.schedule("2031-05-21T18:30") == 1
    assert shop.schedule("2031-06-21T18:30") == 1
    assert _billed(studio.happened()) == ["2031-05-21 to 2031-06-20", "2031-06-21 to 2031-07-20"]


def test_two_pauses_add_up(shop: Shop) -> None:
    checkout = shop.buy("2031-03-01T00:00")
    for start, end in (("2031-03-05T00:00", "2031-03-06T01:00"), ("2031-03-10T00:00", "2031-03-12T00:30")):
        shop.at(start, "pause", checkout)
        shop.at(end, "unpause", checkout)
    assert shop.checkout(checkout)["period_end"] == "2031-04-04T01:30:00.000Z"


@pytest.mark.parametrize("step", ["pause", "cancel", "delete"])
def test_what_was_due_before_a_change_comes_before_it(studio: Studio, shop: Shop, step: str) -> None:
    """The scheduler was late: the change finds what it would have found otherwise."""
    checkout = shop.buy("2031-01-31T10:00")
    shop.at("2031-03-31T10:00", step, checkout)
    events = studio.happened()
    actions = {"pause": "paused", "cancel": "canceled", "delete": "deleted"}
    assert names(events) == [*PERIOD * 2, f"service_checkout {actions[step]}"]
    assert [each.payload["sender"] is None for each in events] == [True] * 4 + [False]
    assert events[-1].record["period_end"] == "2031-04-30T10:00:00.000Z"
    assert len(shop.periods(checkout)) == 3
    assert shop.schedule("2032-01-01T00:00") == 0


def test_a_refused_change_leaves_what_is_due_to_the_scheduler(studio: Studio, shop: Shop) -> None:
    checkout = shop.buy("2031-01-31T10:00", shop.service(disable_pause=True))
    with pytest.raises(Conflict):
        shop.at("2031-03-01T00:00", "pause", checkout)
    assert studio.happened() == []
    assert shop.checkout(checkout) == checkout
    assert shop.schedule("2031-03-01T00:00") == 1


def test_what_ends_with_its_period_has_no_further_one(studio: Studio, shop: Shop) -> None:
    checkout = shop.buy("2031-01-31T10:00", shop.service(cancel_at_period_end=True))
    shop.at("2031-03-01T00:00", "cancel", checkout)
    *billed, canceled = studio.happened()
    assert names(billed) == PERIOD  # that of March, which had begun
    assert (canceled.record["status"], canceled.record["cancel_date"]) == ("active", "2031-03-31T10:00:00.000Z")
    assert shop.schedule("2031-12-01T00:00") == 0
    assert studio.happened() == []


def test_what_is_deleted_or_canceled_has_no_further_period(studio: Studio, shop: Shop) -> None:
    for step in ("delete", "cancel"):
        shop.at("2031-01-05T00:00", step, shop.buy("2031-01-01T00:00"))
    studio.happened()
    assert shop.schedule("2031-12-01T00:00") == 0
    assert studio.happened() == []


def test_a_deleted_project_has_no_further_period(studio: Studio, shop: Shop) -> None:
    """It costs nothing: a project with issued invoices cannot be deleted."""
    shop.buy("2031-01-01T00:00", shop.service({**MONTHLY, "amount": 0}))
    assert shop.schedule("2031-02-01T00:00") == 1
    studio.owner.delete(studio.project)
    assert shop.schedule("2031-12-01T00:00") == 0


def test_an_archived_project_has_no_further_period(studio: Studio, shop: Shop) -> None:
    shop.buy("2031-01-01T00:00")
    studio.owner.patch(studio.project, json={"archive": True})
    studio.happened()
    assert shop.schedule("2031-02-01T00:00") == 0
    assert studio.happened() == []


# --- several at once, and what fails ---------------------------------------------------------------------------------


def test_schedulers_at_once_bill_each_period_once(studio: Studio, shop: Shop) -> None:
    service = shop.service()
    bought = [shop.buy("2031-01-31T10:00", service) for _ in range(8)]
    assert sum(shop.schedule_at_once("2031-04-15T00:00", 4)) == 8 * 2
    events = studio.happened()
    assert len(_billed(events)) == 8 * 2
    numbers = [each.record["invoice_number"] for each in events if each.name == "invoice"]
    assert sorted(numbers) == [f"INV-{number:05d}" for number in range(9, 25)]
    invoices, credits_ = set(), set()
    for checkout in bought:
        periods = shop.periods(checkout)
        assert [number for number, *_ in periods] == [1, 2, 3]
        invoices |= {invoice for _, invoice, _ in periods}
        credits_ |= {credit for *_, credit in periods}
    assert (len(invoices), len(credits_)) == (24, 24)
    assert shop.balance() == 240


def test_a_scheduler_beside_changes_bills_each_period_once(studio: Studio, shop: Shop) -> None:
    """Pausing takes the same row: whoever is second finds what the first one left."""
    bought = [shop.buy("2031-01-31T10:00") for _ in range(6)]

    async def both(services: Services) -> None:
        await asyncio.gather(
            billing.begin_due_periods(services, millis("2031-03-01T00:00")),
            *(asyncio.to_thread(shop.at, "2031-03-01T00:00", "pause", each) for each in bought),
        )

    studio.server.run(both)
    assert [[number for number, *_ in shop.periods(each)] for each in bought] == [[1, 2]] * 6
    assert len(_billed(studio.happened())) == 6
    assert {shop.checkout(each)["period_end"] for each in bought} == {"2031-03-31T10:00:00.000Z"}


# Refuses the credits of one project, when the invoice is written already.
_break = {
    "sqlite": [
        "CREATE TRIGGER broken BEFORE INSERT ON task_credits WHEN NEW.repository_id = {id} "
        "BEGIN SELECT RAISE(ABORT, 'out of order'); END"
    ],
    "postgresql": [
        "CREATE FUNCTION out_of_order() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RAISE EXCEPTION ''out of order''; END'",
        "CREATE TRIGGER broken BEFORE INSERT ON task_credits FOR EACH ROW WHEN (NEW.repository_id = {id}) "
        "EXECUTE FUNCTION out_of_order()",
    ],
}
_mend = PerDialect(sqlite=sa.text("DROP TRIGGER broken"), postgresql=sa.text("DROP FUNCTION out_of_order() CASCADE"))


@asynccontextmanager
async def _out_of_order(services: Services, repository_id: int) -> AsyncIterator[None]:
    async with services.database.transaction() as tx:
        for text in _break[services.database.name]:
            await tx.execute(sa.text(text.format(id=repository_id)))
    try:
        yield
    finally:
        async with services.database.transaction() as tx:
            await tx.execute(_mend)


def test_a_period_that_fails_halfway_leaves_nothing_and_keeps_no_other_waiting(studio: Studio, shop: Shop) -> None:
    other = studio.owner.post("/projects", json={"title": "Other"})["project"]
    broken = shop.buy("2031-01-31T10:00")
    body = {"service_id": broken["service"]["id"]}
    fine = studio.owner.post(f"/projects/{other['id']}/service_checkouts", json=body)["service_checkout"]
    shop.at("2031-01-31T11:00", "complete", fine)
    studio.happened()
    repository_id = studio.owner.get(studio.project)["project"]["repository_id"]

    async def run(services: Services) -> int:
        failed = billing.TROUBLE._value.get()
        async with _out_of_order(services, repository_id):
            begun = await billing.begin_due_periods(services, millis("2031-03-01T00:00"))
        assert billing.TROUBLE._value.get() == failed + 1
        return begun

    assert studio.server.run(run) == 1
    events = studio.happened()
    assert names(events) == PERIOD
    assert {each.payload["repository"]["id"] for each in events} == {other["repository_id"]}
    assert [number for number, *_ in shop.periods(broken)] == [1]
    assert shop.checkout(broken) == broken
    assert shop.schedule("2031-03-01T00:00") == 1
    events = studio.happened()
    assert names(events) == PERIOD
    assert events[0].record["invoice_number"] == "INV-00004"  # no number was lost
    assert [number for number, *_ in shop.periods(broken)] == [1, 2]


# One that has written. The server's own chores may wait for the same table.
_waiting = (
    "SELECT pid FROM pg_stat_activity "
    "WHERE wait_event_type = 'Lock' AND datname = current_database() AND backend_xid IS NOT NULL"
)


def test_a_connection_that_breaks_in_a_period_leaves_nothing(studio: Studio, shop: Shop) -> None:
    url = studio.server.settings.get("database_url")
    if url is None:
        pytest.skip("SQLite has no connection to break; the test before this one fails halfway there too")
    checkout = shop.buy("2031-01-31T10:00")

    async def waiting(connection: Any) -> int:
        async with asyncio.timeout(WAIT_S):
            while not (pid := await connection.fetchval(_waiting)):
                pass
        return int(pid)

    async def run(services: Services) -> None:
        """The scheduler waits for the ledger, its invoice written, when its connection is cut."""
        holder, killer = await asyncpg.connect(url), await asyncpg.connect(url)
        try:
            async with holder.transaction():
                await holder.execute("LOCK TABLE task_credits IN ACCESS EXCLUSIVE MODE")
                begun = asyncio.create_task(billing.begin_due_periods(services, millis("2031-03-01T00:00")))
                await killer.execute("SELECT pg_terminate_backend($1)", await waiting(killer))
                with pytest.raises(Unavailable):
                    await begun
        finally:
            await holder.close()
            await killer.close()

    studio.server.run(run)
    assert studio.happened() == []
    assert shop.schedule("2031-03-01T00:00") == 1
    assert names(studio.happened()) == PERIOD
    assert len(shop.periods(checkout)) == 2


# --- a server --------------------------------------------------------------------------------------------------------

_backdate = (
    sa.update(service_checkouts)
    .where(service_checkouts.c.id == sa.bindparam("id"))
    .values(period_end=big("end"), due_at=big("end"), anchor=big("end"), anchor_periods=1)
)


def test_a_server_that_was_down_catches_up_at_its_start(new_server: Callable[..., Server], receiver: Receiver) -> None:
    server = new_server(base_url="https://work.example.com")
    studio = Studio(server, server.world())
    shop = Shop(studio)
    hook = {"name": "web", "config": {"url": receiver.url, "content_type": "json"}, "events": ["invoice"]}
    assert studio.owner.http.post(f"/repos/{studio.world.full_name}/hooks", json=hook).status_code == 201
    checkout = shop.choose(shop.service(WEEKLY))
    studio.owner.post(_path(checkout, "complete"))
    receiver.wait_for(lambda _: len(receiver.events("invoice")) == 1)
    assert server.stop() == 0
    ended = now_ms() - 15 * 24 * 3600 * 1000

    async def backdate(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_backdate, {"id": checkout["id"], "end": ended})

    server.run(backdate)
    studio.close()
    again = Studio(new_server(base_url="https://work.example.com"), studio.world)
    receiver.wait_for(lambda _: len(receiver.events("invoice")) >= 4)
    payloads = [each.payload() for each in receiver.events("invoice")]
    assert sorted(each["invoice"]["invoice_number"] for each in payloads) == [f"INV-0000{n}" for n in (1, 2, 3, 4)]
    told = payloads[-1]
    assert told["sender"] is None
    assert told["repository"]["url"].startswith("https://work.example.com/repos/")
    shown = again.owner.get(f"/service_checkouts/{checkout['id']}")["service_checkout"]
    assert parse_rfc3339(shown["period_end"]) == ended + 21 * 24 * 3600 * 1000
    again.close()
