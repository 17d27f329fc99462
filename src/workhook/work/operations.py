"""Every route of Area A."""

from __future__ import annotations

from workhook.http.operations import Operation
from workhook.work.projects import api as projects

OPERATIONS: tuple[Operation, ...] = (*projects.OPERATIONS,)
