"""A shop selling a studio's services, with control over the clock of its subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import sqlalchemy as sa

from tests.harness.world import must
from tests.work.studio import Caller, Happened, JsonObject, Studio
from workhook.bootstrap import open_services
from workhook.core.clock import parse_rfc3339
from workhook.core.config import load
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.queries import find_account
from workhook.identity.schemas import Actor
from workhook.work.money.checkouts import actions as checkouts
from workhook.work.money.checkouts.schemas import ServiceCheckoutCancel, service_checkout_periods, service_checkouts

MONTHLY: JsonObject = {"amount": 1200, "currency": "EUR", "interval": "month", "credits": 10}
BASE = "http://work.example.com"

_periods = (
    sa.select(service_checkout_periods)
    .where(service_checkout_periods.c.service_checkout_id == sa.bindparam("id"))
    .order_by(service_checkout_periods.c.number)
)
_forget = sa.update(service_checkouts).values(due_at=None)

Step = Callable[..., Awaitable[object]]  # (write, checkout ID)


_STEPS: dict[str, Step] = {
    "complete": checkouts.complete_service_checkout,
    "pause": checkouts.pause_service_checkout,
    "unpause": checkouts.unpause_service_checkout,
    "cancel": partial(checkouts.cancel_service_checkout, why=ServiceCheckoutCancel()),
    "delete": checkouts.delete_service_checkout,
}


class Shop:
    """Sells services. API calls happen now; methods with a time happen then.

    Times are text such as `2031-01-31T10:00`. They lie in the future, where the server's own scheduler ignores them.
    """

    def __init__(self, studio: Studio) -> None:
        self.studio = studio

    def service(self, *prices: JsonObject, **more: Any) -> JsonObject:
        body = {"title": "Design retainer", "service_prices": [*(prices or (MONTHLY,))], **more}
        found: JsonObject = self.studio.owner.post("/services", json=body)["service"]
        return found

    def choose(self, service: JsonObject | None = None, *, by: Caller | None = None, **more: Any) -> JsonObject:
        """Create a pending checkout."""
        body = {"service_id": (service or self.service())["id"], **more}
        path = f"{self.studio.project}/service_checkouts"
        found: JsonObject = (by or self.studio.owner).post(path, json=body)["service_checkout"]
        return found

    def checkout(self, checkout: JsonObject) -> JsonObject:
        """Return the checkout's current state."""
        found: JsonObject = self.studio.owner.get(f"/service_checkouts/{checkout['id']}")["service_checkout"]
        return found

    def buy(self, at: str, service: JsonObject | None = None, **more: Any) -> JsonObject:
        """Return a checkout completed at `at`, and discard the events up to then."""
        checkout = self.choose(service, **more)
        self.at(at, "complete", checkout)
        self.studio.happened()
        return self.checkout(checkout)

    def at(self, time: str, step: str, checkout: JsonObject) -> None:
        """Run `complete`, `pause`, `unpause`, `cancel` or `delete` as the owner at `time`."""

        async def run(services: Services) -> None:
            user = must(await find_account(services.database, self.studio.world.owner))
            actor = Actor(user, token_id=0, token_kind="classic", scopes=frozenset())
            async with services.database.transaction() as tx:
                await _STEPS[step](Write(tx, actor, BASE, moment=millis(time)), checkout["id"])

        self.studio.server.run(run)

    def schedule(self, at: str) -> int:
        """Run the scheduler once at `at` and return the number of periods it started."""

        begun: int = self.studio.server.run(lambda services: checkouts.begin_due_periods(services, millis(at)))
        return begun

    def schedule_at_once(self, at: str, schedulers: int) -> list[int]:
        """Run several schedulers concurrently, each with its own services as in a separate process."""

        async def one() -> int:
            async with open_services(load(self.studio.server.settings, {})) as services:
                return await checkouts.begin_due_periods(services, millis(at))

        async def run(_: Services) -> list[int]:
            return list(await asyncio.gather(*(one() for _ in range(schedulers))))

        begun: list[int] = self.studio.server.run(run)
        return begun

    def periods(self, checkout: JsonObject) -> list[tuple[int, str | None, str | None]]:
        """Return the number, invoice ID and credit ID of each started period."""

        rows = self.studio.server.fetch(_periods, {"id": checkout["id"]})
        return [(row["number"], row["invoice_id"], row["credit_id"]) for row in rows]

    def close(self) -> None:
        """Leave nothing due on the server, which later tests share."""

        self.studio.server.execute(_forget)

    def balance(self) -> float:
        found: float = self.studio.owner.get(f"{self.studio.project}/task_credits/balance")["balance"]
        return found


def millis(time: str) -> int:
    return parse_rfc3339(f"{time}:00Z")


def names(events: list[Happened]) -> list[str]:
    return [f"{each.name} {each.action}" for each in events]
