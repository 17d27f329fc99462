"""Plan the import of Trello boards from their exports ("Export as JSON"). Pure functions.

Every key may be missing or null, because exports differ between years and between boards with different Power-Ups. A
value of the wrong type is a fault. Unknown keys are ignored. docs/team/import-trello.md documents the mapping. The plan
lists the data that cannot be imported.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Annotated

import msgspec

from workhook.core.clock import to_millis_text
from workhook.core.errors import Invalid, Message, Number, phrase, say, shown
from workhook.http import parameters
from workhook.http.parameters import TEXT_MAX_BYTES, TITLE_MAX_CHARS, WebAddress
from workhook.work.board.projects.schemas import LABEL_COLORS_MAX, LabelColor
from workhook.work.board.tasks.inputs import KEYS_MAX
from workhook.work.board.tasks.schemas import COLUMNS_MAX, Level, Stage
from workhook.work.portability.imports.json_file import Derived, InvalidFile, Key, Node, name_of, parse_json
from workhook.work.portability.imports.mapping import (
    COLORS,
    KEY_MAX_CHARS,
    LABELS_MAX,
    NAMELESS,
    PEOPLE_MAX,
    PROPERTIES_MAX_BYTES,
    PropertyBudget,
    ThingWarnings,
    UniqueNames,
    deadline_of,
    described,
    first_of,
    is_cut,
    moment_of_id,
    parse_moment,
    title_of,
    truncate_bytes,
    unknown_names,
)
from workhook.work.portability.imports.plan import (
    Choices,
    ImportPlan,
    Losses,
    Person,
    PlannedColumn,
    PlannedComment,
    PlannedTask,
)
from workhook.work.portability.imports.words import StageNames, has_meaning, level_of, says_more

SOURCE = "trello"
ACTIONS_MAX = 1_000  # Trello omits older actions from an export
COMPLETED, CLOSED = "completed", "closed"  # keys of `Export.changes`, besides IDs of lists
ARCHIVED, NO_LIST, MORE_LISTS = "Archived", "No list", "More lists"

LIST, URL, START, DUE, ATTACHMENTS = "trello_list", "trello_url", "trello_start", "trello_due", "trello_attachments"
VOTES, COVER = "trello_votes", "trello_cover"
LISTS_MAX = COLUMNS_MAX - 3  # leaves room for the three columns created here
DETAILS_MAX_CHARS = 100

_COMMENTS = ("commentCard", "copyCommentCard")  # the second is logged for comments copied together with their card
_Position = Annotated[float, Key("pos")]


class Label(msgspec.Struct, frozen=True):
    id: str
    name: str
    color: str


class List(msgspec.Struct, frozen=True):
    id: str
    name: str
    closed: bool
    position: _Position


class Attachment(msgspec.Struct, frozen=True):
    id: str
    name: str
    url: str
    is_upload: Annotated[bool, Key("isUpload")]


class CustomItem(msgspec.Struct, frozen=True):
    """The value of a custom field on a card: `text`, or the ID of a list's option."""

    text: Annotated[str, Derived(_scalar_in)]
    field_id: Annotated[str, Key("idCustomField")]
    option_id: Annotated[str, Key("idValue")]


def _scalar_in(item: Node) -> str:
    value = item.node("value")
    return next((found for key in value.values if (found := value.scalar(key))), "")


class Card(msgspec.Struct, frozen=True):
    """A card. `cover_id` is the ID of an attachment."""

    id: Annotated[str, Key("id", "shortLink")]
    url: Annotated[str, Key("shortUrl", "url")]
    last_activity: Annotated[str, Key("dateClosed", "dateLastActivity")]
    cover_url: Annotated[str, Key("cover.sharedSourceUrl", "cover.url")]
    cover_id: Annotated[str, Key("cover.idAttachment", "idAttachmentCover")]
    cover_color: Annotated[str, Key("cover.color")]
    votes: Annotated[int, Key("badges.votes")]
    stickers: Annotated[int, Key("stickers", by=Node.length)]
    custom: Annotated[list[CustomItem], Key("customFieldItems")]
    name: str
    description: Annotated[str, Key("desc")]
    closed: bool
    position: _Position
    due: str
    due_complete: Annotated[bool, Key("dueComplete")]
    start: str
    list_id: Annotated[str, Key("idList")]
    member_ids: Annotated[list[str], Key("idMembers")]
    label_ids: Annotated[list[str], Key("idLabels")]
    labels: list[Label]
    checklist_ids: Annotated[list[str], Key("idChecklists")]
    attachments: list[Attachment]
    voter_ids: Annotated[list[str], Key("idMembersVoted")]


