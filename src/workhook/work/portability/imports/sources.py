"""Where an import comes from. Every source reads its files, and gives plans of one form."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Literal, NamedTuple, TypeVar

import msgspec

from workhook.work.portability.imports import asana, csv_tasks, github, github_tasks, trello_mapping
from workhook.work.portability.imports.json_file import NotUsable, parse_json
from workhook.work.portability.imports.plan import ImportPlan
from workhook.work.portability.imports.trello_export import read_export

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
        """The name without folder and ending, of which a project may get its title."""
        return PurePath(self.name.replace("\\", "/")).stem

    @property
    def original(self) -> str:
        """The stem without what browsers and systems add to the name of a copy: `plan` of `plan (1)`, `plan - Kopie`
        and `plan copy 2`. A table is known by it, and the second download of one is the same table."""
        stem = unicodedata.normalize("NFC", self.stem).strip()
        return _COPY.sub("", _COPY_OF.sub("", stem)).strip() or self.stem


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller says about files. `title`: of the project. `done` and `not_done`: names of columns
    whose tasks are finished, or are not whatever their name says. `mapping`: names of fields of a table by what they
    mean (`words.FIELDS`)."""

    title: str = ""
    done: Collection[str] = ()
    not_done: Collection[str] = ()
    mapping: Mapping[str, str] = {}


def _trello(file: SourceFile, choices: Choices) -> ImportPlan:
    return trello_mapping.plan_of(read_export(file.data), done=choices.done, not_done=choices.not_done)


def _asana(file: SourceFile, choices: Choices) -> ImportPlan:
    return asana.plan_of_project(
        asana.read_project(file.data), file.stem, title=choices.title, done=choices.done, not_done=choices.not_done
    )


def _csv(file: SourceFile, choices: Choices) -> ImportPlan:
    return csv_tasks.read_rows(
        file.data, choices.title or file.original, done=choices.done, not_done=choices.not_done, mapping=choices.mapping
    )


_READERS: Mapping[Source, Callable[[SourceFile, Choices], ImportPlan]] = {
    "trello": _trello,
    "asana": _asana,
    "csv": _csv,
}
"""What makes a project of each file."""


def plans_of(source: Source, files: Sequence[SourceFile], choices: Choices) -> list[ImportPlan]:
    """What the files make: a project of each, or of GitHub one of all. Raises `NotUsable` with what is wrong in any of
    them."""
    if source == "github":
        read = _read_each(files, lambda each: github.read_file(each.data))
        return [_github(read, files[0].stem, choices)]
    return _read_each(files, lambda each: _READERS[source](each, choices))


def _github(read: Sequence[github.GitHubFile], stem: str, choices: Choices) -> ImportPlan:
    title = choices.title or github_tasks.title_in(read, stem)
    return github_tasks.plan_of_files(read, title, done=choices.done, not_done=choices.not_done)


def _read_each(files: Sequence[SourceFile], read: Callable[[SourceFile], T]) -> list[T]:
    found, faults = [], []
    for file in files:
        try:
            refuse_other(file.data)
            found.append(read(file))
        except NotUsable as problem:
            faults += [f"{file.name}: {each}" for each in problem.faults]
    if faults:
        raise NotUsable(faults)
    return found


def plan_of_any(file: SourceFile, choices: Choices) -> ImportPlan:
    """What a file of any source makes. Raises `NotUsable`."""
    refuse_other(file.data)
    source = detect(file.data)
    if source == "github":
        return _github([github.read_file(file.data)], file.stem, choices)
    return _READERS[source](file, choices)


def detect(data: bytes) -> Source:
    """The source that a file comes from. JSON that none of the others looks like is for Trello, which says what is
    missing. Raises `NotUsable` for what begins as JSON and is none."""
    if data.lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n")[:1] not in (b"{", b"["):
        return "csv"
    found = parse_json(data)
    if asana.is_export(found):
        return "asana"
    if found and github.is_export(found):
        return "github"
    return "trello"
