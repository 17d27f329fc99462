"""Billing settings of organizations, projects, and users who own projects."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from typing import Any

import msgspec

from workhook.core.clock import HOUR_MS
from workhook.core.errors import Conflict, Fault, Invalid, TooLarge
from workhook.core.money import CURRENCIES, DEFAULT_CURRENCY, to_minor
from workhook.core.zones import zone_names
from workhook.http import parameters
from workhook.http.calls import Response
from workhook.identity.context import Write
from workhook.identity.schemas import Account
from workhook.storage import Reader
from workhook.storage.blobs import BlobMissing
from workhook.web.billing.invoices import percent_text
from workhook.web.frame.formats import read_amount, read_hours, typed_amount, typed_hundredths
from workhook.web.frame.forms import ChangedMeanwhile, Faults, PageForm, digest, is_late, refused_form
from workhook.web.frame.places import AmountField, H, PercentField, Places, Visit, for_site
from workhook.web.frame.refusals import in_words
from workhook.web.frame.sessions import check_alive
from workhook.web.frame.texts import gettext
from workhook.web.organization.settings import entries, owned
from workhook.web.organization.settings import settings_address as organization_address
from workhook.web.project import administered
from workhook.web.project import settings_address as project_address
from workhook.work.kernel.access import Access
from workhook.work.kernel.billing_settings import (
    DEFAULT_FORMAT,
    AccountBilling,
    AccountBillingEdit,
    ProjectBilling,
    ProjectBillingEdit,
)
from workhook.work.money.billing import actions
from workhook.work.money.invoices import settings
from workhook.work.money.invoices.settings import find_logo
from workhook.work.time import rates
from workhook.work.time.rates import MemberRateEdit, MemberTerms, change_member_rate

BUYER = ("name", "address", "country", "vat_id", "email")
RATE_PREFIX = "rate-"
TEAM_MAX = 200
"""Maximum number of members with a rate field in the form. Larger teams set rates with the API."""


def rate_field(login: str) -> str:
    return f"{RATE_PREFIX}{login}"


async def find_members(reader: Reader, account: Account) -> Sequence[MemberTerms]:
    """Return the members with a rate field in the form."""
    found = await rates.find_members(reader, account.id, limit=TEAM_MAX + 1)
    return found if len(found) <= TEAM_MAX else ()


def rates_of(members: Sequence[MemberTerms], currency: str) -> dict[str, str]:
    return {rate_field(each.login): typed_amount(each.rate_minor, currency) for each in members}


def account_edit(
    visit: Visit, members: Sequence[MemberTerms], names: Sequence[str], currency: str
) -> tuple[AccountBillingEdit, dict[str, MemberRateEdit]]:
    """Return the settings and the member rates by login. Raises `Invalid` with all errors."""
    faults, rates = Faults(), dict[str, MemberRateEdit]()
    for login in (each.login for each in members if rate_field(each.login) in visit.fields):
        field = rate_field(login)
        try:
            typed = float(read_amount(visit.fields[field], currency)) if visit.fields[field].strip() else None
            rates[login] = parameters.gather(MemberRateEdit, {}, {"hourly_rate": typed})
        except ValueError as error:
            faults.append(Fault(field=field, message=str(error)))
        except Invalid as problem:
            faults += [Fault(field=field, message=each.message) for each in problem.faults]
    with faults:
        edit = visit.form(AccountBillingEdit, *names)
    faults.check()
    return edit, rates


def project_edit(visit: Visit, names: Sequence[str], called: dict[str, str], currency: str) -> ProjectBillingEdit:
    """Read the settings. Adds the form's names for the API's rate fields to `called`. Raises `Invalid`."""
    fields, faults = visit.fields, Faults()

    def amount(name: str, currency: str | None, read: Callable[[str, str | None], str] = read_amount) -> float | None:
        try:
            return float(read(typed, currency)) if (typed := fields.get(name, "").strip()) else None
        except ValueError as error:
            faults.append(Fault(field=name, message=str(error)))
            return None

    more: dict[str, object] = {"buyer": {name: fields.get(f"buyer_{name}", "").strip() or None for name in BUYER}}
    hours, money = amount("budget_hours", None, read=read_hours), amount("budget_amount", currency)
    more["budget"] = None if hours is None and money is None else {"hours": hours, "amount": money}
    if "has_rates" in fields:
        logins = [each.removeprefix(RATE_PREFIX) for each in fields if each.startswith(RATE_PREFIX)]
        rates = [(login, typed) for login in logins if (typed := amount(rate_field(login), currency)) is not None]
        more["rates"] = [{"username": login, "hourly_rate": typed} for login, typed in rates]
        for index, (login, _) in enumerate(rates):
            called |= {f"rates[{index}].{name}": rate_field(login) for name in ("username", "hourly_rate")}
    with faults:
        edit = visit.form(ProjectBillingEdit, *names, **more)
    faults.check()
    return edit


TIME = ("hourly_rate", "billable", "round_minutes", "round_mode")
DEFAULTS = ("currency", "tax", "tax_category", "payment_days", "language", *TIME)
ACCOUNT_FIELDS = (
    "legal_name", "address", "country", "vat_id", "tax_number", "email", "iban", "bic", "payment_terms",
    "number_format", "timezone", *DEFAULTS,
)  # fmt: skip
_BUDGET = ("budget_hours", "budget_amount")
PROJECT_FIELDS = (*(f"buyer_{name}" for name in BUYER), *DEFAULTS, *_BUDGET)
_CALLED = {f"buyer.{name}": f"buyer_{name}" for name in BUYER} | {
    "budget": "budget_hours",
    "budget.hours": "budget_hours",
    "budget.amount": "budget_amount",
}
LOGO = "logo"


def values_of(billing: AccountBilling | ProjectBilling) -> dict[str, str]:
    """Return the values of the form."""
    names = ACCOUNT_FIELDS if isinstance(billing, AccountBilling) else PROJECT_FIELDS
    values = {name: getattr(billing, name, None) for name in names}
    values["tax"] = percent_text(billing.tax_millionths)
    currency = money_of(billing)
    values["hourly_rate"] = typed_amount(billing.hourly_rate_minor, currency)
    values["billable"] = None if billing.billable is None else str(billing.billable).lower()
    if isinstance(billing, ProjectBilling):
        hours = None if billing.budget_ms is None else billing.budget_ms // (HOUR_MS // 100)
        values |= {"budget_hours": typed_hundredths(hours)}
        values["budget_amount"] = typed_amount(billing.budget_minor, currency)
        for each in billing.rates:
            rate = to_minor(Decimal(str(each.hourly_rate)), currency, "hourly_rate")
            values[rate_field(each.username)] = typed_amount(rate, currency)
    return {name: "" if value is None else str(value) for name, value in values.items()}


def money_of(billing: AccountBilling | ProjectBilling) -> str:
    return billing.money if isinstance(billing, ProjectBilling) else billing.currency or DEFAULT_CURRENCY


def _names(names: tuple[str, ...], currency: str) -> list[str]:
    kinds = {"tax": PercentField("tax"), "hourly_rate": AmountField("hourly_rate", currency)}
    return [kinds.get(name, name) for name in names]


# --- an account ------------------------------------------------------------------------------------------------------


class AccountPage(msgspec.Struct, frozen=True):
    """The settings page of an owned account. `members` have a rate field; `more` is for the template."""

    account: Account
    template: str
    address: str
    members: Sequence[MemberTerms] = ()
    more: Mapping[str, Any] = {}


async def _of_organization(visit: Visit) -> AccountPage:
    organization = await owned(visit, "billing")
    address = organization_address(organization.account, "billing")
    members = await find_members(visit.database, organization.account)
    more = {"place": organization, "entries": entries(), "members": members, "rate_field": rate_field}
    return AccountPage(organization.account, "organization/billing.html", address, members, more)


async def _of_person(visit: Visit) -> AccountPage:
    visit.require_recent("/settings/billing")
    return AccountPage(visit.actor.user, "account/billing.html", "/settings/billing")


_SITES: Mapping[str, tuple[str, Callable[[Visit], Awaitable[AccountPage]]]] = {
    "organization": ("/{owner}/settings/billing", _of_organization),
    "own": ("/settings/billing", _of_person),
}


class AccountPlaces(Places):
    """Places that exist for an organization and for the visitor's own account."""

    def route(self, method: str, path: str, **facts: Any) -> Callable[[H], H]:
        def declare(function: H) -> H:
            for kind, (base, find) in _SITES.items():
                super(AccountPlaces, self).route(method, base + path, **facts)(for_site(function, kind, find))
            return function

        return declare


