"""`/{owner}/settings`: the name of an organization."""

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
