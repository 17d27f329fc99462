"""A person's notifications and notification e-mails, limited by the person's current access, and their settings.

Each notification is read together with its project. A person has few enough notifications to read them all: they are
kept for 90 days, at most the newest 1,000 per person. A task records the due date its assignees were notified of, so
they are notified once per due date and again when it changes. Tasks with an unannounced due date have their own index,
so announced ones are not scanned again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import DAY_MS, HOUR_MS, now_ms, to_millis_text
from workhook.core.errors import NotFound
from workhook.core.money import DEFAULT_CURRENCY, to_amount
from workhook.http import lists
from workhook.http.calls import Call, Services
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.http.wire_types import Time
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.invitations import (
    NOBODY,
    Invitation,
    for_invited,
    holds,
    invitation_of,
    invited,
    may_invite,
    to_organizations,
    to_repositories,
)
from workhook.identity.notifications import notification_statements
from workhook.identity.schemas import Account, Actor
from workhook.identity.tables import (
    NOTIFICATION_KINDS,
    NotificationKind,
    accounts,
    invitations,
    mail_messages,
    notification_settings,
    notifications,
    projects,
)
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import bigint_param
from workhook.storage.record_rows import assigned
from workhook.storage.sweeping import in_batches, in_order
from workhook.work.board.tasks.assignees import is_client_there, on_team
from workhook.work.board.tasks.schemas import needs_reminder, task_assignees, tasks
from workhook.work.discussion.markdown import plain_words, prepare_words
from workhook.work.discussion.mentions import beginning, is_hidden, quoted
from workhook.work.discussion.schemas import file_comment_replies, file_comments, task_comments
from workhook.work.files.schemas import files
from workhook.work.kernel.access import RANKS, is_client, is_insider
from workhook.work.kernel.people import ADDRESS_HIDDEN, PersonShape, person_columns, person_of_row
from workhook.work.kernel.schemas import Done, if_set
from workhook.work.money.invoices.schemas import invoices
from workhook.work.money.payments.schemas import payments

routes = Routes(WORK_API, "Notifications", read="notifications.read", write="notifications.write")

Subject = Literal["task", "file", "invoice", "invitation", "webhook"]


class Notification(msgspec.Struct, frozen=True):
    """A notification, limited by the person's current access.

    `subject_id` and `title` describe the `subject`; the title of an invoice is its number, that of an invitation the
    organization or project. `owner` is the login at the start of the project's URL. `action` is what happened to an
    invoice, the kind of a payment, or the role of an invitation. `words` is the beginning of a comment without markup,
    or the reason why a webhook was disabled.
    """

    id: int
    kind: NotificationKind
    created_at: int
    read_at: int | None
    actor: PersonShape | None
    owner: str
    project_id: str | None
    project_name: str | None
    project_title: str | None
    subject: Subject
    subject_id: str
    title: str
    action: str | None = None
    words: str | None = None
    comment: str | None = None
    """The fragment of a mention's comment on the page of its task or file, such as `comment-3`."""
    deadline: int | None = None
    amount_minor: int | None = None
    currency: str | None = None


_person = bigint_param("user_id")
_actors = accounts.alias("actors")
_owners = accounts.alias("owners")


def join_subjects(rows: sa.FromClause, table: sa.Table) -> sa.Join:
    """Join `rows`, which include `table`, with the tables that `visible_condition` reads."""
    c = table.c
    file_comment_id = sa.func.coalesce(c.file_comment_id, file_comment_replies.c.file_comment_id)
    task_id = sa.func.coalesce(c.task_id, task_comments.c.task_id)
    return (
        rows.join(_owners, _owners.c.id == c.account_id)
        .outerjoin(projects, projects.c.repository_id == c.repository_id)
        .outerjoin(task_comments, task_comments.c.id == c.task_comment_id)
        .outerjoin(file_comment_replies, file_comment_replies.c.id == c.file_comment_reply_id)
        .outerjoin(file_comments, file_comments.c.id == file_comment_id)
        .outerjoin(files, files.c.id == file_comments.c.file_id)
        .outerjoin(tasks, tasks.c.id == task_id)
        .outerjoin(invitations, invitations.c.id == c.invitation_id)
    )


