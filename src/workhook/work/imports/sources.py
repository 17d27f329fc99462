"""Where an import comes from. Every source reads its files, and gives plans of one form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Literal, NamedTuple

import msgspec

from workhook.work.imports import csv_tasks
from workhook.work.imports.json_file import NotUsable, parse_json
from workhook.work.imports.plan import ImportPlan
from workhook.work.imports.trello import mapping as trello_mapping
from workhook.work.imports.trello.export import read_export

Source = Literal["trello", "csv"]


class SourceFile(NamedTuple):
    name: str
    data: bytes

    @property
    def stem(self) -> str:
        """The name without folder and ending, of which a project may get its title."""
        return PurePath(self.name.replace("\\", "/")).stem


class Choices(msgspec.Struct, frozen=True):
    """What the caller says about files. `title`: of the project. `done`: names of columns whose tasks are finished.
    `mapping`: names of fields of a table by what they mean (`csv_tasks.NAMES`)."""

    title: str = ""
    done: Collection[str] = ()
    mapping: Mapping[str, str] = {}


def _trello(file: SourceFile, choices: Choices) -> ImportPlan:
    return trello_mapping.plan_of(read_export(file.data), done=choices.done)


def _csv(file: SourceFile, choices: Choices) -> ImportPlan:
    return csv_tasks.read_rows(file.data, choices.title or file.stem, done=choices.done, mapping=choices.mapping)


_READERS: Mapping[Source, Callable[[SourceFile, Choices], ImportPlan]] = {"trello": _trello, "csv": _csv}


def plans_of(source: Source, files: Sequence[SourceFile], choices: Choices) -> list[ImportPlan]:
    """What the files make: a project of each. Raises `NotUsable` with what is wrong in any of them."""
    plans, faults = [], []
    for file in files:
        try:
            plans.append(_READERS[source](file, choices))
        except NotUsable as problem:
            faults += [f"{file.name}: {each}" for each in problem.faults]
    if faults:
        raise NotUsable(faults)
    return plans


def plan_of_any(file: SourceFile, choices: Choices) -> ImportPlan:
    """What a file of any source makes. Raises `NotUsable`."""
    return _READERS[detect(file.data)](file, choices)


def detect(data: bytes) -> Source:
    """The source that a file comes from. Raises `NotUsable` for JSON of none of them."""
    if data.lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n")[:1] not in (b"{", b"["):
        return "csv"
    parse_json(data)
    return "trello"
