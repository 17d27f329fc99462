"""The task credits of a project: balance, ledger (newest first), and new entries."""

from __future__ import annotations

from datetime import timedelta

from msgspec import UNSET

from workhook.core.clock import to_millis_text
from workhook.core.errors import Conflict, Invalid
from workhook.core.zones import start_of
from workhook.http import lists
from workhook.http.calls import Response
from workhook.http.lists import ListQuery
from workhook.identity.context import Write
from workhook.web.billing.invoices import billing_page
from workhook.web.frame import paging
from workhook.web.frame.forms import UNSENT, PageForm, form_page
from workhook.web.frame.places import AmountField, Places, Visit
from workhook.web.frame.texts import gettext
from workhook.web.time.days import read_day
from workhook.web.time.forms import offer_tasks
from workhook.work.kernel.access import Access, find_with_access
from workhook.work.kernel.day_bounds import find_zone
from workhook.work.kernel.lists import NEWEST_FIRST, cursor_of, read
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money.credits import actions
from workhook.work.money.credits.schemas import TaskCreditCreate

places = Places("credits")

ROWS = 50
GRANT, SPEND = "grant", "spend"


@places.get("/{owner}/{project}/billing/credits")
async def show_credits(visit: Visit) -> Response:
    """Show a project's credit balance and ledger."""
    return await _page(visit, await visit.follow(), UNSENT)


async def _page(visit: Visit, access: Access, form: PageForm) -> Response:
    access.require_not_client()
    cursor, reader = visit.query("cursor"), visit.database
    query = ListQuery(per_page=ROWS, cursor=cursor or UNSET)
    source, after = source_of_project(access), cursor_of(query)
    found = await read(reader, actions.ENTRIES, source, {}, order=NEWEST_FIRST, after=after, limit=ROWS + 1)
    entries, headers = lists.page(visit.call, found, query)
    return await billing_page(
        visit,
        access,
        "billing/credits.html",
        "credits",
        form=form,
        balance=await actions.find_balance(reader, access.repository.id),
        entries=entries,
        choice=await offer_tasks(visit, access, form.of(SPEND).value("task_id"), finished=False),
        more=paging.next_page(headers),
        begins=not cursor,
        refused=form,
        zone=await find_zone(reader, access.repository.id),
    )


async def _page_again(visit: Visit, form: PageForm) -> Response:
    return await _page(visit, await visit.access(), form)


@places.post("/{owner}/{project}/billing/credits/grant", makes=True, action="task_credit.create")
@form_page(_page_again, ("amount", "notes", "expires_at"), section=GRANT, on=(Invalid, Conflict))
async def grant(visit: Visit) -> Response:
    """Grant credits to a project."""
    access = await _access(visit)
    expires = {}
    if typed := visit.fields.get("expires_at"):
        day, zone = read_day(typed), await find_zone(visit.database, access.repository.id)
        if day is None:
            message = gettext("Enter the last day as a date, such as 2026-11-20.")
            raise Invalid.at("expires_at", message)
        expires["expires_at"] = to_millis_text(start_of(day + timedelta(days=1), zone))
    return await _append(visit, access, GRANT, gettext("Credits granted."), **expires)


@places.post("/{owner}/{project}/billing/credits/spend", makes=True, action="task_credit.create")
@form_page(_page_again, ("amount", "notes", "task_id"), section=SPEND, on=(Invalid, Conflict))
async def spend(visit: Visit) -> Response:
    """Spend credits on a task."""
    access, task_id = await _access(visit), visit.fields.get("task_id", "")
    return await _append(visit, access, SPEND, gettext("Credits spent."), task_id=task_id)


async def _access(visit: Visit) -> Access:
    access = await visit.access()
    access.require_not_client()
    return access


async def _append(visit: Visit, access: Access, kind: str, text: str, **values: object) -> Response:
    create = visit.form(TaskCreditCreate, AmountField("amount"), "notes", kind=kind, **values)
    await visit.change(lambda write: actions.create_task_credit(write, access.repository.project_id, create))
    return visit.done(paging.project_address(visit, "billing", "credits"), text)


@places.post("/{owner}/{project}/billing/credits/{entry_id}/reverse", makes=True, action="task_credit.delete")
async def reverse(visit: Visit) -> Response:
    """Reverse a spend or an unused grant with a new entry."""
    access = await _access(visit)
    entry_id = visit.path("entry_id")

    async def step(write: Write) -> None:
        row, its = await find_with_access(write.tx, actions.entry_locked, write.actor, id=entry_id)
        access.require_same_project(its)
        await actions.delete_task_credit(write, actions.entry_of(row).id)

    await visit.change(step)
    return visit.done(paging.project_address(visit, "billing", "credits"), gettext("Entry reversed."))
