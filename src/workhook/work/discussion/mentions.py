"""Store the people mentioned in a comment, in the transaction that stores the comment.

Only people who can see the comment are stored: everyone in the project, except clients if the comment is hidden from
them. Any other login is treated as plain text, so that a mention does not reveal whether it exists in another
organization. Authors cannot mention themselves.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from workhook.identity.context import Write
from workhook.identity.notifications import NotificationStatements, notification_statements
from workhook.identity.queries import repository_of
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import accounts, projects
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import bigint_param
from workhook.work.board.tasks.assignees import is_client_there, on_team
from workhook.work.board.tasks.schemas import tasks
from workhook.work.discussion.markdown import plain_words, prepare_words
from workhook.work.discussion.schemas import PLACES, file_comment_replies, file_comments, mentions, task_comments
from workhook.work.files.schemas import files
from workhook.work.kernel.access import Access, is_client, is_insider, with_access
from workhook.work.kernel.people import ADDRESS_HIDDEN, PersonShape, person_columns, person_of_row

_about_file = file_comments.join(files, files.c.id == file_comments.c.file_id)
_about_reply = file_comment_replies.join(
    file_comments, file_comments.c.id == file_comment_replies.c.file_comment_id
).join(files, files.c.id == file_comments.c.file_id)
_IS_AROUND_HIDDEN: dict[str, sa.ColumnElement[bool]] = {
    "task_comment_id": sa.false(),
    "file_comment_id": sa.exists()
    .select_from(_about_file)
    .where(file_comments.c.id == bigint_param("comment_id"), files.c.private),
    "file_comment_reply_id": sa.exists()
    .select_from(_about_reply)
    .where(file_comment_replies.c.id == bigint_param("comment_id"), sa.or_(files.c.private, file_comments.c.private)),
}
"""Conditions: the subject of the comment is hidden from clients."""


def _select_mentioned(place: str, *, private: bool) -> sa.Select[Any]:
    sees_as_client = sa.false() if private else sa.and_(is_client_there, sa.not_(_IS_AROUND_HIDDEN[place]))
    return (
        sa.select(accounts.c.id)
        .select_from(accounts.join(projects, projects.c.repository_id == bigint_param("repository_id")))
        .where(accounts.c.kind == "user", any_of(accounts.c.login_key, "logins"), sa.or_(on_team, sees_as_client))
    )


_COLUMNS = ("repository_id", "user_id", "author_id", "created_at")


def _add(place: str, *, private: bool) -> Executable:
    values = (
        bigint_param("repository_id"),
        accounts.c.id,
        bigint_param("author_id"),
        bigint_param("now"),
        bigint_param("comment_id"),
    )
    named = (
        _select_mentioned(place, private=private)
        .with_only_columns(*values)
        .where(accounts.c.id != bigint_param("author_id"))
    )
    return upsert(mentions).from_select([*_COLUMNS, place], named, include_defaults=False).on_conflict_do_nothing()


def _tell(place: str, *, private: bool) -> NotificationStatements:
    """Return the notification of people who were not mentioned before.

    Must run before `_add`, because it must not see the new rows.
    """
    named_before = sa.exists().where(
        mentions.c[place] == bigint_param("comment_id"), mentions.c.user_id == accounts.c.id
    )
    return notification_statements(
        "mention",
        _select_mentioned(place, private=private).where(sa.not_(named_before)),
        {place: bigint_param("comment_id")},
    )


def _remove(place: str, *, private: bool) -> Executable:
    named = _select_mentioned(place, private=private)
    return sa.delete(mentions).where(mentions.c[place] == bigint_param("comment_id"), mentions.c.user_id.not_in(named))


_ADD = {(place, private): _add(place, private=private) for place in PLACES for private in (True, False)}
_TELL = {(place, private): _tell(place, private=private) for place in PLACES for private in (True, False)}
_REMOVE = {(place, private): _remove(place, private=private) for place in PLACES for private in (True, False)}


class Naming(msgspec.Struct, frozen=True):
    """The logins that a comment mentions, in lower case, and whether the comment is hidden from clients."""

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
    """Update the mentions of a comment to `after`, and notify people who were not mentioned before.

    `place` is a key of `PLACES`. The comment must be stored or locked, with no deferred change. The writes are deferred
    and cost no round trip, except for one when an edit replaces mentions.
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
        common = {"actor_id": author_id, "account_id": access.repository.owner.id, "detail": None}
        _TELL[place, after.private].defer(write.tx, {**params, **common, "now": write.now})
        write.tx.defer(_ADD[place, after.private], [{**params, **more}])


