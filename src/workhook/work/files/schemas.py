"""Files and folders on the wire, and what a caller may say about them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.core.records import LINK, EventSchema, Millis, Record, Wire, resource_id
from workhook.http.lists import ListQuery
from workhook.http.parameters import Title
from workhook.identity.schemas import Repository
from workhook.work.files.links import Links
from workhook.work.people import PersonShape

_FolderId = Annotated[str, Meta(max_length=64, description="Id of a folder of the project.")]


class FileCreate(msgspec.Struct):
    """Beside the file itself. Without `title` it is the name of the file."""

    title: Title | UnsetType = UNSET
    folder: _FolderId | UnsetType | None = UNSET
    private: bool | UnsetType = UNSET


class FileQuery(ListQuery):
    folder: _FolderId | UnsetType = UNSET


class FolderCreate(msgspec.Struct):
    title: Title


class FileProject(msgspec.Struct, frozen=True):
    id: Annotated[str, resource_id("prj")]
    title: str


class FileFolder(msgspec.Struct, frozen=True):
    id: Annotated[str, resource_id("fld")]
    title: str


class FileShape(msgspec.Struct):
    """`file_link` is the content, for whoever has it: it needs no token, and expires. `size` is in bytes."""

    id: Annotated[str, resource_id("fil")]
    title: str
    file_link: Annotated[str, LINK]
    user: PersonShape
    project: FileProject
    private: bool
    folder: FileFolder | None
    size: Annotated[int, EventSchema({"description": "bytes"})]
    content_type: str
    sha256: Annotated[str, EventSchema({"pattern": "^[0-9a-f]{64}$"})]
    created_at: str
    updated_at: str


class FileAnswer(msgspec.Struct):
    file: FileShape
    success: bool = True


class FilesAnswer(msgspec.Struct):
    files: list[FileShape]
    success: bool = True


class Folder(Record, frozen=True):
    id: Annotated[str, resource_id("fld")]
    title: str
    created_at: Millis
    updated_at: Millis


class FolderAnswer(msgspec.Struct):
    folder: Wire[Folder]
    success: bool = True


class FoldersAnswer(msgspec.Struct):
    folders: list[Wire[Folder]]
    success: bool = True


class Content(msgspec.Struct, frozen=True):
    """What was uploaded. `name` is the file's own; `blob` is where it is in the store."""

    name: str
    content_type: str
    size: int
    sha256: str
    blob: str


class File(msgspec.Struct, frozen=True):
    """A row, with whom and what it refers to."""

    id: str
    title: str
    content: Content
    user: PersonShape
    private: bool
    folder: FileFolder | None
    created_at: int
    updated_at: int
    deleted_at: int | None = None


def file_shape(file: File, repository: Repository, links: Links) -> FileShape:
    return FileShape(
        id=file.id,
        title=file.title,
        file_link=links(file.id),
        user=file.user,
        project=FileProject(repository.project_id, repository.title),
        private=file.private,
        folder=file.folder,
        size=file.content.size,
        content_type=file.content.content_type,
        sha256=file.content.sha256,
        created_at=to_millis_text(file.created_at),
        updated_at=to_millis_text(file.updated_at),
    )
