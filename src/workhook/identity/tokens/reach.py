"""Where a token that is confined may act: the accounts and repositories it was issued for, with their permissions.

A classic or OAuth token reaches whatever its user does; its scopes decide. The user's own role is checked besides: a
token never gives more than its user has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from workhook.core.errors import Forbidden, NotFound
from workhook.identity.schemas import Actor, Grant
from workhook.identity.tokens.kinds import KINDS
from workhook.storage.dialects import any_of

LEVELS = (None, "read", "write")


def allows(reach: Grant, need: tuple[str, str] | None) -> bool:
    """Whether the permissions there are enough. `need`: a permission and its level; write is also read."""
    return need is None or LEVELS.index(reach.permissions.get(need[0])) >= LEVELS.index(need[1])


def covers(actor: Actor, account_id: int, repository_id: int | None = None) -> bool:
    """Whether the token sees the account and, if it is given, the repository of it; permissions aside."""
    return actor.reaches is None or _reach(actor, account_id, repository_id) is not None


def check_reach(actor: Actor, account_id: int, repository_id: int | None = None) -> None:
    """Raises `NotFound` outside the token's reach and `Forbidden` where its permissions are not enough."""
    if actor.reaches is None:
        return
    reach = _reach(actor, account_id, repository_id)
    if reach is None:
        actor.request.touches(account_id, repository_id, hidden=True)
        raise NotFound()
    if not allows(reach, actor.need):
        raise not_accessible(actor)


def may_reach(actor: Actor, need: tuple[str, str] | None, account_id: int, repository_id: int | None) -> bool:
    """Whether the token reaches the repository, or the account, with this permission, whatever is being done now."""
    if actor.reaches is None:
        return True
    reach = _reach(actor, account_id, repository_id)
    return reach is not None and allows(reach, need)


def check_whole_account(actor: Actor, account_id: int) -> None:
    """For what chosen repositories cannot hold, such as a new one. Raises what `check_reach` raises."""
    check_reach(actor, account_id)
    reach = None if actor.reaches is None else _reach(actor, account_id, None)
    if reach is not None and reach.repository_ids is not None:
        raise not_accessible(actor)


def not_accessible(actor: Actor) -> Forbidden:
    """The token's permissions are not enough."""
    return Forbidden(KINDS[actor.token_kind].not_accessible, code="missing_permission")


def _reach(actor: Actor, account_id: int, repository_id: int | None) -> Grant | None:
    for reach in actor.reaches or ():
        if reach.account_id == account_id:
            seen = repository_id is None or reach.repository_ids is None or repository_id in reach.repository_ids
            return reach if seen else None
    return None


def within_reach(
    account_id: sa.ColumnElement[Any], repository_id: sa.ColumnElement[Any] | None
) -> sa.ColumnElement[bool]:
    """A condition for lists that span projects; `reach_params` gives its parameters. Without a `repository_id`: a list
    of what belongs to the account itself."""
    wide = sa.bindparam("reach_everything", type_=sa.Boolean())
    if repository_id is None:
        return sa.or_(wide, any_of(account_id, "reach_accounts"))
    return sa.or_(wide, any_of(account_id, "reach_whole_accounts"), any_of(repository_id, "reach_repositories"))


def reach_params(actor: Actor) -> Mapping[str, object]:
    """Only where the permissions are enough for what is being done: elsewhere a list shows nothing."""
    fitting = [each for each in actor.reaches or () if allows(each, actor.need)]
    chosen = {one for each in fitting for one in each.repository_ids or ()}
    return {
        "reach_everything": actor.reaches is None,
        "reach_accounts": [each.account_id for each in fitting],
        "reach_whole_accounts": [each.account_id for each in fitting if each.repository_ids is None],
        "reach_repositories": sorted(chosen),
    }
