"""The start page, and what a user looks after there: password, sessions, and what apps may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workhook.core.errors import Invalid, NotFound, TooManyRequests
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.oauth import grants
from workhook.identity.signin import passwords, sessions
from workhook.identity.signin.passwords import PasswordCheck, check_password, complete, new_hash, set_password
from workhook.storage import Transaction
from workhook.web.frame import cookies
from workhook.web.frame.render import page
from workhook.web.frame.sessions import Session, read_form, record, redirect, renew_session, sign_in_redirect, signed_in

_WRONG = "The current password is not right."
_HELD = "There were too many failed attempts to sign in with your name or e-mail address. Try again in some minutes."

routes = Routes(PAGES, "pages", etag=False)


async def home(call: Call) -> Answer:
    session = await signed_in(call)
    if session is None:
        return sign_in_redirect(call)
    return page(
        "account/settings.html",
        session=session,
        sessions=await sessions.list_of(call.database, session.user.id),
        grants=await grants.list_grants(call.database, session.user.id),
        has_password=await passwords.hash_of(call.database, session.user.id) is not None,
    )


@routes.post("/settings/sessions/{session_id}/end")
async def page_session_end(call: Call) -> Answer:
    """End a session."""

    async def step(tx: Transaction, session: Session) -> None:
        session_id = call.path_integer("session_id")
        if not await sessions.end(tx, session.user.id, session_id):
            raise NotFound("There is no such session any more.")
        await record(tx, call, session.user, "user.session_end", {"session_id": session_id})

    return await _change(call, step)


@routes.post("/settings/sessions/end-others")
async def page_sessions_end(call: Call) -> Answer:
    """End all other sessions."""

    async def step(tx: Transaction, session: Session) -> None:
        ended = await sessions.end_others(tx, session.user.id, session.id)
        await record(tx, call, session.user, "user.session_end", {"sessions": ended})

    return await _change(call, step)


@routes.post("/settings/grants/{grant_id}/revoke")
async def page_grant(call: Call) -> Answer:
    """Revoke what an app was allowed."""

    async def step(tx: Transaction, session: Session) -> None:
        app_id = await grants.revoke_own_grant(tx, session.user.id, call.path_integer("grant_id"))
        if app_id is None:
            raise NotFound("There is no such authorization any more.")
        await record(tx, call, session.user, "grant.revoke", {"app_id": app_id})

    return await _change(call, step)


async def _change(call: Call, step: Callable[[Transaction, Session], Awaitable[None]]) -> Answer:
    """Do what a form of the start page asks for, and show that page again."""
    session = await signed_in(call)
    if session is None:
        return redirect("/login")
    await read_form(call, session)
    await call.database.in_transaction(lambda tx: step(tx, session))
    return redirect("/")


@routes.get("/settings/password")
async def page_password(call: Call) -> Answer:
    """Ask for a new password."""
    session = await signed_in(call)
    return sign_in_redirect(call) if session is None else await _password_form(call, session, [])


@routes.post("/settings/password")
async def page_password_post(call: Call) -> Answer:
    """Change the password. Every other session ends, and this one gets a new cookie."""
    session = await signed_in(call)
    if session is None:
        return sign_in_redirect(call)
    fields = await read_form(call, session)
    user, password = session.user, fields.get("password", "")
    faults = [] if password == fields.get("again") else ["The two new passwords are not the same."]
    faults += passwords.faults_of(password, user)
    if faults:  # before the old password: looking at that counts as an attempt
        return await _password_form(call, session, faults)
    try:
        checked = await _check_current(call, session, fields.get("current", ""))
        hashed = await new_hash(password, user)
    except TooManyRequests as problem:
        call.refused = problem
        return await _password_form(call, session, [problem.message], status=429, headers=problem.headers)
    except Invalid as problem:
        return await _password_form(call, session, [each.message or "" for each in problem.faults])

    async def step(tx: Transaction) -> dict[str, str] | None:
        allowed = await passwords.hash_of(tx, user.id) is None if checked is None else await complete(tx, checked)
        if allowed:
            await set_password(tx, user, hashed)
            await record(tx, call, user, "user.password_change", {"how": "settings"})
            return await renew_session(tx, call, user)
        await record(tx, call, user, "user.password_change_failed")
        return None

    headers = await call.database.in_transaction(step)
    if headers is not None:
        return redirect("/", headers)
    return await _password_form(call, session, [_HELD if checked and checked.attempt.held else _WRONG])


async def _check_current(call: Call, session: Session, current: str) -> PasswordCheck | None:
    """None: the user has no password yet."""
    if await passwords.hash_of(call.database, session.user.id) is None:
        return None
    return await check_password(call.database, session.user.login, current, call.address, cookies.device_finder(call))


async def _password_form(
    call: Call, session: Session, faults: list[str], *, status: int = 422, headers: dict[str, str] | None = None
) -> Answer:
    return page(
        "account/password.html",
        status=status if faults else 200,
        headers=headers,
        session=session,
        faults=faults,
        has_password=await passwords.hash_of(call.database, session.user.id) is not None,
    )
