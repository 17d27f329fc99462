"""A server of its own, as others run it: `workhook serve` in another process."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from workhook.cli.error_messages import CliError

START_S = 120.0
STOP_S = 30.0
_READY = "workhook: listening on "
_LAST_LINES = 5


@asynccontextmanager
async def serving(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[str]:
    """The address at which it listens. Raises `CliError` with its last words if it does not start."""
    values = {
        **settings, "data": str(folder), "api_rate_limit": "0", "retention_days": "3650", "audit_retention_days": "0",
        "log_level": "error",
    }  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WORKHOOK_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workhook", "serve", "--port", "0", "--no-worker",
        env={**kept, **{f"WORKHOOK_{name.upper()}": value for name, value in values.items()}},
        stdout=PIPE, stderr=STDOUT, cwd=folder,
    )  # fmt: skip
    said: list[str] = []
    try:
        async with asyncio.timeout(START_S):
            url = await _address(process, said)
        reading = asyncio.create_task(_read_on(process), name="bench-server-output")
        try:
            yield url
        finally:
            reading.cancel()
    except TimeoutError:
        raise CliError(f"the server did not start within {START_S:.0f} s: {_last(said)}", "See its log.") from None
    finally:
        await _stop(process)


async def _address(process: Process, said: list[str]) -> str:
    assert process.stdout is not None
    async for line in process.stdout:
        said.append(line.decode(errors="replace").rstrip())
        if said[-1].startswith(_READY):
            return said[-1].removeprefix(_READY)
    raise CliError(f"the server ended: {_last(said)}", "Mend what it says, and run the command again.")


def _last(said: list[str]) -> str:
    return " / ".join(said[-_LAST_LINES:]) or "it said nothing"


async def _read_on(process: Process) -> None:
    """So that it never waits for somebody to read what it says."""
    assert process.stdout is not None
    while await process.stdout.read(65_536):
        pass


async def _stop(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
