"""Billing settings, the parties and defaults of invoices: `/organizations/{login}/billing`, `/projects/{id}/billing`.

Owners see and change the settings of their organization or their own account. Members see the settings of a project,
and its admins change them; clients get 404.

Rates and budgets are stored in minor units. When the currency changes, they keep their value and are rescaled to its
number of decimal places. If an amount has more decimal places than the new currency, the change is rejected and the
error names the amount. See decision 32.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid, compose, say
from workhook.core.ids import new_id
from workhook.core.money import DEFAULT_CURRENCY, convert_minor, digits_of, to_amount, to_minor
from workhook.core.records import to_response
from workhook.http import parameters
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Repository
from workhook.identity.tables import projects
from workhook.identity.tokens.lookup import check_whole_account
from workhook.storage import Transaction
from workhook.storage.blobs import Incoming
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, insert_into
from workhook.work.board.tasks.schemas import tasks
from workhook.work.files.upload import FILE_FIELD, FORM, Admit, parameters_of, read_form
from workhook.work.kernel.access import find_access, get_owned_account
from workhook.work.kernel.billing_settings import (
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
    billing_logos,
    budget_to_response,
    project_billing,
)
from workhook.work.kernel.record_events import differences, record_audit
from workhook.work.kernel.schemas import RATE_MAX_MINOR, Done, given_rate, if_set
from workhook.work.money.invoices import settings
from workhook.work.money.invoices.rules import rate_fault
from workhook.work.money.invoices.schemas import invoices, is_issued
from workhook.work.time import rates
from workhook.work.time.rates import BudgetMark, member_rates, project_rates
from workhook.work.time.timesheets.budgets import MARKS, HoursOrMoney, find_used
from workhook.work.time.timesheets.schemas import timesheets


class _Stored(NamedTuple):
    """Amounts in a column, in the rows that match `where`. `words` is their name in messages.

    `most` is the largest allowed amount, or None without a limit. `remedy` explains how to change an amount.
    """

    words: str
    amount: sa.Column[Any]
    most: int | None = RATE_MAX_MINOR
    where: sa.ColumnElement[bool] = sa.true()
    remedy: str = say("change the amount first")


_is_billed = sa.exists().where(invoices.c.id == timesheets.c.invoice_id, is_issued)

# In locking order: the settings of the project before timesheets.
_OF_PROJECT = (
    _Stored("the hourly_rate of the project", project_billing.c.hourly_rate_minor),
    _Stored("the budget", project_billing.c.budget_minor, most=None),
    _Stored("the rate of a person in the project", project_rates.c.hourly_rate_minor),
    _Stored("the hourly_rate of a task", tasks.c.hourly_rate_minor, where=tasks.c.deleted_at.is_(None)),
    _Stored(
        "the hourly_rate of a deleted task",
        tasks.c.hourly_rate_minor,
        where=tasks.c.deleted_at.is_not(None),
        remedy=say("restore the task and change the amount first"),
    ),
    _Stored("the rate of a timesheet", timesheets.c.billable_rate_minor, where=sa.not_(_is_billed)),
    _Stored(
        "the rate of time on an issued invoice",
        timesheets.c.billable_rate_minor,
        where=_is_billed,
        remedy=say("create another project with that currency"),
    ),
)
_OF_ACCOUNT = (_Stored("the rate of a member", member_rates.c.hourly_rate_minor),)

_factor, _divisor = bigint_param("factor"), bigint_param("divisor")
_of_account = (
    sa.select(projects.c.repository_id)
    .outerjoin(project_billing, project_billing.c.repository_id == projects.c.repository_id)
    .where(projects.c.account_id == bigint_param("account_id"), project_billing.c.currency.is_(None))
    .order_by(projects.c.repository_id)
    .with_for_update(of=projects)
)
_set_currency = (
    sa.update(projects)
    .where(any_of(projects.c.repository_id, "ids"))
    .values(currency=sa.bindparam("currency", type_=sa.Text))
)


def _statements(stored: _Stored, owner: str) -> tuple[sa.Select[Any], sa.Update]:
    """Return a statement that selects an amount that does not fit the new currency, and one that rescales all."""
    amount, table = stored.amount, stored.amount.table
    rows = (any_of(table.c[owner], "ids"), amount.is_not(None), stored.where)
    wrong = amount % _divisor != sa.literal_column("0")
    if stored.most is not None:
        wrong = sa.or_(wrong, amount * _factor > stored.most)
    rescaled = sa.update(table).where(*rows).values({amount.name: amount * _factor // _divisor})
    return sa.select(amount).where(*rows, wrong).limit(1), rescaled


_STATEMENTS = {each: _statements(each, "repository_id") for each in _OF_PROJECT} | {
    each: _statements(each, "account_id") for each in _OF_ACCOUNT
}


async def change_projects_currency(tx: Transaction, ids: Sequence[int], before: str, after: str | None) -> None:
    """Change the currency of projects whose settings are locked, and rescale their amounts.

    `after` is the project's own currency, or None for that of its account. Raises `Invalid`.
    """
    if ids:
        await _rescale_all(tx, _OF_PROJECT, ids, before, after or DEFAULT_CURRENCY)
        tx.defer(_set_currency, [{"ids": ids, "currency": after}])


async def _rescale_all(
    tx: Transaction, columns: Sequence[_Stored], ids: Sequence[int], before: str, after: str
) -> None:
    """Rescale the amounts, or raise `Invalid` naming those that do not fit."""
    more = digits_of(after) - digits_of(before)
    if not more:
        return
    params = {"ids": ids, "factor": 10 ** max(more, 0), "divisor": 10 ** max(-more, 0)}
    for each in columns:
        if await tx.fetch_one(_STATEMENTS[each][0], params) is not None:
            raise does_not_fit(each.words, before, after, each.remedy)
    for each in columns:
        await tx.execute(_STATEMENTS[each][1], params)


def does_not_fit(words: str, before: str, after: str, remedy: str = say("change the amount first")) -> Invalid:
    """Return the error for a change of currency where an amount has too many decimal places or a rate is too high."""
    if digits_of(after) > digits_of(before):
        code, why = "invalid", say("the rate cannot exceed {}", to_amount(RATE_MAX_MINOR, after))
    else:
        digits = digits_of(after)
        why = (
            say("an amount has at most {} decimal places", digits) if digits else say("an amount has no decimal places")
        )
        code = "too_many_decimals"
    message = say("currency: {} is not valid in {}, where {}; {}", words, after, why, remedy)
    return Invalid.at("currency", message, code=code)


_DOING = "see and change its billing settings"

routes = Routes(WORK_API, "Billing")


@routes.get("/organizations/{login}/billing")
async def get_organization_billing(call: Call, login: str) -> AccountBillingAnswer:
    """Get the billing settings of an organization.

    Only owners of the organization can call this. With your own login, it returns the settings of your account, which
    apply to the projects you own.
    """
    account = await get_owned_account(call.database, actor_of(call), login, _DOING)
    return account_answer(await settings.find_account_billing(call.database, account.id))


@routes.patch("/organizations/{login}/billing")
async def edit_organization_billing(write: Write, login: str, edit: AccountBillingEdit) -> AccountBillingAnswer:
    """Update the billing settings of an organization.

    Only owners of the organization can call this. With your own login, it updates the settings of your account. The new
    settings apply to drafts; sent invoices are unchanged. Settings of a project, and values given when creating an
    invoice, take precedence.
    """
    account = await get_owned_account(write.tx, write.actor, login, _DOING)
    check_whole_account(write.actor, account.id)
    return account_answer(await change_account_billing(write, account, edit))


async def change_account_billing(write: Write, account: Account, edit: AccountBillingEdit) -> AccountBilling:
    """Change the settings and return the new ones. Raises `Invalid` or `PreconditionFailed`."""
    before = await settings.lock_account_billing(write.tx, account.id)
    write.require_match(account_answer(before))
    values = _given(edit)
    currency = str(values.get("currency", before.currency) or DEFAULT_CURRENCY)
    values |= _own_rate(before.hourly_rate_minor, before.currency or DEFAULT_CURRENCY, edit, currency)
    after = msgspec.structs.replace(before, **values)
    _check_rate(after)
    if after.currency != before.currency:
        old = before.currency or DEFAULT_CURRENCY
        projects_of = await write.tx.fetch_all(_of_account, {"account_id": account.id})
        await _rescale_all(write.tx, _OF_ACCOUNT, [account.id], old, currency)
        await change_projects_currency(write.tx, [row["repository_id"] for row in projects_of], old, after.currency)
    if after != before:
        settings.save_account_billing(write.tx, account.id, after)
        changes = differences(to_response(before), to_response(after))
        await record_audit(write, account, "organization_billing.edit", account.login, detail=changes)
    return after


@routes.get("/projects/{id}/billing")
async def get_project_billing(call: Call, project_id: str) -> ProjectBillingAnswer:
    """Get the billing settings of a project.

    A null value means that the setting of its organization applies.
    """
    access = await find_access(call.database, actor_of(call), project_id)
    access.require_not_client()
    return ProjectBillingAnswer(to_response(await settings.find_project_billing(call.database, access.repository.id)))


@routes.patch("/projects/{id}/billing")
async def edit_project_billing(write: Write, project_id: str, edit: ProjectBillingEdit) -> ProjectBillingAnswer:
    """Update the billing settings of a project: who pays, and where it differs from its organization.

    Requires the admin role. The new settings apply to drafts; sent invoices are unchanged.
    """
    access = await find_access(write.tx, write.actor, project_id)
    access.require_not_client()
    repository = access.repository
    if repository.role != "admin":
        message = say("You need the admin role in the project {} to {}.", repository.full_name, _CHANGING)
        raise Forbidden(message, code="missing_role")
    access.require_writable()
    before = await settings.lock_project_billing(write.tx, repository.id)
    write.require_match(ProjectBillingAnswer(to_response(before)))
    changed = await _in_currency(write.tx, repository, before, edit)
    values = {**_given(edit), **_buyer(before.buyer, edit.buyer)}
    values |= _own_rate(changed.hourly_rate_minor, changed.money, edit, changed.money)
    after = msgspec.structs.replace(changed, **values)
    _check_rate(after)
    after = await _with_budget(write.tx, repository.id, after, edit.budget)
    if not isinstance(edit.rates, UnsetType):
        changed_rates = await rates.set_project_rates(write.tx, repository.id, edit.rates or (), after.money)
        after = msgspec.structs.replace(after, rates=changed_rates)
    if after != before:
        settings.save_project_billing(write.tx, repository.id, after)
        changes = differences(to_response(before), to_response(after))
        await record_audit(write, repository, "project_billing.edit", repository.full_name, detail=changes)
    return ProjectBillingAnswer(to_response(after))


def account_answer(billing: AccountBilling) -> AccountBillingAnswer:
    """Return the settings, with defaults for those that were never set."""
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
    """Return the given values, except amounts, keyed by the record's field names."""
    values = msgspec.structs.asdict(edit)
    for name in ("buyer", "budget", "rates", "hourly_rate"):
        values.pop(name, None)
    values["tax_millionths"] = values.pop("tax")
    return {name: value for name, value in values.items() if not isinstance(value, UnsetType)}


