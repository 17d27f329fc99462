"""Billing settings: a page in the settings of an organization, of a project, and of a person who owns projects."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from workhook.core.errors import Conflict, Invalid, TooLarge
from workhook.http.calls import Answer
from workhook.http.currencies import CODES
from workhook.identity.context import Write
from workhook.identity.schemas import Account
from workhook.storage.blobs import BlobMissing
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
from workhook.web.frame.refusals import in_words
from workhook.web.frame.sessions import check_alive
from workhook.web.frame.texts import gettext
from workhook.web.organization.view import entries, owned
from workhook.web.organization.view import settings_address as organization_address
from workhook.web.project.view import administered
from workhook.web.project.view import settings_address as project_address
from workhook.work.access import Access
from workhook.work.billing import api, logos, settings
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
    return await _show(visit, await _of_organization(visit))


@places.post("/{owner}/settings/billing")
async def save_organization(visit: Visit) -> Answer:
    """Change the billing settings of an organization."""
    return await _save(visit, await _of_organization(visit))


@places.upload("/{owner}/settings/billing/logo")
async def put_logo(visit: Visit) -> Answer:
    """Set the logo of an organization's invoices."""
    return await _put_logo(visit, await _of_organization(visit))


@places.post("/{owner}/settings/billing/logo/remove")
async def remove_logo(visit: Visit) -> Answer:
    """Remove the logo of an organization's invoices."""
    return await _remove_logo(visit, await _of_organization(visit))


@places.get("/settings/billing")
async def show_own(visit: Visit) -> Answer:
    """Show the billing settings of the user's own account."""
    return await _show(visit, _of_person(visit))


@places.post("/settings/billing")
async def save_own(visit: Visit) -> Answer:
    """Change the billing settings of the user's own account."""
    return await _save(visit, _of_person(visit))


@places.upload("/settings/billing/logo")
async def put_own_logo(visit: Visit) -> Answer:
    """Set the logo of the user's own invoices."""
    return await _put_logo(visit, _of_person(visit))


@places.post("/settings/billing/logo/remove")
async def remove_own_logo(visit: Visit) -> Answer:
    """Remove the logo of the user's own invoices."""
    return await _remove_logo(visit, _of_person(visit))


class AccountPage(msgspec.Struct, frozen=True):
    """The page of the settings of an account that the visitor owns. `more`: what its template needs besides."""

    account: Account
    template: str
    address: str
    more: Mapping[str, Any] = {}


async def _of_organization(visit: Visit) -> AccountPage:
    """Raises `NotFound`, `Forbidden`, `ConfirmFirst`."""
    organization = await owned(visit, "billing")
    address = organization_address(organization.account, "billing")
    more = {"place": organization, "entries": entries()}
    return AccountPage(organization.account, "organization/billing.html", address, more)


def _of_person(visit: Visit) -> AccountPage:
    """Raises `ConfirmFirst`."""
    visit.require_recent(_HERE)
    return AccountPage(visit.actor.user, "account/billing.html", _HERE)


async def _show(
    visit: Visit, page: AccountPage, form: BillingForm | None = None, *, status: int = 200, logo_fault: str = ""
) -> Answer:
    """With `form` as it was sent, or else with what is stored. `logo_fault`: what is wrong with a logo."""
    billing = await settings.find_account_billing(visit.database, page.account.id)
    return visit.page(
        page.template,
        status=status,
        logo=await _picture(visit, page.account, billing.logo_id),
        logo_fault=logo_fault,
        **_context(form or _form(billing), page.address),
        **page.more,
    )


async def _picture(visit: Visit, account: Account, logo_id: str | None) -> str | None:
    """The logo as an address that holds it. None without one, and where its content is gone."""
    logo = await logos.find_logo(visit.database, account.id, logo_id) if logo_id else None
    if logo is None:
        return None
    try:
        pieces = [each async for each in await visit.call.services.blobs.read(logo.blob, 0, logo.size)]
    except BlobMissing:
        return None
    return f"data:{logo.content_type};base64,{base64.b64encode(b''.join(pieces)).decode()}"


async def _save(visit: Visit, page: AccountPage) -> Answer:
    account = page.account

    async def save(write: Write) -> None:
        _require_fresh(visit, await settings.lock_account_billing(write.tx, account.id))
        await api.change_account_billing(write, account, edit)

    try:
        edit = visit.form(AccountBillingEdit, *_names(ACCOUNT_FIELDS))
        await visit.change(save)
    except ChangedMeanwhile as problem:
        now = await settings.find_account_billing(visit.database, account.id)
        return await _show(visit, page, changed_form(visit.fields, values_of(now)), status=problem.status)
    except Invalid as problem:
        return await _show(visit, page, form_again(visit, problem, ACCOUNT_FIELDS), status=problem.status)
    return visit.done(page.address, gettext("The billing settings were saved."))


async def _put_logo(visit: Visit, page: AccountPage) -> Answer:
    try:
        logo = await logos.receive_logo(visit.call, admit=visit.admit)
    except (Invalid, TooLarge) as problem:
        return await _show(visit, page, status=problem.status, logo_fault=in_words(problem.reasons[0]))
    async with logo:
        await check_alive(visit.call, visit.session)
        await visit.change(lambda write: logo.put(write, page.account))
    return visit.done(f"{page.address}#logo", gettext("The logo was saved."))


async def _remove_logo(visit: Visit, page: AccountPage) -> Answer:
    await visit.change(lambda write: logos.remove_logo(write, page.account))
    return visit.done(f"{page.address}#logo", gettext("The logo was removed."))


def _require_fresh(visit: Visit, billing: AccountBilling | ProjectBilling) -> None:
    """Raises `ChangedMeanwhile`. The settings are locked."""
    if is_late(visit.fields, values_of(billing)):
        raise ChangedMeanwhile


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
