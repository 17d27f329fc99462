"""`/{owner}/settings`: the name of an organization. `/{owner}/settings/delete`: the end of it."""

from __future__ import annotations

import msgspec

from workhook.core.errors import Invalid
from workhook.http.calls import Answer
from workhook.http.parameters import Title
from workhook.identity import actions
from workhook.identity.schemas import Organization
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.organization.view import entries, owned, settings_address
from workhook.web.project.general import names
from workhook.work.people.organizations.deletion import count_issued_invoices, delete_organization

places = Places("organization")


class OrganizationEdit(msgspec.Struct):
    """Null: it has no name beside its login."""

    name: Title | None = None


@places.get("/{owner}/settings")
async def show_settings(visit: Visit) -> Answer:
    """Show the settings of an organization."""
    organization = await owned(visit)
    return _page(visit, organization, organization.account.name or "", [])


@places.post("/{owner}/settings")
async def save_settings(visit: Visit) -> Answer:
    """Change the name of an organization."""
    organization = await owned(visit)
    account = organization.account
    try:
        edit = visit.form(OrganizationEdit, "name")
    except Invalid as problem:
        return _page(visit, organization, visit.fields.get("name", ""), problem.reasons)
    await visit.change(lambda write: actions.rename(write.tx, account, edit.name, actor=write.actor))
    return visit.done(settings_address(account), gettext("The organization was saved."))


def _page(visit: Visit, organization: Organization, name: str, faults: list[str]) -> Answer:
    return visit.page(
        "organization/general.html",
        status=422 if faults else 200,
        place=organization,
        entries=entries(),
        typed=name,
        faults=faults,
    )


@places.get("/{owner}/settings/delete")
async def ask_to_delete(visit: Visit) -> Answer:
    """Ask for the name of an organization before it is deleted."""
    return await _delete_page(visit, await owned(visit))


@places.post("/{owner}/settings/delete")
async def delete_organization_of_form(visit: Visit) -> Answer:
    """Delete an organization, if its name or its login was typed."""
    organization = await owned(visit, "delete")
    account = organization.account
    if not names(visit.fields.get("name", ""), account.login, account.name or account.login):
        return await _delete_page(visit, organization, gettext("That is not what is to be typed. Nothing was deleted."))
    await visit.change(lambda write: delete_organization(write, account))
    return visit.done("/", gettext("%(name)s was deleted.") % {"name": account.name or account.login})


async def _delete_page(visit: Visit, organization: Organization, fault: str = "") -> Answer:
    return visit.page(
        "organization/delete.html",
        status=422 if fault else 200,
        place=organization,
        entries=entries(),
        issued=await count_issued_invoices(visit.database, organization.account),
        faults=[fault] if fault else [],
    )
