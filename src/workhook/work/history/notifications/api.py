"""`/me/notifications` and `/me/notification_settings`: a person's own. Nobody else sees them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.core.errors import NotFound
from workhook.core.money import DEFAULT_CURRENCY, to_amount
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.http.wire_types import Time
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.tables import NotificationKind
from workhook.work.history.notifications import queries
from workhook.work.history.notifications.reading import Notification
from workhook.work.history.notifications.settings import Choice, choose, find_settings
from workhook.work.kernel.access import RANKS
from workhook.work.kernel.people import PersonShape
from workhook.work.kernel.schemas import Done, if_set

routes = Routes(WORK_API, "Notifications", read="notifications.read", write="notifications.write")
ID_MAX = 2**53 - 1


class NotificationsQuery(lists.ListQuery):
    """`unread`: only those, or only the others."""

    unread: Annotated[bool, Meta(description="Only those that are not read yet. Default: all.")] | UnsetType = UNSET


class NotificationProject(msgspec.Struct):
    id: str
    title: str


class NotificationSubject(msgspec.Struct):
    """What it is about."""

    type: Literal["task", "file", "invoice", "invitation", "webhook"]
    id: str
    title: Annotated[
        str,
        Meta(
            description="Of an invoice its number, of an invitation the organization or project, of a webhook its id."
        ),
    ]


class NotificationShape(msgspec.Struct):
    """Something that the caller was told of. `actor` is null where Workhook acted by itself."""

    id: int
    kind: NotificationKind
    unread: bool
    created_at: Time
    read_at: Time | None
    actor: PersonShape | None
    organization: Annotated[str, Meta(description="Login of the account that the project belongs to.")]
    project: NotificationProject | None
    subject: NotificationSubject
    action: Annotated[
        str | None,
        Meta(
            description="Of an invoice `sent`, `voided` or `credited`; of a payment `payment` or `refund`; "
            "of an invitation the role."
        ),
    ]
    text: Annotated[str | None, Meta(description="The beginning of the comment, or why the webhook is off.")]
    deadline: Time | None
    amount: Annotated[float | None, Meta(description="Of a payment; a refund is negative.")]
    currency: str | None
    html_url: str


class NotificationsAnswer(msgspec.Struct):
    notifications: list[NotificationShape]
    success: bool = True


class ReadAll(msgspec.Struct):
    """`upto`: the newest that the caller has seen."""

    upto: (
        Annotated[int, Meta(ge=0, le=ID_MAX, description="Only this notification and older ones. Default: all.")]
        | UnsetType
    ) = UNSET


class KindSetting(msgspec.Struct):
    """Where a kind is told of."""

    inbox: Annotated[bool, Meta(description="In the list of notifications.")]
    email: Annotated[bool, Meta(description="By e-mail, if the server sends any and the caller has an address.")]


class KindSettingEdit(msgspec.Struct):
    """What is not named stays as it is."""

    inbox: Annotated[bool, Meta(description="In the list of notifications.")] | UnsetType = UNSET
    email: Annotated[bool, Meta(description="By e-mail.")] | UnsetType = UNSET


class NotificationSettings(msgspec.Struct):
    """What the caller is told of."""

    mention: KindSetting
    assignment: KindSetting
    deadline: KindSetting
    invoice: KindSetting
    payment: KindSetting
    invitation: KindSetting
    hook_disabled: KindSetting


class NotificationSettingsEdit(msgspec.Struct):
    """What is not named stays as it is."""

    mention: KindSettingEdit | UnsetType = UNSET
    assignment: KindSettingEdit | UnsetType = UNSET
    deadline: KindSettingEdit | UnsetType = UNSET
    invoice: KindSettingEdit | UnsetType = UNSET
    payment: KindSettingEdit | UnsetType = UNSET
    invitation: KindSettingEdit | UnsetType = UNSET
    hook_disabled: KindSettingEdit | UnsetType = UNSET


class NotificationSettingsAnswer(msgspec.Struct):
    notification_settings: NotificationSettings
    success: bool = True


@routes.get("/me/notifications")
async def list_notifications(call: Call, query: NotificationsQuery) -> Listed[NotificationsAnswer]:
    """List what the caller was told of, the newest first.

    What tells of a project is listed as long as the caller sees the project, and what it is about. Nobody is told of
    their own acts. A notification is kept for 90 days, and each person has the newest 1,000.
    """
    key = lists.after(query, tuple[int])
    found = await queries.list_notifications(
        call.database,
        actor_of(call),
        unread=None if isinstance(query.unread, UnsetType) else query.unread,
        before=max(0, min(key[0], ID_MAX)) if key else ID_MAX,
        limit=query.limit + 1,
    )
    shown, headers = lists.page(call, found, query, lambda each: (each.id,))
    base = call.base.removesuffix(call.prefix)
    return Listed(NotificationsAnswer([_shape(each, base) for each in shown]), headers)


@routes.post("/me/notifications/{notification_id}/read", action="notification.mark_read")
async def read_notification(write: Write, notification_id: int) -> Done:
    """Mark a notification as read."""
    _rests_on_oneself(write)
    if not await queries.mark_read(write.tx, write.actor, notification_id, write.now):
        raise NotFound()
    return Done()


@routes.post("/me/notifications/read", action="notification.mark_read")
async def read_notifications(write: Write, wanted: ReadAll) -> Done:
    """Mark all notifications as read."""
    _rests_on_oneself(write)
    upto = ID_MAX if isinstance(wanted.upto, UnsetType) else wanted.upto
    await queries.mark_all_read(write.tx, write.actor, write.now, upto)
    return Done()


@routes.get("/me/notification_settings")
async def get_notification_settings(call: Call) -> NotificationSettingsAnswer:
    """Get what the caller is told of."""
    return _answer(await find_settings(call.database, actor_of(call).user.id))


@routes.patch("/me/notification_settings", action="notification_setting.edit")
async def edit_notification_settings(write: Write, edit: NotificationSettingsEdit) -> NotificationSettingsAnswer:
    """Choose what the caller is told of.

    It holds for what happens from now on.
    """
    user_id = write.actor.user.id
    before = await find_settings(write.tx, user_id)
    write.require_match(_answer(before))
    given = {kind: getattr(edit, kind) for kind in before}
    wanted = {
        kind: Choice(if_set(each.inbox, before[kind].inbox), if_set(each.email, before[kind].email))
        for kind, each in given.items()
        if not isinstance(each, UnsetType)
    }
    if wanted:
        await choose(write.tx, user_id, wanted)
    return _answer({**before, **wanted})


def _rests_on_oneself(write: Write) -> None:
    """The same may be asked again under its `Idempotency-Key`, whatever place the caller has lost."""
    write.actor.request.rests_on(write.actor.user.id, None, RANKS["owner"])


def _answer(chosen: dict[NotificationKind, Choice]) -> NotificationSettingsAnswer:
    return NotificationSettingsAnswer(
        NotificationSettings(**{kind: KindSetting(each.inbox, each.email) for kind, each in chosen.items()})
    )


def path_of(each: Notification) -> str:
    """The page that shows what it is about."""
    place = each.owner if each.project_name is None else f"{each.owner}/{each.project_name}"
    match each.subject:
        case "task":
            path = f"/{place}/tasks/{each.subject_id}"
        case "file":
            path = f"/{place}/files/{each.subject_id}"
        case "invoice":
            path = f"/{place}/billing/{each.subject_id}"
        case "webhook":
            path = f"/{place}/{'-/' if each.project_name is None else ''}webhooks/{each.subject_id}"
        case _:
            path = "/"
    return path if each.comment is None else f"{path}#{each.comment}"


def _shape(each: Notification, base: str) -> NotificationShape:
    return NotificationShape(
        id=each.id,
        kind=each.kind,
        unread=each.read_at is None,
        created_at=to_millis_text(each.created_at),
        read_at=None if each.read_at is None else to_millis_text(each.read_at),
        actor=each.actor,
        organization=each.owner,
        project=None if each.project_id is None else NotificationProject(each.project_id, each.project_title or ""),
        subject=NotificationSubject(each.subject, each.subject_id, each.title),
        action=each.action,
        text=each.words,
        deadline=None if each.deadline is None else to_millis_text(each.deadline),
        amount=None if each.amount_minor is None else to_amount(each.amount_minor, each.currency or DEFAULT_CURRENCY),
        currency=each.currency,
        html_url=base + path_of(each),
    )
