"""A person's notification settings, for their inbox and for e-mail. By default, every kind is enabled for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import Meta

from workhook.http.calls import Call
from workhook.identity.authenticator import actor_of
from workhook.identity.tables import NOTIFICATION_KINDS, NotificationKind, notification_settings
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import assigned


class KindSetting(msgspec.Struct):
    """The notification channels for one kind."""

    inbox: Annotated[bool, Meta(description="In the list of notifications.")]
    email: Annotated[bool, Meta(description="By e-mail, if the server sends e-mail and the caller has an address.")]


_c = notification_settings.c
_saved_settings = sa.select(_c.kind, _c.inbox, sa.func.coalesce(_c.email, _c.inbox).label("email")).where(
    _c.user_id == bigint_param("user_id")
)
_choose = (
    upsert(notification_settings)
    .values(assigned(("user_id", "kind", "inbox", "email")))
    .on_conflict_do_update(index_elements=["user_id", "kind"], set_=assigned(("inbox", "email")))
)


async def find_settings(reader: Reader, user_id: int) -> dict[NotificationKind, KindSetting]:
    rows = await reader.fetch_all(_saved_settings, {"user_id": user_id})
    chosen = {row["kind"]: KindSetting(bool(row["inbox"]), bool(row["email"])) for row in rows}
    return {kind: chosen.get(kind, KindSetting(inbox=True, email=True)) for kind in NOTIFICATION_KINDS}


async def save_settings(tx: Transaction, user_id: int, wanted: Mapping[NotificationKind, KindSetting]) -> None:
    """Save the settings of the kinds in `wanted`. Other kinds keep theirs."""
    rows = [
        {"user_id": user_id, "kind": each, "inbox": wanted[each].inbox, "email": wanted[each].email}
        for each in sorted(wanted)
    ]
    await tx.execute_many(_choose, rows)


class NotificationSettings(msgspec.Struct):
    """The caller's notification settings, by kind."""

    mention: KindSetting
    assignment: KindSetting
    deadline: KindSetting
    invoice: KindSetting
    payment: KindSetting
    invitation: KindSetting
    hook_disabled: KindSetting


class NotificationSettingsAnswer(msgspec.Struct):
    notification_settings: NotificationSettings
    success: bool = True


async def get_notification_settings(call: Call) -> NotificationSettingsAnswer:
    """Get the caller's notification settings."""
    return settings_answer(await find_settings(call.database, actor_of(call).user.id))


def settings_answer(chosen: Mapping[NotificationKind, KindSetting]) -> NotificationSettingsAnswer:
    return NotificationSettingsAnswer(NotificationSettings(**{str(kind): each for kind, each in chosen.items()}))
