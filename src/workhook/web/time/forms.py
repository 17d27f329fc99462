"""What the forms of time hold, as the API's parameters."""

from __future__ import annotations

from workhook.web.frame.places import Visit
from workhook.web.time.days import moment_text, read_duration, zone_name
from workhook.work.timesheets.reports import zone_of
from workhook.work.timesheets.schemas import TimesheetCreate


def spent(visit: Visit) -> TimesheetCreate:
    """Time that was spent: from when on in the form's time zone, and how long. Raises `Invalid`."""
    return visit.form(
        TimesheetCreate,
        "task_id",
        "notes",
        "billable_rate",
        start_time=moment_text(visit.fields.get("start", ""), zone_of(zone_name(visit))),
        duration=read_duration(visit.fields.get("duration", "")),
        billable="billable" in visit.fields,
    )
