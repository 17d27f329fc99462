"""The export of a Trello board ("Export as JSON"), as far as it is used here.

Every key may be missing or null, as exports of different years and of boards with different additions differ; a value
of the wrong type is a fault. Keys that are not named here are not looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, get_args

import msgspec

from workhook.core.errors import Malformed, shown
from workhook.core.json import decode_untrusted

S = TypeVar("S", bound=msgspec.Struct)

ACTIONS_MAX = 1_000  # Trello leaves older ones out of an export

_COMMENTS = ("commentCard", "copyCommentCard")  # the second: it came along when its card was copied


class TrelloMember(msgspec.Struct, frozen=True):
    id: str
    username: str
    full_name: str

    @property
    def display_name(self) -> str:
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
        members=[_member(each) for each in board.nodes("members")],
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


def _member(node: Node) -> TrelloMember:
    return TrelloMember(node.text("id"), node.text("username"), node.text("fullName"))


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
    author = _member(node.node("memberCreator"))
    if not author.id:
        author = TrelloMember(node.text("idMemberCreator"), author.username, author.full_name)
    return node.read(Comment, card_id=data.node("card").text("id"), text=data.text("text"), author=author)


# --- JSON of another program ------------------------------------------------------------------------------------------

FAULTS_MAX = 20  # what is told of one file

_SURROGATE = re.compile("[\ud800-\udfff]")


class NotUsable(Exception):
    """A file that is not what it has to be: every fault of it in words, at most `FAULTS_MAX`."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


def parse_json(data: bytes) -> object:
    """JSON in UTF-8, -16 or -32, with or without a byte order mark, and with halves of characters, which some programs
    leave where they cut a text. Raises `NotUsable` that says where it ends being JSON."""
    found: object
    with suppress(Malformed):  # the slower parser takes more, and says where it fails
        found = decode_untrusted(data)
        return found
    try:
        found = json.loads(data, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise NotUsable([f"it is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"]) from None
    except (ValueError, RecursionError) as error:
        raise NotUsable([f"it is not JSON: {error}"]) from None
    return found


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no number of JSON")


def clean(text: str) -> str:
    """Text that both databases hold: without NUL, and with a mark for halves of characters."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "")


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """To find them takes msgspec a fifth of a millisecond, and a board has very many cards."""
    return msgspec.structs.fields(kind)


@dataclass(frozen=True)
class Node:
    """An object of the file. What is missing or null reads as empty; what has another type is noted in `faults`."""

    values: Mapping[str, Any]
    path: str
    faults: list[str] = field(default_factory=list)

    def read(self, kind: type[S], **known: Any) -> S:
        """A struct of which each field is `known` or is read from the key that it has in JSON, by its type."""
        readers = {str: self.text, bool: self.flag, float: self.number, list[str]: self.texts}
        values = dict(known)
        for each in _fields(kind):
            if each.name in known:
                continue
            if each.type in readers:
                values[each.name] = readers[each.type](each.encode_name)
            else:
                (item,) = get_args(each.type)
                values[each.name] = [node.read(item) for node in self.nodes(each.encode_name)]
        return kind(**values)

    def text(self, key: str) -> str:
        value = self._value(key, str, "text")
        return clean(value) if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        return self._value(key, bool, "true or false") is True

    def number(self, key: str) -> float:
        """Of a position; what has none stands behind those that have one."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._value(key, type(None), "a number")
            return float("inf")
        return value

    def scalar(self, key: str) -> str:
        """Text, a number, or true or false; as text."""
        value = self.values.get(key)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, (int, float)) else self.text(key)

    def texts(self, key: str) -> list[str]:
        found = []
        for at, value in enumerate(self._value(key, list, "a list") or []):
            if isinstance(value, str):
                found.append(clean(value))
            elif value is not None:
                self._note(f"{self.path}{key}[{at}]", "text", value)
        return found

    def node(self, key: str) -> Node:
        return Node(self._value(key, dict, "an object") or {}, f"{self.path}{key}.", self.faults)

    def nodes(self, key: str) -> Iterator[Node]:
        for at, value in enumerate(self._value(key, list, "a list") or []):
            if isinstance(value, dict):
                yield Node(value, f"{self.path}{key}[{at}].", self.faults)
            elif value is not None:
                self._note(f"{self.path}{key}[{at}]", "an object", value)

    def _value(self, key: str, kind: type, wanted: str) -> Any:
        """What is there and of this type, else None."""
        value = self.values.get(key)
        if value is None or isinstance(value, kind):
            return value
        self._note(f"{self.path}{key}", wanted, value)
        return None

    def _note(self, path: str, wanted: str, value: object) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(f"{path} has to be {wanted}, and is {name_of(value)}")


def name_of(value: object) -> str:
    """A value of JSON in words."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {shown(repr(value))}"
        case str():
            return f"the text {shown(clean(value))!r}"
        case list():
            return "a list"
        case _:
            return "an object"
