"""The billing settings of an account and of a project are changed."""

from __future__ import annotations

import msgspec
from msgspec import UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid, compose, say
from workhook.core.money import DEFAULT_CURRENCY, digits_of, minor_of, rescaled
from workhook.core.records import to_response
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Repository
from workhook.storage import Reader, Transaction
from workhook.work.kernel.access import Access, find_access
from workhook.work.kernel.record_events import differences, record_audit
from workhook.work.kernel.schemas import RATE_MAX_MINOR, given_rate, if_set
from workhook.work.kernel.settings import (
    DEFAULT_FORMAT,
    DEFAULT_LANGUAGE,
    AccountBilling,
    AccountBillingAnswer,
    AccountBillingEdit,
    BudgetEdit,
    BuyerEdit,
    InvoiceDefaultsEdit,
    Party,
    ProjectBilling,
    ProjectBillingAnswer,
    ProjectBillingEdit,
    budget_shape,
)
from workhook.work.money.billing.currencies import (
    change_account_currency,
    change_project_currency,
    does_not_fit,
    set_project_currency,
)
from workhook.work.money.invoices import settings
from workhook.work.money.invoices.rules import rate_fault
from workhook.work.time.rates import people
from workhook.work.time.timesheets.budgets import HoursOrMoney, find_used, mark_of

_STORED_AS = {"tax": "tax_millionths"}


async def change_account_billing(write: Write, account: Account, edit: AccountBillingEdit) -> AccountBilling:
    """The settings afterwards. The caller owns the account. Raises `Invalid`, `PreconditionFailed`."""
    before = await settings.lock_account_billing(write.tx, account.id)
    write.require_match(account_answer(before))
    given = _given(edit)
    currency = str(given.get("currency", before.currency) or DEFAULT_CURRENCY)
    given |= _own_rate(before.hourly_rate_minor, before.currency or DEFAULT_CURRENCY, edit, currency)
    after = msgspec.structs.replace(before, **given)
    _check_rate(after)
    if after.currency != before.currency:
        await change_account_currency(write.tx, account.id, before.currency, after.currency)
    if after != before:
        settings.save_account_billing(write.tx, account.id, after)
        changes = differences(to_response(before), to_response(after))
        await record_audit(write, account, "organization_billing.edit", account.login, detail=changes)
    return after


async def visible_billing(reader: Reader, access: Access) -> ProjectBilling:
    """Raises `NotFound` for a client."""
    access.hide_from_clients()
    return await settings.find_project_billing(reader, access.repository.id)


async def edit_project_billing(write: Write, project_id: str, edit: ProjectBillingEdit) -> ProjectBillingAnswer:
    """Change the billing settings of a project: who pays, and what differs from the organization.

    Needs the role admin. Drafts show the new settings, invoices that were sent stay as they are.
    """
    access = await find_access(write.tx, write.actor, project_id)
    access.hide_from_clients()
    repository = access.repository
    if repository.role != "admin":
        doing = "change its billing settings"
        message = say("You need the role admin in the project {} to {}.", repository.full_name, doing)
        raise Forbidden(message, code="missing_role")
    access.require_writable()
    before = await settings.lock_project_billing(write.tx, repository.id)
    write.require_match(ProjectBillingAnswer(to_response(before)))
    changed = await _in_currency(write.tx, repository, before, edit)
    given = {**_given(edit), **_buyer(before.buyer, edit.buyer)}
    given |= _own_rate(changed.hourly_rate_minor, changed.money, edit, changed.money)
    after = msgspec.structs.replace(changed, **given)
    _check_rate(after)
    after = await _with_budget(write.tx, repository.id, after, edit.budget)
    if not isinstance(edit.rates, UnsetType):
        rates = await people.set_project_rates(write.tx, repository.id, edit.rates or (), after.money)
        after = msgspec.structs.replace(after, rates=rates)
    if after != before:
        settings.save_project_billing(write.tx, repository.id, after)
        changes = differences(to_response(before), to_response(after))
        await record_audit(write, repository, "project_billing.edit", repository.full_name, detail=changes)
    return ProjectBillingAnswer(to_response(after))


def account_answer(billing: AccountBilling) -> AccountBillingAnswer:
    """With the defaults that count for what was never set."""
    shown = msgspec.structs.replace(
        billing,
        currency=billing.currency or DEFAULT_CURRENCY,
        number_format=billing.number_format or DEFAULT_FORMAT,
        timezone=billing.timezone or "UTC",
        language=billing.language or DEFAULT_LANGUAGE,
        billable=bool(billing.billable),
        round_minutes=billing.round_minutes or 0,
        round_mode=billing.round_mode or "up",
    )
    return AccountBillingAnswer(to_response(shown))


