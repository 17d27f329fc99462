"""How invitations end without anybody asking for that: with the right of who made them, and with the place of who holds
them. None of them is there again when the right or the place comes back. What is over by the clock is removed by
`tokens.issue.prune`.
"""

from __future__ import annotations

import sqlalchemy as sa

from workhook.identity import audit
from workhook.identity.invitations import BY_EMAIL, for_invited, invited, place_key, still_may_invite
from workhook.identity.removal import Loss
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import accounts, invitations, projects
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big

# The places of an account: itself as an organization, and each of its repositories. They are written as in the index.
_of_repositories = sa.select(sa.literal("r", sa.Text) + sa.cast(projects.c.repository_id, sa.Text)).where(
    projects.c.account_id == big("account_id")
)
_places = sa.union_all(sa.select(sa.bindparam("place", type_=sa.Text)), _of_repositories)
_in_account = invitations.c.place.in_(_places)
_here = invitations.c.place == sa.bindparam("place", type_=sa.Text)

# Locked by who invites, too: what is written before that is seen, and nobody writes after it without the right.
_lock_inviter = sa.select(accounts.c.id).where(accounts.c.id == big("inviter_id")).with_for_update(key_share=True)
_invitee = accounts.alias("invitee")
# All are held first: of two rights that go at the same time, the second loss sees that the first right has gone.
_made = (
    sa.select(
        invitations.c.id, invitations.c.account_id, invitations.c.repository_id, _invitee.c.login.label("invitee")
    )
    .select_from(invitations.outerjoin(_invitee, _invitee.c.id == invitations.c.user_id))
    .where(invitations.c.inviter_id == big("inviter_id"))
    .order_by(invitations.c.id)
    .with_for_update(of=invitations)
)
_made_here, _made_in_account = _made.where(_here), _made.where(_in_account)
_end = (
    sa.delete(invitations).where(any_of(invitations.c.id, "ids"), sa.not_(still_may_invite)).returning(invitations.c.id)
)
_held = sa.delete(invitations).where(for_invited)
_held_here, _held_in_account = _held.where(_here), _held.where(_in_account)
_of_repository = sa.delete(invitations).where(_here)


async def rights_lost(tx: Transaction, loss: Loss) -> None:
    """An `identity.removal.OnLoss`: an invitation is there as long as its inviter may invite to its place."""
    if loss.app_id is not None or loss.account_id is None or loss.user_id is None:
        return  # a consent makes nobody an owner or admin, and who sees a project does not either
    await tx.fetch_one(_lock_inviter, {"inviter_id": loss.user_id})
    whole = loss.repository_id is None
    params = {**_where(loss.account_id, loss.repository_id), "inviter_id": loss.user_id}
    made = await tx.fetch_all(_made_in_account if whole else _made_here, params)
    if not made:
        return
    ended = {row["id"] for row in await tx.fetch_all(_end, {"ids": [row["id"] for row in made]})}
    entries = [
        audit.AuditTarget(row["invitee"] or BY_EMAIL, row["account_id"], row["repository_id"], {"reason": "right_lost"})
        for row in made
        if row["id"] in ended
    ]
    audit.record_all(tx, loss.actor, "invitation.delete", entries)


def person_goes(tx: Transaction, account_id: int, repository_id: int | None, person: Account) -> None:
    """Somebody is removed, or leaves: no invitation is left by which they could come back, to the repository, or to all
    that is the account's (None). Written along with the next statement."""
    held = _held_in_account if repository_id is None else _held_here
    tx.defer(held, [{**_where(account_id, repository_id), **invited(person)}])


def repository_goes(tx: Transaction, repository: Repository) -> None:
    """A project is deleted: when it is restored, nobody is invited to it. Written along with the next statement."""
    tx.defer(_of_repository, [{"place": place_key(repository)}])


def _where(account_id: int, repository_id: int | None) -> dict[str, object]:
    """Parameters of `_in_account` or, with a repository, of `_here`."""
    if repository_id is None:
        return {"account_id": account_id, "place": f"o{account_id}"}
    return {"place": f"r{repository_id}"}
