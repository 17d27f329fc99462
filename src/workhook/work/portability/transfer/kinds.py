"""The contents of an export: one kind of line for each table that belongs to an organization.

Kinds are ordered so that a line refers only to earlier kinds or to its own. `tests/copy/test_moving.py` lists all other
tables with the reason why they are not exported.

Tables are given by name rather than imported, because some belong to packages that this one must not import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
import sqlalchemy as sa

from workhook.core.records import Record
from workhook.core.urls import without_receiver_key
from workhook.storage.metadata import metadata
from workhook.work.board.projects.schemas import LabelColors
from workhook.work.board.tasks.schemas import Column, Task
from workhook.work.kernel.billing_settings import AccountBilling, Party, ProjectBilling, Seller
from workhook.work.money.checkouts.schemas import Checkout
from workhook.work.money.credits.schemas import TaskCredit
from workhook.work.money.invoices.rules import TaxRow
from workhook.work.money.invoices.schemas import Booked, Invoice
from workhook.work.money.payments.schemas import Payment
from workhook.work.money.services.schemas import Service, ServicePrice
from workhook.work.time.timesheets.schemas import Timesheet

PEOPLE, PROJECTS = "people", "projects"

Id = Annotated[str, msgspec.Meta(pattern=r"\A[a-z]{3,4}_[0-9a-z]{26}\Z")]

InvoiceLine = Annotated[list[str | int | list[str | int] | None], msgspec.Meta(min_length=5, max_length=10)]
"""Description, quantity, unit price in minor units, timesheets, and their time in milliseconds, optionally followed by
a discount in millionths, one in minor units, the tax rate in millionths, its category, and the first and last day of
service."""


class JsonColumn(msgspec.Struct, frozen=True):
    """A text column that contains JSON of this type.

    `ids_of` are the kinds whose IDs the JSON may contain. `without_secrets` returns the value to export.
    """

    type: Any
    ids_of: tuple[str, ...] = ()
    without_secrets: Callable[[Any], Any] = lambda value: value


class LineKind(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A kind of line, stored in the file `NAME.jsonl`.

    `owner_column` is the column with the organization or project of a row, or of the row that the column `through`
    refers to. Columns with foreign keys refer to lines of other kinds. `may_be_missing` maps other columns to the kinds
    they refer to, whose lines may be missing. `types` restricts the values of columns beyond the table's own types.
    `deferred_column` is a column that refers to lines of the same kind, and is therefore written after all of them.
    """

    name: str
    description: str
    table: str = ""
    owner_column: str = "repository_id"
    through: str | None = None
    record: type[Record] | None = None
    may_be_missing: Mapping[str, str] = {}
    json: Mapping[str, JsonColumn] = {}
    excluded_columns: Mapping[str, str] = {}
    types: Mapping[str, Any] = {}
    deferred_column: str | None = None

    @property
    def source(self) -> sa.Table:
        return metadata.tables[self.table or self.name]

    @property
    def of_project(self) -> bool:
        return self.owner_column == "repository_id"


WITH_BYTES = ("files", "billing_logos")
"""Kinds whose contents are stored in `files/` under the IDs of the lines."""

_BLOB = "its name in the store of files; the bytes are in `files/`"
_ITEMS = JsonColumn(list[InvoiceLine], ("timesheets",))


def _without_key(config: dict[str, Any]) -> dict[str, Any]:
    """Remove the key from a receiver's URL, since anyone who knows it can send requests to the receiver."""
    return {name: without_receiver_key(each) if isinstance(each, str) else each for name, each in config.items()}


