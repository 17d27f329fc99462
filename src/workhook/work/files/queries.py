"""Files and folders as a page shows them: one folder at a time, the newest file first."""

from __future__ import annotations

from itertools import product
from typing import Any

import sqlalchemy as sa

from workhook.identity.schemas import Repository
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.work.files.actions import file_of, files_with_people, list_folders
from workhook.work.files.schemas import File, Folder, files

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