def visible_condition(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition under which the person may see the notification.

    Parameters: `user_id`, `now`, and those of `invitations.invited`.
    """
    c = table.c
    return sa.and_(
        projects.c.deleted_at.is_(None),
        tasks.c.deleted_at.is_(None),
        files.c.deleted_at.is_(None),
        sa.case(
            (c.kind == "invitation", sa.and_(holds, for_invited)),
            (c.kind == "hook_disabled", may_invite(c.account_id, c.repository_id, _person)),
            else_=sa.or_(is_insider(_person), sa.and_(is_client, sa.not_(is_hidden))),
        ),
    )


_PLAIN = (
    "id", "kind", "created_at", "detail", "task_comment_id", "file_comment_id", "file_comment_reply_id", "hook_id",
    "invitation_id",
)  # fmt: skip


def notification_rows(rows: sa.FromClause, table: sa.Table, *further: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select rows for `to_notification`. Takes the parameters of `visible_condition`."""
    c = table.c
    return (
        sa.select(
            *(c[name] for name in _PLAIN),
            *further,
            *person_columns(ADDRESS_HIDDEN, _actors, "actor_"),
            _owners.c.login.label("owner_login"),
            *(projects.c[name].label(f"project_{name}") for name in ("id", "name", "title")),
            tasks.c.id.label("task_id"),
            tasks.c.title.label("task_title"),
            files.c.id.label("file_id"),
            files.c.title.label("file_title"),
            invoices.c.id.label("invoice_id"),
            invoices.c.invoice_number,
            *(payments.c[name].label(f"payment_{name}") for name in ("id", "kind", "amount_minor", "currency")),
            invitations.c.role.label("invitation_role"),
            beginning(sa.func.coalesce(task_comments.c.text, file_comments.c.text)).label("comment_text"),
            beginning(file_comment_replies.c.plain_body).label("reply_text"),
        )
        .select_from(
            join_subjects(rows, table)
            .outerjoin(_actors, _actors.c.id == c.actor_id)
            .outerjoin(invoices, invoices.c.id == c.invoice_id)
            .outerjoin(payments, payments.c.id == c.payment_id)
        )
        .where(visible_condition(table))
    )


def to_notification(row: Row, read_at: int | None) -> Notification:
    kind: NotificationKind = row["kind"]
    return Notification(
        id=row["id"],
        kind=kind,
        created_at=row["created_at"],
        read_at=read_at,
        actor=person_of_row(row, "actor_") if row["actor_id"] is not None else None,
        owner=row["owner_login"],
        project_id=row["project_id"],
        project_name=row["project_name"],
        project_title=row["project_title"],
        **_about(kind, row),
    )


def _about(kind: NotificationKind, row: Row) -> Mapping[str, Any]:
    if kind == "invoice":
        about = {"subject": "invoice", "subject_id": row["invoice_id"], "title": row["invoice_number"]}
        return {**about, "action": row["detail"]}
    if kind == "payment":
        money = {"amount_minor": row["payment_amount_minor"], "currency": row["payment_currency"]}
        about = {"subject": "invoice", "subject_id": row["invoice_id"], "title": row["invoice_number"]}
        return {**about, **money, "action": row["payment_kind"]}
    if kind == "invitation":
        place = row["owner_login"] if row["project_id"] is None else f"{row['owner_login']}/{row['project_name']}"
        about = {"subject": "invitation", "subject_id": str(row["invitation_id"]), "title": place}
        return {**about, "action": row["invitation_role"]}
    if kind == "hook_disabled":
        number = str(row["hook_id"])
        return {"subject": "webhook", "subject_id": number, "title": number, "words": row["detail"]}
    subject = "task" if row["task_id"] is not None else "file"
    about = {"subject": subject, "subject_id": row[f"{subject}_id"], "title": row[f"{subject}_title"]}
    if kind == "mention" and (reply_id := row["file_comment_reply_id"]) is not None:
        return {**about, "words": quoted(row["reply_text"]), "comment": f"reply-{reply_id}"}
    if kind == "mention":
        number = row["task_comment_id"] or row["file_comment_id"]
        return {**about, "words": quoted(plain_words(row["comment_text"])), "comment": f"comment-{number}"}
    return {**about, "deadline": int(row["detail"])} if kind == "deadline" else about


ID_MAX = 2**53 - 1


_FOLDERS = {"task": "tasks", "file": "files", "invoice": "billing", "webhook": "webhooks"}


def path_of(each: Notification) -> str:
    if each.subject == "invitation":
        return "/"
    place = f"{each.owner}/-" if each.project_name is None else f"{each.owner}/{each.project_name}"
    path = f"/{place}/{_FOLDERS[each.subject]}/{each.subject_id}"
    return path if each.comment is None else f"{path}#{each.comment}"


SCAN_MAX = 1_000
COUNTED_MAX, COUNTS_AMONG = 100, 200
"""The highest count of unread notifications, and the number of newest ones among which they are counted."""

_c = notifications.c
_picked = notifications.alias("picked")
_of_person = _c.user_id == _person
_is_unread = _c.read_at.is_(None)


def _newest(*further: sa.ColumnElement[bool]) -> sa.Join:
    """Select the person's newest notifications by an index, before any joins."""
    some = sa.select(_picked.c.id).where(_picked.c.user_id == _person, *further)
    newest = some.order_by(_picked.c.id.desc()).limit(bigint_param("looks_at")).subquery("newest")
    return newest.join(notifications, _c.id == newest.c.id)


def _visible(*further: sa.ColumnElement[bool]) -> sa.Select[Any]:
    subjects = join_subjects(_newest(*further), notifications)
    return sa.select(_c.id).select_from(subjects).where(visible_condition(notifications))


def _listing(*further: sa.ColumnElement[bool]) -> sa.Select[Any]:
    newest = _newest(_picked.c.id < bigint_param("before"), *further)
    return notification_rows(newest, notifications, _c.read_at).order_by(_c.id.desc()).limit(bigint_param("limit"))


_picked_unread = _picked.c.read_at.is_(None)
_listed, _unread = _listing(), _listing(_picked_unread)
_read = _listing(_picked.c.read_at.is_not(None))
_count = sa.select(sa.func.count().label("number")).select_from(
    _visible(_picked_unread).limit(sa.literal_column(str(COUNTED_MAX))).subquery("unread")
)
_visible_notification = _visible(_picked.c.id == bigint_param("id"))
_mark = sa.update(notifications).where(_of_person, _is_unread).values(read_at=bigint_param("now"))
_read_one, _read_all = _mark.where(_c.id == bigint_param("id")), _mark.where(_c.id <= bigint_param("upto"))


async def find_notifications(
    reader: Reader, actor: Actor, *, unread: bool | None, before: int, limit: int
) -> list[Notification]:
    """Return notifications with IDs below `before`, newest first."""
    statement = _listed if unread is None else _unread if unread else _read
    params = {**visibility_params(actor.user), "before": before, "limit": limit, "looks_at": SCAN_MAX}
    rows = await reader.fetch_all(statement, params)
    await prepare_words(row["comment_text"] for row in rows)
    return [to_notification(row, row["read_at"]) for row in rows]


async def count_unread(reader: Reader, actor: Actor) -> int:
    """Return the number of unread notifications, at most `COUNTED_MAX`."""
    row = await reader.fetch_row(_count, {**visibility_params(actor.user), "looks_at": COUNTS_AMONG})
    return int(row["number"])


async def mark_read(tx: Transaction, actor: Actor, notification_id: int, now: int) -> bool:
    """Mark a notification as read. Returns False if the person has no such notification."""
    params = {**visibility_params(actor.user), "id": notification_id, "looks_at": 1}
    if await tx.fetch_one(_visible_notification, params) is None:
        return False
    await tx.execute(_read_one, {"user_id": actor.user.id, "id": notification_id, "now": now})
    return True


async def mark_all_read(tx: Transaction, actor: Actor, now: int, upto: int) -> int:
    """Mark notifications with IDs up to `upto` as read, and return how many were unread."""
    return await tx.execute(_read_all, {"user_id": actor.user.id, "upto": upto, "now": now})


def visibility_params(user: Account) -> dict[str, object]:
    """Return the parameters of `visible_condition`."""
    return {"user_id": user.id, "now": now_ms(), **invited(user)}


# --- the content of a message, with its recipient's access at the time it is composed ---------------------------------

_mail_notification = notification_rows(mail_messages, mail_messages).where(mail_messages.c.id == bigint_param("id"))
_by_invitation_id = invitations.c.id == bigint_param("id")
_to_organization, _to_repository = to_organizations.where(_by_invitation_id), to_repositories.where(_by_invitation_id)


async def find_mail_notification(reader: Reader, user: Account, message_id: int) -> Notification | None:
    """Return the notification of a mail message, or None if the user may no longer see it."""
    row = await reader.fetch_one(_mail_notification, {**visibility_params(user), "id": message_id})
    if row is None:
        return None
    await prepare_words([row["comment_text"]])
    return to_notification(row, read_at=None)


async def find_invitation(reader: Reader, invitation_id: int) -> Invitation | None:
    """Return the invitation, or None if it is invalid or has no link."""
    params = {"id": invitation_id, "user_id": NOBODY, "now": now_ms()}
    for statement in (_to_organization, _to_repository):
        row = await reader.fetch_one(statement, params)
        if row is not None:
            found = invitation_of(row, None)
            return found if found.has_link else None
    return None


class NotificationsQuery(lists.ListQuery):
    """Filters of notifications. `unread` selects only unread (true) or only read (false) notifications."""

    unread: Annotated[bool, Meta(description="Only those that are not read yet. Default: all.")] | UnsetType = UNSET


class NotificationProject(msgspec.Struct):
    id: str
    title: str


class NotificationSubject(msgspec.Struct):
    """The subject of a notification."""

    type: Literal["task", "file", "invoice", "invitation", "webhook"]
    id: str
    title: Annotated[
        str,
        Meta(description="Number of an invoice, organization or project of an invitation, or ID of a webhook."),
    ]


class NotificationShape(msgspec.Struct):
    """A notification of the caller. `actor` is null if Workhook itself acted."""

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
            description="For an invoice `sent`, `voided`, or `credited`; for a payment `payment` or `refund`; "
            "for an invitation the role."
        ),
    ]
    text: Annotated[str | None, Meta(description="Beginning of the comment, or why the webhook was disabled.")]
    deadline: Time | None
    amount: Annotated[float | None, Meta(description="Amount of a payment; negative for a refund.")]
    currency: str | None
    html_url: str


