"""Every route of Area A."""

from __future__ import annotations

from workhook.http.operations import Operation
from workhook.work.credits import api as task_credits
from workhook.work.projects import api as projects
from workhook.work.services import api as services
from workhook.work.timesheets import api as timesheets

OPERATIONS: tuple[Operation, ...] = (
    *projects.OPERATIONS,
    *services.OPERATIONS,
    *task_credits.OPERATIONS,
    *timesheets.OPERATIONS,
)
