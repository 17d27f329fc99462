"""Script that plans one file in a resource-limited process (`core.limited_main`).

The job contains the `name` of the file, whose bytes are in `content`, and the `choices`. The result is lines of JSON: a
`PlanHead` followed by the tasks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from workhook.core.errors import Message, phrase, serialize_message
from workhook.work.portability.imports.json_file import InvalidFile
from workhook.work.portability.imports.plan import Choices, ImportPlan
from workhook.work.portability.imports.sources import SourceFile, plan_of_any

TOO_LARGE = "the file takes too long to read; split it into several files"

_encode = msgspec.json.Encoder(enc_hook=serialize_message).encode


class PlanHead(msgspec.Struct, frozen=True):
    """The first line of the result. `plan` has no tasks, and is None if the file has `faults`."""

    plan: ImportPlan | None
    faults: list[Message]


def head_of(plan: ImportPlan | None, faults: list[str]) -> PlanHead:
    return PlanHead(None if plan is None else msgspec.structs.replace(plan, tasks=[]), list(map(phrase, faults)))


def answer(job: dict[str, Any], folder: Path) -> bytes:
    file = SourceFile(job["name"], (folder / "content").read_bytes())
    try:
        plan = plan_of_any(file, msgspec.convert(job["choices"], Choices))
    except InvalidFile as problem:
        return _encode(head_of(None, problem.faults))
    except (MemoryError, RecursionError):
        return _encode(head_of(None, [TOO_LARGE]))
    lines = [head_of(plan, []), *plan.tasks]
    return b"\n".join(map(_encode, lines))
