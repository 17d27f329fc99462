"""What a message tells, with the rights that its recipient has when it is made."""

from __future__ import annotations

from workhook.core.clock import now_ms
from workhook.identity.invitation_links import NOBODY
from workhook.identity.invitations import Invitation, invitation_of, to_organizations, to_repositories
from workhook.identity.mail.schemas import mail_messages
from workhook.identity.schemas import Account
from workhook.identity.tables import invitations
from workhook.storage import Reader
from workhook.storage.metadata import big
from workhook.work.discussion.names import prepare_words
from workhook.work.history.notifications.queries import params_of
from workhook.work.history.notifications.reading import Notification, notification_of, what_is_told

_told = what_is_told(mail_messages, mail_messages).where(mail_messages.c.id == big("id"))
_this = invitations.c.id == big("id")
_to_organization, _to_repository = to_organizations.where(_this), to_repositories.where(_this)


async def find_told(reader: Reader, user: Account, message_id: int) -> Notification | None:
    """None: the user does not see it any more."""
    row = await reader.fetch_one(_told, {**params_of(user), "id": message_id})
    if row is None:
        return None
    await prepare_words([row["comment_text"]])
    return notification_of(row, read_at=None)


async def find_invitation(reader: Reader, invitation_id: int) -> Invitation | None:
    """None: it holds no more, or has no link."""
    params = {"id": invitation_id, "user_id": NOBODY, "now": now_ms()}
    for statement in (_to_organization, _to_repository):
        row = await reader.fetch_one(statement, params)
        if row is not None:
            found = invitation_of(row, None)
            return found if found.has_link else None
    return None
