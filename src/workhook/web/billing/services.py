"""`/{owner}/-/services`: the services of an organization or a user, and their prices."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from workhook.core.errors import Conflict, Invalid, NotFound, say
from workhook.core.money import CURRENCIES, DEFAULT_CURRENCY
from workhook.http.calls import Response
from workhook.identity.context import Write
from workhook.web.frame import paging
from workhook.web.frame.flash import Undo
from workhook.web.frame.formats import typed_amount, typed_hundredths
from workhook.web.frame.forms import UNSENT, ChangedMeanwhile, Faults, PageForm, digest, form_page, is_late
from workhook.web.frame.places import AmountField, Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.kernel.access import Owner
from workhook.work.money.invoices.drafts import find_price_currency
from workhook.work.money.services import actions
from workhook.work.money.services.schemas import (
    PRICES_MAX,
    Service,
    ServiceCreate,
    ServiceEdit,
    ServicePrice,
    ServicePriceParameters,
    ServiceQuery,
    parameters_of,
)

S = TypeVar("S", ServiceCreate, ServiceEdit)

places = Places("services")

FLAGS = ("active", "addon", "disable_pause", "disable_quantity", "cancel_at_period_end")
TEXTS = ("title", "description", "limit_pausing", "minimum_months")
PRICE = ("amount", "currency", "interval", "credits")
SERVICE, PRICES, END = "service", "prices", "end"  # the forms on the page of a service
_DOING = "change its services"
_CURRENCY = "EUR"
"""The default currency of prices in accounts without issued invoices."""


async def _owner(visit: Visit) -> Owner:
    """Return the account in the path if the visitor belongs to it. Raises `NotFound`."""
    account, role = await visit.account()
    if role is None:
        raise visit.hidden(account)
    return Owner(account, role)


async def _owned(visit: Visit) -> Owner:
    """Return the account like `_owner`, for changes. Also raises `Forbidden`."""
    owner = await _owner(visit)
    owner.require_owner(_DOING)
    return owner


async def _find(visit: Visit) -> tuple[Owner, Service]:
    """Return the service in the path. Raises `NotFound` if it does not exist or belongs to another account."""
    owner = await _owner(visit)
    service = await actions.find_service(visit.database, visit.actor, visit.path("service_id"))
    if service.owner.id != owner.account.id:
        raise NotFound()
    return owner, service


def _address(visit: Visit, *more: str) -> str:
    return paging.address_of(visit.path("owner"), "-", "services", *more)


async def _page(visit: Visit, owner: Owner, template: str, *, status: int = 200, **context: Any) -> Response:
    if status != 200:  # a POST has not loaded the header
        await visit.load_frame()
    return visit.page(
        template,
        status=status,
        account=owner.account,
        role=owner.role,
        may_change=owner.role == "owner",
        here=_address(visit),
        currencies=sorted(CURRENCIES),
        **context,
    )


@places.get("/{owner}/-/services")
async def list_services(visit: Visit) -> Response:
    """Show the services of an account in order."""
    owner = await _owner(visit)
    query = ServiceQuery(organization=owner.account.login)
    found = await actions.find_services(visit.database, visit.actor, query)
    services = sorted(found[: query.limit], key=lambda each: (not each.active, each.position, each.id))
    cut = found.truncated or len(found) > query.limit
    return await _page(visit, owner, "billing/services.html", services=services, cut=cut)


# --- a service -------------------------------------------------------------------------------------------------------


def values_of(service: Service) -> dict[str, str]:
    texts = {"title": service.title, "description": service.description or ""}
    for name in ("limit_pausing", "minimum_months"):
        number = getattr(service, name)
        texts[name] = "" if number is None else str(number)
    return {**texts, **{name: "1" if getattr(service, name) else "" for name in FLAGS}}


def _ticked(visit: Visit) -> dict[str, str]:
    """Return the fields plus unticked boxes, which browsers don't send."""
    return {**dict.fromkeys(FLAGS, ""), **visit.fields}


def _read(visit: Visit, shape: type[S], **values: object) -> S:
    return visit.form(shape, *TEXTS, **{name: name in visit.fields for name in FLAGS}, **values)


@places.get("/{owner}/-/services/new")
async def new_service(visit: Visit) -> Response:
    """Show the form for a new service."""
    owner = await _owned(visit)
    currency = await find_price_currency(visit.database, owner.account.id) or _CURRENCY
    return await _new_page(visit, PageForm({"active": "1", "currency": currency, "interval": "month"}))


async def _new_page(visit: Visit, form: PageForm) -> Response:
    return await _page(visit, await _owned(visit), "billing/service_new.html", status=form.status, form=form)


@places.post("/{owner}/-/services/new", makes=True, action="service.create")
@form_page(_new_page, (*TEXTS, *PRICE), on=(Invalid, Conflict))
async def create_service(visit: Visit) -> Response:
    """Create a service with its first price, if the form has one."""
    owner = await _owned(visit)
    faults, prices = Faults(), list[ServicePriceParameters]()
    with faults:
        create = _read(visit, ServiceCreate, organization=owner.account.login)
    with faults:
        if any(visit.fields.get(name) for name in ("amount", "credits")):
            prices.append(_read_price(visit))
    faults.check()
    create = msgspec.structs.replace(create, service_prices=prices)
    made = await visit.change(lambda write: actions.create_service(write, create))
    service_id = str(made.service.id)  # type: ignore[attr-defined]
    return visit.done(_address(visit, service_id), gettext("Service created."))


