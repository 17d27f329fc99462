"""What a caller may say about each field of a task."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from workhook.core.clock import DAY_MS
from workhook.http.parameters import ON_ONE_LINE, Checked, OfLimitedSize, Prepared, Read
from workhook.http.wire_types import WIRE_TYPE
from workhook.work.board.tasks import repeating
from workhook.work.kernel.schemas import RATE_MAX, read_duration_up_to, read_rate

Level = Literal["low", "medium", "high"]
Priority = Annotated[
    Level,
    Meta(
        description="In any case.",
        extra_json_schema={"enum": ["Low", "Medium", "High", "low", "medium", "high"]},
    ),
    Prepared(str.lower),
]
Position = Annotated[
    int, Meta(ge=0, le=2**53 - 1, description="Place in the column, from 0; past the end means the end.")
]
KEYS_MAX = 100
Texts = Annotated[
    dict[str, str],
    Meta(max_length=KEYS_MAX, description="A JSON object with any keys, of at most 64 KiB."),
    OfLimitedSize,
]
Sections = Annotated[
    dict[str, Annotated[dict[str, str], Meta(max_length=KEYS_MAX, description="A JSON object with any keys.")]],
    Meta(max_length=KEYS_MAX, description="A JSON object: objects by name, of at most 64 KiB together."),
    OfLimitedSize,
]
Label = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\S"), ON_ONE_LINE]
Labels = Annotated[list[Label], Meta(max_length=100)]
Usernames = Annotated[list[str], Meta(max_length=100, description="Usernames of people who see the project.")]
ColumnId = Annotated[str, Meta(description="A column of the task's project.")]
ParentId = Annotated[str, Meta(max_length=64, description="A task of the project, of which this one is a subtask.")]
BLOCKERS_MAX = 50
Blockers = Annotated[
    list[Annotated[str, Meta(max_length=64)]],
    Meta(max_length=BLOCKERS_MAX, description="Ids of tasks of the project that this one waits for."),
]
RepeatRule = Annotated[
    str,
    Meta(
        max_length=repeating.TEXT_MAX,
        description=f"A recurrence rule of RFC 5545 for days, such as {repeating.EXAMPLES}.",
    ),
    Prepared(repeating.canonical),
    Checked(repeating.complaint),
]
OfProject = Annotated[str, Meta(description="The project's id: it must be that of the task.")]
TaskRate = Annotated[
    Decimal,
    Meta(
        extra_json_schema={WIRE_TYPE: ["number", "string"], "minimum": 0, "maximum": RATE_MAX},
        description="What an hour of the task costs: an amount with at most the decimals of the project's currency, as "
        "a number or a text. Needs the role admin. Null: what the project says.",
    ),
    Read(read_rate, (int, float, str)),
]
Billable = Annotated[bool, Meta(description="Whether time on the task is billable. Null: as the project says.")]
ESTIMATE_MAX_MS = 3660 * DAY_MS
Estimate = Annotated[
    int,
    Meta(
        extra_json_schema={WIRE_TYPE: ["integer", "string"], "minimum": 0, "maximum": ESTIMATE_MAX_MS},
        description="The time that the task may take: milliseconds, or a text such as `1h 30m`, `90m`, `1.5h`, `1.5`, "
        "`1:30`, `:15`, `1:30:15` or `PT1H30M`. A fraction of a second does not count. Null: none.",
    ),
    Read(read_duration_up_to(ESTIMATE_MAX_MS), (int, str)),
]
