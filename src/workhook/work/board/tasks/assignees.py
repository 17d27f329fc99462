"""The people who can be assigned to a task, and the assignees that a caller sees.

Members can assign everyone who can see the project. Clients see and assign only the team (members who can see the
project) and themselves. Other clients, and people who left the team, remain assigned but are not shown to clients.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Invalid, say, shown
from workhook.identity.context import Write
from workhook.identity.notifications import notification_statements
from workhook.identity.queries import key_of
from workhook.identity.schemas import Repository
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param
from workhook.work.board.tasks.imported_fields import own_fields_text
from workhook.work.board.tasks.schemas import Assignees, Task, task_assignees, tasks
from workhook.work.kernel.access import Access
from workhook.work.kernel.people import PersonShape, membership_of, person_columns, person_of_row
from workhook.work.kernel.record_events import notification_params
from workhook.work.kernel.tables import clients


def is_on_team(person: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition that a person is on the project's team, for statements that select accounts and projects."""
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
    sa.select(*person_columns(membership_of(bigint_param("repository_id"))))
    .select_from(accounts.join(projects, projects.c.repository_id == bigint_param("repository_id")))
    .where(accounts.c.kind == "user")
    .order_by(accounts.c.id)
)
_project = (
    sa.select(projects.c.account_id, projects.c.private)
    .where(projects.c.repository_id == bigint_param("repository_id"))
    .cte()
)
_ids_of_team = (
    sa.select(_project.c.account_id),
    sa.select(memberships.c.user_id)
    .join(_project, _project.c.account_id == memberships.c.organization_id)
    .where(sa.or_(memberships.c.role == "owner", _project.c.private.is_(sa.false()))),
    sa.select(collaborators.c.user_id).where(collaborators.c.repository_id == bigint_param("repository_id")),
)
_ids_of_clients = sa.select(clients.c.user_id).where(clients.c.repository_id == bigint_param("repository_id"))
# Collect the IDs first, because checking every account of the server would take too long.
team_of_project = _people.where(accounts.c.id.in_(sa.union(*_ids_of_team)))
team_and_caller = _people.where(accounts.c.id.in_(sa.union(*_ids_of_team, sa.select(bigint_param("caller_id")))))
people_of_project = _people.where(accounts.c.id.in_(sa.union(*_ids_of_team, _ids_of_clients)))
"""Select the people who can see the project of the parameter `repository_id`."""
_by_login = any_of(accounts.c.login_key, "keys")
_assignable = _people.where(_by_login, sa.or_(on_team, is_client_there))
_seen_by_client = _people.where(
    sa.or_(_by_login, any_of(accounts.c.id, "user_ids")), sa.or_(on_team, accounts.c.id == bigint_param("caller_id"))
)


class Assignable(msgspec.Struct, frozen=True):
    """The people whom a caller can assign."""

    by_name: dict[str, PersonShape]  # by `key_of` of their login
    seen: frozenset[int] | None = None  # IDs of the people that the caller can see; None means everyone


async def find_people(
    reader: Reader, access: Access, usernames: Collection[str], assigned: Collection[PersonShape] = ()
) -> Assignable:
    """Find the people with these names whom the caller can assign. `assigned` are the current assignees."""
    keys = sorted({key_of(name) for name in usernames})
    if access.is_client:
        people = await _find_seen(reader, access, keys, assigned)
        return Assignable({key_of(each.login): each for each in people}, frozenset(each.id for each in people))
    rows = await reader.fetch_all(_assignable, {"repository_id": access.repository.id, "keys": keys}) if keys else []
    people = [person_of_row(row) for row in rows]
    return Assignable({key_of(each.login): each for each in people})


def resolve_assignees(
    people: Assignable, usernames: Sequence[str], before: Collection[PersonShape] = (), field: str = "assignees"
) -> Assignees:
    """Return the named people, oldest account first, plus those of `before` whom the caller cannot see.

    Current assignees may be kept even if they can no longer see the project. Raises `Invalid` with the names of others
    who cannot see it.
    """
    shown_before = {key_of(each.login): each for each in before if people.seen is None or each.id in people.seen}
    by_name = {**shown_before, **people.by_name}
    unknown = dict.fromkeys(shown(name) for name in usernames if key_of(name) not in by_name)
    if unknown:
        message = say("{}: no user with access to the project has this name: {}", field, ", ".join(unknown))
        raise Invalid.at(field, message)
    found = {person.id: person for person in before if people.seen is not None and person.id not in people.seen}
    found |= {person.id: person for person in (by_name[key_of(name)] for name in usernames)}
    return tuple(found[user_id] for user_id in sorted(found))


async def filter_assignable(reader: Reader, access: Access, people: Assignees) -> Assignees:
    if not people:
        return people
    rows = await reader.fetch_all(
        _assignable, {"repository_id": access.repository.id, "keys": sorted(key_of(each.login) for each in people)}
    )
    current = {row["user_id"] for row in rows}
    return tuple(each for each in people if each.id in current)


async def visible_tasks(reader: Reader, access: Access, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks of one project as the caller sees them.

    On a task, a client sees only the team and itself as assignees, and no rates.
    """
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
    """Return a task as clients see it: without rates, the team's time, and fields kept by an import."""
    fields = own_fields_text(task.fields)
    return msgspec.structs.replace(task, hourly_rate_minor=None, billable=None, estimate_ms=None, fields=fields)


async def visible_task(reader: Reader, access: Access, task: Task) -> Task:
    return (await visible_tasks(reader, access, [task]))[0] if access.is_client else task


async def _find_seen(
    reader: Reader, access: Access, keys: Sequence[str], assigned: Collection[PersonShape]
) -> list[PersonShape]:
    user_ids = sorted({person.id for person in assigned})
    if not keys and not user_ids:
        return []
    places = {"repository_id": access.repository.id, "caller_id": access.user.id}
    rows = await reader.fetch_all(_seen_by_client, {**places, "keys": keys, "user_ids": user_ids})
    return [person_of_row(row) for row in rows]


_assigned = notification_statements(
    "assignment",
    sa.select(accounts).where(any_of(accounts.c.id, "user_ids")),
    {"task_id": sa.bindparam("task_id", type_=sa.Text)},
)
_pair = task_assignees.c.task_id + ":" + sa.cast(task_assignees.c.user_id, sa.Text)
_assigned_in_bulk = notification_statements(
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


async def notify_assigned(write: Write, changes: Sequence[tuple[Repository, Task | None, Task]]) -> None:
    """Notify people to whom another user has assigned tasks.

    The tasks may belong to several projects. They must have been written or queued together with their assignees.
    """
    new = []
    for repository, before, after in changes:
        had = {person.id for person in before.assignees} if before else set()
        if ids := sorted({person.id for person in after.assignees} - had - {write.actor.user.id}):
            new.append((repository, after.id, ids))
    if len(new) == 1:
        [(repository, task_id, user_ids)] = new
        _assigned.defer(write.tx, {**notification_params(write, repository), "user_ids": user_ids, "task_id": task_id})
    elif new:
        await write.tx.flush()  # the notifications are created from the rows
        pairs = sorted(f"{task_id}:{each}" for _, task_id, user_ids in new for each in user_ids)
        params = {"task_ids": sorted(task_id for _, task_id, _ in new), "pairs": pairs}
        _assigned_in_bulk.defer(write.tx, {"actor_id": write.actor.user.id, "detail": None, "now": write.now, **params})
