"""Billing settings: a page in the settings of an organization, of a project, and of a person who owns projects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from workhook.core.clock import HOUR_MS
from workhook.core.errors import Conflict, Fault, Invalid
from workhook.http import parameters
from workhook.http.calls import Answer
from workhook.http.currencies import CODES
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Organization
from workhook.storage import Reader
from workhook.web.billing.view import (
    BillingForm,
    ChangedMeanwhile,
    changed_form,
    digest,
    form_again,
    is_late,
    percent_text,
)
from workhook.web.frame.formats import read_amount, typed_amount
from workhook.web.frame.places import AmountField, PercentField, Places, Visit
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
from workhook.work.rates import people
from workhook.work.rates.api import MemberRateEdit, change_member_rate
from workhook.work.rates.people import MemberTerms

TIME = ("hourly_rate", "billable", "round_minutes", "round_mode")
DEFAULTS = ("currency", "tax", "tax_category", "payment_days", "language", *TIME)
ACCOUNT_FIELDS = (
    "legal_name", "address", "vat_id", "email", "iban", "bic", "payment_terms", "number_format", *DEFAULTS,
)  # fmt: skip
_BUYER = ("name", "address", "vat_id", "email")
_BUDGET = ("budget_hours", "budget_amount")
PROJECT_FIELDS = (*(f"buyer_{name}" for name in _BUYER), *DEFAULTS, *_BUDGET)
_CALLED = {f"buyer.{name}": f"buyer_{name}" for name in _BUYER} | {
    "budget": "budget_hours",
    "budget.hours": "budget_hours",
    "budget.amount": "budget_amount",
}
TEAM_MAX = 200
"""A form has a field for each of so many members. Who has more sets rates with the API."""
_HERE = "/settings/billing"

places = Places("billing_settings")

Show = Callable[[BillingForm, int], Answer]


def values_of(billing: AccountBilling | ProjectBilling) -> dict[str, str]:
    """The values of the form, as the settings have them."""
    names = ACCOUNT_FIELDS if isinstance(billing, AccountBilling) else PROJECT_FIELDS
    values = {name: getattr(billing, name, None) for name in names}
    values["tax"] = percent_text(billing.tax_millionths)
    values["hourly_rate"] = typed_amount(billing.hourly_rate_minor)
    values["billable"] = None if billing.billable is None else str(billing.billable).lower()
    if isinstance(billing, ProjectBilling):
        hours = None if billing.budget_ms is None else billing.budget_ms // (HOUR_MS // 100)
        values |= {"budget_hours": typed_amount(hours), "budget_amount": typed_amount(billing.budget_minor)}
        values |= {rate_field(each.username): typed_amount(round(each.hourly_rate * 100)) for each in billing.rates}
    return {name: "" if value is None else str(value) for name, value in values.items()}


def rate_field(login: str) -> str:
    return f"rate-{login}"


def _form(billing: AccountBilling | ProjectBilling, members: Sequence[MemberTerms] = ()) -> BillingForm:
    values = {**values_of(billing), **_rates(members)}
    return BillingForm(values, was=digest(values))


def _names(names: tuple[str, ...]) -> list[str]:
    kinds = {"tax": PercentField, "hourly_rate": AmountField}
    return [kinds[name](name) if name in kinds else name for name in names]


# --- an account ------------------------------------------------------------------------------------------------------


@places.get("/{owner}/settings/billing")
async def show_organization(visit: Visit) -> Answer:
    """Show the billing settings of an organization."""
    organization = await owned(visit)
    billing = await settings.find_account_billing(visit.database, organization.account.id)
    members = await _members(visit.database, organization.account)
    return _organization_page(visit, organization, members, _form(billing, members), 200)


@places.post("/{owner}/settings/billing")
async def save_organization(visit: Visit) -> Answer:
    """Change the billing settings of an organization."""
    organization = await owned(visit)
    members = await _members(visit.database, organization.account)
    show = partial(_organization_page, visit, organization, members)
    address = organization_address(organization.account, "billing")
    return await _save_account(visit, organization.account, address, show, members)


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


async def _save_account(
    visit: Visit, account: Account, address: str, show: Show, members: Sequence[MemberTerms] = ()
) -> Answer:
    """The visitor owns the account. `members`: those whose rates the form has."""

    async def save(write: Write) -> None:
        now = await settings.lock_account_billing(write.tx, account.id)
        _require_fresh(visit, now, await _members(write.tx, account) if members else ())
        await api.change_account_billing(write, account, edit)
        for login, rate in rates.items():
            await change_member_rate(write, account, login, rate)

    names = [*ACCOUNT_FIELDS, *(rate_field(each.login) for each in members)]
    try:
        edit, rates = _account_edit(visit, members)
        await visit.change(save)
    except ChangedMeanwhile as problem:
        now = await settings.find_account_billing(visit.database, account.id)
        values = {**values_of(now), **_rates(await _members(visit.database, account))}
        return show(changed_form(visit.fields, values), problem.status)
    except Invalid as problem:
        return show(form_again(visit, problem, names), problem.status)
    return visit.done(address, gettext("The billing settings were saved."))


async def _members(reader: Reader, account: Account) -> Sequence[MemberTerms]:
    """Those for whom the form has fields."""
    found = await people.find_members(reader, account.id, limit=TEAM_MAX + 1)
    return found if len(found) <= TEAM_MAX else ()


def _rates(members: Sequence[MemberTerms]) -> dict[str, str]:
    """The values of the fields of rates."""
    return {rate_field(each.login): typed_amount(each.rate_minor) for each in members}


def _account_edit(visit: Visit, members: Sequence[MemberTerms]) -> tuple[AccountBillingEdit, dict[str, MemberRateEdit]]:
    """The settings, and the rates of members by their logins. Raises `Invalid` with all that is wrong."""
    faults, rates = list[Fault](), dict[str, MemberRateEdit]()
    for login in (each.login for each in members if rate_field(each.login) in visit.fields):
        field = rate_field(login)
        try:
            typed = float(read_amount(visit.fields[field])) if visit.fields[field].strip() else None
            rates[login] = parameters.gather(MemberRateEdit, {}, {"hourly_rate": typed})
        except ValueError as error:
            faults.append(Fault(field=field, message=str(error)))
        except Invalid as problem:
            faults += [Fault(field=field, message=each.message) for each in problem.faults]
    try:
        edit = visit.form(AccountBillingEdit, *_names(ACCOUNT_FIELDS))
    except Invalid as problem:
        raise Invalid(faults=[*faults, *problem.faults]) from None
    if faults:
        raise Invalid(faults=faults)
    return edit, rates


def _require_fresh(visit: Visit, billing: AccountBilling | ProjectBilling, members: Sequence[MemberTerms] = ()) -> None:
    """Raises `ChangedMeanwhile`. The settings are locked."""
    if is_late(visit.fields, {**values_of(billing), **_rates(members)}):
        raise ChangedMeanwhile


def _organization_page(
    visit: Visit, organization: Organization, members: Sequence[MemberTerms], form: BillingForm, status: int
) -> Answer:
    return visit.page(
        "organization/billing.html",
        status=status,
        place=organization,
        entries=entries(),
        members=members,
        rate_field=rate_field,
        **_context(form, organization_address(organization.account, "billing")),
    )


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

    called = dict(_CALLED)
    try:
        edit = _project_edit(visit, called)
        await visit.change(save)
    except ChangedMeanwhile as problem:
        now = await settings.find_project_billing(visit.database, access.repository.id)
        return await _project_page(visit, access, changed_form(visit.fields, values_of(now)), problem.status)
    except (Invalid, Conflict) as problem:
        form = form_again(visit, problem, (*PROJECT_FIELDS, *called.values()), called=called)
        return await _project_page(visit, access, form, problem.status)
    return visit.done(f"{project_address(visit)}/billing", gettext("The billing settings were saved."))


def _project_edit(visit: Visit, called: dict[str, str]) -> ProjectBillingEdit:
    """`called`: gets the names of the fields of rates, by those of the API. Raises `Invalid`."""
    fields, faults = visit.fields, list[Fault]()

    def amount(name: str) -> float | None:
        try:
            return float(read_amount(typed)) if (typed := fields.get(name, "").strip()) else None
        except ValueError as error:
            faults.append(Fault(field=name, message=str(error)))
            return None

    more: dict[str, object] = {"buyer": {name: fields.get(f"buyer_{name}", "").strip() or None for name in _BUYER}}
    hours, money = amount("budget_hours"), amount("budget_amount")
    more["budget"] = None if hours is None and money is None else {"hours": hours, "amount": money}
    if "has_rates" in fields:
        logins = [each.removeprefix("rate-") for each in fields if each.startswith("rate-")]
        rates = [(login, typed) for login in logins if (typed := amount(rate_field(login))) is not None]
        more["rates"] = [{"username": login, "hourly_rate": typed} for login, typed in rates]
        for index, (login, _) in enumerate(rates):
            called |= {f"rates[{index}].{name}": rate_field(login) for name in ("username", "hourly_rate")}
    try:
        edit = visit.form(ProjectBillingEdit, *_names(DEFAULTS), **more)
    except Invalid as problem:
        raise Invalid(faults=[*faults, *problem.faults]) from None
    if faults:
        raise Invalid(faults=faults)
    return edit


async def _project_page(visit: Visit, access: Access, form: BillingForm, status: int) -> Answer:
    """With what the account says, as the hints of empty fields."""
    billing = await settings.find_account_billing(visit.database, access.repository.owner.id)
    team = await people.find_team(visit.database, access.repository.id, limit=TEAM_MAX + 1)
    return visit.page(
        "project/billing.html",
        status=status,
        access=access,
        team=team if len(team) <= TEAM_MAX else [],
        rate_field=rate_field,
        inherited=values_of(billing),
        **_context(form, f"{project_address(visit)}/billing"),
    )
