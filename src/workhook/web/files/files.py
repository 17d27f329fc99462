"""The pages and forms of files and folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from workhook.core.errors import Malformed, NotFound
from workhook.http.calls import Response
from workhook.http.negotiation import prefers_page
from workhook.identity.context import Write
from workhook.web.files import view
from workhook.web.frame import paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.markdown import Prose, find_named_tasks
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import check_alive
from workhook.web.frame.texts import gettext, ngettext
from workhook.work.board.tasks import assignees
from workhook.work.discussion import actions as discussion
from workhook.work.discussion.actions import Held
from workhook.work.discussion.schemas import CommentCreate, CommentEdit, FileComment, Reply, ReplyCreate, ReplyEdit
from workhook.work.files import actions
from workhook.work.files.schemas import File, FileAnswer, FileEdit, Folder, FolderCreate, FolderEdit
from workhook.work.files.upload import limit_of, receive
from workhook.work.kernel.access import Access

places = Places("files")


@places.get("/{owner}/{project}/files")
async def folder(visit: Visit) -> Response:
    """Show the files of a project, one folder at a time."""
    access = await visit.follow()
    return visit.page(
        "files/folder.html",
        shown=await view.read_folder(visit, access),
        icon_of=view.icon_of,
        limit=limit_of(visit.call),
        back=paging.with_query(visit).removeprefix("?"),
    )


@places.upload("/{owner}/{project}/files", makes=True, action="file.create")
async def upload(visit: Visit) -> Response:
    """Upload a file. Redirects to its folder, or returns the API's JSON if the client accepts that."""
    access = await visit.access()
    taken = await receive(visit.call, access, admit=visit.admit)
    async with taken:
        await check_alive(visit.call, visit.session)
        if visit.sent is not None:
            visit.sent.add(taken.fingerprint)
        made: Any = await visit.change(taken.create)
    if not prefers_page(visit.call.header("accept"), otherwise=True):
        return Response(FileAnswer(made), status=201, headers={"Cache-Control": "no-store"})
    text = gettext("“%(title)s” was uploaded.", title=made.title)
    if made.task_id:
        return visit.done(f"{paging.project_address(visit)}/tasks/{made.task_id}#files", text)
    return visit.done(files_address(visit, made.folder.id if made.folder else None), text)


@places.get("/{owner}/{project}/files/{file_id}")
async def file(visit: Visit) -> Response:
    access, found = await view.find_file(visit, await visit.follow())
    kind = view.kind_of(found)
    people = await assignees.list_people(visit.database, access)
    comments = await view.read_comments(visit, found)
    texts = [text for each in comments["shown"] for text in (each.text, *(reply.body for reply in each.comments))]
    tasks = await find_named_tasks(visit.database, access, texts)
    return visit.page(
        "files/file.html",
        prose=await Prose([each.login for each in people], visit.actor.user.login, tasks).prepare(
            each.text for each in comments["shown"]
        ),
        people=people,
        has_secret=True,  # the signed link
        file=found,
        link=view.link_of(visit.call, found),
        kind=kind,
        icon_of=view.icon_of,
        text=await view.read_text(visit.call, found) if kind == "text" else None,
        is_cut=found.size > view.TEXT_BYTES,
        comments=comments,
        writable=view.writable,
        folders=await actions.all_folders(visit.database, access),
        task=await view.read_task(visit, found),
    )


@places.post("/{owner}/{project}/files/{file_id}/delete", action="file.delete")
async def delete_file(visit: Visit) -> Response:
    _, found = await view.find_file(visit)

    gone = await _change(visit, found.id, actions.delete_file)
    text = gettext("“%(title)s” was deleted. You can restore it from the trash for 30 days.", title=gone.title)
    undo = Undo(f"{files_address(visit)}/{gone.id}/restore")
    return visit.done(files_address(visit, gone.folder.id if gone.folder else None), text, undo=undo)


@places.post("/{owner}/{project}/files/{file_id}/restore", action="file.restore")
async def restore_file(visit: Visit) -> Response:
    await visit.access()
    file_id = visit.path("file_id")
    made: Any = await visit.change(lambda write: actions.restore_file(write, file_id))
    text = gettext("“%(title)s” was restored.", title=made.title)
    return visit.done(files_address(visit, made.folder.id if made.folder else None), text)


@places.post("/{owner}/{project}/folders", makes=True, action="folder.create")
async def create_folder(visit: Visit) -> Response:
    access = await visit.access()
    create = visit.form(FolderCreate, "title")
    made: Any = await visit.change(
        lambda write: actions.create_folder(write, access.repository.project_id, create.title)
    )
    return visit.done(files_address(visit, made.id), gettext("The folder “%(title)s” was created.", title=made.title))


@places.post("/{owner}/{project}/folders/{folder_id}/delete", action="folder.delete")
async def delete_folder(visit: Visit) -> Response:
    """Delete an empty folder. The undo creates a folder with the same title, since an empty one has nothing else."""
    access = await visit.access()

    async def delete(write: Write) -> Folder:
        its, locked = await actions.lock_folder(write.tx, write.actor, visit.path("folder_id"))
        access.require_same_project(its)
        await actions.delete_folder(write, its, locked)
        return locked

    gone = await visit.change(delete)
    text = gettext("The folder “%(title)s” was deleted.", title=gone.title)
    undo = Undo(paging.project_address(visit, "folders"), {"title": gone.title})
    return visit.done(files_address(visit), text, undo=undo)


