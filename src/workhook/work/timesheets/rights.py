"""Whose timer may run where: who can write to the project, and so can stop it. Nobody's who is disabled.

The account of a user is locked by whoever starts the user's timer, and by whoever takes a right of the user's away.
Both look again once they have the lock, so that a timer which starts at that moment is either refused or finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from workhook.identity.queries import by_membership
from workhook.identity.tables import (
    accounts,
    apps,
    collaborators,
    installation_repositories,
    installations,
    memberships,
    projects,
)
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import json_member
from workhook.storage.metadata import big
from workhook.work.timesheets.queries import everywhere
from workhook.work.timesheets.tables import timesheets

_runner = accounts.alias("runner")


def _may_write(user_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Whether the user can write to the project of the statement; the rule of `identity.queries.repository_of`. An app
    that is installed can as far as its tokens reach (`identity.tokens.lookup`)."""
    enabled = sa.exists().where(_runner.c.id == user_id, _runner.c.disabled_at.is_(None)).correlate(timesheets)
    place = sa.or_(
        projects.c.account_id == user_id,
        sa.exists()
        .where(
            memberships.c.organization_id == projects.c.account_id,
            memberships.c.user_id == user_id,
            memberships.c.role != "app",
            by_membership,
        )
        .correlate(projects, timesheets),
        sa.exists()
        .where(
            collaborators.c.repository_id == projects.c.repository_id,
            collaborators.c.user_id == user_id,
            sa.or_(collaborators.c.role == "write", collaborators.c.role == "admin"),
        )
        .correlate(projects, timesheets),
        _installed(user_id),
    )
    return sa.and_(place, enabled)


def _installed(user_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Whether the user is the bot of an app whose installation lets it write to the project."""
    chosen = (
        sa.exists()
        .where(
            installation_repositories.c.installation_id == installations.c.id,
            installation_repositories.c.repository_id == projects.c.repository_id,
        )
        .correlate(installations, projects)
    )
    return (
        sa.exists()
        .where(
            apps.c.bot_id == user_id,
            installations.c.app_id == apps.c.id,
            installations.c.account_id == projects.c.account_id,
            installations.c.suspended_at.is_(None),
            json_member(installations.c.permissions, "work") == sa.literal("write", sa.Text),
            sa.or_(installations.c.repository_selection == "all", chosen),
        )
        .correlate(projects, timesheets)
    )


_may_run = sa.select(projects.c.repository_id).where(
    projects.c.repository_id == big("repository_id"), projects.c.deleted_at.is_(None), _may_write(big("runner_id"))
)

_accounts = sa.select(accounts.c.id).order_by(accounts.c.id).with_for_update(key_share=True)
_lock_one = _accounts.where(accounts.c.id == big("runner_id"))
_lock_all = _accounts.where(
    accounts.c.id.in_(
        sa.union(
            sa.select(memberships.c.user_id).where(memberships.c.organization_id == big("account_id")),
            sa.select(collaborators.c.user_id).where(collaborators.c.repository_id == big("repository_id")),
            sa.select(timesheets.c.user_id).where(
                timesheets.c.repository_id == big("repository_id"), timesheets.c.is_active
            ),
        )
    )
)

_running = everywhere.where(timesheets.c.is_active)
_in_project = _running.where(timesheets.c.repository_id == big("repository_id"))
_lost = _running.where(sa.not_(_may_write(timesheets.c.user_id)))
_lost_in_project = _lost.where(timesheets.c.repository_id == big("repository_id"))
_lost_in_account = _lost.where(projects.c.account_id == big("account_id"))
_lost_of_user = _lost_in_account.where(timesheets.c.user_id == big("runner_id"))
_lost_everywhere = _lost.where(timesheets.c.user_id == big("runner_id"))


async def may_run(reader: Reader, user_id: int, repository_id: int) -> bool:
    """Whether a timer of the user may run in the project. Ask it in the statement after the user was locked."""
    return await reader.fetch_one(_may_run, {"runner_id": user_id, "repository_id": repository_id}) is not None


async def lock_all_running(tx: Transaction, account_id: int, repository_id: int) -> Sequence[Row]:
    """Every timer that runs in the project; nobody starts another one there until the transaction ends."""
    await tx.fetch_all(_lock_all, {"account_id": account_id, "repository_id": repository_id})
    return await tx.fetch_all(_in_project, {"repository_id": repository_id, "user_id": 0})


async def lock_lost_everywhere(tx: Transaction, user_id: int) -> Sequence[Row]:
    """The running timers of the user, who cannot write where they run."""
    await tx.fetch_all(_lock_one, {"runner_id": user_id})
    return await tx.fetch_all(_lost_everywhere, {"runner_id": user_id, "user_id": 0})


async def lock_lost(tx: Transaction, account_id: int, repository_id: int | None, user_id: int | None) -> Sequence[Row]:
    """The running timers of those who cannot write where they run: of the user, in all that is the account's, or of
    everybody (None), in the project, or in all that is the account's (None)."""
    place: dict[str, int | None] = {"account_id": account_id, "repository_id": repository_id}
    if user_id is not None:
        await tx.fetch_all(_lock_one, {"runner_id": user_id})
        return await tx.fetch_all(_lost_of_user, {"runner_id": user_id, "account_id": account_id, "user_id": 0})
    await tx.fetch_all(_lock_all, place)
    if repository_id is None:
        return await tx.fetch_all(_lost_in_account, {"account_id": account_id, "user_id": 0})
    return await tx.fetch_all(_lost_in_project, {"repository_id": repository_id, "user_id": 0})
