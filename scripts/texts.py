"""Collect the texts of pages into the catalogues of other languages, and compile these.

python -m scripts.texts           update every workhook.po, then make the .mo files
python -m scripts.texts --check   change nothing; exit 1 and name what is missing, old or not translated
"""

from __future__ import annotations

import sys
from functools import cache
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from hatch_build import LOCALES, compile_texts
from workhook.events.catalog import CATALOG

WEB = Path(__file__).parent.parent / "src" / "workhook" / "web"
_METHODS = [("**.py", "python"), ("**.html", "jinja2.ext.babel_extract")]
_OPTIONS = {"**.html": {"trimmed": "true", "silent": "false"}}
_KEYWORDS = {
    "_": None,
    "gettext": None,
    "ngettext": (1, 2),
    "pgettext": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
    "text": None,
}


@cache
def collected() -> Catalog:
    """Every text of the pages, in English."""
    catalog = Catalog(project="Workhook", charset="utf-8")
    found = extract_from_dir(str(WEB), method_map=_METHODS, options_map=_OPTIONS, keywords=_KEYWORDS)
    for name, _line, message, comments, context in found:
        catalog.add(message, None, [(name, 1)], auto_comments=comments, context=context)
    for event in CATALOG.values():  # what forms of webhooks say of each
        catalog.add(event.meaning, None, [("events", 1)])
    return catalog


def faults_of(path: Path) -> list[str]:
    """What is wrong with a catalogue, a sentence each."""
    with path.open("rb") as file:
        stored = read_po(file)
    wanted = {(each.id, each.context) for each in collected() if each.id}
    there = {(each.id, each.context): each for each in stored if each.id}
    faults = [f"{path}: {key[0]!r} is missing" for key in sorted(wanted - set(there), key=repr)]
    faults += [f"{path}: {key[0]!r} is not used any more" for key in sorted(set(there) - wanted, key=repr)]
    for key, each in there.items():
        parts = each.string if isinstance(each.string, list | tuple) else [each.string]
        if key in wanted and (each.fuzzy or not all(parts)):
            faults.append(f"{path}: {key[0]!r} is not translated")
        faults += [f"{path}: {error}" for error in each.check()]
    return faults


def updated(path: Path) -> bytes:
    """The catalogue with what is new, and without what is not used any more."""
    catalog = Catalog(locale=path.parent.parent.name, project="Workhook", charset="utf-8")
    if path.exists():
        with path.open("rb") as file:
            catalog = read_po(file, locale=path.parent.parent.name)
    catalog.update(collected(), no_fuzzy_matching=True)
    catalog.obsolete.clear()
    out = BytesIO()
    write_po(out, catalog, width=120, sort_output=True, no_location=True, omit_header=False)
    lines = out.getvalue().split(b"\n")
    return b"\n".join(line for line in lines if not line.startswith((b'"POT-Creation-Date', b'"PO-Revision-Date')))


def main() -> int:
    paths = sorted(LOCALES.glob("*/LC_MESSAGES"))
    catalogues = [each / "workhook.po" for each in paths]
    if "--check" in sys.argv:
        faults = [fault for path in catalogues for fault in faults_of(path)]
        print("\n".join(faults) or "texts: every text is translated")
        return 1 if faults else 0
    for path in catalogues:
        path.write_bytes(updated(path))
    compile_texts()
    return 0


if __name__ == "__main__":
    sys.exit(main())
