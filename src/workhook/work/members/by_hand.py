"""Members and collaborators come and go: the write, with its event and its entry in the audit log.

Nobody is asked for a role here: whoever calls has decided. `actor` is the sender of the event; None on the command
line, where those who run Workhook add people directly. A changed role has no event.
"""

from __future__ import annotations

from workhook.identity import actions, audit, invitations
from workhook.identity.audit import verb_of
from workhook.identity.context import Write
from workhook.identity.queries import find_member_role
from workhook.identity.schemas import Account, Repository
from workhook.work.members import queries
from workhook.work.people import person_shape
from workhook.work.record_events import publish_account_event, publish_event


async def set_member(write: Write, organization: Account, user: Account, role: str) -> None:
    """Add to an organization, or change the role. Raises `Invalid` where the last owner would lose the role."""
    was = await find_member_role(write.tx, organization.id, user.id)
    await actions.set_member(write.tx, organization, user, role, actor=write.caller, base=write.base)
    if was is None:
        invitations.withdraw_later(write.tx, organization, user)
        await _tell_organization(write, organization, user, "added")
    elif write.caller is not None and was != role:
        detail = {"role": role}
        await audit.record(
            write.tx, write.caller, "member.update", user.login, account_id=organization.id, detail=detail
        )


async def remove_member(write: Write, organization: Account, user: Account) -> bool:
    """Answers whether the user was a member. Raises `Invalid` for the last owner."""
    removed = await actions.remove_member(write.tx, organization, user, actor=write.caller, base=write.base)
    if removed:
        await _tell_organization(write, organization, user, "removed")
    return removed


async def set_collaborator(write: Write, repository: Repository, user: Account, role: str) -> None:
    """Add to a project, or change the role."""
    was = await queries.is_collaborator(write.tx, repository, user)
    await actions.set_collaborator(write.tx, repository, user, role, actor=write.caller, base=write.base)
    if not was:
        invitations.withdraw_later(write.tx, repository, user)
        await _tell_project(write, repository, user, "added")


async def remove_collaborator(write: Write, repository: Repository, user: Account) -> bool:
    """Answers whether the user was a collaborator."""
    removed = await actions.remove_collaborator(write.tx, repository, user, actor=write.caller, base=write.base)
    if removed:
        await _tell_project(write, repository, user, "removed")
    return removed


async def _tell_organization(write: Write, organization: Account, user: Account, action: str) -> None:
    await publish_account_event(write, organization, "member", action, person_shape(user))
    await audit.record(write.tx, write.caller, f"member.{verb_of(action)}", user.login, account_id=organization.id)


async def _tell_project(write: Write, repository: Repository, user: Account, action: str) -> None:
    await publish_event(write, repository, "member", action, person_shape(user))
    await audit.record(
        write.tx,
        write.caller,
        f"member.{verb_of(action)}",
        user.login,
        account_id=repository.owner.id,
        repository_id=repository.id,
    )
