"""A user's settings: name, language, theme, password, sessions, authorized apps, and tokens."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import UNSET, UnsetType

from workhook.core.errors import Invalid, NotFound, TooManyRequests
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import PAGES
from workhook.http.parameters import Title
from workhook.identity import actions
from workhook.identity.context import Write
from workhook.identity.mail import recipients
from workhook.identity.mail.recipients import record_language
from workhook.identity.oauth import grants
from workhook.identity.policy import SCOPES
from workhook.identity.signin import passwords, sessions
from workhook.identity.signin.passwords import PasswordCheck, check_password, complete, new_hash, set_password
from workhook.identity.tokens import personal
from workhook.identity.tokens.personal import TokenCreate
from workhook.storage import Transaction
from workhook.storage.pages import Page
from workhook.web.frame import cookies, flash, texts
from workhook.web.frame.forms import PageForm, form_page
from workhook.web.frame.places import Places, Visit, visit_of
from workhook.web.frame.sessions import (
    FormKey,
    Session,
    confirm_redirect,
    read_form,
    record,
    redirect,
    renew_session,
    sign_in_redirect,
    signed_in,
)
from workhook.web.frame.texts import gettext, text
from workhook.work.kernel.people import Email

# Browsers name themselves and, for compatibility, most of those below: the first match counts.
_BROWSERS = (
    ("Edge", r"Edg(?:e|A|iOS)?/"),
    ("Opera", r"OPR/|Opera"),
    ("Samsung Internet", r"SamsungBrowser/"),
    ("Vivaldi", r"Vivaldi/"),
    ("Firefox", r"Firefox/|FxiOS/"),
    ("Chrome", r"(?:Headless)?Chrom(?:e|ium)/|CriOS/"),
    ("Safari", r"Version/[\d.]+.* Safari/"),
)
_SYSTEMS = (
    ("iPhone", r"iPhone"),
    ("iPad", r"iPad"),
    ("Android", r"Android"),
    ("ChromeOS", r"CrOS"),
    ("Windows", r"Windows"),
    ("macOS", r"Macintosh|Mac OS X"),
    ("Linux", r"Linux|X11"),
)


def browser_name(user_agent: str) -> str:
    """Return a name such as `Chrome on Linux`, or the header itself if the browser is unknown."""
    browser, system = _first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)
    if browser and system:
        return gettext("%(browser)s on %(system)s", browser=browser, system=system)
    return browser or user_agent


def _first(known: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for name, pattern in known if re.search(pattern, text)), "")


_WRONG = text("The current password is incorrect.")
_HELD = text("Too many failed sign-in attempts for your account. Try again in a few minutes.")
_DIFFER = text("The new passwords don’t match.")
CHOICE_LASTS_S = 400 * 86_400  # browsers keep no cookie for longer

routes = Routes(PAGES, "pages", etag=False)
places = Places("settings")


class ProfileEdit(msgspec.Struct):
    """A profile edit. `email` is the user's own address, unless an administrator has assigned one."""

    name: Title | None
    email: Email | UnsetType | None = UNSET


@places.get("/settings")
async def settings(visit: Visit) -> Response:
    """Show the settings: profile, appearance, sessions, and authorized apps."""
    user_id = visit.actor.user.id
    return visit.page(
        "account/settings.html",
        browser_name=browser_name,
        own_email=await _own_email(visit),
        has_password=await passwords.hash_of(visit.database, user_id) is not None,
        chosen_language=texts.chosen_language(visit.call),
        sessions=await sessions.list_of(visit.database, user_id),
        grants=await grants.list_grants(visit.database, user_id),
    )


@places.post("/settings/profile", action="user.edit")
async def edit_profile(visit: Visit) -> Response:
    edit, user = visit.form(ProfileEdit, "name", "email"), visit.actor.user
    if edit.email is not UNSET and edit.email != await _own_email(visit):
        visit.require_recent("/settings")  # users can sign in with it

    async def save(write: Write) -> None:
        await actions.rename(write.tx, user, edit.name, actor=write.actor)
        if edit.email is not UNSET and not user.email:
            await passwords.set_email(write.tx, user.id, edit.email)

    await visit.change(save)
    return visit.done("/settings", gettext("Profile saved."))


async def _own_email(visit: Visit) -> str | None:
    return await passwords.find_email(visit.database, visit.actor.user.id)


