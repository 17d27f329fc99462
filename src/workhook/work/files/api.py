"""`/projects/{id}/files`, `/files`, `/projects/{id}/folders`, `/folders`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from workhook.core import json
from workhook.core.errors import Invalid, PreconditionFailed
from workhook.core.records import to_response
from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A, Operation, Query
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.storage.blobs import Incoming
from workhook.work.access import find_access
from workhook.work.announce import base_of
from workhook.work.files import actions, queries, quota
from workhook.work.files.content import get_content
from workhook.work.files.links import Links, links_of
from workhook.work.files.schemas import (
    Content,
    File,
    FileAnswer,
    FileCreate,
    FileQuery,
    FilesAnswer,
    FolderAnswer,
    FolderCreate,
    FoldersAnswer,
    file_to_response,
)
from workhook.work.files.upload import FORM, Form, least_file_bytes, parameters_of, read_form
from workhook.work.schemas import Done

TAG = "Files"


def _shown(file: File, links: Links) -> FileAnswer:
    return FileAnswer(file_to_response(file, links))


async def list_files(call: Call) -> Answer:
    query = parameters.read_query(call, FileQuery)
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), call.path("id"))
    found = await queries.list_files(
        call.database,
        access.repository,
        folder_id=query.folder if isinstance(query.folder, str) else None,
        not_private=access.is_client,
        after=key[0] if key else None,
        limit=query.limit + 1,
    )
    files, headers = lists.page(call, found, query, lambda file: (file.id,))
    links = links_of(call)
    return Answer(FilesAnswer([file_to_response(each, links) for each in files]), headers=headers)


async def create_file(call: Call) -> Answer:
    access = await actions.require_upload(call.database, actor_of(call), call.path("id"))
    if call.header("idempotency-key") is None:  # or else it may have been stored already
        await quota.require_room(call, access, least_file_bytes(call))
    async with call.services.blobs.incoming() as incoming:
        form = await read_form(call, incoming, limit=call.services.settings.upload_max_mb * 2**20)
        await call.body_came()
        create = _parameters(call, form)
        await incoming.keep()
    content = _content(form, incoming)

    async def change(tx: Transaction) -> Answer:
        await quota.take_room(tx, call, access, content.size)
        made = await actions.create_file(
            tx, actor_of(call), call.path("id"), create, content, links=links_of(call), base=base_of(call)
        )
        return Answer(FileAnswer(made))

    return await _write_or_forget(call, change, content, _fingerprint(form, content))


def _parameters(call: Call, form: Form) -> FileCreate:
    """Raises `Invalid` with what is wrong with the file, too."""
    try:
        create = parameters.gather(FileCreate, parameters_of(call.query, form), {})
    except Invalid as error:
        raise Invalid(faults=[*form.faults, *error.faults]) from error
    if form.faults:
        raise Invalid(faults=form.faults)
    return create


def _content(form: Form, incoming: Incoming) -> Content:
    assert form.name is not None, "a form without a file has a fault"
    assert form.content_type is not None, "set with the name"
    return Content(form.name, form.content_type, incoming.size, incoming.sha256, incoming.name)


def _fingerprint(form: Form, content: Content) -> bytes:
    """The request, as far as it is the same when it is sent again: boundaries differ."""
    return json.encode([sorted(form.fields.items()), content.name, content.content_type, content.sha256])


async def _write_or_forget(
    call: Call, change: Callable[[Transaction], Awaitable[Answer]], content: Content, fingerprint: bytes
) -> Answer:
    """`call.write`; a blob that is no file's is deleted. After a commit that may or may not have been, it stays for the
    sweep (`trash.purge`), which looks whether a row has it."""
    inserted = False

    async def watched(tx: Transaction) -> Answer:
        nonlocal inserted
        inserted = False
        answer = await change(tx)
        inserted = True
        return answer

    replayed = False
    try:
        answer = await call.write(watched, content=fingerprint)
        replayed = "Idempotent-Replayed" in answer.headers
        return answer
    finally:
        if replayed or not inserted:
            await call.services.blobs.forget(content.blob)


async def get_file(call: Call) -> Answer:
    _, file = await actions.get_file(call.database, actor_of(call), call.path("id"))
    return Answer(_shown(file, links_of(call)))


async def delete_file(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        access, file = await actions.take_file(tx, actor_of(call), call.path("id"))
        links = links_of(call)
        _require_match(call, file, links)
        await actions.delete_file(tx, access, file, links=links, base=base_of(call))
        return Answer(Done())

    return await call.write(change)


def _require_match(call: Call, file: File, links: Links) -> None:
    """A file has not changed because its link is another one since midnight."""
    try:
        conditions.require_match(call, _shown(file, links.earlier()))
    except PreconditionFailed:
        conditions.require_match(call, _shown(file, links))


async def restore_file(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        restored = await actions.restore_file(
            tx, actor_of(call), call.path("id"), links=links_of(call), base=base_of(call)
        )
        return Answer(FileAnswer(restored))

    return await call.write(change)


async def list_folders(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), call.path("id"))
    found = await queries.list_folders(
        call.database, access.repository.id, after=key[0] if key else None, limit=query.limit + 1
    )
    folders, headers = lists.page(call, found, query, lambda folder: (folder.id,))
    return Answer(FoldersAnswer([to_response(each) for each in folders]), headers=headers)


async def create_folder(call: Call) -> Answer:
    create = await parameters.read(call, FolderCreate)

    async def change(tx: Transaction) -> Answer:
        made = await actions.create_folder(tx, actor_of(call), call.path("id"), create.title, base=base_of(call))
        return Answer(FolderAnswer(made))

    return await call.write(change)


async def delete_folder(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        access, folder = await queries.take_folder(tx, actor_of(call), call.path("id"))
        conditions.require_match(call, FolderAnswer(to_response(folder)))
        await actions.delete_folder(tx, access, folder, base=base_of(call))
        return Answer(Done())

    return await call.write(change)


_UPLOAD: Mapping[str, Any] = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "The file, with its name and its media type."},
        "title": {"type": "string", "minLength": 1, "maxLength": 255},
        "folder": {"type": "string", "maxLength": 64},
        "private": {"anyOf": [{"type": "boolean"}, {"type": "integer", "enum": [0, 1]}]},  # as text, in a form
    },
    "additionalProperties": False,
}
_BYTES: Mapping[str, Any] = {"type": "string", "format": "binary"}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/files",
        list_files,
        "list_files",
        "List the files of a project",
        "work.read",
        tag=TAG,
        query=parameters.documented(FileQuery),
        answers={200: FilesAnswer},
        problems=(404, 422),
    ),
    Operation(
        AREA_A,
        "POST",
        "/projects/{id}/files",
        create_file,
        "create_file",
        "Upload a file",
        "work.write",
        tag=TAG,
        body=_UPLOAD,
        body_media_type=FORM,
        body_required=True,
        query=parameters.documented(FileCreate, or_body=True),
        answers={200: FileAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
        description="A form with one file. Its size is limited by a setting, 100 MiB by default.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/files/{id}",
        get_file,
        "get_file",
        "Get a file",
        "work.read",
        tag=TAG,
        answers={200: FileAnswer},
        problems=(404,),
        description="`file_link` gives the content without a token, for a day at least.",
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/files/{id}",
        delete_file,
        "delete_file",
        "Delete a file",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        description="It can be restored for 30 days. The logo of issued invoices stays (409 `has_invoices`).",
    ),
    Operation(
        AREA_A,
        "POST",
        "/files/{id}/restore",
        restore_file,
        "restore_file",
        "Restore a file that was deleted",
        "work.write",
        tag=TAG,
        answers={200: FileAnswer},
        problems=(403, 404, 409, 422),
    ),
    Operation(
        AREA_A,
        "GET",
        "/files/{id}/content",
        get_content,
        "get_file_content",
        "Download a file",
        None,
        tag=TAG,
        query=(
            Query("expires", "Of a signed link: when it expires, in seconds since the epoch."),
            Query("signature", "Of a signed link."),
        ),
        answers={200: _BYTES, 206: _BYTES, 304: None},
        problems=(400, 401, 403, 404, 416),
        media_type="*/*",
        etag=False,
        description="With a token of the scope `work:read`, or without one by the `file_link` of a file. One range of "
        "bytes can be asked for with `Range`.",
    ),
    Operation(
        AREA_A,
        "GET",
        "/projects/{id}/folders",
        list_folders,
        "list_folders",
        "List the folders of a project",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: FoldersAnswer},
        problems=(404, 422),
    ),
    Operation(
        AREA_A,
        "POST",
        "/projects/{id}/folders",
        create_folder,
        "create_folder",
        "Create a folder",
        "work.write",
        tag=TAG,
        body=FolderCreate,
        query=parameters.documented(FolderCreate, or_body=True),
        answers={200: FolderAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/folders/{id}",
        delete_folder,
        "delete_folder",
        "Delete a folder that is empty",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
    ),
)
