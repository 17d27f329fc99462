"""Sign-in and sign-out, and links to sign in or set a password.

Only the button on its page uses up a link, because mail scanners, previews, and prefetching open links in advance.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from workhook.core.config import Settings
from workhook.core.errors import Invalid, NotFound, Problem, TooManyRequests
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.signin import passwords, sessions
from workhook.identity.signin.passwords import LOGIN_MAX_CHARS, check_password, complete, new_hash, set_password
from workhook.storage import Transaction
from workhook.web.frame import cookies
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.render import page
from workhook.web.frame.sessions import (
    QUERY_MAX_CHARS,
    FormKey,
    Session,
    check_sender,
    form_key,
    read_form,
    record,
    record_failure,
    redirect,
    renew_session,
    safe_return_to,
    signed_in,
    start_session,
)
from workhook.web.frame.texts import gettext, text
from workhook.web.welcome.welcome import first_page

# Also shown if a correct password was not checked: `throttle.CountedAttempt.held`.
_WRONG = text(
    "Wrong login or password. If you used your e-mail address, try your login instead. After too many failed attempts, "
    "sign-in is blocked for a few minutes."
)
_FOR_OTHERS = "/login/oauth/"  # pages that can redirect to a program's own address

routes = Routes(PAGES, "pages", etag=False)


@routes.get("/login")
async def page_login(call: Call) -> Response:
    return_to = safe_return_to(call.query_text("return_to"))
    if await signed_in(call) is not None:
        return onwards(return_to, {})
    return _login_form(call, return_to)


@routes.post("/login", action="user.sign_in")
async def page_login_post(call: Call) -> Response:
    fields = await read_form(call, None)
    return_to, login = safe_return_to(fields.get("return_to")), fields.get("login", "")
    try:
        checked = await check_password(
            call.database, login, fields.get("password", ""), call.address, cookies.device_finder(call)
        )
    except TooManyRequests as problem:
        call.refused = problem
        return _login_form(call, return_to, login, problem)

    async def let_in(tx: Transaction) -> FormKey | None:
        right = await complete(tx, checked)
        return await start_session(tx, call, checked.user) if right and checked.user is not None else None

    key = await call.database.in_transaction(let_in)
    if key is not None:
        return onwards(return_to, key.headers)
    await call.database.in_transaction(lambda tx: record_failure(tx, call, checked.user))
    return _login_form(call, return_to, login, Invalid(_WRONG))


def _login_form(call: Call, return_to: str, login: str = "", problem: Problem | None = None) -> Response:
    settings = call.services.settings
    oidc, mails = settings.oidc_issuer is not None, is_offered(settings)
    return _form(call, "signin/login.html", login, problem, return_to=return_to, oidc=oidc, mails=mails)


def _form(call: Call, template: str, login: str, problem: Problem | None, **context: Any) -> Response:
    key = form_key(call)
    return page(
        template,
        status=problem.status if problem else 200,
        headers={**key.headers, **(problem.headers if problem else {})},
        csrf=key.csrf,
        login=login[:LOGIN_MAX_CHARS],
        problem=problem and problem.message,
        **context,
    )


def onwards(return_to: str, headers: dict[str, str]) -> Response:
    """Redirect to `return_to`.

    Redirects to other programs use an intermediate page, because the policy's `form-action` blocks redirects of forms
    to other origins.
    """
    query = f"?to={quote(return_to, safe='')}"
    if return_to.startswith(_FOR_OTHERS) and len(query) <= QUERY_MAX_CHARS:
        return redirect(f"/login/continue{query}", headers)
    return redirect(return_to, headers)


@routes.get("/login/continue")
async def page_login_continue(call: Call) -> Response:
    return page("signin/continue.html", to=safe_return_to(call.query_text("to")))


@routes.post("/logout", action="user.sign_out")
async def page_logout(call: Call) -> Response:
    session = await signed_in(call)
    check_sender(call, session)  # a cross-site form has no session cookie and must not delete it
    if session is not None:
        await read_form(call, session)
        await _sign_out(call, session)
    return redirect("/login", cookies.write(call, cookies.SESSION, "", max_age_s=0))


async def _sign_out(call: Call, session: Session) -> None:
    async def end(tx: Transaction) -> None:
        await sessions.end(tx, session.user.id, session.id)
        await record(tx, call, session.user, "user.sign_out")

    await call.database.in_transaction(end)


# --- links -----------------------------------------------------------------------------------------------------------

_GONE = text("This link is invalid, has expired, or was already used. Ask your administrator for a new one.")


@routes.get("/login/link/{token}", action="user.sign_in")
async def page_link(call: Call) -> Response:
    return _link_form(call, await _find_link(call), [])


@routes.post("/login/link/{token}", action="user.sign_in")
async def page_link_post(call: Call) -> Response:
    """Sign in with a link, setting a password if the link is for that."""
    fields = await read_form(call, None)
    link = await _find_link(call)
    hashed = None
    if link.purpose == sessions.SET_PASSWORD:
        password = fields.get("password", "")
        faults = [] if password == fields.get("again") else [gettext("The passwords don’t match.")]
        faults += passwords.faults_of(password, link.user)
        if faults:
            return _link_form(call, link, faults)  # the link stays valid
        hashed = await new_hash(password, link.user)

    async def step(tx: Transaction) -> FormKey:
        if not await sessions.use_link(tx, call.path("token")):
            raise NotFound(_GONE)
        if hashed is not None:
            await set_password(tx, link.user, hashed)
            await record(tx, call, link.user, "user.password_change", {"how": "link"})
        return await start_session(tx, call, link.user, how="link")

    to = await first_page(call.database, link.user)  # before the sign-in is stored
    return redirect(to, (await call.database.in_transaction(step)).headers)


async def _find_link(call: Call) -> sessions.SignInLink:
    link = await sessions.find_link(call.database, call.path("token"))
    if link is None:
        raise NotFound(_GONE)
    return link


def _link_form(call: Call, link: sessions.SignInLink, faults: list[str]) -> Response:
    key = form_key(call)
    name = "signin/link_password.html" if link.purpose == sessions.SET_PASSWORD else "signin/link.html"
    return page(
        name, status=422 if faults else 200, headers=key.headers, has_secret=True, csrf=key.csrf,
        user=link.user, faults=faults, action=f"/login/link/{call.path('token')}",
    )  # fmt: skip


# --- a forgotten password --------------------------------------------------------------------------------------------

FORGOTTEN = "signin/forgotten.html"


def is_offered(settings: Settings) -> bool:
    """Return whether a mail server is set up, which password links require."""
    return settings.smtp_url is not None and settings.mail_from is not None


@routes.get("/login/forgotten")
async def page_forgotten(call: Call) -> Response:
    """Show the form to request a password link."""
    _require_mail(call)
    return _form(call, FORGOTTEN, "", None)


@routes.post("/login/forgotten", action="user.link_create")
async def page_forgotten_post(call: Call) -> Response:
    """Send the link. The response is the same whether or not the account exists."""
    _require_mail(call)
    fields = await read_form(call, None)
    login, settings = fields.get("login", "").strip(), call.services.settings
    if not login:
        return _form(call, FORGOTTEN, "", Invalid(""))
    try:
        await passwords.mail_password_link(
            call.database, call.services.vault, login, call.address, without_password=settings.oidc_issuer is None
        )
    except TooManyRequests as problem:
        call.refused = problem
        return _form(call, FORGOTTEN, login, problem)
    return page("signin/forgotten_sent.html", login=login[:LOGIN_MAX_CHARS], minutes=passwords.LINK_MINUTES)


def _require_mail(call: Call) -> None:
    if not is_offered(call.services.settings):
        raise NotFound()


# --- confirmation ----------------------------------------------------------------------------------------------------

_WRONG_PASSWORD = text("Wrong password. After too many failed attempts, sign-in is blocked for a few minutes.")

confirm_places = Places("confirm")


@confirm_places.get("/login/confirm")
async def ask(visit: Visit) -> Response:
    return_to = safe_return_to(visit.query("return_to"))
    return onwards(return_to, {}) if visit.session.is_recent else await _confirm_form(visit, return_to)


@confirm_places.post("/login/confirm", action="user.sign_in")
async def confirm(visit: Visit) -> Response:
    """Replace the session with a new one if the password is correct."""
    call, user = visit.call, visit.actor.user
    return_to, password = safe_return_to(visit.fields.get("return_to")), visit.fields.get("password", "")
    try:
        checked = await check_password(call.database, user.login, password, call.address, cookies.device_finder(call))
    except TooManyRequests as problem:
        call.refused = problem
        return await _confirm_form(visit, return_to, problem)

    async def renew(tx: Transaction) -> FormKey | None:
        if not await complete(tx, checked):
            return None
        await record(tx, call, user, "user.sign_in", {"how": "confirm"})
        return await renew_session(tx, call, user)

    key = await call.database.in_transaction(renew)
    if key is not None:
        return onwards(return_to, key.headers)
    await call.database.in_transaction(lambda tx: record_failure(tx, call, user))
    return await _confirm_form(visit, return_to, Invalid(gettext(_WRONG_PASSWORD)))


@confirm_places.post("/login/again", action="user.sign_out")
async def again(visit: Visit) -> Response:
    """Sign out and redirect to the sign-in page, for users without a password."""
    return_to = safe_return_to(visit.fields.get("return_to"))
    await _sign_out(visit.call, visit.session)
    gone = cookies.write(visit.call, cookies.SESSION, "", max_age_s=0)
    return redirect(f"/login?return_to={quote(return_to, safe='')}", gone)


async def _confirm_form(visit: Visit, return_to: str, problem: Problem | None = None) -> Response:
    return visit.page(
        "signin/confirm.html",
        status=problem.status if problem else 200,
        headers=problem.headers if problem else None,
        return_to=return_to,
        faults=[problem.message] if problem else [],
        has_password=await passwords.hash_of(visit.database, visit.actor.user.id) is not None,
        has_provider=visit.call.services.settings.oidc_issuer is not None,
    )
