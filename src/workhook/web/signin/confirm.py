"""Asking somebody who has signed in for the password again: before secrets, tokens and deletion.

Whoever finds an open browser gets no further than its owner would let them. What is confirmed begins another session,
so that the time of the last sign-in is the session's own.
"""

from __future__ import annotations

from urllib.parse import quote

from workhook.core.errors import TooManyRequests
from workhook.http.calls import Answer
from workhook.identity.signin import passwords, sessions
from workhook.identity.signin.passwords import check_password, complete
from workhook.storage import Transaction
from workhook.web.frame import cookies
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import record, record_failure, redirect, renew_session, safe_return_to
from workhook.web.frame.texts import gettext, text
from workhook.web.signin.login import onwards

_WRONG = text("The password is not right. After many failed attempts none is taken for some minutes.")

places = Places("confirm")


@places.get("/login/confirm")
async def ask(visit: Visit) -> Answer:
    """Ask for the password again."""
    return_to = safe_return_to(visit.query("return_to"))
    return onwards(return_to, {}) if visit.session.is_recent else await _form(visit, return_to)


@places.post("/login/confirm", action="user.sign_in")
async def confirm(visit: Visit) -> Answer:
    """Begin another session in place of this one, if the password is right."""
    call, user = visit.call, visit.actor.user
    return_to, password = safe_return_to(visit.fields.get("return_to")), visit.fields.get("password", "")
    try:
        checked = await check_password(call.database, user.login, password, call.address, cookies.device_finder(call))
    except TooManyRequests as problem:
        call.refused = problem
        return await _form(visit, return_to, problem.message, status=429, headers=problem.headers)

    async def renew(tx: Transaction) -> dict[str, str] | None:
        if not await complete(tx, checked):
            return None
        await record(tx, call, user, "user.sign_in", {"how": "confirm"})
        return await renew_session(tx, call, user)

    headers = await call.database.in_transaction(renew)
    if headers is not None:
        return onwards(return_to, headers)
    await call.database.in_transaction(lambda tx: record_failure(tx, call, user))
    return await _form(visit, return_to, gettext(_WRONG), status=422)


@places.post("/login/again", action="user.sign_out")
async def again(visit: Visit) -> Answer:
    """Sign out, and lead to the sign-in page: for somebody without a password."""
    call, user = visit.call, visit.actor.user
    return_to = safe_return_to(visit.fields.get("return_to"))

    async def end(tx: Transaction) -> None:
        await sessions.end(tx, user.id, visit.session.id)
        await record(tx, call, user, "user.sign_out")

    await call.database.in_transaction(end)
    gone = cookies.write(call, cookies.SESSION, "", max_age_s=0)
    return redirect(f"/login?return_to={quote(return_to, safe='')}", gone)


async def _form(
    visit: Visit,
    return_to: str,
    problem: str | None = None,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Answer:
    return visit.page(
        "signin/confirm.html",
        status=status,
        headers=headers,
        return_to=return_to,
        faults=[problem] if problem else [],
        has_password=await passwords.hash_of(visit.database, visit.actor.user.id) is not None,
        has_provider=visit.call.services.settings.oidc_issuer is not None,
    )
