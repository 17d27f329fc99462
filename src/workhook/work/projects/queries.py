"""The SQL of projects; lists of them are in `listing`. Reads are confined to what the caller has a role in, or is a
client of."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from workhook.identity.queries import key_of, repositories, repository_of
from workhook.identity.schemas import Actor
from workhook.identity.tables import accounts, projects
from workhook.identity.tokens.lookup import check_reach
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big, insert_into
from workhook.work.access import is_client, rank_in
from workhook.work.projects.schemas import NAME_MAX_CHARS, Project

PROJECTS = repositories.add_columns(projects.c.avatar, is_client.label("is_client"))
"""Those that exist, with what `project_of` needs."""
_one = PROJECTS.where(projects.c.id == sa.bindparam("project_id"))
# Others may go on to add what belongs to the project: that takes a key share of its row, which this lock lets through.
_locked = _one.with_for_update(of=projects, key_share=True)

_lock_account = sa.select(accounts.c.id).where(accounts.c.id == big("account_id")).with_for_update(key_share=True)
# The project before the account: a new name is a new key, which waits for everybody who adds to the project, and they
# may wait for the account: it can be somebody whose timer they start.
_whole_project = (
    sa.select(projects.c.account_id).where(projects.c.repository_id == big("repository_id")).with_for_update()
)
_lock_account_of = (
    sa.select(accounts.c.id).where(accounts.c.id == _whole_project.scalar_subquery()).with_for_update(key_share=True)
)
_names = sa.select(projects.c.repository_id, projects.c.name_key).where(
    projects.c.account_id == big("account_id"), projects.c.name_key.like(sa.bindparam("pattern", type_=sa.Text))
)
_named = sa.select(projects.c.repository_id).where(
    projects.c.account_id == big("account_id"), projects.c.name_key == sa.bindparam("name_key")
)
_CONTENT = ("name", "name_key", "title", "avatar", "private", "archive")
_insert = insert_into(projects, "id", "account_id", *_CONTENT, "created_at", "updated_at").returning(
    projects.c.repository_id
)
_update = (
    sa.update(projects)
    .where(projects.c.repository_id == big("id"))
    .values({name: sa.bindparam(name) for name in (*_CONTENT, "updated_at")})
)
_delete = (
    sa.update(projects)
    .where(projects.c.repository_id == big("id"))
    .values(deleted_at=big("now"), updated_at=big("now"), name_key=sa.bindparam("freed_key"))
)


def project_of(row: Row, actor: Actor) -> Project | None:
    """None for a project in which the user has no place: it is not told apart from one that is not there."""
    repository = repository_of(row, actor.user.id)
    return Project(repository, row["avatar"]) if repository.role or row["is_client"] else None


def _reached(row: Row | None, actor: Actor) -> Project | None:
    project = project_of(row, actor) if row else None
    if row is not None:
        actor.request.touches(row["owner_id"], row["repository_id"], hidden=project is None)
    if row is not None and project is not None:
        check_reach(actor, project.repository.owner.id, project.repository.id)
        actor.request.rests_on(row["owner_id"], row["repository_id"], rank_in(row, project.repository, actor.user.id))
    return project


async def find_project(reader: Reader, project_id: str, actor: Actor) -> Project | None:
    """Raises `NotFound` outside the token's reach, and `Forbidden` where its permissions are not enough."""
    return _reached(await reader.fetch_one(_one, {"project_id": project_id, "user_id": actor.user.id}), actor)


async def lock_project(tx: Transaction, project_id: str, actor: Actor) -> Project | None:
    """`find_project`; until the transaction ends nobody else changes or deletes it."""
    return _reached(await tx.fetch_one(_locked, {"project_id": project_id, "user_id": actor.user.id}), actor)


async def lock_names(tx: Transaction, account_id: int) -> None:
    """One at a time chooses a name in the account, so that nobody finds the one it chose taken."""
    await tx.fetch_one(_lock_account, {"account_id": account_id})


async def lock_name_of(tx: Transaction, repository_id: int) -> None:
    """`lock_names` for a project that gets another name."""
    await tx.fetch_one(_lock_account_of, {"repository_id": repository_id})


async def names_like(tx: Transaction, account_id: int, name: str) -> set[str]:
    """Keys of the names in the account that begin like `name` (lower-case letters, digits, `-`)."""
    # A suffix can replace the last characters of a name of full length.
    rows = await tx.fetch_all(_names, {"account_id": account_id, "pattern": name[: NAME_MAX_CHARS - 12] + "%"})
    return {row["name_key"] for row in rows}


async def repository_named(tx: Transaction, account_id: int, name: str) -> int | None:
    row = await tx.fetch_one(_named, {"account_id": account_id, "name_key": key_of(name)})
    return row["repository_id"] if row else None


async def insert_project(tx: Transaction, values: Mapping[str, object]) -> int:
    """`values`: id, account_id, name, title, avatar, private, archive, created_at, updated_at. The repository id."""
    row = await tx.fetch_one(_insert, {**values, "name_key": key_of(str(values["name"]))})
    assert row is not None
    repository_id: int = row["repository_id"]
    return repository_id


async def update_project(tx: Transaction, repository_id: int, values: Mapping[str, object]) -> None:
    """`values`: name, title, avatar, private, archive, updated_at."""
    await tx.execute(_update, {**values, "name_key": key_of(str(values["name"])), "id": repository_id})


async def delete_project(tx: Transaction, project: Project, now: int) -> None:
    """Its row stays, out of everybody's sight: hooks refer to it until their last deliveries are out. The name is free
    again."""
    repository = project.repository
    freed = f"{key_of(repository.name)}#{repository.id}"  # no name has this character
    await tx.execute(_delete, {"id": repository.id, "now": now, "freed_key": freed})
