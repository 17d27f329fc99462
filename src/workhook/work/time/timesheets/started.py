"""Timesheets by when they started: one person's own in all their projects, and what an invoice can be made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from workhook.http.lists import Found
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account
from workhook.identity.tables import projects
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.work.kernel.access import Access, is_insider
from workhook.work.kernel.pages import bounded, fetch, length
from workhook.work.time.rates.rules import TimeTerms
from workhook.work.time.rates.terms import terms_of, with_terms
from workhook.work.time.timesheets.budgets import not_finished, summed
from workhook.work.time.timesheets.queries import CONDITIONS, anywhere, of_project, people, timesheet_of, timesheets_of
from workhook.work.time.timesheets.schemas import Timesheet, timesheets
from workhook.work.time.timesheets.sums import ALWAYS

_me = big("user_id")
_here = with_terms(
    sa.select(projects.c.id).where(projects.c.repository_id == big("repository_id")),
    _me,
)
_newest_own = (
    sa.select(timesheets.c.id)
    .join(projects, projects.c.repository_id == timesheets.c.repository_id)
    .where(timesheets.c.user_id == _me, CONDITIONS["from_"], CONDITIONS["to"])
    .where(timesheets.c.start_time > sa.literal_column("-1"))  # as the index `ix_timesheets_own` has it
    .where(projects.c.deleted_at.is_(None), is_insider(_me))
    .order_by(timesheets.c.start_time.desc(), timesheets.c.id.desc())
    .limit(big("limit"))
)
_own = bounded(anywhere.order_by(None), _newest_own, timesheets.c.id, length(timesheets.c.notes))


async def list_own_started(reader: Reader, user: Account, since: int, to: int, *, limit: int) -> Found[Timesheet]:
    """The user's own that started from `since` until before `to`, the newest first, in the projects that the user sees
    as an owner or a member."""
    params = {"user_id": user.id, "from_": since, "to": to, "limit": limit}
    found = await fetch(reader, _own, params, lambda row: timesheets_of([row], user.id)[0])
    found.sort(key=lambda each: (each.times.start, each.id), reverse=True)
    return found


@lru_cache(maxsize=2)
def _to_invoice(is_one: bool) -> sa.Select[Any]:
    listed = (
        sa.select(timesheets.c.id)
        .where(timesheets.c.repository_id == big("repository_id"), CONDITIONS["from_"], CONDITIONS["to"])
        .where(timesheets.c.finished, timesheets.c.billable, timesheets.c.invoice_id.is_(None))
        .order_by(timesheets.c.start_time, timesheets.c.id)
        .limit(big("limit"))
    )
    if is_one:
        listed = listed.where(
            timesheets.c.user_id == sa.select(people.c.id).where(CONDITIONS["user"]).scalar_subquery()
        )
    return listed


async def list_to_invoice(
    reader: Reader, access: Access, since: int, to: int, *, limit: int, user: str | None = None
) -> Sequence[str]:
    """The ids of the project's that are finished, billable and on no invoice, and started from `since` until before
    `to`, the oldest first. `user`: a username. Raises `storage.slow.QueryTooSlow`."""
    params: dict[str, object] = {"repository_id": access.repository.id, "from_": since, "to": to, "limit": limit}
    if user is not None:
        params["user"] = key_of(user)
    return [row["id"] for row in await reader.fetch_slow(_to_invoice(user is not None), params)]


_unbilled = summed("unbilled", lambda table: sa.not_(table.c.invoiced), less=not_finished)


async def find_unbilled_ms(reader: Reader, access: Access) -> int:
    """How much time of the project is finished, billable and on no invoice. It is read from the sums of reports."""
    row = await reader.fetch_one(_unbilled, {"repository_id": access.repository.id})
    assert row is not None, "a sum is one row"
    return int(row["unbilled_ms"] or 0)


async def list_unbilled(reader: Reader, access: Access, *, limit: int) -> Sequence[str]:
    """The ids of what `find_unbilled_ms` adds up, the oldest first. Raises `storage.slow.QueryTooSlow`."""
    return await list_to_invoice(reader, access, *ALWAYS, limit=limit)


async def find_default_terms(reader: Reader, access: Access) -> TimeTerms:
    """What counts for the caller's time in the project, on a task that says nothing of its own."""
    row = await reader.fetch_one(_here, {"repository_id": access.repository.id, "user_id": access.user.id})
    return TimeTerms() if row is None else terms_of(row)  # None: the project was removed for good meanwhile


# --- of a project ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _started(is_one: bool) -> sa.Select[Any]:
    listed = (
        sa.select(timesheets.c.id)
        .where(timesheets.c.repository_id == big("repository_id"), CONDITIONS["from_"], CONDITIONS["to"])
        .order_by(timesheets.c.start_time.desc(), timesheets.c.id.desc())
        .limit(big("limit"))
    )
    if is_one:
        listed = listed.where(
            timesheets.c.user_id == sa.select(people.c.id).where(CONDITIONS["user"]).scalar_subquery()
        )
    return bounded(of_project, listed, timesheets.c.id, length(timesheets.c.notes))


_running_in_project = (
    sa.select(timesheets.c.id)
    .where(timesheets.c.repository_id == big("repository_id"), timesheets.c.is_active)
    .limit(big("limit"))
)
_all_running = bounded(of_project, _running_in_project, timesheets.c.id, length(timesheets.c.notes))


async def list_started(
    reader: Reader, access: Access, since: int, to: int, *, limit: int, user: str | None = None
) -> Found[Timesheet]:
    """The newest of the project's that started from `since` until before `to`, the newest first. `user`: a username."""
    params: dict[str, object] = {"repository_id": access.repository.id, "from_": since, "to": to, "limit": limit}
    named = {} if user is None else {"user": key_of(user)}
    return await _newest_first(reader, _started(user is not None), {**params, **named}, access)


async def list_running(reader: Reader, access: Access, *, limit: int) -> Found[Timesheet]:
    """The timers of the project that run, whosever they are, the newest first."""
    return await _newest_first(reader, _all_running, {"repository_id": access.repository.id, "limit": limit}, access)


async def _newest_first(
    reader: Reader, statement: sa.Select[Any], params: Mapping[str, object], access: Access
) -> Found[Timesheet]:
    found = await fetch(reader, statement, params, lambda row: timesheet_of(row, access.repository))
    found.sort(key=lambda each: (each.times.start, each.id), reverse=True)
    return found