@places.post("/settings/appearance", action="user.edit")
async def choose_appearance(visit: Visit) -> Response:
    """Store the language and theme for this browser; empty values use the system's."""
    language, theme = visit.fields.get("language", ""), visit.fields.get("theme", "")
    if language not in ("", *texts.LANGUAGES) or theme not in ("", *texts.THEMES):
        raise NotFound()
    if recipients.sends_mail():
        shown = language or texts.negotiated(visit.call.header("accept-language"))

        async def note(write: Write) -> None:
            record_language(write.tx, write.actor.user.id, shown)

        await visit.change(note)
    kept: dict[str, str] = {}
    for name, value in ((texts.COOKIE, language), (texts.THEME_COOKIE, theme)):
        kept |= cookies.write(visit.call, name, value, max_age_s=CHOICE_LASTS_S if value else 0)
    return redirect("/settings", kept)


@routes.post("/settings/sessions/{session_id}/end", action="user.session_end")
async def page_session_end(call: Call) -> Response:

    async def step(tx: Transaction, session: Session) -> None:
        session_id = call.path_integer("session_id")
        if not await sessions.end(tx, session.user.id, session_id):
            raise NotFound(text("That session has already ended."))
        await record(tx, call, session.user, "user.session_end", {"session_id": session_id})

    return await _change(call, step)


@routes.post("/settings/sessions/end-others", action="user.session_end")
async def page_sessions_end(call: Call) -> Response:

    async def step(tx: Transaction, session: Session) -> None:
        ended = await sessions.end_others(tx, session.user.id, session.id)
        await record(tx, call, session.user, "user.session_end", {"sessions": ended})

    return await _change(call, step)


@routes.post("/settings/grants/{grant_id}/revoke", action="grant.revoke")
async def page_grant(call: Call) -> Response:

    async def step(tx: Transaction, session: Session) -> None:
        app_id = await grants.revoke_own_grant(tx, session.user.id, call.path_integer("grant_id"))
        if app_id is None:
            raise NotFound(text("That authorization no longer exists."))
        await record(tx, call, session.user, "grant.revoke", {"app_id": app_id})

    return await _change(call, step)


async def _change(call: Call, step: Callable[[Transaction, Session], Awaitable[None]]) -> Response:
    """Run a form of the settings, and show them again."""
    session = await signed_in(call)
    if session is None:
        return redirect("/login")
    await read_form(call, session)
    await call.database.in_transaction(lambda tx: step(tx, session))
    return redirect("/settings")


@routes.get("/settings/password")
async def page_password(call: Call) -> Response:
    session = await signed_in(call)
    if session is None:
        return sign_in_redirect(call)
    if await _is_first_and_late(call, session):
        return confirm_redirect("/settings/password")
    return await _password_form(call, session, [])


@routes.post("/settings/password", action="user.password_change")
async def page_password_post(call: Call) -> Response:
    """Change the password. Every other session ends, and this one gets a new cookie."""
    session = await signed_in(call)
    if session is None:
        return sign_in_redirect(call)
    fields = await read_form(call, session)
    if await _is_first_and_late(call, session):
        return confirm_redirect("/settings/password")
    user, password = session.user, fields.get("password", "")
    checked: PasswordCheck | None = None
    faults = [] if password == fields.get("again") else [gettext(_DIFFER)]
    faults += passwords.faults_of(password, user)
    if faults:  # before the old password, because checking that counts as an attempt
        return await _password_form(call, session, faults)
    try:
        if await passwords.hash_of(call.database, user.id) is not None:
            known = cookies.device_finder(call)
            checked = await check_password(call.database, user.login, fields.get("current", ""), call.address, known)
        hashed = await new_hash(password, user)
    except TooManyRequests as problem:
        call.refused = problem
        return await _password_form(call, session, [problem.message], status=429, headers=problem.headers)
    except Invalid as problem:
        return await _password_form(call, session, [each.message or "" for each in problem.faults])

    async def step(tx: Transaction) -> FormKey | None:
        allowed = await passwords.hash_of(tx, user.id) is None if checked is None else await complete(tx, checked)
        if allowed:
            await set_password(tx, user, hashed)
            await record(tx, call, user, "user.password_change", {"how": "settings"})
            return await renew_session(tx, call, user)
        await record(tx, call, user, "user.password_change_failed")
        return None

    renewed = await call.database.in_transaction(step)
    if renewed is not None:
        note = flash.Note(gettext("Password changed. You’ve been signed out everywhere else."))
        message = flash.left(call, renewed.csrf, note)
        return redirect("/settings", {**renewed.headers, **message})
    return await _password_form(call, session, [gettext(_HELD if checked and checked.attempt.held else _WRONG)])


