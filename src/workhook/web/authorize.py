"""`/login/oauth/authorize`: a person decides what an app may do (RFC 6749 4.1, RFC 9700)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.identity.apps.queries import find_client
from workhook.identity.oauth import authorization
from workhook.identity.oauth.authorization import AuthorizationRequest, Redirected
from workhook.identity.oauth.codes import create_code
from workhook.identity.oauth.grants import allow, in_words, is_allowed
from workhook.identity.queries import find_account_by_id
from workhook.storage import Transaction
from workhook.web.forms import read_session_form
from workhook.web.render import page
from workhook.web.sessions import Session, record, sign_in_redirect, signed_in

PATH = "/login/oauth/authorize"

routes = Routes(PAGES, "pages", etag=False)


@routes.get(PATH, head=False)
async def page_authorize(call: Call) -> Answer:
    """Ask a person what an app may do.

    Who has allowed all of it before goes straight on.
    """
    session = await signed_in(call)
    try:
        request = await _request(call, call.query)
    except Redirected as wrong:
        # Not before somebody has signed in: else this were a way to send anybody anywhere (RFC 9700 4.11.2).
        return onwards(wrong.uri) if session else sign_in_redirect(call)
    if session is None:
        return sign_in_redirect(call)
    if not await _goes_straight_on(call, session, request):
        return await _ask(call, session, request)
    code = await call.database.in_transaction(partial(_code, session=session, request=request))
    return onwards(request.answer(call.base_for_others, ("code", code)))


@routes.post(PATH)
async def page_authorize_decide(call: Call) -> Answer:
    """Take the person's answer.

    The form carries the request, which is read and checked as if it were new.
    """
    session, fields = await read_session_form(call, "Start again from the app.")
    try:
        request = await _request(call, {name: [value] for name, value in fields.items()})
    except Redirected as wrong:
        return onwards(wrong.uri)
    if fields.get("asked") != _asked(session, request):  # somebody else has signed in, or the app asks for more now
        return await _ask(call, session, request, changed=True)
    if fields.get("decision") != "approve":
        return onwards(request.refusal(call.base_for_others, "access_denied", "The user has denied access to the app."))

    async def step(tx: Transaction) -> str:
        await allow(tx, request.app, session.user.id, request.wanted)
        code = await _code(tx, session, request)
        detail: dict[str, object] = {"client_id": request.app.client_id, "allowed": sorted(request.wanted)}
        await record(tx, call, session.user, "grant.authorize", detail)
        return code

    code = await call.database.in_transaction(step)
    return onwards(request.answer(call.base_for_others, ("code", code)))


async def _request(call: Call, given: Mapping[str, Sequence[str]]) -> AuthorizationRequest:
    app = await find_client(call.database, authorization.client_id_of(given))
    return authorization.read(app, given, call.base_for_others)


async def _goes_straight_on(call: Call, session: Session, request: AuthorizationRequest) -> bool:
    """Never to a program on the user's machine: it may be another one than was allowed (RFC 8252 8.6)."""
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


def _asked(session: Session, request: AuthorizationRequest) -> str:
    """Who was asked about what. The form brings it back, so that nobody consents to what another page showed."""
    return " ".join([str(session.user.id), *sorted(request.wanted)])


async def _ask(call: Call, session: Session, request: AuthorizationRequest, *, changed: bool = False) -> Answer:
    owner = await find_account_by_id(call.database, request.app.account_id)
    carried = {  # by the form; `login` and `prompt` have done their work
        "client_id": request.app.client_id,
        "redirect_uri": request.redirect_uri,
        "scope": " ".join(sorted(request.scopes)),
        "state": request.state,
        "code_challenge": request.code_challenge,
        "code_challenge_method": "S256" if request.code_challenge else None,
    }
    return page(
        "authorize.html",
        form_action=[request.redirect_uri],
        session=session,
        app=request.app,
        owner=owner,
        words=in_words(request.app, request.wanted),
        carried={name: value for name, value in carried.items() if value is not None},
        asked=_asked(session, request),
        leads_to=request.redirect_uri.partition("?")[0],
        is_native=request.is_native,
        login=request.login,
        changed=changed,
    )


def onwards(uri: str) -> Answer:
    """302, as the original's. The address holds a code: nobody keeps it, and no page passes it on as its referrer."""
    return Answer(None, 302, {"Location": uri, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
