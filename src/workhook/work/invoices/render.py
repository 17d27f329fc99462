"""A process of its own that makes one PDF: a job as JSON comes in, the PDF goes out.

What users wrote can be large or odd. Here it can neither keep the server busy nor take its memory, and there is nothing
that it could read: the folder holds the job alone, and the settings are not in the environment.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import typst

from workhook.work.invoices.render_signs import NO_FONT

CPU_S = 20
MEMORY_BYTES = 2 * 1024**3
_ALWAYS_THERE = re.compile("[\0-\u024f\u0391-\u03a1\u03a3-\u03ce\u0401-\u044f\u2010-\u2022\u2026\u20ac]*")
_NOT_SHOWN = re.compile(r'the text `"(.+?)"` could not be displayed')
_ESCAPED = re.compile(r"\\u\{([0-9a-f]+)\}")
TEMPLATE = Path(__file__).with_name("invoice.typ")


def render(job: dict[str, Any]) -> bytes:
    """`job`: `invoice` (what the template reads), `timestamp_s`, and `logo` (base64) with `logo_name`, or null.

    Raises `RuntimeError`. A logo that is no image is left away.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "main.typ").write_bytes(TEMPLATE.read_bytes())
        if job["logo"] is not None:
            (folder / job["logo_name"]).write_bytes(base64.b64decode(job["logo"]))
            try:
                return _compile(folder, job, job["logo_name"])
            except RuntimeError as error:  # typst's is one of these
                sys.stderr.write(f"the logo is left away: {error}\n")
        return _compile(folder, job, None)


def _compile(folder: Path, job: dict[str, Any], logo: str | None) -> bytes:
    (folder / "invoice.json").write_text(json.dumps({**job["invoice"], "logo": logo}), "utf-8")
    made = typst.compile(folder / "main.typ", root=folder, format="pdf", timestamp=job["timestamp_s"])
    if not _ALWAYS_THERE.fullmatch(json.dumps(job["invoice"], ensure_ascii=False)) and (missing := _missing(folder)):
        sys.stderr.write(f"{NO_FONT}{missing}\n")
    return made


def _missing(folder: Path) -> str:
    """Typst draws a box and says nothing, unless the PDF is to be kept in archives: such a one must have no box."""
    try:
        typst.compile(folder / "main.typ", root=folder, format="pdf", pdf_standards="a-2b")
    except RuntimeError as error:
        if found := _NOT_SHOWN.search(str(error)):
            text = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), found[1])
            return " ".join(f"U+{ord(each):04X}" for each in text[:8])
    return ""


def _limit() -> None:
    try:
        import resource
    except ImportError:  # Windows has none of these limits; the parent's time limit remains
        return
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _limit()
    sys.stdout.buffer.write(render(json.load(sys.stdin.buffer)))
