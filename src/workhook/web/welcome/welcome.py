"""`/welcome`: three steps with their own addresses, each of which can be skipped."""

from __future__ import annotations

import msgspec

from workhook.core.errors import Invalid, NotFound, require_found
from workhook.hooks.queries import has_any_hook
from workhook.hooks.schemas import HookOwner, viewer_of
from workhook.http.calls import Response
from workhook.http.parameters import Title
from workhook.identity import actions
from workhook.identity.context import Write
from workhook.identity.members import list_shared
from workhook.identity.queries import find_member_role, find_repository
from workhook.identity.schemas import Account, Repository
from workhook.identity.signin import passwords
from workhook.identity.signin.sessions import is_first_user
from workhook.storage import Reader
from workhook.storage.pages import Page
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.refusals import in_words
from workhook.web.frame.sessions import record, redirect, renew_session
from workhook.web.frame.texts import gettext
from workhook.web.home import PROJECT_TEMPLATES, add_from_template
from workhook.web.hooks.receiver import WELCOME, read_receiver
from workhook.web.welcome.importing import Preview, imported_page, take_export
from workhook.work.board.projects.listing import list_newest
from workhook.work.board.projects.schemas import ProjectCreate
from workhook.work.board.tasks.queries import has_any_task


async def first_page(reader: Reader, user: Account) -> str:
    """Return the address after a sign-in by a link. Call it before the sign-in is stored."""
    if not await is_first_user(reader, user.id) or await has_any_task(reader) or await has_any_hook(reader):
        return "/"
    return "/welcome"


places = Places("welcome")

ORGANIZATIONS_MAX = 50


class WelcomeNames(msgspec.Struct):
    organization: Title | None = None
    name: Title | None = None


@places.get("/welcome")
async def names(visit: Visit) -> Response:
    """Ask for the names of the organization and of the visitor."""
    return await _names_page(visit, await _organization(visit), {})


@places.post("/welcome", action="user.edit")
async def save_names(visit: Visit) -> Response:
    """Save the names and, if the visitor has none, a password."""
    organization, user = await _organization(visit), visit.actor.user
    faults: dict[str, str] = {}
    edit = WelcomeNames()
    try:
        edit = visit.form(WelcomeNames, "organization", "name")
    except Invalid as problem:
        faults = {each.field or "name": each.message or each.code for each in problem.faults}
    hashed, wrong = await _read_password(visit)
    if wrong:
        faults["password"] = " ".join(map(in_words, wrong))
    if faults:
        return await _names_page(visit, organization, faults)

    async def change(write: Write) -> dict[str, str]:
        await actions.rename(write.tx, organization, edit.organization, actor=write.actor)
        await actions.rename(write.tx, user, edit.name, actor=write.actor)
        if hashed is None or await passwords.hash_of(write.tx, user.id) is not None:
            return {}
        await passwords.set_password(write.tx, user, hashed)
        await record(write.tx, visit.call, user, "user.password_change", {"how": "welcome"})
        return (await renew_session(write.tx, visit.call, user)).headers

    return redirect("/welcome/project", await visit.change(change))


@places.get("/welcome/project")
async def project(visit: Visit, form: PageForm = UNSENT) -> Response:
    faults = {"title": " ".join(map(in_words, form.reasons))} if form.reasons else {}
    return _project_page(visit, await _organization(visit), faults)


@places.post("/welcome/project", makes=True, action="project.create")
@form_page(project)
async def create_project(visit: Visit) -> Response:
    organization = await _organization(visit)
    template = visit.fields.get("template", "")
    create = visit.form(ProjectCreate, "title", organization=organization.login)
    made = await visit.change(lambda write: add_from_template(write, create, template))
    return redirect(f"{WELCOME}?project={made.name}")


@places.upload("/welcome/import", action="project.create")
async def import_first(visit: Visit) -> Response:
    organization = await _organization(visit)
    result = await take_export(visit, organization)
    if result.imported is None:
        faults = {"file": " ".join(map(in_words, result.faults))} if result.faults else {}
        return _project_page(visit, organization, faults, result.preview)
    name = (result.imported.repository or "").rpartition("/")[2]
    return imported_page(visit, organization, result.imported, f"{WELCOME}?project={name}")


@places.get(WELCOME)
async def webhook(visit: Visit) -> Response:
    """Let the visitor try a webhook and show the received requests."""
    organization = await _organization(visit)
    repository = await _project(visit, organization)
    receiver = None
    if repository is not None:
        owner = HookOwner(repository.owner, repository, viewer_of(visit.actor))
        receiver = await read_receiver(visit.database, owner)
    return visit.page("welcome/webhook.html", owner=organization, repository=repository, receiver=receiver)


async def _organization(visit: Visit) -> Account:
    """Return the first organization that the visitor owns. Raises `NotFound`."""
    reader, user = visit.database, visit.actor.user
    found, _ = await list_shared(reader, visit.actor, user.id, Page(ORGANIZATIONS_MAX))
    for each in found:
        if await find_member_role(reader, each.id, user.id) == "owner":
            return each
    raise NotFound()


async def _project(visit: Visit, organization: Account) -> Repository | None:
    """Return the project that the query names, or the newest."""
    name = visit.query("project")
    if not name:
        newest = await list_newest(visit.database, visit.actor, limit=1, account_id=organization.id)
        if not newest:
            return None
        name = newest[0].name
    return require_found(await find_repository(visit.database, organization.login, name, visit.actor.user.id))


async def _names_page(visit: Visit, organization: Account, faults: dict[str, str]) -> Response:
    user = visit.actor.user
    given = {"organization": organization.name or "", "name": user.name or "", **visit.fields}
    has_password = await passwords.hash_of(visit.database, user.id) is not None
    return visit.page(
        "welcome/names.html", status=422 if faults else 200, owner=organization, given=given, faults=faults,
        has_password=has_password,
    )  # fmt: skip


async def _read_password(visit: Visit) -> tuple[str | None, list[str]]:
    """Return the hash of the visitor's first password, if the form has one, and its errors."""
    password, user = visit.fields.get("password", ""), visit.actor.user
    if not password or await passwords.hash_of(visit.database, user.id) is not None:
        return None, []
    visit.require_recent("/welcome")
    faults = [] if password == visit.fields.get("again") else [gettext("The passwords don’t match.")]
    faults += passwords.faults_of(password, user)
    return None if faults else await passwords.new_hash(password, user), faults


def _project_page(
    visit: Visit, organization: Account, faults: dict[str, str], preview: Preview | None = None
) -> Response:
    return visit.page(
        "welcome/project.html", status=422 if faults else 200, owner=organization, templates=PROJECT_TEMPLATES,
        faults=faults, preview=preview,
        given={"title": "", "template": PROJECT_TEMPLATES[0].name, **visit.fields},
    )  # fmt: skip
