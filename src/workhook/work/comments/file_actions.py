"""What can be done with comments on files: authorise, decide, write, append the event.

An event's record has every reply; an answer to a client leaves out those that are private.
"""

from __future__ import annotations

import msgspec

from workhook.core.clock import now_ms
from workhook.identity.schemas import Actor
from workhook.storage import Reader, Transaction
from workhook.work.access import Access, access_of
from workhook.work.announce import announce, differences
from workhook.work.comments import queries
from workhook.work.comments.common import edited, privacy, require_deletable, require_editable
from workhook.work.comments.schemas import (
    CommentCreate,
    CommentedFile,
    CommentEdit,
    FileComment,
    file_comment_to_response,
)
from workhook.work.files.links import Links
from workhook.work.people import person_shape

NOUN = "file_comment"


async def list_comments(
    reader: Reader, actor: Actor, file_id: str, *, after: int, limit: int
) -> tuple[Access, list[FileComment]]:
    """Those of a file that the caller may see, by id, with every reply. Raises `NotFound`."""
    row = await queries.find_file(reader, file_id, actor.user.id)
    access = access_of(row, actor)
    assert row is not None, "access_of saw to it"
    access.require_sight(bool(row["private"]))
    everything = not access.is_client
    found = await queries.list_file_comments(reader, file_id, everything=everything, after=after, limit=limit)
    return access, found


async def create_comment(
    tx: Transaction, actor: Actor, file_id: str, create: CommentCreate, *, base: str, links: Links
) -> FileComment:
    """Raises `NotFound`, `Forbidden`, `Conflict`."""
    row = await queries.hold_file(tx, file_id, actor.user.id)
    access = access_of(row, actor)
    assert row is not None, "access_of saw to it"
    access.require_sight(bool(row["private"]))
    access.require_writable()
    now = now_ms()
    values = {"text": create.text, "private": privacy(access, create.private), "created_at": now, "updated_at": now}
    places = {"file_id": file_id, "repository_id": access.repository.id, "user_id": actor.user.id}
    comment = FileComment(
        id=await queries.insert_file_comment(tx, {**values, **places}),
        text=create.text,
        private=bool(values["private"]),
        file=CommentedFile(file_id, row["title"], ""),
        user=person_shape(actor.user),
        comments=(),
        created_at=now,
        updated_at=now,
    )
    await announce(tx, actor, access.repository, NOUN, "created", file_comment_to_response(comment, links), base=base)
    return comment


async def take_comment(tx: Transaction, actor: Actor, comment_id: int) -> tuple[Access, FileComment]:
    """For a change: nobody else changes it until the transaction ends. Raises `NotFound`."""
    row = await queries.lock_file_comment(tx, comment_id, actor.user.id)
    access = access_of(row, actor)
    assert row is not None, "access_of saw to it"
    access.require_sight(bool(row["private"] or row["file_private"]))
    return access, queries.file_comment_of(row, await queries.replies_to(tx, comment_id))


async def edit_comment(
    tx: Transaction, access: Access, before: FileComment, edit: CommentEdit, *, base: str, links: Links
) -> FileComment:
    """The comment after the change. What changes nothing writes nothing and has no event. Raises `Forbidden`,
    `Conflict`."""
    require_editable(access, before.user.id)
    after = edited(access, before, edit)
    if after is not before:
        await queries.update(tx, after)
        record = file_comment_to_response(after, links)
        changes = differences(file_comment_to_response(before, links), record)
        await announce(tx, access.actor, access.repository, NOUN, "edited", record, base=base, changes=changes)
    return after


async def delete_comment(tx: Transaction, access: Access, comment: FileComment, *, base: str, links: Links) -> None:
    """Its replies go with it, without events of their own. Raises `Forbidden`, `Conflict`.

    A client does not delete what others replied: then only its text goes, and no client sees the comment any more.
    """
    require_deletable(access, comment.user.id)
    if access.is_client and any(each.user.id != access.user.id for each in comment.comments):
        await _clear(tx, access, comment, base=base, links=links)
        return
    await queries.delete(tx, comment)
    record = file_comment_to_response(comment, links)
    await announce(tx, access.actor, access.repository, NOUN, "deleted", record, base=base)


async def _clear(tx: Transaction, access: Access, before: FileComment, *, base: str, links: Links) -> None:
    """Take the text off a comment that a client deletes, and keep it for the members with the replies."""
    now = max(now_ms(), before.updated_at + 1)
    after = msgspec.structs.replace(before, text="", private=True, updated_at=now)
    await queries.update(tx, after)
    record = file_comment_to_response(after, links)
    changes = differences(file_comment_to_response(before, links), record)
    await announce(tx, access.actor, access.repository, NOUN, "edited", record, base=base, changes=changes)
