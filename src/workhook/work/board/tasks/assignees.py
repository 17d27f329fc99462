"""The people who can be assigned to a task, and the assignees that a caller sees.

Members assign everyone who sees the project. A client sees and assigns the team (members who may see the project) and
itself. Other clients, and people who left the team, stay on a task without being shown to the client.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Fault, Invalid, say, shown
from workhook.identity.context import Write
from workhook.identity.notifications import telling
from workhook.identity.queries import key_of
from workhook.identity.schemas import Repository
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.board.tasks.imported_fields import own_fields_text
from workhook.work.board.tasks.schemas import Assignees, Task, task_assignees, tasks
from workhook.work.kernel.access import Access
from workhook.work.kernel.people import PersonShape, membership_of, person_columns, person_of_row
from workhook.work.kernel.record_events import told_in
from workhook.work.kernel.tables import clients


def is_on_team(person: sa.FromClause) -> sa.ColumnElement[bool]:
    """The condition that a person is in the project's team, for a statement that selects accounts and projects."""
    return sa.or_(
        person.c.id == projects.c.account_id,
        sa.exists()
        .where(
            memberships.c.organization_id == projects.c.account_id,
            memberships.c.user_id == person.c.id,
            sa.or_(memberships.c.role == "owner", projects.c.private.is_(sa.false())),
        )
        .correlate(projects, person),
        sa.exists()
        .where(collaborators.c.repository_id == projects.c.repository_id, collaborators.c.user_id == person.c.id)
        .correlate(projects, person),
    )


on_team = is_on_team(accounts)
is_client_there = sa.exists().where(
    clients.c.repository_id == projects.c.repository_id, clients.c.user_id == accounts.c.id
)
_people = (
    sa.select(*person_columns(membership_of(big("repository_id"))))
    .select_from(accounts.join(projects, projects.c.repository_id == big("repository_id")))
    .where(accounts.c.kind == "user")
    .order_by(accounts.c.id)
)
_this = (
    sa.select(projects.c.account_id, projects.c.private).where(projects.c.repository_id == big("repository_id")).cte()
)
_ids_of_team = (
    sa.select(_this.c.account_id),
    sa.select(memberships.c.user_id)
    .join(_this, _this.c.account_id == memberships.c.organization_id)
    .where(sa.or_(memberships.c.role == "owner", _this.c.private.is_(sa.false()))),
    sa.select(collaborators.c.user_id).where(collaborators.c.repository_id == big("repository_id")),
)
_ids_of_clients = sa.select(clients.c.user_id).where(clients.c.repository_id == big("repository_id"))
# Their ids come first: checking each account of the server would take too long.
team_of_project = _people.where(accounts.c.id.in_(sa.union(*_ids_of_team)))
team_and_caller = _people.where(accounts.c.id.in_(sa.union(*_ids_of_team, sa.select(big("caller_id")))))
people_of_project = _people.where(accounts.c.id.in_(sa.union(*_ids_of_team, _ids_of_clients)))
"""The people who see the project of the parameter `repository_id`."""
_named = any_of(accounts.c.login_key, "keys")
_assignable = _people.where(_named, sa.or_(on_team, is_client_there))
_seen_by_client = _people.where(
    sa.or_(_named, any_of(accounts.c.id, "user_ids")), sa.or_(on_team, accounts.c.id == big("caller_id"))
)


class Assignable(msgspec.Struct, frozen=True):
    """The people that a caller can assign."""

    by_name: dict[str, PersonShape]  # by `key_of` of their name
    seen: frozenset[int] | None = None  # ids of the people that the caller sees; None: everyone


async def find_people(
    reader: Reader, access: Access, usernames: Collection[str], assigned: Collection[PersonShape] = ()
) -> Assignable:
    """Find the people of these names whom the caller can assign. `assigned`: the present assignees."""
    keys = sorted({key_of(name) for name in usernames})
    if access.is_client:
        people = await _find_seen(reader, access, keys, assigned)
        return Assignable({key_of(each.login): each for each in people}, frozenset(each.id for each in people))
    rows = await reader.fetch_all(_assignable, {"repository_id": access.repository.id, "keys": keys}) if keys else []
    people = [person_of_row(row) for row in rows]
    return Assignable({key_of(each.login): each for each in people})