def _given(edit: InvoiceDefaultsEdit) -> dict[str, object]:
    """What the caller spoke of, but for amounts, by the names of the record's fields."""
    values = msgspec.structs.asdict(edit)
    for name in ("buyer", "budget", "rates", "hourly_rate"):
        values.pop(name, None)
    return {_STORED_AS.get(name, name): value for name, value in values.items() if not isinstance(value, UnsetType)}


def _own_rate(minor: int | None, before: str, edit: InvoiceDefaultsEdit, after: str) -> dict[str, object]:
    """The rate of the settings in the currency that they have `after`. Raises `Invalid`."""
    rate = given_rate(edit.hourly_rate, after, "hourly_rate")
    if isinstance(rate, UnsetType):
        rate = None if minor is None else rescaled(minor, before, after)
        if (rate is None and minor is not None) or (rate or 0) > RATE_MAX_MINOR:
            raise does_not_fit("hourly_rate", before, after)
    return {"hourly_rate_minor": rate}


async def _in_currency(
    tx: Transaction, repository: Repository, before: ProjectBilling, edit: ProjectBillingEdit
) -> ProjectBilling:
    """The settings as they are in another currency, if the caller says one. What the request replaces is left out.
    Raises `Invalid`."""
    if isinstance(edit.currency, UnsetType) or edit.currency == before.currency:
        return before
    after = edit.currency or (await settings.find_account_billing(tx, repository.owner.id)).currency
    if digits_of(after or DEFAULT_CURRENCY) == digits_of(before.money):
        set_project_currency(tx, repository.id, after)
        return msgspec.structs.replace(before, money=after or DEFAULT_CURRENCY)
    gone = {
        "hourly_rate_minor": None if not isinstance(edit.hourly_rate, UnsetType) else before.hourly_rate_minor,
        "budget_minor": None if not isinstance(edit.budget, UnsetType) else before.budget_minor,
    }
    settings.save_project_billing(tx, repository.id, msgspec.structs.replace(before, **gone))
    if not isinstance(edit.rates, UnsetType):
        await people.set_project_rates(tx, repository.id, (), before.money)
    await change_project_currency(tx, repository.id, before.money, after)
    return await settings.find_project_billing(tx, repository.id)


def _buyer(before: Party, edit: BuyerEdit | UnsetType | None) -> dict[str, object]:
    """The buyer afterwards, and the columns that hold it."""
    if isinstance(edit, UnsetType):
        return {}
    given = {} if edit is None else msgspec.structs.asdict(edit)
    spoken = {name: value for name, value in given.items() if not isinstance(value, UnsetType)}
    after = Party() if edit is None else msgspec.structs.replace(before, **spoken)
    return {"buyer": after, **{f"buyer_{name}": value for name, value in msgspec.structs.asdict(after).items()}}


async def _with_budget(
    tx: Transaction, repository_id: int, billing: ProjectBilling, edit: BudgetEdit | UnsetType | None
) -> ProjectBilling:
    """With another budget, of which is told already what is used now. Raises `Invalid`."""
    if isinstance(edit, UnsetType):
        return billing
    time_ms, amount = (None, None) if edit is None else (if_set(edit.hours), if_set(edit.amount))
    if edit is not None and (time_ms is None) == (amount is None):
        message = "budget: it is of hours or of an amount; say one of both, or null for none"
        raise Invalid(faults=[Fault(field="budget", message=message)])
    minor = None if amount is None else minor_of(amount, billing.money, "budget.amount")
    if (time_ms, minor) == (billing.budget_ms, billing.budget_minor):
        return billing
    percent = HoursOrMoney(time_ms, minor).percent(await find_used(tx, repository_id))
    return msgspec.structs.replace(
        billing,
        budget=budget_shape(time_ms, minor, billing.money),
        budget_ms=time_ms,
        budget_minor=minor,
        budget_mark=mark_of(percent),
    )


def _check_rate(billing: AccountBilling | ProjectBilling) -> None:
    """Raises `Invalid`."""
    if wrong := rate_fault(billing.tax_millionths, billing.tax_category):
        raise Invalid(faults=[Fault(field="tax_category", message=compose("{}: {}", "tax_category", wrong))])
