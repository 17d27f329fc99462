"""The tables that a search reads for each kind of record, and the conditions for access to the rows.

Clients cannot find private records, comments on private files, replies to private comments, or draft invoices. Records
of deleted tasks, files and projects are never found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from workhook.identity.tables import collaborators, memberships, projects
from workhook.identity.tokens.lookup import within_reach
from workhook.storage.dialects import json_member
from workhook.storage.metadata import bigint_param
from workhook.work.board.tasks.matching import matches
from workhook.work.board.tasks.schemas import tasks
from workhook.work.discussion.schemas import file_comment_replies, file_comments, task_comments
from workhook.work.files.schemas import files
from workhook.work.history.search.schemas import Kind
from workhook.work.kernel.access import is_client, is_insider
from workhook.work.kernel.tables import clients
from workhook.work.money.credit_notes.schemas import credit_notes
from workhook.work.money.invoices.schemas import invoices, is_issued

_caller = bigint_param("user_id")
_owners = sa.select(_caller).union_all(sa.select(memberships.c.organization_id).where(memberships.c.user_id == _caller))
_given = (
    sa.select(collaborators.c.repository_id)
    .where(collaborators.c.user_id == _caller)
    .union_all(sa.select(clients.c.repository_id).where(clients.c.user_id == _caller))
)
_insider = is_insider(_caller)
visible_projects_cte = (
    sa.select(
        projects.c.repository_id, projects.c.id.label("project_id"), sa.case((_insider, 1), else_=0).label("insider")
    )
    # This condition makes indexes usable; the next one decides.
    .where(sa.or_(projects.c.account_id.in_(_owners), projects.c.repository_id.in_(_given)))
    .where(projects.c.deleted_at.is_(None), sa.or_(_insider, is_client))
    .where(within_reach(projects.c.account_id, projects.c.repository_id))
    .cte("seen")
)
"""All projects the caller can see. For very many rows, SQLite reads fewer than with `visible_projects`."""
_TITLES = ("title", "invoice_number", "credit_note_number")
_NO_NUMBER: sa.ColumnElement[int] = sa.literal_column("0", sa.BigInteger)
_NO_COMMENT: sa.ColumnElement[int] = sa.cast(sa.null(), sa.BigInteger)
_NO_TEXT: sa.ColumnElement[str] = sa.cast(sa.null(), sa.Text)


@dataclass(frozen=True)
class SearchScope:
    """The scope of a search for one kind of record.

    `table` contains the records, `owner` is the table of their task or file (or `table` itself), and `joined` is
    everything that is read. A client sees a record if no flag in `private` is true and `shown` is true. `invoice_id` is
    the invoice that the record is or belongs to.
    """

    table: sa.Table
    owner: sa.Table
    joined: sa.FromClause
    private: tuple[sa.Column[Any], ...] = ()
    shown: sa.ColumnElement[bool] = field(default_factory=sa.true)
    text: sa.ColumnElement[Any] = _NO_TEXT
    comment_id: sa.ColumnElement[Any] = _NO_COMMENT
    invoice_id: sa.ColumnElement[Any] = _NO_TEXT
    invoice_number: sa.ColumnElement[Any] = _NO_TEXT

    @property
    def matching(self) -> matches:
        return matches(self.table)

    @property
    def title(self) -> sa.ColumnElement[Any]:
        return next(self.owner.c[name] for name in _TITLES if name in self.owner.c)

    @property
    def created_at(self) -> sa.ColumnElement[int]:
        return self.table.c.issued if self.table is credit_notes else self.table.c.created_at

    @property
    def updated_at(self) -> sa.ColumnElement[int]:
        return self.table.c.issued if self.table is credit_notes else self.table.c.updated_at

    def visible_condition(self) -> sa.ColumnElement[bool]:
        """Return the condition under which the caller sees a row joined with its project. Meant for few rows."""
        project = sa.and_(
            projects.c.deleted_at.is_(None), within_reach(projects.c.account_id, projects.c.repository_id)
        )
        return sa.and_(project, self._lives, sa.or_(_insider, sa.and_(is_client, self._open)))

    def visible_in_cte(self) -> sa.ColumnElement[bool]:
        """Return the condition for rows the caller sees, joined with `visible_projects_cte`. For very many rows."""
        lives = self._lives
        if "deleted_at" in self.owner.c:
            # An expression that matches no partial index. Otherwise PostgreSQL would read all of such an index in
            # addition to the full-text index.
            lives = sa.func.coalesce(
                self.owner.c.deleted_at, sa.literal_column("0", sa.BigInteger)
            ) == sa.literal_column("0")
        return sa.and_(lives, sa.or_(visible_projects_cte.c.insider == 1, self._open))

    @property
    def _lives(self) -> sa.ColumnElement[bool]:
        return self.owner.c.deleted_at.is_(None) if "deleted_at" in self.owner.c else sa.true()

    @property
    def _open(self) -> sa.ColumnElement[bool]:
        return sa.and_(self.shown, *(each.is_(sa.false()) for each in self.private))

    @property
    def number(self) -> sa.ColumnElement[int]:
        return _NO_NUMBER if self.table is self.owner else self.table.c.id


_of_task = task_comments.join(tasks, tasks.c.id == task_comments.c.task_id)
_of_file = file_comments.join(files, files.c.id == file_comments.c.file_id)
_credited = credit_notes.join(invoices, invoices.c.id == credit_notes.c.invoice_id)
_of_comment = file_comment_replies.join(_of_file, file_comments.c.id == file_comment_replies.c.file_comment_id)

SCOPES: Mapping[Kind, SearchScope] = {
    "task": SearchScope(tasks, tasks, tasks, text=tasks.c.description),
    "task_comment": SearchScope(
        task_comments,
        tasks,
        _of_task,
        private=(task_comments.c.private,),
        text=task_comments.c.text,
    ),
    "file": SearchScope(files, files, files, private=(files.c.private,)),
    "file_comment": SearchScope(
        file_comments,
        files,
        _of_file,
        private=(files.c.private, file_comments.c.private),
        text=file_comments.c.text,
    ),
    "file_comment_reply": SearchScope(
        file_comment_replies,
        files,
        _of_comment,
        private=(files.c.private, file_comments.c.private, file_comment_replies.c.private),
        text=file_comment_replies.c.plain_body,
        comment_id=file_comment_replies.c.file_comment_id,
    ),
    "invoice": SearchScope(
        invoices,
        invoices,
        invoices,
        shown=is_issued,
        text=sa.func.coalesce(json_member(invoices.c.buyer, "name"), invoices.c.bill_to),
        invoice_id=invoices.c.id,
        invoice_number=invoices.c.invoice_number,
    ),
    "credit_note": SearchScope(
        credit_notes,
        credit_notes,
        _credited,
        text=credit_notes.c.reason,
        invoice_id=invoices.c.id,
        invoice_number=invoices.c.invoice_number,
    ),
}
