"""Actions on comments and replies: authorize, validate, write, add the event.

Only the author can edit a comment. An admin can hide it from clients, or delete it, which leaves the author and an
empty text. Events about a comment on a file contain all replies; responses to clients omit private ones. Comments on
deleted tasks and files do not exist for any caller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.errors import Conflict, Forbidden, Number, compose, phrase, say
from workhook.core.records import Record, to_response
from workhook.http.lists import Key, Rows
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, mail_messages, notifications
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of, json_rows
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.record_rows import row_reader, selected, stored_names, values_of
from workhook.work.board.tasks.schemas import tasks
from workhook.work.discussion.markdown import names_in_markdown, names_in_markup
from workhook.work.discussion.markup import plain
from workhook.work.discussion.mentions import Naming, store_mentions
from workhook.work.discussion.schemas import (
    CommentCreate,
    CommentedFile,
    CommentEdit,
    CommentedTask,
    FileComment,
    Reply,
    ReplyCreate,
    ReplyEdit,
    TaskComment,
    file_comment_replies,
    file_comment_to_response,
    file_comments,
    task_comments,
)
from workhook.work.files.links import links_of
from workhook.work.files.schemas import files
from workhook.work.kernel.access import Access, find_with_access, with_access
from workhook.work.kernel.list_statements import length
from workhook.work.kernel.lists import BY_ID, Filter, Listing, Weight, read
from workhook.work.kernel.people import (
    membership_of,
    person_columns,
    person_of_row,
    person_of_values,
    person_to_response,
)
from workhook.work.kernel.record_events import differences, publish_event
from workhook.work.kernel.scopes import source_of_project
from workhook.work.kernel.tables import import_links

C = TypeVar("C", TaskComment, FileComment, Reply)

_authors = accounts.alias("authors")
_repliers = accounts.alias("repliers")


def _with_author(
    record: type[Record], table: sa.Table, people: sa.FromClause = _authors
) -> list[sa.ColumnElement[Any]]:
    return [*selected(record, table), *person_columns(membership_of(table.c.repository_id, people), people)]


# --- the subject of a comment: commenting prevents its deletion in the meantime ---------------------------------------

_task = with_access(
    sa.select(tasks.c.id, tasks.c.title).where(tasks.c.id == sa.bindparam("id"), tasks.c.deleted_at.is_(None)),
    tasks.c.repository_id,
)
_locked_task = _task.with_for_update(of=tasks, read=True)
_file = with_access(
    sa.select(files.c.id, files.c.title, files.c.private).where(
        files.c.id == sa.bindparam("id"), files.c.deleted_at.is_(None)
    ),
    files.c.repository_id,
)
_locked_file = _file.with_for_update(of=files, read=True)

_task_comments = (
    sa.select(
        *_with_author(TaskComment, task_comments),
        tasks.c.id.label("task_id"),
        tasks.c.title.label("task_title"),
    )
    .join_from(task_comments, tasks, tasks.c.id == task_comments.c.task_id)
    .join(_authors, _authors.c.id == task_comments.c.user_id)
    .where(tasks.c.deleted_at.is_(None))
)
_is_imported = sa.exists().where(
    import_links.c.repository_id == task_comments.c.repository_id,
    import_links.c.kind == sa.literal_column("'task_comment'", sa.Text()),
    import_links.c.internal_id == sa.cast(task_comments.c.id, sa.Text),
)
_locked_task_comment = with_access(
    _task_comments.add_columns(_is_imported.label("is_imported")).where(task_comments.c.id == bigint_param("id")),
    task_comments.c.repository_id,
).with_for_update(of=task_comments)
_imported = sa.select(task_comments.c.id).where(any_of(task_comments.c.id, "ids"), _is_imported)

_file_comments = (
    sa.select(
        *_with_author(FileComment, file_comments),
        files.c.id.label("file_id"),
        files.c.title.label("file_title"),
        files.c.private.label("file_private"),
    )
    .join_from(file_comments, files, files.c.id == file_comments.c.file_id)
    .join(_authors, _authors.c.id == file_comments.c.user_id)
    .where(files.c.deleted_at.is_(None))
)
_file_comment = with_access(
    _file_comments.where(file_comments.c.id == bigint_param("id")), file_comments.c.repository_id
)
_locked_file_comment = _file_comment.with_for_update(of=file_comments)
_file_comment_to_reply_to = _file_comment.with_for_update(of=[file_comments, files], read=True)

_of_comment = file_comment_replies.c.file_comment_id == file_comments.c.id
_nested = (
    sa.select(json_rows(*_with_author(Reply, file_comment_replies, _repliers)))
    .join_from(file_comment_replies, _repliers, _repliers.c.id == file_comment_replies.c.user_id)
    .where(_of_comment)
    .scalar_subquery()
    .label("replies")
)
_reply_chars = sa.func.coalesce(sa.func.sum(length(file_comment_replies.c.body)), 0)
_weight_of_replies = sa.select(sa.func.count().label("count"), _reply_chars.label("chars")).where(
    file_comment_replies.c.file_comment_id == bigint_param("id")
)
_replies = sa.select(*_with_author(Reply, file_comment_replies))
_replies_to = (
    _replies.join_from(file_comment_replies, _authors, _authors.c.id == file_comment_replies.c.user_id)
    .where(file_comment_replies.c.file_comment_id == bigint_param("id"))
    .order_by(file_comment_replies.c.id)
)
_locked_reply = with_access(
    _replies.add_columns(sa.or_(files.c.private, file_comments.c.private).label("parent_private"))
    .join_from(file_comment_replies, file_comments, _of_comment)
    .join(files, files.c.id == file_comments.c.file_id)
    .join(_authors, _authors.c.id == file_comment_replies.c.user_id)
    .where(
        file_comment_replies.c.id == bigint_param("id"),
        file_comment_replies.c.file_comment_id == bigint_param("file_comment_id"),
        files.c.deleted_at.is_(None),
    ),
    file_comment_replies.c.repository_id,
).with_for_update(of=file_comment_replies)

_read_task_comment = row_reader(TaskComment)
_read_file_comment = row_reader(FileComment)
_read_reply = row_reader(Reply)
_REPLY_COLUMNS = len(stored_names(Reply))


def _task_comment_of(row: Row) -> TaskComment:
    return _read_task_comment(row, CommentedTask(row["task_id"], row["task_title"]), person_of_row(row))


def _file_comment_of(row: Row, replies: tuple[Reply, ...]) -> FileComment:
    return _read_file_comment(row, CommentedFile(row["file_id"], row["file_title"], ""), person_of_row(row), replies)


def _listed_file_comment(row: Row) -> FileComment:
    replies = sorted(json.decode(row["replies"]))  # the first column is the ID
    people = (person_of_values(*each[_REPLY_COLUMNS:]) for each in replies)
    return _file_comment_of(row, tuple(map(_read_reply, replies, people)))


def _reply_of(row: Row) -> Reply:
    return _read_reply(row, person_of_row(row))


def _on(parent: str, whole: sa.Select[Any], table: sa.Table, make: Callable[[Row], C], weight: Weight) -> Listing[C]:
    """Declare the list of the comments on a task or file.

    One index serves the whole list, another one the comments visible to clients.
    """
    return Listing(
        table,
        lambda page, _: whole.join(page, page.c.id == table.c.id),
        lambda row, _, __: make(row),
        weight,
        {parent: Filter(lambda row: row.c[parent] == sa.bindparam(parent), alone=True)},
        is_visible=lambda row, insider: sa.or_(insider, row.c.private.is_(sa.false())),
        order=IN_TIME,
    )


IN_TIME = replace(BY_ID, cursor=tuple[Annotated[int, Meta(ge=0, le=2**63 - 1)]])  # the range of both databases
_ON_TASK = _on("task_id", _task_comments, task_comments, _task_comment_of, length(task_comments.c.text))
_ON_FILE = _on(
    "file_id",
    _file_comments.add_columns(_nested),
    file_comments,
    _listed_file_comment,
    length(file_comments.c.text) + sa.select(_reply_chars).where(_of_comment).scalar_subquery(),
)


_CHANGEABLE = ("text", "body", "plain_body", "private", "updated_at")


class _Kind:
    """The noun of a record's events, and its statements. `more` names a column that the record does not have."""

    def __init__(self, noun: str, record: type[Record], table: sa.Table, more: str) -> None:
        by_id = table.c.id == bigint_param("row_id")
        names = ("repository_id", "user_id", more, *stored_names(record, without=("id",)))
        changes: dict[str, Any] = {name: sa.bindparam(name) for name in _CHANGEABLE if name in table.c}
        self.noun = noun
        self.insert = insert_into(table, *names).returning(table.c.id)
        self.update = sa.update(table).where(by_id).values(changes)
        self.delete = sa.delete(table).where(by_id)
        self.forget = [
            sa.delete(told).where(told.c[f"{noun}_id"] == bigint_param("row_id"))
            for told in (notifications, mail_messages)
        ]


