"""The SQL of comments and replies. What belongs to a task or file that was deleted is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from workhook.core import json
from workhook.http.lists import Found
from workhook.identity.tables import accounts
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import json_rows
from workhook.storage.metadata import big, insert_into
from workhook.storage.record_rows import row_reader, selected, stored_names
from workhook.work.access import with_access
from workhook.work.comments.markup import plain
from workhook.work.comments.schemas import CommentedFile, CommentedTask, FileComment, Reply, TaskComment
from workhook.work.comments.tables import file_comment_replies, file_comments, task_comments
from workhook.work.files.tables import files
from workhook.work.pages import bounded, fetch, length
from workhook.work.people import membership_of, person_columns, person_of_row, person_of_values
from workhook.work.tasks.tables import tasks

_authors = accounts.alias("authors")
_repliers = accounts.alias("repliers")

_task_comment_of = row_reader(TaskComment)
_file_comment_of = row_reader(FileComment)
_reply_of = row_reader(Reply)
_REPLY_COLUMNS = len(stored_names(Reply))
# Whoever comments on something keeps it from being deleted meanwhile.
_task = with_access(
    sa.select(tasks.c.id, tasks.c.title).where(tasks.c.id == sa.bindparam("id"), tasks.c.deleted_at.is_(None)),
    tasks.c.repository_id,
)
_task_held = _task.with_for_update(of=tasks, read=True)
_file = with_access(
    sa.select(files.c.id, files.c.title, files.c.private).where(
        files.c.id == sa.bindparam("id"), files.c.deleted_at.is_(None)
    ),
    files.c.repository_id,
)
_file_held = _file.with_for_update(of=files, read=True)

_task_comments = (
    sa.select(
        *selected(TaskComment, task_comments),
        tasks.c.id.label("task_id"),
        tasks.c.title.label("task_title"),
        *person_columns(membership_of(task_comments.c.repository_id, _authors), _authors),
    )
    .join_from(task_comments, tasks, tasks.c.id == task_comments.c.task_id)
    .join(_authors, _authors.c.id == task_comments.c.user_id)
    .where(tasks.c.deleted_at.is_(None))
)


def _task_comments_seen(everything: bool) -> sa.Select[Any]:
    """A statement of its own for who sees all: each has its index."""
    listed = sa.select(task_comments.c.id).where(
        task_comments.c.task_id == sa.bindparam("task_id"), task_comments.c.id > big("after")
    )
    if not everything:
        listed = listed.where(task_comments.c.private.is_(sa.false()))
    listed = listed.order_by(task_comments.c.id).limit(big("limit"))
    return bounded(_task_comments, listed, task_comments.c.id, length(task_comments.c.text))


_task_comments_of = {everything: _task_comments_seen(everything) for everything in (False, True)}
_task_comment = with_access(
    _task_comments.where(task_comments.c.id == big("id")), task_comments.c.repository_id
).with_for_update(of=task_comments)

_nested = (
    sa.select(
        json_rows(
            *selected(Reply, file_comment_replies),
            *person_columns(membership_of(file_comment_replies.c.repository_id, _repliers), _repliers),
        )
    )
    .join_from(file_comment_replies, _repliers, _repliers.c.id == file_comment_replies.c.user_id)
    .where(file_comment_replies.c.file_comment_id == file_comments.c.id)
    .scalar_subquery()
    .label("replies")
)
_file_comments = (
    sa.select(
        *selected(FileComment, file_comments),
        files.c.id.label("file_id"),
        files.c.title.label("file_title"),
        files.c.private.label("file_private"),
        *person_columns(membership_of(file_comments.c.repository_id, _authors), _authors),
    )
    .join_from(file_comments, files, files.c.id == file_comments.c.file_id)
    .join(_authors, _authors.c.id == file_comments.c.user_id)
    .where(files.c.deleted_at.is_(None))
)
_length_of_replies = (
    sa.select(sa.func.coalesce(sa.func.sum(length(file_comment_replies.c.body)), 0))
    .where(file_comment_replies.c.file_comment_id == file_comments.c.id)
    .scalar_subquery()
)


def _file_comments_seen(everything: bool) -> sa.Select[Any]:
    """Of one file, with their replies. Without `everything` private ones are left out."""
    listed = sa.select(file_comments.c.id).where(
        file_comments.c.file_id == sa.bindparam("file_id"), file_comments.c.id > big("after")
    )
    if not everything:
        listed = listed.where(file_comments.c.private.is_(sa.false()))
    listed = listed.order_by(file_comments.c.id).limit(big("limit"))
    weight = length(file_comments.c.text) + _length_of_replies
    return bounded(_file_comments.add_columns(_nested), listed, file_comments.c.id, weight)


_file_comments_of = {everything: _file_comments_seen(everything) for everything in (False, True)}
_one_file_comment = with_access(_file_comments.where(file_comments.c.id == big("id")), file_comments.c.repository_id)
_file_comment = _one_file_comment.with_for_update(of=file_comments)
_file_comment_held = _one_file_comment.with_for_update(of=[file_comments, files], read=True)

_reply_columns = (
    *selected(Reply, file_comment_replies),
    *person_columns(membership_of(file_comment_replies.c.repository_id, _authors), _authors),
)
_replies_to = (
    sa.select(*_reply_columns)
    .join_from(file_comment_replies, _authors, _authors.c.id == file_comment_replies.c.user_id)
    .where(file_comment_replies.c.file_comment_id == big("id"))
    .order_by(file_comment_replies.c.id)
)
_reply = with_access(
    sa.select(
        *_reply_columns,
        sa.or_(files.c.private, file_comments.c.private).label("parent_private"),
    )
    .join_from(file_comment_replies, file_comments, file_comments.c.id == file_comment_replies.c.file_comment_id)
    .join(files, files.c.id == file_comments.c.file_id)
    .join(_authors, _authors.c.id == file_comment_replies.c.user_id)
    .where(
        file_comment_replies.c.id == big("id"),
        file_comment_replies.c.file_comment_id == big("file_comment_id"),
        files.c.deleted_at.is_(None),
    ),
    file_comment_replies.c.repository_id,
).with_for_update(of=file_comment_replies)

_ALWAYS = ("repository_id", "user_id", "private", "created_at", "updated_at")
_insert_task_comment = insert_into(task_comments, "task_id", "text", *_ALWAYS).returning(task_comments.c.id)
_insert_file_comment = insert_into(file_comments, "file_id", "text", *_ALWAYS).returning(file_comments.c.id)
_insert_reply = insert_into(file_comment_replies, "file_comment_id", "body", "plain_body", *_ALWAYS).returning(
    file_comment_replies.c.id
)


def _update(table: sa.Table, *names: str) -> sa.Update:
    values: dict[str, sa.BindParameter[object]] = {
        name: sa.bindparam(name) for name in (*names, "private", "updated_at")
    }
    return sa.update(table).where(table.c.id == big("row_id")).values(values)


def _delete(table: sa.Table) -> sa.Delete:
    return sa.delete(table).where(table.c.id == big("row_id"))


_UPDATES = {
    TaskComment: _update(task_comments, "text"),
    FileComment: _update(file_comments, "text"),
    Reply: _update(file_comment_replies, "body", "plain_body"),
}
_DELETES = {
    TaskComment: _delete(task_comments),
    FileComment: _delete(file_comments),
    Reply: _delete(file_comment_replies),
}


async def find_task(reader: Reader, task_id: str, user_id: int) -> Row | None:
    """id, title, and what `access_of` reads."""
    return await reader.fetch_one(_task, {"id": task_id, "user_id": user_id})


async def hold_task(tx: Transaction, task_id: str, user_id: int) -> Row | None:
    """`find_task`; nobody deletes it until the transaction ends."""
    return await tx.fetch_one(_task_held, {"id": task_id, "user_id": user_id})


async def find_file(reader: Reader, file_id: str, user_id: int) -> Row | None:
    """id, title, private, and what `access_of` reads."""
    return await reader.fetch_one(_file, {"id": file_id, "user_id": user_id})


async def hold_file(tx: Transaction, file_id: str, user_id: int) -> Row | None:
    """`find_file`; nobody deletes it until the transaction ends."""
    return await tx.fetch_one(_file_held, {"id": file_id, "user_id": user_id})


async def list_task_comments(
    reader: Reader, task_id: str, *, everything: bool, after: int, limit: int
) -> Found[TaskComment]:
    """By id, from behind `after`. Without `everything` those that are private are left out."""
    params = {"task_id": task_id, "after": after, "limit": limit}
    return await fetch(reader, _task_comments_of[everything], params, task_comment_of)


async def list_file_comments(
    reader: Reader, file_id: str, *, everything: bool, after: int, limit: int
) -> Found[FileComment]:
    """By id, from behind `after`, each with its replies. Without `everything` private ones are left out."""
    params = {"file_id": file_id, "after": after, "limit": limit}
    statement = _file_comments_of[everything]
    return await fetch(reader, statement, params, lambda row: file_comment_of(row, _replies_of(row["replies"])))


async def lock_task_comment(tx: Transaction, comment_id: int, user_id: int) -> Row | None:
    """For `task_comment_of` and `access_of`; until the transaction ends nobody else changes or deletes it."""
    return await tx.fetch_one(_task_comment, {"id": comment_id, "user_id": user_id})


async def lock_file_comment(tx: Transaction, comment_id: int, user_id: int) -> Row | None:
    """For `file_comment_of` and `access_of`; nobody else changes it, deletes it or replies to it until the transaction
    ends. `file_private` is its file's."""
    return await tx.fetch_one(_file_comment, {"id": comment_id, "user_id": user_id})


