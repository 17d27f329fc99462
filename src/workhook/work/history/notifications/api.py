"""`/me/notifications` and `/me/notification_settings`, which only the person themselves can see."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.errors import NotFound
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.context import Write
from workhook.work.history.notifications import queries
from workhook.work.history.notifications.queries import ID_MAX
from workhook.work.history.notifications.settings import (
    KindSetting,
    NotificationSettingsAnswer,
    find_settings,
    get_notification_settings,
    save_settings,
    settings_answer,
)
from workhook.work.kernel.access import RANKS
from workhook.work.kernel.schemas import Done, if_set

routes = Routes(WORK_API, "Notifications", read="notifications.read", write="notifications.write")


class NotificationsReadBody(msgspec.Struct):
    """The notifications to mark as read. `upto` is the newest one the caller has seen."""

    upto: (
        Annotated[int, Meta(ge=0, le=ID_MAX, description="Only this notification and older ones. Default: all.")]
        | UnsetType
    ) = UNSET


class KindSettingEdit(msgspec.Struct):
    """Changes to the settings of one kind. Omitted fields keep their values."""

    inbox: Annotated[bool, Meta(description="In the list of notifications.")] | UnsetType = UNSET
    email: Annotated[bool, Meta(description="By e-mail.")] | UnsetType = UNSET


class NotificationSettingsEdit(msgspec.Struct):
    """Changes to the notification settings. Omitted kinds keep their settings."""

    mention: KindSettingEdit | UnsetType = UNSET
    assignment: KindSettingEdit | UnsetType = UNSET
    deadline: KindSettingEdit | UnsetType = UNSET
    invoice: KindSettingEdit | UnsetType = UNSET
    payment: KindSettingEdit | UnsetType = UNSET
    invitation: KindSettingEdit | UnsetType = UNSET
    hook_disabled: KindSettingEdit | UnsetType = UNSET


routes.get("/me/notifications")(queries.list_notifications)


@routes.post("/me/notifications/{notification_id}/read", action="notification.mark_read")
async def read_notification(write: Write, notification_id: int) -> Done:
    """Mark a notification as read."""
    _rests_on_oneself(write)
    if not await queries.mark_read(write.tx, write.actor, notification_id, write.now):
        raise NotFound()
    return Done()


@routes.post("/me/notifications/read", action="notification.mark_read")
async def read_notifications(write: Write, wanted: NotificationsReadBody) -> Done:
    """Mark all notifications as read."""
    _rests_on_oneself(write)
    upto = ID_MAX if isinstance(wanted.upto, UnsetType) else wanted.upto
    await queries.mark_all_read(write.tx, write.actor, write.now, upto)
    return Done()


routes.get("/me/notification_settings")(get_notification_settings)


@routes.patch("/me/notification_settings", action="notification_setting.edit")
async def edit_notification_settings(write: Write, edit: NotificationSettingsEdit) -> NotificationSettingsAnswer:
    """Update the caller's notification settings.

    The new settings apply to future events.
    """
    user_id = write.actor.user.id
    before = await find_settings(write.tx, user_id)
    write.require_match(settings_answer(before))
    values = {kind: getattr(edit, kind) for kind in before}
    wanted = {
        kind: KindSetting(if_set(each.inbox, before[kind].inbox), if_set(each.email, before[kind].email))
        for kind, each in values.items()
        if not isinstance(each, UnsetType)
    }
    if wanted:
        await save_settings(write.tx, user_id, wanted)
    return settings_answer({**before, **wanted})


def _rests_on_oneself(write: Write) -> None:
    """Allow retries with the same `Idempotency-Key` even after the caller has lost a role."""
    write.actor.request.require_right(write.actor.user.id, None, RANKS["owner"])
