"""Comments on files. The specification has the list and the new comment answered bare, without an envelope."""

from __future__ import annotations

from workhook.core.records import Wire
from workhook.http import conditions, lists, parameters
from workhook.http.calls import Answer, Call
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.access import Access
from workhook.work.announce import base_of
from workhook.work.comments import file_actions
from workhook.work.comments.schemas import (
    After,
    CommentCreate,
    CommentEdit,
    FileComment,
    FileCommentAnswer,
    file_comment_to_response,
)
from workhook.work.files.links import Links, links_of
from workhook.work.schemas import Done

TAG = "File comments"
FILE = "/files/{file_id}/file_comments"
ONE = "/file_comments/{file_comment_id}"
INTEGER = {"file_comment_id": "integer"}


def _shown(access: Access, comment: FileComment, links: Links) -> FileCommentAnswer:
    return FileCommentAnswer(file_comment_to_response(comment, links, to_client=access.is_client))


async def list_comments(call: Call) -> Answer:
    query = parameters.read_query(call, ListQuery)
    key = lists.after(query, After)
    access, found = await file_actions.list_comments(
        call.database, actor_of(call), call.path("file_id"), after=key.id if key else 0, limit=query.limit + 1
    )
    comments, headers = lists.page(call, found, query, lambda comment: (comment.id,))
    links = links_of(call)
    shown = [file_comment_to_response(each, links, to_client=access.is_client) for each in comments]
    return Answer(shown, headers=headers)


async def create_comment(call: Call) -> Answer:
    create = await parameters.read(call, CommentCreate)
    links = links_of(call)

    async def change(tx: Transaction) -> Answer:
        made = await file_actions.create_comment(
            tx, actor_of(call), call.path("file_id"), create, base=base_of(call), links=links
        )
        return Answer(file_comment_to_response(made, links))

    return await call.write(change)


async def edit_comment(call: Call) -> Answer:
    edit = await parameters.read(call, CommentEdit)
    links = links_of(call)

    async def change(tx: Transaction) -> Answer:
        access, comment = await file_actions.take_comment(tx, actor_of(call), call.path_integer("file_comment_id"))
        conditions.require_match(call, _shown(access, comment, links))
        after = await file_actions.edit_comment(tx, access, comment, edit, base=base_of(call), links=links)
        return Answer(_shown(access, after, links))

    return await call.write(change)


async def delete_comment(call: Call) -> Answer:
    links = links_of(call)

    async def change(tx: Transaction) -> Answer:
        access, comment = await file_actions.take_comment(tx, actor_of(call), call.path_integer("file_comment_id"))
        conditions.require_match(call, _shown(access, comment, links))
        await file_actions.delete_comment(tx, access, comment, base=base_of(call), links=links)
        return Answer(Done())

    return await call.write(change)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "GET",
        FILE,
        list_comments,
        "list_file_comments",
        "List the comments on a file with their replies, the newest last",
        "work.read",
        tag=TAG,
        query=parameters.documented(ListQuery),
        answers={200: list[Wire[FileComment]]},
        problems=(404, 422),
        description="The answer is the list itself.",
    ),
    Operation(
        AREA_A,
        "POST",
        FILE,
        create_comment,
        "create_file_comment",
        "Comment on a file",
        "work.write",
        tag=TAG,
        body=CommentCreate,
        query=parameters.documented(CommentCreate, or_body=True),
        answers={200: Wire[FileComment]},
        problems=(400, 403, 404, 409, 413, 415, 422),
        description="The answer is the comment itself.",
    ),
    Operation(
        AREA_A,
        "PATCH",
        ONE,
        edit_comment,
        "edit_file_comment",
        "Change a comment on a file",
        "work.write",
        tag=TAG,
        body=CommentEdit,
        query=parameters.documented(CommentEdit, or_body=True),
        answers={200: FileCommentAnswer},
        problems=(400, 403, 404, 409, 412, 413, 415, 422),
        path_types=INTEGER,
    ),
    Operation(
        AREA_A,
        "DELETE",
        ONE,
        delete_comment,
        "delete_file_comment",
        "Delete a comment on a file, and the replies to it",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        path_types=INTEGER,
        description="If a client deletes its own, the replies of others stay for the members: the comment is private "
        "then, and its text empty.",
    ),
)
