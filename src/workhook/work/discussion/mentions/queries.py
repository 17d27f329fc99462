"""The newest mentions of a person, in whatever project.

Who has lost their place in a project is still named there, and what a client has seen may be hidden by now. So each
mention is asked for together with its project, as the person may see it now. Only the newest are looked at, so that a
page costs the same for somebody who was mentioned ten thousand times in a project that they have left.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import sqlalchemy as sa

from workhook.identity.queries import repository_of
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import accounts
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.work.board.tasks.schemas import tasks
from workhook.work.discussion.comments.schemas import file_comment_replies, file_comments, task_comments
from workhook.work.discussion.mentions.parsing import plain_words, prepare_words
from workhook.work.discussion.mentions.schemas import mentions
from workhook.work.files.schemas import files
from workhook.work.kernel.access import is_client, is_insider, with_access
from workhook.work.kernel.people import NOBODY_ELSE, PersonShape, person_columns, person_of_row

LOOKS_AT_MOST = 1_000
"""Of the newest mentions of the person, whether they still see them or not."""

_QUOTED, _READ = 200, 1_000
"""Characters of a comment that are shown, and those that are read for them, with their markup."""


class Mention(msgspec.Struct, frozen=True):
    """Somebody has named the person. `about_id` and `title`: of the task or the file. `words`: the beginning of the
    text, without markup. `created_at`: milliseconds since the epoch."""

    id: int
    kind: Literal["task_comment", "file_comment", "file_comment_reply"]
    comment_id: int
    about_id: str
    title: str
    words: str
    author: PersonShape
    repository: Repository
    created_at: int


_person = big("user_id")
_authors = accounts.alias("authors")
_newest = (
    sa.select(mentions)
    .where(mentions.c.user_id == _person)
    .order_by(mentions.c.id.desc())
    .limit(big("looks_at"))
    .subquery("newest")
)
_file_comment_id = sa.func.coalesce(_newest.c.file_comment_id, file_comment_replies.c.file_comment_id)
_is_hidden = sa.or_(
    *(sa.func.coalesce(each.c.private, sa.false()) for each in (task_comments, file_comments, file_comment_replies)),
    sa.func.coalesce(files.c.private, sa.false()),
)


def _beginning(column: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    return sa.func.substr(column, 1, _READ)


_seen = (
    with_access(
        sa.select(
            *(_newest.c[name].label(f"mention_{name}") for name in ("id", "created_at")),
            *(_newest.c[name] for name in ("task_comment_id", "file_comment_id", "file_comment_reply_id")),
            sa.func.coalesce(tasks.c.id, files.c.id).label("about_id"),
            sa.func.coalesce(tasks.c.title, files.c.title).label("about_title"),
            _beginning(sa.func.coalesce(task_comments.c.text, file_comments.c.text)).label("comment_text"),
            _beginning(file_comment_replies.c.plain_body).label("reply_text"),
            *person_columns(NOBODY_ELSE, _authors, "author_"),
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
    .where(sa.or_(is_insider(_person), sa.and_(is_client, sa.not_(_is_hidden))))
    .order_by(_newest.c.id.desc())
    .limit(big("limit"))
)


async def list_mentions(reader: Reader, user: Account, limit: int) -> list[Mention]:
    """The newest first: those in comments that the user sees, on tasks and files that are not in the trash."""
    params = {"user_id": user.id, "limit": limit, "looks_at": LOOKS_AT_MOST}
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
        words=words if len(words) <= _QUOTED else words[: _QUOTED - 1].rstrip() + "…",
        author=person_of_row(row, "author_"),
        repository=repository_of(row, user.id, "project_"),
        created_at=row["mention_created_at"],
    )
