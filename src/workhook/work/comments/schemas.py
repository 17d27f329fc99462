"""Comments and replies: what a caller may say, and the records on the wire."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.core.records import LINK, EventSchema, resource_id
from workhook.http.parameters import LongText, Prepared, Read
from workhook.http.values import WIRE_TYPE
from workhook.work.comments.markup import read_markup
from workhook.work.files.links import Links
from workhook.work.people import PersonShape


def _nothing_if_blank(text: str) -> str:
    """Text is stored as it came, but it has to say something."""
    return text if text.strip() else ""


CommentText = Annotated[
    LongText,
    Meta(min_length=1, extra_json_schema={"pattern": r"\S"}),
    Prepared(_nothing_if_blank),
]
Markup = Annotated[
    str,
    Meta(
        extra_json_schema={WIRE_TYPE: "string", "pattern": r"\S"},
        description="Plain text, or HTML of which only what is harmless is kept; at most 64 KiB of UTF-8.",
    ),
    Read(read_markup),
]


class After(NamedTuple):
    """Where a page starts."""

    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]  # what both databases take for an integer


class CommentCreate(msgspec.Struct):
    """`private`: not for clients, who cannot ask for it."""

    text: CommentText
    private: bool | UnsetType = UNSET


class CommentEdit(msgspec.Struct):
    """What is absent stays."""

    text: CommentText | UnsetType = UNSET
    private: bool | UnsetType = UNSET


class ReplyCreate(msgspec.Struct):
    """`private`: not for clients, who cannot ask for it."""

    body: Markup
    private: bool | UnsetType = UNSET


class ReplyEdit(msgspec.Struct):
    """What is absent stays."""

    body: Markup | UnsetType = UNSET
    private: bool | UnsetType = UNSET


class CommentedTask(msgspec.Struct, frozen=True):
    """The task that a comment is about."""

    id: Annotated[str, resource_id("tsk")]
    title: str


class CommentedFile(msgspec.Struct, frozen=True):
    """The file that a comment is about. `link` leads to its content and works without a token for a day at least."""

    id: Annotated[str, resource_id("fil")]
    title: str
    link: Annotated[str, LINK]


class TaskCommentShape(msgspec.Struct):
    """A comment on a task."""

    id: int
    text: str
    private: bool
    task: CommentedTask
    user: PersonShape
    created_at: str
    updated_at: str


class ReplyShape(msgspec.Struct):
    """A reply to a comment on a file. `body` may hold markup, which is harmless."""

    id: int
    body: Annotated[str, EventSchema({"description": "may hold markup, sanitised"})]
    file_comment_id: int
    private: bool
    user: PersonShape
    created_at: str
    updated_at: str


class FileCommentShape(msgspec.Struct):
    """A comment on a file, with the replies to it that the caller may see, the newest last."""

    id: int
    text: str
    private: bool
    file: CommentedFile
    user: PersonShape
    comments: list[ReplyShape]
    created_at: str
    updated_at: str


class TaskCommentAnswer(msgspec.Struct):
    task_comment: TaskCommentShape
    success: bool = True


class TaskCommentsAnswer(msgspec.Struct):
    task_comments: list[TaskCommentShape]
    success: bool = True


class FileCommentAnswer(msgspec.Struct):
    file_comment: FileCommentShape
    success: bool = True


class ReplyAnswer(msgspec.Struct):
    comment: ReplyShape
    success: bool = True


class TaskComment(msgspec.Struct, frozen=True):
    """A comment as it is stored; times are milliseconds since the epoch."""

    id: int
    text: str
    private: bool
    task: CommentedTask
    user: PersonShape
    created_at: int
    updated_at: int


class Reply(msgspec.Struct, frozen=True):
    """Likewise. `body` was cleaned."""

    id: int
    body: str
    file_comment_id: int
    private: bool
    user: PersonShape
    created_at: int
    updated_at: int


class FileComment(msgspec.Struct, frozen=True):
    """Likewise, with all its replies by id."""

    id: int
    text: str
    private: bool
    file_id: str
    file_title: str
    user: PersonShape
    comments: tuple[Reply, ...]
    created_at: int
    updated_at: int


def task_comment_shape(comment: TaskComment) -> TaskCommentShape:
    return TaskCommentShape(
        id=comment.id,
        text=comment.text,
        private=comment.private,
        task=comment.task,
        user=comment.user,
        created_at=to_millis_text(comment.created_at),
        updated_at=to_millis_text(comment.updated_at),
    )


def reply_shape(reply: Reply) -> ReplyShape:
    return ReplyShape(
        id=reply.id,
        body=reply.body,
        file_comment_id=reply.file_comment_id,
        private=reply.private,
        user=reply.user,
        created_at=to_millis_text(reply.created_at),
        updated_at=to_millis_text(reply.updated_at),
    )


def file_comment_shape(comment: FileComment, links: Links, *, to_client: bool = False) -> FileCommentShape:
    """`to_client` leaves out the private replies."""
    return FileCommentShape(
        id=comment.id,
        text=comment.text,
        private=comment.private,
        file=CommentedFile(comment.file_id, comment.file_title, links(comment.file_id)),
        user=comment.user,
        comments=[reply_shape(each) for each in comment.comments if not (to_client and each.private)],
        created_at=to_millis_text(comment.created_at),
        updated_at=to_millis_text(comment.updated_at),
    )
