"""Links that somebody was given: to sign in, or to set a password. Only the button uses one up: programs that look
at links in advance (mail scanners, previews, prefetch) do not press it."""

from __future__ import annotations

from workhook.core.errors import NotFound
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.signin import passwords, sessions
from workhook.identity.signin.passwords import new_hash, set_password
from workhook.storage import Transaction
from workhook.web.forms import form_key, read_form
from workhook.web.render import page
from workhook.web.sessions import record, redirect, start_session

_GONE = "This link is not good any more: it was used, or its time is over. Ask whoever runs the server for another."

routes = Routes(PAGES, "pages", etag=False)


@routes.get("/login/link/{token}")
async def page_link(call: Call) -> Answer:
    """Show a link that signs in."""
    return _form(call, await _find(call), [])


@routes.post("/login/link/{token}")
async def page_link_post(call: Call) -> Answer:
    """Use the link."""
    fields = await read_form(call, None)
    link = await _find(call)
    hashed = None
    if link.purpose == sessions.SET_PASSWORD:
        password = fields.get("password", "")
        faults = [] if password == fields.get("again") else ["The two passwords are not the same."]
        faults += passwords.faults_of(password, link.user)
        if faults:
            return _form(call, link, faults)  # it stays good
        hashed = await new_hash(password, link.user)

    async def step(tx: Transaction) -> dict[str, str]:
        if not await sessions.use_link(tx, call.path("token")):
            raise NotFound(_GONE)
        if hashed is not None:
            await set_password(tx, link.user, hashed)
            await record(tx, call, link.user, "user.password_change", {"how": "link"})
        return await start_session(tx, call, link.user, how="link")

    return redirect("/", await call.database.in_transaction(step))


async def _find(call: Call) -> sessions.SignInLink:
    link = await sessions.find_link(call.database, call.path("token"))
    if link is None:
        raise NotFound(_GONE)
    return link


def _form(call: Call, link: sessions.SignInLink, faults: list[str]) -> Answer:
    key = form_key(call)
    name = "link_password.html" if link.purpose == sessions.SET_PASSWORD else "link.html"
    return page(
        name, status=422 if faults else 200, headers=key.headers, csrf=key.csrf, user=link.user, faults=faults,
        action=f"/login/link/{call.path('token')}",
    )  # fmt: skip
