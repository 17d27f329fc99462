"""Comments on tasks."""

from __future__ import annotations

from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A
from workhook.identity.context import Write
from workhook.identity.guard import actor_of
from workhook.work.comments import task_actions
from workhook.work.comments.schemas import (
    After,
    CommentCreate,
    CommentEdit,
    TaskComment,
    TaskCommentAnswer,
    TaskCommentsAnswer,
    task_comment_shape,
)
from workhook.work.schemas import Done

routes = Routes(AREA_A, "Task Comments", read="work.read", write="work.write")


def _shown(comment: TaskComment) -> TaskCommentAnswer:
    return TaskCommentAnswer(task_comment_shape(comment))


@routes.get("/tasks/{id}/task_comments")
async def list_task_comments(call: Call, task_id: str, query: ListQuery) -> Listed[TaskCommentsAnswer]:
    """List the comments on a task, the newest last."""
    key = lists.after(query, After)
    found = await task_actions.list_comments(
        call.database, actor_of(call), task_id, after=key.id if key else 0, limit=query.limit + 1
    )
    comments, headers = lists.page(call, found, query, lambda comment: (comment.id,))
    return Listed(TaskCommentsAnswer([task_comment_shape(each) for each in comments]), headers)


@routes.post("/tasks/{id}/task_comments")
async def create_task_comment(write: Write, task_id: str, create: CommentCreate) -> TaskCommentAnswer:
    """Comment on a task."""
    made = await task_actions.create_comment(write, task_id, create)
    return _shown(made)


@routes.patch("/task_comments/{id}")
async def edit_task_comment(write: Write, task_comment_id: int, edit: CommentEdit) -> TaskCommentAnswer:
    """Change a comment on a task."""
    access, comment = await task_actions.take_comment(write.tx, write.actor, task_comment_id)
    write.require_match(_shown(comment))
    return _shown(await task_actions.edit_comment(write, access, comment, edit))


@routes.delete("/task_comments/{id}")
async def delete_task_comment(write: Write, task_comment_id: int) -> Done:
    """Delete a comment on a task."""
    access, comment = await task_actions.take_comment(write.tx, write.actor, task_comment_id)
    write.require_match(_shown(comment))
    await task_actions.delete_comment(write, access, comment)
    return Done()
