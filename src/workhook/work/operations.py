"""Every route of the work API."""

from __future__ import annotations

from workhook.http.operations import Operation
from workhook.work.activity import api as activity
from workhook.work.checkouts import api as service_checkouts
from workhook.work.clients import api as clients
from workhook.work.columns import api as columns
from workhook.work.comments import api as comments
from workhook.work.credits import api as task_credits
from workhook.work.files import api as files
from workhook.work.imports import tables as _imports  # noqa: F401  # it has no routes, but a table beside the others'
from workhook.work.invoices import api as invoices
from workhook.work.members import api as members
from workhook.work.projects import api as projects
from workhook.work.projects import trash
from workhook.work.quota import api as quota
from workhook.work.search import api as search
from workhook.work.services import api as services
from workhook.work.tasks import api as tasks
from workhook.work.timesheets import api as timesheets
from workhook.work.timesheets import reports as timesheet_reports

OPERATIONS: tuple[Operation, ...] = (
    *projects.routes,
    *trash.routes,
    *members.routes,
    *quota.routes,
    *clients.routes,
    *columns.routes,
    *tasks.routes,
    *activity.routes,
    *files.routes,
    *comments.routes,
    *search.routes,
    *services.routes,
    *service_checkouts.routes,
    *task_credits.routes,
    *invoices.routes,
    *timesheets.routes,
    *timesheet_reports.routes,
)
"""Every route of the work API."""
