"""`/mail/unsubscribe/{token}`: ends a kind of mail for one person without signing in (RFC 8058).

Mail programs send a POST by themselves when their reader asks for it. Whoever follows the link sees a page with a
button: programs that look at links in advance do not press it. The token alone says whose mail it is and of which kind,
and it can do nothing else. The page does not tell whether such a person exists.
"""

from __future__ import annotations

from workhook.core.errors import NotFound
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.mail.unsubscribing import PATH, Subscription, read_token
from workhook.identity.queries import find_account_by_id
from workhook.storage import Transaction
from workhook.web.frame.render import page
from workhook.web.frame.texts import gettext, text
from workhook.web.inbox.sentences import KINDS as WORDS
from workhook.work.discussion.notifications.settings import Choice, choose, find_settings

routes = Routes(PAGES, "pages", etag=False)


@routes.get("/mail/unsubscribe/{token}")
async def page_unsubscribe(call: Call) -> Answer:
    """Ask whether to end a kind of e-mail."""
    return _page(call, _subscription(call), done=False)


@routes.post("/mail/unsubscribe/{token}")
async def page_unsubscribe_post(call: Call) -> Answer:
    """End a kind of e-mail."""
    subscription = _subscription(call)
    await call.database.in_transaction(lambda tx: _end(tx, subscription))
    return _page(call, subscription, done=True)


async def _end(tx: Transaction, subscription: Subscription) -> None:
    user = await find_account_by_id(tx, subscription.user_id)
    if user is not None:
        before = (await find_settings(tx, user.id))[subscription.kind]
        await choose(tx, user.id, {subscription.kind: Choice(inbox=before.inbox, email=False)})


def _subscription(call: Call) -> Subscription:
    """Raises `NotFound`."""
    found = read_token(call.services.vault, call.path("token"))
    if found is None:
        raise NotFound(text("This address is not good. Choose in your settings what you are told of."))
    return found


def _page(call: Call, subscription: Subscription, *, done: bool) -> Answer:
    label, hint = map(gettext, WORDS[subscription.kind])
    return page("mail/unsubscribe.html", done=done, label=label, hint=hint, address=PATH + call.path("token"))