def files_address(visit: Visit, folder_id: str | None = None) -> str:
    base = paging.project_address(visit, "files")
    return f"{base}?folder={quote(folder_id)}" if folder_id else base


change_places = Places("file_changes")

CHOSEN = "file-"  # prefix of a file's checkbox, followed by its ID
UNDONE_MAX = 60
"""Maximum number of files in an undo, because their IDs are stored in a cookie."""
_ID = "fil_"


@change_places.post("/{owner}/{project}/files/{file_id}/rename", action="file.edit")
async def rename_file(visit: Visit) -> Response:
    _, found = await view.find_file(visit)
    edit = FileEdit(title=visit.form(FolderCreate, "title").title)
    before = await _edit(visit, found.id, edit)
    undo = Undo(f"{files_address(visit)}/{found.id}/rename", {"title": before.title, **_where_from(visit)})
    text = gettext("The file was renamed to “%(title)s”.", title=edit.title)
    return visit.done(_back(visit, found.id), text, undo=undo)


async def _edit(visit: Visit, file_id: str, edit: FileEdit) -> File:
    return await _change(visit, file_id, lambda write, access, file: actions.edit_file(write, access, file, edit))


async def _change(visit: Visit, file_id: str, change: Callable[[Write, Access, File], Awaitable[object]]) -> File:
    """Lock a file, call `change`, and return the file as it was before."""

    async def step(write: Write) -> File:
        access, locked = await actions.lock_file(write.tx, write.actor, file_id)
        await change(write, access, locked)
        return locked

    return await visit.change(step)


@change_places.post("/{owner}/{project}/files/{file_id}/sight", action="file.edit")
async def change_sight(visit: Visit) -> Response:
    """Hide a file from clients (`private` is 1) or show it to them (0)."""
    _, found = await view.find_file(visit)
    edit = FileEdit(private=visit.fields.get("private") == "1")
    before = await _edit(visit, found.id, edit)
    was = {"private": "1" if before.private else "0", **_where_from(visit)}
    undo = Undo(f"{files_address(visit)}/{found.id}/sight", was)
    text = gettext("“%(title)s” is now visible to clients.", title=before.title)
    if edit.private:
        text = gettext("“%(title)s” is now hidden from clients.", title=before.title)
    return visit.done(_back(visit, found.id), text, undo=undo)


@change_places.post("/{owner}/{project}/files/{file_id}/task", action="file.edit")
async def attach_file(visit: Visit) -> Response:
    """Attach a file to the task `task_id`, or detach it if `task_id` is empty."""
    _, found = await view.find_file(visit)
    edit = FileEdit(task_id=visit.fields.get("task_id") or None)
    before = await _edit(visit, found.id, edit)
    task_id = edit.task_id or before.task_id
    address = f"{paging.project_address(visit)}/tasks/{quote(task_id, safe='')}#files" if task_id else ""
    undo = Undo(f"{files_address(visit)}/{found.id}/task", {"task_id": before.task_id or ""})
    text = gettext("“%(title)s” was removed from the task.", title=before.title)
    if edit.task_id:
        text = gettext("“%(title)s” was attached to the task.", title=before.title)
    return visit.done(address or _back(visit, found.id), text, undo=undo)


@change_places.post("/{owner}/{project}/folders/{folder_id}/rename", action="folder.edit")
async def rename_folder(visit: Visit) -> Response:
    access = await visit.access()
    folder_id, edit = visit.path("folder_id"), FolderEdit(title=visit.form(FolderCreate, "title").title)

    async def rename(write: Write) -> Folder:
        its, locked = await actions.lock_folder(write.tx, write.actor, folder_id)
        access.require_same_project(its)
        await actions.edit_folder(write, its, locked, edit)
        return locked

    before = await visit.change(rename)
    address = f"{paging.project_address(visit)}/folders/{before.id}/rename"
    undo = Undo(address, {"title": before.title, **_where_from(visit)})
    text = gettext("The folder was renamed to “%(title)s”.", title=edit.title)
    return visit.done(_back(visit), text, undo=undo)


@change_places.post("/{owner}/{project}/files/move", action="file.edit")
async def move_files(visit: Visit) -> Response:
    """Move the selected files to `folder`, or out of their folder if that is empty."""
    access = await visit.access()
    chosen = [name.removeprefix(CHOSEN) for name in visit.fields if name.startswith(CHOSEN)]
    chosen += [_ID + each for each in visit.fields.get("files", "").split(".") if each]
    if len(chosen) > view.FILES_MAX:
        raise Malformed(gettext("Select at most %(number)s files.", number=view.FILES_MAX))
    if not chosen:
        return visit.done(_back(visit), gettext("Select at least one file first."))
    folder_id = visit.fields.get("folder") or None
    before = await visit.change(lambda write: actions.move_files(write, access, chosen, folder_id))
    text = ngettext("%(num)s file was moved.", "%(num)s files were moved.", len(before))
    return visit.done(_back(visit, chosen[0]), text, undo=_undo_of(visit, before))


