"""The notifications of a person, as they may see them now.

Who has lost their place in a project no longer sees what tells of it, nor does a client what was hidden meanwhile. So
each is asked for together with its project. A person has so many at most (`pruning`) that all can be looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.identity.invitations import for_invited, holds, invited, may_invite
from workhook.identity.notifications.schemas import Kind, notifications
from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, invitations, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big
from workhook.work.access import is_client, is_insider
from workhook.work.comments.schemas import file_comment_replies, file_comments, task_comments
from workhook.work.files.schemas import files
from workhook.work.invoices.schemas import invoices
from workhook.work.mentions.parsing import plain_words
from workhook.work.payments.schemas import payments
from workhook.work.people import NOBODY_ELSE, PersonShape, person_columns, person_of_row
from workhook.work.tasks.schemas import tasks

QUOTED, _LOOKED_AT = 200, 1_000
"""Characters of a comment that are shown, and those that are read for them, with their markup."""
LOOKS_AT_MOST = 1_000
"""As many as a person has (`pruning`), whether they still see them or not."""
COUNTED_MAX, COUNTS_AMONG = 100, 200
"""Unread ones are counted so far, among the newest: whoever has more has many."""


Subject = Literal["task", "file", "invoice", "invitation", "webhook"]


class Notification(msgspec.Struct, frozen=True):
    """`subject`: what it is about; `subject_id` is its
    id and `title` what it is called: of an invoice its number, of an invitation the place. `owner`: the login that the
    address of the project begins with. `action`: of an invoice what was done with it, of a payment its kind, of an
    invitation the role. `words`: the beginning of a comment without markup, or why a webhook is off. Times are
    milliseconds since the epoch, amounts minor units."""

    id: int
    kind: Kind
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
_c = notifications.c
_actors = accounts.alias("actors")
_owners = accounts.alias("owners")
_file_comment_id = sa.func.coalesce(_c.file_comment_id, file_comment_replies.c.file_comment_id)
_task_id = sa.func.coalesce(_c.task_id, task_comments.c.task_id)
_picked = notifications.alias("picked")
_own = _c.user_id == _person
_is_unread = _c.read_at.is_(None)


def _newest(*further: sa.ColumnElement[bool]) -> sa.Join:
    """Some of a person's, found by an index, with what says whether they are seen: that is joined to these alone."""
    some = sa.select(_picked.c.id).where(_picked.c.user_id == _person, *further)
    newest = some.order_by(_picked.c.id.desc()).limit(big("looks_at")).subquery("newest")
    return (
        newest.join(notifications, _c.id == newest.c.id)
        .join(_owners, _owners.c.id == _c.account_id)
        .outerjoin(projects, projects.c.repository_id == _c.repository_id)
        .outerjoin(task_comments, task_comments.c.id == _c.task_comment_id)
        .outerjoin(file_comment_replies, file_comment_replies.c.id == _c.file_comment_reply_id)
        .outerjoin(file_comments, file_comments.c.id == _file_comment_id)
        .outerjoin(files, files.c.id == file_comments.c.file_id)
        .outerjoin(tasks, tasks.c.id == _task_id)
        .outerjoin(invitations, invitations.c.id == _c.invitation_id)
    )


_hidden_from_clients = sa.or_(
    *(
        sa.func.coalesce(each.c.private, sa.false())
        for each in (task_comments, file_comments, file_comment_replies, files)
    )
)
_is_seen = sa.and_(
    projects.c.deleted_at.is_(None),
    tasks.c.deleted_at.is_(None),
    files.c.deleted_at.is_(None),
    sa.case(
        (_c.kind == "invitation", sa.and_(holds, for_invited)),
        (_c.kind == "hook_disabled", may_invite(_c.account_id, _c.repository_id, _person)),
        else_=sa.or_(is_insider(_person), sa.and_(is_client, sa.not_(_hidden_from_clients))),
    ),
)


def _beginning(column: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    return sa.func.substr(column, 1, _LOOKED_AT)


_PLAIN = (
    "id", "kind", "created_at", "read_at", "detail", "task_comment_id", "file_comment_id", "file_comment_reply_id",
    "hook_id", "invitation_id",
)  # fmt: skip


def _listing(*further: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return (
        sa.select(
            *(_c[name] for name in _PLAIN),
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
            _newest(_picked.c.id < big("before"), *further)
            .outerjoin(_actors, _actors.c.id == _c.actor_id)
            .outerjoin(invoices, invoices.c.id == _c.invoice_id)
            .outerjoin(payments, payments.c.id == _c.payment_id)
        )
        .where(_is_seen)
        .order_by(_c.id.desc())
        .limit(big("limit"))
    )


_picked_unread = _picked.c.read_at.is_(None)
_listed, _unread = _listing(), _listing(_picked_unread)
_read = _listing(_picked.c.read_at.is_not(None))
_seen_unread = sa.select(_c.id).select_from(_newest(_picked_unread)).where(_is_seen)
_count = sa.select(sa.func.count().label("number")).select_from(
    _seen_unread.limit(sa.literal_column(str(COUNTED_MAX))).subquery("unread")
)
_one = sa.select(_c.id).select_from(_newest(_picked.c.id == big("id"))).where(_is_seen)
_read_one = (
    sa.update(notifications).where(_own, _c.id == big("id"), _is_unread).values(read_at=big("now")).returning(_c.id)
)
_read_all = (
    sa.update(notifications).where(_own, _c.id <= big("upto"), _is_unread).values(read_at=big("now")).returning(_c.id)
)


async def list_notifications(
    reader: Reader, actor: Actor, *, unread: bool | None, before: int, limit: int
) -> list[Notification]:
    """The newest first, with ids below `before`; `unread`: only those, or only the others."""
    statement = _listed if unread is None else _unread if unread else _read
    params = {**_params(actor), "before": before, "limit": limit, "looks_at": LOOKS_AT_MOST}
    return [_notification_of(row) for row in await reader.fetch_all(statement, params)]


async def count_unread(reader: Reader, actor: Actor) -> int:
    """`COUNTED_MAX` at most."""
    row = await reader.fetch_one(_count, {**_params(actor), "looks_at": COUNTS_AMONG})
    assert row is not None, "it is an aggregate"
    number: int = row["number"]
    return number


async def mark_read(tx: Transaction, actor: Actor, notification_id: int, now: int) -> bool:
    """Answers whether the person has such a notification, read before or not."""
    params = {**_params(actor), "id": notification_id, "looks_at": 1}
    if await tx.fetch_one(_one, params) is None:
        return False
    await tx.fetch_all(_read_one, {"user_id": actor.user.id, "id": notification_id, "now": now})
    return True


async def mark_all_read(tx: Transaction, actor: Actor, now: int, upto: int) -> int:
    """Those with ids up to `upto`; answers how many were unread."""
    return len(await tx.fetch_all(_read_all, {"user_id": actor.user.id, "upto": upto, "now": now}))


def _params(actor: Actor) -> dict[str, object]:
    return {"user_id": actor.user.id, "now": now_ms(), **invited(actor.user)}


def _notification_of(row: Row) -> Notification:
    kind: Kind = row["kind"]
    return Notification(
        id=row["id"],
        kind=kind,
        created_at=row["created_at"],
        read_at=row["read_at"],
        actor=person_of_row(row, "actor_") if row["actor_id"] is not None else None,
        owner=row["owner_login"],
        project_id=row["project_id"],
        project_name=row["project_name"],
        project_title=row["project_title"],
        **_about(kind, row),
    )


def _about(kind: Kind, row: Row) -> Mapping[str, Any]:
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