_KINDS: Mapping[type[Record], _Kind] = {
    TaskComment: _Kind("task_comment", TaskComment, task_comments, "task_id"),
    FileComment: _Kind("file_comment", FileComment, file_comments, "file_id"),
    Reply: _Kind("file_comment_reply", Reply, file_comment_replies, "plain_body"),
}
REPLIES_MAX, REPLIES_CHARS_MAX = 500, 256 * 1024
"""Maximum number of replies to one comment, and of characters in all of them."""


async def insert(tx: Transaction, comment: C, **places: object) -> C:
    """Store a comment or reply and return it with its ID.

    `places`: `repository_id`, `user_id`, and `task_id` or `file_id`.
    """
    row = await tx.fetch_row(_KINDS[type(comment)].insert, {**_values(comment), **places})
    return msgspec.structs.replace(comment, id=int(row["id"]))


def _values(comment: C) -> dict[str, object]:
    values = values_of(comment)
    return {**values, "plain_body": plain(comment.body)} if isinstance(comment, Reply) else values


async def list_task_comments(
    reader: Reader, actor: Actor, task_id: str, *, after: Key | None, limit: int
) -> Rows[TaskComment]:
    access, _ = await _find(reader, actor, _task, id=task_id)
    return await read(reader, _ON_TASK, source_of_project(access), {"task_id": task_id}, after=after, limit=limit)


