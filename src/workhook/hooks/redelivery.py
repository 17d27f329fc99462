"""Redelivers many deliveries in batches, oldest first, each in a short transaction.

A row stores the progress and is updated in the transaction of each batch, so no batch runs twice. After a crash, work
resumes from the row. A second process working on the same batch finds the row changed and does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
import structlog

from workhook.core import json
from workhook.core.clock import DAY_MS, now_ms, to_millis_text
from workhook.core.errors import Invalid, Unavailable, require_found
from workhook.hooks import history
from workhook.hooks.deliveries import IDS_MAX, make_due
from workhook.hooks.history import Filters, Shape
from workhook.hooks.schemas import RedeliveryShape
from workhook.hooks.tables import deliveries, dispatches, lanes, redeliveries, succeeded
from workhook.http.calls import Services
from workhook.storage import Database, Reader, Row, Transaction
from workhook.storage.index_ranges import HIGHEST, IdRange
from workhook.storage.metadata import bigint_param
from workhook.storage.sweeping import for_each_isolated

BATCH = 1000  # deliveries; a list of IDs fits in one batch
FORECAST_BATCHES = 5
RESULTS_MAX = 5000  # attempts read to determine the results of a job
EVERY_S = 2.0
KEPT_MS = 7 * DAY_MS  # how long finished jobs are kept

assert BATCH >= IDS_MAX

log = structlog.get_logger(__name__)


class Redelivery(msgspec.Struct, frozen=True):
    """A row of `redeliveries`. Times are in milliseconds."""

    id: int
    hook_id: int
    filters: str
    from_id: int
    after_id: int
    upto_id: int
    queued: int
    created_at: int
    updated_at: int
    finished_at: int | None

    @property
    def percent(self) -> int:
        if self.finished_at is not None:
            return 100
        return min(99, (self.after_id - self.from_id) * 100 // max(1, self.upto_id - self.from_id))


_COLUMNS = Redelivery.__struct_fields__
_all = sa.select(*(redeliveries.c[name] for name in _COLUMNS))
_by_id = _all.where(redeliveries.c.id == bigint_param("id"))
_of_this_hook = redeliveries.c.hook_id == bigint_param("hook_id")
_running = sa.select(redeliveries.c.id).where(redeliveries.c.finished_at.is_(None)).order_by(redeliveries.c.id)
_of_hook = _by_id.where(_of_this_hook)
_running_of_hook = sa.select(redeliveries.c.id).where(_of_this_hook, redeliveries.c.finished_at.is_(None))
_lock_lane = sa.select(lanes.c.hook_id).where(lanes.c.hook_id == bigint_param("hook_id")).with_for_update()
_ends = sa.select(sa.func.min(deliveries.c.id).label("oldest"), sa.func.max(deliveries.c.id).label("newest")).where(
    deliveries.c.hook_id == bigint_param("hook_id")
)
_forget = sa.delete(redeliveries).where(_of_this_hook, redeliveries.c.finished_at < bigint_param("before"))
_move = (
    sa.update(redeliveries)
    .where(
        redeliveries.c.id == bigint_param("id"),
        redeliveries.c.after_id == bigint_param("before"),
        redeliveries.c.finished_at.is_(None),
    )
    .values(after_id=bigint_param("after"), updated_at=bigint_param("now"), finished_at=bigint_param("finished"))
)
_count = (
    sa.update(redeliveries)
    .where(redeliveries.c.id == bigint_param("id"))
    .values(queued=redeliveries.c.queued + bigint_param("more"))
)


async def create_job(tx: Transaction, hook_id: int, filters: Filters) -> int:
    """Create a job that redelivers every event with a matching delivery, and return its ID.

    Deliveries recorded from now on are excluded. Raises `Invalid` while the hook has an unfinished job.
    """
    await tx.fetch_one(_lock_lane, {"hook_id": hook_id})  # a concurrent call waits, then finds this job
    if (running := await find_running(tx, hook_id)) is not None:
        message = f"Deliveries of this webhook are already being redelivered, in job {running}."
        raise Invalid(message, code="already_running")
    now = now_ms()
    await tx.execute(_forget, {"hook_id": hook_id, "before": now - KEPT_MS})
    ends = await tx.fetch_row(_ends, {"hook_id": hook_id})
    times = await history.moments.bounds(tx, since=filters.since)
    first = max(times.low, (ends["oldest"] or 1) - 1)
    last = max(first, ends["newest"] or 0)
    job = {"hook_id": hook_id, "filters": json.encode_text(msgspec.to_builtins(filters)), "queued": 0}
    progress = {"from_id": first, "after_id": first, "upto_id": last, "created_at": now, "updated_at": now}
    return await tx.insert(redeliveries, {**job, **progress})


class Forecast(msgspec.Struct, frozen=True):
    """The number of events that a job would redeliver. `capped`: only the oldest matching deliveries were read."""

    events: int
    capped: bool


async def forecast(reader: Reader, hook_id: int, filters: Filters) -> Forecast:
    """Count the events that a job would redeliver, in up to `FORECAST_BATCHES` batches. Raises `QueryTooSlow`."""
    wanted: set[int] = set()
    after = 0
    for _ in range(FORECAST_BATCHES):
        rows = await history.page(
            reader, hook_id, filters, IdRange(low=after), limit=BATCH, newest_first=False, answered=_answered,
            more={"end": HIGHEST},
        )  # fmt: skip
        wanted |= {each["dispatch_id"] for each in rows if each["wanted"]}
        if len(rows) < BATCH:
            return Forecast(len(wanted), capped=False)
        after = rows[-1]["id"]
    return Forecast(len(wanted), capped=True)


class Results(msgspec.Struct, frozen=True):
    """The current results of a job's events. `capped`: there were more attempts than were read."""

    succeeded: int
    failed: int
    waiting: int
    capped: bool


