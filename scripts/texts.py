"""Extract the texts of pages into the catalogs of other languages, and compile the catalogs.

The English catalog is written by hand. It contains the texts that pages show in place of the API's messages
(`web.frame.refusals`).

python -m scripts.texts           update every workhook.po, then compile the .mo files
python -m scripts.texts --check   change nothing; exit with 1 and list missing, unused and untranslated texts
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from hatch_build import LOCALES, compile_texts
from workhook.events.catalog import CATALOG
from workhook.web.activity import FIELDS

WEB = Path(__file__).parent.parent / "src" / "workhook" / "web"
ENGLISH = LOCALES / "en" / "LC_MESSAGES" / "workhook.po"
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
    """Return every text of the pages, in English."""
    catalog = Catalog(project="Workhook", charset="utf-8")
    found = extract_from_dir(str(WEB), method_map=_METHODS, options_map=_OPTIONS, keywords=_KEYWORDS)
    for name, _line, message, comments, context in found:
        catalog.add(message, None, [(name, 1)], auto_comments=comments, context=context)
    for sentence in sorted(message_sentences()):
        catalog.add(sentence, None, [("said", 1)])
    for name in FIELDS.values():
        catalog.add(name, None, [("fields", 1)])
    for event in CATALOG.values():  # shown in the forms of webhooks
        catalog.add(event.description, None, [("events", 1)])
    for each in stored_in(ENGLISH):
        catalog.add(each.id, None, [("en", 1)], context=each.context)
    return catalog


def message_sentences() -> set[str]:
    """Return the sentences passed to `core.errors.say` anywhere in the server."""
    calls = (
        node
        for path in WEB.parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say"
    )
    return {str(each.args[0].value) for each in calls if isinstance(each.args[0], ast.Constant)}


def stored_in(path: Path) -> list[Message]:
    """Return the messages of a catalog."""
    with path.open("rb") as file:
        return [each for each in read_po(file) if each.id]


def faults_of(path: Path) -> list[str]:
    """Return the faults of a catalog, one sentence each."""
    wanted = {(each.id, each.context) for each in collected() if each.id}
    there = {(each.id, each.context): each for each in stored_in(path)}
    faults = [f"{path}: {key[0]!r} is missing" for key in sorted(wanted - set(there), key=repr)]
    faults += [f"{path}: {key[0]!r} is no longer used" for key in sorted(set(there) - wanted, key=repr)]
    for key, each in there.items():
        parts = each.string if isinstance(each.string, list | tuple) else [each.string]
        if key in wanted and (each.fuzzy or not all(parts)):
            faults.append(f"{path}: {key[0]!r} is not translated")
        faults += [f"{path}: {error}" for error in each.check()]
    return faults


def updated(path: Path) -> bytes:
    """Return the catalog with new texts added and unused ones removed."""
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
    catalogues = sorted(set(LOCALES.glob("*/LC_MESSAGES/workhook.po")) - {ENGLISH})
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
