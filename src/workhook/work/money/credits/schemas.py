"""Task credits: the entries of a project's ledger, their table and request parameters."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import Fault
from workhook.core.money import Hundredths
from workhook.core.records import DESCRIBED, HIDDEN, EventSchema, JsonName, Record, Timestamp, Wire, resource_id
from workhook.http.parameters import LongText, Moment
from workhook.storage.metadata import in_project, partial_index, plain_table
from workhook.storage.record_rows import table_columns
from workhook.work.kernel.people import PersonShape
from workhook.work.kernel.schemas import CreditsAboveZero
from workhook.work.money.credits.rules import Kind


class TaskCreditCreate(msgspec.Struct):
    """A grant or, depending on `kind`, a spend. A spend requires a task; a grant must not have one."""

    amount: CreditsAboveZero
    kind: Literal["grant", "spend"] = "grant"
    task_id: Annotated[str, Meta(description="For a spend: the task it pays for.")] | UnsetType | None = UNSET
    notes: LongText | UnsetType | None = UNSET
    expires_at: Annotated[Moment, Meta(description="For a grant: when unspent credits expire.")] | UnsetType | None = (
        UNSET
    )


def faults_of(create: TaskCreditCreate, now: int) -> list[Fault]:
    faults, spends = [], create.kind == "spend"
    if spends and not create.task_id:
        faults.append(Fault(field="task_id", code="missing", message="task_id is required when spending credits"))
    if not spends and create.task_id:
        faults.append(Fault(field="task_id", message="task_id is for spends; a grant has none"))
    if isinstance(create.expires_at, int):
        if spends:
            faults.append(Fault(field="expires_at", message="expires_at is for grants; a spend has none"))
        elif create.expires_at <= now:
            faults.append(Fault(field="expires_at", message="expires_at must be in the future"))
    return faults


class CreditTaskShape(msgspec.Struct):
    """The task that was paid for, with its title at that time."""

    id: Annotated[str, resource_id("tsk")]
    title: str


class TaskCredit(Record, frozen=True):
    """An entry of the ledger.

    `reverses` is the ID of the entry that a reversal undoes; on that entry, `reversed` is true.
    """

    id: Annotated[str, resource_id("crd")]
    kind: Kind
    amount_minor: Annotated[
        Hundredths, JsonName("amount"), Meta(description="Change of the balance: positive or negative."), DESCRIBED
    ]
    balance_after_minor: Annotated[Hundredths, JsonName("balance_after")]
    task: CreditTaskShape | None
    notes: str | None
    user: Annotated[PersonShape | None, Meta(description="Null if Workhook created the entry."), DESCRIBED]
    reversed: bool
    reverses_id: Annotated[
        str | None,
        JsonName("reverses"),
        EventSchema({"description": "for a reversal: ID of the entry that it reverses"}, optional=True),
    ]
    expires_at: Timestamp | None
    created_at: Timestamp
    updated_at: Timestamp
    # The rest of a grant; 0 for other entries. Grants with a rest are found without reading the whole ledger, and the
    # balance is their sum.
    remaining_minor: Annotated[int, HIDDEN]
    # JSON `[[grant id, minor units], …]`: the grants that a spend or an expiry draws on.
    uses: Annotated[str, HIDDEN]


_SPEND_READS = ("id", "expires_at", "remaining_minor", "amount_minor")

# The amounts of entries never change.
task_credits = plain_table(
    "task_credits",
    in_project(),
    *table_columns(TaskCredit),
    sa.Column("task_id", sa.Text),
    sa.Column("task_title", sa.Text),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id")),
    sa.Index("ix_task_credits_repository_id", "repository_id", "id"),
    # Includes all columns that a spend reads, because without statistics, SQLite might use the index of all entries.
    partial_index("ix_task_credits_open", "repository_id", *_SPEND_READS, where=sa.text("remaining_minor > 0")),
    partial_index("ix_task_credits_expiring", "expires_at", where=sa.text("remaining_minor > 0")),
)


class TaskCreditAnswer(msgspec.Struct):
    task_credit: Wire[TaskCredit]
    success: bool = True


class TaskCreditsAnswer(msgspec.Struct):
    task_credits: list[Wire[TaskCredit]]
    success: bool = True


class TaskCreditBalance(msgspec.Struct):
    """The credit balance of a project.

    `granted` excludes reversed grants, and `used` excludes reversed spends. Credits that have expired make up the
    remaining difference: `granted - used - balance`.
    """

    balance: int | float
    granted: int | float
    used: int | float
    expires_next: Annotated[str | None, Meta(description="When unspent credits expire next.")]
    success: bool = True
