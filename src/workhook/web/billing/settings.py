"""Billing settings: a page in the settings of an organization, of a project, and of a person who owns projects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from workhook.core.errors import Conflict, Invalid
from workhook.http.calls import Answer
from workhook.http.currencies import CODES
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Organization
from workhook.web.billing.view import (
    BillingForm,
    ChangedMeanwhile,
    changed_form,
    digest,
    form_again,
    is_late,
    percent_text,
)
from workhook.web.frame.places import PercentField, Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.organization.view import entries, owned
from workhook.web.organization.view import settings_address as organization_address
from workhook.web.project.view import administered
from workhook.web.project.view import settings_address as project_address
from workhook.work.access import Access
from workhook.work.billing import api, settings
from workhook.work.billing.schemas import (
    AccountBilling,
    AccountBillingEdit,
    ProjectBilling,
    ProjectBillingEdit,
)
from workhook.work.invoices.numbering import DEFAULT_FORMAT

DEFAULTS = ("currency", "tax", "tax_category", "payment_days", "language")
ACCOUNT_FIELDS = (
    "legal_name", "address", "vat_id", "email", "iban", "bic", "payment_terms", "number_format", *DEFAULTS,
)  # fmt: skip
_BUYER = ("name", "address", "vat_id", "email")
PROJECT_FIELDS = (*(f"buyer_{name}" for name in _BUYER), *DEFAULTS)
_CALLED = {f"buyer.{name}": f"buyer_{name}" for name in _BUYER}
_HERE = "/settings/billing"

places = Places("billing_settings")

Show = Callable[[BillingForm, int], Answer]


def values_of(billing: AccountBilling | ProjectBilling) -> dict[str, str]:
    """The values of the form, as the settings have them."""
    names = ACCOUNT_FIELDS if isinstance(billing, AccountBilling) else PROJECT_FIELDS
    values = {name: getattr(billing, name, None) for name in names}
    values["tax"] = percent_text(billing.tax_millionths)
    return {name: "" if value is None else str(value) for name, value in values.items()}


def _form(billing: AccountBilling | ProjectBilling) -> BillingForm:
    values = values_of(billing)
    return BillingForm(values, was=digest(values))


def _names(names: tuple[str, ...]) -> list[str]:
    return [PercentField(name) if name == "tax" else name for name in names]


# --- an account ------------------------------------------------------------------------------------------------------


@places.get("/{owner}/settings/billing")
async def show_organization(visit: Visit) -> Answer:
    """Show the billing settings of an organization."""
    organization = await owned(visit)
    billing = await settings.find_account_billing(visit.database, organization.account.id)
    return _organization_page(visit, organization, _form(billing), 200)


@places.post("/{owner}/settings/billing")
async def save_organization(visit: Visit) -> Answer:
    """Change the billing settings of an organization."""
    organization = await owned(visit)
    show = partial(_organization_page, visit, organization)
    return await _save_account(visit, organization.account, organization_address(organization.account, "billing"), show)


@places.get("/settings/billing")
async def show_own(visit: Visit) -> Answer:
    """Show the billing settings of the user's own account."""
    visit.require_recent()
    billing = await settings.find_account_billing(visit.database, visit.actor.user.id)
    return _own_page(visit, _form(billing), 200)


@places.post("/settings/billing")
async def save_own(visit: Visit) -> Answer:
    """Change the billing settings of the user's own account."""
    visit.require_recent(_HERE)
    return await _save_account(visit, visit.actor.user, _HERE, partial(_own_page, visit))


async def _save_account(visit: Visit, account: Account, address: str, show: Show) -> Answer:
    """The visitor owns the account."""

    async def save(write: Write) -> None:
        _require_fresh(visit, await settings.lock_account_billing(write.tx, account.id))
        await api.change_account_billing(write, account, edit)

    try:
        edit = visit.form(AccountBillingEdit, *_names(ACCOUNT_FIELDS))
        await visit.change(save)
    except ChangedMeanwhile as problem:
        now = await settings.find_account_billing(visit.database, account.id)
        return show(changed_form(visit.fields, values_of(now)), problem.status)
    except Invalid as problem:
        return show(form_again(visit, problem, ACCOUNT_FIELDS), problem.status)
    return visit.done(address, gettext("The billing settings were saved."))


def _require_fresh(visit: Visit, billing: AccountBilling | ProjectBilling) -> None:
    """Raises `ChangedMeanwhile`. The settings are locked."""
    if is_late(visit.fields, values_of(billing)):
        raise ChangedMeanwhile


def _organization_page(visit: Visit, organization: Organization, form: BillingForm, status: int) -> Answer:
    more = _context(form, organization_address(organization.account, "billing"))
    return visit.page("organization/billing.html", status=status, place=organization, entries=entries(), **more)


def _own_page(visit: Visit, form: BillingForm, status: int) -> Answer:
    return visit.page("account/billing.html", status=status, **_context(form, _HERE))


def _context(form: BillingForm, address: str) -> Mapping[str, Any]:
    return {"form": form, "address": address, "currencies": sorted(CODES), "default_format": DEFAULT_FORMAT}


# --- a project -------------------------------------------------------------------------------------------------------


@places.get("/{owner}/{project}/settings/billing")
async def show_project(visit: Visit) -> Answer:
    """Show the billing settings of a project."""
    access = await administered(visit)
    billing = await settings.find_project_billing(visit.database, access.repository.id)
    return await _project_page(visit, access, _form(billing), 200)


@places.post("/{owner}/{project}/settings/billing")
async def save_project(visit: Visit) -> Answer:
    """Change the billing settings of a project."""
    access = await administered(visit)

    async def save(write: Write) -> None:
        _require_fresh(visit, await settings.lock_project_billing(write.tx, access.repository.id))
        await api.edit_project_billing(write, access.repository.project_id, edit)

    buyer = {name: visit.fields.get(f"buyer_{name}", "").strip() or None for name in _BUYER}
    try:
        edit = visit.form(ProjectBillingEdit, *_names(DEFAULTS), buyer=buyer)
        await visit.change(save)
    except ChangedMeanwhile as problem:
        now = await settings.find_project_billing(visit.database, access.repository.id)
        return await _project_page(visit, access, changed_form(visit.fields, values_of(now)), problem.status)
    except (Invalid, Conflict) as problem:
        form = form_again(visit, problem, PROJECT_FIELDS, called=_CALLED)
        return await _project_page(visit, access, form, problem.status)
    return visit.done(f"{project_address(visit)}/billing", gettext("The billing settings were saved."))


async def _project_page(visit: Visit, access: Access, form: BillingForm, status: int) -> Answer:
    """With what the account says, as the hints of empty fields."""
    billing = await settings.find_account_billing(visit.database, access.repository.owner.id)
    return visit.page(
        "project/billing.html",
        status=status,
        access=access,
        inherited=values_of(billing),
        **_context(form, f"{project_address(visit)}/billing"),
    )
