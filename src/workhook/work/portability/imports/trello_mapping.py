"""From the export of a Trello board to the plan of a project. Pure.

docs/how-to/import-trello.md says what becomes what. What has no place in a project is named in what the plan loses.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import msgspec

from workhook.core.clock import to_millis_text
from workhook.core.errors import Invalid, Message, Number, part, say, shown
from workhook.http import parameters
from workhook.http.parameters import TEXT_MAX_BYTES, TITLE_MAX_CHARS, WebAddress
from workhook.work.board.projects.schemas import LABEL_COLORS_MAX, LabelColor
from workhook.work.board.tasks.inputs import KEYS_MAX
from workhook.work.board.tasks.schemas import COLUMNS_MAX, Level, Stage
from workhook.work.portability.imports import trello_export as trello
from workhook.work.portability.imports.board import COLORS
from workhook.work.portability.imports.losses import Losses
from workhook.work.portability.imports.plan import ImportPlan, Person, PlannedColumn, PlannedComment, PlannedTask
from workhook.work.portability.imports.texts import (
    KEY_MAX_CHARS,
    LABELS_MAX,
    NAMELESS,
    PEOPLE_MAX,
    PROPERTIES_MAX_BYTES,
    Distinct,
    PropertyBudget,
    ThingWarnings,
    described,
    first_of,
    is_cut,
    moment_of,
    moment_of_id,
    title_of,
    unknown_names,
    within,
)
from workhook.work.portability.imports.words import StageNames, level_of, means, says_more

SOURCE = "trello"
ARCHIVED, NO_LIST, MORE_LISTS = "Archived", "No list", "More lists"

LIST, URL, START, DUE, ATTACHMENTS = "trello_list", "trello_url", "trello_start", "trello_due", "trello_attachments"
VOTES, COVER = "trello_votes", "trello_cover"
LISTS_MAX = COLUMNS_MAX - 3  # beside the three that are made here
DETAILS_MAX_CHARS = 100


class _ListColumn(NamedTuple):
    """What a list becomes, and its name."""

    column: PlannedColumn
    list_name: str


def plan_of(export: trello.Export, *, done: Collection[str] = (), not_done: Collection[str] = ()) -> ImportPlan:
    """`done` and `not_done`: names of lists, as `StageNames` has them."""
    warnings, losses = _of_the_board(export, done), _lost_of_the_board(export)
    columns, by_list = _columns(export, StageNames(done, not_done))
    no_list, archived = _own_column(export, "no-list", NO_LIST), _own_column(export, "archived", ARCHIVED)
    tasks = _tasks(export, by_list, no_list, archived, CardMapper(export, warnings, losses))
    if len(export.lists) > len(columns):
        warnings.append(
            say(
                "the cards of the last {} lists share the column {}",
                Number(len(export.lists) - LISTS_MAX),
                repr(MORE_LISTS),
            )
        )
    used = {task.column_key for task in tasks}
    columns += [each for each in (no_list, archived) if each.key in used]
    warnings += [
        say("list {}: {}", repr(shown(each.name.strip())), say("its name is cut to 255 characters"))
        for each in export.lists
        if is_cut(each.name)
    ]
    title = title_of(export.name, NAMELESS)
    return ImportPlan(
        SOURCE, _board_key(export), title, columns, tasks, warnings, losses.found(), label_colors=_colors(export)
    )


def _of_the_board(export: trello.Export, done: Collection[str]) -> list[Message]:
    warnings = []
    if export.actions == trello.ACTIONS_MAX:
        most = "the export has 1,000 actions, the most that Trello puts into one: older comments are missing"
        warnings.append(part(most))
    if is_cut(export.name):
        warnings.append(part("the board's name is cut to 255 characters"))
    return [*warnings, *unknown_names(done, (each.name for each in export.lists), "list")]


def _lost_of_the_board(export: trello.Export) -> Losses:
    losses = Losses()
    if export.description.strip():
        losses.add("project_description", export.description)
    losses.add("history", count=export.actions - len(export.comments))
    return losses


def _colors(export: trello.Export) -> dict[str, LabelColor]:
    """Return the colours of named labels. A shade becomes its colour; black is left out."""
    found: dict[str, LabelColor] = {}
    for each in (*export.labels, *_labels_of_cards(export)):
        name, shade = title_of(each.name, ""), each.color.partition("_")[0]
        color = next((color for color in COLORS if color == shade), None)
        if name and color and len(found) < LABEL_COLORS_MAX:
            found.setdefault(name, color)
    return found


def _color_name(color: str) -> str:
    """`Dark green` of `green_dark`: the name of a label that has only a colour."""
    return " ".join(reversed(color.split("_"))).capitalize()


def _labels_of_cards(export: trello.Export) -> Iterator[trello.Label]:
    for card in export.cards:
        yield from card.labels


def _board_key(export: trello.Export) -> str:
    return f"project:{export.id or title_of(export.name)}"


def _own_column(export: trello.Export, name: str, title: str) -> PlannedColumn:
    """A column that is no list of the board. The archive's tasks are finished."""
    is_archive = title == ARCHIVED
    stage: Stage | None = "done" if is_archive else None
    return PlannedColumn(f"column:{_board_key(export)}:{name}", title, stage=stage, finished=is_archive)


