"""The people of a plan, found or not: who is assigned, whose a comment is, and what to say where nobody is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from workhook.core.clock import to_millis_text
from workhook.core.errors import shown
from workhook.identity.schemas import Account
from workhook.work.imports.cards import MEMBERS
from workhook.work.imports.people import People
from workhook.work.imports.plan import PlannedComment, PlannedTask
from workhook.work.imports.texts import within

NAMES_SHOWN = 10


class Settled(msgspec.Struct, frozen=True):
    """A planned task with who is assigned to it; `fields` also name those who are nobody here."""

    task: PlannedTask
    assignees: list[Account]
    fields: dict[str, str]


def settle(task: PlannedTask, people: People, seeing: Collection[int]) -> Settled:
    """`seeing`: ids of those who see the project."""
    known = [people.find(each) for each in task.members]
    found = [each if each is not None and each.id in seeing else None for each in known]
    assignees = list({each.id: each for each in found if each is not None}.values())
    strangers = [member.shown for member, account in zip(task.members, found, strict=True) if account is None]
    fields = {**task.fields, MEMBERS: within(", ".join(strangers))} if strangers else task.fields
    return Settled(task, assignees, fields)


def authored(comment: PlannedComment, people: People, importer: Account) -> tuple[Account, str]:
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
    return [f"nobody here is {listed(names)}: --member TRELLO=LOGIN says who is who"] if names else []


def listed(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    text = ", ".join(shown(each) for each in names[:NAMES_SHOWN])
    return f"{text} and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else text
