"""Render one PDF in a limited process (`core.limited_main`), without importing any of Workhook.

The output is one line of JSON, the report, followed by the PDF. A job with `characters`, such as "東京", is instead
answered with a JSON list of those that are missing from all fonts on this machine.
"""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

LOGO_CPU_S = 2
"""The CPU limit for drawing just the logo, after which the process is killed."""
MISSING_MAX = 8
SAID_MAX_CHARS = 300
TEMPLATE = Path(__file__).with_name("invoice.typ")
ATTACHED = "factur-x.xml"
ARCHIVAL = "a-3b"
"""PDF/A-3, which may contain an e-invoice."""
DRAWN_LOGO, LOGO_DOTS_PER_INCH = "drawn.png", 600

_ALWAYS_THERE = re.compile("[\0-\u024f\u0391-\u03a1\u03a3-\u03ce\u0401-\u044f\u2010-\u2022\u2026\u20ac]*")
_NOT_SHOWN = re.compile(r'the text `"(.+?)"` could not be displayed')
_ESCAPED = re.compile(r"\\u\{([0-9a-f]+)\}")
# Each character is a separate text, so Typst reports each one, because an archival PDF must not contain boxes.
_CHARACTERS = """#set page(width: 200mm, height: auto)
#set text(font: "Libertinus Serif")
#for each in json("characters.json") [#text(each)

]
"""
_ONLY_LOGO = (
    "#set document(date: auto)\n#set page(width: 60mm, height: 18mm, margin: 0mm, fill: none)\n"
    '#image("%s", height: 18mm, width: 60mm, fit: "contain")\n'
)


def render(job: dict[str, Any], folder: Path) -> tuple[dict[str, Any], bytes]:
    """Return the report and the PDF.

    The keys of `job` are `invoice` (for the template), `timestamp_s`, `xml` (the e-invoice, or null), and `logo`
    (base64, or null) with `logo_name`. `folder` must be empty; the caller removes it.

    The report has `missing` (characters without a font, such as `U+6F22`), `logo_error` and `xml_error` (why either was
    left out, or null). Raises `RuntimeError`.
    """
    (folder / "main.typ").write_bytes(TEMPLATE.read_bytes())
    logo, logo_error, xml_error = None, None, None
    if job["logo"] is not None:
        logo, logo_error = _try_logo(job, folder)
    if job["xml"] is not None:
        (folder / ATTACHED).write_bytes(job["xml"].encode())
        how = {"pdf_standards": ARCHIVAL, "timestamp": job["timestamp_s"]}
        try:
            made = _compile(folder, job, logo, attached=ATTACHED, **how)
        except RuntimeError as error:
            xml_error = str(error)
        else:  # an archival PDF has no boxes
            return {"missing": [], "logo_error": logo_error, "xml_error": None}, made
    made = _compile(folder, job, logo)
    missing = _not_shown(xml_error or "") or _missing(folder, job)
    diagnostic = xml_error[:SAID_MAX_CHARS] if xml_error else None
    return {"missing": missing, "logo_error": logo_error, "xml_error": diagnostic}, made


def _try_logo(job: dict[str, Any], folder: Path) -> tuple[str | None, str | None]:
    """Draw the logo alone, with its own time limit. Returns its file, or why it cannot be drawn.

    Archival PDFs do not allow CMYK colors or characters that are missing from all fonts, so a logo that contains them
    is converted to a bitmap.
    """
    import typst

    name = job["logo_name"]
    (folder / name).write_bytes(base64.b64decode(job["logo"]))
    (folder / "logo.typ").write_text(_ONLY_LOGO % name, "utf-8")
    archival = {} if job["xml"] is None else {"pdf_standards": ARCHIVAL, "timestamp": job["timestamp_s"]}
    _limit_cpu(job["cpu_s"], LOGO_CPU_S)
    try:
        try:
            typst.compile(folder / "logo.typ", root=folder, format="pdf", **archival)
        except RuntimeError:  # a base class of Typst's error
            if not archival:
                raise
            drawn = typst.compile(folder / "logo.typ", root=folder, format="png", ppi=LOGO_DOTS_PER_INCH)
            (folder / DRAWN_LOGO).write_bytes(drawn)
            name = DRAWN_LOGO
    except RuntimeError as error:
        return None, str(error)[:SAID_MAX_CHARS]
    finally:
        _limit_cpu(job["cpu_s"], None)
    return name, None


def _compile(folder: Path, job: dict[str, Any], logo: str | None, *, attached: str | None = None, **how: Any) -> bytes:
    import typst

    values = {**job["invoice"], "logo": logo, "attached": attached}
    (folder / "invoice.json").write_text(json.dumps(values), "utf-8")
    made: bytes = typst.compile(folder / "main.typ", root=folder, format="pdf", **how)
    return made


def _missing(folder: Path, job: dict[str, Any]) -> list[str]:
    """Return the characters without a font. Typst reports them only for an archival PDF, here without the logo."""
    if _ALWAYS_THERE.fullmatch(json.dumps(job["invoice"], ensure_ascii=False)):
        return []
    try:
        _compile(folder, job, None, pdf_standards="a-2b")
    except RuntimeError as error:
        return _not_shown(str(error))
    return []


def texts_not_shown(diagnostic: str) -> list[str]:
    """Return the texts that Typst's message reports as having no font."""
    return [_ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), each) for each in _NOT_SHOWN.findall(diagnostic)]


def _not_shown(diagnostic: str) -> list[str]:
    """Return the first characters of the first reported text."""
    return [f"U+{ord(each):04X}" for text in texts_not_shown(diagnostic)[:1] for each in text[:MISSING_MAX]]


def without_font(characters: str, folder: Path) -> list[str]:
    """Return the characters that are missing from all fonts. `folder` must be empty; the caller removes it."""
    import typst

    (folder / "main.typ").write_text(_CHARACTERS, "utf-8")
    (folder / "characters.json").write_text(json.dumps(list(characters)), "utf-8")
    try:
        typst.compile(folder / "main.typ", root=folder, format="pdf", pdf_standards="a-2b")
    except typst.TypstError as error:
        diagnostic = texts_not_shown(error.diagnostic)
        return [each for each in characters if each in diagnostic]
    return []


def _limit_cpu(whole_s: int, more_s: int | None) -> None:
    """Limit the CPU time from now on to `more_s` seconds, or if it is None, to the rest of `whole_s`."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = whole_s if more_s is None else min(whole_s, round(used.ru_utime + used.ru_stime) + more_s)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, whole_s + 1))


def answer(job: dict[str, Any], folder: Path) -> bytes:
    """Return the output that `limited_main` writes."""
    os.environ["RAYON_NUM_THREADS"] = "1"  # one core; more threads would also count toward the memory limit
    if "characters" in job:
        return json.dumps(without_font(job["characters"], folder)).encode()
    report, made = render(job, folder)
    return json.dumps(report).encode() + b"\n" + made