class NotificationsAnswer(msgspec.Struct):
    notifications: list[NotificationShape]
    success: bool = True


@routes.get("/me/notifications")
async def list_notifications(call: Call, query: NotificationsQuery) -> Listed[NotificationsAnswer]:
    """List the caller's notifications, newest first.

    A notification about a project is listed as long as the caller can see the project and the subject. Users are not
    notified of their own actions. Notifications are kept for 90 days, at most the newest 1,000 per person.
    """
    key = lists.after(query, tuple[int])
    found = await find_notifications(
        call.database,
        actor_of(call),
        unread=None if isinstance(query.unread, UnsetType) else query.unread,
        before=max(0, min(key[0], ID_MAX)) if key else ID_MAX,
        limit=query.limit + 1,
    )
    shown, headers = lists.page(call, found, query, lambda each: (each.id,))
    base = call.base.removesuffix(call.prefix)
    return Listed(NotificationsAnswer([_shape(each, base) for each in shown]), headers)


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


# --- notification settings: every kind is enabled for the inbox and e-mail by default ---------------------------------


class KindSetting(msgspec.Struct):
    """The notification channels for one kind."""

    inbox: Annotated[bool, Meta(description="In the list of notifications.")]
    email: Annotated[bool, Meta(description="By e-mail, if the server sends e-mail and the caller has an address.")]


