"""Time of a project that is on no invoice yet: how much there is, and how it comes onto a draft."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from workhook.core.errors import Conflict, Invalid
from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.web.billing.money import show_refused
from workhook.web.billing.view import UNBILLED, invoice_address, invoice_at
from workhook.web.frame.forms import PageForm, refused_form
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.work.kernel.access import Access
from workhook.work.kernel.durations import display
from workhook.work.money.invoices import changing, drafting, planning
from workhook.work.money.invoices.inputs import TIMESHEETS_MAX, InvoiceEdit
from workhook.work.money.invoices.time_lines import InvoicedTime, complaint
from workhook.work.time.timesheets import started

places = Places("billing")

NEW = ""
"""Instead of the id of an invoice: one that is not there yet."""


async def list_unbilled(visit: Visit, access: Access) -> Sequence[str]:
    """The ids of the oldest, as many as an invoice can have."""
    return await started.list_unbilled(visit.database, access, limit=TIMESHEETS_MAX)


async def lock_free(tx: Transaction, access: Access, ids: Sequence[str], invoice_id: str) -> list[InvoicedTime]:
    """Those of these timesheets that an invoice can have: others may have been invoiced since they were listed."""
    locked = {each.id: each for each in await drafting.lock_times(tx, access.repository.id, ids, invoice_id)}
    return [locked[each] for each in ids if complaint(locked.get(each), NEW) is None]


async def take_what_fits(
    times: Sequence[InvoicedTime],
    take: Callable[[Sequence[InvoicedTime]], Awaitable[object]],
    plan: Callable[[Sequence[InvoicedTime]], Awaitable[object]],
) -> Sequence[InvoicedTime]:
    """Let an invoice `take` these times, or as many of the first as it can be printed with; answers these. `plan`
    raises what `take` would, and writes nothing. Raises `Invalid` for what is wrong otherwise, and where none fits."""
    try:
        await take(times)
        return times
    except Invalid as problem:  # nothing was written yet
        if any(each.code != "too_long" for each in problem.faults):
            raise
        fitting = await _fitting(times, plan)
        if not fitting:
            raise
    await take(fitting)
    return fitting


async def _fitting(
    times: Sequence[InvoicedTime], plan: Callable[[Sequence[InvoicedTime]], Awaitable[object]]
) -> Sequence[InvoicedTime]:
    """Of times that are too many, as many as are not."""
    fits, over = 0, len(times)
    while over - fits > 1:
        tried = (fits + over) // 2
        try:
            await plan(times[:tried])
        except Invalid:
            over = tried
        else:
            fits = tried
    return times[:fits]


@places.post("/{owner}/{project}/billing/{invoice_id}/unbilled", makes=True, action="invoice.edit")
async def add_unbilled(visit: Visit) -> Answer:
    """Put finished billable time of the project that is on no invoice onto a draft: all, or as much as it has room for,
    the oldest first."""
    access, invoice = await invoice_at(visit)
    access.hide_from_clients()
    ids = await list_unbilled(visit, access)

    before: list[str] = []
    offered: list[InvoicedTime] = []

    def edit(times: Sequence[InvoicedTime]) -> InvoiceEdit:
        return InvoiceEdit(timesheet_ids=[*before, *(each.id for each in times)])

    async def add(write: Write) -> int:
        here, current = await changing.lock_invoice(write, invoice.id)
        before[:] = [each.id for each in await drafting.lock_times(write.tx, access.repository.id, [], invoice.id)]
        free = await lock_free(write.tx, access, ids, invoice.id)
        offered[:] = free[: max(TIMESHEETS_MAX - len(before), 0)]
        if free and not offered:
            message = gettext("An invoice has at most %(number)d entries of time. Make another one.")
            raise Conflict(message % {"number": TIMESHEETS_MAX}, code="too_many_timesheets")
        if not offered:
            return 0
        added = await take_what_fits(
            offered,
            lambda times: changing.edit_invoice(write, invoice.id, edit(times)),
            lambda times: planning.plan_change(write.tx, here.repository, current, edit(times)),
        )
        return len(added)

    try:
        count = await visit.change(add)
    except (Invalid, Conflict) as problem:
        return await show_refused(visit, refused(visit, problem, offered))
    return visit.done(f"{invoice_address(visit)}#lines", await words_of(visit, access, count, ids))


def refused(visit: Visit, problem: Invalid | Conflict, offered: Sequence[InvoicedTime]) -> PageForm:
    """What is wrong. Entries without a rate are one sentence together, and the value `entry` of the form is the first
    of them. `offered`: the time that would have come onto the draft."""
    form = refused_form(visit.fields, problem, section=UNBILLED)
    if not any(each.code == "no_rate" for each in problem.faults):
        return form
    lacking = [each.id for each in offered if each.rate_minor is None]  # a problem keeps only the first faults
    words = ngettext(
        "Nobody has said what an hour of %(num)d entry costs. Nothing was added. Give it a rate, which can be 0.",
        "Nobody has said what an hour of %(num)d entries costs. Nothing was added. Give them a rate, which can be 0.",
        len(lacking),
    )
    form.problems = [words % {"num": len(lacking)}]
    form.values = {"entry": lacking[0]}
    return form


async def words_of(visit: Visit, access: Access, count: int, listed: Sequence[str]) -> str:
    """What was done with so many of the entries that were `listed`, and how much time is left."""
    if not count:
        return gettext("There is no finished, billable time any more that is on no invoice.")
    words = ngettext("%(num)d entry of time was added.", "%(num)d entries of time were added.", count)
    said = words % {"num": count}
    if count == len(listed) < TIMESHEETS_MAX:  # all there is
        return said
    left_ms = await started.find_unbilled_ms(visit.database, access)
    if not left_ms:
        return said
    more = gettext("This invoice has no room for more: %(time)s is left. Make another invoice for it.")
    return f"{said} {more % {'time': display(left_ms)}}"
