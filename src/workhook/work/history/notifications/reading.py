"""What a notification tells, read from its row and from what the row refers to, as a person may see it now.

Messages of mail have the same references (`told_columns`), and are read in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from workhook.identity.invitations import for_invited, holds, may_invite
from workhook.identity.tables import NotificationKind, accounts, invitations, projects
from workhook.storage import Row
from workhook.storage.metadata import big
from workhook.work.board.tasks.schemas import tasks
from workhook.work.discussion.names import plain_words
from workhook.work.discussion.schemas import file_comment_replies, file_comments, task_comments
from workhook.work.files.schemas import files
from workhook.work.kernel.access import is_client, is_insider
from workhook.work.kernel.people import NOBODY_ELSE, PersonShape, person_columns, person_of_row
from workhook.work.money.invoices.schemas import invoices
from workhook.work.money.payments.schemas import payments

QUOTED, _LOOKED_AT = 200, 1_000
"""Characters of a comment that are shown, and those that are read for them, with their markup."""


Subject = Literal["task", "file", "invoice", "invitation", "webhook"]


class Notification(msgspec.Struct, frozen=True):
    """`subject`: what it is about; `subject_id` is its
    id and `title` what it is called: of an invoice its number, of an invitation the place. `owner`: the login that the
    address of the project begins with. `action`: of an invoice what was done with it, of a payment its kind, of an
    invitation the role. `words`: the beginning of a comment without markup, or why a webhook is off. Times are
    milliseconds since the epoch, amounts minor units."""

    id: int
    kind: NotificationKind
    created_at: int
    read_at: int | None
    actor: PersonShape | None
    owner: str
    project_id: str | None
    project_name: str | None
    project_title: str | None
    subject: Subject
    subject_id: str
    title: str
    action: str | None = None
    words: str | None = None
    comment: str | None = None
    """Of a mention: the address of the comment on the page of its task or file, such as `comment-3`."""
    deadline: int | None = None
    amount_minor: int | None = None
    currency: str | None = None


_person = big("user_id")
_actors = accounts.alias("actors")
_owners = accounts.alias("owners")
_hidden_from_clients = sa.or_(
    *(
        sa.func.coalesce(each.c.private, sa.false())
        for each in (task_comments, file_comments, file_comment_replies, files)
    )
)


def with_what_is_told(rows: sa.FromClause, table: sa.Table) -> sa.Join:
    """`rows`, which hold `table`, with what says whether the parameter `user_id` sees them (`is_seen`)."""
    c = table.c
    file_comment_id = sa.func.coalesce(c.file_comment_id, file_comment_replies.c.file_comment_id)
    task_id = sa.func.coalesce(c.task_id, task_comments.c.task_id)
    return (
        rows.join(_owners, _owners.c.id == c.account_id)
        .outerjoin(projects, projects.c.repository_id == c.repository_id)
        .outerjoin(task_comments, task_comments.c.id == c.task_comment_id)
        .outerjoin(file_comment_replies, file_comment_replies.c.id == c.file_comment_reply_id)
        .outerjoin(file_comments, file_comments.c.id == file_comment_id)
        .outerjoin(files, files.c.id == file_comments.c.file_id)
        .outerjoin(tasks, tasks.c.id == task_id)
        .outerjoin(invitations, invitations.c.id == c.invitation_id)
    )


def is_seen(table: sa.Table) -> sa.ColumnElement[bool]:
    """Whether the person still sees it. Parameters: `user_id`, `now`, and those of `invitations.invited`."""
    c = table.c
    return sa.and_(
        projects.c.deleted_at.is_(None),
        tasks.c.deleted_at.is_(None),
        files.c.deleted_at.is_(None),
        sa.case(
            (c.kind == "invitation", sa.and_(holds, for_invited)),
            (c.kind == "hook_disabled", may_invite(c.account_id, c.repository_id, _person)),
            else_=sa.or_(is_insider(_person), sa.and_(is_client, sa.not_(_hidden_from_clients))),
        ),
    )


def _beginning(column: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    return sa.func.substr(column, 1, _LOOKED_AT)


_PLAIN = (
    "id", "kind", "created_at", "detail", "task_comment_id", "file_comment_id", "file_comment_reply_id", "hook_id",
    "invitation_id",
)  # fmt: skip


def what_is_told(rows: sa.FromClause, table: sa.Table, *further: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """For `notification_of`. Parameters: those of `is_seen`."""
    c = table.c
    return (
        sa.select(
            *(c[name] for name in _PLAIN),
            *further,
            *person_columns(NOBODY_ELSE, _actors, "actor_"),
            _owners.c.login.label("owner_login"),
            *(projects.c[name].label(f"project_{name}") for name in ("id", "name", "title")),
            tasks.c.id.label("task_id"),
            tasks.c.title.label("task_title"),
            files.c.id.label("file_id"),
            files.c.title.label("file_title"),
            invoices.c.id.label("invoice_id"),
            invoices.c.invoice_number,
            *(payments.c[name].label(f"payment_{name}") for name in ("id", "kind", "amount_minor", "currency")),
            invitations.c.role.label("invitation_role"),
            _beginning(sa.func.coalesce(task_comments.c.text, file_comments.c.text)).label("comment_text"),
            _beginning(file_comment_replies.c.plain_body).label("reply_text"),
        )
        .select_from(
            with_what_is_told(rows, table)
            .outerjoin(_actors, _actors.c.id == c.actor_id)
            .outerjoin(invoices, invoices.c.id == c.invoice_id)
            .outerjoin(payments, payments.c.id == c.payment_id)
        )
        .where(is_seen(table))
    )


def notification_of(row: Row, read_at: int | None) -> Notification:
    """From a row of `what_is_told`."""
    kind: NotificationKind = row["kind"]
    return Notification(
        id=row["id"],
        kind=kind,
        created_at=row["created_at"],
        read_at=read_at,
        actor=person_of_row(row, "actor_") if row["actor_id"] is not None else None,
        owner=row["owner_login"],
        project_id=row["project_id"],
        project_name=row["project_name"],
        project_title=row["project_title"],
        **_about(kind, row),
    )


def _about(kind: NotificationKind, row: Row) -> Mapping[str, Any]:
    if kind == "invoice":
        what = {"subject": "invoice", "subject_id": row["invoice_id"], "title": row["invoice_number"]}
        return {**what, "action": row["detail"]}
    if kind == "payment":
        money = {"amount_minor": row["payment_amount_minor"], "currency": row["payment_currency"]}
        what = {"subject": "invoice", "subject_id": row["invoice_id"], "title": row["invoice_number"]}
        return {**what, **money, "action": row["payment_kind"]}
    if kind == "invitation":
        place = row["owner_login"] if row["project_id"] is None else f"{row['owner_login']}/{row['project_name']}"
        what = {"subject": "invitation", "subject_id": str(row["invitation_id"]), "title": place}
        return {**what, "action": row["invitation_role"]}
    if kind == "hook_disabled":
        number = str(row["hook_id"])
        return {"subject": "webhook", "subject_id": number, "title": number, "words": row["detail"]}
    subject = "task" if row["task_id"] is not None else "file"
    what = {"subject": subject, "subject_id": row[f"{subject}_id"], "title": row[f"{subject}_title"]}
    if kind == "mention":
        return {**what, **_comment(row)}
    return {**what, "deadline": int(row["detail"])} if kind == "deadline" else what


def _comment(row: Row) -> Mapping[str, str]:
    reply_id = row["file_comment_reply_id"]
    if reply_id is not None:
        return {"words": _short(row["reply_text"]), "comment": f"reply-{reply_id}"}
    number = row["task_comment_id"] or row["file_comment_id"]
    return {"words": _short(plain_words(row["comment_text"])), "comment": f"comment-{number}"}


def _short(words: str) -> str:
    return words if len(words) <= QUOTED else words[: QUOTED - 1].rstrip() + "…"


ID_MAX = 2**53 - 1


def path_of(each: Notification) -> str:
    """The page that shows what it is about."""
    place = each.owner if each.project_name is None else f"{each.owner}/{each.project_name}"
    match each.subject:
        case "task":
            path = f"/{place}/tasks/{each.subject_id}"
        case "file":
            path = f"/{place}/files/{each.subject_id}"
        case "invoice":
            path = f"/{place}/billing/{each.subject_id}"
        case "webhook":
            path = f"/{place}/{'-/' if each.project_name is None else ''}webhooks/{each.subject_id}"
        case _:
            path = "/"
    return path if each.comment is None else f"{path}#{each.comment}"
