"""The SQL of files and folders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import sqlalchemy as sa

from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import row_reader, selected, stored_names, values_of
from workhook.work.access import Access, access_of, with_access
from workhook.work.files.schemas import Content, File, FileFolder, FileProject, Folder
from workhook.work.files.tables import files, folders
from workhook.work.people import membership_of, person_columns, person_of_row

_people = accounts.alias("people")
_CONTENT = Content.__struct_fields__
_read_file = row_reader(File)
_shown = (
    sa.select(
        *selected(File, files),
        folders.c.id.label("folder_id"),
        folders.c.title.label("folder_title"),
        *person_columns(membership_of(files.c.repository_id, _people), _people),
    )
    .join_from(files, _people, _people.c.id == files.c.user_id)
    .outerjoin(folders, folders.c.id == files.c.folder_id)
)
_one = with_access(_shown, files.c.repository_id).where(files.c.id == sa.bindparam("file_id"))
_locked = _one.with_for_update(of=files)
_content = (
    sa.select(*(files.c[name] for name in _CONTENT))
    .join(projects, projects.c.repository_id == files.c.repository_id)
    .where(files.c.id == sa.bindparam("file_id"), files.c.deleted_at.is_(None), projects.c.deleted_at.is_(None))
)


def _list(in_folder: bool, not_private: bool, later: bool) -> sa.Select[Any]:
    statement = _shown.where(files.c.repository_id == big("repository_id"), files.c.deleted_at.is_(None))
    if in_folder:
        statement = statement.where(files.c.folder_id == sa.bindparam("folder_id"))
    if not_private:
        statement = statement.where(files.c.private.is_(sa.false()))
    if later:
        statement = statement.where(files.c.id > sa.bindparam("after"))
    return statement.order_by(files.c.id).limit(big("limit"))


_lists = {which: _list(*which) for which in product((False, True), repeat=3)}

_insert = insert_into(files, "repository_id", "folder_id", "user_id", *stored_names(File))
_set_deleted = (
    sa.update(files)
    .where(files.c.id == sa.bindparam("file_id"))
    .values(deleted_at=big("deleted_at"), updated_at=big("updated_at"))
)

_folder_columns = selected(Folder, folders)
_folder_of_row = row_reader(Folder)
_folder = with_access(sa.select(*_folder_columns), folders.c.repository_id).where(
    folders.c.id == sa.bindparam("folder_id")
)
# Who puts a file into a folder keeps others from deleting it meanwhile, but not from putting files into it.
_folder_to_fill = _folder.where(projects.c.id == sa.bindparam("project_id")).with_for_update(
    of=folders, read=True, key_share=True
)
_folder_to_delete = _folder.with_for_update(of=folders)
_first_folders = (
    sa.select(*_folder_columns)
    .where(folders.c.repository_id == big("repository_id"))
    .order_by(folders.c.id)
    .limit(big("limit"))
)
_next_folders = _first_folders.where(folders.c.id > sa.bindparam("after"))
_insert_folder = insert_into(folders, "repository_id", *stored_names(Folder))
# A statement after the lock: what it sees is what is there now.
_delete_empty_folder = sa.delete(folders).where(
    folders.c.id == sa.bindparam("folder_id"),
    ~sa.exists().where(files.c.folder_id == folders.c.id, files.c.deleted_at.is_(None)),
)

_deleted = files.alias("deleted")
_old = (
    sa.select(_deleted.c.id)
    .where(_deleted.c.deleted_at < big("before"))
    .order_by(_deleted.c.deleted_at)
    .limit(big("limit"))
    .offset(big("offset"))
)
_purge = (
    # Once more, of the row itself: who restores it while this waits for the row keeps it.
    sa.delete(files).where(files.c.id.in_(_old), files.c.deleted_at < big("before")).returning(files.c.blob)
)
_first_account_at = sa.select(accounts.c.created_at).order_by(accounts.c.id).limit(1)
_blobs_in_use = sa.select(files.c.blob).where(any_of(files.c.blob, "blobs"))


def _file_of_row(row: Row, repository: Repository) -> File:
    """It has no link yet."""
    folder_id = row["folder_id"]
    return _read_file(
        row,
        file_link="",
        user=person_of_row(row),
        project=FileProject(repository.project_id, repository.title),
        folder=None if folder_id is None else FileFolder(folder_id, row["folder_title"]),
    )


async def find_file(reader: Reader, actor: Actor, file_id: str) -> tuple[Access, File]:
    """Also one that is deleted, or private. Raises `NotFound`."""
    row = await reader.fetch_one(_one, {"file_id": file_id, "user_id": actor.user.id})
    return _found_file(row, actor)


async def lock_file(tx: Transaction, actor: Actor, file_id: str) -> tuple[Access, File]:
    """`find_file`; nobody else changes it until the transaction ends."""
    row = await tx.fetch_one(_locked, {"file_id": file_id, "user_id": actor.user.id})
    return _found_file(row, actor)


def _found_file(row: Row | None, actor: Actor) -> tuple[Access, File]:
    access = access_of(row, actor)
    assert row is not None, "access_of raises for none"
    return access, _file_of_row(row, access.repository)


async def find_content(reader: Reader, file_id: str) -> Content | None:
    """Of a file that is there, for who has been let through already."""
    row = await reader.fetch_one(_content, {"file_id": file_id})
    return Content(*(row[name] for name in _CONTENT)) if row else None


async def list_files(
    reader: Reader, repository: Repository, *, folder_id: str | None, not_private: bool, after: str | None, limit: int
) -> list[File]:
    """By id; `after` is the id behind which to start."""
    params = {"repository_id": repository.id, "folder_id": folder_id, "after": after, "limit": limit}
    rows = await reader.fetch_all(_lists[folder_id is not None, not_private, after is not None], params)
    return [_file_of_row(row, repository) for row in rows]


async def insert_file(tx: Transaction, repository: Repository, file: File) -> None:
    places = {"repository_id": repository.id, "folder_id": file.folder and file.folder.id, "user_id": file.user.id}
    tx.defer(_insert, [{**values_of(file), **places}])


async def set_deleted(tx: Transaction, file: File) -> None:
    """As `file` says, and when."""
    params = {"file_id": file.id, "deleted_at": file.deleted_at, "updated_at": file.updated_at}
    tx.defer(_set_deleted, [params])


async def lock_folder_to_fill(
    tx: Transaction, actor: Actor, project_id: str, folder_id: str
) -> tuple[Access, Folder] | None:
    """None unless it is in this project; it stays until the transaction ends. Raises `NotFound` like `find_access`."""
    params = {"project_id": project_id, "folder_id": folder_id, "user_id": actor.user.id}
    row = await tx.fetch_one(_folder_to_fill, params)
    return (access_of(row, actor), _folder_of_row(row)) if row else None


async def lock_folder(tx: Transaction, actor: Actor, folder_id: str) -> tuple[Access, Folder]:
    """To delete it: nobody puts a file into it until the transaction ends. Raises `NotFound`."""
    row = await tx.fetch_one(_folder_to_delete, {"folder_id": folder_id, "user_id": actor.user.id})
    access = access_of(row, actor)
    assert row is not None, "access_of raises for none"
    return access, _folder_of_row(row)


async def list_folders(reader: Reader, repository_id: int, *, after: str | None, limit: int) -> list[Folder]:
    """By id; `after` is the id behind which to start."""
    params = {"repository_id": repository_id, "after": after, "limit": limit}
    rows = await reader.fetch_all(_first_folders if after is None else _next_folders, params)
    return [_folder_of_row(row) for row in rows]


async def insert_folder(tx: Transaction, repository_id: int, folder: Folder) -> None:
    await tx.execute(_insert_folder, {"repository_id": repository_id, **values_of(folder)})


async def delete_empty_folder(tx: Transaction, folder_id: str) -> bool:
    """Whether it was empty. Files that were deleted before are in no folder then."""
    return await tx.execute(_delete_empty_folder, {"folder_id": folder_id}) > 0


async def purge_files(tx: Transaction, before: int, limit: int, offset: int) -> list[str]:
    """Remove rows that were deleted before this time, at most so many, but for the first ones. Answers the names of
    their blobs."""
    params = {"before": before, "limit": limit, "offset": offset}
    return [row["blob"] for row in await tx.fetch_all(_purge, params)]


async def blobs_in_use(reader: Reader, names: Sequence[str]) -> set[str]:
    """Those that a file has, deleted ones included."""
    return {row["blob"] for row in await reader.fetch_all(_blobs_in_use, {"blobs": list(names)})}


async def first_account_at(reader: Reader) -> int | None:
    """When somebody first could upload something: milliseconds since the epoch; None: nobody can yet."""
    row = await reader.fetch_one(_first_account_at)
    return row["created_at"] if row else None
