"""Files and folders as a page shows them: one folder at a time, the newest file first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import sqlalchemy as sa

from workhook.identity.schemas import Repository
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.files.actions import file_of, files_with_people, list_folders
from workhook.work.files.schemas import File, Folder, files
from workhook.work.kernel.access import Access

FOLDERS_STEP = 500
NEWEST = "g"  # comes after every id


def _listed(in_folder: bool, not_private: bool) -> sa.Select[Any]:
    statement = files_with_people.where(
        files.c.repository_id == big("repository_id"),
        files.c.folder_id == sa.bindparam("folder_id") if in_folder else files.c.folder_id.is_(None),
        files.c.deleted_at.is_(None),
        files.c.id < sa.bindparam("before"),
    )
    if not_private:
        statement = statement.where(files.c.private.is_(sa.false()))
    return statement.order_by(files.c.id.desc()).limit(big("limit"))


_lists = {which: _listed(*which) for which in product((False, True), repeat=2)}


_counted = (
    sa.select(files.c.task_id, sa.func.count().label("files"))
    .where(any_of(files.c.task_id, "task_ids"), files.c.deleted_at.is_(None))
    .group_by(files.c.task_id)
)
_counted_open = _counted.where(files.c.private.is_(sa.false()))


async def count_files(reader: Reader, access: Access, task_ids: Sequence[str]) -> dict[str, int]:
    """The number of files by the task's id, of tasks that have any; a client's without the private ones. The tasks are
    of the project of `access`."""
    rows = await reader.fetch_all(_counted_open if access.is_client else _counted, {"task_ids": task_ids})
    return {row["task_id"]: row["files"] for row in rows}


async def list_folder_files(
    reader: Reader, repository: Repository, *, folder_id: str | None, not_private: bool, before: str, limit: int
) -> list[File]:
    """Those that are in the folder itself (None: in no folder), the newest first, from before the id `before`."""
    params = {"repository_id": repository.id, "before": before or NEWEST, "limit": limit}
    if folder_id is not None:
        params["folder_id"] = folder_id
    rows = await reader.fetch_all(_lists[folder_id is not None, not_private], params)
    return [file_of(row, repository) for row in rows]


async def all_folders(reader: Reader, repository_id: int) -> list[Folder]:
    """By title."""
    found: list[Folder] = []
    while True:
        after = found[-1].id if found else ""
        some = await list_folders(reader, repository_id, after=after, limit=FOLDERS_STEP)
        found += some
        if len(some) < FOLDERS_STEP:
            return sorted(found, key=lambda each: (each.title.casefold(), each.id))
