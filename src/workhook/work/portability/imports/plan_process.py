"""Planning of untrusted files in a resource-limited process.

The files can neither stall the server nor exhaust its memory.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from weakref import WeakKeyDictionary

import msgspec
import structlog

from workhook.core import limited_process
from workhook.core.errors import Unavailable, deserialize_message
from workhook.core.fair_queue import FairQueue, QueueFull
from workhook.core.limited_process import Limits, ProcessFailed
from workhook.work.portability.imports.json_file import InvalidFile
from workhook.work.portability.imports.plan import Choices, ImportPlan, PlannedTask
from workhook.work.portability.imports.plan_script import TOO_LARGE, PlanHead
from workhook.work.portability.imports.sources import SourceFile

LIMITS = Limits(timeout_s=60, cpu_s=30, memory_bytes=1024**3, output_bytes=64 * 1024 * 1024)
AT_ONCE, WAITING_MAX, WAITING_MAX_EACH = 2, 16, 4
RETRY_AFTER_S = 30
DECODED_AT_ONCE = 200

_SCRIPT = Path(__file__).with_name("plan_script.py")

log = structlog.get_logger(__name__)

_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, FairQueue] = WeakKeyDictionary()


async def plan_in_process(account_id: int, file: SourceFile, choices: Choices) -> ImportPlan:
    """Plan any file. Organizations take turns. Raises `InvalidFile`, or `Unavailable` if too many files are waiting."""
    queue = _queues.setdefault(asyncio.get_running_loop(), FairQueue(AT_ONCE, WAITING_MAX, WAITING_MAX_EACH))
    job = {"name": file.name, "choices": choices}
    try:
        async with queue.slot(account_id):
            made = await limited_process.run(_SCRIPT, job, LIMITS, file.data)
    except QueueFull:
        message = "Too many files are waiting to be imported. Try again in a few seconds."
        raise Unavailable(message, code="import_unavailable", retry_after_s=RETRY_AFTER_S) from None
    except ProcessFailed as problem:
        log.warning("import_failed", reason=problem.reason, status=problem.ended_with, stderr=problem.stderr)
        raise InvalidFile([TOO_LARGE]) from None
    lines = made.output.split(b"\n")
    head = msgspec.json.decode(lines[0], type=PlanHead, dec_hook=deserialize_message)
    if head.plan is None:
        raise InvalidFile(list(head.faults))
    decoder, tasks = msgspec.json.Decoder(PlannedTask), list[PlannedTask]()
    for start in range(1, len(lines), DECODED_AT_ONCE):  # so that the event loop can serve requests in between
        tasks += map(decoder.decode, lines[start : start + DECODED_AT_ONCE])
        await asyncio.sleep(0)
    return msgspec.structs.replace(head.plan, tasks=tasks)
