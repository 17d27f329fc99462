"""What the pages of files show, read as their visitor may see it."""

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
from workhook.storage.blobs import BlobMissing
from workhook.web.frame.paging import that_fit
from workhook.web.frame.places import Visit
from workhook.work.board.tasks.queries import find_task
from workhook.work.board.tasks.schemas import Task
from workhook.work.discussion import actions as comments
from workhook.work.discussion.markup import clean
from workhook.work.discussion.schemas import FileComment, Reply
from workhook.work.files import actions
from workhook.work.files.links import links_of
from workhook.work.files.schemas import File, Folder
from workhook.work.history.activity.task_history import LastEdit, Noun, find_last_edits
from workhook.work.kernel.access import Access

FILES_MAX = 100
COMMENTS_MAX = 100
TEXT_BYTES = 32 * 1024
"""How much of a text a page shows."""

_IMAGES = frozenset(f"image/{each}" for each in ("png", "jpeg", "gif", "webp", "avif", "svg+xml", "bmp", "x-icon"))
_TEXTS = frozenset(
    f"application/{each}" for each in ("json", "xml", "javascript", "yaml", "x-yaml", "sql", "toml", "x-sh")
)
_TEXT_SUFFIXES = frozenset("txt md csv log json yaml yml toml ini xml sql diff patch".split())  # noqa: SIM905  # words read better
_ICONS = {"image": "image", "audio": "play", "video": "play", "text": "file-text", "pdf": "file-text", "": "file"}

log = structlog.get_logger(__name__)


class FolderPage(msgspec.Struct, frozen=True):
    """What one folder holds. `folder` is None at the top, where the `folders` are shown; `every`: all of the project.
    `older`: what the next page begins behind."""

    folder: Folder | None
    folders: Sequence[Folder]
    every: Sequence[Folder]
    files: Sequence[File]
    older: str | None


class Comments(msgspec.Struct, frozen=True):
    """Some of the comments on a file, the newest last. `later`: what the next page begins behind. `edits` and
    `reply_edits`: who changed them last, by their ids as texts."""

    shown: Sequence[FileComment]
    later: int | None
    edits: Mapping[str, LastEdit] = {}
    reply_edits: Mapping[str, LastEdit] = {}


async def read_folder(visit: Visit, access: Access) -> FolderPage:
    """The folder and the page that the address names. Raises `NotFound`."""
    folder_id, before = visit.query("folder"), visit.query("before")
    folders = await actions.all_folders(visit.database, access.repository.id)
    folder = next((each for each in folders if each.id == folder_id), None)
    if folder_id and folder is None:
        raise NotFound()
    found = await actions.list_folder_files(
        visit.database,
        access.repository,
        folder_id=folder.id if folder else None,
        not_private=access.is_client,
        before=before[:TITLE_MAX_CHARS],
        limit=FILES_MAX + 1,
    )
    shown = found[:FILES_MAX]
    older = shown[-1].id if len(found) > FILES_MAX else None
    return FolderPage(folder, [] if folder or before else folders, folders, shown, older)


async def read_folders(visit: Visit, access: Access) -> Sequence[Folder]:
    """All folders of the project, by title."""
    return await actions.all_folders(visit.database, access.repository.id)


async def find_file(visit: Visit) -> tuple[Access, File]:
    """The file of the path, which has to be one of the project of the path. Raises `NotFound`."""
    await visit.access()
    return await file_of_path(visit)


async def file_of_path(visit: Visit) -> tuple[Access, File]:
    """As `find_file`, where the project of the path was looked for before."""
    access, file = await actions.find_file(visit.database, visit.actor, visit.path("file_id"))
    require_place(visit, access)
    return access, file


async def read_task(visit: Visit, file: File) -> Task | None:
    """The task that the file is attached to. None also for one in the trash."""
    if file.task_id is None:
        return None
    try:
        return (await find_task(visit.database, visit.actor, file.task_id)).task
    except NotFound:
        return None


def require_place(visit: Visit, access: Access) -> None:
    """Raises `NotFound` for what is of another project than the path says."""
    if access.repository.full_name.lower() != f"{visit.path('owner')}/{visit.path('project')}".lower():
        raise NotFound()


async def read_comments(visit: Visit, file: File) -> Comments:
    """From behind the one that the address names; to a client without the private ones."""
    after = visit.query_id("after") or 0
    access, found = await comments.list_file_comments(
        visit.database, visit.actor, file.id, after=after, limit=COMMENTS_MAX + 1
    )
    listed = [_as_seen(access, each) for each in found]
    shown = that_fit(listed, COMMENTS_MAX, _chars_of)
    later = shown[-1].id if found.cut or len(listed) > len(shown) else None
    replies = [reply for each in shown for reply in each.comments]
    edits, reply_edits = await asyncio.gather(
        _last_edits(visit, access, "file_comment", shown), _last_edits(visit, access, "file_comment_reply", replies)
    )
    return Comments(shown, later, edits, reply_edits)


async def _last_edits(
    visit: Visit, access: Access, noun: Noun, written: Sequence[FileComment] | Sequence[Reply]
) -> Mapping[str, LastEdit]:
    if all(each.updated_at == each.created_at for each in written):
        return {}
    return await find_last_edits(visit.database, access.repository.id, noun)


def _as_seen(access: Access, comment: FileComment) -> FileComment:
    if not access.is_client:
        return comment
    return msgspec.structs.replace(comment, comments=tuple(each for each in comment.comments if not each.private))


def _chars_of(comment: FileComment) -> int:
    return len(comment.text) + sum(len(each.body) for each in comment.comments)


def writable(reply: Reply) -> str:
    """The text with which a reply is edited: as it was typed, where that is the same again when it is sent."""
    typed = html.unescape(reply.body)
    return typed if clean(typed) == reply.body else reply.body


# --- previews --------------------------------------------------------------------------------------------------------


def kind_of(file: Any) -> str:
    """How a browser can show the file: `image`, `audio`, `video`, `pdf`, `text`, or empty if it cannot."""
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
    """The signed link as a path: pages load nothing from elsewhere, not even from this server's other name."""
    parts = urlsplit(links_of(call)(file.id))
    return f"{parts.path}?{parts.query}"


async def read_text(call: Call, file: File) -> str | None:
    """The beginning of a text, to be escaped. None: the store does not give it just now."""
    try:
        pieces = await call.services.blobs.read(file.blob, 0, min(file.size, TEXT_BYTES))
        content = b"".join([each async for each in pieces])
    except (BlobMissing, Unavailable) as error:
        log.warning("preview_not_read", file_id=file.id, reason=error.message)
        return None
    text = content.decode(errors="replace")
    return text.rstrip("\ufffd") if file.size > TEXT_BYTES else text  # a character that was cut
