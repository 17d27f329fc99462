"""The notifications of a person, as they may see them now.

Who has lost their place in a project no longer sees what tells of it, nor does a client what was hidden meanwhile. So
each is asked for together with its project. A person has so many at most (`chores`) that all can be looked at.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import now_ms, to_millis_text
from workhook.core.money import DEFAULT_CURRENCY, to_amount
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed
from workhook.http.wire_types import Time
from workhook.identity.authenticator import actor_of
from workhook.identity.invitations import NOBODY, Invitation, invitation_of, invited, to_organizations, to_repositories
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import NotificationKind, invitations, mail_messages, notifications
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import big
from workhook.work.discussion.names import prepare_words
from workhook.work.history.notifications.reading import (
    ID_MAX,
    Notification,
    is_seen,
    notification_of,
    path_of,
    what_is_told,
    with_what_is_told,
)
from workhook.work.kernel.people import PersonShape

LOOKS_AT_MOST = 1_000
"""As many as a person has (`chores`), whether they still see them or not."""
COUNTED_MAX, COUNTS_AMONG = 100, 200
"""Unread ones are counted so far, among the newest: whoever has more has many."""


_person = big("user_id")
_c = notifications.c
_picked = notifications.alias("picked")
_own = _c.user_id == _person
_is_unread = _c.read_at.is_(None)


def _newest(*further: sa.ColumnElement[bool]) -> sa.Join:
    """Some of a person's, found by an index: what says whether they are seen is joined to these alone."""
    some = sa.select(_picked.c.id).where(_picked.c.user_id == _person, *further)
    newest = some.order_by(_picked.c.id.desc()).limit(big("looks_at")).subquery("newest")
    return newest.join(notifications, _c.id == newest.c.id)


def _newest_seen(*further: sa.ColumnElement[bool]) -> sa.Join:
    return with_what_is_told(_newest(*further), notifications)


def _listing(*further: sa.ColumnElement[bool]) -> sa.Select[Any]:
    newest = _newest(_picked.c.id < big("before"), *further)
    return what_is_told(newest, notifications, _c.read_at).order_by(_c.id.desc()).limit(big("limit"))


_picked_unread = _picked.c.read_at.is_(None)
_listed, _unread = _listing(), _listing(_picked_unread)
_read = _listing(_picked.c.read_at.is_not(None))
_seen_unread = sa.select(_c.id).select_from(_newest_seen(_picked_unread)).where(is_seen(notifications))
_count = sa.select(sa.func.count().label("number")).select_from(
    _seen_unread.limit(sa.literal_column(str(COUNTED_MAX))).subquery("unread")
)
_one = sa.select(_c.id).select_from(_newest_seen(_picked.c.id == big("id"))).where(is_seen(notifications))
_read_one = (
    sa.update(notifications).where(_own, _c.id == big("id"), _is_unread).values(read_at=big("now")).returning(_c.id)
)
_read_all = (
    sa.update(notifications).where(_own, _c.id <= big("upto"), _is_unread).values(read_at=big("now")).returning(_c.id)
)


async def find_notifications(
    reader: Reader, actor: Actor, *, unread: bool | None, before: int, limit: int
) -> list[Notification]:
    """The newest first, with ids below `before`; `unread`: only those, or only the others."""
    statement = _listed if unread is None else _unread if unread else _read
    params = {**_params(actor), "before": before, "limit": limit, "looks_at": LOOKS_AT_MOST}
    rows = await reader.fetch_all(statement, params)
    await prepare_words(row["comment_text"] for row in rows)
    return [notification_of(row, row["read_at"]) for row in rows]


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
    return params_of(actor.user)


def params_of(user: Account) -> dict[str, object]:
    """Of `is_seen`, for what the user sees."""
    return {"user_id": user.id, "now": now_ms(), **invited(user)}


# --- what a message tells, with the rights that its recipient has when it is made ------------------------------------

_told = what_is_told(mail_messages, mail_messages).where(mail_messages.c.id == big("id"))
_this = invitations.c.id == big("id")
_to_organization, _to_repository = to_organizations.where(_this), to_repositories.where(_this)


