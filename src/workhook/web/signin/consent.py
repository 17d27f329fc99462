"""Consent: users authorize apps.

An app sends its user to `/login/oauth/authorize` (RFC 6749 4.1, RFC 9700). At `/login/device` the user enters the code
shown on a device (RFC 8628 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import urlencode

from workhook.core.errors import Problem, TooManyRequests, say
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.apps.queries import find_client
from workhook.identity.apps.schemas import App
from workhook.identity.oauth import codes
from workhook.identity.oauth.codes import AuthorizationRequest, DeviceRequest, Redirected, create_code
from workhook.identity.oauth.grants import allow, is_allowed, wanted
from workhook.identity.queries import find_account_by_id
from workhook.identity.signin import throttle
from workhook.storage import Transaction
from workhook.web.frame.render import page
from workhook.web.frame.sessions import (
    Session,
    confirm_redirect,
    read_session_form,
    record,
    sign_in_redirect,
    signed_in,
    target_of,
)
from workhook.web.frame.texts import gettext, ngettext, text

SCOPE_WORDS: Mapping[str, str] = {
    "repo": text("Publish events in projects you can write to, and manage webhooks in projects you administer"),
    "admin:repo_hook": text("Create, edit, and delete webhooks in your projects, and publish events"),
    "write:repo_hook": text("Create and edit webhooks in your projects, and publish events"),
    "read:repo_hook": text("View webhooks in your projects and their deliveries"),
    "admin:org_hook": text("Manage webhooks of organizations you own, publish events, and view their audit log"),
    "admin:org": text("View the audit log of organizations you own"),
    "work": text(
        "View, create, edit, and delete projects, tasks, files, comments, time entries, services, subscriptions, "
        "credits, invoices, and billing settings; view activity, the trash, and the people in your projects and "
        "organizations; view your notifications and mark them as read; add and remove people and clients, and change "
        "who can access a project; all within your own permissions"
    ),
    "work:read": text(
        "View projects, tasks, files, comments, time entries, services, subscriptions, credits, invoices, billing "
        "settings, activity, the trash, your notifications, and the people in your projects and organizations, within "
        "your own permissions"
    ),
}
PERMISSION_WORDS: Mapping[str, str] = {
    "repository_hooks:read": text("View webhooks in projects and their deliveries"),
    "repository_hooks:write": text("Create, edit, and delete webhooks in projects, and publish events"),
    "organization_hooks:read": text("View the organization’s webhooks and their deliveries"),
    "organization_hooks:write": text(
        "Create, edit, and delete the organization’s webhooks, publish events, and view its audit log"
    ),
    "work:read": text(
        "View projects, tasks, files, comments, time entries, services, subscriptions, credits, invoices, billing "
        "settings, activity, the trash, and the people in projects and organizations"
    ),
    "work:write": text(
        "View, create, edit, and delete projects, tasks, files, comments, time entries, services, subscriptions, "
        "credits, invoices, and billing settings; view activity, the trash, and the people in projects and "
        "organizations; on behalf of a user who authorized it, also add and remove people and clients, and change who "
        "can access a project"
    ),
}


def in_words(app: App, asked: frozenset[str]) -> list[str]:
    """Describe the requested permissions in a fixed order."""
    words = SCOPE_WORDS if app.is_oauth else PERMISSION_WORDS
    return [gettext(each) for name, each in words.items() if name in asked]


AUTHORIZE = "/login/oauth/authorize"

routes = Routes(PAGES, "pages", etag=False)


@routes.get(AUTHORIZE, head=False, action="grant.authorize")
async def page_authorize(call: Call) -> Response:
    """Ask the user to authorize an app, unless everything was authorized before."""
    session = await signed_in(call)
    try:
        request = await _read_request(call, call.query)
    except Redirected as wrong:
        # Only for a signed-in user, because otherwise this would be an open redirect (RFC 9700 4.11.2).
        return onwards(wrong.uri) if session else sign_in_redirect(call)
    if session is None:
        return sign_in_redirect(call)
    if not await _goes_straight_on(call, session, request):
        if not session.is_recent:  # the app gets the equivalent of a token
            return confirm_redirect(target_of(call))
        return await _ask_authorization(call, session, request)
    code = await call.database.in_transaction(partial(_code, session=session, request=request))
    return onwards(request.answer(call.public_base, ("code", code)))


@routes.post(AUTHORIZE, action="grant.authorize")
async def page_authorize_decide(call: Call) -> Response:
    """Handle the user's decision. The form carries the request, which is parsed and checked again."""
    session, fields = await read_session_form(call, say("Start again from the app."))
    try:
        request = await _read_request(call, {name: [value] for name, value in fields.items()})
    except Redirected as wrong:
        return onwards(wrong.uri)
    if fields.get("asked") != _authorization_asked(session, request):  # another user, or the app now requests more
        return await _ask_authorization(call, session, request, changed=True)
    if fields.get("decision") != "approve":
        return onwards(request.refusal(call.public_base, "access_denied", "The user has denied access to the app."))
    if not session.is_recent:
        return confirm_redirect(f"{AUTHORIZE}?{urlencode(_carried(request))}")

    async def step(tx: Transaction) -> str:
        await allow(tx, request.app, session.user.id, request.wanted)
        code = await _code(tx, session, request)
        detail: dict[str, object] = {"client_id": request.app.client_id, "allowed": sorted(request.wanted)}
        await record(tx, call, session.user, "grant.authorize", detail)
        return code

    code = await call.database.in_transaction(step)
    return onwards(request.answer(call.public_base, ("code", code)))


