"""`/projects/{id}/files`, `/files`, `/projects/{id}/folders` and `/folders`."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import structlog
from prometheus_client import Counter

from workhook.core.errors import Forbidden, PreconditionFailed, Problem, Unauthenticated, require_found
from workhook.core.records import to_response
from workhook.http import idempotency, parameters
from workhook.http.calls import Call, Response, names_tag
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.messages import disposition
from workhook.http.operations import WORK_API, Query
from workhook.identity import policy
from workhook.identity.authenticator import actor_of, caller_of
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.work.board.tasks.queries import find_task
from workhook.work.files import actions
from workhook.work.files.links import is_signed, links_of
from workhook.work.files.schemas import (
    Content,
    File,
    FileAnswer,
    FileCreate,
    FileEdit,
    FileQuery,
    FilesAnswer,
    FolderAnswer,
    FolderCreate,
    FolderEdit,
    FoldersAnswer,
    file_to_response,
)
from workhook.work.files.upload import FORM, inert_media_type, receive
from workhook.work.kernel.access import find_access
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.schemas import Done
from workhook.work.kernel.scopes import Source, source_of_project

routes = Routes(WORK_API, "Files")
_UPLOAD: Mapping[str, Any] = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "The file, with its name and its media type."},
        "title": {"type": "string", "minLength": 1, "maxLength": 255},
        "folder": {"type": "string", "maxLength": 64},
        "task_id": {"type": "string", "maxLength": 64},
        "private": {"anyOf": [{"type": "boolean"}, {"type": "integer", "enum": [0, 1]}]},  # as text, in a form
    },
    "additionalProperties": False,
}
_BYTES: Mapping[str, Any] = {"type": "string", "format": "binary"}

CUT = Counter("workhook_files_downloads_cut_total", "Downloads that ended early because the store failed.")

# Browsers save the file instead of showing or running it, and proxies do not cache it for others.
_HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}
_RANGE = re.compile(r"bytes\s*=\s*(\d*)-(\d*)", re.IGNORECASE | re.ASCII)
_DIGITS_MAX = 18  # more than any file size needs, and Python refuses to parse thousands of digits

log = structlog.get_logger(__name__)


@routes.get("/projects/{id}/files")
async def list_files(call: Call, project_id: str, query: FileQuery) -> Listed[FilesAnswer]:
    """List the files of a project."""
    access = await find_access(call.database, actor_of(call), project_id)
    return await list_page(call, source_of_project(access), query)


@routes.get("/tasks/{id}/files")
async def list_task_files(call: Call, task_id: str, query: ListQuery) -> Listed[FilesAnswer]:
    """List the files attached to a task."""
    found = await find_task(call.database, actor_of(call), task_id)
    return await list_page(call, source_of_project(found.access), query, task_id=task_id)


async def list_page(call: Call, source: Source, query: ListQuery, **more: object) -> Listed[FilesAnswer]:
    filters, links = {**actions.FILES.to_filters(query, source), **more}, links_of(call)
    files, headers = await read_for(call, actions.FILES, source, query, cursor_of(query), **filters)
    return Listed(FilesAnswer([file_to_response(each, links) for each in files]), headers)


@routes.post(
    "/projects/{id}/files",
    answers={200: FileAnswer},
    query=parameters.documented(FileCreate, or_body=True),
    body=_UPLOAD,
    body_media_type=FORM,
    body_required=True,
)
async def create_file(call: Call, project_id: str) -> Response:
    """Upload a file.

    Send a form with one file. The maximum size is configurable, and defaults to 100 MiB.
    """
    access = await find_access(call.database, actor_of(call), project_id)
    upload = await receive(call, access, may_be_stored=call.header("idempotency-key") is not None)

    async def change(tx: Transaction) -> Response:
        return Response(FileAnswer(await upload.create(Write.for_call(call, tx))))

    async with upload:
        answer = await idempotency.write(call, change, content=upload.fingerprint)
        if "Idempotent-Replayed" in answer.headers:
            upload.is_stored = False
        return answer


@routes.get("/files/{id}")
async def get_file(call: Call, file_id: str) -> FileAnswer:
    """Get a file.

    `file_link` points to the content, and works without a token for at least a day.
    """
    _, file = await actions.find_file(call.database, actor_of(call), file_id)
    return FileAnswer(file_to_response(file, links_of(call)))


@routes.patch("/files/{id}")
async def edit_file(write: Write, file_id: str, edit: FileEdit) -> FileAnswer:
    """Update a file.

    Renames the file, moves it to another folder, attaches it to a task, or changes whether clients can see it. Clients
    can only change their own uploads, and cannot change `private`. The logo of issued invoices cannot be made private
    (409 `has_invoices`). The file name of downloads does not change.
    """
    access, file = await actions.lock_file(write.tx, write.actor, file_id)
    _require_match(write.call, file)
    return FileAnswer(await actions.edit_file(write, access, file, edit))


@routes.delete("/files/{id}")
async def delete_file(write: Write, file_id: str) -> Done:
    """Delete a file.

    It can be restored for 30 days. The logo of issued invoices cannot be deleted (409 `has_invoices`).
    """
    access, file = await actions.lock_file(write.tx, write.actor, file_id)
    _require_match(write.call, file)
    await actions.delete_file(write, access, file)
    return Done()


def _require_match(call: Call, file: File) -> None:
    """Check the precondition, accepting the ETag with the previous interval's link as well."""
    links = links_of(call)
    try:
        call.require_match(FileAnswer(file_to_response(file, links.earlier())))
    except PreconditionFailed:
        call.require_match(FileAnswer(file_to_response(file, links)))


