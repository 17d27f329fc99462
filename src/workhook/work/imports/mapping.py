"""From the export of a Trello board to the plan of a project. Pure.

What has no place in a project is named in the plan's warnings. docs/how-to/import-trello.md says what becomes what.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import NamedTuple, TypeVar

import msgspec

from workhook.core.errors import Invalid, shown
from workhook.http import parameters
from workhook.http.parameters import TEXT_MAX_BYTES, TITLE_MAX_CHARS, WebAddress
from workhook.work.columns.schemas import COLUMNS_MAX, Stage
from workhook.work.imports import trello
from workhook.work.imports.plan import (
    NAMELESS,
    Distinct,
    ImportPlan,
    PlannedColumn,
    PlannedComment,
    PlannedTask,
    is_cut,
    moment_of,
    moment_of_id,
    title_of,
    within,
)
from workhook.work.tasks.field_types import KEYS_MAX

T = TypeVar("T")

SOURCE = "trello"
KEY_MAX_CHARS = 1_000
ARCHIVED, NO_LIST, MORE_LISTS = "Archived", "No list", "More lists"
LABELS_MAX = PEOPLE_MAX = 100  # as `TaskContent` has them
PROPERTIES_MAX_BYTES = 256 * 1024  # fields and sections of a task together: every event of it carries them

LIST, URL, START, DUE, ATTACHMENTS = "trello_list", "trello_url", "trello_start", "trello_due", "trello_attachments"
LISTS_MAX = COLUMNS_MAX - 3  # beside the three that are made here

# Names that the templates of Trello and most boards have. Any other is named with `done`.
_STAGES: Mapping[Stage, tuple[str, ...]] = {
    "done": ("done", "completed", "complete", "finished"),
    "in_progress": ("doing", "in progress"),
    "in_queue": ("to do", "todo", "backlog"),
}
_STAGE_OF = {name: stage for stage, names in _STAGES.items() for name in names}


class _ListColumn(NamedTuple):
    """What a list becomes, and its name."""

    column: PlannedColumn
    list_name: str


def plan_of(export: trello.Export, *, done: Collection[str] = ()) -> ImportPlan:
    """`done`: names of further lists whose cards are finished."""
    warnings = _of_the_board(export, done)
    columns, by_list = _columns(export, {_plain(each) for each in done})
    no_list, archived = _own_column(export, "no-list", NO_LIST), _own_column(export, "archived", ARCHIVED)
    tasks = _tasks(export, by_list, no_list, archived, CardMapper(export, warnings))
    if len(export.lists) > len(columns):
        warnings.append(
            f"the cards of the last {len(export.lists) - LISTS_MAX:,} lists share the column {MORE_LISTS!r}"
        )
    used = {task.column_key for task in tasks}
    columns += [each for each in (no_list, archived) if each.key in used]
    warnings += [f"list {each.name!r}: its name is cut to 255 characters" for each in export.lists if is_cut(each.name)]
    return ImportPlan(SOURCE, _board_key(export), title_of(export.name, NAMELESS), columns, tasks, warnings)


def _of_the_board(export: trello.Export, done: Collection[str]) -> list[str]:
    warnings = []
    if export.actions == trello.ACTIONS_MAX:
        warnings.append("the export has 1,000 actions, the most that Trello puts into one: older comments are missing")
    if export.description.strip():
        warnings.append("the board's description has no place in a project and is left out")
    if is_cut(export.name):
        warnings.append("the board's name is cut to 255 characters")
    names = {_plain(each.name) for each in export.lists}
    return [*warnings, *(f"there is no list {each!r}" for each in done if _plain(each) not in names)]


def _plain(name: str) -> str:
    """A list's name without regard to case, signs and pictures: `✅ Done!` is `done`."""
    return " ".join(re.findall(r"\w+", name.casefold()))


def _board_key(export: trello.Export) -> str:
    return f"project:{export.id or title_of(export.name)}"


