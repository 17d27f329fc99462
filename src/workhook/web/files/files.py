"""The pages and forms of files and folders."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from workhook.http.calls import Answer
from workhook.http.negotiation import prefers_page
from workhook.identity.context import Write
from workhook.web.files import view
from workhook.web.frame import paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.markdown import Prose, find_named_tasks
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import check_alive
from workhook.web.frame.texts import gettext
from workhook.work.board.tasks import choices
from workhook.work.files import actions
from workhook.work.files.schemas import File, FileAnswer, Folder, FolderCreate
from workhook.work.files.upload import limit_of, receive

places = Places("files")


@places.get("/{owner}/{project}/files")
async def folder(visit: Visit) -> Answer:
    """Show the files of a project, one folder at a time."""
    access = await visit.follow()
    shown = await view.read_folder(visit, access)
    return visit.page(
        "files/folder.html",
        access=access,
        shown=shown,
        may_write=access.may_write,
        icon_of=view.icon_of,
        limit=limit_of(visit.call),
        back=paging.with_query(visit).removeprefix("?"),
    )


@places.upload("/{owner}/{project}/files", makes=True, action="file.create")
async def upload(visit: Visit) -> Answer:
    """Upload a file: led to its folder, or told of the file as the API tells of it, if that is what is asked for."""
    access = await visit.access()
    taken = await receive(visit.call, access, admit=visit.admit)
    async with taken:
        await check_alive(visit.call, visit.session)
        if visit.sent is not None:
            visit.sent.add(taken.fingerprint)
        made: Any = await visit.change(taken.create)
    if not prefers_page(visit.call.header("accept"), otherwise=True):
        return Answer(FileAnswer(made), status=201, headers={"Cache-Control": "no-store"})
    text = gettext("“%(title)s” was uploaded.") % {"title": made.title}
    if made.task_id:
        return visit.done(f"{paging.project_address(visit)}/tasks/{made.task_id}#files", text)
    return visit.done(files_address(visit, made.folder.id if made.folder else None), text)


@places.get("/{owner}/{project}/files/{file_id}")
async def file(visit: Visit) -> Answer:
    """Show a file and the comments on it."""
    await visit.follow()
    access, found = await view.file_of_path(visit)
    kind = view.kind_of(found)
    people = await choices.list_people(visit.database, access)
    comments = await view.read_comments(visit, found)
    texts = [text for each in comments.shown for text in (each.text, *(reply.body for reply in each.comments))]
    tasks = await find_named_tasks(visit.database, access, texts)
    return visit.page(
        "files/file.html",
        prose=await Prose([each.login for each in people], visit.actor.user.login, tasks).prepare(
            each.text for each in comments.shown
        ),
        people=people,
        has_secret=True,  # the signed link
        access=access,
        file=found,
        link=view.link_of(visit.call, found),
        kind=kind,
        icon_of=view.icon_of,
        text=await view.read_text(visit.call, found) if kind == "text" else None,
        is_cut=found.size > view.TEXT_BYTES,
        comments=comments,
        may_write=access.may_write,
        writable=view.writable,
        folders=await view.read_folders(visit, access),
        task=await view.read_task(visit, found),
    )


@places.post("/{owner}/{project}/files/{file_id}/delete", action="file.delete")
async def delete_file(visit: Visit) -> Answer:
    """Delete a file, which can be restored."""
    _, found = await view.find_file(visit)

    async def delete(write: Write) -> File:
        access, locked = await actions.lock_file(write.tx, write.actor, found.id)
        await actions.delete_file(write, access, locked)
        return locked

    gone = await visit.change(delete)
    text = gettext("“%(title)s” was deleted. It can be restored for 30 days.") % {"title": gone.title}
    undo = Undo(f"{files_address(visit)}/{gone.id}/restore")
    return visit.done(files_address(visit, gone.folder.id if gone.folder else None), text, undo=undo)


@places.post("/{owner}/{project}/files/{file_id}/restore", action="file.restore")
async def restore_file(visit: Visit) -> Answer:
    """Restore a file that was deleted."""
    await visit.access()
    file_id = visit.path("file_id")
    made: Any = await visit.change(lambda write: actions.restore_file(write, file_id))
    text = gettext("“%(title)s” is there again.") % {"title": made.title}
    return visit.done(files_address(visit, made.folder.id if made.folder else None), text)


@places.post("/{owner}/{project}/folders", makes=True, action="folder.create")
async def create_folder(visit: Visit) -> Answer:
    """Create a folder."""
    access = await visit.access()
    create = visit.form(FolderCreate, "title")
    made: Any = await visit.change(
        lambda write: actions.create_folder(write, access.repository.project_id, create.title)
    )
    return visit.done(
        files_address(visit, made.id), gettext("The folder “%(title)s” is there.") % {"title": made.title}
    )


@places.post("/{owner}/{project}/folders/{folder_id}/delete", action="folder.delete")
async def delete_folder(visit: Visit) -> Answer:
    """Delete a folder that is empty. One of the same title takes it back: there was nothing else to it."""
    await visit.access()

    async def delete(write: Write) -> Folder:
        access, locked = await actions.lock_folder(write.tx, write.actor, visit.path("folder_id"))
        view.require_place(visit, access)
        await actions.delete_folder(write, access, locked)
        return locked

    gone = await visit.change(delete)
    text = gettext("The folder “%(title)s” was deleted.") % {"title": gone.title}
    base = f"/{visit.path('owner')}/{visit.path('project')}"
    return visit.done(files_address(visit), text, undo=Undo(f"{base}/folders", {"title": gone.title}))


def files_address(visit: Visit, folder_id: str | None = None) -> str:
    """The page of a folder of the project; that of what is in no folder without one."""
    base = f"/{visit.path('owner')}/{visit.path('project')}/files"
    return f"{base}?folder={quote(folder_id)}" if folder_id else base
