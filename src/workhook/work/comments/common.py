"""What holds for comments and replies alike."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.clock import now_ms
from workhook.work.access import Access
from workhook.work.comments.schemas import CommentEdit, FileComment, Reply, ReplyEdit, TaskComment

C = TypeVar("C", TaskComment, FileComment, Reply)


def privacy(access: Access, asked: bool | UnsetType) -> bool:
    """Of something new. What a client writes is for everybody who sees the place. Raises `Forbidden`."""
    if asked is True:
        access.require_member("make comments private")
    return asked is True


def require_editable(access: Access, user_id: int) -> None:
    """`user_id`: who wrote it. Raises `Forbidden` and `Conflict`."""
    access.require_writable()
    access.require_own(user_id, "edit")


def require_deletable(access: Access, user_id: int) -> None:
    """`user_id`: who wrote it. Raises `Forbidden` and `Conflict`."""
    access.require_writable()
    access.require_own(user_id, "delete")


def edited(access: Access, before: C, edit: CommentEdit | ReplyEdit) -> C:
    """What it becomes; `before` itself if nothing changes. Raises `Forbidden`."""
    wanted = {name: value for name, value in msgspec.structs.asdict(edit).items() if value is not UNSET}
    privacy(access, edit.private)
    if all(getattr(before, name) == value for name, value in wanted.items()):
        return before
    return msgspec.structs.replace(before, **wanted, updated_at=max(now_ms(), before.updated_at + 1))
