"""The contents of an export: one kind of line for each table that belongs to an organization.

Kinds are ordered so that a line refers only to earlier kinds or to its own. `STAY` lists all other tables with the
reason why they are not exported.

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
from workhook.work.kernel.settings import AccountBilling, Party, ProjectBilling, Seller
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


class Reference(msgspec.Struct, frozen=True):
    """A column that refers to a line of another kind. The line may be missing if `may_be_gone`."""

    kind: str
    may_be_gone: bool = False


class JsonColumn(msgspec.Struct, frozen=True):
    """A text column that contains JSON of this type.

    `ids_of` are the kinds whose ids the JSON may contain. `without_secrets` returns the value to export.
    """

    type: Any
    ids_of: tuple[str, ...] = ()
    without_secrets: Callable[[Any], Any] = lambda value: value


class Through(msgspec.Struct, frozen=True):
    """The table through which rows belong to a project or organization, and the `column` that refers to it."""

    column: str
    table: str


class LineKind(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A kind of line, stored in the file `NAME.jsonl`.

    `by` is the column with the organization or project of a row. `types` restricts the values of columns beyond the
    table's own types. `later` is a column that refers to lines of the same kind, and is therefore written after all of
    them.
    """

    name: str
    says: str
    table: str = ""
    by: str = "repository_id"
    through: Through | None = None
    record: type[Record] | None = None
    refers: Mapping[str, Reference] = {}
    json: Mapping[str, JsonColumn] = {}
    left_out: Mapping[str, str] = {}
    types: Mapping[str, Any] = {}
    later: str | None = None

    @property
    def source(self) -> sa.Table:
        return metadata.tables[self.table or self.name]

    @property
    def of_project(self) -> bool:
        return self.by == "repository_id"


WITH_BYTES = ("files", "billing_logos")
"""Kinds whose contents are stored in `files/` under the ids of the lines."""

_PERSON = {"user_id": Reference(PEOPLE)}
_BLOB = "its name in the store of files; the bytes are in `files/`"
_ITEMS = JsonColumn(list[InvoiceLine], ("timesheets",))


def _without_key(config: dict[str, Any]) -> dict[str, Any]:
    """Remove the key from a receiver's URL, since anyone who knows it can send requests to the receiver."""
    return {name: without_receiver_key(each) if isinstance(each, str) else each for name, each in config.items()}


