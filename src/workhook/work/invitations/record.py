"""Inviting somebody to a repository, with its entry in the audit log. It has no event: nothing has happened yet."""

from __future__ import annotations

from workhook.identity import audit, invitations
from workhook.identity.invitations import Invitation
from workhook.identity.schemas import Account, Actor, Repository
from workhook.storage import Transaction


async def invite_collaborator(
    tx: Transaction, actor: Actor, repository: Repository, invitee: Account, role: str
) -> Invitation:
    """Who shares no organization with the place learns of it so, and is in it only after accepting."""
    made = await invitations.invite(tx, repository, actor.user, role, invitee=invitee)
    await record_invitation(tx, actor, "create", repository, invitee.login, role)
    return made


async def record_invitation(
    tx: Transaction, actor: Actor, verb: str, place: Account | Repository, invitee: str, role: str | None = None
) -> None:
    """`verb`: create, update, delete or accept."""
    account, repository_id = (place.owner, place.id) if isinstance(place, Repository) else (place, None)
    await audit.record(
        tx,
        actor,
        f"invitation.{verb}",
        invitee,
        account_id=account.id,
        repository_id=repository_id,
        detail={"role": role} if role else None,
    )