async def results(reader: Reader, job: Redelivery) -> Results:
    """Count the job's events by the result of attempts since its creation. Raises `storage.slow.QueryTooSlow`."""
    rows = await history.page(
        reader, job.hook_id, Filters(redelivery=True), IdRange(low=job.upto_id), limit=RESULTS_MAX, newest_first=False,
        answered=_ended, more={"start": job.from_id, "end": job.upto_id},
    )  # fmt: skip
    asked = [each for each in rows if each["asked"]]
    succeeded = {each["guid"] for each in asked if each["good"]}
    failed = {each["guid"] for each in asked} - succeeded
    waiting = max(0, job.queued - len(succeeded) - len(failed))
    return Results(len(succeeded), len(failed), waiting, len(rows) == RESULTS_MAX)


def _ended(row: sa.FromClause, shape: Shape) -> Sequence[sa.ColumnElement[Any]]:
    """Return the columns of `results`. `asked` marks attempts of events that had failed in the job's deliveries."""
    before = deliveries.alias("before")
    earlier = [before.c.guid == row.c.guid, before.c.id > bigint_param("start"), before.c.id <= bigint_param("end")]
    asked = sa.exists().where(*earlier, sa.not_(succeeded(before))).label("asked")
    return [row.c.guid, succeeded(row).label("good"), asked]


async def find(reader: Reader, hook_id: int, redelivery_id: int) -> Redelivery:
    """Return a job of the hook. Raises `NotFound` if it does not exist or belongs to another hook."""
    return _redelivery_of(require_found(await reader.fetch_one(_of_hook, {"id": redelivery_id, "hook_id": hook_id})))


async def find_running(reader: Reader, hook_id: int) -> int | None:
    """Return the ID of the hook's unfinished job, if any. There is at most one."""
    row = await reader.fetch_one(_running_of_hook, {"hook_id": hook_id})
    return None if row is None else int(row["id"])


