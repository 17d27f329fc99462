"""What can be done with files and folders: authorise, decide, write, publish the event.

Members do everything. Clients see and download what is not private, upload, and delete what they uploaded themselves;
folders they only see. What is deleted can be restored for `trash.KEPT_MS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core.errors import Conflict, Fault, Invalid, NotFound
from workhook.core.ids import new_id
from workhook.core.records import Wire, to_response
from workhook.http.calls import Call
from workhook.http.lists import Found, Key
from workhook.identity.context import Write
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import row_reader, selected, stored_names, values_of
from workhook.work.board.tasks.schemas import tasks
from workhook.work.files.links import Links
from workhook.work.files.schemas import (
    Content,
    File,
    FileCreate,
    FileFolder,
    FileProject,
    Folder,
    file_to_response,
    files,
    folders,
)
from workhook.work.kernel import lists, questions
from workhook.work.kernel.access import Access, access_of, find_access, with_access
from workhook.work.kernel.lists import BY_USER, Filter, Listing, with_place
from workhook.work.kernel.pages import length
from workhook.work.kernel.people import membership_of, person_columns, person_of_row, person_shape
from workhook.work.kernel.quota import UsageMemory, memory_of, takes_file, too_large
from workhook.work.kernel.record_events import publish_event
from workhook.work.kernel.schemas import if_set
from workhook.work.kernel.scopes import Scope, Source

_people = accounts.alias("people")
_read_file = row_reader(File)
files_with_people = (
    sa.select(
        *selected(File, files),
        files.c.folder_id.label("in_folder_id"),
        folders.c.id.label("folder_id"),
        folders.c.title.label("folder_title"),
        *person_columns(membership_of(files.c.repository_id, _people), _people),
    )
    .join_from(files, _people, _people.c.id == files.c.user_id)
    .outerjoin(folders, folders.c.id == files.c.folder_id)
)
_this_file = files.c.id == sa.bindparam("file_id")
_one = with_access(files_with_people, files.c.repository_id).where(_this_file)
_locked = _one.with_for_update(of=files)
_lock_all = sa.select(files.c.id).where(any_of(files.c.id, "ids")).order_by(files.c.id).with_for_update()
_content = (
    sa.select(*(files.c[name] for name in Content.__struct_fields__))
    .join(projects, projects.c.repository_id == files.c.repository_id)
    .where(_this_file, files.c.deleted_at.is_(None), projects.c.deleted_at.is_(None))
)


_insert = insert_into(files, "repository_id", "folder_id", "user_id", *stored_names(File))
_set_deleted = sa.update(files).where(_this_file).values(deleted_at=big("deleted_at"), updated_at=big("updated_at"))

_folder_columns = selected(Folder, folders)
_folder_of = row_reader(Folder)
_folder = with_access(sa.select(*_folder_columns), folders.c.repository_id).where(
    folders.c.id == sa.bindparam("folder_id")
)
# Who puts a file into a folder keeps others from deleting it meanwhile, but not from putting files into it.
_folder_to_fill = _folder.where(projects.c.id == sa.bindparam("project_id")).with_for_update(
    of=folders, read=True, key_share=True
)
# Who attaches a file to a task keeps it from being removed for good meanwhile, and nobody from changing it.
_task_to_hold = (
    sa.select(tasks.c.id)
    .where(
        tasks.c.id == sa.bindparam("task_id"),
        tasks.c.repository_id == big("repository_id"),
        tasks.c.deleted_at.is_(None),
    )
    .with_for_update(of=tasks, read=True, key_share=True)
)
_folder_to_delete = _folder.with_for_update(of=folders)
_folders = (
    sa.select(*_folder_columns)
    .where(folders.c.repository_id == big("repository_id"), folders.c.id > sa.bindparam("after"))
    .order_by(folders.c.id)
    .limit(big("limit"))
)
_insert_folder = insert_into(folders, "repository_id", *stored_names(Folder))
# A statement after the lock: what it sees is what is there now. Files that were deleted are in no folder then.
_delete_empty_folder = sa.delete(folders).where(
    folders.c.id == sa.bindparam("folder_id"),
    ~sa.exists().where(files.c.folder_id == folders.c.id, files.c.deleted_at.is_(None)),
)


# --- files ------------------------------------------------------------------------------------------------------------


_of_task = sa.select(tasks.c.repository_id).where(tasks.c.id == sa.bindparam("task_id")).scalar_subquery()
_of_folder = sa.select(folders.c.repository_id).where(folders.c.id == sa.bindparam("folder")).scalar_subquery()


def _whole(page: sa.CTE, scope: Scope) -> sa.Select[Any]:
    return with_place(files_with_people.join(page, page.c.id == files.c.id), page, scope)


# Clients do not see private files. Files have no links yet.
FILES = Listing(
    files,
    _whole,
    lambda row, place, _: file_in(row, FileProject(place.id, place.title)),
    length(files.c.title),
    {
        "folder": Filter(lambda row: row.c.folder_id == sa.bindparam("folder"), indexed=True, project=_of_folder),
        "task_id": Filter(lambda row: row.c.task_id == sa.bindparam("task_id"), indexed=True, project=_of_task),
        "user": BY_USER,
    },
    seen=lambda row, insider: sa.and_(row.c.deleted_at.is_(None), sa.or_(insider, row.c.private.is_(sa.false()))),
    reads=["deleted_at", "private"],
)


async def list_files(
    reader: Reader, source: Source, filters: Mapping[str, object], *, after: Key | None, limit: int
) -> Found[File]:
    """By id; `after` is the key behind which to start."""
    return await lists.read(reader, FILES, source, filters, after=after, limit=limit)


async def find_file(reader: Reader, actor: Actor, file_id: str) -> tuple[Access, File]:
    """Raises `NotFound`."""
    access, file = await _fetch(reader, _one, actor, file_id)
    if file.deleted_at is not None:
        raise NotFound()
    return access, file


async def lock_file(tx: Transaction, actor: Actor, file_id: str) -> tuple[Access, File]:
    """`find_file`; nobody else changes it until the transaction ends."""
    access, file = await _fetch(tx, _locked, actor, file_id)
    if file.deleted_at is not None:
        raise NotFound()
    return access, file


async def lock_files(tx: Transaction, actor: Actor, file_ids: Collection[str]) -> list[tuple[Access, File]]:
    """`lock_file` for each, by id, so that two that lock several wait for each other and never in a circle. Raises
    `NotFound` unless all are there."""
    wanted = sorted(set(file_ids))
    await tx.fetch_all(_lock_all, {"ids": wanted})
    return [await find_file(tx, actor, each) for each in wanted]


async def find_content(reader: Reader, file_id: str) -> Content | None:
    """The content of a file that is there, for who has been let through already."""
    row = await reader.fetch_one(_content, {"file_id": file_id})
    return Content(*(row[name] for name in Content.__struct_fields__)) if row else None


async def create_file(
    write: Write, project_id: str, create: FileCreate, content: Content, *, links: Links
) -> Wire[File]:
    """`content` is in the store already. Raises `NotFound`, `Forbidden`, `Conflict`, `Invalid`."""
    access, folder = await find_place(write.tx, write.actor, project_id, create.folder)
    access.require_writable()
    if create.private is True:
        access.require_member("make files private")
    task_id = await find_task_of(write.tx, access, if_set(create.task_id))
    file = File(
        id=new_id("fil"),
        title=content.name if isinstance(create.title, UnsetType) else create.title,
        file_link="",
        user=person_shape(write.actor.user),
        project=FileProject(access.repository.project_id, access.repository.title),
        private=create.private is True,
        folder=folder,
        task_id=task_id,
        created_at=write.now,
        updated_at=write.now,
        deleted_at=None,
        **msgspec.structs.asdict(content),
    )
    places = {"repository_id": access.repository.id, "folder_id": folder and folder.id, "user_id": file.user.id}
    write.tx.defer(_insert, [{**values_of(file), **places}])
    return await _publish(write, access, "created", file, links)


async def delete_file(write: Write, access: Access, file: File, *, links: Links) -> None:
    """`access` and `file` are what `lock_file` gave. Raises `Forbidden`, `Conflict`."""
    access.require_writable()
    access.require_own(file.user.id, "delete")
    if not file.private:
        await questions.require_not_logo(write.tx, access.repository.id, file.id, "deleted")
    await questions.require_own_file(write.tx, access, file.id)
    now = max(write.now, file.updated_at + 1)
    await _publish(write, access, "deleted", _write_deleted(write.tx, file, now, now), links)


async def restore_file(write: Write, file_id: str, *, links: Links) -> Wire[File]:
    """It is there again, with its comments. Raises `NotFound` for one that was purged, `Forbidden`, `Conflict`."""
    access, file = await _fetch(write.tx, _locked, write.actor, file_id)
    if file.deleted_at is None:
        return file_to_response(file, links)
    access.require_writable()
    access.require_own(file.user.id, "restore")
    restored = _write_deleted(write.tx, file, None, max(write.now, file.updated_at + 1))
    return await _publish(write, access, "created", restored, links)


async def _fetch(reader: Reader, statement: sa.Select[Any], actor: Actor, file_id: str) -> tuple[Access, File]:
    """Also a file that is deleted. Raises `NotFound`."""
    params = {"file_id": file_id, "user_id": actor.user.id}
    row = await reader.fetch_one(statement, params)
    if row is not None and row["in_folder_id"] != row["folder_id"]:
        row = await reader.fetch_one(_one, params)  # it was moved while this waited for the lock
    access = access_of(row, actor)
    assert row is not None, "access_of raises for none"
    file = file_of(row, access.repository)
    access.require_sight(file.private)
    return access, file


def file_of(row: Row, repository: Repository) -> File:
    """The file of a row of `files_with_people`. It has no link yet."""
    return file_in(row, FileProject(repository.project_id, repository.title))


def file_in(row: Row, project: FileProject) -> File:
    """`file_of` where no more is known of the project."""
    folder_id = row["folder_id"]
    return _read_file(
        row,
        file_link="",
        user=person_of_row(row),
        project=project,
        folder=None if folder_id is None else FileFolder(folder_id, row["folder_title"]),
    )


def _write_deleted(tx: Transaction, file: File, deleted_at: int | None, now: int) -> File:
    tx.defer(_set_deleted, [{"file_id": file.id, "deleted_at": deleted_at, "updated_at": now}])
    return msgspec.structs.replace(file, deleted_at=deleted_at, updated_at=now)


async def find_place(
    tx: Transaction, actor: Actor, project_id: str, folder_id: str | UnsetType | None
) -> tuple[Access, FileFolder | None]:
    """The project that a file comes to, and the folder, which stays until the transaction ends."""
    if folder_id is None or isinstance(folder_id, UnsetType):
        return await find_access(tx, actor, project_id), None
    params = {"project_id": project_id, "folder_id": folder_id, "user_id": actor.user.id}
    row = await tx.fetch_one(_folder_to_fill, params)
    if row is None:
        await find_access(tx, actor, project_id)
        raise Invalid(faults=[Fault(field="folder", message="folder must be one of the project")])
    folder = _folder_of(row)
    return access_of(row, actor), FileFolder(folder.id, folder.title)


async def find_task_of(tx: Transaction, access: Access, task_id: str | None) -> str | None:
    """The id of the task that a file is attached to, which stays until the transaction ends. Raises `Invalid` unless it
    is a task of the file's project that is not in the trash."""
    if task_id is None:
        return None
    row = await tx.fetch_one(_task_to_hold, {"task_id": task_id, "repository_id": access.repository.id})
    if row is None:
        message = "task_id: there is no such task in the file's project"
        raise Invalid(faults=[Fault(field="task_id", code="not_found", message=message)])
    return task_id


