"""Imports from other programs: the page of an account, and the form it shares with the first steps.

A preview shows what would be created and what cannot be imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workhook.core.errors import Conflict, Invalid, NotFound, shown
from workhook.http.calls import Response
from workhook.identity.schemas import Account
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import check_alive
from workhook.web.frame.texts import gettext, ngettext, text
from workhook.web.home import OwnerView, find_owner
from workhook.work.files.upload import Fields, read_form
from workhook.work.kernel.access import find_access
from workhook.work.portability.imports.apply import Import, Imported, import_plan, preview
from workhook.work.portability.imports.json_file import InvalidFile
from workhook.work.portability.imports.people import People, addresses_of, members_of
from workhook.work.portability.imports.plan import Choices, ImportPlan, Lost
from workhook.work.portability.imports.plan_process import plan_in_process
from workhook.work.portability.imports.sources import SourceFile

Preview = dict[str, object]

PEOPLE_SHOWN = 30
PARTS_MAX = 256
"""Maximum number of form parts: two for each shown column and person, plus some."""
KEY_MAX_CHARS = 1_000

LOST_LABELS: Mapping[str, str] = {
    "project_description": text("Project description"),
    "files": text("Contents of attachments"),
    "cover_colors": text("Cover colors"),
    "votes": text("Votes"),
    "item_details": text("Dates and assignees of checklist items"),
    "start_dates": text("Start dates"),
    "history": text("History entries"),
    "stickers": text("Stickers"),
    "followers": text("Followers"),
    "reactions": text("Reactions"),
    "milestones": text("Milestones"),
    "deep_subtasks": text("Subtasks of subtasks"),
    "more_subtasks": text("Subtasks beyond 100 per card"),
    "dependencies": text("Dependencies on cards not in the file"),
    "circular_dependencies": text("Circular dependencies"),
    "comments": text("Comments on cards not in the file"),
    "checklists": text("Checklists of cards not in the file"),
}
"""The labels of `imports.plan.SENTENCES`."""
FIELD_LABELS: Mapping[str, str] = {
    "title": text("title"),
    "description": text("description"),
    "column": text("column"),
    "assignee": text("assignee"),
    "due": text("due date"),
    "labels": text("labels"),
    "estimate": text("estimate"),
    "priority": text("priority"),
    "completed": text("completed"),
    "created": text("creation date"),
    "parent": text("parent card"),
    "blocked_by": text("blocked by"),
    "id": text("row ID"),
    "field": text("custom field"),
    "nothing": text("not imported (all values are empty)"),
}
"""The labels of the targets of table fields (`PlannedField`)."""


class FormChoices(NamedTuple):
    """The choices of the form.

    `columns`: the shown titles; those in `done` are finished. `logins`: member logins by the names of people in the
    file; empty for no member.
    """

    title: str
    columns: Sequence[str] = ()
    done: Sequence[str] = ()
    logins: Mapping[str, str] = {}

    @classmethod
    def of(cls, fields: Fields, file_name: str) -> FormChoices:
        """Read the form; choices about another file are ignored."""
        looked_at = fields.get("looked_at", [file_name])[-1]
        if looked_at != file_name:
            return cls("")
        people = zip(fields.get("person", []), fields.get("login", []), strict=False)
        title = fields.get("title", [""])[-1].strip()
        return cls(title, fields.get("column", []), fields.get("done", []), dict(people))

    @property
    def named(self) -> dict[str, str]:
        return {name: login for name, login in self.logins.items() if login}


def preview_of(
    imported: Imported, plan: ImportPlan, choices: FormChoices, members: list[Account], file_name: str
) -> Preview:
    """Return what would be created, what already exists, and what would be lost."""
    made = imported.created
    return {
        "file_name": file_name,
        "title": imported.title,
        "project": imported.repository,  # the full name of the project of an earlier import
        "may_rename": plan.source != "trello",  # whose boards are known by an ID
        "made": made_things(imported),
        "skipped": imported.skipped.tasks,
        "lost": lost_things(imported),
        "warnings": imported.warnings,
        "fields": [(gettext(FIELD_LABELS[each.becomes]), each) for each in plan.fields],
        "columns": [each for each in plan.columns if not each.finished],
        "people": _offers(imported, plan, choices)[:PEOPLE_SHOWN],
        "members": members,
        "is_new": imported.project_id is None or bool(made.tasks or made.columns or made.comments),
    }


def _offers(imported: Imported, plan: ImportPlan, choices: FormChoices) -> list[dict[str, str]]:
    """Return the assigned people without a member, and those matched by the visitor."""
    unmatched = {each.name for each in imported.unmatched if each.assigned}
    found = {}
    for member in (member for task in plan.tasks for member in task.members):
        login = choices.logins.get(member.known_as, "")
        if (login or member.display_name in unmatched) and len(member.known_as) <= KEY_MAX_CHARS:
            found[member.display_name] = {"name": member.display_name, "known_as": member.known_as, "login": login}
    return list(found.values())


def lost_things(imported: Imported) -> list[tuple[str, Lost]]:
    return [(gettext(LOST_LABELS[each.what]), each) for each in imported.lost]


def made_things(imported: Imported) -> list[str]:
    made = imported.created
    return [
        ngettext("%(num)s card", "%(num)s cards", made.tasks),
        ngettext("%(num)s column", "%(num)s columns", made.columns),
        ngettext("%(num)s label", "%(num)s labels", made.labels),
        ngettext("%(num)s comment", "%(num)s comments", made.comments),
    ]


places = Places("import")

EXPORT_MAX_BYTES = 16 * 1024 * 1024


class ImportResult(NamedTuple):
    """The result of an import: the created project, a preview, or errors."""

    imported: Imported | None = None
    faults: Sequence[str] = ()
    preview: Preview | None = None


@places.get("/{owner}/-/import")
async def ask_for_export(visit: Visit) -> Response:
    return _form_page(visit, (await _owner(visit)).account, ImportResult())


@places.upload("/{owner}/-/import", action="project.create")
async def import_board(visit: Visit) -> Response:
    account = (await _owner(visit)).account
    result = await take_export(visit, account)
    if result.imported is None:
        return _form_page(visit, account, result)
    return imported_page(visit, account, result.imported)


def _form_page(visit: Visit, account: Account, result: ImportResult) -> Response:
    return visit.page(
        "welcome/import.html", status=422 if result.faults else 200, owner=account, faults=result.faults,
        preview=result.preview,
    )  # fmt: skip


async def take_export(visit: Visit, account: Account) -> ImportResult:
    """Read the uploaded file and import it unless `step` is `look`. Raises like `read_form` and `import_plan`."""
    data = bytearray()

    async def keep(piece: bytes) -> None:
        data.extend(piece)

    form = await read_form(visit.call, keep, limit=EXPORT_MAX_BYTES, admit=visit.admit, parts=PARTS_MAX)
    await visit.call.body_came()
    await check_alive(visit.call, visit.session)
    if form.faults or not data:
        return ImportResult(faults=[gettext("Choose the exported file first.")])
    file, choices = SourceFile(form.name, bytes(data)), FormChoices.of(form.fields, form.name)
    try:
        not_done = [each for each in choices.columns if each not in choices.done]
        wanted = Choices(title=choices.title, done=choices.done, not_done=not_done)
        plan = await plan_in_process(account.id, file, wanted)
    except InvalidFile as problem:
        return ImportResult(faults=problem.faults)
    members = await members_of(visit.database, account.id)
    addresses = await addresses_of(visit.database, account.id)
    try:
        people = People(members, choices.named, addresses)
        base = visit.call.public_base.removesuffix(visit.call.prefix)
        task_import = Import(plan, account, visit.actor, people, base, keeps_authors=False, hint="")
    except KeyError as error:
        return ImportResult(faults=[gettext("No member has the login %(login)s.", login=shown(error.args[0]))])
    try:
        would = await _look(visit, task_import)
        if form.fields.get("step", [""])[-1] == "look":
            return ImportResult(preview=preview_of(would, plan, choices, members, form.name))
        return ImportResult(await import_plan(visit.database, task_import, lambda what, number, total: None))
    except (Invalid, Conflict) as problem:
        return ImportResult(faults=problem.reasons)


def imported_page(visit: Visit, account: Account, imported: Imported, onwards: str = "") -> Response:
    """Show the result of an import. `onwards`: the next of the first steps."""
    return visit.page(
        "welcome/imported.html", status=201, owner=account, imported=imported, made=made_things(imported),
        skipped=imported.skipped.tasks, lost=lost_things(imported), onwards=onwards,
    )  # fmt: skip


async def _look(visit: Visit, task_import: Import) -> Imported:
    """Return what would be created. Raises `NotFound` and the errors of `require_writable`."""
    would = await preview(visit.database, task_import)
    if would.project_id is not None:  # imported before, perhaps into a project that the visitor cannot see
        (await find_access(visit.database, visit.actor, would.project_id)).require_writable()
    return would


async def _owner(visit: Visit) -> OwnerView:
    view = await find_owner(visit)
    if view.role is None:
        raise NotFound()
    return view