KINDS: tuple[LineKind, ...] = (
    LineKind(
        name="organization",
        table="accounts",
        says="The organization, in one line.",
        by="id",
        left_out={
            "id": "the other server gives a new one",
            "kind": "always an organization",
            "login_key": "follows from the login",
            "disabled_at": "of users only",
        },
    ),
    LineKind(
        name="billing_logos",
        says="Logos on invoices. Their contents are in `files/`, under their IDs.",
        by="account_id",
        left_out={"blob": _BLOB},
    ),
    LineKind(
        name="organization_billing",
        table="account_billing",
        says="Its billing settings and default rate.",
        by="account_id",
        record=AccountBilling,
        refers={"logo_id": Reference("billing_logos", may_be_gone=True)},
    ),
    LineKind(
        name="members",
        table="memberships",
        says="Members of the organization.",
        by="organization_id",
        refers=_PERSON,
        types={"role": Literal["owner", "member"]},
    ),
    LineKind(name="member_rates", says="Rates of members, in minor units per hour.", by="account_id", refers=_PERSON),
    LineKind(
        name=PROJECTS,
        says="Projects, including those in the trash.",
        by="account_id",
        json={"label_colors": JsonColumn(LabelColors)},
        left_out={"repository_id": "the other server gives a new one", "name_key": "follows from the name"},
    ),
    LineKind(name="project_billing", says="Billing settings, rates and budgets of projects.", record=ProjectBilling),
    LineKind(name="project_rates", says="Rates of people in projects, in minor units per hour.", refers=_PERSON),
    LineKind(
        name="collaborators",
        says="People in a project who are not in the organization.",
        refers=_PERSON,
        types={"role": Literal["read", "write", "admin"]},
    ),
    LineKind(name="clients", says="Clients of projects.", refers=_PERSON),
    LineKind(
        name="columns",
        says="Columns of boards.",
        record=Column,
        left_out={"revision": "counts changes of its order, anew"},
    ),
    LineKind(
        name="task_buckets",
        says="Parts of a column. Their order and the ranks in them give the order of its tasks.",
        through=Through("column_id", "columns"),
        refers={"column_id": Reference("columns")},
        left_out={"size": "counted anew"},
    ),
    LineKind(
        name="tasks",
        says="Tasks with fields, sections and labels, including those in the trash.",
        record=Task,
        refers={
            **_PERSON,
            "column_id": Reference("columns"),
            "bucket_id": Reference("task_buckets"),
            "parent_id": Reference("tasks"),
            "next_id": Reference("tasks", may_be_gone=True),
        },
        json={
            "fields": JsonColumn(dict[str, str]),
            "sections": JsonColumn(dict[str, dict[str, str]]),
            "labels": JsonColumn(list[str]),
        },
        later="parent_id",
    ),
    LineKind(name="task_numbers", says="The highest task number in each project."),
    LineKind(
        name="task_assignees",
        says="Assignees of tasks.",
        through=Through("task_id", "tasks"),
        refers={**_PERSON, "task_id": Reference("tasks")},
    ),
    LineKind(
        name="task_blockers",
        says="Tasks that block other tasks.",
        through=Through("task_id", "tasks"),
        refers={"task_id": Reference("tasks"), "blocker_id": Reference("tasks")},
    ),
    LineKind(
        name="unmatched_assignees",
        says="Assignees of imported tasks who had no account here.",
        refers={"task_id": Reference("tasks")},
    ),
    LineKind(
        name="closing_commits",
        says="Commits that have completed tasks, so they don't do it twice.",
        through=Through("task_id", "tasks"),
        refers={"task_id": Reference("tasks")},
    ),
    LineKind(name="task_comments", says="Comments on tasks.", refers={**_PERSON, "task_id": Reference("tasks")}),
    LineKind(name="folders", says="Folders of files."),
    LineKind(
        name="files",
        says="Files, including those in the trash. Their contents are in `files/`, under their IDs.",
        refers={**_PERSON, "folder_id": Reference("folders"), "task_id": Reference("tasks")},
        left_out={"blob": _BLOB},
    ),
    LineKind(name="file_comments", says="Comments on files.", refers={**_PERSON, "file_id": Reference("files")}),
    LineKind(
        name="file_comment_replies",
        says="Replies to comments on files.",
        refers={**_PERSON, "file_comment_id": Reference("file_comments")},
    ),
    LineKind(
        name="mentions",
        says="Mentions of people in comments.",
        refers={
            **_PERSON,
            "author_id": Reference(PEOPLE),
            "task_comment_id": Reference("task_comments"),
            "file_comment_id": Reference("file_comments"),
            "file_comment_reply_id": Reference("file_comment_replies"),
        },
        left_out={"id": "nothing refers to it"},
    ),
    LineKind(
        name="services",
        says="Services of the organization. `prices` are the current ones.",
        by="account_id",
        record=Service,
        json={"prices": JsonColumn(list[tuple[Id, int, str, str, int | None]], ("service_prices",))},
    ),
    LineKind(
        name="service_prices",
        says="All current and former prices of services.",
        by="account_id",
        through=Through("service_id", "services"),
        record=ServicePrice,
        refers={"service_id": Reference("services")},
    ),
    LineKind(
        name="service_checkouts",
        says="Subscriptions of projects to services.",
        record=Checkout,
        refers={
            **_PERSON,
            "service_id": Reference("services"),
            "service_price_id": Reference("service_prices"),
        },
    ),
    LineKind(
        name="task_credits",
        says="The ledger of credits. `uses` lists the grants that an entry spent.",
        record=TaskCredit,
        refers={
            **_PERSON,
            "task_id": Reference("tasks", may_be_gone=True),
            "reverses_id": Reference("task_credits", may_be_gone=True),
        },
        json={"uses": JsonColumn(list[tuple[Id, int]], ("task_credits",))},
    ),
    LineKind(
        name="invoices",
        says="Invoices with their lines, including drafts. Values frozen at sending are unchanged.",
        record=Invoice,
        refers={**_PERSON, "service_checkout_id": Reference("service_checkouts", may_be_gone=True)},
        json={
            "items": _ITEMS,
            "recurring_items": _ITEMS,
            "taxes": JsonColumn(list[TaxRow]),
            "payments": JsonColumn(list[Booked], ("payments",)),
            "credit_notes": JsonColumn(list[Booked], ("credit_notes",)),
            "buyer": JsonColumn(Party),
            "seller": JsonColumn(Seller, ("billing_logos",)),
        },
        left_out={"account_id": "the organization"},
    ),
    LineKind(
        name="payments",
        says="Payments and refunds.",
        record=Payment,
        refers={
            **_PERSON,
            "invoice_id": Reference("invoices"),
            "refund_of": Reference("payments", may_be_gone=True),
        },
    ),
    LineKind(
        name="credit_notes",
        says="Credit notes with their lines.",
        refers={**_PERSON, "invoice_id": Reference("invoices")},
        json={"taxes": JsonColumn(list[TaxRow]), "items": _ITEMS},
        left_out={"account_id": "the organization"},
    ),
    LineKind(name="invoice_numbers", says="The last invoice number.", by="account_id"),
    LineKind(name="invoice_year_numbers", says="The last invoice number of each year.", by="account_id"),
    LineKind(name="credit_note_numbers", says="The last credit note number.", by="account_id"),
    LineKind(
        name="service_checkout_periods",
        says="Subscription periods, with the invoice and the credits of each.",
        through=Through("service_checkout_id", "service_checkouts"),
        refers={
            "service_checkout_id": Reference("service_checkouts"),
            "invoice_id": Reference("invoices", may_be_gone=True),
            "credit_id": Reference("task_credits", may_be_gone=True),
        },
    ),
    LineKind(
        name="timesheets",
        says="Time entries. The import pauses running timers at the time of the export.",
        record=Timesheet,
        refers={**_PERSON, "task_id": Reference("tasks"), "invoice_id": Reference("invoices")},
    ),
    LineKind(
        name="webhooks",
        table="hooks",
        says="Webhooks without secrets. The import turns them off.",
        by="account_id",
        json={
            "events": JsonColumn(list[str]),
            "config": JsonColumn(dict[str, str | int | bool | None], without_secrets=_without_key),
        },
        left_out={
            "id": "nothing refers to it",
            "secret": "a secret",
            "previous_secret": "a secret",
            "previous_secret_until": "of a secret",
            "password": "a secret",
            "app_id": "webhooks of apps stay with the apps",
            "installation_id": "webhooks of apps stay with the apps",
            "version": "counts anew",
        },
    ),
    LineKind(
        name="import_links",
        says="The origin of imported objects, so a repeated import creates no duplicates.",
        by="account_id",
    ),
)
"""All kinds, in the order in which they are written and read."""

