"""What an import makes: a project, its columns, their tasks, and what is said of those. Nothing of it is written yet.

Every key is `KIND:ID` with the id of the other service: by it a later import knows what was made already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from workhook.core import json
from workhook.work.columns.schemas import Stage, completes
from workhook.work.imports.trello import Member


class PlannedColumn(msgspec.Struct, frozen=True):
    key: str
    title: str
    stage: Stage | None = None
    finished: bool = False

    @property
    def completes(self) -> bool:
        """A task that is in such a column is finished."""
        return completes(self.stage, self.finished)


class PlannedComment(msgspec.Struct, frozen=True):
    """`created_at` None: nobody knows."""

    key: str
    text: str
    author: Member
    created_at: int | None


class PlannedTask(msgspec.Struct, frozen=True):
    """`finished_at`: when, as far as that is known, for a task that is `finished`. Comments are oldest first."""

    key: str
    column_key: str
    title: str
    description: str | None
    deadline: int | None
    cover_url: str | None
    labels: list[str]
    fields: dict[str, str]
    sections: dict[str, dict[str, str]]
    members: list[Member]
    finished: bool
    finished_at: int | None
    created_at: int | None
    comments: list[PlannedComment]


class Plan(msgspec.Struct, frozen=True):
    """Columns in their order; tasks in the order of their columns, and in each in theirs."""

    source: str
    key: str
    title: str
    columns: list[PlannedColumn]
    tasks: list[PlannedTask]
    warnings: list[str]


def fingerprint(planned: PlannedColumn | PlannedTask | PlannedComment) -> str:
    """Tells two states of one thing of the other service apart. The comments of a task are not part of it."""
    values: Mapping[str, object] = {
        name: getattr(planned, name) for name in planned.__struct_fields__ if name not in ("comments", "finished_at")
    }
    return hashlib.blake2b(json.encode(values), digest_size=12).hexdigest()
