"""What can be done with files and folders: authorise, decide, write, announce.

Members do everything. Clients see and download what is not private, upload, and delete what they uploaded themselves;
folders they only see. What is deleted can be restored for `trash.KEPT_MS`.
"""

from __future__ import annotations

import msgspec
from msgspec import UnsetType

from workhook.core.errors import Conflict, Fault, Forbidden, Invalid, NotFound
from workhook.core.ids import new_id
from workhook.core.records import Wire, to_response
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.storage import Reader, Transaction
from workhook.work import others
from workhook.work.access import Access, find_access
from workhook.work.files import queries
from workhook.work.files.links import Links
from workhook.work.files.schemas import (
    Content,
    File,
    FileCreate,
    FileFolder,
    FileProject,
    Folder,
    file_to_response,
)
from workhook.work.invoices import issued
from workhook.work.people import person_shape
from workhook.work.record_events import publish_event


async def require_upload(reader: Reader, actor: Actor, project_id: str) -> Access:
    """Before the body is read: nobody else makes us store anything. Raises what `create_file` would."""
    access = await find_access(reader, actor, project_id)
    access.require_writable()
    return access


async def create_file(
    write: Write, project_id: str, create: FileCreate, content: Content, *, links: Links
) -> Wire[File]:
    """`content` is in the store already. Raises `NotFound`, `Forbidden`, `Conflict`, `Invalid`."""
    access, folder = await _place(write.tx, write.actor, project_id, create.folder)
    access.require_writable()
    private = create.private is True
    _require_may_hide(access, private)
    file = File(
        id=new_id("fil"),
        title=content.name if isinstance(create.title, UnsetType) else create.title,
        file_link="",
        user=person_shape(write.actor.user),
        project=FileProject(access.repository.project_id, access.repository.title),
        private=private,
        folder=folder,
        created_at=write.now,
        updated_at=write.now,
        deleted_at=None,
        **msgspec.structs.asdict(content),
    )
    await queries.insert_file(write.tx, access.repository, file)
    return await _announce_file(write, access, "created", file, links)


async def get_file(reader: Reader, actor: Actor, file_id: str) -> tuple[Access, File]:
    """Raises `NotFound`."""
    return _visible(*await queries.find_file(reader, actor, file_id))


async def lock_file(tx: Transaction, actor: Actor, file_id: str) -> tuple[Access, File]:
    """For a change. Raises `NotFound`."""
    return _visible(*await queries.lock_file(tx, actor, file_id))


async def delete_file(write: Write, access: Access, file: File, *, links: Links) -> None:
    """`access` and `file` are what `lock_file` gave. Raises `Forbidden`, `Conflict`."""
    access.require_writable()
    access.require_own(file.user.id, "delete")
    if not file.private:
        await issued.require_not_logo(write.tx, access.repository.id, file.id)
    await others.require_none_on_file(write.tx, access, file.id)
    now = max(write.now, file.updated_at + 1)
    deleted = msgspec.structs.replace(file, deleted_at=now, updated_at=now)
    await queries.set_deleted(write.tx, deleted)
    await _announce_file(write, access, "deleted", deleted, links)


async def restore_file(write: Write, file_id: str, *, links: Links) -> Wire[File]:
    """It is there again, with its comments. Raises `NotFound` for one that was purged, `Forbidden`, `Conflict`."""
    access, file = await queries.lock_file(write.tx, write.actor, file_id)
    access.require_sight(file.private)
    if file.deleted_at is None:
        return file_to_response(file, links)
    access.require_writable()
    access.require_own(file.user.id, "restore")
    restored = msgspec.structs.replace(file, deleted_at=None, updated_at=max(write.now, file.updated_at + 1))
    await queries.set_deleted(write.tx, restored)
    return await _announce_file(write, access, "created", restored, links)


async def create_folder(write: Write, project_id: str, title: str) -> Wire[Folder]:
    """Raises `NotFound`, `Forbidden`, `Conflict`."""
    access = await find_access(write.tx, write.actor, project_id)
    access.require_writable()
    access.require_member("create folders")
    folder = Folder(new_id("fld"), title, write.now, write.now)
    await queries.insert_folder(write.tx, access.repository.id, folder)
    shape = to_response(folder)
    await publish_event(write, access.repository, "folder", "created", shape)
    return shape


async def delete_folder(write: Write, access: Access, folder: Folder) -> None:
    """`access` and `folder` are what `queries.lock_folder` gave. Raises `Forbidden`, `Conflict` unless it is empty."""
    access.require_writable()
    access.require_member("delete folders")
    if not await queries.delete_empty_folder(write.tx, folder.id):
        raise Conflict("The folder holds files; delete them first.", code="not_empty")
    await publish_event(write, access.repository, "folder", "deleted", to_response(folder))


async def _place(
    tx: Transaction, actor: Actor, project_id: str, folder_id: str | UnsetType | None
) -> tuple[Access, FileFolder | None]:
    if folder_id is None or isinstance(folder_id, UnsetType):
        return await find_access(tx, actor, project_id), None
    found = await queries.lock_folder_to_fill(tx, actor, project_id, folder_id)
    if found is None:
        await find_access(tx, actor, project_id)
        raise Invalid(faults=[Fault(field="folder", message="folder must be one of the project")])
    access, folder = found
    return access, FileFolder(folder.id, folder.title)


def _require_may_hide(access: Access, private: bool) -> None:
    if private and access.is_client:
        raise Forbidden("Clients cannot make files private.", code="missing_role")


def _visible(access: Access, file: File) -> tuple[Access, File]:
    access.require_sight(file.private)
    if file.deleted_at is not None:
        raise NotFound()
    return access, file


async def _announce_file(write: Write, access: Access, action: str, file: File, links: Links) -> Wire[File]:
    shape = file_to_response(file, links)
    await publish_event(write, access.repository, "file", action, shape)
    return shape
