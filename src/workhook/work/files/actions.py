"""Actions on files and folders: authorize, validate, write, publish the event.

Members can do everything. Clients can view and download files that are not private, upload files, and delete their own
uploads; they can only view folders. Deleted files can be restored for `KEPT_MS`, and are then removed with their
content.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
import structlog
from msgspec import UnsetType

from workhook.core.clock import DAY_MS
from workhook.core.errors import Conflict, Invalid, NotFound
from workhook.core.ids import lower_bound_id, new_id
from workhook.core.records import Wire, to_response
from workhook.http.calls import Call, Services
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.record_rows import row_reader, selected, stored_names, values_of
from workhook.storage.sweeping import in_batches
from workhook.work.board.tasks.schemas import tasks
from workhook.work.files.links import links_of
from workhook.work.files.schemas import (
    Content,
    File,
    FileCreate,
    FileEdit,
    FileFolder,
    FileProject,
    Folder,
    FolderEdit,
    file_to_response,
    files,
    folders,
)
from workhook.work.kernel import lists, questions
from workhook.work.kernel.access import Access, find_access, find_with_access, to_access, with_access
from workhook.work.kernel.billing_settings import billing_logos
from workhook.work.kernel.lists import BY_USER, Filter, Listing, with_place
from workhook.work.kernel.people import membership_of, person_columns, person_of_row, person_to_response
from workhook.work.kernel.quota import add_file, memory_of, too_large
from workhook.work.kernel.record_events import RecordEvent, differences, publish_event, publish_events
from workhook.work.kernel.schemas import if_set
from workhook.work.kernel.scopes import source_of_project

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
_file_by_id = with_access(files_with_people, files.c.repository_id).where(_this_file)
_locked = _file_by_id.with_for_update(of=files)
_lock_all = sa.select(files.c.id).where(any_of(files.c.id, "ids")).order_by(files.c.id).with_for_update()
_content = (
    sa.select(*(files.c[name] for name in Content.__struct_fields__))
    .join(projects, projects.c.repository_id == files.c.repository_id)
    .where(_this_file, files.c.deleted_at.is_(None), projects.c.deleted_at.is_(None))
)

_insert = insert_into(files, "repository_id", "folder_id", "user_id", *stored_names(File))
_set_deleted = (
    sa.update(files)
    .where(_this_file)
    .values(deleted_at=bigint_param("deleted_at"), updated_at=bigint_param("updated_at"))
)

_folder_columns = selected(Folder, folders)
_folder_of = row_reader(Folder)
_folder = with_access(sa.select(*_folder_columns), folders.c.repository_id).where(
    folders.c.id == sa.bindparam("folder_id")
)
# Adding a file to a folder prevents the folder's deletion, but not the addition of other files.
_folder_to_fill = _folder.where(projects.c.id == sa.bindparam("project_id")).with_for_update(
    of=folders, read=True, key_share=True
)
# Attaching a file to a task prevents the task from being purged, but not from being changed.
_task_to_hold = (
    sa.select(tasks.c.id)
    .where(
        tasks.c.id == sa.bindparam("task_id"),
        tasks.c.repository_id == bigint_param("repository_id"),
        tasks.c.deleted_at.is_(None),
    )
    .with_for_update(of=tasks, read=True, key_share=True)
)
_folder_to_delete = _folder.with_for_update(of=folders)
_insert_folder = insert_into(folders, "repository_id", *stored_names(Folder))
# Runs after the lock, so that it sees the current files. Files in the trash lose their folder.
_delete_empty_folder = sa.delete(folders).where(
    folders.c.id == sa.bindparam("folder_id"),
    ~sa.exists().where(files.c.folder_id == folders.c.id, files.c.deleted_at.is_(None)),
)

_of_task = sa.select(tasks.c.repository_id).where(tasks.c.id == sa.bindparam("task_id")).scalar_subquery()
_of_folder = sa.select(folders.c.repository_id).where(folders.c.id == sa.bindparam("folder")).scalar_subquery()


# Private files are hidden from clients. The files do not have links yet.
FILES = Listing(
    files,
    lambda page, scope: with_place(files_with_people.join(page, page.c.id == files.c.id), page, scope),
    lambda row, place, _: _file_of(row, FileProject(place.id, place.title)),
    filters={
        "folder": Filter(lambda row: row.c.folder_id == sa.bindparam("folder"), indexed=True, project=_of_folder),
        "unfiled": Filter(lambda row: row.c.folder_id.is_(None), indexed=True),
        "task_id": Filter(lambda row: row.c.task_id == sa.bindparam("task_id"), indexed=True, project=_of_task),
        "user": BY_USER,
    },
    is_visible=lambda row, insider: sa.and_(row.c.deleted_at.is_(None), sa.or_(insider, row.c.private.is_(sa.false()))),
    reads=["deleted_at", "private"],
)


async def find_file(
    reader: Reader, actor: Actor, file_id: str, statement: sa.Select[Any] = _file_by_id
) -> tuple[Access, File]:
    access, file = await _fetch(reader, statement, actor, file_id)
    if file.deleted_at is not None:
        raise NotFound()
    return access, file


async def lock_file(tx: Transaction, actor: Actor, file_id: str) -> tuple[Access, File]:
    return await find_file(tx, actor, file_id, _locked)


async def find_content(reader: Reader, file_id: str) -> Content | None:
    """Return the content of a file that is not deleted, without checking rights."""
    row = await reader.fetch_one(_content, {"file_id": file_id})
    return Content(*(row[name] for name in Content.__struct_fields__)) if row else None


async def create_file(write: Write, project_id: str, create: FileCreate, content: Content) -> Wire[File]:
    """Create a file whose content is already in the store."""
    access, folder = await find_place(write.tx, write.actor, project_id, create.folder)
    access.require_writable()
    if create.private is True:
        access.require_member("make files private")
    task_id = await find_task_of(write.tx, access, if_set(create.task_id))
    file = File(
        id=new_id("fil"),
        title=content.name if isinstance(create.title, UnsetType) else create.title,
        file_link="",
        user=person_to_response(write.actor.user),
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
    return await _publish(write, access, "created", file)


async def delete_file(write: Write, access: Access, file: File) -> None:
    """Move a file that was locked by `lock_file` to the trash."""
    access.require_writable()
    access.require_own(file.user.id, "delete")
    if not file.private:
        await questions.require_not_logo(write.tx, access.repository.id, file.id, "deleted")
    await questions.require_own_file(write.tx, access, file.id)
    now = max(write.now, file.updated_at + 1)
    await _publish(write, access, "deleted", _write_deleted(write.tx, file, now, now))


async def restore_file(write: Write, file_id: str) -> Wire[File]:
    access, file = await _fetch(write.tx, _locked, write.actor, file_id)
    if file.deleted_at is None:
        return file_to_response(file, links_of(write.call))
    access.require_writable()
    access.require_own(file.user.id, "restore")
    restored = _write_deleted(write.tx, file, None, max(write.now, file.updated_at + 1))
    return await _publish(write, access, "created", restored)


async def _fetch(reader: Reader, statement: sa.Select[Any], actor: Actor, file_id: str) -> tuple[Access, File]:
    """Return a file, even if it is in the trash."""
    row, access = await find_with_access(reader, statement, actor, file_id=file_id)
    if row["in_folder_id"] != row["folder_id"]:  # it was moved while this statement waited for the lock
        row, access = await find_with_access(reader, _file_by_id, actor, file_id=file_id)
    file = _file_of(row, FileProject(access.repository.project_id, access.repository.title))
    access.require_visible(file.private)
    return access, file


def _file_of(row: Row, project: FileProject) -> File:
    """Read a file, without its link, from a row of `files_with_people`."""
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
    """Return the access to the project, and the folder, which cannot be deleted until the transaction ends."""
    if folder_id is None or isinstance(folder_id, UnsetType):
        return await find_access(tx, actor, project_id), None
    params = {"project_id": project_id, "folder_id": folder_id, "user_id": actor.user.id}
    row = await tx.fetch_one(_folder_to_fill, params)
    if row is None:
        await find_access(tx, actor, project_id)
        raise Invalid.at("folder", "folder must belong to the project")
    folder = _folder_of(row)
    return to_access(row, actor), FileFolder(folder.id, folder.title)


async def find_task_of(tx: Transaction, access: Access, task_id: str | None) -> str | None:
    """Keep the task from being purged until the transaction ends.

    Raises `Invalid` unless the task is in the file's project.
    """
    if task_id is None:
        return None
    row = await tx.fetch_one(_task_to_hold, {"task_id": task_id, "repository_id": access.repository.id})
    if row is None:
        message = "task_id: the file's project has no such task"
        raise Invalid.at("task_id", message, code="not_found")
    return task_id


async def _publish(write: Write, access: Access, action: str, file: File) -> Wire[File]:
    record = file_to_response(file, links_of(write.call))
    await publish_event(write, access.repository, "file", action, record)
    return record


# --- folders ----------------------------------------------------------------------------------------------------------

FOLDERS = Listing[Folder](
    folders,
    lambda page, _: sa.select(*_folder_columns).join(page, page.c.id == folders.c.id),
    lambda row, _, __: _folder_of(row),
)


async def create_folder(write: Write, project_id: str, title: str) -> Wire[Folder]:
    access = await find_access(write.tx, write.actor, project_id)
    access.require_writable()
    access.require_member("create folders")
    folder = Folder(new_id("fld"), title, write.now, write.now)
    await write.tx.execute(_insert_folder, {"repository_id": access.repository.id, **values_of(folder)})
    record = to_response(folder)
    await publish_event(write, access.repository, "folder", "created", record)
    return record


async def lock_folder(tx: Transaction, actor: Actor, folder_id: str) -> tuple[Access, Folder]:
    """Lock a folder, so that no files are added to it until the transaction ends."""
    row, access = await find_with_access(tx, _folder_to_delete, actor, folder_id=folder_id)
    return access, _folder_of(row)


async def delete_folder(write: Write, access: Access, folder: Folder) -> None:
    """Delete a folder. Raises `Conflict` unless it is empty."""
    access.require_writable()
    access.require_member("delete folders")
    if await write.tx.execute(_delete_empty_folder, {"folder_id": folder.id}) == 0:
        raise Conflict("The folder contains files; delete them first.", code="not_empty")
    await publish_event(write, access.repository, "folder", "deleted", to_response(folder))


# --- quota: the room for another file in the organization's (or person's) storage -------------------------------------

_used = (
    sa.select(sa.cast(sa.func.coalesce(sa.func.sum(files.c.size), 0), sa.BigInteger).label("bytes"))
    .join_from(projects, files, files.c.repository_id == projects.c.repository_id)
    .where(projects.c.account_id == bigint_param("account_id"))
)
# Serialize the uploads of an organization, so that each one counts those before it.
_lock = sa.select(accounts.c.id).where(accounts.c.id == bigint_param("account_id")).with_for_update(key_share=True)


async def require_room(call: Call, access: Access, more_bytes: int, tx: Transaction | None = None) -> None:
    """Raise `TooLarge` unless another `more_bytes` fit into the quota of the project's owner.

    Files are counted now; the size of events is that of the last count. With `tx`, the bytes are reserved under a lock,
    which holds off other uploads to the account until the transaction ends.
    """
    memory, account = memory_of(call.services), {"account_id": access.repository.owner.id}
    if memory is None or not memory.limits.mb:
        return
    if tx is not None:
        await tx.fetch_one(_lock, account)
    row = await (call.database if tx is None else tx).fetch_row(_used, account)
    known = await memory.usage(access.repository.owner.id)
    used = row["bytes"] + (known.event_bytes if known else 0)
    if used + more_bytes > memory.limits.bytes:
        raise too_large(memory.limits.mb, None if access.is_client else used)
    if tx is not None:
        add_file(tx, call, memory, access.repository.owner.id, more_bytes, other_bytes=row["bytes"])


_update_file = (
    sa.update(files)
    .where(files.c.id == sa.bindparam("file_id"))
    .values(
        title=sa.bindparam("title"),
        folder_id=sa.bindparam("folder_id", type_=sa.Text()),
        task_id=sa.bindparam("task_id", type_=sa.Text()),
        private=sa.bindparam("private"),
        updated_at=bigint_param("updated_at"),
    )
)
_update_folder = (
    sa.update(folders)
    .where(folders.c.id == sa.bindparam("folder_id"))
    .values(title=sa.bindparam("title"), updated_at=bigint_param("updated_at"))
)


async def edit_file(write: Write, access: Access, file: File, edit: FileEdit) -> Wire[File]:
    """Edit a file that was locked by `lock_file`."""
    access.require_writable()
    access.require_own(file.user.id, "change")
    folder = file.folder
    if edit.folder is None:
        folder = None
    elif not isinstance(edit.folder, UnsetType):
        _, folder = await find_place(write.tx, write.actor, access.repository.project_id, edit.folder)
    task_id = if_set(edit.task_id, file.task_id)
    if task_id != file.task_id:
        task_id = await find_task_of(write.tx, access, task_id)
    private = if_set(edit.private, file.private)
    if private != file.private:
        access.require_member("make files private")
    if private and not file.private:
        await questions.require_not_logo(write.tx, access.repository.id, file.id, "made private")
    title = if_set(edit.title, file.title)
    after = msgspec.structs.replace(file, title=title, folder=folder, private=private, task_id=task_id)
    [record] = await _write_files(write, access, [(file, after)])
    return record


async def _write_files(write: Write, access: Access, changed: Sequence[tuple[File, File]]) -> list[Wire[File]]:
    """Write the files that changed, given as pairs of before and after, with their events."""
    links = links_of(write.call)
    rows, events, records = [], [], []
    for before, after in changed:
        shown = file_to_response(before, links)
        if after != before:
            after = msgspec.structs.replace(after, updated_at=max(write.now, before.updated_at + 1))
            place = {"folder_id": after.folder and after.folder.id, "task_id": after.task_id}
            content = {"title": after.title, "private": after.private, "updated_at": after.updated_at}
            rows.append({"file_id": after.id, **place, **content})
            record = file_to_response(after, links)
            changes = differences(shown, record)
            events.append(RecordEvent(access.repository, "file", "edited", record, changes))
            shown = record
        records.append(shown)
    if rows:
        await write.tx.execute_many(_update_file, rows)
        await publish_events(write, events)
    return records


async def move_files(write: Write, access: Access, file_ids: Collection[str], folder_id: str | None) -> list[File]:
    """Move files of one project, all or none, and return their previous states. `folder_id` None means no folder."""
    wanted = sorted(set(file_ids))
    await write.tx.fetch_all(_lock_all, {"ids": wanted})
    found = [await find_file(write.tx, write.actor, each) for each in wanted]
    for there, file in found:
        access.require_same_project(there)
        there.require_writable()
        there.require_own(file.user.id, "change")
    _, folder = await find_place(write.tx, write.actor, access.repository.project_id, folder_id)
    changed = [(file, msgspec.structs.replace(file, folder=folder)) for _, file in found]
    await _write_files(write, access, changed)
    return [file for _, file in found]


async def edit_folder(write: Write, access: Access, folder: Folder, edit: FolderEdit) -> Wire[Folder]:
    access.require_writable()
    access.require_member("change folders")
    before = to_response(folder)
    title = if_set(edit.title, folder.title)
    if title == folder.title:
        return before
    after = msgspec.structs.replace(folder, title=title, updated_at=max(write.now, folder.updated_at + 1))
    values = {"folder_id": folder.id, "title": title, "updated_at": after.updated_at}
    if await write.tx.execute(_update_folder, values) == 0:
        raise NotFound()
    record = to_response(after)
    await publish_event(write, access.repository, "folder", "edited", record, changes=differences(before, record))
    return record


async def all_folders(reader: Reader, access: Access) -> list[Folder]:
    """Return all folders, sorted by title."""
    found = await lists.read_all(reader, FOLDERS, source_of_project(access))
    return sorted(found, key=lambda each: (each.title.casefold(), each.id))


# --- the removal of deleted files, and of content without a file ------------------------------------------------------

KEPT_MS = 30 * DAY_MS
ORPHAN_MS = DAY_MS
"""Longer than any upload takes from its last byte to its row."""
BATCH = 100

log = structlog.get_logger(__name__)

_deleted = files.alias("deleted")
_old = (
    sa.select(_deleted.c.id)
    .where(_deleted.c.deleted_at < bigint_param("before"))
    .order_by(_deleted.c.deleted_at)
    .limit(bigint_param("limit"))
    .offset(bigint_param("offset"))
)
_purge = (
    # Checks the row again, so that a restore which this statement waited for keeps the file.
    sa.delete(files).where(files.c.id.in_(_old), files.c.deleted_at < bigint_param("before")).returning(files.c.blob)
)
_first_account_at = sa.select(accounts.c.created_at).order_by(accounts.c.id).limit(1)
_blobs_in_use = sa.union_all(
    *(sa.select(table.c.blob).where(any_of(table.c.blob, "blobs")) for table in (files, billing_logos))
)


async def purge(services: Services, now: int) -> int:
    """Remove expired files from the trash, and blobs of crashed uploads. Returns the number of files.

    Each row is deleted before its blob, after the commit. A crash in between leaves a blob for the next run to remove.
    Several processes may run this concurrently.
    """
    purged = await _purge_files(services, now - KEPT_MS)
    await _purge_blobs(services, now - ORPHAN_MS)
    return purged


async def _purge_files(services: Services, before: int) -> int:
    async def batch(limit: int, offset: int) -> int:
        params = {"before": before, "limit": limit, "offset": offset}

        async def remove(tx: Transaction) -> list[str]:
            return [row["blob"] for row in await tx.fetch_all(_purge, params)]

        blobs = await services.database.in_transaction(remove)
        await services.blobs.delete(blobs)
        return len(blobs)

    return await in_batches("deleted_files", BATCH, batch)


async def _purge_blobs(services: Services, before: int) -> None:
    """Remove blobs that belong to no file or logo.

    Blobs that are older than the database are kept, because a server started with an empty database by mistake must not
    remove the files of the right one.
    """
    first = await services.database.fetch_one(_first_account_at)
    if first is None:  # without accounts there were no uploads
        return
    async for found in services.blobs.older_than(before):
        names = [name for name in found if name >= lower_bound_id("blb", first["created_at"])]
        if len(names) < len(found):
            log.warning("foreign_blobs_kept", count=len(found) - len(names))
        rows = await services.database.fetch_all(_blobs_in_use, {"blobs": names}) if names else []
        used = {row["blob"] for row in rows}
        orphans = [name for name in names if name not in used]
        await services.blobs.delete(orphans)
        if orphans:
            log.info("blobs_swept", count=len(orphans))
    if drafts := await services.blobs.delete_old_drafts(before):
        log.info("drafts_swept", count=drafts)
