"""`/apps/{slug}/installations/new`: an owner reviews the permissions of an app and installs it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, say, shown
from workhook.core.urls import with_parameters
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Retry, Routes
from workhook.http.operations import PAGES
from workhook.identity.apps import installer, queries
from workhook.identity.apps.schemas import App, Installation
from workhook.identity.oauth import codes
from workhook.identity.oauth.grants import wanted
from workhook.identity.queries import find_account_by_id, find_member_role, find_repositories, key_of
from workhook.identity.schemas import Account
from workhook.storage import Reader, Transaction
from workhook.storage.database import UniqueViolation
from workhook.storage.pages import Page
from workhook.web.frame.names import called
from workhook.web.frame.render import page
from workhook.web.frame.sessions import (
    Session,
    as_actor,
    confirm_redirect,
    read_session_form,
    redirect,
    sign_in_redirect,
    signed_in,
    target_of,
)
from workhook.web.frame.texts import gettext, text
from workhook.web.signin.consent import in_words, onwards

PATH = "/apps/{slug}/installations/new"
LISTED_MAX = 100  # repositories to tick; the names of others are typed
_TICKED = re.compile(r"repository-([0-9]{1,15})")
_SEPARATORS = re.compile(r"[\s,]+")
_NUMBER = re.compile(r"[0-9]{1,15}")

routes = Routes(PAGES, "pages", etag=False)


class RepositoryChoice(NamedTuple):
    """The selected repositories in a form. `ticked`: their IDs; `others`: names of more."""

    selection: str = ""
    ticked: frozenset[int] = frozenset()
    others: str = ""
    state: str = ""


@routes.get(PATH, action="installation.create")
@routes.get(
    f"{PATH}/permissions", name="page_install_permissions", action="installation.create"
)  # where clients of GitHub link to
async def page_install(call: Call) -> Response:
    """Ask an owner where to install an app.

    The page asks about the organization named in the URL or the only one; otherwise it lists all of them.
    """
    session = await signed_in(call)
    if session is None:  # strangers must not learn which apps exist
        return sign_in_redirect(call)
    if not session.is_recent:
        return confirm_redirect(target_of(call))
    app = await _app(call, session)
    owned = await queries.list_owned(call.database, session.user.id, app)
    free = [each.account for each in owned if not each.installed]
    asked = call.query_text("target_id") or call.query_text("suggested_target_id") or ""
    named = [each for each in free if str(each.id) == asked]
    state = call.query_text("state") or ""
    if named or len(owned) == len(free) == 1:
        return await _ask(call, session, app, (named or free)[0], RepositoryChoice(state=state))
    owner = await find_account_by_id(call.database, app.account_id)
    taken = [each.account for each in owned if each.installed]
    return page(
        "signin/install_where.html",
        has_secret=True,  # the app's state
        session=session,
        app=app,
        owner=owner,
        free=free,
        taken=taken,
        state=state,
    )


@routes.post(PATH, action="installation.create")
async def page_install_decide(call: Call) -> Response:
    session, fields = await read_session_form(call, say("Sign in and open the page again."))
    app = await _app(call, session)
    if fields.get("decision") != "install":
        return redirect("/")
    place = await _owned(call.database, session, app, fields.get("target_id", ""))
    sent = read_choice(fields)
    if not session.is_recent:
        query = urlencode({"target_id": place.id, "state": sent.state})
        return confirm_redirect(f"{PATH.format(slug=quote(app.slug, safe=''))}?{query}")
    if fields.get("asked") != _asked(session, app, place):  # the requested permissions have changed
        return await _ask(call, session, app, place, sent, changed=True)

    async def step(tx: Transaction) -> Installation:
        await _owned(tx, session, app, str(place.id))
        ids = await chosen_repositories(tx, place, sent)
        actor = as_actor(call, session.user)
        return await installer.install(tx, actor, app, place, permissions=app.permissions, repository_ids=ids)

    try:
        made = await Retry(UniqueViolation).of(lambda: call.database.in_transaction(step))
    except Invalid as problem:
        return await _ask(call, session, app, place, sent, faults=[each.message or "" for each in problem.faults])
    leads_to = _leads_to(app)
    if leads_to is None:
        return page("signin/install_done.html", session=session, app=app, place=place, installation_id=made.id)
    parameters = [("installation_id", str(made.id)), ("setup_action", "install"), ("state", sent.state or None)]
    return onwards(with_parameters(leads_to, parameters))


async def about(call: Call) -> Response:
    return redirect(PATH.format(slug=quote(call.path("slug"), safe="")))


async def _app(call: Call, session: Session) -> App:
    """Return the app in the path. Raises `NotFound`, also for private apps of other organizations."""
    app = await queries.find_slug(call.database, call.path("slug"))
    missing = NotFound(text("This app doesn’t exist. The link you followed may be wrong or out of date."))
    if app is None or app.is_oauth:
        raise missing
    if not app.public and await find_member_role(call.database, app.account_id, session.user.id) is None:
        raise missing
    return app


async def _owned(reader: Reader, session: Session, app: App, number: str) -> Account:
    """Return an organization that the user owns. Raises `Forbidden`, whether or not it exists."""
    for each in await queries.list_owned(reader, session.user.id, app):
        if _NUMBER.fullmatch(number) and each.account.id == int(number):
            return each.account
    raise Forbidden(text("Only an owner of an organization can install an app there."), code="missing_role")


def read_choice(fields: Mapping[str, str]) -> RepositoryChoice:
    ticked = [found for name in fields if (found := _TICKED.fullmatch(name))]
    ids = frozenset(int(each[1]) for each in ticked)
    others = fields.get("others", "")
    # Chosen repositories mean that not all are.
    selection = fields.get("selection") or ("selected" if ids or others.strip() else "")
    return RepositoryChoice(selection, ids, others, fields.get("state", ""))


async def chosen_repositories(tx: Transaction, place: Account, sent: RepositoryChoice) -> list[int] | None:
    """Return the selected repository IDs, or None for all current and future ones. Raises `Invalid`."""
    if sent.selection == "all":
        return None
    names = [each for each in _SEPARATORS.split(sent.others) if each]
    if sent.selection != "selected" or not (names or sent.ticked):
        raise Invalid.at("selection", text("Choose all projects or select at least one."))
    known = {key_of(each.name): each.id for each in await find_repositories(tx, place, names=names)}
    unknown = [each for each in dict.fromkeys(names) if key_of(each) not in known]
    if unknown:
        messages = [
            gettext("%(organization)s has no project %(name)s.", organization=called(place), name=shown(each))
            for each in unknown
        ]
        raise Invalid(faults=[Fault("others", message=each) for each in messages])
    return sorted({*sent.ticked, *known.values()})


def _asked(session: Session, app: App, place: Account) -> str:
    """Return the IDs of the user, the account and the app, and the scopes.

    The form sends them back, so that only the access it showed is granted, even if the name in the URL belongs to
    another app by now.
    """
    return " ".join([*map(str, (session.user.id, place.id, app.id)), *sorted(wanted(app, frozenset()))])


def _leads_to(app: App) -> str | None:
    """Return the first callback URL of the app, where its setup continues."""
    first = app.callback_urls[0] if app.callback_urls else None
    return first if first is not None and codes.can_be_sent_to(first) else None


async def _ask(
    call: Call,
    session: Session,
    app: App,
    place: Account,
    sent: RepositoryChoice,
    *,
    faults: Sequence[str] = (),
    changed: bool = False,
) -> Response:
    listed, total = await queries.list_repositories(call.database, place, None, session.user.id, Page(LISTED_MAX))
    leads_to = _leads_to(app)
    return page(
        "signin/install.html",
        status=422 if faults else 200,
        form_action=[leads_to] if leads_to else (),
        has_secret=True,  # the app's state
        session=session,
        app=app,
        owner=await find_account_by_id(call.database, app.account_id),
        place=place,
        words=in_words(app, wanted(app, frozenset())),
        repositories=listed,
        more=total > len(listed),
        sent=sent,
        asked=_asked(session, app, place),
        asks_for_whole="organization_hooks" in app.permissions,
        leads_to=leads_to.partition("?")[0] if leads_to else None,
        faults=faults,
        changed=changed,
    )