def _own_rate(minor: int | None, before: str, edit: InvoiceDefaultsEdit, after: str) -> dict[str, object]:
    """Return the rate of the settings in the currency `after`. Raises `Invalid`."""
    rate = given_rate(edit.hourly_rate, after, "hourly_rate")
    if isinstance(rate, UnsetType):
        rate = None if minor is None else convert_minor(minor, before, after)
        if (rate is None and minor is not None) or (rate or 0) > RATE_MAX_MINOR:
            raise does_not_fit("hourly_rate", before, after)
    return {"hourly_rate_minor": rate}


async def _in_currency(
    tx: Transaction, repository: Repository, before: ProjectBilling, edit: ProjectBillingEdit
) -> ProjectBilling:
    """Return the settings in a new currency, without amounts that the request replaces. Raises `Invalid`."""
    if isinstance(edit.currency, UnsetType) or edit.currency == before.currency:
        return before
    after = edit.currency or (await settings.find_account_billing(tx, repository.owner.id)).currency
    if digits_of(after or DEFAULT_CURRENCY) == digits_of(before.money):
        await change_projects_currency(tx, [repository.id], before.money, after)
        return msgspec.structs.replace(before, money=after or DEFAULT_CURRENCY)
    gone = {
        "hourly_rate_minor": None if not isinstance(edit.hourly_rate, UnsetType) else before.hourly_rate_minor,
        "budget_minor": None if not isinstance(edit.budget, UnsetType) else before.budget_minor,
    }
    settings.save_project_billing(tx, repository.id, msgspec.structs.replace(before, **gone))
    if not isinstance(edit.rates, UnsetType):
        await rates.set_project_rates(tx, repository.id, (), before.money)
    await change_projects_currency(tx, [repository.id], before.money, after)
    return await settings.find_project_billing(tx, repository.id)