STAY: Mapping[str, str] = {
    "administrators": "who looks after a server is that server's business",
    "alembic_version": "the schema of the database",
    "app_keys": "keys of apps, which stay with this server",
    "app_secrets": "secrets of apps",
    "apps": "an app's id, keys and installations are good on one server; register it anew",
    "arrivals": "requests that receivers for trials have got",
    "audit_log": "who did what on this server; `workhook audit` exports it",
    "authorization_codes": "secrets that are good for minutes",
    "board_filters": "what a person looks at; it is theirs, not the organization's",
    "calendar_feeds": "secret addresses of people",
    "deliveries": "the history of webhooks, kept for a time",
    "device_codes": "secrets that are good for minutes",
    "dispatches": "what is still to be sent from here",
    "event_keys": "keys of requests, kept for a day",
    "events": "history, kept for a time; its payloads name addresses and numbers of this server",
    "grants": "what people allow apps",
    "idempotency_keys": "keys of requests, kept for a day",
    "identities": "how people sign in here",
    "installation_repositories": "of apps",
    "installations": "of apps",
    "invitations": "their links lead to this server; invite people anew",
    "key_check": "of the server's key",
    "lanes": "queues of webhooks; the import makes new ones",
    "mail_messages": "e-mail that was sent from here, or is to be",
    "mail_recipients": "languages and addresses that people have confirmed here",
    "notification_settings": "what people want to be told; theirs, not the organization's",
    "notifications": "what people were told here",
    "passwords": "how people sign in here",
    "probe": "of readiness",
    "rate_windows": "limits of requests",
    "receivers": "addresses of this server",
    "redeliveries": "the history of webhooks",
    "refresh_tokens": "secrets",
    "search_credit_notes": "an index",
    "search_file_comment_replies": "an index",
    "search_file_comments": "an index",
    "search_files": "an index",
    "search_invoices": "an index",
    "search_numbers": "an index",
    "search_task_comments": "an index",
    "search_tasks": "an index",
    "sent_forms": "forms that people sent here, kept for a day",
    "sessions": "how people sign in here",
    "sign_in_failures": "how people sign in here",
    "sign_in_links": "secrets",
    "timesheet_changes": "sums, made of the timesheets again",
    "timesheet_sums": "sums, made of the timesheets again",
    "tokens": "secrets",
    "worker_generation": "of running processes",
    "workers": "of running processes",
}
"""The tables that are not exported, with the reasons."""