SCAN_MAX = 1_000
"""How many of a person's newest mentions are examined, visible or not."""

QUOTED, _READ = 200, 1_000
"""Number of characters quoted from a comment, and of those read for the quote, including markup."""


class Mention(msgspec.Struct, frozen=True):
    """A mention of the person. `about_id` and `title` belong to the task or file; `words` has no markup."""

    id: int
    kind: Literal["task_comment", "file_comment", "file_comment_reply"]
    comment_id: int
    about_id: str
    title: str
    words: str
    author: PersonShape
    repository: Repository
    created_at: int


_person = bigint_param("user_id")
_authors = accounts.alias("authors")
_newest = (
    sa.select(mentions)
    .where(mentions.c.user_id == _person)
    .order_by(mentions.c.id.desc())
    .limit(bigint_param("looks_at"))
    .subquery("newest")
)
_file_comment_id = sa.func.coalesce(_newest.c.file_comment_id, file_comment_replies.c.file_comment_id)
is_hidden = sa.or_(
    *(
        sa.func.coalesce(each.c.private, sa.false())
        for each in (task_comments, file_comments, file_comment_replies, files)
    )
)
"""Condition: a client cannot see the comment, for outer joins with these tables."""


def beginning(column: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """Return the start of a text, including markup, from which the quote is taken."""
    return sa.func.substr(column, 1, _READ)


def quoted(words: str) -> str:
    return words if len(words) <= QUOTED else words[: QUOTED - 1].rstrip() + "…"


_seen = (
    with_access(
        sa.select(
            *(_newest.c[name].label(f"mention_{name}") for name in ("id", "created_at")),
            *(_newest.c[name] for name in ("task_comment_id", "file_comment_id", "file_comment_reply_id")),
            sa.func.coalesce(tasks.c.id, files.c.id).label("about_id"),
            sa.func.coalesce(tasks.c.title, files.c.title).label("about_title"),
            beginning(sa.func.coalesce(task_comments.c.text, file_comments.c.text)).label("comment_text"),
            beginning(file_comment_replies.c.plain_body).label("reply_text"),
            *person_columns(ADDRESS_HIDDEN, _authors, "author_"),
        )
        .select_from(_newest)
        .join(_authors, _authors.c.id == _newest.c.author_id)
        .outerjoin(task_comments, task_comments.c.id == _newest.c.task_comment_id)
        .outerjoin(tasks, tasks.c.id == task_comments.c.task_id)
        .outerjoin(file_comment_replies, file_comment_replies.c.id == _newest.c.file_comment_reply_id)
        .outerjoin(file_comments, file_comments.c.id == _file_comment_id)
        .outerjoin(files, files.c.id == file_comments.c.file_id)
        .where(tasks.c.deleted_at.is_(None), files.c.deleted_at.is_(None)),
        _newest.c.repository_id,
    )
    .where(sa.or_(is_insider(_person), sa.and_(is_client, sa.not_(is_hidden))))
    .order_by(_newest.c.id.desc())
    .limit(bigint_param("limit"))
)


async def list_mentions(reader: Reader, user: Account, limit: int) -> list[Mention]:
    """Return the newest mentions in comments that the user can see."""
    params = {"user_id": user.id, "limit": limit, "looks_at": SCAN_MAX}
    rows = await reader.fetch_all(_seen, params)
    await prepare_words(row["comment_text"] for row in rows)
    return [_mention_of(row, user) for row in rows]


def _mention_of(row: Row, user: Account) -> Mention:
    kind: Literal["task_comment", "file_comment", "file_comment_reply"]
    if row["task_comment_id"] is not None:
        kind = "task_comment"
    else:
        kind = "file_comment" if row["file_comment_id"] is not None else "file_comment_reply"
    words = row["reply_text"] if kind == "file_comment_reply" else plain_words(row["comment_text"])
    return Mention(
        id=row["mention_id"],
        kind=kind,
        comment_id=row[f"{kind}_id"],
        about_id=row["about_id"],
        title=row["about_title"],
        words=quoted(words),
        author=person_of_row(row, "author_"),
        repository=repository_of(row, user.id, "project_"),
        created_at=row["mention_created_at"],
    )