async def _read_request(call: Call, query: Mapping[str, Sequence[str]]) -> AuthorizationRequest:
    app = await find_client(call.database, codes.client_id_of(query))
    return codes.read_request(app, query, call.public_base)


async def _goes_straight_on(call: Call, session: Session, request: AuthorizationRequest) -> bool:
    """Return whether the user has already authorized everything.

    Native apps always ask, because another program may pose as the authorized one (RFC 8252 8.6).
    """
    other = request.login is not None and request.login.lower() != session.user.login.lower()
    if other or request.select_account or request.is_native:
        return False
    return await is_allowed(call.database, request.app, session.user.id, request.wanted)


async def _code(tx: Transaction, session: Session, request: AuthorizationRequest) -> str:
    return await create_code(
        tx,
        request.app,
        session.user.id,
        redirect_uri=request.redirect_uri,
        scopes=request.scopes,
        challenge=request.code_challenge,
    )


def _authorization_asked(session: Session, request: AuthorizationRequest) -> str:
    """Return the user's ID and the requested scopes. The form sends them back, so only what it showed is granted."""
    return " ".join([str(session.user.id), *sorted(request.wanted)])


async def _ask_authorization(
    call: Call, session: Session, request: AuthorizationRequest, *, changed: bool = False
) -> Response:
    owner = await find_account_by_id(call.database, request.app.account_id)
    return page(
        "signin/authorize.html",
        form_action=[request.redirect_uri],
        has_secret=True,  # the client's state
        session=session,
        app=request.app,
        owner=owner,
        words=in_words(request.app, request.wanted),
        carried=_carried(request),
        asked=_authorization_asked(session, request),
        leads_to=request.redirect_uri.partition("?")[0],
        is_native=request.is_native,
        login=request.login,
        changed=changed,
    )


def _carried(request: AuthorizationRequest) -> dict[str, str]:
    """Return the request as form fields, without `login` and `prompt`, which have been handled."""
    carried = {
        "client_id": request.app.client_id,
        "redirect_uri": request.redirect_uri,
        "scope": " ".join(sorted(request.scopes)),
        "state": request.state,
        "code_challenge": request.code_challenge,
        "code_challenge_method": "S256" if request.code_challenge else None,
    }
    return {name: value for name, value in carried.items() if value is not None}


def onwards(uri: str) -> Response:
    """Redirect with 302, as GitHub does. The URL contains a code, so it is neither cached nor sent as a referrer."""
    return Response(None, 302, {"Location": uri, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})


