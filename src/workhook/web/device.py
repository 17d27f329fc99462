"""`/login/device`: a person types the code that a device shows, and decides (RFC 8628 3.3)."""

from __future__ import annotations

from workhook.core.errors import TooManyRequests
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.oauth import codes
from workhook.identity.oauth.codes import DeviceRequest
from workhook.identity.oauth.grants import in_words, wanted
from workhook.identity.queries import find_account_by_id
from workhook.identity.signin import throttle
from workhook.storage import Transaction
from workhook.web.forms import read_session_form
from workhook.web.render import page
from workhook.web.sessions import Session, record, sign_in_redirect, signed_in

PATH = "/login/device"
_UNKNOWN = "No device waits for this code. Codes are good for 15 minutes: check it, or let the device show a new one."
_AGAIN = "Sign in and type the code again."
_TYPED_MAX_CHARS = 40

routes = Routes(PAGES, "pages", etag=False)


@routes.get(PATH)
async def page_device(call: Call) -> Answer:
    """Ask for the code of a device."""
    session = await signed_in(call)
    if session is None:
        return sign_in_redirect(call)
    return _entry(session, (call.query_text("user_code") or "")[:_TYPED_MAX_CHARS])


@routes.post(PATH)
async def page_device_enter(call: Call) -> Answer:
    """Look the code up, and ask the person whether its device may act."""
    session, fields = await read_session_form(call, _AGAIN)
    typed = fields.get("user_code", "")[:_TYPED_MAX_CHARS]
    found = await _find(call, session, typed)
    return found if isinstance(found, Answer) else await _ask(call, session, found)


@routes.post(f"{PATH}/decide")
async def page_device_decide(call: Call) -> Answer:
    """Take the person's answer."""
    session, fields = await read_session_form(call, _AGAIN)
    request = await _find(call, session, fields.get("user_code", "")[:_TYPED_MAX_CHARS])
    if isinstance(request, Answer):
        return request
    if fields.get("asked") != _asked(session, request):
        return await _ask(call, session, request)
    approved = fields.get("decision") == "approve"

    async def step(tx: Transaction) -> None:
        await codes.decide(tx, request, session.user.id, approved=approved)
        if approved:
            allowed = sorted(wanted(request.app, request.scopes))
            detail: dict[str, object] = {"client_id": request.app.client_id, "allowed": allowed, "device": True}
            await record(tx, call, session.user, "grant.authorize", detail)

    await call.database.in_transaction(step)
    return page("device_done.html", session=session, app=request.app, approved=approved)


async def _find(call: Call, session: Session, typed: str) -> DeviceRequest | Answer:
    """The request that has this code, or the page that asks again. Guessing is limited by session and by address
    (RFC 8628 5.1)."""
    login = f"\0device {session.id}"  # no login can be this one: no form takes NUL
    try:
        attempt = await throttle.begin(call.database, login, call.address, everywhere=throttle.FREE_BY_LOGIN)
    except TooManyRequests as problem:
        call.refused = problem
        message = f"Too many codes were wrong. Try again in {problem.headers['Retry-After']} seconds."
        return _entry(session, typed, message, status=429, headers=problem.headers)
    request = await codes.find_request(call.database, typed)
    if request is None:
        return _entry(session, typed, _UNKNOWN, status=422)
    await call.database.in_transaction(lambda tx: throttle.succeeded(tx, attempt))
    return request


def _asked(session: Session, request: DeviceRequest) -> str:
    return " ".join([str(session.user.id), request.user_code, *sorted(wanted(request.app, request.scopes))])


def _entry(
    session: Session,
    typed: str,
    problem: str | None = None,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Answer:
    return page("device.html", status=status, headers=headers, session=session, typed=typed, problem=problem)


async def _ask(call: Call, session: Session, request: DeviceRequest) -> Answer:
    asked = wanted(request.app, request.scopes)
    return page(
        "device_confirm.html",
        session=session,
        app=request.app,
        owner=await find_account_by_id(call.database, request.app.account_id),
        user_code=codes.format_user_code(request.user_code),
        words=in_words(request.app, asked),
        asked=_asked(session, request),
    )