async def replies_to(reader: Reader, comment_id: int) -> tuple[Reply, ...]:
    """By id. Asked only once the comment is locked, it tells of all: a statement sees what was there when it began."""
    return tuple(reply_of(row) for row in await reader.fetch_all(_replies_to, {"id": comment_id}))


async def hold_file_comment(tx: Transaction, comment_id: int, user_id: int) -> Row | None:
    """The comment; nobody changes or deletes it or its file until the transaction ends."""
    return await tx.fetch_one(_file_comment_held, {"id": comment_id, "user_id": user_id})


async def lock_reply(tx: Transaction, comment_id: int, reply_id: int, user_id: int) -> Row | None:
    """For `reply_of` and `access_of`. `parent_private`: the comment or its file is private."""
    params = {"id": reply_id, "file_comment_id": comment_id, "user_id": user_id}
    return await tx.fetch_one(_reply, params)


def task_comment_of(row: Row) -> TaskComment:
    return _task_comment_of(row, CommentedTask(row["task_id"], row["task_title"]), person_of_row(row))


def file_comment_of(row: Row, replies: tuple[Reply, ...]) -> FileComment:
    """Its file has no link yet."""
    return _file_comment_of(row, CommentedFile(row["file_id"], row["file_title"], ""), person_of_row(row), replies)


