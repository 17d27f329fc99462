"""Imports from other programs: the page of an account, and the form it shares with the first steps.

A preview shows what would be created and what cannot be imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workhook.core.errors import Conflict, Invalid, NotFound, shown
from workhook.http.calls import Response
from workhook.identity.schemas import Account
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.sessions import check_alive
from workhook.web.frame.texts import gettext
from workhook.web.home import OwnerView, find_owner
from workhook.web.welcome.plans import PARTS_MAX, FormChoices, ImportPreview, lost_things, made_things
from workhook.work.files.upload import read_form
from workhook.work.kernel.access import find_access
from workhook.work.portability.imports.apply import Imported, import_plan, preview
from workhook.work.portability.imports.json_file import InvalidFile
from workhook.work.portability.imports.people import People, addresses_of, members_of
from workhook.work.portability.imports.plan_process import plan_in_process
from workhook.work.portability.imports.sources import SourceFile
from workhook.work.portability.imports.writer import Import

places = Places("import")

EXPORT_MAX_BYTES = 16 * 1024 * 1024


class ImportResult(NamedTuple):
    """The result of an import: the created project, a preview, or errors."""

    imported: Imported | None = None
    faults: Sequence[str] = ()
    preview: ImportPreview | None = None


@places.get("/{owner}/-/import")
async def ask_for_export(visit: Visit) -> Response:
    """Show the import form."""
    return _form_page(visit, (await _owner(visit)).account, ImportResult())


@places.upload("/{owner}/-/import", action="project.create")
async def import_board(visit: Visit) -> Response:
    """Preview or run an import."""
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
    """Read the uploaded file and import it unless `step` is `look`.

    Raises the errors of `read_form` and `import_plan`.
    """
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
        plan = await plan_in_process(account.id, file, choices.for_plan())
    except InvalidFile as problem:
        return ImportResult(faults=problem.faults)
    members = await members_of(visit.database, account.id)
    addresses = await addresses_of(visit.database, account.id)
    try:
        people = People(members, choices.named, addresses)
        base = visit.call.public_base.removesuffix(visit.call.prefix)
        task_import = Import(plan, account, visit.actor, people, base, keeps_authors=False, hint="")
    except KeyError as error:
        return ImportResult(faults=[gettext("No member has the login %(login)s.") % {"login": shown(error.args[0])}])
    try:
        would = await _look(visit, task_import)
        if form.fields.get("step", [""])[-1] == "look":
            return ImportResult(preview=ImportPreview.of(would, plan, choices, members, form.name))
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
    if not view.may_create:
        raise NotFound()
    return view