@routes.post("/files/{id}/restore")
async def restore_file(write: Write, file_id: str) -> FileAnswer:
    """Restore a deleted file."""
    return FileAnswer(await actions.restore_file(write, file_id))


@routes.get(
    "/files/{id}/content",
    access=None,
    query=(
        Query("expires", "Expiry of a signed link, in seconds since the epoch."),
        Query("signature", "Signature of a signed link."),
    ),
    answers={200: _BYTES, 206: _BYTES, 304: None},
    problems=(401, 403, 416),
    media_type="*/*",
    etag=False,
)
async def get_file_content(call: Call) -> Response:
    """Download a file.

    Requires a token with the scope `work:read`, or the signed `file_link` of the file. `Range` may request a single
    range of bytes.
    """
    content = await _find_allowed(call)
    tag = f'"{content.sha256}"'
    headers = {**_HEADERS, "ETag": tag}
    if names_tag(call.header("if-none-match"), tag):
        return Response(None, status=304, headers=headers)
    start, stop, status = 0, content.size, 200
    condition = call.header("if-range")
    may_be_part = call.request.method != "HEAD" and (condition is None or condition.strip() == tag)
    if may_be_part and (found := read_range(call.header("range"), content.size)) is not None:
        start, stop = found
        status = 206
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{content.size}"
    headers |= disposition(content.name)
    headers["Content-Length"] = str(stop - start)
    headers["Content-Type"] = inert_media_type(content.content_type)  # explicit, so that no charset is added
    end = start if call.request.method == "HEAD" else stop
    pieces = await call.services.blobs.read(content.blob, start, end)
    return Response(_watched(call, content, pieces), status=status, headers=headers, media_type=headers["Content-Type"])


async def _find_allowed(call: Call) -> Content:
    """Return the content if the link or token allows it.

    Raises `Forbidden` for an invalid link, and `Unauthenticated` without a link or token.
    """
    file_id = call.path("id")
    expires, signature = call.query_text("expires"), call.query_text("signature")
    is_link = expires is not None and signature is not None
    if is_link and is_signed(call.services.vault, file_id, expires or "", signature or ""):
        return require_found(await actions.find_content(call.database, file_id))
    actor = caller_of(call).actor
    if actor is None and (expires is not None or signature is not None):
        raise Forbidden("The link is invalid or has expired. Request the file again for a new link.", code="bad_link")
    if actor is None:
        raise Unauthenticated("Requires authentication", headers={"WWW-Authenticate": "Bearer"})
    actor = policy.admit(actor, policy.RULES["work.read"])
    _, file = await actions.find_file(call.database, actor, file_id)
    return Content(file.name, file.content_type, file.size, file.sha256, file.blob)


async def _watched(call: Call, content: Content, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Abort the connection after an error, so that the client does not mistake it for the end of the file."""
    try:
        async for piece in pieces:
            yield piece
    except Exception:
        CUT.inc()
        log.exception("download_interrupted", request_id=call.request_id, blob=content.blob)
        raise


class RangeNotSatisfiable(Problem):
    """A range that starts after the end of the file."""

    status, code = 416, "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__(f"The file has {size} bytes.", headers={"Content-Range": f"bytes */{size}"})


def read_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the first byte and the one after the last, or None for the whole file.

    As the RFC permits, the whole file is also returned for an invalid header and for multiple ranges.
    """
    found = _RANGE.fullmatch((header or "").strip())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        count = _number(found[2])
        if count == 0:
            raise RangeNotSatisfiable(size)
        return (max(0, size - count), size) if size else None  # an empty range cannot be expressed
    first = _number(found[1])
    last = _number(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    if first >= size:
        raise RangeNotSatisfiable(size)
    return first, min(last, size - 1) + 1


def _number(digits: str) -> int:
    significant = digits.lstrip("0")
    return 10**_DIGITS_MAX if len(significant) > _DIGITS_MAX else int(significant or "0")


@routes.get("/projects/{id}/folders")
async def list_folders(call: Call, project_id: str, query: ListQuery) -> Listed[FoldersAnswer]:
    """List the folders of a project."""
    after = cursor_of(query)
    access = await find_access(call.database, actor_of(call), project_id)
    folders, headers = await read_for(call, actions.FOLDERS, source_of_project(access), query, after)
    return Listed(FoldersAnswer([to_response(each) for each in folders]), headers)


@routes.post("/projects/{id}/folders")
async def create_folder(write: Write, project_id: str, create: FolderCreate) -> FolderAnswer:
    """Create a folder."""
    return FolderAnswer(await actions.create_folder(write, project_id, create.title))


@routes.patch("/folders/{id}")
async def edit_folder(write: Write, folder_id: str, edit: FolderEdit) -> FolderAnswer:
    """Rename a folder."""
    access, folder = await actions.lock_folder(write.tx, write.actor, folder_id)
    write.require_match(FolderAnswer(to_response(folder)))
    return FolderAnswer(await actions.edit_folder(write, access, folder, edit))


@routes.delete("/folders/{id}")
async def delete_folder(write: Write, folder_id: str) -> Done:
    """Delete an empty folder."""
    access, folder = await actions.lock_folder(write.tx, write.actor, folder_id)
    write.require_match(FolderAnswer(to_response(folder)))
    await actions.delete_folder(write, access, folder)
    return Done()