def _own_column(export: trello.Export, name: str, title: str) -> PlannedColumn:
    """A column that is no list of the board. The archive's tasks are finished."""
    is_archive = title == ARCHIVED
    stage: Stage | None = "done" if is_archive else None
    return PlannedColumn(f"column:{_board_key(export)}:{name}", title, stage=stage, finished=is_archive)


def _columns(export: trello.Export, done: Collection[str]) -> tuple[list[PlannedColumn], dict[str, _ListColumn]]:
    """The columns of the open lists by position, then those of the archived ones; and what each list id leads to."""
    key_of = Distinct(KEY_MAX_CHARS)
    columns: dict[str, PlannedColumn] = {}
    by_list: dict[str, _ListColumn] = {}
    # Sorting is stable: the file's order decides ties.
    for at, each in enumerate(sorted(export.lists, key=lambda one: (one.closed, one.position))):
        key = key_of(f"column:{each.id or title_of(each.name)}")
        column = _column(key, each, done) if at < LISTS_MAX else _own_column(export, "more", MORE_LISTS)
        columns[column.key] = column
        by_list.setdefault(each.id, _ListColumn(column, each.name))
    by_list.pop("", None)
    return list(columns.values()), by_list


def _column(key: str, each: trello.List, done: Collection[str]) -> PlannedColumn:
    if each.closed:
        return PlannedColumn(key, title_of(each.name, limit=244) + " (archived)")
    plain = _plain(each.name)
    return PlannedColumn(key, title_of(each.name), stage="done" if plain in done else _STAGE_OF.get(plain))


def _tasks(
    export: trello.Export,
    by_list: Mapping[str, _ListColumn],
    no_list: PlannedColumn,
    archived: PlannedColumn,
    mapper: CardMapper,
) -> list[PlannedTask]:
    """In the order of the columns. Cards that are archived come behind all others, in the order of their lists."""
    order = {list_id: at for at, list_id in enumerate(by_list)}
    comments = _comments(export, mapper)
    key_of = Distinct(KEY_MAX_CHARS)
    tasks = []
    for card in sorted(export.cards, key=lambda one: (one.closed, order.get(one.list_id, len(order)), one.position)):
        column, list_name = by_list.get(card.list_id, (no_list, ""))
        elsewhere = card.closed or column.title == MORE_LISTS
        # A card without an id is the same in every export that has it in the same list under the same name.
        key = key_of(f"task:{card.id or f'{card.list_id}/{title_of(card.name)}'}")
        own = comments.pop(card.id, []) if card.id else []
        where = list_name if elsewhere else ""
        tasks.append(mapper.task(card, key, archived if card.closed else column, where, own))
    mapper.warn_of_the_rest(sum(map(len, comments.values())))
    return tasks


def _comments(export: trello.Export, mapper: CardMapper) -> dict[str, list[PlannedComment]]:
    """By card, oldest first. An export has the newest first, also among those of the same moment."""
    key_of = Distinct(KEY_MAX_CHARS)
    found: dict[str, list[PlannedComment]] = defaultdict(list)
    for each in reversed(export.comments):
        text = each.text.strip()
        if not text:
            continue
        key = key_of(f"task_comment:{each.id or f'{each.card_id}/{each.date}'}")
        author = mapper.members.get(each.author.id, each.author)
        made = moment_of(each.date)
        comment = PlannedComment(key, within(text), author, moment_of_id(each.id) if made is None else made)
        if comment.text != text:
            mapper.note_cut_comment(each.card_id)
        found[each.card_id].append(comment)
    for some in found.values():
        some.sort(key=lambda one: one.created_at or 0)
    return found


