"""Reading files and folders with the visitor's rights."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog

from workhook.core.errors import NotFound, Unavailable
from workhook.http.calls import Call
from workhook.http.parameters import TITLE_MAX_CHARS
from workhook.storage import Reader
from workhook.storage.blobs import BlobMissing
from workhook.web.frame.paging import that_fit
from workhook.web.frame.places import Visit
from workhook.work.board.tasks.queries import find_task
from workhook.work.board.tasks.schemas import Task
from workhook.work.discussion import actions as comments
from workhook.work.discussion.markup import clean
from workhook.work.discussion.schemas import FileComment, Reply, TaskComment
from workhook.work.files import actions
from workhook.work.files.links import links_of
from workhook.work.files.schemas import File
from workhook.work.history.activity.queries import LastEdit, Noun, find_last_edits
from workhook.work.kernel.access import Access
from workhook.work.kernel.lists import NEWEST_FIRST, read
from workhook.work.kernel.scopes import source_of_project

FILES_MAX = 100
COMMENTS_MAX = 100
TEXT_BYTES = 32 * 1024
"""How much of a text file its preview shows."""

_IMAGES = frozenset(f"image/{each}" for each in ("png", "jpeg", "gif", "webp", "avif", "svg+xml", "bmp", "x-icon"))
_TEXTS = frozenset(
    f"application/{each}" for each in ("json", "xml", "javascript", "yaml", "x-yaml", "sql", "toml", "x-sh")
)
_TEXT_SUFFIXES = frozenset("txt md csv log json yaml yml toml ini xml sql diff patch".split())  # noqa: SIM905  # words read better
_ICONS = {"image": "image", "audio": "play", "video": "play", "text": "file-text", "pdf": "file-text", "": "file"}

log = structlog.get_logger(__name__)


async def read_folder(visit: Visit, access: Access) -> dict[str, object]:
    """Return the folder and page in the query. Raises `NotFound`."""
    folder_id, before = visit.query("folder"), visit.query("before")
    folders = await actions.all_folders(visit.database, access)
    folder = next((each for each in folders if each.id == folder_id), None)
    if folder_id and folder is None:
        raise NotFound()
    filters = {"folder": folder.id} if folder else {"unfiled": True}
    after = (before[:TITLE_MAX_CHARS],) if before else None
    found = await read(
        visit.database,
        actions.FILES,
        source_of_project(access),
        filters,
        order=NEWEST_FIRST,
        after=after,
        limit=FILES_MAX + 1,
    )
    shown = found[:FILES_MAX]
    older = shown[-1].id if len(found) > FILES_MAX else None
    listed = [] if folder or before else folders
    return {"folder": folder, "folders": listed, "every": folders, "files": shown, "older": older}


async def find_file(visit: Visit, access: Access | None = None) -> tuple[Access, File]:
    """Return the file in the path. Raises `NotFound` if it is not in the path's project. `access`: to that project."""
    access = access or await visit.access()
    its, file = await actions.find_file(visit.database, visit.actor, visit.path("file_id"))
    access.require_same_project(its)
    return its, file


async def read_task(visit: Visit, file: File) -> Task | None:
    """Return the file's task, or None if it has none or the task is in the trash."""
    if file.task_id is None:
        return None
    try:
        return (await find_task(visit.database, visit.actor, file.task_id)).task
    except NotFound:
        return None


async def read_comments(visit: Visit, file: File) -> dict[str, Any]:
    """Return the comments after the cursor in the query, without private ones for clients."""
    after = (visit.query_id("after") or 0,)
    access, found = await comments.list_file_comments(
        visit.database, visit.actor, file.id, after=after, limit=COMMENTS_MAX + 1
    )
    listed: list[FileComment] = list(found)
    if access.is_client:
        seen = [tuple(reply for reply in each.comments if not reply.private) for each in found]
        listed = [msgspec.structs.replace(each, comments=its) for each, its in zip(found, seen, strict=True)]
    shown = that_fit(listed, COMMENTS_MAX, lambda each: len(each.text) + sum(len(its.body) for its in each.comments))
    later = shown[-1].id if found.truncated or len(listed) > len(shown) else None
    replies = [reply for each in shown for reply in each.comments]
    edits, reply_edits = await asyncio.gather(
        last_edits(visit.database, access, "file_comment", shown),
        last_edits(visit.database, access, "file_comment_reply", replies),
    )
    return {"shown": shown, "later": later, "edits": edits, "reply_edits": reply_edits}


async def last_edits(
    reader: Reader, access: Access, noun: Noun, written: Sequence[TaskComment | FileComment | Reply]
) -> Mapping[str, LastEdit]:
    """Return the last edits of comments or replies, by ID as a string."""
    if all(each.updated_at == each.created_at for each in written):
        return {}
    return await find_last_edits(reader, access.repository.id, noun)


def writable(reply: Reply) -> str:
    """Return the text for editing a reply: unescaped, if that would be stored as the same HTML."""
    typed = html.unescape(reply.body)
    return typed if clean(typed) == reply.body else reply.body


# --- previews --------------------------------------------------------------------------------------------------------


def kind_of(file: Any) -> str:
    """Return how a browser can show the file: `image`, `audio`, `video`, `pdf`, `text`, or empty."""
    media_type = file.content_type.partition(";")[0].strip().lower()
    main = media_type.partition("/")[0]
    if media_type in _IMAGES:
        return "image"
    if main in ("audio", "video"):
        return str(main)
    if media_type == "application/pdf":
        return "pdf"
    is_named_text = media_type == "application/octet-stream" and file.name.rpartition(".")[2].lower() in _TEXT_SUFFIXES
    return "text" if main == "text" or media_type in _TEXTS or is_named_text else ""


def icon_of(file: Any) -> str:
    return _ICONS[kind_of(file)]


def link_of(call: Call, file: File) -> str:
    """Return the signed link as a path, since pages load nothing from other origins, even those of this server."""
    parts = urlsplit(links_of(call)(file.id))
    return f"{parts.path}?{parts.query}"


async def read_text(call: Call, file: File) -> str | None:
    """Return the first `TEXT_BYTES` of a text file, or None if the storage fails."""
    try:
        pieces = await call.services.blobs.read(file.blob, 0, min(file.size, TEXT_BYTES))
        content = b"".join([each async for each in pieces])
    except (BlobMissing, Unavailable) as error:
        log.warning("preview_read_failed", file_id=file.id, error=error.message)
        return None
    text = content.decode(errors="replace")
    return text.rstrip("\ufffd") if file.size > TEXT_BYTES else text  # a truncated character
