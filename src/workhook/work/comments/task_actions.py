"""What can be done with comments on tasks: authorise, decide, write, append the event."""

from __future__ import annotations

from workhook.identity.context import Write
from workhook.identity.schemas import Actor
from workhook.storage import Reader, Transaction
from workhook.work.access import Access, access_of
from workhook.work.announce import announce, differences
from workhook.work.comments import queries
from workhook.work.comments.common import edited, privacy, require_deletable, require_editable
from workhook.work.comments.schemas import CommentCreate, CommentEdit, CommentedTask, TaskComment, task_comment_shape
from workhook.work.people import person_shape

NOUN = "task_comment"


async def list_comments(reader: Reader, actor: Actor, task_id: str, *, after: int, limit: int) -> list[TaskComment]:
    """Those of a task that the caller may see, by id. Raises `NotFound`."""
    access = access_of(await queries.find_task(reader, task_id, actor.user.id), actor)
    everything = not access.is_client
    return await queries.list_task_comments(reader, task_id, everything=everything, after=after, limit=limit)


async def create_comment(write: Write, task_id: str, create: CommentCreate) -> TaskComment:
    """Raises `NotFound`, `Forbidden`, `Conflict`."""
    row = await queries.hold_task(write.tx, task_id, write.actor.user.id)
    access = access_of(row, write.actor)
    assert row is not None, "access_of saw to it"
    access.require_writable()
    values = {
        "text": create.text,
        "private": privacy(access, create.private),
        "created_at": write.now,
        "updated_at": write.now,
    }
    places = {"task_id": task_id, "repository_id": access.repository.id, "user_id": write.actor.user.id}
    comment = TaskComment(
        id=await queries.insert_task_comment(write.tx, {**values, **places}),
        text=create.text,
        private=bool(values["private"]),
        task=CommentedTask(task_id, row["title"]),
        user=person_shape(write.actor.user),
        created_at=write.now,
        updated_at=write.now,
    )
    await announce(write, access.repository, NOUN, "created", task_comment_shape(comment))
    return comment


async def take_comment(tx: Transaction, actor: Actor, comment_id: int) -> tuple[Access, TaskComment]:
    """For a change: nobody else changes it until the transaction ends. Raises `NotFound`."""
    row = await queries.lock_task_comment(tx, comment_id, actor.user.id)
    access = access_of(row, actor)
    assert row is not None, "access_of saw to it"
    comment = queries.task_comment_of(row)
    access.require_sight(comment.private)
    return access, comment


async def edit_comment(write: Write, access: Access, before: TaskComment, edit: CommentEdit) -> TaskComment:
    """The comment after the change. What changes nothing writes nothing and has no event. Raises `Forbidden`,
    `Conflict`."""
    require_editable(access, before.user.id)
    after = edited(access, before, edit)
    if after is not before:
        await queries.update(write.tx, after)
        record = task_comment_shape(after)
        changes = differences(task_comment_shape(before), record)
        await announce(write, access.repository, NOUN, "edited", record, changes=changes)
    return after


async def delete_comment(write: Write, access: Access, comment: TaskComment) -> None:
    """Raises `Forbidden`, `Conflict`."""
    require_deletable(access, comment.user.id)
    await queries.delete(write.tx, comment)
    await announce(write, access.repository, NOUN, "deleted", task_comment_shape(comment))
