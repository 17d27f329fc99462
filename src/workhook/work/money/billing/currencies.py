"""What becomes of rates and budgets when the currency of a project or an organization changes. Decision 54.

They are stored in minor units, and keep their value: of a currency with another number of decimals there are more or
fewer of those. Where one has more decimals than the new currency, the change is refused, and names where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from workhook.core.errors import Fault, Invalid, compose, say
from workhook.core.money import DEFAULT_CURRENCY, decimals, digits_of, to_amount
from workhook.identity.tables import projects
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.board.tasks.schemas import tasks
from workhook.work.kernel.schemas import RATE_MAX_MINOR
from workhook.work.kernel.settings import project_billing
from workhook.work.money.invoices.schemas import invoices, is_issued
from workhook.work.time.rates.people import member_rates, project_rates
from workhook.work.time.timesheets.schemas import timesheets


class _Stored(NamedTuple):
    """Amounts in a column of the rows `where`, which a project or an account owns. `words`: their name in messages.
    `remedy`: how to change such an amount."""

    words: str
    amount: sa.Column[Any]
    owner: sa.Column[Any]
    most: int | None = RATE_MAX_MINOR
    where: sa.ColumnElement[bool] = sa.true()
    remedy: str = say("change the amount first")


_is_billed = sa.exists().where(invoices.c.id == timesheets.c.invoice_id, is_issued)

# In the order in which others lock them: the project's settings before timesheets.
_OF_PROJECT = (
    _Stored("the hourly_rate of the project", project_billing.c.hourly_rate_minor, project_billing.c.repository_id),
    _Stored("the budget", project_billing.c.budget_minor, project_billing.c.repository_id, most=None),
    _Stored("the rate of a person in the project", project_rates.c.hourly_rate_minor, project_rates.c.repository_id),
    _Stored(
        "the hourly_rate of a task",
        tasks.c.hourly_rate_minor,
        tasks.c.repository_id,
        where=tasks.c.deleted_at.is_(None),
    ),
    _Stored(
        "the hourly_rate of a deleted task",
        tasks.c.hourly_rate_minor,
        tasks.c.repository_id,
        where=tasks.c.deleted_at.is_not(None),
        remedy=say("restore the task and change the amount first"),
    ),
    _Stored(
        "the rate of a timesheet",
        timesheets.c.billable_rate_minor,
        timesheets.c.repository_id,
        where=sa.not_(_is_billed),
    ),
    _Stored(
        "the rate of time on an issued invoice",
        timesheets.c.billable_rate_minor,
        timesheets.c.repository_id,
        where=_is_billed,
        remedy=say("create another project with that currency"),
    ),
)
_OF_ACCOUNT = (_Stored("the rate of a member", member_rates.c.hourly_rate_minor, member_rates.c.account_id),)

_factor, _divisor = big("factor"), big("divisor")
_of_account = (
    sa.select(projects.c.repository_id)
    .outerjoin(project_billing, project_billing.c.repository_id == projects.c.repository_id)
    .where(projects.c.account_id == big("account_id"), project_billing.c.currency.is_(None))
    .order_by(projects.c.repository_id)
    .with_for_update(of=projects)
)
_set_currency = (
    sa.update(projects)
    .where(any_of(projects.c.repository_id, "ids"))
    .values(currency=sa.bindparam("currency", type_=sa.Text))
)


_set_one = (
    sa.update(projects)
    .where(projects.c.repository_id == big("repository_id"))
    .values(currency=sa.bindparam("currency", type_=sa.Text))
)


def _misfits(stored: _Stored) -> sa.Select[Any]:
    """One that has more decimals than the new currency, or is more than a rate can be there."""
    wrong = stored.amount % _divisor != sa.literal_column("0")
    if stored.most is not None:
        wrong = sa.or_(wrong, stored.amount * _factor > stored.most)
    return sa.select(stored.amount).where(*_of(stored), wrong).limit(1)


def _of(stored: _Stored) -> tuple[sa.ColumnElement[bool], ...]:
    return any_of(stored.owner, "ids"), stored.amount.is_not(None), stored.where


def _rescale(stored: _Stored) -> sa.Update:
    scaled = {stored.amount.name: stored.amount * _factor // _divisor}
    return sa.update(stored.amount.table).where(*_of(stored)).values(scaled)


_STATEMENTS = {each: (_misfits(each), _rescale(each)) for each in (*_OF_PROJECT, *_OF_ACCOUNT)}


def set_project_currency(tx: Transaction, repository_id: int, after: str | None) -> None:
    """To one with as many decimals as before."""
    tx.defer(_set_one, [{"repository_id": repository_id, "currency": after}])


async def change_project_currency(tx: Transaction, repository_id: int, before: str, after: str | None) -> None:
    """Its settings are locked, and saved afterwards. `after`: what the project or else its account says from now on.
    Raises `Invalid`."""
    await _change(tx, [repository_id], before, after)


async def change_account_currency(tx: Transaction, account_id: int, before: str | None, after: str | None) -> None:
    """The account's settings are locked, and saved afterwards, with their own rate as `workhook.core.money.rescaled`
    says. Raises `Invalid`."""
    old, new = before or DEFAULT_CURRENCY, after or DEFAULT_CURRENCY
    ids = [row["repository_id"] for row in await tx.fetch_all(_of_account, {"account_id": account_id})]
    await _rescale_all(tx, _OF_ACCOUNT, [account_id], old, new)
    await _change(tx, ids, old, after)


async def _change(tx: Transaction, repository_ids: Sequence[int], before: str, after: str | None) -> None:
    if repository_ids:
        await _rescale_all(tx, _OF_PROJECT, repository_ids, before, after or DEFAULT_CURRENCY)
        await tx.execute(_set_currency, {"ids": repository_ids, "currency": after})


async def _rescale_all(
    tx: Transaction, columns: Sequence[_Stored], ids: Sequence[int], before: str, after: str
) -> None:
    """Raises `Invalid` that says what does not fit."""
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
    """Refuse a change of currency: an amount has too many decimals for it, or a rate is above its bound there."""
    if digits_of(after) > digits_of(before):
        code, why = "invalid", say("a rate is at most {}", to_amount(RATE_MAX_MINOR, after))
    else:
        code, why = "too_many_decimals", compose("an amount has {}", decimals(after))
    message = say("currency: {} does not fit {}, where {}; {}", words, after, why, remedy)
    return Invalid(faults=[Fault(field="currency", code=code, message=message)])
