"""What can be done with comments on tasks: authorise, decide, write, append the event."""

from __future__ import annotations

from workhook.core.clock import now_ms
from workhook.core.records import to_response
from workhook.identity.schemas import Actor
from workhook.storage import Reader, Transaction
from workhook.work.access import Access, access_of
from workhook.work.announce import announce, differences
from workhook.work.comments import queries
from workhook.work.comments.common import edited, privacy, require_deletable, require_editable
from workhook.work.comments.schemas import CommentCreate, CommentEdit, CommentedTask, TaskComment
from workhook.work.people import person_shape

NOUN = "task_comment"


async def list_comments(reader: Reader, actor: Actor, task_id: str, *, after: int, limit: int) -> list[TaskComment]:
    """Those of a task that the caller may see, by id. Raises `NotFound`."""
    access = access_of(await queries.find_task(reader, task_id, actor.user.id), actor)
    everything = not access.is_client
    return await queries.list_task_comments(reader, task_id, everything=everything, after=after, limit=limit)


async def create_comment(
    tx: Transaction, actor: Actor, task_id: str, create: CommentCreate, *, base: str
) -> TaskComment:
    """Raises `NotFound`, `Forbidden`, `Conflict`."""
    row = await queries.hold_task(tx, task_id, actor.user.id)
    access = access_of(row, actor)
    assert row is not None, "access_of saw to it"
    access.require_writable()
    now = now_ms()
    values = {"text": create.text, "private": privacy(access, create.private), "created_at": now, "updated_at": now}
    places = {"task_id": task_id, "repository_id": access.repository.id, "user_id": actor.user.id}
    comment = TaskComment(
        id=await queries.insert_task_comment(tx, {**values, **places}),
        text=create.text,
        private=bool(values["private"]),
        task=CommentedTask(task_id, row["title"]),
        user=person_shape(actor.user),
        created_at=now,
        updated_at=now,
    )
    await announce(tx, actor, access.repository, NOUN, "created", to_response(comment), base=base)
    return comment


async def take_comment(tx: Transaction, actor: Actor, comment_id: int) -> tuple[Access, TaskComment]:
    """For a change: nobody else changes it until the transaction ends. Raises `NotFound`."""
    row = await queries.lock_task_comment(tx, comment_id, actor.user.id)
    access = access_of(row, actor)
    assert row is not None, "access_of saw to it"
    comment = queries.task_comment_of(row)
    access.require_sight(comment.private)
    return access, comment


async def edit_comment(
    tx: Transaction, access: Access, before: TaskComment, edit: CommentEdit, *, base: str
) -> TaskComment:
    """The comment after the change. What changes nothing writes nothing and has no event. Raises `Forbidden`,
    `Conflict`."""
    require_editable(access, before.user.id)
    after = edited(access, before, edit)
    if after is not before:
        await queries.update(tx, after)
        record = to_response(after)
        changes = differences(to_response(before), record)
        await announce(tx, access.actor, access.repository, NOUN, "edited", record, base=base, changes=changes)
    return after


async def delete_comment(tx: Transaction, access: Access, comment: TaskComment, *, base: str) -> None:
    """Raises `Forbidden`, `Conflict`."""
    require_deletable(access, comment.user.id)
    await queries.delete(tx, comment)
    await announce(tx, access.actor, access.repository, NOUN, "deleted", to_response(comment), base=base)