def chosen(
    people: Assignable, usernames: Sequence[str], before: Collection[PersonShape] = (), field: str = "assignees"
) -> Assignees:
    """Return these people, the oldest account first, and those of `before` whom the caller does not see.

    Present assignees can stay, even if they no longer see the project. Raise `Invalid` naming others who do not see it.
    """
    shown_before = {key_of(each.login): each for each in before if people.seen is None or each.id in people.seen}
    by_name = {**shown_before, **people.by_name}
    unknown = dict.fromkeys(shown(name) for name in usernames if key_of(name) not in by_name)
    if unknown:
        message = say("{}: no user with access to the project has this name: {}", field, ", ".join(unknown))
        raise Invalid(faults=[Fault(field=field, message=message)])
    found = {person.id: person for person in before if people.seen is not None and person.id not in people.seen}
    found |= {person.id: person for person in (by_name[key_of(name)] for name in usernames)}
    return tuple(found[user_id] for user_id in sorted(found))


async def still_there(reader: Reader, access: Access, people: Assignees) -> Assignees:
    if not people:
        return people
    rows = await reader.fetch_all(
        _assignable, {"repository_id": access.repository.id, "keys": sorted(key_of(each.login) for each in people)}
    )
    there = {row["user_id"] for row in rows}
    return tuple(each for each in people if each.id in there)


async def as_seen(reader: Reader, access: Access, tasks: Sequence[Task]) -> list[Task]:
    """Return tasks of one project as the caller may see them: a client sees the team and itself on them, and no
    rates."""
    if not access.is_client:
        return [*tasks]
    people = await seen_people(reader, access, [task.assignees for task in tasks])
    pairs = zip(tasks, people, strict=True)
    return [msgspec.structs.replace(without_terms(task), assignees=each) for task, each in pairs]


async def seen_people(reader: Reader, access: Access, assigned: Sequence[Assignees]) -> Sequence[Assignees]:
    if not access.is_client or not any(assigned):
        return assigned
    people = await _find_seen(reader, access, [], [person for each in assigned for person in each])
    seen = {each.id: each for each in people}
    return [tuple(seen[person.id] for person in each if person.id in seen) for each in assigned]


def without_terms(task: Task) -> Task:
    """Return a task as clients see it: without rates, the team's time, and what an import has kept."""
    fields = own_fields_text(task.fields)
    return msgspec.structs.replace(task, hourly_rate_minor=None, billable=None, estimate_ms=None, fields=fields)


async def one_as_seen(reader: Reader, access: Access, task: Task) -> Task:
    return (await as_seen(reader, access, [task]))[0] if access.is_client else task


async def _find_seen(
    reader: Reader, access: Access, keys: Sequence[str], assigned: Collection[PersonShape]
) -> list[PersonShape]:
    user_ids = sorted({person.id for person in assigned})
    if not keys and not user_ids:
        return []
    places = {"repository_id": access.repository.id, "caller_id": access.user.id}
    rows = await reader.fetch_all(_seen_by_client, {**places, "keys": keys, "user_ids": user_ids})
    return [person_of_row(row) for row in rows]


_assigned = telling(
    "assignment",
    sa.select(accounts).where(any_of(accounts.c.id, "user_ids")),
    {"task_id": sa.bindparam("task_id", type_=sa.Text)},
)
_pair = task_assignees.c.task_id + ":" + sa.cast(task_assignees.c.user_id, sa.Text)
_assigned_in_bulk = telling(
    "assignment",
    sa.select(accounts)
    .select_from(
        task_assignees.join(accounts, accounts.c.id == task_assignees.c.user_id)
        .join(tasks, tasks.c.id == task_assignees.c.task_id)
        .join(projects, projects.c.repository_id == tasks.c.repository_id)
    )
    .where(any_of(task_assignees.c.task_id, "task_ids"), any_of(_pair, "pairs")),
    {
        "task_id": task_assignees.c.task_id,
        "repository_id": tasks.c.repository_id,
        "account_id": projects.c.account_id,
    },
)


async def tell_assigned(write: Write, changes: Sequence[tuple[Repository, Task | None, Task]]) -> None:
    """Notify people to whom another user has assigned tasks.

    The tasks, which may be of several projects, are written with their people, or their writes are queued.
    """
    new = []
    for repository, before, after in changes:
        had = {person.id for person in before.assignees} if before else set()
        if ids := sorted({person.id for person in after.assignees} - had - {write.actor.user.id}):
            new.append((repository, after.id, ids))
    if len(new) == 1:
        [(repository, task_id, user_ids)] = new
        _assigned.defer(write.tx, {**told_in(write, repository), "user_ids": user_ids, "task_id": task_id})
    elif new:
        await write.tx.flush()  # the notifications are made from the rows
        pairs = sorted(f"{task_id}:{each}" for _, task_id, user_ids in new for each in user_ids)
        params = {"task_ids": sorted(task_id for _, task_id, _ in new), "pairs": pairs}
        _assigned_in_bulk.defer(write.tx, {"actor_id": write.actor.user.id, "detail": None, "now": write.now, **params})