class CheckItem(msgspec.Struct, frozen=True):
    complete: Annotated[bool, Derived(lambda item: item.text("state") == "complete")]
    name: str
    position: _Position
    due: str
    member_id: Annotated[str, Key("idMember")]


class Checklist(msgspec.Struct, frozen=True):
    id: str
    card_id: Annotated[str, Key("idCard")]
    name: str
    position: _Position
    items: Annotated[list[CheckItem], Key("checkItems")]


class Comment(msgspec.Struct, frozen=True):
    id: str
    card_id: Annotated[str, Key("data.card.id")]
    text: Annotated[str, Key("data.text")]
    date: str
    author: Annotated[Person, Derived(_author)]


class CustomField(msgspec.Struct, frozen=True):
    """A custom field of a board.

    `kind` is `list`, `text`, `number`, `date` or `checkbox`. `options` contains the texts of a list's options by ID.
    """

    id: str
    name: str
    kind: Annotated[str, Key("type")]
    options: Annotated[dict[str, str], Derived(_options)]


class Export(msgspec.Struct, frozen=True):
    """A board.

    `actions` is the number of actions of any type. `changes` contains the times at which a card was completed, archived
    or moved to a list, by card ID and `COMPLETED`, `CLOSED` or list ID.
    """

    id: str
    cards: list[Card]
    checklists: list[Checklist]
    members: list[Person]
    custom_fields: list[CustomField]
    comments: list[Comment]
    actions: int
    changes: dict[tuple[str, str], str]
    name: str
    description: Annotated[str, Key("desc")]
    lists: list[List]
    labels: list[Label]


def read_export(data: bytes) -> Export:
    """Parse an export. Raises `InvalidFile`."""
    found = parse_json(data)
    if not isinstance(found, dict):
        raise InvalidFile([f"this is not a board export: it contains {name_of(found)}, not an object"])
    board = Node(found, "")
    if "lists" not in found and "cards" not in found:
        if "idBoard" in found and "idList" in found:
            raise InvalidFile(["this is the export of a single card; export its board instead"])
        raise InvalidFile(["this is not a board export: it has no lists or cards"])
    actions, cards = list(board.nodes("actions")), list(board.nodes("cards"))
    nested = [
        each.read(Checklist, card_id=each.text("idCard") or card.text("id"))
        for card in cards
        for each in card.nodes("checklists")
    ]
    checklists: dict[str | int, Checklist] = {}  # some exports list them both in the board and in the card
    for index, one in enumerate([*(each.read(Checklist) for each in board.nodes("checklists")), *nested]):
        checklists.setdefault(one.id or index, one)
    export = board.read(
        Export,
        id=next((found_id for key in ("id", "shortLink", "shortUrl", "url") if (found_id := board.text(key))), ""),
        cards=[each.read(Card) for each in cards],
        checklists=list(checklists.values()),
        members=[_member(each) for each in board.nodes("members")],
        custom_fields=[each.read(CustomField) for each in board.nodes("customFields")],
        comments=[each.read(Comment) for each in actions if each.values.get("type") in _COMMENTS],
        actions=len(actions),
        changes=_changes(actions),
    )
    if board.faults:
        raise InvalidFile(board.faults)
    return export


def _changes(actions: Iterable[Node]) -> dict[tuple[str, str], str]:
    """Return the latest time of each change. Exports list the newest actions first."""
    found: dict[tuple[str, str], str] = {}
    for each in actions:
        match each.values:
            case {"type": "updateCard", "date": str(date), "data": {"card": {"id": str(card_id)}} as data}:
                found.update({(card_id, key): date for key in _changed(data) if (card_id, key) not in found})
    return found


def _changed(data: Mapping[str, object]) -> Iterator[str]:
    match data:
        case {"old": {"dueComplete": False}, "card": {"dueComplete": True}}:
            yield COMPLETED
    match data:
        case {"old": {"closed": False}, "card": {"closed": True}}:
            yield CLOSED
    match data:
        case {"listAfter": {"id": str(list_id)}}:
            yield list_id


def _member(node: Node) -> Person:
    return Person(node.text("id"), node.text("username"), node.text("fullName"))


def _author(action: Node) -> Person:
    found = _member(action.node("memberCreator"))
    return found if found.id else msgspec.structs.replace(found, id=action.text("idMemberCreator"))


def _options(custom_field: Node) -> dict[str, str]:
    return {each.text("id"): each.node("value").scalar("text") for each in custom_field.nodes("options")}


# --- the plan ---------------------------------------------------------------------------------------------------------