def _buyer(before: Party, edit: BuyerEdit | UnsetType | None) -> dict[str, object]:
    """Return the updated buyer, and the columns that store it."""
    if isinstance(edit, UnsetType):
        return {}
    values = {} if edit is None else msgspec.structs.asdict(edit)
    spoken = {name: value for name, value in values.items() if not isinstance(value, UnsetType)}
    after = Party() if edit is None else msgspec.structs.replace(before, **spoken)
    return {"buyer": after, **{f"buyer_{name}": value for name, value in msgspec.structs.asdict(after).items()}}


async def _with_budget(
    tx: Transaction, repository_id: int, billing: ProjectBilling, edit: BudgetEdit | UnsetType | None
) -> ProjectBilling:
    """Return the settings with the new budget. Marks that are already reached count as announced. Raises `Invalid`."""
    if isinstance(edit, UnsetType):
        return billing
    time_ms, amount = (None, None) if edit is None else (if_set(edit.hours), if_set(edit.amount))
    if edit is not None and (time_ms is None) == (amount is None):
        message = "budget: specify either hours or an amount, or null for no budget"
        raise Invalid.at("budget", message)
    minor = None if amount is None else to_minor(amount, billing.money, "budget.amount")
    if (time_ms, minor) == (billing.budget_ms, billing.budget_minor):
        return billing
    percent = HoursOrMoney(time_ms, minor).percent(await find_used(tx, repository_id))
    marks: list[BudgetMark] = [0, *(each for each in MARKS if percent is not None and each <= percent)]
    return msgspec.structs.replace(
        billing,
        budget=budget_to_response(time_ms, minor, billing.money),
        budget_ms=time_ms,
        budget_minor=minor,
        budget_mark=marks[-1],
    )


