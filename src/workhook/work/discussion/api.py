"""Comments on tasks and on files, and the replies to those on files.

The specification has the list of a file's comments and a new one of them answered bare, without an envelope.
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

of_tasks = Routes(WORK_API, "Task Comments", read="work.read", write="work.write")
of_files = Routes(WORK_API, "File comments", read="work.read", write="work.write")


@of_tasks.get("/tasks/{id}/task_comments")
async def list_task_comments(call: Call, task_id: str, query: ListQuery) -> Listed[TaskCommentsAnswer]:
    """List the comments on a task, the newest last."""
    after = cursor_of(query, actions.IN_TIME)
    found = await actions.list_task_comments(call.database, actor_of(call), task_id, after=after, limit=query.limit + 1)
    comments, headers = lists.page(call, found, query)
    return Listed(TaskCommentsAnswer([to_response(each) for each in comments]), headers)


@of_tasks.post("/tasks/{id}/task_comments")
async def create_task_comment(write: Write, task_id: str, create: CommentCreate) -> TaskCommentAnswer:
    """Comment on a task."""
    return TaskCommentAnswer(to_response(await actions.create_task_comment(write, task_id, create)))


@of_tasks.patch("/task_comments/{id}")
async def edit_task_comment(write: Write, task_comment_id: int, edit: CommentEdit) -> TaskCommentAnswer:
    """Change a comment on a task.

    Only the author changes what it says, and nobody if it was imported. An admin of the project can change `private`.
    """
    held = await actions.lock_task_comment(write.tx, write.actor, task_comment_id)
    write.require_match(TaskCommentAnswer(to_response(held.comment)))
    return TaskCommentAnswer(to_response(await actions.edit(write, held, edit)))


@of_tasks.delete("/task_comments/{id}")
async def delete_task_comment(write: Write, task_comment_id: int) -> Done:
    """Delete a comment on a task.

    Only the author and admins of the project do. If an admin deletes what somebody else wrote, it stays with an empty
    text; deleting that once more removes it.
    """
    held = await actions.lock_task_comment(write.tx, write.actor, task_comment_id)
    write.require_match(TaskCommentAnswer(to_response(held.comment)))
    await actions.delete(write, held)
    return Done()


def _file_comment(write: Write, access: Access, comment: FileComment) -> FileCommentAnswer:
    return FileCommentAnswer(file_comment_to_response(comment, links_of(write.call), to_client=access.is_client))


@of_files.get("/files/{file_id}/file_comments")
async def list_file_comments(call: Call, file_id: str, query: ListQuery) -> Listed[list[Wire[FileComment]]]:
    """List the comments on a file with their replies, the newest last.

    The answer is the list itself.
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
    """Comment on a file.

    The answer is the comment itself.
    """
    return file_comment_to_response(await actions.create_file_comment(write, file_id, create), links_of(write.call))


@of_files.patch("/file_comments/{file_comment_id}")
async def edit_file_comment(write: Write, file_comment_id: int, edit: CommentEdit) -> FileCommentAnswer:
    """Change a comment on a file.

    Only the author changes what it says. An admin of the project can change `private`.
    """
    held = await actions.lock_file_comment(write.tx, write.actor, file_comment_id)
    write.require_match(_file_comment(write, held.access, held.comment))
    return _file_comment(write, held.access, await actions.edit(write, held, edit))


@of_files.delete("/file_comments/{file_comment_id}")
async def delete_file_comment(write: Write, file_comment_id: int) -> Done:
    """Delete a comment on a file, and the replies to it.

    Only the author and admins of the project do. If others replied, or if an admin deletes what somebody else wrote,
    the comment stays with an empty text and its replies. Clients no longer see what a client deleted itself. An admin
    who deletes such a comment once more removes it with the replies.
    """
    held = await actions.lock_file_comment(write.tx, write.actor, file_comment_id)
    write.require_match(_file_comment(write, held.access, held.comment))
    await actions.delete(write, held)
    return Done()


@of_files.post("/file_comments/{file_comment_id}/comments")
async def create_file_comment_reply(write: Write, file_comment_id: int, create: ReplyCreate) -> ReplyAnswer:
    """Reply to a comment on a file.

    `body` may be HTML. Only headings, paragraphs, lists, quotes, code, emphasis and links to `http`, `https` and
    `mailto` are kept. What remains is stored and answered.
    """
    return ReplyAnswer(to_response(await actions.create_reply(write, file_comment_id, create)))


@of_files.patch("/file_comments/{file_comment_id}/comments/{id}")
async def edit_file_comment_reply(write: Write, file_comment_id: int, comment_id: int, edit: ReplyEdit) -> ReplyAnswer:
    """Change a reply.

    Only the author changes what it says. An admin of the project can change `private`.
    """
    held = await actions.lock_reply(write.tx, write.actor, file_comment_id, comment_id)
    write.require_match(ReplyAnswer(to_response(held.comment)))
    return ReplyAnswer(to_response(await actions.edit(write, held, edit)))


@of_files.delete("/file_comments/{file_comment_id}/comments/{id}")
async def delete_file_comment_reply(write: Write, file_comment_id: int, comment_id: int) -> Done:
    """Delete a reply.

    Only the author and admins of the project do. If an admin deletes what somebody else wrote, it stays with an empty
    body; deleting that once more removes it.
    """
    held = await actions.lock_reply(write.tx, write.actor, file_comment_id, comment_id)
    write.require_match(ReplyAnswer(to_response(held.comment)))
    await actions.delete(write, held)
    return Done()


routes = (*of_tasks, *of_files)
