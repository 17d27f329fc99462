"""Replies to comments on files."""

from __future__ import annotations

from workhook.http.endpoints import Routes
from workhook.http.operations import AREA_A
from workhook.identity.context import Write
from workhook.work.comments import reply_actions
from workhook.work.comments.schemas import Reply, ReplyAnswer, ReplyCreate, ReplyEdit, reply_shape
from workhook.work.schemas import Done

routes = Routes(AREA_A, "File comments", read="work.read", write="work.write")


def _shown(reply: Reply) -> ReplyAnswer:
    return ReplyAnswer(reply_shape(reply))


@routes.post("/file_comments/{file_comment_id}/comments")
async def create_file_comment_reply(write: Write, file_comment_id: int, create: ReplyCreate) -> ReplyAnswer:
    """Reply to a comment on a file.

    `body` may hold markup. Only headings, paragraphs, lists, quotes, code, emphasis and links to `http`, `https`
    and `mailto` are kept of it; what remains is stored and answered.
    """
    made = await reply_actions.create_reply(write, file_comment_id, create)
    return _shown(made)


@routes.patch("/file_comments/{file_comment_id}/comments/{id}")
async def edit_file_comment_reply(write: Write, file_comment_id: int, comment_id: int, edit: ReplyEdit) -> ReplyAnswer:
    """Change a reply."""
    access, reply = await reply_actions.take_reply(write.tx, write.actor, file_comment_id, comment_id)
    write.require_match(_shown(reply))
    return _shown(await reply_actions.edit_reply(write, access, reply, edit))


@routes.delete("/file_comments/{file_comment_id}/comments/{id}")
async def delete_file_comment_reply(write: Write, file_comment_id: int, comment_id: int) -> Done:
    """Delete a reply."""
    access, reply = await reply_actions.take_reply(write.tx, write.actor, file_comment_id, comment_id)
    write.require_match(_shown(reply))
    await reply_actions.delete_reply(write, access, reply)
    return Done()