async def list_file_comments(
    reader: Reader, actor: Actor, file_id: str, *, after: Key | None, limit: int
) -> tuple[Access, Rows[FileComment]]:
    access, _ = await _find(reader, actor, _file, "private", id=file_id)
    return access, await read(
        reader, _ON_FILE, source_of_project(access), {"file_id": file_id}, after=after, limit=limit
    )


async def create_task_comment(write: Write, task_id: str, create: CommentCreate) -> TaskComment:
    access, row = await _find(write.tx, write.actor, _locked_task, id=task_id)
    task = CommentedTask(task_id, row["title"])
    comment = TaskComment(text=create.text, task=task, imported_author=None, **_common(write, access, create.private))
    return await _insert(write, access, comment, task_id=task_id)


async def create_file_comment(write: Write, file_id: str, create: CommentCreate) -> FileComment:
    access, row = await _find(write.tx, write.actor, _locked_file, "private", id=file_id)
    file = CommentedFile(file_id, row["title"], "")
    comment = FileComment(text=create.text, file=file, comments=(), **_common(write, access, create.private))
    return await _insert(write, access, comment, file_id=file_id)


async def create_reply(write: Write, comment_id: int, create: ReplyCreate) -> Reply:
    hidden = ("private", "file_private")
    access, _ = await _find(write.tx, write.actor, _file_comment_to_reply_to, *hidden, id=comment_id)
    await _require_room(write.tx, comment_id, len(create.body), count=1)
    reply = Reply(body=create.body, file_comment_id=comment_id, **_common(write, access, create.private))
    return await _insert(write, access, reply)


