"""Changes of files and folders that are there: another title, another folder, and whether clients see them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core.errors import NotFound
from workhook.core.records import Wire, to_response
from workhook.identity.context import Write
from workhook.storage.metadata import big
from workhook.work.files.actions import find_place, find_task_of, lock_files
from workhook.work.files.links import Links
from workhook.work.files.schemas import File, FileEdit, Folder, FolderEdit, file_to_response, files, folders
from workhook.work.kernel import questions
from workhook.work.kernel.access import Access
from workhook.work.kernel.record_events import RecordEvent, differences, publish_event, publish_events
from workhook.work.kernel.schemas import if_set

_update_file = (
    sa.update(files)
    .where(files.c.id == sa.bindparam("file_id"))
    .values(
        title=sa.bindparam("title"),
        folder_id=sa.bindparam("folder_id", type_=sa.Text()),
        task_id=sa.bindparam("task_id", type_=sa.Text()),
        private=sa.bindparam("private"),
        updated_at=big("updated_at"),
    )
)
_update_folder = (
    sa.update(folders)
    .where(folders.c.id == sa.bindparam("folder_id"))
    .values(title=sa.bindparam("title"), updated_at=big("updated_at"))
)


async def edit_file(write: Write, access: Access, file: File, edit: FileEdit, *, links: Links) -> Wire[File]:
    """`access` and `file` are what `lock_file` gave. A client changes only what it uploaded itself. Raises `Forbidden`,
    `Conflict`, `Invalid`."""
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
    [record] = await _write_files(write, access, [(file, after)], links)
    return record


async def _write_files(
    write: Write, access: Access, changed: Sequence[tuple[File, File]], links: Links
) -> list[Wire[File]]:
    """Each file before and after: as the API shows it then. What has changed is written, with its event."""
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


async def move_files(
    write: Write, access: Access, file_ids: Collection[str], folder_id: str | None, *, links: Links
) -> list[File]:
    """Move files of one project, all or none, to a folder of it or, with None, out of every folder. Return them as they
    were. Raises what `edit_file` does, and `NotFound` unless all are files of this project."""
    found = await lock_files(write.tx, write.actor, file_ids)
    for there, file in found:
        access.require_same(there)
        there.require_writable()
        there.require_own(file.user.id, "change")
    _, folder = await find_place(write.tx, write.actor, access.repository.project_id, folder_id)
    changed = [(file, msgspec.structs.replace(file, folder=folder)) for _, file in found]
    await _write_files(write, access, changed, links)
    return [file for _, file in found]


async def edit_folder(write: Write, access: Access, folder: Folder, edit: FolderEdit) -> Wire[Folder]:
    """`access` and `folder` are what `lock_folder` gave. Raises `Forbidden`, `Conflict`."""
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
