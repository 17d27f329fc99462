"""Removes or deactivates hooks when a repository is purged, an OAuth app loses its access, or an app is uninstalled."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.hooks.fan_out import drop_waiting
from workhook.hooks.tables import dispatches, hooks
from workhook.identity import audit
from workhook.identity.removal import Loss
from workhook.identity.tables import accounts, collaborators, grants, memberships, projects
from workhook.storage import Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.storage.signals import HOOK

_waiting = (
    sa.select(dispatches.c.id)
    .join(hooks, hooks.c.id == dispatches.c.hook_id)
    .where(hooks.c.repository_id == bigint_param("repository_id"), dispatches.c.next_attempt_at.is_not(None))
    .limit(1)
)
_remove = sa.delete(hooks).where(hooks.c.repository_id == bigint_param("repository_id"))
_of_app = sa.select(hooks.c.id).where(hooks.c.app_id == bigint_param("app_id")).order_by(hooks.c.id).with_for_update()
_remove_some = sa.delete(hooks).where(any_of(hooks.c.id, "hook_ids"))
# Webhooks of OAuth apps, by the lost right. A grant applies everywhere, a role only to its account or repository.
_made_by_apps = sa.select(hooks.c.id).order_by(hooks.c.id).with_for_update()
_of_place = _made_by_apps.where(hooks.c.account_id == bigint_param("account_id"), hooks.c.app_id.is_not(None))
_of_repository = _made_by_apps.where(
    hooks.c.repository_id == bigint_param("repository_id"), hooks.c.app_id.is_not(None)
)


def _for(*scopes: str) -> sa.ColumnElement[bool]:
    words = sa.literal(" ", sa.Text) + grants.c.scopes + sa.literal(" ", sa.Text)
    return sa.or_(*(words.like(sa.literal(f"% {each} %", sa.Text)) for each in scopes))


def _is(right: sa.Table, user_id: sa.ColumnElement[int], role: str) -> tuple[sa.ColumnElement[bool], ...]:
    return right.c.user_id == user_id, right.c.role == role


_user_id = bigint_param("user_id")
_owned = sa.select(memberships.c.organization_id).where(*_is(memberships, _user_id, "owner"))
_administered = sa.select(collaborators.c.repository_id).where(*_is(collaborators, _user_id, "admin"))
_of_user = _made_by_apps.where(
    hooks.c.app_id.in_(sa.select(grants.c.app_id).where(grants.c.user_id == _user_id)),
    sa.or_(hooks.c.account_id == _user_id, hooks.c.account_id.in_(_owned), hooks.c.repository_id.in_(_administered)),
)
_granting = accounts.alias("granting")
# An enabled user who may have webhooks there has authorized the app.
_granted = sa.exists().where(
    grants.c.app_id == hooks.c.app_id,
    sa.case(
        (hooks.c.repository_id.is_(None), _for("admin:org_hook")),
        else_=_for("repo", "admin:repo_hook", "write:repo_hook"),
    ),
    sa.exists().where(_granting.c.id == grants.c.user_id, _granting.c.disabled_at.is_(None)).correlate(hooks, grants),
    sa.or_(
        grants.c.user_id == hooks.c.account_id,
        # Without explicit correlation, the nested subqueries would scan every webhook.
        sa.exists()
        .where(memberships.c.organization_id == hooks.c.account_id, *_is(memberships, grants.c.user_id, "owner"))
        .correlate(hooks, grants),
        sa.exists()
        .where(collaborators.c.repository_id == hooks.c.repository_id, *_is(collaborators, grants.c.user_id, "admin"))
        .correlate(hooks, grants),
    ),
)
_of_installation = (
    sa.select(hooks.c.id, hooks.c.repository_id, accounts.c.login, projects.c.name)
    .join_from(hooks, accounts, accounts.c.id == hooks.c.account_id)
    .outerjoin(projects, projects.c.repository_id == hooks.c.repository_id)
    .where(hooks.c.account_id == bigint_param("account_id"), hooks.c.installation_id == bigint_param("installation_id"))
    .order_by(hooks.c.id)
    .with_for_update(of=hooks)
)
_left_alone = (
    sa.select(hooks.c.id, hooks.c.account_id, hooks.c.repository_id)
    .where(any_of(hooks.c.id, "hook_ids"), hooks.c.active, sa.not_(_granted))
    .order_by(hooks.c.id)
)
_turn_off = (
    sa.update(hooks)
    .where(any_of(hooks.c.id, "hook_ids"))
    .values(active=sa.false(), version=hooks.c.version + sa.literal(1, sa.BigInteger), updated_at=bigint_param("now"))
)


async def forget_repository(tx: Transaction, repository_id: int) -> bool:
    """Implement `identity.removal.Forget`. Keep the hooks and return False while they have something to deliver."""
    if await tx.fetch_one(_waiting, {"repository_id": repository_id}) is not None:
        return False
    await tx.execute(_remove, {"repository_id": repository_id})
    return True


async def forget_app(tx: Transaction, app_id: int) -> None:
    """Implement `identity.removal.ForgetApp`: delete the app's hooks, because their authorization ends with it."""
    await _remove_all(tx, [row["id"] for row in await tx.fetch_all(_of_app, {"app_id": app_id})])


async def uninstalled(tx: Transaction, installation_id: int, account_id: int, remove: bool) -> list[str]:
    """Implement `identity.removal.Uninstalled`. Returns the paths of the installation's hooks, which owners see."""
    rows = await tx.fetch_all(_of_installation, {"installation_id": installation_id, "account_id": account_id})
    if remove:
        await _remove_all(tx, [row["id"] for row in rows])
        detail = {"reason": "uninstalled"}
        gone = [audit.AuditTarget(f"hook/{row['id']}", account_id, row["repository_id"], detail) for row in rows]
        audit.record_all(tx, None, "hook.delete", gone)
    return [f"{_address(row)}/hooks/{row['id']}" for row in rows]


def _address(row: Row) -> str:
    return f"/orgs/{row['login']}" if row["repository_id"] is None else f"/repos/{row['login']}/{row['name']}"


async def _remove_all(tx: Transaction, hook_ids: list[int]) -> None:
    if not hook_ids:
        return
    await tx.execute(_remove_some, {"hook_ids": hook_ids})
    await drop_waiting(tx, hook_ids)
    tx.signal(HOOK, hook_ids)


async def rights_lost(tx: Transaction, loss: Loss) -> None:
    """Implement `identity.removal.OnLoss`: deactivate an OAuth app's webhooks that no remaining authorization covers.

    An authorization counts if it belongs to a user who may have webhooks there. If the app is authorized again, it
    finds its hooks and can activate them.
    """
    # All are locked first, so that of two concurrent losses, the second sees the first.
    if loss.app_id is not None:
        lock = _of_app
    elif loss.repository_id is not None:
        lock = _of_repository
    else:
        lock = _of_user if loss.account_id is None else _of_place
    held = await tx.fetch_all(lock, msgspec.structs.asdict(loss))
    rows = await tx.fetch_all(_left_alone, {"hook_ids": [row["id"] for row in held]}) if held else []
    if not rows:
        return
    hook_ids = [row["id"] for row in rows]
    await tx.execute(_turn_off, {"hook_ids": hook_ids, "now": now_ms()})
    await drop_waiting(tx, hook_ids)
    detail = {"reason": "right_lost" if loss.app_id is None else "consent_taken_back"}
    off = [audit.AuditTarget(f"hook/{row['id']}", row["account_id"], row["repository_id"], detail) for row in rows]
    audit.record_all(tx, None, "hook.deactivate", off)
    tx.signal(HOOK, hook_ids)