class CardMapper:
    """Maps the cards of a board one by one, and adds to `warnings` what could not be kept."""

    def __init__(self, export: trello.Export, warnings: list[str]) -> None:
        cards = {each.id for each in export.cards}
        owners = {checklist_id: card.id for card in export.cards for checklist_id in card.checklist_ids}
        checklists: dict[str, list[trello.Checklist]] = defaultdict(list)
        for each in sorted(export.checklists, key=lambda one: one.position):
            checklists[each.card_id if each.card_id in cards else owners.get(each.id, "")].append(each)
        self._without_card = len(checklists.pop("", []))  # Trello leaves some behind when it copies a board
        self._checklists = checklists
        self._label_by_id = {each.id: each for each in export.labels if each.id}
        authors = (each.author for each in export.comments)
        self.members = {each.id: each for each in chain(authors, export.members) if each.id}
        self._custom_fields = {each.id: each for each in export.custom_fields if each.id}
        self._warnings = warnings
        self._uploads = 0
        self._cut_comments: Counter[str] = Counter()

    def task(
        self, card: trello.Card, key: str, column: PlannedColumn, list_name: str, comments: list[PlannedComment]
    ) -> PlannedTask:
        warn = _CardWarnings(card.name, self._warnings)
        deadline = moment_of(card.due)
        if card.due and deadline is None:
            warn(f"its due date {shown(card.due)!r} is no time; the field {DUE} keeps it")
        budget = _PropertyBudget(warn)
        fields = self._fields(card, budget, list_name, keep_due=deadline is None)
        if self._cut_comments[card.id]:
            warn(f"{self._cut_comments[card.id]} of its comments cut to {TEXT_MAX_BYTES // 1024} KiB")
        finished = card.due_complete or column.completes
        return PlannedTask(
            key=key,
            column_key=column.key,
            title=title_of(card.name),
            description=_description(card, warn),
            deadline=deadline,
            cover_url=_cover(card, warn),
            labels=_first(self._labels(card), LABELS_MAX, "labels", warn),
            fields=fields,
            sections=self._sections(card, budget),
            members=_first(self._members(card), PEOPLE_MAX, "members", warn),
            finished=finished,
            finished_at=moment_of(card.last_activity) if finished else None,
            created_at=moment_of_id(card.id),
            comments=comments,
        )

    def note_cut_comment(self, card_id: str) -> None:
        self._cut_comments[card_id] += 1

    def warn_of_the_rest(self, comments_without_card: int) -> None:
        """Add the warnings about the board as a whole, after every card was mapped."""
        if self._uploads:
            what = "1 attachment is a file" if self._uploads == 1 else f"{self._uploads:,} attachments are files"
            self._warnings.append(f"{what}, and an export has no files; the field {ATTACHMENTS} has the addresses")
        for count, what in ((comments_without_card, "comment"), (self._without_card, "checklist")):
            if count == 1:
                self._warnings.append(f"1 {what} left out: its card is not in the export")
            elif count:
                self._warnings.append(f"{count:,} {what}s left out: their cards are not in the export")

    def _labels(self, card: trello.Card) -> list[str]:
        own = {each.id for each in card.labels if each.id}
        known = [self._label_by_id[each] for each in card.label_ids if each in self._label_by_id]
        every = [*card.labels, *(each for each in known if each.id not in own)]
        names = (title_of(each.name.strip() or each.color, "") for each in every)
        return list(dict.fromkeys(each for each in names if each))

    def _members(self, card: trello.Card) -> list[trello.TrelloMember]:
        ids = dict.fromkeys(each for each in card.member_ids if each)
        return [self.members.get(each) or trello.TrelloMember(each, "", "") for each in ids]

    def _fields(self, card: trello.Card, budget: _PropertyBudget, list_name: str, *, keep_due: bool) -> dict[str, str]:
        attachments = [_line(each) for each in card.attachments]
        self._uploads += sum(each.is_upload for each in card.attachments)
        own = {
            LIST: list_name.strip(),
            URL: card.url,
            START: card.start,
            DUE: card.due if keep_due else "",
            ATTACHMENTS: "\n".join(each for each in attachments if each),
        }
        fields: dict[str, str] = {}
        name_of = Distinct()
        for name, text in (*own.items(), *self._custom(card)):
            # One key stays free, for the members that nobody here is.
            if text and budget.take_key(len(fields), KEYS_MAX - 1, "fields"):
                fields[name_of(name)] = budget.take(text, name)
        return fields

    def _custom(self, card: trello.Card) -> Iterator[tuple[str, str]]:
        for item in card.custom:
            field = self._custom_fields.get(item.field_id)
            text = item.text or (field.options.get(item.option_id, "") if field else "")
            yield title_of(field.name if field else "", "custom field"), text

    def _sections(self, card: trello.Card, budget: _PropertyBudget) -> dict[str, dict[str, str]]:
        """A checklist with more items than a section may have goes on in a second."""
        sections: dict[str, dict[str, str]] = {}
        name_of = Distinct()
        for checklist in self._checklists.get(card.id, ()) if card.id else ():
            items = list(_items(checklist, budget))
            for start in range(0, max(len(items), 1), KEYS_MAX):
                if budget.take_key(len(sections), KEYS_MAX, "checklists"):
                    sections[name_of(title_of(checklist.name, "Checklist"))] = dict(items[start : start + KEYS_MAX])
        return sections


