"""D5: one event sent to a thousand webhooks, compared with a thousand separate events."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bench import world
from bench.databases import Place
from bench.latency import Publisher
from bench.remote import Receiver
from workhook.core import json as plain_json
from workhook.events import outbox
from workhook.hooks.fan_out import insert_dispatches
from workhook.http.calls import Services

HOOKS = 1000


@dataclass
class FanOut:
    """Seconds to the last arrival.

    `one` starts with publishing and includes the fan-out; `singles` starts with the commit of as many events.
    """

    one: float
    singles: float


class Crowd(Publisher):
    """One repository with a thousand webhooks, which also receive all single events: the same lanes, equally warm."""

    def __init__(self, place: Place, receiver: Receiver, core: int, hooks: int = HOOKS) -> None:
        self._place, self._hooks = place, hooks
        super().__init__(place, receiver, core, repositories=1, hooks=hooks)
        self.measure_one(0)  # opens the connections

    def measure(self, number: int) -> FanOut:
        """Measure a round. Its number must not have been used before."""
        self.measure_one(number + 1)  # warms lanes and connections, which may have closed while waiting for quiet
        return FanOut(self.measure_one(number + 1), self.measure_singles(self._hooks * (number + 1)))

    def measure_one(self, mark: int) -> float:
        self.receiver.reset()
        started = time.monotonic()
        self.publish(mark, 1)
        self.receiver.wait_for(self._hooks, 60)
        return time.monotonic() - started

    def measure_singles(self, first: int) -> float:
        """Measure separate events, which this process commits in one transaction whose signal wakes the worker."""
        [(_, hook_ids)] = self.world.repositories.items()
        self.receiver.reset()

        async def commit(services: Services) -> float:
            async with services.database.transaction() as tx:
                pairs = []
                for number, hook_id in enumerate(hook_ids):
                    payload = plain_json.decode(world.body(first + number))
                    event_id = await outbox.append(tx, outbox.Draft(2, 1, "push", None, payload))
                    pairs.append((event_id, hook_id))
                await insert_dispatches(tx, pairs)
            committed = time.monotonic()
            await asyncio.to_thread(self.receiver.wait_for, self._hooks, 60)  # the signal is sent in the meantime
            return time.monotonic() - committed

        return world.with_services(self._place, commit)
