"""`/projects/{id}/files`, `/files`, `/projects/{id}/folders`, `/folders`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workhook.core import json
from workhook.core.errors import Invalid, PreconditionFailed
from workhook.core.records import to_response
from workhook.http import conditions, idempotency, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API, Query
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.storage.blobs import Incoming
from workhook.work.access import find_access
from workhook.work.files import actions
from workhook.work.files.content import get_content
from workhook.work.files.links import Links, links_of
from workhook.work.files.tables import (
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

routes = Routes(WORK_API, "Files", read="work.read", write="work.write")
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


def _answer(file: File, links: Links) -> FileAnswer:
    return FileAnswer(file_to_response(file, links))


@routes.get("/projects/{id}/files")
async def list_files(call: Call, project_id: str, query: FileQuery) -> Listed[FilesAnswer]:
    """List the files of a project."""
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), project_id)
    found = await actions.list_files(
        call.database,
        access.repository,
        folder_id=query.folder if isinstance(query.folder, str) else None,
        not_private=access.is_client,
        after=key[0] if key else "",
        limit=query.limit + 1,
    )
    files, headers = lists.page(call, found, query, lambda file: (file.id,))
    links = links_of(call)
    return Listed(FilesAnswer([file_to_response(each, links) for each in files]), headers)


@routes.post(
    "/projects/{id}/files",
    answers={200: FileAnswer},
    query=parameters.documented(FileCreate, or_body=True),
    body=_UPLOAD,
    body_media_type=FORM,
    body_required=True,
)
async def create_file(call: Call, project_id: str) -> Answer:
    """Upload a file.

    A form with one file. Its size is limited by a setting, 100 MiB by default.
    """
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_writable()  # before the body is read: nobody else makes us store anything
    if call.header("idempotency-key") is None:  # or else it may have been stored already
        await actions.require_room(call, access, least_file_bytes(call))
    async with call.services.blobs.incoming() as incoming:
        form = await read_form(call, incoming, limit=call.services.settings.upload_max_mb * 2**20)
        await call.body_came()
        create = _parameters(call, form)
        await incoming.keep()
    content = _content(form, incoming)
    is_stored = False

    async def change(tx: Transaction) -> Answer:
        nonlocal is_stored
        is_stored = False
        await actions.reserve_room(tx, call, access, content.size)
        made = await actions.create_file(Write.for_call(call, tx), project_id, create, content, links=links_of(call))
        is_stored = True
        return Answer(FileAnswer(made))

    try:
        answer = await idempotency.write(call, change, content=_fingerprint(form, content))
        is_stored = is_stored and "Idempotent-Replayed" not in answer.headers
        return answer
    finally:
        # After a commit that may or may not have been, the blob stays for `trash.purge`, which looks whether a row has
        # it; else one that is no file's is deleted.
        if not is_stored:
            await call.services.blobs.forget(content.blob)


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


@routes.get("/files/{id}")
async def get_file(call: Call, file_id: str) -> FileAnswer:
    """Get a file.

    `file_link` gives the content without a token, for a day at least.
    """
    _, file = await actions.find_file(call.database, actor_of(call), file_id)
    return _answer(file, links_of(call))


@routes.delete("/files/{id}")
async def delete_file(write: Write, file_id: str) -> Done:
    """Delete a file.

    It can be restored for 30 days. The logo of issued invoices stays (409 `has_invoices`).
    """
    access, file = await actions.lock_file(write.tx, write.actor, file_id)
    links = links_of(write.call)
    _require_match(write.call, file, links)
    await actions.delete_file(write, access, file, links=links)
    return Done()


def _require_match(call: Call, file: File, links: Links) -> None:
    """A file has not changed because its link is another one since midnight."""
    try:
        conditions.require_match(call, _answer(file, links.earlier()))
    except PreconditionFailed:
        conditions.require_match(call, _answer(file, links))


@routes.post("/files/{id}/restore")
async def restore_file(write: Write, file_id: str) -> FileAnswer:
    """Restore a file that was deleted."""
    return FileAnswer(await actions.restore_file(write, file_id, links=links_of(write.call)))


@routes.get(
    "/files/{id}/content",
    access=None,
    query=(
        Query("expires", "Of a signed link: when it expires, in seconds since the epoch."),
        Query("signature", "Of a signed link."),
    ),
    answers={200: _BYTES, 206: _BYTES, 304: None},
    problems=(401, 403, 416),
    media_type="*/*",
    etag=False,
)
async def get_file_content(call: Call) -> Answer:
    """Download a file.

    With a token of the scope `work:read`, or without one by the `file_link` of a file. One range of bytes can be asked
    for with `Range`.
    """
    return await get_content(call)


@routes.get("/projects/{id}/folders")
async def list_folders(call: Call, project_id: str, query: ListQuery) -> Listed[FoldersAnswer]:
    """List the folders of a project."""
    key = lists.after(query, tuple[str])
    access = await find_access(call.database, actor_of(call), project_id)
    found = await actions.list_folders(
        call.database, access.repository.id, after=key[0] if key else "", limit=query.limit + 1
    )
    folders, headers = lists.page(call, found, query, lambda folder: (folder.id,))
    return Listed(FoldersAnswer([to_response(each) for each in folders]), headers)


@routes.post("/projects/{id}/folders")
async def create_folder(write: Write, project_id: str, create: FolderCreate) -> FolderAnswer:
    """Create a folder."""
    return FolderAnswer(await actions.create_folder(write, project_id, create.title))


@routes.delete("/folders/{id}")
async def delete_folder(write: Write, folder_id: str) -> Done:
    """Delete a folder that is empty."""
    access, folder = await actions.lock_folder(write.tx, write.actor, folder_id)
    write.require_match(FolderAnswer(to_response(folder)))
    await actions.delete_folder(write, access, folder)
    return Done()
