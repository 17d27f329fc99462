"""Matching of people in another service with members of the organization that receives the import.

If an assignee has no account, the import keeps their name in a field of the task and in `unmatched_assignees`. A chore
matches these names against the current members of the organization and its projects by the same rules as the import.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.errors import say
from workhook.core.text import one_line
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.mail.recipients import mail_address
from workhook.identity.queries import key_of
from workhook.identity.schemas import Account, Actor, account_of
from workhook.identity.tables import accounts, collaborators, memberships, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.sweeping import for_each_isolated
from workhook.work.board.tasks import queries
from workhook.work.board.tasks.assignees import on_team
from workhook.work.board.tasks.schemas import Task, tasks
from workhook.work.board.tasks.writer import TaskWriter
from workhook.work.kernel.people import person_to_response
from workhook.work.kernel.tables import unmatched_assignees as unmatched
from workhook.work.portability.imports.mapping import PEOPLE_MAX, truncate_bytes
from workhook.work.portability.imports.plan import Person, PlannedComment, PlannedTask, name_some

_members = (
    sa.select(*(accounts.c[name] for name in Account.__struct_fields__))
    .join_from(accounts, memberships, memberships.c.user_id == accounts.c.id)
    .where(memberships.c.organization_id == bigint_param("organization_id"), accounts.c.kind == "user")
    .order_by(accounts.c.id)
)


async def members_of(reader: Reader, organization_id: int) -> list[Account]:
    """Return the members of the organization, oldest accounts first."""
    return [account_of(row) for row in await reader.fetch_all(_members, {"organization_id": organization_id})]


_addresses = _members.with_only_columns(accounts.c.id, mail_address.label("address")).where(mail_address.is_not(None))


async def addresses_of(reader: Reader, organization_id: int) -> dict[str, int]:
    """Return the members' IDs by confirmed e-mail address, except addresses shared by several members."""
    return by_address(await reader.fetch_all(_addresses, {"organization_id": organization_id}))


def by_address(rows: Iterable[Row]) -> dict[str, int]:
    """Return the `id` of each row by its `address`, except shared addresses."""
    found: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        found[_key(row["address"] or "")].add(row["id"])
    return {address: min(ids) for address, ids in found.items() if address and len(ids) == 1}


class People:
    """The members of the organization, to be found by login, e-mail address, name, or the names given by the caller."""

    def __init__(self, members: Iterable[Account], named: Mapping[str, str], addresses: Mapping[str, int] = {}) -> None:
        """Index the members.

        `named` contains logins by user name, full name or ID in the other service. `addresses` contains IDs of members
        by confirmed e-mail address. Raises `KeyError` with a login that is not a member's.
        """
        by_login = {key_of(each.login): each for each in members}
        by_id = {each.id: each for each in by_login.values()}
        by_address = {address: by_id[user_id] for address, user_id in addresses.items() if user_id in by_id}
        self._by_login = by_address | by_login
        for login in named.values():
            if key_of(login) not in by_login:
                raise KeyError(login)
        self._named = {_key(name): by_login[key_of(login)] for name, login in named.items()}
        by_name: dict[str, list[Account]] = defaultdict(list)
        for each in by_login.values():
            by_name[_key(each.name or "")].append(each)
        self._by_name = by_address | {name: some[0] for name, some in by_name.items() if name and len(some) == 1}

    def find(self, member: Person, source: str) -> Account | None:
        """Return the matching account, or None.

        A match given by the caller comes first, then one by user name or confirmed e-mail address, then one by a unique
        full name. Full names are not compared for sources where anyone can have an account, such as GitHub.
        """
        names = (_key(each) for each in (member.username, member.full_name, member.id) if each.strip())
        named = next((self._named[each] for each in names if each in self._named), None)
        found = named or self._by_login.get(_key(member.username))
        if found is None and (source in _OF_A_TEAM or member.username in ("", member.full_name)):
            found = self._by_name.get(_key(member.full_name))
        return found


_OF_A_TEAM = ("trello",)
"""Sources with logins whose users were invited to a team."""


def _key(name: str) -> str:
    return name.strip().casefold()