async def _publish(write: Write, access: Access, action: str, file: File, links: Links) -> Wire[File]:
    record = file_to_response(file, links)
    await publish_event(write, access.repository, "file", action, record)
    return record


# --- folders ----------------------------------------------------------------------------------------------------------


async def list_folders(reader: Reader, repository_id: int, *, after: str, limit: int) -> list[Folder]:
    """By id, from behind `after`."""
    params = {"repository_id": repository_id, "after": after, "limit": limit}
    return [_folder_of(row) for row in await reader.fetch_all(_folders, params)]


async def create_folder(write: Write, project_id: str, title: str) -> Wire[Folder]:
    """Raises `NotFound`, `Forbidden`, `Conflict`."""
    access = await find_access(write.tx, write.actor, project_id)
    access.require_writable()
    access.require_member("create folders")
    folder = Folder(new_id("fld"), title, write.now, write.now)
    await write.tx.execute(_insert_folder, {"repository_id": access.repository.id, **values_of(folder)})
    record = to_response(folder)
    await publish_event(write, access.repository, "folder", "created", record)
    return record


async def lock_folder(tx: Transaction, actor: Actor, folder_id: str) -> tuple[Access, Folder]:
    """Nobody puts a file into it until the transaction ends. Raises `NotFound`."""
    row = await tx.fetch_one(_folder_to_delete, {"folder_id": folder_id, "user_id": actor.user.id})
    access = access_of(row, actor)
    assert row is not None, "access_of raises for none"
    return access, _folder_of(row)


