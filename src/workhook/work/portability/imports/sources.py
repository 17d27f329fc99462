"""The sources of imports. Every source parses its files and returns plans in a common format."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Literal, NamedTuple, TypeVar

from workhook.work.portability.imports import asana, csv_tasks, github, trello
from workhook.work.portability.imports.json_file import InvalidFile, parse_json
from workhook.work.portability.imports.plan import Choices, ImportPlan

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # Excel before 2007
_ZIP = b"PK\x03\x04"
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."  # stored uncompressed in the first entry
_EXCEL, _NUMBERS = b"xl/workbook", b"Index/Document.iwa"  # names of ZIP entries


def refuse_other(data: bytes) -> None:
    """Raise `InvalidFile` for unsupported formats recognized by their magic numbers."""
    if data.startswith(b"%PDF-"):
        fault = "this is a PDF; export CSV or JSON from the program that created it"
    elif data.startswith(_OLE) or (data.startswith(_ZIP) and _EXCEL in data):
        fault = "this is an Excel file; save it as CSV (UTF-8) and import that"
    elif not data.startswith(_ZIP):
        return
    elif _OPEN_DOCUMENT in data[:200]:
        fault = "this is an OpenDocument file; save it as CSV (UTF-8) and import that"
    elif _NUMBERS in data:
        fault = "this is a Numbers file; export it as CSV (UTF-8) and import that"
    else:
        fault = "this is a ZIP file; unzip it and import its contents"
    raise InvalidFile([fault])


T = TypeVar("T")

Source = Literal["trello", "asana", "github", "csv"]

_COPY = re.compile(
    r"""(?: \s* \(\d{1,2}\)
          | \s+ (?:-\s+)? (?:copy|kopie|copie|copia|cópia) (?:\s+\d{1,2})?
        )+ $""",
    re.IGNORECASE | re.VERBOSE,
)
_COPY_OF = re.compile(r"^(?:copy of|kopie von|copie de|copia de|copia di|kopie van|cópia de)\s+", re.IGNORECASE)


class SourceFile(NamedTuple):
    name: str
    data: bytes

    @property
    def stem(self) -> str:
        return PurePath(self.name.replace("\\", "/")).stem

    @property
    def original(self) -> str:
        """Return the stem without the suffix of a copy: `plan` for `plan (1)`, `plan - Kopie` and `plan copy 2`.

        This name identifies the project of a table.
        """
        stem = unicodedata.normalize("NFC", self.stem).strip()
        return _COPY.sub("", _COPY_OF.sub("", stem)).strip() or self.stem


_READERS: Mapping[Source, Callable[[SourceFile, Choices], ImportPlan]] = {
    "trello": lambda file, choices: trello.plan_of(trello.read_export(file.data), choices),
    "asana": lambda file, choices: asana.plan_of_project(asana.read_project(file.data), file.stem, choices),
    "csv": lambda file, choices: csv_tasks.read_rows(file.data, choices.title or file.original, choices),
    "github": lambda file, choices: _github([github.read_file(file.data)], file.stem, choices),
}


def plans_of(source: Source, files: Sequence[SourceFile], choices: Choices) -> list[ImportPlan]:
    """Return a plan for each file, or for GitHub one plan for all files.

    Raises `InvalidFile` with the faults of all files.
    """
    if source == "github":
        read = _read_each(files, lambda each: github.read_file(each.data))
        return [_github(read, files[0].stem, choices)]
    return _read_each(files, lambda each: _READERS[source](each, choices))


def _github(read: Sequence[github.GitHubFile], stem: str, choices: Choices) -> ImportPlan:
    return github.plan_of_files(read, choices.title or github.title_in(read, stem), choices)


def _read_each(files: Sequence[SourceFile], read: Callable[[SourceFile], T]) -> list[T]:
    found, faults = [], []
    for file in files:
        try:
            refuse_other(file.data)
            found.append(read(file))
        except InvalidFile as problem:
            faults += [f"{file.name}: {each}" for each in problem.faults]
    if faults:
        raise InvalidFile(faults)
    return found


def plan_of_any(file: SourceFile, choices: Choices) -> ImportPlan:
    """Plan a file after detecting its source. Raises `InvalidFile`."""
    refuse_other(file.data)
    return _READERS[detect(file.data)](file, choices)


def detect(data: bytes) -> Source:
    """Return the source of a file. Raises `InvalidFile`.

    Unrecognized JSON is attributed to Trello, whose reader reports what is missing.
    """
    if data.lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n")[:1] not in (b"{", b"["):
        return "csv"
    found = parse_json(data)
    if asana.is_export(found):
        return "asana"
    if found and github.is_export(found):
        return "github"
    return "trello"