class Held(msgspec.Struct, Generic[C], frozen=True):
    """A locked comment or reply, and the caller's access to it. `is_imported` marks comments written elsewhere."""

    access: Access
    comment: C
    is_imported: bool = False

    @property
    def is_own(self) -> bool:
        return self.comment.user.id == self.access.user.id and not self.is_imported


async def lock_task_comment(tx: Transaction, actor: Actor, comment_id: int) -> Held[TaskComment]:
    access, row = await _find(tx, actor, _locked_task_comment, "private", id=comment_id)
    return Held(access, _task_comment_of(row), bool(row["is_imported"]))


async def lock_file_comment(tx: Transaction, actor: Actor, comment_id: int) -> Held[FileComment]:
    """Lock a comment, also against new replies."""
    access, row = await _find(tx, actor, _locked_file_comment, "private", "file_private", id=comment_id)
    # Read after the lock, so that all replies are seen.
    replies = await tx.fetch_all(_replies_to, {"id": comment_id})
    return Held(access, _file_comment_of(row, tuple(map(_reply_of, replies))))


async def lock_reply(tx: Transaction, actor: Actor, comment_id: int, reply_id: int) -> Held[Reply]:
    ids = {"id": reply_id, "file_comment_id": comment_id}
    access, row = await _find(tx, actor, _locked_reply, "private", "parent_private", **ids)
    return Held(access, _reply_of(row))


async def find_imported(reader: Reader, access: Access, comments: Sequence[TaskComment]) -> frozenset[int]:
    """Return the IDs of the comments that are attributed to the caller only because the caller imported them."""
    own = [each.id for each in comments if each.user.id == access.user.id]
    return frozenset(row["id"] for row in await reader.fetch_all(_imported, {"ids": own})) if own else frozenset()


def _words(comment: TaskComment | FileComment | Reply) -> str:
    """Return the text, which is empty if the comment was deleted."""
    return comment.body if isinstance(comment, Reply) else comment.text


async def edit(write: Write, held: Held[C], change: CommentEdit | ReplyEdit) -> C:
    """Apply a change and return the comment. If nothing would change, no event is added."""
    access, before = held.access, held.comment
    wanted = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not UNSET}
    access.require_writable()
    if not held.is_own:
        _require_may_edit(held, wanted)
    _require_may_hide(access, change.private)
    if not _words(before):
        raise Conflict(say("This comment was deleted."), code="deleted")
    if all(getattr(before, name) == value for name, value in wanted.items()):
        return before
    if isinstance(before, Reply) and isinstance(body := wanted.get("body"), str) and len(body) > len(before.body):
        await _require_room(write.tx, before.file_comment_id, len(body) - len(before.body))
    return await _replace(write, access, before, wanted)


def _require_may_edit(held: Held[C], wanted: Collection[str]) -> None:
    """Raise `Forbidden` unless an admin only changes whether someone else's comment is hidden."""
    if held.is_imported:
        held.access.require_member("edit imported content")
    else:
        held.access.require_own(held.comment.user.id, "edit")
    if not held.access.is_admin or any(name != "private" for name in wanted):
        why = phrase("Imported text cannot be edited" if held.is_imported else "Only the author can edit this")
        message = compose("{}; an admin can hide it from clients (private: true) or delete it.", why)
        raise Forbidden(message, code="not_author")


async def _require_room(tx: Transaction, comment_id: int, chars: int, count: int = 0) -> None:
    """Raise `Conflict` if a comment would have too many replies. Every response with the comment includes them all."""
    weight = await tx.fetch_row(_weight_of_replies, {"id": comment_id})
    if weight["count"] + count > REPLIES_MAX or weight["chars"] + chars > REPLIES_CHARS_MAX:
        raise Conflict(
            say(
                "A comment can have at most {} replies with a total of {} characters. Add a new comment to the file "
                "instead.",
                REPLIES_MAX,
                Number(REPLIES_CHARS_MAX),
            ),
            code="too_many_replies",
        )