async def _password_form(
    call: Call, session: Session, faults: list[str], *, status: int = 422, headers: dict[str, str] | None = None
) -> Response:
    return visit_of(call, session).page(
        "account/password.html",
        status=status if faults else 200,
        headers=headers,
        faults=faults,
        has_password=await passwords.hash_of(call.database, session.user.id) is not None,
    )


async def _is_first_and_late(call: Call, session: Session) -> bool:
    """Return whether the user must re-authenticate, because they have no password yet and the sign-in is not recent."""
    return not session.is_recent and await passwords.hash_of(call.database, session.user.id) is None


# --- personal tokens, which programs manage with /user/tokens ---------------------------------------------------------

token_places = Places("tokens")

SHOWN_MAX = 100
SCOPE = "scope "  # prefix of a scope's checkbox, because a form field may occur only once
DEFAULT_DAYS = "30"
_LIFETIMES = {
    "7": text("in 7 days"),
    "30": text("in 30 days"),
    "90": text("in 90 days"),
    "365": text("in 1 year"),
    "": text("never"),
}
_SCOPE_WORDS = {
    "repo": text("Webhooks, events, and collaborators of your projects"),
    "admin:repo_hook": text("View, create, edit, and delete webhooks in your projects, and publish events"),
    "write:repo_hook": text("View, create, and edit webhooks in your projects, and publish events"),
    "read:repo_hook": text("View webhooks in your projects and their deliveries"),
    "admin:org_hook": text("Webhooks, events, and the audit log of organizations you own"),
    "admin:org": text("Members, invitations, apps, and the audit log of organizations you own"),
    "work": text("Projects, tasks, files, time, billing, and all other work you have access to"),
    "work:read": text("Read-only access to the same data"),
    "site_admin": text("The server’s users and organizations, while you are an administrator"),
}


class NoteField(msgspec.Struct):
    note: Title


@token_places.get("/settings/tokens")
async def list_tokens(visit: Visit) -> Response:
    found, total = await personal.list_own(visit.database, visit.actor, Page(SHOWN_MAX, 0))
    return visit.page("account/tokens.html", tokens=found, more=total > len(found))


@token_places.get("/settings/tokens/new")
async def ask_for_token(visit: Visit) -> Response:
    visit.require_recent()
    return await _form(visit, PageForm({"days": DEFAULT_DAYS}))


async def _form(visit: Visit, form: PageForm) -> Response:
    return visit.page(
        "account/token_new.html",
        form=form,
        faults=form.reasons,
        lifetimes=[(days, gettext(label)) for days, label in _LIFETIMES.items()],
        scopes=[
            (scope, gettext(words))
            for scope, words in _SCOPE_WORDS.items()
            if scope != "site_admin" or visit.session.is_administrator
        ],
    )


@token_places.post("/settings/tokens/new", makes=True, action="token.create")
@form_page(_form)
async def create_token(visit: Visit) -> Response:
    """Create a token. Only this page shows it."""
    visit.require_recent("/settings/tokens/new")
    note, days = visit.form(NoteField, "note").note, visit.fields.get("days", "")
    if days not in _LIFETIMES:
        raise NotFound()
    scopes = [scope for scope in SCOPES if SCOPE + scope in visit.fields]
    wanted = TokenCreate(note=note, scopes=scopes, expires_in_days=float(days) if days else None)
    issued, _ = await visit.change(lambda write: personal.create(write.tx, write.actor.user, wanted, write.actor))
    return visit.page("account/token_made.html", has_secret=True, called=note, token=issued.token)


@token_places.post("/settings/tokens/{token_id}/revoke", action="token.revoke")
async def revoke_token(visit: Visit) -> Response:
    """Revoke a token and those created with it."""
    visit.require_recent("/settings/tokens")
    token_id = visit.call.path_integer("token_id")

    async def revoke(write: Write) -> None:
        found = await personal.find_own(write.tx, write.actor, token_id)
        if not await personal.end(write.tx, write.actor, found):
            raise NotFound()

    await visit.change(revoke)
    return visit.done("/settings/tokens", gettext("Token revoked."))