def _columns(export: trello.Export, stages: StageNames) -> tuple[list[PlannedColumn], dict[str, _ListColumn]]:
    """The columns of the open lists by position, then those of the archived ones; and what each list id leads to."""
    key_of = Distinct(KEY_MAX_CHARS)
    columns: dict[str, PlannedColumn] = {}
    by_list: dict[str, _ListColumn] = {}
    # Sorting is stable: the file's order decides ties.
    for at, each in enumerate(sorted(export.lists, key=lambda one: (one.closed, one.position))):
        key = key_of(f"column:{each.id or title_of(each.name)}")
        column = _column(key, each, stages) if at < LISTS_MAX else _own_column(export, "more", MORE_LISTS)
        columns[column.key] = column
        by_list.setdefault(each.id, _ListColumn(column, each.name))
    by_list.pop("", None)
    return list(columns.values()), by_list


def _column(key: str, each: trello.List, stages: StageNames) -> PlannedColumn:
    if each.closed:
        return PlannedColumn(key, title_of(each.name, limit=244) + " (archived)", finished=True)
    title = title_of(each.name)
    return PlannedColumn(key, title, stage=stages.stage_of(title))


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
    mapper.note_the_rest(sum(map(len, comments.values())))
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

    def __init__(self, export: trello.Export, warnings: list[Message], losses: Losses) -> None:
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
        self._changes = export.changes
        self._warnings = warnings
        self._losses = losses
        self._cut_comments: Counter[str] = Counter()

    def task(
        self, card: trello.Card, key: str, column: PlannedColumn, list_name: str, comments: list[PlannedComment]
    ) -> PlannedTask:
        warn = ThingWarnings("card", card.name, self._warnings)
        deadline = moment_of(card.due)
        if card.due and deadline is None:
            warn(say("its due date {} is no time; the field {} keeps it", repr(shown(card.due)), DUE))
        budget = PropertyBudget(warn)
        fields = self._fields(card, budget, list_name, keep_due=deadline is None)
        if self._cut_comments[card.id]:
            warn(say("{} of its comments cut to {} KiB", self._cut_comments[card.id], TEXT_MAX_BYTES // 1024))
        finished = card.due_complete or column.completes
        return PlannedTask(
            key=key,
            column_key=column.key,
            title=title_of(card.name),
            description=described("name", card.name, card.description, warn),
            deadline=deadline,
            cover_url=_cover(card, warn),
            labels=first_of(self._labels(card), LABELS_MAX, say("labels"), warn),
            fields=fields,
            sections=self._sections(card, budget),
            members=first_of(self._members(card), PEOPLE_MAX, say("members"), warn),
            finished=finished,
            finished_at=self._finished_at(card) if finished else None,
            created_at=moment_of_id(card.id),
            comments=comments,
            priority=self._priority(card),
        )

    def _finished_at(self, card: trello.Card) -> int | None:
        """When the card was completed, archived or came to its list, as far as its history is there; else when
        something happened to it for the last time."""
        order = [trello.COMPLETED] if card.due_complete else []
        order += [trello.ARCHIVED, card.list_id] if card.closed else [card.list_id]
        times = (moment_of(self._changes.get((card.id, each), "")) for each in order)
        return next((each for each in times if each is not None), moment_of(card.last_activity))

    def note_cut_comment(self, card_id: str) -> None:
        self._cut_comments[card_id] += 1

    def note_the_rest(self, comments_without_card: int) -> None:
        """Note what was left out of the board as a whole, after every card was mapped."""
        self._losses.add("comments", count=comments_without_card)
        self._losses.add("checklists", count=self._without_card)

    def _labels(self, card: trello.Card) -> list[str]:
        own = {each.id for each in card.labels if each.id}
        known = [self._label_by_id[each] for each in card.label_ids if each in self._label_by_id]
        every = [*card.labels, *(each for each in known if each.id not in own)]
        names = (title_of(each.name.strip() or _color_name(each.color), "") for each in every)
        return list(dict.fromkeys(each for each in names if each))

    def _members(self, card: trello.Card) -> list[Person]:
        ids = dict.fromkeys(each for each in card.member_ids if each)
        return [self._member(each) for each in ids]

    def _member(self, member_id: str) -> Person:
        return self.members.get(member_id) or Person(member_id, "", "")

    def _fields(self, card: trello.Card, budget: PropertyBudget, list_name: str, *, keep_due: bool) -> dict[str, str]:
        attachments = [_line(each) for each in card.attachments]
        for each in card.attachments:
            if each.is_upload:
                self._losses.add("files", each.name, kept=f"the field {ATTACHMENTS}, as addresses")
        self._losses.add("start_dates", card.name, kept=f"the field {START}", count=bool(card.start))
        self._losses.add("votes", card.name, kept=f"the field {VOTES}", count=self._votes(card))
        self._losses.add("cover_colors", card.cover_color, kept=f"the field {COVER}", count=bool(card.cover_color))
        self._losses.add("stickers", card.name, count=card.stickers)
        own = {
            LIST: list_name.strip(),
            URL: card.url,
            START: card.start,
            DUE: card.due if keep_due else "",
            ATTACHMENTS: "\n".join(each for each in attachments if each),
            VOTES: self._voters(card),
            COVER: card.cover_color,
        }
        return budget.fields((*own.items(), *self._custom(card)))

    def _votes(self, card: trello.Card) -> int:
        return max(card.votes, len(card.voter_ids))

    def _voters(self, card: trello.Card) -> str:
        """How many have voted, and who, as far as that is known."""
        names = ", ".join(self._member(each).display_name for each in card.voter_ids if each)
        return f"{self._votes(card)}: {names}" if names else str(self._votes(card) or "")

    def _custom(self, card: trello.Card) -> Iterator[tuple[str, str]]:
        """Names and values, but for the one that is the priority of the task and says no more."""
        for item in card.custom:
            field = self._custom_fields.get(item.field_id)
            if field is None or self._level(field, item) is None or says_more(_custom_text(field, item)):
                yield title_of(field.name if field else "", "custom field"), _custom_text(field, item)

    def _priority(self, card: trello.Card) -> Level | None:
        found = ((self._custom_fields.get(item.field_id), item) for item in card.custom)
        levels = (self._level(field, item) for field, item in found if field is not None)
        return next((each for each in levels if each), None)

    def _level(self, field: trello.CustomField, item: trello.CustomItem) -> Level | None:
        """Of the first list of the board that is called Priority."""
        named = (each.id for each in self._custom_fields.values() if _is_priority(each))
        return level_of(_custom_text(field, item)) if field.id == next(named, None) else None

    def _items(
        self, card: trello.Card, checklist: trello.Checklist, budget: PropertyBudget
    ) -> Iterator[tuple[str, str]]:
        """Their names, which are unlike each other, and states."""
        name_of = Distinct()
        for each in sorted(checklist.items, key=lambda one: one.position):
            details = self._details(each)
            if details:
                self._losses.add("item_details", card.name, kept="the name of the item")
            name = name_of(title_of(each.name, limit=TITLE_MAX_CHARS - len(details)) + details)
            if is_cut(each.name + details):
                budget.warn(say("items of its checklists are cut to {} characters", TITLE_MAX_CHARS))
            if budget.take_whole(name):
                yield name, "complete" if each.complete else "incomplete"
            else:
                budget.warn(say("items of its checklists beyond {} KiB are left out", PROPERTIES_MAX_BYTES // 1024))

    def _details(self, item: trello.CheckItem) -> str:
        """When an item is due, and whose it is: ` — 2024-05-01, Ada Lovelace (ada)`."""
        due = moment_of(item.due)
        day = to_millis_text(due)[:10] if due is not None else item.due.strip()
        member = self._member(item.member_id).display_name if item.member_id else ""
        said = ", ".join(each for each in (day, member) if each)
        return " — " + title_of(said, limit=DETAILS_MAX_CHARS) if said else ""

    def _sections(self, card: trello.Card, budget: PropertyBudget) -> dict[str, dict[str, str]]:
        """A checklist with more items than a section may have goes on in a second."""
        sections: dict[str, dict[str, str]] = {}
        name_of = Distinct()
        for checklist in self._checklists.get(card.id, ()) if card.id else ():
            items = list(self._items(card, checklist, budget))
            for start in range(0, max(len(items), 1), KEYS_MAX):
                if budget.take_key(len(sections), KEYS_MAX, say("checklists")):
                    sections[name_of(title_of(checklist.name, "Checklist"))] = dict(items[start : start + KEYS_MAX])
        return sections


class _Cover(msgspec.Struct):
    url: WebAddress


def _cover(card: trello.Card, warn: ThingWarnings) -> str | None:
    url = card.cover_url or next((each.url for each in card.attachments if each.id and each.id == card.cover_id), "")
    if not url.strip():
        return None
    try:
        return parameters.gather(_Cover, {}, {"url": url}).url
    except Invalid:
        warn(say("the address of its cover cannot be used"))
        return None


def _line(attachment: trello.Attachment) -> str:
    name, url = attachment.name.strip(), attachment.url.strip()
    return url if not name or name == url else f"{name}: {url}"


def _custom_text(field: trello.CustomField | None, item: trello.CustomItem) -> str:
    """The value as its type has it: the option of a list; text, a number, a time, or true or false of the others."""
    option = field.options.get(item.option_id, "") if field else ""
    return option if field and field.kind == "list" and option else item.text or option


def _is_priority(field: trello.CustomField) -> bool:
    return means("priority", field.name) and field.kind in ("list", "")