_chosen = notification_settings.c
_saved_settings = sa.select(
    _chosen.kind, _chosen.inbox, sa.func.coalesce(_chosen.email, _chosen.inbox).label("email")
).where(_chosen.user_id == bigint_param("user_id"))
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


def settings_answer(chosen: Mapping[NotificationKind, KindSetting]) -> NotificationSettingsAnswer:
    return NotificationSettingsAnswer(NotificationSettings(**{str(kind): each for kind, each in chosen.items()}))


_Newest = Annotated[int, Meta(ge=0, le=ID_MAX, description="Only this notification and older ones. Default: all.")]


class NotificationsReadBody(msgspec.Struct):
    """The notifications to mark as read. `upto` is the newest one the caller has seen."""

    upto: _Newest | UnsetType = UNSET


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


@routes.post("/me/notifications/{notification_id}/read", action="notification.mark_read")
async def read_notification(write: Write, notification_id: int) -> Done:
    """Mark a notification as read."""
    _rests_on_oneself(write)
    if not await mark_read(write.tx, write.actor, notification_id, write.now):
        raise NotFound()
    return Done()


@routes.post("/me/notifications/read", action="notification.mark_read")
async def read_notifications(write: Write, wanted: NotificationsReadBody) -> Done:
    """Mark all notifications as read."""
    _rests_on_oneself(write)
    upto = ID_MAX if isinstance(wanted.upto, UnsetType) else wanted.upto
    await mark_all_read(write.tx, write.actor, write.now, upto)
    return Done()


@routes.get("/me/notification_settings")
async def get_notification_settings(call: Call) -> NotificationSettingsAnswer:
    """Get the caller's notification settings."""
    return settings_answer(await find_settings(call.database, actor_of(call).user.id))


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


# --- chores: pruning notifications, and announcing due dates ----------------------------------------------------------

