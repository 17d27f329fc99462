"""Signing in and out, and links that somebody was given: to sign in, or to set a password.

Only the button of its page uses a link up. Programs that look at links in advance (mail scanners, previews, prefetch)
do not press it.
"""

from __future__ import annotations

from urllib.parse import quote

from workhook.core.errors import NotFound, TooManyRequests
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.signin import passwords, sessions
from workhook.identity.signin.passwords import LOGIN_MAX_CHARS, check_password, complete, new_hash, set_password
from workhook.storage import Transaction
from workhook.web.frame import cookies
from workhook.web.frame.render import page
from workhook.web.frame.sessions import (
    QUERY_MAX_CHARS,
    check_sender,
    form_key,
    read_form,
    record,
    record_failure,
    redirect,
    safe_return_to,
    signed_in,
    start_session,
)
from workhook.web.frame.texts import gettext, text
from workhook.web.signin.forgotten import is_offered
from workhook.web.welcome.welcome import first_page

# The same where the password is right and is not looked at: `throttle.CountedAttempt.held`.
_WRONG = text(
    "The login or the password is not right. If you have typed your e-mail address, try your login. After many failed "
    "attempts none is taken for some minutes."
)
_FOR_OTHERS = "/login/oauth/"  # pages that can lead on to a program's own address

routes = Routes(PAGES, "pages", etag=False)


@routes.get("/login")
async def page_login(call: Call) -> Answer:
    """Ask who signs in."""
    return_to = safe_return_to(call.query_text("return_to"))
    if await signed_in(call) is not None:
        return onwards(return_to, {})
    return _login_form(call, return_to)


@routes.post("/login", action="user.sign_in")
async def page_login_post(call: Call) -> Answer:
    """Sign in."""
    fields = await read_form(call, None)
    return_to, login = safe_return_to(fields.get("return_to")), fields.get("login", "")
    try:
        checked = await check_password(
            call.database, login, fields.get("password", ""), call.address, cookies.device_finder(call)
        )
    except TooManyRequests as problem:
        call.refused = problem
        return _login_form(call, return_to, login, problem.message, status=429, headers=problem.headers)

    async def let_in(tx: Transaction) -> dict[str, str] | None:
        right = await complete(tx, checked)
        return await start_session(tx, call, checked.user) if right and checked.user is not None else None

    headers = await call.database.in_transaction(let_in)
    if headers is not None:
        return onwards(return_to, headers)
    await call.database.in_transaction(lambda tx: record_failure(tx, call, checked.user))
    return _login_form(call, return_to, login, _WRONG, status=422)


def _login_form(
    call: Call,
    return_to: str,
    login: str = "",
    problem: str | None = None,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Answer:
    key = form_key(call)
    return page(
        "signin/login.html",
        status=status,
        headers={**key.headers, **(headers or {})},
        csrf=key.csrf,
        return_to=return_to,
        login=login[:LOGIN_MAX_CHARS],
        problem=problem,
        oidc=call.services.settings.oidc_issuer is not None,
        mails=is_offered(call.services.settings),
    )


def onwards(return_to: str, headers: dict[str, str]) -> Answer:
    """Where a page leads on to another address, by a step between: browsers do not follow a form that is answered by
    redirects to an address that the form's own page did not name (the policy's `form-action`)."""
    query = f"?to={quote(return_to, safe='')}"
    if return_to.startswith(_FOR_OTHERS) and len(query) <= QUERY_MAX_CHARS:
        return redirect(f"/login/continue{query}", headers)
    return redirect(return_to, headers)


@routes.get("/login/continue")
async def page_login_continue(call: Call) -> Answer:
    """Lead on to the address that the person came from."""
    return page("signin/continue.html", to=safe_return_to(call.query_text("to")))


@routes.post("/logout", action="user.sign_out")
async def page_logout(call: Call) -> Answer:
    """Sign out."""
    session = await signed_in(call)
    check_sender(call, session)  # a form of another site comes without the session's cookie, and must not delete it
    if session is not None:
        user, session_id = session.user, session.id
        await read_form(call, session)

        async def end(tx: Transaction) -> None:
            await sessions.end(tx, user.id, session_id)
            await record(tx, call, user, "user.sign_out")

        await call.database.in_transaction(end)
    return redirect("/login", cookies.write(call, cookies.SESSION, "", max_age_s=0))


# --- links -----------------------------------------------------------------------------------------------------------

_GONE = text(
    "This link is not good any more: it was used, or its time is over. Ask whoever runs the server for another."
)


@routes.get("/login/link/{token}", action="user.sign_in")
async def page_link(call: Call) -> Answer:
    """Show a link that signs in."""
    return _link_form(call, await _find_link(call), [])


@routes.post("/login/link/{token}", action="user.sign_in")
async def page_link_post(call: Call) -> Answer:
    """Use the link."""
    fields = await read_form(call, None)
    link = await _find_link(call)
    hashed = None
    if link.purpose == sessions.SET_PASSWORD:
        password = fields.get("password", "")
        faults = [] if password == fields.get("again") else [gettext("The two passwords are not the same.")]
        faults += passwords.faults_of(password, link.user)
        if faults:
            return _link_form(call, link, faults)  # it stays good
        hashed = await new_hash(password, link.user)

    async def step(tx: Transaction) -> dict[str, str]:
        if not await sessions.use_link(tx, call.path("token")):
            raise NotFound(_GONE)
        if hashed is not None:
            await set_password(tx, link.user, hashed)
            await record(tx, call, link.user, "user.password_change", {"how": "link"})
        return await start_session(tx, call, link.user, how="link")

    to = await first_page(call.database, link.user)  # before the sign-in is noted
    return redirect(to, await call.database.in_transaction(step))


async def _find_link(call: Call) -> sessions.SignInLink:
    link = await sessions.find_link(call.database, call.path("token"))
    if link is None:
        raise NotFound(_GONE)
    return link


def _link_form(call: Call, link: sessions.SignInLink, faults: list[str]) -> Answer:
    key = form_key(call)
    name = "signin/link_password.html" if link.purpose == sessions.SET_PASSWORD else "signin/link.html"
    return page(
        name, status=422 if faults else 200, headers=key.headers, has_secret=True, csrf=key.csrf,
        user=link.user, faults=faults, action=f"/login/link/{call.path('token')}",
    )  # fmt: skip
