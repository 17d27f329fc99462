"""Comments on tasks and files, and replies to comments on files.

Listing the comments on a file and creating one return them without an envelope.
"""

from __future__ import annotations

from workhook.core.records import Wire, to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.work.discussion import actions
from workhook.work.discussion.schemas import (
    CommentCreate,
    CommentEdit,
    FileComment,
    FileCommentAnswer,
    ReplyAnswer,
    ReplyCreate,
    ReplyEdit,
    TaskCommentAnswer,
    TaskCommentsAnswer,
    file_comment_to_response,
)
from workhook.work.files.links import links_of
from workhook.work.kernel.access import Access
from workhook.work.kernel.lists import cursor_of
from workhook.work.kernel.schemas import Done

of_tasks = Routes(WORK_API, "Task Comments")
of_files = Routes(WORK_API, "File comments")


@of_tasks.get("/tasks/{id}/task_comments")
async def list_task_comments(call: Call, task_id: str, query: ListQuery) -> Listed[TaskCommentsAnswer]:
    """List the comments on a task, oldest first."""
    after = cursor_of(query, actions.IN_TIME)
    found = await actions.list_task_comments(call.database, actor_of(call), task_id, after=after, limit=query.limit + 1)
    comments, headers = lists.page(call, found, query)
    return Listed(TaskCommentsAnswer([to_response(each) for each in comments]), headers)


@of_tasks.post("/tasks/{id}/task_comments")
async def create_task_comment(write: Write, task_id: str, create: CommentCreate) -> TaskCommentAnswer:
    """Create a comment on a task."""
    return TaskCommentAnswer(to_response(await actions.create_task_comment(write, task_id, create)))


@of_tasks.patch("/task_comments/{id}")
async def edit_task_comment(write: Write, task_comment_id: int, edit: CommentEdit) -> TaskCommentAnswer:
    """Update a comment on a task.

    Only the author can change the text, and no one can if the comment was imported. Admins of the project can change
    `private`.
    """
    held = await actions.lock_task_comment(write.tx, write.actor, task_comment_id)
    write.require_match(TaskCommentAnswer(to_response(held.comment)))
    return TaskCommentAnswer(to_response(await actions.edit(write, held, edit)))


@of_tasks.delete("/task_comments/{id}")
async def delete_task_comment(write: Write, task_comment_id: int) -> Done:
    """Delete a comment on a task.

    Only the author and admins of the project can call this. If an admin deletes someone else's comment, it is kept with
    an empty text; deleting it again removes it.
    """
    held = await actions.lock_task_comment(write.tx, write.actor, task_comment_id)
    write.require_match(TaskCommentAnswer(to_response(held.comment)))
    await actions.delete(write, held)
    return Done()


def _file_comment(write: Write, access: Access, comment: FileComment) -> FileCommentAnswer:
    return FileCommentAnswer(file_comment_to_response(comment, links_of(write.call), to_client=access.is_client))


@of_files.get("/files/{file_id}/file_comments")
async def list_file_comments(call: Call, file_id: str, query: ListQuery) -> Listed[list[Wire[FileComment]]]:
    """List the comments on a file with their replies, oldest first.

    Returns a plain array.
    """
    after = cursor_of(query, actions.IN_TIME)
    access, found = await actions.list_file_comments(
        call.database, actor_of(call), file_id, after=after, limit=query.limit + 1
    )
    comments, headers = lists.page(call, found, query)
    links = links_of(call)
    return Listed([file_comment_to_response(each, links, to_client=access.is_client) for each in comments], headers)


@of_files.post("/files/{file_id}/file_comments")
async def create_file_comment(write: Write, file_id: str, create: CommentCreate) -> Wire[FileComment]:
    """Create a comment on a file.

    Returns the comment without an envelope.
    """
    return file_comment_to_response(await actions.create_file_comment(write, file_id, create), links_of(write.call))


@of_files.patch("/file_comments/{file_comment_id}")
async def edit_file_comment(write: Write, file_comment_id: int, edit: CommentEdit) -> FileCommentAnswer:
    """Update a comment on a file.

    Only the author can change the text. Admins of the project can change `private`.
    """
    held = await actions.lock_file_comment(write.tx, write.actor, file_comment_id)
    write.require_match(_file_comment(write, held.access, held.comment))
    return _file_comment(write, held.access, await actions.edit(write, held, edit))


@of_files.delete("/file_comments/{file_comment_id}")
async def delete_file_comment(write: Write, file_comment_id: int) -> Done:
    """Delete a comment on a file, including its replies.

    Only the author and admins of the project can call this. If others have replied, or if an admin deletes someone
    else's comment, the comment and its replies are kept, but its text is cleared. If a client deletes their own
    comment, whatever is kept is hidden from clients. If an admin deletes a comment without text, it is removed with its
    replies.
    """
    held = await actions.lock_file_comment(write.tx, write.actor, file_comment_id)
    write.require_match(_file_comment(write, held.access, held.comment))
    await actions.delete(write, held)
    return Done()


@of_files.post("/file_comments/{file_comment_id}/comments")
async def create_file_comment_reply(write: Write, file_comment_id: int, create: ReplyCreate) -> ReplyAnswer:
    """Reply to a comment on a file.

    `body` may contain HTML. Only headings, paragraphs, lists, quotes, code, emphasis and links to `http`, `https` and
    `mailto` are kept. The sanitized body is stored and returned.
    """
    return ReplyAnswer(to_response(await actions.create_reply(write, file_comment_id, create)))


@of_files.patch("/file_comments/{file_comment_id}/comments/{id}")
async def edit_file_comment_reply(write: Write, file_comment_id: int, comment_id: int, edit: ReplyEdit) -> ReplyAnswer:
    """Update a reply.

    Only the author can change the text. Admins of the project can change `private`.
    """
    held = await actions.lock_reply(write.tx, write.actor, file_comment_id, comment_id)
    write.require_match(ReplyAnswer(to_response(held.comment)))
    return ReplyAnswer(to_response(await actions.edit(write, held, edit)))


@of_files.delete("/file_comments/{file_comment_id}/comments/{id}")
async def delete_file_comment_reply(write: Write, file_comment_id: int, comment_id: int) -> Done:
    """Delete a reply.

    Only the author and admins of the project can call this. If an admin deletes someone else's reply, it is kept with
    an empty body; deleting it again removes it.
    """
    held = await actions.lock_reply(write.tx, write.actor, file_comment_id, comment_id)
    write.require_match(ReplyAnswer(to_response(held.comment)))
    await actions.delete(write, held)
    return Done()


routes = (*of_tasks, *of_files)
