"""Bulk redelivery: the row that records a job's progress, and resuming the job after a crash."""

from __future__ import annotations

from collections import Counter

import pytest
import sqlalchemy as sa

from tests.api.wire import Api, Place, refused
from tests.delivery.failed import EVENTS, HOOK, OTHER, fill
from tests.harness.world import World, make_world
from workhook.core.clock import now_ms
from workhook.core.errors import Invalid, NotFound
from workhook.hooks import redelivery
from workhook.hooks.history import Filters
from workhook.hooks.tables import deliveries, dispatches, hooks, redeliveries
from workhook.http.calls import Services
from workhook.identity.queries import find_account

FAILED = Filters(status="failure")


@pytest.fixture
async def filled(services: Services) -> World:
    world = await make_world(services)
    account = await find_account(services.database, world.organization)
    assert account is not None
    async with services.database.transaction() as tx:
        await fill(tx, account.id)
    return world


async def _create_job(services: Services, filters: Filters, hook: int = HOOK) -> int:
    return await services.database.in_transaction(lambda tx: redelivery.create_job(tx, hook, filters))


async def _wanted(services: Services) -> Counter[tuple[int, int]]:
    """Return the number of dispatches by webhook and number of wanted redeliveries."""
    rows = await services.database.fetch_all(sa.select(dispatches.c.hook_id, dispatches.c.wanted))
    return Counter((row["hook_id"], row["wanted"]) for row in rows)


async def _clear_requests(services: Services) -> None:
    """Clear the redelivery requests as a worker does, without leaving a trace of them."""
    async with services.database.transaction() as tx:
        await tx.execute(sa.update(dispatches).values(wanted=sa.literal(0, sa.Integer), next_attempt_at=None))


async def test_batches_redeliver_each_event_of_the_webhook_once(services: Services, filled: World) -> None:
    job_id = await _create_job(services, FAILED)
    queued, percents = 0, []
    while (job := await redelivery.advance(services.database, job_id)) and job.finished_at is None:
        wanted = await _wanted(services)
        assert set(wanted) <= {(HOOK, 0), (HOOK, 1), (OTHER, 0)}
        queued += wanted[HOOK, 1]
        percents.append(job.percent)
        # It is sent in the meantime and fails again. Its other attempts, in later batches, must not request it again.
        await _clear_requests(services)
    queued += (await _wanted(services))[HOOK, 1]
    assert job is not None
    assert job.queued == queued == EVENTS * 9 // 10, "deliveries that succeeded since are not failures"
    assert len(percents) > 2, "several batches"
    assert percents == sorted(percents)
    assert job.percent == 100
    again = await redelivery.advance(services.database, job_id)
    assert again == job, "nothing more is done"


async def test_a_batch_that_two_processes_run_takes_effect_once(services: Services, filled: World) -> None:
    job_id = await _create_job(services, FAILED)
    row = await redelivery.find(services.database, HOOK, job_id)
    first = await redelivery.advance(services.database, job_id)
    await _clear_requests(services)
    # Another process read the row before the first batch was committed.
    await redelivery.advance_to(services.database, row, row.after_id + 1, [EVENTS + 1], done=False)
    assert (await _wanted(services))[HOOK, 1] == 0
    assert await redelivery.find(services.database, HOOK, job_id) == first


async def test_the_periodic_job_resumes_unfinished_redeliveries(services: Services, filled: World) -> None:
    jobs = {hook: await _create_job(services, FAILED, hook) for hook in (HOOK, OTHER)}
    await redelivery.advance(services.database, jobs[HOOK])
    assert await redelivery.resume(services, now_ms()) > 2
    for hook, job_id in jobs.items():
        job = await redelivery.find(services.database, hook, job_id)
        assert (job.queued, job.percent) == (EVENTS * 9 // 10, 100)
        assert (await _wanted(services))[hook, 1] == job.queued
    assert await redelivery.resume(services, now_ms()) == 0


async def test_deliveries_recorded_after_the_request_are_skipped(services: Services, filled: World) -> None:
    job_id = await _create_job(services, FAILED)
    async with services.database.transaction() as tx:
        await tx.execute(
            sa.update(deliveries)
            .where(deliveries.c.id == sa.literal(10 * EVENTS + EVENTS, sa.BigInteger))
            .values(id=sa.literal(10**9, sa.BigInteger))
        )
    await redelivery.resume(services, now_ms())
    job = await redelivery.find(services.database, HOOK, job_id)
    assert job.upto_id < 10**9
    assert job.queued == EVENTS * 9 // 10, "the other attempt of that event is there"


async def test_a_webhook_has_one_redelivery_job_at_a_time(services: Services, filled: World) -> None:
    job_id = await _create_job(services, FAILED)
    with pytest.raises(Invalid, match=f"already being redelivered, in job {job_id}"):
        await _create_job(services, Filters())
    await _create_job(services, Filters(), OTHER)
    await redelivery.resume(services, now_ms())
    assert await _create_job(services, FAILED) > job_id


async def test_the_forecast_matches_the_number_of_redelivered_events(services: Services, filled: World) -> None:
    said = await redelivery.forecast(services.database, HOOK, FAILED)
    job_id = await _create_job(services, FAILED)
    assert await redelivery.find_running(services.database, HOOK) == job_id
    await redelivery.resume(services, now_ms())
    assert await redelivery.find_running(services.database, HOOK) is None
    job = await redelivery.find(services.database, HOOK, job_id)
    assert said.events == job.queued > redelivery.BATCH
    waits = await redelivery.results(services.database, job)
    assert waits == redelivery.Results(0, 0, job.queued, capped=False)


async def test_deleting_a_webhook_deletes_its_jobs(services: Services, filled: World) -> None:
    job_id = await _create_job(services, FAILED)
    with pytest.raises(NotFound):
        await redelivery.find(services.database, OTHER, job_id)
    async with services.database.transaction() as tx:
        await tx.execute(sa.delete(hooks).where(hooks.c.id == sa.literal(HOOK, sa.Integer)))
    assert await redelivery.advance(services.database, job_id) is None
    assert await services.database.fetch_all(sa.select(redeliveries.c.id)) == []
    assert await redelivery.resume(services, now_ms()) == 0


def test_a_job_is_found_at_its_url(api: Api, place: Place) -> None:
    hook = api.hook(place)
    response = api.post(f"{hook['deliveries_url']}/redeliver", json={"status": "failure"})
    job = response.json()["job"]
    assert job["url"] == f"{hook['url']}/redeliveries/{job['id']}"
    assert api.read(job["url"]) == job
    other = api.hook(place)
    for number in (job["id"], 0, 999_999, "x", 2**63):
        refused(api.get(f"{other['url']}/redeliveries/{number}"), 404, "Not Found")
