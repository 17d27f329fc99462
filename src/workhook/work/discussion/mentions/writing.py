"""Storing whom a comment names, in the transaction that stores the comment.

Only who sees the comment is stored: everybody in the project, but no client where it is hidden from clients. Any other
login is text, so that nobody learns whether it is somebody's in another organization. Nobody mentions themselves.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from workhook.identity.context import Write
from workhook.identity.notifications.telling import Telling, telling
from workhook.identity.tables import accounts, projects
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import big
from workhook.work.board.tasks.assignees import is_client_there, on_team
from workhook.work.discussion.comments.schemas import file_comment_replies, file_comments
from workhook.work.discussion.mentions.schemas import PLACES, mentions
from workhook.work.files.schemas import files
from workhook.work.kernel.access import Access

_about_file = file_comments.join(files, files.c.id == file_comments.c.file_id)
_about_reply = file_comment_replies.join(
    file_comments, file_comments.c.id == file_comment_replies.c.file_comment_id
).join(files, files.c.id == file_comments.c.file_id)
_IS_AROUND_HIDDEN: dict[str, sa.ColumnElement[bool]] = {
    "task_comment_id": sa.false(),
    "file_comment_id": sa.exists()
    .select_from(_about_file)
    .where(file_comments.c.id == big("comment_id"), files.c.private),
    "file_comment_reply_id": sa.exists()
    .select_from(_about_reply)
    .where(file_comment_replies.c.id == big("comment_id"), sa.or_(files.c.private, file_comments.c.private)),
}
"""Whether clients do not see what the comment is about, whatever the comment itself says."""


def _named(place: str, *, private: bool) -> sa.Select[Any]:
    """Those of the logins who see the comment."""
    sees_as_client = sa.false() if private else sa.and_(is_client_there, sa.not_(_IS_AROUND_HIDDEN[place]))
    return (
        sa.select(accounts.c.id)
        .select_from(accounts.join(projects, projects.c.repository_id == big("repository_id")))
        .where(accounts.c.kind == "user", any_of(accounts.c.login_key, "logins"), sa.or_(on_team, sees_as_client))
    )


_COLUMNS = ("repository_id", "user_id", "author_id", "created_at")


def _add(place: str, *, private: bool) -> Executable:
    values = (big("repository_id"), accounts.c.id, big("author_id"), big("now"), big("comment_id"))
    named = _named(place, private=private).with_only_columns(*values).where(accounts.c.id != big("author_id"))
    return upsert(mentions).from_select([*_COLUMNS, place], named, include_defaults=False).on_conflict_do_nothing()


def _tell(place: str, *, private: bool) -> Telling:
    """Those who are named now and were not before: it stands before `_add`, whose rows it must not see."""
    named_before = sa.exists().where(mentions.c[place] == big("comment_id"), mentions.c.user_id == accounts.c.id)
    return telling("mention", _named(place, private=private).where(sa.not_(named_before)), {place: big("comment_id")})


def _remove(place: str, *, private: bool) -> Executable:
    named = _named(place, private=private)
    return sa.delete(mentions).where(mentions.c[place] == big("comment_id"), mentions.c.user_id.not_in(named))


_ADD = {(place, private): _add(place, private=private) for place in PLACES for private in (True, False)}
_TELL = {(place, private): _tell(place, private=private) for place in PLACES for private in (True, False)}
_REMOVE = {(place, private): _remove(place, private=private) for place in PLACES for private in (True, False)}


class Naming(msgspec.Struct, frozen=True):
    """Whom a comment names, by logins in small letters, and whether it is hidden from clients."""

    logins: Collection[str] = ()
    private: bool = False


NOBODY = Naming()


async def store_mentions(
    write: Write,
    access: Access,
    place: str,
    comment_id: int,
    after: Naming,
    before: Naming = NOBODY,
    *,
    author_id: int,
) -> None:
    """Make the rows of a comment those of `after`. `place`: a name of `PLACES`. `author_id`: who wrote the comment,
    whoever shows it now to people that it names.

    Who is named now and was not before is told. The comment is stored or locked, and no change of it is deferred yet.
    The writes here are, so that they cost no round trip; only an edit that replaces names has one more.
    """
    params = {"repository_id": access.repository.id, "comment_id": comment_id, "logins": sorted(after.logins)}
    were, are = set(before.logins), set(after.logins)
    loses = bool(were - are) or (bool(were) and after.private and not before.private)
    gains = bool(are - were) or (bool(are) and before.private and not after.private)
    if loses:
        write.tx.defer(_REMOVE[place, after.private], [params])
    if loses and gains:
        await write.tx.flush()
    if gains:
        more = {"author_id": author_id, "now": write.now}
        told = {"actor_id": author_id, "account_id": access.repository.owner.id, "detail": None}
        _TELL[place, after.private].defer(write.tx, {**params, **told, "now": write.now})
        write.tx.defer(_ADD[place, after.private], [{**params, **more}])
