"""Where a search looks for each kind of record, and who sees what it finds.

Clients do not find what is private, nor comments on private files and replies to private comments. Nobody finds what
belongs to something that was deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from workhook.identity.tables import collaborators, memberships, projects
from workhook.identity.tokens.lookup import within_reach
from workhook.storage.metadata import big
from workhook.work.access import is_client, is_insider
from workhook.work.clients.schemas import clients
from workhook.work.comments.schemas import file_comment_replies, file_comments, task_comments
from workhook.work.files.schemas import files
from workhook.work.search.match import matches, task_matches
from workhook.work.search.schemas import Kind
from workhook.work.tasks.schemas import tasks

_caller = big("user_id")
_owners = sa.select(_caller).union_all(sa.select(memberships.c.organization_id).where(memberships.c.user_id == _caller))
_given = (
    sa.select(collaborators.c.repository_id)
    .where(collaborators.c.user_id == _caller)
    .union_all(sa.select(clients.c.repository_id).where(clients.c.user_id == _caller))
)
_insider = is_insider(_caller)
seen = (
    sa.select(
        projects.c.repository_id, projects.c.id.label("project_id"), sa.case((_insider, 1), else_=0).label("insider")
    )
    # The first is for the sake of indexes, the second decides.
    .where(sa.or_(projects.c.account_id.in_(_owners), projects.c.repository_id.in_(_given)))
    .where(projects.c.deleted_at.is_(None), sa.or_(_insider, is_client))
    .where(within_reach(projects.c.account_id, projects.c.repository_id))
    .cte("seen")
)
"""All projects that the caller sees: for statements that look at very many rows."""

_NO_NUMBER: sa.ColumnElement[int] = sa.literal_column("0", sa.BigInteger)
_NO_COMMENT: sa.ColumnElement[int] = sa.cast(sa.null(), sa.BigInteger)
_NO_TEXT: sa.ColumnElement[str] = sa.cast(sa.null(), sa.Text)


@dataclass(frozen=True)
class SearchScope:
    """Where records of a kind are found. `table` holds them; `owner` is the table of the task or file that they are
    about, or the same; `joined` is all that is read. A client sees a record if none of the flags `private` is true."""

    table: sa.Table
    owner: sa.Table
    joined: sa.FromClause
    matching: matches
    private: tuple[sa.Column[Any], ...] = ()
    text: sa.ColumnElement[Any] = _NO_TEXT
    comment_id: sa.ColumnElement[Any] = _NO_COMMENT

    def sees(self) -> sa.ColumnElement[bool]:
        """Whether the caller sees a row that is joined with its project: for statements that look at few rows."""
        project = sa.and_(
            projects.c.deleted_at.is_(None), within_reach(projects.c.account_id, projects.c.repository_id)
        )
        return sa.and_(project, self._lives, sa.or_(_insider, sa.and_(is_client, self._open)))

    def is_among_seen(self) -> sa.ColumnElement[bool]:
        """Whether the caller sees a row that is joined with `seen`: for statements that look at very many rows."""
        return sa.and_(self._lives, sa.or_(seen.c.insider == 1, self._open))

    @property
    def _lives(self) -> sa.ColumnElement[bool]:
        return self.owner.c.deleted_at.is_(None)

    @property
    def _open(self) -> sa.ColumnElement[bool]:
        return sa.and_(sa.true(), *(each.is_(sa.false()) for each in self.private))

    @property
    def number(self) -> sa.ColumnElement[int]:
        return _NO_NUMBER if self.table is self.owner else self.table.c.id


_of_task = task_comments.join(tasks, tasks.c.id == task_comments.c.task_id)
_of_file = file_comments.join(files, files.c.id == file_comments.c.file_id)
_of_comment = file_comment_replies.join(_of_file, file_comments.c.id == file_comment_replies.c.file_comment_id)

SCOPES: Mapping[Kind, SearchScope] = {
    "task": SearchScope(tasks, tasks, tasks, task_matches(), text=tasks.c.description),
    "task_comment": SearchScope(
        task_comments,
        tasks,
        _of_task,
        matches(task_comments.c.id, task_comments.c.text),
        private=(task_comments.c.private,),
        text=task_comments.c.text,
    ),
    "file": SearchScope(files, files, files, matches(files.c.id, files.c.title), private=(files.c.private,)),
    "file_comment": SearchScope(
        file_comments,
        files,
        _of_file,
        matches(file_comments.c.id, file_comments.c.text),
        private=(files.c.private, file_comments.c.private),
        text=file_comments.c.text,
    ),
    "file_comment_reply": SearchScope(
        file_comment_replies,
        files,
        _of_comment,
        matches(file_comment_replies.c.id, file_comment_replies.c.plain_body),
        private=(files.c.private, file_comments.c.private, file_comment_replies.c.private),
        text=file_comment_replies.c.plain_body,
        comment_id=file_comment_replies.c.file_comment_id,
    ),
}
