"""Every operation under `/api/v1`, in the order of the OpenAPI document.

A module with routes is either an `api` module or also contains the actions.
"""

from __future__ import annotations

from workhook.http.operations import Operation
from workhook.work.board import columns
from workhook.work.board.projects import actions as projects
from workhook.work.board.tasks import api as tasks
from workhook.work.discussion import api as comments
from workhook.work.files import api as files
from workhook.work.history import all_projects as across
from workhook.work.history import notifications, search, trash
from workhook.work.history import time_reports as timesheet_reports
from workhook.work.history.activity import live as activity
from workhook.work.kernel import quota
from workhook.work.kernel.tables import import_links as _import_links  # noqa: F401  # only declares tables
from workhook.work.money import budgets
from workhook.work.money.billing import actions as billing
from workhook.work.money.checkouts import actions as service_checkouts
from workhook.work.money.credit_notes import actions as credit_notes
from workhook.work.money.credits import actions as task_credits
from workhook.work.money.invoices import actions as invoices
from workhook.work.money.invoices import documents
from workhook.work.money.payments import actions as payments
from workhook.work.money.services import actions as services
from workhook.work.people import clients, members
from workhook.work.portability.transfer import exports
from workhook.work.time import rates
from workhook.work.time.timesheets import actions as timesheets

_APIS = (
    across, projects, trash, members, notifications, quota, clients, columns, tasks, activity, files, comments, search,
    services, service_checkouts, task_credits, billing, budgets, rates, invoices, documents, payments,
    credit_notes, timesheets, timesheet_reports, exports,
)  # fmt: skip
OPERATIONS: tuple[Operation, ...] = tuple(operation for api in _APIS for operation in api.routes)
"""Every operation under `/api/v1`."""
