"""Pages for personal tokens, which programs manage with `/user/tokens`."""

from __future__ import annotations

import msgspec

from workhook.core.errors import NotFound
from workhook.http.calls import Response
from workhook.http.parameters import Title
from workhook.identity.context import Write
from workhook.identity.policy import SCOPES
from workhook.identity.tokens import personal
from workhook.identity.tokens.personal import TokenCreate
from workhook.storage.pages import Page
from workhook.web.frame.forms import PageForm, form_page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, text

places = Places("tokens")

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


@places.get("/settings/tokens")
async def list_tokens(visit: Visit) -> Response:
    found, total = await personal.list_own(visit.database, visit.actor, Page(SHOWN_MAX, 0))
    return visit.page("account/tokens.html", tokens=found, more=total > len(found))


@places.get("/settings/tokens/new")
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


@places.post("/settings/tokens/new", makes=True, action="token.create")
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


@places.post("/settings/tokens/{token_id}/revoke", action="token.revoke")
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