def reply_of(row: Row) -> Reply:
    return _reply_of(row, person_of_row(row))


def _replies_of(text: str) -> tuple[Reply, ...]:
    rows = sorted(json.decode(text))  # the first column is the id
    return tuple(_reply_of(row, person_of_values(*row[_REPLY_COLUMNS:])) for row in rows)


async def insert_task_comment(tx: Transaction, values: Mapping[str, object]) -> int:
    """`values`: task_id, text, repository_id, user_id, private, created_at, updated_at. The comment's id."""
    return await _insert(tx, _insert_task_comment, values)


async def insert_file_comment(tx: Transaction, values: Mapping[str, object]) -> int:
    """`values`: file_id, and otherwise as above."""
    return await _insert(tx, _insert_file_comment, values)


async def insert_reply(tx: Transaction, values: Mapping[str, object]) -> int:
    """`values`: file_comment_id, body, repository_id, user_id, private, created_at, updated_at. The reply's id."""
    return await _insert(tx, _insert_reply, {**values, "plain_body": plain(str(values["body"]))})


async def _insert(tx: Transaction, statement: Executable, values: Mapping[str, object]) -> int:
    row = await tx.fetch_one(statement, values)
    assert row is not None
    return int(row["id"])


async def update(tx: Transaction, changed: TaskComment | FileComment | Reply) -> None:
    """Store its text or body, whether it is private, and when it was changed."""
    values: dict[str, object] = {"row_id": changed.id, "private": changed.private, "updated_at": changed.updated_at}
    if isinstance(changed, Reply):
        values |= {"body": changed.body, "plain_body": plain(changed.body)}
    else:
        values |= {"text": changed.text}
    tx.defer(_UPDATES[type(changed)], [values])


async def delete(tx: Transaction, gone: TaskComment | FileComment | Reply) -> None:
    """A file comment's replies go with it."""
    tx.defer(_DELETES[type(gone)], [{"row_id": gone.id}])