def plan_of(export: Export, choices: Choices) -> ImportPlan:
    warnings, losses = list[Message](), Losses()
    if export.actions == ACTIONS_MAX:
        warnings.append(phrase("the export has 1,000 actions, the maximum for Trello: older comments are missing"))
    if is_cut(export.name):
        warnings.append(phrase("the board's name is shortened to 255 characters"))
    warnings += unknown_names(choices.done, (each.name for each in export.lists), "list")
    losses.add("project_description", export.description, count=bool(export.description.strip()))
    losses.add("history", count=export.actions - len(export.comments))
    columns, by_list = _columns(export, StageNames(choices.done, choices.not_done))
    no_list, archived = _own_column(export, "no-list", NO_LIST), _own_column(export, "archived", ARCHIVED)
    tasks = _tasks(export, by_list, no_list, archived, CardMapper(export, warnings, losses))
    if len(export.lists) > len(columns):
        number = Number(len(export.lists) - LISTS_MAX)
        warnings.append(say("the cards of the last {} lists were merged into the column “{}”", number, MORE_LISTS))
    used = {task.column_key for task in tasks}
    columns += [each for each in (no_list, archived) if each.key in used]
    warnings += [
        say("list “{}”: {}", shown(each.name.strip()), say("its name is shortened to 255 characters"))
        for each in export.lists
        if is_cut(each.name)
    ]
    title = title_of(export.name, NAMELESS)
    return ImportPlan(
        SOURCE, _board_key(export), title, columns, tasks, warnings, losses.found(), label_colors=_colors(export)
    )


def _colors(export: Export) -> dict[str, LabelColor]:
    """Return the colors of named labels. A shade becomes its base color, and black is omitted."""
    found: dict[str, LabelColor] = {}
    for each in (*export.labels, *(label for card in export.cards for label in card.labels)):
        name, shade = title_of(each.name, ""), each.color.partition("_")[0]
        color = next((color for color in COLORS if color == shade), None)
        if name and color and len(found) < LABEL_COLORS_MAX:
            found.setdefault(name, color)
    return found


def _board_key(export: Export) -> str:
    return f"project:{export.id or title_of(export.name)}"


def _own_column(export: Export, name: str, title: str) -> PlannedColumn:
    """Plan an additional column, which is not a list on the board. The one for archived cards completes its tasks."""
    is_archive = title == ARCHIVED
    stage: Stage | None = "done" if is_archive else None
    return PlannedColumn(f"column:{_board_key(export)}:{name}", title, stage=stage, finished=is_archive)


def _columns(export: Export, stages: StageNames) -> tuple[list[PlannedColumn], dict[str, tuple[PlannedColumn, str]]]:
    """Return the columns, and the column and name of each list by its ID.

    Open lists come first, by position, then archived lists.
    """
    key_of = UniqueNames(KEY_MAX_CHARS)
    columns: dict[str, PlannedColumn] = {}
    by_list: dict[str, tuple[PlannedColumn, str]] = {}
    # Sorting is stable, so ties keep the order of the file.
    for at, each in enumerate(sorted(export.lists, key=lambda one: (one.closed, one.position))):
        title = title_of(each.name)
        key = key_of(f"column:{each.id or title}")
        if at >= LISTS_MAX:
            column = _own_column(export, "more", MORE_LISTS)
        elif each.closed:
            column = PlannedColumn(key, title_of(each.name, limit=244) + " (archived)", finished=True)
        else:
            column = PlannedColumn(key, title, stage=stages.stage_of(title))
        columns[column.key] = column
        by_list.setdefault(each.id, (column, each.name))
    by_list.pop("", None)
    return list(columns.values()), by_list


def _tasks(
    export: Export,
    by_list: Mapping[str, tuple[PlannedColumn, str]],
    no_list: PlannedColumn,
    archived: PlannedColumn,
    mapper: CardMapper,
) -> list[PlannedTask]:
    """Return the tasks in the order of the columns, archived ones last."""
    order = {list_id: at for at, list_id in enumerate(by_list)}
    comments = _comments(export, mapper)
    key_of = UniqueNames(KEY_MAX_CHARS)
    tasks = []
    for card in sorted(export.cards, key=lambda one: (one.closed, order.get(one.list_id, len(order)), one.position)):
        column, list_name = by_list.get(card.list_id, (no_list, ""))
        elsewhere = card.closed or column.title == MORE_LISTS
        # A card without an ID is identified by its list and name.
        key = key_of(f"task:{card.id or f'{card.list_id}/{title_of(card.name)}'}")
        own = comments.pop(card.id, []) if card.id else []
        where = list_name if elsewhere else ""
        tasks.append(mapper.task(card, key, archived if card.closed else column, where, own))
    mapper.losses.add("comments", count=sum(map(len, comments.values())))
    mapper.losses.add("checklists", count=mapper.without_card)
    return tasks


