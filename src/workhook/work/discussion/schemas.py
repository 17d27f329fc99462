"""Comments on tasks and files, and replies to comments on files: request bodies, records and tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.records import LINK, EventSchema, Record, Timestamp, Wire, resource_id, to_response
from workhook.http.parameters import Converter, LongText, Transform
from workhook.http.wire_types import WIRE_TYPE
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import NOT_PRIVATE, in_project, metadata, numbered_table, of_account, partial_index
from workhook.storage.record_rows import table_columns
from workhook.work.discussion.markdown import prepare_names
from workhook.work.discussion.markup import read_markup
from workhook.work.files.links import Links
from workhook.work.kernel.access import Access
from workhook.work.kernel.people import PersonShape

CommentText = Annotated[
    LongText,
    Meta(min_length=1, extra_json_schema={"pattern": r"\S"}),
    Transform(lambda text: text if text.strip() else ""),
]
Markup = Annotated[
    str,
    Meta(
        extra_json_schema={WIRE_TYPE: "string", "pattern": r"\S"},
        description="Plain text, or HTML reduced to safe markup; at most 64 KiB of UTF-8.",
    ),
    Converter(read_markup),
]


class CommentCreate(msgspec.Struct):
    """A new comment. A `private` comment is hidden from clients; clients cannot set `private`."""

    text: CommentText
    private: bool | UnsetType = UNSET

    async def prepare(self) -> None:
        await prepare_names(self.text)


class CommentEdit(msgspec.Struct):
    """Omitted fields are left unchanged."""

    text: CommentText | UnsetType = UNSET
    private: bool | UnsetType = UNSET

    async def prepare(self) -> None:
        if self.text is not UNSET:
            await prepare_names(self.text)


class ReplyCreate(msgspec.Struct):
    """A new reply. A `private` reply is hidden from clients; clients cannot set `private`."""

    body: Markup
    private: bool | UnsetType = UNSET


class ReplyEdit(msgspec.Struct):
    """Omitted fields are left unchanged."""

    body: Markup | UnsetType = UNSET
    private: bool | UnsetType = UNSET


class CommentedTask(msgspec.Struct, frozen=True):
    """The task that a comment belongs to."""

    id: Annotated[str, resource_id("tsk")]
    title: str


class CommentedFile(msgspec.Struct, frozen=True):
    """The file that a comment belongs to. `link` points to its content and works without a token for at least a day."""

    id: Annotated[str, resource_id("fil")]
    title: str
    link: Annotated[str, LINK]


class TaskComment(Record, frozen=True):
    """A comment on a task.

    For an imported comment, `imported_author` is its original author and `user` is the person who imported it.
    """

    id: int
    text: str
    private: bool
    task: CommentedTask
    user: PersonShape
    created_at: Timestamp
    updated_at: Timestamp
    imported_author: Annotated[str | None, EventSchema({"description": "original author of an imported comment"})]


class Reply(Record, frozen=True):
    """A reply to a comment on a file. `body` may contain sanitized HTML."""

    id: int
    body: Annotated[str, EventSchema({"description": "may contain sanitized HTML"})]
    file_comment_id: int
    private: bool
    user: PersonShape
    created_at: Timestamp
    updated_at: Timestamp


class FileComment(Record, frozen=True):
    """A comment on a file, with the replies that the caller may see, oldest first.

    Events about a change omit the replies.
    """

    id: int
    text: str
    private: bool
    file: CommentedFile
    user: PersonShape
    comments: Annotated[tuple[Reply, ...], EventSchema(optional=True)]
    created_at: Timestamp
    updated_at: Timestamp


class TaskCommentAnswer(msgspec.Struct):
    task_comment: Wire[TaskComment]
    success: bool = True


class TaskCommentsAnswer(msgspec.Struct):
    task_comments: list[Wire[TaskComment]]
    success: bool = True


class FileCommentAnswer(msgspec.Struct):
    file_comment: Wire[FileComment]
    success: bool = True


class ReplyAnswer(msgspec.Struct):
    comment: Wire[Reply]
    success: bool = True


def file_comment_to_response(comment: FileComment, links: Links, *, to_client: bool = False) -> Wire[FileComment]:
    """Return the API form of a comment. `to_client` omits private replies."""
    file = msgspec.structs.replace(comment.file, link=links(comment.file.id))
    replies = tuple(each for each in comment.comments if not (to_client and each.private))
    return to_response(msgspec.structs.replace(comment, file=file, comments=replies))


def _table(name: str, *parts: Any) -> sa.Table:
    user_id = sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False)
    index = sa.Index(f"ix_{name}_repository_id", "repository_id")
    in_time = sa.Index(f"ix_{name}_created_at", "repository_id", "created_at", "id")
    return sa.Table(name, metadata, in_project(), *parts, user_id, index, in_time, sqlite_autoincrement=True)


def _comments_on(noun: str, record: type[Record]) -> sa.Table:
    name, parent_id = f"{noun}_comments", f"{noun}_id"
    return _table(
        name,
        sa.Column(parent_id, sa.Text, sa.ForeignKey(f"{noun}s.id", ondelete="CASCADE"), nullable=False),
        *table_columns(record),
        sa.Index(f"ix_{name}_{parent_id}", parent_id, "id"),
        partial_index(f"ix_{name}_open", parent_id, "id", where=NOT_PRIVATE),  # visible to clients
    )


task_comments = _comments_on("task", TaskComment)
file_comments = _comments_on("file", FileComment)
file_comment_replies = _table(
    "file_comment_replies",
    *table_columns(Reply, file_comment_id=sa.ForeignKey("file_comments.id", ondelete="CASCADE")),
    sa.Column("plain_body", sa.Text, nullable=False),  # without markup, for searching
    sa.Index("ix_file_comment_replies_file_comment_id", "file_comment_id", "id"),
)


@cache
def _counted(table: sa.Table, only_open: bool) -> sa.Select[Any]:
    counted = sa.select(table.c.task_id, sa.func.count().label("number")).where(any_of(table.c.task_id, "task_ids"))
    if "deleted_at" in table.c:
        counted = counted.where(table.c.deleted_at.is_(None))
    if only_open:
        counted = counted.where(table.c.private.is_(sa.false()))
    return counted.group_by(table.c.task_id)


async def count_on_tasks(reader: Reader, access: Access, table: sa.Table, task_ids: Sequence[str]) -> dict[str, int]:
    """Count the comments or files that the caller can see, by task ID. The tasks belong to the project of `access`."""
    rows = await reader.fetch_all(_counted(table, access.is_client), {"task_ids": task_ids})
    return {row["task_id"]: row["number"] for row in rows}


PLACES = {
    "task_comment_id": "task_comments.id",
    "file_comment_id": "file_comments.id",
    "file_comment_reply_id": "file_comment_replies.id",
}
"""The columns that reference the comment or reply of a mention. Each row sets one of them and is deleted with it."""


# IDs increase over time. `user_id` is the mentioned person, `author_id` the author.
mentions = numbered_table(
    "mentions",
    in_project(),
    of_account("user_id", nullable=False),
    sa.Column("author_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    *(sa.Column(name, sa.BigInteger, sa.ForeignKey(key, ondelete="CASCADE")) for name, key in PLACES.items()),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    *(sa.UniqueConstraint(name, "user_id") for name in PLACES),
    sa.Index("ix_mentions_user_id", "user_id", "id"),
    sa.Index("ix_mentions_repository_id", "repository_id"),
)