async def delete(write: Write, held: Held[C]) -> None:
    """Delete the comment and, without events, its replies.

    If others replied, or if someone other than the author deletes it, only the text and the notifications about it are
    removed; an admin can then delete the rest. When a client deletes their own comment, what remains is hidden from
    clients.
    """
    access, comment = held.access, held.comment
    access.require_writable()
    if not held.is_own and not access.is_admin:
        access.require_own(comment.user.id, "delete")
        raise Forbidden(say("Only the author or an admin can delete this."), code="not_author")
    replies = comment.comments if isinstance(comment, FileComment) else ()
    is_answered = any(each.user.id != access.user.id for each in replies)
    if not _words(comment) and not access.is_admin:
        return
    if _words(comment) and (is_answered or not held.is_own):
        for statement in _KINDS[type(comment)].forget:
            write.tx.defer(statement, [{"row_id": comment.id}])
        hidden: dict[str, object] = {"private": True} if access.is_client else {}
        await _replace(write, access, comment, {"body" if isinstance(comment, Reply) else "text": "", **hidden})
    else:
        write.tx.defer(_KINDS[type(comment)].delete, [{"row_id": comment.id}])
        await publish_event(write, access.repository, _KINDS[type(comment)].noun, "deleted", _record(write, comment))


async def _replace(write: Write, access: Access, before: C, wanted: dict[str, object]) -> C:
    after = msgspec.structs.replace(before, **wanted, updated_at=max(write.now, before.updated_at + 1))
    place, author_id = f"{_KINDS[type(after)].noun}_id", after.user.id
    await store_mentions(write, access, place, after.id, _naming(after), _naming(before), author_id=author_id)
    write.tx.defer(_KINDS[type(after)].update, [{"row_id": after.id, **_values(after)}])
    record = _record(write, after)
    changes = differences(_record(write, before), record)
    if isinstance(after, FileComment):
        record = msgspec.structs.replace(record, comments=UNSET)
    await publish_event(write, access.repository, _KINDS[type(after)].noun, "edited", record, changes=changes)
    return after


async def _insert(write: Write, access: Access, comment: C, **about: str) -> C:
    places = {"repository_id": access.repository.id, "user_id": access.user.id, **about}
    comment = await insert(write.tx, comment, **places)
    place = f"{_KINDS[type(comment)].noun}_id"
    await store_mentions(write, access, place, comment.id, _naming(comment), author_id=comment.user.id)
    await publish_event(write, access.repository, _KINDS[type(comment)].noun, "created", _record(write, comment))
    return comment


def _record(write: Write, comment: TaskComment | FileComment | Reply) -> msgspec.Struct:
    if isinstance(comment, FileComment):
        return file_comment_to_response(comment, links_of(write.call))
    return to_response(comment)


def _naming(comment: C) -> Naming:
    names = names_in_markup(comment.body) if isinstance(comment, Reply) else names_in_markdown(comment.text)
    return Naming(names.logins, comment.private)


async def _find(
    reader: Reader, actor: Actor, statement: sa.Select[Any], *private: str, **ids: str | int
) -> tuple[Access, Row]:
    """Return the caller's access and the row. Raises `NotFound` for a client if any `private` column is true."""
    row, access = await find_with_access(reader, statement, actor, **ids)
    access.require_visible(any(row[name] for name in private))
    return access, row


def _common(write: Write, access: Access, private: bool | UnsetType) -> dict[str, Any]:
    """Return the values of a new comment or reply. The database assigns the ID."""
    access.require_writable()
    _require_may_hide(access, private)
    user = person_to_response(write.actor.user)
    return {"id": 0, "private": private is True, "user": user, "created_at": write.now, "updated_at": write.now}


def _require_may_hide(access: Access, private: bool | UnsetType) -> None:
    if private is True:
        access.require_member("make comments private")
