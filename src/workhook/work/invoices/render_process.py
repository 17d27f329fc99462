"""Starts the process that makes a PDF (`render.py`), or the one that looks for characters in the fonts of this machine
(`font_check.py`), and reads what it answers."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from workhook.core import json
from workhook.work.invoices.printing import Printed

OUTPUT_MAX_BYTES = 32 * 1024 * 1024
REPORT_MAX_BYTES = 8192
SAID_MAX_BYTES = 2000

_SCRIPT = Path(__file__).with_name("render.py")
_FONT_CHECK = _SCRIPT.with_name("font_check.py")
_CODE_POINT = re.compile(r"U\+[0-9A-F]{4,6}")
# Without these the interpreter itself may not start: where its shared library is; on Windows the system's folder.
_TO_START = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class Logo(msgspec.Struct, frozen=True):
    """An image that was uploaded. `name` ends like its kind."""

    name: str
    content: bytes


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of the answer. The errors hold text of whoever made the logo or the invoice: for the log,
    escaped."""

    missing: list[str]
    logo_error: str | None
    xml_error: str | None

    def __post_init__(self) -> None:
        if not all(map(_CODE_POINT.fullmatch, self.missing)):
            raise ValueError("missing: code points")


class Rendered(msgspec.Struct, frozen=True):
    """`stderr` is what the process printed besides, for the log."""

    content: bytes
    report: Report
    stderr: str


class RenderFailed(Exception):
    """There is no PDF. `reason` is one of `timeout`, `killed` (by a signal: a limit, a crash) and `failure`."""

    def __init__(self, reason: str, ended_with: int | None, stderr: str) -> None:
        super().__init__(f"{reason}; the process ended with {ended_with}")
        self.reason, self.ended_with, self.stderr = reason, ended_with, stderr


async def run(
    invoice: Printed, logo: Logo | None, timestamp_s: int, *, timeout_s: float, xml: bytes | None = None
) -> Rendered:
    """`xml`: the e-invoice to attach. Raises `RenderFailed`."""
    job = {
        "invoice": invoice,
        "timestamp_s": timestamp_s,
        "xml": xml.decode() if xml is not None else None,
        "logo": base64.b64encode(logo.content).decode() if logo else None,
        "logo_name": logo.name if logo else None,
        "path": [each for each in sys.path if each],
    }
    # The folder is made here, since a process that is killed removes nothing.
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="workhook-pdf-")
    try:
        return await _run(json.encode(job), folder, timeout_s)
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


async def find_missing(characters: str, *, timeout_s: float) -> set[str]:
    """Those of these that no font of this machine has. Raises `RenderFailed`."""
    job = {"characters": characters, "path": [each for each in sys.path if each]}
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="workhook-fonts-")
    try:
        output, ended_with, stderr = await _answer(_FONT_CHECK, json.encode(job), folder, timeout_s)
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))
    if ended_with != 0:
        raise RenderFailed("failure", ended_with, stderr)
    try:
        return set(msgspec.json.decode(output, type=list[str])) & set(characters)
    except msgspec.MsgspecError as error:
        raise RenderFailed("failure", ended_with, ascii(str(error))) from error


async def _run(job: bytes, folder: str, timeout_s: float) -> Rendered:
    return _read(*await _answer(_SCRIPT, job, folder, timeout_s))


async def _answer(script: Path, job: bytes, folder: str, timeout_s: float) -> tuple[bytes, int, str]:
    """What the script writes to standard output, how it ended, and what it wrote to standard error, escaped. Raises
    `RenderFailed` where it takes too long."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",  # takes nothing from the environment, the folder or the user's packages
        str(script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(os.environ),
        cwd=folder,
        close_fds=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(timeout_s):
            output, stderr, _ = await asyncio.gather(
                _first(process.stdout, OUTPUT_MAX_BYTES + 1),
                _first(process.stderr, SAID_MAX_BYTES),
                _write(process.stdin, job),
            )
            ended_with = await process.wait()
    except TimeoutError:
        raise RenderFailed("timeout", None, "") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output, ended_with, ascii(stderr.decode(errors="replace")) if stderr else ""


def environment(of_server: Mapping[str, str]) -> dict[str, str]:
    """What the process gets of the server's, in which there are secrets: nothing that it can start without."""
    return {name: of_server[name] for name in _TO_START if name in of_server}


def _read(output: bytes, ended_with: int, stderr: str) -> Rendered:
    if ended_with != 0:
        out_of_time = ended_with == -getattr(signal, "SIGXCPU", 0)
        reason = "timeout" if out_of_time else "killed" if ended_with < 0 else "failure"
        raise RenderFailed(reason, ended_with, stderr)
    line, _, content = output.partition(b"\n")
    try:
        report = msgspec.json.decode(line[:REPORT_MAX_BYTES], type=Report)
    except msgspec.MsgspecError as error:
        raise RenderFailed("failure", ended_with, ascii(str(error))) from error
    if len(output) > OUTPUT_MAX_BYTES:
        raise RenderFailed("failure", ended_with, f"more than {OUTPUT_MAX_BYTES} bytes")
    return Rendered(content, report, stderr)


async def _first(stream: asyncio.StreamReader, limit: int) -> bytes:
    """The first bytes; what follows is read and dropped, so that whoever writes it can end."""
    kept = bytearray()
    while piece := await stream.read(64 * 1024):
        kept += piece[: limit - len(kept)]
    return bytes(kept)


async def _write(stream: asyncio.StreamWriter, data: bytes) -> None:
    if stream.is_closing():  # it ended before anything was written, which uvloop answers with `RuntimeError`
        return
    try:
        stream.write(data)
        await stream.drain()
    except (BrokenPipeError, ConnectionResetError):
        return  # it ended before it had read everything; its status says why
    finally:
        stream.close()
