"""Comments on files. The specification has the list and the new comment answered bare, without an envelope."""

from __future__ import annotations

from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.lists import ListQuery
from workhook.http.operations import AREA_A
from workhook.identity.context import Write
from workhook.identity.guard import actor_of
from workhook.work.access import Access
from workhook.work.comments import file_actions
from workhook.work.comments.schemas import (
    After,
    CommentCreate,
    CommentEdit,
    FileComment,
    FileCommentAnswer,
    FileCommentShape,
    file_comment_shape,
)
from workhook.work.files.links import Links, links_of
from workhook.work.schemas import Done

routes = Routes(AREA_A, "File comments", read="work.read", write="work.write")
FILE = "/files/{file_id}/file_comments"
ONE = "/file_comments/{file_comment_id}"


def _shown(access: Access, comment: FileComment, links: Links) -> FileCommentAnswer:
    return FileCommentAnswer(file_comment_shape(comment, links, to_client=access.is_client))


@routes.get("/files/{file_id}/file_comments")
async def list_file_comments(call: Call, file_id: str, query: ListQuery) -> Listed[list[FileCommentShape]]:
    """List the comments on a file with their replies, the newest last.

    The answer is the list itself.
    """
    key = lists.after(query, After)
    access, found = await file_actions.list_comments(
        call.database, actor_of(call), file_id, after=key.id if key else 0, limit=query.limit + 1
    )
    comments, headers = lists.page(call, found, query, lambda comment: (comment.id,))
    links = links_of(call)
    shown = [file_comment_shape(each, links, to_client=access.is_client) for each in comments]
    return Listed(shown, headers)


@routes.post("/files/{file_id}/file_comments")
async def create_file_comment(write: Write, file_id: str, create: CommentCreate) -> FileCommentShape:
    """Comment on a file.

    The answer is the comment itself.
    """
    links = links_of(write.call)

    made = await file_actions.create_comment(write, file_id, create, links=links)
    return file_comment_shape(made, links)


@routes.patch("/file_comments/{file_comment_id}")
async def edit_file_comment(write: Write, file_comment_id: int, edit: CommentEdit) -> FileCommentAnswer:
    """Change a comment on a file."""
    links = links_of(write.call)

    access, comment = await file_actions.take_comment(write.tx, write.actor, file_comment_id)
    write.require_match(_shown(access, comment, links))
    after = await file_actions.edit_comment(write, access, comment, edit, links=links)
    return _shown(access, after, links)


@routes.delete("/file_comments/{file_comment_id}")
async def delete_file_comment(write: Write, file_comment_id: int) -> Done:
    """Delete a comment on a file, and the replies to it.

    If a client deletes its own, the replies of others stay for the members: the comment is private then, and its
    text empty.
    """
    links = links_of(write.call)

    access, comment = await file_actions.take_comment(write.tx, write.actor, file_comment_id)
    write.require_match(_shown(access, comment, links))
    await file_actions.delete_comment(write, access, comment, links=links)
    return Done()
