"""What the forms of time hold, as the API's parameters, and as they were sent where something is wrong."""

from __future__ import annotations

from urllib.parse import parse_qsl

from workhook.core.zones import zone_of
from workhook.web.frame.formats import money
from workhook.web.frame.forms import Faults
from workhook.web.frame.places import AmountField, Visit
from workhook.web.frame.texts import gettext, text
from workhook.web.time.days import moment_text, read_duration, zone_name
from workhook.work.time.timesheets.schemas import TimesheetCreate

NAMES = ("task_id", "start", "end", "duration", "billable_rate", "notes")
CALLED = {"start_time": "start", "end_time": "end"}
"""By the API's names, those that the forms have for the same."""

RATES_OF = {
    "task": text("the rate of the task"),
    "project_member": text("the person's rate in this project"),
    "project": text("the rate of this project"),
    "member": text("the person's rate in the organization"),
    "organization": text("the rate of the organization"),
}
"""Who says what an hour costs, as pages call them."""


def rate_hint(rate_minor: int | None, source: str, currency: str) -> str:
    """What counts where the field of the rate is left empty."""
    if rate_minor is None:
        return gettext("In the currency of the invoice")
    whose = gettext(RATES_OF[source])
    return gettext("Left empty: %(rate)s an hour, %(whose)s") % {"rate": money(rate_minor, currency), "whose": whose}


def _billable(visit: Visit) -> dict[str, bool]:
    """Nothing where the default counts: the API finds it, as it does for timers and programs."""
    answer = {"true": True, "false": False}.get(visit.fields.get("billable", ""))
    return {} if answer is None else {"billable": answer}


def query_of(return_to: str) -> dict[str, str]:
    """The filters of the page that a form came from."""
    return dict(parse_qsl(return_to.partition("?")[2]))


def spent(visit: Visit, currency: str) -> TimesheetCreate:
    """Time that was spent: from when on in the form's time zone, and how long. Raises `Invalid` with all that is
    wrong."""
    values: dict[str, object] = {
        "start_time": moment_text(visit.fields.get("start", ""), zone_of(zone_name(visit))),
        **_billable(visit),
    }
    faults = Faults()
    with faults:
        values["duration"] = read_duration(visit.fields.get("duration", ""))
    with faults:
        found = visit.form(TimesheetCreate, "task_id", "notes", AmountField("billable_rate", currency), **values)
    faults.check()
    return found
