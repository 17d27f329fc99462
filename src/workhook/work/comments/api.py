"""Comments on tasks."""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.announce import base_of
from workhook.work.comments import file_api, reply_api, task_actions
from workhook.work.comments.schemas import (
    After,
    CommentCreate,
    CommentEdit,
    TaskComment,
    TaskCommentAnswer,
    TaskCommentsAnswer,
)
from workhook.work.schemas import Done

TAG = "Task Comments"
INTEGER = {"id": "integer"}


def _shown(comment: TaskComment) -> TaskCommentAnswer:
    return TaskCommentAnswer(to_response(comment))


async def list_comments(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    key = lists.after(query, After)
    found = await task_actions.list_comments(
        call.database, actor_of(call), call.path("id"), after=key.id if key else 0, limit=query.limit + 1
    )
    comments, headers = lists.page(call, found, query, lambda comment: (comment.id,))
    return Answer(TaskCommentsAnswer([to_response(each) for each in comments]), headers=headers)


async def create_comment(call: Call) -> Answer:
    create = await parameters.read(call, CommentCreate)

    async def change(tx: Transaction) -> Answer:
        made = await task_actions.create_comment(tx, actor_of(call), call.path("id"), create, base=base_of(call))
        return Answer(_shown(made))

    return await call.write(change)


async def edit_comment(call: Call) -> Answer:
    edit = await parameters.read(call, CommentEdit)

    async def change(tx: Transaction) -> Answer:
        access, comment = await task_actions.take_comment(tx, actor_of(call), call.path_integer("id"))
        conditions.require_match(call, _shown(comment))
        return Answer(_shown(await task_actions.edit_comment(tx, access, comment, edit, base=base_of(call))))

    return await call.write(change)


async def delete_comment(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        access, comment = await task_actions.take_comment(tx, actor_of(call), call.path_integer("id"))
        conditions.require_match(call, _shown(comment))
        await task_actions.delete_comment(tx, access, comment, base=base_of(call))
        return Answer(Done())

    return await call.write(change)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        "/tasks/{id}/task_comments",
        list_comments,
        "list_task_comments",
        "List the comments on a task, the newest last",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: TaskCommentsAnswer},
        problems=(404, 422),
    ),
    Operation(
        AREA_A,
        "POST",
        "/tasks/{id}/task_comments",
        create_comment,
        "create_task_comment",
        "Comment on a task",
        "work.write",
        tag=TAG,
        body=CommentCreate,
        query=parameters.documented(CommentCreate, or_body=True),
        answers={200: TaskCommentAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
    ),
    Operation(
        AREA_A,
        "PATCH",
        "/task_comments/{id}",
        edit_comment,
        "edit_task_comment",
        "Change a comment on a task",
        "work.write",
        tag=TAG,
        body=CommentEdit,
        query=parameters.documented(CommentEdit, or_body=True),
        answers={200: TaskCommentAnswer},
        problems=(400, 403, 404, 409, 412, 413, 415, 422),
        path_types=INTEGER,
    ),
    Operation(
        AREA_A,
        "DELETE",
        "/task_comments/{id}",
        delete_comment,
        "delete_task_comment",
        "Delete a comment on a task",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        path_types=INTEGER,
    ),
    *file_api.OPERATIONS,
    *reply_api.OPERATIONS,
)
