"""From the export of a Trello board to the plan of a project. Pure.

Nothing of a board gets lost on the way but what has no place here, and that is told in the plan's warnings:
docs/how-to/import-trello.md says what becomes what.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import msgspec

from workhook.work.columns.schemas import COLUMNS_MAX, Stage
from workhook.work.imports import trello
from workhook.work.imports.cards import CardMapper, Lookups
from workhook.work.imports.plan import Plan, PlannedColumn, PlannedComment, PlannedTask
from workhook.work.imports.texts import NAMELESS, Distinct, is_cut, moment_of, moment_of_id, title_of, within

SOURCE = "trello"
KEY_MAX_CHARS = 1_000
ARCHIVED, NO_LIST, MORE_LISTS = "Archived", "No list", "More lists"
LISTS_MAX = COLUMNS_MAX - 3  # beside the three that are made here

# Names that the templates of Trello and most boards have. Any other is named with `done`.
_STAGES: Mapping[Stage, tuple[str, ...]] = {
    "done": ("done", "completed", "complete", "finished"),
    "in_progress": ("doing", "in progress"),
    "in_queue": ("to do", "todo", "backlog"),
}
_STAGE_OF = {name: stage for stage, names in _STAGES.items() for name in names}


class _Place(msgspec.Struct, frozen=True):
    """A list and the column that it becomes."""

    column: PlannedColumn
    list: trello.List


def plan_of(export: trello.Export, *, done: Collection[str] = ()) -> Plan:
    """`done`: names of further lists whose cards are finished."""
    warnings = _of_the_board(export, done)
    places, homes = _places(export, {_plain(each) for each in done})
    mapper = CardMapper(_lookups(export), warnings)
    tasks = _tasks(export, places, homes, mapper)
    columns = list({place.column.key: place.column for place in places}.values())
    if len(places) > len(columns):
        warnings.append(f"the cards of the last {len(places) - LISTS_MAX:,} lists share the column {MORE_LISTS!r}")
    used = {task.column_key for task in tasks}
    columns += [each for each in (_no_list(export), _archived(export)) if each.key in used]
    warnings += [f"list {each.name!r}: its name is cut to 255 characters" for each in export.lists if is_cut(each.name)]
    return Plan(SOURCE, _board_key(export), title_of(export.name, NAMELESS), columns, tasks, warnings)


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


def _no_list(export: trello.Export) -> PlannedColumn:
    return PlannedColumn(f"column:{_board_key(export)}:no-list", NO_LIST)


def _more_lists(export: trello.Export) -> PlannedColumn:
    return PlannedColumn(f"column:{_board_key(export)}:more", MORE_LISTS)


def _archived(export: trello.Export) -> PlannedColumn:
    return PlannedColumn(f"column:{_board_key(export)}:archived", ARCHIVED, stage="done", finished=True)


def _places(export: trello.Export, done: Collection[str]) -> tuple[list[_Place], dict[str, _Place]]:
    """Open lists by position, behind them those that are archived; and likewise by the id of the list."""
    key_of = Distinct(KEY_MAX_CHARS)
    places = []
    # Sorting is stable: the file's order decides ties.
    for at, each in enumerate(sorted(export.lists, key=lambda one: (one.closed, one.position))):
        key = key_of(f"column:{each.id or title_of(each.name)}")
        column = _column(key, each, done) if at < LISTS_MAX else _more_lists(export)
        places.append(_Place(column, each))
    homes: dict[str, _Place] = {}
    for place in places:
        homes.setdefault(place.list.id, place)
    homes.pop("", None)
    return places, homes


def _column(key: str, each: trello.List, done: Collection[str]) -> PlannedColumn:
    if each.closed:
        return PlannedColumn(key, title_of(each.name, limit=244) + " (archived)")
    plain = _plain(each.name)
    return PlannedColumn(key, title_of(each.name), stage="done" if plain in done else _STAGE_OF.get(plain))


def _lookups(export: trello.Export) -> Lookups:
    cards = {each.id for each in export.cards}
    owners = {checklist_id: card.id for card in export.cards for checklist_id in card.checklist_ids}
    checklists: dict[str, list[trello.Checklist]] = defaultdict(list)
    for each in sorted(export.checklists, key=lambda one: one.position):
        card_id = each.card_id if each.card_id in cards else owners.get(each.id, "")
        checklists[card_id].append(each)
    loose = checklists.pop("", [])  # Trello leaves some behind when it copies a board
    members = {each.id: each for each in chain((c.author for c in export.comments), export.members) if each.id}
    return Lookups(
        labels={each.id: each for each in export.labels if each.id},
        members=members,
        custom={each.id: each for each in export.custom_fields if each.id},
        checklists=checklists,
        loose=len(loose),
    )


def _tasks(
    export: trello.Export, places: Sequence[_Place], homes: Mapping[str, _Place], mapper: CardMapper
) -> list[PlannedTask]:
    """In the order of the columns. Cards that are archived come behind all others, in the order of their lists."""
    no_list, archived = _no_list(export), _archived(export)
    order = {place.list.id: at for at, place in reversed(list(enumerate(places)))}
    comments = _comments(export, mapper)
    sorted_cards = sorted(
        export.cards,
        key=lambda card: (
            card.closed,
            order[card.list_id] if card.list_id in homes else len(places),
            card.position,
        ),
    )
    key_of = Distinct(KEY_MAX_CHARS)
    tasks = []
    for card in sorted_cards:
        home = homes.get(card.list_id)
        column = archived if card.closed else home.column if home else no_list
        key = key_of(f"task:{card.id or _made_up_id(card)}")
        own = comments.pop(card.id, []) if card.id else []
        elsewhere = home is not None and (card.closed or column.title == MORE_LISTS)
        tasks.append(mapper.task(card, key, column, home.list.name if home and elsewhere else "", own))
    mapper.tell_the_rest(sum(map(len, comments.values())))
    return tasks


def _made_up_id(card: trello.Card) -> str:
    """For a card without an id: the same in every export that has the card in the same list under the same name."""
    return f"{card.list_id}/{title_of(card.name)}"


def _comments(export: trello.Export, mapper: CardMapper) -> dict[str, list[PlannedComment]]:
    """By card, oldest first. An export has the newest first, also among those of the same moment."""
    key_of = Distinct(KEY_MAX_CHARS)
    found: dict[str, list[PlannedComment]] = defaultdict(list)
    for each in reversed(export.comments):
        text = each.text.strip()
        if not text:
            continue
        key = key_of(f"task_comment:{each.id or f'{each.card_id}/{each.date}'}")
        author = mapper.lookups.members.get(each.author.id, each.author)
        made = moment_of(each.date)
        comment = PlannedComment(key, within(text), author, moment_of_id(each.id) if made is None else made)
        if comment.text != text:
            mapper.note_cut_comment(each.card_id)
        found[each.card_id].append(comment)
    for some in found.values():
        some.sort(key=lambda one: one.created_at or 0)
    return found
