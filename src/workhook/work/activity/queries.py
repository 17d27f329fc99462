"""The SQL of what happened in a project, and of who may follow it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.events import order
from workhook.events.tables import events
from workhook.identity.queries import by_membership, key_of
from workhook.identity.tables import accounts, collaborators, memberships, projects, tokens
from workhook.identity.tokens.kinds import KINDS
from workhook.identity.tokens.lookup import find_actors
from workhook.identity.tokens.reach import may_reach
from workhook.storage import Reader, Row
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.people import membership_of, person_columns

FOLLOWING = ("work", "read")  # what it asks of a token that is confined
PAGE_BYTES = 4 * 1024 * 1024  # of payloads in one answer; at least one event is

_FILTERS: dict[str, sa.ColumnElement[bool]] = {
    "event": events.c.name == sa.bindparam("event"),
    "actor_key": events.c.actor_id
    == sa.select(accounts.c.id).where(accounts.c.login_key == sa.bindparam("actor_key")).scalar_subquery(),
    "since": events.c.created_at >= big("since"),
}
_SELECTIVE = frozenset({"actor_key", "since"})  # no index leads to what they leave


@cache
def _page(filters: frozenset[str]) -> sa.Select[Any]:
    found = sa.select(events.c.id, events.c.size).where(
        events.c.repository_id == big("repository_id"),
        events.c.id < big("before"),
        events.c.listed,
        *(_FILTERS[name] for name in sorted(filters)),
    )
    page = order.page(found, newest_first=True)
    with_actor = page.join(accounts, accounts.c.id == events.c.actor_id, isouter=True)
    return with_actor.add_columns(*person_columns(membership_of(big("repository_id"))))


async def list_activity(
    reader: Reader,
    repository_id: int,
    *,
    before: int,
    limit: int,
    event: str | None,
    actor: str | None,
    since: int | None,
) -> Sequence[Row]:
    """Newest first, `limit` rows at most. Those at the end whose payloads would be too much in all have none.

    `actor` is a username, `since` in milliseconds. Raises `TooSlow`.
    """
    wanted = {"event": event, "actor_key": None if actor is None else key_of(actor), "since": since}
    given = {name: value for name, value in wanted.items() if value is not None}
    params = {**given, "repository_id": repository_id, "before": before, "limit": limit, "bytes_max": PAGE_BYTES}
    fetch = reader.fetch_slow if _SELECTIVE & given.keys() else reader.fetch_all
    return await fetch(_page(frozenset(given)), params)


_user = tokens.c.user_id
_may_follow = (
    sa.select(tokens.c.id, tokens.c.kind, projects.c.account_id)
    .select_from(
        tokens.join(projects, projects.c.repository_id == big("repository_id")).join(accounts, accounts.c.id == _user)
    )
    .where(
        any_of(tokens.c.id, "token_ids"),
        tokens.c.revoked_at.is_(None),
        sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > big("now")),
        accounts.c.disabled_at.is_(None),
        projects.c.deleted_at.is_(None),
        sa.or_(
            projects.c.account_id == _user,
            sa.exists().where(
                memberships.c.organization_id == projects.c.account_id,
                memberships.c.user_id == _user,
                by_membership,
            ),
            sa.exists().where(
                collaborators.c.repository_id == projects.c.repository_id, collaborators.c.user_id == _user
            ),
        ),
    )
)


async def which_are_good(reader: Reader, token_ids: Collection[int]) -> set[int]:
    """Those of the tokens that are neither revoked nor out of date, nor of an installation that is suspended or a user
    who is disabled."""
    return set(await find_actors(reader, token_ids)) if token_ids else set()


async def who_may_follow(reader: Reader, repository_id: int, token_ids: Collection[int]) -> set[int]:
    """Those of the tokens that are good and reach the project, and whose users are in it as more than clients."""
    params = {"repository_id": repository_id, "token_ids": sorted(token_ids), "now": now_ms()}
    rows = {row["id"]: row for row in await reader.fetch_all(_may_follow, params)}
    confined = {token_id for token_id, row in rows.items() if KINDS[row["kind"]].confined}
    actors = await find_actors(reader, confined) if confined else {}
    return {
        token_id
        for token_id, row in rows.items()
        if token_id not in confined
        or (token_id in actors and may_reach(actors[token_id], FOLLOWING, row["account_id"], repository_id))
    }