def _check_rate(billing: AccountBilling | ProjectBilling) -> None:
    """Raise `Invalid` if the tax rate and its category do not match."""
    if wrong := rate_fault(billing.tax_millionths, billing.tax_category):
        raise Invalid.at("tax_category", compose("{}: {}", "tax_category", wrong))


# --- the logo on invoices ---------------------------------------------------------------------------------------------

# A PNG or JPEG by its first bytes, whatever the uploaded content type; an SVG could contain scripts. Its content is
# stored like that of files: first the content, then the row. Content without a row is swept later. A logo on a sent
# invoice keeps its row.

LOGO_MAX_BYTES = 2**20
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_HEAD_BYTES = max(map(len, _MAGIC))
_CHANGING = "change its billing settings"
_BODY: Mapping[str, Any] = {
    "type": "object",
    "required": [FILE_FIELD],
    "properties": {FILE_FIELD: {"type": "string", "format": "binary", "description": "PNG or JPEG, at most 1 MiB."}},
    "additionalProperties": False,
}

_insert_logo = insert_into(
    billing_logos, "account_id", "id", "content_type", "size", "sha256", "blob", "is_issued", "created_at"
)
_delete_logo = sa.delete(billing_logos).where(
    billing_logos.c.id == sa.bindparam("logo_id"), billing_logos.c.is_issued.is_(sa.false())
)


