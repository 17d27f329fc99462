"""`/{owner}/settings`: rename, export, and delete an organization."""

from __future__ import annotations

from typing import Any

import msgspec

from workhook.core.errors import Conflict, Invalid, TooManyRequests
from workhook.http.calls import Response
from workhook.http.parameters import Title
from workhook.identity import actions
from workhook.identity.schemas import Account, Organization
from workhook.web.frame import paging
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.navigation import Tab
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.project import names
from workhook.work.administration.deletion import count_issued_invoices, delete_organization
from workhook.work.portability.transfer.exports import MEDIA_TYPE, create_archive, headers_of


def entries() -> list[Tab]:
    """Return the navigation of the settings. Paths are relative to the organization's address."""
    return [
        Tab("general", "/settings", "settings", gettext("General")),
        Tab("billing", "/settings/billing", "receipt", gettext("Billing")),
        Tab("oauth", "/settings/oauth-apps", "key", gettext("OAuth apps")),
        Tab("app", "/settings/apps", "zap", gettext("Apps")),
        Tab("installations", "/settings/installations", "download", gettext("Installed apps")),
        Tab("export", "/settings/export", "archive", gettext("Export")),
        Tab("trash", "/-/trash", "trash-2", gettext("Deleted projects")),
    ]


def settings_address(account: Account, *more: str) -> str:
    return paging.address_of(account.login, "settings", *more)


async def owned(visit: Visit, *return_to: str) -> Organization:
    """Return the organization in the path if the visitor owns it and has signed in within the last hour.

    `return_to`: the settings page to return to after re-authentication, by default the current one. Raises `NotFound`,
    `Forbidden`, `ConfirmFirst`.
    """
    organization = await visit.organization("organization.admin")
    visit.require_recent(settings_address(organization.account, *return_to) if return_to else None)
    return organization


def settings_page(
    visit: Visit, place: Organization, template: str, form: PageForm = UNSENT, **context: Any
) -> Response:
    values: dict[str, Any] = {"entries": entries(), "faults": form.reasons, **context}
    return visit.page(template, form=form, place=place, **values)


places = Places("organization")


class OrganizationEdit(msgspec.Struct):
    name: Title | None = None


@places.get("/{owner}/settings")
async def show_settings(visit: Visit, form: PageForm = UNSENT) -> Response:
    organization = await owned(visit)
    typed = form.value("name") if form.is_refused else organization.account.name or ""
    return settings_page(visit, organization, "organization/general.html", form, typed=typed)


@places.post("/{owner}/settings", action="organization.edit")
@form_page(show_settings)
async def save_settings(visit: Visit) -> Response:
    account = (await owned(visit)).account
    edit = visit.form(OrganizationEdit, "name")
    await visit.change(lambda write: actions.rename(write.tx, account, edit.name, actor=write.actor))
    return visit.done(settings_address(account), gettext("Organization saved."))


@places.get("/{owner}/settings/delete")
async def ask_to_delete(visit: Visit, form: PageForm = UNSENT) -> Response:
    organization = await owned(visit)
    issued = await count_issued_invoices(visit.database, organization.account)
    return settings_page(visit, organization, "organization/delete.html", form, issued=issued)


@places.post("/{owner}/settings/delete", action="organization.delete")
@form_page(ask_to_delete)
async def delete_organization_of_form(visit: Visit) -> Response:
    """Delete an organization if its name or login was typed."""
    account = (await owned(visit, "delete")).account
    if not names(visit.fields.get("name", ""), account.login, account.name or account.login):
        raise Invalid(gettext("The name doesn’t match. Nothing was deleted."))
    await visit.change(lambda write: delete_organization(write, account))
    return visit.done("/", gettext("%(name)s was deleted.", name=account.name or account.login))


export_places = Places("export")


@export_places.get("/{owner}/settings/export")
async def show_export(visit: Visit, form: PageForm = UNSENT) -> Response:
    return settings_page(visit, await owned(visit), "organization/export.html", form)


@export_places.post("/{owner}/settings/export", action="organization.export")
@form_page(show_export, on=(Conflict, TooManyRequests))
async def download(visit: Visit) -> Response:
    account, call = (await owned(visit, "export")).account, visit.call
    archive = await create_archive(call.services, visit.actor, account, call.public_base, call.request_id)
    return Response(archive, headers=headers_of(account), media_type=MEDIA_TYPE)
