"""From a Trello card to the plan of a task. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from workhook.core.errors import Invalid, shown
from workhook.http import parameters
from workhook.http.parameters import TEXT_MAX_BYTES, TITLE_MAX_CHARS, WebAddress
from workhook.work.imports import trello
from workhook.work.imports.plan import PlannedColumn, PlannedComment, PlannedTask
from workhook.work.imports.texts import NAMELESS, Distinct, is_cut, moment_of, moment_of_id, title_of, within
from workhook.work.tasks.schemas import KEYS_MAX

T = TypeVar("T")

LABELS_MAX = PEOPLE_MAX = 100  # as `TaskContent` has them
PROPERTIES_MAX_BYTES = 256 * 1024  # fields and sections of a task together: every event of it carries them

MEMBERS = "trello_members"
LIST, URL, START, DUE, ATTACHMENTS = "trello_list", "trello_url", "trello_start", "trello_due", "trello_attachments"


class Lookups(msgspec.Struct, frozen=True):
    """Of a board: by id; `checklists` by card, in order, and how many belong to none."""

    labels: Mapping[str, trello.Label]
    members: Mapping[str, trello.Member]
    custom: Mapping[str, trello.CustomField]
    checklists: Mapping[str, Sequence[trello.Checklist]]
    loose: int


class CardMapper:
    """Maps cards one by one, and gathers what there is to say about what could not be kept."""

    def __init__(self, lookups: Lookups, warnings: list[str]) -> None:
        self.lookups = lookups
        self._warnings = warnings
        self._uploads = 0
        self._cut_comments: Counter[str] = Counter()

    def task(
        self,
        card: trello.Card,
        key: str,
        column: PlannedColumn,
        list_name: str,
        comments: list[PlannedComment],
    ) -> PlannedTask:
        said = _Said(card.name, self._warnings)
        deadline = moment_of(card.due)
        if card.due and deadline is None:
            said(f"its due date {shown(card.due)!r} is no time; the field {DUE} keeps it")
        room = _Room(said)
        fields = self._fields(card, room, list_name, keep_due=deadline is None)
        if self._cut_comments[card.id]:
            said(f"{self._cut_comments[card.id]} of its comments cut to {TEXT_MAX_BYTES // 1024} KiB")
        finished = card.due_complete or column.completes
        return PlannedTask(
            key=key,
            column_key=column.key,
            title=title_of(card.name),
            description=_description(card, said),
            deadline=deadline,
            cover_url=_cover(card, said),
            labels=_first(self._labels(card), LABELS_MAX, "labels", said),
            fields=fields,
            sections=self._sections(card, room),
            members=_first(self._members(card), PEOPLE_MAX, "members", said),
            finished=finished,
            finished_at=moment_of(card.last_activity) if finished else None,
            created_at=moment_of_id(card.id),
            comments=comments,
        )

    def note_cut_comment(self, card_id: str) -> None:
        self._cut_comments[card_id] += 1

    def tell_the_rest(self, comments_without_card: int) -> None:
        """When every card was mapped."""
        if self._uploads:
            what = "1 attachment is a file" if self._uploads == 1 else f"{self._uploads:,} attachments are files"
            self._warnings.append(f"{what}, and an export has no files; the field {ATTACHMENTS} has the addresses")
        for count, what in ((comments_without_card, "comment"), (self.lookups.loose, "checklist")):
            if count == 1:
                self._warnings.append(f"1 {what} left out: its card is not in the export")
            elif count:
                self._warnings.append(f"{count:,} {what}s left out: their cards are not in the export")

    def _labels(self, card: trello.Card) -> list[str]:
        own = {each.id for each in card.labels if each.id}
        known = [self.lookups.labels[each] for each in card.label_ids if each in self.lookups.labels]
        every = [*card.labels, *(each for each in known if each.id not in own)]
        names = (title_of(each.name.strip() or each.color, "") for each in every)
        return list(dict.fromkeys(each for each in names if each))

    def _members(self, card: trello.Card) -> list[trello.Member]:
        ids = dict.fromkeys(each for each in card.member_ids if each)
        return [self.lookups.members.get(each) or trello.Member(each, "", "") for each in ids]

    def _fields(self, card: trello.Card, room: _Room, list_name: str, *, keep_due: bool) -> dict[str, str]:
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
            if text and room.take_key(len(fields), KEYS_MAX - 1, "fields"):
                fields[name_of(name)] = room.take(text, name)
        return fields

    def _custom(self, card: trello.Card) -> Iterator[tuple[str, str]]:
        for item in card.custom:
            field = self.lookups.custom.get(item.field_id)
            text = item.text or (field.options.get(item.option_id, "") if field else "")
            yield title_of(field.name if field else "", "custom field"), text

    def _sections(self, card: trello.Card, room: _Room) -> dict[str, dict[str, str]]:
        """A checklist with more items than a section may have goes on in a second."""
        sections: dict[str, dict[str, str]] = {}
        name_of = Distinct()
        for checklist in self.lookups.checklists.get(card.id, ()) if card.id else ():
            items = list(_items(checklist, room))
            for start in range(0, max(len(items), 1), KEYS_MAX):
                if room.take_key(len(sections), KEYS_MAX, "checklists"):
                    sections[name_of(title_of(checklist.name, "Checklist"))] = dict(items[start : start + KEYS_MAX])
        return sections


def _first(things: list[T], most: int, what: str, said: _Said) -> list[T]:
    if len(things) > most:
        said(f"only {most} of its {what} are kept")
    return things[:most]


def _items(checklist: trello.Checklist, room: _Room) -> Iterator[tuple[str, str]]:
    """Their names, which are unlike each other, and states."""
    name_of = Distinct()
    for each in sorted(checklist.items, key=lambda one: one.position):
        name = name_of(title_of(each.name))
        if is_cut(each.name):
            room.say(f"items of its checklists are cut to {TITLE_MAX_CHARS} characters")
        if room.take_whole(name):
            yield name, "complete" if each.complete else "incomplete"
        else:
            room.say(f"items of its checklists beyond {PROPERTIES_MAX_BYTES // 1024} KiB are left out")


class _Said:
    """Warnings about one card, each once."""

    def __init__(self, name: str, warnings: list[str]) -> None:
        self._card = f"card {shown(name.strip() or NAMELESS)!r}: "
        self._warnings = warnings
        self._known: set[str] = set()

    def __call__(self, what: str) -> None:
        if what not in self._known:
            self._known.add(what)
            self._warnings.append(self._card + what)


class _Room:
    """What is left for the fields and sections of one task."""

    def __init__(self, said: _Said) -> None:
        self.say = said
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
            self.say(f"the field {name} is cut")
        return kept

    def take_key(self, taken: int, most: int, what: str) -> bool:
        if taken < most:
            return True
        self.say(f"only {most} of its {what} are kept")
        return False


def _description(card: trello.Card, said: _Said) -> str | None:
    """A name that is too long for a title begins it, whole."""
    text = card.description
    if is_cut(card.name):
        said(f"its name is cut to {TITLE_MAX_CHARS} characters; the description begins with all of it")
        text = f"{card.name.strip()}\n\n{text}".rstrip()
    kept = within(text)
    if kept != text:
        said(f"its description is cut to {TEXT_MAX_BYTES // 1024} KiB")
    return kept if kept.strip() else None


class _Cover(msgspec.Struct):
    url: WebAddress


def _cover(card: trello.Card, said: _Said) -> str | None:
    url = card.cover_url or next((each.url for each in card.attachments if each.id and each.id == card.cover_id), "")
    if not url.strip():
        return None
    try:
        return parameters.gather(_Cover, {}, {"url": url}).url
    except Invalid:
        said("the address of its cover cannot be used")
        return None


def _line(attachment: trello.Attachment) -> str:
    name, url = attachment.name.strip(), attachment.url.strip()
    return url if not name or name == url else f"{name}: {url}"
