"""The export of a Trello board ("Export as JSON"), as far as it is used here.

Every key may be missing or null, as exports of different years and of boards with different additions differ; a value
of the wrong type is a fault. Keys that are not named here are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from workhook.work.portability.imports.json_file import Node, NotUsable, name_of, parse_json
from workhook.work.portability.imports.plan import Person

ACTIONS_MAX = 1_000  # Trello leaves older ones out of an export

VOTES_MAX = 1_000_000
COMPLETED, ARCHIVED = "completed", "archived"  # what `Export.changes` knows, beside ids of lists

_COMMENTS = ("commentCard", "copyCommentCard")  # the second: it came along when its card was copied


class Label(msgspec.Struct, frozen=True):
    id: str
    name: str
    color: str


class List(msgspec.Struct, frozen=True):
    id: str
    name: str
    closed: bool
    position: float = msgspec.field(name="pos")


class Attachment(msgspec.Struct, frozen=True):
    id: str
    name: str
    url: str
    is_upload: bool = msgspec.field(name="isUpload")


class CustomItem(msgspec.Struct, frozen=True):
    """The value of a custom field on a card: `text`, or the option of a list."""

    field_id: str = msgspec.field(name="idCustomField")
    text: str
    option_id: str = msgspec.field(name="idValue")


class Card(msgspec.Struct, frozen=True):
    id: str
    name: str
    description: str = msgspec.field(name="desc")
    closed: bool
    position: float = msgspec.field(name="pos")
    due: str
    due_complete: bool = msgspec.field(name="dueComplete")
    start: str
    url: str
    last_activity: str
    list_id: str = msgspec.field(name="idList")
    member_ids: list[str] = msgspec.field(name="idMembers")
    label_ids: list[str] = msgspec.field(name="idLabels")
    labels: list[Label]
    checklist_ids: list[str] = msgspec.field(name="idChecklists")
    cover_url: str
    cover_id: str  # of an attachment
    attachments: list[Attachment]
    custom: list[CustomItem]
    cover_color: str
    votes: int
    voter_ids: list[str] = msgspec.field(name="idMembersVoted")
    stickers: int


class CheckItem(msgspec.Struct, frozen=True):
    name: str
    complete: bool
    position: float = msgspec.field(name="pos")
    due: str
    member_id: str = msgspec.field(name="idMember")


class Checklist(msgspec.Struct, frozen=True):
    id: str
    card_id: str
    name: str
    position: float = msgspec.field(name="pos")
    items: list[CheckItem]


class Comment(msgspec.Struct, frozen=True):
    id: str
    card_id: str
    text: str
    date: str
    author: Person


class CustomField(msgspec.Struct, frozen=True):
    """`kind`: `list`, `text`, `number`, `date` or `checkbox`. `options`: texts by id, of a field that is a list."""

    id: str
    name: str
    kind: str = msgspec.field(name="type")
    options: dict[str, str]


class Export(msgspec.Struct, frozen=True):
    id: str
    name: str
    description: str = msgspec.field(name="desc")
    lists: list[List]
    cards: list[Card]
    labels: list[Label]
    checklists: list[Checklist]
    members: list[Person]
    custom_fields: list[CustomField]
    comments: list[Comment]
    actions: int  # how many the file has, of any type
    changes: dict[tuple[str, str], str]  # when a card was completed, archived or came to a list, by its id and that


def read_export(data: bytes) -> Export:
    """Raises `NotUsable` for what is no board's export, and for one in which a key has another type than Trello's."""
    found = parse_json(data)
    if not isinstance(found, dict):
        raise NotUsable([f"it is no export of a board: it holds {name_of(found)}, not an object"])
    board = Node(found, "")
    if "lists" not in found and "cards" not in found:
        raise NotUsable([_no_board(found)])
    export = _export(board)
    if board.faults:
        raise NotUsable(board.faults)
    return export


def _no_board(found: dict[str, object]) -> str:
    if "idBoard" in found and "idList" in found:
        return "it is the export of one card; export the board that the card is on"
    return "it is no export of a board: it has neither lists nor cards"


def _export(board: Node) -> Export:
    actions = list(board.nodes("actions"))
    cards = list(board.nodes("cards"))
    nested = [_checklist(each, card.text("id")) for card in cards for each in card.nodes("checklists")]
    return board.read(
        Export,
        id=board.text("id") or board.text("shortLink") or board.text("shortUrl") or board.text("url"),
        cards=[_card(each) for each in cards],
        checklists=_without_repeats([*(_checklist(each, "") for each in board.nodes("checklists")), *nested]),
        members=[_member(each) for each in board.nodes("members")],
        custom_fields=[_custom_field(each) for each in board.nodes("customFields")],
        comments=[_comment(each) for each in actions if each.values.get("type") in _COMMENTS],
        actions=len(actions),
        changes=_changes(actions),
    )


def _changes(actions: Iterable[Node]) -> dict[tuple[str, str], str]:
    """The newest of each: an export has the newest action first. What is said in another form is no change."""
    found: dict[tuple[str, str], str] = {}
    for each in actions:
        date, data = each.values.get("date"), each.values.get("data")
        if each.values.get("type") != "updateCard" or not isinstance(date, str) or not isinstance(data, dict):
            continue
        card, before, after = (_object(data.get(name)) for name in ("card", "old", "listAfter"))
        card_id, list_id = card.get("id"), after.get("id")
        if not isinstance(card_id, str):
            continue
        if before.get("dueComplete") is False and card.get("dueComplete") is True:
            found.setdefault((card_id, COMPLETED), date)
        if before.get("closed") is False and card.get("closed") is True:
            found.setdefault((card_id, ARCHIVED), date)
        if isinstance(list_id, str):
            found.setdefault((card_id, list_id), date)
    return found


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _without_repeats(checklists: list[Checklist]) -> list[Checklist]:
    """Some exports have a checklist twice: of the board, and inside of its card. One without an id is kept."""
    by_id: dict[str | int, Checklist] = {}
    for index, each in enumerate(checklists):
        by_id.setdefault(each.id or index, each)
    return list(by_id.values())


def _member(node: Node) -> Person:
    return Person(node.text("id"), node.text("username"), node.text("fullName"))


def _card(node: Node) -> Card:
    cover = node.node("cover")
    votes = node.node("badges").number("votes")  # what has none is infinite
    return node.read(
        Card,
        id=node.text("id") or node.text("shortLink"),
        url=node.text("shortUrl") or node.text("url"),
        last_activity=node.text("dateClosed") or node.text("dateLastActivity"),
        cover_url=cover.text("sharedSourceUrl") or cover.text("url"),
        cover_id=cover.text("idAttachment") or node.text("idAttachmentCover"),
        cover_color=cover.text("color"),
        votes=int(votes) if 0 <= votes < VOTES_MAX else 0,
        stickers=sum(1 for _ in node.nodes("stickers")),
        custom=[_custom_item(each) for each in node.nodes("customFieldItems")],
    )


def _custom_item(node: Node) -> CustomItem:
    value = node.node("value")
    return node.read(CustomItem, text=next((found for key in value.values if (found := value.scalar(key))), ""))


def _custom_field(node: Node) -> CustomField:
    options = {each.text("id"): each.node("value").scalar("text") for each in node.nodes("options")}
    return node.read(CustomField, options=options)


def _checklist(node: Node, card_id: str) -> Checklist:
    items = [each.read(CheckItem, complete=each.text("state") == "complete") for each in node.nodes("checkItems")]
    return node.read(Checklist, card_id=node.text("idCard") or card_id, items=items)


def _comment(node: Node) -> Comment:
    data = node.node("data")
    author = _member(node.node("memberCreator"))
    if not author.id:
        author = Person(node.text("idMemberCreator"), author.username, author.full_name)
    return node.read(Comment, card_id=data.node("card").text("id"), text=data.text("text"), author=author)
