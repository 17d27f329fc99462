"""Replies to comments on files."""

from __future__ import annotations

from workhook.core.records import to_response
from workhook.http import conditions, parameters
from workhook.http.calls import Answer, Call
from workhook.http.operations import AREA_A, Operation
from workhook.identity.guard import actor_of
from workhook.storage import Transaction
from workhook.work.access import Access
from workhook.work.announce import base_of
from workhook.work.comments import reply_actions
from workhook.work.comments.schemas import Reply, ReplyAnswer, ReplyCreate, ReplyEdit
from workhook.work.schemas import Done

TAG = "File comments"
COMMENT = "/file_comments/{file_comment_id}/comments"
ONE = f"{COMMENT}/{{id}}"
INTEGERS = {"file_comment_id": "integer", "id": "integer"}


def _shown(reply: Reply) -> ReplyAnswer:
    return ReplyAnswer(to_response(reply))


async def create_reply(call: Call) -> Answer:
    create = await parameters.read(call, ReplyCreate)

    async def change(tx: Transaction) -> Answer:
        comment_id = call.path_integer("file_comment_id")
        return Answer(
            _shown(await reply_actions.create_reply(tx, actor_of(call), comment_id, create, base=base_of(call)))
        )

    return await call.write(change)


async def edit_reply(call: Call) -> Answer:
    edit = await parameters.read(call, ReplyEdit)

    async def change(tx: Transaction) -> Answer:
        access, reply = await _take(call, tx)
        return Answer(_shown(await reply_actions.edit_reply(tx, access, reply, edit, base=base_of(call))))

    return await call.write(change)


async def delete_reply(call: Call) -> Answer:
    async def change(tx: Transaction) -> Answer:
        access, reply = await _take(call, tx)
        await reply_actions.delete_reply(tx, access, reply, base=base_of(call))
        return Answer(Done())

    return await call.write(change)


async def _take(call: Call, tx: Transaction) -> tuple[Access, Reply]:
    comment_id, reply_id = call.path_integer("file_comment_id"), call.path_integer("id")
    access, reply = await reply_actions.take_reply(tx, actor_of(call), comment_id, reply_id)
    conditions.require_match(call, _shown(reply))
    return access, reply


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        AREA_A,
        "POST",
        COMMENT,
        create_reply,
        "create_file_comment_reply",
        "Reply to a comment on a file",
        "work.write",
        tag=TAG,
        body=ReplyCreate,
        query=parameters.documented(ReplyCreate, or_body=True),
        answers={200: ReplyAnswer},
        problems=(400, 403, 404, 409, 413, 415, 422),
        path_types=INTEGERS,
        description="`body` may hold markup. Only headings, paragraphs, lists, quotes, code, emphasis and links to "
        "`http`, `https` and `mailto` are kept of it; what remains is stored and answered.",
    ),
    Operation(
        AREA_A,
        "PATCH",
        ONE,
        edit_reply,
        "edit_file_comment_reply",
        "Change a reply",
        "work.write",
        tag=TAG,
        body=ReplyEdit,
        query=parameters.documented(ReplyEdit, or_body=True),
        answers={200: ReplyAnswer},
        problems=(400, 403, 404, 409, 412, 413, 415, 422),
        path_types=INTEGERS,
    ),
    Operation(
        AREA_A,
        "DELETE",
        ONE,
        delete_reply,
        "delete_file_comment_reply",
        "Delete a reply",
        "work.write",
        tag=TAG,
        answers={200: Done},
        problems=(403, 404, 409, 412),
        path_types=INTEGERS,
    ),
)
