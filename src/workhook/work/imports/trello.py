"""The export of a Trello board ("Export as JSON"), as far as it is used here.

Every key may be missing or null, as exports of different years and of boards with different additions differ. Keys
that are not named here are not looked at.
"""

from __future__ import annotations

import msgspec

from workhook.work.imports.json_reader import Node, NotUsable, name_of, parse_json

ACTIONS_MAX = 1_000  # Trello leaves older ones out of an export

_COMMENTS = ("commentCard", "copyCommentCard")  # the second: it came along when its card was copied


class TrelloMember(msgspec.Struct, frozen=True):
    id: str
    username: str
    full_name: str

    @property
    def shown(self) -> str:
        """`Ada Lovelace (ada)`, as far as it is known."""
        names = [each for each in (self.full_name.strip(), self.username.strip()) if each]
        if len(names) == 2:
            return f"{names[0]} ({names[1]})"
        return names[0] if names else self.id or "somebody unknown"


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


class CheckItem(msgspec.Struct, frozen=True):
    name: str
    complete: bool
    position: float = msgspec.field(name="pos")


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
    author: TrelloMember


class CustomField(msgspec.Struct, frozen=True):
    """`options`: texts by id, of a field that is a list."""

    id: str
    name: str
    options: dict[str, str]


class Export(msgspec.Struct, frozen=True):
    id: str
    name: str
    description: str = msgspec.field(name="desc")
    lists: list[List]
    cards: list[Card]
    labels: list[Label]
    checklists: list[Checklist]
    members: list[TrelloMember]
    custom_fields: list[CustomField]
    comments: list[Comment]
    actions: int  # how many the file has, of any type


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
        members=[_member(each, "id") for each in board.nodes("members")],
        custom_fields=[_custom_field(each) for each in board.nodes("customFields")],
        comments=[_comment(each) for each in actions if each.values.get("type") in _COMMENTS],
        actions=len(actions),
    )


def _without_repeats(checklists: list[Checklist]) -> list[Checklist]:
    """Some exports have a checklist twice: of the board, and inside of its card. One without an id is kept."""
    by_id: dict[str | int, Checklist] = {}
    for index, each in enumerate(checklists):
        by_id.setdefault(each.id or index, each)
    return list(by_id.values())


def _member(node: Node, key: str) -> TrelloMember:
    return TrelloMember(node.text(key), node.text("username"), node.text("fullName"))


def _card(node: Node) -> Card:
    cover = node.node("cover")
    return node.read(
        Card,
        id=node.text("id") or node.text("shortLink"),
        url=node.text("shortUrl") or node.text("url"),
        last_activity=node.text("dateClosed") or node.text("dateLastActivity"),
        cover_url=cover.text("sharedSourceUrl") or cover.text("url"),
        cover_id=cover.text("idAttachment") or node.text("idAttachmentCover"),
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
    author = _member(node.node("memberCreator"), "id")
    if not author.id:
        author = TrelloMember(node.text("idMemberCreator"), author.username, author.full_name)
    return node.read(Comment, card_id=data.node("card").text("id"), text=data.text("text"), author=author)
