"""What an import makes: a project, its columns, their tasks and comments, and who is assigned. Pure.

Every key is `KIND:ID` with the id of the other service: by it a later import knows what was made already.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from workhook.core import json
from workhook.core.clock import to_millis_text
from workhook.core.errors import shown
from workhook.http.parameters import TEXT_MAX_BYTES, TITLE_MAX_CHARS
from workhook.http.wire_types import read_day_or_moment
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account
from workhook.work.columns.schemas import Stage, completes
from workhook.work.imports.trello import TrelloMember

NAMELESS = "(no name)"
_MARK = "…"  # where something was cut
_OBJECT_ID = re.compile(r"[0-9a-f]{24}")


def title_of(text: str, otherwise: str = NAMELESS, limit: int = TITLE_MAX_CHARS) -> str:
    """Trimmed, of at most `limit` characters, and never empty."""
    title = text.strip()
    if len(title) > limit:
        title = title[: limit - len(_MARK)].rstrip() + _MARK
    return title or otherwise


def is_cut(text: str, limit: int = TITLE_MAX_CHARS) -> bool:
    """Whether `title_of` leaves something out."""
    return len(text.strip()) > limit


def within(text: str, limit_bytes: int = TEXT_MAX_BYTES) -> str:
    """At most so many bytes of UTF-8, cut between characters."""
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    if limit_bytes < len(_MARK.encode()):
        return ""
    return data[: limit_bytes - len(_MARK.encode())].decode(errors="ignore") + _MARK


class Distinct:
    """Makes names unlike those it made before: `name`, `name (2)`, `name (3)` …"""

    def __init__(self, limit: int = TITLE_MAX_CHARS) -> None:
        self._limit = limit
        self._last: dict[str, int] = {}  # names that were given out, and the number that was last tried for each

    def __call__(self, name: str) -> str:
        found = name
        while found in self._last:
            self._last[name] += 1
            suffix = f" ({self._last[name]})"
            found = name[: self._limit - len(suffix)] + suffix
        self._last[found] = 1
        return found


def moment_of(text: str) -> int | None:
    """Milliseconds since the epoch; None for what is no time or day from 1970 to 9998."""
    try:
        return read_day_or_moment(text)
    except ValueError:
        return None


def moment_of_id(external_id: str) -> int | None:
    """Trello's ids begin with the second in which they were made, in eight hexadecimal digits."""
    return int(external_id[:8], 16) * 1000 if _OBJECT_ID.fullmatch(external_id) else None


class PlannedColumn(msgspec.Struct, frozen=True):
    key: str
    title: str
    stage: Stage | None = None
    finished: bool = False

    @property
    def completes(self) -> bool:
        """A task that is in such a column is finished."""
        return completes(self.stage, self.finished)


class PlannedComment(msgspec.Struct, frozen=True):
    """`created_at` None: nobody knows."""

    key: str
    text: str
    author: TrelloMember
    created_at: int | None


class PlannedTask(msgspec.Struct, frozen=True):
    """`finished_at`: when, as far as that is known, for a task that is `finished`. Comments are oldest first."""

    key: str
    column_key: str
    title: str
    description: str | None
    deadline: int | None
    cover_url: str | None
    labels: list[str]
    fields: dict[str, str]
    sections: dict[str, dict[str, str]]
    members: list[TrelloMember]
    finished: bool
    finished_at: int | None
    created_at: int | None
    comments: list[PlannedComment]


class ImportPlan(msgspec.Struct, frozen=True):
    """Columns in their order; tasks in the order of their columns, and in each in theirs."""

    source: str
    key: str
    title: str
    columns: list[PlannedColumn]
    tasks: list[PlannedTask]
    warnings: list[str]


def fingerprint(planned: PlannedColumn | PlannedTask | PlannedComment) -> str:
    """Tells two states of one thing of the other service apart. The comments of a task are not part of it."""
    values: Mapping[str, object] = {
        name: getattr(planned, name) for name in planned.__struct_fields__ if name not in ("comments", "finished_at")
    }
    return hashlib.blake2b(json.encode(values), digest_size=12).hexdigest()


class People:
    """Members of the organization by their logins, and by the names that the caller gave them."""

    def __init__(self, members: Iterable[Account], named: Mapping[str, str]) -> None:
        """`named`: login by user name, full name or id in the other service. Raises `KeyError` with a login that is
        no member's."""
        by_login = {key_of(each.login): each for each in members}
        self._by_login = by_login
        for login in named.values():
            if key_of(login) not in by_login:
                raise KeyError(login)
        self._named = {_key(name): by_login[key_of(login)] for name, login in named.items()}

    def find(self, member: TrelloMember) -> Account | None:
        """The account of a member: the one that the caller gave any of its names, else the one of its user name."""
        names = (_key(each) for each in (member.username, member.full_name, member.id) if each.strip())
        named = next((self._named[each] for each in names if each in self._named), None)
        return named or self._by_login.get(_key(member.username))


def _key(name: str) -> str:
    return name.strip().casefold()


MEMBERS = "trello_members"  # the field for those who are nobody here
NAMES_SHOWN = 10


class AssignedTask(msgspec.Struct, frozen=True):
    """A planned task and its assignees. `fields` also name the members who have no account here."""

    task: PlannedTask
    assignees: list[Account]
    fields: dict[str, str]


def assign(task: PlannedTask, people: People, seeing: Collection[int]) -> AssignedTask:
    """`seeing`: ids of those who see the project."""
    known = [people.find(each) for each in task.members]
    found = [each if each is not None and each.id in seeing else None for each in known]
    assignees = list({each.id: each for each in found if each is not None}.values())
    strangers = [member.shown for member, account in zip(task.members, found, strict=True) if account is None]
    fields = {**task.fields, MEMBERS: within(", ".join(strangers))} if strangers else task.fields
    return AssignedTask(task, assignees, fields)


def author_and_text(comment: PlannedComment, people: People, importer: Account) -> tuple[Account, str]:
    """Whose the comment is here, and its text: where the author is nobody here, it begins with the name and time."""
    author = people.find(comment.author)
    if author is not None:
        return author, comment.text
    when = f" on {to_millis_text(comment.created_at)[:10]}" if comment.created_at is not None else ""
    return importer, within(f"{comment.author.shown} wrote{when}:\n\n{comment.text}")


def unknown_people(tasks: Sequence[PlannedTask], comments: Sequence[PlannedComment], people: People) -> list[str]:
    """What there is to say about those who are nobody here; nothing where everybody is somebody."""
    everybody = [member for task in tasks for member in task.members]
    everybody += [each.author for each in (*comments, *(each for task in tasks for each in task.comments))]
    names = list(dict.fromkeys(each.shown for each in everybody if people.find(each) is None))
    return [f"nobody here is {name_some(names)}: --member TRELLO=LOGIN says who is who"] if names else []


def name_some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    text = ", ".join(shown(each) for each in names[:NAMES_SHOWN])
    return f"{text} and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else text