account_places = AccountPlaces("billing_settings")


@account_places.get("")
async def show(visit: Visit, page: AccountPage, form: PageForm | None = None) -> Response:
    """Show the billing settings of an account."""
    billing = await settings.find_account_billing(visit.database, page.account.id)
    members = page.members
    if form is not None and form.is_late and members:  # rates may have changed since they were read
        members = await find_members(visit.database, page.account)
    stored = {**values_of(billing), **rates_of(members, money_of(billing))}
    logo_form = (form or PageForm()).of(LOGO)
    if form is None or form is logo_form:
        shown = PageForm(stored, was=digest(stored))
    else:
        shown = form
        if form.is_late:
            form.compare(stored)
    return visit.page(
        page.template,
        form=shown,
        status=form.status if form else 200,
        logo=await _picture(visit, page.account, billing.logo_id),
        logo_fault=in_words(logo_form.reasons[0]) if logo_form.reasons else "",
        zones=zone_names(),
        **_context(page.address),
        **page.more,
    )


async def _picture(visit: Visit, account: Account, logo_id: str | None) -> str | None:
    """Return the logo as a data URL, or None without a logo or if its content is missing."""
    logo = await find_logo(visit.database, account.id, logo_id) if logo_id else None
    if logo is None:
        return None
    try:
        pieces = [each async for each in await visit.call.services.blobs.read(logo.blob, 0, logo.size)]
    except BlobMissing:
        return None
    return f"data:{logo.content_type};base64,{base64.b64encode(b''.join(pieces)).decode()}"