# --- devices ---------------------------------------------------------------------------------------------------------

DEVICE = "/login/device"
_UNKNOWN = text(
    "This code is invalid or has expired. Check it, or get a new code on your device. Codes expire after 15 minutes."
)
_AGAIN = say("Sign in and enter the code again.")
_TYPED_MAX_CHARS = 40


@routes.get(DEVICE)
async def page_device(call: Call) -> Response:
    session = await signed_in(call)
    if session is None:
        return sign_in_redirect(call)
    if not session.is_recent:
        return confirm_redirect(target_of(call))
    return _code_form(session, (call.query_text("user_code") or "")[:_TYPED_MAX_CHARS])


@routes.post(DEVICE, action="grant.authorize")
async def page_device_enter(call: Call) -> Response:
    """Look up the code and ask the user to authorize its device."""
    session, fields = await read_session_form(call, _AGAIN)
    typed = fields.get("user_code", "")[:_TYPED_MAX_CHARS]
    found = await _find_request(call, session, typed)
    return found if isinstance(found, Response) else await _ask_device(call, session, found)


@routes.post(f"{DEVICE}/decide", action="grant.authorize")
async def page_device_decide(call: Call) -> Response:
    session, fields = await read_session_form(call, _AGAIN)
    request = await _find_request(call, session, fields.get("user_code", "")[:_TYPED_MAX_CHARS])
    if isinstance(request, Response):
        return request
    if fields.get("asked") != _device_asked(session, request):
        return await _ask_device(call, session, request)
    approved = fields.get("decision") == "approve"

    async def step(tx: Transaction) -> None:
        await codes.decide(tx, request, session.user.id, approved=approved)
        if approved:
            allowed = sorted(wanted(request.app, request.scopes))
            detail: dict[str, object] = {"client_id": request.app.client_id, "allowed": allowed, "device": True}
            await record(tx, call, session.user, "grant.authorize", detail)

    await call.database.in_transaction(step)
    return page("signin/device_done.html", session=session, app=request.app, approved=approved)


async def _find_request(call: Call, session: Session, typed: str) -> DeviceRequest | Response:
    """Return the request with this code, or the form with an error. Guesses are limited (RFC 8628 5.1)."""
    if not session.is_recent:
        return confirm_redirect(f"{DEVICE}?{urlencode({'user_code': typed})}")
    login = f"\0device {session.id}"  # no login can be this one, because no form accepts NUL
    try:
        attempt = await throttle.begin(call.database, login, call.address, everywhere=throttle.FREE_BY_LOGIN)
    except TooManyRequests as problem:
        call.refused = problem
        wait_s = int(problem.headers["Retry-After"])
        message = ngettext(
            "Too many wrong codes. Try again in %(num)s second.",
            "Too many wrong codes. Try again in %(num)s seconds.",
            wait_s,
        )
        return _code_form(session, typed, message, problem)
    request = await codes.find_request(call.database, typed)
    if request is None:
        return _code_form(session, typed, _UNKNOWN)
    await call.database.in_transaction(lambda tx: throttle.undo_attempt(tx, attempt, succeeded=True))
    return request


def _device_asked(session: Session, request: DeviceRequest) -> str:
    return " ".join([str(session.user.id), request.user_code, *sorted(wanted(request.app, request.scopes))])


def _code_form(session: Session, typed: str, message: str = "", problem: Problem | None = None) -> Response:
    status = 422 if message else 200
    return page(
        "signin/device.html",
        status=problem.status if problem else status,
        headers=problem.headers if problem else None,
        has_secret=True,  # what was typed
        session=session,
        typed=typed,
        problem=message,
    )


async def _ask_device(call: Call, session: Session, request: DeviceRequest) -> Response:
    asked = wanted(request.app, request.scopes)
    return page(
        "signin/device_confirm.html",
        has_secret=True,  # the code
        session=session,
        app=request.app,
        owner=await find_account_by_id(call.database, request.app.account_id),
        user_code=codes.format_user_code(request.user_code),
        words=in_words(request.app, asked),
        asked=_device_asked(session, request),
    )