class _Sniffed:
    """Forwards the bytes of an upload, and keeps the first ones to determine its type."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming, self._head = incoming, b""

    async def write(self, data: bytes) -> None:
        if len(self._head) < _HEAD_BYTES:
            self._head += data[: _HEAD_BYTES - len(self._head)]
        await self._incoming.write(data)

    @property
    def content_type(self) -> str | None:
        return next((kind for magic, kind in _MAGIC.items() if self._head.startswith(magic)), None)


@asynccontextmanager
async def receive_logo(
    call: Call, *, admit: Admit | None = None
) -> AsyncIterator[Callable[[Write, Account], Awaitable[AccountBilling]]]:
    """Read the form of the request, and yield a function that sets its image as the logo of an owned account.

    The function may be repeated after a deadlock. The content is deleted on exit unless it has succeeded. Raises the
    errors of `upload.read_form`, and `Invalid` for other file types.
    """
    async with call.services.blobs.incoming() as incoming:
        sniffed = _Sniffed(incoming)
        form = await read_form(call, sniffed.write, limit=LOGO_MAX_BYTES, admit=admit)
        await call.body_came()
        kind, given = sniffed.content_type, parameters_of(call.query, form)
        faults = [*form.faults, *parameters.unknown(given)]
        if not faults and kind is None:
            faults = [Fault(field=FILE_FIELD, message=say("{} must be a PNG or a JPEG", FILE_FIELD))]
        if faults or kind is None:
            raise Invalid(faults=faults)
        await incoming.keep()
    is_stored = False

    async def put(write: Write, account: Account) -> AccountBilling:
        nonlocal is_stored
        is_stored = False
        before = await settings.lock_account_billing(write.tx, account.id)
        write.require_match(account_answer(before))
        logo_id = new_id("lgo")
        values = {"account_id": account.id, "id": logo_id, "content_type": kind, "size": incoming.size}
        values |= {"sha256": incoming.sha256, "blob": incoming.name, "is_issued": False, "created_at": write.now}
        await write.tx.execute(_insert_logo, values)
        after = await _set_logo(write, account, before, logo_id)
        is_stored = True
        return after

    try:
        yield put
    finally:
        if not is_stored:
            await call.services.blobs.forget(incoming.name)


@routes.put(
    "/organizations/{login}/billing/logo",
    answers={200: AccountBillingAnswer},
    body=_BODY,
    body_media_type=FORM,
    body_required=True,
    action="organization_billing.edit",
)
async def put_organization_logo(call: Call, login: str) -> Response:
    """Set the logo on an organization's invoices.

    Only owners of the organization can call this. With your own login, it sets the logo of your account. Send a form
    with one file, a PNG or JPEG of at most 1 MiB. Sent invoices keep their logo.
    """
    actor = actor_of(call)
    account = await get_owned_account(call.database, actor, login, _CHANGING)
    check_whole_account(actor, account.id)
    async with receive_logo(call) as put:
        billing = await call.database.in_transaction(lambda tx: put(Write.for_call(call, tx), account))
        return Response(account_answer(billing))


@routes.delete("/organizations/{login}/billing/logo", action="organization_billing.edit")
async def delete_organization_logo(write: Write, login: str) -> Done:
    """Remove the logo from an organization's invoices.

    Only owners of the organization can call this. Without a logo, invoices show the image of their project, or
    initials.
    """
    account = await get_owned_account(write.tx, write.actor, login, _CHANGING)
    check_whole_account(write.actor, account.id)
    await remove_logo(write, account)
    return Done()


async def remove_logo(write: Write, account: Account) -> None:
    """Remove the logo of an account that the caller owns."""
    before = await settings.lock_account_billing(write.tx, account.id)
    write.require_match(account_answer(before))
    if before.logo_id is not None:
        await _set_logo(write, account, before, None)


async def _set_logo(write: Write, account: Account, before: AccountBilling, logo_id: str | None) -> AccountBilling:
    """Set or remove the logo. The previous row is deleted unless an invoice uses it, and its content is swept later."""
    if before.logo_id is not None:
        await write.tx.execute(_delete_logo, {"logo_id": before.logo_id})
    after = msgspec.structs.replace(before, logo_id=logo_id)
    settings.save_account_billing(write.tx, account.id, after)
    changes = {"logo": {"from": before.logo_id, "to": logo_id}}
    await record_audit(write, account, "organization_billing.edit", account.login, detail=changes)
    return after