def _comments(export: Export, mapper: CardMapper) -> dict[str, list[PlannedComment]]:
    """Return the comments by card, oldest first. Exports list the newest first."""
    key_of = UniqueNames(KEY_MAX_CHARS)
    found: dict[str, list[PlannedComment]] = defaultdict(list)
    for each in reversed(export.comments):
        text = each.text.strip()
        if not text:
            continue
        key = key_of(f"task_comment:{each.id or f'{each.card_id}/{each.date}'}")
        author = mapper.members.get(each.author.id, each.author)
        made = parse_moment(each.date)
        comment = PlannedComment(key, truncate_bytes(text), author, moment_of_id(each.id) if made is None else made)
        if comment.text != text:
            mapper.cut_comments[each.card_id] += 1
        found[each.card_id].append(comment)
    for some in found.values():
        some.sort(key=lambda one: one.created_at or 0)
    return found


class CardMapper:
    def __init__(self, export: Export, warnings: list[Message], losses: Losses) -> None:
        cards = {each.id for each in export.cards}
        owners = {checklist_id: card.id for card in export.cards for checklist_id in card.checklist_ids}
        checklists: dict[str, list[Checklist]] = defaultdict(list)
        for each in sorted(export.checklists, key=lambda one: one.position):
            checklists[each.card_id if each.card_id in cards else owners.get(each.id, "")].append(each)
        self.without_card = len(checklists.pop("", []))  # Trello leaves orphans when it copies a board
        self._checklists = checklists
        self._label_by_id = {each.id: each for each in export.labels if each.id}
        authors = (each.author for each in export.comments)
        self.members = {each.id: each for each in chain(authors, export.members) if each.id}
        self._custom_fields = {each.id: each for each in export.custom_fields if each.id}
        self._changes = export.changes
        self._warnings = warnings
        self.losses = losses
        self.cut_comments: Counter[str] = Counter()

    def task(
        self, card: Card, key: str, column: PlannedColumn, list_name: str, comments: list[PlannedComment]
    ) -> PlannedTask:
        warn = ThingWarnings("card", card.name, self._warnings)
        deadline = deadline_of(card.due, DUE, warn)
        budget = PropertyBudget(warn)
        fields = self._fields(card, budget, list_name, keep_due=deadline is None)
        if self.cut_comments[card.id]:
            warn(say("comments shortened to {} KiB: {}", TEXT_MAX_BYTES // 1024, self.cut_comments[card.id]))
        finished = card.due_complete or column.completes
        members = [self._member(each) for each in dict.fromkeys(card.member_ids) if each]
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
            members=first_of(members, PEOPLE_MAX, say("members"), warn),
            finished=finished,
            finished_at=self._finished_at(card) if finished else None,
            created_at=moment_of_id(card.id),
            comments=comments,
            priority=self._priority(card),
        )

    def _finished_at(self, card: Card) -> int | None:
        """Return when the card was completed, archived or moved to its list, or else its last activity."""
        order = [COMPLETED] if card.due_complete else []
        order += [CLOSED, card.list_id] if card.closed else [card.list_id]
        times = (parse_moment(self._changes.get((card.id, each), "")) for each in order)
        return next((each for each in times if each is not None), parse_moment(card.last_activity))

    def _labels(self, card: Card) -> list[str]:
        own = {each.id for each in card.labels if each.id}
        known = [self._label_by_id[each] for each in card.label_ids if each in self._label_by_id]
        every = [*card.labels, *(each for each in known if each.id not in own)]
        # A label without a name is called by its color, such as `Dark green` for `green_dark`.
        names = (each.name.strip() or " ".join(reversed(each.color.split("_"))).capitalize() for each in every)
        return list(dict.fromkeys(title for each in names if (title := title_of(each, ""))))

    def _member(self, member_id: str) -> Person:
        return self.members.get(member_id) or Person(member_id, "", "")

    def _fields(self, card: Card, budget: PropertyBudget, list_name: str, *, keep_due: bool) -> dict[str, str]:
        for each in card.attachments:
            if each.is_upload:
                self.losses.add("files", each.name, kept=f"the field {ATTACHMENTS}, as addresses")
        self.losses.add("start_dates", card.name, kept=f"the field {START}", count=bool(card.start))
        votes = max(card.votes, len(card.voter_ids))
        self.losses.add("votes", card.name, kept=f"the field {VOTES}", count=votes)
        self.losses.add("cover_colors", card.cover_color, kept=f"the field {COVER}", count=bool(card.cover_color))
        self.losses.add("stickers", card.name, count=card.stickers)
        voters = ", ".join(self._member(each).display_name for each in card.voter_ids if each)
        own = {
            LIST: list_name.strip(),
            URL: card.url,
            START: card.start,
            DUE: card.due if keep_due else "",
            ATTACHMENTS: "\n".join(filter(None, map(_line, card.attachments))),
            VOTES: f"{votes}: {voters}" if voters else str(votes or ""),
            COVER: card.cover_color,
        }
        return budget.fields((*own.items(), *self._custom(card)))

    def _custom(self, card: Card) -> Iterator[tuple[str, str]]:
        """Yield names and values of custom fields, except a priority that says no more than its level."""
        for item in card.custom:
            field = self._custom_fields.get(item.field_id)
            if field is None or self._level(field, item) is None or says_more(_custom_text(field, item)):
                yield title_of(field.name if field else "", "custom field"), _custom_text(field, item)

    def _priority(self, card: Card) -> Level | None:
        found = ((self._custom_fields.get(item.field_id), item) for item in card.custom)
        levels = (self._level(field, item) for field, item in found if field is not None)
        return next((each for each in levels if each), None)

    def _level(self, field: CustomField, item: CustomItem) -> Level | None:
        """Return the level if the field is the board's first list called Priority."""
        fields = (each for each in self._custom_fields.values() if each.kind in ("list", ""))
        named = (each.id for each in fields if has_meaning("priority", each.name))
        return level_of(_custom_text(field, item)) if field.id == next(named, None) else None

    def _items(self, card: Card, checklist: Checklist, budget: PropertyBudget) -> Iterator[tuple[str, str]]:
        """Yield distinct names of items with their states."""
        name_of = UniqueNames()
        for each in sorted(checklist.items, key=lambda one: one.position):
            details = self._details(each)
            if details:
                self.losses.add("item_details", card.name, kept="the name of the item")
            name = name_of(title_of(each.name, limit=TITLE_MAX_CHARS - len(details)) + details)
            if is_cut(each.name + details):
                budget.warn(say("its checklist items are shortened to {} characters", TITLE_MAX_CHARS))
            if budget.take_whole(name):
                yield name, "complete" if each.complete else "incomplete"
            else:
                budget.warn(say("its checklist items beyond {} KiB are left out", PROPERTIES_MAX_BYTES // 1024))

    def _details(self, item: CheckItem) -> str:
        """Return the due date and member of an item, as in ` — 2024-05-01, Ada Lovelace (ada)`."""
        due = parse_moment(item.due)
        day = to_millis_text(due)[:10] if due is not None else item.due.strip()
        member = self._member(item.member_id).display_name if item.member_id else ""
        details = ", ".join(each for each in (day, member) if each)
        return " — " + title_of(details, limit=DETAILS_MAX_CHARS) if details else ""

    def _sections(self, card: Card, budget: PropertyBudget) -> dict[str, dict[str, str]]:
        """Return the checklists. A checklist with too many items is split into several sections."""
        sections: dict[str, dict[str, str]] = {}
        name_of = UniqueNames()
        for checklist in self._checklists.get(card.id, ()) if card.id else ():
            items = list(self._items(card, checklist, budget))
            for start in range(0, max(len(items), 1), KEYS_MAX):
                if budget.take_key(len(sections), KEYS_MAX, say("checklists")):
                    sections[name_of(title_of(checklist.name, "Checklist"))] = dict(items[start : start + KEYS_MAX])
        return sections


class _Cover(msgspec.Struct):
    url: WebAddress


def _cover(card: Card, warn: ThingWarnings) -> str | None:
    url = card.cover_url or next((each.url for each in card.attachments if each.id and each.id == card.cover_id), "")
    if not url.strip():
        return None
    try:
        return parameters.gather(_Cover, {}, {"url": url}).url
    except Invalid:
        warn(say("its cover image is left out because its URL is not valid"))
        return None


def _line(attachment: Attachment) -> str:
    name, url = attachment.name.strip(), attachment.url.strip()
    return url if not name or name == url else f"{name}: {url}"


def _custom_text(field: CustomField | None, item: CustomItem) -> str:
    """Return the value as text: the selected option of a list, or otherwise the text, number, time or boolean."""
    option = field.options.get(item.option_id, "") if field else ""
    return option if field and field.kind == "list" and option else item.text or option
