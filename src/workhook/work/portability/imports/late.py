"""Assignment of imported tasks to people who join after the import.

If an assignee has no account, the import keeps their name in a field of the task and in `unmatched_assignees`. The
chore matches these names against the current members of the organization and its projects by the same rules as the
import.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.text import one_line
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.mail.recipients import mail_address
from workhook.identity.schemas import Account, Actor, account_of
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.sweeping import for_each_isolated
from workhook.work.board.tasks import queries
from workhook.work.board.tasks.assignees import on_team
from workhook.work.board.tasks.schemas import Task, tasks
from workhook.work.board.tasks.writer import TaskWriter
from workhook.work.kernel.people import person_to_response
from workhook.work.kernel.tables import unmatched_assignees as unmatched
from workhook.work.portability.imports.people import People, by_address, without_name
from workhook.work.portability.imports.plan import Person
from workhook.work.portability.imports.texts import PEOPLE_MAX

BATCH = 100
NAME_MAX_CHARS = 255
"""Longer names are not stored, because no account has them and they exceed the size of PostgreSQL's index entries."""

_is_active_project = sa.and_(projects.c.deleted_at.is_(None), projects.c.archive.is_(sa.false()))
_in_projects = unmatched.join(projects, projects.c.repository_id == unmatched.c.repository_id)
_organizations = sa.select(projects.c.account_id).select_from(_in_projects).where(_is_active_project).distinct()
_of_organization = projects.c.account_id == bigint_param("account_id")
_strangers = (
    sa.select(unmatched.c.source, unmatched.c.username, unmatched.c.full_name)
    .select_from(_in_projects)
    .where(_of_organization, _is_active_project)
    .distinct()
)
_ids = sa.union(
    sa.select(bigint_param("account_id")),
    sa.select(memberships.c.user_id).where(memberships.c.organization_id == bigint_param("account_id")),
    sa.select(collaborators.c.user_id)
    .join(projects, projects.c.repository_id == collaborators.c.repository_id)
    .where(_of_organization),
)
_people = (
    sa.select(*(accounts.c[name] for name in Account.__struct_fields__), mail_address.label("address"))
    .where(accounts.c.id.in_(_ids), accounts.c.kind == "user", accounts.c.disabled_at.is_(None))
    .order_by(accounts.c.id)
)
_of_stranger = (
    unmatched.c.username == sa.bindparam("username"),
    unmatched.c.full_name == sa.bindparam("full_name"),
)
_tasks_of = (
    sa.select(unmatched.c.task_id)
    .select_from(
        _in_projects.join(tasks, tasks.c.id == unmatched.c.task_id).join(
            accounts, accounts.c.id == bigint_param("user_id")
        )
    )
    .where(_of_organization, _is_active_project, tasks.c.deleted_at.is_(None), on_team)
    .where(unmatched.c.source == sa.bindparam("source"), *_of_stranger)
    .order_by(unmatched.c.task_id)
    .limit(BATCH)
)
_take = (
    sa.delete(unmatched).where(any_of(unmatched.c.task_id, "task_ids"), *_of_stranger).returning(unmatched.c.task_id)
)
insert_unmatched = insert_into(unmatched, "task_id", "repository_id", "source", "username", "full_name")


class _Match(NamedTuple):
    person: Person
    source: str
    user: Account


def rows_of(task_id: str, strangers: Sequence[Person], source: str) -> list[dict[str, str]]:
    """Return rows for `insert_unmatched`, without the project."""
    names = dict.fromkeys((one_line(each.username), one_line(each.full_name)) for each in strangers)
    return [
        {"task_id": task_id, "source": source, "username": username, "full_name": full_name}
        for username, full_name in names
        if 0 < max(len(username), len(full_name)) <= NAME_MAX_CHARS
    ]


async def assign_newcomers(services: Services, now: int) -> int:
    """Assign tasks to newcomers, and return the number of names matched."""

    async def match(account_id: int) -> int:
        done, params = 0, {"account_id": account_id}
        rows = await services.database.fetch_all(_people, params)
        people = People([account_of(row) for row in rows], {}, by_address(rows))
        for row in await services.database.fetch_all(_strangers, params):
            person = Person("", row["username"], row["full_name"])
            if (user := people.find(person, row["source"])) is None:
                continue
            found = _Match(person, row["source"], user)
            some = partial(_assign_some, base=services.base, now=now, account_id=account_id, match=found)
            while count := await services.database.in_transaction(some):
                done += count
        return done

    organizations = [row["account_id"] for row in await services.database.fetch_all(_organizations, {})]
    return await for_each_isolated("imported_assignees", organizations, match)


async def _assign_some(tx: Transaction, *, base: str, now: int, account_id: int, match: _Match) -> int:
    """Assign a batch of the person's tasks in projects they can see, without notifications."""
    person = {"username": match.person.username, "full_name": match.person.full_name}
    params = {**person, "source": match.source, "account_id": account_id, "user_id": match.user.id}
    task_ids = [row["task_id"] for row in await tx.fetch_all(_tasks_of, params)]
    column_ids = await queries.columns_of(tx, task_ids)
    seen = await queries.lock_columns(tx, Actor(match.user, 0, "import", frozenset()), column_ids)
    locked = await queries.lock_tasks(tx, task_ids, column_ids, seen)
    if not locked:
        return 0
    taken = [row["task_id"] for row in await tx.fetch_all(_take, {**person, "task_ids": sorted(locked)})]
    writer = TaskWriter(Write(tx, None, base, moment=now), notify=False)
    for task_id in sorted(taken):
        change = writer.change(locked[task_id])
        change.after = _assigned(change.after, match)
    await writer.write()
    return len(taken)


def _assigned(task: Task, match: _Match) -> Task:
    """Return the task with the assignee.

    It is unchanged if its field no longer contains the name, or if it has too many assignees.
    """
    fields = without_name(json.decode(task.fields), match.person, match.source)
    people = {each.id: each for each in task.assignees} | {match.user.id: person_to_response(match.user)}
    if fields is None or len(people) > PEOPLE_MAX:
        return task
    assignees = tuple(people[user_id] for user_id in sorted(people))
    return msgspec.structs.replace(task, fields=json.encode_text(fields), assignees=assignees)
