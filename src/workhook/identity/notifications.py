"""Notifications, stored in the commit of the change that they report.

Each notification takes one deferred statement, and a second one if there is a mail server. The statements select the
recipients. People are not notified of their own actions, or of kinds that they have turned off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from workhook.identity.mail import recipients
from workhook.identity.mail.recipients import can_be_mailed
from workhook.identity.tables import (
    NotificationKind,
    accounts,
    collaborators,
    mail_messages,
    memberships,
    notification_settings,
    notifications,
)
from workhook.storage import Transaction
from workhook.storage.dialects import server_now, upsert
from workhook.storage.metadata import bigint_param

Columns = Mapping[str, sa.ColumnElement[Any]]

_ACTOR, _DETAIL = bigint_param("actor_id"), sa.bindparam("detail", type_=sa.Text())

owners_and_admins = accounts.c.id.in_(
    sa.union_all(
        sa.select(bigint_param("account_id")),
        sa.select(memberships.c.user_id).where(
            memberships.c.organization_id == bigint_param("account_id"), memberships.c.role == "owner"
        ),
        sa.select(collaborators.c.user_id).where(
            collaborators.c.repository_id == bigint_param("repository_id"), collaborators.c.role == "admin"
        ),
    )
)
"""Condition: the person is an owner of the account `account_id`, or an admin of the project `repository_id`."""


Channel = Literal["inbox", "email"]


class NotificationStatements(msgspec.Struct, frozen=True):
    """The statements that notify people. Both take the same parameters; see `notification_statements`."""

    inbox: Executable
    email: Executable

    def defer(self, tx: Transaction, params: Mapping[str, Any]) -> None:
        """Notify people with the next statement, or at the commit."""
        tx.defer(self.inbox, [params])
        if recipients.sends_mail():
            tx.defer(self.email, [params])

    async def execute(self, tx: Transaction, params: Mapping[str, Any]) -> None:
        await tx.execute(self.inbox, params)
        if recipients.sends_mail():
            await tx.execute(self.email, params)


def wants(kind: NotificationKind, user_id: sa.ColumnElement[int], channel: Channel) -> sa.ColumnElement[bool]:
    chosen = notification_settings.alias("chosen")
    choice = chosen.c.inbox if channel == "inbox" else sa.func.coalesce(chosen.c.email, chosen.c.inbox)
    declined = sa.exists().where(chosen.c.user_id == user_id, chosen.c.kind == kind, choice.is_(sa.false()))
    return sa.not_(declined)


def notification_statements(kind: NotificationKind, people: sa.Select[Any], about: Columns) -> NotificationStatements:
    """Build the statements that notify `people`, a SELECT from `accounts`.

    `about` contains columns that reference the object. The parameters are `account_id` and `repository_id` (or null) of
    the place, `actor_id` (null: Workhook itself), `now` in milliseconds, `detail` (or null), and those of `people` and
    `about`.
    """
    columns: dict[str, sa.ColumnElement[Any]] = {
        "user_id": accounts.c.id,
        "kind": sa.literal_column(f"'{kind}'", sa.Text),
        "actor_id": _ACTOR,
        "account_id": bigint_param("account_id"),
        "repository_id": bigint_param("repository_id"),
        "detail": _DETAIL,
        "created_at": bigint_param("now"),
        **about,
    }
    recipients = people.where(
        accounts.c.kind == "user", accounts.c.id != sa.func.coalesce(_ACTOR, sa.literal_column("0"))
    )
    in_inbox = recipients.with_only_columns(*columns.values()).where(wants(kind, accounts.c.id, "inbox"))
    recipient = sa.literal_column("'u'", sa.Text) + sa.cast(accounts.c.id, sa.Text)
    queued = {**columns, "recipient": recipient, "next_attempt_at": server_now()}
    by_mail = recipients.with_only_columns(*queued.values()).where(wants(kind, accounts.c.id, "email"), can_be_mailed)
    return NotificationStatements(
        # Only notifications of invitations are unique.
        upsert(notifications).from_select(list(columns), in_inbox, include_defaults=False).on_conflict_do_nothing(),
        sa.insert(mail_messages).from_select(list(queued), by_mail, include_defaults=False),
    )


_about = {"invitation_id": bigint_param("invitation_id")}
_invited = sa.select(accounts).where(accounts.c.id == bigint_param("invitee_id"))
# Addresses that differ beyond ASCII match too, but their users see neither the invitation nor its notification.
_addressed = sa.select(accounts).where(
    sa.func.lower(accounts.c.email) == sa.func.lower(sa.bindparam("address", type_=sa.Text))
)
_notify_invited = notification_statements("invitation", _invited, _about)
_notify_addressed = notification_statements("invitation", _addressed, _about)


def notify_invited(tx: Transaction, invitation: Mapping[str, object], invitation_id: int, now: int) -> None:
    """Notify the invited person, given the columns of the invitation's row. A renewal does not notify again."""
    place = {name: invitation[name] for name in ("account_id", "repository_id")}
    params = {**place, "actor_id": invitation["inviter_id"], "invitation_id": invitation_id, "detail": None, "now": now}
    if invitation["user_id"] is not None:
        _notify_invited.defer(tx, {**params, "invitee_id": invitation["user_id"]})
    else:
        # The address gets a link by mail, whether or not it has an account.
        tx.defer(_notify_addressed.inbox, [{**params, "address": invitation["email"]}])
