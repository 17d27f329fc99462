"""The fields of billing settings that are not of one value each: rates of people, and budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workhook.core.errors import Fault, Invalid
from workhook.http import parameters
from workhook.identity.schemas import Account
from workhook.storage import Reader
from workhook.web.frame.formats import read_amount, read_hours, typed_amount
from workhook.web.frame.forms import Faults
from workhook.web.frame.places import Visit
from workhook.work.kernel.settings.schemas import AccountBillingEdit, ProjectBillingEdit
from workhook.work.time.rates import people
from workhook.work.time.rates.people import MemberRateEdit, MemberTerms

BUYER = ("name", "address", "country", "vat_id", "email")
RATE_PREFIX = "rate-"
TEAM_MAX = 200
"""A form has a field for each of so many members. Who has more sets rates with the API."""


def rate_field(login: str) -> str:
    return f"{RATE_PREFIX}{login}"


async def find_members(reader: Reader, account: Account) -> Sequence[MemberTerms]:
    """Those for whom the form has fields."""
    found = await people.find_members(reader, account.id, limit=TEAM_MAX + 1)
    return found if len(found) <= TEAM_MAX else ()


def rates_of(members: Sequence[MemberTerms], currency: str) -> dict[str, str]:
    """The values of the fields of rates."""
    return {rate_field(each.login): typed_amount(each.rate_minor, currency) for each in members}


def account_edit(
    visit: Visit, members: Sequence[MemberTerms], names: Sequence[str], currency: str
) -> tuple[AccountBillingEdit, dict[str, MemberRateEdit]]:
    """The settings, and the rates of members by their logins. Raises `Invalid` with all that is wrong."""
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
    """`called`: gets the names of the fields of rates, by those of the API. Raises `Invalid`."""
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
