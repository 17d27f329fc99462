"""What a caller still has of the rights that an earlier request rested on (`http.calls.RequestRecord`).

It is asked before an answer that was stored under an `Idempotency-Key` is given again.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from workhook.http.calls import Call, Place, Standing
from workhook.identity.authenticator import actor_of
from workhook.identity.queries import repositories, repository_of
from workhook.identity.schemas import Actor
from workhook.identity.tables import memberships, projects
from workhook.identity.tokens.lookup import may_reach
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.access import NO_RANK, RANKS, is_client, rank_in
from workhook.work.owners import rank_in_account

_repositories = repositories.add_columns(is_client.label("is_client")).where(
    any_of(projects.c.repository_id, "repository_ids")
)
_memberships = sa.select(memberships.c.organization_id, memberships.c.role).where(
    memberships.c.user_id == big("user_id"), any_of(memberships.c.organization_id, "account_ids")
)


async def standing(call: Call, rights: Mapping[Place, int]) -> Standing:
    """What is left of these rights, each a place with the rank (`access.RANKS`) that the caller had there."""
    actor = actor_of(call)
    found = await _ranks(call.database, actor, rights)
    now = {place: found.get(place, NO_RANK) if may_reach(actor, actor.need, *place) else NO_RANK for place in rights}
    if all(now[place] >= max(rank, RANKS["client"]) for place, rank in rights.items()):
        return "whole"
    seen = all(now[place] >= min(rank, RANKS["read"]) for place, rank in rights.items())
    return "less" if seen else "gone"


async def _ranks(reader: Reader, actor: Actor, places: Mapping[Place, int]) -> dict[Place, int]:
    """By place; those where the caller is nobody are left out."""
    found: dict[Place, int] = {}
    repository_ids = [repository_id for _, repository_id in places if repository_id is not None]
    account_ids = [account_id for account_id, repository_id in places if repository_id is None]
    user_id = actor.user.id
    if repository_ids:
        rows = await reader.fetch_all(_repositories, {"repository_ids": repository_ids, "user_id": user_id})
        for row in rows:
            repository = repository_of(row, user_id)
            found[repository.owner.id, repository.id] = rank_in(row, repository, user_id)
    if account_ids:
        found |= {(each, None): RANKS["owner"] for each in account_ids if each == user_id}
        rows = await reader.fetch_all(_memberships, {"account_ids": account_ids, "user_id": user_id})
        found |= {(row["organization_id"], None): rank_in_account(row["role"]) for row in rows}
    return found
