"""What those who run Workhook do with members and collaborators on the command line: nobody is asked for a role.

The events are those of the API, with nobody as the sender. A changed role has none.
"""

from __future__ import annotations

from workhook.identity import actions, audit
from workhook.identity.audit_actions import verb_of
from workhook.identity.queries import find_member_role
from workhook.identity.schemas import Account, Repository
from workhook.storage import Transaction
from workhook.work.announce import announce, announce_in_account
from workhook.work.members import queries
from workhook.work.people import person_shape


async def set_member(tx: Transaction, organization: Account, user: Account, role: str, *, base: str) -> None:
    """Add to an organization, or change the role. Raises `Invalid` where the last owner would lose the role."""
    was = await find_member_role(tx, organization.id, user.id)
    await actions.set_member(tx, organization, user, role, base=base)
    if was is None:
        await _tell_organization(tx, organization, user, "added", base)


async def remove_member(tx: Transaction, organization: Account, user: Account, *, base: str) -> bool:
    """Answers whether the user was a member. Raises `Invalid` for the last owner."""
    removed = await actions.remove_member(tx, organization, user, base=base)
    if removed:
        await _tell_organization(tx, organization, user, "removed", base)
    return removed


async def set_collaborator(tx: Transaction, repository: Repository, user: Account, role: str, *, base: str) -> None:
    """Add to a project, or change the role."""
    was = await queries.is_collaborator(tx, repository, user)
    await actions.set_collaborator(tx, repository, user, role, base=base)
    if not was:
        await _tell_project(tx, repository, user, "added", base)


async def remove_collaborator(tx: Transaction, repository: Repository, user: Account, *, base: str) -> bool:
    """Answers whether the user was a collaborator."""
    removed = await actions.remove_collaborator(tx, repository, user, base=base)
    if removed:
        await _tell_project(tx, repository, user, "removed", base)
    return removed


async def _tell_organization(tx: Transaction, organization: Account, user: Account, action: str, base: str) -> None:
    await announce_in_account(tx, None, organization, "member", action, person_shape(user), base=base)
    await audit.record(tx, None, f"member.{verb_of(action)}", user.login, account_id=organization.id)


async def _tell_project(tx: Transaction, repository: Repository, user: Account, action: str, base: str) -> None:
    await announce(tx, None, repository, "member", action, person_shape(user), base=base)
    await audit.record(
        tx, None, f"member.{verb_of(action)}", user.login, account_id=repository.owner.id, repository_id=repository.id
    )
