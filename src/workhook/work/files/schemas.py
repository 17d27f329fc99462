"""Files and folders on the wire, and what a caller may say about them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.records import COMPUTED, HIDDEN, LINK, EventSchema, Millis, Record, Wire, resource_id, to_response
from workhook.http.lists import ListQuery
from workhook.http.parameters import Title
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


class File(Record, frozen=True):
    """`file_link` is the content, for whoever has it: it needs no token, and expires. `size` is in bytes."""

    id: Annotated[str, resource_id("fil")]
    title: str
    file_link: Annotated[str, COMPUTED, LINK]
    user: PersonShape
    project: FileProject
    private: bool
    folder: FileFolder | None
    size: Annotated[int, EventSchema({"description": "bytes"})]
    content_type: str
    sha256: Annotated[str, EventSchema({"pattern": "^[0-9a-f]{64}$"})]
    created_at: Millis
    updated_at: Millis
    name: Annotated[str, HIDDEN]  # under which it is saved by who downloads it
    blob: Annotated[str, HIDDEN]  # where it is in the store
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


def content_of(file: File) -> Content:
    return Content(file.name, file.content_type, file.size, file.sha256, file.blob)


def file_to_response(file: File, links: Links) -> Wire[File]:
    """With the link to the content."""
    return to_response(msgspec.structs.replace(file, file_link=links(file.id)))
