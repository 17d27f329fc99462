"""What can be done with replies to comments on files: authorise, decide, write, append the event."""

from __future__ import annotations

from workhook.core.clock import now_ms
from workhook.core.records import to_response
from workhook.identity.schemas import Actor
from workhook.storage import Transaction
from workhook.work.access import Access, access_of
from workhook.work.announce import announce, differences
from workhook.work.comments import queries
from workhook.work.comments.common import edited, privacy, require_deletable, require_editable
from workhook.work.comments.schemas import Reply, ReplyCreate, ReplyEdit
from workhook.work.people import person_shape

NOUN = "file_comment_reply"


async def create_reply(tx: Transaction, actor: Actor, comment_id: int, create: ReplyCreate, *, base: str) -> Reply:
    """Raises `NotFound`, `Forbidden`, `Conflict`."""
    row = await queries.hold_file_comment(tx, comment_id, actor.user.id)
    access = access_of(row, actor)
    assert row is not None, "access_of saw to it"
    access.require_sight(bool(row["private"] or row["file_private"]))
    access.require_writable()
    now = now_ms()
    values = {"body": create.body, "private": privacy(access, create.private), "created_at": now, "updated_at": now}
    places = {"file_comment_id": comment_id, "repository_id": access.repository.id, "user_id": actor.user.id}
    reply = Reply(
        id=await queries.insert_reply(tx, {**values, **places}),
        body=create.body,
        file_comment_id=comment_id,
        private=bool(values["private"]),
        user=person_shape(actor.user),
        created_at=now,
        updated_at=now,
    )
    await announce(tx, actor, access.repository, NOUN, "created", to_response(reply), base=base)
    return reply


async def take_reply(tx: Transaction, actor: Actor, comment_id: int, reply_id: int) -> tuple[Access, Reply]:
    """For a change: nobody else changes it until the transaction ends. Raises `NotFound`."""
    row = await queries.lock_reply(tx, comment_id, reply_id, actor.user.id)
    access = access_of(row, actor)
    assert row is not None, "access_of saw to it"
    reply = queries.reply_of(row)
    access.require_sight(reply.private or bool(row["parent_private"]))
    return access, reply


async def edit_reply(tx: Transaction, access: Access, before: Reply, edit: ReplyEdit, *, base: str) -> Reply:
    """The reply after the change. What changes nothing writes nothing and has no event. Raises `Forbidden`,
    `Conflict`."""
    require_editable(access, before.user.id)
    after = edited(access, before, edit)
    if after is not before:
        await queries.update(tx, after)
        record = to_response(after)
        changes = differences(to_response(before), record)
        await announce(tx, access.actor, access.repository, NOUN, "edited", record, base=base, changes=changes)
    return after


async def delete_reply(tx: Transaction, access: Access, reply: Reply, *, base: str) -> None:
    """Raises `Forbidden`, `Conflict`."""
    require_deletable(access, reply.user.id)
    await queries.delete(tx, reply)
    await announce(tx, access.actor, access.repository, NOUN, "deleted", to_response(reply), base=base)
