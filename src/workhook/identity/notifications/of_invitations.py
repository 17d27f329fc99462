"""Who is invited is told of it, if they have an account already."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from workhook.identity.notifications.telling import telling
from workhook.identity.tables import accounts
from workhook.storage import Transaction
from workhook.storage.metadata import big

_about = {"invitation_id": big("invitation_id")}
_invited = sa.select(accounts).where(accounts.c.id == big("invitee_id"))
# Some have an address that is only alike. They do not see the invitation, nor what tells of it.
_addressed = sa.select(accounts).where(
    sa.func.lower(accounts.c.email) == sa.func.lower(sa.bindparam("address", type_=sa.Text))
)
_tell_invited = telling("invitation", _invited, _about)
_tell_addressed = telling("invitation", _addressed, _about)


def tell_invited(tx: Transaction, invitation: Mapping[str, object], invitation_id: int, now: int) -> None:
    """`invitation`: the columns of its row. One that is renewed was told of already."""
    place = {name: invitation[name] for name in ("account_id", "repository_id")}
    told = {**place, "actor_id": invitation["inviter_id"], "invitation_id": invitation_id, "detail": None, "now": now}
    if invitation["user_id"] is not None:
        _tell_invited.defer(tx, {**told, "invitee_id": invitation["user_id"]})
    else:
        # Whoever has the address gets a link by mail, with or without an account.
        tx.defer(_tell_addressed.inbox, [{**told, "address": invitation["email"]}])
