"""A worker in the test's own process, with many webhooks, so that a test can inspect its state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.databases import Databases
from tests.harness.waiting import WAIT_S
from tests.harness.world import make_world
from workhook.bootstrap import open_services
from workhook.core.config import load
from workhook.delivery.address_policy import AddressPolicy
from workhook.delivery.send import Sender, SendSettings
from workhook.delivery.worker import Worker
from workhook.hooks import actions, publishing
from workhook.hooks.bodies import parse_hook
from workhook.hooks.schemas import HookOwner
from workhook.http.calls import Services
from workhook.identity.queries import find_repository
from workhook.identity.tokens.lookup import find_actor

PATIENT_S = 300.0  # longer than any test waits


class Inside:
    """A repository with webhooks for `push`."""

    def __init__(self, services: Services, place: HookOwner, token: str) -> None:
        self.services, self.place, self._token = services, place, token
        self.worker: Worker | None = None

    async def hooks(self, urls: Sequence[str], **config: Any) -> list[int]:
        """Create webhooks without sending their pings."""
        actor = await find_actor(self.services.database, self._token)
        assert actor is not None
        made = []
        async with self.services.database.transaction() as tx:
            for url in urls:
                wanted = {"config": {"url": url, "content_type": "json", **config}, "events": ["push"]}
                change = parse_hook(wanted, "repository", self.services.check_url, creating=True)
                vault = self.services.vault
                write = actions.HookWrite(tx, actor, self.place, vault, base="http://x")
                hook = await actions.create_hook(write, change)
                made.append(hook.id)
        return made

    async def publish(self, number: int, **more: Any) -> None:
        publication = publishing.Publication("push", {"number": number, **more})
        await publishing.publish(self.services.database, self.place, publication, actor=None, base="http://x")

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[Worker]:
        """Run a worker. Stopping does not wait for receivers that hang."""
        sender = Sender(AddressPolicy(("127.0.0.0/8",)), SendSettings(timeout_s=PATIENT_S))
        self.worker = Worker(self.services, sender)
        await self.worker.start()
        try:
            yield self.worker
        finally:
            await self.worker.stop(0)
            await sender.close()


@asynccontextmanager
async def inside(backend: Databases, folder: Path, *, serving: bool = False, **settings: Any) -> AsyncIterator[Inside]:
    chosen = {"data": str(folder), "delivery_allow_networks": "127.0.0.0/8", "hooks_per_event": 0, **settings}
    database = backend.new(folder)  # not deleted, because tests inspect the data afterwards
    async with open_services(load({**chosen, **database}, {}), serving=serving) as services:
        world = await make_world(services)
        repository = await find_repository(services.database, world.organization, world.repository)
        assert repository is not None
        yield Inside(services, HookOwner(repository.owner, repository), world.token)


assert WAIT_S < PATIENT_S
