"""Handle untrusted files and text in a separate process with limits on time, CPU and memory.

The process has an empty environment, an empty folder and none of the server's descriptors. Hostile input can neither
stall the event loop nor exhaust the server's memory, and it finds nothing to read.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from workhook.core import json

SAID_MAX_BYTES = 2000

_MAIN = Path(__file__).with_name("limited_main.py")
# Without these the interpreter may not start: the location of its shared library, and the system folder on Windows.
_TO_START = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


def is_running(pid: int) -> bool:
    """Return whether a process with this ID exists, whichever user runs it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class Limits(msgspec.Struct, frozen=True):
    """Limits of a process: `timeout_s` is wall-clock time, `cpu_s` is CPU time, `output_bytes` bounds the result."""

    timeout_s: float
    cpu_s: int
    memory_bytes: int
    output_bytes: int


class ProcessOutput(msgspec.Struct, frozen=True):
    """The output of a process. `stderr` is whatever else it printed, escaped for the log."""

    output: bytes
    stderr: str


class ProcessFailed(Exception):
    """The process failed. `reason` is `timeout`, `killed` (by a signal, after a limit or a crash) or `failure`."""

    def __init__(self, reason: str, ended_with: int | None, stderr: str) -> None:
        super().__init__(f"{reason}; the process ended with {ended_with}")
        self.reason, self.ended_with, self.stderr = reason, ended_with, stderr


async def run(script: Path, job: Mapping[str, object], limits: Limits, content: bytes = b"") -> ProcessOutput:
    """Call `answer(job, folder)` of the script in a limited process (see `limited_main`). Raises `ProcessFailed`.

    `content`, unless empty, is written to the file `content` in that folder.
    """
    whole = {
        **job,
        "path": [each for each in sys.path if each],
        "cpu_s": limits.cpu_s,
        "memory_bytes": limits.memory_bytes,
    }
    # The folder is created here because a killed process removes nothing.
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=f"workhook-{script.stem.replace('_', '-')}-")
    try:
        if content:
            await asyncio.to_thread((Path(folder) / "content").write_bytes, content)
        return await _answer(script, json.encode(whole), folder, limits)
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


async def _answer(script: Path, job: bytes, folder: str, limits: Limits) -> ProcessOutput:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",  # ignore the environment, the current folder and the user's packages
        str(_MAIN),
        str(script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # Only what it needs to start, because the server's environment contains secrets.
        env={name: os.environ[name] for name in _TO_START if name in os.environ},
        cwd=folder,
        close_fds=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(limits.timeout_s):
            output, printed, _ = await asyncio.gather(
                _first(process.stdout, limits.output_bytes + 1),
                _first(process.stderr, SAID_MAX_BYTES),
                write_all(process.stdin, job),
            )
            ended_with = await process.wait()
    except TimeoutError:
        raise ProcessFailed("timeout", None, "") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    stderr = ascii(printed.decode(errors="replace")) if printed else ""
    if ended_with != 0:
        out_of_time = ended_with == -getattr(signal, "SIGXCPU", 0)
        reason = "timeout" if out_of_time else "killed" if ended_with < 0 else "failure"
        raise ProcessFailed(reason, ended_with, stderr)
    if len(output) > limits.output_bytes:
        raise ProcessFailed("failure", ended_with, f"more than {limits.output_bytes} bytes")
    return ProcessOutput(output, stderr)


async def _first(stream: asyncio.StreamReader, limit: int) -> bytes:
    """Return the first `limit` bytes, and discard the rest to let the writer finish."""
    kept = bytearray()
    while piece := await stream.read(64 * 1024):
        kept += piece[: limit - len(kept)]
    return bytes(kept)


async def write_all(stream: asyncio.StreamWriter, data: bytes) -> None:
    if stream.is_closing():  # ended before the first write; uvloop then raises `RuntimeError`
        return
    try:
        stream.write(data)
        await stream.drain()
    except (BrokenPipeError, ConnectionResetError):
        return  # ended before reading everything; the exit status tells why
    finally:
        stream.close()
