"""A board of Trello becomes a project: the page of an account, and the form that it shares with the first steps."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from workhook.core.errors import Invalid, NotFound
from workhook.http.calls import Answer
from workhook.identity.schemas import Account
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import check_alive
from workhook.web.frame.texts import gettext, ngettext
from workhook.web.home.owner import OwnerView, find_owner
from workhook.work.access import find_access
from workhook.work.files.upload import read_form
from workhook.work.imports import trello
from workhook.work.imports.apply import Import, Imported, import_plan, preview
from workhook.work.imports.mapping import plan_of
from workhook.work.imports.plan import ImportPlan, People, members_of

places = Places("import")

EXPORT_MAX_BYTES = 16 * 1024 * 1024
_one_at_a_time = asyncio.Lock()  # what is read of a file takes many times its bytes


class ImportResult(NamedTuple):
    """What came of a file: what was made of it, or what is wrong with it."""

    imported: Imported | None
    faults: list[str]


class _Memory:
    """Keeps an export, of which there is only so much."""

    def __init__(self) -> None:
        self.data = bytearray()

    async def write(self, data: bytes) -> None:
        self.data += data


@places.get("/{owner}/-/import")
async def ask_for_export(visit: Visit) -> Answer:
    """Ask for the export of a board."""
    return visit.page("welcome/import.html", owner=(await _owner(visit)).account, faults=[])


@places.upload("/{owner}/-/import")
async def import_board(visit: Visit) -> Answer:
    """Make a project of the export of a board."""
    account = (await _owner(visit)).account
    result = await take_export(visit, account)
    if result.imported is None:
        return visit.page("welcome/import.html", status=422, owner=account, faults=result.faults)
    return imported_page(visit, account, result.imported)


async def take_export(visit: Visit, account: Account) -> ImportResult:
    """Read the file of the form and import it. Raises what `read_form` and `import_plan` do."""
    memory = _Memory()
    form = await read_form(visit.call, memory, limit=EXPORT_MAX_BYTES, admit=visit.admit)
    await visit.call.body_came()
    await check_alive(visit.call, visit.session)
    if form.faults or not memory.data:
        return ImportResult(None, [gettext("Choose the file of the export first.")])
    try:
        async with _one_at_a_time:
            plan = await asyncio.to_thread(_plan, bytes(memory.data))
    except trello.NotUsable as problem:
        return ImportResult(None, problem.faults)
    try:
        return ImportResult(await _import(visit, account, plan), [])
    except Invalid as problem:
        return ImportResult(None, problem.reasons)


def imported_page(visit: Visit, account: Account, imported: Imported, onwards: str = "") -> Answer:
    """What came over. `onwards`: the next of the first steps."""
    return visit.page(
        "welcome/imported.html", status=201, owner=account, imported=imported, made=_made(imported),
        skipped=imported.skipped.tasks, onwards=onwards,
    )  # fmt: skip


def _made(imported: Imported) -> list[str]:
    """What came over, each with its number."""
    made = imported.created
    return [
        ngettext("%(num)s card", "%(num)s cards", made.tasks) % {"num": made.tasks},
        ngettext("%(num)s column", "%(num)s columns", made.columns) % {"num": made.columns},
        ngettext("%(num)s label", "%(num)s labels", made.labels) % {"num": made.labels},
        ngettext("%(num)s comment", "%(num)s comments", made.comments) % {"num": made.comments},
    ]


def _plan(data: bytes) -> ImportPlan:
    return plan_of(trello.read_export(data))


async def _import(visit: Visit, account: Account, plan: ImportPlan) -> Imported:
    people = People(await members_of(visit.database, account.id), {})
    base = visit.call.base_for_others.removesuffix(visit.call.prefix)
    this = Import(plan, account, visit.actor, people, base, keeps_authors=False, hint="")
    before = await preview(visit.database, this)
    if before.project_id is not None:  # somebody has imported it before, maybe where the visitor sees nothing
        (await find_access(visit.database, visit.actor, before.project_id)).require_writable()
    return await import_plan(visit.database, this, lambda what, number, total: None)


async def _owner(visit: Visit) -> OwnerView:
    """Raises `NotFound` for those who may not make projects there."""
    view = await find_owner(visit)
    if not view.may_create:
        raise NotFound()
    return view
