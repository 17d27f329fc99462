"""Files that are no table and no JSON: who chooses one is told what it is, and what to save instead."""

from __future__ import annotations

from workhook.work.portability.imports.json_file import NotUsable

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # of Excel before 2007
_ZIP = b"PK\x03\x04"
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."  # in the first entry, which is not packed
_EXCEL, _NUMBERS = b"xl/workbook", b"Index/Document.iwa"  # names of entries


def refuse_other(data: bytes) -> None:
    """Raises `NotUsable` for a file that is known by its first bytes."""
    fault = _fault(data)
    if fault is not None:
        raise NotUsable([fault])


def _fault(data: bytes) -> str | None:
    if data.startswith(b"%PDF-"):
        return "it is a PDF, and no table: export CSV or JSON from the program that made it"
    if data.startswith(_OLE) or (data.startswith(_ZIP) and _EXCEL in data):
        return "it is an Excel file: save it as CSV (UTF-8) and import that"
    if not data.startswith(_ZIP):
        return None
    if _OPEN_DOCUMENT in data[:200]:
        return "it is an OpenDocument file: save it as CSV (UTF-8) and import that"
    if _NUMBERS in data:
        return "it is a Numbers file: save it as CSV (UTF-8) and import that"
    return "it is a packed file (ZIP): unpack it and import what is in it"
