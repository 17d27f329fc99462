"""`/{owner}/{project}/settings`: title, address, visibility, label colors, archiving and deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workhook.core.clock import DAY_MS
from workhook.core.errors import Conflict, Invalid
from workhook.http.calls import Response
from workhook.http.lists import ListQuery
from workhook.identity import invitations, members
from workhook.identity.context import Write
from workhook.identity.mail.links import find_unsent
from workhook.identity.queries import find_member_role
from workhook.storage.pages import Page
from workhook.web.frame import paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, text
from workhook.work.board.projects.actions import delete_project, edit_project, lock_project
from workhook.work.board.projects.schemas import LabelColor, ProjectEdit, find_label_colors
from workhook.work.board.tasks.listing import list_labels
from workhook.work.history import trash
from workhook.work.kernel.access import Access
from workhook.work.people.clients import list_client_names, list_clients

places = Places("project")

SHOWN_MAX = 100
COLOR_NAMES: Mapping[LabelColor, str] = {
    "red": text("Red"),
    "orange": text("Orange"),
    "yellow": text("Yellow"),
    "lime": text("Lime"),
    "green": text("Green"),
    "teal": text("Teal"),
    "sky": text("Sky"),
    "blue": text("Blue"),
    "purple": text("Purple"),
    "pink": text("Pink"),
}


async def administered(visit: Visit, *, recently: bool = False) -> Access:
    """Return the access of an admin.

    Raises `NotFound`, `Forbidden` and, if they must have signed in `recently`, `ConfirmFirst`.
    """
    await visit.repository("repository.people")
    access = await visit.access()
    if recently:
        visit.require_recent(settings_address(visit))
    return access


def settings_address(visit: Visit, section: str = "") -> str:
    """Return the address of the page, or of one of its sections."""
    return paging.project_address(visit, "settings") + (f"#{section}" if section else "")


@places.get("/{owner}/{project}/settings")
async def show_settings(visit: Visit, form: PageForm = UNSENT) -> Response:
    access = await administered(visit)
    reader, repository, page = visit.database, access.repository, Page(SHOWN_MAX)
    added, total = await members.list_collaborators(reader, repository, "direct", "none", page)
    waiting, _ = await invitations.list_of(reader, repository, visit.actor.user, page)
    invited_clients, _ = await invitations.list_of(reader, repository, visit.actor.user, page, clients=True)
    invited = [*waiting, *invited_clients]
    clients: Any = await list_clients(visit.call, repository.project_id, ListQuery(per_page=SHOWN_MAX))
    return visit.page(
        "project/settings.html",
        form=form,
        status=200 if form is UNSENT else 422,
        added=added,
        more_added=total > len(added),
        waiting=waiting,
        invited_clients=invited_clients,
        unsent=await find_unsent(reader, [each.id for each in invited]) if invited else {},
        clients=clients.body.clients,
        client_names=await list_client_names(reader, access, SHOWN_MAX),
        more_clients=bool(clients.headers),
        may_invite_strangers=await _may_invite_strangers(visit, access),
        label_colors=await find_label_colors(reader, repository.id),
        known_labels=await list_labels(reader, access),
        color_names=COLOR_NAMES,
        faults=form.reasons,
    )


async def _may_invite_strangers(visit: Visit, access: Access) -> bool:
    """Return whether the visitor may invite people by e-mail address (`invitations.invite`)."""
    setting = visit.call.services.settings.invite_strangers
    if setting == "owners":
        return await find_member_role(visit.database, access.repository.owner.id, visit.actor.user.id) == "owner"
    return setting == "admins"


@places.post("/{owner}/{project}/settings", action="project.edit")
@form_page(show_settings, section="general", on=(Invalid, Conflict))
async def save_settings(visit: Visit) -> Response:
    """Change the title, address and visibility of a project."""
    access = await administered(visit)
    values: dict[str, object] = {name: visit.fields.get(name, "") for name in ("title", "name")}
    if access.repository.organization is not None:
        values["private"] = "private" in visit.fields
    edit = visit.form(ProjectEdit, **values)
    saved = await visit.change(lambda write: edit_project(write, access.repository.project_id, edit))
    full_name = str(saved.project.full_name)  # type: ignore[attr-defined]
    return visit.done(paging.address_of(*full_name.split("/"), "settings"), gettext("The project was saved."))


@places.post("/{owner}/{project}/settings/labels", action="project.edit")
@form_page(show_settings, section="labels")
async def color_label(visit: Visit) -> Response:
    """Set the color of a label, or reset it to the one derived from the label's name."""
    access = await administered(visit)
    label, color = visit.fields.get("label", "").strip(), visit.fields.get("color", "")

    async def change(write: Write) -> None:
        await lock_project(write, access.repository.project_id)
        colors: dict[str, str] = {**await find_label_colors(write.tx, access.repository.id)}
        colors.pop(label, None)
        edit = visit.form(ProjectEdit, label_colors={**colors, label: color} if color else colors)
        await edit_project(write, access.repository.project_id, edit)

    await visit.change(change)
    return visit.done(settings_address(visit, "labels"), gettext("The label colors were saved."))


@places.post("/{owner}/{project}/settings/archive", action="project.edit")
async def archive(visit: Visit) -> Response:
    access = await administered(visit)
    archived = visit.fields.get("archive") == "1"
    edit = ProjectEdit(archive=archived)
    if archived != access.repository.archive:
        await visit.change(lambda write: edit_project(write, access.repository.project_id, edit))
    text = gettext("The project was archived.") if archived else gettext("The project was unarchived.")
    undo = Undo(f"{settings_address(visit)}/archive", {"archive": "0" if archived else "1"})
    return visit.done(settings_address(visit), text, undo=undo)


@places.get("/{owner}/{project}/settings/delete")
async def ask_to_delete(visit: Visit, form: PageForm = UNSENT) -> Response:
    await administered(visit)
    visit.require_recent()
    return visit.page(
        "project/delete.html",
        status=422 if form.is_refused else 200,
        days=trash.KEPT_MS // DAY_MS,
        faults=form.reasons,
    )


@places.post("/{owner}/{project}/settings/delete", action="project.delete")
@form_page(ask_to_delete, on=(Invalid, Conflict))
async def delete(visit: Visit) -> Response:
    """Delete a project if its title or address was typed as confirmation."""
    access = await administered(visit)
    visit.require_recent()
    repository = access.repository
    if not names(visit.fields.get("name", ""), repository.title, repository.name):
        raise Invalid(gettext("The text doesn’t match. Nothing was deleted."))
    await visit.change(lambda write: delete_project(write, repository.project_id))
    undo = Undo(f"/{repository.owner.login}/-/projects/{repository.project_id}/restore")
    location = f"/{repository.owner.login}" if access.role == "owner" else "/"
    return visit.done(location, gettext("“%(title)s” was deleted.", title=repository.title), undo=undo)


def names(typed: str, *names: str) -> bool:
    """Return whether one of the names was typed, ignoring case and spacing, since phones capitalize."""
    return " ".join(typed.split()).casefold() in {" ".join(each.split()).casefold() for each in names}


@places.post("/{owner}/-/projects/{project_id}/restore", action="project.restore")
async def restore_project(visit: Visit) -> Response:
    restored = await visit.change(lambda write: trash.restore_project(write, visit.path("project_id")))
    full_name = str(restored.project.full_name)  # type: ignore[attr-defined]
    return visit.done(f"/{full_name}", gettext("The project was restored."))
