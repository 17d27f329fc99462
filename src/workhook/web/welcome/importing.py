"""A file of another program becomes a project: the page of an account, and the form that it shares with the first
steps. Whoever asks for it sees first what would be made, and what has no place here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from workhook.core.errors import Invalid, NotFound
from workhook.http.calls import Answer
from workhook.identity.schemas import Account
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import check_alive
from workhook.web.frame.texts import gettext, ngettext, text
from workhook.web.home.owner import OwnerView, find_owner
from workhook.work.access import find_access
from workhook.work.files.upload import Form, read_form
from workhook.work.imports.apply import Imported, import_plan, preview
from workhook.work.imports.json_file import NotUsable
from workhook.work.imports.people import People, members_of
from workhook.work.imports.plan import ImportPlan
from workhook.work.imports.sources import Choices, SourceFile, plan_of_any
from workhook.work.imports.writer import Import

places = Places("import")

EXPORT_MAX_BYTES = 16 * 1024 * 1024
LOST_LABELS: Mapping[str, str] = {
    "project_description": text("The description of the project"),
    "label_colors": text("Colours of labels"),
    "files": text("Contents of files"),
    "cover_colors": text("Colours of covers"),
    "votes": text("Votes"),
    "item_details": text("Dates and people of checklist items"),
    "start_dates": text("Dates when work starts"),
    "history": text("Entries of the history"),
    "stickers": text("Stickers"),
    "followers": text("Followers"),
    "reactions": text("Reactions"),
    "milestones": text("Milestones"),
    "deep_subtasks": text("Subtasks of subtasks"),
    "more_subtasks": text("Subtasks beyond 100 of a card"),
    "dependencies": text("Dependencies on cards that are not in the file"),
    "circular_dependencies": text("Dependencies that lead in a circle"),
    "comments": text("Comments on cards that are not in the file"),
    "checklists": text("Checklists of cards that are not in the file"),
}
"""What pages call each of `losses.SENTENCES`."""

_one_at_a_time = asyncio.Lock()  # what is read of a file takes many times its bytes


class ImportResult(NamedTuple):
    """What came of a file: what was made of it, or would be where `only_looks`; or what is wrong with it."""

    imported: Imported | None
    faults: list[str]
    only_looks: bool = False

    @property
    def shown(self) -> ImportPreview | None:
        """For who has only asked."""
        return ImportPreview.of(self.imported) if self.imported is not None and self.only_looks else None


class LostThing(NamedTuple):
    """`names`: the first of them. `is_kept`: as text."""

    label: str
    number: int
    names: list[str]
    is_kept: bool


class ImportPreview(NamedTuple):
    """What would be made, each with its number; what was there already; and what has no place."""

    title: str
    made: list[str]
    skipped: int
    lost: list[LostThing]
    warnings: list[str]
    is_new: bool

    @classmethod
    def of(cls, imported: Imported) -> ImportPreview:
        made, is_new = imported.created, imported.project_id is None
        is_new = is_new or bool(made.tasks or made.columns or made.comments)
        skipped = imported.skipped.tasks
        return cls(imported.title, _made(imported), skipped, _lost(imported), imported.warnings, is_new)


class _Memory:
    """Keeps an export, of which there is only so much."""

    def __init__(self) -> None:
        self.data = bytearray()

    async def write(self, data: bytes) -> None:
        self.data += data


@places.get("/{owner}/-/import")
async def ask_for_export(visit: Visit) -> Answer:
    """Ask for a file of another program."""
    return _form_page(visit, (await _owner(visit)).account, ImportResult(None, []))


@places.upload("/{owner}/-/import")
async def import_board(visit: Visit) -> Answer:
    """Show what a file of another program makes, or make a project of it."""
    account = (await _owner(visit)).account
    result = await take_export(visit, account)
    if result.imported is None or result.only_looks:
        return _form_page(visit, account, result)
    return imported_page(visit, account, result.imported)


def _form_page(visit: Visit, account: Account, result: ImportResult) -> Answer:
    return visit.page(
        "welcome/import.html", status=422 if result.faults else 200, owner=account, faults=result.faults,
        preview=result.shown,
    )  # fmt: skip


async def take_export(visit: Visit, account: Account) -> ImportResult:
    """Read the file of the form and import it, unless its `step` is `look`. Raises what `read_form` and `import_plan`
    do."""
    memory = _Memory()
    form = await read_form(visit.call, memory, limit=EXPORT_MAX_BYTES, admit=visit.admit)
    await visit.call.body_came()
    await check_alive(visit.call, visit.session)
    if form.faults or not memory.data:
        return ImportResult(None, [gettext("Choose the file of the export first.")])
    file = SourceFile(form.name, bytes(memory.data))
    title, only_looks = _last(form, "title"), _last(form, "step") == "look"
    try:
        async with _one_at_a_time:
            plan = await asyncio.to_thread(plan_of_any, file, Choices(title))
    except NotUsable as problem:
        return ImportResult(None, problem.faults)
    try:
        return ImportResult(await _import(visit, account, plan, only_looks=only_looks), [], only_looks)
    except Invalid as problem:
        return ImportResult(None, problem.reasons)


def _last(form: Form, name: str) -> str:
    return form.fields.get(name, [""])[-1].strip()


def imported_page(visit: Visit, account: Account, imported: Imported, onwards: str = "") -> Answer:
    """What came over. `onwards`: the next of the first steps."""
    return visit.page(
        "welcome/imported.html", status=201, owner=account, imported=imported, made=_made(imported),
        skipped=imported.skipped.tasks, lost=_lost(imported), onwards=onwards,
    )  # fmt: skip


def _lost(imported: Imported) -> list[LostThing]:
    return [
        LostThing(gettext(LOST_LABELS[each.what]), each.count, each.names, each.kept is not None)
        for each in imported.lost
    ]


def _made(imported: Imported) -> list[str]:
    """What came over, each with its number."""
    made = imported.created
    return [
        ngettext("%(num)s card", "%(num)s cards", made.tasks) % {"num": made.tasks},
        ngettext("%(num)s column", "%(num)s columns", made.columns) % {"num": made.columns},
        ngettext("%(num)s label", "%(num)s labels", made.labels) % {"num": made.labels},
        ngettext("%(num)s comment", "%(num)s comments", made.comments) % {"num": made.comments},
    ]


async def _import(visit: Visit, account: Account, plan: ImportPlan, *, only_looks: bool) -> Imported:
    people = People(await members_of(visit.database, account.id), {})
    base = visit.call.base_for_others.removesuffix(visit.call.prefix)
    this = Import(plan, account, visit.actor, people, base, keeps_authors=False, hint="")
    before = await preview(visit.database, this)
    if before.project_id is not None:  # somebody has imported it before, maybe where the visitor sees nothing
        (await find_access(visit.database, visit.actor, before.project_id)).require_writable()
    return before if only_looks else await import_plan(visit.database, this, lambda what, number, total: None)


async def _owner(visit: Visit) -> OwnerView:
    """Raises `NotFound` for those who may not make projects there."""
    view = await find_owner(visit)
    if not view.may_create:
        raise NotFound()
    return view
