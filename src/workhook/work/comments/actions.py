"""What can be done with comments on tasks and files and with replies: authorise, decide, write, append the event.

An event about a comment on a file has every reply; an answer to a client leaves out those that are private.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.storage import Reader, Row, Transaction
from workhook.work.access import Access, access_of
from workhook.work.comments import queries
from workhook.work.comments.schemas import (
    CommentCreate,
    CommentedFile,
    CommentEdit,
    CommentedTask,
    FileComment,
    Reply,
    ReplyCreate,
    ReplyEdit,
    TaskComment,
    file_comment_to_response,
)
from workhook.work.files.links import Links
from workhook.work.people import person_shape
from workhook.work.record_events import differences, publish_event

C = TypeVar("C", TaskComment, FileComment, Reply)
ToRecord = Callable[[C], msgspec.Struct]

_NOUNS = {TaskComment: "task_comment", FileComment: "file_comment", Reply: "file_comment_reply"}


async def list_task_comments(
    reader: Reader, actor: Actor, task_id: str, *, after: int, limit: int
) -> list[TaskComment]:
    """Those of a task that the caller may see, by id. Raises `NotFound`."""
    access = access_of(await queries.find_task(reader, task_id, actor.user.id), actor)
    everything = not access.is_client
    return await queries.list_task_comments(reader, task_id, everything=everything, after=after, limit=limit)


async def list_file_comments(
    reader: Reader, actor: Actor, file_id: str, *, after: int, limit: int
) -> tuple[Access, list[FileComment]]:
    """Those of a file that the caller may see, by id, with every reply. Raises `NotFound`."""
    access, _ = _seen(await queries.find_file(reader, file_id, actor.user.id), actor, "private")
    everything = not access.is_client
    return access, await queries.list_file_comments(reader, file_id, everything=everything, after=after, limit=limit)


async def create_task_comment(write: Write, task_id: str, create: CommentCreate) -> TaskComment:
    """Raises `NotFound`, `Forbidden`, `Conflict`."""
    access, row = _seen(await queries.hold_task(write.tx, task_id, write.actor.user.id), write.actor)
    values = _values(write, access, create)
    comment = TaskComment(
        id=await queries.insert_task_comment(write.tx, {**values, "task_id": task_id, "text": create.text}),
        text=create.text,
        private=bool(values["private"]),
        task=CommentedTask(task_id, row["title"]),
        user=person_shape(write.actor.user),
        created_at=write.now,
        updated_at=write.now,
    )
    await _announce(write, access, "created", comment, to_response)
    return comment


async def create_file_comment(write: Write, file_id: str, create: CommentCreate, links: Links) -> FileComment:
    """Raises `NotFound`, `Forbidden`, `Conflict`."""
    row = await queries.hold_file(write.tx, file_id, write.actor.user.id)
    access, row = _seen(row, write.actor, "private")
    values = _values(write, access, create)
    comment = FileComment(
        id=await queries.insert_file_comment(write.tx, {**values, "file_id": file_id, "text": create.text}),
        text=create.text,
        private=bool(values["private"]),
        file=CommentedFile(file_id, row["title"], ""),
        user=person_shape(write.actor.user),
        comments=(),
        created_at=write.now,
        updated_at=write.now,
    )
    await _announce(write, access, "created", comment, lambda each: file_comment_to_response(each, links))
    return comment


async def create_reply(write: Write, comment_id: int, create: ReplyCreate) -> Reply:
    """Raises `NotFound`, `Forbidden`, `Conflict`."""
    row = await queries.hold_file_comment(write.tx, comment_id, write.actor.user.id)
    access, _ = _seen(row, write.actor, "private", "file_private")
    values = _values(write, access, create)
    reply = Reply(
        id=await queries.insert_reply(write.tx, {**values, "file_comment_id": comment_id, "body": create.body}),
        body=create.body,
        file_comment_id=comment_id,
        private=bool(values["private"]),
        user=person_shape(write.actor.user),
        created_at=write.now,
        updated_at=write.now,
    )
    await _announce(write, access, "created", reply, to_response)
    return reply


async def lock_task_comment(tx: Transaction, actor: Actor, comment_id: int) -> tuple[Access, TaskComment]:
    """For a change: nobody else changes it until the transaction ends. Raises `NotFound`."""
    access, row = _seen(await queries.lock_task_comment(tx, comment_id, actor.user.id), actor, "private")
    return access, queries.task_comment_of(row)


async def lock_file_comment(tx: Transaction, actor: Actor, comment_id: int) -> tuple[Access, FileComment]:
    """For a change: nobody else changes it, or replies to it, until the transaction ends. Raises `NotFound`."""
    row = await queries.lock_file_comment(tx, comment_id, actor.user.id)
    access, row = _seen(row, actor, "private", "file_private")
    return access, queries.file_comment_of(row, await queries.replies_to(tx, comment_id))


async def lock_reply(tx: Transaction, actor: Actor, comment_id: int, reply_id: int) -> tuple[Access, Reply]:
    """For a change: nobody else changes it until the transaction ends. Raises `NotFound`."""
    row = await queries.lock_reply(tx, comment_id, reply_id, actor.user.id)
    access, row = _seen(row, actor, "private", "parent_private")
    return access, queries.reply_of(row)


async def edit(write: Write, access: Access, before: C, change: CommentEdit | ReplyEdit, to_record: ToRecord[C]) -> C:
    """The comment or reply after the change. What changes nothing writes nothing and has no event. Raises `Forbidden`,
    `Conflict`."""
    access.require_writable()
    access.require_own(before.user.id, "edit")
    _privacy(access, change.private)
    wanted = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not UNSET}
    if all(getattr(before, name) == value for name, value in wanted.items()):
        return before
    return await _replace(write, access, before, to_record, wanted)


async def delete(write: Write, access: Access, comment: C, to_record: ToRecord[C]) -> None:
    """Raises `Forbidden`, `Conflict`."""
    _require_deletable(access, comment)
    await queries.delete(write.tx, comment)
    await _announce(write, access, "deleted", comment, to_record)


async def delete_file_comment(
    write: Write, access: Access, comment: FileComment, to_record: ToRecord[FileComment]
) -> None:
    """Its replies go with it, without events of their own. Raises `Forbidden`, `Conflict`.

    A client does not delete what others replied: then only its text goes, and no client sees the comment any more.
    """
    _require_deletable(access, comment)
    if access.is_client and any(each.user.id != access.user.id for each in comment.comments):
        await _replace(write, access, comment, to_record, {"text": "", "private": True})
    else:
        await delete(write, access, comment, to_record)


def _require_deletable(access: Access, comment: TaskComment | FileComment | Reply) -> None:
    access.require_writable()
    access.require_own(comment.user.id, "delete")


async def _replace(write: Write, access: Access, before: C, to_record: ToRecord[C], wanted: dict[str, object]) -> C:
    after = msgspec.structs.replace(before, **wanted, updated_at=max(write.now, before.updated_at + 1))
    await queries.update(write.tx, after)
    record = to_record(after)
    changes = differences(to_record(before), record)
    await publish_event(write, access.repository, _NOUNS[type(after)], "edited", record, changes=changes)
    return after


async def _announce(write: Write, access: Access, action: str, comment: C, to_record: ToRecord[C]) -> None:
    await publish_event(write, access.repository, _NOUNS[type(comment)], action, to_record(comment))


def _seen(row: Row | None, actor: Actor, *private: str) -> tuple[Access, Row]:
    """The caller's place and the row; `private` names the columns of which none may be true for a client to see it.
    Raises `NotFound`."""
    access = access_of(row, actor)
    assert row is not None, "access_of saw to it"
    access.require_sight(any(row[name] for name in private))
    return access, row


def _values(write: Write, access: Access, create: CommentCreate | ReplyCreate) -> dict[str, object]:
    """What the row of something new has beside its text and what it is about. Raises `Forbidden`, `Conflict`."""
    access.require_writable()
    return {
        "repository_id": access.repository.id,
        "user_id": write.actor.user.id,
        "private": _privacy(access, create.private),
        "created_at": write.now,
        "updated_at": write.now,
    }


def _privacy(access: Access, asked: bool | UnsetType) -> bool:
    """What a client writes is for everybody who sees the place. Raises `Forbidden`."""
    if asked is True:
        access.require_member("make comments private")
    return asked is True
