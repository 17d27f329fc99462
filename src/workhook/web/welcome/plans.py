"""The preview of an import and the choices in its form: title, finished columns, and logins of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workhook.identity.schemas import Account
from workhook.web.frame.texts import gettext, ngettext, text
from workhook.work.files.upload import Fields
from workhook.work.portability.imports.apply import Imported
from workhook.work.portability.imports.plan import Choices, ImportPlan, Lost, PlannedColumn, PlannedField

COLUMNS_SHOWN, PEOPLE_SHOWN, FIELDS_SHOWN = 50, 30, 100
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

    def for_plan(self) -> Choices:
        not_done = [each for each in self.columns if each not in self.done]
        return Choices(title=self.title, done=self.done, not_done=not_done)


class PersonOffer(NamedTuple):
    """A person in the file. `login` is that of the member chosen for them."""

    name: str
    known_as: str
    login: str


class ImportPreview(NamedTuple):
    """The preview: what would be created, what already exists, and what would be lost.

    `project`: the full name of the project of an earlier import. `may_rename`: the visitor can choose the title.
    `is_new`: there is something to import.
    """

    file_name: str
    title: str
    project: str | None
    may_rename: bool
    made: list[str]
    skipped: int
    lost: list[tuple[str, Lost]]
    warnings: list[str]
    fields: list[tuple[str, PlannedField]]
    columns: list[PlannedColumn]
    people: list[PersonOffer]
    members: list[Account]
    is_new: bool

    @classmethod
    def of(
        cls, imported: Imported, plan: ImportPlan, choices: FormChoices, members: list[Account], file_name: str
    ) -> ImportPreview:
        made = imported.created
        return cls(
            file_name=file_name,
            title=imported.title,
            project=imported.repository,
            may_rename=plan.source != "trello",  # whose boards are known by an ID
            made=made_things(imported),
            skipped=imported.skipped.tasks,
            lost=lost_things(imported),
            warnings=imported.warnings,
            fields=[(gettext(FIELD_LABELS[each.becomes]), each) for each in plan.fields],
            columns=[each for each in plan.columns if not each.finished],
            people=_offers(imported, plan, choices)[:PEOPLE_SHOWN],
            members=members,
            is_new=imported.project_id is None or bool(made.tasks or made.columns or made.comments),
        )


def _offers(imported: Imported, plan: ImportPlan, choices: FormChoices) -> list[PersonOffer]:
    """Return the assigned people without a member, and those matched by the visitor."""
    unmatched = {each.name for each in imported.unmatched if each.assigned}
    found = {}
    for member in (member for task in plan.tasks for member in task.members):
        login = choices.logins.get(member.known_as, "")
        if (login or member.display_name in unmatched) and len(member.known_as) <= KEY_MAX_CHARS:
            found[member.display_name] = PersonOffer(member.display_name, member.known_as, login)
    return list(found.values())


def lost_things(imported: Imported) -> list[tuple[str, Lost]]:
    """Return what cannot be imported, with labels."""
    return [(gettext(LOST_LABELS[each.what]), each) for each in imported.lost]


def made_things(imported: Imported) -> list[str]:
    """Return the counts of imported items as texts."""
    made = imported.created
    return [
        ngettext("%(num)s card", "%(num)s cards", made.tasks),
        ngettext("%(num)s column", "%(num)s columns", made.columns),
        ngettext("%(num)s label", "%(num)s labels", made.labels),
        ngettext("%(num)s comment", "%(num)s comments", made.comments),
    ]
