"""What is known of people as recipients of mail: their address, their language, and whether a server refused them."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from workhook.core.disclosure import Secretive
from workhook.identity.mail.schemas import mail_recipients
from workhook.identity.mail.undelivered import Undelivered, explain
from workhook.identity.tables import accounts, passwords
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import any_of, server_now, upsert
from workhook.storage.metadata import big

_own = mail_recipients.alias("own")
_refused = mail_recipients.alias("refused")
_given = passwords.alias("given")
_confirmed = (
    sa.select(_own.c.confirmed)
    .join_from(_own, _given, _given.c.user_id == _own.c.user_id)
    .where(_own.c.user_id == accounts.c.id, _given.c.email == _own.c.confirmed)
    .correlate_except(_own, _given)
    .scalar_subquery()
)
# Nobody has shown that an address is theirs which they have given themself, until they confirm it.
mail_address = sa.func.coalesce(sa.func.nullif(accounts.c.email, ""), _confirmed)
"""Where a person in `accounts` gets e-mail, or null."""
can_be_mailed = sa.and_(
    accounts.c.disabled_at.is_(None),
    mail_address.is_not(None),
    sa.not_(
        sa.exists()
        .where(_refused.c.user_id == accounts.c.id, _refused.c.bounced == mail_address)
        .correlate_except(_refused)
    ),
)
"""Whether a person in `accounts` has an address that no mail server has refused."""


class Recipient(Secretive, msgspec.Struct, frozen=True):
    """`language`: of the pages that the person saw last. `bounce`: what a server said when it refused the address,
    which is for the operator alone, and `bounced_at` when (milliseconds since the epoch)."""

    address: str | None
    language: str | None
    bounce: str | None
    bounced_at: int | None
    own: str | None
    """What the person has given themself as an address, where it is not confirmed and there is no other."""

    @property
    def can_be_mailed(self) -> bool:
        return bool(self.address) and self.bounced_at is None

    @property
    def why_bounced(self) -> Undelivered:
        return explain(self.bounce or "")


_c = mail_recipients.c
_bounce = _c.bounced == mail_address
_find = (
    sa.select(
        mail_address.label("address"),
        sa.case((mail_address.is_(None), passwords.c.email)).label("own"),
        _c.language,
        sa.case((_bounce, _c.bounce)).label("bounce"),
        sa.case((_bounce, _c.bounced_at)).label("bounced_at"),
    )
    .select_from(
        accounts.outerjoin(mail_recipients, _c.user_id == accounts.c.id).outerjoin(
            passwords, passwords.c.user_id == accounts.c.id
        )
    )
    .where(accounts.c.id == big("user_id"), accounts.c.kind == "user", accounts.c.disabled_at.is_(None))
)
_bounces = (
    sa.select(accounts.c.id, _c.bounce)
    .select_from(accounts.join(mail_recipients, _c.user_id == accounts.c.id))
    .where(_c.bounced == accounts.c.email, any_of(accounts.c.id, "user_ids"))
)
_language = sa.bindparam("language", type_=sa.Text)
_note_language = (
    upsert(mail_recipients)
    .values(user_id=big("user_id"), language=_language)
    .on_conflict_do_update(
        index_elements=["user_id"],
        set_={"language": _language},
        where=sa.func.coalesce(_c.language, "") != _language,
    )
)
_said, _refused_address = sa.bindparam("bounce", type_=sa.Text), sa.bindparam("bounced", type_=sa.Text)
_set_bounce = {"bounced": _refused_address, "bounced_at": server_now(), "bounce": _said}
_note_bounce = (
    upsert(mail_recipients)
    .values(user_id=big("user_id"), **_set_bounce)
    .on_conflict_do_update(index_elements=["user_id"], set_=_set_bounce)
)
_forget_bounce = (
    sa.update(mail_recipients)
    .where(_c.user_id == big("user_id"))
    .values(bounced=sa.null(), bounced_at=sa.null(), bounce=sa.null())
)


_confirm = (
    upsert(mail_recipients)
    .values(user_id=big("user_id"), confirmed=sa.bindparam("address", type_=sa.Text))
    .on_conflict_do_update(index_elements=["user_id"], set_={"confirmed": sa.bindparam("address", type_=sa.Text)})
)


async def find_recipient(reader: Reader, user_id: int) -> Recipient | None:
    """None: there is no such user, or the user is disabled."""
    row = await reader.fetch_one(_find, {"user_id": user_id})
    return (
        None
        if row is None
        else Recipient(row["address"], row["language"], row["bounce"], row["bounced_at"], row["own"])
    )


async def find_bounces(reader: Reader, user_ids: list[int]) -> dict[int, Undelivered]:
    """Whose address, as owners see it, a server refused, and why."""
    rows = await reader.fetch_all(_bounces, {"user_ids": user_ids})
    return {row["id"]: explain(row["bounce"] or "") for row in rows}


def note_language(tx: Transaction, user_id: int, language: str) -> None:
    """That the pages have this language for the person. Written with the next statement."""
    tx.defer(_note_language, [{"user_id": user_id, "language": language}])


async def note_bounce(tx: Transaction, user_id: int, address: str, said: str) -> None:
    """That a server refused the address: nothing is sent to it until it is another one, or `forget_bounce`."""
    await tx.execute(_note_bounce, {"user_id": user_id, "bounced": address, "bounce": said})


async def forget_bounce(tx: Transaction, user_id: int) -> None:
    """The person says that the address is right."""
    await tx.execute(_forget_bounce, {"user_id": user_id})


async def confirm_address(tx: Transaction, user_id: int, address: str) -> None:
    """The person has shown that the address which they have given themself is theirs."""
    await tx.execute(_confirm, {"user_id": user_id, "address": address})
