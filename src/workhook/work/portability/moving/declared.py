"""The parameters of the API that set the fields of lines: an archive may hold what the API would store, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from workhook.http import parameters
from workhook.work.board.columns import ColumnCreate
from workhook.work.board.projects.api import ProjectCreate
from workhook.work.board.tasks.inputs import TaskCreate
from workhook.work.discussion.schemas import CommentCreate, ReplyCreate
from workhook.work.files.schemas import FileCreate, FolderCreate
from workhook.work.kernel.settings.schemas import AccountBillingEdit, BuyerEdit, ProjectBillingEdit
from workhook.work.money.checkouts.schemas import ServiceCheckoutCancel, ServiceCheckoutCreate
from workhook.work.money.credit_notes.schemas import CreditNoteCreate
from workhook.work.money.credits.schemas import TaskCreditCreate
from workhook.work.money.invoices.inputs import InvoiceCreate
from workhook.work.money.payments.schemas import PaymentCreate
from workhook.work.money.services.schemas import ServiceCreate, ServicePriceParameters
from workhook.work.people.clients import ClientCreate
from workhook.work.time.timesheets.schemas import TimesheetCreate

Check = Callable[[Any], str | None]
"""Return what is wrong with a value that is not null, or None."""

INPUTS: Mapping[str, type[msgspec.Struct]] = {
    "organization_billing": AccountBillingEdit,
    "project_billing": ProjectBillingEdit,
    "projects": ProjectCreate,
    "clients": ClientCreate,
    "columns": ColumnCreate,
    "tasks": TaskCreate,
    "task_comments": CommentCreate,
    "file_comments": CommentCreate,
    "file_comment_replies": ReplyCreate,
    "folders": FolderCreate,
    "files": FileCreate,
    "services": ServiceCreate,
    "service_prices": ServicePriceParameters,
    "service_checkouts": ServiceCheckoutCreate,
    "task_credits": TaskCreditCreate,
    "invoices": InvoiceCreate,
    "payments": PaymentCreate,
    "credit_notes": CreditNoteCreate,
    "timesheets": TimesheetCreate,
}
"""By the kind of line."""
_RENAMED: Mapping[tuple[str, str], tuple[type[msgspec.Struct], str]] = {
    **{("project_billing", f"buyer_{name}"): (BuyerEdit, name) for name in BuyerEdit.__struct_fields__},
    ("service_checkouts", "unsubscribe_reason"): (ServiceCheckoutCancel, "reason"),
    ("service_checkouts", "unsubscribed_feedback"): (ServiceCheckoutCancel, "feedback"),
}
_OTHERWISE = {
    ("organization_billing", "timezone"): "a zone that settings no longer take stays",
    ("projects", "archive"): "a flag",
    ("columns", "position"): "may be anything that sorts",
    ("invoices", "invoice_number"): "those that were counted are longer than one that is chosen may be",
    ("invoices", "credit_type"): "stored as text",
    ("task_credits", "kind"): "the ledger has more kinds than the API makes",
}
"""Fields that the API sets from parameters of the same name in another form, and why."""
EMPTIED = (("task_comments", "text"), ("file_comments", "text"), ("file_comment_replies", "body"))
"""Texts that somebody has to write, and that are empty once they were deleted."""


def declared_check(kind: str, column: str) -> Check | None:
    """Return the check of a field by the parameter of the API that sets it, or None if no parameter does."""
    if (kind, column) in _OTHERWISE:
        return None
    shape, name = _RENAMED.get((kind, column), (INPUTS.get(kind), column))
    if shape is None or not parameters.takes(shape, name):
        return None
    if (kind, column) in EMPTIED:
        return lambda value: parameters.fault_of(shape, name, value) if value else None
    return lambda value: parameters.fault_of(shape, name, value)


def party_check(name: str, *, bills: bool) -> Check | None:
    """The same for a field of a party that an invoice has frozen."""
    shape, parameter = (AccountBillingEdit, "legal_name" if name == "name" else name) if bills else (BuyerEdit, name)
    if name in ("timezone", "logo") or not parameters.takes(shape, parameter):
        return None
    return lambda value: parameters.fault_of(shape, parameter, value)