def field_of(source: str) -> str:
    """Return the name of the field that lists the strangers of a task."""
    return f"{source}_members"


def add_strangers_field(task: PlannedTask, strangers: Sequence[Person], source: str) -> dict[str, str]:
    names = ", ".join(each.display_name for each in strangers)
    return {**task.fields, field_of(source): truncate_bytes(names)} if strangers else task.fields


def without_name(fields: Mapping[str, str], stranger: Person, source: str) -> dict[str, str] | None:
    """Return the fields without the name of a stranger, or None if they do not contain it."""
    field, name = field_of(source), stranger.display_name
    names = f", {fields.get(field, '')}, "  # names may contain commas
    if f", {name}, " not in names:
        return None
    left = names.replace(f", {name}, ", ", ", 1).removeprefix(", ").removesuffix(", ")
    if left:
        return {**fields, field: left}
    return {each: value for each, value in fields.items() if each != field}


class UnmatchedPerson(msgspec.Struct, frozen=True):
    """A person without an account.

    `known_as` is the name for `--member`. `assigned` is false for people who only wrote comments.
    """

    name: str
    known_as: str
    assigned: bool


def strangers_of(
    tasks: Sequence[PlannedTask], comments: Sequence[PlannedComment], people: People, source: str
) -> list[UnmatchedPerson]:
    """Return each person without an account once."""
    found: dict[str, UnmatchedPerson] = {}
    members = [member for task in tasks for member in task.members]
    authors = [each.author for each in (*comments, *(each for task in tasks for each in task.comments))]
    for some, assigned in ((members, True), (authors, False)):
        for each in some:
            if each.display_name not in found and people.find(each, source) is None:
                found[each.display_name] = UnmatchedPerson(each.display_name, each.known_as, assigned)
    return list(found.values())


def unknown_people(strangers: Sequence[UnmatchedPerson], hint: str) -> list[str]:
    """Return a warning that lists the strangers. `hint` explains how to match them."""
    names = [each.name for each in strangers]
    remark = say("no user matches {}", name_some(names))
    return [f"{remark}: {hint}" if hint else remark] if names else []


# --- people who join after the import ---------------------------------------------------------------------------------

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
            known = {"account_id": account_id, "person": person, "source": row["source"], "user": user}
            some = partial(_assign_some, base=services.base, now=now, **known)
            while count := await services.database.in_transaction(some):
                done += count
        return done

    organizations = [row["account_id"] for row in await services.database.fetch_all(_organizations, {})]
    return await for_each_isolated("imported_assignees", organizations, match)


async def _assign_some(
    tx: Transaction, *, base: str, now: int, account_id: int, person: Person, source: str, user: Account
) -> int:
    """Assign to the user a batch of the person's tasks that the user can see, without notifications."""
    names = {"username": person.username, "full_name": person.full_name}
    params = {**names, "source": source, "account_id": account_id, "user_id": user.id}
    task_ids = [row["task_id"] for row in await tx.fetch_all(_tasks_of, params)]
    column_ids = await queries.columns_of(tx, task_ids)
    seen = await queries.lock_columns(tx, Actor(user, 0, "import", frozenset()), column_ids)
    locked = await queries.lock_tasks(tx, task_ids, column_ids, seen)
    if not locked:
        return 0
    taken = [row["task_id"] for row in await tx.fetch_all(_take, {**names, "task_ids": sorted(locked)})]
    writer = TaskWriter(Write(tx, None, base, moment=now), notify=False)
    for task_id in sorted(taken):
        change = writer.change(locked[task_id])
        change.after = _assigned(change.after, person, source, user)
    await writer.write()
    return len(taken)


def _assigned(task: Task, person: Person, source: str, user: Account) -> Task:
    """Return the task with the assignee.

    It is unchanged if its field no longer contains the name, or if it has too many assignees.
    """
    fields = without_name(json.decode(task.fields), person, source)
    people = {each.id: each for each in task.assignees} | {user.id: person_to_response(user)}
    if fields is None or len(people) > PEOPLE_MAX:
        return task
    assignees = tuple(people[user_id] for user_id in sorted(people))
    return msgspec.structs.replace(task, fields=json.encode_text(fields), assignees=assignees)
