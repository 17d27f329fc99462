"""The forms of file comments and their replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workhook.core.errors import NotFound
from workhook.http.calls import Response
from workhook.identity.context import Write
from workhook.web.files import view
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.discussion import actions
from workhook.work.discussion.actions import Held
from workhook.work.discussion.schemas import CommentCreate, CommentEdit, FileComment, Reply, ReplyCreate, ReplyEdit
from workhook.work.kernel.access import Access

places = Places("file_comments")
_FILE = "/{owner}/{project}/files/{file_id}"
_COMMENT = f"{_FILE}/comments/{{comment_id}}"
_REPLY = f"{_COMMENT}/replies/{{reply_id}}"


@places.post(f"{_FILE}/comments", makes=True, action="file_comment.create")
async def comment(visit: Visit) -> Response:
    """Comment on a file."""
    access, file = await view.find_file(visit)
    create = visit.form(CommentCreate, "text", **_private(visit, access))
    await create.prepare()
    made = await visit.change(lambda write: actions.create_file_comment(write, file.id, create))
    return visit.done(f"{_address(visit)}#comment-{made.id}")


@places.post(f"{_COMMENT}/edit", action="file_comment.edit")
async def edit_comment(visit: Visit) -> Response:
    """Edit a comment."""
    access, _ = await view.find_file(visit)
    edit = visit.form(CommentEdit, "text", **_private(visit, access))
    await edit.prepare()
    await _on_comment(visit, lambda write, held: actions.edit(write, held, edit))
    return visit.done(f"{_address(visit)}#comment-{visit.call.path_integer('comment_id')}")


@places.post(f"{_COMMENT}/delete", action="file_comment.delete")
async def delete_comment(visit: Visit) -> Response:
    """Delete a comment and its replies."""
    await view.find_file(visit)
    await _on_comment(visit, actions.delete)
    return visit.done(_address(visit), gettext("The comment was deleted."))


@places.post(f"{_COMMENT}/replies", makes=True, action="file_comment_reply.create")
async def reply(visit: Visit) -> Response:
    """Reply to a comment."""
    access, _ = await view.find_file(visit)
    create = visit.form(ReplyCreate, "body", **_private(visit, access))
    await _on_comment(visit, lambda write, held: actions.create_reply(write, held.comment.id, create))
    return visit.done(f"{_address(visit)}#comment-{visit.call.path_integer('comment_id')}")


@places.post(f"{_REPLY}/edit", action="file_comment_reply.edit")
async def edit_reply(visit: Visit) -> Response:
    """Edit a reply."""
    access, _ = await view.find_file(visit)
    edit = visit.form(ReplyEdit, "body", **_private(visit, access))
    await _on_reply(visit, lambda write, held: actions.edit(write, held, edit))
    return visit.done(f"{_address(visit)}#reply-{visit.call.path_integer('reply_id')}")


@places.post(f"{_REPLY}/delete", action="file_comment_reply.delete")
async def delete_reply(visit: Visit) -> Response:
    """Delete a reply."""
    await view.find_file(visit)
    await _on_reply(visit, actions.delete)
    return visit.done(_address(visit), gettext("The reply was deleted."))


async def _on_comment(visit: Visit, change: Callable[[Write, Held[FileComment]], Awaitable[object]]) -> None:
    """Lock the comment in the path and call `change`. Raises `NotFound` if it is on another file."""
    comment_id = visit.call.path_integer("comment_id")

    async def step(write: Write) -> None:
        held = await actions.lock_file_comment(write.tx, write.actor, comment_id)
        if held.comment.file.id != visit.path("file_id"):
            raise NotFound()
        await change(write, held)

    await visit.change(step)


async def _on_reply(visit: Visit, change: Callable[[Write, Held[Reply]], Awaitable[object]]) -> None:
    """Lock the reply in the path and call `change`, like `_on_comment`."""
    reply_id = visit.call.path_integer("reply_id")

    async def step(write: Write, held: Held[FileComment]) -> None:
        await change(write, await actions.lock_reply(write.tx, write.actor, held.comment.id, reply_id))

    await _on_comment(visit, step)


def _private(visit: Visit, access: Access) -> dict[str, object]:
    """Read the checkbox. Browsers don't send an unticked one, and clients don't have it."""
    return {} if access.is_client else {"private": "private" in visit.fields}


def _address(visit: Visit) -> str:
    return f"/{visit.path('owner')}/{visit.path('project')}/files/{visit.path('file_id')}"
