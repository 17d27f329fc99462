"""Synthetic Trello board exports, including leftovers from older versions, reproducible from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from workhook.core import json
from workhook.core.clock import HOUR_MS, to_millis_text

Object = dict[str, Any]

EPOCH_MS = 1_500_000_000_000  # when the board was created
COLORS = ("green", "yellow", "orange", "red", "purple", "blue", "sky", "lime", "pink", "black", None)
NAMES = ("To Do", "Doing", "Done", "Ideas", "Büro", "✅ Review", "发布", "  Waiting  ", "")
WORDS = (
    "Launch",
    "fix",
    "the",
    "naïve",
    "page",
    "für",
    "März",
    "🚀",
    "rocket",
    "report",
    "<b>bold</b>",
    "a & b",
    "日本",
)
OTHER_ACTIONS = ("updateCard", "createCard", "addMemberToCard", "updateCheckItemStateOnCard", "addAttachmentToCard")

# Keys that Trello omits from some exports. Others may be missing too, but then a card cannot be found again.
OPTIONAL = {
    "cards": (
        "desc", "due", "dueComplete", "start", "idMembers", "idLabels", "labels", "pos", "cover", "attachments",
        "customFieldItems", "idChecklists", "shortUrl", "dateLastActivity", "idAttachmentCover",
    ),
    "lists": ("pos",),
    "checklists": ("pos", "name", "checkItems"),
    "labels": ("color", "name"),
    "members": ("fullName",),
}  # fmt: skip


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._second = EPOCH_MS // 1000
        self._number = 0

    def id(self) -> str:
        """Return an ID that starts with its creation time in seconds, increasing by random intervals."""
        self._second += self.random.randint(1, 4000)
        self._number += 1
        return f"{self._second:08x}{self.random.getrandbits(40):010x}{self._number:06x}"

    def moment(self) -> str:
        return to_millis_text(EPOCH_MS + self.random.randint(0, 40_000) * HOUR_MS + self.random.randint(0, 999))

    def text(self, least: int, most: int) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(least, most)))

    def maybe(self, value: Any, chance: float = 0.5) -> Any:
        return value if self.random.random() < chance else None

    def some(self, values: list[Any], most: int = 3) -> list[Any]:
        return self.random.sample(values, min(len(values), self.random.randint(0, most)))

    def positions(self, count: int) -> list[float]:
        """Return unordered positions, some fractional or equal, as left by many moves to one place."""
        steps = [65_535, 16_384, 16_383.75, 0.000_030_517_578_125, 0.5, 0]
        at, found = 0.0, []
        for _ in range(count):
            at += self.random.choice(steps)
            found.append(int(at) if at == int(at) else at)
        self.random.shuffle(found)
        return found


def make_export(
    seed: int = 1,
    *,
    name: str = "Website relaunch",
    lists: int = 18,
    closed_lists: int = 3,
    cards: int = 122,
    closed: int = 78,
    actions: int = 1000,
    comments: int = 300,
    members: int = 5,
    checklists: int = 60,
    missing: float = 0.1,
) -> Object:
    """Return a board with the given numbers of objects.

    `closed_lists` and `closed` are the archived lists and cards, and `comments` the actions that are comments.
    `missing` is the probability that an optional key is omitted.
    """
    make = _Maker(seed)
    board: Object = {"id": make.id(), "name": name, "desc": "", "closed": False, "shortLink": "BoArD123"}
    board["members"] = [
        {"id": make.id(), "fullName": f"Person {at} {make.text(1, 1)}", "username": f"person{at}"}
        for at in range(members)
    ]
    board["labels"] = [
        {"id": make.id(), "name": make.maybe(make.text(1, 2), 0.6) or "", "color": color} for color in COLORS[:-1]
    ]
    board["customFields"] = _custom_fields(make)
    board["lists"] = [
        {"id": make.id(), "name": make.random.choice(NAMES), "closed": at < closed_lists, "pos": position}
        for at, position in enumerate(make.positions(lists))
    ]
    board["cards"] = [_card(make, board, at < closed, position) for at, position in enumerate(make.positions(cards))]
    make.random.shuffle(board["cards"])
    board["checklists"] = [_checklist(make, board) for _ in range(checklists if cards else 0)]
    board["actions"] = _actions(make, board, actions, comments)
    for kind, keys in OPTIONAL.items():
        for each in board[kind]:
            for key in keys:
                if make.random.random() < missing:
                    each.pop(key, None)
    return board


def encoded(board: Object) -> bytes:
    return json.encode(board)


def _custom_fields(make: _Maker) -> list[Object]:
    options = [{"id": make.id(), "value": {"text": text}} for text in ("High", "Low")]
    return [
        {"id": make.id(), "name": "Priority", "type": "list", "options": options},
        {"id": make.id(), "name": "Points", "type": "number"},
        {"id": make.id(), "name": "Billed", "type": "checkbox"},
        {"id": make.id(), "name": "Contract", "type": "text"},
    ]


def _custom_items(make: _Maker, fields: list[Object]) -> list[Object]:
    items = []
    for field in make.some(fields):
        item: Object = {"id": make.id(), "idCustomField": field["id"], "value": None, "idValue": None}
        if field["type"] == "list":
            item["idValue"] = make.random.choice(field["options"])["id"]
        else:
            kind = {"number": ("number", "3.5"), "checkbox": ("checked", "true")}.get(field["type"], ("text", "A-17"))
            item["value"] = {kind[0]: kind[1]}
        items.append(item)
    return items


def _card(make: _Maker, board: Object, closed: bool, position: float) -> Object:
    labels = make.some(board["labels"])
    attachments = [
        {"id": make.id(), "name": make.text(1, 2), "url": f"https://example.com/{at}.png", "isUpload": at == 1}
        for at in range(make.random.randint(0, 2))
    ]
    cover = make.maybe(attachments[0]["id"]) if attachments else None
    short = f"{make.random.getrandbits(32):08x}"
    return {
        "id": make.id(),
        "idBoard": board["id"],
        "idList": make.random.choice(board["lists"])["id"] if board["lists"] else None,
        "name": make.text(1, 8),
        "desc": make.maybe(make.text(1, 60)) or "",
        "closed": closed,
        "pos": position,
        "due": make.maybe(make.moment(), 0.3),
        "dueComplete": make.random.random() < 0.2,
        "start": make.maybe(make.moment(), 0.1),
        "dateLastActivity": make.moment(),
        "idMembers": [each["id"] for each in make.some(board["members"])],
        "idLabels": [each["id"] for each in labels],
        "labels": [dict(each) for each in labels],
        "idChecklists": [],
        "idShort": make.random.randint(1, 999),
        "shortLink": short,
        "shortUrl": f"https://trello.com/c/{short}",
        "cover": {"idAttachment": cover, "color": None, "size": "normal", "brightness": "light"},
        "idAttachmentCover": cover,
        "attachments": attachments,
        "customFieldItems": _custom_items(make, board["customFields"]),
        "badges": {"comments": 0},
        "checkItemStates": None,
        "descData": None,
    }


def _checklist(make: _Maker, board: Object) -> Object:
    card = make.random.choice(board["cards"])
    checklist = {
        "id": make.id(),
        "idBoard": board["id"],
        "idCard": card["id"],
        "name": make.random.choice(("Checklist", "To be done", "Steps")),
        "pos": make.random.choice((16384, 32768, 16384.5)),
        "checkItems": [
            {
                "id": make.id(),
                "name": make.text(1, 2),
                "state": make.random.choice(("complete", "incomplete")),
                "pos": position,
            }
            for position in make.positions(make.random.randint(0, 6))
        ],
    }
    card["idChecklists"].append(checklist["id"])
    return checklist


def _actions(make: _Maker, board: Object, count: int, comments: int) -> list[Object]:
    """Return the actions, newest first as in Trello."""
    kinds = ["commentCard"] * min(comments, count) + ["other"] * max(count - comments, 0)
    make.random.shuffle(kinds)
    actions = []
    for kind in kinds:
        member = make.random.choice(board["members"]) if board["members"] else None
        card = make.random.choice(board["cards"]) if board["cards"] else {"id": make.id(), "name": "gone"}
        data: Object = {"card": {"id": card["id"], "name": card["name"]}, "board": {"id": board["id"]}}
        if kind == "commentCard":
            data["text"] = make.text(1, 20)
        actions.append(
            {
                "id": make.id(),
                "type": kind if kind == "commentCard" else make.random.choice(OTHER_ACTIONS),
                "date": make.moment(),
                "idMemberCreator": member["id"] if member else None,
                "memberCreator": dict(member) if member else None,
                "data": data,
            }
        )
    return sorted(actions, key=lambda action: str(action["date"]), reverse=True)
