"""The forms of task comments, and Markdown previews."""

from __future__ import annotations

from workhook.core.errors import Forbidden, Malformed, NotFound
from workhook.http.calls import Response
from workhook.identity.context import Write
from workhook.web.frame.markdown import Prose, find_named_tasks
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, text
from workhook.web.tasks.task import address, task_at
from workhook.work.board.tasks import choices
from workhook.work.discussion import actions
from workhook.work.discussion.schemas import CommentCreate, CommentEdit, TaskComment

places = Places("task_comments")


@places.post("/{owner}/{project}/tasks/{task_id}/comments", makes=True, action="task_comment.create")
async def add_comment(visit: Visit) -> Response:
    """Comment on a task."""
    await task_at(visit)
    more = {"private": True} if visit.fields.get("private") else {}
    create = visit.form(CommentCreate, "text", **more)
    await create.prepare()
    made = await visit.change(lambda write: actions.create_task_comment(write, visit.path("task_id"), create))
    return visit.done(f"{address(visit)}#comment-{made.id}")


@places.post("/{owner}/{project}/tasks/{task_id}/comments/{comment_id}/edit", action="task_comment.edit")
async def edit_comment(visit: Visit) -> Response:
    """Edit a comment."""
    access, _ = await task_at(visit)
    # Browsers don't send an unticked checkbox. Clients don't have it.
    hidden = {} if access.is_client else {"private": "private" in visit.fields}
    edit = visit.form(CommentEdit, "text", **hidden)
    await edit.prepare()

    async def change(write: Write) -> None:
        await actions.edit(write, await _lock(visit, write), edit)

    await visit.change(change)
    return visit.done(f"{address(visit)}#comment-{visit.path('comment_id')}")


@places.post("/{owner}/{project}/tasks/{task_id}/comments/{comment_id}/delete", action="task_comment.delete")
async def delete_comment(visit: Visit) -> Response:
    """Delete a comment."""
    await task_at(visit)

    async def delete(write: Write) -> None:
        await actions.delete(write, await _lock(visit, write))

    await visit.change(delete)
    return visit.done(f"{address(visit)}#comments", gettext("The comment was deleted."))


async def _lock(visit: Visit, write: Write) -> actions.Held[TaskComment]:
    """Lock the comment. Raises `NotFound` for a comment of another task."""
    comment_id = visit.call.path_integer("comment_id")
    held = await actions.lock_task_comment(write.tx, write.actor, comment_id)
    if held.comment.task.id != visit.path("task_id"):
        raise NotFound()
    return held


# --- previews ---------------------------------------------------------------------------------------------------------

preview_places = Places("task_preview")
DESCRIPTION, NEW = "description", "new"


@preview_places.post("/{owner}/{project}/tasks/{task_id}/preview", action="page.view")
async def preview(visit: Visit) -> Response:
    """Preview a text, with a form to save it."""
    access, task = await task_at(visit)
    if not access.may_write:
        raise Forbidden(text("You have read-only access to this project."), code="missing_role")
    key, page_address = visit.fields.get("preview", ""), address(visit)
    name = "description" if key == DESCRIPTION else "text"
    people = await choices.list_people(visit.database, access)
    tasks = await find_named_tasks(visit.database, access, [visit.fields.get(name)])
    await visit.load_frame()
    return visit.page(
        "tasks/preview.html",
        access=access,
        task=task,
        here=page_address,
        key=key,
        field=name,
        action=_action(page_address, key),
        text=visit.fields.get(name, ""),
        private="private" in visit.fields,
        was=visit.fields.get("was", ""),
        prose=await Prose([each.login for each in people], visit.actor.user.login, tasks).prepare(
            [visit.fields.get(name)]
        ),
    )


def _action(page_address: str, key: str) -> str:
    """Return the action of the form that saves the text. Raises `Malformed`."""
    if key in (DESCRIPTION, NEW):
        return f"{page_address}/{'edit' if key == DESCRIPTION else 'comments'}"
    if not (key.isascii() and key.isdigit()):
        raise Malformed("Problems parsing the form")
    return f"{page_address}/comments/{key}/edit"
