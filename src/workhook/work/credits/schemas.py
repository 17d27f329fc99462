"""Task credits on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.core.errors import Fault
from workhook.core.records import EventSchema, resource_id
from workhook.http.parameters import LongText, Moment, Read
from workhook.http.values import AMOUNT_MAX_MINOR, WIRE_TYPE, read_money, to_amount
from workhook.storage import Row
from workhook.work.credits.rules import Kind
from workhook.work.people import PersonShape, person_of_row


def _read_credits(raw: object) -> int:
    amount = read_money(raw)
    if amount == 0:
        raise ValueError("more than 0")
    return amount


Credits = Annotated[
    int,
    Meta(
        extra_json_schema={WIRE_TYPE: "number", "exclusiveMinimum": 0, "maximum": AMOUNT_MAX_MINOR // 100},
        description="More than 0, with at most two decimals.",
    ),
    Read(_read_credits, (int, float)),
]
"""Minor units."""


class TaskCreditCreate(msgspec.Struct):
    """A grant, unless `kind` is spend: that needs a task, and a grant takes none."""

    amount: Credits
    kind: Literal["grant", "spend"] = "grant"
    task_id: Annotated[str, Meta(description="Of a spend: the task that it pays for.")] | UnsetType | None = UNSET
    notes: LongText | UnsetType | None = UNSET
    expires_at: (
        Annotated[Moment, Meta(description="Of a grant: when what is left of it is lost.")] | UnsetType | None
    ) = UNSET


def faults_of(create: TaskCreditCreate, now: int) -> list[Fault]:
    """What is wrong with the parameters together."""
    faults, spends = [], create.kind == "spend"
    if spends and not create.task_id:
        faults.append(Fault(field="task_id", code="missing", message="task_id is required of a spend"))
    if not spends and create.task_id:
        faults.append(Fault(field="task_id", message="task_id is for spends; a grant has none"))
    if isinstance(create.expires_at, int):
        if spends:
            faults.append(Fault(field="expires_at", message="expires_at is for grants; a spend has none"))
        elif create.expires_at <= now:
            faults.append(Fault(field="expires_at", message="expires_at must be in the future"))
    return faults


class CreditTaskShape(msgspec.Struct):
    """The task that was paid for, with the title that it had then."""

    id: Annotated[str, resource_id("tsk")]
    title: str


class TaskCreditShape(msgspec.Struct):
    """An entry of the ledger. `reverses` is the entry that a reversal undoes; the entry itself shows `reversed`."""

    id: Annotated[str, resource_id("crd")]
    kind: Kind
    amount: Annotated[
        int | float,
        Meta(description="Signed: what the balance grew by."),
        EventSchema({"description": "signed: what the balance grew by"}),
    ]
    balance_after: int | float
    task: CreditTaskShape | None
    notes: str | None
    user: Annotated[
        PersonShape | None,
        Meta(description="Null where Workhook made the entry by itself."),
        EventSchema({"description": "null when the service made the entry by itself"}),
    ]
    reversed: bool
    reverses: Annotated[
        str | None, EventSchema({"description": "of a reversal: the id of the entry that it undoes"}, optional=True)
    ]
    expires_at: str | None
    created_at: str
    updated_at: str


class TaskCreditAnswer(msgspec.Struct):
    task_credit: TaskCreditShape
    success: bool = True


class TaskCreditsAnswer(msgspec.Struct):
    task_credits: list[TaskCreditShape]
    success: bool = True


class TaskCreditBalance(msgspec.Struct):
    """`granted` without grants that were reversed, `used` without spends that were; what is missing has expired."""

    balance: int | float
    granted: int | float
    used: int | float
    expires_next: Annotated[str | None, Meta(description="When unspent credits are lost next.")]
    success: bool = True


def task_credit_shape(row: Row) -> TaskCreditShape:
    """From a row of the table with the person's columns."""
    return TaskCreditShape(
        id=row["id"],
        kind=row["kind"],
        amount=to_amount(row["amount_minor"]),
        balance_after=to_amount(row["balance_after_minor"]),
        task=CreditTaskShape(row["task_id"], row["task_title"]) if row["task_id"] else None,
        notes=row["notes"],
        user=person_of_row(row) if row["user_id"] else None,
        reversed=bool(row["reversed"]),
        reverses=row["reverses_id"],
        expires_at=to_millis_text(row["expires_at"]) if row["expires_at"] is not None else None,
        created_at=to_millis_text(row["created_at"]),
        updated_at=to_millis_text(row["updated_at"]),
    )
