"""SIGKILL during a redelivery of many: the next process continues it and requeues nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from tests.crash.conftest import Life
from tests.delivery.failed import EVENTS, HOOK, fill
from tests.harness.receiver import Receiver
from tests.harness.waiting import until
from workhook.delivery.lanes import UNRECORDED
from workhook.http.calls import Services
from workhook.identity.queries import find_account

AGAIN = EVENTS * 9 // 10
SLOTS = 8


async def _fill(services: Services, organization: str, url: str) -> None:
    account = await find_account(services.database, organization)
    assert account is not None
    async with services.database.transaction() as tx:
        await fill(tx, account.id, url)


def test_a_redelivery_of_many_survives_a_kill(new_life: Callable[..., Life], receiver: Receiver) -> None:
    life = new_life()
    site = life.site
    site.server.run(partial(_fill, organization=site.world.organization, url=receiver.url))
    answer = site.ok("POST", f"{site.world.org_path}/hooks/{HOOK}/deliveries/redeliver", json={"status": "failure"})
    life.kill()
    assert answer["queued"] < AGAIN
    assert answer["job"]["state"] == "running"

    again = life.again()
    path = f"{again.world.org_path}/hooks/{HOOK}/redeliveries/{answer['job']['id']}"
    job = until(lambda: found if (found := again.ok("GET", path))["state"] == "done" else {})
    assert (job["queued"], job["percent"]) == (AGAIN, 100)
    until(lambda: len({each.guid for each in receiver.requests}) == AGAIN)
    arrived = Counter(each.guid for each in receiver.requests)
    most = AGAIN + (1 + UNRECORDED) * SLOTS
    assert sum(arrived.values()) <= most, "only what was in flight or not recorded is sent twice"
