"""Make a PDF (`render.py`), or find characters without a font (`font_check.py`), in a limited process."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import msgspec

from workhook.core import limited_process
from workhook.core.limited_process import Limits
from workhook.core.limited_process import ProcessFailed as RenderFailed
from workhook.work.money.invoices.printing import Printed

CPU_S = 20
MEMORY_BYTES = 1024**3
OUTPUT_MAX_BYTES = 32 * 1024 * 1024
REPORT_MAX_BYTES = 8192

__all__ = ["Logo", "RenderFailed", "Rendered", "Report", "find_missing", "run"]

_SCRIPT = Path(__file__).with_name("render.py")
_FONT_CHECK = _SCRIPT.with_name("font_check.py")
_CODE_POINT = re.compile(r"U\+[0-9A-F]{4,6}")


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


def _limits(timeout_s: float) -> Limits:
    return Limits(timeout_s, CPU_S, MEMORY_BYTES, OUTPUT_MAX_BYTES)


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
    }
    made = await limited_process.run(_SCRIPT, job, _limits(timeout_s))
    line, _, content = made.output.partition(b"\n")
    try:
        report = msgspec.json.decode(line[:REPORT_MAX_BYTES], type=Report)
    except msgspec.MsgspecError as error:
        raise RenderFailed("failure", 0, ascii(str(error))) from error
    return Rendered(content, report, made.stderr)


async def find_missing(characters: str, *, timeout_s: float) -> set[str]:
    """Those of these that no font of this machine has. Raises `RenderFailed`."""
    made = await limited_process.run(_FONT_CHECK, {"characters": characters}, _limits(timeout_s))
    try:
        return set(msgspec.json.decode(made.output, type=list[str])) & set(characters)
    except msgspec.MsgspecError as error:
        raise RenderFailed("failure", 0, ascii(str(error))) from error