def _first(things: list[T], most: int, what: str, warn: _CardWarnings) -> list[T]:
    if len(things) > most:
        warn(f"only {most} of its {what} are kept")
    return things[:most]


def _items(checklist: trello.Checklist, budget: _PropertyBudget) -> Iterator[tuple[str, str]]:
    """Their names, which are unlike each other, and states."""
    name_of = Distinct()
    for each in sorted(checklist.items, key=lambda one: one.position):
        name = name_of(title_of(each.name))
        if is_cut(each.name):
            budget.warn(f"items of its checklists are cut to {TITLE_MAX_CHARS} characters")
        if budget.take_whole(name):
            yield name, "complete" if each.complete else "incomplete"
        else:
            budget.warn(f"items of its checklists beyond {PROPERTIES_MAX_BYTES // 1024} KiB are left out")


class _CardWarnings:
    """Warnings about one card, each once."""

    def __init__(self, name: str, warnings: list[str]) -> None:
        self._card = f"card {shown(name.strip() or NAMELESS)!r}: "
        self._warnings = warnings
        self._known: set[str] = set()

    def __call__(self, what: str) -> None:
        if what not in self._known:
            self._known.add(what)
            self._warnings.append(self._card + what)


class _PropertyBudget:
    """What is left for the fields and sections of one task."""

    def __init__(self, warn: _CardWarnings) -> None:
        self.warn = warn
        self._left_bytes = PROPERTIES_MAX_BYTES

    def take_whole(self, text: str) -> bool:
        size = len(text.encode())
        if size > self._left_bytes:
            return False
        self._left_bytes -= size
        return True

    def take(self, text: str, name: str) -> str:
        kept = within(text, min(TEXT_MAX_BYTES, self._left_bytes))
        self._left_bytes -= len(kept.encode())
        if kept != text:
            self.warn(f"the field {name} is cut")
        return kept

    def take_key(self, taken: int, most: int, what: str) -> bool:
        if taken < most:
            return True
        self.warn(f"only {most} of its {what} are kept")
        return False


def _description(card: trello.Card, warn: _CardWarnings) -> str | None:
    """A name that is too long for a title begins it, whole."""
    text = card.description
    if is_cut(card.name):
        warn(f"its name is cut to {TITLE_MAX_CHARS} characters; the description begins with all of it")
        text = f"{card.name.strip()}\n\n{text}".rstrip()
    kept = within(text)
    if kept != text:
        warn(f"its description is cut to {TEXT_MAX_BYTES // 1024} KiB")
    return kept if kept.strip() else None


class _Cover(msgspec.Struct):
    url: WebAddress


def _cover(card: trello.Card, warn: _CardWarnings) -> str | None:
    url = card.cover_url or next((each.url for each in card.attachments if each.id and each.id == card.cover_id), "")
    if not url.strip():
        return None
    try:
        return parameters.gather(_Cover, {}, {"url": url}).url
    except Invalid:
        warn("the address of its cover cannot be used")
        return None


def _line(attachment: trello.Attachment) -> str:
    name, url = attachment.name.strip(), attachment.url.strip()
    return url if not name or name == url else f"{name}: {url}"
