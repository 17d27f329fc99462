"""Members and collaborators come and go: the write, with its event and its entry in the audit log.

Nobody is asked for a role here: whoever calls has decided. `actor` is the sender of the event; None on the command
line, where those who run Workhook add people directly. A changed role has no event.
"""

from __future__ import annotations

from workhook.identity import actions, audit, invitations
from workhook.identity.audit_actions import verb_of
from workhook.identity.queries import find_member_role
from workhook.identity.schemas import Account, Actor, Repository
from workhook.storage import Transaction
from workhook.work.announce import announce, announce_in_account
from workhook.work.members import queries
from workhook.work.people import person_shape


async def set_member(
    tx: Transaction, organization: Account, user: Account, role: str, *, base: str, actor: Actor | None = None
) -> None:
    """Add to an organization, or change the role. Raises `Invalid` where the last owner would lose the role."""
    was = await find_member_role(tx, organization.id, user.id)
    await actions.set_member(tx, organization, user, role, actor=actor, base=base)
    if was is None:
        invitations.withdraw_later(tx, organization, user)
        await _tell_organization(tx, actor, organization, user, "added", base)
    elif actor is not None and was != role:
        detail = {"role": role}
        await audit.record(tx, actor, "member.update", user.login, account_id=organization.id, detail=detail)


async def remove_member(
    tx: Transaction, organization: Account, user: Account, *, base: str, actor: Actor | None = None
) -> bool:
    """Answers whether the user was a member. Raises `Invalid` for the last owner."""
    removed = await actions.remove_member(tx, organization, user, actor=actor, base=base)
    if removed:
        await _tell_organization(tx, actor, organization, user, "removed", base)
    return removed


async def set_collaborator(
    tx: Transaction, repository: Repository, user: Account, role: str, *, base: str, actor: Actor | None = None
) -> None:
    """Add to a project, or change the role."""
    was = await queries.is_collaborator(tx, repository, user)
    await actions.set_collaborator(tx, repository, user, role, actor=actor, base=base)
    if not was:
        invitations.withdraw_later(tx, repository, user)
        await _tell_project(tx, actor, repository, user, "added", base)


async def remove_collaborator(
    tx: Transaction, repository: Repository, user: Account, *, base: str, actor: Actor | None = None
) -> bool:
    """Answers whether the user was a collaborator."""
    removed = await actions.remove_collaborator(tx, repository, user, actor=actor, base=base)
    if removed:
        await _tell_project(tx, actor, repository, user, "removed", base)
    return removed


async def _tell_organization(
    tx: Transaction, actor: Actor | None, organization: Account, user: Account, action: str, base: str
) -> None:
    await announce_in_account(tx, actor, organization, "member", action, person_shape(user), base=base)
    await audit.record(tx, actor, f"member.{verb_of(action)}", user.login, account_id=organization.id)


async def _tell_project(
    tx: Transaction, actor: Actor | None, repository: Repository, user: Account, action: str, base: str
) -> None:
    await announce(tx, actor, repository, "member", action, person_shape(user), base=base)
    await audit.record(
        tx, actor, f"member.{verb_of(action)}", user.login, account_id=repository.owner.id, repository_id=repository.id
    )