async def delete_folder(write: Write, access: Access, folder: Folder) -> None:
    """`access` and `folder` are what `lock_folder` gave. Raises `Forbidden`, `Conflict` unless it is empty."""
    access.require_writable()
    access.require_member("delete folders")
    if await write.tx.execute(_delete_empty_folder, {"folder_id": folder.id}) == 0:
        raise Conflict("The folder holds files; delete them first.", code="not_empty")
    await publish_event(write, access.repository, "folder", "deleted", to_response(folder))


# --- quota: whether a file fits beside what its organization (or person) has ------------------------------------------

_used = (
    sa.select(sa.cast(sa.func.coalesce(sa.func.sum(files.c.size), 0), sa.BigInteger).label("bytes"))
    .join_from(projects, files, files.c.repository_id == projects.c.repository_id)
    .where(projects.c.account_id == big("account_id"))
)
# Uploads of one organization end one after the other, so that each counts those before it.
_lock = sa.select(accounts.c.id).where(accounts.c.id == big("account_id")).with_for_update(key_share=True)


async def require_room(call: Call, access: Access, more_bytes: int) -> None:
    """Raises `TooLarge` unless a file of `more_bytes` fits beside what the project's owner has."""
    memory = memory_of(call.services)
    if memory is not None and memory.limits.mb:
        await _require_room(call.database, memory, access, more_bytes)


async def reserve_room(tx: Transaction, call: Call, access: Access, more_bytes: int) -> None:
    """`require_room`, exactly: until the transaction ends no other upload to the account passes here."""
    memory = memory_of(call.services)
    if memory is not None and memory.limits.mb:
        account_id = access.repository.owner.id
        await tx.fetch_one(_lock, {"account_id": account_id})
        beside = await _require_room(tx, memory, access, more_bytes)
        takes_file(tx, call, memory, account_id, more_bytes, beside=beside)


async def _require_room(reader: Reader, memory: UsageMemory, access: Access, more_bytes: int) -> int:
    """Files are counted now, events as `memory` has them. Returns the bytes of the files that are there."""
    account_id = access.repository.owner.id
    row = await reader.fetch_one(_used, {"account_id": account_id})
    file_bytes: int = row["bytes"] if row else 0
    known = await memory.usage(account_id)
    used = file_bytes + (known.event_bytes if known else 0)
    if used + more_bytes > memory.limits.bytes:
        raise too_large(memory.limits.mb, None if access.is_client else used)
    return file_bytes