async def advance(database: Database, redelivery_id: int) -> Redelivery | None:
    """Process one batch and return the job, or None if the hook was deleted.

    If another process works on the same batch, only one of them succeeds. Raises `storage.slow.QueryTooSlow`.
    """
    row = await database.fetch_one(_by_id, {"id": redelivery_id})
    job = _redelivery_of(row) if row else None
    if job is None or job.finished_at is not None:
        return job
    filters = msgspec.convert(json.decode(job.filters), Filters)
    within, more = IdRange(job.after_id, job.upto_id + 1), {"end": job.upto_id}
    rows = await history.page(
        database, job.hook_id, filters, within, limit=BATCH, newest_first=False, answered=_answered, more=more
    )
    done = len(rows) < BATCH
    # A list of IDs may name several deliveries of one event.
    dispatch_ids = sorted({each["dispatch_id"] for each in rows if each["wanted"]})
    await advance_to(database, job, job.upto_id if done else rows[-1]["id"], dispatch_ids, done=done)
    row = await database.fetch_one(_by_id, {"id": redelivery_id})
    return _redelivery_of(row) if row else None


async def advance_to(
    database: Database, job: Redelivery, after_id: int, dispatch_ids: Sequence[int], *, done: bool
) -> None:
    """Make the dispatches due and set the progress to `after_id`, unless the row has changed since `job` was read."""

    async def step(tx: Transaction) -> None:
        now = now_ms()
        to = {"id": job.id, "before": job.after_id, "after": after_id, "now": now, "finished": now if done else None}
        if not await tx.execute(_move, to) or not dispatch_ids:
            return
        more = await make_due(tx, job.hook_id, dispatch_ids, once=True)
        await tx.execute(_count, {"id": job.id, "more": more})

    await database.in_transaction(step)


async def run_first_batch(database: Database, job: Redelivery) -> Redelivery:
    """Process the first batch. The job is already committed, so database errors are only logged."""
    try:
        return await advance(database, job.id) or job
    except Unavailable as error:
        log.warning("redelivery_delayed", redelivery=job.id, error=error.message, retry_in_s=EVERY_S)
        return job


def _answered(row: sa.FromClause, shape: Shape) -> Sequence[sa.ColumnElement[Any]]:
    """Return the columns of a batch. `wanted` marks the last matching delivery of each event to be sent again.

    It excludes events already waiting to be sent and, when selecting failures, events that have since been delivered.
    """
    later, good, dispatch = deliveries.alias("later"), deliveries.alias("good"), dispatches.alias("dispatch")
    # Not EXISTS: PostgreSQL would first collect all dispatches that are not waiting.
    waiting = sa.select(dispatch.c.wanted).where(dispatch.c.id == row.c.dispatch_id).scalar_subquery()
    conditions: list[sa.ColumnElement[bool]] = [waiting == sa.literal_column("0")]
    if "ids" not in shape.names:
        fits_again = [later.c.guid == row.c.guid, later.c.id > row.c.id, later.c.id <= bigint_param("end")]
        conditions.append(~sa.exists().where(*fits_again, *shape.conditions(later)))
    if shape.status == "failure":
        since = [good.c.guid == row.c.guid, good.c.id > row.c.id, succeeded(good)]
        conditions.append(~sa.exists().where(*since))
    return [row.c.id, row.c.dispatch_id, sa.and_(*conditions).label("wanted")]


async def resume(services: Services, now: int) -> int:
    """Continue all unfinished jobs round-robin, one batch each. Returns the number of batches."""
    database = services.database
    left = {row["id"] for row in await database.fetch_all(_running)}

    async def batch(redelivery_id: int) -> int:
        left.discard(redelivery_id)  # a job that fails is retried in the next run
        job = await advance(database, redelivery_id)
        if job is not None and job.finished_at is None:
            left.add(redelivery_id)
        return 1

    done = 0
    while left:
        done += await for_each_isolated("redeliveries", sorted(left), batch)
    return done


def to_response(job: Redelivery, hook_url: str) -> RedeliveryShape:
    return RedeliveryShape(
        id=job.id,
        state="running" if job.finished_at is None else "done",
        queued=job.queued,
        percent=job.percent,
        created_at=to_millis_text(job.created_at),
        updated_at=to_millis_text(job.updated_at),
        finished_at=None if job.finished_at is None else to_millis_text(job.finished_at),
        url=f"{hook_url}/redeliveries/{job.id}",
    )


def _redelivery_of(row: Row) -> Redelivery:
    return Redelivery(**{name: row[name] for name in _COLUMNS})
