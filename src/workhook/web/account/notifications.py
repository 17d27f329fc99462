"""Notification settings, and `/mail/unsubscribe/{token}` for one-click unsubscribing (RFC 8058)."""

from __future__ import annotations

from workhook.core.clock import now_ms
from workhook.core.errors import NotFound
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.context import Write
from workhook.identity.mail import recipients
from workhook.identity.mail.links import (
    CONFIRM_PATH,
    Subscription,
    is_confirmed_by,
    queue_confirmation,
    read_subscription,
)
from workhook.identity.mail.links import UNSUBSCRIBE_PATH as UNSUBSCRIBE_PATH
from workhook.identity.mail.recipients import confirm_address, find_recipient, forget_bounce, record_language
from workhook.identity.queries import find_account_by_id
from workhook.identity.signin import passwords
from workhook.identity.tables import NOTIFICATION_KINDS
from workhook.storage import Reader, Transaction
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.render import page
from workhook.web.frame.texts import gettext, language, text
from workhook.web.inbox import KINDS as WORDS
from workhook.work.history.notifications import KindSetting, find_settings, save_settings

places = Places("notification_settings")

INBOX, EMAIL = "inbox ", "email "  # the prefixes of a kind's checkboxes
ADDRESS = "/settings/notifications"


@places.get("/settings/notifications")
async def notification_settings(visit: Visit) -> Response:
    chosen = await find_settings(visit.database, visit.actor.user.id)
    kinds = [(kind, *map(gettext, WORDS[kind][1:]), choice) for kind, choice in chosen.items()]
    recipient = await find_recipient(visit.database, visit.actor.user.id)
    return visit.page("account/notifications.html", kinds=kinds, has_mail=recipients.sends_mail(), recipient=recipient)


@places.post("/settings/notifications", action="notification_setting.edit")
async def edit_notification_settings(visit: Visit) -> Response:
    # Without a mail server the page has no e-mail checkboxes, and the stored choices are kept.
    has_email = "email" in visit.fields

    async def save(write: Write) -> None:
        user_id = write.actor.user.id
        before = await find_settings(write.tx, user_id)
        wanted = {
            kind: KindSetting(
                inbox=visit.fields.get(INBOX + kind) == "on",
                email=visit.fields.get(EMAIL + kind) == "on" if has_email else before[kind].email,
            )
            for kind in NOTIFICATION_KINDS
        }
        if has_email:
            record_language(write.tx, user_id, language())
        await save_settings(write.tx, user_id, wanted)

    await visit.change(save)
    return visit.done(ADDRESS, gettext("Notification settings saved."))


@places.post("/settings/notifications/address", action="notification_setting.edit")
async def trust_address(visit: Visit) -> Response:
    """Resume sending to the visitor's address after a bounce."""

    await visit.change(lambda write: forget_bounce(write.tx, write.actor.user.id))
    return visit.done(ADDRESS, gettext("Workhook sends e-mail to your address again."))


@places.post("/settings/notifications/confirm", action="notification_setting.edit")
async def ask_to_confirm(visit: Visit) -> Response:
    """Send a confirmation link to the address that the visitor entered."""

    async def ask(write: Write) -> None:
        recipient = await find_recipient(write.tx, write.actor.user.id)
        if recipient is None or recipient.own is None or not recipients.sends_mail():
            raise NotFound()
        await queue_confirmation(write.tx, write.actor.user.id, recipient.own, language=language(), now=write.now)

    await visit.change(ask)
    return visit.done(
        ADDRESS,
        gettext("Check your inbox for a confirmation link. If it doesn’t arrive, try again tomorrow."),
    )


@places.get("/settings/notifications/confirm/{token}", action="notification_setting.edit")
async def show_confirmation(visit: Visit) -> Response:
    address = await _confirmed_by(visit, visit.database)
    return visit.page("account/confirm_address.html", address=address, action=f"{CONFIRM_PATH}{visit.path('token')}")


@places.post("/settings/notifications/confirm/{token}", action="notification_setting.edit")
async def confirm(visit: Visit) -> Response:
    """Confirm the address to which the link was sent."""

    async def save(write: Write) -> None:
        await confirm_address(write.tx, write.actor.user.id, await _confirmed_by(visit, write.tx))

    await visit.change(save)
    return visit.done(ADDRESS, gettext("Address confirmed. You’ll receive e-mail from now on."))


async def _confirmed_by(visit: Visit, reader: Reader) -> str:
    """Return the visitor's address if the link was sent to it. Raises `NotFound`."""
    user_id, token = visit.actor.user.id, visit.path("token")
    address = await passwords.find_email(reader, user_id)
    vault = visit.call.services.vault
    if not address or not is_confirmed_by(vault, user_id, address, token, now_ms()):
        raise NotFound(text("This link is invalid, has expired, or belongs to another account."))
    return address


# Mail programs send the POST themselves when their reader unsubscribes. The link only shows a page with a button,
# because some programs open links in advance. The token identifies the recipient and the kind of e-mail, and grants
# nothing else. The page does not reveal whether the recipient exists.
routes = Routes(PAGES, "pages", etag=False)


@routes.get("/mail/unsubscribe/{token}", action="notification_setting.edit")
async def page_unsubscribe(call: Call) -> Response:
    return _page(call, _subscription(call), done=False)


@routes.post("/mail/unsubscribe/{token}", action="notification_setting.edit")
async def page_unsubscribe_post(call: Call) -> Response:
    subscription = _subscription(call)
    await call.database.in_transaction(lambda tx: _end(tx, subscription))
    return _page(call, subscription, done=True)


async def _end(tx: Transaction, subscription: Subscription) -> None:
    user = await find_account_by_id(tx, subscription.user_id)
    if user is not None:
        before = (await find_settings(tx, user.id))[subscription.kind]
        await save_settings(tx, user.id, {subscription.kind: KindSetting(inbox=before.inbox, email=False)})


def _subscription(call: Call) -> Subscription:
    """Return the subscription in the link. Raises `NotFound` if the link is invalid or has expired."""
    found = read_subscription(call.services.vault, call.path("token"))
    if found is None:
        raise NotFound(text("This link is invalid or has expired. Change your notification settings instead."))
    return found


def _page(call: Call, subscription: Subscription, *, done: bool) -> Response:
    label, hint = map(gettext, WORDS[subscription.kind][1:])
    return page(
        "mail/unsubscribe.html", done=done, label=label, hint=hint, address=UNSUBSCRIBE_PATH + call.path("token")
    )
