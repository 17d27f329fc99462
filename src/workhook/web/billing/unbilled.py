"""Time of a project that is on no invoice yet: how much there is, and how it comes onto a draft."""

from __future__ import annotations

from collections.abc import Sequence

from workhook.core.errors import Conflict, Invalid
from workhook.http.calls import Answer
from workhook.identity.context import Write
from workhook.storage import Transaction
from workhook.web.billing.money import show_invoice
from workhook.web.billing.view import BillingForm, invoice_address, invoice_at
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, ngettext
from workhook.work.access import Access
from workhook.work.invoices import api, changing, drafting
from workhook.work.invoices.inputs import TIMESHEETS_MAX, InvoiceEdit
from workhook.work.invoices.time_lines import complaint
from workhook.work.timesheets import started

places = Places("billing")

NEW = ""
"""Instead of the id of an invoice: one that is not there yet."""


async def list_unbilled(visit: Visit, access: Access) -> Sequence[str]:
    """The ids of the oldest, as many as an invoice can have."""
    return await started.list_unbilled(visit.database, access, limit=TIMESHEETS_MAX)


async def lock_free(tx: Transaction, access: Access, ids: Sequence[str], invoice_id: str) -> list[str]:
    """Those of these timesheets that an invoice can have: others may have been invoiced since they were listed."""
    locked = {each.id: each for each in await drafting.lock_times(tx, access.repository.id, ids, invoice_id)}
    return [each for each in ids if complaint(locked.get(each), NEW) is None]


@places.post("/{owner}/{project}/billing/{invoice_id}/unbilled")
async def add_unbilled(visit: Visit) -> Answer:
    """Put all finished billable time of the project that is on no invoice onto a draft."""
    access, invoice = await invoice_at(visit)
    access.hide_from_clients()
    ids = await list_unbilled(visit, access)

    asked: list[str] = []

    async def add(write: Write) -> int:
        await changing.lock_invoice(write, invoice.id)
        claimed = await drafting.lock_times(write.tx, access.repository.id, [], invoice.id)
        free = await lock_free(write.tx, access, ids, invoice.id)
        added = free[: max(TIMESHEETS_MAX - len(claimed), 0)]
        if free and not added:
            message = gettext("An invoice has at most %(number)d entries of time. Make another one.")
            raise Conflict(message % {"number": TIMESHEETS_MAX}, code="too_many_timesheets")
        asked[:] = [*(each.id for each in claimed), *added]
        if added:
            await api.edit_invoice(write, invoice.id, InvoiceEdit(timesheet_ids=asked))
        return len(added)

    try:
        count = await visit.change(add)
    except (Invalid, Conflict) as problem:
        access, invoice = await invoice_at(visit)
        form = refused(visit, problem, asked)
        return await show_invoice(visit, access, invoice, unbilled=form, status=problem.status)
    return visit.done(f"{invoice_address(visit)}#lines", words_of(count))


def refused(visit: Visit, problem: Invalid | Conflict, asked: Sequence[str]) -> BillingForm:
    """What is wrong. Entries without a rate are one sentence together, and the value `entry` of the form is the first
    of them. `asked`: the timesheets that the draft would have had."""
    form = BillingForm(visit.fields)
    lacking = [each for each in problem.faults if each.code == "no_rate"]
    if not lacking:
        form.refuse(problem, ())
        return form
    words = ngettext(
        "Nobody has said what an hour of %(num)d entry costs. Nothing was added. Give it a rate, which can be 0.",
        "Nobody has said what an hour of %(num)d entries costs. Nothing was added. Give them a rate, which can be 0.",
        len(lacking),
    )
    form.problems = [words % {"num": len(lacking)}]
    indexes = [index for index in range(len(asked)) if lacking[0].field == f"timesheet_ids[{index}]"]
    form.values = {"entry": asked[indexes[0]]} if indexes else {}
    return form


def words_of(count: int) -> str:
    """What was done with so many entries."""
    if not count:
        return gettext("There is no finished, billable time any more that is on no invoice.")
    words = ngettext("%(num)d entry of time was added.", "%(num)d entries of time were added.", count)
    return words % {"num": count}