KINDS: tuple[LineKind, ...] = (
    LineKind(
        name="organization",
        table="accounts",
        description="The organization, in one line.",
        owner_column="id",
        excluded_columns={
            "id": "the other server gives a new one",
            "kind": "always an organization",
            "login_key": "follows from the login",
            "disabled_at": "of users only",
        },
    ),
    LineKind(
        name="billing_logos",
        description="Logos on invoices. Their contents are in `files/`, under their IDs.",
        owner_column="account_id",
        excluded_columns={"blob": _BLOB},
    ),
    LineKind(
        name="organization_billing",
        table="account_billing",
        description="Its billing settings and default rate.",
        owner_column="account_id",
        record=AccountBilling,
        may_be_missing={"logo_id": "billing_logos"},
    ),
    LineKind(
        name="members",
        table="memberships",
        description="Members of the organization.",
        owner_column="organization_id",
        types={"role": Literal["owner", "member"]},
    ),
    LineKind(name="member_rates", description="Rates of members, in minor units per hour.", owner_column="account_id"),
    LineKind(
        name=PROJECTS,
        description="Projects, including those in the trash.",
        owner_column="account_id",
        json={"label_colors": JsonColumn(LabelColors)},
        excluded_columns={"repository_id": "the other server gives a new one", "name_key": "follows from the name"},
    ),
    LineKind(
        name="project_billing", description="Billing settings, rates, and budgets of projects.", record=ProjectBilling
    ),
    LineKind(name="project_rates", description="Rates of people in projects, in minor units per hour."),
    LineKind(
        name="collaborators",
        description="People in a project who are not in the organization.",
        types={"role": Literal["read", "write", "admin"]},
    ),
    LineKind(name="clients", description="Clients of projects."),
    LineKind(
        name="columns",
        description="Columns of boards.",
        record=Column,
        excluded_columns={"revision": "counts changes of its order; starts again"},
    ),
    LineKind(
        name="task_buckets",
        description="Parts of a column. Their order and the ranks in them give the order of its tasks.",
        through="column_id",
        excluded_columns={"size": "counted again"},
    ),
    LineKind(
        name="tasks",
        description="Tasks with fields, sections, and labels, including those in the trash.",
        record=Task,
        may_be_missing={"next_id": "tasks"},
        json={
            "fields": JsonColumn(dict[str, str]),
            "sections": JsonColumn(dict[str, dict[str, str]]),
            "labels": JsonColumn(list[str]),
        },
        deferred_column="parent_id",
    ),
    LineKind(name="task_numbers", description="The highest task number in each project."),
    LineKind(name="task_assignees", description="Assignees of tasks.", through="task_id"),
    LineKind(name="task_blockers", description="Tasks that block other tasks.", through="task_id"),
    LineKind(name="unmatched_assignees", description="Assignees of imported tasks who had no account here."),
    LineKind(
        name="closing_commits",
        description="Commits that have completed tasks, so they don't do it twice.",
        through="task_id",
    ),
    LineKind(name="task_comments", description="Comments on tasks."),
    LineKind(name="folders", description="Folders of files."),
    LineKind(
        name="files",
        description="Files, including those in the trash. Their contents are in `files/`, under their IDs.",
        excluded_columns={"blob": _BLOB},
    ),
    LineKind(name="file_comments", description="Comments on files."),
    LineKind(name="file_comment_replies", description="Replies to comments on files."),
    LineKind(
        name="mentions",
        description="Mentions of people in comments.",
        excluded_columns={"id": "nothing refers to it"},
    ),
    LineKind(
        name="services",
        description="Services of the organization. `prices` are the current ones.",
        owner_column="account_id",
        record=Service,
        json={"prices": JsonColumn(list[tuple[Id, int, str, str, int | None]], ("service_prices",))},
    ),
    LineKind(
        name="service_prices",
        description="All current and former prices of services.",
        owner_column="account_id",
        through="service_id",
        record=ServicePrice,
    ),
    LineKind(name="service_checkouts", description="Subscriptions of projects to services.", record=Checkout),
    LineKind(
        name="task_credits",
        description="The ledger of credits. `uses` lists the grants that an entry spent.",
        record=TaskCredit,
        may_be_missing={"task_id": "tasks", "reverses_id": "task_credits"},
        json={"uses": JsonColumn(list[tuple[Id, int]], ("task_credits",))},
    ),
    LineKind(
        name="invoices",
        description="Invoices with their lines, including drafts. Values frozen at sending are unchanged.",
        record=Invoice,
        may_be_missing={"service_checkout_id": "service_checkouts"},
        json={
            "items": _ITEMS,
            "recurring_items": _ITEMS,
            "taxes": JsonColumn(list[TaxRow]),
            "payments": JsonColumn(list[Booked], ("payments",)),
            "credit_notes": JsonColumn(list[Booked], ("credit_notes",)),
            "buyer": JsonColumn(Party),
            "seller": JsonColumn(Seller, ("billing_logos",)),
        },
        excluded_columns={"account_id": "the organization"},
    ),
    LineKind(
        name="payments",
        description="Payments and refunds.",
        record=Payment,
        may_be_missing={"refund_of": "payments"},
    ),
    LineKind(
        name="credit_notes",
        description="Credit notes with their lines.",
        json={"taxes": JsonColumn(list[TaxRow]), "items": _ITEMS},
        excluded_columns={"account_id": "the organization"},
    ),
    LineKind(name="invoice_numbers", description="The last invoice number.", owner_column="account_id"),
    LineKind(
        name="invoice_year_numbers", description="The last invoice number of each year.", owner_column="account_id"
    ),
    LineKind(name="credit_note_numbers", description="The last credit note number.", owner_column="account_id"),
    LineKind(
        name="service_checkout_periods",
        description="Subscription periods, with the invoice and the credits of each.",
        through="service_checkout_id",
        may_be_missing={"invoice_id": "invoices", "credit_id": "task_credits"},
    ),
    LineKind(
        name="timesheets",
        description="Time entries. The import pauses running timers at the time of the export.",
        record=Timesheet,
    ),
    LineKind(
        name="webhooks",
        table="hooks",
        description="Webhooks without secrets. The import turns them off.",
        owner_column="account_id",
        json={
            "events": JsonColumn(list[str]),
            "config": JsonColumn(dict[str, str | int | bool | None], without_secrets=_without_key),
        },
        excluded_columns={
            "id": "nothing refers to it",
            "secret": "a secret",
            "previous_secret": "a secret",
            "previous_secret_until": "of a secret",
            "password": "a secret",
            "app_id": "webhooks of apps stay with the apps",
            "installation_id": "webhooks of apps stay with the apps",
            "version": "counts again",
        },
    ),
    LineKind(
        name="import_links",
        description="The origin of imported objects, so a repeated import creates no duplicates.",
        owner_column="account_id",
    ),
)
"""All kinds, in the order in which they are written and read."""