def _undo_of(visit: Visit, before: list[File]) -> Undo | None:
    """Return the undo of a move, or None if the files came from several folders or their IDs don't fit a cookie."""
    folders = {each.folder.id if each.folder else "" for each in before}
    if len(folders) > 1 or len(before) > UNDONE_MAX:
        return None
    ids = ".".join(each.id.removeprefix(_ID) for each in before)
    return Undo(f"{files_address(visit)}/move", {"folder": folders.pop(), "files": ids, **_where_from(visit)})


def _where_from(visit: Visit) -> dict[str, str]:
    return {name: visit.fields[name] for name in ("back",) if name in visit.fields}


def _back(visit: Visit, file_id: str = "") -> str:
    """Return the address of the file list with the query in `back` if the form has one, else of the file's page."""
    if "back" in visit.fields or not file_id:
        return paging.back_to(visit, files_address(visit))
    return f"{files_address(visit)}/{quote(file_id, safe='')}"


comment_places = Places("file_comments")
_FILE = "/{owner}/{project}/files/{file_id}"
_COMMENT = f"{_FILE}/comments/{{comment_id}}"
_REPLY = f"{_COMMENT}/replies/{{reply_id}}"


@comment_places.post(f"{_FILE}/comments", makes=True, action="file_comment.create")
async def comment(visit: Visit) -> Response:
    access, file = await view.find_file(visit)
    create = visit.form(CommentCreate, "text", **_private(visit, access))
    await create.prepare()
    made = await visit.change(lambda write: discussion.create_file_comment(write, file.id, create))
    return visit.done(f"{_address(visit)}#comment-{made.id}")


@comment_places.post(f"{_COMMENT}/edit", action="file_comment.edit")
async def edit_comment(visit: Visit) -> Response:
    access, _ = await view.find_file(visit)
    edit = visit.form(CommentEdit, "text", **_private(visit, access))
    await edit.prepare()
    await _on_comment(visit, lambda write, held: discussion.edit(write, held, edit))
    return visit.done(f"{_address(visit)}#comment-{visit.call.path_integer('comment_id')}")


@comment_places.post(f"{_COMMENT}/delete", action="file_comment.delete")
async def delete_comment(visit: Visit) -> Response:
    """Delete a comment and its replies."""
    await view.find_file(visit)
    await _on_comment(visit, discussion.delete)
    return visit.done(_address(visit), gettext("The comment was deleted."))


@comment_places.post(f"{_COMMENT}/replies", makes=True, action="file_comment_reply.create")
async def reply(visit: Visit) -> Response:
    access, _ = await view.find_file(visit)
    create = visit.form(ReplyCreate, "body", **_private(visit, access))
    await _on_comment(visit, lambda write, held: discussion.create_reply(write, held.comment.id, create))
    return visit.done(f"{_address(visit)}#comment-{visit.call.path_integer('comment_id')}")


@comment_places.post(f"{_REPLY}/edit", action="file_comment_reply.edit")
async def edit_reply(visit: Visit) -> Response:
    access, _ = await view.find_file(visit)
    edit = visit.form(ReplyEdit, "body", **_private(visit, access))
    await _on_reply(visit, lambda write, held: discussion.edit(write, held, edit))
    return visit.done(f"{_address(visit)}#reply-{visit.call.path_integer('reply_id')}")


@comment_places.post(f"{_REPLY}/delete", action="file_comment_reply.delete")
async def delete_reply(visit: Visit) -> Response:
    await view.find_file(visit)
    await _on_reply(visit, discussion.delete)
    return visit.done(_address(visit), gettext("The reply was deleted."))


async def _on_comment(visit: Visit, change: Callable[[Write, Held[FileComment]], Awaitable[object]]) -> None:
    """Lock the comment in the path and call `change`. Raises `NotFound` if it is on another file."""
    comment_id = visit.call.path_integer("comment_id")

    async def step(write: Write) -> None:
        held = await discussion.lock_file_comment(write.tx, write.actor, comment_id)
        if held.comment.file.id != visit.path("file_id"):
            raise NotFound()
        await change(write, held)

    await visit.change(step)


async def _on_reply(visit: Visit, change: Callable[[Write, Held[Reply]], Awaitable[object]]) -> None:
    """Lock the reply in the path and call `change`, like `_on_comment`."""
    reply_id = visit.call.path_integer("reply_id")

    async def step(write: Write, held: Held[FileComment]) -> None:
        await change(write, await discussion.lock_reply(write.tx, write.actor, held.comment.id, reply_id))

    await _on_comment(visit, step)


def _private(visit: Visit, access: Access) -> dict[str, object]:
    """Read the checkbox. Browsers don't send an unticked one, and clients don't have it."""
    return {} if access.is_client else {"private": "private" in visit.fields}


def _address(visit: Visit) -> str:
    return f"/{visit.path('owner')}/{visit.path('project')}/files/{visit.path('file_id')}"
