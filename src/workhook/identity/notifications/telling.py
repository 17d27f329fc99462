"""How a change tells people of itself: by one statement in its transaction, which the next one takes along.

The statement chooses whom it tells. Nobody is told of their own act, or of a kind that they do not want in their inbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import Executable

from workhook.identity.notifications.schemas import Kind, notification_settings, notifications
from workhook.identity.tables import accounts, collaborators, memberships
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big

Columns = Mapping[str, sa.ColumnElement[Any]]

_ACTOR, _DETAIL = big("actor_id"), sa.bindparam("detail", type_=sa.Text())
NO_DETAIL: sa.ColumnElement[Any] = sa.cast(sa.null(), sa.Text)

owners_and_admins = accounts.c.id.in_(
    sa.union_all(
        sa.select(big("account_id")),
        sa.select(memberships.c.user_id).where(
            memberships.c.organization_id == big("account_id"), memberships.c.role == "owner"
        ),
        sa.select(collaborators.c.user_id).where(
            collaborators.c.repository_id == big("repository_id"), collaborators.c.role == "admin"
        ),
    )
)
"""Who looks after the account of the parameter `account_id`, and the admins of the project `repository_id`, or null."""


def wants(kind: Kind, user_id: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Whether the person has this kind in their inbox."""
    chosen = notification_settings.alias("chosen")
    declined = sa.exists().where(chosen.c.user_id == user_id, chosen.c.kind == kind, chosen.c.inbox.is_(sa.false()))
    return sa.not_(declined)


def telling(kind: Kind, people: sa.Select[Any], about: Columns) -> Executable:
    """An INSERT that tells `people`, a SELECT from `accounts`. `about`: columns that say of what.

    Parameters: `account_id` and `repository_id` (or null) of where it happened, `actor_id` (null: Workhook itself),
    `now` in milliseconds, `detail` (or null), and those of `people` and `about`.
    """
    columns: dict[str, sa.ColumnElement[Any]] = {
        "user_id": accounts.c.id,
        "kind": sa.literal_column(f"'{kind}'", sa.Text),
        "actor_id": _ACTOR,
        "account_id": big("account_id"),
        "repository_id": big("repository_id"),
        "detail": _DETAIL,
        "created_at": big("now"),
        **about,
    }
    told = people.with_only_columns(*columns.values()).where(
        accounts.c.kind == "user",
        accounts.c.id != sa.func.coalesce(_ACTOR, sa.literal_column("0")),
        wants(kind, accounts.c.id),
    )
    # Only invitations are told of once; nothing else is unique here.
    return upsert(notifications).from_select(list(columns), told, include_defaults=False).on_conflict_do_nothing()
