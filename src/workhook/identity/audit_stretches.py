"""The entries of an account's audit log that fit a selection, by number: a few from each of the stretches in which all
fit, one for each action that was ever done (by the actor, in the repository, or by the actor there), of which the
program knows only so many."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from workhook.identity.tables import accounts, audit_log, projects
from workhook.storage.index_ranges import index_range
from workhook.storage.metadata import big

_text = sa.bindparam("text", type_=sa.Text())
_action, _category = sa.bindparam("action", type_=sa.Text()), sa.bindparam("category", type_=sa.Text())
_acting = accounts.alias("acting")
_actor = sa.select(_acting.c.id.label("place")).where(_acting.c.login_key == sa.bindparam("actor"))


def ids(dialect: str, given: frozenset[str], newest_first: bool) -> sa.Select[Any]:
    """`given`: names of `audit_phrase.Selection`. Parameters: their values, `category`, `low`, `high` and `limit`."""
    row = audit_log.alias("stretch")
    times = []
    if "since" in given:
        times.append(row.c.at >= big("since"))
    if "until" in given:
        times.append(row.c.at < big("until"))
    if not given & {"action", "text", "actor", "repository"}:
        first = index_range(dialect, [(row.c.account_id, big("account_id"))], row.c.id, newest_first=newest_first)
        return sa.select(first.where(*times).subquery("first").c.id)
    each = _each(given).subquery("each_action")
    conditions = [row.c.account_id == big("account_id"), row.c.id > big("low"), row.c.id < big("high"), *times]
    conditions += [row.c.action == each.c.action, *_at(row, given, each.c.place)]
    order = row.c.id.desc() if newest_first else row.c.id
    top = sa.select(row.c.id).where(*conditions).order_by(order).limit(big("limit"))
    if dialect == "postgresql":
        few = top.correlate(each).lateral("few")
        return sa.select(few.c.id).select_from(each.join(few, sa.true()))
    found = audit_log.alias("few")
    return sa.select(found.c.id).select_from(each.join(found, found.c.id.in_(top.correlate(each))))


def _at(row: sa.FromClause, given: frozenset[str], place: sa.ColumnElement[Any]) -> list[sa.ColumnElement[bool]]:
    """What the index begins with, behind the account."""
    if "repository" not in given:
        return [row.c.actor_id == place] if "actor" in given else []
    there = [row.c.repository_id == place]
    return [*there, row.c.actor_id == _actor.scalar_subquery()] if "actor" in given else there


def _places(given: frozenset[str]) -> sa.Select[Any]:
    """The repository, else the actor; one row that nobody asks for where there is none."""
    if "repository" in given:
        owners = accounts.alias("owners")
        return (
            sa.select(projects.c.repository_id.label("place"))
            .join_from(projects, owners, owners.c.id == projects.c.account_id)
            .where(
                owners.c.login_key == sa.bindparam("owner"),
                sa.func.lower(projects.c.name) == sa.bindparam("repository"),
            )
        )
    return _actor if "actor" in given else sa.select(sa.literal_column("0", sa.BigInteger).label("place"))


def _each(given: frozenset[str]) -> sa.Select[Any]:
    """The actions that fit, each found by one look at an index."""
    place = _places(given).subquery("each_place")

    def next_action(name: str, at: sa.ColumnElement[Any], after: sa.ColumnElement[Any] | None) -> Any:
        row = audit_log.alias(name)
        mine = [row.c.account_id == big("account_id"), *_at(row, given, at)]
        found = sa.select(sa.func.min(row.c.action)).where(*mine)
        return found if after is None else found.where(row.c.action > after)

    first = next_action("first_action", place.c.place, None).correlate(place).scalar_subquery()
    walk = sa.select(place.c.place, first.label("action")).cte("walk", recursive=True)
    later = next_action("later_action", walk.c.place, walk.c.action).correlate(walk).scalar_subquery()
    walk = walk.union_all(sa.select(walk.c.place, later).where(walk.c.action.is_not(None)))
    found = sa.select(walk.c.place, walk.c.action).where(walk.c.action.is_not(None))
    if "action" in given:
        beginning = sa.func.substr(walk.c.action, 1, sa.func.length(_category))
        found = found.where(sa.or_(walk.c.action == _action, beginning == _category))
    if "text" in given:
        found = found.where(sa.func.replace(walk.c.action, _text, "") != walk.c.action)
    return found
