"""Every route of the work API."""

from __future__ import annotations

from workhook.http.operations import Operation
from workhook.work.across import api as across
from workhook.work.activity import api as activity
from workhook.work.billing import api as billing
from workhook.work.billing import logos
from workhook.work.budgets import api as budgets
from workhook.work.checkouts import api as service_checkouts
from workhook.work.clients import api as clients
from workhook.work.columns import api as columns
from workhook.work.comments import api as comments
from workhook.work.credit_notes import api as credit_notes
from workhook.work.credits import api as task_credits
from workhook.work.files import api as files
from workhook.work.imports.tables import import_links as _import_links  # noqa: F401  # a table, without routes
from workhook.work.invoices import api as invoices
from workhook.work.members import api as members
from workhook.work.moving import api as moving
from workhook.work.notifications import api as notifications
from workhook.work.payments import api as payments
from workhook.work.projects import api as projects
from workhook.work.projects import trash
from workhook.work.quota import api as quota
from workhook.work.rates import api as rates
from workhook.work.search import api as search
from workhook.work.services import api as services
from workhook.work.tasks import api as tasks
from workhook.work.timesheets import api as timesheets
from workhook.work.timesheets import reports as timesheet_reports

_APIS = (
    across, projects, trash, members, notifications, quota, clients, columns, tasks, activity, files, comments, search,
    services, service_checkouts, task_credits, billing, logos, budgets, rates, invoices, payments, credit_notes,
    timesheets, timesheet_reports, moving,
)  # fmt: skip
OPERATIONS: tuple[Operation, ...] = tuple(operation for api in _APIS for operation in api.routes)
"""Every route of the work API."""
