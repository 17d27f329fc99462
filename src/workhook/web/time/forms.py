"""Converting time forms to API parameters, and the tasks that they offer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from workhook.core.errors import NotFound
from workhook.core.zones import day_in, zone_of
from workhook.web.frame.formats import amount
from workhook.web.frame.forms import Faults
from workhook.web.frame.places import AmountField, Visit
from workhook.web.frame.texts import gettext, text
from workhook.web.time.days import moment_text, read_duration, week_of, zone_name
from workhook.work.board.tasks import actions, listing
from workhook.work.board.tasks.matching import QUERY_MAX_CHARS, words_of
from workhook.work.board.tasks.schemas import Task
from workhook.work.kernel.access import Access
from workhook.work.kernel.scopes import source_of_project
from workhook.work.time.timesheets.schemas import TimesheetCreate

NAMES = ("task_id", "start", "end", "duration", "billable_rate", "notes")
CALLED = {"start_time": "start", "end_time": "end"}
"""Form field names by API field name."""

RATES_OF = {
    "task": text("the task’s rate"),
    "project_member": text("the person’s rate in this project"),
    "project": text("this project’s rate"),
    "member": text("the person’s rate in the organization"),
    "organization": text("the organization’s rate"),
}
"""Labels of rate sources."""


def rate_hint(rate_minor: int | None, source: str, currency: str) -> str:
    """Describe the rate that applies if the field is empty."""
    if rate_minor is None:
        return gettext("In the invoice currency")
    whose = gettext(RATES_OF[source])
    return gettext("Defaults to %(whose)s, %(rate)s per hour.", rate=amount(rate_minor, currency), whose=whose)


def query_of(return_to: str) -> dict[str, str]:
    """Return the query parameters of the page that sent the form."""
    return dict(parse_qsl(return_to.partition("?")[2]))


def at_week_of(create: TimesheetCreate, address: str, visit: Visit) -> str:
    """Return `address` with the week of the new entry, so that the page shows it. A timer is shown in every week."""
    if not isinstance(create.start_time, int):
        return address
    week = week_of(day_in(create.start_time, zone_of(zone_name(visit))))
    return f"{address.partition('?')[0]}?{urlencode({**query_of(address), 'week': week.first.isoformat()})}"


def spent(visit: Visit, currency: str) -> TimesheetCreate:
    """Read a time entry, with its start in the form's time zone. Raises `Invalid` with all errors."""
    values: dict[str, object] = {"start_time": moment_text(visit.fields.get("start", ""), zone_of(zone_name(visit)))}
    if (billable := visit.fields.get("billable", "")) in ("true", "false"):  # else the API finds the default
        values["billable"] = billable == "true"
    faults = Faults()
    with faults:
        values["duration"] = read_duration(visit.fields.get("duration", ""))
    with faults:
        found = visit.form(TimesheetCreate, "task_id", "notes", AmountField("billable_rate", currency), **values)
    faults.check()
    return found


OPEN_MAX, FINISHED_MAX = 200, 100
FIELD = "task_q"


class TaskChoice(NamedTuple):
    """The tasks that a form offers for the search `asked`. `more` is true if others exist."""

    asked: str
    tasks: Sequence[Task]
    finished: Sequence[Task] = ()
    more: bool = False

    @property
    def found(self) -> bool:
        return bool(self.tasks or self.finished)


def words_asked(visit: Visit) -> tuple[str, str]:
    """Return the task search in the query, as typed and as `words_of`."""
    asked = visit.query(FIELD).strip()[:QUERY_MAX_CHARS]
    return asked, words_of(asked)


async def offer_tasks(visit: Visit, access: Access, chosen: str = "", *, finished: bool = True) -> TaskChoice:
    """Return the open tasks of a project and, with `finished`, the completed ones. Always includes `chosen`."""
    (open_tasks, more_open), (done, more_done) = await asyncio.gather(
        _find(visit, access, finished=False, limit=OPEN_MAX),
        _find(visit, access, finished=True, limit=FINISHED_MAX if finished else 0),
    )
    if chosen and all(each.id != chosen for each in (*open_tasks, *done)):
        with suppress(NotFound):
            project_id = access.repository.project_id
            task = await actions.get_task(visit.database, visit.actor, chosen, project_id=project_id)
            (open_tasks if task.completed_at is None else done).append(task)
    return TaskChoice(words_asked(visit)[0], open_tasks, done, more_open or more_done)


async def _find(visit: Visit, access: Access, *, finished: bool, limit: int) -> tuple[list[Task], bool]:
    """Return the most recently updated tasks, and whether there are more."""
    asked, words = words_asked(visit)
    if not limit or (asked and not words):
        return [], False
    wanted = {"finished": finished, **({"q": words} if words else {})}
    source = source_of_project(access)
    found = await listing.list_tasks(visit.database, source, wanted, sort="-updated_at", after=None, limit=limit + 1)
    return found[:limit], len(found) > limit or found.truncated or found.next_key is not None