@account_places.post("", action="organization_billing.edit")
async def save(visit: Visit, page: AccountPage) -> Response:
    """Change the billing settings of an account."""
    account, members = page.account, page.members

    async def change(write: Write) -> None:
        now = await settings.lock_account_billing(write.tx, account.id)
        _require_fresh(visit, now, await find_members(write.tx, account) if members else ())
        await actions.change_account_billing(write, account, edit)
        for login, rate in rates.items():
            await change_member_rate(write, account, login, rate)

    try:
        currency = visit.fields.get("currency") or DEFAULT_CURRENCY
        edit, rates = account_edit(visit, members, _names(ACCOUNT_FIELDS, currency), currency)
        await visit.change(change)
    except (Invalid, ChangedMeanwhile) as problem:
        names = [*ACCOUNT_FIELDS, *(rate_field(each.login) for each in members)]
        return await show(visit, page, refused_form(visit.fields, problem, names))
    return visit.done(page.address, gettext("Billing settings saved."))


@account_places.upload("/logo", action="organization_billing.edit")
async def put_logo(visit: Visit, page: AccountPage) -> Response:
    """Set the logo of an account's invoices."""
    async with AsyncExitStack() as stack:
        try:
            put = await stack.enter_async_context(actions.receive_logo(visit.call, admit=visit.admit))
        except (Invalid, TooLarge) as problem:
            return await show(visit, page, refused_form(visit.fields, problem, section=LOGO))
        await check_alive(visit.call, visit.session)
        await visit.change(lambda write: put(write, page.account))
    return visit.done(f"{page.address}#logo", gettext("Logo saved."))


@account_places.post("/logo/remove", action="organization_billing.edit")
async def remove_logo(visit: Visit, page: AccountPage) -> Response:
    """Remove the logo of an account's invoices."""
    await visit.change(lambda write: actions.remove_logo(write, page.account))
    return visit.done(f"{page.address}#logo", gettext("Logo removed."))


def _require_fresh(visit: Visit, billing: AccountBilling | ProjectBilling, members: Sequence[MemberTerms] = ()) -> None:
    """Raise `ChangedMeanwhile` if the locked settings differ from those the form was made for."""
    if is_late(visit.fields, {**values_of(billing), **rates_of(members, money_of(billing))}):
        raise ChangedMeanwhile


def _context(address: str) -> Mapping[str, Any]:
    return {"address": address, "currencies": sorted(CURRENCIES), "default_format": DEFAULT_FORMAT}


# --- a project -------------------------------------------------------------------------------------------------------

places = Places("billing_settings")


@places.get("/{owner}/{project}/settings/billing")
async def show_project(visit: Visit) -> Response:
    """Show the billing settings of a project."""
    access = await administered(visit)
    billing = await settings.find_project_billing(visit.database, access.repository.id)
    return await _project_page(visit, access, PageForm(values := values_of(billing), was=digest(values)))


@places.post("/{owner}/{project}/settings/billing", action="project_billing.edit")
async def save_project(visit: Visit) -> Response:
    """Change the billing settings of a project."""
    access = await administered(visit)

    async def save(write: Write) -> None:
        _require_fresh(visit, await settings.lock_project_billing(write.tx, access.repository.id))
        await actions.edit_project_billing(write, access.repository.project_id, edit)

    called = dict(_CALLED)
    of_account = await settings.find_account_billing(visit.database, access.repository.owner.id)
    currency = visit.fields.get("currency") or of_account.currency or DEFAULT_CURRENCY
    try:
        edit = project_edit(visit, _names(DEFAULTS, currency), called, currency)
        await visit.change(save)
    except (Invalid, Conflict) as problem:
        rates = (name for name in visit.fields if name.startswith(RATE_PREFIX))
        form = refused_form(visit.fields, problem, (*PROJECT_FIELDS, *rates), called=called)
        if form.is_late:
            form.compare(values_of(await settings.find_project_billing(visit.database, access.repository.id)))
        return await _project_page(visit, access, form)
    return visit.done(f"{project_address(visit)}/billing", gettext("Billing settings saved."))


async def _project_page(visit: Visit, access: Access, form: PageForm) -> Response:
    """Show the settings, with the account's values as hints for empty fields."""
    billing = await settings.find_account_billing(visit.database, access.repository.owner.id)
    team = await rates.find_team(visit.database, access.repository.id, limit=TEAM_MAX + 1)
    return visit.page(
        "project/billing.html",
        form=form,
        access=access,
        team=team if len(team) <= TEAM_MAX else [],
        rate_field=rate_field,
        inherited=values_of(billing),
        **_context(f"{project_address(visit)}/billing"),
    )
