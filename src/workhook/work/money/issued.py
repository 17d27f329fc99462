"""Checks that prevent the deletion of records that an issued invoice refers to.

An invoice counts as issued once it is sent, even if it is later paid or voided. Drafts prevent nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import sqlalchemy as sa

from workhook.core.errors import Conflict, Message, compose, phrase, say
from workhook.identity.tables import projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.work.money.checkouts.schemas import service_checkouts
from workhook.work.money.invoices.schemas import invoices, is_issued
from workhook.work.time.timesheets.schemas import timesheets

NAMED_MAX = 5

has_issued = sa.exists().where(invoices.c.repository_id == projects.c.repository_id, is_issued).correlate(projects)
"""Whether any invoice was issued in a project, for statements that select projects."""


def _numbers(condition: sa.ColumnElement[bool], *more: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return sa.select(invoices.c.invoice_number, *more).where(condition, is_issued).limit(NAMED_MAX + 1)


_of_project = _numbers(invoices.c.repository_id == bigint_param("repository_id")).order_by(invoices.c.id)
_of_service = (
    _numbers(service_checkouts.c.service_id == sa.bindparam("service_id"))
    .join_from(
        service_checkouts,
        invoices,
        sa.and_(
            invoices.c.repository_id == service_checkouts.c.repository_id,
            invoices.c.service_checkout_id == service_checkouts.c.id,
        ),
    )
    .order_by(invoices.c.id)
)
_of_tasks = (
    _numbers(any_of(timesheets.c.task_id, "task_ids"), timesheets.c.task_id, invoices.c.id)
    .join_from(timesheets, invoices, invoices.c.id == timesheets.c.invoice_id)
    .distinct()
    .order_by(timesheets.c.task_id, invoices.c.id)
)
_of_logo = (
    _numbers(invoices.c.repository_id == bigint_param("repository_id"))
    .join_from(invoices, projects, projects.c.repository_id == invoices.c.repository_id)
    .where(projects.c.avatar.like("%/files/" + sa.bindparam("file_id", type_=sa.Text) + "/%"))
    .order_by(invoices.c.id)
)

_invoice_by_id = sa.select(invoices.c.invoice_number, invoices.c.status).where(
    invoices.c.id == sa.bindparam("invoice_id")
)


async def require_project_unbilled(tx: Transaction, repository_id: int) -> None:
    """Raise `Conflict` if the locked project has issued invoices. Issuing an invoice waits for the same lock."""
    rows = await tx.fetch_all(_of_project, {"repository_id": repository_id})
    _require_none(phrase("The project has issued invoices"), rows, "archive it instead (archive: true)")


async def require_service_unbilled(tx: Transaction, service_id: str) -> None:
    """Raise `Conflict` if the service is on issued invoices. Call this before deleting it."""
    rows = await tx.fetch_all(_of_service, {"service_id": service_id})
    _require_none(phrase("The service is on issued invoices"), rows, "deactivate it instead (active: false)")


async def require_tasks_unbilled(tx: Transaction, names: Mapping[str, str]) -> None:
    """Raise `Conflict` if any of the tasks is on issued invoices. `names` maps their IDs to names in messages."""
    rows = await tx.fetch_all(_of_tasks, {"task_ids": sorted(names)})
    if rows:
        first = rows[0]["task_id"]
        of_first = [row for row in rows if row["task_id"] == first]
        remedy = "leave it in a column of finished tasks, or archive the project (archive: true)"
        _require_none(compose("{} is on issued invoices", names[first]), of_first, remedy)


async def require_not_logo(tx: Transaction, repository_id: int, file_id: str, verb: str) -> None:
    """Raise `Conflict` if the file is the project's avatar and thus the logo on issued invoices."""
    rows = await tx.fetch_all(_of_logo, {"repository_id": repository_id, "file_id": file_id})
    why = phrase("The file is the logo of issued invoices")
    _require_none(why, rows, "give the project another avatar first", verb)


def _require_none(why: Message, rows: Sequence[Row], remedy: str, verb: str = "deleted") -> None:
    if rows:
        named = ", ".join(row["invoice_number"] for row in rows[:NAMED_MAX])
        more = " and more" if len(rows) > NAMED_MAX else ""
        message = compose("{} ({}), so it cannot be {}; {}.", why, named + more, verb, phrase(remedy))
        raise Conflict(message, code="has_invoices")


async def find_conflict(reader: Reader, invoice_id: str, verb: Literal["changed", "deleted"]) -> Conflict:
    """Return the error for changing a timesheet on this invoice. Its message explains how to free the timesheet."""
    row = await reader.fetch_one(_invoice_by_id, {"invoice_id": invoice_id})
    name = (row and row["invoice_number"]) or invoice_id
    if row and row["status"] == "draft":
        message = say(
            "The timesheet is on the draft invoice {}. Remove it from the draft first; then it can be {}.", name, verb
        )
    else:
        message = say(
            "The timesheet is on invoice {}. Void or credit the invoice first; then the timesheet can be {}.",
            name,
            verb,
        )
    return Conflict(message, code="invoiced")


async def has_any(reader: Reader, repository_id: int) -> bool:
    return await reader.fetch_one(_of_project, {"repository_id": repository_id}) is not None
