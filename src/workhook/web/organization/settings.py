"""`/{owner}/settings`: the name, the end and an export of an organization; `/{owner}/-/trash`: its deleted projects."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

import msgspec

from workhook.core.clock import DAY_MS, now_ms, parse_rfc3339
from workhook.core.errors import Conflict, Invalid, NotFound, TooManyRequests
from workhook.http.calls import Answer
from workhook.http.lists import ListQuery
from workhook.http.parameters import Title
from workhook.identity import actions
from workhook.identity.queries import find_account, find_member_role
from workhook.identity.schemas import Account, Organization
from workhook.web.frame import paging
from workhook.web.frame.forms import PageForm, form_page
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.project import names
from workhook.work.administration.deletion import count_issued_invoices, delete_organization
from workhook.work.history import trash as api
from workhook.work.portability.moving.exporting import MEDIA_TYPE, headers_of, make_archive


class Entry(NamedTuple):
    """An entry of the settings' own navigation; `path` goes behind the address of the organization."""

    name: str
    path: str
    icon: str
    label: str


def entries() -> list[Entry]:
    """In their order."""
    return [
        Entry("general", "/settings", "settings", gettext("General")),
        Entry("billing", "/settings/billing", "receipt", gettext("Billing")),
        Entry("oauth", "/settings/oauth-apps", "key", gettext("OAuth apps")),
        Entry("app", "/settings/apps", "zap", gettext("Apps")),
        Entry("installations", "/settings/installations", "download", gettext("Installed apps")),
        Entry("export", "/settings/export", "archive", gettext("Export")),
        Entry("trash", "/-/trash", "trash-2", gettext("Deleted projects")),
    ]


def settings_address(account: Account, *more: str) -> str:
    """The address of the settings, or of a part of them."""
    return "/" + "/".join(quote(each, safe="") for each in (account.login, "settings", *more))


async def owned(visit: Visit, *return_to: str) -> Organization:
    """The organization of the path, if the visitor owns it and has shown within the hour who they are. `return_to`: the
    part of the settings to which a form leads back; without it, the page that was asked for. Raises `NotFound`,
    `Forbidden`, `ConfirmFirst`."""
    organization = await visit.organization("organization.admin")
    visit.require_recent(settings_address(organization.account, *return_to) if return_to else None)
    return organization


# --- general ----------------------------------------------------------------------------------------------------------

places = Places("organization")


class OrganizationEdit(msgspec.Struct):
    """Null: it has no name beside its login."""

    name: Title | None = None


@places.get("/{owner}/settings")
async def show_settings(visit: Visit) -> Answer:
    """Show the settings of an organization."""
    return await _general_page(visit, PageForm())


async def _general_page(visit: Visit, form: PageForm) -> Answer:
    organization = await owned(visit)
    typed = form.value("name") if form.is_refused else organization.account.name or ""
    return visit.page(
        "organization/general.html",
        status=form.status,
        place=organization,
        entries=entries(),
        typed=typed,
        faults=form.reasons,
    )


@places.post("/{owner}/settings", action="organization.edit")
@form_page(_general_page)
async def save_settings(visit: Visit) -> Answer:
    """Change the name of an organization."""
    account = (await owned(visit)).account
    edit = visit.form(OrganizationEdit, "name")
    await visit.change(lambda write: actions.rename(write.tx, account, edit.name, actor=write.actor))
    return visit.done(settings_address(account), gettext("The organization was saved."))


@places.get("/{owner}/settings/delete")
async def ask_to_delete(visit: Visit) -> Answer:
    """Ask for the name of an organization before it is deleted."""
    return await _delete_page(visit, PageForm())


async def _delete_page(visit: Visit, form: PageForm) -> Answer:
    organization = await owned(visit)
    return visit.page(
        "organization/delete.html",
        status=form.status,
        place=organization,
        entries=entries(),
        issued=await count_issued_invoices(visit.database, organization.account),
        faults=form.reasons,
    )


@places.post("/{owner}/settings/delete", action="organization.delete")
@form_page(_delete_page)
async def delete_organization_of_form(visit: Visit) -> Answer:
    """Delete an organization, if its name or its login was typed."""
    account = (await owned(visit, "delete")).account
    if not names(visit.fields.get("name", ""), account.login, account.name or account.login):
        raise Invalid(gettext("That is not what is to be typed. Nothing was deleted."))
    await visit.change(lambda write: delete_organization(write, account))
    return visit.done("/", gettext("%(name)s was deleted.") % {"name": account.name or account.login})


# --- export -----------------------------------------------------------------------------------------------------------

export_places = Places("export")


@export_places.get("/{owner}/settings/export")
async def show_export(visit: Visit) -> Answer:
    """Show what an export holds."""
    return await _export_page(visit, PageForm())


async def _export_page(visit: Visit, form: PageForm) -> Answer:
    return visit.page(
        "organization/export.html",
        status=form.status,
        place=await owned(visit),
        entries=entries(),
        faults=form.reasons,
    )


@export_places.post("/{owner}/settings/export", action="organization.export")
@form_page(_export_page, on=(Conflict, TooManyRequests))
async def download(visit: Visit) -> Answer:
    """Download everything of the organization."""
    account, call = (await owned(visit, "export")).account, visit.call
    archive = await make_archive(call.services, visit.actor, account, call.base_for_others, call.request_id)
    return Answer(archive, headers=headers_of(account, now_ms()), media_type=MEDIA_TYPE)


# --- deleted projects -------------------------------------------------------------------------------------------------

trash_places = Places("deleted_projects")
ROWS = 50


class DeletedProject(NamedTuple):
    """`gone_at`: when it is removed for good; None for what has issued invoices, which stays."""

    id: str
    title: str
    deleted_at: int
    gone_at: int | None


@trash_places.get("/{owner}/-/trash")
async def show(visit: Visit) -> Answer:
    """Show the deleted projects of an account that the visitor can restore."""
    account = await find_account(visit.database, visit.path("owner"))
    if account is None or account.kind == "bot":
        raise NotFound()
    role = await find_member_role(visit.database, account.id, visit.actor.user.id)
    if account.id == visit.actor.user.id:
        role = "owner"
    cursor = visit.query("cursor")
    query = ListQuery(per_page=ROWS, cursor=cursor) if cursor else ListQuery(per_page=ROWS)
    listed = await api.list_trash_of(visit.call, query, account.id)
    if role is None and not listed.body.trash:  # somebody from outside may have been an admin of what was deleted
        visit.actor.request.touches(account.id, hidden=True, names=[account.login])
        raise NotFound()
    return visit.page(
        "organization/trash.html",
        place=Organization(account, role),
        entries=entries() if account.kind == "organization" and role == "owner" else [],
        deleted=[_deleted(each) for each in listed.body.trash],
        days=api.KEPT_MS // DAY_MS,
        more=paging.next_page(listed.headers),
        begins=not cursor,
    )


def _deleted(each: api.TrashShape) -> DeletedProject:
    at = parse_rfc3339(each.deleted_at)
    gone_at = at + api.KEPT_MS
    return DeletedProject(each.id, each.title, at, gone_at if gone_at > now_ms() else None)
