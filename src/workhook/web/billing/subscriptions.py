"""The subscriptions of a project to services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal

import msgspec
from msgspec import UNSET

from workhook.core.errors import Conflict, Invalid
from workhook.http.calls import Response
from workhook.http.lists import ListQuery
from workhook.identity.context import Write
from workhook.web.billing.invoices import billing_page, is_in_account, percent_text
from workhook.web.frame import paging
from workhook.web.frame.forms import UNSENT, PageForm, form_page, refused_form
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext
from workhook.work.kernel.access import Access
from workhook.work.kernel.lists import cursor_of, read_for
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.checkouts import actions
from workhook.work.money.checkouts.schemas import Checkout, ServiceCheckoutCancel, ServiceCheckoutCreate
from workhook.work.money.invoices.rules import Discount, Item, sums_of_items
from workhook.work.money.invoices.settings import find_settings
from workhook.work.money.services.actions import find_services
from workhook.work.money.services.schemas import Service, ServicePrice, ServiceQuery

places = Places("subscriptions")

ROWS = 50
_NEW = ("service", "qty")
_CANCEL = ("reason", "feedback")
_DOING = "change subscriptions"


@places.get("/{owner}/{project}/billing/subscriptions")
async def list_subscriptions(visit: Visit) -> Response:
    """Show the subscriptions of a project."""
    access = await visit.follow()
    cursor = visit.query("cursor")
    query = ListQuery(per_page=ROWS, cursor=cursor or UNSET)
    source, after = source_of_project(access), cursor_of(query)
    checkouts, headers = await read_for(visit.call, actions.CHECKOUTS, source, query, after)
    return await billing_page(
        visit,
        access,
        "billing/subscriptions.html",
        "subscriptions",
        checkouts=checkouts,
        more=paging.next_page(headers),
        begins=not cursor,
    )


@places.get("/{owner}/{project}/billing/subscriptions/new")
async def new_subscription(visit: Visit) -> Response:
    """Show the services that the project can subscribe to."""
    access = await visit.access()
    access.require_member(_DOING)
    access.require_writable()
    return await _new_page(visit, PageForm({"qty": "1", "service": visit.query("service"), "start": "1"}))


async def _new_page(visit: Visit, form: PageForm) -> Response:
    access = await visit.access()
    owner, offered = access.repository.owner, list[Service]()
    settings = await find_settings(visit.database, access.repository.id)
    sees_services = await is_in_account(visit, owner)
    if sees_services:
        found = await find_services(visit.database, visit.actor, ServiceQuery(organization=owner.login, active=True))
        offered = sorted(found, key=lambda each: (each.position, each.id))
    if not form.value("service") and len(offered) == 1 and len(offered[0].service_prices) <= 1:
        form = msgspec.structs.replace(form, values={**form.values, "service": offered[0].id})  # the only choice

    def total_of(price: ServicePrice) -> int:
        """Return the total of an invoice for one unit, in minor units."""
        item = Item("", Decimal(1), price.amount_minor)
        return sums_of_items([item], settings.rate_at_issue, Discount()).total

    return await billing_page(
        visit,
        access,
        "billing/subscribe.html",
        "subscriptions",
        form=form,
        offered=offered,
        sees_services=sees_services,
        settings=settings,
        total_of=total_of,
        percent_text=percent_text,
    )


@places.post("/{owner}/{project}/billing/subscriptions/new", makes=True, action="service_checkout.create")
async def subscribe(visit: Visit) -> Response:
    """Subscribe the project to a service and, if the form requests it, start immediately."""
    access = await visit.access()
    access.require_member(_DOING)
    # One field contains the service and, if it has prices, one of them.
    service_id, _, price_id = visit.fields.get("service", "").partition(" ")
    try:
        if not service_id:
            raise Invalid.at("service", gettext("Choose a service."), code="missing")
        create = visit.form(
            ServiceCheckoutCreate, "qty", service_id=service_id, **({"service_price_id": price_id} if price_id else {})
        )
        made = await visit.change(
            lambda write: actions.create_service_checkout(write, access.repository.project_id, create)
        )
    except (Invalid, Conflict) as problem:  # errors of the start are not handled here: the subscription exists by then
        return await _new_page(visit, refused_form(visit.fields, problem, _NEW))
    checkout_id = made.service_checkout.id
    text = gettext("Subscription created. Nothing is billed until you start it.")
    if "start" in visit.fields:
        await visit.change(lambda write: actions.complete_service_checkout(write, checkout_id))
        text = gettext("Subscription started.")
    return visit.done(paging.project_address(visit, "billing", "subscriptions", checkout_id), text)


async def _find(visit: Visit) -> tuple[Access, Checkout]:
    """Return the subscription in the path. Raises `NotFound` if it does not exist or belongs to another project."""
    access = await visit.access()
    its, checkout = await actions.find_checkout(visit.database, visit.actor, visit.path("checkout_id"))
    access.require_same_project(its)
    return access, checkout


def _address(visit: Visit, *more: str) -> str:
    return paging.project_address(visit, "billing", "subscriptions", *more)


@places.get("/{owner}/{project}/billing/subscriptions/{checkout_id}")
async def show_subscription(visit: Visit, form: PageForm = UNSENT) -> Response:
    """Show a subscription with its price, dates, and actions."""
    access, checkout = await _find(visit)
    return await billing_page(
        visit,
        access,
        "billing/subscription.html",
        "subscriptions",
        form=form,
        checkout=checkout,
        address=_address(visit, checkout.id),
    )


async def _step(visit: Visit, action: Callable[[Write, str], Awaitable[object]], text: str) -> Response:
    _, checkout = await _find(visit)
    await visit.change(lambda write: action(write, checkout.id))
    return visit.done(_address(visit, checkout.id), text)


@places.post(
    "/{owner}/{project}/billing/subscriptions/{checkout_id}/start", makes=True, action="service_checkout.complete"
)
@form_page(show_subscription, on=(Invalid, Conflict))
async def start(visit: Visit) -> Response:
    """Start a subscription: its first period begins and is billed."""
    return await _step(visit, actions.complete_service_checkout, gettext("Subscription started."))


@places.post("/{owner}/{project}/billing/subscriptions/{checkout_id}/pause", action="service_checkout.pause")
@form_page(show_subscription, on=(Invalid, Conflict))
async def pause(visit: Visit) -> Response:
    """Pause a subscription."""
    return await _step(
        visit, actions.pause_service_checkout, gettext("Subscription paused. Nothing is billed until you resume it.")
    )


@places.post("/{owner}/{project}/billing/subscriptions/{checkout_id}/resume", action="service_checkout.unpause")
@form_page(show_subscription, on=(Invalid, Conflict))
async def resume(visit: Visit) -> Response:
    """Resume a paused subscription."""
    text = gettext("Subscription resumed. Its period was extended by the length of the pause.")
    return await _step(visit, actions.unpause_service_checkout, text)


@places.post("/{owner}/{project}/billing/subscriptions/{checkout_id}/cancel", action="service_checkout.cancel")
@form_page(show_subscription, _CANCEL, on=(Invalid, Conflict))
async def cancel(visit: Visit) -> Response:
    """Cancel a subscription, optionally with a reason."""
    _, checkout = await _find(visit)
    why = visit.form(ServiceCheckoutCancel, *_CANCEL)
    await visit.change(lambda write: actions.cancel_service_checkout(write, checkout.id, why))
    return visit.done(_address(visit, checkout.id), gettext("Subscription canceled."))


@places.post("/{owner}/{project}/billing/subscriptions/{checkout_id}/delete", action="service_checkout.delete")
async def delete(visit: Visit) -> Response:
    """Delete a subscription. It ends, and its invoices are kept."""
    _, checkout = await _find(visit)
    await visit.change(lambda write: actions.delete_service_checkout(write, checkout.id))
    return visit.done(_address(visit), gettext("Subscription deleted."))