KEPT_MS = 90 * DAY_MS
KEPT_MAX = 1_000
BATCH, PEOPLE = 1_000, 100
_LOOKS_BACK_MS = 26 * HOUR_MS
"""Only people with a notification since the last run can exceed the maximum."""

_aged = notifications.alias("aged")
_old = (
    sa.select(_aged.c.id)
    .where(_aged.c.created_at < bigint_param("before"))
    .order_by(_aged.c.created_at)
    .limit(bigint_param("limit"))
)
_forget = sa.delete(notifications).where(_c.id.in_(_old.with_for_update(skip_locked=True)))
_users_with_notifications = (
    sa.select(_c.user_id)
    .where(_c.created_at >= bigint_param("since"), _c.user_id > bigint_param("after"))
    .distinct()
    .order_by(_c.user_id)
    .limit(bigint_param("limit"))
)
_newer = notifications.alias("newer")
_first_beyond = (
    sa.select(_newer.c.id)
    .where(_newer.c.user_id == bigint_param("user_id"))
    .order_by(_newer.c.id.desc())
    .limit(sa.literal_column("1"))
    .offset(bigint_param("kept"))
    .scalar_subquery()
)
_shorten = sa.delete(notifications).where(_c.user_id == bigint_param("user_id"), _c.id <= _first_beyond)


async def prune(services: Services, now: int) -> int:
    """Delete expired notifications and those beyond each person's maximum, and return their number."""
    database = services.database

    async def forget(limit: int, _: int) -> int:
        params = {"before": now - KEPT_MS, "limit": limit}
        return await database.in_transaction(lambda tx: tx.execute(_forget, params))

    async def following(last: Row | None, limit: int) -> Sequence[Row]:
        params = {"since": now - _LOOKS_BACK_MS, "after": last["user_id"] if last else 0, "limit": limit}
        return await database.fetch_all(_users_with_notifications, params)

    async def shorten(_: Row | None, rows: Sequence[Row]) -> int:
        async def each(tx: Transaction) -> int:
            return sum([await tx.execute(_shorten, {"user_id": row["user_id"], "kept": KEPT_MAX}) for row in rows])

        return await database.in_transaction(each)

    forgotten = await in_batches("notifications", BATCH, forget)
    return forgotten + await in_order("notifications", PEOPLE, following, shorten)


DEADLINES_BATCH = 200

_DAY = sa.literal_column(str(DAY_MS), sa.BigInteger)

# A due date without a time lasts until the end of the day. Tasks locked by another process are skipped.
_due = (
    sa.select(tasks.c.id)
    .where(
        needs_reminder,
        tasks.c.deadline > bigint_param("day_ago"),
        tasks.c.deadline <= bigint_param("until"),
        sa.or_(tasks.c.deadline > bigint_param("now"), tasks.c.deadline % _DAY == sa.literal_column("0")),
    )
    .order_by(tasks.c.deadline)
    .limit(bigint_param("limit"))
    .with_for_update(skip_locked=True)
)

_by_task_ids = any_of(tasks.c.id, "ids")

_assigned = (
    sa.select(accounts)
    .select_from(
        tasks.join(task_assignees, task_assignees.c.task_id == tasks.c.id)
        .join(accounts, accounts.c.id == task_assignees.c.user_id)
        .join(projects, projects.c.repository_id == tasks.c.repository_id)
    )
    .where(
        _by_task_ids,
        projects.c.deleted_at.is_(None),
        projects.c.archive.is_(sa.false()),
        sa.or_(on_team, is_client_there),
    )
)

_tell = notification_statements(
    "deadline",
    _assigned,
    {
        "task_id": tasks.c.id,
        "repository_id": tasks.c.repository_id,
        "account_id": projects.c.account_id,
        "detail": sa.cast(tasks.c.deadline, sa.Text),
    },
)

_note = sa.update(tasks).where(_by_task_ids).values(deadline_told=tasks.c.deadline)


async def notify_of_due_dates(services: Services, now: int) -> int:
    """Notify assignees of due dates within a day after `now`, except in archived projects.

    Returns the number of tasks read.
    """

    span = {"now": now, "day_ago": now - DAY_MS, "until": now + DAY_MS}

    async def some(limit: int, _: int) -> int:
        async def tell(tx: Transaction) -> int:
            rows = await tx.fetch_all(_due, {**span, "limit": limit})
            if rows:
                ids = {"ids": [row["id"] for row in rows]}
                await _tell.execute(tx, {**ids, "actor_id": None, "now": now})
                await tx.execute(_note, ids)
            return len(rows)

        return await services.database.in_transaction(tell)

    return await in_batches("deadlines", DEADLINES_BATCH, some)
