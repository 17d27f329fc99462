"""Every route of Area A."""

from __future__ import annotations

from workhook.http.operations import Operation
from workhook.work.comments import api as comments
from workhook.work.credits import api as task_credits
from workhook.work.files import api as files
from workhook.work.projects import api as projects
from workhook.work.search import api as search
from workhook.work.services import api as services
from workhook.work.timesheets import api as timesheets

OPERATIONS: tuple[Operation, ...] = (
    *projects.OPERATIONS,
    *files.OPERATIONS,
    *comments.OPERATIONS,
    *search.OPERATIONS,
    *services.OPERATIONS,
    *task_credits.OPERATIONS,
    *timesheets.OPERATIONS,
)