async def find_told(reader: Reader, user: Account, message_id: int) -> Notification | None:
    """None: the user does not see it any more."""
    row = await reader.fetch_one(_told, {**params_of(user), "id": message_id})
    if row is None:
        return None
    await prepare_words([row["comment_text"]])
    return notification_of(row, read_at=None)


async def find_invitation(reader: Reader, invitation_id: int) -> Invitation | None:
    """None: it holds no more, or has no link."""
    params = {"id": invitation_id, "user_id": NOBODY, "now": now_ms()}
    for statement in (_to_organization, _to_repository):
        row = await reader.fetch_one(statement, params)
        if row is not None:
            found = invitation_of(row, None)
            return found if found.has_link else None
    return None


class NotificationsQuery(lists.ListQuery):
    """`unread`: only those, or only the others."""

    unread: Annotated[bool, Meta(description="Only those that are not read yet. Default: all.")] | UnsetType = UNSET


class NotificationProject(msgspec.Struct):
    id: str
    title: str


class NotificationSubject(msgspec.Struct):
    """What it is about."""

    type: Literal["task", "file", "invoice", "invitation", "webhook"]
    id: str
    title: Annotated[
        str,
        Meta(
            description="Of an invoice its number, of an invitation the organization or project, of a webhook its id."
        ),
    ]


class NotificationShape(msgspec.Struct):
    """Something that the caller was told of. `actor` is null where Workhook acted by itself."""

    id: int
    kind: NotificationKind
    unread: bool
    created_at: Time
    read_at: Time | None
    actor: PersonShape | None
    organization: Annotated[str, Meta(description="Login of the account that the project belongs to.")]
    project: NotificationProject | None
    subject: NotificationSubject
    action: Annotated[
        str | None,
        Meta(
            description="Of an invoice `sent`, `voided` or `credited`; of a payment `payment` or `refund`; "
            "of an invitation the role."
        ),
    ]
    text: Annotated[str | None, Meta(description="The beginning of the comment, or why the webhook is off.")]
    deadline: Time | None
    amount: Annotated[float | None, Meta(description="Of a payment; a refund is negative.")]
    currency: str | None
    html_url: str


class NotificationsAnswer(msgspec.Struct):
    notifications: list[NotificationShape]
    success: bool = True


async def list_notifications(call: Call, query: NotificationsQuery) -> Listed[NotificationsAnswer]:
    """List what the caller was told of, the newest first.

    What tells of a project is listed as long as the caller sees the project, and what it is about. Nobody is told of
    their own acts. A notification is kept for 90 days, and each person has the newest 1,000.
    """
    key = lists.after(query, tuple[int])
    found = await find_notifications(
        call.database,
        actor_of(call),
        unread=None if isinstance(query.unread, UnsetType) else query.unread,
        before=max(0, min(key[0], ID_MAX)) if key else ID_MAX,
        limit=query.limit + 1,
    )
    shown, headers = lists.page(call, found, query, lambda each: (each.id,))
    base = call.base.removesuffix(call.prefix)
    return Listed(NotificationsAnswer([_shape(each, base) for each in shown]), headers)


def _shape(each: Notification, base: str) -> NotificationShape:
    return NotificationShape(
        id=each.id,
        kind=each.kind,
        unread=each.read_at is None,
        created_at=to_millis_text(each.created_at),
        read_at=None if each.read_at is None else to_millis_text(each.read_at),
        actor=each.actor,
        organization=each.owner,
        project=None if each.project_id is None else NotificationProject(each.project_id, each.project_title or ""),
        subject=NotificationSubject(each.subject, each.subject_id, each.title),
        action=each.action,
        text=each.words,
        deadline=None if each.deadline is None else to_millis_text(each.deadline),
        amount=None if each.amount_minor is None else to_amount(each.amount_minor, each.currency or DEFAULT_CURRENCY),
        currency=each.currency,
        html_url=base + path_of(each),
    )