@places.get("/{owner}/-/services/{service_id}")
async def show_service(visit: Visit, form: PageForm = UNSENT) -> Response:
    """Show a service with its prices and terms."""
    owner, service = await _find(visit)
    values = values_of(service)
    if form.is_late and form.section == SERVICE:
        form.values = _ticked(visit)
        form.compare(values)
    last = service.service_prices[-1] if service.service_prices else None
    currency = last.currency if last else await find_price_currency(visit.database, owner.account.id) or _CURRENCY
    blank = {"currency": currency, "interval": last.interval if last else "month"}
    return await _page(
        visit,
        owner,
        "billing/service.html",
        status=form.status,
        service=service,
        form=form if form.section == SERVICE else PageForm(values, was=digest(values)),
        price=form.of(PRICES, **blank),
        refusal=form.reasons[0] if form.section == END else "",
        address=_address(visit, service.id),
        prices_max=PRICES_MAX,
    )


@places.post("/{owner}/-/services/{service_id}", action="service.edit")
@form_page(show_service, TEXTS, section=SERVICE, on=(Invalid, ChangedMeanwhile))
async def save_service(visit: Visit) -> Response:
    """Change a service. Existing subscriptions keep their price."""
    _, service = await _find(visit)

    async def save(write: Write, edit: ServiceEdit) -> None:
        current = await actions.lock_service(write, service.id)
        if is_late(_ticked(visit), values_of(current)):
            raise ChangedMeanwhile
        await actions.edit_service(write, service.id, edit)

    edit = _read(visit, ServiceEdit)
    await visit.change(lambda write: save(write, edit))
    return visit.done(_address(visit, service.id), gettext("Service saved."))


@places.post("/{owner}/-/services/{service_id}/delete", action="service.delete")
@form_page(show_service, section=END, on=Conflict)
async def delete_service(visit: Visit) -> Response:
    """Delete a service. Existing subscriptions continue."""
    _, service = await _find(visit)
    await visit.change(lambda write: actions.delete_service(write, service.id))
    return visit.done(_address(visit), gettext("“%(title)s” was deleted.", title=service.title))


# --- prices ----------------------------------------------------------------------------------------------------------


def _read_price(visit: Visit) -> ServicePriceParameters:
    currency = visit.fields.get("currency") or DEFAULT_CURRENCY
    return visit.form(
        ServicePriceParameters, AmountField("amount", currency), "currency", "interval", AmountField("credits")
    )


async def _change_prices(visit: Visit, service_id: str, change: Any) -> None:
    async def step(write: Write) -> None:
        current = await actions.lock_service(write, service_id)
        prices = change(current.service_prices)
        await actions.edit_service(write, service_id, ServiceEdit(service_prices=prices))

    await visit.change(step)


def _others(prices: tuple[ServicePrice, ...], price_id: str) -> tuple[ServicePrice, list[ServicePriceParameters]]:
    """Return the price and the other prices. Raises `ChangedMeanwhile` if it was removed."""
    found = next((each for each in prices if each.id == price_id), None)
    if found is None:
        raise ChangedMeanwhile
    return found, [parameters_of(each) for each in prices if each.id != price_id]


@places.post("/{owner}/-/services/{service_id}/prices", makes=True, action="service.edit")
@form_page(show_service, PRICE, section=PRICES, on=(Invalid, Conflict))
async def add_price(visit: Visit) -> Response:
    """Add a price at the end."""
    _, service = await _find(visit)

    def added(prices: tuple[ServicePrice, ...]) -> list[ServicePriceParameters]:
        if len(prices) >= PRICES_MAX:
            raise Conflict(
                say("A service can have at most {} prices. Remove one first.", PRICES_MAX), code="too_many_prices"
            )
        return [*map(parameters_of, prices), price]

    price = _read_price(visit)
    await _change_prices(visit, service.id, added)
    return visit.done(f"{_address(visit, service.id)}#prices", gettext("Price added."))


@places.post("/{owner}/-/services/{service_id}/prices/{price_id}/first", action="service.edit")
async def set_default_price(visit: Visit) -> Response:
    """Make a price the default by moving it to the front."""
    _, service = await _find(visit)

    def moved(prices: tuple[ServicePrice, ...]) -> list[ServicePriceParameters]:
        price, others = _others(prices, visit.path("price_id"))
        return [parameters_of(price), *others]

    await _change_prices(visit, service.id, moved)
    return visit.done(f"{_address(visit, service.id)}#prices", gettext("Default price changed."))


@places.post("/{owner}/-/services/{service_id}/prices/{price_id}/remove", action="service.edit")
async def remove_price(visit: Visit) -> Response:
    """Remove a price. Existing subscriptions keep it."""
    _, service = await _find(visit)
    await _change_prices(visit, service.id, lambda prices: _others(prices, visit.path("price_id"))[1])
    gone = next((each for each in service.service_prices if each.id == visit.path("price_id")), None)
    undo = None
    if gone is not None:
        fields = {"amount": typed_amount(gone.amount_minor, gone.currency), "currency": gone.currency}
        fields |= {"credits": typed_hundredths(gone.credits_minor), "interval": gone.interval}
        undo = Undo(f"{_address(visit, service.id)}/prices", fields)
    return visit.done(f"{_address(visit, service.id)}#prices", gettext("Price removed."), undo=undo)
