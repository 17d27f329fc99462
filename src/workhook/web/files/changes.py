"""The forms that give files and folders another title, and files another folder, or hide them from clients."""

from __future__ import annotations

from urllib.parse import quote

from workhook.core.errors import Malformed
from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.web.files import view
from workhook.web.files.files import files_address
from workhook.web.frame import paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.work.files import actions
from workhook.work.files.schemas import File, FileEdit, Folder, FolderCreate, FolderEdit

places = Places("file_changes")

CHOSEN = "file-"  # and an id: a file's box
UNDONE_MAX = 60
"""How many files a message can take back: their ids travel in a cookie."""
_ID = "fil_"


@places.post("/{owner}/{project}/files/{file_id}/rename", action="file.edit")
async def rename_file(visit: Visit) -> Answer:
    """Give a file another title."""
    _, found = await view.find_file(visit)
    edit = FileEdit(title=visit.form(FolderCreate, "title").title)

    async def rename(write: Write) -> File:
        access, locked = await actions.lock_file(write.tx, write.actor, found.id)
        await actions.edit_file(write, access, locked, edit)
        return locked

    before = await visit.change(rename)
    undo = Undo(f"{files_address(visit)}/{found.id}/rename", {"title": before.title, **_where_from(visit)})
    text = gettext("The file is called “%(title)s” now.") % {"title": edit.title}
    return visit.done(_back(visit, found.id), text, undo=undo)


@places.post("/{owner}/{project}/files/{file_id}/sight", action="file.edit")
async def change_sight(visit: Visit) -> Answer:
    """Hide a file from clients (`private` is 1), or let them see it (0)."""
    _, found = await view.find_file(visit)
    edit = FileEdit(private=visit.fields.get("private") == "1")

    async def change(write: Write) -> File:
        access, locked = await actions.lock_file(write.tx, write.actor, found.id)
        await actions.edit_file(write, access, locked, edit)
        return locked

    before = await visit.change(change)
    was = {"private": "1" if before.private else "0", **_where_from(visit)}
    undo = Undo(f"{files_address(visit)}/{found.id}/sight", was)
    text = (
        gettext("“%(title)s” is hidden from clients now.") if edit.private else gettext("Clients see “%(title)s” now.")
    )
    return visit.done(_back(visit, found.id), text % {"title": before.title}, undo=undo)


@places.post("/{owner}/{project}/files/{file_id}/task", action="file.edit")
async def attach_file(visit: Visit) -> Answer:
    """Attach a file to the task `task_id`, or take it off its task where that is empty."""
    _, found = await view.find_file(visit)
    edit = FileEdit(task_id=visit.fields.get("task_id") or None)

    async def change(write: Write) -> File:
        access, locked = await actions.lock_file(write.tx, write.actor, found.id)
        await actions.edit_file(write, access, locked, edit)
        return locked

    before = await visit.change(change)
    task_id = edit.task_id or before.task_id
    address = f"{paging.project_address(visit)}/tasks/{quote(task_id, safe='')}#files" if task_id else ""
    undo = Undo(f"{files_address(visit)}/{found.id}/task", {"task_id": before.task_id or ""})
    text = gettext("“%(title)s” is on the task.") if edit.task_id else gettext("“%(title)s” was taken off the task.")
    return visit.done(address or _back(visit, found.id), text % {"title": before.title}, undo=undo)


@places.post("/{owner}/{project}/folders/{folder_id}/rename", action="folder.edit")
async def rename_folder(visit: Visit) -> Answer:
    """Give a folder another title."""
    await visit.access()
    folder_id, edit = visit.path("folder_id"), FolderEdit(title=visit.form(FolderCreate, "title").title)

    async def rename(write: Write) -> Folder:
        access, locked = await actions.lock_folder(write.tx, write.actor, folder_id)
        view.require_place(visit, access)
        await actions.edit_folder(write, access, locked, edit)
        return locked

    before = await visit.change(rename)
    address = f"{paging.project_address(visit)}/folders/{before.id}/rename"
    undo = Undo(address, {"title": before.title, **_where_from(visit)})
    text = gettext("The folder is called “%(title)s” now.") % {"title": edit.title}
    return visit.done(_back(visit), text, undo=undo)


@places.post("/{owner}/{project}/files/move", action="file.edit")
async def move_files(visit: Visit) -> Answer:
    """Move the chosen files to the folder `folder`, or out of their folder where it is empty."""
    access = await visit.access()
    chosen = [name.removeprefix(CHOSEN) for name in visit.fields if name.startswith(CHOSEN)]
    chosen += [_ID + each for each in visit.fields.get("files", "").split(".") if each]
    if len(chosen) > view.FILES_MAX:
        raise Malformed(gettext("Choose at most %(number)s files.") % {"number": view.FILES_MAX})
    if not chosen:
        return visit.done(_back(visit), gettext("No file is chosen."))
    folder_id = visit.fields.get("folder") or None
    before = await visit.change(lambda write: actions.move_files(write, access, chosen, folder_id))
    text = ngettext("%(num)s file was moved.", "%(num)s files were moved.", len(before)) % {"num": len(before)}
    return visit.done(_back(visit, chosen[0]), text, undo=_undo_of(visit, before))


def _undo_of(visit: Visit, before: list[File]) -> Undo | None:
    """One form says one folder: it takes back what came out of one, and no more than a cookie holds."""
    folders = {each.folder.id if each.folder else "" for each in before}
    if len(folders) > 1 or len(before) > UNDONE_MAX:
        return None
    ids = ".".join(each.id.removeprefix(_ID) for each in before)
    return Undo(f"{files_address(visit)}/move", {"folder": folders.pop(), "files": ids, **_where_from(visit)})


def _where_from(visit: Visit) -> dict[str, str]:
    return {name: visit.fields[name] for name in ("back",) if name in visit.fields}


def _back(visit: Visit, file_id: str = "") -> str:
    """To the list of files, with the query in `back`, if the form is there; else to the file's own page."""
    if "back" in visit.fields or not file_id:
        return paging.back_to(visit, files_address(visit))
    return f"{files_address(visit)}/{quote(file_id, safe='')}"
