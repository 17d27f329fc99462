"""Files and folders: request bodies, records and tables. The contents of files are in the blob store."""

from __future__ import annotations

from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.records import (
    HIDDEN,
    LINK,
    NOT_STORED,
    EventSchema,
    Record,
    Timestamp,
    Wire,
    resource_id,
    to_response,
)
from workhook.http.lists import ListQuery
from workhook.http.parameters import Title
from workhook.storage.metadata import NOT_PRIVATE, in_project, partial_index, plain_table
from workhook.storage.record_rows import table_columns
from workhook.work.files.links import Links
from workhook.work.kernel.people import PersonShape

_FolderId = Annotated[str, Meta(max_length=64, description="ID of a folder of the project.")]
_TaskId = Annotated[str, Meta(max_length=64, description="ID of a task of the project.")]


class FileCreate(msgspec.Struct):
    """The fields sent with a file. `title` defaults to the name of the file."""

    title: Title | UnsetType = UNSET
    folder: _FolderId | UnsetType | None = UNSET
    private: bool | UnsetType = UNSET
    task_id: _TaskId | UnsetType | None = UNSET


class FileEdit(msgspec.Struct):
    """Omitted fields are left unchanged.

    Set `folder` to null to remove the file from its folder, and `task_id` to null to detach it from its task. `private`
    hides the file from clients, who cannot set it.
    """

    title: Title | UnsetType = UNSET
    folder: _FolderId | UnsetType | None = UNSET
    private: bool | UnsetType = UNSET
    task_id: _TaskId | UnsetType | None = UNSET


class FileQuery(ListQuery):
    folder: _FolderId | UnsetType = UNSET
    task_id: _TaskId | UnsetType = UNSET


class FolderCreate(msgspec.Struct):
    title: Title


class FolderEdit(msgspec.Struct):
    """Omitted fields are left unchanged."""

    title: Title | UnsetType = UNSET


class FileProject(msgspec.Struct, frozen=True):
    id: Annotated[str, resource_id("prj")]
    title: str


class FileFolder(msgspec.Struct, frozen=True):
    id: Annotated[str, resource_id("fld")]
    title: str


class File(Record, frozen=True):
    """A file.

    `file_link` points to the content; it needs no token, and expires. `size` is in bytes. `task_id` is the task that
    the file is attached to.
    """

    id: Annotated[str, resource_id("fil")]
    title: str
    file_link: Annotated[str, NOT_STORED, LINK]
    user: PersonShape
    project: FileProject
    private: bool
    folder: FileFolder | None
    task_id: Annotated[str | None, resource_id("tsk", optional=True)]
    size: Annotated[int, EventSchema({"description": "bytes"})]
    content_type: str
    sha256: Annotated[str, EventSchema({"pattern": "^[0-9a-f]{64}$"})]
    created_at: Timestamp
    updated_at: Timestamp
    name: Annotated[str, HIDDEN]  # the default name of a download
    blob: Annotated[str, HIDDEN]  # the name in the blob store
    deleted_at: Annotated[int | None, HIDDEN]


class FileAnswer(msgspec.Struct):
    file: Wire[File]
    success: bool = True


class FilesAnswer(msgspec.Struct):
    files: list[Wire[File]]
    success: bool = True


class Folder(Record, frozen=True):
    id: Annotated[str, resource_id("fld")]
    title: str
    created_at: Timestamp
    updated_at: Timestamp


class FolderAnswer(msgspec.Struct):
    folder: Wire[Folder]
    success: bool = True


class FoldersAnswer(msgspec.Struct):
    folders: list[Wire[Folder]]
    success: bool = True


class Content(msgspec.Struct, frozen=True):
    """An uploaded file. `name` is its original name; `blob` is its name in the blob store."""

    name: str
    content_type: str
    size: int
    sha256: str
    blob: str


def file_to_response(file: File, links: Links) -> Wire[File]:
    return to_response(msgspec.structs.replace(file, file_link=links(file.id)))


folders = plain_table(
    "folders",
    in_project(),
    *table_columns(Folder),
    sa.Index("ix_folders_repository_id", "repository_id"),
)

files = plain_table(
    "files",
    in_project(),
    # A deleted folder may contain files that were deleted before it.
    sa.Column("folder_id", sa.Text, sa.ForeignKey("folders.id", ondelete="SET NULL")),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    # When a task is purged, its files remain in the project.
    *table_columns(File, task_id=sa.ForeignKey("tasks.id", ondelete="SET NULL")),
    sa.Index("ix_files_repository_id", "repository_id", "id"),
    sa.Index("ix_files_folder_id", "folder_id"),
    sa.Index("ix_files_in_folder", "repository_id", "folder_id", "id"),
    partial_index("ix_files_open", "repository_id", "id", where=NOT_PRIVATE),  # visible to clients
    partial_index("ix_files_on_task_open", "repository_id", "task_id", "id", where=NOT_PRIVATE),
    sa.Index("ix_files_blob", "blob", unique=True),
)
_is_attached = files.c.task_id.is_not(None)
partial_index("ix_files_task_id", files.c.task_id, where=_is_attached)
partial_index("ix_files_on_task", files.c.repository_id, files.c.task_id, files.c.id, where=_is_attached)
_is_deleted = files.c.deleted_at.is_not(None)
partial_index("ix_files_trash", files.c.repository_id, files.c.deleted_at, files.c.id, where=_is_deleted)
partial_index("ix_files_deleted_at", files.c.deleted_at, where=_is_deleted)
